"""Sums over all pairs of points and data, at cost n_points × n_data.

forward   h_i = Σ_c weights_c φ(θ_c, x_i)        adjoint   J_c = Σ_i loss_gradient_i φ(θ_c, x_i)
gradient  J_c and G_c = Σ_i loss_gradient_i ∇φ(θ_c, x_i), the gradient in θ_c
"""

from itertools import product
from typing import Any

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import prange, types
from numba.core import cgutils
from numba.extending import intrinsic

from ..arguments import Floats
from ..compiled import njit
from .operator import check_shape
from .parallel_loops import parallel_loop, small_kernel

LINEAR, RELU, SQUARED_RELU = 0, 1, 2

# The products s = θ_c·x_i are summed over the axes a in tiles of 2 LANES points × DATA data that
# stay in registers:
#
#                           points[b, a, c : c + LANES]    points[b, a, c + LANES : c + 2 LANES]
#     columns[o, a, 0]              s[0, 0]                          s[0, 1]
#           ⋮                          ⋮                                ⋮
#     columns[o, a, DATA - 1]    s[DATA - 1, 0]                   s[DATA - 1, 1]
#
# AVX-512 has 32 registers of eight numbers; other processors hold at least 16 registers of four;
# twice as many if single.
LANES = DATA = 8 if llvmlite.binding.get_host_cpu_features().get("avx512f") else 4
TILE = 2 * LANES
GROUPS = 64  # groups of blocks of points, at most: a group is summed in order by one thread
SMALL = 200_000  # multiplications below which a second thread costs more than it brings
# numbers of `columns` read again and again before the next ones: they stay in the cache
CHUNK = 32_768
# pairs of a point and a datum whose signs are kept: fewer cost less than asking whether points have
# moved; more need over 64 MiB
FEWEST_MARKED, MOST_MARKED = 1 << 15, 1 << 29
MARK_BITS = 8  # the numbers of a vector, at most, whose signs a mark holds


