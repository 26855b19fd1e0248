"""The square of the Gaussian–Hellinger–Kantorovich distance of two sheets of atoms, by a
primal–dual interior-point method."""

import numpy as np

from ..arguments import Floats
from ..compiled import njit

NEGLIGIBLE = 1e-16  # of the mass: atoms that no distance sees
GAP = 1e-12  # of the masses, in the square of the GHK distance
LAST_DIGITS = 1e-15  # of the masses: rounding of the bounds themselves
ROUNDING = 1e3  # Σ π s so much smaller: what is left of the gap is rounding
MAX_STEPS = 200
TO_THE_WALL = 0.995  # share of the way to the nearest vanishing variable that a step may take
LONGEST = 20.0  # change of a potential in a step; after one of 1e10 its slack has no digits left
TILE = 4  # lines of a factor that are summed at once


def ghk_bounds(cost: Floats, a: Floats, b: Floats) -> tuple[float, float]:
    """Lower and upper bound of min over π ≥ 0 of Σ cost π + KL(π₁ | a) + KL(π₂ | b), about 1e-12
    (|a| + |b|) apart.

        dual:  max Σ a (1 − e^{−f}) + Σ b (1 − e^{−g}),  s = cost − f − g ≥ 0;   optimal if π s = 0,
        π₁ = a e^{−f}, π₂ = b e^{−g}

    A primal–dual interior-point method (predictor and corrector) on these conditions with log π₁ =
    log a − f: every π > 0 and every (f, g) with s ≥ 0 is admissible, so their values are bounds
    wherever it stops; f is the largest that the last g allows.
    cost : (n, m) ≥ 0;  a : (n,) and b : (m,) > 0;  either may be empty
    """
    less, more = sorted((float(a.sum()), float(b.sum())))
    if less <= NEGLIGIBLE * more:
        return (np.sqrt(more) - np.sqrt(less)) ** 2, more + less  # bounds for any two masses
    if len(a) < len(b):  # the larger side is eliminated
        cost, a, b = cost.T, b, a
    cost = np.ascontiguousarray(cost)
    f, g, slack = np.full(len(a), -1.0), np.full(len(b), -1.0), cost + 2.0
    plan = np.outer(a, b) / np.sqrt(less * more)
    for _ in range(MAX_STEPS):
        transport, total, rows, columns = marginals(cost, plan, slack)
        upper = transport + _entropy(rows, a) + _entropy(columns, b)
        with np.errstate(over="ignore"):  # far from the optimum the lower bound may be −inf
            lower = -(a @ np.expm1(-f) + b @ np.expm1(-g))
        gap = total / plan.size
        if min(upper - lower, ROUNDING * total) <= GAP * (less + more):
            break
        solve = _newton(plan, slack, f, g, a, b, rows, columns)
        df, dg = solve(np.zeros_like(rows), np.zeros_like(columns))
        wanted = np.zeros_like(plan)
        t = _step(df, dg, *extremes(plan, slack, wanted, df, dg))
        left = complementarity(plan, slack, df, dg, t) / plan.size
        centering = (left / gap) ** 3 * gap
        df, dg = solve(*targets(plan, slack, df, dg, centering, wanted))
        t = _step(df, dg, *extremes(plan, slack, wanted, df, dg))
        f, g = f + t * df, g + t * dg
        move(plan, slack, wanted, df, dg, t)
    with np.errstate(over="ignore"):
        lower = -(a @ np.expm1(-(cost - g).min(axis=1)) + b @ np.expm1(-g))
    rounding = LAST_DIGITS * (less + more)
    return max(float(lower) - rounding, 0.0), max(float(upper) + rounding, 0.0)


def _entropy(p, q):
    """KL(p | q) = Σ p log(p/q) − p + q."""
    from scipy.special import rel_entr  # slow to load

    return np.sum(rel_entr(p, q) - p + q)


def _step(df, dg, *closing):
    """The longest step, 1 at most, along which nothing vanishes that closes by these shares, and f
    and g change by LONGEST at most."""
    change = max(np.abs(df).max(), np.abs(dg).max())
    return min(1.0, TO_THE_WALL / max(*closing, TO_THE_WALL), LONGEST / max(change, LONGEST))


