"""2-homogeneity paper, Thms 3.1 and 3.6: once the data are separated, the normalised smooth margin
never falls, nor ends near zero.

Networks of normalized units learn the parity of two bits; their predictions are homogeneous in the
outer weights a, b alone. Shown is ψ/(|a|² + |b|²), ψ = ℓ⁻¹(n L) for the logistic loss L (thick),
and the margin itself (thin), which may fall, in units of the γ of the initial features; the norm
grows all the while. Dashed: the fractions 1/32 and 1/(4(1+R)) of Thm 3.1, R = KL(p̄, u(0)),
although width and time are far below those that it asks for; grey: 1/2, the most that the initial
directions allow. The paper proves and draws nothing. New: the limit of infinitely many units, whose
directions stay, as masses on the sphere. Networks take small steps of gradient descent in place of
the gradient flow.
"""

import numpy as np
from matplotlib.figure import Figure

from hkflow import Claim
from hkflow.certificates import l1_margin, signed_features
from hkflow.plots import PAGE

STUDIES = ("twohom/thm36",)
MINUTES = {"quick": 0.2, "paper": 3}
KINDS = {
    "grid 3": "m = ∞, d = 3",
    "network 3": "100 units, d = 3",
    "network 10": "400 units, d = 10",
}
FALL = 1e-12  # relative: what counts as rounding


def compute(work):
    """Of every run: time, ψ and margin per squared norm of the outer weights, mass, loss; γ and R
    of the initial features."""
    data = {}
    for changes, run in work.study("twohom/thm36"):
        name = f"{changes['method']['kind']} {changes['data']['dim']} {changes['seed']}"
        objective, start, records = run.problem.objective, run.atoms_at(0), run.records
        best = l1_margin(signed_features(objective, start.positions, start.signs))
        chosen = best.weights > 0.0
        p, u = best.weights[chosen], start.weights[chosen]
        plain = objective.risk.name == "logistic"
        psi = inverse_loss(
            np.log(len(objective.targets))
            + (np.log(records["objective"]) if plain else records["objective"])
        )
        data |= {
            f"{name} norm": 2.0 * records["mass"],
            f"{name} psi": psi / (2.0 * records["mass"]),
            f"{name} margin": records["margin"] / 2.0,
            f"{name} gamma": best.value,
            f"{name} R": np.sum(p * np.log(p / u)) + start.mass - 1.0,
        }
    return data


def inverse_loss(log_total):
    """ψ = ℓ⁻¹(n L) = −log(e^(nL) − 1) from log nL; −log nL where L is too small to matter."""
    return np.where(
        log_total < -40.0, -log_total, -np.log(np.expm1(np.exp(np.maximum(log_total, -40.0))))
    )


def runs(data, kind=""):
    """Names of the runs of a kind."""
    return [key[: -len(" psi")] for key in data if key.startswith(kind) and key.endswith(" psi")]


def falls(data, name, key):
    """The largest relative fall between neighbouring records once ψ is positive; negative if there
    is none."""
    values = data[f"{name} {key}"][data[f"{name} psi"] > 0.0]
    return np.max(1.0 - values[1:] / np.maximum.accumulate(values)[:-1])


def claims(data):
    """Monotone, and large in the end."""
    found = []
    for kind, title in KINDS.items():
        worst = max(falls(data, name, "psi") for name in runs(data, kind))
        found.append(
            Claim(
                f"{title}: the normalised smooth margin never falls after separation beyond"
                f" rounding, {FALL:g} of itself",
                worst < FALL,
                f"smallest relative rise from record to record {-worst:.1e} in"
                f" {len(runs(data, kind))} runs",
            )
        )
    ends = {name: float(data[f"{name} margin"][-1] / data[f"{name} gamma"]) for name in runs(data)}
    R = {name: float(data[f"{name} R"]) for name in ends}
    return found + [
        Claim(
            "the norm of the outer weights rises after separation in every run",
            all(falls(data, name, "norm") <= 0.0 for name in ends),
            f"smallest relative rise {-max(falls(data, name, 'norm') for name in ends):.1e}",
        ),
        Claim(
            "every run ends with a margin per |a|² + |b|² of at least γ/(4(1+R)), γ and R of its"
            " initial features",
            all(ends[name] >= 0.25 / (1.0 + R[name]) for name in ends),
            f"smallest quotient {min(ends[name] * 4.0 * (1.0 + R[name]) for name in ends):.2f}, R"
            f" from {min(R.values()):.2f} to {max(R.values()):.2f}",
        ),
        Claim(
            "every run ends with a margin per |a|² + |b|² of at least γ/32",
            min(ends.values()) >= 1.0 / 32.0,
            f"smallest {min(ends.values()):.3f} γ, largest {max(ends.values()):.3f} γ",
        ),
        Claim(
            "new: units turn as well: runs with 400 units end above γ/2, the most that the initial"
            " directions allow",
            all(ends[name] > 0.5 for name in runs(data, "network 10")),
            f"smallest {min(ends[name] for name in runs(data, 'network 10')):.3f} γ",
        ),
    ]


def draw(data):
    """A panel for each kind of run."""
    figure = Figure(figsize=(PAGE, 2.5), layout="constrained")
    for ax, (kind, title) in zip(figure.subplots(1, 3, sharey=True), KINDS.items(), strict=True):
        for k, name in enumerate(runs(data, kind)):
            gamma, norm, positive = (
                float(data[f"{name} gamma"]),
                data[f"{name} norm"],
                data[f"{name} psi"] > 0.0,
            )
            ax.plot(norm, data[f"{name} margin"] / gamma, color=f"C{k}", linewidth=0.6, alpha=0.6)
            ax.plot(norm[positive], data[f"{name} psi"][positive] / gamma, color=f"C{k}")
        R = max(float(data[f"{name} R"]) for name in runs(data, kind))
        for value in (1.0 / 32.0, 0.25 / (1.0 + R)):
            ax.axhline(value, color="black", linestyle="--", linewidth=0.7)
        ax.axhline(0.5, color="0.6", linewidth=0.6)
        ax.set(title=title, xlabel="|a|² + |b|²")
    figure.axes[0].set_ylim(
        0.0,
        1.05 * max(np.max(data[f"{name} margin"] / data[f"{name} gamma"]) for name in runs(data)),
    )
    figure.axes[0].set_ylabel("per |a|² + |b|², in units of γ")
    figure.axes[0].plot([], [], color="0.3", label="smooth margin ψ")
    figure.axes[0].plot([], [], color="0.3", linewidth=0.6, label="margin")
    figure.axes[0].plot(
        [], [], color="black", linestyle="--", linewidth=0.7, label="1/32, 1/(4(1+R))"
    )
    figure.axes[0].plot([], [], color="0.6", linewidth=0.6, label="1/2, initial directions")
    figure.axes[0].legend(loc="upper left")
    return figure
