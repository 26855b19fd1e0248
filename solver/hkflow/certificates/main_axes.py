"""A bound of a weighted sum of ReLU features by main axes of the data, in any dimension."""

import numpy as np

from ..arguments import Floats

# for the largest eigenvalue of a matrix: steps, what counts as no new direction, and how far above
# a Rayleigh quotient it is looked for
LANCZOS, SMALL = 16, 1e-10
FEW = 2000  # data, of which all pairs are compared
ABOVE = (1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0)
RATIOS, HALVINGS = (0.1, 1e3), 12  # of two parts of a bound: where the best is looked for


def by_main_axes(u: Floats, c: Floats, linear: Floats) -> float:
    """A bound of |Σ_j c_j (u_j·θ)₊ + A θ| over |θ| = 1 by main axes of the data:

        min over τ > 0 of λ^½,  λ the largest eigenvalue of (1 + τ) HᵀH + (1 + 1/τ) RᵀR,
        H = A + ½ Σ c_j u_jᵀ,  RᵀR = ¼ C Σ d_j u_j u_jᵀ,  C = Σ |c_j|²/d_j,

    for (s)₊ = ½ s + ½ |s|, Σ |c_j| |s_j| ≤ (C Σ d_j s_j²)^½, and (a + b)² ≤ (1 + τ) a² +
    (1 + 1/τ) b². The better one of d = |c| and of d = 1 is taken, which is exact for orthogonal
    data. Of numbers, k = 1, it is a bound of the sum itself: R and ½ c_j u_j are those of the
    positive ones, and since −(s)₊ ≤ −t s, t in [0, 1], the others put t c_j u_j into H, t such that
    it is short. Of vectors in groups with c_i·c_j ≤ 0 between them, as of classes, squares add up
    over the groups: each has its own H, and C.

    u : (n, p) unit vectors;  c : (n, k);  linear : (k, p) A
    """
    group = np.zeros(len(c), int)
    if c.shape[1] == 1:
        sizes = np.maximum(c[:, 0], 0.0)
        H = linear + 0.5 * np.einsum("n,np->p", sizes, u)
        others = np.einsum("n,np->p", c[:, 0] - sizes, u)
        square = np.einsum("p,p->", others, others)
        if square > 0.0:
            H += np.clip(-np.einsum("kp,p->", H, others) / square, 0.0, 1.0) * others
    else:
        sizes = np.linalg.norm(c, axis=1)
        if not linear.any() and len(c) <= FEW:
            group = _groups(c)
        parts = [np.where(group == g, c.T, 0.0) for g in np.unique(group)]
        H = np.concatenate([linear + 0.5 * np.einsum("kn,np->kp", part, u) for part in parts])
    some, rounding = sizes > 0.0, 8.0 * (len(u) + u.shape[1]) * np.finfo(float).eps
    u, sizes, group = u[some], sizes[some], group[some]
    bounds = []
    for d in (sizes, np.ones(len(sizes))):
        shares = np.bincount(group, sizes**2 / d)[group] * d
        rows = np.concatenate([H, 0.5 * np.sqrt(shares)[:, None] * u])
        bounds.append(_of_both(rows, len(H), rounding))
    return float(min(bounds) + rounding * np.abs(c).sum())


def _groups(c):
    """The number of each row's largest column, if rows of other numbers make no acute angle with
    it; else 0 for all."""
    group = np.argmax(c, axis=1)
    for g in np.unique(group):
        if (np.einsum("ik,jk->ij", c[group == g], c[group != g]) > 0.0).any():
            return np.zeros(len(c), int)
    return group


def _of_both(rows, k, rounding):
    """min over τ > 0 of λ^½ from above, λ the largest eigenvalue of (1 + τ) HᵀH + (1 + 1/τ) RᵀR,
    which is convex in τ;  rows : (k + m, p) H and R;  rounding : of λ, relative to the trace"""
    few, parts = len(rows) < rows.shape[1], (rows[:k], rows[k:])
    if few:  # than columns: the matrix of their products has the same eigenvalues
        whole = np.einsum("ia,ja->ij", rows, rows)
    else:
        grams = [np.einsum("ai,aj->ij", part, part) for part in parts]

    def matrix(ratio):
        shares = 1.0 + ratio, 1.0 + 1.0 / ratio
        if not few:
            return shares[0] * grams[0] + shares[1] * grams[1]
        each = np.sqrt(np.repeat(shares, [len(part) for part in parts]))
        return each[:, None] * whole * each

    (low, high), v = RATIOS, None
    for _ in range(HALVINGS):
        ratio = np.sqrt(low * high)
        v = _top(matrix(ratio), v)[1]
        if few:
            first, second = ratio * np.sum(v[:k] ** 2), np.sum(v[k:] ** 2)
        else:
            first, second = (np.einsum("i,ij,j->", v, gram, v) for gram in grams)
            first *= ratio**2
        low, high = (low, ratio) if first > second else (ratio, high)  # where λ rises, or falls
    K = matrix(np.sqrt(low * high))
    return np.sqrt(_largest_eigenvalue(K, v) + rounding * np.trace(K))


def _largest_eigenvalue(K, near=None):
    """That of a positive semi-definite matrix, from above: some t − K has a Cholesky factor, t
    above a Rayleigh quotient by 1e-6 of it or more; at most its trace. Not by LAPACK's, whose bits
    may depend on its threads."""
    trace, value = float(np.trace(K)), _top(K, near)[0]
    if len(K) < 2:
        return trace
    for more in ABOVE:
        top = (1.0 + more) * value
        try:
            np.linalg.cholesky(top * np.eye(len(K)) - K)
            return min((1.0 + 4.0 * len(K) ** 2 * np.finfo(float).eps) * top, trace)
        except np.linalg.LinAlgError:
            pass
    return trace


def _top(K, near=None):
    """A Rayleigh quotient of K near its largest eigenvalue, and its unit vector, by Lanczos'
    method; near : that of a matrix like it."""
    v = np.cos(np.arange(len(K)))  # which no symmetry of the data shares
    v = v if near is None else near + v / len(K)
    steps = min(LANCZOS, len(K))
    basis, T = np.zeros((steps, len(K))), np.zeros((steps, steps))  # of which eigh reads below
    for k in range(steps):
        size = np.sqrt(np.einsum("i,i->", v, v))
        if k and size <= SMALL * T[0, 0]:
            T = T[:k, :k]
            break
        basis[k] = v / size
        T[k, k - 1] = size if k else 0.0
        v = np.einsum("ij,j->i", K, basis[k])
        T[k, k] = np.einsum("i,i->", v, basis[k])
        for _ in range(2):
            v = v - np.einsum("k,ki->i", np.einsum("ki,i->k", basis, v), basis)
    v = np.einsum("k,ki->i", np.linalg.eigh(T)[1][:, -1], basis[: len(T)])
    v /= np.sqrt(np.einsum("i,i->", v, v))
    return np.einsum("i,ij,j->", v, K, v), v
