"""Moroshko et al. 2020, Fig. 3 and 6: a large start goes to the ℓ₂ max-margin, then along the Q_μ
path to the ℓ₁ one.

Directions w/|w| of diagonal networks of depth 2 for three data in R³, from scales α of 0.001 to
10000, as flows on atoms with the smooth margin γ̃ as the clock, to γ̃ = 10⁶ α² (a loss of
exp(−10¹⁴)). The black numbers are log₁₀ γ̃ along α = 100, the grey ones along α = 0.001; grey areas
separate the data. The paper does not publish its data; ours are chosen to have the properties it
states. Max-margins and Q_μ path are computed on their own, with their optimality conditions
checked. New: in panel d, where a support vector drops out at μ₀ = 0.022 (the paper's data: 0.04), α
= 100 and 10000 leave the path by the same angle, so that larger α do not follow it further, which
the paper leaves open. The multipliers of a network only grow; those of the path fall before μ₀.
"""

import numpy as np
from matplotlib.figure import Figure

from hkflow import Claim
from hkflow.plots import PAGE

from .moroshko import (
    azimuth_pitch,
    colors,
    curve,
    degrees_between,
    scale_name,
    targets,
    truth,
    weights,
)

ALSO = ("moroshko-fig6",)
STUDIES = ("moroshko/fig3",)
MINUTES = {"quick": 0.6, "paper": 0.8}
PANELS = ("b", "c", "d")
MUS = np.geomspace(100.0, 1e-6, 81)  # of the path
SQUARES = (0.5, 0.1, 0.03, 0.01, 0.001)  # the μ that are marked
TITLES = {
    "b": "support vectors stay",
    "c": "many ℓ₁ max-margins",
    "d": "a support vector drops out",
}


def compute(work):
    """Directions of every run, and the path at the μ of the saves of the large starts."""
    data, panels = {}, {}
    for changes, run in work.study("moroshko/fig3"):
        alpha = changes["initial.scale"]
        panel = panels.setdefault(run.inputs.tobytes(), PANELS[min(len(panels), 2)])
        if alpha == 1e-3:
            data |= {f"{panel} {key}": value for key, value in truth(work, run, 2.0, MUS).items()}
        data |= {f"{panel} {alpha:g}": weights(run), f"{panel} {alpha:g} accuracy": run.time}
        data[f"{panel} {alpha:g} reached"] = run.records["smooth_margin"][-1]
        if alpha >= 1.0:
            late = run.time[run.time >= 0.01 * alpha**2]
            data[f"{panel} {alpha:g} path"] = truth(work, run, 2.0, alpha**2 / late)["path"]
    return data


def scales(data):
    """All α, increasing."""
    return sorted(
        float(key.split()[1]) for key in data if key.startswith("b ") and key.endswith("accuracy")
    )


def at(data, panel, alpha, accuracy):
    """w of the save nearest to γ̃."""
    return data[f"{panel} {alpha:g}"][
        np.argmin(np.abs(np.log(data[f"{panel} {alpha:g} accuracy"] / accuracy)))
    ]


def off_path(data, panel, alpha):
    """γ̃/α² from 0.01 on, and the angle to the path at μ = α²/γ̃."""
    path = data[f"{panel} {alpha:g} path"]
    late = slice(-len(path), None)
    w, accuracy = data[f"{panel} {alpha:g}"][late], data[f"{panel} {alpha:g} accuracy"][late]
    return accuracy / alpha**2, degrees_between(w, path)


def dropout(data, panel="d"):
    """μ₀ at which the first datum's multiplier reaches zero, on the straight line through its last
    two points in log μ."""
    multiplier = data[f"{panel} multipliers"][:, 0]
    last = np.flatnonzero(multiplier > 1e-9)[-1]
    a, b = multiplier[last - 1 : last + 1]
    return data[f"{panel} mu"][last] * (
        data[f"{panel} mu"][last] / data[f"{panel} mu"][last - 1]
    ) ** (b / (a - b))


