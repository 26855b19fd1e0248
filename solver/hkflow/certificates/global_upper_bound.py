"""A certified upper bound of a weighted sum of features over the whole sphere, by branch and bound.

    G(θ) = Σ_i c_i φ(θ, x_i),  φ = (θ·x)₊ on any sphere, or (θ·x)₊² on the circle or S²

Beyond S² see `cones`. Circle and S² are cut into arcs or triangles, each inside a cap of radius ρ
around its centre. Data that are positive on the whole cap make a linear, or quadratic, function
there, whose maximum over the cap is known; data that are negative count nothing; the undecided ones
enter by a bound that shrinks with the cap. Pieces whose bound exceeds the highest value met are cut
again, so the cost is a few sums over the data and then little more, where `search.local_maxima`
costs n² for points that prove the same.
"""

import time

import numpy as np

from ..arguments import Floats
from ..compiled import njit
from ..geometry.polyhedra import copy
from ..geometry.rows import unique_rows
from ..objectives.activations import Feature
from ..operators.dense import LINEAR, RELU, SQUARED_RELU
from ..remembered import remembered
from . import cones
from .search import add, dot, is_searchable, slack, vector_units

SAME_LINE = 1e-13  # distance of unit vectors that are taken for one
TOLERANCE = 1e-10  # of Σ |c_i| |x_i|^degree: by how much the bound may exceed the maximum
# pieces of one size; where more are left the tolerance grows: the bound is looser, and still a
# bound
ROOM = 1024
FINEST = 40  # cuts: the pieces are then as small as rounding
SETTLED = 1e-14  # a change of a share that counts as none
ROUNDING = 1e-9  # of a vector: a part so small has no direction
VISITS = 100  # of undecided data, at least twice each, to lower a bound
# for a first high value: climbs, their steps, and how short a vector may get
CLIMBS, ASCENTS, POLISH, SHORT = 4, 12, 2, 0.1
# n p² for each cone beyond S²: for a record of a run, some 20 ms; at its end, some 3 s; for
# `hkflow margin`, some minutes
WORK_OF_RECORD, WORK_OF_RUN, WORK_OF_MARGIN = 2**20, 2**27, 2**32
# for the largest eigenvalue of a matrix: steps, what counts as no new direction, and how far above
# a Rayleigh quotient it is looked for
LANCZOS, SMALL = 16, 1e-10
FEW = 2000  # data, of which all pairs are compared
ABOVE = (1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0)
RATIOS, HALVINGS = (0.1, 1e3), 12  # of two parts of a bound: where the best is looked for
MOST_PEAKS = 200  # that one search returns
GOLDEN = (1.0 + np.sqrt(5.0)) / 2.0


def is_enclosable(feature: Feature, axes: int) -> bool:
    """Whether a bound of the maximum is known: what is_searchable finds, and ReLU on any sphere."""
    return feature.activation == RELU or is_searchable(feature, axes)


def nodes_within(work: int, inputs: Floats) -> int:
    """How many cones an amount of work pays for, with inputs (n, p): the same on any machine."""
    return work // max(len(inputs) * inputs.shape[1] ** 2, 1) + 1


def nodes_of_record(feature: Feature, inputs: Floats) -> int:
    """How many cones a record of a run looks at for each sign; 0 where there are none, or too few
    to cover the space."""
    p, nodes = inputs.shape[1], nodes_within(WORK_OF_RECORD, inputs)
    by_cones = feature.activation == RELU and (p > 3 or feature.outputs > 1)
    return nodes if by_cones and nodes > p else 0


def global_upper_bound(
    feature: Feature,
    inputs: Floats,
    coefficients: Floats,
    signs: tuple[int, ...] = (1,),
    nodes: int | None = None,
) -> float:
    """A number that ε Σ_i coefficients_i φ(θ, x_i) exceeds for no θ on the sphere and no ε in
    signs; see is_enclosable.

    inputs : (n_data, p), p ≤ 3 for squared ReLU
    coefficients : (n_data,), of units with k > 1 outputs (n_data · k,), one for each of their
        outputs, datum by datum: cones bound these for any p
    nodes : cones that are looked at, p > 3, as many as WORK_OF_RECORD allows if not given; with few
        the bound is loose, and holds: it is at most the sum of the positive terms, and never
        negative there. p are too few to cover the space: then the main axes of the data tell.
    """
    nodes = nodes_within(WORK_OF_RECORD, inputs) if nodes is None else nodes
    return enclose(feature, inputs, coefficients, signs, nodes)[0]


