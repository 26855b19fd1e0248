"""Sums for features that are linear on either side of 0: those of ReLU, and first moments.

ψ(s) = b s + j (s)₊ has slope b below and b + j above 0, so that

    h_i = j h_i(ReLU) + b x_i·Σ_c w_c θ_c        J_c = j J_c(ReLU) + b θ_c·Σ_i r_i x_i

at the cost of the sums of ReLU, whichever operator makes them.
"""

from typing import Any

import numpy as np

from ..arguments import Floats
from .dense import blocked


class PiecewiseLinearOperator:
    """All sums for φ = ψ(θ·x), from an operator of ReLU.

    relu : for the same points and inputs
    points : (n_points, p), or where they move those that `relu` holds, blocked;  inputs : (n_data,
        p)
    below, above : slopes of ψ
    """

    def __init__(
        self, relu: Any, points: Floats, inputs: Floats, below: float, above: float
    ) -> None:
        self.relu, self.below, self.jump = relu, below, above - below
        self.points = points if points.ndim == 3 else blocked(points)
        self.inputs, (_, p, _) = np.array(inputs), self.points.shape
        self.weights, self.linear = (np.zeros_like(self.points[:, 0]) for _ in range(2))
        self.moment, self.predictions = np.zeros(p), np.zeros(len(inputs))

    def set_inputs(self, inputs: Floats) -> None:
        """Take other data, as many as before; inputs (n_data, p)."""
        self.relu.set_inputs(inputs)
        self.inputs[:] = inputs

    # einsum, not BLAS: its threads would fight with the kernels’

    def forward(self, weights: Floats, out: Floats) -> None:
        """h_i = Σ_c weights_c φ(θ_c, x_i); weights (n_points,), out (n_data,)."""
        self.relu.forward(weights, out)
        self.weights.reshape(-1)[: len(weights)] = weights
        np.einsum("bac,bc->a", self.points, self.weights, out=self.moment)
        self.moment *= self.below
        np.einsum("ia,a->i", self.inputs, self.moment, out=self.predictions)
        out *= self.jump
        out += self.predictions

    def adjoint(self, loss_gradient: Floats, out: Floats) -> None:
        """J_c = Σ_i loss_gradient_i φ(θ_c, x_i); loss_gradient (n_data,), out (n_points,)."""
        self.relu.adjoint(loss_gradient, out)
        self._add_linear(loss_gradient, out)

    def gradient(self, loss_gradient: Floats, potential: Floats, gradient: Floats) -> None:
        """J_c, and G_c = Σ_i loss_gradient_i ψ′(θ_c·x_i) x_i; potential (n_points,), gradient
        blocked like `points`."""
        self.relu.gradient(loss_gradient, potential, gradient)
        self._add_linear(loss_gradient, potential)
        gradient *= self.jump
        gradient += self.moment[:, None]

    def _add_linear(self, loss_gradient, out):
        """Make J of that of ReLU; `moment` becomes b Σ_i loss_gradient_i x_i."""
        np.einsum("i,ia->a", loss_gradient, self.inputs, out=self.moment)
        self.moment *= self.below
        np.einsum("bac,a->bc", self.points, self.moment, out=self.linear)
        out *= self.jump
        out += self.linear.reshape(-1)[: len(out)]