def claims(data):
    """What is passed, followed and reached."""
    alphas = scales(data)
    ends = {a: degrees_between(data[f"b {a:g}"][-1], data["b l1"]) for a in alphas}
    stray = {
        (p, a): (lambda r, x: x[r >= 0.1].max())(*off_path(data, p, a))
        for p in "bc"
        for a in (100.0, 1e4)
    }
    near = {
        (p, a): degrees_between(at(data, p, a, a**2), data[f"{p} l2"])
        for p in PANELS
        for a in (100.0, 1e4)
    }
    left = {
        (p, a): degrees_between(at(data, p, a, 10.0 * a**2), data[f"{p} l2"])
        for p in PANELS
        for a in (100.0, 1e4)
    }
    begins = degrees_between(data["b inputs"].mean(axis=0), data["b l2"])
    small = min(degrees_between(data[f"b {a:g}"], data["b l2"]).min() for a in (1e-3, 1e-2))
    to_squares = np.array(
        [
            [np.interp(np.log(1.0 / mu), np.log(r), x) for mu in SQUARES]
            for r, x in (off_path(data, "b", a) for a in (1.0, 10.0, 100.0))
        ]
    )
    same = max(
        degrees_between(at(data, "b", 100.0, 1e4 * r), at(data, "b", 1e4, 1e8 * r))
        for r in np.geomspace(0.01, 1e5, 43)
    )
    last = {a: azimuth_pitch(data[f"c {a:g}"][-1]) for a in alphas}
    pitch = [
        abs(azimuth_pitch(at(data, "c", a, g))[1])
        for a, g in ((100.0, 1e8), (100.0, 1e6), (1e-3, 0.1))
    ]
    mu0, d = dropout(data), {a: off_path(data, "d", a) for a in (10.0, 100.0, 1e4)}
    early = max(d[a][1][(d[a][0] >= 0.1) & (d[a][0] <= 1.0)].max() for a in (100.0, 1e4))
    late = {a: np.interp(np.log(10.0 / mu0), np.log(d[a][0]), d[a][1]) for a in d}
    late_w = np.concatenate([data[f"b {a:g}"][-len(data[f"b {a:g} path"]) :] for a in (100.0, 1e4)])
    margins = late_w @ data["b inputs"].T
    final = max(data[f"{p} {a:g} accuracy"][-1] for p in PANELS for a in alphas)
    wrong = max(
        abs(data[f"{p} {a:g} reached"] / data[f"{p} {a:g} accuracy"][-1] - 1.0)
        for p in PANELS
        for a in alphas
    )
    return [
        Claim(
            "α = 100 and 10000 are near the ℓ₂ max-margin, within 5°, at γ̃ = α² (10⁴ and 10⁸), and"
            " no longer at 10 α² (all panels)",
            max(near.values()) < 5.0 < min(left.values()),
            f"at most {max(near.values()):.2f}°, then at least {min(left.values()):.1f}°",
        ),
        Claim(
            "b, c: then they follow the Q_μ path, μ = α²/γ̃, within 0.2° for all γ̃ ≥ α²/10",
            max(stray.values()) < 0.2,
            ", ".join(f"{p}, α = {a:g}: {x:.3f}°" for (p, a), x in stray.items()),
        ),
        Claim(
            f"b: at μ = {', '.join(f'{mu:g}' for mu in SQUARES)} the points at γ̃ = α²/μ approach"
            " the Q_μ max-margin as α grows from 1 to 10 to 100, to less than 0.1°",
            (np.diff(to_squares, axis=0) < 0.0).all() and to_squares[-1].max() < 0.1,
            "; ".join(", ".join(f"{x:.3f}°" for x in row) for row in to_squares),
        ),
        Claim(
            "b: α = 100 and α = 10000 cannot be told apart, less than 0.5° at equal γ̃/α² ≥ 0.01",
            same < 0.5,
            f"{same:.2f}°",
        ),
        Claim(
            "b: every scale ends at the ℓ₁ max-margin, within 0.2°",
            max(ends.values()) < 0.2,
            ", ".join(f"α = {a:g}: {x:.3f}°" for a, x in ends.items()),
        ),
        Claim(
            "b: a small start, α ≤ 0.01, heads for ℓ₁ and never comes nearer to ℓ₂ than where it"
            " begins, by 2 % of that angle",
            small > 0.98 * begins,
            f"begins at {begins:.2f}°, never nearer than {small:.2f}°",
        ),
        Claim(
            "b: the datum that is no support vector stays away, its margin at least 1.1 of the"
            " least (Condition 5), for α = 100, 10000",
            (margins[:, 2] / margins.min(axis=1)).min() > 1.1,
            f"at least {(margins[:, 2] / margins.min(axis=1)).min():.2f} for γ̃ ≥ α²/100",
        ),
        Claim(
            "c: all end among the ℓ₁ max-margins (pitch below 0.6°), and α decides at which:"
            " azimuths differ by more than 30°",
            max(abs(x[1]) for x in last.values()) < 0.6
            and np.ptp([x[0] for x in last.values()]) > 30.0,
            ", ".join(f"α = {a:g}: {x[0]:.1f}°" for a, x in last.items()),
        ),
        Claim(
            "c: α = 100 is near ℓ₁ (pitch below 2°) at γ̃ = 10⁸ and not yet at 10⁶; α = 0.001 is at"
            " γ̃ = 0.1, a loss of 0.9",
            pitch[0] < 2.0 < pitch[1] and pitch[2] < 2.0,
            f"{pitch[0]:.2f}°, {pitch[1]:.2f}° and {pitch[2]:.2f}°",
        ),
        Claim(
            f"d: the path loses a support vector at μ₀ = {mu0:.3f}; α = 100 and 10000 follow it"
            " within 0.5° for 1 ≤ μ ≤ 10, and not to the end: more than 1° off at μ₀/10",
            early < 0.5 and min(late[100.0], late[1e4]) > 1.0,
            f"{early:.2f}°, then {late[100.0]:.2f}° and {late[1e4]:.2f}°",
        ),
        Claim(
            "new, d: more scale does not help, α = 100 and 10000 are off by the same angle at"
            " μ₀/10, to 2 %",
            abs(late[1e4] / late[100.0] - 1.0) < 0.02,
            ", ".join(f"α = {a:g}: {x:.3f}°" for a, x in late.items()),
        ),
        Claim(
            "losses down to exp(−10⁸) and far beyond are reached, and there γ̃ is known to 10⁻⁴ of"
            " itself, the tolerance of the runs",
            final >= 1e12 and wrong < 1e-4,
            f"exp(−{final:.0e}), γ̃ known to {wrong:.0e}",
        ),
    ]


