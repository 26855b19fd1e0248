"""The max-margin problem in the quasi-norm of a diagonal network of depth D: its stationary points,
all of them if they are few.

    min |w|_p^p = Σ_k |w_k|^p   s.t.   y_n x_n·w ≥ 1          p = 2/D          (D = 2: the ℓ₁ norm)

With rows A_n = y_n x_n, tight rows T, support S and p < 1 the objective is concave on every
orthant, so a stationary point is

    a vertex            A_TS w_S = 1 with as many tight rows as coordinates in S: all local minima
                        are among these
    a greatest value    of Σ_S |w_k|^p on A_TS w_S = 1 inside one orthant, with fewer tight rows:
                        one at most, never a minimum
"""

from dataclasses import dataclass
from itertools import combinations, product
from math import comb

import numpy as np

from ..arguments import Floats
from .diagonal_path import kappa_of, separable
from .fixed_points import nonnegative

RESIDUAL = 1e-9  # of the optimality conditions, relative: what a stationary point may leave
ZERO = 1e-11  # of the largest: what is smaller is rounding
MAX_SYSTEMS = 300_000  # systems of equations that may be solved
MAX_STEPS, MAX_HALVINGS = 60, 50
DECREASE = 1e-4  # share of the decrease promised by the slope that a step has to keep
TO_THE_WALL = 0.99  # share of the way to a zero of a positive number that a step may take


@dataclass(frozen=True, eq=False)
class QuasiNormPoint:
    """A classifier w with smallest margin one, and what it leaves of the network's optimality
    conditions.

    u_k = (D/2) u_k^(D−1) sign(w_k) (Aᵀν)_k,  u_k = |w_k|^(1/D);   A w ≥ 1;   ν ≥ 0,  ν_n (A_n·w −
    1) = 0
    weights : (d,) w;  multipliers : (n,) ν;  value : Σ|w_k|^(2/D)
    stationarity : max |left − right side| / max u;  feasibility : max (1 − A w)₊;  complementarity
        : max ν |A w − 1| / max ν
    minimum : whether w is a local minimum; False for a w whose residual is above RESIDUAL
    Source: Moroshko et al. 2020, eq. 3 and Theorem 2, for the networks of sec. 3.
    """

    weights: Floats
    multipliers: Floats
    value: float
    stationarity: float
    feasibility: float
    complementarity: float
    minimum: bool

    @property
    def residual(self) -> float:
        """The largest of the three."""
        return max(self.stationarity, self.feasibility, self.complementarity)


def quasi_norm(w: Floats, depth: float) -> Floats:
    """Σ_k |w_k|^(2/D), the square of the least |u|₂ with u₊^D − u₋^D = w.   w : (..., d);  depth :
    D ≥ 2.   Returns (...)."""
    kappa_of(depth)
    return np.sum(np.abs(w) ** (2.0 / depth), axis=-1)


def stationary_points(
    x: Floats, y: Floats, depth: float, only_minima: bool = False
) -> list[QuasiNormPoint]:
    """All stationary points of min Σ|w_k|^(2/D) s.t. y_n x_n·w ≥ 1, by increasing value; the first
    is the global minimum.

    Vertices solve A_TS w_S = 1 for every choice of as many rows as coordinates, C(n+d, d) systems.
    The others solve by Newton's method A_T w(Aᵀν) = 1, |w_k| = (D |(Aᵀν)_k|/2)^(−D/(D−2)), once for
    every sign pattern that Aᵀν takes for ν > 0. Linearly independent rows T are enough, by
    Carathéodory's theorem. For D = 2, where a face may solve it, its vertices are given.
    x : (n, d);  y : (n,) ±1;  depth : D ≥ 2;  only_minima : whether to solve for vertices alone and
        keep the local minima
    Returns a list of QuasiNormPoint, each with residual ≤ RESIDUAL.
    Raises ValueError for data that no w separates and for more than MAX_SYSTEMS systems.
    Source: Moroshko et al. 2020, App. H.3, which asks for these points.
    """
    A, _ = separable(x, y)
    curved = kappa_of(depth) > 0.0 and not only_minima
    count = _system_count(len(A), A.shape[1], curved)
    if count > MAX_SYSTEMS:
        remedy = "ask for only_minima or " if curved else ""
        raise ValueError(
            f"{A.shape[0]} data in dimension {A.shape[1]} need {count} systems of equations, more"
            f" than {MAX_SYSTEMS}: {remedy}take fewer data or coordinates, or search with gradient"
            " flows from several starts."
        )
    found = [*_vertices(A, depth), *(_saddles(A, depth) if curved else ())]
    points = [_measured(A, w, depth, RESIDUAL) for w in _distinct(found)]
    kept = [
        point
        for point in points
        if point.residual <= RESIDUAL and (point.minimum or not only_minima)
    ]
    return sorted(kept, key=lambda point: point.value)


