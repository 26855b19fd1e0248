"""Sums over all pairs of data and units with k output weights, φ = b ψ(a·x) ∈ R^k, θ = (a, b).

forward   h_il = Σ_c weights_c b_cl ψ(a_c·x_i)
gradient  J_c = Σ_l b_cl J_cl, J_cl = Σ_i r_il ψ(a_c·x_i) and its gradient in θ_c = (a_c, b_c),
          G_c = (Σ_i (Σ_l r_il b_cl) ψ'(a_c·x_i) x_i, J_c1, …, J_ck)

Products a_c·x_i are made once for all outputs: a pair costs p + k multiplications in forward, and
2 (p + k) in gradient.
"""

import numpy as np
from numba import prange, types
from numba.core import cgutils
from numba.extending import intrinsic

from ..arguments import Floats
from ..compiled import njit
from .dense import (
    CELLS,
    CHUNK,
    DATA,
    GROUPS,
    INTEGER,
    LANES,
    LINEAR,
    SMALL,
    SQUARED_RELU,
    TILE,
    Array,
    add_slopes,
    blocked,
    check_width,
    multiply_add,
    products,
)
from .operator import check_shape
from .parallel_loops import parallel_loop

# numbers of partial sums (128 MiB) beyond which there are fewer groups of points; of these so many
# at least, for threads to share
LARGEST, FEWEST = 1 << 24, 16


