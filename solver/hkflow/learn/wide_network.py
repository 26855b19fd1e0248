"""Infinitely wide networks as estimators of scikit-learn: fit, predict, score."""

import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from inspect import signature
from typing import Any, Self, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arguments import Floats, check_choice, check_positive, whole_number
from ..geometry.point_sets import quasi_uniform
from ..measures.initial import balanced_atoms
from ..measures.point_measure import PointMeasure, with_each_sign
from ..objectives.activations import FEATURES, Feature, vector_feature
from ..objectives.data import with_bias
from ..objectives.losses import ALL_RISKS, RISKS, Risk
from ..objectives.objective import Objective
from ..problem.flow import Flow, named_flow
from ..problem.problem import Problem
from ..solving.solution import Solution
from ..solving.solve import solve

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.preprocessing import StandardScaler
    from sklearn.utils.class_weight import compute_class_weight
    from sklearn.utils.metaestimators import available_if
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
except ImportError as error:
    raise ImportError(
        "Estimators need scikit-learn 1.6 or later: pip install 'hkflow[data]'."
    ) from error

Fit = TypeVar("Fit", bound=Callable)
LOSSES = {name: risk for name, risk in ALL_RISKS.items() if risk.has_margins}
PROBABLE = ("logistic", "softmax")  # losses that are minus a log-likelihood
LARGEST = 1e150  # of inputs and targets: their squares are numbers
INTERVALS = 20  # in which noise makes particles, half as many in each as there are at the start
TOLERANCE = 1e-5  # of a step of vector outputs: with 1e-6 predictions of iris differ by 1e-4


def _or_as_before(fit: Fit) -> Fit:
    """A fit that leaves all of the one before it where it is refused or broken off; scikit-learn
    sets the number and names of the inputs first."""

    @wraps(fit)
    def whole(self, *data, **options):
        before = dict(vars(self))
        try:
            return fit(self, *data, **options)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return cast(Fit, whole)


