"""The highest points of a weighted sum of features over the whole sphere: where a certificate has
to look.

    G(θ, ε) = ε Σ_i c_i φ(θ, x_i)          θ in S^d, ε in signs

The great circles x_i·θ = 0 cut the sphere into regions. In each, a sum of ReLU is linear, G = A·θ,
and one of squared ReLU quadratic, G = θᵀMθ. A walk along every circle passes an edge of every
region and carries A or M along, so that the maximum, inside a region (at A/|A|, or at the top
eigenvector of M), on a circle or where two of them cross, is met and not searched for.

Rounding: the walk is one for data moved by SAME |x_i|, which moves G by SAME Σ |c_i x_i|, and for
these it knows crossings, also of circles that nearly coincide, to a few ε. Where a highest point
inside a region or on an arc is ill-conditioned, so that it seems to lie beyond, the crossing or the
arc that it seems to pass is nearly as high. There remain the sums A.
"""

import time
from dataclasses import dataclass

import numpy as np

from ..arguments import Floats
from ..compiled import njit
from ..geometry.point_sets import quasi_uniform
from ..geometry.sphere import normalize
from ..objectives.activations import FEATURES, Feature
from ..operators.dense import LINEAR, RELU, SQUARED_RELU
from ..remembered import remembered
from . import cones

SLACK = 1e-12  # of Σ |c_i x_i|: what rounding may hide of a maximum
SLACK_PER_DATUM = 1e-15  # the same for many data: eight roundings of each, one after the other
SAME = 1e-15  # distance of unit vectors whose circles are one
# how far beyond its region's edges a highest point may lie; it is evaluated where it lies
BEYOND, BEYOND_SQUARED = 1e-12, 1e-7
# where the regions are too many: climbs from so many points, of so many steps at most
STARTS, ASCENTS, SHORT = 500, 200, 1e-9
AT_ONCE = 5  # climbs between two looks at the clock
MOST = 20_000  # peaks that are kept at once
NEAR = 1e-7  # peaks closer than this are one


@dataclass(frozen=True, eq=False)
class Peaks:
    """High points of G, the highest first.

    points : (k, p) of unit length;  signs : (k,);  values : (k,) G there
    certified : whether values[0] is the maximum over the whole sphere up to rounding, not only the
        highest that was found
    bound : values[0] + s Σ |c_i| |x_i|^degree, s = max(1e-12, 1e-15 n): no value of G is larger, if
        certified
    """

    points: Floats
    signs: Floats
    values: Floats
    certified: bool
    bound: float


def is_searchable(feature: Feature, axes: int) -> bool:
    """Whether the maximum is found with certainty: squared ReLU and what is linear on either side
    of 0, of one output, on the circle and S², linear on any sphere."""
    known = feature.activation is not None or feature.pieces is not None
    walked = known and feature.outputs == 1 and axes - feature.joint <= 3
    return feature.activation == LINEAR or walked


def slack(n_data: int) -> float:
    """What rounding may hide of a maximum, in units of Σ |c_i| |x_i|^degree."""
    return max(SLACK, SLACK_PER_DATUM * n_data)


def as_relu(
    feature: Feature, inputs: Floats, coefficients: Floats
) -> tuple[Feature, Floats, Floats]:
    """Σ_i coefficients_i φ(θ, x_i) of a ridge that is linear on either side of 0 as a sum of ReLU,
    by ψ(s) = ψ(1) (s)₊ + ψ(−1) (−s)₊: feature, inputs and coefficients; other features as they are.

    inputs : (n_data, p);  coefficients : (n_data,)
    """
    if feature.activation is not None or feature.pieces is None:
        return feature, inputs, coefficients
    below, above = feature.pieces
    both = np.concatenate([above * coefficients, -below * coefficients])
    return FEATURES["relu"], _with_opposite(inputs), both


@remembered(most=4)
def _with_opposite(inputs):
    """Data (2 n, p) and their opposites; kept, since what is kept for data is asked for by them."""
    return np.concatenate([inputs, -inputs])