def enclose(
    feature: Feature,
    inputs: Floats,
    coefficients: Floats,
    signs: tuple[int, ...],
    nodes: int,
    enough: float = -np.inf,
    until: float = np.inf,
) -> tuple[float, Floats, Floats]:
    """The bound of global_upper_bound; and points (k, p) and signs (k,) of local maxima above
    `enough`, where cones find them.

    enough : a finite value ends the search where the bound is no larger
    until : of time.monotonic(), when the search over cones ends: the bound is loose, and holds
    """
    if feature.outputs > 1:  # b·Σ c_i ψ(a·x_i) on |a|² + |b|² = 1: half the largest norm
        c = coefficients.reshape(len(inputs), -1)
        bound, points = _largest_norm(feature.activation, inputs, c, nodes, 2.0 * enough, until)
        return 0.5 * bound, vector_units(feature, points, inputs, c)[0], np.ones(len(points))
    if feature.joint:  # b ψ(a, x) on |a|² + |b|² = 1: half the highest of ±ψ
        bound, points, found = _highest(
            feature.activation, inputs, coefficients, (1, -1), nodes, 2.0 * enough, until
        )
        points = np.sqrt(0.5) * np.column_stack([points, found])
        return 0.5 * max(bound, 0.0), points, np.ones(len(points))
    return _highest(feature.activation, inputs, coefficients, signs, nodes, enough, until)


def _highest(activation, inputs, c, signs, nodes, enough, until):
    p, squared = inputs.shape[1], True if activation == SQUARED_RELU else None
    nowhere = np.zeros((0, p)), np.zeros(0)
    if activation == LINEAR:
        return float(
            np.linalg.norm(c @ inputs)
            + slack(len(c)) * (np.abs(c) @ np.linalg.norm(inputs, axis=1))
        ), *nowhere
    if p == 1:  # two directions
        positive = np.maximum(inputs[:, 0] * np.array([[1.0], [-1.0]]), 0.0) ** (
            2 if squared else 1
        )
        return float(
            np.multiply.outer(signs, positive @ c).max()
            + slack(len(c)) * (np.abs(c) @ positive.sum(axis=0))
        ), *nowhere
    u, line, along = _lines(inputs)
    sizes = c * along**2 if squared else c * np.abs(along)
    scale = float(np.abs(sizes).sum())
    if not np.isfinite(scale) or scale == 0.0:  # beyond numbers no bound is known
        return scale if scale == 0.0 else np.inf, *nowhere
    sizes /= scale
    behind = sizes * (along < 0.0)
    # data on one line act as one: (−s)₊ = (s)₊ − s and (−s)₊² = s² − (s)₊²; s and s² belong to the
    # whole sphere
    merged = np.bincount(line, sizes - 2.0 * behind if squared else sizes, len(u))
    opposite = np.bincount(line, behind, len(u))
    linear = -opposite @ u
    if p > 3:
        plain = [np.maximum(sign * sizes, 0.0).sum() for sign in signs]
        if _main_axes_pay(len(u), p, nodes):
            bounds = [
                _by_main_axes(u, sign * merged[:, None], sign * linear[None]) for sign in signs
            ]
            plain = np.minimum(plain, bounds)
        bound, *found = _over_cones(
            *(u, merged, linear, signs, plain, nodes, enough / scale, until)
        )
        return scale * (bound + slack(len(c))), *found
    whole = u.T @ (opposite[:, None] * u) if squared else np.vstack([linear, np.zeros((2, 3))])
    value = bound = -np.inf
    for sign in signs:
        geometry = u, sign * merged, sign * whole, squared, PIECES[p]
        value, bound = _branch_and_bound(*geometry, TOLERANCE, value, bound)
    return scale * (bound + slack(len(c))), *nowhere


