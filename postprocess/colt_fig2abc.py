"""Chizat & Bach 2020, Fig. 2 (a–c): training both layers needs fewer data and minds the dimension less than the output layer alone.

Inputs have 3 × 3 clusters with random classes in two dimensions and noise in the others, so a classifier that finds the two
directions has an easy task. The share of 10⁴ fresh points that a network of 1000 ReLU units gets wrong is drawn against the number
of data and against the dimension; thick lines are means of 20 draws of data, classes and weights, bands their 95 % confidence
intervals, thin lines the draws. New: the intervals, and those of the differences between the two networks on the same data. The
quick version has 300 units, 10⁴ steps instead of 5·10⁴, 8 draws and at most 128 data.
"""

import numpy as np
from colt import draw_data, mean_and_band
from matplotlib.figure import Figure

from hkflow.plots import PAGE
from hkflow.reproduction import Claim, main

STUDIES = ("colt/fig2b", "colt/fig2c")
ALSO = ("icm-fig6",)
MINUTES = {"quick": 1.5, "paper": 75}
FRESH = 10_000  # points that test errors are measured on
NAMES = {"both": "both layers", "output": "output layer"}


def compute(work):
    """Test errors (values of n or d, repeats) of both ways of training, and a draw of the distribution."""
    data = {}
    for study, key in (("colt/fig2b", "n"), ("colt/fig2c", "dim")):
        errors = {name: {} for name in NAMES}
        for changes, run in work.study(study):
            inputs, targets = run.problem.draw(np.random.default_rng([changes["seed"], FRESH]), FRESH)
            error = np.mean(targets * run.predict(inputs[:, :-1]) <= 0.0)
            errors[run.case.method.layers].setdefault(getattr(run.case.data, key), []).append(error)
        data[key] = list(errors["both"])
        data |= {f"{name} by {key}": np.array(list(one.values())) for name, one in errors.items()}
    inputs, targets = run.problem.draw(np.random.default_rng(0), 1000)
    return data | {"inputs": inputs[:, :2], "targets": targets}


def claims(data):
    """Both layers are better, and suffer less from the dimension."""
    found = []
    for key, name in (("n", "number n of data"), ("dim", "dimension d")):
        gap, band = mean_and_band(data[f"output by {key}"] - data[f"both by {key}"])
        shown = ", ".join(
            f"{100 * g:.1f} ± {100 * b:.1f} at {key[0]} = {v:.0f}" for g, b, v in zip(gap, band, data[key], strict=True)
        )
        found.append(
            Claim(
                f"Both layers err less than the output layer alone on the same data, at every {name} (95 % intervals of the"
                " difference lie above 0)",
                np.all(gap - band > 0.0),
                f"differences in points of per cent: {shown}",
            )
        )
    drop, band = mean_and_band(data["both by n"][0] - data["both by n"][-1])
    mean = {name: data[f"{name} by n"].mean(axis=1) for name in NAMES}
    rise, rise_band = mean_and_band(
        (data["output by dim"][-1] - data["output by dim"][0]) - (data["both by dim"][-1] - data["both by dim"][0])
    )
    means = {name: data[f"{name} by dim"].mean(axis=1) for name in NAMES}
    return found + [
        Claim(
            "The error of both layers falls with every doubling of n, and from the smallest to the largest n beyond its interval",
            np.all(np.diff(mean["both"]) < 0.0) and drop > band,
            ", ".join(f"{100 * value:.1f} %" for value in mean["both"]) + f"; falls by {100 * drop:.1f} ± {100 * band:.1f}",
        ),
        Claim(
            "At the largest n both layers make at most half the errors of the output layer",
            mean["both"][-1] <= 0.5 * mean["output"][-1],
            f"{100 * mean['both'][-1]:.1f} % against {100 * mean['output'][-1]:.1f} %",
        ),
        Claim(
            "From the lowest to the highest d the error of the output layer rises more than that of both layers (95 % interval)",
            rise > rise_band,
            "; ".join(f"{NAMES[name]} {100 * one[0]:.1f} % to {100 * one[-1]:.1f} %" for name, one in means.items())
            + f"; difference of rises {100 * rise:.1f} ± {100 * rise_band:.1f}",
        ),
    ]


def draw(data):
    """The distribution, and test errors against n and d."""
    figure = Figure(figsize=(PAGE, 2.3), layout="constrained")
    first, *others = figure.subplots(1, 3, width_ratios=(0.8, 1.0, 1.0))
    draw_data(first, data["inputs"], data["targets"])
    first.set(title="(a)", xlabel="x₁", ylabel="x₂")
    for ax, key, title in zip(others, ("n", "dim"), ("(b) d = 15", "(c)"), strict=True):
        for color, (name, label) in zip(("C0", "C1"), NAMES.items(), strict=True):
            errors = data[f"{name} by {key}"]
            mean, band = mean_and_band(errors)
            ax.plot(data[key], errors, color=color, linewidth=0.4, alpha=0.35)
            ax.fill_between(data[key], mean - band, mean + band, color=color, alpha=0.25, linewidth=0.0)
            ax.plot(data[key], mean, color=color, linewidth=2.2, label=label)
        ax.set(title=title, ylim=(0.0, None), xticks=data[key])
    others[0].set(xscale="log", xlabel="number n of data", ylabel="test error")
    others[0].set_xticks(data["n"], [f"{value:.0f}" for value in data["n"]])
    others[0].minorticks_off()
    others[1].set(xlabel="dimension d")
    others[0].legend()
    return figure


if __name__ == "__main__":
    main("colt-fig2abc")
