"""Chizat & Bach 2020, Fig. 3: from a lazy start the network finds the tangent kernel's max-margin
first, and then that of F₁.

Both layers of 1000 ReLU units start from Gaussian weights of standard deviation 40 and take small
constant steps. For long their weights hardly move, so the network follows its linearisation, whose
limit is the max-margin classifier of the tangent kernel of these very units; once weights have
grown, it turns to the F₁ max-margin. The maps show the sign of what the network says. New: both
limits are computed independently, the latter with a certificate, and the angle to each is drawn
over time, also for other draws of data and weights. Of thirty draws those are taken whose two
limits differ most. Even so not all come nearer to the first limit than to the second: what random
weights say at the start is not small against what a lazy network can learn, whatever their scale,
since both grow with its square. More units help, as 16000 show (dotted). At paper scale one draw is
still 5.4° from the F₁ limit at t = 200, with 96 % of γ. Step, data and clusters, which the paper
leaves open, are ours; steps are 10⁻³ when quick and 2·10⁻⁴ at paper scale, below one over the size
of the tangent kernel.
"""

import numpy as np
from matplotlib.figure import Figure

from hkflow import Claim, with_bias
from hkflow.certificates import tangent_max_margin
from hkflow.plots import PAGE

from .colt import cosine, draw_map, limits, network_margin, square

STUDIES = ("colt/fig3", "colt/fig3-wide")
MINUTES = {"quick": 0.6, "paper": 4}
TIMES = (
    0.0,
    0.1,
    None,
    20.0,
    50.0,
    200.0,
)  # of the maps; None is where the network is closest to the tangent kernel's classifier


def compute(work):
    """What each network says on the square over time, and the two limits on the same points; the
    same of wider networks."""
    data = {}
    for study, prefix in (("colt/fig3", ""), ("colt/fig3-wide", "wide ")):
        columns = {}
        for _, run in work.study(study):
            for name, value in _shown(work, run).items():
                columns.setdefault(prefix + name, []).append(value)
        data |= {name: np.array(values) for name, values in columns.items()} | {
            prefix + "time": run.time
        }
    return data


def _shown(work, run):
    """All that is shown of one network."""
    points = square()
    one = work.once(limits, inputs=run.inputs, targets=run.targets, points=points)
    tangent = tangent_max_margin(run.problem.objective, run.problem.initial)
    saves = range(len(run.time))
    return {
        "said": (
            np.array([run.predict(points, k, normalised=True) for k in saves]).astype(np.float32)
        ),
        "f1": one["f1"],
        "tangent": tangent(with_bias(points)),
        "gamma": (one["f1 lower"], one["f1 upper"]),
        "margin": [network_margin(run, k) for k in saves],
        "moved": [_moved(run, k) for k in saves],
        "inputs": run.inputs,
        "targets": run.targets,
    }


def _moved(run, save):
    """Length of the way from the start to the weights of a save, over the size of the start."""
    now, start = (
        np.column_stack([state["hidden"], state["output"]])
        for state in (run.state_at(save), run.state_at(0))
    )
    return np.linalg.norm(now - start) / np.linalg.norm(start)


def angles(data, limit, wide=""):
    """Degrees between the network and a limit, as functions on the square, (draws, times)."""
    cosines = cosine(data[f"{wide}said"].astype(float), data[wide + limit][:, None])
    return np.degrees(np.arccos(np.clip(cosines, -1.0, 1.0)))


def closest(data, wide=""):
    """Index of the save where each draw's network is closest to its tangent kernel's classifier."""
    return angles(data, "tangent", wide).argmin(axis=1)


def at_closest(data, wide=""):
    """There: degrees to the tangent kernel's classifier and to the F₁ max-margin, per cent by which
    weights have moved; and whether that is what a lazy network does: within 15° of the former,
    nearer to it, and moved by less than a tenth.
    """
    k = closest(data, wide)
    values = (angles(data, "tangent", wide), angles(data, "f1", wide), 100.0 * data[f"{wide}moved"])
    tangent, f1, moved = (value[np.arange(len(k)), k] for value in values)
    return tangent, f1, moved, (tangent < 15.0) & (tangent < f1) & (moved < 10.0)


