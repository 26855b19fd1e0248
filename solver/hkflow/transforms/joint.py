"""Sums for features with an output weight, φ = b ψ(a·x) with θ = (a, b): those of ψ, weighted with b."""

import numpy as np

from .dense import DenseTransform, blocked


class JointTransform:
    """All sums for φ((a, b), x) = b ψ(a, x), from a transform of ψ.

    points : (n_points, p+1), the last coordinate is b;  inputs : (n_data, p);  kernel : of ψ, see DenseTransform
    `points`, (n_blocks, p+1, width), may be overwritten in place before `forward`, which reads it
    """

    def __init__(self, points, inputs, kernel):
        self.points, self.n = blocked(points), len(points)
        self.hidden = DenseTransform(np.ascontiguousarray(self.points[:, :-1]), inputs, kernel)
        self.output, self.work = np.zeros(self.n), np.zeros(self.n)
        self.inner = np.zeros_like(self.hidden.points)
        self._read()

    def _read(self):
        self.hidden.points[:] = self.points[:, :-1]
        self.output[:] = self.points[:, -1].reshape(-1)[: self.n]

    def set_inputs(self, inputs):
        """Take other data, as many as before; inputs (n_data, p)."""
        self.hidden.set_inputs(inputs)

    def forward(self, weights, out):
        """h_i = Σ_c weights_c b_c ψ(a_c, x_i); weights (n_points,), out (n_data,)."""
        self._read()
        np.multiply(weights, self.output, out=self.work)
        self.hidden.forward(self.work, out)

    def adjoint(self, residuals, out):
        """J_c = b_c Σ_i residuals_i ψ(a_c, x_i); residuals (n_data,), out (n_points,)."""
        self.hidden.adjoint(residuals, out)
        out *= self.output

    def gradient(self, residuals, potential, gradient):
        """J_c, and G_c = (b_c Σ_i residuals_i ∇ψ(a_c, x_i), Σ_i residuals_i ψ(a_c, x_i)), blocked like `points`."""
        self.hidden.gradient(residuals, potential, self.inner)
        np.multiply(self.inner, self.points[:, -1:], out=gradient[:, :-1])
        gradient[:, -1] = 0.0
        flat = gradient[:, -1].reshape(-1).copy()
        flat[: self.n] = potential
        gradient[:, -1] = flat.reshape(gradient[:, -1].shape)
        potential *= self.output


def joint_matrix(matrix):
    """φ on all pairs, (n_data, n_points), from that of ψ."""
    return lambda points, inputs: matrix(points[:, :-1], inputs) * points[:, -1]
