"""The maximum of a weighted sum of ReLU over a sphere of any dimension, enclosed by branch and
bound over simplicial cones.

    G(θ) = A·θ + Σ_i c_i (θ·x_i)₊,  |θ| = 1,  on cones C = {Σ_k λ_k v_k, λ ≥ 0} that cover R^p

On C a datum of one sign is a linear term. Where c_i > 0, the least concave function above
c_i (θ·x_i)₊ is linear, with the values c_i (v_k·x_i)₊ at the corners; where c_i < 0 the term is
concave itself. So G ≤ U, concave and homogeneous, with equality at the corners, and by duality

    max of U over C and the unit ball
        = min over t, μ of |A + w + Σ_{c_i<0} t_i c_i x_i + Σ_k μ_k n_k|,  0 ≤ t_i ≤ 1, μ_k ≥ 0,

w·v_k = Σ_{c_i>0} c_i (v_k·x_i)₊, n_k the inward normals of C's faces: box-constrained least squares
in p coordinates. Any t and μ give a bound. Cones whose bound is too high are cut in two; the bound
is exact on a cone where no datum with c_i > 0 changes its sign.

With a vector c_i ∈ R^k for each datum, G = |V|, V(θ) = B θ + Σ_i c_i (θ·x_i)₊. For any unit u

    |V|² = (u·V)² + |P V|²,  P = 1 − u uᵀ

and u·V is a sum as above. With u along V in the middle of the cone, P V is as small as the cone: on
C and the unit ball

    |P V| ≤ Λ max_k (|P V(v_k)| + Σ_i |P c_i| e_ik),  Σ_k λ_k ≤ Λ = min(1/min_k v_k·middle, p),

e_ik = (v_k·x_i)₊ or (−v_k·x_i)₊, whichever has the smaller sum over k: (θ·x_i)₊ lies by no more
than Σ_k λ_k e_ik below Σ_k λ_k (v_k·x_i)₊. −u·V has such a bound as well. On a cone in which no
datum changes its sign V is linear, and |V| at most its spectral norm.

Rounding: a corner that is 1e-16 off its edge leaves gaps of that width between cones, and G varies
there by 1e-16 Σ |c_i|; what w and μ lack at the corners is measured and added.
"""

import time
from functools import lru_cache

import numpy as np

from ..arguments import Floats
from ..compiled import njit
from ..geometry.polyhedra import copy, dot
from ..operators.parallel_loops import LARGE, divided_loop

ON_FACE = 1e-14  # |x_i·v_k| up to which a corner lies on the hyperplane of a datum; x_i, v_k unit
# kernels are compiled once more for each Python number that they are called with
NONE, ONE = np.int64(0), np.int64(1)
SWEEPS = np.int64(300)  # over the multipliers, at most; the bound holds wherever they stop
FIRST_SWEEPS = np.int64(2)  # of a climb: more where these do not rise
SETTLED = 1e-12  # of |L|: steps of multipliers that count as none
DEPENDENT = 1e-10  # of a column's length: what is left of it off the others, if it depends on them
MIDDLE = 0.2  # a kink is cut along if it divides an edge no more unevenly than this
ELSEWHERE = 1e-3  # weight of edges that do not carry the highest point of U
TOLERANCE = 1e-10  # how near a value has to come to a bound to show that no cut lowers it
SINGULAR = 1e-15  # a pivot, of unit corners, that counts as zero
PATIENCE = 5000  # cones after the first point above `enough`, to find more such points
SAME_PEAK = 1e-7  # distance of points that are one
ASCENTS = 100  # linearisations of one climb, at most
RISE = 1e-13  # relative rise of a climb that counts as none
# after the first ones, which a record of a run looks at, so many cones are looked at together, by
# all threads: always the same ones, however many threads there are
ALONE, TOGETHER = 8192, 64
POOL = 2**26  # bytes for the corners of open cones
WORK_AT_ONCE = 2**20  # n p² for each cone, some 20 ms: between two looks at the clock


@lru_cache(maxsize=4)
def cover(p: int) -> Floats:
    """(p + 1, p, p) corners of cones that cover R^p: those over the faces of a regular simplex;
    kept, and not to be written to."""
    corners = np.linalg.svd(np.eye(p + 1) - 1.0 / (p + 1))[0][:, :p]
    corners /= np.linalg.norm(corners, axis=1)[:, None]
    return np.array([np.delete(corners, k, axis=0) for k in range(p + 1)])