class VectorOperator:
    """All sums for φ = b ψ(a·x) ∈ R^k with a built-in activation ψ.

    points : (n_points, p+k), the last coordinates are b, or blocked with a width that TILE divides;
        kept blocked as `points`, which may be overwritten in place
    inputs : (n_data, p);  activation : of ψ, see DenseOperator;  outputs : k
    Predictions and loss gradients lie datum by datum, (n_data · k,).
    """

    def __init__(self, points: Floats, inputs: Floats, activation: int, outputs: int) -> None:
        self.points = points if points.ndim == 3 else blocked(points)
        self.activation, self.k = (0,) * activation, outputs
        self.shape = inputs.shape
        (B, _, width), (n_data, p) = self.points.shape, inputs.shape
        check_width(width, TILE)
        tiles = -(-n_data // DATA)
        groups = min(B, GROUPS, max(FEWEST, LARGEST // (tiles * outputs * DATA)))
        self.columns = np.zeros((tiles, p, DATA))
        self.loss_gradient = np.zeros((tiles, outputs, DATA))
        self.weights, self.potential, self.nothing = (
            np.zeros(shape) for shape in ((B, width), (B, width), (B, 0, width))
        )
        # b times weights in forward, J_cl in gradient
        self.outputs = np.zeros((B, outputs, width))
        self.partial = np.zeros((groups, tiles, outputs, DATA))
        self.scratch = np.zeros((groups, outputs, DATA, LANES))
        self.set_inputs(inputs)

    def set_inputs(self, inputs: Floats) -> None:
        """Take other data, as many as before; inputs (n_data, p)."""
        check_shape(inputs, self.shape)
        for k in range(DATA):
            part = inputs[k::DATA]
            self.columns[: len(part), :, k] = part

    def forward(self, weights: Floats, out: Floats) -> None:
        """h, datum by datum; weights (n_points,), out (n_data · k,)."""
        self.weights.reshape(-1)[: len(weights)] = weights
        self._loop(vector_forward, len(weights))(
            self.activation, self.points, self.columns, self.weights, len(weights), self.outputs,
            self.scratch, self.partial, out,
        )  # fmt: skip

    def adjoint(self, loss_gradient: Floats, out: Floats) -> None:
        """J_c; loss_gradient (n_data · k,), out (n_points,)."""
        self.gradient(loss_gradient, out, self.nothing)

    def gradient(self, loss_gradient: Floats, potential: Floats, gradient: Floats) -> None:
        """J_c and G_c; potential (n_points,), gradient blocked like `points`."""
        r = loss_gradient.reshape(-1, self.k)
        for k in range(DATA):
            part = r[k::DATA]
            self.loss_gradient[: len(part), :, k] = part
        self._loop(vector_gradient, len(potential))(
            self.activation, self.points, self.columns, self.loss_gradient, len(potential),
            len(self.partial), self.potential, self.outputs, gradient,
        )  # fmt: skip
        potential[:] = self.potential.reshape(-1)[: len(potential)]

    def _loop(self, compiled, n):
        return compiled.serial if n * self.columns.size < SMALL else compiled.parallel


@intrinsic
def vector_forward_tiles(typing, activation, points, columns, weighted, scratch, out):
    """out_lk += Σ_c weighted_lc ψ(a_c·x_k); points (p, width), columns (p, DATA), weighted
    (n_outputs, whole tiles), scratch (n_outputs, DATA, LANES), out (n_outputs, DATA)."""

    def write(context, builder, signature, args):
        arrays = zip(signature.args[1:], args[1:], strict=True)
        points, columns, weighted, scratch, out = (Array(context, builder, *a) for a in arrays)
        with cgutils.for_range(builder, out.shape[0]) as output:
            for k in range(DATA):
                scratch.store(points.zero, output.index, k, 0)
        tiles = cgutils.for_range_slice(builder, INTEGER(0), weighted.shape[1], INTEGER(TILE))
        with tiles as (c, _):
            s = products(builder, activation, points, c, columns)
            if activation.count == SQUARED_RELU:
                s = {cell: builder.fmul(value, value) for cell, value in s.items()}
            with cgutils.for_range(builder, out.shape[0]) as output:
                weight = [weighted.load(output.index, c, v=v) for v in range(2)]
                for k in range(DATA):
                    h = scratch.load(output.index, k, 0)
                    for v in range(2):
                        h = multiply_add(builder, weight[v], s[k, v], h)
                    scratch.store(h, output.index, k, 0)
        with cgutils.for_range(builder, out.shape[0]) as output:
            for k in range(DATA):
                total = points.sum_of(scratch.load(output.index, k, 0))
                at = out.entry(output.index, k)
                builder.store(builder.fadd(builder.load(at), total), at)
        return context.get_dummy_value()

    return types.void(activation, points, columns, weighted, scratch, out), write


@intrinsic
def vector_gradient_tile(
    typing, activation, points, weights, columns, loss_gradient, potential, gradient
):
    """J_l += Σ_i r_il ψ(a·x_i) and G += Σ_i (Σ_l r_il b_l) ψ'(a·x_i) x_i for the first TILE points.

    points (p, …), weights (n_outputs, …): b;  columns (n, p, DATA);  loss_gradient (n, n_outputs,
    DATA);  potential (n_outputs, …);  gradient (p, …), or (0, …) to leave it out
    """

    def write(context, builder, signature, args):
        arrays = zip(signature.args[1:], args[1:], strict=True)
        points, weights, columns, r, potential, gradient = (
            Array(context, builder, *a) for a in arrays
        )
        slopes = {cell: cgutils.alloca_once(builder, points.whole) for cell in CELLS}
        with cgutils.for_range(builder, columns.shape[0]) as data:
            s = products(builder, activation, points, 0, columns, data.index)
            squared = activation.count == SQUARED_RELU
            psi = {cell: builder.fmul(x, x) for cell, x in s.items()} if squared else s
            for cell in CELLS:
                builder.store(points.zero, slopes[cell])
            with cgutils.for_range(builder, weights.shape[0]) as output:
                b = [weights.load(output.index, 0, v=v) for v in range(2)]
                J = [potential.load(output.index, 0, v=v) for v in range(2)]
                x = [r.broadcast(data.index, output.index, k) for k in range(DATA)]
                for k, v in CELLS:
                    J[v] = multiply_add(builder, x[k], psi[k, v], J[v])
                    at = slopes[k, v]
                    builder.store(multiply_add(builder, x[k], b[v], builder.load(at)), at)
                for v in range(2):
                    potential.store(J[v], output.index, 0, v=v)
            slope = {cell: builder.load(slopes[cell]) for cell in CELLS}
            if squared:
                double = {cell: builder.fadd(x, x) for cell, x in s.items()}
                slope = {cell: builder.fmul(slope[cell], double[cell]) for cell in CELLS}
            elif activation.count != LINEAR:
                for cell in CELLS:
                    on = builder.fcmp_ordered(">", s[cell], points.zero)
                    slope[cell] = builder.select(on, slope[cell], points.zero)
            add_slopes(builder, slope, columns, data.index, gradient)
        return context.get_dummy_value()

    arrays = points, weights, columns, loss_gradient, potential, gradient
    return types.void(activation, *arrays), write


@njit(cache=True)
def vector_forward_group(g, activation, points, columns, weights, n, weighted, scratch, partial):
    """partial[g] = Σ over the points of group g; the arrays of vector_forward."""
    (B, width), (n_outputs, _) = weights.shape, weighted.shape[1:]
    p, groups = columns.shape[1], len(partial)
    partial[g] = 0.0
    for b in range(g * B // groups, (g + 1) * B // groups):
        used = -(-min(width, n - b * width) // TILE) * TILE
        for m in range(n_outputs):
            for c in range(used):
                weighted[b, m, c] = weights[b, c] * points[b, p + m, c]
        for o in range(len(columns)):
            vector_forward_tiles(
                activation,
                points[b, :p],
                columns[o],
                weighted[b, :, :used],
                scratch[g],
                partial[g, o],
            )


@parallel_loop
def vector_forward(activation, points, columns, weights, n, weighted, scratch, partial, out):
    """h_il = Σ_c weights_c b_cl ψ(a_c·x_i), summed within each group of points, then over the
    groups in order.

    activation: tuple whose length is the activation; points (n_blocks, p + n_outputs, width)
    columns (n_data / DATA, p, DATA)
    weights (n_blocks, width), zero on padding; n: number of points; out (n_data · n_outputs,)
    weighted (n_blocks, n_outputs, width), scratch (n_groups, n_outputs, DATA, LANES),
    partial (n_groups, n_data / DATA, n_outputs, DATA): overwritten
    """
    n_outputs = weighted.shape[1]
    for g in prange(len(partial)):
        vector_forward_group(
            np.int64(g), activation, points, columns, weights, n, weighted, scratch, partial
        )
    for i in range(len(out) // n_outputs):
        for m in range(n_outputs):
            total = 0.0
            for g in range(len(partial)):
                total += partial[g, i // DATA, m, i % DATA]
            out[i * n_outputs + m] = total


@njit(cache=True)
def vector_gradient_group(
    g, activation, points, columns, loss_gradient, n, n_groups, potential, outputs, gradient
):  # fmt: skip
    """J and G for the points of group g; the arrays of vector_gradient."""
    B, _, width = points.shape
    _, n_outputs, _ = outputs.shape
    p, wanted = columns.shape[1], gradient.shape[1] > 0
    chunk = max(1, CHUNK // (p * DATA))
    for b in range(g * B // n_groups, (g + 1) * B // n_groups):
        count = min(width, n - b * width)
        outputs[b] = 0.0
        gradient[b] = 0.0
        for o in range(0, len(columns), chunk):
            x, r = columns[o : o + chunk], loss_gradient[o : o + chunk]
            for c in range(0, count, TILE):
                vector_gradient_tile(
                    activation, points[b, :p, c:], points[b, p:, c:], x, r, outputs[b, :, c:],
                    gradient[b, :p, c:],
                )  # fmt: skip
        potential[b] = 0.0
        for m in range(n_outputs):
            for c in range(count):
                potential[b, c] += points[b, p + m, c] * outputs[b, m, c]
                if wanted:
                    gradient[b, p + m, c] = outputs[b, m, c]
        gradient[b, :, count:] = 0.0


@parallel_loop
def vector_gradient(
    activation, points, columns, loss_gradient, n, n_groups, potential, outputs, gradient
):  # fmt: skip
    """J_c = Σ_il r_il b_cl ψ(a_c·x_i) and its gradient, summed over i in order.

    activation: tuple whose length is the activation; points (n_blocks, p + n_outputs, width)
    columns (n_data / DATA, p, DATA); n: number of points
    loss_gradient (n_data / DATA, n_outputs, DATA): r, zero on padding
    outputs (n_blocks, n_outputs, width): Σ_i r_il ψ(a_c·x_i), written
    potential (n_blocks, width); gradient like points, or (n_blocks, 0, width) to leave it out
    """
    for g in prange(n_groups):
        vector_gradient_group(
            np.int64(g), activation, points, columns, loss_gradient, n, n_groups, potential,
            outputs, gradient,
        )  # fmt: skip