def _over_cones(u, c, linear, signs, plain, nodes, enough, until):
    """The largest bound over the signs, at least 0, with all peaks: of each sign that of
    cones.branch_and_bound or the plain one that is known without cones, whichever is lower. The
    signs share the time that is left."""
    p, some = u.shape[1], np.flatnonzero(c)
    bound, points, found = 0.0, [np.zeros((0, p))], [np.zeros(0)]
    for k, (sign, most) in enumerate(zip(signs, plain, strict=True)):
        if nodes <= p or cones.open_cones(p, nodes) < p + 2:  # less than what covers the space
            bound = max(bound, most)
            continue
        peaks = np.zeros((MOST_PEAKS, p))
        geometry = u[some], sign * c[some], sign * linear, cones.cover(p)
        now = time.monotonic()
        end = now + (until - now) / (len(signs) - k)
        top, _, count, _ = cones.branch_and_bound(
            *geometry, cones.open_cones(p, nodes), enough, nodes, peaks, end
        )
        bound = max(bound, min(top, most))
        points.append(peaks[:count])
        found.append(np.full(count, float(sign)))
    return bound + p * cones.ON_FACE, np.concatenate(points), np.concatenate(found)


def _main_axes_pay(n, p, nodes):
    """Whether `_by_main_axes` costs less than so many cones: not where a record has none."""
    return nodes >= p or (nodes - 1) * n * p**2 > WORK_OF_RECORD


def _by_main_axes(u, c, linear):
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


def _largest_norm(activation, inputs, c, nodes, enough, until):
    """The same for |Σ_i c_i ψ(a·x_i)|, c (n_data, k), with points (n, p): by cones for any p."""
    p, nowhere = inputs.shape[1], np.zeros((0, inputs.shape[1]))
    scale = float(np.linalg.norm(c, axis=1) @ np.linalg.norm(inputs, axis=1))
    if activation == LINEAR:
        return float(np.linalg.norm(c.T @ inputs, 2) + slack(len(c)) * scale), nowhere
    if not 0.0 < scale < np.inf:  # beyond numbers no bound is known
        return scale if scale == 0.0 else np.inf, nowhere
    bound, peaks, found = 1.0, np.zeros((MOST_PEAKS, p)), 0
    u, line, along = _lines(inputs)
    sizes = c * np.abs(along / scale)[:, None]
    merged, behind = np.zeros((len(u), c.shape[1])), np.where(along < 0.0, sizes.T, 0.0).T
    np.add.at(merged, line, sizes)  # as in _highest
    u, linear = np.ascontiguousarray(u[:, :p]), -behind.T @ u[line, :p]
    if _main_axes_pay(len(u), p, nodes):
        bound = min(bound, _by_main_axes(u, merged, linear))
    if nodes > p and cones.open_cones(p, nodes) >= p + 2:  # enough to cover the space
        some = merged.any(axis=1)
        top, _, found, _ = cones.branch_and_bound(
            *(u[some], merged[some], linear, cones.cover(p)),
            *(cones.open_cones(p, nodes), enough / scale, nodes, peaks, until),
        )
        bound = min(top, bound)
    return scale * (bound + 2.0 * (slack(len(c)) + p * cones.ON_FACE)), peaks[:found]


@remembered(most=4)
def _lines(inputs):
    """Unit vectors u (n_lines, max(3, p)) of the lines that data (n, p) lie on, the line of each,
    and along with x_i = along_i u_line.

    Kept, since a run asks for it at every record.
    """
    n, p = inputs.shape
    x = np.zeros((n, max(3, p)))
    x[:, :p] = inputs
    largest = np.abs(x).max(axis=1)
    # squares of what is left neither overflow nor vanish
    unit = x / np.maximum(largest, np.finfo(float).tiny)[:, None]
    lengths = np.linalg.norm(unit, axis=1)
    unit /= np.where(lengths > 0.0, lengths, 1.0)[:, None]
    sizes = largest * lengths
    rounded = np.round(unit / SAME_LINE).astype(np.int64)
    turned = np.sign(
        np.take_along_axis(rounded, (rounded != 0).argmax(axis=1)[:, None], axis=1)[:, 0]
    )
    first, line = unique_rows(rounded * turned[:, None])
    return unit[first], line, sizes * turned * turned[first][line]


def _arcs(count):
    """(count, 2, 3) corners of equal arcs of the circle."""
    angles = 2.0 * np.pi * np.arange(count + 1) / count + 0.1
    corners = np.stack([np.cos(angles), np.sin(angles), np.zeros(count + 1)], axis=1)
    return np.stack([corners[:-1], corners[1:]], axis=1)