def open_cones(p: int, nodes: int) -> int:
    """How many cones may be open at once: fewer than are looked at, and no more than the pool
    holds, which from p = 203 on has no room for those of `cover`."""
    return int(min(nodes + p + 2, POOL // (8 * p * p)))


def branch_and_bound(
    x: Floats,
    c: Floats,
    linear: Floats,
    roots: Floats,
    room: int,
    enough: float,
    nodes: int,
    peaks: Floats,
    until: float = np.inf,
) -> tuple[float, float, int, int]:
    """A bound of G over the cones, and its highest value met; peaks above `enough` are gathered.

    x : (n, p) unit vectors;  c : (n,) none zero, or (n, k) vectors;  linear : (p,) A, or (k, p) B
    roots : (n_roots, p, p) corners
    room : cones that may be open;  enough : cones whose bound is no higher are not cut, -inf: those
        no higher than the highest value met;  nodes : cones that are looked at
    peaks : (most, p), written: local maxima above a finite `enough`
    until : of time.monotonic(), when the search ends
    Returns the bound, inf if not all roots were looked at in time, the highest value, the number of
    peaks and that of cones. The cones with the highest bounds are cut first; ends when none is
    left, or with the nodes, the room, the peaks or the time.
    Raises ValueError where the room is not enough for the roots.
    """
    n, p = x.shape
    if room <= len(roots):
        raise ValueError(f"{len(roots)} cones need room for more than {room}.")
    still_open = np.empty((room, p, p)), np.empty(room), np.empty((room, 3))
    order = np.empty(room, np.int64), np.arange(room)
    at_once = np.empty((TOGETHER, p, p)), np.empty((TOGETHER, p)), np.empty((TOGETHER, 3))
    heights = np.empty(TOGETHER), np.empty(TOGETHER), np.empty(TOGETHER)
    numbers, counts = np.full(3, -np.inf), np.array([0, room, -1, 0, 0, 0, nodes, 0])
    data, scratch = (x, c, linear), _scratch(n, p)
    search = *data, roots, enough, peaks, *still_open, *order, *at_once, *heights
    pause = WORK_AT_ONCE // (n * p * p + 1) + 1
    counts[7] = pause
    while _search(*search, numbers, counts, scratch):
        count, level = counts[0], numbers[2]
        _look_together(count, LARGE, *data, level, *at_once, *heights[:2])
        counts[7] = counts[5] + pause
        if time.monotonic() > until:
            if counts[5] < len(roots):
                numbers[0] = np.inf
                break
            counts[6] = 0
    closed, highest, _ = numbers.tolist()
    _, _, _, found, _, looked, _, _ = counts.tolist()
    return closed, highest, found, looked


@njit(cache=True, error_model="numpy")
def _search(
    x, c, linear, roots, enough, peaks, corners, tops, cuts, heap, free, V, thetas, cut, bounds,
    values, above, numbers, counts, scratch,
):  # fmt: skip
    """Go on with the search until several cones are to be looked at together or it pauses, True, or
    to its end, False.

    corners (room, p, p), tops, cuts : of the open cones, their corners, bounds and how to cut them
    heap, free (room,) : the open ones, the highest first, and free places
    V (TOGETHER, p, p), above : of the cones that are looked at, their corners and the bounds of
        their parents;  thetas, cut, bounds, values : what is found of them
    numbers (3,), counts (8,) : what is kept from one call to the next, in the order of the first
        two lines: the highest bound of cones that are not cut, the highest value, and the bound up
        to which a cone is not; cones to look at, free places, the cone whose second half is next
        or −1, peaks, open cones, cones looked at, how many may be, and after how many it pauses
    """
    closed, highest, level = numbers
    count, unused, halved, found, open_, looked, last, pause = counts
    gathers = enough > -np.inf
    while True:
        for k in range(count):
            theta, value, bound = thetas[k], values[k], min(bounds[k], above[k])
            if gathers and value > enough and found < len(peaks):
                value = _ascend(x, c, linear, theta, scratch)
                if _is_new(theta, peaks, found):
                    copy(theta, peaks[found])
                    found += 1
                    last = min(last, looked + PATIENCE)
            highest = max(highest, value)
            if bound <= max(level, value + TOLERANCE):
                closed = max(closed, bound)
                continue
            unused -= 1
            slot = free[unused]
            copy(V[k], corners[slot])
            copy(cut[k], cuts[slot])
            tops[slot] = bound
            _push(heap, open_, tops, slot)
            open_ += 1
        count = NONE
        if looked >= pause:
            break
        if looked < len(roots):
            copy(roots[looked], V[0])
            above[0], count = np.inf, ONE
        elif halved >= 0:  # its second half
            count = _take(corners, tops, cuts, halved, ONE, V, above, count)
            free[unused], unused, halved = halved, unused + 1, -ONE
        elif open_ > 0 and looked < last and unused >= 2 and not (gathers and found == len(peaks)):
            if looked < ALONE:
                halved, open_ = _pop(heap, open_, tops), open_ - 1
                count = _take(corners, tops, cuts, halved, NONE, V, above, count)
            else:
                for _ in range(min(TOGETHER // 2, open_, unused, (last - looked + 1) // 2)):
                    slot, open_ = _pop(heap, open_, tops), open_ - 1
                    count = _take(corners, tops, cuts, slot, NONE, V, above, count)
                    count = _take(corners, tops, cuts, slot, ONE, V, above, count)
                    free[unused], unused = slot, unused + 1
        elif open_:
            closed = max(closed, tops[heap[0]])
        looked += count
        level = enough if gathers else highest
        if count != 1:
            break
        _look(x, c, linear, V, max(level, 0.0), thetas, cut, bounds, values, NONE, ONE, scratch)
    numbers[0], numbers[1], numbers[2] = closed, highest, level
    counts[0], counts[1], counts[2], counts[3] = count, unused, halved, found
    counts[4], counts[5], counts[6] = open_, looked, last
    return count > 0 or looked >= pause


@njit(cache=True, error_model="numpy")
def _take(corners, tops, cuts, slot, child, V, above, count):
    """Write one half of a cone, and its bound, to place `count`; returns the next place."""
    _halve(corners[slot], cuts[slot], child, V[count])
    above[count] = tops[slot]
    return count + 1


@njit(cache=True, error_model="numpy")
def _look(x, c, linear, V, enough, thetas, cut, bounds, values, begin, end, scratch):
    """The bounds of the cones begin ≤ k < end, where they are high and G there, and how to cut
    them: see _bound and _bound_of_norm."""
    for k in range(begin, end):
        if c.ndim == 1:
            bounds[k] = _bound(x, c, linear, V[k], enough, thetas[k], cut[k], scratch)
        else:
            bounds[k] = _bound_of_norm(x, c, linear, V[k], enough, thetas[k], cut[k], scratch)
        values[k] = _value(x, c, linear, thetas[k])


@divided_loop(error_model="numpy")
def _look_together(begin, end, x, c, linear, level, V, thetas, cut, bounds, values):
    """The same, with scratch of its own."""
    scratch = _scratch(x.shape[0], x.shape[1])
    _look(x, c, linear, V, max(level, 0.0), thetas, cut, bounds, values, begin, end, scratch)


@njit(cache=True)
def _push(heap, count, tops, slot):
    """Add a cone to the heap of `count` open ones; the highest bound stands first."""
    i = count
    while i > 0 and tops[heap[(i - 1) // 2]] < tops[slot]:
        heap[i] = heap[(i - 1) // 2]
        i = (i - 1) // 2
    heap[i] = slot


@njit(cache=True)
def _pop(heap, count, tops):
    """Take the cone with the highest bound from the heap of `count`."""
    first, slot, i = heap[0], heap[count - 1], 0
    while 2 * i + 1 < count - 1:
        j = 2 * i + 1
        if j + 1 < count - 1 and tops[heap[j + 1]] > tops[heap[j]]:
            j += 1
        if tops[heap[j]] <= tops[slot]:
            break
        heap[i] = heap[j]
        i = j
    heap[i] = slot
    return first


@njit(cache=True, error_model="numpy")
def _halve(corners, cut, child, V):
    """Write to V one of the two cones into which (a, b, s) cuts another: corner a, or b, becomes
    s v_a + (1 − s) v_b."""
    a, b, s = int(cut[0]), int(cut[1]), cut[2]
    copy(corners, V)
    v = V[b if child else a]
    for q in range(len(v)):
        v[q] = s * corners[a, q] + (1.0 - s) * corners[b, q]
    size = np.sqrt(dot(v, v))
    for q in range(len(v)):
        v[q] /= size


@njit(cache=True)
def _is_new(theta, peaks, count):
    for k in range(count):
        distance = 0.0
        for q in range(len(theta)):
            distance = max(distance, abs(theta[q] - peaks[k, q]))
        if distance <= SAME_PEAK:
            return False
    return True


@njit(cache=True)
def _scratch(n, p):
    """Work arrays: the products x_i·v_k and numbers of undecided data; columns of the least-squares
    problem, their upper bounds and multipliers; squares and vectors."""
    return (
        np.empty((n + 1, p)),
        np.empty(n + 1, np.int64),
        np.empty((n + p, p)),
        np.empty(n + p),
        np.empty(n + p),
        np.empty((4, p, p)),
        np.empty((5, p)),
        np.empty(p, np.int64),
    )


@njit(cache=True, error_model="numpy")
def _bound(x, c, linear, V, enough, theta, cut, scratch):
    """A bound of G over the cone with corners V (p, p); where it is above `enough`, θ has it up to
    rounding.

    Writes θ and how to cut the cone: the edge whose cut takes most from U at θ = Σ λ_k v_k, and
    where, along a kink if one is near its middle. What rounding leaves of w·v_k + Σ μ_j n_j·v_k
    below its due is added: Σ λ_k ≤ p on the cones of `cover`.
    """
    products, undecided, columns, largest, t, squares, vectors, chosen = scratch
    n, p = x.shape
    A, g, w, L, lam = vectors[0], vectors[1], vectors[2], vectors[3], vectors[4]
    for q in range(p):
        A[q], g[q], w[q] = linear[q], 0.0, 0.0
    m = NONE
    for i in range(n):
        low = high = 0.0
        for k in range(p):
            s = dot(x[i], V[k])
            s = 0.0 if abs(s) <= ON_FACE else s
            products[m, k], low, high = s, min(low, s), max(high, s)
        if low == 0.0:
            for q in range(p):
                A[q] += c[i] * x[i, q]
        elif high > 0.0:
            undecided[m] = i
            for k in range(p):
                g[k] += max(c[i] * products[m, k], 0.0) if c[i] > 0.0 else 0.0
            m += 1
    N = squares[0]
    if not _invert(V, N, squares[1]):  # too thin for numbers
        copy(V[0], theta)
        cut[0], cut[1], cut[2] = _longest_edge(V)
        return np.inf
    for k in range(p):
        size = np.sqrt(dot(N[k], N[k]))
        for q in range(p):
            w[q] += g[k] * N[k, q]
            columns[k, q] = N[k, q] / size
        t[k], largest[k] = 0.0, np.inf
    free = p
    for j in range(m):
        i = undecided[j]
        if c[i] < 0.0:
            above = whole = 0.0
            for k in range(p):
                above += max(products[j, k], 0.0)
                whole += abs(products[j, k])
            t[free], largest[free] = above / whole, 1.0
            for q in range(p):
                columns[free, q] = c[i] * x[i, q]
            free += 1
    for q in range(p):
        L[q] = A[q] + w[q]
    _add_columns(columns, t, p, free, L)
    _nearest(columns, largest, t, free, enough, SWEEPS, L, squares, lam, chosen)
    _add_columns(columns, t, NONE, p, w)
    missing = 0.0
    for k in range(p):
        missing = max(missing, g[k] - dot(w, V[k]))
    for q in range(p):
        L[q] = A[q] + w[q]
    _add_columns(columns, t, p, free, L)
    size = np.sqrt(dot(L, L))
    for q in range(p):
        theta[q] = L[q] / size if size > 0.0 else V[0, q]
    if size + p * missing > enough:
        for k in range(p):
            lam[k] = max(dot(N[k], theta), 0.0)
        _best_cut(c, V, products, undecided, m, lam, cut)
    return size + p * missing


@njit(cache=True, error_model="numpy")
def _bound_of_norm(x, c, linear, V, enough, theta, cut, scratch):
    """The same of the norm of a sum of vectors: √(U² + D²), U the bound of |u·V| and D that of
    |P V|, or the spectral norm of a linear V.

    The longest edge is cut where D, which falls with the size of the cone, adds most.
    """
    n, p = x.shape
    k = c.shape[1]
    values, products = np.zeros((p, k)), np.empty(p)  # V(v_k);  x_i·v_k
    middle, M, along = np.zeros(p), linear.copy(), np.empty(n)
    for j in range(p):
        for q in range(p):
            middle[q] += V[j, q]
        for l in range(k):
            values[j, l] = dot(linear[l], V[j])
    size = np.sqrt(dot(middle, middle))
    nearest = 1.0
    for q in range(p):
        middle[q] /= size
    for j in range(p):
        nearest = min(nearest, dot(middle, V[j]))
    most = 1.0 / max(nearest, 1.0 / p)  # of Σ λ_k: p is that of the cones of `cover`
    u, _ = _direction(x, c, linear, middle)
    ahead = _along(c, linear, u, along)
    aside, behind, is_linear = np.zeros(p), np.zeros(p), True
    for i in range(n):
        low = high = below = above = 0.0
        for j in range(p):
            s = dot(x[i], V[j])
            products[j] = 0.0 if abs(s) <= ON_FACE else s
            low, high = min(low, products[j]), max(high, products[j])
            below, above = below - min(products[j], 0.0), above + max(products[j], 0.0)
        if high == 0.0:
            continue
        for j in range(p):
            for l in range(k):
                values[j, l] += c[i, l] * max(products[j], 0.0)
        if low == 0.0:
            for l in range(k):
                for q in range(p):
                    M[l, q] += c[i, l] * x[i, q]
            continue
        is_linear = False
        across = _across(c[i], u)
        for j in range(p):
            e = max(products[j], 0.0) if above < below else max(-products[j], 0.0)
            aside[j] += across * e
            behind[j] += max(along[i], 0.0) * e
    for j in range(p):
        aside[j] += _across(values[j], u)
        behind[j] -= dot(u, values[j])
    D, back = most * aside.max(), most * max(behind.max(), 0.0)
    least = np.sqrt(max(enough * enough - D * D, 0.0))
    U = max(_bound(x, along, ahead, V, least, theta, cut, scratch), back)
    bound, value = np.sqrt(U * U + D * D), _value(x, c, linear, theta)
    if back >= U or bound - U >= U - value:
        cut[0], cut[1], cut[2] = _longest_edge(V)
    return min(bound, np.linalg.norm(M, 2)) if is_linear else bound


@njit(cache=True)
def _across(v, u):
    """|v − (u·v) u|"""
    along, square = dot(u, v), 0.0
    for l in range(len(v)):
        square += (v[l] - along * u[l]) ** 2
    return np.sqrt(square)


@njit(cache=True, error_model="numpy")
def _direction(x, c, linear, theta):
    """V(θ)/|V(θ)|, (k,), or the first axis where it is zero; and |V(θ)|."""
    u = np.empty(c.shape[1])
    for l in range(len(u)):
        u[l] = dot(linear[l], theta)
    for i in range(len(c)):
        s = dot(x[i], theta)
        if s > 0.0:
            for l in range(len(u)):
                u[l] += s * c[i, l]
    size = np.sqrt(dot(u, u))
    if size > 0.0:
        for l in range(len(u)):
            u[l] /= size
    else:
        u[0] = 1.0
    return u, size


@njit(cache=True, error_model="numpy")
def _along(c, linear, u, out):
    """Write u·c_i to out (n,); returns u·B, (p,): the sum u·V."""
    ahead = np.zeros(linear.shape[1])
    for l in range(len(u)):
        for q in range(len(ahead)):
            ahead[q] += u[l] * linear[l, q]
    for i in range(len(c)):
        out[i] = dot(u, c[i])
    return ahead


@njit(cache=True)
def _add_columns(columns, t, begin, end, L):
    """L += Σ t_j columns_j over begin ≤ j < end."""
    for j in range(begin, end):
        for q in range(len(L)):
            L[q] += t[j] * columns[j, q]


@njit(cache=True)
def _longest_edge(V):
    """(a, b, 1/2) of the longest edge."""
    least, a, b = np.inf, 0, 1
    for k in range(len(V)):
        for r in range(k):
            s = dot(V[k], V[r])
            if s < least:
                least, a, b = s, k, r
    return a, b, 0.5


@njit(cache=True, error_model="numpy")
def _best_cut(c, V, products, undecided, m, lam, cut):
    """Write (a, b, s): the cut of an edge that lowers Σ_{c_i>0} λ·(vertex values) most, and there
    along the kink that does most, or in the middle."""
    p = len(V)
    cut[0], cut[1], cut[2] = _longest_edge(V)
    largest = 0.0
    for a in range(p):
        for b in range(a):
            fall = 0.0
            for j in range(m):
                u, v = products[j, a], products[j, b]
                if u * v < 0.0 and c[undecided[j]] > 0.0:
                    fall += c[undecided[j]] * min(abs(u), abs(v))
            fall *= min(lam[a], lam[b]) + ELSEWHERE
            if fall > largest:
                largest, cut[0], cut[1] = fall, a, b
    a, b, largest = int(cut[0]), int(cut[1]), 0.0
    for j in range(m):
        u, v = products[j, a], products[j, b]
        if u * v < 0.0 and c[undecided[j]] > 0.0 and MIDDLE < v / (v - u) < 1.0 - MIDDLE:
            above = here = 0.0
            for k in range(p):
                above += lam[k] * max(products[j, k], 0.0)
                here += lam[k] * products[j, k]
            excess = c[undecided[j]] * (above - max(here, 0.0))
            if excess > largest:
                largest, cut[2] = excess, v / (v - u)


@njit(cache=True, error_model="numpy")
def _nearest(columns, largest, t, m, enough, sweeps, L, squares, step, chosen):
    """Bring |L|, L = L₀ + Σ_{j<m} t_j columns_j, to its minimum over 0 ≤ t_j ≤ largest_j, or below
    `enough`; whether it got there in so many sweeps.

    Sweeps over single multipliers, each followed by steps to the minimum over all that lie between
    their ends, as far as these let it go.
    """
    p = len(L)
    Q, R = squares[2], squares[3]
    for _ in range(sweeps):
        size = np.sqrt(dot(L, L))
        moved = 0.0
        if size <= enough:
            return True
        for j in range(m):
            square = dot(columns[j], columns[j])
            change = t[j] - dot(L, columns[j]) / square
            change = min(max(change, 0.0), largest[j]) - t[j]
            if change != 0.0:
                t[j] += change
                moved = max(moved, change * change * square)
                for q in range(p):
                    L[q] += change * columns[j, q]
        if moved <= (SETTLED * size) ** 2:
            return True
        for _ in range(2):
            count, share = NONE, 1.0
            for j in range(m):
                between = 0.0 < t[j] < largest[j] and count < p
                if between and _orthogonal(columns[j], Q, R, count):
                    chosen[count] = j
                    count += 1
            for r in range(count - 1, -1, -1):
                step[r] = -dot(Q[r], L)
                for h in range(r + 1, count):
                    step[r] -= R[r, h] * step[h]
                step[r] /= R[r, r]
                j = chosen[r]
                if step[r] < 0.0:
                    share = min(share, -t[j] / step[r])
                elif t[j] + step[r] > largest[j]:
                    share = min(share, (largest[j] - t[j]) / step[r])
            for r in range(count):
                j = chosen[r]
                change = min(max(t[j] + share * step[r], 0.0), largest[j]) - t[j]
                t[j] += change
                for q in range(p):
                    L[q] += change * columns[j, q]
            if share == 1.0:
                break
    return False


@njit(cache=True, error_model="numpy")
def _orthogonal(column, Q, R, count):
    """Write column = Σ_{r ≤ count} R[r, count] Q[r] with Q[count] orthonormal to those before;
    whether it is independent of them."""
    p = len(column)
    for q in range(p):
        Q[count, q] = column[q]
    for r in range(count):
        R[r, count] = 0.0
    for _ in range(2):
        for r in range(count):
            along = dot(Q[count], Q[r])
            R[r, count] += along
            for q in range(p):
                Q[count, q] -= along * Q[r, q]
    size = np.sqrt(dot(Q[count], Q[count]))
    if size <= DEPENDENT * np.sqrt(dot(column, column)):
        return False
    R[count, count] = size
    for q in range(p):
        Q[count, q] /= size
    return True


@njit(cache=True, error_model="numpy")
def _invert(V, N, W):
    """Write N with N_k·V_j = 1 for k = j, else 0; whether V is regular.  W : (p, p) scratch"""
    p = len(V)
    copy(V, W)
    for i in range(p):
        for j in range(p):
            N[i, j] = 1.0 if i == j else 0.0
    for i in range(p):
        pivot = i
        for r in range(i + 1, p):
            if abs(W[r, i]) > abs(W[pivot, i]):
                pivot = r
        if abs(W[pivot, i]) < SINGULAR:
            return False
        for j in range(p):
            W[i, j], W[pivot, j] = W[pivot, j], W[i, j]
            N[i, j], N[pivot, j] = N[pivot, j], N[i, j]
        factor = 1.0 / W[i, i]
        for j in range(p):
            W[i, j] *= factor
            N[i, j] *= factor
        for r in range(p):
            factor = W[r, i]
            if r != i and factor != 0.0:
                for j in range(p):
                    W[r, j] -= factor * W[i, j]
                    N[r, j] -= factor * N[i, j]
    for i in range(p):
        for j in range(i):
            N[i, j], N[j, i] = N[j, i], N[i, j]
    return True


@njit(cache=True, error_model="numpy")
def climb(x, c, linear, points, values):
    """Move each of points (k, p) to a local maximum of G and write its value."""
    scratch = _scratch(len(x), x.shape[1])
    for k in range(len(points)):
        values[k] = _ascend(x, c, linear, points[k], scratch)


@njit(cache=True, error_model="numpy")
def _ascend(x, c, linear, theta, scratch):
    """Climb from θ, which is moved, to a local maximum; returns its value.

    A norm |V| ≥ u·V is replaced by that sum, u along V(θ), whose local maximum is the next θ.
    """
    if c.ndim == 1:
        return _ascend_sum(x, c, linear, theta, scratch)
    along = np.empty(len(c))
    value = _value(x, c, linear, theta)
    for _ in range(ASCENTS):
        u, _ = _direction(x, c, linear, theta)
        ahead = _along(c, linear, u, along)
        _ascend_sum(x, along, ahead, theta, scratch)
        reached = _value(x, c, linear, theta)
        if not reached - value > RISE * reached:
            break
        value = reached
    return value


@njit(cache=True, error_model="numpy")
def _ascend_sum(x, c, linear, theta, scratch):
    """The same of a sum of numbers.

    The data with c_i > 0 are replaced by their tangents at θ, from below; what is left is concave,
    and its highest point the next θ.
    """
    _, _, columns, largest, t, squares, vectors, chosen = scratch
    n, p = x.shape
    L, step, trial = vectors[0], vectors[1], vectors[2]
    value, sweeps = _value(x, c, linear, theta), FIRST_SWEEPS
    for ascent in range(ASCENTS):
        copy(linear, L)
        free = NONE
        for i in range(n):
            on = dot(x[i], theta) > 0.0
            if c[i] < 0.0:
                if ascent == 0:
                    t[free] = 1.0 if on else 0.0
                largest[free] = 1.0
                for q in range(p):
                    columns[free, q] = c[i] * x[i, q]
                free += 1
            elif on:
                for q in range(p):
                    L[q] += c[i] * x[i, q]
        _add_columns(columns, t, NONE, free, L)
        settled = _nearest(columns, largest, t, free, 0.0, sweeps, L, squares, step, chosen)
        size = np.sqrt(dot(L, L))
        for q in range(p):
            trial[q] = L[q] / size if size > 0.0 else theta[q]
        reached = _value(x, c, linear, trial)
        if not reached - value > RISE * abs(reached):
            if settled or sweeps >= SWEEPS:
                break
            sweeps *= 4  # these were too few
        if reached > value:
            value = reached
            copy(trial, theta)
    return value


@njit(cache=True)
def _value(x, c, linear, theta):
    """G(θ)."""
    if c.ndim == 2:
        return _direction(x, c, linear, theta)[1]
    value = dot(linear, theta)
    for i in range(len(c)):
        value += c[i] * max(dot(x[i], theta), 0.0)
    return value
