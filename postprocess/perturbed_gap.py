"""Draw how noise frees a stuck flow: the gap F − F* against time for several noise rates, with the bounds that runs record.

python postprocess/perturbed_gap.py --output perturbed-gap.png [--case cases/wei/perturbed.toml] [--runs runs/perturbed-gap]

Runs that lie in the folder from earlier are used again if their case is the same. The first call takes a minute.
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import nnls

import hkflow
from hkflow.plots import style

ROOT = Path(__file__).parent.parent
NOISES = (0.0, 1e-3, 1e-2, 1e-1)
COLORS = ("black", "#0072B2", "#009E73", "#D55E00")


def global_minimum(objective, points, signs):
    """The minimum of F over all nonnegative weights at fixed points, for the square risk and λ > 0.

    F = ½ |A w − b|² + λ Σw with A = √q ε φ, b = √q y. Its dual, max p·b − ½|p|² subject to Aᵀp ≤ λ, seeks the point of a
    polytope next to b, which is a problem of nonnegative least squares (Lawson & Hanson 1974, ch. 23).
    Returns F* and the weights (n_signs, n_points). Raises ArithmeticError unless primal and dual agree to 1e-10.
    """
    root, decay = np.sqrt(objective.weights), objective.weight_decay
    phi = objective.feature.matrix(points, objective.inputs)
    A, b = root[:, None] * np.concatenate([sign * phi for sign in signs], axis=1), root * objective.targets
    system = np.vstack([-A, b @ A - decay])
    u, _ = nnls(system, np.append(0.0 * b, 1.0), maxiter=100 * A.shape[1])
    residual = system @ u - np.append(0.0 * b, 1.0)
    w = u / -residual[-1]
    primal = 0.5 * np.sum((A @ w - b) ** 2) + decay * w.sum()
    p = b - A @ w
    p *= min(1.0, decay / max(np.max(p @ A), decay))
    if not primal - (b @ p - 0.5 * p @ p) <= 1e-10 * primal:
        raise ArithmeticError(f"The minimum is not certain: {primal} by the weights, {b @ p - 0.5 * p @ p} by the dual.")
    return primal, w.reshape(len(signs), -1)


def run_of(case, noise, folder):
    """The run of the case with a noise rate: the one that lies in the folder, or a new one."""
    path, changes = folder / f"noise-{noise:g}", {"flow.kind": "hellinger-kantorovich", "flow.noise": noise}
    try:
        found = hkflow.load(path)
        if found.finished and found.case == hkflow.check(case, **changes)[0]:
            return found
    except hkflow.RunFolderError:
        pass
    return hkflow.run(case, output=path, force=True, **changes)


def draw_gaps(ax, runs, lowest, convex):
    """F − F* in time, one line per run, and dashed the bounds; `convex` is the gap of the best convex function."""
    ax.axhline(convex, color="0.6", linewidth=0.6)
    ax.annotate("best convex function", (0.1, convex), (3, -3), "data", "offset points", color="0.4", fontsize=7, va="top")
    for color, (noise, run) in zip(COLORS, runs.items(), strict=True):
        time, gap = run.records["time"], run.records["objective"] - lowest
        ax.loglog(time[1:], gap[1:], color=color)
        ax.loglog(time[1:], run.records["gap_bound"][1:], color=color, linestyle=(0, (4, 2)), linewidth=0.7)
        ax.annotate(f"σ = {noise:g}", (time[-1], gap[-1]), (4, 0), "data", "offset points", color=color, va="center", fontsize=7)
    ax.plot([], [], color="0.3", label="F(ν) − F*")
    ax.plot([], [], color="0.3", linestyle=(0, (4, 2)), linewidth=0.7, label="bound E.13")
    ax.legend(loc="lower left")
    ax.set_xlim(0.1, time[-1])
    ax.set_xlabel("time t")
    ax.set_ylabel("optimality gap")


def draw_functions(ax, runs, best):
    """The data, what the runs predict in the end, and what the global minimum predicts."""
    objective, mesh = runs[0.0].problem.objective, runs[0.0].mesh
    x = np.linspace(1.15 * runs[0.0].inputs.min(), 1.15 * runs[0.0].inputs.max(), 300)
    phi = objective.feature.matrix(mesh.centers, np.column_stack([x, np.ones_like(x)]))
    ax.plot(x, phi @ (np.array(runs[0.0].signs, dtype=float) @ best), color="0.75", linewidth=3.5, label="global minimum")
    for color, (noise, run) in zip(COLORS, runs.items(), strict=True):
        if noise in (min(runs), sorted(runs)[1]):
            ax.plot(x, run.predict(x[:, None]), color=color, label=f"σ = {noise:g}")
    ax.plot(runs[0.0].inputs[:, 0], runs[0.0].targets, "o", color="C1", markersize=2.5, label="data")
    ax.legend(loc="upper left", handlelength=1.4)
    ax.set_xlabel("input x")
    ax.set_ylabel("prediction h(x) in the end")


def main():
    """Run what is missing, draw, and print the gaps."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("perturbed-gap.png"), help="the picture: .png, .pdf or .svg")
    parser.add_argument("--case", type=Path, default=ROOT / "cases" / "wei" / "perturbed.toml", help="square loss, one input")
    parser.add_argument("--runs", type=Path, default=Path("runs") / "perturbed-gap", help="folder of the runs")
    options = parser.parse_args()
    runs = {noise: run_of(options.case, noise, options.runs) for noise in NOISES}
    objective, mesh, signs = runs[0.0].problem.objective, runs[0.0].mesh, runs[0.0].signs
    lowest, best = global_minimum(objective, mesh.centers, signs)
    convex = global_minimum(objective, mesh.centers, (1,))[0] - lowest
    print(f"F* = {lowest:.8f} on {mesh.n_cells} cells; the best convex function lies {convex:.3e} above it.")
    for noise, run in runs.items():
        gap, bound = run.records["objective"][-1] - lowest, run.records["gap_bound"][-1]
        print(f"noise {noise:<6g} gap {gap:.3e}, bound {bound:.3e} at t = {run.time[-1]:g}")
    with style():
        figure = Figure(figsize=(7.1, 2.9), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(1.45, 1.0))
        draw_gaps(left, runs, lowest, convex)
        draw_functions(right, runs, best)
        figure.savefig(options.output)


if __name__ == "__main__":
    main()
