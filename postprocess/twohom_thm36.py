"""2-homogeneity paper, Thms 3.1 and 3.6: the normalised smooth margin never falls once the data are separated, and ends far from zero.

Networks of normalized units learn the parity of two bits; their predictions are homogeneous in the outer weights a, b alone. Shown is
ψ/(|a|² + |b|²), ψ = ℓ⁻¹(n L) for the logistic loss L (lines), and the margin itself (thin), which may fall, in units of the γ of
the initial features. Dashed: the fractions 1/32 and 1/(4(1+R)) of Thm 3.1, R = KL(p̄, u(0)), although width and time are far below
those that it asks for. The paper proves and draws nothing. New: the limit of infinitely many units, whose directions stay, as masses
on the sphere. Units that slide along kinks of ReLU step to and fro, so their ψ is monotone up to the error of the integration.
"""

import numpy as np
from matplotlib.figure import Figure

from hkflow.margins import l1_margin
from hkflow.margins.column_generation import signed_features
from hkflow.plots import PAGE
from hkflow.reproduction import Claim, main

STUDIES = ("twohom/thm36",)
MINUTES = {"quick": 1.5, "paper": 15}
KINDS = {"grid 3": "m = ∞, d = 3", "network 3": "100 units, d = 3", "network 10": "400 units, d = 10"}
FALL = 1e-6  # relative: what counts as the error of the integration


def compute(work):
    """Of every run: time, ψ and margin per squared norm of the outer weights, mass, loss; γ and R of the initial features."""
    data = {}
    for changes, run in work.study("twohom/thm36"):
        name = f"{changes['method']['kind']} {changes['data']['dim']} {changes['seed']}"
        objective, start, records = run.problem.objective, run.atoms_at(0), run.records
        best = l1_margin(signed_features(objective, start.positions, start.signs))
        chosen = best.weights > 0.0
        p, u = best.weights[chosen], start.weights[chosen]
        psi = inverse_loss(
            len(objective.targets) * np.exp(-records["smooth_margin"]), records["smooth_margin"], len(objective.targets)
        )
        data |= {
            f"{name} time": records["time"],
            f"{name} psi": psi / (2.0 * records["mass"]),
            f"{name} margin": records["margin"] / 2.0,
            f"{name} mass": records["mass"],
            f"{name} gamma": best.value,
            f"{name} R": np.sum(p * np.log(p / u)) + start.mass - 1.0,
        }
    return data


def inverse_loss(total, smooth_margin, n):
    """ψ = ℓ⁻¹(n L) = −log(e^(nL) − 1), by −log(nL) − nL/2 where nL is small."""
    small = total < 1e-8
    return np.where(small, smooth_margin - np.log(n) - 0.5 * total, -np.log(np.expm1(np.where(small, 1.0, total))))


def runs(data, kind=""):
    """Names of the runs of a kind."""
    return [key[: -len(" psi")] for key in data if key.startswith(kind) and key.endswith(" psi")]


def falls(data, name, key):
    """The largest relative fall between neighbouring records once ψ is positive."""
    values = data[f"{name} {key}"][data[f"{name} psi"] > 0.0]
    return np.max(1.0 - values[1:] / np.maximum.accumulate(values)[:-1], initial=0.0)


def claims(data):
    """Monotone, and large in the end."""
    found = []
    for kind, title in KINDS.items():
        worst = max(falls(data, name, "psi") for name in runs(data, kind))
        found.append(
            Claim(
                f"{title}: the normalised smooth margin never falls after separation, by more than {FALL:g} of itself",
                worst < FALL,
                f"largest relative fall {worst:.1e} of {len(runs(data, kind))} runs",
            )
        )
    ends = {name: float(data[f"{name} margin"][-1] / data[f"{name} gamma"]) for name in runs(data)}
    R = {name: float(data[f"{name} R"]) for name in ends}
    return found + [
        Claim(
            "the norm of the outer weights rises after separation in every run",
            all(falls(data, name, "mass") <= 0.0 for name in ends),
            f"largest relative fall {max(falls(data, name, 'mass') for name in ends):.1e}",
        ),
        Claim(
            "every run ends with a margin per |a|² + |b|² of at least γ/(4(1+R)), γ and R of its initial features",
            all(ends[name] >= 0.25 / (1.0 + R[name]) for name in ends),
            f"smallest quotient {min(ends[name] * 4.0 * (1.0 + R[name]) for name in ends):.2f}, R from {min(R.values()):.2f} to "
            f"{max(R.values()):.2f}",
        ),
        Claim(
            "every run ends with at least γ/32",
            min(ends.values()) >= 1.0 / 32.0,
            f"smallest {min(ends.values()):.3f} γ, largest {max(ends.values()):.3f} γ",
        ),
    ]


def draw(data):
    """A panel for each kind of run."""
    figure = Figure(figsize=(PAGE, 2.5), layout="constrained")
    for ax, (kind, title) in zip(figure.subplots(1, 3, sharey=True), KINDS.items(), strict=True):
        for k, name in enumerate(runs(data, kind)[:3]):
            gamma, time, positive = float(data[f"{name} gamma"]), data[f"{name} time"], data[f"{name} psi"] > 0.0
            ax.plot(time, data[f"{name} margin"] / gamma, color=f"C{k}", linewidth=0.6, alpha=0.6)
            ax.plot(time[positive], data[f"{name} psi"][positive] / gamma, color=f"C{k}")
        R = max(float(data[f"{name} R"]) for name in runs(data, kind))
        for value in (1.0 / 32.0, 0.25 / (1.0 + R)):
            ax.axhline(value, color="black", linestyle="--", linewidth=0.7)
        ax.set(title=title, xlabel="time t", ylim=(0.0, None))
    figure.axes[0].set_ylabel("per |a|² + |b|², in units of γ")
    figure.axes[0].plot([], [], color="0.3", label="smooth margin ψ")
    figure.axes[0].plot([], [], color="0.3", linewidth=0.6, label="margin")
    figure.axes[0].plot([], [], color="black", linestyle="--", linewidth=0.7, label="1/32, 1/(4(1+R))")
    figure.axes[0].legend(loc="lower right")
    return figure


if __name__ == "__main__":
    main("twohom-thm36")
