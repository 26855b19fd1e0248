"""What a step of a small problem costs, and the time to an accuracy: hkflow's loop with all guards
and records against scipy's solve_ivp with the same flow of particles written in NumPy; and what
comes to the steps of a grid: records, saves, error bars."""

import tempfile
from functools import partial
from pathlib import Path

import numpy as np
from scipy.integrate import solve_ivp

import hkflow
from hkflow.certificates import max_margin

from .kinks import MARGIN_METHODS, NEAR, margin_of, seconds_to
from .timing import Row, alternate, ratio

CASES = Path(__file__).parent.parent / "cases"
REPEATS, MARGIN_TIME = 5, 1e4
RUNGE_KUTTA = {"stepper": "dopri5", "imex": "explicit"}
IRIS = (  # cells, of which each sign has a seed; kind of method and its options
    (162, "characteristics", {"tolerance": 1e-3}),
    (162, "particles", RUNGE_KUTTA | {"tolerance": 1e-4}),
    (642, "characteristics", {"tolerance": 1e-4}),
    (642, "particles", RUNGE_KUTTA | {"tolerance": 3e-5}),
)
LOSS_GRADIENTS = {
    "square": lambda h, y: h - y,
    "logistic": lambda h, y: -y / (1.0 + np.exp(y * h)),
}
GOALS = {"small step": 0.1, "implicit step": 1.0, "margin": 5.0}  # ms, ms, ratio
BARS, RECORDS = 0.35, 0.03  # of the time of a run, and of its steps: what these may cost
CELLS, SAVES = (642, 2562, 10242), (1000, 4000, 16000)
DRAWS, MARGIN_END, MARGIN_TRUTH = (1, 2, 3), 20.0, (10242, 1e-5)  # cells, tolerance


def moved_by_numpy(problem, end, rtol, method="RK45"):
    """Predictions at the end, and steps, of particles (θ, log w) on the signed sphere."""
    objective, flow, atoms = problem.objective, problem.flow, problem.atoms()
    X, y, q, signs = objective.inputs, objective.targets, objective.weights, atoms.signs
    degree, shape = objective.feature.degree, atoms.positions.shape

    def predictions(theta, w):
        return (signs * w) @ np.maximum(theta @ X.T, 0.0) ** degree

    def split(state):
        theta = state[: -shape[0]].reshape(shape)
        theta = theta / np.linalg.norm(theta, axis=1)[:, None]
        return theta, np.exp(state[-shape[0] :])

    def rate(_, state):
        theta, w = split(state)
        s = np.maximum(theta @ X.T, 0.0)
        r = q * LOSS_GRADIENTS[objective.risk.name]((signs * w) @ s**degree, y)
        G = signs[:, None] * ((s if degree == 2 else s > 0.0) * (degree * r)) @ X
        J = np.einsum("ij,ij->i", G, theta)
        velocity = -flow.transport * (G - J[:, None] * theta)
        return np.concatenate([velocity.ravel(), -flow.reaction / degree * J])

    start = np.concatenate([atoms.positions.ravel(), np.log(atoms.weights)])
    found = solve_ivp(rate, (0.0, end), start, method=method, rtol=rtol, atol=rtol)
    return predictions(*split(found.y[:, -1])), len(found.t) - 1


def moved_by_hkflow(problem, end, kind, **options):
    """Predictions at the end, and steps."""
    solution = hkflow.solve(problem, end, kind=kind, **options)
    if not solution.finished:
        raise RuntimeError(solution.status)
    return solution.predictions[-1], solution.records["step"][-1]


