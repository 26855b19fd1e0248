"""The objective F(ν) = R(h_ν(x_1), …, h_ν(x_n)) + λ|ν| + τ∫ν log ν dθ and the first variation of
its first two terms, the potential J_ν."""

from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arguments import Floats, check_choice, nonnegative, real_array
from ..operators.choice import OPERATORS, SINGLE
from ..operators.ranks import ALONE, Alone
from ..operators.repeated import over_distinct
from ..shown import Shown
from .activations import SAMPLES, Feature, is_built_in
from .losses import LARGEST_LOG, SMOOTH_MARGINS, Risk, check_name

# relative rounding of sums, in double and in single precision
ROUNDED = 16.0 * float(np.finfo(float).eps)
ROUNDED_SINGLE = 2.0 * float(np.finfo(np.float32).eps)
UNBOUNDED = 1e200  # stands for a bound of features of which nothing is known
LARGEST_FEATURE = 100  # decades: potentials are squared, and multiplied by masses

_shared: WeakValueDictionary[int, Floats] = WeakValueDictionary()  # data of objectives, by id


def _kept(array):
    """The array if an objective holds it, else a copy, which does not change when the caller's
    does."""
    if _shared.get(id(array)) is not array:
        array = np.array(array, order="C")
        _shared[id(array)] = array
    return array


