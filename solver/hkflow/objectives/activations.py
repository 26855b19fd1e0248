"""Features φ(θ, x): what one unit with direction θ contributes to the prediction at input x."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from ..arguments import Floats, check_choice, whole_number
from ..errors import namesake
from ..operators.choice import HARMONICS, harmonics_pay, make_operator, n_harmonics
from ..operators.dense import LINEAR, RELU, SQUARED_RELU
from ..operators.distributed import shared
from ..operators.harmonic_operator import HarmonicOperator, MovingHarmonicOperator
from ..operators.harmonics import AXES, MAX_DEGREE
from ..operators.joint import JointOperator, joint_matrix
from ..operators.matrix import FunctionOperator, MatrixOperator
from ..operators.piecewise_linear import PiecewiseLinearOperator
from ..operators.ranks import ALONE, Alone
from ..operators.vector import VectorOperator
from .smooth import polynomial_degree

VECTORS = ("relu", "linear")  # activations ψ of units with several outputs
WITH, OUTPUTS = " with ", " outputs"  # in their names
PIECES = {LINEAR: (1.0, 1.0), RELU: (0.0, 1.0)}  # slopes below and above 0


@dataclass(frozen=True)
class Feature:
    """A feature φ, by its values on all pairs.

    name : how messages and files call it
    matrix : function (points (n_points, p), inputs (n_data, p)) -> (n_data, n_points) array of
        φ(θ_c, x_i), called for some points and some data at a time
    degree : the homogeneity of φ in θ, which fixes the reaction rate of a balanced network; None if
        not homogeneous
    activation : code of one that compiled operators know, see operators.dense, or None: then the
        matrix is stored, at 8 n_data n_points bytes, but for ridges of degree 1, whose sums are
        those of ReLU and of first moments, and smooth ridges on the circle and S², whose sums go by
        harmonics where that is cheaper
    pullback : function (points, inputs, loss_gradient (n_data,)) -> (n_points, p), Σ_i
        loss_gradient_i ∇φ(θ_c, x_i) as a vector of R^p; needed by particles and only where there is
        no activation
    ridge : ψ if the feature is made of it, see `ridge`
    joint : whether the last coordinate of θ is an output weight b: θ = (a, b) has one coordinate
        more than the inputs, and φ = b ψ(a, x) where `activation` belongs to ψ
    outputs : k, the length of b if it is joint: of k > 1 predictions are vectors, see
        `vector_feature`
    kinks : numbers c in order where the slope of ψ jumps, ψ linear between them; of `ridge`
    one_sided_slopes : of a ridge of degree 1 from a run folder, whose ψ may not be here: ψ′ below
        and above 0
    """

    name: str
    matrix: Callable
    degree: int | None = None
    activation: int | None = None
    pullback: Callable | None = None
    joint: bool = False
    ridge: Callable | None = None
    outputs: int = 1
    kinks: tuple[float, ...] = ()
    one_sided_slopes: tuple[float, float] | None = None

    @cached_property
    def pieces(self) -> tuple[float, float] | None:
        """ψ′ below and above 0 of φ = ψ(θ·x), or b ψ(a·x), if ψ is linear on either side of 0; else
        None."""
        if self.activation in PIECES:
            return PIECES[self.activation]
        if self.ridge is None or self.degree != 1 or self.one_sided_slopes:
            return self.one_sided_slopes
        below, above = np.array([-1.0, 1.0]) * self.ridge(np.array([-1.0, 1.0]))[0]
        return float(below), float(above)

    @property
    def kink(self) -> tuple[float, float] | None:
        """The same where the slope jumps at 0; else None."""
        return self.pieces if self.pieces and self.pieces[0] != self.pieces[1] else None

    @cached_property
    def steepness(self) -> float:
        """c with |ψ(s)| ≤ c |s|^degree of a homogeneous φ = ψ(θ·x): 1 of the built-in ones, and
        where ψ is not known, as that of a run folder whose function is not here."""
        if self.ridge is None or self.degree is None:
            return 1.0
        try:
            ends = self.pieces or self.ridge(np.array([-1.0, 1.0]))[0]
        except Exception:  # whatever the user's function says
            return 1.0
        return float(np.abs(ends).max())

    @cached_property
    def hinges(self) -> tuple[float, float, Floats, Floats] | None:
        """v, b, c (n,) and J (n,) of ψ(s) = v + b s + Σ_j J_j (s − c_j)₊, from `kinks`; None
        without. Raises ValueError if ψ is not that."""
        if self.ridge is None or not self.kinks:
            return None
        c = np.array(self.kinks)
        middles = np.concatenate([[c[0] - 1.0], 0.5 * (c[1:] + c[:-1]), [c[-1] + 1.0]])
        slopes = np.asarray(self.ridge(middles)[1], dtype=float)
        below, jumps = float(slopes[0]), np.diff(slopes)
        value = float(self.ridge(c[:1])[0][0]) - below * c[0]
        s = np.linspace(c[0] - 2.0, c[-1] + 2.0, SAMPLES)
        wanted = value + below * s + np.maximum(s[:, None] - c, 0.0) @ jumps
        found = np.asarray(self.ridge(s)[0], dtype=float)
        worst = int(np.abs(found - wanted).argmax())
        if not abs(found[worst] - wanted[worst]) <= 1e-12 * (1.0 + np.abs(wanted).max()):
            raise ValueError(
                f"'{self.name}' is not continuous and linear between its kinks"
                f" {', '.join(f'{k:g}' for k in c)}: ψ({s[worst]:.6g}) is {found[worst]:.6g}, its"
                f" pieces give {wanted[worst]:.6g}. Name all kinks, or none of a curved ψ."
            )
        return value, below, c, jumps

    def operator(
        self,
        points: Floats,
        inputs: Floats,
        name: str = "auto",
        moving: bool = False,
        ranks: Alone = ALONE,
    ) -> Any:
        """The sums over this feature for fixed points and inputs; name : see operators.choice, for
        features of one factor.

        ranks : between which they are shared out, see operators.distributed
        """
        if self.activation is not None and not self.joint:
            return make_operator(name, points, inputs, self.activation, moving, ranks)
        if self.pieces and not self.joint:
            relu = make_operator(name, points, inputs, RELU, moving, ranks)
            held = relu.points if moving else points
            return PiecewiseLinearOperator(relu, held, inputs, *self.pieces)
        self._check_operator(name)
        if self.joint and self.activation is not None:
            code = self.activation
            if self.outputs > 1:  # each rank makes all sums
                return VectorOperator(points, inputs, code, self.outputs)
            return shared(ranks, partial(JointOperator, activation=code), points, inputs)
        ridge: Any = self.ridge  # there is one where there is a degree
        farthest = np.abs(np.einsum("ca,ca->c", points, points) - 1.0).max(initial=0.0)
        degree = self._degree_for(len(points), inputs, name, bool(farthest < ROUNDED))
        make: Callable = (
            partial(MatrixOperator.of, matrix=self.matrix)
            if degree is None
            else partial(HarmonicOperator, ridge=ridge, degree=degree)
        )
        return shared(ranks, make, points, inputs)

    def _check_operator(self, name):
        if name not in ("auto", "dense", HARMONICS) or name == HARMONICS and self.joint:
            raise ValueError(
                f"The feature '{self.name}' has no operator '{name}'. Leave 'operator' out."
            )

    def _degree_for(self, n_points, inputs, name, unit, moving=False):
        """The same for points of which `unit` says whether they are unit vectors. Raises ValueError
        if harmonics shall make the sums and cannot."""
        degree = self._degree(n_points, inputs, name, moving) if unit else None
        if degree is None and name == HARMONICS:
            axes = inputs.shape[1]
            why = f"'{self.name}' on {axes} axes is not" if unit else "these points are none"
            raise ValueError(
                "Harmonics are for unit vectors θ of the circle or S², and a ψ(θ·x) that is smooth"
                " between -|x| and |x| for every input: to rounding a polynomial of a degree of at"
                f" most {MAX_DEGREE}; {why}. Leave 'operator' out."
            )
        return degree

    def _degree(self, n_points, inputs, name, moving=False):
        """Up to which harmonics make the sums for unit vectors, None where all pairs do."""
        n_data, axes = inputs.shape
        pay = partial(harmonics_pay, n_points, n_data, axes, moving=moving)
        smooth = self.ridge is not None and not self.kinks and axes in AXES
        if not smooth or name == "dense" or name == "auto" and not pay(0):
            return None
        degree = polynomial_degree(self.ridge, np.hypot.reduce(inputs, axis=1), moving)
        return degree if degree is not None and (name == HARMONICS or pay(degree)) else None

    def stored(
        self, n_points: int, inputs: Floats, name: str = "auto", moving: bool = False
    ) -> int:
        """How many numbers the sums over unit vectors store: those of the matrix, or of data and
        harmonics; 0 where values are made on the fly."""
        if self.activation is not None or self.pieces:
            return 0
        degree = self._degree(n_points, inputs, name, moving)
        if degree is None:
            return 0 if moving else len(inputs) * n_points
        return len(inputs) * n_harmonics(degree, inputs.shape[1])

    def slopes(self, points: Floats, inputs: Floats) -> Floats:
        """b ψ′(a·x) for φ = b ψ(a·x), or ψ′(θ·x), of a built-in feature or a ridge: ∇φ = slope x,
        besides ψ along b if it is joint.

        points : (n_points, p);  inputs : (n_data, p).   Returns (n_data, n_points)
        """
        s = inputs @ points[:, : inputs.shape[1]].T
        if self.pieces:
            below, above = self.pieces
            slope = np.where(s > 0.0, above, below)
        elif self.ridge is not None:
            slope = np.asarray(self.ridge(s)[1], dtype=float)
        else:
            slope = 2.0 * np.maximum(s, 0.0)  # squared ReLU
        return slope * points[:, -1] if self.joint else slope

    def moving_operator(
        self,
        points: Floats,
        inputs: Floats,
        name: str = "auto",
        ranks: Alone = ALONE,
        on_sphere: bool = False,
    ) -> Any:
        """The sums over this feature and its gradient for points that move.

        on_sphere : whether they stay unit vectors, and the part of the gradient along the sphere is
            all that is wanted
        Raises ValueError if no gradient is known.
        """
        if self.activation is not None or self.pieces:
            return self.operator(points, inputs, name, True, ranks)
        if self.pullback is None:
            raise ValueError(
                f"Particles need the gradient of the feature '{self.name}': give Feature(…,"
                " pullback=…)."
            )
        self._check_operator(name)
        ridge: Any = self.ridge
        degree = self._degree_for(len(points), inputs, name, on_sphere, moving=True)
        make: Callable = (
            partial(FunctionOperator, matrix=self.matrix, pullback=self.pullback, ridge=self.ridge)
            if degree is None
            else partial(MovingHarmonicOperator, ridge=ridge, degree=degree)
        )
        return shared(ranks, make, points, inputs)


@cache
def vector_feature(activation: str, outputs: int) -> Feature:
    """The feature φ(θ, x) = b ψ(a·x) ∈ R^k of units with k output weights, θ = (a, b) ∈ S^{p+k−1}.

    activation : "relu" or "linear", the name of ψ;  outputs : k ≥ 1
    φ is 2-homogeneous, so that networks which train both layers follow the flow (1, 4). Predictions
    (n_data · k,) lie datum by datum. Raises ValueError for another ψ.
    """
    check_choice("activation of vectors", activation, VECTORS)
    hidden = FEATURES[activation]
    k = whole_number(outputs, "outputs", 1)
    matrix = joint_matrix(hidden.matrix, k)
    name = f"{activation}{WITH}{k}{OUTPUTS}"
    return Feature(name, matrix, 2, hidden.activation, joint=True, outputs=k)


def feature_named(name: str) -> Feature | None:
    """The built-in feature of a name, "relu with 3 outputs" for one; None if there is none."""
    activation, _, count = name.removesuffix(OUTPUTS).partition(WITH)
    if (
        activation in VECTORS
        and count.isdecimal()
        and name == f"{activation}{WITH}{count}{OUTPUTS}"
    ):
        return vector_feature(activation, int(count))
    return FEATURES.get(name)


def is_built_in(feature: Feature) -> bool:
    """Whether a feature is hkflow's own. Raises ValueError for another one of its name, by which
    methods and certificates know it."""
    known = feature_named(feature.name)
    if known is None:
        return False
    if (feature.activation, feature.ridge) != (known.activation, known.ridge):
        raise ValueError(namesake("feature", feature.name))
    return True


def ridge(
    function: Callable,
    name: str | None = None,
    degree: int | None = None,
    kinks: Iterable[float] = (),
) -> Feature:
    """The feature φ(θ, x) = ψ(θ·x) of a function s -> (ψ(s), ψ′(s)) of arrays.

    name : by default that of the function;  degree : of homogeneity of ψ, if it has one
    kinks : all s at which the slope jumps, of a ψ that is linear between them: particles then slide
        along θ·x = s. Of degree 1 it is known without
    Raises ValueError for a function that returns something else, and for kinks that are no finite
    numbers, each larger than the one before.
    """
    feature, s = unchecked_ridge(function, name, degree, kinks), np.array([[-0.5], [0.0], [0.5]])
    try:
        shapes = [np.shape(part) for part in function(s)]
    except Exception as error:  # whatever the user's function says
        raise misfit(feature, error) from error
    if shapes != [s.shape, s.shape]:
        why = f"of an array of the shape {s.shape} it makes those of the shapes {shapes}"
        raise misfit(feature, ValueError(why))
    return feature


def unchecked_ridge(
    function: Callable,
    name: str | None = None,
    degree: int | None = None,
    kinks: Iterable[float] = (),
) -> Feature:
    """As `ridge`, of a function that is not called before it is needed."""
    places = tuple(float(kink) for kink in kinks)
    if not (np.isfinite(places).all() and (np.diff(places) > 0.0).all()):
        raise ValueError(f"kinks must be finite numbers that grow, got {list(places)}.")
    shown = name or str(getattr(function, "__name__", "ridge"))
    parts = partial(_ridge_matrix, function), partial(_ridge_pullback, function)
    return Feature(shown, parts[0], degree, pullback=parts[1], ridge=function, kinks=places)


def _ridge_matrix(function, points, inputs):
    """ψ(θ·x), (n_data, n_points)."""
    return np.asarray(function(inputs @ points.T)[0], dtype=float)


def _ridge_pullback(function, points, inputs, loss_gradient):
    """Σ_i g_i ψ′(θ·x_i) x_i, (n_points, p)."""
    return (loss_gradient[:, None] * function(inputs @ points.T)[1]).T @ inputs


def misfit(feature: Feature, error: Exception) -> ValueError:
    """For what a user's function does when it is tried."""
    why = str(error).rstrip(".")
    hint = " Wanted a function s -> (ψ(s), ψ′(s)) of arrays." if feature.ridge else ""
    return ValueError(f"'{feature.name}' does not fit: {type(error).__name__}: {why}.{hint}")


ROUNDED = 1e-12  # how far |θ|² may be from 1
SAMPLES = 1009  # values of ψ that are compared with its pieces


def _linear(points, inputs):
    return inputs @ points.T


def _relu(points, inputs):
    return np.maximum(inputs @ points.T, 0.0)


def _squared_relu(points, inputs):
    return _relu(points, inputs) ** 2


def _absolute_value(s):
    return np.abs(s), np.sign(s)


FEATURES = {
    feature.name: feature
    for feature in (
        Feature("linear", _linear, 1, LINEAR),
        Feature("relu", _relu, 1, RELU),
        Feature("squared-relu", _squared_relu, 2, SQUARED_RELU),
        Feature("joint-relu", joint_matrix(_relu), 2, RELU, joint=True),
        ridge(_absolute_value, "absolute-value", 1),
    )
}
