"""Sums over a smooth function of θ·x on the circle and S², by harmonics.

    ψ(θ·x) = Σ_lm λ_l(|x|) Y_lm(x / |x|) Y_lm(θ)      (Funk and Hecke)

ψ is a polynomial of some degree, to rounding, between ±|x|, so that harmonics up to this degree are
all. Cost of a sum: that over the harmonics at the points, and a product with the stored numbers
λ_l Y_lm of the data.
"""

from collections.abc import Callable

import numpy as np

from ..arguments import Floats
from .dense import blocked, unblocked
from .harmonics import Harmonics, projection_on_degrees
from .matrix import MatrixOperator


class HarmonicOperator:
    """Both sums over a smooth ψ(θ·x) and points of the circle or S² that stay, by harmonics.

    points : (n_points, p) unit vectors;  inputs : (n_data, p)
    ridge : s -> (ψ(s), ψ′(s)), of arrays;  degree : of the polynomial that ψ is to rounding on all
        θ·x
    Memory: 8 n_data n_harmonics bytes.
    """

    def __init__(self, points: Floats, inputs: Floats, ridge: Callable, degree: int) -> None:
        self.harmonics, self.ridge = Harmonics(points, degree), ridge
        self.moments = np.zeros(len(self.harmonics.degrees))
        self.set_inputs(inputs)

    def set_inputs(self, inputs: Floats) -> None:
        """Take other data, as many as before, on which ψ is of the same degree; inputs (n_data,
        p)."""
        radii = np.hypot.reduce(inputs, axis=1)  # squares of tiny inputs are 0
        t, projection = projection_on_degrees(len(self.harmonics.tops) - 1, inputs.shape[1])
        # not BLAS: its bits may depend on its threads
        eigenvalues = np.einsum("it,lt->li", self.ridge(radii[:, None] * t)[0], projection)
        numbers = self.harmonics.values(inputs / np.where(radii > 0.0, radii, 1.0)[:, None])
        for row, degree in zip(numbers, self.harmonics.degrees, strict=True):
            row *= eigenvalues[degree]
        self.of_data = MatrixOperator(numbers)

    def forward(self, weights: Floats, out: Floats) -> None:
        """h_i = Σ_c weights_c ψ(θ_c·x_i); weights (n_points,), out (n_data,)."""
        self.harmonics.forward(weights, self.moments)
        self.of_data.adjoint(self.moments, out)

    def adjoint(self, loss_gradient: Floats, out: Floats) -> None:
        """J_c = Σ_i loss_gradient_i ψ(θ_c·x_i); loss_gradient (n_data,), out (n_points,)."""
        self.of_data.forward(loss_gradient, self.moments)
        self.harmonics.adjoint(self.moments, out)


class MovingHarmonicOperator(HarmonicOperator):
    """The same for unit vectors that move, with gradients along the sphere.

    points : (n_points, p), or blocked: then kept as `points`, which may be overwritten in place
    """

    def __init__(self, points: Floats, inputs: Floats, ridge: Callable, degree: int) -> None:
        self.points = points if points.ndim == 3 else blocked(points)
        super().__init__(self._all(), inputs, ridge, degree)

    def _all(self):
        """The points, padding included, (n, p)."""
        return unblocked(self.points, self.points.shape[0] * self.points.shape[2])

    def forward(self, weights: Floats, out: Floats) -> None:
        """h_i = Σ_c weights_c ψ(θ_c·x_i); weights (n_points,), out (n_data,)."""
        self.harmonics.move(self._all())
        super().forward(weights, out)

    def gradient(self, loss_gradient: Floats, potential: Floats, gradient: Floats) -> None:
        """J_c = Σ_i loss_gradient_i ψ(θ_c·x_i), (n_points,), and the part of G_c = Σ_i
        loss_gradient_i ψ′(θ_c·x_i) x_i along the sphere, blocked like the points."""
        points = self._all()
        self.harmonics.move(points)
        self.adjoint(loss_gradient, potential)
        along = self.harmonics.gradients(self.moments, points)
        gradient[:] = blocked(along, gradient.shape[2])