@dataclass(frozen=True, eq=False, repr=False)
class Objective(Shown):
    """F(ν) = R(h) + λ|ν| + τ∫ν log ν dθ, h_i = ∫ φ(θ, x_i) dν(θ).

    feature : φ;  risk : R
    inputs : (n_data, p) the x_i, a column of ones included if there is a bias; copied, as are
        targets and weights, unless another objective holds them
    targets : (n_data,) the y_i;  weights : (n_data,) the q_i ≥ 0, taken as they are, 1/n each
        if not given
    weight_decay : λ ≥ 0;  operator : how sums over data are made, "auto" for the cheapest way (see
        operators.choice)
    entropy : τ ≥ 0, ν being mass per unit area. Methods know the density: values and potentials
        made here are those without it
    ranks : between which they are shared out; if these are several, all must do the same (see
        hkflow.operators.ranks)
    Raises ValueError for data that are no real, finite numbers or none at all, shapes that do not
    fit, what the risk forbids, names of hkflow's own features and risks for others, and an unknown
    operator.
    """

    feature: Feature
    risk: Risk
    inputs: Floats
    targets: Floats
    weights: Floats = None  # type: ignore[assignment]  # an array once made
    weight_decay: float = 0.0
    operator: str = "auto"
    ranks: Alone = ALONE
    entropy: float = 0.0

    if TYPE_CHECKING:  # fields are arrays, what is given makes them

        def __init__(
            self,
            feature: Feature,
            risk: Risk,
            inputs: ArrayLike,
            targets: ArrayLike,
            weights: ArrayLike | None = None,
            weight_decay: float = 0.0,
            operator: str = "auto",
            ranks: Alone = ALONE,
            entropy: float = 0.0,
        ) -> None: ...

    def __post_init__(self):
        for name, kind, remedy in (
            ("feature", Feature, "FEATURES[name], or hkflow.ridge(psi) of a function of your own"),
            ("risk", Risk, "RISKS[name]"),
        ):
            if not isinstance(value := getattr(self, name), kind):
                raise ValueError(
                    f"{name} must be a hkflow.{kind.__name__}, got {value!r:.60}. Take"
                    f" hkflow.{remedy}."
                )
        is_built_in(self.feature)
        check_name(self.risk)
        check_choice("operator", self.operator, OPERATORS)
        inputs = _kept(np.atleast_2d(real_array(self.inputs, "Inputs")))
        targets, n = _kept(real_array(self.targets, "Targets")), len(inputs)
        if not inputs.size or inputs.ndim != 2:
            raise ValueError(
                "Inputs need at least one row and one column, got an array of shape"
                f" {inputs.shape}."
            )
        weights = (
            np.full(n, 1.0 / n)
            if self.weights is None
            else _kept(real_array(self.weights, "Weights"))
        )
        if targets.shape != (n,) or weights.shape != (n,):
            raise ValueError(
                f"{n} inputs need {n} targets and weights, got {targets.shape} and {weights.shape}."
            )
        if not all(np.isfinite(a).all() for a in (inputs, targets, weights)):
            raise ValueError("Inputs, targets and weights must be finite.")
        if weights.min() < 0.0 or not weights.any():
            raise ValueError(
                f"Weights must be at least 0 and not all 0; the smallest is {weights.min():g}."
            )
        largest, degree = np.abs(inputs).max(initial=0.0), self.feature.degree or 1
        if degree * np.log10(max(largest, 1.0)) > LARGEST_FEATURE:
            raise ValueError(
                f"Inputs up to {largest:.2g} make features whose squares are beyond numbers. Divide"
                " the inputs."
            )
        if self.risk.classifies and len(wrong := targets[~np.isin(targets, (-1.0, 1.0))]):
            raise ValueError(
                f"The {self.risk.name} risk needs targets +1 or -1, got {wrong[0]:g}. 2 * y - 1"
                " makes them of labels y that are 0 or 1."
            )
        self._check_outputs(targets)
        for name in ("weight_decay", "entropy"):
            object.__setattr__(self, name, nonnegative(getattr(self, name), name))
        for name, value in (("inputs", inputs), ("targets", targets), ("weights", weights)):
            object.__setattr__(self, name, value)

    def _check_outputs(self, targets):
        """Raise ValueError unless feature and risk agree on how many predictions a datum has."""
        k, name = self.feature.outputs, self.risk.name
        if self.risk.coupled != (k > 1):
            raise ValueError(
                f"The {name} risk needs units with an output for each class, such as"
                f" hkflow.vector_feature('relu', 3); got '{self.feature.name}'."
                if self.risk.coupled
                else f"Units with {k} outputs need a risk of {k} classes, hkflow.SOFTMAX; got"
                f" '{name}'."
            )
        if self.risk.coupled and not np.isin(targets, np.arange(k)).all():
            raise ValueError(f"The {name} risk needs targets 0 … {k - 1}, numbers of the classes.")

    def _facts(self):
        decay = f", weight decay {self.weight_decay:g}" if self.weight_decay else ""
        decay += f", entropy {self.entropy:g}" if self.entropy else ""
        return {
            "units": f"{self.feature.name} units",
            "risk": f"{self.risk.name} risk{decay}",
            "data": f"{len(self.inputs)} data in R^{self.inputs.shape[1]}",
        }

    @property
    def axes(self) -> int:
        """Number of coordinates of θ: as many as the inputs have columns, and if θ = (a, b) as many
        more as there are outputs."""
        return self.inputs.shape[1] + self.feature.joint * self.feature.outputs

    @property
    def n_predictions(self) -> int:
        """One for each datum and output."""
        return len(self.inputs) * self.feature.outputs

    def leads(self, predictions: Floats) -> Floats:
        """h_iy − max_{l ≠ y} h_il, (n_data,), of the true class y = y_i, where there is an output
        for each."""
        h = predictions.reshape(len(self.targets), -1).copy()
        rows, true = np.arange(len(h)), self.targets.astype(int)
        own = h[rows, true]
        h[rows, true] = -np.inf
        return own - h.max(axis=1)

    @cached_property
    def _shares(self):
        """q_i/Σ q, (n_data,)."""
        return self.weights / np.add.reduce(self.weights)

    def rms(self, values: Floats) -> float:
        """Root mean square of values (n_data,) or (n_predictions,), weighted as the data are."""
        squares = values * values
        if len(squares) > len(self.targets):
            squares = squares.reshape(len(self.targets), -1).mean(axis=1)
        return sqrt(np.add.reduce(self._shares * squares))

    def error(self, predictions: Floats, log_scale: float = 0.0) -> float:
        """Share of the data, by weights q, on the wrong side of zero for a classification risk,
        whose own class is not the highest for several classes; root mean square error otherwise.

        predictions : in units of e^log_scale
        """
        margins = self._margins(predictions)
        if margins is None:
            return self.rms(np.exp(log_scale) * predictions - self.targets)
        return float(np.add.reduce(self._shares[margins <= 0.0]))

    def margin(self, predictions: Floats) -> float:
        """Smallest margin min_i y_i h_i of data that count, for several classes min_i (h_iy −
        max_{l ≠ y} h_il); nan for a regression risk."""
        margins = self._margins(predictions)
        if margins is None:
            return np.nan
        return float(np.minimum.reduce(margins, where=self.counts, initial=np.inf))

    def _margins(self, predictions):
        """Of each datum, (n_data,); None for a regression risk."""
        if self.risk.coupled:
            return self.leads(predictions)
        return self.targets * predictions if self.risk.classifies else None

    def smooth_margin(self, predictions: Floats, log_scale: float = 0.0) -> float:
        """γ̃ = −log Σ q_i ℓ(−u_i) in units of e^log_scale, for margins u = e^log_scale y
        predictions; of softmax, whose loss is log(1 + e^−u), for the `_soft_leads`; nan without
        a tail ℓ."""
        return self._smooth_margin(predictions, log_scale)[0]

    def soft_argmin(self, predictions: Floats, log_scale: float = 0.0) -> Floats:
        """p_i ∝ −y_i ∂R/∂h_i at h = e^log_scale predictions, (n_data,), of several classes p_il ∝
        ∂R/∂h_il for l ≠ y_i, (n_data, k), 0 at the own class; known even where every ∂R/∂h is
        less than numbers hold. nan without a tail."""
        p = self._smooth_margin(predictions, log_scale)[1]
        if not self.risk.coupled:
            return p
        return p[:, None] * self._soft_leads(predictions, log_scale)[1]

    def _smooth_margin(self, predictions, log_scale):
        """γ̃ and the weights q_i ℓ′(−u_i) / Σ q_k ℓ(−u_k) of margins, (n_data,)."""
        risk, margins, targets = self.risk, predictions, self.targets
        if risk.is_softmax:
            margins, targets = self._soft_leads(predictions, log_scale)[0], np.ones(len(targets))
        elif not (risk.classifies and risk.tail):
            return np.nan, np.full(len(targets), np.nan)
        loss, slopes = SMOOTH_MARGINS[risk.tail or "logistic"], np.empty_like(margins)
        value = loss(margins, log_scale, targets, self.weights, slopes)
        return -float(value), -targets * slopes

    def _soft_leads(self, predictions, log_scale):
        """h_iy − e^−L log Σ_{l ≠ y} e^(e^L h_il), (n_data,), L = log_scale, and the share of each
        class in that sum, (n_data, k)."""
        others = predictions.reshape(len(self.targets), -1).copy()
        others[np.arange(len(others)), self.targets.astype(int)] = -np.inf
        scale, top = np.exp(min(log_scale, LARGEST_LOG)), others.max(axis=1)
        terms = np.exp(scale * (others - top[:, None]))
        sums = terms.sum(axis=1)
        return self.leads(predictions) - np.log(sums) / scale, terms / sums[:, None]

    def evaluate_risk(self, predictions: Floats, log_scale: float, out: Floats) -> float:
        """e^−log_scale R(h) at h = e^log_scale predictions; writes ∂R/∂h to out. Arrays
        (n_predictions,)."""
        risk = self.risk
        if log_scale == 0.0:
            return risk.evaluate(predictions, self.targets, self.weights, out)
        if risk.scaled is not None:
            return risk.scaled(predictions, log_scale, self.targets, self.weights, out)
        scale = np.exp(log_scale)
        return risk.evaluate(scale * predictions, self.targets, self.weights, out) / scale

    def at_fixed_points(
        self, points: Floats, signs: tuple[int, ...] = (1,)
    ) -> "ObjectiveAtFixedPoints":
        """The objective of measures carried by fixed points, one weight per sign and point."""
        return ObjectiveAtFixedPoints(self, points, signs)

    def at_moving_points(
        self, points: Floats, on_sphere: bool = False
    ) -> "ObjectiveAtMovingPoints":
        """The objective as a function of points that move and of their signed weights; on_sphere :
        see Feature.moving_operator."""
        return ObjectiveAtMovingPoints(self, points, on_sphere)

    @cached_property
    def feature_sizes(self) -> Floats:
        """(n_data,) bounds of φ(θ, x_i)² and |∇φ(θ, x_i)|², from 1009 values of ψ if it is not
        homogeneous; 1e200 where nothing is known."""
        degree, ridge = self._degree, self.feature.ridge
        squares = np.sum(self.inputs**2, axis=1)
        if degree is not None:
            return (degree * self.feature.steepness) ** 2 * squares**degree
        if ridge is None:
            return np.full(len(squares), UNBOUNDED)
        sizes = np.sqrt(squares)
        s = np.linspace(0.0, sizes.max(initial=0.0), SAMPLES)
        both = np.abs(ridge(np.array([s, -s])))  # ψ and ψ′ at s and at −s
        values, slopes = np.maximum.accumulate(both.max(axis=1), axis=1)
        upto = np.minimum(np.searchsorted(s, sizes), SAMPLES - 1)
        return np.maximum(values[upto], sizes * slopes[upto]) ** 2

    @cached_property
    def counts(self) -> NDArray[np.bool_]:
        """(n_data,) whether a datum has a weight: one of weight 0 is as good as left out."""
        return self.weights > 0.0

    @cached_property
    def counting(self) -> "Objective":
        """The same of those data that have a weight."""
        return self.among(np.flatnonzero(self.counts))

    def among(self, data: NDArray[np.int64]) -> "Objective":
        """The same of some data, which keep their weights; data : (n,) their numbers, in order."""
        if len(data) == len(self.inputs):
            return self
        return replace(
            self, inputs=self.inputs[data], targets=self.targets[data], weights=self.weights[data]
        )

    @cached_property
    def largest_feature(self) -> float:
        """Bound of |φ(θ, x_i)| for homogeneous features and data that count, 1 at least for another
        feature: it scales rounding errors."""
        sizes, degree = np.linalg.norm(self.inputs, axis=1), self._degree
        largest = np.maximum.reduce(sizes, where=self.counts, initial=0.0)
        if degree is None:
            return np.maximum(1.0, largest)
        return self.feature.steepness * largest**degree

    @property
    def _degree(self):
        """Of homogeneity of φ in x: b ψ(a·x) has that of ψ, which is 1."""
        return 1 if self.feature.joint else self.feature.degree

    def rounding(
        self, value: float, loss_gradient: Floats, mass: float, log_scale: float = 0.0
    ) -> float:
        """What rounding may do to the value: ε (|F| + Σ |∂_i R| δ) + (εδ)², δ = |ν| max φ the size
        of the sums; (εδ)² is at most 2εδ of softmax.

        ε is 16 roundings, or 2 of single precision.

        Value and mass in units of e^log_scale; beyond it the second term belongs to risks that are
        not linear in the scale.
        """
        size = mass * self.largest_feature
        slope = float(np.add.reduce(np.abs(loss_gradient))) * size + self.weight_decay * mass
        rounding = self._eps * (abs(value) + slope)
        if self.risk.scaled is not None:
            return rounding
        # plain numbers, which overflow to inf; the gradient of softmax changes by no more than 2
        error, unit = self.rounding_of_predictions(mass), float(np.exp(min(log_scale, LARGEST_LOG)))
        change = min(unit * error, 2.0) if self.risk.is_softmax else unit * error
        return rounding + change * error

    def rounding_of_predictions(self, mass: float) -> float:
        """What rounding may do to a prediction, εδ as in `rounding`; both in the same units."""
        return float(self._eps * mass * self.largest_feature)

    @property
    def _eps(self):
        return ROUNDED_SINGLE if self.operator == SINGLE else ROUNDED