def local_maxima(
    feature: Feature,
    inputs: Floats,
    coefficients: Floats,
    signs: tuple[int, ...] = (1,),
    share: float = 1.0,
    starts: Floats | None = None,
    until: float = np.inf,
) -> Peaks:
    """The maximum over the sphere of G(θ, ε) = ε Σ_i coefficients_i φ(θ, x_i), and other local
    maxima.

    inputs : (n_data, p);  signs : the ε there are
    coefficients : (n_data,) c, of units with k > 1 outputs (n_data · k,) datum by datum
    share : of the maximum; at least so high are the other peaks that are returned
    starts : (k, p) directions from which to climb too, where a climb is all there is
    until : of time.monotonic(), when climbs end; the bound is inf then
    Cost n² on S² and n on the circle, n² log n and n log n at the first call for the same inputs, 9
    n² bytes on S²; in higher dimension, unless φ is linear, a climb from many points, which
    certifies nothing.
    Raises ValueError for coefficients that are not finite and for features whose gradient is not
    known.
    """
    coefficients = np.asarray(coefficients, dtype=float)
    if not np.isfinite(coefficients).all():
        raise ValueError("The coefficients of a sum of features must be finite.")
    if feature.activation is None and feature.pullback is None:
        raise ValueError(
            f"A search needs the gradient of the feature '{feature.name}': give Feature(…,"
            " pullback=…)."
        )
    feature, inputs, coefficients = as_relu(feature, inputs, coefficients)
    if feature.outputs > 1:
        return _vector_peaks(feature, inputs, coefficients, share, starts, until)
    if feature.joint:
        return _joint_peaks(feature, inputs, coefficients, share, starts, until)
    found = [_maxima(feature, inputs, sign * coefficients, share, starts, until) for sign in signs]
    points = np.concatenate([points for points, _ in found])
    values = np.concatenate([values for _, values in found])
    all_signs = np.repeat(np.asarray(signs, dtype=float), [len(values) for _, values in found])
    order = np.argsort(-values, kind="stable")
    order = (
        order[values[order] >= share * values[order[0]]] if values[order[0]] > 0.0 else order[:1]
    )
    certified = is_searchable(feature, inputs.shape[1])
    sizes = np.linalg.norm(inputs, axis=1) ** (feature.degree or 1)
    bound = values[order[0]] + slack(len(inputs)) * float(np.abs(coefficients) @ sizes)
    bound = np.inf if not certified and time.monotonic() > until else float(bound)
    return Peaks(points[order], all_signs[order], values[order], certified, bound)


def _joint_peaks(feature, inputs, coefficients, share, starts, until):
    """On (a, b), |a|² + |b|² = 1, b ψ(a, x) is highest at |a| = |b|: half the highest of ±ψ on the
    sphere of a."""
    starts = None if starts is None else starts[:, :-1][starts[:, :-1].any(axis=1)]
    half = local_maxima(_hidden(feature), inputs, coefficients, (1, -1), share, starts, until)
    points = np.sqrt(0.5) * np.column_stack([half.points, half.signs])
    if half.values[0] <= 0.0:
        points[:, :-1], points[:, -1] = 0.0, 1.0
    values = 0.5 * np.maximum(half.values, 0.0)
    return Peaks(points, np.ones(len(points)), values, half.certified, 0.5 * max(half.bound, 0.0))


def _hidden(feature):
    """ψ(a·x) of a joint feature b ψ(a·x)."""
    return next(f for f in FEATURES.values() if f.activation == feature.activation and not f.joint)


def vector_units(feature: Feature, points: Floats, inputs: Floats, c: Floats) -> tuple:
    """θ = (a, b) with |a| = |b| and the direction b of V = Σ_i c_i ψ(a·x_i), for which Σ_i c_i·φ(θ,
    x_i) is highest, (n_points, p + k), and its values |V|/2.

    points : (n_points, p) a;  c : (n_data, k)
    """
    V = _hidden(feature).matrix(points, inputs).T @ c
    sizes = np.linalg.norm(V, axis=1)
    b = np.divide(V, sizes[:, None], out=np.zeros_like(V), where=sizes[:, None] > 0.0)
    return normalize(np.column_stack([points, b])), 0.5 * sizes


