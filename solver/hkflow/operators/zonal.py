"""Sums of a zonal kernel over all pairs of points, at the speed of products of matrices:

    J_c = Σ_j m_j K(θ_c·θ_j),   G_c = Σ_j m_j K′(θ_c·θ_j) θ_j,
    K(t) = Σ_k c_k T_k(t) + Σ_i a_i (2 − 2t)^(s_i / 2)

Tiles of DATA sources and all points of a block: the products t, K and K′ on them by Clenshaw's
recurrence, then J and G. What is summed stays in registers, as in `dense`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, prange, types
from numba.core import cgutils
from numba.extending import intrinsic

from .dense import CELLS, DATA, INTEGER, TILE, Array, multiply_add, products
from .parallel_loops import parallel_loop

ROWS = 2  # of a tile, whose recurrences run side by side: none waits for its last product
LINEAR_PRODUCTS = types.UniTuple(types.int64, 0)  # what `products` takes for θ·x itself


def _of_arrays(write: Callable) -> Callable:
    """The typing of an intrinsic without a result that writes LLVM's instructions for arrays."""

    def typed(*kinds):
        def generate(context, builder, signature, args):
            pairs = zip(signature.args, args, strict=True)
            write(builder, *(Array(context, builder, kind, value) for kind, value in pairs))
            return context.get_dummy_value()

        return types.void(*kinds), generate

    return typed


@_of_arrays
def _products(builder: Any, points: Array, sources: Array, t: Array) -> None:
    with cgutils.for_range_slice(builder, INTEGER(0), t.shape[1], INTEGER(2 * points.lanes)) as (
        c,
        _,
    ):
        for (k, v), s in products(builder, LINEAR_PRODUCTS, points, c, sources).items():
            t.store(s, k, c, v=v)


@_of_arrays
def _chebyshev(builder: Any, series: Array, t: Array, out: Array) -> None:
    rows, width = INTEGER(ROWS), INTEGER(2 * t.lanes)
    constant, terms = series.broadcast(0), builder.sub(series.shape[0], INTEGER(1))
    with (
        cgutils.for_range_slice(builder, INTEGER(0), t.shape[0], rows) as (first, _),
        cgutils.for_range_slice(builder, INTEGER(0), t.shape[1], width) as (c, _),
    ):
        at = [(builder.add(first, INTEGER(k)), c, v) for k in range(ROWS) for v in range(2)]
        x = [t.load(*index, v=v) for *index, v in at]
        two = [builder.fadd(one, one) for one in x]
        b, old = ([cgutils.alloca_once(builder, t.whole) for _ in at] for _ in range(2))
        for one in (*b, *old):
            builder.store(t.zero, one)
        with cgutils.for_range(builder, terms) as term:
            coefficient = series.broadcast(builder.sub(terms, term.index))
            for i in range(len(at)):
                now = builder.load(b[i])
                rest = builder.fsub(coefficient, builder.load(old[i]))
                builder.store(now, old[i])
                builder.store(multiply_add(builder, two[i], now, rest), b[i])
        for i, (*index, v) in enumerate(at):
            rest = builder.fsub(constant, builder.load(old[i]))
            out.store(multiply_add(builder, x[i], builder.load(b[i]), rest), *index, v=v)


@_of_arrays
def _sums(
    builder: Any, masses: Array, sources: Array, K: Array, slope: Array, J: Array, G: Array
) -> None:
    mass = [masses.broadcast(k) for k in range(DATA)]
    with cgutils.for_range_slice(builder, INTEGER(0), K.shape[1], INTEGER(2 * K.lanes)) as (c, _):
        total = [J.load(c, v=v) for v in range(2)]
        for k, v in CELLS:
            total[v] = multiply_add(builder, mass[k], K.load(k, c, v=v), total[v])
        for v in range(2):
            J.store(total[v], c, v=v)
        weighted = {(k, v): builder.fmul(mass[k], slope.load(k, c, v=v)) for k, v in CELLS}
        with cgutils.for_range(builder, G.shape[0]) as axis:
            total = [G.load(axis.index, c, v=v) for v in range(2)]
            x = [sources.broadcast(axis.index, k) for k in range(DATA)]
            for k, v in CELLS:
                total[v] = multiply_add(builder, weighted[k, v], x[k], total[v])
            for v in range(2):
                G.store(total[v], axis.index, c, v=v)


