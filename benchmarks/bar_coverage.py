"""How often the true error lies within the error bar, and how much wider the bar is, over flows
whose truth is known.

    python -m benchmarks.bar_coverage [--quick]

Truth is a closed form, or a run by characteristics (ReLU, absolute values, linear units) or by
particles (squared ReLU, joint ReLU) with many more points, where these stand for a density, and a
tight tolerance. A triple is one
quantity of one case at one resolution, at its last save; errors below a millionth of the quantity
are left out. Rows are methods and activations.
"""

import sys
from collections import defaultdict
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

import hkflow

MARGIN = Path(__file__).parent.parent / "cases" / "colt" / "cluster-margin.toml"
DRAWS, MARGIN_ENDS = range(1, 7), (5.0, 20.0)
FLOWS = {"W": (1.0, 0.0), "HK": (1.0, 2.0), "H": (0.0, 2.0)}
CELLS = {1: (64, 256), 2: (642, 2562)}
TIMES = {"square": (1.0, 10.0), "logistic": (5.0,), "exponential": (3.0,)}
MANY = {1: 8192, 2: 10242}  # cells whose centres start a reference
NEGLIGIBLE = 1e-6
QUANTITIES = ("predictions", "largest", "objective", "log_mass", "moment", "margin")


@cache
def mesh(dim, cells):
    """Of the circle or of S²."""
    return hkflow.Domain(dim).mesh(cells)


def objective(dim, activation, loss, seed):
    """Regression on a teacher of three units, or its sign; Gaussian inputs with a bias."""
    rng = np.random.default_rng(seed)
    n = 8 if dim == 1 else 15
    columns = dim - (activation == "joint-relu")
    inputs = np.column_stack([rng.normal(size=(n, columns)), np.ones(n)])
    feature = hkflow.FEATURES[activation]
    units = rng.normal(size=(3, dim + 1))
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    targets = feature.matrix(units, inputs) @ np.array([1.0, -1.0, 1.0])
    if loss != "square":
        targets = np.where(targets >= np.median(targets), 1.0, -1.0)
    return hkflow.Objective(feature, hkflow.RISKS[loss], inputs, targets)


def start(dim, cells, signs):
    """A density with a bump, of mass one."""
    cell = mesh(dim, cells)
    towards = np.array([1.0, 0.5, 0.3][: dim + 1])
    towards /= np.linalg.norm(towards)
    density = np.tile(np.exp(cell.centers @ towards - 1.0), (len(signs), 1))
    return cell, density / (density @ cell.volumes).sum()


def flows(quick):
    """Name, activation and function (cells) -> Problem of every flow with data, its end, and the
    method of its reference."""
    activations = ("relu", "absolute-value", "linear", "squared-relu", "joint-relu")
    for dim in (1, 2):
        for activation in activations[: 2 if quick else None]:
            if activation == "joint-relu" and dim == 1:
                continue
            for flow, rates in FLOWS.items():
                for loss, ends in TIMES.items():
                    if loss != "square" and activation == "linear":
                        continue
                    if quick and (loss != "square" or flow != "HK"):
                        continue
                    for end in ends[:1] if quick else ends:
                        yield dim, activation, flow, rates, loss, end


def problem(dim, activation, rates, loss, cells):
    """One of them on so many cells."""
    signs = (1,) if activation == "joint-relu" else (1, -1)
    cell, density = start(dim, cells, signs)
    seed = 10 * dim + len(activation)
    return hkflow.Problem(
        cell, objective(dim, activation, loss, seed), hkflow.Flow(*rates), signs, density
    )


def values(run, per_mass=False):
    """The quantities at the last save, by name, of ν or of ν/|ν|."""
    mass = np.exp(run.log_mass[-1])
    unit = mass if per_mass else 1.0
    found = {
        "predictions": run.predictions[-1] / unit,
        "largest": run.predictions[-1] / unit,
        "objective": np.array([run.objective_at(-1)]) / unit,
        "log_mass": run.log_mass[-1:],
        "moment": run.atoms_at(-1).moment() / unit,
    }
    if run.classifies:
        found["margin"] = np.array([(run.targets * run.predictions[-1]).min() / mass])
    return found


def judged(run, reference):
    """(quantity, true error, bar) of a run at its last save.

    reference : a run, or the quantities by name
    """
    bars = hkflow.error_bars(run)
    got = values(run, bars.normalised)
    truth = reference if isinstance(reference, dict) else values(reference, bars.normalised)
    for name in QUANTITIES:
        if name not in truth or name not in got:
            continue
        off = got[name] - truth[name]
        largest = name == "largest"
        error = np.abs(off).max() if largest else np.sqrt(np.mean(off**2))
        bar = bars.each[-1].max() if largest else bars[name][-1]
        if error > NEGLIGIBLE * max(np.abs(truth[name]).max(), 1e-3):
            yield name, error, bar


