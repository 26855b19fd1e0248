"""Sums over all pairs of fixed points and data, exact to rounding, at a fraction of their cost.

a(θ·x) vanishes on one side of the great circle θ·x = 0 and is a polynomial on the other, a(θ·x) =
ω(θ)·μ(x): ω = θ and μ = x for ReLU, second moments for squared ReLU. So all points of a group that
lies on one side of the circle of a datum meet it through the moments of the group; a group that the
circle cuts is halved, and only leaves that it cuts are summed in pairs:

    root ── far data: on whose positive side the whole root lies
     ├── node ── far data: whose circles cut its parent, and on whose positive side the node lies
     │    ├── leaf ── far data, and near data: whose circles cut the leaf
     ⋮    ⋮

Cost: n √N + N for n data and N points on S², n N^(1 − 1/d) + N on S^d. The lists depend on geometry
alone and are made once.
"""

import numpy as np
from numba import prange

from ..arguments import Floats
from ..compiled import njit
from .caps import LEAF, above, bisected, directions, lists_of, tree_of, upward
from .dense import DATA, LINEAR, SMALL, SQUARED_RELU, TILE, blocked, gradient_tile


class TreeOperator:
    """All sums for φ = a(θ·x) with a built-in activation a and points that stay where they are.

    points : (n_points, p);  inputs : (n_data, p);  activation : LINEAR, RELU or SQUARED_RELU
    flipped : whether the tree is made of data and the lists of points; by default of whichever are
        more
    leaves : slice of the only leaves at which sums are wanted: they are made there alone, and left
        in the order of the tree
    """

    def __init__(
        self,
        points: Floats,
        inputs: Floats,
        activation: int,
        flipped: bool | None = None,
        leaves: slice | None = None,
    ) -> None:
        self.flipped = len(inputs) > len(points) if flipped is None else flipped
        many, few = (inputs, points) if self.flipped else (points, inputs)
        self.activation = (0,) * activation
        self.order, self.few_order = (
            bisected(directions(x), size).astype(np.uint32)
            for x, size in ((many, LEAF), (few, DATA))
        )
        many, few = many[self.order], few[self.few_order]
        self.leaves = blocked(many, LEAF)
        self.columns = np.ascontiguousarray(
            self.leaves.reshape(*self.leaves.shape[:2], -1, DATA).swapaxes(1, 2)
        )
        self.tree = (
            tree_of(len(self.leaves))
            if leaves is None
            else above(tree_of(len(self.leaves)), leaves)
        )
        self.upward = upward(*self.tree[2:])
        self.place = self.order if leaves is None else np.arange(len(many), dtype=np.uint32)
        self.lists = lists_of(self.tree, self.leaves, many, few, activation == LINEAR)
        self.moments = moments(few, activation, 2.0)
        p, levels, roots = few.shape[1], self.tree[2].max(initial=0) + 2, len(self.tree[3]) - 1
        longest = np.diff(self.lists[2]).max()
        # (p, n_few + 1): lists are padded with the last
        self.few = np.concatenate([few, np.zeros((1, p))]).T.copy()
        self.rows, self.values = np.zeros_like(self.moments), np.zeros(len(few) + 1)
        first, last, _, starts = self.tree
        leaves_below = (last - first)[starts[:-1]].max(initial=0)
        self.sums, self.given = (
            np.zeros((roots, levels, self.moments.shape[1])),
            np.zeros((roots, leaves_below, LEAF // DATA, DATA)),
        )
        self.points, self.data = (
            np.zeros((roots, p, longest)),
            np.zeros((roots, longest // DATA, p, DATA)),
        )
        self.loss_gradient, self.answers = (
            np.zeros((roots, longest // DATA, DATA)),
            np.zeros((roots, max(LEAF, longest))),
        )
        self.partial = np.zeros((roots, len(few) + 1))

    def forward(self, weights: Floats, out: Floats) -> None:
        """h_i = Σ_c weights_c φ(θ_c, x_i); weights (n_points,), out (n_data,)."""
        (self._down if self.flipped else self._up)(weights, out)

    def adjoint(self, loss_gradient: Floats, out: Floats) -> None:
        """J_c = Σ_i loss_gradient_i φ(θ_c, x_i); loss_gradient (n_data,), out (n_points,)."""
        (self._up if self.flipped else self._down)(loss_gradient, out)

    def _down(self, values, out):
        """From the few to the many: their moments go from the roots to the leaves."""
        np.take(values, self.few_order, out=self.values[:-1])
        np.multiply(self.moments, self.values[:-1, None], out=self.rows)
        down(
            self.activation, *self.tree, *self.lists, self.leaves, self.few, self.values, self.rows,
            self.sums, self.data, self.loss_gradient, self.answers, self.place, out,
        )  # fmt: skip

    def _up(self, values, out):
        """From the many to the few: their moments go from the leaves to the roots."""
        up(
            self.activation, *self.tree, self.upward, *self.lists, self.columns, self.few,
            self.moments, values, self.order, self.given, self.sums, self.points, self.answers,
            self.partial, self.few_order, out,
        )  # fmt: skip


def moments(inputs: Floats, activation: int, mixed: float) -> Floats:
    """μ of inputs (n, p): themselves, or for squared ReLU their products x_a x_b, a ≤ b, (n,
    p(p+1)/2).

    mixed : factor of the products with a < b, 2 on one side of ω·μ and 1 on the other
    """
    if activation != SQUARED_RELU:
        return inputs
    a, b = np.triu_indices(inputs.shape[1])
    # columns taken by their numbers lie one after the other: rows do as the kernels read them
    return np.ascontiguousarray(inputs[:, a] * inputs[:, b] * np.where(a < b, mixed, 1.0))


@njit(cache=True)
def evaluate(activation, total, leaf, answer):
    """answer_c = total·ω(θ_c), ω with mixed = 1, θ the points (p, LEAF) of a leaf."""
    k, p = 0, leaf.shape[0]
    for c in range(LEAF):
        answer[c] = 0.0
    for a in range(p):
        if len(activation) == SQUARED_RELU:
            for b in range(a, p):
                for c in range(LEAF):
                    answer[c] += total[k] * leaf[a, c] * leaf[b, c]
                k += 1
        else:
            for c in range(LEAF):
                answer[c] += total[a] * leaf[a, c]


@njit(cache=True, fastmath={"reassoc", "contract"})
def sum_moments(activation, given, columns, total):
    """total = Σ_c given_c ω(θ_c), ω with mixed = 1, θ the points (LEAF / DATA, p, DATA) of a
    leaf."""
    k, p = 0, columns.shape[1]
    for a in range(p):
        for b in range(a, p if len(activation) == SQUARED_RELU else a + 1):
            moment = 0.0
            for o in range(LEAF // DATA):
                for lane in range(DATA):
                    if len(activation) == SQUARED_RELU:
                        moment += given[o, lane] * columns[o, a, lane] * columns[o, b, lane]
                    else:
                        moment += given[o, lane] * columns[o, a, lane]
            total[k] = moment
            k += 1


@njit(cache=True)
def down_root(
    r, activation, first, last, level, roots, far_start, far, near_start, near, leaves, few, values,
    rows, sums, columns, given, answer, order, out,
):  # fmt: skip
    """The potential of the points below root r; the arrays of `down`."""
    nothing = np.zeros((0, LEAF))
    for a in range(sums.shape[1]):
        sums[0, a] = 0.0
    for k in range(roots[r], roots[r + 1]):
        above, total = sums[level[k]], sums[level[k] + 1]
        met = far[far_start[k] : far_start[k + 1]]
        if sums.shape[1] == 3:  # on S², most often
            m0, m1, m2 = above[0], above[1], above[2]
            for i in met:
                m0, m1, m2 = m0 + rows[i, 0], m1 + rows[i, 1], m2 + rows[i, 2]
            total[0], total[1], total[2] = m0, m1, m2
        else:
            for a in range(sums.shape[1]):
                total[a] = above[a]
            for i in met:
                for a in range(sums.shape[1]):
                    total[a] += rows[i, a]
        if last[k] - first[k] > 1:
            continue
        leaf = first[k]
        evaluate(activation, total, leaves[leaf], answer)
        blocks = (near_start[leaf + 1] - near_start[leaf]) // DATA
        for o in range(blocks):
            data = near[near_start[leaf] + o * DATA :]
            for lane in range(DATA):
                given[o, lane] = values[data[lane]]
            for a in range(few.shape[0]):
                for lane in range(DATA):
                    columns[o, a, lane] = few[a, data[lane]]
        for c in range(0, LEAF, TILE):
            gradient_tile(
                activation,
                leaves[leaf, :, c:],
                columns[:blocks],
                given[:blocks],
                answer[c:],
                nothing,
            )
        for c in range(min(LEAF, len(order) - leaf * LEAF)):
            out[order[leaf * LEAF + c]] = answer[c]


@njit(parallel=True, cache=True)
def down(
    activation, first, last, level, roots, far_start, far, near_start, near, leaves, few, values,
    rows, sums, columns, given, answers, order, out,
):  # fmt: skip
    """out_c = Σ_i values_i a(θ_c·x_i), θ the points of the leaves, x the few.

    rows (n_few, M): values_i μ(x_i);  sums (n_roots, n_levels, M), columns (n_roots, ., p, DATA),
    given (n_roots, ., DATA), answers (n_roots, LEAF): scratch
    """
    if len(far) + LEAF * len(near) < SMALL // 4:
        for r in range(len(roots) - 1):
            down_root(
                r, activation, first, last, level, roots, far_start, far, near_start, near, leaves,
                few, values, rows, sums[r], columns[r], given[r], answers[r], order, out,
            )  # fmt: skip
    else:
        for r in prange(len(roots) - 1):
            down_root(  # an int64, as above: else it is compiled twice
                np.int64(r), activation, first, last, level, roots, far_start, far, near_start,
                near, leaves, few, values, rows, sums[r], columns[r], given[r], answers[r], order,
                out,
            )  # fmt: skip


@njit(cache=True)
def up_root(
    r, activation, first, last, level, roots, upward, far_start, far, near_start, near, columns,
    few, moments, values, order, given, sums, points, answer, partial,
):  # fmt: skip
    """partial = Σ over the points below root r; the arrays of `up`."""
    nothing = np.zeros((0, TILE))
    # all at once: a leaf would wait for its own to come from memory
    begin, flat = first[roots[r]], given.reshape(-1)
    start, whole = begin * LEAF, last[roots[r]] * LEAF
    stop = min(len(order), whole)
    for c in range(start, stop):
        flat[c - start] = values[order[c]]
    flat[stop - start : whole - start] = 0.0
    for i in range(len(partial)):
        partial[i] = 0.0
    for d in range(len(sums)):
        for a in range(sums.shape[1]):
            sums[d, a] = 0.0
    for k in upward[roots[r] : roots[r + 1]]:
        total, leaf = sums[level[k] + 1], first[k]
        if last[k] - leaf == 1:
            own = given[leaf - begin]
            sum_moments(activation, own, columns[leaf], total)
            data = near[near_start[leaf] : near_start[leaf + 1]]
            for a in range(few.shape[0]):
                for e in range(len(data)):
                    points[a, e] = few[a, data[e]]
            for e in range(len(data)):
                answer[e] = 0.0
            for e in range(0, len(data), TILE):
                gradient_tile(activation, points[:, e:], columns[leaf], own, answer[e:], nothing)
            for e in range(len(data)):
                partial[data[e]] += answer[e]
        met = far[far_start[k] : far_start[k + 1]]
        if sums.shape[1] == 3:  # on S², most often
            m0, m1, m2 = total[0], total[1], total[2]
            for i in met:
                partial[i] += m0 * moments[i, 0] + m1 * moments[i, 1] + m2 * moments[i, 2]
        else:
            for i in met:
                value = 0.0
                for a in range(sums.shape[1]):
                    value += total[a] * moments[i, a]
                partial[i] += value
        for a in range(sums.shape[1]):
            sums[level[k], a] += total[a]
            total[a] = 0.0


@njit(parallel=True, cache=True)
def up(
    activation, first, last, level, roots, upward, far_start, far, near_start, near, columns, few,
    moments, values, order, given, sums, points, answers, partial, few_order, out,
):  # fmt: skip
    """out_i = Σ_c values_c a(θ_c·x_i), summed below each root, then over the roots in order.

    given (n_roots, n_leaves, LEAF / DATA, DATA), sums (n_roots, n_levels, M), points (n_roots, p,
    .), answers (n_roots, .), partial (n_roots, n_few): scratch
    """
    if len(far) + LEAF * len(near) < SMALL // 4:
        for r in range(len(roots) - 1):
            up_root(
                r, activation, first, last, level, roots, upward, far_start, far, near_start, near,
                columns, few, moments, values, order, given[r], sums[r], points[r], answers[r],
                partial[r],
            )  # fmt: skip
    else:
        for r in prange(len(roots) - 1):
            up_root(
                np.int64(r), activation, first, last, level, roots, upward, far_start, far,
                near_start, near, columns, few, moments, values, order, given[r], sums[r],
                points[r], answers[r], partial[r],
            )  # fmt: skip
    for i in range(len(out)):
        total = 0.0
        for r in range(len(partial)):
            total += partial[r, i]
        out[few_order[i]] = total
