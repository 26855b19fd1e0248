"""Wei et al. 2019, Fig. 2: as weight decay λ falls to 1e-14, a trained network's normalised margin
approaches that of the ℓ1 SVM.

One input and a bias, ten data of two classes (the paper's are not published), logistic loss.
Margins are per |ν|; those per squared norm of the weights are half as large, as Thm 3.3 has it,
which the right axis shows. The network, 100 units or 200 at paper scale, and the infinitely wide
one, a density on the circle (new), are trained in units of λ while λ falls, for a cold start would
need a time of 1/λ. New: the global minimum itself for every λ with a certified gap, γ_ℓ1 with a
certificate, beside which the 1000 directions of the paper's ℓ1 SVM are seen to be enough, and the
kernel machine, whose function is another one.
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import hkflow
from hkflow import Claim
from hkflow.certificates import f2_max_margin
from hkflow.plots import PAGE

MINUTES = {"quick": 1, "paper": 6}
CASE = Path(__file__).parent.parent / "cases" / "wei" / "fig2.toml"
LOWEST = -14  # exponent of the smallest λ


def compute(work):
    """Margins against λ and functions of the network, the density, the global minimum, the SVM and
    the kernel machine."""
    objective = hkflow.check(CASE)[1].objective
    problem = {"inputs": objective.inputs, "targets": objective.targets}
    x = np.linspace(1.15 * objective.inputs[:, 0].min(), 1.15 * objective.inputs[:, 0].max(), 600)
    fine = {"plotted": np.column_stack([x, np.ones_like(x)])}
    units, share, wait = (100, 0.02, 4.0) if work.quick else (200, 0.01, 10.0)
    network = np.linspace(-1, LOWEST, 2 * (-1 - LOWEST) + 1)
    density = np.arange(-2, LOWEST - 1, -2 if work.quick else -1)
    cells, time = (128, 5.0) if work.quick else (256, 10.0)
    machine = f2_max_margin(objective)
    parts = {
        "network": work.once(
            trained, **problem, **fine, exponents=network, units=units, share=share, time=wait
        ),
        "grid": work.once(flowed, **problem, **fine, exponents=density, cells=cells, time=time),
        "exact": work.once(
            exact, **problem, **fine, exponents=np.linspace(0, LOWEST, 4 * -LOWEST + 1)
        ),
        "svm": work.once(machines, **problem, **fine, directions=1000),
        "kernel": {
            "function": machine(fine["plotted"]) / objective.margin(machine(objective.inputs))
        },
    }
    data = {
        f"{part} {name}": value for part, values in parts.items() for name, value in values.items()
    }
    return data | {
        "units": units,
        "x": x,
        "inputs": objective.inputs[:, 0],
        "targets": objective.targets,
    }


def trained(inputs, targets, plotted, exponents, units, share, time):
    """A network of balanced units, trained by gradient descent for each λ = 10^exponent from where
    the one before has ended.

    F/λ = Σ q_i ℓ(y_i h_i)/λ + |ν| keeps the terms of order one. A step is `share` of the inverse
    mass, which curvature grows with.
    """
    import numpy as np

    import hkflow

    points, half = hkflow.quasi_uniform(units // 2, 1), units // 2
    start = hkflow.Units.of(
        hkflow.PointMeasure(np.tile(points, (2, 1)), np.repeat([1.0, -1.0], half)), 1, 1.0
    )
    rows, mass, n = [], 1.0, len(targets)
    feature, risk = hkflow.FEATURES["relu"], hkflow.RISKS["logistic"]
    for decay in 10.0 ** np.asarray(exponents, dtype=float):
        objective = hkflow.Objective(
            feature, risk, inputs, targets, np.full(n, 1.0 / (n * decay)), 1.0
        )
        problem = hkflow.Problem(None, objective, hkflow.Flow(1.0, 2.0), (1, -1), start)
        step = share / (mass + 10.0)
        s = hkflow.solve(
            problem,
            time,
            record_interval=time,
            kind="network",
            training="gradient-descent",
            step=step,
        )
        mass, h = s.records["mass"][-1], s.scaled_predictions[-1]
        rows.append((decay, objective.margin(h) / mass, s.records["objective"][-1]))
        start = hkflow.Units(s.states[-1]["hidden"], s.states[-1]["output"])
    function = feature.matrix(start.hidden, plotted) @ start.output / units / objective.margin(h)
    decays, margins, values = np.transpose(rows)
    return {"decay": decays, "margin": margins, "value": values, "function": function}


def flowed(inputs, targets, plotted, exponents, cells, time):
    """The same for the infinitely wide network, whose density on the circle follows the
    Hellinger–Kantorovich flow."""
    import numpy as np

    import hkflow

    mesh, n, rows = hkflow.circle_mesh(cells), len(targets), []
    density = np.full((2, cells), 0.5 / mesh.volumes.sum())
    feature, risk = hkflow.FEATURES["relu"], hkflow.RISKS["logistic"]
    for decay in 10.0 ** np.asarray(exponents, dtype=float):
        objective = hkflow.Objective(
            feature, risk, inputs, targets, np.full(n, 1.0 / (n * decay)), 1.0
        )
        problem = hkflow.Problem(mesh, objective, hkflow.Flow(1.0, 2.0), (1, -1), density)
        s = hkflow.solve(problem, time, record_interval=time, tolerance=1e-2, imex="implicit")
        density, h, mass = s.density[-1], s.scaled_predictions[-1], s.records["mass"][-1]
        rows.append((decay, objective.margin(h) / mass, s.records["objective"][-1]))
    function = (
        feature.matrix(mesh.centers, plotted)
        @ ((density[0] - density[1]) * mesh.volumes)
        / objective.margin(h)
    )
    decays, margins, values = np.transpose(rows)
    return {"decay": decays, "margin": margins, "value": values, "function": function}


def exact(inputs, targets, plotted, exponents):
    """The global minimum for each λ, its relative gap and its function at the smallest λ."""
    import numpy as np

    import hkflow
    from hkflow.certificates import regularisation_path

    feature = hkflow.FEATURES["relu"]
    objective = hkflow.Objective(feature, hkflow.RISKS["logistic"], inputs, targets)
    decays = 10.0 ** np.asarray(exponents, dtype=float)
    path = regularisation_path(objective, (1, -1), decays)
    end = path[-1]
    function = feature.matrix(end.atoms.positions, plotted) @ (end.atoms.signs * end.atoms.weights)
    return {
        "decay": decays,
        "margin": [m.margin for m in path],
        "value": [m.upper / m.weight_decay for m in path],
        "gap": [m.gap for m in path],
        "function": function / objective.margin(end.predictions),
    }


def machines(inputs, targets, plotted, directions):
    """The ℓ1 SVM on evenly spaced directions, and γ_ℓ1 over all of them."""
    import hkflow
    from hkflow.certificates import max_margin, max_margin_of_atoms

    feature = hkflow.FEATURES["relu"]
    objective = hkflow.Objective(feature, hkflow.RISKS["logistic"], inputs, targets)
    few, best = (
        max_margin_of_atoms(objective, hkflow.quasi_uniform(directions, 1), (1, -1)),
        max_margin(objective, (1, -1)),
    )
    function = (
        feature.matrix(few.atoms.positions, plotted)
        @ (few.atoms.signs * few.atoms.weights)
        / few.lower
    )
    return {"margin": few.lower, "lower": best.lower, "upper": best.upper, "function": function}


def claims(data):
    """Where margins go, and how far functions are from one another."""
    gamma, margin, end = data["svm lower"], data["network margin"], data["network margin"][-1]
    inside = (data["x"] >= data["inputs"].min()) & (data["x"] <= data["inputs"].max())
    apart = np.abs(data["network function"] - data["svm function"])[inside].max() / np.ptp(
        data["svm function"][inside]
    )
    value = np.interp(
        np.log(data["network decay"]), np.log(data["exact decay"][::-1]), data["exact value"][::-1]
    )
    excess, small = data["network value"] / value - 1.0, data["network decay"] <= 1.01e-3
    same = np.isin(
        np.round(4 * np.log10(data["exact decay"])), np.round(4 * np.log10(data["grid decay"]))
    )
    off = np.abs(data["grid margin"] / data["exact margin"][same] - 1.0)[1:].max()
    law = (1.0 - data["exact margin"] / gamma) * np.log(1.0 / np.minimum(data["exact decay"], 0.5))
    law = law[data["exact decay"] <= 1.01e-3]
    return [
        Claim(
            "the network's normalised margin rises whenever λ falls, from 0.1 on, or keeps its"
            " value to 1e-4 of γ_ℓ1",
            np.all(np.diff(margin) > -1e-4 * gamma),
            f"from {margin[0]:.4f} to {end:.6f}, smallest rise {np.diff(margin).min():.1e}",
        ),
        Claim(
            "at λ = 1e-14 it is within 2 % of γ_ℓ1, which per squared norm of the weights is"
            " γ_ℓ1/2",
            abs(end / gamma - 1.0) < 0.02,
            f"{end:.6f}, certified γ_ℓ1 in [{gamma:.7f}, {data['svm upper']:.7f}],"
            f" {100 * (1 - end / gamma):.2f} % below",
        ),
        Claim(
            "functions of the network at λ = 1e-14 and of the ℓ1 SVM agree to 5 % of their range"
            " between the data",
            apart < 0.05,
            f"{100 * apart:.2f} %",
        ),
        Claim(
            "1000 directions are enough: their margin is within 0.1 % of γ_ℓ1 over all directions",
            1.0 - data["svm margin"] / data["svm upper"] < 1e-3,
            f"{1.0 - data['svm margin'] / data['svm upper']:.1e} below",
        ),
        Claim(
            "new: the network finds the global minimum at every λ ≤ 1e-3, to 1e-3 of its value",
            np.all(np.abs(excess[small]) < 1e-3),
            f"largest relative difference {np.abs(excess[small]).max():.1e}, certified gaps below"
            f" {data['exact gap'].max():.1e}",
        ),
        Claim(
            "new: so does the infinitely wide network: its margin is that of the minimum to 0.5 %"
            " at every λ ≤ 1e-3",
            off < 5e-3,
            f"largest difference {100 * off:.3f} %",
        ),
        Claim(
            "new: what is missing falls as fast as 1/log(1/λ): (1 − margin/γ_ℓ1) log(1/λ) of the"
            " minimum is largest at 1e-3",
            law.argmax() == 0,
            f"from {law[0]:.3f} to {law[-1]:.3f}",
        ),
    ]


def draw(data):
    """Margins against λ, and functions."""
    figure = Figure(figsize=(PAGE, 2.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    gamma = float(data["svm lower"])
    left.axhline(gamma, color="black", linewidth=0.7, linestyle="--")
    left.annotate(
        rf"$\gamma_{{\ell_1}}$ = {gamma:.6f}",
        (1e-2, gamma),
        (0, 3),
        "data",
        "offset points",
        fontsize=7,
    )
    left.semilogx(data["exact decay"], data["exact margin"], color="C0", label="global minimum")
    left.semilogx(
        data["network decay"],
        data["network margin"],
        "o",
        color="C1",
        markersize=2.5,
        label=f"network, {data['units']} units",
    )
    left.semilogx(
        data["grid decay"],
        data["grid margin"],
        "s",
        color="C2",
        markersize=4,
        mfc="none",
        label="m = ∞ (density)",
    )
    left.set(xlim=(1.0, 0.5 * data["exact decay"][-1]), ylim=(-0.3 * gamma, 1.15 * gamma))
    left.set(xlabel="weight decay λ", ylabel="normalised margin, per |ν|")
    half = left.secondary_yaxis("right", functions=(lambda v: 0.5 * v, lambda v: 2.0 * v))
    half.set_ylabel("per squared norm of the weights")
    left.legend(loc="lower right")
    right.axhline(0.0, color="0.7", linewidth=0.6)
    look = {"color": "0.75", "linewidth": 4.0}
    right.plot(data["x"], data["svm function"], label="ℓ1 SVM", **look)
    right.plot(
        data["x"], data["kernel function"], color="C3", linewidth=0.8, label="kernel machine"
    )
    right.plot(data["x"], data["grid function"], color="C2", linewidth=1.6, label="m = ∞")
    right.plot(data["x"], data["network function"], color="C1", linewidth=0.8, label="network")
    right.plot(
        data["inputs"], data["targets"], "o", color="black", markersize=3, label="data", zorder=3
    )
    right.set(xlabel="input x", ylabel="function, least margin 1", title="λ = 1e-14")
    right.margins(y=0.25)
    right.legend(loc="lower left")
    return figure
