"""The method of characteristics: errors of predictions by seeds, steps and seconds, as Markdown
tables.

Iris (cases/quickstart/iris.toml) and six random data, square loss, W (α, β = 1, 0) and HK (1, 2):
root mean square over the data, against a reference with 2 × 10242 seeds. The seeds are the cells of
geodesic meshes. Seconds are of the second of two runs, without compilation, on the processor with
NUMBA_NUM_THREADS=1, on the wall with more. Then steps and seconds with a tolerance of 1e-6 in more
dimensions, Gaussian data on a teacher of three units; and of margin flows of few heavy units, whose
loss gradients jump where kinks let a unit go. Last, flows of many atoms or data over a short time
with frozen potential, and points followed back through them.

    NUMBA_NUM_THREADS=1 python -m benchmarks.characteristics [--quick]
"""

import sys
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np

import hkflow
from hkflow.methods.characteristics.backward import followed_back
from hkflow.methods.characteristics.history import History
from hkflow.methods.frozen_relu import movement
from hkflow.methods.frozen_relu.frozen import CROSSINGS
from hkflow.methods.frozen_relu.kinks import Kinks
from hkflow.operators.dense import blocked, unblocked

from .timing import clock, seconds

REFERENCE = {"cells": 10242, "tolerance": 1e-7}
IRIS = Path(__file__).parent.parent / "cases" / "quickstart" / "iris.toml"
FLOWS = {"W": hkflow.Flow(1.0, 0.0), "HK": hkflow.Flow(1.0, 2.0)}
DIMENSIONS = (5, 50, 500), (15, 256, 1024)  # dimension, data, atoms
LARGE = (100_000, 100, 0.01), (100_000, 10_000, 0.01), (1000, 20_000, 0.3)  # atoms, data, time


def iris(cells):
    """The quickstart case with so many seeds for each sign."""
    return hkflow.check(IRIS, **{"domain.cells": cells})[1]


def six(cells, seed, flow):
    """Six Gaussian data with a bias and Gaussian targets; no symmetry, strong kinks."""
    rng = np.random.default_rng(seed)
    x, y = np.column_stack([rng.normal(size=(6, 2)), np.ones(6)]), rng.normal(size=6)
    objective = hkflow.Objective(hkflow.FEATURES["relu"], hkflow.RISKS["square"], x, y)
    return hkflow.Problem(
        hkflow.geodesic_mesh(hkflow.geodesic_level(cells)), objective, FLOWS[flow], (1, -1)
    )


def run(problem, times, tolerance):
    """A run, and how long it took."""
    begin = clock()
    solution = hkflow.solve(problem, times[-1], times, kind="characteristics", tolerance=tolerance)
    if not solution.finished:
        raise RuntimeError(solution.status)
    return solution, clock() - begin


def rows(name, make, times, levels, tolerance):
    """Errors at the times, size of the predictions, steps, seconds, by number of seeds."""
    wanted = run(make(REFERENCE["cells"]), times, REFERENCE["tolerance"])[0].predictions
    for cells in levels:
        problem = make(cells)
        run(problem, times, tolerance)
        got, spent = run(problem, times, tolerance)
        errors = np.sqrt(np.mean((got.predictions - wanted) ** 2, axis=1))
        size, records = np.abs(wanted).max(), got.records
        found = " | ".join(f"{error:.1e}" for error in errors)
        events = " | ".join(
            f"{records[key][-1]:.0f}" for key in ("step", "crossings", "captures", "releases")
        )
        print(
            f"| {name} | 2 × {cells} | {found} | {size:.2g} | {events} | {spent:.2f} |", flush=True
        )


def head(times):
    """The first two lines of a table."""
    at = " | ".join(f"error at t = {time:g}" for time in times)
    print(
        f"\n| problem | seeds | {at} | size | steps | crossings | captures | releases | seconds |"
    )
    print("| --- |" + " ---: |" * (7 + len(times)))


