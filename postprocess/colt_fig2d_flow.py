"""Chizat & Bach 2020, Fig. 2 (d), continued: the gradient flow goes on to the margin of infinitely
many units.

The data sets of colt-fig2d whose γ is computed, under the gradient flow itself instead of descent:
random particles that move by exact characteristics, whose steps grow as the data separate. Margins
are drawn over time as shares of γ, as climbs find it; the dotted line is where the 5·10⁴ steps of
descent end, at t = 223. At paper scale 1024 particles have 0.0208, 0.0213 and 0.0208 there, and
0.0225, 0.0235 and 0.0224 at t = 1000, 98.6, 98.7 and 98.7 % of γ against 89.4 to 91.2 %. So what
the widest networks of colt-fig2d lack is time, not width. The quick version has 64 data and ends at
t = 500.
"""

import numpy as np
from matplotlib.figure import Figure

from hkflow import Claim
from hkflow.plots import COLUMN

from .colt_fig2d import CLOSE, largest_margin

STUDIES = ("colt/fig2d-flow",)
MINUTES = {"quick": 1, "paper": 10}
DESCENT = 0.5 * np.sum(np.arange(1.0, 50001.0) ** -0.5)  # the time of its steps 0.5/√(k+1)
TIMES = 400  # that margins are drawn at


def compute(work):
    """Margins (values of m, data sets, TIMES), and γ of the data sets, (data sets, 2)."""
    margins, gamma = {}, {}
    for changes, run in work.study("colt/fig2d-flow"):
        time = np.linspace(0.0, run.time[-1], TIMES)
        margins.setdefault(changes["method.particles"], []).append(
            np.interp(time, run.records["time"], run.records["margin"])
        )
        one = work.once(largest_margin, inputs=run.inputs, targets=run.targets, tolerance=1e-3)
        gamma[changes["seed"]] = [one["lower"], one["upper"]]
    return {
        "m": list(margins),
        "time": time,
        "margin": np.array(list(margins.values())),
        "gamma": np.array(list(gamma.values())),
    }


def claims(data):
    """The flow reaches what descent does not, later, and no more than γ."""
    share = data["margin"] / data["gamma"][:, :1]
    end, widest = share[:, :, -1], share[-1]
    then = np.array([np.interp(DESCENT, data["time"], one) for one in widest])
    few, many = (f"{m:.0f}" for m in (data["m"][0], data["m"][-1]))
    return [
        Claim(
            f"The flow of m = {many} particles reaches {100 * CLOSE:g} % of the infinite-width"
            " value γ on every data set",
            np.all(end[-1] > CLOSE),
            f"{_percent(end[-1])} %",
        ),
        Claim(
            f"and more than that of m = {few}",
            np.all(end[-1] > end[0]),
            f"{_percent(end[0])} % for m = {few}",
        ),
        Claim(
            f"new: from t = {DESCENT:.0f} on, where descent ends, the margin still rises on every"
            " data set",
            np.all(end[-1] > then),
            f"from {_percent(then)} %",
        ),
        Claim(
            "new: no flow exceeds the γ of its data",
            np.all(share <= 1.0),
            f"at most {100 * share.max():.2f} %; γ = {data['gamma'][:, 0].min():.4f} to"
            f" {data['gamma'][:, 0].max():.4f}, as found",
        ),
    ]


def _percent(values):
    return ", ".join(f"{100 * value:.1f}" for value in values)


def draw(data):
    """Margins over time as shares of γ."""
    figure = Figure(figsize=(1.3 * COLUMN, 2.6), layout="constrained")
    ax = figure.subplots()
    share = data["margin"] / data["gamma"][:, :1]
    for m, rows, style in zip(data["m"], share, ("--", "-"), strict=True):
        for number, row in enumerate(rows):
            label = f"m = {m:.0f}" if number == 0 else None
            ax.plot(data["time"], row, style, color=f"C{number + 1}", linewidth=1.0, label=label)
    ax.axhline(1.0, color="black", linewidth=0.7)
    ax.axvline(DESCENT, color="0.5", linestyle=":", linewidth=1.0, label="descent ends")
    ax.set(xlabel="time t", ylabel="F₁ margin / γ", xlim=(0.0, data["time"][-1]), ylim=(0.5, 1.03))
    ax.legend(loc="lower right")
    return figure
