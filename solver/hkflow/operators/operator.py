"""What every way of making the sums over points and data offers, whatever it costs.

    h_i = Σ_c w_c φ(θ_c, x_i)      J_c = Σ_i r_i φ(θ_c, x_i)      G_c = Σ_i r_i ∇φ(θ_c, x_i)

Sums are exact to rounding, the same for any number of threads and ranks, and allocate nothing.
"""

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@runtime_checkable
class Operator(Protocol):
    """Sums for points that stay where they are."""

    def forward(self, weights: Array, out: Array) -> None:
        """h;  weights (n_points,), out (n_data,)."""

    def adjoint(self, loss_gradient: Array, out: Array) -> None:
        """J;  loss_gradient (n_data,), out (n_points,)."""


@runtime_checkable
class MovingOperator(Protocol):
    """Sums for points that move, and data that may be exchanged.

    points : (n_blocks, p, width), to be overwritten in place, see dense.blocked
    """

    points: Array

    def forward(self, weights: Array, out: Array) -> None:
        """h;  weights (n_points,), out (n_data,)."""

    def gradient(self, loss_gradient: Array, potential: Array, gradient: Array) -> None:
        """J and G;  loss_gradient (n_data,), potential (n_points,), gradient blocked like
        `points`."""

    def set_inputs(self, inputs: Array) -> None:
        """Take other data, as many as before; inputs (n_data, p)."""
