"""A binary tree over points, caps that hold its nodes, and which great circles cut them."""

import numpy as np

from ..arguments import Floats, Integers
from ..compiled import njit
from .dense import TILE
from .parallel_loops import divided_loop

# points in a leaf, whole tiles: shorter ones have longer lists, longer ones sum more pairs
LEAF = 32
ROOTS = 5  # levels of halving down to the roots: each root is summed in order by one thread


def directions(points: Floats) -> Floats:
    """Unit vectors (n, p) of points (n, p); zero where they are zero."""
    return np.divide(
        points,
        length := np.linalg.norm(points, axis=1, keepdims=True),
        out=np.zeros_like(points),
        where=length > 0.0,
    )


@njit(cache=True)
def exchange(values, items, i, j):
    """Exchange two entries of both arrays."""
    values[i], values[j] = values[j], values[i]
    items[i], items[j] = items[j], items[i]


@njit(cache=True)
def partition(values, items, k):
    """Reorder values (n,), and items (n,) alike, so that none before entry k is larger than it and
    none after it is smaller.

    Quickselect by the median of three, the steps of Numba's np.argpartition, which takes five
    seconds to compile.
    """
    low, high = 0, len(values) - 1
    while True:
        middle = (low + high) >> 1
        if values[middle] < values[low]:
            exchange(values, items, low, middle)
        if values[high] < values[middle]:
            exchange(values, items, high, middle)
        if values[middle] < values[low]:
            exchange(values, items, low, middle)
        pivot = values[middle]
        exchange(values, items, high, middle)
        i, j = low, high - 1
        while True:
            while i < high and values[i] < pivot:
                i += 1
            while j >= low and pivot < values[j]:
                j -= 1
            if i >= j:
                break
            exchange(values, items, i, j)
            i, j = i + 1, j - 1
        exchange(values, items, i, high)
        if i == k:
            return
        low, high = (i + 1, high) if i < k else (low, i - 1)


