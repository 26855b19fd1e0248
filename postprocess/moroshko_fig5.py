"""Moroshko et al. 2020, Fig. 5: to be near the ℓ₁ max-margin γ̃ must grow as α^D, and depth lowers
what is needed.

(a) How much more ℓ₁ norm at margin one than the least a diagonal network of depth 2, 3 or 10 has at
the smooth margin γ̃ (a loss of exp(−γ̃)), from the scales α^D = 0.1 and 1; the black line is the
Q_μ path of depth 2, μ = α^D/γ̃, for α^D = 1. (b) The γ̃ at which 5 % are left, against α^D, with
straight lines fitted in the logarithms. The data are those of our Fig. 3(b), for which the ℓ₁
max-margin is the global minimum of every ℓ_(2/D) quasi-norm as well; the paper's are not published.
The prefactors for small and large scales differ a little with the data, since small starts meet all
data and large ones the support vectors only; so that the spread about a line is no noise, and the
interval of a fit is to be read with care. New: crosses at the Q_μ path's own γ̃/α^D.
"""

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import t

from hkflow import Claim
from hkflow.plots import PAGE

from .moroshko import at_margin_one, truth, weights

STUDIES = ("moroshko/fig5",)
MINUTES = {"quick": 0.4, "paper": 0.4}
CLOSE = 0.05  # excess ℓ₁ norm that counts as the rich regime
MUS = np.geomspace(1e3, 1e-3, 97)
SHOWN = (0.1, 1.0)  # α^D of panel a
LARGE = 10.0  # α^D from which the theory of large scales should hold


def compute(work):
    """Excess ℓ₁ norms over γ̃ of every run, and of the path of every depth."""
    data = {}
    for changes, run in work.study("moroshko/fig5"):
        depth = changes["flow.depth"]
        scale = float(f"{changes['initial.scale'] ** depth:.6g}")
        if f"path {depth:g}" not in data:
            found = truth(work, run, depth, MUS)
            data[f"path {depth:g}"] = (
                np.abs(found["path"]).sum(axis=1) / np.abs(found["l1"]).sum() - 1.0
            )
            data[f"same {depth:g}"] = np.abs(found["stationary"][0] - found["l1"]).max()
        w = at_margin_one(weights(run), run.inputs)
        data[f"excess {depth:g} {scale:g}"] = (
            np.abs(w).sum(axis=1) / np.abs(found["l1"]).sum() - 1.0
        )
        data[f"accuracy {depth:g} {scale:g}"] = run.time
    return data


def runs(data, depth):
    """The α^D of a depth, increasing."""
    return sorted(float(key.split()[2]) for key in data if key.startswith(f"excess {depth:g} "))


def needed(accuracy, excess):
    """γ̃ at which the excess falls to CLOSE for the last time, by interpolation in the
    logarithms."""
    last = np.flatnonzero(excess > CLOSE)[-1]
    share = np.log(excess[last] / CLOSE) / np.log(excess[last] / excess[last + 1])
    return np.exp((1.0 - share) * np.log(accuracy[last]) + share * np.log(accuracy[last + 1]))


def fit(scales, levels):
    """Slope of log γ̃ over log α^D, half the width of its 95 % interval, and the γ̃ of the line at
    α^D = 1."""
    x, y = np.log(scales), np.log(levels)
    slope, height = np.polyfit(x, y, 1)
    left = np.sum((y - slope * x - height) ** 2) / (len(x) - 2)
    return (
        slope,
        t.ppf(0.975, len(x) - 2) * np.sqrt(left / np.sum((x - x.mean()) ** 2)),
        np.exp(height),
    )


def levels(data, depth, start=0.0):
    """α^D from `start` on, and the γ̃ that they need."""
    scales = [s for s in runs(data, depth) if s >= start]
    return np.array(scales), np.array(
        [needed(data[f"accuracy {depth:g} {s:g}"], data[f"excess {depth:g} {s:g}"]) for s in scales]
    )