def _newton(plan, slack, f, g, a, b, rows, columns):
    """The function (sums over rows and columns of target/s) -> changes of f and g that solve the
    linearised conditions with plan · slack = target.

    With W = π/s the system is ((U, W), (Wᵀ, V)), U = diag(π₁ + W₁), V = diag(π₂ + W₂); df is
    eliminated. Then s changes by −(df + dg), and π by target/s − π + W (df + dg).
    """
    u, v, z = ratios(plan, slack, rows, columns)
    factor = np.zeros((len(b), len(b)))
    complement_factor(z, v, factor)
    misfit_a = rows * (1.0 - f - np.log(rows / a))
    misfit_b = columns * (1.0 - g - np.log(columns / b))

    def solve(wanted_rows, wanted_columns):
        right_a, right_b = (misfit_a - wanted_rows) / np.sqrt(u), misfit_b - wanted_columns
        dg = solved(factor, right_b - np.einsum("ji,i->j", z, right_a))
        return (right_a - np.einsum("ji,j->i", z, dg)) / np.sqrt(u), dg

    return solve


# --- loops over all pairs of atoms: cost, plan, slack, wanted (n, m); rows, df, u (n,); columns,
# dg, v (m,)

SUMS = {"reassoc", "contract", "nsz"}


@njit(cache=True, fastmath=SUMS)
def marginals(cost, plan, slack):
    """Σ cost π, Σ π s, π₁ (n,) and π₂ (m,)."""
    rows, columns = np.zeros(len(plan)), np.zeros(plan.shape[1])
    transport = total = 0.0
    for i in range(len(plan)):
        pi, c, s = plan[i], cost[i], slack[i]
        mass = carried = product = 0.0
        for j in range(len(pi)):
            mass += pi[j]
            carried += pi[j] * c[j]
            product += pi[j] * s[j]
            columns[j] += pi[j]
        rows[i] = mass
        transport += carried
        total += product
    return transport, total, rows, columns


@njit(cache=True, fastmath=SUMS)
def ratios(plan, slack, rows, columns):
    """With W = π/s: u = π₁ + W₁ (n,), v = π₂ + W₂ (m,) and z = (W/√u)ᵀ (m, n)."""
    u, v, z = rows.copy(), columns.copy(), np.zeros((len(columns), len(rows)))
    ratio = np.zeros((TILE, len(columns)))
    for first in range(0, len(plan), TILE):
        size = min(TILE, len(plan) - first)
        for k in range(size):
            pi, s, w = plan[first + k], slack[first + k], ratio[k]
            total = 0.0
            for j in range(len(pi)):
                w[j] = pi[j] / s[j]
                v[j] += w[j]
                total += w[j]
            u[first + k] += total
        for k in range(size):  # some at once, since the lines of z lie far apart
            scale = 1.0 / np.sqrt(u[first + k])
            for j in range(len(v)):
                z[j, first + k] = ratio[k, j] * scale
    return u, v, z


@njit(cache=True, fastmath=SUMS)
def extremes(plan, slack, wanted, df, dg):
    """The largest shares that π and s lose in a step by df and dg; wanted: target/s."""
    falls, closes = np.full(len(dg), -np.inf), np.full(len(dg), -np.inf)
    for i in range(len(plan)):
        pi, s, w = plan[i], slack[i], wanted[i]
        for j in range(len(pi)):
            closing = (df[i] + dg[j]) / s[j]
            falling = 1.0 - closing - w[j] / pi[j]
            closes[j] = closing if closing > closes[j] else closes[j]
            falls[j] = falling if falling > falls[j] else falls[j]
    return np.max(falls), np.max(closes)


