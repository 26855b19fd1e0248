"""ReLU flows where kinks trap mass: characteristics, grid and particles against known answers, as
Markdown tables.

* A valley: J = |a·θ| + s b·θ stands still, a ⟂ b, transport alone, from a uniform start. Errors of
  ∫b·θ dν and ∫|a·θ| dν against the closed form, summed by Gauss's rule.
* One kink of a potential that stands still, which mass crosses, or leaves on both sides: error of
  ∫n·θ at t = 1 on grids, n the kink's normal, against characteristics from 40962 cells.
* Twenty data of a teacher of three units, whose kinks trap little mass (4 % at t = 1), iris
  (cases/quickstart/iris.toml) and six random data: root mean square error of predictions over the
  data, against characteristics from 2 × 40962 cells.
* Many data of two classes, 200 points of each sign, t = 10: error of predictions in time, against
  characteristics from the same points with tolerance 1e-6, by characteristics, by particles that
  step over kinks and by particles that slide.
* Margin flows: ten draws of cases/colt/cluster-margin.toml by characteristics to t = 2800, and
  seconds to 95 and 99 % of γ_ℓ1 by each method.

Cells are of geodesic meshes; characteristics and particles start from their centres. Seconds are
without compilation, on the processor with NUMBA_NUM_THREADS=1, on the wall with more.

    NUMBA_NUM_THREADS=1 python -m benchmarks.kinks [valley crossing teacher iris six many margin]
                                                   [--quick]
"""

import sys
from functools import partial

import numpy as np

import hkflow
from hkflow.certificates import max_margin

from .characteristics import FLOWS, IRIS, six
from .timing import clock

METHODS = {
    "characteristics": {"kind": "characteristics"},
    "grid": {"kind": "grid"},
    "particles": {"kind": "particles", "tolerance": 1e-6},
}
CELLS = (642, 2562, 10242, 40962)
FINEST = {"characteristics": 10242, "grid": 40962, "particles": 2562}
COARSE = 162  # cells of a first run, which compiles
CROSSINGS = {  # velocity towards n before and after the kink n·θ = 0
    "faster beyond": (0.5, 1.0),
    "much faster beyond": (0.1, 1.0),
    "at rest before": (0.0, 1.0),
    "slower beyond": (1.0, 0.5),
    "leaves, evenly": (-0.5, 0.5),
    "leaves, unevenly": (-0.1, 1.0),
}
VALLEYS = ((0.3, 4.0), (0.1, 8.0))  # slope, end
A = np.array([0.3, -0.5, 0.8]) / np.sqrt(0.98)  # off the axes of the mesh
B = np.cross(A, [0.9, 0.2, -0.1]) / np.linalg.norm(np.cross(A, [0.9, 0.2, -0.1]))
MARGIN = IRIS.parent.parent / "colt" / "cluster-margin.toml"
MARGIN_END, NEAR = 2800.0, (0.95, 0.99)  # of γ
MARGIN_METHODS = {
    "characteristics": {"kind": "characteristics"},
    "particles": {"kind": "particles"},
    "grid": {"kind": "grid"},
}
MANY_METHODS = (
    {"kind": "characteristics"},
    {"kind": "particles", "stepper": "dopri5", "tolerance": 1e-5},
    {"kind": "particles", "stepper": "sliding", "tolerance": 1e-4},
)
PATIENCE = 30.0  # seconds after which a run to NEAR is given up


def head(*columns):
    """The first two lines of a table, whose first column is text."""
    print("\n| " + " | ".join(columns) + " |\n| --- |" + " ---: |" * (len(columns) - 1))


def row(*cells):
    """A line of a table."""
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def timed(make, cells, times, options):
    """The run of the problem make(cells), and its seconds."""
    hkflow.solve(make(COARSE), times[0], times[:1], **options)
    problem, begin = make(cells), clock()
    solution = hkflow.solve(problem, times[-1], times, **options)
    if not solution.finished:
        raise RuntimeError(solution.status)
    return solution, clock() - begin


def _linear(predictions, targets, weights, out):
    out[:] = targets
    return float(predictions @ targets)


def valley(cells, slope):
    """A flow whose potential |a·θ| + slope b·θ stands still."""
    objective = hkflow.Objective(
        hkflow.FEATURES["relu"],
        hkflow.Risk("linear", _linear, False),
        np.array([A, -A, B, -B]),
        np.array([1.0, 1.0, slope, -slope]),
    )
    return hkflow.Problem(
        hkflow.geodesic_mesh(hkflow.geodesic_level(cells)), objective, hkflow.Flow(1.0, 0.0)
    )


def moments(points, weights):
    """∫b·θ dν and ∫|a·θ| dν."""
    return weights @ np.column_stack([points @ B, np.abs(points @ A)])