def _vector_peaks(feature, inputs, coefficients, share, starts, until):
    """Of a vector b: for linear units at the singular vectors of Σ c_i x_iᵀ, else where climbs
    end."""
    p, c = inputs.shape[1], coefficients.reshape(len(inputs), -1)
    if certified := feature.activation == LINEAR:
        points = np.linalg.svd(c.T @ inputs, full_matrices=False)[2]
    else:
        starts = None if starts is None else starts[:, :p][starts[:, :p].any(axis=1)]
        points = _climb(feature, inputs, c, starts, until)
    points, values = _distinct(*vector_units(feature, points, inputs, c))
    high = values >= share * values[0]
    sizes = np.linalg.norm(inputs, axis=1) @ np.linalg.norm(c, axis=1)
    bound = float(values[0] + 0.5 * slack(len(inputs)) * sizes)
    bound = np.inf if not certified and time.monotonic() > until else bound
    return Peaks(points[high], np.ones(high.sum()), values[high], certified, bound)


def _maxima(feature, inputs, c, share, starts, until):
    """Points (k, p) and values (k,) of the local maxima of Σ c_i φ(·, x_i), the highest first."""
    alive = (c != 0.0) & inputs.any(axis=1)
    if feature.activation == LINEAR or not alive.any():
        points = (c @ inputs if (c @ inputs).any() else np.eye(1, inputs.shape[1])[0])[None]
    elif inputs.shape[1] == 1:
        points = np.array([[1.0], [-1.0]])  # the whole sphere
    elif is_searchable(feature, inputs.shape[1]):
        squared = True if feature.activation == SQUARED_RELU else None
        points = _exact(_arrangement(inputs), c, squared, share)
    else:
        points = _climb(feature, inputs, c, starts, until)
    points = normalize(points)
    return _distinct(points, c @ feature.matrix(points, inputs))


def _distinct(points, values):
    """Points and values without those that are NEAR a higher one, the highest first."""
    order = np.argsort(-values, kind="stable")
    points, values = points[order], values[order]
    _, first = np.unique(np.round(points / NEAR).astype(np.int64), axis=0, return_index=True)
    distinct = np.sort(first)
    return points[distinct], values[distinct]


@dataclass(frozen=True, eq=False)
class Arrangement:
    """The circles x_i·θ = 0 of data in R³ (of R² only one circle, the sphere itself), and the order
    of their crossings.

    x : (n, 3) x_i/|x_i|, zero in the third coordinate if the data lie in R², p = 2;  sizes : (n,)
        |x_i|
    normals : (n_circles, 3) unit vectors;  counts : (n_circles,) how many crossings there are on
        each circle
    crossings : (n_circles, 2n) in the order in which they are passed: j where datum j turns
        positive, n + j where negative
    across : (n_circles, n) whether datum j has the very same circle
    """

    x: Floats
    sizes: Floats
    p: int
    normals: Floats
    counts: Floats
    crossings: Floats
    across: Floats


@remembered(most=4)
def _arrangement(inputs):
    """The arrangement of inputs (n, 2 or 3); kept, since a run asks for it at every record."""
    n, p = inputs.shape
    x, sizes = np.zeros((n, 3)), np.linalg.norm(inputs, axis=1)
    x[sizes > 0.0, :p] = normalize(inputs[sizes > 0.0])
    circles = x if p == 3 else np.array([[0.0, 0.0, 1.0]])
    normals, counts = np.zeros((len(circles), 3)), np.zeros(len(circles), dtype=np.int64)
    crossings, across = (
        np.zeros((len(circles), 2 * n), dtype=np.int32),
        np.zeros((len(circles), n), dtype=np.bool_),
    )
    for i, circle in enumerate(circles):
        if not circle.any():
            continue
        normals[i] = circle
        first = normalize(np.cross(circle, np.eye(3)[np.argmin(np.abs(circle))]))
        # exact where x_j nearly is ±normal
        across_circle = x - np.sign(x @ circle)[:, None] * circle
        u, v = across_circle @ first, across_circle @ np.cross(circle, first)
        across[i] = u**2 + v**2 <= SAME**2
        crossing = np.flatnonzero(~across[i])
        middle = np.arctan2(v, u)[crossing]
        angles = np.concatenate([middle - 0.5 * np.pi, middle + 0.5 * np.pi]) % (2.0 * np.pi)
        counts[i] = len(angles)
        crossings[i, : len(angles)] = np.concatenate([crossing, n + crossing])[
            np.argsort(angles, kind="stable")
        ]
    return Arrangement(x, sizes, p, normals, counts, crossings, across)


