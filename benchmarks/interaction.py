"""Interactions: a grid's step on S², whose sums go by harmonics, against one by the tree transform
of 4096 data on the same cells, and the sums over all pairs of particles against DGEMM."""

from functools import partial

import numpy as np

from .machine import dgemm
from .timing import Row, alternate, ratio

LEVEL, DATA, KAPPAS, GOAL = 6, 4096, (4.0, 9.0, 25.0), 3.0
PARTICLES, SIZE, AXES, LEAST = 4000, 768, (4, 10, 100), 1.0
POWER = 71  # operations of a power, its derivative, and their sums


def stepper(objective, level):
    """A function that takes a step of half the stable length."""
    import hkflow

    mesh = hkflow.geodesic_mesh(level)
    start = lambda points, sign: 1.0 + 0.5 * points[:, 0]
    problem = hkflow.Problem(mesh, objective, hkflow.Flow(1.0, 0.0), initial=start)
    method = hkflow.FiniteVolume(problem, imex="explicit")

    def step():
        method.accept(method.advance(0.5 * method.largest_stable_step(1.0)))

    return step


def steps(level, n, repeats):
    """Rows of a step by e^(κ(t − 1)) over one by data, taking turns."""
    import hkflow

    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(n, 3))
    data = hkflow.Objective(
        hkflow.FEATURES["relu"], hkflow.RISKS["square"], inputs, inputs[:, 0], operator="tree"
    )
    pairs = [hkflow.Interaction("exponential", -1.0, concentration=kappa) for kappa in KAPPAS]
    works = [stepper(one, level) for one in (data, *(hkflow.Sum(one, axes=3) for one in pairs))]
    times = alternate(works, repeats, warm=2)
    for one, own in zip(pairs, times[:, 1:].T, strict=True):
        yield Row(
            f"step by an interaction, κ = {one.concentration:g}, {10 * 4**level + 2:,} cells",
            1e3 * np.median(own),
            "ms",
            **ratio(own, times[:, 0]),
            goal=("<=", GOAL),
            note=f"degree {one.zonal.degree}; time / time of a step by the tree, {n} data",
        )


def all_pairs(n, size, axes, repeats, kernel, **parameter):
    """The row of J and its gradient by one kernel: θ·θ′ takes 2p operations for each pair, or
    |θ − θ′|² 3p, K and K′ three for each degree, or POWER, J and G 2 + 2p."""
    import hkflow

    rng, one = np.random.default_rng(0), hkflow.Interaction(kernel, -1.0, **parameter)
    points, masses, zonal = rng.normal(size=(n, axes)), rng.random(n) / n, one.zonal
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    sums = partial(hkflow.Sum(one, axes=axes).at_moving_points(points).evaluate, masses)
    times = alternate([sums, dgemm(size)], repeats)
    power = len(zonal.powers) > 0
    each = 3 * axes + POWER if power else 2 * axes + 6 * zonal.degree
    work = n * n * (each + 2 * axes + 2) / (2.0 * size**3)
    speed = {key: value * work for key, value in ratio(times[:, 1], times[:, 0]).items()}
    sort = f"|θ − θ′|^{one.exponent:g}" if power else f"degree {zonal.degree}"
    return Row(
        f"interaction of {n:,} particles in R^{axes}, {kernel}",
        1e-6 * n * n / np.median(times[:, 0]),
        "M pairs/s",
        **speed,
        goal=(">=", LEAST),
        note=f"{sort}; operations per second / DGEMM's",
    )


def rows(threads, quick):
    """Steps on one thread; sums over pairs on any number."""
    repeats = 5 if quick else 15
    if threads == 1:
        yield from steps(2 if quick else LEVEL, 64 if quick else DATA, repeats)
    n, size = (500, 256) if quick else (PARTICLES, SIZE)
    for axes in AXES:
        yield all_pairs(n, size, axes, repeats, "exponential", concentration=4.0)
        yield all_pairs(n, size, axes, repeats, "riesz", exponent=1.5)
