"""Embedded Runge–Kutta pairs: a method and estimates of its own local error."""

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

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


@cache
def _euler():
    return EmbeddedPair("euler", 1, np.zeros((1, 1)), np.ones(1), (), 1)


@cache
def _dopri5():
    """Dormand & Prince 1980."""
    rows = (
        (0, 0, 0, 0, 0, 0),
        (1 / 5, 0, 0, 0, 0, 0),
        (3 / 40, 9 / 40, 0, 0, 0, 0),
        (44 / 45, -56 / 15, 32 / 9, 0, 0, 0),
        (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729, 0, 0),
        (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656, 0),
    )
    b = 35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84
    e = -71 / 57600, 0, 71 / 16695, -71 / 1920, 17253 / 339200, -22 / 525, 1 / 40
    return EmbeddedPair("dopri5", 5, np.array(rows), np.array(b), (np.array(e),), 5)


@cache
def _dop853():
    """Hairer, Nørsett & Wanner 1993, sec. II.5."""
    from scipy.integrate import DOP853  # slow to load

    return EmbeddedPair("dop853", 8, DOP853.A, DOP853.B, (DOP853.E5, DOP853.E3), 8)


# by name, made when they are first asked for
PAIRS = {"euler": _euler, "dopri5": _dopri5, "dop853": _dop853}