def _exact(arrangement, c, squared, share):
    """The highest point, and with share < 1 all local maxima of at least that share of it, (k,
    p)."""
    a, highest = arrangement, np.zeros((1, 3))
    c = c * a.sizes ** (2 if squared else 1)
    geometry = a.x, c, squared, a.p, a.normals, a.counts, a.crossings, a.across
    best, _ = _walk(*geometry, -np.inf, True, highest)
    if not highest.any():  # squares of sizes are below numbers: all directions are as high
        highest[0, 0] = 1.0
    if share == 1.0 or best <= 0.0:
        return highest[:, : a.p]
    room = np.zeros((MOST, 3))
    _, count = _walk(*geometry, share * best, False, room)
    return np.concatenate([highest, room[:count]])[:, : a.p]


@njit(cache=True)
def dot(a, b):
    """a·b of three numbers each: a fifth faster than a loop over them."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@njit(cache=True)
def add(c, x, squared, M):
    """Add c x to the row M[0], or c x xᵀ to M."""
    for k in range(3):
        if squared is not None:
            for q in range(3):
                M[k, q] += c * x[k] * x[q]
        else:
            M[0, k] += c * x[k]


@njit(cache=True)
def _value(theta, x, c, squared):
    """Σ c_i φ(θ, x_i)."""
    total = 0.0
    for i in range(len(c)):
        s = dot(theta, x[i])
        if s > 0.0:
            total += c[i] * s if squared is None else c[i] * s * s
    return total


@njit(cache=True)
def _within(theta, x, c, active, beyond):
    """Whether θ lies in the closed region where the active data with a coefficient are positive and
    the others negative."""
    for i in range(len(x)):
        s = dot(theta, x[i])
        if c[i] != 0.0 and (s > 0.0) != active[i] and abs(s) > beyond:
            return False
    return True


@njit(cache=True)
def _top(M, squared, p, least, theta):
    """Whether A·θ, A = M[0], or θᵀMθ exceeds `least` somewhere on the sphere; writes the highest
    direction to θ if so."""
    if squared is None:
        size = np.sqrt(dot(M[0], M[0]))
        if size > least and size > 0.0:
            for k in range(len(theta)):
                theta[k] = M[0, k] / size
            return True
        return False
    if np.sqrt(dot(M[0], M[0]) + dot(M[1], M[1]) + dot(M[2], M[2])) <= least:
        return False
    values, vectors = np.linalg.eigh(np.ascontiguousarray(M[:p, :p]))
    for k in range(p):
        theta[k] = vectors[k, -1]
    return values[-1] > least


@njit(cache=True)
def _walk(x, c, squared, p, normals, counts, crossings, across, least, single, out):
    """Walk along all circles, once where data share one, and meet the local maxima of
    G = Σ c_i φ(·, x_i) that exceed `least`.

    squared: True for squared ReLU, None for ReLU: what that never does is not compiled for it
    single: the highest goes to out[0], any point above all earlier ones counts;  else all go to out
    (room, 3), and are maxima
    Returns the largest value met, or `least`, and the number of points written. The other
    arguments: see Arrangement.

        M: over the data that are positive on the arc;  side[0], side[1]: over those of this circle,
        positive below, above it
    """
    n, count = len(x), np.int64(0)  # of one type: every other is compiled anew
    beyond = BEYOND if squared is None else BEYOND_SQUARED
    theta, begin, end, ray = np.zeros(3), np.zeros(3), np.zeros(3), np.zeros(3)
    M, T, side = np.zeros((3, 3)), np.zeros((3, 3)), np.zeros((2, 3, 3))
    active, here = np.zeros(n, np.bool_), np.zeros(n, np.int64)
    for i in range(len(normals)):
        normal, events = normals[i], counts[i]
        if p == 3 and (c[i] == 0.0 or dot(normal, normal) == 0.0):
            continue
        M[:], side[:], same, walked = 0.0, 0.0, 0, False
        for j in range(i if p == 3 else 0):
            walked = walked or across[i, j] and c[j] != 0.0
        if walked:
            continue
        for j in range(n):
            active[j] = False
            if across[i, j]:
                here[same], same = j, same + 1
                add(c[j], x[j], squared, side[1 if dot(x[j], normal) > 0.0 else 0])
        if events == 0:  # all data share one circle, on which G = 0
            for above in range(2 if p == 3 else 0):
                for k in range(3):
                    theta[k] = (2.0 * above - 1.0) * normal[k]
                least, count = _keep(theta, x, c, squared, least, single, out, count)
            if p == 3 and single:
                _orthogonal(normal, theta)
                least, count = _keep(theta, x, c, squared, least, single, out, count)
            continue
        # data whose turn to negative comes before their turn to positive are positive at the start
        for k in range(events - 1, -1, -1):
            if crossings[i, k] < n:
                active[crossings[i, k]] = False
            else:
                active[crossings[i, k] - n] = True
        for j in range(n):
            if active[j]:
                add(c[j], x[j], squared, M)
        _crossing(x, crossings[i, events - 1], normal, end)
        for k in range(events):
            for q in range(3):
                begin[q] = end[q]
            _crossing(x, crossings[i, k], normal, end)
            # the regions on both sides of this arc; on the circle itself (p = 2) the arc is the
            # region
            for above in range(2 if p == 3 else 1):
                for m in range(1 if squared is None else 3):
                    for q in range(3):
                        T[m, q] = M[m, q] + side[above, m, q]
                if _top(T, squared, p, least, theta):
                    for j in here[:same]:
                        active[j] = (dot(x[j], normal) > 0.0) == (above == 1)
                    for _ in range(1 if squared is None else 2):
                        if _within(theta, x, c, active, beyond):
                            least, count = _keep(theta, x, c, squared, least, single, out, count)
                        theta *= -1.0
            # the highest point of the arc, if G falls to both sides of it
            if p == 3 and squared is None:
                up = dot(M[0], normal)
                falls = up + dot(side[1, 0], normal) <= 0.0 <= up + dot(side[0, 0], normal)
                for q in range(3):
                    ray[q] = M[0, q]
                # once leaves a rounding of M along the normal, which may be more than lies along
                # the circle
                for _ in range(2):
                    up = dot(ray, normal)
                    for q in range(3):
                        ray[q] -= up * normal[q]
                size = np.sqrt(dot(ray, ray))
                inside = _triple(normal, begin, ray) >= 0.0 >= _triple(normal, end, ray)
                if inside and size > least and size > 0.0 and (single or falls):
                    for q in range(3):
                        theta[q] = ray[q] / size
                    least, count = _keep(theta, x, c, squared, least, single, out, count)
            # the crossing at the arc's end
            leaves = crossings[i, k] >= n
            datum = crossings[i, k] - (n if leaves else 0)
            if leaves:
                add(-c[datum], x[datum], squared, M)
            if single or squared is None:
                value = dot(M[0], end)
                if squared is not None:
                    value = end[0] * value + end[1] * dot(M[1], end) + end[2] * dot(M[2], end)
                if value > least and (
                    single or _falls(M[0], side, c[datum], x[datum], end, normal, p, ray)
                ):
                    least, count = _keep(end, x, c, squared, least, single, out, count)
            if not leaves:
                add(c[datum], x[datum], squared, M)
            active[datum] = not leaves
    return least, count


@njit(cache=True)
def _keep(theta, x, c, squared, least, single, out, count):
    """Write θ to `out` if its value exceeds `least`; returns the new `least` and how many points
    are written."""
    value = _value(theta, x, c, squared)
    if value > least and (single or count < len(out)):
        for k in range(3):
            out[0 if single else count, k] = theta[k]
        return (value, 1) if single else (least, count + 1)
    return least, count


@njit(cache=True)
def _crossing(x, crossing, normal, theta):
    """Write to θ where a datum turns positive (crossing < n) or negative on the circle of this
    normal: ∓ normal × x_j, normed.

    Of x_j the nearer of ±normal is subtracted first: a difference of neighbours is exact, a product
    of them is not.
    """
    n = len(x)
    near = np.sign(dot(normal, x[crossing % n]))
    for k in range(3):
        theta[k] = x[crossing % n, k] - near * normal[k]
    _cross(normal, theta, theta)
    size = np.sqrt(dot(theta, theta)) * (1.0 if crossing >= n else -1.0)
    for k in range(3):
        theta[k] /= size


@njit(cache=True)
def _falls(A, side, coefficient, crossing, theta, normal, p, ray):
    """Whether a sum of ReLU falls along the rays of both circles from their crossing θ, thus along
    all.

    A : over the data positive there but for the two circles';  side : those of this circle, normal
        its normal
    coefficient, crossing : c and x of the other one;  ray : scratch
    """
    _cross(normal, theta, ray)
    for _ in range(2):
        if dot(A, ray) + coefficient * max(dot(crossing, ray), 0.0) > 0.0:
            return False
        ray *= -1.0
    if p == 3:
        _cross(crossing, theta, ray)
        for _ in range(2):
            if dot(A, ray) + dot(side[1 if dot(normal, ray) > 0.0 else 0, 0], ray) > 0.0:
                return False
            ray *= -1.0
    return True


@njit(cache=True)
def _orthogonal(normal, theta):
    """Write a unit vector orthogonal to the normal to θ."""
    smallest = 0
    for k in range(1, 3):
        if abs(normal[k]) < abs(normal[smallest]):
            smallest = k
    size = np.sqrt(1.0 - normal[smallest] ** 2)
    for k in range(3):
        theta[k] = ((1.0 if k == smallest else 0.0) - normal[smallest] * normal[k]) / size


@njit(cache=True)
def _triple(a, b, c):
    """(a × b)·c"""
    return (
        (a[1] * b[2] - a[2] * b[1]) * c[0]
        + (a[2] * b[0] - a[0] * b[2]) * c[1]
        + (a[0] * b[1] - a[1] * b[0]) * c[2]
    )


@njit(cache=True)
def _cross(a, b, out):
    out[0], out[1], out[2] = (
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    )


def _climb(feature, inputs, c, starts, until):
    """Points (k, p) that climbs reach from evenly spread starts, and from given ones, as far as
    time allows: for ReLU as in `cones`, with numbers or vectors c, else by projected gradient
    ascent with step control."""
    p = inputs.shape[1]
    points = np.ascontiguousarray(quasi_uniform(STARTS, p - 1))
    if starts is not None:
        points = np.concatenate([points, normalize(starts)])
    if feature.activation == RELU:
        some = c.reshape(len(c), -1).any(axis=1) & inputs.any(axis=1)
        sizes = np.linalg.norm(inputs[some], axis=1)
        x, linear = inputs[some] / sizes[:, None], np.zeros((*c.shape[1:], p))
        c = (c[some].T * sizes).T.copy()
        for k in range(0, len(points), AT_ONCE):
            some = points[k : k + AT_ONCE]
            cones.climb(x, c, linear, some, np.empty(len(some)))
            if time.monotonic() > until:
                break
        return points
    values, step = c @ feature.matrix(points, inputs), np.full(len(points), 0.5)
    for _ in range(ASCENTS):
        if feature.pullback is not None:
            slope = feature.pullback(points, inputs, c)
        else:
            slope = (c[:, None] * feature.slopes(points, inputs)).T @ inputs
        slope -= np.sum(slope * points, axis=1, keepdims=True) * points
        size = np.linalg.norm(slope, axis=1, keepdims=True)
        trial = normalize(
            points
            + step[:, None] * np.divide(slope, size, out=np.zeros_like(slope), where=size > 0.0)
        )
        trial_values = c @ feature.matrix(trial, inputs)
        better = trial_values > values
        points[better], values[better] = trial[better], trial_values[better]
        step *= np.where(better, 1.5, 0.5)
        if step.max() < SHORT or time.monotonic() > until:
            break
    return points
