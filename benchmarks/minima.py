"""Minima with weight decay: of few data in many inputs the time in all coordinates, over that in
the span of the data; and of least-norm interpolations of noise the time with programmes that go on
without a better bound, over that of those that end."""

from contextlib import suppress
from functools import partial
from unittest.mock import patch

import numpy as np

from .timing import Row, alternate, ratio, seconds

SIGNS = (1, -1)


def noise(n, inputs, seed, decay=0.0):
    """Standard normal data and targets, which ReLU units are to learn."""
    import hkflow

    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(n, inputs)), rng.normal(size=n)
    relu, square = hkflow.FEATURES["relu"], hkflow.RISKS["square"]
    return hkflow.Objective(relu, square, hkflow.with_bias(x), y, weight_decay=decay)


def rows(threads, quick):
    """Minima in the span, then interpolations."""
    yield from in_span(((10, 100),) if quick else ((10, 100), (15, 60)))
    yield interpolations((3,) if quick else range(5))


def in_span(sizes):
    """A row for each (data, inputs)."""
    from hkflow.certificates import minimise, regularised

    for n, inputs in sizes:
        objective = noise(n, inputs, 0, decay=1e-3)
        found = []

        def searched(objective=objective, found=found):
            found.append(minimise(objective, SIGNS).upper)

        def everywhere(searched=searched):
            with patch.object(regularised, "span_of_data", return_value=None):
                searched()

        times = alternate([searched, everywhere], 3)
        yield Row(
            f"minimum of {n} data in {inputs} inputs",
            1e3 * float(np.median(times[:, 0])),
            "ms",
            goal=(">=", 1.5),
            note="in all coordinates it takes so many times as long; F differs by"
            f" {abs(found[1] / found[0] - 1.0):.0e}",
            **ratio(times[:, 1], times[:, 0]),
        )


def interpolations(seeds):
    """A row for draws of 60 targets in one input; how many steps they take is a matter of
    rounding."""
    from hkflow.certificates import l1_interpolation, regularised
    from hkflow.errors import HkflowError

    gaps, times, endless = [], [], []

    def interpolate(objective):
        with suppress(HkflowError):  # rounding may keep them from any measure that meets the data
            gaps.append(l1_interpolation(objective, SIGNS).gap)

    for seed in seeds:
        work = partial(interpolate, noise(60, 1, seed))
        times.append(seconds(work))
        with patch.object(regularised, "LONG_LULL", regularised.MOST_STEPS):
            endless.append(seconds(work))
    return Row(
        f"{len(times)} interpolations of 60 targets of noise",
        sum(times),
        "s",
        ratio=sum(endless) / sum(times),
        goal=(">=", 1.5),
        note="without an end of programmes they take so many times as long; median"
        f" {np.median(times):.2f} s, slowest {max(times):.1f} s, gaps up to {max(gaps):.0e}",
    )
