"""Branch and bound over caps of the circle and S².

Circle and S² are cut into arcs or triangles, each inside a cap of radius ρ around its centre. Data
that are positive on the whole cap make a linear, or quadratic, function there, whose maximum over
the cap is known; data that are negative count nothing; the undecided ones enter by a bound that
shrinks with the cap. Pieces whose bound exceeds the highest value met are cut again, so the cost is
a few sums over the data and then little more, where `search.local_maxima` costs n² for points that
prove the same.
"""

import numpy as np

from ..compiled import njit
from ..geometry.polyhedra import copy
from .search import add, dot

# pieces of one size on S², a quarter on the circle; where more are left the tolerance grows: the
# bound is looser, and still a bound
ROOM = 4096
FINEST = 40  # cuts: the pieces are then as small as rounding
SETTLED = 1e-14  # a change of a share that counts as none
ROUNDING = 1e-9  # of a vector: a part so small has no direction
VISITS = 100  # of undecided data, at least twice each, to lower a bound
# for a first high value: climbs, their steps, and how short a vector may get
CLIMBS, ASCENTS, POLISH, SHORT = 4, 12, 2, 0.1
GOLDEN = (1.0 + np.sqrt(5.0)) / 2.0


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
def branch_and_bound(x, c, whole, squared, pieces, tolerance, value, bound):
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
    room = ROOM if p == 3 else ROOM // 4
    corners, sums, tops = np.empty((2, room, p, 3)), np.empty((2, room, 3, 3)), np.empty((2, room))
    begins, ends = np.empty((2, room), np.int64), np.empty((2, room), np.int64)
    lists, share = np.empty((2, 160 * n + 8 * room), np.int32), np.zeros(n)
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
            while highest > value + tolerance and (made + 4 > room or end + n > lists.shape[1]):
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
