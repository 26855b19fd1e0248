"""Distances between measures on the signed sphere: Wasserstein-1 and -2, and
Gaussian–Hellinger–Kantorovich.

Wasserstein distances want probabilities: they compare, for each output sign, the two sheets scaled
to mass one, and average over the signs by the mean masses of the sheets.
Gaussian–Hellinger–Kantorovich compares the measures with their masses.
"""

from typing import NamedTuple

import numpy as np

from ..arguments import Floats, Integers
from ..geometry.rows import sums_of_rows
from ..geometry.sphere import distance, normalize
from .ghk import NEGLIGIBLE, ghk_bounds
from .point_measure import PointMeasure

W2_ATOMS, GHK_ATOMS = 1000, 500  # more are quantised
# of choosing the centres that a sheet is gathered at, and of moving them
CENTER_ROUNDS, LLOYD_STEPS = 5, 3


class Distance(NamedTuple):
    """A distance and how far it may be off: the exact one lies within value ± bar."""

    value: float
    bar: float = 0.0


def wasserstein1(a: PointMeasure, b: PointMeasure) -> Distance:
    """Wasserstein-1 on the circle, exact for any number of atoms: Σ_ε c_ε W1(a_ε/|a_ε|, b_ε/|b_ε|),
    c_ε ∝ |a_ε| + |b_ε|.

    a, b : PointMeasures on S^1.   Returns a Distance in radians, nan if a sheet is empty in one of
        the two alone.
    Raises ValueError for measures on another sphere.
    """
    axes = a.positions.shape[1], b.positions.shape[1]
    if axes != (2, 2):
        raise ValueError(
            f"Wasserstein-1 is one of measures on the circle, got positions of {axes[0]} and"
            f" {axes[1]} coordinates. Take wasserstein2."
        )
    if _one_sided(a, b):
        return Distance(np.nan, np.nan)
    total = 0.0
    for share, (x, p), (y, q) in _balanced_sheets(a, b):
        total += share * circle_wasserstein1(
            np.arctan2(x[:, 1], x[:, 0]), p, np.arctan2(y[:, 1], y[:, 0]), q
        )
    return Distance(float(total))


def wasserstein2(a: PointMeasure, b: PointMeasure, atoms: int = W2_ATOMS) -> Distance:
    """Wasserstein-2 for the great-circle distance, (Σ_ε c_ε W2(a_ε/|a_ε|, b_ε/|b_ε|)²)^½, c_ε ∝
    |a_ε| + |b_ε|.

    a, b : PointMeasures on S^d;  atoms : sheets with more are quantised.   Cost: ~ atoms^2.5, 0.2 s
        for 1000.
    Returns a Distance in radians, nan if a sheet is empty in one of the two alone. Its bar is the
    triangle inequality, |W2(a, b) − W2(a′, b′)| ≤ W2(a, a′) + W2(b, b′), where W2(a, a′)² ≤ Σ w d².
    Raises ImportError without POT.
    """
    import ot  # takes seconds

    if _one_sided(a, b):
        return Distance(np.nan, np.nan)
    squares = np.zeros(3)
    for share, (x, p), (y, q) in _balanced_sheets(a, b):
        (x, p, moved_x), (y, q, moved_y) = quantised((x, p), (y, q), atoms)
        cost = ot.emd2(p / p.sum(), q / q.sum(), distances(x, y) ** 2, numItermax=10**7)
        squares += share * np.array([max(float(cost), 0.0), moved_x, moved_y])
    value, bar_a, bar_b = np.sqrt(squares)
    return Distance(float(value), float(bar_a + bar_b))


def gaussian_hellinger_kantorovich(
    a: PointMeasure, b: PointMeasure, atoms: int = GHK_ATOMS
) -> Distance:
    """Gaussian–Hellinger–Kantorovich distance, which sees positions and masses; squares add up over
    the two sheets:

        GHK(a, b)² = min over π ≥ 0 of ∫ d² dπ + KL(π₁ | a) + KL(π₂ | b)   (Liero, Mielke & Savaré
        2018, sec. 7.8)

    A metric, also between measures of different masses: |a| + |b| − 2 (|a| |b|)^½ e^{−d²/2} is the
    square between two atoms.
    a, b : PointMeasures on S^d;  atoms : sheets with more are quantised.   Cost: ~ 30 (2 atoms)³/3
        operations, half a second for 500.
    Returns a Distance whose bar holds the quantisation, as for W2, and the gap that the optimum is
    certified to.
    """
    squares = np.zeros(4)
    for sign in (1.0, -1.0):
        (x, p, moved_x), (y, q, moved_y) = quantised(a.sheet(sign), b.sheet(sign), atoms)
        # in units of a mass, whose products are numbers; a power of 2 changes no bit
        unit = 2.0 ** np.floor(np.log2(max(p.sum(), q.sum(), np.finfo(float).tiny)))
        lower, upper = ghk_bounds(distances(x, y) ** 2, p / unit, q / unit)
        squares += unit * lower, unit * upper, moved_x * p.sum(), moved_y * q.sum()
    low, high, bar_a, bar_b = np.sqrt(squares)
    return Distance(float(low), float(high - low + bar_a + bar_b))


