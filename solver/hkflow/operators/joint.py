"""Sums for features with output weights, φ = b ψ(a·x) with θ = (a, b): those of ψ, weighted with
b, a number or a vector of R^k."""

from collections.abc import Callable
from functools import partial

import numpy as np

from ..arguments import Floats
from .dense import DenseOperator, blocked


class JointOperator:
    """All sums for φ((a, b), x) = b ψ(a·x) ∈ R^k, from an operator of ψ: k sums of ψ each.

    points : (n_points, p+k), the last coordinates are b, or blocked; kept blocked as `points`,
        which may be overwritten in place
    inputs : (n_data, p);  activation : of ψ, see DenseOperator;  outputs : k

        points[block, :, c]     a_1 … a_p | b_1 … b_k    gradient[block, :, c]
                                 hidden     outputs          Σ_l b_l ∂J_l/∂a | J_1 … J_k
                                                         with J_l the potential of ψ of output l
    Predictions and loss gradients of k outputs lie datum by datum, (n_data · k,).
    """

    def __init__(self, points: Floats, inputs: Floats, activation: int, outputs: int = 1) -> None:
        self.points = points if points.ndim == 3 else blocked(points)
        self.k, p = outputs, self.points.shape[1] - outputs
        self.hidden = DenseOperator(np.ascontiguousarray(self.points[:, :p]), inputs, activation)
        self.output, self.weights = (np.zeros_like(self.points[:, -1]) for _ in range(2))
        self.inner = np.zeros_like(self.hidden.points)
        self.one = np.zeros(len(inputs))  # h or r of one output
        self.total = np.zeros_like(self.output)

    def set_inputs(self, inputs: Floats) -> None:
        """Take other data, as many as before; inputs (n_data, p)."""
        self.hidden.set_inputs(inputs)

    def _read(self, output, n):
        """Take the points as they are now; returns b of an output, (n,)."""
        p = self.points.shape[1] - self.k
        if output == 0:
            self.hidden.points[:] = self.points[:, :p]
        self.output[:] = self.points[:, p + output]
        return self.output.reshape(-1)[:n]

    def forward(self, weights: Floats, out: Floats) -> None:
        """h_i = Σ_c weights_c b_c ψ(a_c·x_i); weights (n_points,), out (n_data · k,)."""
        n = len(weights)
        weighted = self.weights.reshape(-1)[:n]
        for output in range(self.k):
            np.multiply(weights, self._read(output, n), out=weighted)
            self.hidden.forward(weighted, self.one)
            out[output :: self.k] = self.one

    def adjoint(self, loss_gradient: Floats, out: Floats) -> None:
        """J_c = Σ_l b_cl Σ_i loss_gradient_il ψ(a_c·x_i); loss_gradient (n_data · k,), out
        (n_points,)."""
        total = self.total.reshape(-1)[: len(out)]
        for output in range(self.k):
            b = self._read(output, len(out))
            self.one[:] = loss_gradient[output :: self.k]
            self.hidden.adjoint(self.one, out)
            out *= b
            if output == 0:
                total[:] = out
            else:
                total += out
        out[:] = total

    def gradient(self, loss_gradient: Floats, potential: Floats, gradient: Floats) -> None:
        """J_c, and G_c = (Σ_l b_cl Σ_i loss_gradient_il ψ'(a_c·x_i) x_i, Σ_i loss_gradient_i
        ψ(a_c·x_i)), blocked like `points`."""
        p = self.points.shape[1] - self.k
        total = self.total.reshape(-1)[: len(potential)]
        for output in range(self.k):
            b = self._read(output, len(potential))
            self.one[:] = loss_gradient[output :: self.k]
            self.hidden.gradient(self.one, potential, self.inner)
            self.inner *= self.points[:, p + output, None]
            if output == 0:
                gradient[:, :p] = self.inner
            else:
                gradient[:, :p] += self.inner
            gradient[:, p + output] = self.hidden.potential
            potential *= b
            if output == 0:
                total[:] = potential
            else:
                total += potential
        potential[:] = total


def joint_matrix(
    matrix: Callable[[Floats, Floats], Floats], outputs: int = 1
) -> Callable[[Floats, Floats], Floats]:
    """φ on all pairs, (n_data · k, n_points), from that of ψ."""
    return partial(_joint, matrix, outputs)


def _joint(matrix, outputs, points, inputs):
    p = points.shape[1] - outputs
    values = matrix(points[:, :p], inputs)
    return (values[:, None] * points[:, p:].T).reshape(-1, len(points))