@intrinsic
def product_tile(typing, points, sources, t):
    """t_kc = θ_c·x_k; points (p, whole tiles), sources (p, DATA), t (DATA, whole tiles)."""
    return _products(points, sources, t)


@intrinsic
def chebyshev_tile(typing, series, t, out):
    """out = Σ_k series_k T_k(t); series (n_terms,), t, out (DATA, whole tiles)."""
    return _chebyshev(series, t, out)


@intrinsic
def sum_tile(typing, masses, sources, K, slope, J, G):
    """J_c += Σ_k masses_k K_kc, G_c += Σ_k masses_k slope_kc x_k; the arrays of the others, masses
    (DATA,), J (whole tiles,), G (p, whole tiles) or (0, …)."""
    return _sums(masses, sources, K, slope, J, G)


@njit(cache=True, error_model="numpy")
def add_powers(powers, points, sources, square, value, slope):
    """Add a |θ − x|^s to the value, and its derivative by t to the slope, 0 where θ = x; points (p,
    n), sources (p, DATA), square (n,), value, slope (DATA, n). Distances, s = 1, need no power
    function, which takes one number at a time."""
    for k in range(len(value)):
        for c in range(len(square)):
            square[c] = 0.0
        for a in range(len(points)):
            for c in range(len(square)):
                square[c] += (points[a, c] - sources[a, k]) ** 2
        for i in range(len(powers)):
            strength, s = powers[i]
            for c in range(len(square) if s == 1.0 else 0):
                distance = np.sqrt(square[c])
                value[k, c] += strength * distance
                slope[k, c] -= strength / distance if square[c] > 0.0 else 0.0
            for c in range(len(square) if s != 1.0 else 0):
                if square[c] > 0.0:
                    power = strength * square[c] ** (0.5 * s)
                    value[k, c] += power
                    slope[k, c] -= s * power / square[c]


@parallel_loop
def pair_sums(series, slopes, powers, points, n, masses, scratch, potential, gradient):
    """J and G of n points that are their own sources, which are summed in order.

    series, slopes : coefficients of K and K′;  powers : (n_powers, 2) rows a, s
    points : (n_blocks, p, width), see operators.dense.blocked;  masses, potential : (n_blocks,
        width), masses 0 on padding;  scratch : (n_blocks, 3 DATA + 1, width)
    gradient : (n_blocks, p, width), or (n_blocks, 0, width) to leave it out
    """
    width = potential.shape[1]
    for b in prange(len(points)):
        count = min(width, n - b * width)
        used = -(-count // TILE) * TILE
        own, J, G = points[b, :, :used], potential[b, :used], gradient[b, :, :used]
        J[:], G[:] = 0.0, 0.0
        t, value, slope = (
            scratch[b, :DATA, :used],
            scratch[b, DATA : 2 * DATA, :used],
            scratch[b, 2 * DATA : 3 * DATA, :used],
        )
        for j in range(0, n, DATA):
            source, first = j // width, j % width
            x = points[source, :, first : first + DATA]
            product_tile(own, x, t)
            chebyshev_tile(series, t, value)
            if len(G):
                chebyshev_tile(slopes, t, slope)
            if len(powers):
                add_powers(powers, own, x, scratch[b, 3 * DATA, :used], value, slope)
            sum_tile(masses[source, first : first + DATA], x, value, slope, J, G)
        J[count:], G[:, count:] = 0.0, 0.0