def distances(x: Floats, y: Floats) -> Floats:
    """All great-circle distances of x (n, d+1) and y (m, d+1), as in sphere.distance; (n, m)."""
    from scipy.spatial.distance import cdist  # slow to load

    if not (len(x) and len(y)):
        return np.zeros((len(x), len(y)))
    return 2.0 * np.arctan2(cdist(x, y), cdist(x, -y))


def circle_wasserstein1(x: Floats, p: Floats, y: Floats, q: Floats) -> float:
    """Wasserstein-1 of two probabilities on the circle, atoms at angles x, y with weights p, q.

    W1 = ∫ |D − median D| over the angle, D the difference of the distribution functions (Delon,
    Salomon & Sobolevski 2010).
    """
    angles = np.concatenate([x, y]) % (2.0 * np.pi)
    order = np.argsort(angles)
    difference = np.cumsum(np.concatenate([p, -q])[order])
    length = np.diff(angles[order], append=angles[order[0]] + 2.0 * np.pi)
    by_height = np.argsort(difference)
    middle = np.searchsorted(np.cumsum(length[by_height]), np.pi)
    return float(length @ np.abs(difference - difference[by_height[middle]]))


def quantised(
    a: tuple[Floats, Floats], b: tuple[Floats, Floats], n: int
) -> tuple[tuple[Floats, Floats, float], ...]:
    """Two sheets, (positions, weights) each, carried by at most n atoms each, and how far their
    mass was moved.

    A sheet with more than n atoms gets one for each of n centres: it lies in the mean direction of
    the atoms that are nearest to the centre, and carries their mass. The centres are drawn from
    both sheets, by mass and then by mass × distance² to the centres so far (Arthur & Vassilvitskii
    2007), and moved by Lloyd's steps; they are the same whichever sheet comes first.
    Returns (positions, weights, ∫ d² / mass) twice.
    """
    a, b = ((x[keep], p[keep]) for x, p in (a, b) for keep in [p > NEGLIGIBLE * p.sum()])
    if max(len(a[1]), len(b[1])) <= n:
        return (*a, 0.0), (*b, 0.0)
    centers = _centers(a, b, n)
    return tuple(
        (*sheet, 0.0) if len(sheet[1]) <= n else _gathered(*sheet, centers) for sheet in (a, b)
    )


def _centers(a, b, n):
    """n points that suit two sheets alike."""
    from scipy.spatial import cKDTree  # slow to load

    positions = np.concatenate([a[0], b[0]])
    weights = np.concatenate([p / p.sum() for _, p in (a, b) if len(p)])
    order = np.lexsort((weights, *positions.T))
    positions, weights = positions[order], weights[order]
    rng, centers = np.random.default_rng(0), positions[:0]
    for k in range(CENTER_ROUNDS):
        moved = weights * (cKDTree(centers).query(positions)[0] ** 2 if k else 1.0)
        if moved.any():
            drawn = systematic_draw(rng, moved, (k + 1) * n // CENTER_ROUNDS - len(centers))
            centers = np.unique(np.concatenate([centers, positions[drawn]]), axis=0)
    for _ in range(LLOYD_STEPS):
        centers = _gathered(positions, weights, centers)[0]
    return centers


def _gathered(positions, weights, centers):
    """One atom for each centre that is nearest to some atom: mean direction, mass, and the mean ∫
    d² / mass."""
    from scipy.spatial import cKDTree  # slow to load

    _, group = cKDTree(centers).query(positions)
    mass = np.bincount(group, weights, len(centers))
    sums = sums_of_rows(group, weights[:, None] * positions, len(centers))
    used, lost = mass > 0.0, np.linalg.norm(sums, axis=1) <= 1e-12 * mass
    sums[lost] = centers[lost]  # atoms that cancel have no mean direction
    means = np.where(used[:, None], normalize(np.where(used[:, None], sums, 1.0)), 0.0)
    return (
        means[used],
        mass[used],
        float(weights @ distance(positions, means[group]) ** 2 / weights.sum()),
    )


def systematic_draw(rng: np.random.Generator, weights: Floats, n: int) -> Integers:
    """Indices of n draws by weight, evenly spaced along the shuffled atoms: one no heavier than 1/n
    is drawn at most once."""
    order = rng.permutation(len(weights))
    total = np.cumsum(weights[order])
    drawn = np.searchsorted(total, (np.arange(n) + 0.5) / n * total[-1])
    return order[np.minimum(drawn, len(order) - 1)]


def _balanced_sheets(a, b):
    """For each output sign with mass in both: its share of the mass, and the two sheets scaled to
    mass one."""
    for sign in (1.0, -1.0):
        (x, p), (y, q) = a.sheet(sign), b.sheet(sign)
        if p.sum() > 0.0 and q.sum() > 0.0:
            yield (p.sum() + q.sum()) / (a.mass + b.mass), (x, p / p.sum()), (y, q / q.sum())


def _one_sided(a, b):
    """Whether a sheet has mass in one of the two alone, so that no plan carries the one to the
    other."""
    return any(
        (a.sheet(sign)[1].sum() > 0.0) != (b.sheet(sign)[1].sum() > 0.0) for sign in (1.0, -1.0)
    )
