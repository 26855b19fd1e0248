"""Moroshko et al. 2020, Fig. 4: at depth 3 a large start leaves the Q_μ path for the ℓ_(2/3)
max-margin.

Directions of diagonal networks of depth 3 for two sets of three data in R³, whose ℓ₁ max-margin,
the end of the Q_μ path, is no stationary point of the ℓ_(2/3) quasi-norm. Large scales α visit the
ℓ₂ max-margin, stay near the path and then turn to the global minimum of the quasi-norm; in panel b
small ones end in the local minimum at azimuth and pitch 0. The paper does not publish its data or
scales; ours are chosen to have the properties it states. New: all stationary points of the
quasi-norm are computed and marked, open circles for local minima and crosses for saddles, and the
points where the runs end are held against them.
"""

import numpy as np
from matplotlib.figure import Figure

from hkflow import Claim
from hkflow.plots import PAGE

from .moroshko import colors, curve, degrees_between, scale_name, targets, truth, weights

STUDIES = ("moroshko/fig4",)
MINUTES = {"quick": 0.3, "paper": 0.4}
DEPTH = 3.0
PANELS = ("a", "b")
MUS = np.geomspace(100.0, 1e-6, 81)


def compute(work):
    """Directions of every run, and the path at the μ of the saves of the large starts."""
    data, panels = {}, {}
    for changes, run in work.study("moroshko/fig4"):
        alpha = changes["initial.scale"]
        panel = panels.setdefault(run.inputs.tobytes(), PANELS[min(len(panels), 1)])
        if f"{panel} path" not in data:
            data |= {f"{panel} {key}": value for key, value in truth(work, run, DEPTH, MUS).items()}
        data |= {f"{panel} {alpha:g}": weights(run), f"{panel} {alpha:g} accuracy": run.time}
        if alpha >= 10.0:
            late = run.time[run.time >= 0.01 * alpha**DEPTH]
            data[f"{panel} {alpha:g} path"] = truth(work, run, DEPTH, alpha**DEPTH / late)["path"]
    return data


def scales(data):
    """All α, increasing."""
    return sorted(
        float(key.split()[1]) for key in data if key.startswith("a ") and key.endswith("accuracy")
    )


def off_path(data, panel, alpha):
    """γ̃/α^D from 0.01 on, and the angle to the path at μ = α^D/γ̃."""
    path = data[f"{panel} {alpha:g} path"]
    late = slice(-len(path), None)
    return data[f"{panel} {alpha:g} accuracy"][late] / alpha**DEPTH, degrees_between(
        data[f"{panel} {alpha:g}"][late], path
    )


def after_l2(data, panel, alpha):
    """The largest angle to the path from where a run is nearest to the ℓ₂ max-margin until μ =
    0.1."""
    nearest = np.argmin(degrees_between(data[f"{panel} {alpha:g}"], data[f"{panel} l2"]))
    since = data[f"{panel} {alpha:g} accuracy"][nearest] / alpha**DEPTH
    ratio, angles = off_path(data, panel, alpha)
    return angles[(ratio >= 0.999 * since) & (ratio <= 10.01)].max()


def end(data, panel, alpha):
    """The nearest stationary point to where a run ends, and the angle to it."""
    angles = degrees_between(data[f"{panel} {alpha:g}"][-1], data[f"{panel} stationary"])
    return np.argmin(angles), angles.min()