class WideNetwork(BaseEstimator):
    """What classifier and regressor share: their parameters, their problem, and its solution."""

    def __init__(
        self,
        activation: str | Feature,
        bias: bool,
        weight_decay: float,
        flow: str | Flow,
        time: float,
        particles: int,
    ) -> None:
        self.activation = activation
        self.bias = bias
        self.weight_decay = weight_decay
        self.flow = flow
        self.time = time
        self.particles = particles

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Parameters that the version which pickled it had not are as by default."""
        known = signature(type(self)).parameters.values()
        default = {one.name: one.default for one in known if one.default is not one.empty}
        super().__setstate__(default | state)

    def _prepared(self, X: ArrayLike) -> Floats:
        """Inputs of which each column has mean 0 and variance 1 on the data of `fit`."""
        check_is_fitted(self, "scaler_")
        X = validate_data(self, X, dtype=np.float64, order="C", reset=False)
        return self.scaler_.transform(_bounded(X, "Inputs"))

    def _counted(self, X, y, sample_weight):
        """Data that count, and their weights, which sum to 1; None if all count alike."""
        if sample_weight is None:
            return _of_fit(X, "Inputs"), y, None
        weights = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        if not weights.any():  # which scikit-learn before 1.9 lets pass
            raise ValueError("Sample weights must not all be 0: no data would count.")
        weights = weights / weights.max()  # so that no sum overflows
        counted = weights > 0.0
        X = _of_fit(X[counted], "Inputs")
        return X, y[counted], weights[counted] / weights.sum()

    def _solved(
        self, inputs: Floats, targets: Floats, weights: Floats | None, risk: Risk, outputs: int = 1
    ) -> Solution:
        """The flow of one network; warns if it stops before its end."""
        problem = self._problem(inputs, targets, weights, risk, outputs)
        options: dict = {"tolerance": TOLERANCE} if outputs > 1 else {}
        if problem.spreads:
            points = 2 * max(1, self.particles // 4)
            options |= {"noise_points": points, "noise_interval": self.time / INTERVALS}
        solution = solve(problem, self.time, kind="auto", **options)
        if not solution.finished:
            warnings.warn(solution.status, ConvergenceWarning, stacklevel=4)
        return solution

    def _problem(self, inputs, targets, weights, risk, outputs):
        """The problem that starts from evenly spread particles; both output signs carry half of
        the mass 1, so that the first prediction is 0."""
        check_positive(time=self.time)
        if self.bias not in (True, False):
            raise ValueError(f"bias must be True or False, got {self.bias!r}.")
        feature, count = self._feature(outputs), whole_number(self.particles, "particles", 2)
        inputs = with_bias(inputs) if self.bias else inputs
        objective = Objective(feature, risk, inputs, targets, weights, self.weight_decay)
        signs, dim = (1,) if feature.joint else (1, -1), objective.axes - 1
        if count % 2:
            raise ValueError(f"particles must be even, half for each output sign, got {count}.")
        if feature.joint:
            initial = balanced_atoms(count, dim, outputs=outputs)
        else:
            points = quasi_uniform(count // 2, dim)
            initial = PointMeasure(*with_each_sign(points, signs))
        flow = self.flow
        if not isinstance(flow, Flow):
            flow = named_flow(flow, feature.degree, len(signs) == 2)
        if flow.depth != 2.0:
            raise ValueError(
                f"Estimators train particles, whose flows have depth 2; this one, {flow}, moves a"
                " density on a grid: take a case, or hkflow.solve."
            )
        return Problem(None, objective, flow, signs, initial)

    def _feature(self, outputs):
        if outputs > 1:
            return vector_feature(self.activation, outputs)
        if isinstance(self.activation, Feature):
            return self.activation
        if callable(self.activation):
            raise ValueError(
                "activation must be a name or a hkflow.Feature: of a function of your own take"
                f" hkflow.ridge(psi), psi(s) -> (ψ(s), ψ′(s)); got {self.activation!r:.60}."
            )
        check_choice("activation", self.activation, FEATURES)
        return FEATURES[self.activation]


def _has_probabilities(classifier):
    """Whether the loss of a classifier says what probabilities its classes have."""
    risk = classifier._risk()
    return risk is not None and risk.name in PROBABLE


class WideNetworkClassifier(ClassifierMixin, WideNetwork):
    """An infinitely wide two-layer network as a classifier: two classes by the sign of
    h(x) = ∫ φ(θ, x) dν(θ), more by one network for each class against the rest, or by softmax.

    ν follows the flow of its training, by the method "auto" of `hkflow.solve`, from the uniform
    probability, of joint-relu and softmax that on |a| = |b|. Each input is brought to mean 0 and
    variance 1. A fit has no randomness in it.

    activation : φ, relu, squared-relu, linear, absolute-value, joint-relu, or a Feature
    bias : whether units have one
    loss : logistic, exponential, or smooth-margin, smooth-logistic-margin: of these the decisions
        approach the max-margin as `time` grows; or softmax: one network with an output for each
        class, of relu or linear units, θ = (a, b), h(x) = ∫ b (a·x)₊ dν
    weight_decay : λ ≥ 0 of λ|ν|
    flow : a name, such as hellinger-kantorovich (both layers of the network are trained),
        wasserstein (directions of units alone), hellinger (masses of units alone), or a Flow
    time : t at which training ends; data that are hard to separate need more
    particles : of each network, an even number. Errors and costs are in proportion to 1/particles
        and to particles × data × inputs. A flow with noise makes new ones, up to ten times as many
    class_weight : {label: how much its data count}, "balanced" for classes that count alike, None
        for data that do; it multiplies sample_weight

    Attributes of a fitted one: classes_; n_features_in_; solutions_, a list of one Solution for two
    classes and for softmax, and of one for each class otherwise; margin_ : (n_solutions,)
    min_i y_i h(x_i)/|ν|, for softmax min_i (h_iy − max_{l ≠ y} h_il)/|ν|, which is positive where
    all data are on the right side.
    Raises ValueError for less than two classes, parameters that are out of range, and weights of
    data or classes that are negative or all zero.
    """

    def __init__(
        self,
        activation: str | Feature = "relu",
        bias: bool = True,
        loss: str = "logistic",
        weight_decay: float = 0.0,
        flow: str | Flow = "hellinger-kantorovich",
        time: float = 100.0,
        particles: int = 400,
        class_weight: Mapping | str | None = None,
    ) -> None:
        super().__init__(activation, bias, weight_decay, flow, time, particles)
        self.loss = loss
        self.class_weight = class_weight

    @_or_as_before
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train on inputs X (n, d) and labels y (n,), numbers or strings; sample_weight (n,) ≥ 0:
        how much each counts, alike if not given."""
        X, y = validate_data(self, X, y, dtype=np.float64, order="C")
        check_classification_targets(y)
        X, y, weights = self._counted(X, y, sample_weight)
        check_choice("loss", self.loss, LOSSES)
        classes, codes = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(
                f"A classifier needs data of two classes, got one class alone: {classes[0]}."
            )
        weights = self._by_class(classes, codes, weights)
        scaler = _scaler_of(X, weights)
        inputs = scaler.transform(X)
        risk, count = LOSSES[self.loss], len(classes)
        if risk.coupled:
            solutions = [self._solved(inputs, codes.astype(float), weights, risk, count)]
        else:
            solutions = [
                self._solved(inputs, np.where(codes == k, 1.0, -1.0), weights, risk)
                for k in (range(count) if count > 2 else [1])
            ]
        margin = np.array([_margin(solution) for solution in solutions])
        self.classes_, self.scaler_ = classes, scaler
        self.solutions_, self.margin_ = solutions, margin
        return self

    def _by_class(self, classes, codes, weights):
        """Weights of data times those of their classes; their sum is 1."""
        if self.class_weight is None:
            return weights
        weights = np.full(len(codes), 1.0 / len(codes)) if weights is None else weights
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            factors = 1.0 / np.bincount(codes, weights)
        else:
            labels = classes[codes]
            factors = compute_class_weight(self.class_weight, classes=classes, y=labels)
        weights = weights * factors[codes]
        if not (weights.min() >= 0.0 and 0.0 < weights.sum() < np.inf):
            raise ValueError(
                "Weights of classes must be at least 0, not all 0 and not infinite, got"
                f" {dict(zip(classes.tolist(), factors.tolist(), strict=True))}."
            )
        return weights / weights.sum()

    def decision_function(self, X: ArrayLike) -> Floats:
        """h(x), (n,) for two classes, of which positive numbers mean the second, or (n, n_classes);
        of a smooth-margin loss, whose mass may be beyond numbers, h(x)/|ν|."""
        X, risk = self._prepared(X), self._risk()
        normalised = risk.scaled is not None
        h = np.column_stack([s.predict(X, normalised=normalised) for s in self.solutions_])
        if len(self.classes_) > 2:
            return h
        return h[:, 1] - h[:, 0] if risk.coupled else h[:, 0]

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The labels of inputs X (n, d), (n,)."""
        h = self.decision_function(X)
        return self.classes_[(h > 0.0).astype(int) if h.ndim == 1 else h.argmax(axis=1)]

    def _risk(self):
        """The loss of the fit, whatever `loss` was set to since; before it that of `loss`."""
        if hasattr(self, "solutions_"):
            return self.solutions_[0].problem.objective.risk
        return LOSSES.get(self.loss) if isinstance(self.loss, str) else None

    @available_if(_has_probabilities)
    def predict_proba(self, X: ArrayLike) -> Floats:
        """Probabilities of the classes (n, n_classes), of the logistic loss: 1/(1 + e^−h), for more
        than two classes over their sum; of softmax e^h over their sum."""
        return np.exp(self.predict_log_proba(X))

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: ArrayLike) -> Floats:
        """Logarithms of the probabilities (n, n_classes), to rounding where these are tiny."""
        h = self.decision_function(X)
        several = h.ndim == 2
        if not several:
            h = np.column_stack([-h, h])
        logs = h if several and self._risk().coupled else -np.logaddexp(0.0, -h)
        return logs - np.logaddexp.reduce(logs, axis=1, keepdims=True)


class WideNetworkRegressor(RegressorMixin, WideNetwork):
    """An infinitely wide two-layer network as a regression: h(x) = ∫ φ(θ, x) dν(θ), trained by the
    square loss.

    Parameters are those of WideNetworkClassifier, but for the loss. Inputs and targets are brought
    to mean 0 and variance 1, predictions back. A shorter `time` makes a smoother function.
    Attributes of a fitted one: n_features_in_; solution_, a Solution in those units.
    """

    def __init__(
        self,
        activation: str | Feature = "relu",
        bias: bool = True,
        weight_decay: float = 0.0,
        flow: str | Flow = "hellinger-kantorovich",
        time: float = 20.0,
        particles: int = 400,
    ) -> None:
        super().__init__(activation, bias, weight_decay, flow, time, particles)

    @_or_as_before
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train on inputs X (n, d) and targets y (n,); sample_weight (n,) ≥ 0: how much each
        counts, alike if not given."""
        X, y = validate_data(self, X, y, dtype=np.float64, order="C", y_numeric=True)
        X, y, weights = self._counted(X, y, sample_weight)
        y = _of_fit(np.asarray(y, dtype=np.float64), "Targets")[:, None]
        scaler, target = _scaler_of(X, weights), _scaler_of(y, weights)
        targets = target.transform(y)[:, 0]
        solution = self._solved(scaler.transform(X), targets, weights, RISKS["square"])
        self.scaler_, self._target, self.solution_ = scaler, target, solution
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """h(x) in the units of the targets, for inputs X (n, d); (n,)."""
        X = self._prepared(X)
        return self._target.inverse_transform(self.solution_.predict(X)[:, None])[:, 0]


