"""What every objective offers: F on points that stay, F on points that move, and what it knows of
data."""

from typing import Any, Protocol, runtime_checkable

from ..arguments import Floats
from ..operators.operator import MovingOperator
from .activations import Feature


@runtime_checkable
class AtFixedPoints(Protocol):
    """F as a function of the weights of fixed points.

    predictions, loss_gradient : (n_data,) h in units of e^L and ∂R/∂h, after `value`
    potential : (n_signs, n_points) J, after `drive`
    by_data : whether J follows from loss gradients; False where it comes with `value`, as that of a
        sum of energies. If there is none: whether there are predictions
    """

    predictions: Floats
    loss_gradient: Floats
    potential: Floats

    def value(self, weights: Floats, log_scale: float = 0.0) -> float:
        """e^−L F for ν = e^L Σ weights_sc δ_(θ_c, ε_s), L = log_scale; weights (n_signs,
        n_points)."""

    def drive(self, loss_gradient: Floats) -> None:
        """Fill the potential that given loss gradients make."""

    def evaluate(self, weights: Floats, log_scale: float = 0.0) -> float:
        """`value`, then `drive` with its loss gradients."""


@runtime_checkable
class AtMovingPoints(Protocol):
    """The risk as a function of points that move and of their signed weights; weight decay is the
    caller's.

    operator : holds the points;  slopes : (n_points,) and gradient, blocked like the points, after
        `drive`
    """

    operator: MovingOperator
    predictions: Floats
    loss_gradient: Floats
    slopes: Floats
    gradient: Floats

    def value(self, weights: Floats, log_scale: float = 0.0) -> float:
        """e^−L R for weights (n_points,), signs included."""

    def drive(self, loss_gradient: Floats) -> None:
        """Fill slopes and gradient for given loss gradients."""

    def evaluate(self, weights: Floats, log_scale: float = 0.0) -> float:
        """`value`, then `drive` with its loss gradients."""


@runtime_checkable
class ObjectiveProtocol(Protocol):
    """F(ν) = R(h) + λ|ν| of data, or its mean over a population."""

    @property
    def feature(self) -> Any:
        """φ."""

    @property
    def risk(self) -> Any:
        """R."""

    @property
    def inputs(self) -> Floats:
        """(n_data, p), empty of a population."""

    @property
    def targets(self) -> Floats:
        """(n_data,), likewise."""

    @property
    def weights(self) -> Floats:
        """(n_data,), likewise."""

    @property
    def weight_decay(self) -> float:
        """λ."""

    @property
    def entropy(self) -> float:
        """τ, which values and potentials are without."""

    @property
    def axes(self) -> int:
        """Coordinates of a point."""

    @property
    def largest_feature(self) -> float:
        """A bound of |φ| on the sphere and the data."""

    def at_fixed_points(self, points: Floats, signs: tuple = (1,)) -> AtFixedPoints:
        """F on points (n_points, p) that stay."""

    def at_moving_points(self, points: Floats, on_sphere: bool = False) -> AtMovingPoints:
        """The risk on points (n_points, p) that move, whether unit vectors or of any length."""

    def error(self, predictions: Floats, log_scale: float = 0.0) -> float:
        """The training error of predictions in units of e^log_scale."""

    def margin(self, predictions: Floats) -> float:
        """min y_i h_i."""

    def smooth_margin(self, predictions: Floats, log_scale: float = 0.0) -> float:
        """The smooth margin, in units of e^log_scale."""

    def rounding(
        self, value: float, loss_gradient: Floats, mass: float, log_scale: float = 0.0
    ) -> float:
        """What rounding may do to a value of F."""


def prediction_shape(objective: Any) -> tuple[int, ...]:
    """Of the predictions of all data: (n_data,), or (n_data, k) of units with k outputs.

    Methods hold the numbers in a row, datum by datum; results and files have this shape.
    """
    n, k = len(objective.targets), objective.feature.outputs
    return (n,) if k == 1 else (n, k)


def feature_of_data(objective: Any) -> Feature:
    """The feature of an objective; of a sum of energies that of its data, if it has some, since its
    own does not tell of kinks and degrees."""
    return (getattr(objective, "data", None) or objective).feature
