"""Slope limiters: the limited half-difference of an upstream difference a and a downstream
difference b.

The face value is ν_upwind + ½ limited(a, b). Every limiter obeys |limited| ≤ 2 min(|a|, |b|) and
vanishes when a b ≤ 0, which is what positivity and the maximum principle ask of it (Sweby 1984,
SIAM J. Numer. Anal. 21, sec. 3). At a Courant number λ < 1 they ask for less on the upstream side,
|limited| ≤ 2|a|/λ; `ultimate` takes that (Leonard 1991, Comput. Methods Appl. Mech. Eng. 88, 17).
"""

from ...arguments import check_choice
from ...compiled import njit

LIMITERS = {"first-order": -1, "minmod": 0, "van-leer": 1, "mc": 2, "koren": 3, "ultimate": 4}
LEAST_COURANT = 0.02  # below it, bounds of `ultimate` grow no further


def limiter_code(name: str) -> int:
    """The number by which kernels know a limiter; raises ValueError with the choices for an unknown
    name."""
    check_choice("limiter", name, LIMITERS)
    return LIMITERS[name]


@njit(inline="always")
def limited(code, a, b, courant=1.0):
    """For a, b > 0 — minmod: min(a, b);  van Leer: 2ab/(a+b);  MC: min(2a, (a+b)/2, 2b);  Koren:
    min(2a, (a+2b)/3, 2b);  ultimate: min(2a/λ, (a+2b)/3, 2b), λ the Courant number, at least
    LEAST_COURANT."""
    if a * b <= 0.0:
        return 0.0
    if code == 0:
        return a if abs(a) < abs(b) else b
    if code == 1:
        return 2.0 * a * b / (a + b)
    slope = 0.5 * (a + b) if code == 2 else (a + 2.0 * b) / 3.0
    if code == 4:
        a /= min(max(courant, LEAST_COURANT), 1.0)
    steepest = 2.0 * a if abs(a) < abs(b) else 2.0 * b
    return slope if abs(slope) < abs(steepest) else steepest
