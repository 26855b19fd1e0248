"""Minima with weight decay: of few data in many inputs the time in all coordinates, over that in
the span of the data; and least-norm interpolations of targets of noise, all of their time."""

import numpy as np

from .timing import Row, alternate, ratio, seconds


def noise(n, inputs, seed, decay=0.0):
    """Standard normal data and targets, which ReLU units are to learn."""
    import hkflow

    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(n, inputs)), rng.normal(size=n)
    relu, square = hkflow.FEATURES["relu"], hkflow.RISKS["square"]
    return hkflow.Objective(relu, square, hkflow.with_bias(x), y, weight_decay=decay)


def rows(threads, quick):
    """Minima in the span, then interpolations."""
    from hkflow.certificates import l1_interpolation, minimise, regularised

    def in_all_coordinates(objective):
        span, regularised.span_of_data = regularised.span_of_data, lambda objective: None
        try:
            return minimise(objective, (1, -1))
        finally:
            regularised.span_of_data = span

    for n, inputs in ((10, 100),) if quick else ((10, 100), (15, 60)):
        objective = noise(n, inputs, 0, decay=1e-3)
        highest = minimise(objective, (1, -1)).upper
        works = [
            lambda o=objective: minimise(o, (1, -1)),
            lambda o=objective: in_all_coordinates(o),
        ]
        times = alternate(works, 3)
        yield Row(
            f"minimum of {n} data in {inputs} inputs",
            1e3 * float(np.median(times[:, 0])),
            "ms",
            goal=(">=", 1.5),
            note="in all coordinates it takes so many times as long; F differs by"
            f" {abs(in_all_coordinates(objective).upper / highest - 1.0):.0e}",
            **ratio(times[:, 1], times[:, 0]),
        )
    objectives, gaps = [noise(60, 1, seed) for seed in range(3 if quick else 10)], []
    times = [
        seconds(lambda o=one: gaps.append(l1_interpolation(o, (1, -1)).gap)) for one in objectives
    ]
    yield Row(
        f"{len(times)} interpolations of 60 targets of noise",
        float(np.median(times)),
        "s",
        goal=("<=", 1.0),
        note=f"median; the slowest takes {max(times):.1f} s, gaps up to {max(gaps):.0e}",
    )
