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
    their own scatter, by the jackknife and Student's t with the freedom of Welch and Satterthwaite.
    An error of 0 or nan has no order: its neighbours' are nan, and the fit leaves it out.
    Raises ValueError for fewer than two different h, h that are not positive, and errors of another
    shape.
    """
    h, errors = np.asarray(h, dtype=float), np.asarray(errors, dtype=float)
    if len(h) < 2 or len(np.unique(h)) < len(h) or not (h > 0.0).all():
        raise ValueError(f"Orders need two or more different h > 0, got {h.tolist()}.")
    if errors.shape[:1] != h.shape or errors.ndim > 2 or not errors.size:
        raise ValueError(
            f"{len(h)} values of h need as many errors, got an array of shape {errors.shape}."
        )
    bars, repeats = np.full(len(h), np.nan), 1
    if errors.ndim == 2:
        squares, repeats = errors**2, errors.shape[1]
        errors = np.asarray(np.sqrt(squares.mean(axis=1)))
        if repeats > 2:
            bars = _jackknife(squares)
    with np.errstate(divide="ignore", invalid="ignore"):
        x, y = np.log(h), np.log(errors)
        orders = np.diff(y) / np.diff(x)
    orders[~np.isfinite(orders)] = np.nan
    return ConvergenceTable(h, errors, bars, orders, _fit(x, y, bars, repeats))


def _jackknife(squares):
    """Standard errors (n,) of log √(mean of each row), from rows that lack one number each; nan
    where such a row is 0."""
    n, repeats = squares.shape
    left_out = np.empty((n, repeats))
    for k in range(repeats):
        left_out[:, k] = np.delete(squares, k, axis=1).mean(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return 0.5 * np.log(left_out).std(axis=1) * np.sqrt(repeats - 1)


def _fit(x, y, bars, repeats):
    """The slope of y on x; bars : the standard errors of y, each of so many repeats, nan if
    unknown."""
    known = np.isfinite(y)
    x, y, bars = x[known], y[known], bars[known]
    if len(x) < 2:
        return Fit(np.nan, np.nan, np.nan)
    from scipy.stats import t  # a third of a second

    x = x - x.mean()
    share = x / (x @ x)
    slope, freedom, scatter = share @ y, len(x) - 2, np.nan
    if (bars > 0.0).all():
        parts = (share * bars) ** 2
        scatter, freedom = np.sqrt(parts.sum()), parts.sum() ** 2 / (parts @ parts) * (repeats - 1)
    elif freedom > 0:
        misfit = y - y.mean() - slope * x
        scatter = np.sqrt(misfit @ misfit / freedom / (x @ x))
    reach = t.ppf(0.5 + 0.5 * CONFIDENCE, freedom) * scatter if scatter == scatter else np.nan
    return Fit(float(slope), float(slope - reach), float(slope + reach))


def mean_and_band(values: ArrayLike) -> tuple[Floats, Floats]:
    """Mean of independent repeats and half the width of its 95 % confidence interval, by Student's
    t; values : (…, repeats)."""
    from scipy.stats import t

    values = np.asarray(values, dtype=float)
    count = values.shape[-1]
    reach = t.ppf(0.5 + 0.5 * CONFIDENCE, count - 1) / np.sqrt(count)
    return values.mean(axis=-1), reach * values.std(axis=-1, ddof=1)