def random_units(rng, inputs, targets, risk, flow, units, mass):
    """Evenly weighted random units of both signs."""
    objective = hkflow.Objective(
        hkflow.FEATURES["relu"], hkflow.RISKS[risk], inputs, np.asarray(targets)
    )
    points, signs = rng.normal(size=(units, inputs.shape[1])), np.tile([1.0, -1.0], units // 2)
    atoms = hkflow.PointMeasure(points, signs, np.full(units, mass / units))
    return hkflow.Problem(None, objective, flow, (1, -1), atoms)


def teacher(dim, n, units, flow):
    """Gaussian data with a bias and the targets of three ReLU units."""
    rng = np.random.default_rng(0)
    x, three = (
        np.column_stack([rng.normal(size=(n, dim)), np.ones(n)]),
        rng.normal(size=(3, dim + 1)),
    )
    three /= np.linalg.norm(three, axis=1, keepdims=True)
    targets = hkflow.FEATURES["relu"].matrix(three, x) @ np.array([1.0, -1.0, 1.0])
    return random_units(rng, x, targets, "square", FLOWS[flow], units, 1.0)


def heavy(seed):
    """Eight units of mass 1e10 and the smooth margin of twelve Gaussian data, random classes."""
    rng = np.random.default_rng(seed)
    x, y = np.column_stack([rng.normal(size=(12, 3)), np.ones(12)]), rng.choice([-1.0, 1.0], 12)
    return random_units(rng, x, y, "smooth-margin", FLOWS["HK"], 8, 1e10)


def counted(title, problem, end, **options):
    """A row: steps and seconds to the end, or when it stopped."""
    begin = clock()
    found = hkflow.solve(problem, end, kind="characteristics", **options)
    print(
        f"| {title} | {found.time[-1]:g} | {found.end['steps']} | {clock() - begin:.2f} |",
        flush=True,
    )


def steps(quick):
    """Rows of more dimensions and of heavy units."""
    print("\n| problem | reached t | steps | seconds |\n| --- | ---: | ---: | ---: |")
    for dim, n, units in DIMENSIONS[: 1 if quick else 2]:
        for flow in FLOWS:
            for end in (1.0, 5.0, 20.0):
                title = f"d = {dim}, {n} data, {units} atoms, {flow}, tolerance 1e-6"
                counted(title, teacher(dim, n, units, flow), end, tolerance=1e-6)
    for seed in range(2 if quick else 5):
        counted(f"8 units of mass 1e10, draw {seed}", heavy(seed), 200.0)


def large(atoms, data, time):
    """Kinks crossed by an atom, and microseconds for each atom of a flow with a frozen potential,
    and for each point that is followed back through it: with lists of near kinks, and without."""
    rng = np.random.default_rng(0)
    x, points = (
        np.column_stack([rng.normal(size=(data, 2)), np.ones(data)]),
        blocked(hkflow.quasi_uniform(atoms, 2)),
    )
    kinks = Kinks.of(hkflow.FEATURES["relu"], x)
    start = points, np.zeros(atoms), np.zeros(atoms, dtype=np.int64)
    out = np.zeros_like(points), np.zeros(atoms), np.zeros(atoms, dtype=np.int64)
    signs, r = np.ones(atoms), (rng.normal(size=data) + 0.5) / data
    history, flat = History(np.concatenate([[time, 0.0], r])[None]), unblocked(points, atoms)

    def forward(move):
        return move(start, signs, r, FLOWS["HK"], 0.0, time, 0.0, out)

    def back(_):
        return followed_back(kinks, history, FLOWS["HK"], 0.0, flat, 1.0)

    for title, work in (("moved", forward), ("followed back", back)):
        spent = []
        for room in (movement.ROOM, 0.0):
            with patch.object(movement, "ROOM", room):
                move = movement.Movement(kinks, len(points))
                crossed = forward(move)[CROSSINGS] / atoms
                works = partial(work, move)
                works()
                spent.append(min(seconds(works) for _ in range(3)) / atoms)
        listed, every = spent
        print(
            f"| {title} | {atoms} | {data} | {crossed:.1f} | {1e6 * listed:.2f} |"
            f" {1e6 * every:.2f} | {every / listed:.1f} |",
            flush=True,
        )


def main(quick=False):
    """Print all tables; quick: coarse seeds and one draw."""
    levels, draws = ((162, 642), 1) if quick else ((162, 642, 2562), 5)
    times = [5.0, 10.0, 20.0]
    head(times)
    for tolerance in (1e-4,) if quick else (1e-4, 1e-5):
        rows(f"iris, tolerance {tolerance:g}", iris, times, levels, tolerance)
    times = [5.0, 20.0, 40.0]
    head(times)
    for seed in range(draws):
        for flow in FLOWS:
            rows(
                f"six data, seed {seed}, {flow}",
                lambda cells, seed=seed, flow=flow: six(cells, seed, flow),
                times,
                levels[1:],
                1e-4,
            )
    steps(quick)
    print("\n| motion | atoms | data | crossed by an atom | µs per atom | all kinks | ratio |")
    print("| --- |" + " ---: |" * 6)
    for atoms, data, time in LARGE[::2] if quick else LARGE:
        large(atoms, data, time)


if __name__ == "__main__":
    main("--quick" in sys.argv)