def _sums(objective, make):
    """The operator that make(inputs) returns, over the different inputs where "auto" leaves the
    choice and many are equal."""
    if objective.operator != "auto":
        return make(objective.inputs)
    return over_distinct(make, objective.inputs, objective.feature.outputs)


class ObjectiveAtFixedPoints:
    """The objective as a function of the weights of fixed points; every array is allocated here,
    once.

    points : (n_points, p);  signs : the output signs ε, (1,) or (1, −1)
    predictions, loss_gradient : (n_data,) h_i in units of e^log_scale and ∂R/∂h_i, after `evaluate`
    potential : (n_signs, n_points) J, after `evaluate`
    """

    def __init__(self, objective: Objective, points: Floats, signs: tuple[int, ...]) -> None:
        n_data, n_points = objective.n_predictions, len(points)
        self.objective = objective
        self.signs = np.array(signs, dtype=float)
        self.operator = _sums(
            objective,
            lambda inputs: objective.feature.operator(
                points, inputs, objective.operator, ranks=objective.ranks
            ),
        )
        self.signed = np.zeros(n_points)
        self.predictions, self.loss_gradient = np.zeros(n_data), np.zeros(n_data)
        self.potential = np.zeros((len(signs), n_points))

    def evaluate(self, weights: Floats, log_scale: float = 0.0) -> float:
        """e^−L F(ν) for ν = e^L Σ weights_sc δ_(θ_c, ε_s), L = log_scale; fills predictions,
        loss gradients and potential.

        J_ν(θ, ε) = Σ_i ∂_i R(h) ε φ(θ, x_i) + λ.   weights : (n_signs, n_points)
        """
        value = self.value(weights, log_scale)
        self.drive(self.loss_gradient)
        return value

    def value(self, weights: Floats, log_scale: float = 0.0) -> float:
        """e^−L F(ν) alone; fills predictions, h in units of e^L, and loss gradients, ∂R/∂h."""
        # not BLAS: its threads would fight with the kernels’
        np.einsum("s,sc->c", self.signs, weights, out=self.signed)
        self.operator.forward(self.signed, self.predictions)
        risk = self.objective.evaluate_risk(self.predictions, log_scale, self.loss_gradient)
        decay = self.objective.weight_decay
        return risk + decay * weights.sum() if decay else risk

    def drive(self, loss_gradient: Floats) -> None:
        """Fill the potential J = ε Σ_i loss_gradient_i φ(θ, x_i) + λ that given loss_gradient
        (n_data,) make."""
        self.operator.adjoint(loss_gradient, self.signed)
        np.multiply(self.signs[:, None], self.signed, out=self.potential)
        if self.objective.weight_decay:
            self.potential += self.objective.weight_decay