def claims(data):
    """What large and small starts visit, and where they end."""
    found, large = [], [a for a in scales(data) if a >= 10.0]
    for p in PANELS:
        best, l1, l2 = data[f"{p} stationary"][0], data[f"{p} l1"], data[f"{p} l2"]
        passes = {a: degrees_between(data[f"{p} {a:g}"], l2).min() for a in large}
        early = {a: after_l2(data, p, a) for a in large}
        ends = {a: degrees_between(data[f"{p} {a:g}"][-1], best) for a in large}
        apart = degrees_between(l1, best)
        found += [
            Claim(
                f"{p}: for α ≥ 10 the trajectory first visits the ℓ₂ max-margin, within 1°, and"
                " then follows the Q_μ path, within 1°, until μ = 0.1",
                max(passes.values()) < 1.0 and max(early.values()) < 1.0,
                "; ".join(
                    f"α = {a:g}: {passes[a]:.2f}° from ℓ₂, {early[a]:.2f}° from the path"
                    for a in large
                ),
            ),
            Claim(
                f"{p}: then it turns to the ℓ_(2/3) max-margin, where it ends within 2°,"
                f" {apart:.0f}° from the ℓ₁ max-margin",
                max(ends.values()) < 2.0 and apart > 10.0,
                ", ".join(f"α = {a:g}: {x:.2f}°" for a, x in ends.items()),
            ),
            Claim(
                f"{p}: the path itself goes on to the ℓ₁ max-margin, which is no stationary point"
                " of the quasi-norm (none within 5°)",
                degrees_between(data[f"{p} path"][-1], l1) < 0.1
                and degrees_between(l1, data[f"{p} stationary"]).min() > 5.0,
                f"path {degrees_between(data[f'{p} path'][-1], l1):.3f}°, nearest stationary point "
                f"{degrees_between(l1, data[f'{p} stationary']).min():.1f}°",
            ),
        ]
    nearest, angle = zip(*(end(data, "b", a) for a in (0.01, 0.1)), strict=True)
    at_e1 = (
        degrees_between(data["b stationary"][list(nearest)], np.array([1.0, 0.0, 0.0])).max() < 1e-6
    )
    found += [
        Claim(
            "b: small starts, α = 0.01 and 0.1, end in the local minimum at azimuth and pitch 0,"
            " within 1°, which is not the global one",
            at_e1
            and max(angle) < 1.0
            and data["b minimum"][list(nearest)].all()
            and min(nearest) > 0,
            f"{angle[0]:.2f}° and {angle[1]:.2f}°; quasi-norm"
            f" {data['b quasi-norm'][nearest[0]]:.3f}, least {data['b quasi-norm'][0]:.3f}",
        ),
        Claim(
            "every run ends within 2° of a stationary point that is a local minimum (Theorem 2)",
            all(
                end(data, p, a)[1] < 2.0 and data[f"{p} minimum"][end(data, p, a)[0]]
                for p in PANELS
                for a in scales(data)
            ),
            f"at most {max(end(data, p, a)[1] for p in PANELS for a in scales(data)):.2f}°",
        ),
    ]
    return found


def draw(data):
    """The two panels."""
    figure = Figure(figsize=(PAGE, 3.6), layout="constrained")
    axes = figure.subplots(1, 2)
    for ax, panel, title in zip(
        axes,
        PANELS,
        ("the path's end is no stationary point", "a local minimum at (0, 0)"),
        strict=True,
    ):
        alphas = scales(data)
        for alpha, color in zip(alphas, colors(alphas), strict=True):
            curve(
                ax,
                data[f"{panel} {alpha:g}"],
                color=color,
                linewidth=1.0,
                label=f"α = {scale_name(alpha)}",
            )
        targets(ax, data, panel)
        frame = ax.get_xlim(), ax.get_ylim()
        minimum, best = data[f"{panel} minimum"], np.arange(len(data[f"{panel} minimum"])) == 0
        for chosen, marker, label in (
            (best, "D", "least $ℓ_{2/3}$"),
            (minimum & ~best, "o", "local minimum"),
            (~minimum, "x", "saddle"),
        ):
            look = {
                "color": "C3",
                "markersize": 7,
                "linestyle": "none",
                "zorder": 5,
                "label": label,
            }
            curve(
                ax,
                data[f"{panel} stationary"][chosen],
                marker=marker,
                **look,
                markerfacecolor="C3" if marker == "D" else "none",
            )
        ax.set(
            xlim=frame[0],
            ylim=frame[1],
            title=f"({panel}) {title}",
            xlabel="azimuth (degrees)",
            ylabel="pitch (degrees)",
        )
    handles, words = axes[0].get_legend_handles_labels()
    figure.legend(handles, words, loc="outside lower center", ncols=6)
    return figure
