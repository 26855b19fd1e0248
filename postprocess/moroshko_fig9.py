"""Moroshko et al. 2020, Fig. 9: depth and a small start let a network leave the kernel regime at a
larger loss.

How far the tangent kernel K(t) of a diagonal network of depth 2, 3 or 10 on its data is from the
one at the start, 1 − cos(K(t), K(0)), as the smooth margin γ̃ grows, for the data and networks of
our Fig. 5(a). With the weights a of the atoms, the mobility a^(2 − 2/D) is the square of a unit's
slope, so K = D² Σ a^(2−2/D) x x′ is the kernel of the flow. New: α^D = 100, and the right panel,
where γ̃/α^D takes the place of γ̃: a depth has nearly one curve, so γ̃ = Θ(α^D) is the border of
the kernel regime. Our three data point alike, so the limit of the distance, dash-dotted, is small;
with a single coordinate left, as at our ℓ₁ max-margin, it is the same for all depths.
"""

import numpy as np
from matplotlib.figure import Figure

from hkflow import Claim
from hkflow.certificates import l1_margin_direction
from hkflow.plots import PAGE

STUDIES = ("moroshko/fig9",)
MINUTES = {"quick": 0.2, "paper": 0.2}
AWAY = 0.1  # of the distance in the rich limit: what counts as having left
DEPTHS, SCALES = (2, 3, 10), (0.1, 1.0, 100.0)


def compute(work):
    """Kernel distances over γ̃ of every run."""
    data = {}
    for changes, run in work.study("moroshko/fig9"):
        depth = changes["flow.depth"]
        name = f"{depth:g} {changes['initial.scale'] ** depth:.6g}"
        squares = np.abs(run.atoms_at(0).positions)
        mobility = (
            np.array([run.atoms_at(k).weights ** (2.0 - 2.0 / depth) for k in range(len(run.time))])
            @ squares
        )
        start = np.ones(mobility.shape[1])
        data |= {
            f"distance {name}": distance(kernel(run.inputs, mobility), kernel(run.inputs, start)),
            f"accuracy {name}": run.time,
        }
    richest = np.abs(l1_margin_direction(run.inputs, run.targets)) > 0.0
    data["limit"] = distance(kernel(run.inputs, richest), kernel(run.inputs, np.ones(len(richest))))
    return data


def kernel(inputs, mobility):
    """Σ_k m_k x_k x′_k on the data, a matrix for each row m; D² and α cancel in the cosine."""
    return np.einsum("ik,...k,jk->...ij", inputs, mobility, inputs)


def distance(now, start):
    """1 − cos(K(t), K(0)), accurate near zero as well."""
    now, start = (k / np.linalg.norm(k, axis=(-2, -1), keepdims=True) for k in (now, start))
    return 0.5 * np.sum((now - start) ** 2, axis=(-2, -1))


def leaves(data, depth, scale):
    """γ̃ at which the distance passes AWAY of its limit."""
    accuracy, far = (data[f"{key} {depth} {scale:g}"] for key in ("accuracy", "distance"))
    return np.exp(np.interp(np.log(AWAY * data["limit"]), np.log(far), np.log(accuracy)))


def claims(data):
    """Who leaves when."""
    left = {(d, s): leaves(data, d, s) for d in DEPTHS for s in SCALES}
    last = {(d, s): data[f"distance {d} {s:g}"][-1] for d in DEPTHS for s in SCALES}
    start = max(data[f"distance {d} {s:g}"][0] for d in DEPTHS for s in SCALES)
    ratio = {d: left[d, 100.0] / 100.0 / left[d, 1.0] for d in DEPTHS}
    rise = max(-np.diff(data[f"distance {d} {s:g}"]).min() for d in DEPTHS for s in SCALES)
    return [
        Claim(
            "the kernel regime comes first: a distance below 10⁻⁵ of its limit at γ̃ = 0.001 α^D",
            start < 1e-5 * data["limit"],
            f"at most {start:.1e}",
        ),
        Claim(
            f"greater depth leaves it earlier, passing {AWAY:g} of the limit at a smaller γ̃, for"
            " every scale",
            all(left[2, s] > left[3, s] > left[10, s] for s in SCALES),
            "; ".join(
                f"α^D = {s:g}: γ̃ = {', '.join(f'{left[d, s]:.3g}' for d in DEPTHS)}" for s in SCALES
            ),
        ),
        Claim(
            "a smaller scale leaves it earlier as well, for every depth",
            all(left[d, 0.1] < left[d, 1.0] < left[d, 100.0] for d in DEPTHS),
            "; ".join(
                f"D = {d}: γ̃ = {', '.join(f'{left[d, s]:.3g}' for s in SCALES)}" for d in DEPTHS
            ),
        ),
        Claim(
            "new: at the end of the runs the distance is within 5 % of its limit, that of the ℓ₁"
            " max-margin",
            max(abs(x / data["limit"] - 1.0) for x in last.values()) < 0.05,
            "; ".join(f"D = {d}: {', '.join(f'{last[d, s]:.4f}' for s in SCALES)}" for d in DEPTHS)
            + f"; limit {data['limit']:.4f}",
        ),
        Claim("the distance never falls", rise < 1e-6, f"largest fall {max(rise, 0.0):.0e}"),
        Claim(
            "new: γ̃ at the border is proportional to α^D: from α^D = 1 to 100 it grows by 100, to"
            " 30 %",
            all(abs(r - 1.0) < 0.3 for r in ratio.values()),
            ", ".join(f"D = {d}: by {100.0 * r:.0f}" for d, r in ratio.items()),
        ),
    ]


def draw(data):
    """Distances over γ̃, and over γ̃/α^D."""
    figure = Figure(figsize=(PAGE, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for k, depth in enumerate(DEPTHS):
        for scale, line in zip(SCALES, (":", "-", "--"), strict=True):
            accuracy, far = (data[f"{key} {depth} {scale:g}"] for key in ("accuracy", "distance"))
            left.semilogx(
                accuracy, far, line, color=f"C{k}", label=f"D = {depth}, $α^D$ = {scale:g}"
            )
            right.semilogx(accuracy / scale, far, line, color=f"C{k}")
    for ax in (left, right):
        ax.axhline(data["limit"], color="0.5", linestyle="-.", linewidth=0.8)
    left.set(xlabel="smooth margin γ̃", ylabel="kernel distance", xlim=(1e-3, None))
    right.set(xlabel="γ̃/$α^D$")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure
