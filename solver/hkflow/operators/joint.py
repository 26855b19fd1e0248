"""Sums for features with an output weight, φ = b ψ(a·x) with θ = (a, b): those of ψ, weighted with
b."""

from collections.abc import Callable
from functools import partial

import numpy as np

from ..arguments import Floats
from .dense import DenseOperator, blocked


class JointOperator:
    """All sums for φ((a, b), x) = b ψ(a·x), from an operator of ψ.

    points : (n_points, p+1), the last coordinate is b, or blocked; kept blocked as `points`,
        which may be overwritten in place
    inputs : (n_data, p);  activation : of ψ, see DenseOperator

        points[block, :, c]     a_1 … a_p | b            gradient[block, :, c]
                                 hidden    output         b ∂J/∂a | J   with J the potential of ψ
    """

    def __init__(self, points: Floats, inputs: Floats, activation: int) -> None:
        self.points = points if points.ndim == 3 else blocked(points)
        hidden = np.ascontiguousarray(self.points[:, :-1])
        self.hidden = DenseOperator(hidden, inputs, activation)
        self.output, self.weights = (np.zeros_like(self.points[:, -1]) for _ in range(2))
        self.inner = np.zeros_like(self.hidden.points)

    def set_inputs(self, inputs: Floats) -> None:
        """Take other data, as many as before; inputs (n_data, p)."""
        self.hidden.set_inputs(inputs)

    def _read(self, n):
        """Take the points as they are now; returns b, (n,)."""
        self.hidden.points[:] = self.points[:, :-1]
        self.output[:] = self.points[:, -1]
        return self.output.reshape(-1)[:n]

    def forward(self, weights: Floats, out: Floats) -> None:
        """h_i = Σ_c weights_c b_c ψ(a_c·x_i); weights (n_points,), out (n_data,)."""
        weighted = self.weights.reshape(-1)[: len(weights)]
        np.multiply(weights, self._read(len(weights)), out=weighted)
        self.hidden.forward(weighted, out)

    def adjoint(self, loss_gradient: Floats, out: Floats) -> None:
        """J_c = b_c Σ_i loss_gradient_i ψ(a_c·x_i); loss_gradient (n_data,), out (n_points,)."""
        b = self._read(len(out))
        self.hidden.adjoint(loss_gradient, out)
        out *= b

    def gradient(self, loss_gradient: Floats, potential: Floats, gradient: Floats) -> None:
        """J_c, and G_c = (b_c Σ_i loss_gradient_i ψ'(a_c·x_i) x_i, Σ_i loss_gradient_i ψ(a_c·x_i)),
        blocked like `points`."""
        b = self._read(len(potential))
        self.hidden.gradient(loss_gradient, potential, self.inner)
        np.multiply(self.inner, self.points[:, -1:], out=gradient[:, :-1])
        gradient[:, -1] = self.hidden.potential
        potential *= b


def joint_matrix(
    matrix: Callable[[Floats, Floats], Floats], outputs: int = 1
) -> Callable[[Floats, Floats], Floats]:
    """φ on all pairs, (n_data · k, n_points), from that of ψ."""
    return partial(_joint, matrix, outputs)


def _joint(matrix, outputs, points, inputs):
    p = points.shape[1] - outputs
    values = matrix(points[:, :p], inputs)
    return (values[:, None] * points[:, p:].T).reshape(len(inputs) * outputs, len(points))
