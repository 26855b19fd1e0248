"""2-homogeneity paper, Thm 1.2: normalized units learn the parity of two bits from fewer data than
kernel machines.

Corners of the cube {±1/√d}^d, d = 20, are labelled by the product of their first two bits. The
paper proves and draws nothing; here networks of normalized units are trained on n corners and held
against the max-margin machines of two kernels at initialisation: that of these units in the limit
of infinite width, the 𝓕₂ kernel, and the tangent kernel of both layers of a plain ReLU network. Two
of the paper's formulas do not come out. Its lower bound dᵏ/n of kernel errors: on uniform corners
there are only d(d−1)/2 products of two bits, and with a few times as many data kernels make no
error. And γ ≥ 1/(k√d) of Example 4.1: new, γ enclosed with a proof for d = 2 and 3 is √2/(4√d), and
for k = 3 it is zero, since without a bias the odd part of a ReLU network is linear. Its 𝓕₂ margin
d^(−k/2) does, on all corners and for even k: it is that of weights N(0, I), √d times that of unit
weights.
"""

import numpy as np
from matplotlib.figure import Figure

import hkflow
from hkflow import Claim, mean_and_band
from hkflow.certificates import f2_max_margin, tangent_max_margin
from hkflow.plots import PAGE

STUDIES = ("twohom/thm12",)
MINUTES = {"quick": 0.5, "paper": 12}
FRESH, WIDTH, DIM, BITS = 5000, 1000, 20, 2
NAMES = ("network", "f2", "tangent", "network margin", "f2 margin", "tangent margin")
GAMMA = np.sqrt(2.0) / (4.0 * np.sqrt(DIM))


def compute(work):
    """NAMES of all runs, (numbers of data, trials), and enclosures of γ on whole cubes."""
    rows = {}
    for changes, run in work.study("twohom/thm12"):
        rows.setdefault(changes["data.n"], []).append(measured(run, changes["seed"]))
    values = np.moveaxis(np.array(list(rows.values())), 2, 0)
    cubes = work.once(cube_margins, bits=[2, 2, 3, 4], dims=[2, 3, 3, 4])
    cubes |= work.once(kernel_cubes, bits=[2, 2, 2, 4, 4, 4], dims=[4, 6, 8, 4, 6, 8])
    return dict(zip(NAMES, values, strict=True)) | cubes | {"n": np.array(list(rows))}


def measured(run, seed):
    """Test errors, then margins, of the network per |ν| = (|a|² + |b|²)/2."""
    objective, rng = run.problem.objective, np.random.default_rng((seed, len(run.targets)))
    new, wanted = run.problem.draw(rng, FRESH)
    units = hkflow.Units(rng.standard_normal((WIDTH, DIM)), rng.standard_normal(WIDTH))
    f2, tangent = f2_max_margin(objective), tangent_max_margin(objective, units)
    errors = [np.mean(wanted * h <= 0.0) for h in (run.predict(new), f2(new), tangent(new))]
    return errors + [run.records["margin"][-1], f2.machine.value, tangent.machine.value]


def cube_margins(bits, dims):
    """γ times k√d on all corners of the cube, lower and upper, and whether that is proved."""
    from itertools import product

    import numpy as np

    import hkflow
    from hkflow.certificates import max_margin

    rows = []
    for k, d in zip(bits, dims, strict=True):
        x = np.array(list(product((1.0, -1.0), repeat=int(d)))) / np.sqrt(d)
        y = np.sign(x[:, : int(k)]).prod(axis=1)
        best = max_margin(
            hkflow.Objective(hkflow.FEATURES["relu"], hkflow.RISKS["logistic"], x, y),
            (1, -1),
            tolerance=1e-4,
        )
        rows.append(
            (k, d, best.lower * k * np.sqrt(d), best.upper * k * np.sqrt(d), best.certified)
        )
    return {"cubes": np.array(rows, dtype=float)}


def kernel_cubes(bits, dims):
    """𝓕₂ margins of weights N(0, I), times d^(k/2), on all corners of the cube."""
    from itertools import product

    import numpy as np

    from hkflow.certificates import arc_cosine_kernel, kernel_margin

    rows = []
    for k, d in zip(bits, dims, strict=True):
        x = np.array(list(product((1.0, -1.0), repeat=int(d)))) / np.sqrt(d)
        y = np.sign(x[:, : int(k)]).prod(axis=1)
        gamma = kernel_margin(d * arc_cosine_kernel(x, x, 1), y).value
        rows.append((k, d, gamma * d ** (k / 2.0)))
    return {"kernel cubes": np.array(rows, dtype=float)}


