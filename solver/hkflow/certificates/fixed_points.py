"""Max-margin problems on fixed points θ_j, and the rates at which gradient ascent is proved to
solve them.

          points j →
z  =  data i ↓   z_ij = y_i φ(θ_j, x_i)          margins of the weights a : (z a)_i,  i = 1 … n
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..arguments import Floats, real_array
from ..errors import HkflowError
from .margin import OutOfTime

GAP = 1e-8  # of max |z|: how far the two values that enclose a margin may be apart
TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
FLAT = 1e-8  # of the longest row: a shorter one says nothing about scales
SHARP = 1e3  # max |z| as the solver gets it: its tolerances are absolute, and so 1e-13 max |z|
HIDDEN = 0.5  # of a positive bound: a gap that tolerances leave where rows differ much in size
OUT_OF_TIME = 1  # a status of linprog
UNMET = 1e-9  # of |column| |b|: a larger slope breaks an optimality condition of least squares
# half-spaces, from which on those that are active are found by pivots, if at most this share has a
# negative multiplier where all are active; and in how many rounds those that are wrong may be no
# fewer
MANY, NEGATIVE, TRIES = 256, 0.33, 3
EPS = float(np.finfo(float).eps)


@dataclass(frozen=True, eq=False)
class Margin:
    """A largest margin and its proof: value = min_i (z a)_i, and p shows that no other weights
    exceed it by more than GAP max|z|.

    weights : (n_points,) a;  dual : (n_data,) p ≥ 0, Σ p = 1
    """

    value: float
    weights: Floats
    dual: Floats


def l1_margin(z: Floats, seconds: float = np.inf) -> Margin:
    """The ℓ₁ max-margin, a linear programme and the value of a matrix game:

        γ₁ = max over a ≥ 0, Σ a = 1 of min_i (z a)_i  =  min over p ≥ 0, Σ p = 1 of max_j (zᵀp)_j

    z : (n_data, n_points) signed features;  seconds : that the programme may take at most
    Returns a Margin, negative if every convex combination has a negative margin.
    Raises ValueError for a z that is no finite matrix, OutOfTime, and HkflowError if the two sides
    differ by more than GAP max|z|.
    Source: Chizat & Bach 2020, Prop. 6.
    """
    from scipy.optimize import linprog  # slow to load

    z, size = _checked(z)
    n, m = z.shape
    limit = {"time_limit": max(seconds, 0.0)} if np.isfinite(seconds) else {}
    solution = linprog(
        np.append(np.zeros(m), -1.0),
        A_ub=np.column_stack([-(z / size) * SHARP, np.ones(n)]),
        b_ub=np.zeros(n),
        A_eq=np.append(np.ones(m), 0.0)[None],
        b_eq=[1.0],
        bounds=np.column_stack([np.append(np.zeros(m), -np.inf), np.full(m + 1, np.inf)]),
        options=TIGHT | limit,
    )
    if solution.status == OUT_OF_TIME and limit:
        raise OutOfTime(f"The ℓ₁ max-margin of {n} data and {m} points takes more time.")
    if solution.status != 0:
        raise HkflowError(
            f"The ℓ₁ max-margin of {n} data and {m} points was not found: {solution.message}"
        )
    a, p = _on_simplex(solution.x[:m]), _on_simplex(-solution.ineqlin.marginals)
    bound = float(np.max(p @ z))
    a = _lifted(z, a, bound)
    return _certified(Margin(float(np.min(z @ a)), a, p), bound, size)


def _lifted(z, a, bound):
    """Weights a with a little more where rows fall short of a positive bound, if that makes their
    margin larger and positive: of data of very different sizes long ones need less weight than the
    tolerances of a solver, which are absolute, let it see."""
    margins = z @ a
    if not bound - margins.min() > HIDDEN * bound:
        return a
    best, more = z.argmax(axis=1), a.copy()
    gains = z.max(axis=1)
    short = (margins < bound) & (gains > 0.0)
    np.add.at(more, best[short], (bound - margins[short]) / gains[short])
    more = _on_simplex(more)
    return more if np.min(z @ more) > max(margins.min(), 0.0) else a


def l2_margin(z: Floats) -> Margin:
    """The ℓ₂ max-margin, whose dual is the point of least norm in the convex hull of the rows of z:

        γ₂ = max over √m |a|₂ ≤ 1 of min_i (z a)_i  =  min over p ≥ 0, Σ p = 1 of |zᵀp|₂/√m,   a ∝
        zᵀp

    z : (n_data, n_points = m) signed features.
    Returns a Margin with √m |a| = 1, or with value 0 and a = 0 if nothing separates the data.
    Raises ValueError for a z that is no finite matrix, HkflowError if the two sides differ by more
    than GAP max|z|.
    Source: Chizat & Bach 2020, Prop. 7.
    """
    z, size = _checked(z)
    m = z.shape[1]
    p = least_distance(z / size, np.ones(len(z)))
    nearest = p @ z
    a = nearest / max(np.sqrt(m) * np.linalg.norm(nearest), np.finfo(float).tiny)
    value = float(np.min(z @ a))
    margin = Margin(value, a, p) if value > 0.0 else Margin(0.0, np.zeros(m), p)
    return _certified(margin, np.linalg.norm(nearest) / np.sqrt(m), size)


def least_distance(G: Floats, h: Floats) -> Floats:
    """The multipliers, up to their scale, of the point v nearest to the origin in the polyhedron G
    v ≥ h:

        min ½|v|²  s.t.  G v ≥ h :   v = Gᵀλ,  λ = p (h·p)/|Gᵀp|²,   p ∝ argmin over u ≥ 0 of |Gᵀu|²
                                     + (h·u/s − 1)²

    where s, the distance of the farthest half-space, is about |v| and keeps the two squares alike.
    G : (n, m);  h : (n,).   Returns p (n,), Σ p = 1; zero if v = 0.  A polyhedron without points
                             gives Gᵀp = 0, h·p > 0.
    Source: Lawson & Hanson 1974, ch. 23.
    """
    n, m = G.shape
    R = np.linalg.qr(G.T, mode="r") if n < m else G.T
    lengths = np.linalg.norm(R, axis=0)
    s = np.max(h / np.maximum(lengths, FLAT * lengths.max() or 1.0))
    if s <= 0.0:
        return np.zeros(n)
    u = _by_pivots(R, h) if n >= MANY else None
    if u is None:
        u = nonnegative(np.vstack([R, h / s]), np.append(np.zeros(len(R)), 1.0))
    return u / u.sum()


def _by_pivots(R, h):
    """The u ≥ 0 with w = RᵀRu − h ≥ 0 and u·w = 0, where most u are positive: those that are active
    and negative, and those that are not and whose w is, change places again and again. None if this
    does not end.

    R : (k, n), whose first k columns are a triangle; the others depend on them, and stay 0
    Source: Portugal, Júdice & Vicente 1994; Kim & Park 2011.
    """
    from scipy.linalg import LinAlgError, cho_factor, cho_solve, solve_triangular  # slow to load

    k, n = R.shape
    if not n <= 2 * k <= 2 * n:
        return None  # where most depend on others few are positive
    first, able = R[:, :k], np.arange(n) < k
    pivots = np.abs(np.diagonal(first))
    if first[-1, :-1].any() or pivots.min() <= n * EPS * pivots.max():
        return None  # no triangle, or one of data that nearly coincide
    u, fast = np.zeros(n), {"check_finite": False}
    u[:k] = solve_triangular(first, solve_triangular(first, h[:k], trans="T", **fast), **fast)
    if np.count_nonzero(u < 0.0) > NEGATIVE * n:
        return None
    M, active, fewest, tries = R.T @ R, u > 0.0, n, TRIES
    sizes = np.abs(M)
    while True:
        some, u = np.flatnonzero(active), np.zeros(n)
        try:
            factor = cho_factor(M[np.ix_(some, some)], lower=True)
        except LinAlgError:
            return None
        u[some] = cho_solve(factor, h[some])
        u[some] += cho_solve(factor, (h - M @ u)[some])
        w, rounding = M @ u - h, 10.0 * EPS * (sizes @ np.abs(u))
        wrong = able & np.where(active, u < 0.0, w < -rounding)
        count = np.count_nonzero(wrong)
        if count == 0:
            return u if (w >= -rounding).all() else None
        if count >= fewest and (tries := tries - 1) < 0:
            return None
        fewest = min(count, fewest)
        active ^= wrong


def nonnegative(A: Floats, b: Floats) -> Floats:
    """argmin over u ≥ 0 of |A u − b|.   A : (k, n);  b : (k,).   Returns u (n,)."""
    from scipy.optimize import lsq_linear, nnls  # slow to load

    u, _ = nnls(A, b, maxiter=50 * A.shape[1])
    slopes, sizes = A.T @ (A @ u - b), np.linalg.norm(A, axis=0) * np.linalg.norm(b)
    if (np.where(u > 0.0, np.abs(slopes), -slopes) > UNMET * sizes).any():
        # nnls may stop early where columns depend on each other, as those of symmetric data
        u = lsq_linear(A, b, (0.0, np.inf), method="bvls", tol=np.finfo(float).eps).x
    return u


def mirror_ascent_bound(
    gamma: float, z_max: float, n_units: int, n_data: int, steps: ArrayLike, sums: ArrayLike
) -> Floats:
    """What the best margin of t steps of gradient ascent on the radii of fixed directions exceeds:

        max_{s<t} min_i (z ā(s))_i ≥ γ₁ − (‖z‖/√t)(8 log m + log t + 1) − (4 log n/√t) Σ_{s<t}
        1/(β(s) √(s+1))

    for a_j = r_j²/m, β = |a|₁, ā = a/β, r(0) ∝ 1 and steps of 1/(16 ‖z‖ √(t+1)).
    gamma : γ₁;  z_max : ‖z‖ = max |z_ij|;  n_units : m;  n_data : n;  steps : (k,) t ≥ 1;  sums :
        (k,) the last sum at these t
    Returns (k,).   Source: Chizat & Bach 2020, Prop. 6 and eq. 15.
    """
    t = np.asarray(steps, dtype=float)
    first = z_max * (8.0 * np.log(n_units) + np.log(t) + 1.0)
    return gamma - (first + 4.0 * np.log(n_data) * np.asarray(sums)) / np.sqrt(t)


def projected_ascent_bound(gamma: float, z_max: float, n_data: int, steps: ArrayLike) -> Floats:
    """What the best margin of t steps of gradient ascent on the output weights exceeds:

        max_{s<t} min_i (z ā(s))_i ≥ γ₂ − (‖z‖/√t)(2√2 + √3 log n/γ₂)

    for a = r/m, β(t) = max(1, max_{s≤t} √m |a(s)|₂), ā = a/β, r(0) = 0 and steps of β(t) √2/(‖z‖
    √(t+1)).
    gamma : γ₂ > 0;  z_max : ‖z‖ = max |z_ij|;  n_data : n;  steps : (k,) t ≥ 1.   Returns (k,).
    Raises ValueError unless γ₂ > 0.   Source: Chizat & Bach 2020, Prop. 7.
    """
    if not gamma > 0.0:
        raise ValueError(
            f"The rate of projected ascent is proved for data with a positive margin, got {gamma}."
        )
    t = np.asarray(steps, dtype=float)
    return gamma - z_max / np.sqrt(t) * (2.0 * np.sqrt(2.0) + np.sqrt(3.0) * np.log(n_data) / gamma)


def _checked(z):
    """z as a matrix of floats, and max |z| (1 if all is zero)."""
    z = real_array(z, "Signed features")
    if z.ndim != 2 or z.size == 0 or not np.isfinite(z).all():
        raise ValueError(
            f"Signed features must be a finite matrix, n_data by n_points, got shape {z.shape}."
        )
    return z, np.abs(z).max() or 1.0


def _on_simplex(v):
    """v without the rounding that a solver leaves: v ≥ 0, Σ v = 1."""
    v = np.maximum(v, 0.0)
    return v / v.sum()


def _certified(margin, bound, size):
    """The margin, if its value is within GAP max|z| of the bound that its dual proves."""
    if not bound - margin.value <= GAP * size:
        gap = (bound - margin.value) / size
        raise HkflowError(
            f"A margin of {margin.value} is {gap:.1e} max|z| away from its dual bound {bound}, more"
            f" than {GAP:.0e}."
        )
    return margin