@njit(cache=True, fastmath=SUMS)
def complementarity(plan, slack, df, dg, t):
    """Σ π s after a step of the predictor."""
    total = 0.0
    for i in range(len(plan)):
        pi, s, product = plan[i], slack[i], 0.0
        for j in range(len(pi)):
            closing = (df[i] + dg[j]) / s[j]
            product += pi[j] * (1.0 - t * (1.0 - closing)) * s[j] * (1.0 - t * closing)
        total += product
    return total


@njit(cache=True, fastmath=SUMS)
def targets(plan, slack, df, dg, centering, wanted):
    """target/s of the corrector, target = centering − Δπ Δs of the predictor, into wanted; returns
    the sums of its rows and columns."""
    rows, columns = np.zeros(len(plan)), np.zeros(plan.shape[1])
    for i in range(len(plan)):
        pi, s, w = plan[i], slack[i], wanted[i]
        total = 0.0
        for j in range(len(pi)):
            closing = (df[i] + dg[j]) / s[j]
            w[j] = centering / s[j] - pi[j] * (1.0 - closing) * closing
            columns[j] += w[j]
            total += w[j]
        rows[i] = total
    return rows, columns


@njit(cache=True, fastmath=SUMS)
def move(plan, slack, wanted, df, dg, t):
    """π and s after a step, in place."""
    for i in range(len(plan)):
        pi, s, w = plan[i], slack[i], wanted[i]
        for j in range(len(pi)):
            opening = df[i] + dg[j]
            pi[j] += t * (w[j] - pi[j] + pi[j] / s[j] * opening)
            s[j] -= t * opening


@njit(cache=True, fastmath=SUMS)
def complement_factor(z, diagonal, out):
    """The lower Cholesky factor of diag(diagonal) − z zᵀ; z (m, n), diagonal (m,), out (m, m).

    Not LAPACK's: OpenBLAS spreads even small factorisations over threads that wait for one another,
    up to a second each while another process computes. A diagonal entry that rounding has eaten up
    keeps 1e-13 of itself.
    """
    m = len(z)
    for j in range(0, m, TILE):
        for k in range(0, min(j + TILE, m), 2):
            tile = pair_sums(z, j, k, z.shape[1]), pair_sums(out, j, k, k)
            for a in range(min(TILE, m - j)):
                for b in range(min(2, j + a - k + 1)):
                    total = tile[0][b][a] + tile[1][b][a]
                    if b == 1:
                        total += out[j + a, k] * out[k + 1, k]
                    if k + b == j + a:
                        left = max(diagonal[j + a] - total, 1e-13 * diagonal[j + a])
                        out[j + a, j + a] = np.sqrt(left)
                    else:
                        out[j + a, k + b] = -total / out[k + b, k + b]


@njit(cache=True, fastmath=SUMS)
def pair_sums(lines, j, k, columns):
    """Σ lines_(k+b)i lines_(j+a)i over i < columns, for b < 2 and a < TILE: eight sums at once,
    since each number that is read then serves several. The last line stands for those beyond it."""
    last = len(lines) - 1
    p, q = lines[k], lines[min(k + 1, last)]
    w, x = lines[j], lines[min(j + 1, last)]
    y, z = lines[min(j + 2, last)], lines[min(j + 3, last)]
    pw = px = py = pz = qw = qx = qy = qz = 0.0
    for i in range(columns):
        pw, px, py, pz = pw + p[i] * w[i], px + p[i] * x[i], py + p[i] * y[i], pz + p[i] * z[i]
        qw, qx, qy, qz = qw + q[i] * w[i], qx + q[i] * x[i], qy + q[i] * y[i], qz + q[i] * z[i]
    return (pw, px, py, pz), (qw, qx, qy, qz)


@njit(cache=True, fastmath=SUMS)
def solved(factor, right):
    """x of L Lᵀ x = right; factor L (m, m) lower, right (m,)."""
    x = right.copy()
    for j in range(len(x)):
        total = 0.0
        for i in range(j):
            total += factor[j, i] * x[i]
        x[j] = (x[j] - total) / factor[j, j]
    for j in range(len(x) - 1, -1, -1):
        x[j] /= factor[j, j]
        for i in range(j):
            x[i] -= factor[j, i] * x[j]
    return x
