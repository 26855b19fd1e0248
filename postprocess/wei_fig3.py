"""Wei et al. 2019, Fig. 3: as data grow, trained networks predict better than kernel machines of
the same features.

A teacher of 6 ReLU units in 20 dimensions gives classes (left) or values (middle); networks that
are trained with weight decay 1e-8 are held against the ℓ2 kernel machine of ReLU features, which is
solved exactly. Dotted: the leading terms of the bounds (Thm 3.1, Lemmas 3.4, D.4, D.5; a
1-Lipschitz loss), with the constants of the paper's own proofs where it hides them; with these the
network's bounds lie above the kernel's, and those of classes rise with n, as margins fall. New,
right: a linear programme for the best output weights on the very units that were trained, which
shows that training has not found the best margin, as the paper supposes. Width, step and n are
ours, for the paper does not say them.
"""

import numpy as np
from matplotlib.figure import Figure

from hkflow import Claim, mean_and_band
from hkflow.certificates import (
    arc_cosine_kernel,
    bounds,
    f2_max_margin,
    l2_interpolation,
    max_margin_of_atoms,
)
from hkflow.plots import PAGE

STUDIES = ("wei/fig3",)
MINUTES = {"quick": 1, "paper": 40}
FRESH = 5000  # data that test errors are measured on
KINDS = {"classes": "0–1 error", "values": "mean squared error"}
NAMES = ("network", "kernel", "network bound", "kernel bound", "margin", "best margin")


def compute(work):
    """For each kind, (numbers of data, trials) of NAMES."""
    rows = {kind: {} for kind in KINDS}
    for changes, run in work.study("wei/fig3"):
        kind, n = ("classes" if run.classifies else "values"), changes["data.n"]
        rows[kind].setdefault(n, []).append(measured(run, changes["seed"]))
    data = {}
    for kind, found in rows.items():
        values = np.moveaxis(np.array(list(found.values())), 2, 0)
        data |= {f"{kind} {name}": value for name, value in zip(NAMES, values, strict=True)}
        data[f"{kind} n"] = np.array(list(found))
    return data


def measured(run, seed):
    """NAMES of one run: test errors, leading terms of the bounds, and of classes margins per
    squared norm of the weights."""
    objective = run.problem.objective
    x, y, (n, d) = objective.inputs, objective.targets, objective.inputs.shape
    new, wanted = run.problem.draw(np.random.default_rng((seed, n)), FRESH)
    mass, square = run.mass[-1], np.sum(x**2)
    if run.classifies:
        machine = f2_max_margin(objective)
        gamma = run.records["margin"][-1] / 2.0  # per squared norm of the weights
        reach = np.linalg.norm(x, axis=1).max()
        bound = (
            bounds.network_margin_bound(gamma, square / n, reach, n, 0.05).leading
            if gamma > 0.0
            else np.inf
        )
        other = bounds.kernel_margin_bound(
            machine.machine.value, square / n, reach, n, d, 0.05
        ).leading
        best = (
            max_margin_of_atoms(objective, run.atoms_at(-1).positions, run.problem.signs).lower
            / 2.0
        )
        return [np.mean(wanted * h <= 0.0) for h in (run.predict(new), machine(new))] + [
            bound,
            other,
            gamma,
            best,
        ]
    machine = l2_interpolation(arc_cosine_kernel(x, x, 1), y)
    bound = bounds.network_regression_bound(mass, np.sqrt(square), 1.0, 1.0, n, 0.05).leading
    other = bounds.kernel_regression_bound(
        machine.norm, np.sqrt(square), 1.0, 1.0, n, d, 0.05
    ).leading
    h = run.predict(new), machine.decision(arc_cosine_kernel(new, x, 1))
    return [np.mean((wanted - one) ** 2) for one in h] + [bound, other, np.nan, np.nan]