def _faces():
    """(20, 3, 3) corners of the faces of an icosahedron: all triples of neighbours."""
    corner = np.array([(0.0, s, t * GOLDEN) for s in (-1.0, 1.0) for t in (-1.0, 1.0)])
    points = np.concatenate([np.roll(corner, shift, axis=1) for shift in range(3)]) / np.sqrt(
        1.0 + GOLDEN**2
    )
    near = points @ points.T > 0.4
    triples = [
        (i, j, k)
        for i in range(12)
        for j in range(i)
        for k in range(j)
        if near[i, j] and near[j, k] and near[i, k]
    ]
    return points[np.array(triples)]


PIECES = {2: _arcs(8), 3: _faces()}  # caps of radius below π/4


@njit(cache=True)
def _branch_and_bound(x, c, whole, squared, pieces, tolerance, value, bound):
    """The highest value met and a bound of all values, each no less than the given one.

    x : (n, 3) unit vectors;  c : (n,);  whole : (3, 3) M of θᵀMθ, or in its first row A of A·θ, to
        be added
    squared : True for squared ReLU, None for ReLU: what that never does is not compiled for it
    pieces : (n_pieces, p, 3) corners of a cover of the sphere

    Pieces of one size are looked at in turn, so that high values are met before smaller pieces are
    made. Each knows a bound, the sum over its decided data, and the others as a range of `lists`,
    shared with its sisters; [0] now, [1] their children.
    """
    n, p = len(x), pieces.shape[1]
    corners, sums, tops = np.empty((2, ROOM, p, 3)), np.empty((2, ROOM, 3, 3)), np.empty((2, ROOM))
    begins, ends = np.empty((2, ROOM), np.int64), np.empty((2, ROOM), np.int64)
    lists, share = np.empty((2, 20 * n + 8 * ROOM), np.int32), np.zeros(n)
    center, A, L, M, R = np.empty(3), np.empty(3), np.empty(3), np.empty((3, 3)), np.empty((3, 3))
    for i in range(n):
        lists[0, i] = i
    now, count, value = 0, len(pieces), max(value, _climbed(x, c, whole, squared, pieces))
    for k in range(count):
        copy(pieces[k], corners[0, k])
        copy(whole, sums[0, k])
        tops[0, k], begins[0, k], ends[0, k] = np.inf, 0, n
    for size in range(FINEST + 1):
        then, made, used = 1 - now, 0, 0
        for k in range(count):
            if tops[now, k] <= value + tolerance:
                bound = max(bound, tops[now, k])
                continue
            cosine, sine = _cap(corners[now, k], center)
            copy(sums[now, k], M)
            begin = end = used
            undecided = extra = 0.0
            for j in range(begins[now, k], ends[now, k]):
                i = lists[now, j]
                if c[i] == 0.0:
                    continue
                s = dot(center, x[i])
                if s > sine:
                    add(c[i], x[i], squared, M)
                    continue
                if s < -sine:
                    continue
                lists[then, end] = i
                end += 1
                if squared is not None:
                    undecided += c[i] * max(s, 0.0) ** 2
                else:
                    undecided += c[i] * max(s, 0.0)
                    aside = np.sqrt(max(1.0 - s * s, 0.0)) * sine
                    high, low = s * cosine + aside, min(s * cosine - aside, 0.0)
                    share[i] = max(high, 0.0) / (high - low) if c[i] > 0.0 and high > low else 0.5
                    extra -= max(c[i], 0.0) * share[i] * low
            others = lists[then, begin:end]
            if squared is not None:
                for q in range(3):
                    A[q] = dot(M[q], center)
                value = max(value, dot(A, center) + undecided)
                copy(M, R)  # (s)₊² ≤ s² and −(s)₊² ≤ 0
                for i in others:
                    if c[i] > 0.0:
                        add(c[i], x[i], True, R)
                highest = _cap_of_quadratic(R, center, cosine, sine, A)
                if highest > value + tolerance:
                    values, vectors = np.linalg.eigh(np.ascontiguousarray(R[:p, :p]))
                    highest = min(highest, values[-1])
                    _toward(vectors, center, A)
                    value = max(value, _value(x, c, whole, squared, A, L))
            else:
                value = max(value, dot(M[0], center) + undecided)
                _lean(M[0], x, c, share, others, L)
                highest = extra + _cap_of_linear(L, center, cosine, sine, A)
                if highest > value + tolerance:
                    value = max(value, _value(x, c, whole, squared, A, L))
                    # the highest point may be where their circles cross
                    if len(others) == 2 and p == 3:
                        _crossing(x[others[0]], x[others[1]], center, A)
                        value = max(value, _value(x, c, whole, squared, A, L))
            highest = min(highest, tops[now, k])
            while highest > value + tolerance and (made + 4 > ROOM or end + n > lists.shape[1]):
                tolerance *= 10.0
            if highest <= value + tolerance or size == FINEST:
                bound = max(bound, highest)
                continue
            used, parts = end, _cut(corners[now, k], corners[then, made:])
            for child in range(made, made + parts):
                copy(M, sums[then, child])
                tops[then, child], begins[then, child], ends[then, child] = highest, begin, end
            made += parts
        now, count = then, made
    return value, bound


