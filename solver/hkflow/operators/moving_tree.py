"""Sums over all pairs of points that move and data, exact to rounding, at a fraction of their cost.

a(θ·x) vanishes on one side of the great circle θ·x = 0 and is a polynomial on the other. So all
points of a cap that lies on one side of the circle of a datum meet it through the moments of the
cap, as in operators.tree, and only those of a cap that it cuts are summed in pairs. Here points are
put in order anew wherever they have moved to, along Hilbert's curve through the cube [−1, 1]^p:

    branch: BRANCH leaves that follow each other ── far data: on whose positive side it lies
     ├── leaf: LEAF points that follow each other ── far data: the same, among those that cut the
     │                                              branch; near data: whose circles cut the leaf
     ⋮

The order depends on where the points are and on nothing before, so that a run that goes on from a
checkpoint has the same bits.

Cost: n N / (BRANCH LEAF) for the branches, n N (BRANCH LEAF / N)^(1/d) / LEAF for the leaves, n N
(LEAF / N)^(1/d) for the pairs, for n data and N points on S^d; N for the order.
"""

import numpy as np

from ..arguments import Floats
from .caps import LEAF
from .dense import DATA, LINEAR, SQUARED_RELU, TILE, blocked, gradient_tile, moved
from .distributed import RankSlice
from .operator import check_shape
from .parallel_loops import divided_loop, small_kernel
from .ranks import ALONE, Alone
from .tree import sum_moments

BRANCH = 8  # leaves
GROUPS = 64  # of branches, at most: a group is summed in order by one thread
INDEX = 32  # bits of a key, its lowest, that number the point
DIGIT = 12  # bits by which keys are sorted at a time; a place on the curve has two digits