@njit(cache=True)
def bisected(units, size):
    """An order (n,) of unit vectors (n, p) in which the leaves 0 … size−1, size … 2 size−1, … and
    all nodes are compact.

    Every node is cut across the axis along which it spreads most.
    """
    n, p = units.shape
    order = np.arange(n)
    stack = [(0, n)]
    while len(stack) > 0:
        start, stop = stack.pop()
        leaves = -(-(stop - start) // size)
        if leaves < 2:
            continue
        widest, along = -1.0, 0
        for a in range(p):
            low, high = np.inf, -np.inf
            for i in order[start:stop]:
                low, high = min(low, units[i, a]), max(high, units[i, a])
            if high - low > widest:
                widest, along = high - low, a
        middle = start + (leaves + 1) // 2 * size
        partition(units[order[start:stop], along], order[start:stop], middle - start)
        stack.append((start, middle))
        stack.append((middle, stop))
    return order


@njit(cache=True)
def tree_of(n_leaves):
    """The nodes below the top of the tree, each before its children: first and last leaf + 1, level
    below the root, roots.

    Returns first, last, level (n_nodes,) and the first node of each root, closed by n_nodes.
    """
    first, last, level, roots = [0], [0], [0], [0]
    first.clear(), last.clear(), level.clear(), roots.clear()
    stack = [(0, n_leaves, 0)]
    while len(stack) > 0:
        a, b, depth = stack.pop()
        whole = b - a == 1
        if depth == ROOTS or whole and depth < ROOTS:
            roots.append(len(first))
        if depth >= ROOTS or whole:
            first.append(a), last.append(b), level.append(max(0, depth - ROOTS))
        if not whole:
            middle = a + (b - a + 1) // 2
            stack.append((middle, b, depth + 1))
            stack.append((a, middle, depth + 1))
    roots.append(len(first))
    return np.array(first), np.array(last), np.array(level), np.array(roots)


@njit(cache=True)
def upward(level, roots):
    """The nodes (n_nodes,) below each root, each after its children, and leaves as they lie in
    memory."""
    order, stack = np.zeros(len(level), dtype=np.int64), np.zeros(len(level), dtype=np.int64)
    found = 0
    for r in range(len(roots) - 1):
        height = 0
        for k in range(roots[r], roots[r + 1]):
            while height > 0 and level[stack[height - 1]] >= level[k]:
                height -= 1
                order[found] = stack[height]
                found += 1
            stack[height] = k
            height += 1
        while height > 0:
            height -= 1
            order[found] = stack[height]
            found += 1
    return order


def above(
    tree: tuple[Integers, Integers, Integers, Integers], leaves: slice
) -> tuple[Integers, Integers, Integers, Integers]:
    """The part of a tree that is above some of its leaves, a slice."""
    first, last, level, roots = tree
    kept = np.flatnonzero((first < leaves.stop) & (last > leaves.start))
    return first[kept], last[kept], level[kept], np.unique(np.searchsorted(kept, roots))


def lists_of(
    tree: tuple[Integers, Integers, Integers, Integers],
    leaves: Floats,
    many: Floats,
    few: Floats,
    linear: bool,
) -> tuple[Integers, Integers, Integers, Integers]:
    """Which of the few meet which nodes of a tree: far_start (n_nodes + 1,), far, near_start
    (n_leaves + 1,), near.

    tree : of `tree_of`;  leaves : the points (n_leaves, p, LEAF), many (n, p) in their order;  few
        : (n_few, p)
    linear : whether all is far, as for a φ that has no other side
    The lists of all nodes, and of all leaves, one after the other. Near lists are padded to whole
    tiles with the index n_few.
    """
    first, last = tree[:2]
    caps = np.zeros((len(first), many.shape[1])), np.zeros(len(first))
    caps_of(len(first), many.size, directions(many), first, last, *caps)
    far_start, near_start = (
        np.zeros(len(first) + 1, dtype=np.int64),
        np.zeros(len(leaves) + 1, dtype=np.int64),
    )
    far, near = np.zeros(0, dtype=np.uint32), np.zeros(0, dtype=np.uint32)
    for fill in (False, True):
        list_data(
            len(tree[3]) - 1, many.size, fill, linear, *tree, *caps, leaves, len(many), few,
            far_start, far, near_start, near,
        )  # fmt: skip
        if not fill:
            np.cumsum(far_start, out=far_start)
            np.cumsum(-(-near_start // TILE) * TILE, out=near_start)
            far, near = (
                np.zeros(far_start[-1], dtype=np.uint32),
                np.full(near_start[-1], len(few), dtype=np.uint32),
            )
    return far_start, far, near_start, near


@divided_loop()
def caps_of(begin, end, units, first, last, centers, radii):
    """Centre (n_nodes, p) and radius, as a chord (n_nodes,), of a cap that holds a node's unit
    vectors, written where there are zeros."""
    n, p = units.shape
    for k in range(begin, end):
        start, stop = first[k] * LEAF, min(n, last[k] * LEAF)
        for i in range(start, stop):
            for a in range(p):
                centers[k, a] += units[i, a]
        length = np.sqrt(np.sum(centers[k] ** 2))
        for a in range(p):
            centers[k, a] /= length if length > 0.0 else 1.0
        for i in range(start, stop):
            chord = 0.0
            for a in range(p):
                chord += (units[i, a] - centers[k, a]) ** 2
            radii[k] = max(radii[k], np.sqrt(chord))


@divided_loop()
def list_data(
    begin,
    end,
    fill,
    linear,
    first,
    last,
    level,
    roots,
    centers,
    radii,
    leaves,
    n,
    few,
    far_start,
    far,
    near_start,
    near,
):
    """Count the data of every list under some of the roots, or fill the lists: see lists_of."""
    n_few, p = few.shape
    norms = np.zeros(n_few)
    for i in range(n_few):
        for a in range(p):
            norms[i] += few[i, a] ** 2
        norms[i] = np.sqrt(norms[i])
    for r in range(begin, end):
        depth = level[roots[r] : roots[r + 1]].max() + 2
        undecided, count = np.zeros((depth, n_few), dtype=np.int32), np.zeros(depth, dtype=np.int64)
        for i in range(n_few):
            undecided[0, i] = i
        count[0] = n_few
        for k in range(roots[r], roots[r + 1]):
            above, here, fars, nears, leaf = level[k], level[k] + 1, 0, 0, first[k]
            is_leaf = last[k] - leaf == 1
            count[here] = 0
            for e in range(count[above]):
                i = undecided[above, e]
                low = high = 0.0
                for a in range(p):
                    low += centers[k, a] * few[i, a]
                high = low + radii[k] * norms[i]
                low -= radii[k] * norms[i]
                if is_leaf and low < 0.0 < high and not linear:
                    low, high = np.inf, -np.inf
                    for c in range(min(LEAF, n - leaf * LEAF)):
                        s = 0.0
                        for a in range(p):
                            s += leaves[leaf, a, c] * few[i, a]
                        low, high = min(low, s), max(high, s)
                if low >= 0.0 or linear:
                    if fill:
                        far[far_start[k] + fars] = i
                    fars += 1
                elif high > 0.0 or not high <= 0.0:
                    if not is_leaf:
                        undecided[here, count[here]] = i
                        count[here] += 1
                    elif fill:
                        near[near_start[leaf] + nears] = i
                    nears += is_leaf
            if not fill:
                far_start[k + 1] = fars
                if is_leaf:
                    near_start[leaf + 1] = nears
