"""The coupling of atoms through the data, K_ij = Σ_c (β m_c φ_i φ_j + α m_c ∇φ_i·P_c ∇φ_j), with
P_c the projection on the directions in which atom c may move: along the sphere, and along the kinks
that hold it."""

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from ...arguments import Floats
from ...objectives.objective import Objective
from ...problem.flow import Flow
from ..frozen_relu.frozen import DEPENDENT, dot, project
from ..particles.tangent_gram import CHUNK, chunks, coupling_matrix

ON = 1e-12  # |n_k·θ| of an atom that kink k may hold
GROUPS = 16  # of lines of K: a group is added to by one thread
BLOCK = 128  # rows that are added at a time


def held_coupling(
    objective: Objective,
    normals: Floats,
    positions: Floats,
    weights: Floats,
    held: NDArray[np.bool_],
    flow: Flow,
) -> Floats:
    """K, (n_data, n_data), for ReLU or linear features.

    normals : (n_kinks, p) of the kinks;  positions, weights : (n, p), (n,) of the atoms
    held : (n,) whether a kink holds an atom; it is taken to be held by all that it is on
    Cost: n_data² for a free atom, n_data² (1 + directions to move in) for one that is held.
    """
    free = ~held
    matrix = coupling_matrix(objective, positions[free], weights[free], weights[free], flow)
    x, (below, above) = np.ascontiguousarray(objective.inputs), objective.feature.pieces  # type: ignore[misc]
    size = max(1, CHUNK // positions.shape[1])
    for points, w in chunks(positions[held], weights[held], size=size):
        along, counts = movable(np.ascontiguousarray(normals), points)
        ends = np.cumsum(1 + counts)
        rows = np.empty((ends[-1], len(x)))
        reaction, transport = np.sqrt(flow.reaction * w), np.sqrt(flow.transport * w)
        tangents(points, x, below, above, along, counts, ends, reaction, transport, rows)
        add_squares(rows, matrix)
    return matrix


@njit(cache=True, error_model="numpy")
def extend(basis, count, x):
    """Make x (p,) one more of the orthonormal vectors basis[:count]; returns how many there are,
    as many as before if x depends on them."""
    basis[count] = x
    for _ in range(2):
        project(basis[count], basis, count)
    size = np.sqrt(dot(basis[count], basis[count]))
    if size <= DEPENDENT:
        return count
    basis[count] /= size
    return count + 1


@njit(parallel=True, cache=True, error_model="numpy")
def movable(normals, points):
    """Orthonormal directions in which atoms may move, (n, p, p), of each as many rows as the
    counts (n,) say.

    normals (n_kinks, p);  points (n, p). What holds is made orthonormal, and what is missing of a
    basis taken from the axes that lie farthest from its span.
    """
    n, p = points.shape
    along, counts = np.zeros((n, p, p)), np.zeros(n, dtype=np.int64)
    for c in prange(n):
        basis, axis, left = np.zeros((p + 1, p)), np.zeros(p), np.ones(p)
        count = extend(basis, 0, points[c])
        for k in range(len(normals)):
            if count < p and abs(dot(normals[k], points[c])) <= ON:
                count = extend(basis, count, normals[k])
        counts[c] = p - count
        for h in range(count):
            for a in range(p):
                left[a] -= basis[h, a] ** 2
        for row in range(p - count):
            farthest = np.argmax(left)
            axis[:] = 0.0
            axis[farthest] = 1.0
            count = extend(basis, count, axis)
            along[c, row] = basis[count - 1]
            for a in range(p):
                left[a] -= basis[count - 1, a] ** 2
    return along, counts


@njit(parallel=True, cache=True)
def tangents(points, inputs, below, above, along, counts, ends, reaction, transport, rows):
    """Vectors over the data whose squares add up to K: √(βm_c) φ and √(αm_c) ∇φ·q for each
    direction q of each atom.

    points (n, p);  inputs (n_data, p);  below, above: slopes of ψ;  along (n, p, p), counts (n,):
    directions;  ends (n,): of each atom's rows;  reaction, transport (n,): √(βm), √(αm);  rows
    (n_rows, n_data): the vectors
    """
    for c in prange(len(points)):
        first = ends[c] - counts[c]
        for i in range(len(inputs)):
            s = dot(inputs[i], points[c])
            slope = above if s > 0.0 else below
            rows[first - 1, i] = reaction[c] * slope * s
            for h in range(counts[c]):
                rows[first + h, i] = (
                    transport[c] * slope * dot(inputs[i], along[c, h]) if slope != 0.0 else 0.0
                )


@njit(cache=True, fastmath={"contract"})
def add_line(rows, i, used, line):
    """line_j += Σ_c rows_ci rows_cj for j ≤ i; rows (n_rows, n), used (n_rows,) scratch, line (n,).

    Half of the numbers are zero, since units do not see all data: rows that vanish at i are left
    out. Four at a time, so that the line is read and written less often.
    """
    count = 0
    for c in range(len(rows)):
        if rows[c, i] != 0.0:
            used[count] = c
            count += 1
    whole = count - count % 4
    for k in range(0, whole, 4):
        one, two = rows[used[k]], rows[used[k + 1]]
        three, four = rows[used[k + 2]], rows[used[k + 3]]
        for j in range(i + 1):
            line[j] += one[i] * one[j] + two[i] * two[j] + three[i] * three[j] + four[i] * four[j]
    for k in range(whole, count):
        one = rows[used[k]]
        for j in range(i + 1):
            line[j] += one[i] * one[j]


@njit(parallel=True, cache=True)
def add_squares(rows, out):
    """out += rowsᵀ rows; rows (n_rows, n), out (n, n) symmetric. Few rows at a time, which stay in
    the cache."""
    many, n = rows.shape
    for g in prange(GROUPS):
        used = np.empty(BLOCK, dtype=np.int64)
        for begin in range(0, many, BLOCK):
            block = rows[begin : begin + BLOCK]
            for i in range(np.int64(g), n, GROUPS):
                add_line(block, i, used, out[i])
    for i in range(n):
        for j in range(i):
            out[j, i] = out[i, j]
