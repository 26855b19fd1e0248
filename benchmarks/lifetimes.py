"""python -m benchmarks.lifetimes [FIGURE]: how long two clusters of mass ½, at right angles on S²,
last before they merge by K = −e^(κ(θ·θ′ − 1))/κ, against κ: two points in closed form, particles,
and grids.

Two points: φ' = −e^(κ(cos φ − 1)) sin φ, so that T = ∫ e^(κ(1 − cos φ)) / sin φ dφ, which grows
like e^κ. Clusters have merged where the first moment |m| = cos(φ/2) is 0.9. A grid holds a cluster
in one cell, of width h, as soon as its own attraction, ½ h, beats that of the other, e^−κ.
"""

import sys

import numpy as np
from scipy.integrate import quad

import hkflow

KAPPAS, LEVELS, MERGED, PATIENCE = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0), (3, 4, 5), 0.9, 2.0
CENTERS, NARROW = np.eye(3)[:2], 60.0


def two_points(kappa):
    """T of two points."""
    force = lambda phi: np.exp(kappa * (1.0 - np.cos(phi))) / np.sin(phi)
    return quad(force, 2.0 * np.arccos(MERGED), 0.5 * np.pi)[0]


def density(points, sign):
    """Two narrow von Mises–Fisher densities of mass ½."""
    return NARROW / (4.0 * np.pi) * np.exp(NARROW * (points @ CENTERS.T - 1.0)).sum(axis=1)


def lifetime(kappa, level=None):
    """T on a geodesic mesh, or of particles; nan if it is more than PATIENCE times that of two
    points."""
    pairs = hkflow.Interaction("exponential", -1.0 / kappa, concentration=kappa)
    total, flow, seen = hkflow.Sum(pairs, axes=3), hkflow.Flow(1.0, 0.0), []
    mesh = hkflow.geodesic_mesh(4 if level is None else level)
    problem = hkflow.Problem(mesh, total, flow, initial=density)
    if level is None:
        atoms = problem.atoms()
        heavy = atoms.weights > 1e-5
        kept = (values[heavy] for values in (atoms.positions, atoms.signs, atoms.weights))
        start = hkflow.PointMeasure(*kept).scaled_to(1.0)
        problem = hkflow.Problem(None, total, flow, initial=start)

    def merged(state):
        atoms = state.atoms()
        seen.append((np.linalg.norm(atoms.weights @ atoms.positions) / atoms.mass, state.time))
        return seen[-1][0] > MERGED

    kind, end = "particles" if level is None else "grid", PATIENCE * two_points(kappa)
    hkflow.solve(problem, end, observers=[merged], kind=kind, max_step=end / 200.0)
    return np.interp(MERGED, *zip(*seen[-2:], strict=True), right=np.nan)


def main(figure="lifetimes.png"):
    """Print a table and draw it."""
    cells = [10 * 4**level + 2 for level in LEVELS]
    print("| κ | two points | particles | " + " | ".join(f"{n} cells" for n in cells) + " |")
    print("| ---: " * (3 + len(cells)) + "|")
    rows = []
    for kappa in KAPPAS:
        grids = [lifetime(kappa, level) for level in LEVELS]
        rows.append([kappa, two_points(kappa), lifetime(kappa), *grids])
        print("| " + " | ".join(f"{x:.4g}" for x in rows[-1]) + " |", flush=True)
    import matplotlib.pyplot as plt

    table = np.array(rows).T
    fig, ax = plt.subplots(figsize=(5.0, 3.2), layout="constrained")
    ax.semilogy(table[0], table[1], color="0.5", label="two points, exact")
    ax.semilogy(table[0], table[2], "o", label="particles")
    for n, times, mark in zip(cells, table[3:], "sv^", strict=True):
        ax.semilogy(table[0], times, mark, fillstyle="none", label=f"{n} cells")
    ax.set(xlabel="κ", ylabel="time until |m| = 0.9")
    ax.legend()
    fig.savefig(figure, dpi=150)


if __name__ == "__main__":
    main(*sys.argv[1:])
