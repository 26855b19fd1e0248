"""Geshkovski, Koubbi, Polyanskiy & Rigollet 2024, metastability: clusters that attention makes last
for a time exponential in κ; with a perceptron, for ever.

Masses on S² attract each other by K = −e^(κ(θ·θ′ − 1))/κ, attention without its normalisation.
Two caps become points in a time of order one, and merge (|m| = 0.9, m the mean of θ) after one that
grows with κ as that of two points, which is known in closed form. Left: |m| of particles over time,
dashed two points. Middle: lifetimes, also on grids: these hold a cluster in one cell as soon as the
cell's own attraction, half its width h, beats that of the other cluster, e^−κ: for κ beyond
log(2/h) take particles. Right, new: a block of attention and a perceptron, as in Álvarez-López,
Geshkovski & Ruiz-Balet 2026, who prove that its critical points are generically atomic: two ReLU
units −ω(a·θ)₊ at 120 degrees, a data risk that is added to the interaction. Two points in closed
form have a threshold ω*(κ), above which the clusters never merge; lines are their final angle,
dots that of particles. The papers' particles are many in many dimensions; nothing here is random.
"""

import numpy as np
from matplotlib.figure import Figure
from scipy.integrate import quad
from scipy.optimize import brentq, minimize_scalar

import hkflow
from hkflow import Claim
from hkflow.plots import PAGE

MINUTES = {"quick": 1, "paper": 2}
KAPPAS = {True: (1.0, 2.0, 3.0, 4.0, 5.0, 6.0), False: (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)}
LEVELS = {True: (3, 4), False: (3, 4, 5)}
MERGED, FORMED, PATIENCE = 0.9, 1e-3, 2.0  # |m|; spread within clusters; end, of two points' time
RIGHT, WIDE = np.pi / 2.0, 2.0 * np.pi / 3.0
BLOCKS, SHARES = (2.0, 3.0, 4.0), (0.8, 0.95, 1.05, 1.2, 1.6, 2.4)  # κ, and ω/ω*


def history(kappa, angle, omega, level, end):
    """|m|, the spread 1 − Σ |m_cluster| and the time of two caps of mass ½ at an angle, whose
    centres are pulled by ReLU units of strength ω, until they merge; on a geodesic mesh, or of
    particles if level is 0."""
    centers = np.array([[np.cos(side), np.sin(side), 0.0] for side in (0.5 * angle, -0.5 * angle)])

    def caps(points, sign, narrow=60.0):
        return np.exp(narrow * (points @ centers.T - 1.0)).sum(axis=1) * narrow / (4.0 * np.pi)

    def pull(predictions, targets, weights, out):
        out[:] = targets
        return float(targets @ predictions)

    terms = [hkflow.Interaction("exponential", -1.0 / kappa, concentration=kappa)]
    if omega > 0.0:
        risk = hkflow.Risk("linear", pull, False)
        terms.append(hkflow.Objective(hkflow.FEATURES["relu"], risk, centers, [-omega, -omega]))
    energy = hkflow.Sum(*terms, axes=3)
    flow, mesh = hkflow.Flow(1.0, 0.0), hkflow.geodesic_mesh(level or 3)
    problem = hkflow.Problem(mesh, energy, flow, initial=caps)
    if level == 0:
        atoms = problem.atoms()
        heavy = atoms.weights > 1e-5
        kept = (values[heavy] for values in (atoms.positions, atoms.signs, atoms.weights))
        start = hkflow.PointMeasure(*kept).scaled_to(1.0)
        problem = hkflow.Problem(None, energy, flow, initial=start)
    seen = []

    def merged(state):
        atoms = state.atoms()
        shares, above = atoms.weights / atoms.mass, atoms.positions[:, 1] > 0.0
        means = [shares[side] @ atoms.positions[side] for side in (above, ~above)]
        size = np.linalg.norm(sum(means))
        seen.append((state.time, size, 1.0 - sum(np.linalg.norm(mean) for mean in means)))
        return size > 0.9

    kind = "grid" if level else "particles"
    hkflow.solve(problem, end, observers=[merged], kind=kind, max_step=end / 200.0)
    return dict(zip(("time", "mean", "spread"), np.array(seen).T, strict=True))