def small(n=40, m=12):
    """Squared ReLU, m particles on S² and n data."""
    rng = np.random.default_rng(0)
    X, y = np.column_stack([rng.normal(size=(n, 2)), np.ones(n)]), rng.normal(size=n)
    points = hkflow.quasi_uniform(m // 2, 2)
    start = hkflow.PointMeasure(np.tile(points, (2, 1)), np.repeat([1.0, -1.0], len(points)))
    objective = hkflow.Objective(hkflow.FEATURES["squared-relu"], hkflow.RISKS["square"], X, y)
    return hkflow.Problem(None, objective, hkflow.Flow(1.0, 4.0), (1, -1), start)


def margin_rows(repeats, seed=1):
    """Cluster data to a share of γ by characteristics, against the grid."""
    problem = margin_of(seed)
    gamma = max_margin(problem.objective, problem.signs).upper
    kinds = [MARGIN_METHODS[kind] for kind in ("characteristics", "grid")]
    for options in kinds:
        hkflow.solve(margin_of(seed), 60.0, **options)  # compiles
    spent = np.array(
        [[seconds_to(margin_of(seed), gamma, how) for how in kinds] for _ in range(repeats)]
    )[..., 0]
    for k, share in enumerate(NEAR):
        yield Row(
            f"cluster data, draw {seed}, to {100 * share:.0f} % of γ",
            np.median(spent[:, 0, k]), "s",
            **ratio(spent[:, 1, k], spent[:, 0, k]), goal=(">=", GOALS["margin"]),
            note="time of the grid / that of characteristics, both from 2 × 642 cells",
        )  # fmt: skip


def beside_steps(quick):
    """Error bars of the quickstart's grid, as shares of a run without; records, as shares of its
    steps; saves."""
    case = CASES / "quickstart" / "iris.toml"
    few = {"saves": 41, "record_interval": np.inf, "kind": "grid"}
    for cells in CELLS[: 1 if quick else None]:
        _, problem = hkflow.check(case, **{"domain.cells": cells})
        solve = partial(hkflow.solve, problem, 20.0)
        run = solve(**few)
        works = partial(solve, **few), partial(solve, **few | {"record_interval": 0.0})
        with tempfile.TemporaryDirectory() as folder:
            whole = partial(
                hkflow.run, case, Path(folder) / "run", True, certificate={"seconds": 0.0},
                **{"domain.cells": cells},
            )  # fmt: skip
            whole_alone = partial(whole, error={"companions": "none"})
            times = alternate((*works, whole_alone, whole), REPEATS)
        bars = times[:, 3] - times[:, 2]
        steps = np.median(bars) / np.median(times[:, 0])
        yield Row(
            f"error bars of iris, {cells} cells", 1e3 * np.median(bars), "ms",
            **ratio(bars, times[:, 2]), goal=("<=", BARS),
            note=f"over the time of the run without, files included; {steps:.2f} of its steps",
        )  # fmt: skip
        extra = times[:, 1] - times[:, 0]
        yield Row(
            f"records of iris, {cells} cells", 1e3 * np.median(extra) / run.end["steps"], "ms",
            **ratio(extra, times[:, 0]), goal=("<=", RECORDS),
            note="one after every step, over the time of the steps without",
        )  # fmt: skip
    _, problem = hkflow.check(case, **{"domain.cells": 42})
    counts = SAVES[: 2 if quick else None]
    works = [partial(hkflow.solve, problem, 20.0, **few | {"saves": count}) for count in counts]
    times = np.median(alternate(works, 2, warm=0), axis=0)
    slope = np.polyfit(np.log(counts), np.log(times), 1)[0]
    yield Row(
        f"{counts[-1]} saves of iris, 42 cells", times[-1], "s",
        note=f"time ~ saves^{slope:.2f}, a step for each",
    )  # fmt: skip


def bars_of_margins(quick):
    """Error bars of margin runs on grids, whose steps are implicit: as shares of a run without, and
    over the errors."""
    case, (cells, tolerance) = CASES / "colt" / "cluster-margin.toml", MARGIN_TRUTH
    keys = ("predictions", "log_mass")

    def results(run):
        """h/|ν| and log |ν| at the end."""
        h = run.scaled_predictions[-1] * np.exp(run.log_scale[-1] - run.log_mass[-1])
        return h, run.log_mass[-1:]

    for seed in DRAWS[: 1 if quick else None]:
        with tempfile.TemporaryDirectory() as folder:
            whole = partial(
                hkflow.run, case, Path(folder) / "run", True, certificate={"seconds": 0.0},
                seed=seed, **{"time.end": MARGIN_END},
            )  # fmt: skip
            whole_alone = partial(whole, error={"companions": "none"})
            exact = whole_alone(
                method={"kind": "characteristics", "tolerance": tolerance},
                **{"domain.cells": 642 if quick else cells},
            )
            wanted = results(exact)
            times = alternate((whole_alone, whole), 3)
            run = whole()
            pairs = zip(results(run), wanted, keys, strict=True)
            over = [
                run.errors.bars[key].total[-1] / np.sqrt(np.mean((found - truth) ** 2))
                for found, truth, key in pairs
            ]
        bars = times[:, 1] - times[:, 0]
        yield Row(
            f"error bars of cluster data, draw {seed}, 642 cells", np.median(bars), "s",
            **ratio(bars, times[:, 0]), goal=("<=", BARS),
            note="over the time of the run without; bars of h/|ν| and log |ν| are"
            f" {over[0]:.2g} and {over[1]:.2g} times the errors",
        )  # fmt: skip


def rows(threads, quick):
    """A step of small particles, one implicit through the data, and times to an accuracy."""
    problem, options = small(), {"imex": "explicit"}
    ours = partial(moved_by_hkflow, problem, 2.0, "particles", **options)
    theirs = partial(moved_by_numpy, problem, 2.0, 1e-6)
    (h, steps), (g, others) = ours(), theirs()
    times = alternate((ours, theirs), REPEATS)
    mine, its = 1e3 * np.median(times, axis=0) / (steps, others)
    yield Row(
        "step of 12 particles, 40 data", mine, "ms", **ratio(times[:, 1], times[:, 0]),
        note=f"time of scipy's RK45 with NumPy ({its:.3g} ms a step) / ours, to the same time;"
        f" predictions differ by {np.abs(h - g).max():.0e}; wish {GOALS['small step']} ms",
    )  # fmt: skip
    _, problem = hkflow.check(CASES / "moroshko" / "fig4a.toml")
    ours = partial(moved_by_hkflow, problem, MARGIN_TIME, "particles", tolerance=1e-4)
    spent, (_, steps) = alternate((ours,), 3)[:, 0], ours()
    yield Row(
        "implicit step of 6 atoms, 3 data", 1e3 * np.median(spent) / steps, "ms",
        goal=("<=", GOALS["implicit step"]), note="diagonal network of depth 3, clock γ̃",
    )  # fmt: skip
    yield from margin_rows(1 if quick else 3)
    case = CASES / "quickstart" / "iris.toml"
    cells = 642 if quick else 2562
    best = hkflow.check(case, **{"domain.cells": cells})[1]
    wanted, _ = moved_by_hkflow(best, 20.0, "characteristics", tolerance=1e-6)
    for seeds, kind, options in IRIS[: 2 if quick else None]:
        _, problem = hkflow.check(case, **{"domain.cells": seeds})
        ours = partial(moved_by_hkflow, problem, 20.0, kind, **options)
        theirs = partial(moved_by_numpy, problem, 20.0, 1e-4 if seeds == 162 else 1e-5)
        errors = [np.sqrt(np.mean((run()[0] - wanted) ** 2)) for run in (ours, theirs)]
        times = alternate((ours, theirs), 3)
        yield Row(
            f"iris to t = 20, 2 × {seeds} {kind}, error {errors[0]:.0e}",
            1e3 * np.median(times[:, 0]), "ms", **ratio(times[:, 1], times[:, 0]),
            note=f"time of scipy's RK45 with NumPy, error {errors[1]:.0e} / ours",
        )  # fmt: skip
    yield from beside_steps(quick)
    yield from bars_of_margins(quick)