def claims(data):
    """Two limits, one after the other."""
    tangent, f1, k, last = (
        angles(data, "tangent"),
        angles(data, "f1"),
        closest(data),
        len(data["time"]) - 1,
    )
    lowest, other, moved, lazy = at_closest(data)
    wide_lowest, wide_other, wide_moved, wide_lazy = at_closest(data, "wide ")
    between = np.degrees(np.arccos(cosine(data["tangent"], data["f1"])))
    return [
        Claim(
            "In the draw shown the network comes within 15° of the tangent kernel's max-margin"
            " classifier, while its weights have moved by less than a tenth of their size, and is"
            " then nearer to it than to the F₁ max-margin",
            lazy[0],
            f"{lowest[0]:.1f}° against {other[0]:.1f}° at t = {data['time'][k[0]]:g}, moved by"
            f" {moved[0]:.1f} %",
        ),
        Claim(
            "The same in every draw",
            lazy.all(),
            f"in {lazy.sum()} of {len(k)}: {_range(lowest)}° against {_range(other)}°, moved by"
            f" {_range(moved)} %; between the two limits there are {_range(between)}°",
        ),
        Claim(
            "new: The same in every draw with 16000 units",
            wide_lazy.all(),
            f"in {wide_lazy.sum()} of {len(k)}: {_range(wide_lowest)}° against"
            f" {_range(wide_other)}°, moved by {_range(wide_moved)} %",
        ),
        Claim(
            "That time is an intermediate one, in every draw: the angle to the tangent kernel's"
            " classifier is at least 5° larger at the start and at the end",
            np.all((tangent[:, 0] > lowest + 5.0) & (tangent[:, last] > lowest + 5.0)),
            f"{_range(tangent[:, 0])}°, then {_range(lowest)}° at t = {_range(data['time'][k])},"
            f" then {_range(tangent[:, last])}°",
        ),
        Claim(
            "It ends within 5° of the F₁ max-margin classifier, in every draw",
            np.all(f1[:, last] < 5.0),
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
    figure = Figure(figsize=(PAGE, 3.8), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1.3, 1.0))
    time, nearest = data["time"], closest(data)[0]
    saves = [nearest if t is None else int(np.argmin(np.abs(time - t))) for t in TIMES]
    for letter, ax, k in zip("abcdef", left.subplots(2, 3).flat, saves, strict=True):
        draw_map(ax, data["said"][0, k].astype(float), data["inputs"][0], data["targets"][0])
        ax.set_title(f"({letter}) t = {time[k]:g}")
    axes = right.subplots(2, 1, sharex=True, height_ratios=(1.0, 0.7))
    for limit, color, label in (
        ("tangent", "C1", "to the tangent kernel's"),
        ("f1", "C0", "to the F₁ max-margin"),
    ):
        for number, angle in enumerate(angles(data, limit)):
            look = (
                {"linewidth": 1.4, "label": label}
                if number == 0
                else {"linewidth": 0.6, "alpha": 0.6}
            )
            axes[0].semilogx(time[1:], angle[1:], color=color, **look)
    for limit, color in (("tangent", "C1"), ("f1", "C0")):
        axes[0].plot(
            data["wide time"][1:],
            angles(data, limit, "wide ")[0][1:],
            ":",
            color=color,
            linewidth=1.2,
        )
    axes[0].plot([], [], ":", color="0.4", linewidth=1.2, label="with 16000 units")
    axes[0].plot(
        time[saves[1:]], angles(data, "tangent")[0][saves[1:]], "o", color="C1", markersize=3
    )
    for letter, k in list(zip("abcdef", saves, strict=True))[1:]:
        axes[0].axvline(time[k], color="0.85", linewidth=0.6, zorder=0)
        axes[0].annotate(
            letter,
            (time[k], 1.0),
            (0, 1),
            ("data", "axes fraction"),
            "offset points",
            ha="center",
            fontsize=7,
        )
    axes[0].set(ylabel="angle of classifiers (degrees)", ylim=(0.0, 110.0))
    axes[0].legend(
        loc="upper right", frameon=True, facecolor="white", edgecolor="none", framealpha=1.0
    )
    for number, (margin, gamma) in enumerate(zip(data["margin"], data["gamma"], strict=True)):
        axes[1].semilogx(
            time[1:], margin[1:] / gamma[1], color="C2", linewidth=1.4 if number == 0 else 0.6
        )
    axes[1].axhline(1.0, color="black", linestyle="--", linewidth=0.8)
    axes[1].set(xlabel="time t", ylabel="margin / certified γ", ylim=(-0.25, 1.1))
    return figure