def with_data(quick):
    """(row, case, quantity, error, bar) of flows that data drive."""
    for dim, activation, flow, rates, loss, end in flows(quick):
        made = [problem(dim, activation, rates, loss, n) for n in (*CELLS[dim], MANY[dim])]
        exact = activation in ("relu", "absolute-value", "linear")
        kind = "characteristics" if exact else "particles"
        saves = np.linspace(0.0, end, 6)
        reference = hkflow.solve(made[-1], end, saves, kind=kind, tolerance=1e-6 if exact else 1e-7)
        case = f"S{dim} {activation} {flow} {loss} t={end:g}"
        for one, cells in zip(made, CELLS[dim], strict=False):
            for method in ("grid", kind):
                run = hkflow.solve(one, end, saves, kind=method)
                for found in judged(run, reference):
                    yield f"{method}, {activation}", f"{case} N={cells}", *found


def margins(quick):
    """The same of margin flows of cluster data."""
    for seed in DRAWS[: 1 if quick else None]:
        for end in MARGIN_ENDS[: 1 if quick else None]:

            def problem(cells, seed=seed):
                return hkflow.check(MARGIN, seed=seed, **{"domain.cells": cells})[1]

            saves, kind = np.linspace(0.0, end, 6), "characteristics"
            many, few = (2562, CELLS[2][:1]) if quick else (MANY[2], CELLS[2])
            reference = hkflow.solve(problem(many), end, saves, kind=kind, tolerance=1e-6)
            for cells in few:
                for method in ("grid", kind):
                    run = hkflow.solve(problem(cells), end, saves, kind=method)
                    for found in judged(run, reference):
                        case = f"margin flow, draw {seed}, t={end:g} N={cells}"
                        yield f"{method}, smooth margin", case, *found


def closed_forms(quick):
    """The same of flows with a closed form: grids, seeds, evenly spread and random particles."""
    for dim in (1, 2):
        axis = np.eye(dim + 1)[0] + 0.3
        for rates in ((1.0, 0.0), (1.0, 4.0), (0.0, 4.0), (1.0, 4.0, 0.5))[: 1 if quick else None]:
            flow = hkflow.Flow(*rates)
            exact = hkflow.MomentFlow(axis, 1.5, flow)
            end = 2.0
            mass, moment = exact.mass_and_moment(end)
            predicted = moment * exact.direction
            error = 0.5 * np.sum((predicted - 1.5 * exact.direction) ** 2)
            truth = {
                "predictions": predicted,
                "largest": predicted,
                "objective": np.array([error]),
                "log_mass": np.array([np.log(mass)]),
                "moment": predicted,
            }
            saves = np.linspace(0.0, end, 6)
            for cells in CELLS[dim]:
                one = hkflow.Problem(mesh(dim, cells), exact.objective(), flow)
                methods = ["grid"] + ([] if flow.noise else ["characteristics", "particles"])
                for method in methods:
                    run = hkflow.solve(one, end, saves, kind=method)
                    for found in judged(run, truth):
                        yield f"{method}, closed form", f"S{dim} {rates} N={cells}", *found
                if flow.noise:
                    continue
                for seed in range(2):
                    points = hkflow.random_uniform(np.random.default_rng(seed), cells, dim)
                    drawn = replace(one, mesh=None, initial=hkflow.PointMeasure(points))
                    run = hkflow.solve(drawn, end, saves, kind="particles")
                    run.options["points"] = "random"
                    for found in judged(run, truth):
                        yield "particles, random", f"S{dim} {rates} N={cells} {seed}", *found


def given(quick):
    """The same of 3 to 30 points that are given, as they are or as the units of a network: their
    errors are those of steps alone."""
    for seed in range(4 if quick else 240):
        for activation in ("relu", "squared-relu", "linear"):
            rng = np.random.default_rng(seed)
            dim, loss = int(rng.integers(1, 4)), str(rng.choice(list(TIMES)))
            made, count = objective(dim, activation, loss, seed), int(rng.choice((3, 10, 30)))
            positions, signs = rng.normal(size=(count, dim + 1)), rng.choice((-1.0, 1.0), count)
            weights = float(rng.choice((0.01, 1.0))) / count * rng.exponential(size=count)
            rates = (1.0, 4.0 if activation == "squared-relu" else 2.0)
            points = hkflow.PointMeasure(positions, signs, weights)
            one = hkflow.Problem(None, made, hkflow.Flow(*rates), (1, -1), points)
            saves = np.linspace(0.0, float(rng.choice((0.1, 1.0, 5.0))), 3)
            kind = "particles" if activation == "squared-relu" else "characteristics"
            reference = hkflow.solve(one, saves[-1], saves, kind=kind, tolerance=1e-9)
            for method in ("network", "particles"):
                run = hkflow.solve(one, saves[-1], saves, kind=method)
                for found in judged(run, reference):
                    case = f"S{dim} {activation} {loss} t={saves[-1]:g} N={count} {seed}"
                    yield f"{method}, given, {activation}", case, *found


