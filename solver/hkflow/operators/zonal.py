"""Sums of a zonal kernel over all pairs of points, at the speed of products of matrices:

    J_c = Σ_j m_j K(θ_c·θ_j),   G_c = Σ_j m_j K′(θ_c·θ_j) θ_j,
    K(t) = Σ_k c_k T_k(t) + Σ_i a_i (2 − 2t)^(s_i / 2)

Tiles of DATA sources and all points of a block: the products t, K and K′ on them by Clenshaw's
recurrence, then J and G. What is summed stays in registers, as in `dense`.
"""

from collections.abc import Callable
from typing import Any

from numba import prange, types
from numba.core import cgutils
from numba.extending import intrinsic

from ..compiled import njit
from .dense import CELLS, DATA, INTEGER, TILE, Array, multiply_add, products
from .parallel_loops import parallel_loop
from .powers import LEAST, power, split

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
def _squares(builder: Any, points: Array, sources: Array, out: Array) -> None:
    with cgutils.for_range_slice(builder, INTEGER(0), out.shape[1], INTEGER(2 * out.lanes)) as (
        c,
        _,
    ):
        # LLVM turns this memory into registers
        total = {cell: cgutils.alloca_once_value(builder, out.zero) for cell in CELLS}
        with cgutils.for_range(builder, points.shape[0]) as axis:
            theta = [points.load(axis.index, c, v=v) for v in range(2)]
            x = [sources.broadcast(axis.index, k) for k in range(DATA)]
            for k, v in CELLS:
                step, before = builder.fsub(theta[v], x[k]), builder.load(total[k, v])
                builder.store(multiply_add(builder, step, step, before), total[k, v])
        for k, v in CELLS:
            out.store(builder.load(total[k, v]), k, c, v=v)


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
def square_tile(typing, points, sources, out):
    """out_kc = |θ_c − x_k|², exact to rounding where it is small; the arrays of `product_tile`."""
    return _squares(points, sources, out)


@intrinsic
def chebyshev_tile(typing, series, t, out):
    """out = Σ_k series_k T_k(t); series (n_terms,), t, out (DATA, whole tiles)."""
    return _chebyshev(series, t, out)


@intrinsic
def sum_tile(typing, masses, sources, K, slope, J, G):
    """J_c += Σ_k masses_k K_kc, G_c += Σ_k masses_k slope_kc x_k; the arrays of the others, masses
    (DATA,), J (whole tiles,), G (p, whole tiles) or (0, …)."""
    return _sums(masses, sources, K, slope, J, G)


@njit(cache=True, error_model="numpy", fastmath={"contract"})
def add_powers(powers, used, tile):
    """Add a |θ − x|^s to the value, and its derivative by t to the slope, 0 where θ = x.

    tile : (3 DATA, width) squares of the distances, value and slope, of which `used` columns are
    """
    for i in range(len(powers)):
        strength, s = powers[i]
        leading, rest = split(0.5 * s - 1.0)
        for k in range(DATA):
            squares, value, slope = tile[k], tile[DATA + k], tile[2 * DATA + k]
            for c in range(used):
                square = max(squares[c], LEAST)
                ratio = strength * power(square, leading, rest) if square > LEAST else 0.0
                value[c] += ratio * square
                slope[c] -= ratio * s


@parallel_loop
def pair_sums(series, slopes, powers, points, n, masses, scratch, potential, gradient):
    """J and G of n points that are their own sources, which are summed in order.

    series, slopes : coefficients of K and K′;  powers : (n_powers, 2) rows a, s
    points : (n_blocks, p, width), see operators.dense.blocked;  masses, potential : (n_blocks,
        width), masses 0 on padding;  scratch : (n_blocks, 3 DATA, width)
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
            if len(series) > 1:
                product_tile(own, x, t)
                chebyshev_tile(series, t, value)
            else:
                value[:] = series[0]
            if len(slopes) > 1 and len(G):
                chebyshev_tile(slopes, t, slope)
            else:
                slope[:] = slopes[0]
            if len(powers):
                square_tile(own, x, t)
                add_powers(powers, used, scratch[b])
            sum_tile(masses[source, first : first + DATA], x, value, slope, J, G)
        J[count:], G[:, count:] = 0.0, 0.0