class ObjectiveAtMovingPoints:
    """The risk as a function of points that move, of any length, and of their signed weights.

    operator.points : (n_blocks, p, width), to be written before `evaluate`
    predictions, loss_gradient : (n_data,);  slopes : (n_points,) Σ_i ∂_i R φ(θ_c, x_i)
    gradient : (n_blocks, p, width) Σ_i ∂_i R ∇φ(θ_c, x_i);  all filled by `evaluate`
    """

    def __init__(self, objective: Objective, points: Floats, on_sphere: bool) -> None:
        self.objective = objective
        self.operator = _sums(
            objective,
            lambda inputs: objective.feature.moving_operator(
                points, inputs, objective.operator, objective.ranks, on_sphere
            ),
        )
        self.predictions, self.loss_gradient = (np.zeros(objective.n_predictions) for _ in range(2))
        self.slopes, self.gradient = np.zeros(len(points)), np.zeros_like(self.operator.points)

    def evaluate(self, weights: Floats, log_scale: float = 0.0) -> float:
        """e^−L R(h) for h_i = e^L Σ_c weights_c φ(θ_c, x_i), L = log_scale; weights (n_points,),
        signs included.

        Weight decay is the caller's.
        """
        risk = self.value(weights, log_scale)
        self.drive(self.loss_gradient)
        return risk

    def value(self, weights: Floats, log_scale: float = 0.0) -> float:
        """e^−L R(h) alone; fills predictions, h in units of e^L, and loss gradients."""
        self.operator.forward(weights, self.predictions)
        return self.objective.evaluate_risk(self.predictions, log_scale, self.loss_gradient)

    def drive(self, loss_gradient: Floats) -> None:
        """Fill slopes and gradient for given loss_gradient (n_data,)."""
        self.operator.gradient(loss_gradient, self.slopes, self.gradient)
