"""Where the highest points of Σ c_i φ(·, x_i) can be, without any walk: in exact arithmetic for few
data, densely for many."""

from fractions import Fraction
from itertools import combinations, permutations, product

import numpy as np
from scipy.optimize import nnls

from hkflow.geometry.sphere import normalize


def _dot(a, b):
    return sum(u * v for u, v in zip(a, b, strict=True))


def _cross(a, b):
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]


def exact_highest(x, c):
    """The maximum over S² of Σ c_i (x_i·θ)₊, or 0 if that is larger, for few data x (n, 3): a
    rational until the last division.

    Tried are A of every subset of the data, its projections on every circle, and all crossings: 2ⁿ
    (n + 1) + n² directions.
    """
    x, c = [[Fraction(v) for v in row] for row in x.tolist()], [Fraction(v) for v in c.tolist()]
    directions = [_cross(a, b) for a, b in permutations(x, 2)]
    for on in product((0, 1), repeat=len(x)):
        A = [sum(o * ci * row[k] for o, ci, row in zip(on, c, x, strict=True)) for k in range(3)]
        along = [_dot(A, row) / _dot(row, row) for row in x]
        directions += [
            A,
            *(
                [a - share * v for a, v in zip(A, row, strict=True)]
                for share, row in zip(along, x, strict=True)
            ),
        ]
    highest = Fraction(0)
    for v in filter(any, directions):
        G = sum(ci * max(_dot(v, row), 0) for ci, row in zip(c, x, strict=True))
        if G > 0:
            highest = max(highest, G * G / _dot(v, v))
    return float(highest * 2**400) ** 0.5 / 2.0**200


def explicit_candidates(x, on_arcs=61):
    """Evenly spread points of S², evenly spread points of all circles x_i·θ = 0, and their
    crossings, (k, 3)."""
    rows = normalize(x[x.any(axis=1)])
    i, j = np.triu_indices(len(rows), 1)
    crossings = np.cross(
        rows[i], rows[j] - np.sign(np.sum(rows[i] * rows[j], axis=1))[:, None] * rows[i]
    )
    crossings = normalize(crossings[crossings.any(axis=1)]) if crossings.any() else np.zeros((0, 3))
    first = normalize(np.cross(rows, np.eye(3)[np.argmin(np.abs(rows), axis=1)]))
    angles = 2.0 * np.pi * np.arange(on_arcs) / on_arcs
    arcs = np.cos(angles)[:, None, None] * first + np.sin(angles)[:, None, None] * np.cross(
        rows, first
    )
    return np.concatenate([arcs.reshape(-1, 3), crossings, -crossings])


def cells(x):
    """Signs (k, n) of all cells of the hyperplanes x_i·θ = 0 of data in general position: around
    each line in which p − 1 of them cross, all signs of these."""
    n, p = x.shape
    found = []
    for chosen in combinations(range(n), p - 1):
        signs = np.tile(np.sign(x @ np.linalg.svd(x[list(chosen)])[2][-1]), (2 ** (p - 1), 1))
        signs[:, list(chosen)] = list(product((-1.0, 1.0), repeat=p - 1))
        found += [signs, np.where(np.isin(np.arange(n), chosen), signs, -signs)]
    return np.unique(np.concatenate(found), axis=0)


def highest_of_cells(x, c, patterns):
    """max of Σ c_i (θ·x_i)₊ over the sphere, or 0 if that is larger: in a cell that of A·θ is the
    distance of A from the polar cone, min over μ ≥ 0 of |A + Σ μ_i s_i x_i|."""
    return max(nnls((s[:, None] * x).T, -(np.where(s > 0.0, c, 0.0) @ x))[1] for s in patterns)


def largest_norm(x, c):
    """max of |Σ_i c_i (θ·x_i)₊| over the sphere, for few data x (n, p) in general position and
    vectors c (n, k).

    In a cell the sum is M θ. Tried are the singular vectors of the M of all cells, on the whole
    space and on all intersections of hyperplanes x_i·θ = 0: one of them is the highest point.
    """
    n, p = x.shape
    matrices = np.einsum("si,ik,ip->skp", cells(x) > 0.0, c, x)
    highest = 0.0
    for count in range(p):
        for chosen in combinations(range(n), count):
            flat = np.linalg.svd(x[list(chosen)].reshape(count, p))[2][count:]
            theta = np.linalg.svd(matrices @ flat.T)[2].reshape(-1, p - count) @ flat
            s = np.concatenate([theta, -theta]) @ x.T
            highest = max(highest, np.linalg.norm(np.maximum(s, 0.0) @ c, axis=1).max())
    return highest
