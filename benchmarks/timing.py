"""Times that mean something on a machine that is not quiet: alternating repeats, medians, ratios
within one run.

With one thread the clock is the process's own processor time, from which other programs take
nothing but cache and bandwidth.
"""

import os
import time
from dataclasses import asdict, dataclass

import numpy as np
from scipy.stats import linregress, t


@dataclass
class Row:
    """One line of the table.

    value, unit : what was measured;  ratio, low, high : how it compares, median and quartiles over
        the repeats
    goal : (">=" or "<=", number) that the ratio is to meet, or the value where there is no ratio
    note : what the ratio compares, or why there is no value
    points : ((x, y), …) for a figure
    """

    name: str
    value: float | None = None
    unit: str = ""
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    goal: tuple | None = None
    note: str = ""
    points: tuple = ()

    @property
    def met(self):
        """Whether the goal is met; None without goal or measurement."""
        found = self.value if self.ratio is None else self.ratio
        if self.goal is None or found is None:
            return None
        sign, bound = self.goal
        return bool(found >= bound if sign == ">=" else found <= bound)

    def record(self):
        """The row as a dictionary for JSON."""
        return asdict(self) | {"met": self.met}


def skipped(name, reason, goal=None):
    """The row of something that could not be measured."""
    return Row(name, goal=goal, note=f"skipped: {' '.join(str(reason).split())}")


def clock():
    """Seconds on the processor with one thread, on the wall with more."""
    return (
        time.process_time() if os.environ.get("NUMBA_NUM_THREADS") == "1" else time.perf_counter()
    )


def seconds(work, clock=clock):
    """Time of one call."""
    begin = clock()
    work()
    return clock() - begin


def alternate(works, repeats, warm=1):
    """Times of calls that take turns, (repeats, len(works)), after `warm` rounds that do not
    count."""
    for _ in range(warm):
        for work in works:
            work()
    return np.array([[seconds(work) for work in works] for _ in range(repeats)])


def ratio(above, below):
    """Median and quartiles of the quotients of paired times, as the fields of a row."""
    low, middle, high = np.percentile(np.divide(above, below), [25, 50, 75])
    return {"ratio": float(middle), "low": float(low), "high": float(high)}


def exponent(sizes, costs):
    """Slope of log cost over log size by least squares, and the half-width of its 95 % confidence
    interval."""
    fit = linregress(np.log(sizes), np.log(costs))
    return float(fit.slope), float(t.ppf(0.975, len(sizes) - 2) * fit.stderr)


def exponent_row(name, sizes, costs, goal=None, note=""):
    """The row of a measured exponent with its confidence interval."""
    slope, half = exponent(sizes, costs)
    points = tuple(zip(np.asarray(sizes).tolist(), np.asarray(costs).tolist(), strict=True))
    return Row(
        name,
        slope,
        "exponent",
        low=slope - half,
        high=slope + half,
        goal=goal,
        note=note,
        points=points,
    )