@njit(cache=True)
def _middle(corners, out):
    """Write the centre of a piece, a unit vector."""
    for q in range(3):
        out[q] = 0.0
        for k in range(len(corners)):
            out[q] += corners[k, q]
    length = np.sqrt(dot(out, out))
    for q in range(3):
        out[q] /= length


@njit(cache=True)
def _toward(vectors, center, A):
    """Write the last eigenvector to A, zeros after it, on the side of a centre."""
    p = len(vectors)
    for q in range(3):
        A[q] = vectors[q, p - 1] if q < p else 0.0
    if dot(A, center) < 0.0:
        for q in range(3):
            A[q] = -A[q]


@njit(cache=True)
def _cap(corners, center):
    """Cosine and sine of the radius of the cap around a piece; writes its centre."""
    _middle(corners, center)
    chord = 0.0  # its square, exact for small pieces too
    for corner in corners:
        chord = max(
            chord,
            (corner[0] - center[0]) ** 2
            + (corner[1] - center[1]) ** 2
            + (corner[2] - center[2]) ** 2,
        )
    return 1.0 - 0.5 * chord, np.sqrt(chord * (1.0 - 0.25 * chord))


@njit(cache=True)
def _cut(corners, out):
    """Cut an arc into two, a triangle into four, at the middles of their sides; returns how
    many."""
    p = len(corners)
    middle = np.empty((3, 3))
    for k in range(p):
        for q in range(3):
            middle[k, q] = corners[k, q] + corners[(k + 1) % p, q]
        length = np.sqrt(dot(middle[k], middle[k]))
        for q in range(3):
            middle[k, q] /= length
    for k in range(p):
        copy(corners[k], out[k, 0])
        copy(middle[0 if p == 2 else k], out[k, 1])
        if p == 3:
            copy(middle[(k + 2) % 3], out[k, 2])
    if p == 3:
        copy(middle, out[3])
    return 2 if p == 2 else 4


@njit(cache=True)
def _climbed(x, c, whole, squared, pieces):
    """A high value of G: the best that steps along its gradient reach from the best few centres of
    the pieces."""
    starts, values, highest = np.empty((len(pieces), 3)), np.empty(len(pieces)), -np.inf
    slope, trial, trial_slope, M = np.empty(3), np.empty(3), np.empty(3), np.empty((3, 3))
    for k in range(len(pieces)):
        _middle(pieces[k], starts[k])
        values[k] = _value(x, c, whole, squared, starts[k], slope)
    for _ in range(CLIMBS):
        best = np.argmax(values)
        theta, value = starts[best], _value(x, c, whole, squared, starts[best], slope)
        values[best], step = -np.inf, 1.0
        for _ in range(ASCENTS):
            size = np.sqrt(dot(slope, slope))
            if size == 0.0:
                break
            for q in range(3):
                trial[q] = (1.0 - step) * theta[q] + step * slope[q] / size
            length = np.sqrt(dot(trial, trial))
            for q in range(3):
                trial[q] /= max(length, SHORT)
            reached = _value(x, c, whole, squared, trial, trial_slope)
            if length > SHORT and reached > value:
                value = reached
                copy(trial, theta)
                copy(trial_slope, slope)
            else:
                step *= 0.5
        if squared is not None:  # the top of the quadratic function that G is around here
            for _ in range(POLISH):
                copy(whole, M)
                for i in range(len(c)):
                    if dot(theta, x[i]) > 0.0:
                        add(c[i], x[i], True, M)
                p = pieces.shape[1]
                _, vectors = np.linalg.eigh(np.ascontiguousarray(M[:p, :p]))
                _toward(vectors, theta, trial)
                copy(trial, theta)
                value = max(value, _value(x, c, whole, squared, theta, slope))
        highest = max(highest, value)
    return highest


