"""Strong-stability-preserving Runge–Kutta methods in Shu–Osher form: convex combinations of Euler
steps."""

from dataclasses import dataclass

import numpy as np

from ...arguments import Floats


@dataclass(frozen=True)
class Tableau:
    """Stages u ← keep·u₀ + (1 − keep) (u + dt L(u)), one per entry of `keep`; u₀ is the state
    before the step.

    Every stage is a convex combination of Euler steps of size dt, so what an Euler step preserves,
    the method preserves.
    Raises ValueError on construction unless the order conditions hold up to `order`.
    """

    name: str
    order: int
    keep: tuple

    def __post_init__(self):
        if any(not 0.0 <= k < 1.0 for k in self.keep):
            raise ValueError(
                f"{self.name} is not a convex combination of Euler steps: keep = {self.keep}."
            )
        A, b = self.butcher()
        c = A.sum(axis=1)
        conditions = [
            ("b·1", b.sum(), 1.0),
            ("b·c", b @ c, 1 / 2),
            ("b·c²", b @ c**2, 1 / 3),
            ("b·Ac", b @ A @ c, 1 / 6),
        ]
        for name, value, wanted in conditions[: (0, 1, 2, 4)[self.order]]:
            if abs(value - wanted) > 1e-14:
                raise ValueError(
                    f"{self.name} is not of order {self.order}: {name} is {value:.6g}, not"
                    f" {wanted:.6g}."
                )

    def butcher(self) -> tuple[Floats, Floats]:
        """The same method as a Butcher matrix A and weights b."""
        n = len(self.keep)
        rows = np.zeros((n + 1, n))
        for i, keep in enumerate(self.keep):
            rows[i + 1] = (1.0 - keep) * (rows[i] + np.eye(n)[i])
        return rows[:n], rows[n]

    @property
    def weights(self) -> Floats:
        """The quadrature weights b of the stages."""
        return self.butcher()[1]


def stability_limit(A: Floats, b: Floats) -> float:
    """Largest z ≤ 20 up to which |R(−z)| ≤ 1, R(z) = 1 + z bᵀ(1 − zA)⁻¹1 the factor of a
    Runge–Kutta step for ẏ = λy.

    A : (s, s) strictly lower triangular;  b : (s,)
    """
    powers = [np.ones(len(b))]  # R is the polynomial with coefficients b·Aᵏ1
    for _ in range(len(b) - 1):
        powers.append(A @ powers[-1])
    R = np.polynomial.Polynomial([1.0, *(b @ power for power in powers)])
    z = np.linspace(0.0, 20.0, 20001)
    return float(z[np.argmax(np.abs(R(-z)) > 1.0 + 1e-9) - 1])


SSPRK1 = Tableau("ssprk1", 1, (0.0,))
SSPRK2 = Tableau("ssprk2", 2, (0.0, 1 / 2))
SSPRK3 = Tableau("ssprk3", 3, (0.0, 3 / 4, 1 / 3))