def claims(data):
    """Errors and bounds, network against kernel."""
    found = []
    for kind, what in KINDS.items():
        n = data[f"{kind} n"]
        mean, half = mean_and_band(data[f"{kind} kernel"] - data[f"{kind} network"])
        found.append(
            Claim(
                f"{kind}: at the largest n the network's {what} is below the kernel's, 95 %"
                " interval of the difference above 0",
                mean[-1] > half[-1],
                ", ".join(
                    f"n = {k}: {m:.3g} ± {s:.2g}" for k, m, s in zip(n, mean, half, strict=True)
                ),
            )
        )
        bound, error = (data[f"{kind} kernel{end}"].mean(axis=1) for end in (" bound", ""))
        found.append(
            Claim(
                f"{kind}: the kernel's bound stays constant with n, within a factor of 1.5, its"
                " error falls to less than half",
                bound.max() < 1.5 * bound.min() and error[-1] < 0.5 * error[0],
                f"bound between {bound.min():.3g} and {bound.max():.3g}, error from {error[0]:.3g}"
                f" to {error[-1]:.3g}",
            )
        )
    bound = data["values network bound"].mean(axis=1)
    spread = np.max(
        data["classes network bound"].std(axis=1) / data["classes network bound"].mean(axis=1)
    )
    share = (data["classes margin"] / data["classes best margin"]).mean(axis=1)
    return found + [
        Claim(
            "values: the network's bound falls with n",
            np.all(np.diff(bound) < 0.0),
            ", ".join(f"{value:.3g}" for value in bound),
        ),
        Claim(
            "classes: there is some variance in the network's bound: a relative deviation over"
            " trials of more than 5 %",
            spread > 0.05,
            f"{spread:.2g}",
        ),
        Claim(
            "new: because training has not found the best margin: at every n it reaches less than"
            " 90 % of what its units allow",
            np.all(share < 0.9),
            ", ".join(
                f"n = {k}: {100 * value:.0f} %"
                for k, value in zip(data["classes n"], share, strict=True)
            ),
        ),
    ]


def draw(data):
    """A panel for each kind, and the margins."""
    figure = Figure(figsize=(PAGE, 2.7), layout="constrained")
    axes = figure.subplots(1, 3, width_ratios=(1.0, 1.0, 0.8))
    for ax, (kind, what) in zip(axes, KINDS.items(), strict=False):
        n = data[f"{kind} n"]
        for color, name in (("C0", "network"), ("C1", "kernel")):
            mean, half = mean_and_band(data[f"{kind} {name}"])
            ax.errorbar(
                n,
                mean,
                half,
                color=color,
                marker="o",
                markersize=2.5,
                capsize=2.0,
                label=f"{name}: error",
            )
            values = np.where(
                np.isfinite(data[f"{kind} {name} bound"]), data[f"{kind} {name} bound"], np.nan
            )
            ax.plot(
                n, np.nanmean(values, axis=1), color=color, linestyle=":", label=f"{name}: bound"
            )
        ax.set(xscale="log", yscale="log", xlabel="number of data n", ylabel=what, title=kind)
    axes[1].legend(loc="lower left")
    for color, name, label in (
        ("C0", "margin", "as trained"),
        ("black", "best margin", "best for these units"),
    ):
        mean, half = mean_and_band(data[f"classes {name}"])
        look = {"color": color, "linestyle": "--" if color == "black" else "-"}
        axes[2].errorbar(
            data["classes n"],
            mean,
            half,
            marker="o",
            markersize=2.5,
            capsize=2.0,
            label=label,
            **look,
        )
    axes[2].set(
        xscale="log",
        yscale="log",
        xlabel="number of data n",
        ylabel="margin / squared norm",
        title="classes",
    )
    ticks = [0.01, 0.02, 0.05, 0.1, 0.2]
    axes[2].set(
        ylim=(0.35 * data["classes margin"].mean(axis=1).min(), 0.3),
        yticks=ticks,
        yticklabels=ticks,
    )
    axes[2].minorticks_off()
    axes[2].legend(loc="lower left")
    return figure
