"""How wide error bars must be that are told by fewer points, to hold 95 % of the errors.

    python -m benchmarks.point_sets

Predictions from N points a sign, and from N/4 and N/16, in six rotations of evenly spread sets; the
truth is a run from 30,000. Errors and bars are the largest over the saves, relative as those of
`to_accuracy`, by whose problems this goes. Rules take the differences from both smaller sets, times
what an order makes of them: bars are scaled until 95 % hold.
"""

from dataclasses import replace

import numpy as np
from scipy.stats import special_ortho_group

from hkflow.accuracy.companion import Companion, solved
from hkflow.accuracy.estimate import extrapolated, of_points, rms
from hkflow.case.accuracy import dimension, sized
from hkflow.geometry.point_sets import quasi_uniform
from hkflow.measures.point_measure import PointMeasure
from hkflow.running.check import build_case, read_case
from hkflow.solving.solve import save_times

from .to_accuracy import others, problems

SIZES = (10, 20, 40, 80, 162, 320, 642, 1280, 2562, 5120)
TRIPLES = [(n, SIZES[k + 2], SIZES[k]) for k, n in enumerate(SIZES[4:])]
ROTATIONS, MANY, HELD = 6, 30_000, 0.95
BAND, ORDER = (1.0, 2.0), 5.0 / 3.0


def rules():
    """Name and function (results, widths) -> bar (n_saves,) of every rule."""

    def share(widths, k, order):
        return 1.0 / ((widths[k] / widths[0]) ** order - 1.0)

    def parts(values, widths, order=ORDER):
        return [rms(values[0] - values[k]) * share(widths, k, order) for k in (1, 2)]

    yield "the larger, order 5/3 (taken)", lambda v, h: of_points(v, h, BAND, ORDER).bar
    yield "the larger, order 2", lambda v, h: np.maximum(*parts(v, h, 2.0))
    yield "the nearer set alone", lambda v, h: parts(v, h)[0]
    yield "arithmetic mean", lambda v, h: sum(parts(v, h))
    yield "geometric mean", lambda v, h: np.sqrt(np.multiply(*parts(v, h)))
    yield "observed orders", lambda v, h: extrapolated(v, h, BAND).bar


def runs(tables, kind):
    """Truth, the sizes of predictions, d, and predictions {(rotation, points): (n_saves, n)}."""
    file = read_case(tables | {"method": {"kind": kind, "accuracy": 1e-2}}, {})
    case = sized(file.case, dimension(file.case, file.folder), SIZES[4], 1e-5)
    resolved, problem = build_case(replace(file, case=case))
    times, dim = save_times(resolved.time.end, resolved.time.saves), problem.dim

    def predictions(count, turned, tolerance=1e-5):
        points = quasi_uniform(count, dim) @ turned.T
        weights = np.concatenate([problem.density(points, sign) for sign in problem.signs])
        signs = np.repeat(np.array(problem.signs, dtype=float), count)
        atoms = PointMeasure(np.tile(points, (len(problem.signs), 1)), signs, weights)
        one = replace(problem, initial=atoms.scaled_to(problem.initial.mass), exact=None)
        options = {"kind": resolved.method.kind, "tolerance": tolerance}
        return solved(Companion(one, options, 1.0, ""), times).predictions.reshape(len(times), -1)

    truth = predictions(MANY, np.eye(dim + 1), 1e-6)
    sizes = np.maximum(rms(truth), np.sqrt(np.mean(problem.objective.targets**2)))
    turns = [np.eye(dim + 1)]
    turns += [special_ortho_group.rvs(dim + 1, random_state=k) for k in range(1, ROTATIONS)]
    found = {(k, n): predictions(n, turn) for k, turn in enumerate(turns) for n in SIZES}
    return truth, sizes, dim, found


def main():
    """Print errors, and the table of rules."""
    ratios = {name: [] for name, _ in rules()}
    print(f"Errors, {ROTATIONS} rotations: root mean square; the largest over the smallest\n")
    print("| problem | " + " | ".join(map(str, SIZES[4:])) + " |\n" + "| --- " * 7 + "|")
    for name, tables, kind in (*problems(), *others()):
        if kind == "grid" or tables["data"]["source"] == "moment":
            continue
        truth, sizes, dim, found = runs(tables, kind)
        errors = {key: (rms(one - truth) / sizes).max() for key, one in found.items()}
        row = np.array([[errors[k, n] for n in SIZES[4:]] for k in range(ROTATIONS)])
        spread = row.max(axis=0) / row.min(axis=0)
        cells = [f"{e:.1e}; {s:.1f}" for e, s in zip(rms(row.T), spread, strict=True)]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
        for k in range(ROTATIONS):
            for triple in TRIPLES:
                values, widths = [found[k, n] for n in triple], [n ** (-1.0 / dim) for n in triple]
                for rule, bar in rules():
                    bars = (bar(values, widths) / sizes).max()
                    ratios[rule].append(bars / errors[k, triple[0]])
    print(f"\n| rule | times what holds {HELD:.0%} | median bar / error | 90 % below |")
    print("| --- | ---: | ---: | ---: |")
    for rule, found in ratios.items():
        scale = np.quantile(1.0 / np.array(found), HELD)
        low, high = scale * np.quantile(found, [0.5, 0.9])
        print(f"| {rule} | {scale:.2f} | {low:.1f} | {high:.1f} |")


if __name__ == "__main__":
    main()
