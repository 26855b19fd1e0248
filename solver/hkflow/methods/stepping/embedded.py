"""Embedded Runge–Kutta pairs: a method and estimates of its own local error."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.integrate import DOP853, RK45

from .tableaus import stability_limit


@dataclass(frozen=True, eq=False)
class EmbeddedPair:
    """k_i = f(y + dt Σ_j A_ij k_j), y ← y + dt Σ b_i k_i; the last entry of an estimate belongs to
    f at the new y.

    name : how case files call it;  order : of the method;  A (s, s), b (s,)
    estimates : none (fixed steps), one or two vectors (s+1,). With two, e and f, the error is
        |e|²/√(|e|² + |f|²/100) (Hairer, Nørsett & Wanner 1993, sec. II.10)
    error_order : the local error estimate shrinks like dt^error_order
    Raises ValueError on construction unless Σb = 1, b·c = ½, b·c² = ⅓, b·Ac = ⅙ as far as the order
    asks, and Σ of each estimate is 0.
    """

    name: str
    order: int
    A: np.ndarray
    b: np.ndarray
    estimates: tuple
    error_order: int

    def __post_init__(self):
        c = self.nodes[:-1]
        conditions = [
            (self.b.sum(), 1.0),
            (self.b @ c, 1 / 2),
            (self.b @ c**2, 1 / 3),
            (self.b @ self.A @ c, 1 / 6),
        ]
        conditions = conditions[: (0, 1, 2, 4)[min(self.order, 3)]] + [
            (e.sum(), 0.0) for e in self.estimates
        ]
        if any(abs(value - wanted) > 1e-13 for value, wanted in conditions):
            raise ValueError(f"{self.name} is not a method of order {self.order}: {conditions}.")

    @cached_property
    def nodes(self) -> np.ndarray:
        """Times (s+1,) of the stages and of the new y, in units of dt."""
        return np.append(self.A.sum(axis=1), 1.0)

    @cached_property
    def stability(self) -> float:
        """The largest stable dt λ, see `stability_limit`."""
        return stability_limit(self.A, self.b)


def _square(A, stages):
    out = np.zeros((stages, stages))
    out[: A.shape[0], : A.shape[1]] = A
    return out


PAIRS = {
    pair.name: pair
    for pair in (
        EmbeddedPair("euler", 1, np.zeros((1, 1)), np.ones(1), (), 1),
        EmbeddedPair("dopri5", 5, _square(RK45.A, 6), RK45.B, (RK45.E,), 5),
        EmbeddedPair("dop853", 8, DOP853.A, DOP853.B, (DOP853.E5, DOP853.E3), 8),
    )
}