def closed_form(slope, time):
    """The moments of the valley at a time: down to a·θ = 0, then along it, by 600 × 800 nodes."""
    x, w = np.polynomial.legendre.leggauss(600)
    polar, angle = (
        v.ravel()
        for v in np.meshgrid(0.25 * np.pi * (1.0 + x), (np.arange(800) + 0.5) * np.pi / 400.0)
    )
    points = np.stack([np.cos(polar), np.sin(polar) * np.cos(angle), np.sin(polar) * np.sin(angle)])
    points = np.stack([A, B, np.cross(A, B)]).T @ points  # of the half a·θ > 0; the other is alike
    weights = np.tile(0.25 * np.pi * w * np.sin(0.25 * np.pi * (1.0 + x)), 800) / 800.0

    def moved(points, pull, times):
        """Points (3, n) that times (n,) carry by a constant gradient."""
        size = np.linalg.norm(pull)
        e, tau = -pull / size, size * times
        z = e @ points
        points = points + np.outer(e, z * (np.cosh(tau) - 1.0) + np.sinh(tau))
        return points / np.linalg.norm(points, axis=0)

    pull = A + slope * B
    size = np.linalg.norm(pull)
    z, c = -(pull @ points) / size, (A @ points) * size / (A @ pull)
    hit = np.log((z + c + np.sqrt((z + c) ** 2 + 1.0 - z**2)) / (1.0 + z)) / size
    ends = moved(moved(points, pull, np.minimum(hit, time)), slope * B, np.maximum(time - hit, 0.0))
    return moments(ends.T, weights)


def valleys(quick):
    """Errors of the moments in the two valleys."""
    head("valley", "method", "cells", "error of ∫b·θ", "error of ∫|a·θ|", "steps", "seconds")
    for slope, time in VALLEYS[: 1 if quick else 2]:
        wanted = closed_form(slope, time)
        row(
            f"s = {slope:g}, t = {time:g}", "closed form", "", *(f"{v:.6g}" for v in wanted), "", ""
        )
        for name, options in METHODS.items():
            for cells in (642, 2562) if quick else (642, 2562, 10242):
                run, spent = timed(lambda n, s=slope: valley(n, s), cells, [time], options)
                atoms = run.atoms_at(-1)
                errors = np.abs(moments(atoms.positions, atoms.weights) - wanted)
                found = (f"{error:.1e}" for error in errors)
                row("", name, cells, *found, run.end["steps"], f"{spent:.2f}")


def crossing(cells, before, after):
    """A flow across the kink A·θ = 0, with velocities along A there and 0.3 along B."""
    pull = before * A + 0.3 * B
    size = np.linalg.norm(pull)
    objective = hkflow.Objective(
        hkflow.FEATURES["relu"],
        hkflow.Risk("linear", _linear, False),
        np.array([A, pull / size, -pull / size]),
        np.array([before - after, -size, size]),
    )
    mesh = hkflow.geodesic_mesh(hkflow.geodesic_level(cells))
    return hkflow.Problem(mesh, objective, hkflow.Flow(1.0, 0.0))


def crossings(quick):
    """Errors of the first moment where mass meets one kink."""
    counts = CELLS[: 2 if quick else 4]
    head("kink", *(f"{cells} cells" for cells in counts))
    for title, speeds in CROSSINGS.items():

        def moment(cells, kind, speeds=speeds):
            atoms = hkflow.solve(crossing(cells, *speeds), 1.0, [1.0], kind=kind).atoms_at(-1)
            return atoms.weights @ (atoms.positions @ A)

        exact = moment(CELLS[-1], "characteristics")
        row(title, *(f"{abs(moment(cells, 'grid') - exact):.1e}" for cells in counts))


def predictions(title, make, times, most, reference):
    """Errors of the predictions by the three methods."""
    exact = hkflow.solve(make(reference), times[-1], times, kind="characteristics", tolerance=1e-7)
    for name, options in METHODS.items():
        for cells in (n for n in CELLS if n <= min(most, FINEST[name])):
            run, spent = timed(make, cells, times, options)
            errors = np.sqrt(np.mean((run.predictions - exact.predictions) ** 2, axis=1))
            found = (f"{error:.1e}" for error in errors)
            row(title, name, f"2 × {cells}", *found, run.end["steps"], f"{spent:.2f}")


def at(times):
    """Names of columns of errors."""
    return [f"error at t = {time:g}" for time in times]


def iris(quick):
    """The quickstart case."""
    times = [5.0, 10.0, 20.0]
    head("problem", "method", "cells", *at(times), "steps", "seconds")

    def make(cells):
        return hkflow.check(IRIS, **{"domain.cells": cells})[1]

    predictions("iris", make, times, *((2562, 10242) if quick else (40962, 40962)))


def taught(cells, seed, kind):
    """Twenty data of a teacher."""
    case = {
        "seed": seed,
        "data": {"source": "teacher", "n": 20, "dim": 2},
        "objective": {"activation": "relu", "loss": "square", "bias": True},
        "domain": {"kind": "signed-sphere", "cells": cells},
        "initial": {"kind": "uniform"},
        "flow": {"kind": kind},
        "time": {"end": 1.0},
    }
    return hkflow.check(case)[1]