def _measured(A, w, depth, tight):
    """The QuasiNormPoint of a w with smallest margin one, for the best ν ≥ 0 on the constraints up
    to 1 + tight.

    For D = 2 the problem for w is convex, and its residual includes what that needs of the other
    coordinates: (|Aᵀν| − 1)₊.
    """
    size, slack = np.abs(w), A @ w - 1.0
    u, near = size ** (1.0 / depth), slack <= tight
    rows = 0.5 * depth * (np.sign(w) * u ** (depth - 1.0))[:, None] * A[near].T
    system, wanted = rows / u.max(), u / u.max()
    if depth == 2:  # ±(Aᵀν)_k + slack = 1 with slack ≥ 0
        d, none = len(w), np.zeros((len(w), 2 * len(w)))
        system = np.block([[system, none], [np.vstack([A[near].T, -A[near].T]), np.eye(2 * d)]])
        wanted = np.append(wanted, np.ones(2 * d))
    lengths = np.maximum(np.linalg.norm(system, axis=0), np.finfo(float).tiny)
    solution = nonnegative(system / lengths, wanted)
    nu, solution = np.zeros(len(A)), solution / lengths
    nu[near] = solution[: near.sum()]
    left = {
        "stationarity": float(np.abs(system @ solution - wanted).max()),
        "feasibility": float(max(-slack.min(), 0.0)),
        "complementarity": float((nu * np.abs(slack)).max() / max(nu.max(), np.finfo(float).tiny)),
    }
    minimum = max(left.values()) <= RESIDUAL and (depth == 2 or _is_minimum(A[near], w, depth))
    return QuasiNormPoint(w, nu, float(quasi_norm(w, depth)), **left, minimum=minimum)


def _is_minimum(A, w, depth):
    """Whether a stationary w is a local minimum, for D > 2 and the tight rows A.

    Off the support the slope is infinite, and on it the objective is strictly concave: it has to
    rise at first order along every v ≠ 0 with A_S v ≥ 0. That holds if the gradient is in the
    interior of the rows' cone: A_S of full rank and A_Sᵀν = ∇, ν > 0.
    """
    alive = np.abs(w) > ZERO * np.abs(w).max()
    A, slopes = A[:, alive], np.sign(w[alive]) * np.abs(w[alive]) ** (2.0 / depth - 1.0)
    if np.linalg.matrix_rank(A) < alive.sum():
        return False
    lengths = np.linalg.norm(A, axis=1)
    rows, target = A / lengths[:, None], slopes / np.linalg.norm(slopes)
    from scipy.optimize import linprog  # slow to load

    n = len(rows)
    least = linprog(  # max t: ν ≥ t
        np.append(np.zeros(n), -1.0),
        A_ub=np.column_stack([-np.eye(n), np.ones(n)]),
        b_ub=np.zeros(n),
        A_eq=np.column_stack([rows.T, np.zeros(len(target))]),
        b_eq=target,
        bounds=[(0.0, None)] * n + [(None, 1.0)],
    )
    return bool(least.status == 0 and -least.fun > RESIDUAL)


