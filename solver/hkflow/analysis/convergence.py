"""Observed orders of convergence: between neighbours, and by least squares with a confidence
interval."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..arguments import Floats
from ..shown import Shown, counted

CONFIDENCE = 0.95


class Fit(NamedTuple):
    """A fitted order and the ends of its 95 % confidence interval, nan where there is too little to
    tell."""

    order: float
    low: float
    high: float


@dataclass(frozen=True, eq=False, repr=False)
class ConvergenceTable(Shown):
    """What `convergence_table` found.

    h : (n,) mesh widths, steps, or one over numbers;  errors, bars : (n,) each, and their relative
        standard error
    orders : (n − 1,) between neighbours;  fit : of all
    """

    h: np.ndarray
    errors: np.ndarray
    bars: np.ndarray
    orders: np.ndarray
    fit: Fit

    def __repr__(self):
        return f"<ConvergenceTable: {counted(len(self.h), 'error')}, {self._fitted()}>"

    def _fitted(self):
        order, low, high = self.fit
        known = f" (95 %: {low:.2f} to {high:.2f})" if low == low else ""
        return f"order {order:.2f}{known}"

    def _facts(self):
        orders = ["", *(f", order {order:.2f}" for order in self.orders)]
        rows = zip(self.h, self.errors, orders, strict=True)
        return {f"h = {h:.4g}": f"error {e:.3e}{said}" for h, e, said in rows} | {
            "least squares": self._fitted()
        }


def convergence_table(h: ArrayLike, errors: ArrayLike) -> ConvergenceTable:
    """Orders p of errors ≈ C h^p.

    h : (n,) positive, n ≥ 2, in any order, none twice
    errors : (n,), or (n, repeats) of independent repetitions, which are taken together by their
        root mean square
    The interval is that of the regression of log error on log h: Student's t on the scatter about
    the line, which holds what no power law explains; for three repeats or more it follows from
    their own scatter, weighted least squares by the delta method. An error of 0 or nan has no
    order: its neighbours' are nan, and the fit leaves it out.
    Raises ValueError for fewer than two different h, or h that are not positive.
    """
    h, errors = np.asarray(h, dtype=float), np.asarray(errors, dtype=float)
    if len(h) < 2 or len(np.unique(h)) < len(h) or not (h > 0.0).all():
        raise ValueError(f"Orders need two or more different h > 0, got {h.tolist()}.")
    if errors.shape[:1] != h.shape:
        raise ValueError(
            f"{len(h)} values of h need as many errors, got an array of shape {errors.shape}."
        )
    bars = np.full(len(h), np.nan)
    if errors.ndim == 2:
        squares = errors**2
        errors = np.asarray(np.sqrt(squares.mean(axis=1)))
        if squares.shape[1] > 2:
            bars = 0.5 * squares.std(axis=1, ddof=1) / np.sqrt(squares.shape[1]) / errors**2
    with np.errstate(divide="ignore", invalid="ignore"):
        x, y = np.log(h), np.log(errors)
        orders = np.diff(y) / np.diff(x)
    orders[~np.isfinite(orders)] = np.nan
    return ConvergenceTable(h, errors, bars, orders, _fit(x, y, bars))


def _fit(x, y, bars):
    """The slope of y on x; bars : the standard deviations of y, nan if unknown."""
    known = np.isfinite(y)
    x, y, bars = x[known], y[known], bars[known]
    if len(x) < 2:
        return Fit(np.nan, np.nan, np.nan)
    from scipy.stats import norm, t  # a third of a second

    weighted = bool((bars > 0.0).all())
    weights = bars**-2.0 if weighted else np.ones(len(x))
    x = x - weights @ x / weights.sum()
    spread = weights @ x**2
    slope = weights @ (x * y) / spread
    if weighted:
        reach = norm.ppf(0.5 + 0.5 * CONFIDENCE) / np.sqrt(spread)
    elif len(x) > 2:
        misfit = y - y.mean() - slope * x
        reach = t.ppf(0.5 + 0.5 * CONFIDENCE, len(x) - 2) * np.sqrt(
            misfit @ misfit / (len(x) - 2) / spread
        )
    else:
        reach = np.nan
    return Fit(float(slope), float(slope - reach), float(slope + reach))


def mean_and_band(values: ArrayLike) -> tuple[Floats, Floats]:
    """Mean of independent repeats and half the width of its 95 % confidence interval, by Student's
    t; values : (…, repeats)."""
    from scipy.stats import t

    values = np.asarray(values, dtype=float)
    count = values.shape[-1]
    reach = t.ppf(0.5 + 0.5 * CONFIDENCE, count - 1) / np.sqrt(count)
    return values.mean(axis=-1), reach * values.std(axis=-1, ddof=1)