def slowness(phi, kappa):
    """−1/φ′ of two points at an angle φ: φ′ = −e^(κ(cos φ − 1)) sin φ."""
    return np.exp(kappa * (1.0 - np.cos(phi))) / np.sin(phi)


def lifetime(kappa, phi=2.0 * np.arccos(MERGED)):
    """The time in which two points come from a right angle to φ, |m| = cos ½φ."""
    return quad(slowness, phi, RIGHT, (kappa,))[0]


def needed(shift, kappa):
    """ω that holds two points at WIDE − 2 shift, each seen by its own unit alone."""
    return 0.5 / slowness(WIDE - 2.0 * shift, kappa) / np.sin(shift)


def threshold(kappa):
    """ω* and the shift there."""
    least = minimize_scalar(needed, args=(kappa,), bounds=(1e-3, WIDE - RIGHT), method="bounded")
    return least.fun, least.x


def final_angle(kappa, omega):
    """Of two points, 0 below the threshold."""
    least, shift = threshold(kappa)
    if omega < least:
        return 0.0
    return WIDE - 2.0 * brentq(lambda s: needed(s, kappa) - omega, 1e-12, shift)


def compute(work):
    """Histories, lifetimes and final angles."""
    kappas, levels = KAPPAS[work.quick], LEVELS[work.quick]
    data = {"kappas": kappas, "levels": levels}
    for kappa in kappas:
        for level in (0, *levels):
            end = PATIENCE * lifetime(kappa)
            one = work.once(history, kappa=kappa, angle=RIGHT, omega=0.0, level=level, end=end)
            data |= {f"{kappa:g} {level} {key}": value for key, value in one.items()}
    for kappa in BLOCKS:
        ends, least = [], threshold(kappa)[0]
        for share in SHARES:
            given = {"angle": WIDE, "omega": share * least, "level": 0, "end": 40.0 / least}
            one = work.once(history, kappa=kappa, **given)
            size = one["mean"][-1]
            ends.append((0.0 if size > MERGED else 2.0 * np.arccos(size), one["spread"][-1]))
        data[f"block {kappa:g}"] = ends
    return data


def crossing(data, name, key, value):
    """The time at which a record rises, or falls, through a value; nan if never."""
    times, record = data[f"{name} time"], data[f"{name} {key}"]
    past = np.flatnonzero(record > value if key == "mean" else record < value)
    if not len(past):
        return np.nan
    k = max(past[0], 1)
    return times[k - 1] + (value - record[k - 1]) / (record[k] - record[k - 1]) * (
        times[k] - times[k - 1]
    )


def lifetimes(data, level):
    """(n_kappas,) on grids of a level, or of particles."""
    return np.array([crossing(data, f"{k:g} {level}", "mean", MERGED) for k in data["kappas"]])


def width(level):
    """Of a geodesic mesh's cells."""
    return np.sqrt(4.0 * np.pi / (10 * 4**level + 2))


