"""Sums over all pairs of points and data, at cost n_points × n_data.

    forward   h_i = Σ_c weights_c φ(θ_c, x_i)        adjoint   J_c = Σ_i residuals_i φ(θ_c, x_i)
"""

import numpy as np
from numba import njit, prange

from ..blocks import BLOCK, n_blocks

LINEAR, RELU, SQUARED_RELU = 0, 1, 2


class DenseTransform:
    """Both sums for φ = a(θ·x) with a built-in activation a; φ is computed on the fly, never stored.

    points : (n_points, p);  inputs : (n_data, p);  kernel : LINEAR, RELU or SQUARED_RELU
    """

    def __init__(self, points, inputs, kernel):
        n, p = points.shape
        self.kernel, self.axes = kernel, (0,) * p
        self.inputs = np.ascontiguousarray(inputs)
        self.columns = np.ascontiguousarray(inputs.T)
        padded = np.zeros((n_blocks(n) * BLOCK, p))
        padded[:n] = points
        self.points = np.ascontiguousarray(padded.reshape(-1, BLOCK, p).swapaxes(1, 2))
        self.partial = np.zeros((n_blocks(n), len(inputs)))

    def forward(self, weights, out):
        """h_i = Σ_c weights_c φ(θ_c, x_i); weights (n_points,), out (n_data,)."""
        dense_forward(self.points, self.columns, weights, self.kernel, self.axes, self.partial, out)

    def adjoint(self, residuals, out):
        """J_c = Σ_i residuals_i φ(θ_c, x_i); residuals (n_data,), out (n_points,)."""
        dense_adjoint(self.points, self.inputs, residuals, self.kernel, self.axes, out)


class MatrixTransform:
    """Both sums for any feature, from its stored matrix φ(θ_c, x_i), (n_data, n_points)."""

    def __init__(self, matrix):
        self.matrix = np.ascontiguousarray(matrix, dtype=float)

    def forward(self, weights, out):
        """h_i = Σ_c weights_c φ(θ_c, x_i); weights (n_points,), out (n_data,)."""
        matrix_forward(self.matrix, weights, out)

    def adjoint(self, residuals, out):
        """J_c = Σ_i residuals_i φ(θ_c, x_i); residuals (n_data,), out (n_points,)."""
        matrix_adjoint(self.matrix, residuals, out)


@njit(inline="always")
def activate(kernel, s):
    """s, (s)₊ or (s)₊² for kernel 0, 1, 2."""
    if kernel == 0:
        return s
    positive = max(s, 0.0)
    return positive if kernel == 1 else positive * positive


# Both kernels keep the inner loop free of gathers and its index provably nonnegative: it vectorises, which is worth
# a factor of five. points[b, a, c] is coordinate a of point c of block b; the last block is padded with zeros.


@njit(parallel=True, cache=True)
def dense_forward(points, columns, weights, kernel, axes, partial, out):
    """h_i = Σ_c weights_c a(θ_c·x_i), summed within each block of points, then over the blocks in order.

    points (n_blocks, p, BLOCK); columns (p, n_data); weights (n_points,); axes: tuple of length p
    partial (n_blocks, n_data) scratch; out (n_data,)
    """
    n = len(weights)
    for b in prange(len(points)):
        w = weights[b * BLOCK : min(n, (b + 1) * BLOCK)]
        h = partial[b]
        for i in range(len(h)):
            h[i] = 0.0
        for c in range(len(w)):
            for i in range(len(h)):
                s = 0.0
                for a in range(len(axes)):
                    s += columns[a, i] * points[b, a, c]
                h[i] += w[c] * activate(kernel, s)
    for i in prange(len(out)):
        total = 0.0
        for b in range(len(partial)):
            total += partial[b, i]
        out[i] = total


@njit(parallel=True, cache=True)
def dense_adjoint(points, inputs, residuals, kernel, axes, out):
    """J_c = Σ_i residuals_i a(θ_c·x_i).

    points (n_blocks, p, BLOCK); inputs (n_data, p); residuals (n_data,); axes: tuple of length p; out (n_points,)
    """
    n = len(out)
    for b in prange(len(points)):
        J = out[b * BLOCK : min(n, (b + 1) * BLOCK)]
        for c in range(len(J)):
            J[c] = 0.0
        for i in range(len(inputs)):
            for c in range(len(J)):
                s = 0.0
                for a in range(len(axes)):
                    s += inputs[i, a] * points[b, a, c]
                J[c] += residuals[i] * activate(kernel, s)


# Not BLAS: its own pool of threads and ours slow each other down by a factor of ten.


@njit(parallel=True, cache=True, fastmath={"reassoc"})
def matrix_forward(matrix, weights, out):
    """h = matrix @ weights; matrix (n_data, n_points), weights (n_points,), out (n_data,). Sums may be vectorised."""
    for i in prange(len(out)):
        row, total = matrix[i], 0.0
        for c in range(len(weights)):
            total += row[c] * weights[c]
        out[i] = total


@njit(parallel=True, cache=True)
def matrix_adjoint(matrix, residuals, out):
    """J = residuals @ matrix; matrix (n_data, n_points), residuals (n_data,), out (n_points,)."""
    n = len(out)
    for b in prange((n + BLOCK - 1) // BLOCK):
        J = out[b * BLOCK : min(n, (b + 1) * BLOCK)]
        for c in range(len(J)):
            J[c] = 0.0
        for i in range(len(residuals)):
            row = matrix[i, b * BLOCK : min(n, (b + 1) * BLOCK)]
            for c in range(len(J)):
                J[c] += residuals[i] * row[c]
