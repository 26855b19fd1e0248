"""Distances between measures on the signed sphere: Wasserstein-1 and -2, and
Gaussian–Hellinger–Kantorovich.

Wasserstein distances want probabilities: they compare, for each output sign, the two sheets scaled
to mass one, and average over the signs by the mean masses of the sheets.
Gaussian–Hellinger–Kantorovich compares the measures with their masses.
"""

from typing import NamedTuple

import numpy as np

from ..arguments import Floats, Integers
from ..compiled import njit
from ..geometry.sphere import distance, normalize
from .point_measure import PointMeasure

W2_ATOMS, GHK_ATOMS = 1000, 500  # more are quantised
NEGLIGIBLE = 1e-16  # of the mass: atoms that no distance sees
# of choosing the centres that a sheet is gathered at, and of moving them
CENTER_ROUNDS, LLOYD_STEPS = 5, 3
GAP = 1e-12  # of the masses, in the square of the GHK distance
ROUNDING = 1e3  # Σ π s so much smaller: what is left of the gap is rounding
MAX_STEPS = 200
TO_THE_WALL = 0.995  # share of the way to the nearest vanishing variable that a step may take


class Distance(NamedTuple):
    """A distance and how far it may be off: the exact one lies within value ± bar."""

    value: float
    bar: float = 0.0


def wasserstein1(a: PointMeasure, b: PointMeasure) -> Distance:
    """Wasserstein-1 on the circle, exact for any number of atoms: Σ_ε c_ε W1(a_ε/|a_ε|, b_ε/|b_ε|),
    c_ε ∝ |a_ε| + |b_ε|.

    a, b : PointMeasures on S^1.   Returns a Distance in radians, nan if a sheet is empty in one of
        the two alone.
    """
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
        operations, 0.7 s for 500.
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


def ghk_bounds(cost: Floats, a: Floats, b: Floats) -> tuple[float, float]:
    """Lower and upper bound of min over π ≥ 0 of Σ cost π + KL(π₁ | a) + KL(π₂ | b), about 1e-12
    (|a| + |b|) apart.

        dual:  max Σ a (1 − e^{−f}) + Σ b (1 − e^{−g}),  s = cost − f − g ≥ 0;   optimal if π s = 0,
        π₁ = a e^{−f}, π₂ = b e^{−g}

    A primal–dual interior-point method (predictor and corrector) on these conditions with log π₁ =
    log a − f: every π > 0 and every (f, g) with s > 0 is admissible, so their values are bounds
    whatever the rounding and wherever it stops.
    cost : (n, m) ≥ 0;  a : (n,) and b : (m,) > 0;  either may be empty
    """
    less, more = sorted((float(a.sum()), float(b.sum())))
    if less <= NEGLIGIBLE * more:
        return (np.sqrt(more) - np.sqrt(less)) ** 2, more + less  # bounds for any two masses
    f, g, slack = np.full(len(a), -1.0), np.full(len(b), -1.0), cost + 2.0
    plan = np.outer(a, b) / np.sqrt(less * more)
    for _ in range(MAX_STEPS):
        upper = np.sum(cost * plan) + _entropy(plan.sum(axis=1), a) + _entropy(plan.sum(axis=0), b)
        with np.errstate(over="ignore"):  # far from the optimum the lower bound may be −inf
            lower = -(a @ np.expm1(-f) + b @ np.expm1(-g))
        gap = np.mean(plan * slack)
        if min(upper - lower, ROUNDING * gap * plan.size) <= GAP * (less + more):
            break
        solve = _newton(plan, slack, f, g, a, b)
        _, _, closing, change = solve(0.0)
        t = min(_step(plan, change), _step(slack, closing))
        centering = (np.mean((plan + t * change) * (slack + t * closing)) / gap) ** 3
        df, dg, closing, change = solve(centering * gap - change * closing)
        t = min(_step(plan, change), _step(slack, closing))
        f, g, slack, plan = f + t * df, g + t * dg, slack + t * closing, plan + t * change
    return max(float(lower), 0.0), max(float(upper), 0.0)


def _entropy(p, q):
    """KL(p | q) = Σ p log(p/q) − p + q."""
    from scipy.special import rel_entr  # slow to load

    return np.sum(rel_entr(p, q) - p + q)


def _step(value, change):
    """The longest step, 1 at most, that keeps value + step · change positive."""
    return min(1.0, TO_THE_WALL / max(np.max(-change / value), TO_THE_WALL))


def _newton(plan, slack, f, g, a, b):
    """The function target -> changes of f, g, slack and plan that solve the linearised conditions
    with plan · slack = target.

    With W = π/s the system is ((U, W), (Wᵀ, V)), U = diag(π₁ + W₁), V = diag(π₂ + W₂); df is
    eliminated.
    """
    from scipy.linalg import cho_solve  # slow to load

    ratio, rows, columns = plan / slack, plan.sum(axis=1), plan.sum(axis=0)
    u, v = rows + ratio.sum(axis=1), columns + ratio.sum(axis=0)
    factor = np.zeros((len(b), len(b)))
    complement_factor(np.ascontiguousarray((ratio / np.sqrt(u)[:, None]).T), v, factor)
    misfit_a = rows * (1.0 - f - np.log(rows / a))
    misfit_b = columns * (1.0 - g - np.log(columns / b))

    def solve(target):
        wanted = target / slack + np.zeros_like(slack)
        right_a, right_b = misfit_a - wanted.sum(axis=1), misfit_b - wanted.sum(axis=0)
        dg = cho_solve((factor, True), right_b - (right_a / u) @ ratio, check_finite=False)
        df = (right_a - ratio @ dg) / u
        opening = df[:, None] + dg
        return df, dg, -opening, wanted - plan + ratio * opening

    return solve


@njit(cache=True, fastmath={"reassoc", "contract", "nsz"})
def complement_factor(z, diagonal, out):
    """The lower Cholesky factor of diag(diagonal) − z zᵀ; z (m, n), diagonal (m,), out (m, m).

    Not LAPACK's: OpenBLAS spreads even small factorisations over threads that wait for one another,
    up to a second each while another process computes. A diagonal entry that rounding has eaten up
    keeps 1e-13 of itself.
    """
    for j in range(len(z)):
        for k in range(j + 1):
            total = 0.0
            for i in range(z.shape[1]):
                total += z[j, i] * z[k, i]
            for i in range(k):
                total += out[j, i] * out[k, i]
            if j == k:
                out[j, j] = np.sqrt(max(diagonal[j] - total, 1e-13 * diagonal[j]))
            else:
                out[j, k] = -total / out[k, k]


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
    sums = np.stack([np.bincount(group, weights * x, len(centers)) for x in positions.T], axis=1)
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