def _system_count(n, d, curved):
    """How many systems `stationary_points` may have to solve: C(n+d, d), and with the curved ones a
    bound."""
    count = comb(n + d, d)
    for t in range(1, min(n, d - 1) + 1 if curved else 1):
        patterns = sum(comb(d, j) for j in range(t))
        count += comb(n, t) * patterns * sum(comb(d, k) for k in range(t + 1, d + 1))
    return count


def _vertices(A, depth):
    """All stationary w with as many linearly independent tight rows, whose cone holds the gradient,
    as coordinates not zero.

    For D = 2 the slopes at the other coordinates are still to be looked at.
    """
    n, d = A.shape
    for k in range(1, min(n, d) + 1):
        rows, columns = (np.array(list(combinations(range(size), k))) for size in (n, d))
        chosen, B = np.repeat(columns, len(rows), axis=0), A[np.tile(rows, (len(columns), 1))]
        B = np.take_along_axis(B, chosen[:, None, :], axis=2)
        sizes = np.linalg.svd(B, compute_uv=False)
        regular = sizes[:, -1] > ZERO * sizes[:, 0]
        chosen, B = chosen[regular], B[regular]
        solved, w = np.linalg.solve(B, np.ones((len(B), k, 1)))[:, :, 0], np.zeros((len(B), d))
        np.put_along_axis(w, chosen, solved, axis=1)
        full = np.abs(solved).min(axis=1) > ZERO * np.abs(solved).max(axis=1)
        full &= (w @ A.T).min(axis=1) >= 1.0 - RESIDUAL
        slopes = np.sign(solved[full]) * np.abs(solved[full]) ** (2.0 / depth - 1.0)
        nu = np.linalg.solve(B[full].swapaxes(1, 2), slopes[:, :, None])[:, :, 0]
        yield from w[full][nu.min(axis=1) >= -RESIDUAL * np.abs(nu).max(axis=1)]


def _saddles(A, depth):
    """All stationary w with fewer tight rows, linearly independent and with ν > 0, than coordinates
    that are not zero."""
    n, d = A.shape
    for t in range(1, min(n, d - 1) + 1):
        systems = {k: [] for k in range(t + 1, d + 1)}
        for rows in combinations(range(n), t):
            signs, inner = _sign_patterns(A[list(rows)])
            for k, found in systems.items():
                for columns in map(list, combinations(range(d), k)):
                    patterns, first = np.unique(signs[:, columns], axis=0, return_index=True)
                    found += [
                        (rows, columns, s, inner[i])
                        for s, i in zip(patterns, first, strict=True)
                        if s.all()
                    ]
        for found in filter(None, systems.values()):
            rows, columns, s, nu = map(np.array, zip(*found, strict=True))
            B = A[rows[:, :, None], columns[:, None, :]] * s[:, None, :]
            at, nu, v = _greatest(B, nu, depth)
            w = np.zeros((len(at), d))
            np.put_along_axis(w, columns[at], s[at] * v, axis=1)
            yield from w[(nu >= 0.0).all(axis=1) & ((w @ A.T).min(axis=1) >= 1.0 - RESIDUAL)]


def _sign_patterns(rows):
    """The signs that rowsᵀν takes for ν > 0, and a ν for each: the cells into which d planes cut a
    cone, from the cone's rays.

    rows : (t, d).   Returns signs (n_cells, d), 0 for columns of zeros, and nu (n_cells, t).
    """
    t, d = rows.shape
    normals = np.vstack([rows.T, np.eye(t)])
    normals = normals / np.maximum(
        np.linalg.norm(normals, axis=1, keepdims=True), np.finfo(float).tiny
    )
    rays = np.ones((1, 1))
    if t > 1:
        chosen = normals[np.array(list(combinations(range(d + t), t - 1)))]
        _, sizes, axes = np.linalg.svd(chosen)
        lines = axes[sizes[:, -1] > ZERO, -1]
        rays = np.vstack([lines, -lines])
        rays = np.maximum(rays[rays.min(axis=1) >= -ZERO], 0.0)
    heights = rays @ normals[:d].T
    touched = np.where(np.abs(heights) <= ZERO, 0.0, np.sign(heights))
    patterns = {
        tuple(signs)
        for ray in np.unique(touched, axis=0)
        for signs in product(
            *((s,) if s or not normals[k].any() else (1.0, -1.0) for k, s in enumerate(ray))
        )
    }
    signs = np.array(sorted(patterns))
    inner = np.array([rays[(touched * s >= 0.0).all(axis=1)].mean(axis=0) for s in signs])
    exists = ((inner @ normals[:d].T * signs > ZERO) | (signs == 0.0)).all(axis=1) & (
        inner > ZERO
    ).all(axis=1)
    return signs[exists], inner[exists]