def width_for(n: int, tile: int = TILE) -> int:
    """Width of the blocks for n points: a multiple of the tile at most 128, that makes at least 16
    blocks where it can."""
    return min(128, max(1, n // (16 * tile)) * tile)


def blocked(points: Floats, width: int | None = None) -> Floats:
    """Points (n, p) as (n_blocks, p, width): coordinate a of point c is entry [c // width, a, c %
    width]; padded with zeros."""
    n, p = points.shape
    width = width or width_for(n)
    padded = np.zeros((-(-n // width) * width, p))
    padded[:n] = points
    return np.ascontiguousarray(padded.reshape(-1, width, p).swapaxes(1, 2))


def unblocked(blocks: Floats, n: int) -> Floats:
    """The first n points of a blocked array, (n, p)."""
    return np.ascontiguousarray(blocks.swapaxes(1, 2).reshape(-1, blocks.shape[1])[:n])


def check_width(width: int, tile: int) -> None:
    """Raise ValueError unless blocks are whole tiles."""
    if width % tile:
        raise ValueError(
            f"Blocks must be a multiple of {tile} points wide, got {width}. Take blocked(points)."
        )


class DenseOperator:
    """All sums for φ = a(θ·x) with a built-in activation a; φ is computed on the fly, never stored.

    points : (n_points, p), or blocked with a width that TILE divides: then kept as `points`, which
        may be overwritten in place
    inputs : (n_data, p);  activation : LINEAR, RELU or SQUARED_RELU
    single : whether sums over points, or data, are made in float32: twice as fast, exact to about
        1e-6
    """

    def __init__(
        self, points: Floats, inputs: Floats, activation: int, single: bool = False
    ) -> None:
        kind, tile = (np.float32, 2 * TILE) if single else (np.float64, TILE)
        self.points = (
            points if points.ndim == 3 else blocked(points, width_for(len(points), tile))
        ).astype(kind, copy=False)
        B, p, width = self.points.shape
        check_width(width, tile)
        self.activation = (0,) * activation  # compiled anew for each activation
        self.shape = inputs.shape
        self.columns = np.zeros((-(-len(inputs) // DATA), p, DATA), kind)
        self.loss_gradient = np.zeros((len(self.columns), DATA), kind)
        self.weights, self.potential, self.nothing = (
            np.zeros(shape, kind) for shape in ((B, width), (B, width), (B, 0, width))
        )
        self.partial = np.zeros((min(B, GROUPS), len(self.columns), DATA), kind)
        # which products θ·x are positive, a bit each, and at which points: those of the last
        # `forward`. Made with the first gradient, which points that stay never want
        self.marks = self.no_marks = np.zeros((B, 0, len(self.columns), 2 * DATA), np.uint8)
        self.marked = np.zeros(0)
        self.set_inputs(inputs)

    def set_inputs(self, inputs: Floats) -> None:
        """Take other data, as many as before; inputs (n_data, p)."""
        check_shape(inputs, self.shape)
        self.marked[:] = np.nan
        (n_data, p), rest = inputs.shape, len(inputs) % DATA
        whole = n_data // DATA
        self.columns[:whole] = inputs[: n_data - rest].reshape(whole, DATA, p).swapaxes(1, 2)
        if rest:
            self.columns[-1, :, :rest] = inputs[-rest:].T

    def forward(self, weights: Floats, out: Floats) -> None:
        """h_i = Σ_c weights_c φ(θ_c, x_i); weights (n_points,), out (n_data,)."""
        self.weights.reshape(-1)[: len(weights)] = weights
        self._loop(dense_forward, len(weights))(
            self.activation,
            self.points,
            self.columns,
            self.weights,
            len(weights),
            self.partial,
            self.marks,
            out,
        )
        if self.marked.size:
            self.marked[:] = self.points

    def adjoint(self, loss_gradient: Floats, out: Floats) -> None:
        """J_c = Σ_i loss_gradient_i φ(θ_c, x_i); loss_gradient (n_data,), out (n_points,)."""
        self.gradient(loss_gradient, out, self.nothing)

    def gradient(self, loss_gradient: Floats, potential: Floats, gradient: Floats) -> None:
        """J_c, and G_c = Σ_i loss_gradient_i a'(θ_c·x_i) x_i; potential (n_points,), gradient
        blocked like `points`."""
        self.loss_gradient.reshape(-1)[: len(loss_gradient)] = loss_gradient
        self._loop(dense_gradient, len(potential))(
            self.activation,
            self.points,
            self.columns,
            self.loss_gradient,
            len(potential),
            len(self.partial),
            self._marks(gradient.shape[1], len(loss_gradient) * len(potential)),
            self.potential,
            gradient,
        )
        potential[:] = self.potential.reshape(-1)[: len(potential)]

    def _marks(self, wanted, pairs):
        """The marks of the points as they are, or none; room for those of the next `forward`."""
        if (
            not wanted
            or len(self.activation) != RELU
            or not (FEWEST_MARKED <= pairs <= MOST_MARKED)
        ):
            return self.no_marks
        if not self.marked.size:
            B, p, width = self.points.shape
            self.marks = np.zeros((B, width // TILE, len(self.columns), 2 * DATA), np.uint8)
            self.marked = np.full((B, p, width), np.nan)
        if moved(self.points.reshape(-1), self.marked.reshape(-1)):
            return self.no_marks
        return self.marks

    def _loop(self, compiled, n):
        return compiled.serial if n * self.columns.size < SMALL else compiled.parallel


# The tiles are written in LLVM's instructions: its own vectorised loops keep nothing in registers
# from one pass to the next.

INTEGER = ir.IntType(64)
CELLS = tuple(product(range(DATA), range(2)))


class Array:
    """An array among the arguments of an intrinsic. Index v counts vectors from the entry on: LANES
    float64, 2 LANES float32."""

    def __init__(self, context: Any, builder: Any, kind: Any, value: Any) -> None:
        if kind.dtype not in (types.float64, types.float32):
            raise TypeError(
                f"The dense operator wants arrays of float64, got {kind.dtype}. Convert them with"
                " .astype(float)."
            )
        self.lanes = LANES * 64 // kind.dtype.bitwidth
        self.whole = ir.VectorType(context.get_data_type(kind.dtype), self.lanes)
        self.zero = self.whole([0.0] * self.lanes)
        self.context, self.builder, self.kind = context, builder, kind
        self.array = context.make_array(kind)(context, builder, value)
        self.shape = cgutils.unpack_tuple(builder, self.array.shape)

    def entry(self, *index: Any) -> Any:
        at = [INTEGER(i) if isinstance(i, int) else i for i in index]
        return cgutils.get_item_pointer(self.context, self.builder, self.kind, self.array, at)

    def vector(self, *index: Any, v: int) -> Any:
        return self.builder.gep(
            self.builder.bitcast(self.entry(*index), self.whole.as_pointer()), [INTEGER(v)]
        )

    def load(self, *index: Any, v: int = 0) -> Any:
        return self.builder.load(self.vector(*index, v=v), align=4)

    def store(self, vector: Any, *index: Any, v: int = 0) -> None:
        self.builder.store(vector, self.vector(*index, v=v), align=4)

    def broadcast(self, *index: Any) -> Any:
        return self.filled(self.builder.load(self.entry(*index)))

    def filled(self, number: Any) -> Any:
        one = self.builder.insert_element(self.zero, number, INTEGER(0))
        return self.builder.shuffle_vector(
            one, one, ir.VectorType(ir.IntType(32), self.lanes)([0] * self.lanes)
        )

    def sum_of(self, vector: Any) -> Any:
        """The sum of a vector's numbers, in a tree."""
        number = self.whole.element
        name = f"llvm.vector.reduce.fadd.v{self.lanes}f{64 * LANES // self.lanes}"
        reduce = cgutils.get_or_insert_function(
            self.builder.module, ir.FunctionType(number, (number, self.whole)), name
        )
        return self.builder.call(reduce, (number(-0.0), vector), fastmath=("reassoc",))


def multiply_add(builder: Any, x: Any, y: Any, z: Any) -> Any:
    """x y + z, rounded once where the processor can."""
    return builder.fadd(builder.fmul(x, y, flags=("contract",)), z, flags=("contract",))


def products(
    builder: Any, activation: Any, points: Array, c: Any, columns: Array, *o: Any
) -> dict[tuple[int, int], Any]:
    """The tile at point c, {(k, v): vector of θ·x_k}, or of (θ·x_k)₊ if the activation is not
    linear; nan stays nan."""
    # LLVM turns this memory into registers
    s = {cell: cgutils.alloca_once_value(builder, points.zero) for cell in CELLS}
    with cgutils.for_range(builder, points.shape[0]) as axis:
        theta = [points.load(axis.index, c, v=v) for v in range(2)]
        x = [columns.broadcast(*o, axis.index, k) for k in range(DATA)]
        for k, v in CELLS:
            builder.store(multiply_add(builder, theta[v], x[k], builder.load(s[k, v])), s[k, v])
    s = {cell: builder.load(s[cell]) for cell in CELLS}
    if activation.count == LINEAR:
        return s
    return {
        cell: builder.select(builder.fcmp_ordered("<", s[cell], points.zero), points.zero, s[cell])
        for cell in CELLS
    }


class Marks:
    """An array of marks among the arguments of an intrinsic: for each tile those of its vectors, in
    the order of CELLS."""

    def __init__(self, context: Any, builder: Any, kind: Any, value: Any) -> None:
        self.context, self.builder, self.kind = context, builder, kind
        self.mark = ir.IntType(MARK_BITS)
        self.array = context.make_array(kind)(context, builder, value)
        self.there = builder.icmp_signed(
            ">", cgutils.unpack_tuple(builder, self.array.shape)[0], INTEGER(0)
        )

    def entry(self, tile: Any, data: Any, cell: int) -> Any:
        return cgutils.get_item_pointer(
            self.context, self.builder, self.kind, self.array, [tile, data, INTEGER(cell)]
        )

    def store(self, positive: Any, tile: Any, data: Any, cell: int) -> None:
        lanes = positive.type.count
        bits = self.builder.bitcast(positive, ir.IntType(lanes))
        mark = bits if lanes == MARK_BITS else self.builder.zext(bits, self.mark)
        self.builder.store(mark, self.entry(tile, data, cell))

    def load(self, tile: Any, data: Any, cell: int, lanes: int) -> Any:
        mark = self.builder.load(self.entry(tile, data, cell))
        bits = mark if lanes == MARK_BITS else self.builder.trunc(mark, ir.IntType(lanes))
        return self.builder.bitcast(bits, ir.VectorType(ir.IntType(1), lanes))


@intrinsic
def forward_tiles(typing, activation, points, columns, weights, marks, o, out):
    """out_k += Σ_c weights_c a(θ_c·x_k); points (p, width), columns (p, DATA), weights (whole
    tiles,), out (DATA,).

    marks (n_tiles, n_data / DATA, 2 DATA): in row o, for ReLU, which θ_c·x_k are positive; nothing
        is written if it is empty
    """

    def write(context, builder, signature, args):
        _, *arrays, kept, (_, row), out = zip(signature.args, args, strict=True)
        points, columns, weights, out = (Array(context, builder, *a) for a in (*arrays, out))
        kept = Marks(context, builder, *kept)
        h = [cgutils.alloca_once_value(builder, points.zero) for _ in range(DATA)]
        with cgutils.for_range_slice(
            builder, INTEGER(0), weights.shape[0], INTEGER(2 * points.lanes)
        ) as (c, _):
            s = products(builder, activation, points, c, columns)
            # numbers of float32, which never move, do not fit a mark
            if activation.count == RELU and points.lanes <= MARK_BITS:
                with builder.if_then(kept.there):
                    tile = builder.udiv(c, INTEGER(2 * points.lanes))
                    for cell, vector in enumerate(s.values()):
                        positive = builder.fcmp_ordered(">", vector, points.zero)
                        kept.store(positive, tile, row, cell)
            weight = [weights.load(c, v=v) for v in range(2)]
            for k, v in CELLS:
                a = builder.fmul(s[k, v], s[k, v]) if activation.count == SQUARED_RELU else s[k, v]
                builder.store(multiply_add(builder, weight[v], a, builder.load(h[k])), h[k])
        for k in range(DATA):
            builder.store(
                builder.fadd(builder.load(out.entry(k)), points.sum_of(builder.load(h[k]))),
                out.entry(k),
            )
        return context.get_dummy_value()

    return types.void(activation, points, columns, weights, marks, types.int64, out), write


@intrinsic
def gradient_tile(typing, activation, points, columns, loss_gradient, potential, gradient):
    """J += Σ_i r_i a(θ·x_i) and G += Σ_i r_i a'(θ·x_i) x_i for the first TILE points; the arrays of
    dense_gradient."""

    def write(context, builder, signature, args):
        points, columns, loss_gradient, potential, gradient = (
            Array(context, builder, *a) for a in zip(signature.args[1:], args[1:], strict=True)
        )
        with cgutils.for_range(builder, columns.shape[0]) as data:
            s = products(builder, activation, points, 0, columns, data.index)
            r = [loss_gradient.broadcast(data.index, k) for k in range(DATA)]
            J = [potential.load(0, v=v) for v in range(2)]
            slope = {}
            for k, v in CELLS:
                if activation.count == SQUARED_RELU:
                    rs = builder.fmul(r[k], s[k, v])
                    J[v] = multiply_add(builder, rs, s[k, v], J[v])
                    slope[k, v] = builder.fadd(rs, rs)
                else:
                    J[v] = multiply_add(builder, r[k], s[k, v], J[v])
                    on = builder.fcmp_ordered(">", s[k, v], points.zero)
                    slope[k, v] = (
                        r[k]
                        if activation.count == LINEAR
                        else builder.select(on, r[k], points.zero)
                    )
            for v in range(2):
                potential.store(J[v], 0, v=v)
            add_slopes(builder, slope, columns, data.index, gradient)
        return context.get_dummy_value()

    return types.void(activation, points, columns, loss_gradient, potential, gradient), write


@intrinsic
def marked_tile(typing, columns, loss_gradient, marks, tile, first, gradient):
    """G += Σ_i r_i [θ·x_i > 0] x_i for the first TILE points, from the marks of a tile that
    forward_tiles made, row `first` on."""

    def write(context, builder, signature, args):
        *arrays, kept, (_, at), (_, start), G = zip(signature.args, args, strict=True)
        columns, loss_gradient, gradient = (Array(context, builder, *a) for a in (*arrays, G))
        if columns.lanes > MARK_BITS:
            return context.get_dummy_value()
        kept = Marks(context, builder, *kept)
        with cgutils.for_range(builder, columns.shape[0]) as data:
            r = [loss_gradient.broadcast(data.index, k) for k in range(DATA)]
            row = builder.add(start, data.index)
            slope = {
                (k, v): builder.select(kept.load(at, row, cell, columns.lanes), r[k], columns.zero)
                for cell, (k, v) in enumerate(CELLS)
            }
            add_slopes(builder, slope, columns, data.index, gradient)
        return context.get_dummy_value()

    return types.void(columns, loss_gradient, marks, types.int64, types.int64, gradient), write


def add_slopes(
    builder: Any, slope: dict[tuple[int, int], Any], columns: Array, data: Any, gradient: Array
) -> None:
    """G += Σ_k slope_k x_k for the first TILE points."""
    with cgutils.for_range(builder, gradient.shape[0]) as axis:
        G = [gradient.load(axis.index, 0, v=v) for v in range(2)]
        x = [columns.broadcast(data, axis.index, k) for k in range(DATA)]
        for k, v in CELLS:
            G[v] = multiply_add(builder, slope[k, v], x[k], G[v])
        for v in range(2):
            gradient.store(G[v], axis.index, 0, v=v)


@njit(cache=True)
def forward_group(g, activation, points, columns, weights, n, partial, marks):
    """partial[g] = Σ over the points of group g; the arrays of dense_forward."""
    B, width = weights.shape
    G, tile = len(partial), TILE * 8 // points.itemsize
    partial[g] = 0.0
    for b in range(g * B // G, (g + 1) * B // G):
        used = -(-min(width, n - b * width) // tile) * tile
        for o in range(len(columns)):
            forward_tiles(
                activation, points[b], columns[o], weights[b, :used], marks[b], o, partial[g, o]
            )


@parallel_loop
def dense_forward(activation, points, columns, weights, n, partial, marks, out):
    """h_i = Σ_c weights_c a(θ_c·x_i), summed within each group of points, then over the groups in
    order.

    activation: tuple whose length is the activation; points (n_blocks, p, width)
    columns (n_data / DATA, p, DATA)
    weights (n_blocks, width), zero on padding; n: number of points; out (n_data,)
    partial (n_groups, n_data / DATA, DATA): scratch
    marks (n_blocks, n_tiles, n_data / DATA, 2 DATA): of forward_tiles, written, or empty
    """
    for g in prange(len(partial)):
        forward_group(np.int64(g), activation, points, columns, weights, n, partial, marks)
    for i in range(len(out)):
        out[i] = 0.0
    for g in range(len(partial)):
        h = partial[g].reshape(-1)
        for i in range(len(out)):
            out[i] += h[i]


@small_kernel()
def moved(points, before):
    """How many coordinates (n,) of points are no longer what they were."""
    different = 0
    for i in range(len(points)):
        different += points[i] != before[i]
    return different


@njit(cache=True)
def gradient_group(
    g, activation, points, columns, loss_gradient, n, n_groups, marks, potential, gradient
):  # fmt: skip
    """J and G for the points of group g; the arrays of dense_gradient."""
    B, p, width = points.shape
    chunk, tile = max(1, CHUNK // (p * DATA)), TILE * 8 // points.itemsize
    for b in range(g * B // n_groups, (g + 1) * B // n_groups):
        count = min(width, n - b * width)
        potential[b] = 0.0
        gradient[b] = 0.0
        for o in range(0, len(columns), chunk):
            x, r = columns[o : o + chunk], loss_gradient[o : o + chunk]
            for c in range(0, count, tile):
                if marks.shape[1] > 0:
                    marked_tile(x, r, marks[b], c // tile, o, gradient[b, :, c:])
                else:
                    gradient_tile(
                        activation, points[b, :, c:], x, r, potential[b, c:], gradient[b, :, c:]
                    )
        gradient[b, :, count:] = 0.0
        if len(activation) == RELU and gradient.shape[1] > 0:  # J = θ·∇J, marked or not
            potential[b] = 0.0
            for a in range(p):
                for c in range(count):
                    potential[b, c] += points[b, a, c] * gradient[b, a, c]


@parallel_loop
def dense_gradient(
    activation, points, columns, loss_gradient, n, n_groups, marks, potential, gradient
):  # fmt: skip
    """J_c = Σ_i loss_gradient_i a(θ_c·x_i) and G_c = Σ_i loss_gradient_i a'(θ_c·x_i) x_i, summed
    over i in order.

    activation: tuple whose length is the activation; points (n_blocks, p, width)
    columns (n_data / DATA, p, DATA)
    loss_gradient (n_data / DATA, DATA), zero on padding; n: number of points
    marks: of dense_forward at these points, or empty
    potential (n_blocks, width); gradient (n_blocks, p, width), or (n_blocks, 0, width) to leave it
    out
    """
    for g in prange(n_groups):
        gradient_group(
            np.int64(g), activation, points, columns, loss_gradient, n, n_groups, marks,
            potential, gradient,
        )  # fmt: skip