def many(quick):
    """The same of 200 points that are given and 1000 or 3000 data, whose kinks are stepped over."""
    for seed in range(1 if quick else 6):
        for n in (1000, 3000):
            rng = np.random.default_rng(seed)
            dim, loss = 2 + seed % 2, ("square", "logistic")[seed // 2 % 2]
            x = hkflow.with_bias(rng.normal(size=(n, dim)))
            # one draw in two can be learned
            labels = np.sign(rng.normal(size=n) + (seed % 3 > 0) * 3.0 * x[:, 0] * x[:, 1])
            made = hkflow.Objective(hkflow.FEATURES["relu"], hkflow.RISKS[loss], x, labels)
            positions, signs = rng.normal(size=(200, dim + 1)), rng.choice((-1.0, 1.0), 200)
            points = hkflow.PointMeasure(positions, signs, rng.exponential(size=200) / 200.0)
            one = hkflow.Problem(None, made, hkflow.Flow(1.0, 2.0), (1, -1), points)
            for end in (2.0, 20.0):
                saves = np.linspace(0.0, end, 6)
                reference = hkflow.solve(one, end, saves, kind="characteristics", tolerance=1e-6)
                for tolerance in (1e-6, 1e-5, 1e-4, 1e-3):
                    run = hkflow.solve(
                        one, end, saves, kind="particles", stepper="dopri5", tolerance=tolerance
                    )
                    for found in judged(run, reference):
                        case = f"{n} data of {dim} inputs {loss} t={end:g} {tolerance:g} {seed}"
                        yield "particles, given, many data", case, *found


def many_dimensions(quick):
    """The same of evenly spread points on spheres of 5 to 150 dimensions, of 20 data."""
    for dim in (20,) if quick else (5, 7, 10, 20, 60, 150):
        for activation in ("relu", "absolute-value", "squared-relu"):
            kind = "particles" if activation == "squared-relu" else "characteristics"
            for flow in ("wasserstein", "hellinger-kantorovich"):
                for loss in ("square", "logistic"):
                    case = {
                        "data": {"source": "teacher", "n": 20, "dim": dim + 1, "units": 3}
                        | {"classify": loss == "logistic"},
                        "objective": {"activation": activation, "loss": loss},
                        "domain": {"kind": "signed-sphere"},
                        "flow": {"kind": flow},
                        "method": {"kind": kind},
                        "time": {"end": 1.0},
                    }

                    def solved(points, case=case, kind=kind, **options):
                        one = hkflow.check(case, **{"method.particles": points})[1]
                        return hkflow.solve(one, 1.0, kind=kind, **options)

                    reference = solved(4000 if quick else 20000, tolerance=1e-7)
                    for points in (500, 2000):
                        for found in judged(solved(points), reference):
                            name = f"S{dim} {activation} {flow} {loss} N={points}"
                            yield f"{kind}, 5 to 150 dimensions", name, *found


def table(rows):
    """Coverage and median width by row, and over all, as Markdown; the worst cases."""
    by = defaultdict(list)
    for row, case, name, error, bar in rows:
        by[row].append((bar / error, case, name, error, bar))
    everything = [one for found in by.values() for one in found]
    lines = ["| bars | triples | within the bar | median bar / error | 90 % below |",
             "| --- | ---: | ---: | ---: | ---: |"]  # fmt: skip
    for row, found in [*sorted(by.items()), ("all", everything)]:
        ratios = np.array([one[0] for one in found])
        lines.append(
            f"| {row} | {len(ratios)} | {100.0 * np.mean(ratios >= 1.0):.1f} % |"
            f" {np.median(ratios):.1f} | {np.quantile(ratios, 0.9):.0f} |"
        )
    lines += ["", "Outside by most:", ""]
    for ratio, case, name, error, bar in sorted(everything)[:12]:
        if ratio < 1.0:
            lines.append(f"- {case}, {name}: error {error:.1e}, bar {bar:.1e}")
    return "\n".join(lines)


def main():
    """Print the table."""
    quick = "--quick" in sys.argv
    rows = []
    for source in (closed_forms, given, many, many_dimensions, with_data, margins):
        for row in source(quick):
            rows.append(row)
            if sys.stderr.isatty():
                print(f"\r{len(rows)} triples", end="", file=sys.stderr)
    print(table(rows))


if __name__ == "__main__":
    main()
