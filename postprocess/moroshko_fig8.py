"""Moroshko et al. 2020, Fig. 8: in dimension 10 the scale decides at which local minimum of the
ℓ_(2/3) quasi-norm a network ends.

Diagonal networks of depth 3 in the plane of excess norms at margin one, ℓ_(2/3) and ℓ₂, for ten
random data (uniform coordinates) and for four sparse ones (first coordinate 1, the others uniform
in (0, 0.5)); the draws are ours, since the paper's are not published, and so are the scales. All
local minima of the quasi-norm are computed, by enumeration, and marked as dots. For random data
there are hundreds of them, and different scales end at different ones; for sparse data large scales
follow the Q_μ path to the ℓ₁ max-margin, which is the global minimum. New: that every run ends at
one of the listed local minima is checked, not only seen. Random data take patience: from α = 10 a
network is still 20° from its end at γ̃ = 10⁹. The frames leave out the 5 % of the minima with the
largest norms.
"""

import numpy as np
from matplotlib.figure import Figure

from hkflow import Claim
from hkflow.plots import PAGE

from .moroshko import at_margin_one, colors, degrees_between, scale_name, truth, weights

STUDIES = ("moroshko/fig8",)
MINUTES = {"quick": 0.6, "paper": 1}
DEPTH = 3.0
SETS = ("random", "sparse")
MUS = np.geomspace(100.0, 1e-6, 81)
NEAR = 5.0  # degrees within which a run counts as being at a local minimum


def compute(work):
    """w at margin one of every run, and what it is held against."""
    data, names = {}, {}
    for changes, run in work.study("moroshko/fig8"):
        name = names.setdefault(run.inputs.tobytes(), SETS[min(len(names), 1)])
        alpha = changes["initial.scale"]
        if f"{name} path" not in data:
            data |= {
                f"{name} {key}": value
                for key, value in truth(work, run, DEPTH, MUS, only_minima=True).items()
            }
        data |= {
            f"{name} {alpha:g}": at_margin_one(weights(run), run.inputs),
            f"{name} {alpha:g} accuracy": run.time,
        }
    return data


def scales(data):
    """All α, increasing."""
    return sorted(
        float(key.split()[1])
        for key in data
        if key.startswith("random ") and key.endswith("accuracy")
    )


def excess(data, name, w):
    """Excess ℓ_(2/3) and ℓ₂ norm over the least, (2, …)."""
    p = 2.0 / DEPTH
    first = np.sum(np.abs(w) ** p, axis=-1) / data[f"{name} quasi-norm"][0]
    return np.array(
        [
            first ** (1.0 / p) - 1.0,
            np.linalg.norm(w, axis=-1) / np.linalg.norm(data[f"{name} l2"]) - 1.0,
        ]
    )


def end(data, name, alpha):
    """The nearest local minimum to where a run ends, and the angle to it."""
    angles = degrees_between(data[f"{name} {alpha:g}"][-1], data[f"{name} stationary"])
    return int(np.argmin(angles)), angles.min()


