"""The coupling of atoms through the data, K_ij = Σ_c (β m_c φ_i φ_j + α m_c ∇φ_i·P_c ∇φ_j), with
P_c the projection on the directions in which atom c may move: along the sphere, and along the kinks
that hold it."""

import numpy as np
from numpy.typing import NDArray

from ...arguments import Floats
from ...compiled import njit
from ...objectives.objective import Objective
from ...operators.matrix import add_gram, products
from ...operators.parallel_loops import divided_loop
from ...operators.span import extend
from ...problem.flow import Flow
from ..particles.tangent_gram import chunks, coupling_matrix
from .frozen import DEPENDENT, dot
from .span import and_zero, seen, spanned

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

    With q the directions in which an atom may move, and b those that hold it, itself among them,

        ∇φ_i·P_c ∇φ_j = Σ_q (∇φ_i·q)(∇φ_j·q) = (x_i·x_j) slope_i slope_j − Σ_b (∇φ_i·b)(∇φ_j·b),

    whichever has fewer terms.
    Cost: n_data² for a free atom, n_data² (1 + these terms) for one that is held, and for these
    directions n_kinks × dimensions, with the cube of the dimensions if many hold; data see no more
    dimensions than they span.
    """
    free = ~held
    matrix = coupling_matrix(objective, positions[free], weights[free], weights[free], flow)
    (below, above), atoms = objective.feature.pieces, positions[held]  # type: ignore[misc]
    spanning = in_span(objective.inputs, normals, atoms)
    x, normals, atoms = (np.ascontiguousarray(array) for array in spanning)
    moved, holding = np.zeros_like(matrix), np.zeros_like(matrix)
    for points, w in chunks(x.size, atoms, weights[held]):
        many, p = points.shape
        along, counts = np.zeros((many, p, p)), np.zeros(many, dtype=np.int64)
        few = np.zeros(many, dtype=bool)
        movable(many, many * normals.size, normals, points, along, counts, few)
        # rows that are added, φ of each atom before its directions, and behind them those that are
        # subtracted
        ends = np.cumsum(1 + np.where(few, 0, counts))
        added, subtracted = ends[-1], np.cumsum(np.where(few, counts, 0))
        own = np.where(few, ends - 1, ends - 1 - counts)
        first = np.where(few, added + subtracted - counts, own + 1)
        rows, slopes = np.empty((added + subtracted[-1], len(x))), np.empty((many, len(x)))
        reaction, transport = np.sqrt(flow.reaction * w), np.sqrt(flow.transport * w)
        directions, scales = (along, counts, own, first), (reaction, transport)
        tangents(many, rows.size, points, x, below, above, *directions, *scales, rows, slopes)
        for part, out in ((rows[:added], matrix), (rows[added:], holding)):
            add_squares(GROUPS, len(x) * part.size, part, out)
        if few.any():
            add_gram(slopes[few].T, np.ones(np.count_nonzero(few)), moved)
    if moved.any():
        matrix += products(x, x) * moved - holding
    return np.where(np.tri(len(x), dtype=bool), matrix, matrix.T)


def in_span(inputs: Floats, normals: Floats, positions: Floats) -> tuple[Floats, Floats, Floats]:
    """Data, normals and atoms in coordinates of the normals' span and one more, see span.py, where
    these are fewer than the dimensions p.

    inputs (n_data, p);  normals (n_kinks, p);  positions (n, p)
    """
    if inputs.shape[1] <= len(normals) + 1:
        return inputs, normals, positions
    basis = spanned(normals)
    own = (and_zero(rows @ basis.T) for rows in (inputs, normals))
    return *own, seen(basis, positions.T[None])[0].T


def on_kinks(normals: Floats, positions: Floats) -> NDArray[np.bool_]:
    """Whether atoms lie on a kink, (n,);  normals (n_kinks, p), positions (n, p)."""
    parts = chunks(len(normals), positions)
    on = [(np.abs(part @ normals.T) <= ON).any(axis=1) for (part,) in parts]
    return np.concatenate(on) if on else np.zeros(0, dtype=bool)


@divided_loop(error_model="numpy")
def movable(begin, end, normals, points, along, counts, few):
    """Orthonormal directions of the atoms from begin to end, along (n, p, p), of each as many rows
    as the counts (n,) say: those that hold it, itself the first, if they are fewer than the others,
    where `few` says so, else those in which it may move.

    normals (n_kinks, p);  points (n, p);  along, counts, few (n,): zeros. What holds is made
    orthonormal, and what is missing of a basis taken from the axes that lie farthest from its span.
    """
    p = points.shape[1]
    basis, axis, left = np.zeros((p + 1, p)), np.zeros(p), np.zeros(p)
    for c in range(begin, end):
        count = extend(basis, np.int64(0), points[c], DEPENDENT)
        for k in range(len(normals)):
            if count < p and abs(dot(normals[k], points[c])) <= ON:
                count = extend(basis, count, normals[k], DEPENDENT)
        if 2 * count < p:
            few[c], counts[c] = True, count
            for h in range(count):  # a copy of slices takes two seconds to compile
                for a in range(p):
                    along[c, h, a] = basis[h, a]
            continue
        counts[c] = p - count
        left[:] = 1.0
        for h in range(count):
            for a in range(p):
                left[a] -= basis[h, a] ** 2
        for row in range(p - count):
            farthest = np.argmax(left)
            axis[:] = 0.0
            axis[farthest] = 1.0
            count = extend(basis, count, axis, DEPENDENT)
            for a in range(p):
                along[c, row, a] = basis[count - 1, a]
                left[a] -= basis[count - 1, a] ** 2


@divided_loop()
def tangents(
    begin, end, points, inputs, below, above, along, counts, own, first, reaction, transport,
    rows, slopes,
):  # fmt: skip
    """Vectors over the data whose squares make K: √(βm_c) φ and √(αm_c) ∇φ·q for each direction q
    of each atom, and √(αm_c) slope.

    points (n, p);  inputs (n_data, p);  below, above: slopes of ψ;  along (n, p, p), counts (n,):
    directions;  own, first (n,): the rows of φ and of the first direction of each atom;  reaction,
    transport (n,): √(βm), √(αm);  rows (n_rows, n_data), slopes (n, n_data): the vectors;  begin,
    end: the atoms
    """
    for c in range(begin, end):
        for i in range(len(inputs)):
            s = dot(inputs[i], points[c])
            slope = above if s > 0.0 else below
            rows[own[c], i] = reaction[c] * slope * s
            slopes[c, i] = transport[c] * slope
            for h in range(counts[c]):
                rows[first[c] + h, i] = (
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


@divided_loop()
def add_squares(begin, end, rows, out):
    """out += rowsᵀ rows on and below the diagonal, in groups of lines from begin to end; rows
    (n_rows, n), out (n, n). Few rows at a time, which stay in the cache."""
    many, n = rows.shape
    for g in range(begin, end):
        used = np.empty(BLOCK, dtype=np.int64)
        for first in range(0, many, BLOCK):
            block = rows[first : first + BLOCK]
            for i in range(g, n, GROUPS):
                add_line(block, i, used, out[i])
