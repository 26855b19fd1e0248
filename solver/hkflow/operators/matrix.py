"""Sums over all pairs of points and data for any feature, from its values as a matrix: stored, or
made anew for some points and data at a time."""

from collections.abc import Callable, Iterator

import numpy as np
from numba import prange

from ..arguments import Floats
from ..compiled import njit
from .dense import blocked, unblocked
from .parallel_loops import BLOCK, divided_loop, small_kernel

POINTS, DATA = 4096, 16  # whose pairs a function is called for at once: they stay in the cache
KEPT = 2**21  # numbers: glibc learns from arrays of up to 32 MB
TILE = 4  # lines and columns of a Gram matrix that are summed at once


def tiles(n_points: int, n_data: int) -> Iterator[tuple[slice, slice]]:
    """Slices of points and of data that make all pairs, at most POINTS × DATA at once, or as many
    for fewer points."""
    width = max(1, min(n_points, POINTS))
    rows = max(1, POINTS * DATA // width)
    for own in range(0, n_points, width):
        for i in range(0, n_data, rows):
            yield slice(own, min(n_points, own + width)), slice(i, min(n_data, i + rows))


class MatrixOperator:
    """Both sums for any feature, from its stored matrix φ(θ_c, x_i), (n_data, n_points)."""

    def __init__(self, matrix: Floats) -> None:
        self.matrix = np.ascontiguousarray(matrix, dtype=float)

    @classmethod
    def of(
        cls, points: Floats, inputs: Floats, matrix: Callable[[Floats, Floats], Floats]
    ) -> "MatrixOperator":
        """The operator of a function (points, inputs) -> φ(θ_c, x_i), see Feature."""
        found = np.empty((len(inputs), len(points)))
        for own, rows in tiles(len(points), len(inputs)):
            values = np.asarray(matrix(points[own], inputs[rows]))
            if values.shape != found[rows, own].shape:
                raise ValueError(
                    f"A feature has a value for each of {len(inputs[rows])} data and"
                    f" {len(points[own])} points, got an array of the shape {values.shape}."
                )
            found[rows, own] = values
        return cls(found)

    def forward(self, weights: Floats, out: Floats) -> None:
        """h_i = Σ_c weights_c φ(θ_c, x_i); weights (n_points,), out (n_data,)."""
        matrix_forward(self.matrix, weights, out)

    def adjoint(self, loss_gradient: Floats, out: Floats) -> None:
        """J_c = Σ_i loss_gradient_i φ(θ_c, x_i); loss_gradient (n_data,), out (n_points,)."""
        matrix_adjoint(self.matrix, loss_gradient, out)


class FunctionOperator:
    """The sums for any feature and points that move, from functions that know its values and its
    gradient, for some points and data at a time.

    points : (n_points, p), or blocked as in DenseOperator: then kept as `points`;  matrix,
        pullback : see Feature
    ridge : s -> (ψ(s), ψ′(s)) if φ = ψ(θ·x): values and slopes of a pair are then made at once
    """

    def __init__(
        self,
        points: Floats,
        inputs: Floats,
        matrix: Callable[[Floats, Floats], Floats],
        pullback: Callable[[Floats, Floats, Floats], Floats],
        ridge: Callable[[Floats], tuple[Floats, Floats]] | None = None,
    ) -> None:
        self.points = points if points.ndim == 3 else blocked(points)
        self.inputs, self.matrix, self.pullback = np.array(inputs), matrix, pullback
        self.ridge = ridge
        # until an array as large as this was freed, glibc gives back what a function's arrays took
        # and asks for it anew, page by page, with each: half the time, or more
        np.empty(KEPT)

    def set_inputs(self, inputs: Floats) -> None:
        """Take other data, as many as before; inputs (n_data, p)."""
        self.inputs[:] = inputs

    def forward(self, weights: Floats, out: Floats) -> None:
        """h_i = Σ_c weights_c φ(θ_c, x_i); weights (n_points,), out (n_data,)."""
        points, out[:] = unblocked(self.points, len(weights)), 0.0
        for own, rows in tiles(len(weights), len(out)):
            out[rows] += self.matrix(points[own], self.inputs[rows]) @ weights[own]

    def gradient(self, loss_gradient: Floats, potential: Floats, gradient: Floats) -> None:
        """J_c = Σ_i loss_gradient_i φ(θ_c, x_i), (n_points,), and G_c = Σ_i loss_gradient_i ∇φ(θ_c,
        x_i), blocked like the points."""
        points = unblocked(self.points, len(potential))
        potential[:], total = 0.0, np.zeros_like(points)
        for own, rows in tiles(len(potential), len(loss_gradient)):
            r, x = loss_gradient[rows], self.inputs[rows]
            if self.ridge is None:
                potential[own] += r @ self.matrix(points[own], x)
                total[own] += self.pullback(points[own], x, r)
            else:
                values, slopes = self.ridge(x @ points[own].T)
                potential[own] += r @ np.asarray(values, dtype=float)
                total[own] += (r[:, None] * slopes).T @ x
        gradient[:] = blocked(total, gradient.shape[2])


# Not BLAS: its own pool of threads and ours slow each other down by a factor of ten.


@njit(parallel=True, cache=True, fastmath={"reassoc"})
def matrix_forward(matrix, weights, out):
    """h = matrix @ weights; matrix (n_data, n_points), weights (n_points,), out (n_data,). Sums may
    be vectorised."""
    for i in prange(len(out)):
        row, total = matrix[i], 0.0
        for c in range(len(weights)):
            total += row[c] * weights[c]
        out[i] = total


@njit(parallel=True, cache=True)
def matrix_adjoint(matrix, loss_gradient, out):
    """J = loss_gradient @ matrix; matrix (n_data, n_points), loss_gradient (n_data,), out
    (n_points,)."""
    n = len(out)
    for b in prange((n + BLOCK - 1) // BLOCK):
        J = out[b * BLOCK : min(n, (b + 1) * BLOCK)]
        for c in range(len(J)):
            J[c] = 0.0
        for i in range(len(loss_gradient)):
            row = matrix[i, b * BLOCK : min(n, (b + 1) * BLOCK)]
            for c in range(len(J)):
                J[c] += loss_gradient[i] * row[c]


def add_gram(rows: Floats, weights: Floats, out: Floats) -> None:
    """out_ij += Σ_c weights_c rows_ic rows_jc; rows (n, columns), weights (columns,), out (n, n)
    symmetric."""
    rows = np.ascontiguousarray(rows)
    work = len(rows) * rows.size // (2 * TILE**2)  # half of the pairs, TILE² at once
    add_tiles(-(-len(rows) // TILE), work, rows, rows * weights, out)


@divided_loop()
def add_tiles(begin, end, rows, scaled, out):
    """out_ij = out_ji += Σ_c scaled_ic rows_jc, j ≤ i, of the tiles of TILE lines i from begin to
    end; rows, scaled (n, columns), out (n, n)."""
    n, columns = rows.shape
    for i in range(TILE * begin, min(TILE * end, n), TILE):
        for j in range(0, i + 1, TILE):
            sums = tile_sums(scaled, i, rows, j, columns)
            for k in range(min(TILE, n - i)):
                for m in range(min(TILE, i + k - j + 1)):
                    out[i + k, j + m] += sums[k][m]
                    out[j + m, i + k] = out[i + k, j + m]


def products(left: Floats, right: Floats) -> Floats:
    """left rightᵀ (n, m) of rows (n, columns) and (m, columns): the same bits on any number of
    threads, which BLAS does not promise."""
    left, right = np.ascontiguousarray(left), np.ascontiguousarray(right)
    out = np.zeros((len(left), len(right)))
    if out.size:
        fill_products(-(-len(left) // TILE), left.size * len(right) // TILE**2, left, right, out)
    return out


@divided_loop()
def fill_products(begin, end, left, right, out):
    """out_ij = Σ_c left_ic right_jc of the tiles of TILE lines i from begin to end; left (n,
    columns), right (m, columns), out (n, m)."""
    n, m = out.shape
    for i in range(TILE * begin, min(TILE * end, n), TILE):
        for j in range(0, m, TILE):
            sums = tile_sums(left, i, right, j, left.shape[1])
            for k in range(min(TILE, n - i)):
                for h in range(min(TILE, m - j)):
                    out[i + k, j + h] = sums[k][h]


@small_kernel(fastmath={"reassoc", "contract"})
def tile_sums(left, i, right, j, columns):
    """Σ_c left_(i+k)c right_(j+m)c over c < columns, for k, m < TILE: sixteen sums at once, since
    each number that is read then serves four. left (n, columns at least), right (m, columns at
    least); the last line of each stands for those beyond it."""
    last, end = len(left) - 1, len(right) - 1
    w, x, y, z = i, min(i + 1, last), min(i + 2, last), min(i + 3, last)
    p, q, r, s = j, min(j + 1, end), min(j + 2, end), min(j + 3, end)
    wp = wq = wr = ws = xp = xq = xr = xs = 0.0
    yp = yq = yr = ys = zp = zq = zr = zs = 0.0
    for c in range(columns):
        a, b, d, e = left[w, c], left[x, c], left[y, c], left[z, c]
        f, g, h, u = right[p, c], right[q, c], right[r, c], right[s, c]
        wp, wq, wr, ws = wp + a * f, wq + a * g, wr + a * h, ws + a * u
        xp, xq, xr, xs = xp + b * f, xq + b * g, xr + b * h, xs + b * u
        yp, yq, yr, ys = yp + d * f, yq + d * g, yr + d * h, ys + d * u
        zp, zq, zr, zs = zp + e * f, zq + e * g, zr + e * h, zs + e * u
    return (wp, wq, wr, ws), (xp, xq, xr, xs), (yp, yq, yr, ys), (zp, zq, zr, zs)