def _greatest(B, nu, depth):
    """Where max Σ v^p s.t. B v = 1, v > 0 is attained, by damped Newton steps on its dual, many
    problems at once:

        min over ν of Σ (1−p) v^p + Σ ν,   v = (Bᵀν/p)^(−1/(1−p));   gradient 1 − B v,  curvature B
        diag(v/((1−p) Bᵀν)) Bᵀ

    At a solution it is Σ v^p > 0: a problem whose dual falls to zero has none, nor has one that
    does not settle.
    B : (m, t, k);  nu : (m, t) with Bᵀν > 0.   Returns for the s problems solved: at (s,), nu (s,
        t), v (s, k).
    """
    kappa, at, solved = kappa_of(depth), np.arange(len(B)), []
    p, ones = 1.0 - kappa, np.ones(B.shape[1])

    def dual(B, nu):
        c = np.maximum(np.einsum("mtk,mt->mk", B, nu), np.finfo(float).tiny)
        v = (c / p) ** (-1.0 / kappa)
        return c, v, kappa * np.sum(v**p, axis=1) + nu.sum(axis=1)

    sizes = np.linalg.svd(B, compute_uv=False)
    at = at[sizes[:, -1] > ZERO * sizes[:, 0]]
    B, nu = B[at], nu[at]
    power = np.sum(dual(B, nu)[1] ** p, axis=1)
    nu = nu * ((p * power / nu.sum(axis=1)) ** kappa)[:, None]
    for _ in range(MAX_STEPS):
        c, v, value = dual(B, nu)
        slope = ones - np.einsum("mtk,mk->mt", B, v)
        done = np.abs(slope).max(axis=1) <= 1e-3 * RESIDUAL
        solved.append((at[done], nu[done], v[done]))
        going = ~done & (value > 0.0)
        if not going.any():
            break
        at, B, nu, c, v, value, slope = (a[going] for a in (at, B, nu, c, v, value, slope))
        curvature = np.einsum("mtk,mk,msk->mts", B, v / (kappa * c), B)
        scale = np.sqrt(np.einsum("mtt->mt", curvature))
        curvature = curvature / (scale[:, :, None] * scale[:, None, :]) + 1e-15 * np.eye(len(ones))
        step = -np.linalg.solve(curvature, (slope / scale)[:, :, None])[:, :, 0] / scale
        drift, promised = np.einsum("mtk,mt->mk", B, step), np.sum(slope * step, axis=1)
        share = np.minimum(1.0, TO_THE_WALL * np.min(c / np.maximum(-drift, 1e-300), axis=1))
        for _ in range(MAX_HALVINGS):
            rising = dual(B, nu + share[:, None] * step)[
                2
            ] > value + DECREASE * share * promised + 1e-14 * np.abs(value)
            if not rising.any():
                break
            share = np.where(rising, 0.5 * share, share)
        nu = nu + share[:, None] * step
    return tuple(np.concatenate(parts) for parts in zip(*solved, strict=True))


def _distinct(found):
    """The vectors without those that repeat an earlier one up to rounding."""
    kept = []
    for w in found:
        if not any(np.abs(w - other).max() <= RESIDUAL * np.abs(w).max() for other in kept):
            kept.append(w)
    return kept