def claims(data):
    """Slopes and order of the lines."""
    fits = {depth: fit(*levels(data, depth)) for depth in (2, 3, 10)}
    found = [
        Claim(
            f"D = {depth}: γ̃ for 5 % closeness is a power of α^D with exponent 1, |slope − 1| <"
            f" 0.05, for all α^D from {runs(data, depth)[0]:g} to {runs(data, depth)[-1]:g}",
            abs(slope - 1.0) < 0.05,
            f"slope {slope:.4f} ± {width:.4f} (95 %), γ̃ = {height:.3g} at α^D = 1",
        )
        for depth, (slope, width, height) in fits.items()
    ]
    large = {depth: (lambda s, g: g / s)(*levels(data, depth, LARGE)) for depth in (2, 3, 10)}
    path = {depth: needed(1.0 / MUS, data[f"path {depth}"]) for depth in (2, 3, 10)}
    reached = {
        (d, s): needed(data[f"accuracy {d} {s:g}"], data[f"excess {d} {s:g}"])
        for d in (2, 3, 10)
        for s in SHOWN
    }
    return found + [
        Claim(
            f"for α^D ≥ {LARGE:g} what is needed is what the Q_μ path says, γ̃ = α^D/μ, to 2 %"
            " (Theorem 6)",
            max(np.abs(ratio / path[depth] - 1.0).max() for depth, ratio in large.items()) < 0.02,
            "; ".join(
                f"D = {d}: γ̃/α^D = {', '.join(f'{r:.2f}' for r in ratio)}, path {path[d]:.2f}"
                for d, ratio in large.items()
            ),
        ),
        Claim(
            "the intercept falls as the depth grows",
            fits[2][2] > fits[3][2] > fits[10][2],
            ", ".join(
                f"D = {depth}: γ̃ = {height:.3g} at α^D = 1"
                for depth, (_, _, height) in fits.items()
            ),
        ),
        Claim(
            "a: 5 % are reached sooner with greater depth, and from the smaller scale 0.1 than"
            " from 1",
            all(reached[2, s] > reached[3, s] > reached[10, s] for s in SHOWN)
            and all(reached[d, 0.1] < reached[d, 1.0] for d in (2, 3, 10)),
            ", ".join(f"D = {d}, α^D = {s:g}: {g:.3g}" for (d, s), g in reached.items()),
        ),
        Claim(
            "a: γ̃ beyond 50 is needed for D = 2, α^D = 1, a loss of 10⁻²² for three data",
            reached[2, 1.0] > 50.0,
            f"γ̃ = {reached[2, 1.0]:.1f}",
        ),
        Claim(
            "the ℓ₁ max-margin is the least ℓ_(2/D) quasi-norm for all three depths",
            max(data[f"same {d}"] for d in (2, 3, 10)) < 1e-9,
            f"to {max(data[f'same {d}'] for d in (2, 3, 10)):.0e}",
        ),
    ]


def draw(data):
    """Excess over γ̃; γ̃ needed over α^D."""
    figure = Figure(figsize=(PAGE, 3.0), layout="constrained")
    left, right = figure.subplots(1, 2)
    for k, depth in enumerate((2, 3, 10)):
        for scale, line in zip(SHOWN, ("-", ":"), strict=True):
            accuracy, excess = (data[f"{key} {depth} {scale:g}"] for key in ("accuracy", "excess"))
            left.loglog(
                accuracy, excess, line, color=f"C{k}", label=f"D = {depth}, $α^D$ = {scale:g}"
            )
        scales, wanted = levels(data, depth)
        slope, width, height = fit(scales, wanted)
        right.loglog(scales, wanted, "o", color=f"C{k}")
        right.loglog(
            scales,
            height * scales**slope,
            color=f"C{k}",
            label=f"D = {depth}: slope {slope:.3f} ± {width:.3f}",
        )
        ends = np.array([LARGE, scales[-1]])
        right.loglog(
            ends,
            needed(1.0 / MUS, data[f"path {depth}"]) * ends,
            "x",
            color="black",
            markersize=5,
            zorder=4,
        )
    left.loglog(
        1.0 / MUS, data["path 2"], "--", color="black", linewidth=0.8, label="$Q_μ$ path, D = 2"
    )
    left.axhline(CLOSE, color="0.6", linewidth=0.6)
    left.set(
        xlim=(1e-2, 1e3),
        ylim=(1e-4, 1.0),
        xlabel="smooth margin γ̃",
        ylabel="excess ℓ₁ norm",
        title="(a) from two scales",
    )
    right.set(xlabel="$α^D$", ylabel="γ̃ at 5 % excess", title="(b) what 5 % need")
    left.legend()
    right.legend()
    return figure
