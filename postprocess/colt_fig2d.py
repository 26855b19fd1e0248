"""Chizat & Bach 2020, Fig. 2 (d): the more units, the larger the margin, towards that of infinitely
many.

The margin min y h(x) of ReLU networks with both layers trained, over half the mean squared norm of
their units, against their number m: 30 draws of 256 data from one distribution in 15 dimensions,
with 3 × 3 clusters in two of them. The same data serve every m. The thick line is the mean, the
band its 95 % confidence interval. New: the F₁ max-margin γ of three of these data sets (dashed),
which no width can exceed, in the same units: its lower value, as climbs find it; what is proved in
fifteen dimensions from above is many times that. The paper divides by the whole squared norm, so
its margins are half of these; thin lines are the three data sets, in the colours of their γ. The
quick version has 64 data and 10 draws. At paper scale the margin is level from m = 128 on, at 88 to
90 % of γ: 5·10⁴ steps do not bring the widest networks nearer, the gradient flow does, later
(colt-fig2d-flow).
"""

import numpy as np
from matplotlib.figure import Figure

from hkflow import Claim, mean_and_band
from hkflow.plots import COLUMN

from .colt import network_margin

STUDIES = ("colt/fig2d",)
MINUTES = {"quick": 1.1, "paper": 20}
CLOSE = 0.9  # of γ: what the widest networks should reach
KNOWN = 3  # data sets whose γ is computed, at two minutes each on the scale of the paper


def largest_margin(inputs, targets, tolerance):
    """γ_ℓ1 of data without bias column: the margin of a measure, and a certified upper value."""
    import numpy as np

    from hkflow import FEATURES, RISKS, Objective
    from hkflow import certificates as margins

    x = np.column_stack([inputs, np.ones(len(inputs))])
    one = margins.max_margin(
        Objective(FEATURES["relu"], RISKS["smooth-margin"], x, np.asarray(targets)),
        (1, -1),
        tolerance,
        nodes=1000,
    )
    return {"lower": one.lower, "upper": one.upper}


def compute(work):
    """Margins (values of m, repeats), and γ of the first data sets, (data sets, 2)."""
    margins, gamma = {}, {}
    for changes, run in work.study("colt/fig2d"):
        margins.setdefault(changes["method.units"], []).append(network_margin(run))
        if changes["seed"] < KNOWN:
            one = work.once(largest_margin, inputs=run.inputs, targets=run.targets, tolerance=1e-3)
            gamma[changes["seed"]] = [one["lower"], one["upper"]]
    return {
        "m": list(margins),
        "margin": np.array(list(margins.values())),
        "gamma": np.array(list(gamma.values())),
    }


def claims(data):
    """Margins rise with m towards γ and not beyond."""
    m, margin, gamma = data["m"], data["margin"], data["gamma"]
    rise, band = mean_and_band(np.diff(margin, axis=0))
    whole, whole_band = mean_and_band(margin[-1] - margin[0])
    known = len(gamma)
    share = margin[:, :known] / gamma[:, 0]
    steps = ", ".join(
        f"{1e3 * r:.2f} ± {1e3 * b:.2f} to m = {k:.0f}"
        for r, b, k in zip(rise, band, m[1:], strict=True)
    )
    return [
        Claim(
            "The margin rises with every increase of m (95 % intervals of the rise on the same data"
            " lie above 0)",
            np.all(rise - band > 0.0),
            f"in thousandths: {steps}",
        ),
        Claim(
            f"and from m = {m[0]:.0f} to {m[-1]:.0f} in all",
            whole > whole_band,
            f"by {1e3 * whole:.1f} ± {1e3 * whole_band:.1f} thousandths",
        ),
        Claim(
            f"The widest networks reach {100 * CLOSE:g} % of the infinite-width value γ on average",
            share[-1].mean() > CLOSE,
            ", ".join(
                f"{100 * s:.1f} % at m = {k:.0f}"
                for s, k in zip(share.mean(axis=1), m, strict=True)
            ),
        ),
        Claim(
            "new: no network exceeds the γ of its data",
            np.all(share <= 1.0),
            f"at most {100 * share.max():.2f} %; γ from {gamma[:, 0].min():.4f} on,"
            f" certified to be at most {gamma[:, 1].max():.2f}",
        ),
    ]


def draw(data):
    """Margins against m, and the values that they cannot exceed."""
    figure = Figure(figsize=(1.3 * COLUMN, 2.6), layout="constrained")
    ax = figure.subplots()
    mean, band = mean_and_band(data["margin"])
    ax.semilogx(
        data["m"], data["margin"], "+", color="C0", markersize=3.0, alpha=0.5, markeredgewidth=0.7
    )
    ax.fill_between(data["m"], mean - band, mean + band, color="C0", alpha=0.3, linewidth=0.0)
    ax.plot(data["m"], mean, color="C0", linewidth=2.0, label="networks, mean of draws")
    for number, gamma in enumerate(data["gamma"][:, 0]):
        color, label = (
            f"C{number + 1}",
            "γ of three of them, m = ∞ (as found)" if number == 0 else None,
        )
        ax.plot(
            data["m"], data["margin"][:, number], "-o", color=color, linewidth=0.7, markersize=2.0
        )
        ax.axhline(gamma, color="black", linestyle="--", linewidth=0.7, label=label)
        ax.plot(data["m"][-1:], [gamma], "o", color=color, markersize=4.0)
    ax.axhline(0.0, color="0.7", linewidth=0.6)
    ax.set_xticks(data["m"], [f"{m:.0f}" for m in data["m"]])
    ax.minorticks_off()
    ax.set(
        xlabel="number m of units",
        ylabel="F₁ margin",
        ylim=(1.3 * min(mean[0], 0.0), 1.15 * data["gamma"][:, 0].max()),
    )
    ax.legend(loc="lower right")
    return figure
