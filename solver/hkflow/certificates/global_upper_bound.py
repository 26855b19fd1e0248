"""A certified upper bound of a weighted sum of features over the whole sphere.

    G(θ) = Σ_i c_i φ(θ, x_i),  φ = (θ·x)₊ on any sphere, or (θ·x)₊² on the circle or S²

A ridge that is linear on either side of 0, as |θ·x|, is one of ReLU of x and of −x.

By branch and bound: on the circle and S² over `caps`, beyond S² over `cones`, where these are too
few by `main_axes` of the data.
"""

import time

import numpy as np

from ..arguments import Floats
from ..geometry.rows import unique_rows
from ..objectives.activations import Feature
from ..operators.dense import LINEAR, SQUARED_RELU
from ..remembered import remembered
from . import caps, cones
from .main_axes import by_main_axes
from .search import as_relu, is_searchable, slack, vector_units

SAME_LINE = 1e-13  # distance of unit vectors that are taken for one
TOLERANCE = 1e-10  # of Σ |c_i| |x_i|^degree: by how much the bound may exceed the maximum
# n p² for each cone beyond S²: for a record of a run, some 20 ms; at its end, some 3 s; for
# `hkflow margin`, some minutes
WORK_OF_RECORD, WORK_OF_RUN, WORK_OF_MARGIN = 2**20, 2**27, 2**32
MOST_PEAKS = 200  # that one search returns


def is_enclosable(feature: Feature, axes: int) -> bool:
    """Whether a bound of the maximum is known: of squared ReLU on the circle and S², of what is
    linear on either side of 0 on any sphere."""
    return feature.pieces is not None or is_searchable(feature, axes)


def nodes_within(work: int, inputs: Floats) -> int:
    """How many cones an amount of work pays for, with inputs (n, p): the same on any machine."""
    return work // max(len(inputs) * inputs.shape[1] ** 2, 1) + 1


def nodes_of_record(feature: Feature, inputs: Floats) -> int:
    """How many cones a record of a run looks at for each sign; 0 where there are none, or too few
    to cover the space."""
    p, nodes = inputs.shape[1], nodes_within(WORK_OF_RECORD, inputs)
    by_cones = feature.kink is not None and (p > 3 or feature.outputs > 1)
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
    feature, inputs, coefficients = as_relu(feature, inputs, coefficients)
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
        # data of one line at one of its two ends, or at 0
        ends = np.stack([merged - opposite, opposite, np.zeros(len(u))])
        plain = [(sign * ends).max(axis=0).sum() for sign in signs]
        if _main_axes_pay(len(u), p, nodes):
            bounds = [
                by_main_axes(u, sign * merged[:, None], sign * linear[None]) for sign in signs
            ]
            plain = np.minimum(plain, bounds)
        bound, *found = _over_cones(
            *(u, merged, linear, signs, plain, nodes, enough / scale, until)
        )
        return scale * (bound + slack(len(c))), *found
    whole = u.T @ (opposite[:, None] * u) if squared else np.vstack([linear, np.zeros((2, 3))])
    value = bound = -np.inf
    for sign in signs:
        geometry = u, sign * merged, sign * whole, squared, caps.PIECES[p]
        value, bound = caps.branch_and_bound(*geometry, TOLERANCE, value, bound)
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
    """Whether `by_main_axes` costs less than so many cones: not where a record has none."""
    return nodes >= p or (nodes - 1) * n * p**2 > WORK_OF_RECORD


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
        bound = min(bound, by_main_axes(u, merged, linear))
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
