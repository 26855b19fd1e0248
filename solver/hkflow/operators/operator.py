"""What every way of making the sums over points and data offers, whatever it costs.

    h_i = Σ_c w_c φ(θ_c, x_i)      J_c = Σ_i r_i φ(θ_c, x_i)      G_c = Σ_i r_i ∇φ(θ_c, x_i)

Sums are exact to rounding, the same for any number of threads and ranks, and allocate nothing.
"""

from typing import Protocol, runtime_checkable

from ..arguments import Floats


def check_shape(inputs: Floats, shape: tuple[int, ...]) -> None:
    """Raise ValueError unless new inputs have the shape of the old."""
    if inputs.shape != shape:
        raise ValueError(
            f"New inputs must have the shape {shape} of the old, got {inputs.shape}. Make a new"
            " operator."
        )


@runtime_checkable
class Operator(Protocol):
    """Sums for points that stay where they are."""

    def forward(self, weights: Floats, out: Floats) -> None:
        """h;  weights (n_points,), out (n_data,)."""

    def adjoint(self, loss_gradient: Floats, out: Floats) -> None:
        """J;  loss_gradient (n_data,), out (n_points,)."""


@runtime_checkable
class MovingOperator(Protocol):
    """Sums for points that move, and data that may be exchanged.

    points : (n_blocks, p, width), to be overwritten in place, see dense.blocked
    """

    points: Floats

    def forward(self, weights: Floats, out: Floats) -> None:
        """h;  weights (n_points,), out (n_data,)."""

    def gradient(self, loss_gradient: Floats, potential: Floats, gradient: Floats) -> None:
        """J and G;  loss_gradient (n_data,), potential (n_points,), gradient blocked like
        `points`."""

    def set_inputs(self, inputs: Floats) -> None:
        """Take other data, as many as before; inputs (n_data, p)."""