def claims(data):
    """Metastability, its law, where grids fail, and what a perceptron changes."""
    kappas, found = data["kappas"], lifetimes(data, 0)
    exact = np.array([lifetime(kappa) for kappa in kappas])
    formed = np.array([crossing(data, f"{k:g} 0", "spread", FORMED) for k in kappas])
    first = np.flatnonzero(np.isfinite(formed))[0]  # below they merge before they are formed
    rates = np.diff(np.log(found))[kappas[1:] > 3.0]
    apart = np.abs(found / exact - 1.0)
    inside, beyond = [], []
    for level in data["levels"]:
        limit, ratio = np.log(2.0 / width(level)), lifetimes(data, level) / exact
        inside += list(np.abs(ratio[kappas < limit - 0.5] - 1.0))
        beyond += list(ratio[kappas > limit + 1.0])
    below, above, spreads = [], [], []
    for kappa in BLOCKS:
        least = threshold(kappa)[0]
        for share, (angle, spread) in zip(SHARES, data[f"block {kappa:g}"], strict=True):
            if share < 1.0:
                below.append(angle)
            else:
                above.append(abs(angle - final_angle(kappa, share * least)))
                spreads.append(spread)
    return [
        Claim(
            "clusters form in about the same time for every κ, and last more than ten times as long"
            " at the largest",
            np.ptp(formed[first:]) < 0.5 * formed[-1] and found[-1] > 10.0 * formed[-1],
            f"formed after {formed[first]:.1f} and {formed[-1]:.1f} at κ = {kappas[first]:g} and"
            f" {kappas[-1]:g}, merged after {found[first]:.1f} and {found[-1]:.0f}",
        ),
        Claim(
            "lifetimes are exponential in κ: beyond κ = 3 log T grows by 0.7 to 1 for each unit",
            np.all((rates > 0.7) & (rates < 1.0)),
            ", ".join(f"{rate:.3f}" for rate in rates),
        ),
        Claim(
            "new: particles last as long as two points in closed form, to 10 %",
            np.all(apart < 0.1),
            f"largest difference {100 * apart.max():.1f} %, at the largest κ"
            f" {100 * apart[-1]:.1f} %",
        ),
        Claim(
            "new: grids agree with two points to 25 % for κ < log(2/h) − ½, and hold the clusters"
            " twice as long or for ever for κ > log(2/h) + 1",
            np.all(np.array(inside) < 0.25) and np.all(np.isnan(beyond)),
            f"largest difference {100 * np.max(inside):.0f} %; {np.sum(np.isnan(beyond))} of"
            f" {len(beyond)} held",
        ),
        Claim(
            "new: with ReLU units clusters merge at 0.95 ω* and below, and never at 1.05 ω* and"
            " above, where they stand at the angle of two points to 0.1 degrees",
            not np.any(below) and np.degrees(np.max(above)) < 0.1,
            f"largest difference {np.degrees(np.max(above)):.1e} degrees",
        ),
        Claim(
            "what a perceptron holds is atomic: each cluster is a point, the length of its first"
            " moment is its mass to 1e-9",
            np.max(spreads) < 1e-9,
            f"largest difference {np.max(spreads):.1e}",
        ),
    ]


def draw(data):
    """Means over time, lifetimes, final angles."""
    figure = Figure(figsize=(PAGE, 2.5), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    kappas = data["kappas"]
    for k, kappa in enumerate(kappas[1::2]):
        left.semilogx(data[f"{kappa:g} 0 time"], data[f"{kappa:g} 0 mean"], color=f"C{k}")
        angles = np.linspace(RIGHT - 1e-3, 2.0 * np.arccos(MERGED), 60)
        times = [lifetime(kappa, phi) for phi in angles]
        left.semilogx(times, np.cos(0.5 * angles), "--", color="0.3", linewidth=0.7)
        left.annotate(
            f"κ = {kappa:g}", (times[-1], MERGED), (-3, 2), "data", "offset points", color=f"C{k}",
            ha="right", fontsize=7,
        )  # fmt: skip
    left.set(xlim=(0.1, None), ylim=(0.66, 0.93), xlabel="time t", ylabel="mean |m|")
    middle.semilogy(kappas, [lifetime(k) for k in kappas], color="0.5", label="two points")
    middle.semilogy(kappas, lifetimes(data, 0), "o", markersize=3, label="particles")
    for level, mark in zip(data["levels"], "sv^", strict=False):
        label = f"{10 * 4**level + 2} cells"
        times = lifetimes(data, level)
        middle.semilogy(kappas, times, mark, fillstyle="none", markersize=5, label=label)
    middle.legend()
    middle.set(xlabel="κ", ylabel="time until |m| = 0.9")
    for k, kappa in enumerate(BLOCKS):
        least, color = threshold(kappa)[0], f"C{k}"
        shares = np.geomspace(1.0, SHARES[-1], 80)
        ends = [final_angle(kappa, (share + 1e-12) * least) for share in shares]
        right.plot(shares, np.degrees(ends), color=color)
        found = np.degrees(np.array(data[f"block {kappa:g}"])[:, 0])
        right.plot(SHARES, found, "o", color=color, markersize=3, label=f"κ = {kappa:g}")
    right.plot([SHARES[0], 1.0], [0.0, 0.0], color="0.5")
    right.axvline(1.0, color="0.7", linewidth=0.6)
    right.legend(loc="center right")
    right.set(xlabel="ω/ω*", ylabel="angle between clusters, degrees")
    return figure