def claims(data):
    """Margins and test errors."""
    n, cubes, others = data["n"], data["cubes"], data["kernel cubes"]
    spread = [
        np.ptp(others[others[:, 0] == k, 2]) / others[others[:, 0] == k, 2].min() for k in (2, 4)
    ]
    kernels = np.minimum(data["f2"], data["tangent"])
    mean, half = mean_and_band(kernels - data["network"])
    some = (n >= 3 * DIM) & (n <= DIM**BITS / 2)
    promised = data["network margin"].min() / 2.0
    error, other = data["network"].mean(axis=1), kernels.mean(axis=1)
    scaled = error * n / (DIM * BITS**2)
    needed = [min(n[values < 0.05], default=np.inf) for values in (error, other)]
    return [
        Claim(
            "the margin per |a|² + |b|² is at least γ/32 in every run",
            promised >= GAMMA / 32.0,
            f"smallest {promised:.4f}, γ = {GAMMA:.4f}, γ/32 = {GAMMA / 32.0:.4f}",
        ),
        Claim(
            "the network's test error is at most dk²/n, with 1 for the hidden constant, at every n",
            np.all(scaled <= 1.0),
            ", ".join(f"n = {k}: {value:.3g}" for k, value in zip(n, error, strict=True))
            + f"; largest quotient {scaled.max():.2f}",
        ),
        Claim(
            "for 3d ≤ n ≤ d²/2 the network errs less than the better of the kernels, 95 % interval"
            " of the difference above 0",
            np.all((mean > half)[some]),
            ", ".join(
                f"n = {k}: {a:.3f} ± {b:.3f}"
                for k, a, b in zip(n[some], mean[some], half[some], strict=True)
            ),
        ),
        Claim(
            "to err less than 5 % in the mean the kernels need at least twice the data of the"
            " network",
            needed[1] >= 2.0 * needed[0],
            f"n = {needed[1]:g} against {needed[0]:g}",
        ),
        Claim(
            "the kernels err on at least of the order dᵏ/n of new data: more than d²/8n at every n"
            " ≤ 2d²",
            np.all((other > DIM**BITS / (8.0 * n))[n <= 2 * DIM**BITS]),
            ", ".join(f"n = {k}: {a:.3g}" for k, a in zip(n, other, strict=True)),
        ),
        Claim(
            "Example 4.1: γ ≥ 1/(k√d) on the cube for k = 2, 3 and 4",
            np.all(cubes[:, 3] >= 1.0 - 1e-6),
            ", ".join(
                f"k = {k:.0f}, d = {d:.0f}: γ k√d = {abs(low):.4f}" for k, d, low, *_ in cubes
            ),
        ),
        Claim(
            "Example 4.1: the 𝓕₂ margin is of the order d^(−k/2) on the cube: for d = 4, 6 and 8"
            " their quotient is the same to 10 %, k = 2 and 4",
            max(spread) < 0.1,
            ", ".join(f"k = {k:.0f}, d = {d:.0f}: {value:.3f}" for k, d, value in others),
        ),
        Claim(
            "new: for k = 2 γ is √2/(4√d) to 1e-3, proved for d = 2 and 3",
            np.all(np.abs(cubes[:2, 2:4] / np.sqrt(0.5) - 1.0) < 1e-3)
            and np.all(cubes[:2, 4] == 1.0),
            f"γ k√d in [{cubes[1, 2]:.6f}, {cubes[1, 3]:.6f}] for d = 3, 1/√2 = {np.sqrt(0.5):.6f}",
        ),
    ]


def draw(data):
    """Test errors, and margins, over n."""
    figure = Figure(figsize=(PAGE, 2.7), layout="constrained")
    axes = figure.subplots(1, 2)
    looks = (
        ("network", "network"),
        ("f2", r"$\mathcal{F}_2$ kernel"),
        ("tangent", "tangent kernel, both layers"),
    )
    for ax, end in zip(axes, ("", " margin"), strict=True):
        for color, (name, label) in zip(("C0", "C1", "C3"), looks, strict=True):
            mean, half = mean_and_band(data[name + end])
            ax.errorbar(
                data["n"],
                mean,
                half,
                color=color,
                marker="o",
                markersize=2.5,
                capsize=2.0,
                label=label,
            )
        ax.set(xscale="log", xlabel="number of data n")
    axes[0].axvline(DIM**BITS, color="0.7", linewidth=0.6)
    axes[0].annotate(
        "d²", (DIM**BITS, 0.5), (3, 0), "data", "offset points", color="0.4", fontsize=7
    )
    axes[0].set(ylabel="test error", ylim=(-0.02, 0.55))
    axes[0].legend(loc="center right", bbox_to_anchor=(1.0, 0.68))
    for value, label in ((GAMMA, "γ = √2/(4√d)"), (GAMMA / 16.0, "γ/32 per squared norm")):
        axes[1].axhline(value, color="black", linestyle="--", linewidth=0.8)
        place, side, up = (
            (data["n"][-1], "right", 2) if value == GAMMA else (data["n"][0], "left", -8)
        )
        axes[1].annotate(
            label, (place, value), (0, up), "data", "offset points", fontsize=7, ha=side
        )
    axes[1].set(yscale="log", ylabel="margin (network: per |ν|)")
    return figure