def _scaler_of(values, weights):
    """A StandardScaler fitted to values that count by weights, of arrays, whatever users have
    scikit-learn make of theirs, as frames."""
    scaler = StandardScaler().set_output(transform="default")
    with np.errstate(invalid="ignore"):  # rounding makes variances of constant columns negative
        return scaler.fit(values, sample_weight=weights)


def _bounded(values, what):
    """The values. Raises ValueError if the square of one is beyond numbers."""
    largest = np.abs(values).max(initial=0.0)
    if largest > LARGEST:
        raise ValueError(
            f"{what} must be numbers up to {LARGEST:g}, whose squares are numbers, got {largest:g}."
            " Divide them, or leave such rows out."
        )
    return values


def _of_fit(values, what):
    """The values, as `_bounded`. Raises ValueError too if the squares of a column are all too small
    to be exact: it would pass for constant."""
    largest = np.abs(_bounded(values, what)).max(axis=0)
    if np.any(tiny := (largest > 0.0) & (largest < 1.0 / LARGEST)):
        raise ValueError(
            f"{what} must reach {1.0 / LARGEST:g}, whose square is a number, or be 0 in a whole"
            f" column, got {np.min(largest, where=tiny, initial=1.0):g}. Multiply them."
        )
    return values


def _margin(solution):
    """The smallest margin of a solution's end over its mass."""
    h = solution.predict(solution.inputs, normalised=True, prepared=True)
    return solution.problem.objective.margin(h)
