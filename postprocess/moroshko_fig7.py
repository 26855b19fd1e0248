"""Moroshko et al. 2020, Fig. 7: where the ℓ₁ max-margin is not unique, the scale decides at which
of them a network ends.

The runs of Fig. 3(c), depth 2, by how much more ℓ₁ and ℓ₂ norm than the least they have at margin
one: |w|₁/|w_ℓ₁|₁ − 1 against
|w|₂/|w_ℓ₂|₂ − 1. All end with the least ℓ₁ norm; large scales take the ℓ₁ max-margin of least ℓ₂
norm, where the Q_μ path ends, and small ones tend to that of largest ℓ₂ norm. The paper does not
publish its data; in ours the first datum alone is a support vector and every w ≥ 0 with w₁ + w₂ =
2, w₃ = 0 is an ℓ₁ max-margin. Dotted lines: least and largest ℓ₂ norm among these.
"""

import numpy as np
from matplotlib.figure import Figure

from hkflow import Claim
from hkflow.plots import PAGE

from .moroshko import at_margin_one, colors, degrees_between, scale_name, truth, weights

STUDIES = ("moroshko/fig7",)
MINUTES = {"quick": 0.2, "paper": 0.2}
MUS = np.geomspace(100.0, 1e-6, 81)


def compute(work):
    """w at margin one of every run, with the path and the vertices of the set of ℓ₁ max-margins."""
    data = {}
    for changes, run in work.study("moroshko/fig7"):
        alpha = changes["initial.scale"]
        if not data:
            data |= truth(work, run, 2.0, MUS)
        data |= {
            f"w {alpha:g}": at_margin_one(weights(run), run.inputs),
            f"accuracy {alpha:g}": run.time,
        }
    return data


def scales(data):
    """All α, increasing."""
    return sorted(float(key.split()[1]) for key in data if key.startswith("w "))


def excess(data, w):
    """Excess ℓ₁ and ℓ₂ norm, (2, …)."""
    return np.array(
        [np.linalg.norm(w, p, axis=-1) / np.linalg.norm(data[f"l{p}"], p) - 1.0 for p in (1, 2)]
    )


def extremes(data):
    """Least and largest excess ℓ₂ norm on the segment of ℓ₁ max-margins between its vertices; and
    the vertices."""
    a, b = data["stationary"][0], data["stationary"][-1]
    along = a + np.linspace(0.0, 1.0, 2001)[:, None] * (b - a)
    return excess(data, along)[1].min(), excess(data, along)[1].max()


def claims(data):
    """Where the scales end."""
    ends = {a: excess(data, data[f"w {a:g}"][-1]) for a in scales(data)}
    least, largest = extremes(data)
    second = np.array([x[1] for x in ends.values()])
    path = excess(data, data["path"][-1])
    return [
        Claim(
            "every scale ends with the least ℓ₁ norm, to 0.5 %",
            max(x[0] for x in ends.values()) < 5e-3,
            ", ".join(f"α = {a:g}: {x[0]:.1e}" for a, x in ends.items()),
        ),
        Claim(
            "a large start, α = 100, ends with the least ℓ₂ norm of all ℓ₁ max-margins, excess"
            f" {least:.4f} to 0.002, as the Q_μ path",
            abs(ends[100.0][1] - least) < 2e-3 and abs(path[1] - least) < 2e-3,
            f"excess {ends[100.0][1]:.4f}, path {path[1]:.4f}",
        ),
        Claim(
            "a small start, α = 0.001, ends near the largest ℓ₂ norm of all ℓ₁ max-margins: within"
            f" 10 % of the range {least:.3f} to {largest:.3f}",
            largest - ends[1e-3][1] < 0.1 * (largest - least),
            f"excess {ends[1e-3][1]:.4f}",
        ),
        Claim(
            "so the scale decides at any accuracy: the final ℓ₂ norm falls as α grows",
            (np.diff(second) < 1e-4).all() and np.ptp(second) > 0.1,
            ", ".join(f"α = {a:g}: {x[1]:.4f}" for a, x in ends.items()),
        ),
        Claim(
            "α = 100 is within 0.3° of the path for all γ̃ ≥ α²",
            (late := _late(data, 100.0)) < 0.3,
            f"{late:.3f}°",
        ),
    ]


def _late(data, alpha):
    """The largest angle to the nearest point of the path from γ̃ = α² on."""
    w = data[f"w {alpha:g}"][data[f"accuracy {alpha:g}"] >= alpha**2]
    fine = np.concatenate(
        [
            a + np.linspace(0.0, 1.0, 20)[:, None] * (b - a)
            for a, b in zip(data["path"], data["path"][1:], strict=False)
        ]
    )
    return max(degrees_between(one, fine).min() for one in w)


def draw(data):
    """The plane of excess norms, and the excess ℓ₂ norm where the runs end."""
    figure = Figure(figsize=(PAGE, 3.2), layout="constrained")
    ax, right = figure.subplots(1, 2, width_ratios=(2.0, 1.0))
    alphas, (least, largest) = scales(data), extremes(data)
    for alpha, color in zip(alphas, colors(alphas), strict=True):
        first, second = excess(data, data[f"w {alpha:g}"])
        ax.plot(first, second, color=color, linewidth=1.2, label=f"α = {scale_name(alpha)}")
        right.plot(alpha, second[-1], "o", color=color)
    ax.plot(*excess(data, data["path"]), "--", color="black", linewidth=1.0, label="$Q_μ$ path")
    ax.plot(*excess(data, data["l2"]), "o", color="C2", markersize=7, label="ℓ₂")
    ax.plot(
        *excess(
            data, data["inputs"].mean(axis=0) / np.min(data["inputs"] @ data["inputs"].mean(axis=0))
        ),
        "s",
        color="black",
        label="start",
    )
    ax.plot(
        [0.0, 0.0], [least, largest], color="C1", linewidth=3.0, alpha=0.6, label="all ℓ₁", zorder=1
    )
    ax.set(xlabel="excess ℓ₁ norm", ylabel="excess ℓ₂ norm", title="the runs")
    for level in (least, largest):
        right.axhline(level, color="0.5", linestyle=":")
    right.set(xscale="log", xlabel="scale α", ylabel="excess ℓ₂ norm", title="where they end")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return figure
