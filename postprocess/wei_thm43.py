"""Wei et al. 2019, Thm 4.3: noise frees a start without full support, which stays stuck for ever
without.

All units start with the output sign +1, so without noise the network stays a convex function, above
the global minimum. With noise units of the other sign are born, and those that are wanted grow. The
paper proves this and draws nothing; here the gap F − F* is shown for four noise rates (left), for
the infinitely wide network as a density on the circle (lines) and for 1000 particles of which a
share σ dt dies and is born again uniform (dots), with the bound that the proof uses, eq. E.13,
which every grid run records (dashed); right, what the network becomes. The gap that is left is the
noise's own share, about proportional to σ. A dot off its line is a particle with much mass that has
just died.
"""

import numpy as np
from matplotlib.figure import Figure

from hkflow import Claim
from hkflow.certificates import minimise
from hkflow.plots import PAGE

STUDIES = ("wei/thm43",)
MINUTES = {"quick": 0.2, "paper": 0.4}
NOISES = (0.0, 1e-3, 1e-2, 1e-1)
COLORS = ("black", "C0", "C2", "C1")


def compute(work):
    """Objectives and bounds over time of every run, minima of F over all measures and over convex
    functions, and functions."""
    data = {}
    for changes, run in work.study("wei/thm43"):
        name = f"{changes['method']['kind']} {changes['flow.noise']:g}"
        data |= {
            f"{name} {key}": run.records[key]
            for key in ("time", "objective", "gap_bound")
            if key in run.records
        }
        x = np.linspace(1.15 * run.inputs.min(), 1.15 * run.inputs.max(), 300)
        data[f"{name} function"] = run.predict(x[:, None])
        if run.method == "grid":
            objective, signs = run.problem.objective, run.problem.signs
            data |= {"x": x, "inputs": run.inputs[:, 0], "targets": run.targets}
    best = minimise(objective, signs)
    rows = np.column_stack([data["x"], np.ones_like(data["x"])])
    function = objective.feature.matrix(best.atoms.positions, rows) @ (
        best.atoms.signs * best.atoms.weights
    )
    convex = minimise(objective, (1,)).lower
    return data | {"lowest": best.lower, "convex": convex, "best function": function}


def gaps(data, kind):
    """F − F* at the end for each noise rate; F* is the minimum over all directions, which captured
    atoms and particles can take."""
    return np.array([data[f"{kind} {noise:g} objective"][-1] - data["lowest"] for noise in NOISES])


def convex_gap(data):
    """The same of the best convex function."""
    return float(data["convex"] - data["lowest"])


def claims(data):
    """Who is stuck and who is freed."""
    grid, particles = gaps(data, "grid"), gaps(data, "particles")
    convex = convex_gap(data)
    power = np.log10(grid[2] / grid[1])
    excess = min(
        np.min(
            data[f"grid {noise:g} gap_bound"] - (data[f"grid {noise:g} objective"] - data["lowest"])
        )
        for noise in NOISES
    )
    apart = np.abs(particles - grid) / convex
    return [
        Claim(
            "σ = 0: density and particles end at the best convex function, to 1 % of its gap to the"
            " global minimum",
            max(abs(grid[0] / convex - 1.0), abs(particles[0] / convex - 1.0)) < 0.01,
            f"gaps {grid[0]:.4f} and {particles[0]:.4f}, best convex function {convex:.4f}",
        ),
        Claim(
            "σ = 0.001: both find the global minimum, to 2 % of the gap at which σ = 0 is stuck",
            max(np.abs([grid[1], particles[1]])) < 0.02 * convex,
            f"gaps {grid[1]:.2e} and {particles[1]:.2e}",
        ),
        Claim(
            "what is left grows with the noise, from 0.001 to 0.01 with a power between 0.8"
            " and 1.4",
            grid[1] < grid[2] < grid[3] and 0.8 < power < 1.4,
            f"gaps {grid[1]:.2e}, {grid[2]:.2e}, {grid[3]:.2e}, power {power:.2f}",
        ),
        Claim(
            "the recorded bound E.13 is above the gap at every record of every density",
            excess > -1e-9,
            f"smallest difference {excess:.1e}",
        ),
        Claim(
            "new: particles that are born again end where the density does, to 5 % of the gap at"
            " which σ = 0 is stuck",
            np.all(apart < 0.05),
            ", ".join(
                f"σ = {noise:g}: {100 * value:.2f} %"
                for noise, value in zip(NOISES, apart, strict=True)
            ),
        ),
    ]


def draw(data):
    """Gaps over time with their bounds, and functions."""
    figure = Figure(figsize=(PAGE, 2.9), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.45, 1.0))
    convex = convex_gap(data)
    left.axhline(convex, color="0.6", linewidth=0.6)
    left.annotate(
        "best convex function",
        (13.0, convex),
        (0, -4),
        "data",
        "offset points",
        color="0.4",
        fontsize=7,
        va="top",
    )
    for color, noise in zip(COLORS, NOISES, strict=True):
        time, gap = (data[f"grid {noise:g} {key}"] for key in ("time", "objective"))
        gap = gap - data["lowest"]
        left.loglog(time[1:], gap[1:], color=color)
        left.loglog(
            time[1:],
            data[f"grid {noise:g} gap_bound"][1:],
            color=color,
            linestyle=(0, (4, 2)),
            linewidth=0.7,
        )
        left.annotate(
            f"σ = {noise:g}",
            (time[-1], gap[-1]),
            (4, 0),
            "data",
            "offset points",
            color=color,
            va="center",
            fontsize=7,
        )
        time, gap = (data[f"particles {noise:g} {key}"] for key in ("time", "objective"))
        shown = np.unique(
            np.searchsorted(time, np.geomspace(0.3, time[-1], 25)).clip(max=len(time) - 1)
        )
        left.loglog(time[shown], (gap - data["lowest"])[shown], "o", color=color, markersize=2.2)
    left.plot([], [], color="0.3", label="density: F − F*")
    left.plot([], [], "o", color="0.3", markersize=2.2, label="1000 particles")
    left.plot([], [], color="0.3", linestyle=(0, (4, 2)), linewidth=0.7, label="bound E.13")
    left.legend(loc="lower left")
    left.set(xlim=(0.25, time[-1]), xlabel="time t", ylabel="optimality gap")
    right.plot(
        data["x"], data["best function"], color="0.75", linewidth=3.5, label="global minimum"
    )
    for color, noise in list(zip(COLORS, NOISES, strict=True))[:2]:
        right.plot(data["x"], data[f"grid {noise:g} function"], color=color, label=f"σ = {noise:g}")
    right.plot(data["inputs"], data["targets"], "o", color="C1", markersize=2.5, label="data")
    right.legend(loc="upper left", handlelength=1.4)
    right.set(xlabel="input x", ylabel="prediction h(x) in the end")
    return figure
