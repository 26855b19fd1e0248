"""Chizat & Bach 2020, Fig. 3: from a lazy start the network finds the tangent kernel's max-margin first, and then that of F₁.

Both layers of 1000 ReLU units start from Gaussian weights of standard deviation 40 and take small constant steps. For long their
weights hardly move, so the network follows its linearisation, whose limit is the max-margin classifier of the tangent kernel of
these very units; once weights have grown, it turns to the F₁ max-margin. The maps show the sign of what the network says. New: both
limits are computed independently, the latter with a certificate, and the angle to each is drawn over time, for several draws of
data and weights. Step, data and clusters, which the paper leaves open, are ours; steps are 10⁻³ when quick and 2·10⁻⁴ at paper
scale, below one over the size of the tangent kernel.
"""

import numpy as np
from colt import cosine, draw_map, limits, network_margin, square
from matplotlib.figure import Figure

from hkflow.margins import tangent_max_margin
from hkflow.objectives.data import with_bias
from hkflow.plots import PAGE
from hkflow.reproduction import Claim, main

STUDIES = ("colt/fig3",)
MINUTES = {"quick": 1, "paper": 6}
TIMES = (
    0.0,
    0.1,
    None,
    20.0,
    50.0,
    200.0,
)  # of the maps; None is where the network is closest to the tangent kernel's classifier


def compute(work):
    """What each network says on the square over time, and the two limits on the same points."""
    points, columns = square(), {}
    for _, run in work.study("colt/fig3"):
        one = work.once(limits, inputs=run.inputs, targets=run.targets, points=points)
        tangent = tangent_max_margin(run.problem.objective, run.problem.initial)
        said = np.array([run.predict(points, k, normalised=True) for k in range(len(run.time))])
        row = {
            "said": said.astype(np.float32),
            "f1": one["f1"],
            "tangent": tangent(with_bias(points)),
            "gamma": (one["f1 lower"], one["f1 upper"]),
            "tangent gamma": tangent.machine.value,
            "margin": [network_margin(run, k) for k in range(len(run.time))],
            "moved": [_moved(run, k) for k in range(len(run.time))],
            "inputs": run.inputs,
            "targets": run.targets,
        }
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    return {name: np.array(values) for name, values in columns.items()} | {"time": run.time}


def _moved(run, save):
    """Length of the way from the start to the weights of a save, over the size of the start."""
    now, start = (np.column_stack([state["hidden"], state["output"]]) for state in (run.state_at(save), run.state_at(0)))
    return np.linalg.norm(now - start) / np.linalg.norm(start)


def angles(data, limit):
    """Degrees between the network and a limit, as functions on the square, (draws, times)."""
    return np.degrees(np.arccos(np.clip(cosine(data["said"].astype(float), data[limit][:, None]), -1.0, 1.0)))


def closest(data):
    """Index of the save where each draw's network is closest to its tangent kernel's classifier."""
    return angles(data, "tangent").argmin(axis=1)


def claims(data):
    """Two limits, one after the other."""
    tangent, f1, k = angles(data, "tangent"), angles(data, "f1"), closest(data)
    draws, last = np.arange(len(k)), tangent.shape[1] - 1
    lowest, other, moved = tangent[draws, k], f1[draws, k], 100.0 * data["moved"][draws, k]
    lazy = (lowest < 15.0) & (lowest < other) & (moved < 10.0)
    between = np.degrees(np.arccos(cosine(data["tangent"], data["f1"])))
    return [
        Claim(
            "In the draw shown the network comes within 15° of the tangent kernel's max-margin classifier, while its weights have"
            " moved by less than a tenth of their size, and is then nearer to it than to the F₁ max-margin",
            lazy[0],
            f"{lowest[0]:.1f}° against {other[0]:.1f}° at t = {data['time'][k[0]]:g}, moved by {moved[0]:.1f} %",
        ),
        Claim(
            "The same in every draw",
            lazy.all(),
            f"in {lazy.sum()} of {len(k)}: {_range(lowest)}° against {_range(other)}°, moved by {_range(moved)} %; "
            f"between the two limits there are only {_range(between)}°",
        ),
        Claim(
            "That time is an intermediate one: the angle to the tangent kernel's classifier is at least 5° larger at the start and at"
            " the end",
            np.all((tangent[:, 0] > lowest + 5.0) & (tangent[:, last] > lowest + 5.0)),
            f"{_range(tangent[:, 0])}°, then {_range(lowest)}° at t = {_range(data['time'][k])}, then {_range(tangent[:, last])}°",
        ),
        Claim(
            "It ends within 5° of the F₁ max-margin classifier, nearer than ever before",
            np.all((f1[:, last] < 5.0) & (f1.argmin(axis=1) == last)),
            f"{_range(f1[:, last])}°",
        ),
        Claim(
            "new: at the end its margin is at least 95 % of the certified F₁ max-margin",
            np.all(data["margin"][:, last] > 0.95 * data["gamma"][:, 1]),
            f"{_range(100 * data['margin'][:, last] / data['gamma'][:, 1])} % of it",
        ),
    ]


def _range(values):
    low, high = np.min(values), np.max(values)
    return f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"


def draw(data):
    """Six maps over time of the first draw, and the angles to both limits of all draws."""
    figure = Figure(figsize=(PAGE, 3.9), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1.3, 1.0))
    time, nearest = data["time"], closest(data)[0]
    saves = [nearest if t is None else int(np.argmin(np.abs(time - t))) for t in TIMES]
    for letter, ax, k in zip("abcdef", left.subplots(2, 3).flat, saves, strict=True):
        draw_map(ax, data["said"][0, k].astype(float), data["inputs"][0], data["targets"][0])
        ax.set_title(f"({letter}) t = {time[k]:g}")
    axes = right.subplots(2, 1, sharex=True, height_ratios=(1.0, 0.7))
    for limit, color, label in (("tangent", "C1", "to the tangent kernel's"), ("f1", "C0", "to the F₁ max-margin")):
        for number, angle in enumerate(angles(data, limit)):
            look = {"linewidth": 1.4, "label": label} if number == 0 else {"linewidth": 0.6, "alpha": 0.6}
            axes[0].semilogx(time[1:], angle[1:], color=color, **look)
    axes[0].plot(time[saves[1:]], angles(data, "tangent")[0][saves[1:]], "o", color="C1", markersize=3)
    for letter, k in list(zip("abcdef", saves, strict=True))[1:]:
        axes[0].axvline(time[k], color="0.85", linewidth=0.6, zorder=0)
        axes[0].annotate(letter, (time[k], 1.0), (0, 1), ("data", "axes fraction"), "offset points", ha="center", fontsize=7)
    axes[0].set(ylabel="angle of classifiers (degrees)", ylim=(0.0, 110.0))
    axes[0].legend(loc="upper right", frameon=True, facecolor="white", edgecolor="none", framealpha=1.0)
    for number, (margin, gamma) in enumerate(zip(data["margin"], data["gamma"], strict=True)):
        axes[1].semilogx(time[1:], margin[1:] / gamma[1], color="C2", linewidth=1.4 if number == 0 else 0.6)
    axes[1].axhline(1.0, color="black", linestyle="--", linewidth=0.8)
    axes[1].set(xlabel="time t", ylabel="margin / certified γ", ylim=(-0.25, 1.1))
    return figure


if __name__ == "__main__":
    main("colt-fig3")
