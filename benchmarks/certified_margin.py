"""What a run proves alone about the max-margin, against the true value: the certified interval on
finer and finer meshes.

    python benchmarks/certified_margin.py [seed end cells …]        1 100 642 2562 10242 if not
    given; minutes to an hour
    python benchmarks/certified_margin.py circle [end cells …]      400 1024 2048 4096 if not given
    python benchmarks/certified_margin.py draws [end cells]         100 642 if not given
    python benchmarks/certified_margin.py width [data d picture]    30 8 docs/margin-width.png

Cluster data (k = 3, n = 40) as cases/colt/cluster-margin.toml draws them with that seed, or 16
alternating classes in one dimension. Columns: time, log mass, both ends of the interval over γ_ℓ1,
its relative width (running best), steps, seconds. Of ten draws: what each run, without error bars,
ends with, and how long that took after its end; each interval is held against that of `hkflow
margin`.
"""

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import hkflow
from hkflow.certificates import cones, max_margin
from hkflow.certificates.column_generation import enclosed_max_margin

CASE = "cases/colt/cluster-margin.toml"
ROWS = 4  # of each run, equally spaced in time


def on_circle(cells):
    """A margin flow on S¹ × {±1}: 16 inputs in [−1, 1], classes in runs of four."""
    inputs = np.linspace(-1.0, 1.0, 16)[:, None]
    targets = np.where(np.arange(16) // 4 % 2, 1.0, -1.0)
    inputs = np.column_stack([inputs, np.ones(16)])
    objective = hkflow.Objective(
        hkflow.FEATURES["relu"], hkflow.RISKS["smooth-margin"], inputs, targets
    )
    return hkflow.Problem(
        hkflow.circle_mesh(cells), objective, hkflow.Flow(1.0, 2.0, drive="measure"), (1, -1)
    )


def on_sphere(cells, seed):
    """The case on another mesh and draw."""
    return hkflow.check(CASE, domain={"cells": cells}, seed=seed)[1]


def ten_draws(end=100.0, cells=642):
    """Print a row for each of ten draws of the cluster data."""
    columns = ("draw", "margin/γ", "width by the run alone", "γ from", "to", "width", "s after")
    print("| " + " | ".join(columns) + " |\n" + "| ---: " * len(columns) + "|")
    for seed in range(10):
        with TemporaryDirectory() as folder:
            options = {"domain": {"cells": int(cells)}, "time": {"end": end}}
            options["error"] = {"companions": "none"}  # which would take their time, too
            run = hkflow.run(CASE, output=Path(folder) / "run", seed=seed, **options)
            written = [(run.path / n).stat().st_mtime for n in ("status.json", "results.h5")]
            found, truth = run.max_margin, max_margin(run.problem.objective, run.problem.signs)
            own = [run.records[name][-1] for name in ("margin_lower", "margin_upper")]
            for low, high in ((found.lower, found.upper), own):
                assert low <= truth.upper and high >= truth.lower, "γ lies outside"
            print(
                f"| {seed} | {0.01 * run.margin_share[-1]:.4f} |"
                f" {(own[1] - own[0]) / truth.lower:.2%} | {found.lower:.9f} | {found.upper:.9f} |"
                f" {found.relative_gap:.1e} | {written[1] - written[0]:.2f} |",
                flush=True,
            )


def widths(data=30, largest=8, picture="docs/margin-width.png"):
    """Print and draw how far the bound of max |Σ p_i y_i (θ·x_i)₊| exceeds the best value met,
    against the cones that were looked at, for random labels on S² … S^largest.

    p belongs to the margin over the directions that climbs find; beyond S² by cones, as there.
    """
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(5.2, 3.2), layout="constrained")
    print("| d | cones | bound/highest − 1 | s |\n" + "| ---: " * 4 + "|")
    for d in range(2, int(largest) + 1):
        rng = np.random.default_rng(0)
        x = np.column_stack([rng.normal(size=(int(data), d)), np.ones(int(data))])
        y = rng.choice([-1.0, 1.0], size=int(data))
        objective = hkflow.Objective(hkflow.FEATURES["relu"], hkflow.RISKS["smooth-margin"], x, y)
        p = enclosed_max_margin(objective, (1, -1), 1e-4, nodes=1).dual
        some, sizes = p > 0.0, np.linalg.norm(x, axis=1)
        u, c = x[some] / sizes[some, None], (p * y * sizes)[some]
        c /= np.abs(c).sum()
        rows = []
        for nodes in (10 ** np.arange(1.0, 5.1, 0.5)).astype(int):
            began, bounds, values, looked = time.monotonic(), [], [], 0
            for sign in (1.0, -1.0):
                room, peaks = cones.open_cones(d + 1, nodes), np.zeros((0, d + 1))
                geometry = u, sign * c, np.zeros(d + 1), cones.cover(d + 1)
                found = cones.branch_and_bound(*geometry, room, -np.inf, nodes, peaks)
                bounds.append(found[0])
                values.append(found[1])
                looked += found[3]
            width = max(max(bounds) / max(values) - 1.0, 1e-9)
            rows.append((looked, width, time.monotonic() - began))
            print(f"| {d} | {looked} | {width:.1e} | {rows[-1][2]:.3f} |", flush=True)
        ax.loglog(*np.array(rows).T[:2], "o-", markersize=3, label=f"d = {d}")
    ax.set(xlabel="cones", ylabel="relative width", ylim=(5e-10, None))
    figure.legend(loc="outside right center")
    figure.savefig(picture, dpi=150)


def main(arguments):
    """Print one table for all meshes, or for ten draws; or draw widths beyond S²."""
    if arguments[:1] == ["draws"]:
        return ten_draws(*map(float, arguments[1:]))
    if arguments[:1] == ["width"]:
        return widths(*arguments[1:])
    circle = arguments[:1] == ["circle"]
    numbers = [float(word) for word in arguments[circle:]]
    seed, end, *meshes = numbers if not circle else [0.0, *numbers] if numbers else [0.0, 400.0]
    meshes = [int(cells) for cells in meshes] or (
        [1024, 2048, 4096] if circle else [642, 2562, 10242]
    )
    for cells in meshes:
        problem = on_circle(cells) if circle else on_sphere(cells, int(seed))
        truth = max_margin(problem.objective, problem.signs)
        if cells == meshes[0]:
            print(f"γ_ℓ1 in [{truth.lower:.9g}, {truth.upper:.9g}], {len(truth.atoms)} atoms\n")
            print(
                "| cells | t | log mass | lower/γ | upper/γ | width | steps | s |\n"
                + "| ---: " * 8
                + "|"
            )
        began = time.monotonic()
        records = hkflow.solve(problem, end, cfl=0.5).records
        elapsed = time.monotonic() - began
        for k in np.searchsorted(records["time"], end * np.arange(1, ROWS + 1) / ROWS - 1e-9):
            low, high = records["margin_lower"][k], records["margin_upper"][k]
            assert low <= truth.upper and high >= truth.lower, (
                "the interval does not hold the margin"
            )
            print(
                f"| {cells} | {records['time'][k]:.0f} | {records['log_mass'][k]:.1f} |"
                f" {low / truth.lower:.5f} | {high / truth.lower:.5f} |"
                f" {(high - low) / truth.lower:.2%} | {records['step'][k]:.0f} | {elapsed:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    words = sys.argv[1:]
    main(words if words else ["1", "100"])
