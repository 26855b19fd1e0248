"""Interactions: a grid's step on S², whose sums go by harmonics, against one by the tree transform
of 4096 data on the same cells, and the sums over all pairs of particles against DGEMM."""

from functools import partial

import numpy as np

from .machine import dgemm
from .timing import Row, alternate, ratio

LEVEL, DATA, KAPPAS, GOAL = 6, 4096, (4.0, 9.0, 25.0), 3.0
PARTICLES, SIZE, AXES, LEAST = 4000, 768, (4, 10, 100), 1.0


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


def all_pairs(n, size, axes, repeats):
    """The row of J and its gradient by e^(4(t − 1)): θ·θ′ takes 2p operations for each pair, K and
    K′ three for each degree, J and G 2 + 2p."""
    import hkflow

    rng, one = np.random.default_rng(0), hkflow.Interaction("exponential", -1.0, concentration=4.0)
    points, masses, kernel = rng.normal(size=(n, axes)), rng.random(n) / n, one.zonal
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    sums = partial(hkflow.Sum(one, axes=axes).at_moving_points(points).evaluate, masses)
    times = alternate([sums, dgemm(size)], repeats)
    work = n * n * (4 * axes + 2 + 6 * kernel.degree) / (2.0 * size**3)
    speed = {key: value * work for key, value in ratio(times[:, 1], times[:, 0]).items()}
    return Row(
        f"interaction of {n:,} particles in R^{axes}",
        1e-6 * n * n / np.median(times[:, 0]),
        "M pairs/s",
        **speed,
        goal=(">=", LEAST),
        note=f"degree {kernel.degree}; operations per second / DGEMM's",
    )


def rows(threads, quick):
    """Steps on one thread; sums over pairs on any number."""
    repeats = 5 if quick else 15
    if threads == 1:
        yield from steps(2 if quick else LEVEL, 64 if quick else DATA, repeats)
    for axes in AXES:
        yield all_pairs(*((500, 256) if quick else (PARTICLES, SIZE)), axes, repeats)