def claims(data):
    """Where the runs end."""
    alphas = scales(data)
    ends = {(name, a): end(data, name, a) for name in SETS for a in alphas}
    random = [ends["random", a][0] for a in alphas]
    large = alphas[-1]
    count = {name: len(data[f"{name} stationary"]) for name in SETS}
    l1 = {name: excess(data, name, data[f"{name} l1"])[0] for name in SETS}
    last = excess(data, "random", data[f"random {large:g}"][-1])
    sparse = degrees_between(data[f"sparse {large:g}"][-1], data["sparse stationary"][0])
    path = data["sparse path"]
    fine = np.concatenate(
        [
            a + np.linspace(0.0, 1.0, 20)[:, None] * (b - a)
            for a, b in zip(path, path[1:], strict=False)
        ]
    )
    late = data[f"sparse {large:g}"][data[f"sparse {large:g} accuracy"] >= large**DEPTH]
    off = max(degrees_between(one, fine).min() for one in late)
    shown = np.concatenate(
        [excess(data, "sparse", data[f"sparse {a:g}"]) for a in alphas if a >= 1.0], axis=1
    )
    others = excess(data, "sparse", data["sparse stationary"][1:])
    gap = np.linalg.norm(shown[:, :, None] - others[:, None, :], axis=0).min()
    return [
        Claim(
            "random data: many local minima, more than 20",
            count["random"] > 20,
            f"{count['random']} for random and {count['sparse']} for sparse data",
        ),
        Claim(
            f"random data: the scales end at different ones, each within {NEAR:g}°",
            len(set(random)) > 1 and max(ends["random", a][1] for a in alphas) < NEAR,
            ", ".join(
                f"α = {a:g}: number {ends['random', a][0] + 1}, {ends['random', a][1]:.2f}°"
                for a in alphas
            ),
        ),
        Claim(
            f"random data: a large start, α = {large:g}, ends at a local minimum and not at the"
            " global one, nearer to the ℓ₁ max-margin, in angle, than to the global minimum",
            random[-1] > 0
            and degrees_between(data[f"random {large:g}"][-1], data["random l1"])
            < degrees_between(data[f"random {large:g}"][-1], data["random stationary"][0]),
            f"number {random[-1] + 1}, excess {last[0]:.3f} where ℓ₁ has {l1['random']:.3f};"
            f" {degrees_between(data[f'random {large:g}'][-1], data['random l1']):.1f}° from ℓ₁,"
            f" {degrees_between(data[f'random {large:g}'][-1], data['random stationary'][0]):.1f}°"
            " from the global minimum",
        ),
        Claim(
            "sparse data: the ℓ₁ max-margin is the global minimum",
            l1["sparse"] < 1e-9,
            f"excess {l1['sparse']:.0e}",
        ),
        Claim(
            f"sparse data: a large start, α = {large:g}, goes along the Q_μ path, within 1° from γ̃"
            " = α³ on, to the global minimum, within 0.5°",
            off < 1.0 and sparse < 0.5,
            f"{off:.3f}° off the path, ends at {sparse:.3f}°",
        ),
        Claim(
            "sparse data: the other local minima are far from the paths of α ≥ 1, farther than 0.3"
            " in this plane",
            gap > 0.3,
            f"nearest {gap:.2f}, among {count['sparse']} minima",
        ),
    ]


def draw(data):
    """Random data, sparse data, and the latter near the origin."""
    figure = Figure(figsize=(PAGE, 3.0), layout="constrained")
    axes = figure.subplots(1, 3)
    for ax, name, title in zip(
        axes,
        ("random", "sparse", "sparse"),
        ("(a) random", "(b) sparse", "(c) near the paths"),
        strict=True,
    ):
        alphas = scales(data)
        runs = [excess(data, name, data[f"{name} {alpha:g}"]) for alpha in alphas]
        for alpha, color, points in zip(alphas, colors(alphas), runs, strict=True):
            ax.plot(*points, color=color, linewidth=1.0, label=f"α = {scale_name(alpha)}")
            ax.plot(*points[:, -1], "x", color=color, markersize=6, zorder=5)
        ax.plot(
            *excess(data, name, data[f"{name} path"]),
            "--",
            color="black",
            linewidth=1.0,
            label="$Q_μ$ path",
            zorder=4,
        )
        ax.plot(
            *excess(data, name, data[f"{name} stationary"]),
            ".",
            color="C3",
            markersize=3,
            label="local minima",
            zorder=2,
        )
        for key, marker, color, label in (("l2", "o", "C2", "ℓ₂"), ("l1", "*", "C1", "ℓ₁")):
            ax.plot(
                *excess(data, name, data[f"{name} {key}"]),
                marker,
                color=color,
                markersize=7,
                label=label,
                zorder=6,
            )
        ax.set(xlabel="excess $ℓ_{2/3}$ norm", title=title)
        late = [
            points[:, data[f"{name} {alpha:g} accuracy"] >= 0.1]
            for alpha, points in zip(alphas, runs, strict=True)
        ]
        if title == "(c) near the paths":
            every = np.concatenate([*late, excess(data, name, data[f"{name} path"])], axis=1)
            room = 0.08 * np.ptp(every, axis=1)
            ax.set(
                xlim=(every[0].min() - room[0], every[0].max() + room[0]),
                ylim=(every[1].min() - room[1], every[1].max() + room[1]),
            )
        else:
            most = np.quantile(excess(data, name, data[f"{name} stationary"]), 0.95, axis=1)
            ax.set(xlim=(-0.05 * most[0], 1.1 * most[0]), ylim=(-0.05 * most[1], 1.1 * most[1]))
    axes[0].set_ylabel("excess ℓ₂ norm")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return figure
