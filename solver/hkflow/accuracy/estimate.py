"""How far numbers on a mesh may be from their limit, judged by the same numbers on coarser
meshes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..arguments import Floats

FACTOR, WIDE = 1.25, 3.0  # safety where the observed order is one that is expected, and where not
LARGEST_ORDER = 8.0
ABOVE = 1.0  # how far beyond what is expected an order may be seen, and below it of few points
FAR = 1.5  # safety where sets of far fewer points tell, and the order is trusted farther
ROUNDING = 1e-6  # of the largest bar: how far results are apart that agree, as at the start
EQUAL = 1e-13  # of a quantity: how far results are apart that are equal but for rounding
STUDENT = 3.182  # 95 % of a t-distribution of 3 degrees of freedom, as 4 batches have


@dataclass(frozen=True, eq=False)
class Spread:
    """An error bar (n_saves,), the observed order (nan if unknown), and a verdict in words."""

    bar: Floats
    order: float
    verdict: str


def rms(values: Floats) -> Floats:
    """Root mean square of the rows, (n,) of (n, k)."""
    return np.sqrt(np.mean(values**2, axis=1))


def of_difference(ratio: float, power: float = 0.5) -> float:
    """Times the difference that a tolerance `ratio` times as large makes: the error, if it falls
    like tolerance^power. ½ is the least that steppers have shown, ¼ of those that do not know of
    the kinks which they step over."""
    return FACTOR / abs(1.0 - ratio**power)


def extrapolated(
    values: Sequence[Floats], widths: Sequence[float], band: tuple[float, float]
) -> Spread:
    """The error bar of the first of two or three results, by Richardson's extrapolation.

        bar = s |f₁ − f₂| h₁^p / (h₂^p − h₁^p)
        (h₄^p − h₂^p) / (h₂^p − h₁^p) = |f₂ − f₄| / |f₁ − f₂|

    |·| is the root mean square over components. The order p is that of all saves together, within
    the band that is expected; s = 1.25, and 3 with two results or an order below the band (Roache
    1998; ASME V&V 20). Where f₁ − f₂ is smaller than f₂ − f₄ and the highest order allow, f₁ and f₂
    are equal by chance: the latter counts; and so do the saves beside each.

    values : (n_saves, k) each, finest first;  widths : of their meshes;  band : orders expected
    """
    first = rms(values[0] - values[1])
    low, high = band
    if len(values) == 2:
        bar = beside(first, rms(values[0])) * _share(widths, high)
        return Spread(WIDE * bar, np.nan, "one companion tells no order")
    second = rms(values[1] - values[2])
    found = _order(widths, np.linalg.norm(first), np.linalg.norm(second))
    order = float(np.clip(found, low, high)) if found == found else high
    least = second * _ratio(widths, high)
    bar = beside(np.maximum(first, least), rms(values[0])) * _share(widths, order)
    safety = WIDE if found < low else FACTOR
    found = np.nan if _are_equal(first, second, values[0]) else found
    return Spread(safety * bar, found, _verdict(found, low, high))


def of_points(
    values: Sequence[Floats],
    widths: Sequence[float],
    band: tuple[float, float],
    order: float,
    safety: float = FACTOR,
) -> Spread:
    """The error bar of the first of two or three results with sets of points.

        bar = s max_k |f₁ − f_k| h₁^p / (h_k^p − h₁^p),    k = 2, 4

    Every set is too good or too bad by chance, and orders seen of three are off by about 1. So p is
    given; s is the safety, and 3 where the observed order is more than 1 below the band. The saves
    beside each count, too. Two results are `extrapolated`.

    values, widths, band : as of `extrapolated`;  order : p
    """
    if len(values) == 2:
        return extrapolated(values, widths, band)
    low, high = band
    first, whole = rms(values[0] - values[1]), rms(values[0] - values[2])
    second = rms(values[1] - values[2])
    found = _order(widths, np.linalg.norm(first), np.linalg.norm(second))
    bar = np.maximum(first * _share(widths, order), whole * _share(widths[::2], order))
    safety = WIDE if found < low - ABOVE else safety
    found = np.nan if _are_equal(first, second, values[0]) else found
    return Spread(safety * beside(bar, rms(values[0])), found, _verdict(found, low, high, ABOVE))


def beside(bar: Floats, sizes: Floats) -> Floats:
    """The larger of every bar and those of the saves before and after, the latter relative to what
    has grown until then; at the first save, where nothing has moved, its own. Where bars are 0
    until some save, as `until_they_part`.

    sizes : (n_saves,) of the quantity, as `rms`
    """
    wider = bar.copy()
    wider[1:] = np.maximum(wider[1:], bar[:-1])
    wider[1:-1] = np.maximum(wider[1:-1], bar[2:] * _grown(sizes)[1:])
    return until_they_part(wider, sizes)


def until_they_part(bar: Floats, sizes: Floats) -> Floats:
    """Where bars are 0 until some save, as those of runs that have taken the same steps so far, its
    bar is that of all saves before but the first, relative to what has grown.

    sizes : (n_saves,) of the quantity, or of its change since the start
    """
    wider, grown = bar.copy(), _grown(sizes)
    for k in range(int(np.argmax(wider > 0.0)) - 1, 0, -1):
        wider[k] = wider[k + 1] * grown[k]
    return wider


def _grown(sizes):
    """The largest size until every save but the last over that until the next one."""
    largest = np.maximum.accumulate(sizes)
    ones = np.ones(len(sizes) - 1)
    return np.divide(largest[:-1], largest[1:], where=largest[1:] > 0.0, out=ones)


def _verdict(order, low, high, below=0.0):
    if np.isnan(order):
        return "companions agree"
    if order < low - below:
        expected = f"{low:g} to {high:g}" if low < high else f"{low:g}"
        return f"not in the asymptotic range: order {order:.1f}, expected {expected}"
    if order > high + ABOVE:
        return f"not sure: order {order:.1f}, above {high:g}"
    return f"in the asymptotic range: order {order:.1f}"


def _share(widths, order):
    """h₁^p / (h₂^p − h₁^p)."""
    return 1.0 / ((widths[1] / widths[0]) ** order - 1.0)


def _ratio(widths, order):
    """(h₂^p − h₁^p) / (h₄^p − h₂^p), of one order p or of several."""
    one, two, four = (np.power(width / widths[1], order) for width in widths[:3])
    return (two - one) / (four - two)


def _are_equal(first, second, values):
    """Whether |f₁ − f₂| and |f₂ − f₄|, (n_saves,), are the rounding of values (n_saves, k), which
    has no order."""
    apart = max(np.linalg.norm(first), np.linalg.norm(second))
    return apart <= EQUAL * np.linalg.norm(rms(values))


def _order(widths, first, second):
    """The p at which |f₁ − f₂| / |f₂ − f₄| is what widths make of it; nan if both are 0."""
    if not second > 0.0:
        return np.nan if not first > 0.0 else -LARGEST_ORDER
    orders = np.linspace(-LARGEST_ORDER, LARGEST_ORDER, 3201) + 1e-9  # at 0 both sides are 0
    ratios = _ratio(widths, orders)
    return float(orders[np.argmin(np.abs(np.log(ratios) - np.log(max(first / second, 1e-300))))])


def compared(bar: Floats, apart: Floats, own: Floats) -> tuple[Floats, bool]:
    """A bar, corrected by an independent result, and whether that disagrees anywhere.

        |f − truth| ≤ |f − g| + |g − truth|

    The right-hand side takes the bar's place where it is smaller, and where the two results are
    farther apart than either bar explains.

    bar : (n_saves,) space and time together;  apart : (n_saves,) what the two results differ by;
    own : (n_saves,) bar of the independent one
    """
    disagrees = apart > np.maximum(own, bar) + ROUNDING * bar.max(initial=0.0)
    return np.where(disagrees, apart + own, np.minimum(bar, apart + own)), bool(disagrees.any())


def of_batches(value: Floats, batches: Sequence[Floats], share: float) -> Spread:
    """The error bar of a result with random points, by results with disjoint parts of them.

        bar = t √share · std(batches) + share |mean(batches) − f| / (1 − share)

    value : (n_saves, k);  batches : of the same shape, 4 of them;  share : of the points that each
        has;  t : 95 % of Student's distribution
    """
    found = np.array(batches)
    scatter = np.sqrt(share) * rms(found.std(axis=0, ddof=1))
    bias = share / (1.0 - share) * rms(found.mean(axis=0) - value)
    return Spread(STUDENT * scatter + bias, np.nan, "by the scatter of random parts")
