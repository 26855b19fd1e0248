"""Draw how weak weight decay finds the largest margin (Wei et al. 2019, Fig. 2): the margin of the global minimum against λ.

python postprocess/margin_against_decay.py --output margin-against-decay.png [--data 16] [--seed 1]

Logistic loss, one input and a bias, ReLU units of both signs. Every point is a global minimum with a relative gap below 1e-6, and
the limit is a max-margin with a certificate of its own: the 1000 directions of the paper's figure are not needed.
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from hkflow.margins.column_generation import max_margin
from hkflow.margins.kernel_machine import f2_max_margin
from hkflow.margins.regularised import regularisation_path
from hkflow.objectives.features import FEATURES
from hkflow.objectives.objective import Objective
from hkflow.objectives.risks import RISKS
from hkflow.plots import style

SIGNS = (1, -1)
DECAYS = np.logspace(0.0, -14.0, 57)


def classes_on_a_line(n, seed):
    """n inputs in [−1, 1] with a bias, and the sign of a wave; as an Objective without weight decay."""
    gaps = np.random.default_rng(seed).uniform(0.4, 1.6, n)
    x = 2.0 * np.cumsum(gaps) / gaps.sum() - 1.0 - gaps[0] / gaps.sum()
    targets = np.where(np.sin(4.2 * x + 0.4) > 0.0, 1.0, -1.0)
    return Objective(FEATURES["relu"], RISKS["logistic"], np.column_stack([x, np.ones(n)]), targets)


def draw_margins(ax, path, gamma):
    """Normalised margins against λ, those of networks, and the two limits: ‖Θ‖² = 2|ν| halves both a margin and its λ."""
    decay, margin = (np.array([getattr(m, name) for m in path]) for name in ("weight_decay", "margin"))
    for factor, color, label in (
        (1.0, "C0", r"$\min_i\, y_i h(x_i)/|\nu|$"),
        (0.5, "C2", r"network, $\|\Theta\|^2$ for $|\nu|$"),
    ):
        ax.semilogx(factor * decay, factor * margin, color=color, label=label)
        ax.axhline(factor * gamma, color=color, linewidth=0.6, linestyle=(0, (4, 2)))
        name = r"$\gamma_{\ell_1}$" if factor == 1.0 else r"$\gamma_{\ell_1}/2$"
        text = f"{name} = {factor * gamma:.6f}"
        ax.annotate(text, (1e-7, factor * gamma), (0, 2), "data", "offset points", color=color, fontsize=7)
    ax.axhline(0.0, color="0.7", linewidth=0.6)
    ax.set_xlim(DECAYS[0], DECAYS[-1])
    ax.legend(loc="center right", bbox_to_anchor=(1.0, 0.16))
    ax.set_ylim(max(-0.5 * gamma, np.nanmin(margin)), 1.15 * gamma)
    ax.set_xlabel("weight decay λ")
    ax.set_ylabel("normalised margin")


def draw_functions(ax, objective, end, machine):
    """The data, the regularised minimum for the smallest λ and the kernel machine, both with their least margin scaled to 1."""
    x = np.linspace(-1.15, 1.15, 600)
    inputs = np.column_stack([x, np.ones_like(x)])
    atoms = end.atoms
    regularised = objective.feature.matrix(atoms.positions, inputs) @ (atoms.signs * atoms.weights)
    kernel = machine(inputs)
    ax.axhline(0.0, color="0.7", linewidth=0.6)
    ax.plot(x, regularised / objective.margin(end.predictions), color="C0", label=f"λ = {end.weight_decay:.0e}")
    ax.plot(x, kernel / objective.margin(machine(objective.inputs)), color="C3", label="kernel machine")
    ax.plot(objective.inputs[:, 0], objective.targets, "o", color="C1", markersize=3, label="data")
    ax.legend(loc="upper right", handlelength=1.4)
    ax.set_xlabel("input x")
    ax.set_ylabel("h(x), least margin 1")
    ax.margins(y=0.15)


def main():
    """Compute the path, draw, and print the certificates."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("margin-against-decay.png"), help="the picture: .png, .pdf or .svg")
    parser.add_argument("--data", type=int, default=16, help="number of data")
    parser.add_argument("--seed", type=int, default=1, help="of their places")
    options = parser.parse_args()
    objective = classes_on_a_line(options.data, options.seed)
    best, path = max_margin(objective, SIGNS), regularisation_path(objective, SIGNS, DECAYS)
    print(f"γ_ℓ1 in [{best.lower:.9f}, {best.upper:.9f}], largest gap of {len(path)} minima {max(m.gap for m in path):.1e}")
    for m in path[8::8]:
        scaled = (1.0 - m.margin / best.upper) * np.log(1.0 / m.weight_decay)
        print(f"λ = {m.weight_decay:.0e}: margin {m.margin:.6f}, (1 − margin/γ) log 1/λ = {scaled:.3f}, {len(m.atoms)} atoms")
    with style():
        figure = Figure(figsize=(7.1, 2.7), layout="constrained")
        left, right = figure.subplots(1, 2)
        draw_margins(left, path, best.lower)
        draw_functions(right, objective, path[-1], f2_max_margin(objective))
        figure.savefig(options.output)


if __name__ == "__main__":
    main()