def teacher(quick):
    """Data with many kinks that mass crosses, or leaves, and few that trap it."""
    times = [1.0, 3.0, 8.0]
    head("problem", "method", "cells", *at(times), "steps", "seconds")
    for seed in range(1 if quick else 3):
        for kind in ("wasserstein", "hellinger-kantorovich"):
            make = partial(taught, seed=seed, kind=kind)
            title = f"20 teacher data, seed {seed}, {kind}"
            predictions(title, make, times, *((2562, 10242) if quick else (40962, 40962)))


def six_data(quick):
    """Six data, few enough for kinks to hold much of the mass."""
    times = [5.0, 20.0, 40.0]
    head("problem", "method", "cells", *at(times), "steps", "seconds")
    for seed in range(1 if quick else 5):
        for flow in FLOWS:

            def make(cells, seed=seed, flow=flow):
                return six(cells, seed, flow)

            title = f"six data, seed {seed}, {flow}"
            predictions(title, make, times, *((642, 10242) if quick else (10242, 40962)))


def many_data(n, inputs):
    """Two classes of Gaussian inputs, told apart by the sign of a product."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(n, inputs))
    targets = np.where(x[:, 0] * x[:, 1] + 0.3 * rng.normal(size=n) > 0.0, 1.0, -1.0)
    risk = hkflow.RISKS["logistic"]
    objective = hkflow.Objective(hkflow.FEATURES["relu"], risk, hkflow.with_bias(x), targets)
    points = np.tile(hkflow.quasi_uniform(200, inputs), (2, 1))
    atoms = hkflow.PointMeasure(points, np.repeat([1.0, -1.0], 200))
    return hkflow.Problem(None, objective, hkflow.Flow(1.0, 2.0), (1, -1), atoms)


def many(quick):
    """Kinks that are weak because there are many."""
    head("data", "inputs", "method", "error", "steps", "seconds")
    for inputs in (2, 10):
        for n in (1000, 3000) if quick else (1000, 3000, 10_000, 30_000):
            problem = many_data(n, inputs)
            wanted = hkflow.solve(problem, 10.0, kind="characteristics", tolerance=1e-6)
            wanted = wanted.predictions[-1]
            # sliding through 10,000 data takes minutes
            for options in MANY_METHODS[: 3 if n <= 3000 else 2]:
                hkflow.solve(problem, 1e-3, **options)  # compiles
                begin = clock()
                run = hkflow.solve(problem, 10.0, **options)
                spent = clock() - begin
                rms = [np.sqrt(np.mean(v**2)) for v in (run.predictions[-1] - wanted, wanted)]
                name = options.get("stepper", options["kind"])
                row(n, inputs, name, f"{rms[0] / rms[1]:.1e}", run.end["steps"], f"{spent:.2f}")


def margin_of(seed):
    """The problem of a draw."""
    return hkflow.check(MARGIN, seed=seed)[1]


def seconds_to(problem, gamma, options):
    """Seconds until the margin of ν̄ is each of NEAR of γ, and that time of the flow; nan where it
    is not reached."""
    targets, begin, found = problem.objective.targets, clock(), []

    def near(state):
        share = np.min(targets * state.predictions) / (gamma * state.mass)
        while len(found) < len(NEAR) and share >= NEAR[len(found)]:
            found.append((clock() - begin, state.time))
        return len(found) == len(NEAR) or clock() - begin > PATIENCE

    hkflow.solve(problem, MARGIN_END, observers=[near], **options)
    return found + [(np.nan, np.nan)] * (len(NEAR) - len(found))


def margins(quick):
    """Ten draws of cluster data."""
    draws = range(1, 3 if quick else 11)
    head("draw", "ended at t", "steps", "seconds", "log mass", "margin", "γ is above", "γ is below")
    exact, kind = {}, "characteristics"
    for options in MARGIN_METHODS.values():
        hkflow.solve(margin_of(0), 60.0, **options)  # compiles, implicit steps too
    for seed in draws:
        problem = margin_of(seed)
        exact[seed] = max_margin(problem.objective, problem.signs).upper
        begin = clock()
        run = hkflow.solve(problem, MARGIN_END, record_interval=50.0, kind=kind)
        spent, records = clock() - begin, run.records
        keys = ("margin", "margin_lower", "margin_upper")
        row(
            seed,
            f"{run.time[-1]:.0f}",
            run.end["steps"],
            f"{spent:.1f}",
            f"{records['log_mass'][-1]:.0f}",
            *(f"{records[key][-1]:.6f}" for key in keys),
        )
    head("draw", *(f"{100 * share:.0f} % by {name}" for name in MARGIN_METHODS for share in NEAR))
    for seed in draws:
        found = (
            f"{spent:.2f} s, t = {time:.0f}" if spent == spent else "–"
            for options in MARGIN_METHODS.values()
            for spent, time in seconds_to(margin_of(seed), exact[seed], options)
        )
        row(seed, *found)


PARTS = {
    "valley": valleys,
    "crossing": crossings,
    "teacher": teacher,
    "iris": iris,
    "six": six_data,
    "many": many,
    "margin": margins,
}


def main(words):
    """Print the tables that are named, or all; quick: coarse and few."""
    named = [word for word in words if word != "--quick"]
    for part in named or PARTS:
        PARTS[part]("--quick" in words)


if __name__ == "__main__":
    main(sys.argv[1:])
