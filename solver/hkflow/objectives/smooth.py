"""Whether a function ψ(θ·x) of a user's own is smooth on all θ·x: a polynomial to rounding."""

from collections.abc import Callable

import numpy as np
from numpy.polynomial import chebyshev

from ..arguments import Floats
from ..operators.harmonics import MAX_DEGREE
from .kernels import series_of

EXACT = 1e-12  # of how much ψ changes: what its series may be off
ROUND = 0.1  # of a constant in it: 1e-13 are the rounding of values and series
HIDDEN, SLOPES = 2**16 + 1, 1009  # values and slopes of ψ that are compared with its series
ROUGH = 1e-5  # of how much ψ changes: how far slopes may be from those of the series
OCTAVES = 64  # of the lengths of inputs, below which ψ is no other function


def values_of(ridge: Callable, s: Floats) -> Floats:
    """ψ(s) alone, of a function s -> (ψ(s), ψ′(s)). Raises ValueError for another shape than that
    of s."""
    values = np.asarray(ridge(s)[0], dtype=float)
    if values.shape != s.shape:
        raise ValueError(f"ψ has values of the shape {values.shape}, not {s.shape}")
    return values


def polynomial_degree(ridge: Callable, radii: Floats, with_slopes: bool = False) -> int | None:
    """The degree of the polynomial that ψ is to rounding between ± each of some radii (n,); None if
    it is none of a degree that harmonics have or, with slopes, if these are not its derivative.

    ridge : s -> (ψ(s), ψ′(s))
    What is rounding on a long input may be all of ψ on a short one, so ψ is looked at between ±
    radii from the longest on, each half of the one before.
    """
    longest, shortest = radii.max(initial=0.0), radii[radii > 0.0].min(initial=np.inf)
    try:
        with np.errstate(all="ignore"):
            octaves = np.log2(longest / shortest) + 1.0 if longest else 0.0
            found = [_series(ridge, longest)]
            if not _is_its_series(ridge, longest, found[0][0], with_slopes):
                return None
            shorter = range(1, 1 + int(min(octaves, OCTAVES)))
            found += [_series(ridge, longest * 0.5**k) for k in shorter]
    except Exception:  # whatever the user's function says to numbers that no θ·x may ever be
        return None
    degree = max(len(series) - 1 for series, _ in found)
    exact = all(
        error <= EXACT * (np.abs(series[1:]).sum() + ROUND * abs(series[0]))
        for series, error in found
    )
    return degree if exact and degree <= MAX_DEGREE else None


def _series(ridge, radius):
    """Chebyshev coefficients of t -> ψ(radius t), and their error, see series_of."""
    return series_of(lambda t: values_of(ridge, radius * t))


def _is_its_series(ridge, radius, series, with_slopes):
    """Whether the series of ψ between ± a radius is ψ at many points, where a spike may hide, and
    its derivative the slopes that the user gives."""
    size, t = np.abs(series[1:]).sum(), np.linspace(-1.0, 1.0, HIDDEN)
    wrong = np.abs(values_of(ridge, radius * t) - chebyshev.chebval(t, series)).max()
    if not wrong <= EXACT * size:  # or nan
        return False
    if not with_slopes:
        return True
    t = np.cos(np.linspace(0.0, np.pi, SLOPES))
    derivative = chebyshev.chebder(series) if len(series) > 1 else np.zeros(1)
    wrong = np.abs(radius * ridge(radius * t)[1] - chebyshev.chebval(t, derivative)).max()
    return wrong <= ROUGH * size