def draw(data):
    """The half sphere, and three panels."""
    figure = Figure(figsize=(PAGE, 6.0), layout="constrained")
    axes = figure.subplots(2, 2).ravel()
    frame = _panel(axes[1], data, "b")
    _area(axes[0], data["b inputs"], (-90.0, 90.0), (-90.0, 90.0))
    (left, right), (low, high) = frame
    axes[0].fill([left, right, right, left], [low, low, high, high], fill=False, edgecolor="C3")
    axes[0].set(
        title="(a) the directions that separate b, and panel b",
        xticks=(-90, 0, 90),
        yticks=(-90, 0, 90),
    )
    for ax, panel in zip(axes[2:], "cd", strict=True):
        _panel(ax, data, panel)
    for ax in axes:
        ax.set(xlabel="azimuth (degrees)", ylabel="pitch (degrees)")
    handles, words = axes[1].get_legend_handles_labels()
    figure.legend(handles, words, loc="outside lower center", ncols=6)
    return figure


def _panel(ax, data, panel):
    """The paths of all scales, with the points of equal μ joined; returns the frame."""
    alphas = scales(data)
    for alpha, color in zip(alphas, colors(alphas), strict=True):
        curve(
            ax,
            data[f"{panel} {alpha:g}"],
            color=color,
            linewidth=1.2,
            label=f"α = {scale_name(alpha)}",
        )
    solutions = data[f"{panel} stationary"]
    curve(
        ax,
        solutions[0] + np.linspace(0.0, 1.0, 90)[:, None] * (solutions[-1] - solutions[0]),
        color="C1",
        linewidth=3.0,
        alpha=0.5,
    )
    for mu in SQUARES:
        joined = [at(data, panel, alpha, alpha**2 / mu) for alpha in alphas]
        curve(ax, joined, color="0.5", linestyle=":", linewidth=0.7)
        nearest = np.argmin(np.abs(np.log(data[f"{panel} mu"] / mu)))
        look = {"marker": "s", "color": "C3", "markersize": 4.5, "linestyle": "none", "zorder": 5}
        curve(
            ax,
            data[f"{panel} path"][nearest],
            **look,
            label="μ = 0.5 … 0.001" if mu == SQUARES[0] else None,
        )
    targets(ax, data, panel)
    if panel == "c":
        ax.set_xlim(-2.0, 52.0)
    start = azimuth_pitch(data[f"{panel} inputs"].mean(axis=0))
    for alpha, color, shift in ((1e-3, "0.3", (-3, 3)), (100.0, "black", (4, 2))):
        before, accuracy = start, data[f"{panel} {alpha:g} accuracy"]
        for power in range(int(np.ceil(np.log10(accuracy[0]))), int(np.log10(accuracy[-1])) + 1):
            here = azimuth_pitch(at(data, panel, alpha, 10.0**power))
            if np.abs(here - before).max() > 1.0:
                ax.plot(*here, ".", color=color, markersize=4, zorder=7)
                side = "left" if shift[0] > 0 else "right"
                ax.annotate(
                    f"{power}",
                    here,
                    shift,
                    textcoords="offset points",
                    color=color,
                    fontsize=7,
                    ha=side,
                    zorder=7,
                )
                before = here
    frame = ax.get_xlim(), ax.get_ylim()
    _area(ax, data[f"{panel} inputs"], *frame)
    ax.set_title(f"({panel}) {TITLES[panel]}")
    return frame


def _area(ax, inputs, azimuths, pitches):
    """Shade the directions that separate the data."""
    a, b = np.meshgrid(np.linspace(*azimuths, 300), np.linspace(*pitches, 300))
    p, q = np.radians(a), np.radians(b)
    least = np.min(
        np.stack([np.cos(q) * np.cos(p), np.cos(q) * np.sin(p), np.sin(q)], axis=-1) @ inputs.T,
        axis=-1,
    )
    ax.contourf(a, b, least, levels=[0.0, np.inf], colors=["0.93"], zorder=0)
    ax.set(xlim=azimuths, ylim=pitches)