class MovingTreeOperator:
    """All sums for φ = a(θ·x) with a ReLU or squared ReLU a and points that move.

    points : (n_points, p), kept blocked as `points`, which may be overwritten in place
    inputs : (n_data, p);  activation : RELU or SQUARED_RELU
    ranks : between which sums are shared out: a rank makes h of its data, J and G of its branches
    """

    def __init__(
        self, points: Floats, inputs: Floats, activation: int, ranks: Alone = ALONE
    ) -> None:
        if activation == LINEAR:
            raise ValueError(
                "The tree of points that move is for ReLU and squared ReLU. Take 'dense'."
            )
        (n, p), n_data = points.shape, len(inputs)
        self.activation, self.shape = (0,) * activation, inputs.shape
        self.points = blocked(points)
        self.placed = np.full_like(self.points, np.nan)  # the points that have been put in order
        self.keys, self.sorted = np.zeros((2, n), dtype=np.uint64)
        self.count, self.order = np.zeros(1 << DIGIT, dtype=np.int64), np.zeros(n, dtype=np.uint32)
        n_branches = -(-n // (BRANCH * LEAF))
        self.leaves = np.zeros((n_branches, BRANCH, p, LEAF))
        self.columns = np.zeros((n_branches, BRANCH, LEAF // DATA, p, DATA))  # the same
        self.caps = np.zeros((n_branches, BRANCH + 1, p + 1))
        self.data, self.branches = RankSlice(ranks, n_data), RankSlice(ranks, n_branches)
        self.sums = np.zeros((n_branches, BRANCH, p + 1, LEAF))  # G_1 … G_p | J
        self.complete = self.branches.completion(self.sums)
        self.inputs, self.norms = np.zeros((p, n_data)), np.zeros(n_data)
        self.own_inputs = self.inputs[:, self.data.own].copy()
        self.partial = np.zeros((min(n_branches, GROUPS), self.own_inputs.shape[1]))
        self.set_inputs(inputs)
        self.work = points.size * n_data // LEAF

    def set_inputs(self, inputs: Floats) -> None:
        """Take other data, as many as before; inputs (n_data, p)."""
        check_shape(inputs, self.shape)
        self.inputs[:], self.own_inputs[:] = inputs.T, inputs[self.data.own].T
        np.sqrt(np.einsum("ai,ai->i", self.inputs, self.inputs, out=self.norms), out=self.norms)

    def forward(self, weights: Floats, out: Floats) -> None:
        """h_i = Σ_c weights_c φ(θ_c, x_i); weights (n_points,), out (n_data,)."""
        self._put_in_order()
        self.data.make(self._predict, weights, out)

    def _predict(self, weights, out):
        """h of this rank's data."""
        sum_points(
            len(self.partial), self.work, self.activation, self.columns, self.caps, self.order,
            weights, self.own_inputs, self.norms[self.data.own], self.partial,
        )  # fmt: skip
        np.add.reduce(self.partial, axis=0, out=out)

    def gradient(self, loss_gradient: Floats, potential: Floats, gradient: Floats) -> None:
        """J_c, and G_c = Σ_i loss_gradient_i a'(θ_c·x_i) x_i; potential (n_points,), gradient
        blocked like `points`."""
        self._put_in_order()
        own = self.branches.units
        sum_data(
            own.stop - own.start, self.work, self.activation, self.leaves[own], self.caps[own],
            loss_gradient, self.inputs, self.norms, self.sums[own],
        )  # fmt: skip
        self.complete()
        hand_out(len(self.sums), self.points.size, self.order, self.sums, potential, gradient)
        blocks, _, width = gradient.shape
        gradient[-1, :, len(potential) - (blocks - 1) * width :] = 0.0

    def _put_in_order(self):
        """Sort the points if they have moved."""
        if not moved(self.points.reshape(-1), self.placed.reshape(-1)):
            return
        self.placed[:] = self.points
        size = self.points.size
        place_on_curve(len(self.points), size, self.points, self.keys)
        sort_by_digit(self.keys, INDEX, self.count, self.sorted)
        sort_by_digit(self.sorted, INDEX + DIGIT, self.count, self.keys)
        fill_leaves(
            len(self.leaves),
            size,
            self.points,
            self.keys,
            self.order,
            self.leaves,
            self.columns,
            self.caps,
        )


@small_kernel()
def follow_curve(cells, bits):
    """Turn coordinates (axes, n), whole numbers of so many bits, into places on Hilbert's curve,
    whose bits are dealt out to the axes in turn (Skilling 2004)."""
    axes, n = cells.shape
    first, last, none = cells[0], cells[axes - 1], np.uint32(0)
    for level in range(bits - 1, 0, -1):
        bit = np.uint32(1 << level)
        lower = np.uint32(bit - 1)
        for c in range(n):
            first[c] ^= lower if first[c] & bit else none
        for a in range(1, axes):
            own = cells[a]
            for c in range(n):
                x, y = first[c], own[c]
                swap, on = (x ^ y) & lower, y & bit != 0
                first[c] = x ^ (lower if on else swap)
                own[c] = y if on else y ^ swap
    for a in range(1, axes):
        for c in range(n):
            cells[a, c] ^= cells[a - 1, c]
    for c in range(n):
        flip = none
        for level in range(1, bits):
            bit = np.uint32(1 << level)
            flip ^= np.uint32(bit - 1) if last[c] & bit else none
        for a in range(axes):
            cells[a, c] ^= flip


@divided_loop()
def place_on_curve(begin, end, points, keys):
    """Where each point is on the curve, and which one it is, as one number; points (n_blocks, p,
    width), keys (n,)."""
    n, (_, p, width) = len(keys), points.shape
    axes = min(p, 2 * DIGIT)
    bits = 2 * DIGIT // axes
    half, top = 2.0 ** (bits - 1), 2.0**bits - 1.0
    cells, scale = np.empty((axes, width), dtype=np.uint32), np.empty(width)
    place = np.empty(width, dtype=np.uint32)
    for b in range(begin, end):
        scale[:] = 0.0
        for a in range(p):
            for c in range(width):
                scale[c] += points[b, a, c] ** 2
        for c in range(width):
            scale[c] = half / np.sqrt(scale[c]) if scale[c] > 0.0 else 0.0
        for a in range(axes):
            for c in range(width):
                x = half + points[b, a, c] * scale[c]
                cells[a, c] = np.uint32(x if x < top else top)  # the top for nan as well
        follow_curve(cells, bits)
        place[:] = 0
        for level in range(bits - 1, -1, -1):
            for a in range(axes):
                for c in range(width):
                    place[c] = place[c] << np.uint32(1) | cells[a, c] >> np.uint32(
                        level
                    ) & np.uint32(1)
        for c in range(min(width, n - b * width)):
            keys[b * width + c] = np.uint64(place[c]) << np.uint64(INDEX) | np.uint64(b * width + c)


@small_kernel()
def sort_by_digit(keys, first, count, out):
    """keys (n,) in the order of DIGIT bits from `first` on, and as they were where these are equal,
    into out (n,); count (2**DIGIT,): scratch."""
    shift, mask, start = np.uint64(first), np.uint64(len(count) - 1), 0
    count[:] = 0
    for key in keys:
        count[key >> shift & mask] += 1
    for digit in range(len(count)):
        start, count[digit] = start + count[digit], start
    for key in keys:
        digit = key >> shift & mask
        out[count[digit]] = key
        count[digit] += 1


@small_kernel()
def hold(units, count, chords, cap):
    """Centre and radius, as a chord, of a cap (p + 1,) that holds the first unit vectors (p, ≥
    count); chords (count,): scratch."""
    p, length = len(units), 0.0
    for a in range(p):
        cap[a] = 0.0
        for c in range(count):
            cap[a] += units[a, c]
        length += cap[a] ** 2
    length = np.sqrt(length)
    chords[:count] = 0.0
    for a in range(p):
        cap[a] /= length if length > 0.0 else 1.0
        for c in range(count):
            chords[c] += (units[a, c] - cap[a]) ** 2
    cap[p] = 0.0
    for c in range(count):
        cap[p] = max(cap[p], chords[c])
    cap[p] = np.sqrt(cap[p])


@divided_loop(fastmath={"contract"})
def fill_leaves(begin, end, points, keys, order, leaves, columns, caps):
    """Points (n_blocks, p, width) in the order of their keys (n,) as `order` (n,) and in leaves
    (n_branches, BRANCH, p, LEAF), padded with zeros; caps (n_branches, BRANCH + 1, p + 1) that hold
    a branch's leaves, then itself."""
    n, (_, p, width) = len(keys), points.shape
    units, chords = np.empty((p, BRANCH * LEAF)), np.empty(BRANCH * LEAF)
    for b in range(begin, end):
        start = b * BRANCH * LEAF
        count = min(BRANCH * LEAF, n - start)
        for c in range(BRANCH * LEAF):
            leaf, place, square = c // LEAF, c % LEAF, 0.0
            item = np.uint32(keys[start + c]) if c < count else np.uint32(0)
            block, column = item // width, item % width
            for a in range(p):
                x = points[block, a, column] if c < count else 0.0
                leaves[b, leaf, a, place] = units[a, c] = x
                columns[b, leaf, place // DATA, a, place % DATA] = x
                square += x * x
            scale = 1.0 / np.sqrt(square) if square > 0.0 else 0.0
            for a in range(p):
                units[a, c] *= scale
            if c < count:
                order[start + c] = item
        for leaf in range(BRANCH):
            some = min(LEAF, max(0, count - leaf * LEAF))
            hold(units[:, leaf * LEAF :], some, chords, caps[b, leaf])
        hold(units, count, chords, caps[b, BRANCH])


@small_kernel(fastmath={"contract"})
def meet(cap, inputs, norms, count, clear, hits, near):
    """Which of the first data (p, ≥ count) meet a cap: clear_i > 0 if all of it lies on the
    positive side of datum i; near: those whose circles cut it. Returns how many these are."""
    p = len(inputs)
    for i in range(count):
        clear[i] = cap[0] * inputs[0, i]
    for a in range(1, p):
        for i in range(count):
            clear[i] += cap[a] * inputs[a, i]
    for i in range(count):
        reach = cap[p] * norms[i]
        hits[i] = 0 if abs(clear[i]) > reach else 1  # nan is near
        clear[i] -= reach
    found = 0
    for i in range(count):
        near[found] = i
        found += hits[i]
    return found


@small_kernel(fastmath={"contract"})
def polynomial(activation, total, x, count, out):
    """out_i = total·ω(x_i) for the first columns of x (p, ≥ count): Σ_a total_a x_a, or for squared
    ReLU Σ_ab total_ab x_a x_b, each pair once in `total`."""
    p, k = len(x), 0
    for i in range(count):
        out[i] = 0.0
    for a in range(p):
        if len(activation) == SQUARED_RELU:
            for b in range(a, p):
                factor = total[k] if a == b else 2.0 * total[k]
                for i in range(count):
                    out[i] += factor * x[a, i] * x[b, i]
                k += 1
        else:
            for i in range(count):
                out[i] += total[a] * x[a, i]


@small_kernel(fastmath={"reassoc", "contract"})
def add_moments(activation, clear, given, x, count, far, total):
    """total += Σ given_i ω(x_i) over the far ones of the first data x (p, ≥ count); far (≥ count,):
    scratch."""
    p, k = len(x), 0
    for i in range(count):
        far[i] = given[i] if clear[i] > 0.0 else 0.0
    for a in range(p):
        for b in range(a, p if len(activation) == SQUARED_RELU else a + 1):
            moment = 0.0
            if len(activation) == SQUARED_RELU:
                for i in range(count):
                    moment += far[i] * x[a, i] * x[b, i]
            else:
                for i in range(count):
                    moment += far[i] * x[a, i]
            total[k] += moment
            k += 1


@divided_loop()
def sum_points(
    begin, end, activation, columns, caps, order, weights, inputs, norms, partial
):  # fmt: skip
    """partial[g] = Σ_c weights_c a(θ_c·x_i) over the points of group g of branches, the arrays of
    fill_leaves; inputs (p, n_data), norms (n_data,) their lengths, partial (n_groups, n_data)."""
    (p, n), n_branches, n_points = inputs.shape, len(columns), len(order)
    padded = -(-n // TILE) * TILE
    clear, value, sums, some_norms = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    some, points, answer = np.empty((p, n)), np.empty((p, padded)), np.empty(padded)
    nothing = np.empty((0, TILE))
    cut, near = np.empty(n + 1, dtype=np.uint32), np.empty(n + 1, dtype=np.uint32)
    hits = np.empty(n, dtype=np.uint8)
    given = np.zeros((BRANCH, LEAF // DATA, DATA))
    n_moments = p * (p + 1) // 2 if len(activation) == SQUARED_RELU else p
    totals, total = np.zeros((BRANCH, n_moments)), np.zeros(n_moments)
    for g in range(begin, end):
        partial[g] = 0.0
        for b in range(g * n_branches // len(partial), (g + 1) * n_branches // len(partial)):
            n_cut = meet(caps[b, BRANCH], inputs, norms, n, clear, hits, cut)
            total[:] = 0.0
            for leaf in range(BRANCH):
                for c in range(LEAF):
                    k = (b * BRANCH + leaf) * LEAF + c
                    given[leaf, c // DATA, c % DATA] = weights[order[k]] if k < n_points else 0.0
                sum_moments(activation, given[leaf], columns[b, leaf], totals[leaf])
                for k in range(n_moments):
                    total[k] += totals[leaf, k]
            polynomial(activation, total, inputs, n, value)
            for i in range(n):
                partial[g, i] += value[i] if clear[i] > 0.0 else 0.0
            for e in range(n_cut):
                some_norms[e], sums[e] = norms[cut[e]], 0.0
            for a in range(p):
                for e in range(n_cut):
                    some[a, e] = inputs[a, cut[e]]
            for leaf in range(BRANCH):
                n_near = meet(caps[b, leaf], some, some_norms, n_cut, clear, hits, near)
                polynomial(activation, totals[leaf], some, n_cut, value)
                for e in range(n_cut):
                    sums[e] += value[e] if clear[e] > 0.0 else 0.0
                for a in range(p):
                    for e in range(n_near):
                        points[a, e] = some[a, near[e]]
                answer[:n_near] = 0.0
                for e in range(0, n_near, TILE):
                    gradient_tile(
                        activation,
                        points[:, e:],
                        columns[b, leaf],
                        given[leaf],
                        answer[e:],
                        nothing,
                    )
                for e in range(n_near):
                    sums[near[e]] += answer[e]
            for e in range(n_cut):
                partial[g, cut[e]] += sums[e]


@divided_loop()
def sum_data(begin, end, activation, leaves, caps, loss_gradient, inputs, norms, sums):
    """J_c = Σ_i loss_gradient_i a(θ_c·x_i) and its gradient at the points of branches, the arrays
    of sum_points, as sums (n_branches, BRANCH, p + 1, LEAF): the gradient, then J."""
    p, n = inputs.shape
    blocks = -(-n // DATA)
    clear, far, some_norms, some_given = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    some, columns, given = np.empty((p, n)), np.empty((blocks, p, DATA)), np.empty((blocks, DATA))
    # near lists are read in whole tiles
    cut, near = np.zeros(n + 1, dtype=np.uint32), np.zeros(n + TILE, dtype=np.uint32)
    hits = np.empty(n, dtype=np.uint8)
    n_moments = p * (p + 1) // 2 if len(activation) == SQUARED_RELU else p
    whole, total = np.zeros(n_moments), np.zeros(n_moments)
    for b in range(begin, end):
        n_cut = meet(caps[b, BRANCH], inputs, norms, n, clear, hits, cut)
        whole[:] = 0.0
        add_moments(activation, clear, loss_gradient, inputs, n, far, whole)
        for e in range(n_cut):
            some_norms[e], some_given[e] = norms[cut[e]], loss_gradient[cut[e]]
        for a in range(p):
            for e in range(n_cut):
                some[a, e] = inputs[a, cut[e]]
        for leaf in range(BRANCH):
            n_near = meet(caps[b, leaf], some, some_norms, n_cut, clear, hits, near)
            for a in range(len(total)):
                total[a] = whole[a]
            add_moments(activation, clear, some_given, some, n_cut, far, total)
            points, J, G = leaves[b, leaf], sums[b, leaf, p], sums[b, leaf, :p]
            polynomial(activation, total, points, LEAF, J)
            slopes(activation, total, points, G)
            blocks = -(-n_near // DATA)
            for o in range(blocks):
                for lane in range(DATA):
                    given[o, lane] = some_given[near[o * DATA + lane]]
                for a in range(p):
                    for lane in range(DATA):
                        columns[o, a, lane] = some[a, near[o * DATA + lane]]
            for e in range(n_near, blocks * DATA):
                given[e // DATA, e % DATA] = 0.0
            for c in range(0, LEAF, TILE):
                gradient_tile(
                    activation, points[:, c:], columns[:blocks], given[:blocks], J[c:], G[:, c:]
                )


@small_kernel(fastmath={"contract"})
def slopes(activation, total, points, out):
    """The gradient of `polynomial` at the points (p, LEAF) of a leaf, into out (p, LEAF)."""
    p, k = len(points), 0
    for a in range(p):
        for c in range(LEAF):
            out[a, c] = 0.0 if len(activation) == SQUARED_RELU else total[a]
    if len(activation) == SQUARED_RELU:
        for a in range(p):
            for b in range(a, p):
                for c in range(LEAF):
                    out[a, c] += 2.0 * total[k] * points[b, c]
                    if b > a:
                        out[b, c] += 2.0 * total[k] * points[a, c]
                k += 1


@divided_loop()
def hand_out(begin, end, order, sums, potential, gradient):
    """J and G of branches (n_branches, BRANCH, p + 1, LEAF) to potential (n,) and gradient
    (n_blocks, p, width), each to its point."""
    n, (_, p, width) = len(order), gradient.shape
    for k in range(begin * BRANCH * LEAF, min(n, end * BRANCH * LEAF)):
        b, leaf, c, item = k // (BRANCH * LEAF), k // LEAF % BRANCH, k % LEAF, order[k]
        potential[item] = sums[b, leaf, p, c]
        for a in range(p):
            gradient[item // width, a, item % width] = sums[b, leaf, a, c]