@njit(cache=True)
def _value(x, c, whole, squared, theta, slope):
    """G(θ); writes its gradient to slope, up to a factor."""
    for q in range(3):
        slope[q] = whole[0, q] if squared is None else dot(whole[q], theta)
    value = dot(slope, theta)
    for i in range(len(c)):
        s = dot(theta, x[i])
        if s > 0.0:
            weight = c[i] if squared is None else c[i] * s
            value += weight * s
            for q in range(3):
                slope[q] += weight * x[i, q]
    return value


@njit(cache=True)
def _lean(A, x, c, share, others, L):
    """Write to L the sum A of decided data and share_i c_i x_i of the undecided ones.

    −|c|(s)₊ ≤ −|c| t s for each t in [0, 1]: the shares of negative coefficients are moved to make
    |L|, hence the bound, small
    """
    copy(A, L)
    for i in others:
        for q in range(3):
            L[q] += share[i] * c[i] * x[i, q]
    for _ in range(2 + VISITS // max(len(others), 1)):
        moved = False
        for i in others:
            if c[i] < 0.0:
                wanted = share[i] - dot(L, x[i]) / c[i]
                change = min(max(wanted, 0.0), 1.0) - share[i]
                moved = moved or abs(change) > SETTLED
                share[i] += change
                for q in range(3):
                    L[q] += change * c[i] * x[i, q]
        if not moved:
            break


@njit(cache=True)
def _crossing(x, y, center, theta):
    """Write to θ where two circles cross, on the side of the centre; the centre itself if they are
    nearly one."""
    for q in range(3):
        theta[q] = x[(q + 1) % 3] * y[(q + 2) % 3] - x[(q + 2) % 3] * y[(q + 1) % 3]
    size = np.sqrt(dot(theta, theta)) * (1.0 if dot(theta, center) >= 0.0 else -1.0)
    for q in range(3):
        theta[q] = theta[q] / size if abs(size) > ROUNDING else center[q]


@njit(cache=True)
def _cap_of_linear(L, center, cosine, sine, theta):
    """max L·θ over the cap, which is written to θ."""
    along, size = dot(L, center), np.sqrt(dot(L, L))
    if size > 0.0 and along >= size * cosine:
        for q in range(3):
            theta[q] = L[q] / size
        return size
    for q in range(3):
        theta[q] = L[q] - along * center[q]
    aside = np.sqrt(dot(theta, theta))
    for q in range(3):  # where the whole rim is as high, any point of the cap will do
        theta[q] = (
            cosine * center[q] + sine * theta[q] / aside if aside > ROUNDING * size else center[q]
        )
    return cosine * along + sine * aside


@njit(cache=True)
def _cap_of_quadratic(M, center, cosine, sine, Mc):
    """A bound of θᵀMθ over the cap: θ = cos r c + sin r v, v ⟂ c, and the top eigenvalue for v.
    Writes M c to Mc."""
    for q in range(3):
        Mc[q] = dot(M[q], center)
    here = dot(Mc, center)
    aside = np.sqrt(max(dot(Mc, Mc) - here * here, 0.0))
    trace = M[0, 0] + M[1, 1] + M[2, 2] - here
    square = -2.0 * dot(Mc, Mc) + here * here
    for k in range(3):
        square += dot(M[k], M[k])
    # PMP, P = 1 − c cᵀ, has the eigenvalues a, b and 0: a + b = trace, a² + b² = square
    across = 0.5 * (trace + np.sqrt(max(2.0 * square - trace * trace, 0.0)))
    return here + 2.0 * sine * cosine * aside + sine * sine * max(across - here, 0.0)
