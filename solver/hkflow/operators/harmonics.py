"""Sums over the real harmonics of the circle or of S² at fixed points, made on the fly.

    h_lm = Σ_c w_c Y_lm(θ_c)      J_c = Σ_lm r_lm Y_lm(θ_c),      ∫ Y_lm Y_l'm' dU = δ

On S² Y_lm = Q_lm(z) Re (x + iy)^m and Q_lm(z) Im (x + iy)^m, Q by the recurrence in l of fully
normalised Legendre functions without their factor sin^m, so that no pole is special (Holmes &
Featherstone 2002). On the circle Y = 1, √2 cos kω, √2 sin kω: the same with l = m alone.
Cost of either sum: about 2.5 multiplications for each point and harmonic; nothing is stored.
"""

import numpy as np
from numba import njit, prange

from ..arguments import Floats
from .parallel_loops import BLOCK, n_blocks, parallel_loop

AXES = (2, 3)  # of the spaces of the spheres whose harmonics are known
MAX_DEGREE = 500  # on S²: Q_lm stays a number
GROUPS = 64  # groups of blocks of points, at most: a group is summed in order by one thread


class Harmonics:
    """Both sums for all harmonics up to a degree.

    points : (n, 2) or (n, 3) unit vectors;  degree : L
    degrees : (n_harmonics,) l of each harmonic; for each m, and l from m on, the real part and then
        for m > 0 the imaginary one
    """

    def __init__(self, points: Floats, degree: int) -> None:
        axes, orders = points.shape[1], np.arange(degree + 1)
        if axes not in AXES or degree > MAX_DEGREE:
            raise ValueError(
                f"Harmonics are known on the circle and S² up to degree {MAX_DEGREE}, got degree"
                f" {degree} in R^{axes}."
            )
        self.coordinates = np.zeros((3, len(points)))
        self.coordinates[:axes] = points.T
        # highest l for each m
        self.tops = orders if axes == 2 else np.full(degree + 1, degree)
        self.diagonal, self.up, self.down = _recurrence(degree, axes)
        self.degrees = np.concatenate(
            [
                np.repeat(np.arange(m, top + 1), 1 if m == 0 else 2)
                for m, top in enumerate(self.tops)
            ]
        )
        groups = min(GROUPS, n_blocks(len(points)))
        self.partial = np.zeros((groups, len(self.degrees)))
        self.scratch = np.zeros((groups, 6, BLOCK))

    def forward(self, weights: Floats, out: Floats) -> None:
        """h; weights (n,), out (n_harmonics,)."""
        forward(
            self.coordinates, weights, self.tops, self.diagonal, self.up, self.down, self.scratch,
            self.partial,
        )  # fmt: skip
        np.sum(self.partial, axis=0, out=out)

    def adjoint(self, loss_gradient: Floats, out: Floats) -> None:
        """J; loss_gradient (n_harmonics,), out (n,)."""
        adjoint(
            self.coordinates, loss_gradient, self.tops, self.diagonal, self.up, self.down,
            self.scratch, out,
        )  # fmt: skip


def _recurrence(degree, axes):
    """Q_mm, (degree + 1,), and a, b of Q_lm = a_ml z Q_(l−1)m − b_ml Q_(l−2)m, (degree + 1, degree
    + 2)."""
    m, l = np.meshgrid(np.arange(degree + 1.0), np.arange(degree + 2.0), indexing="ij")
    up, down = np.zeros(m.shape), np.zeros(m.shape)
    diagonal = np.full(degree + 1, np.sqrt(2.0))
    diagonal[0] = 1.0
    if axes == 3:
        factors = np.sqrt((2.0 * m[1:, 0] + 1.0) / (2.0 * m[1:, 0]))
        diagonal[1:] *= np.cumprod(factors)
        on = l > m
        m, l = m[on], l[on]
        up[on] = np.sqrt((2 * l - 1) * (2 * l + 1) / ((l - m) * (l + m)))
        with np.errstate(divide="ignore", invalid="ignore"):
            b = np.sqrt((2 * l + 1) * (l + m - 1) * (l - m - 1) / ((l - m) * (l + m) * (2 * l - 3)))
        down[on] = np.where(l - m > 1, b, 0.0)
    return diagonal, up, down


@njit(cache=True, fastmath={"reassoc", "contract"})
def add_moments(points, weights, tops, diagonal, up, down, scratch, out):
    """Add the moments of one block; points (3, width), weights (width,), scratch (6, width), out
    (n_harmonics,)."""
    x, y, z = points
    re, im, old, new = scratch[0], scratch[1], scratch[2], scratch[3]
    n, k = len(weights), 0
    for c in range(n):
        re[c], im[c] = weights[c], 0.0
    for m in range(len(tops)):
        for c in range(n):
            old[c], new[c] = 0.0, diagonal[m]
        for l in range(m, tops[m] + 1):
            a, b, real, imaginary = up[m, l + 1], down[m, l + 1], 0.0, 0.0
            for c in range(n):
                q = new[c]
                real += q * re[c]
                imaginary += q * im[c]
                new[c] = a * z[c] * q - b * old[c]
                old[c] = q
            out[k] += real
            k += 1
            if m > 0:
                out[k] += imaginary
                k += 1
        for c in range(n):
            re[c], im[c] = x[c] * re[c] - y[c] * im[c], x[c] * im[c] + y[c] * re[c]


@njit(cache=True, fastmath={"contract"})
def evaluate_block(points, r, tops, diagonal, up, down, scratch, out):
    """J of one block; points (3, width), r (n_harmonics,), scratch (6, width), out (width,)."""
    x, y, z = points
    re, im, old, new, real, imaginary = scratch
    n, k = len(out), 0
    for c in range(n):
        re[c], im[c], out[c] = 1.0, 0.0, 0.0
    for m in range(len(tops)):
        for c in range(n):
            old[c], new[c], real[c], imaginary[c] = 0.0, diagonal[m], 0.0, 0.0
        for l in range(m, tops[m] + 1):
            a, b, r_real, r_imaginary = up[m, l + 1], down[m, l + 1], r[k], 0.0
            k += 1
            if m > 0:
                r_imaginary = r[k]
                k += 1
            for c in range(n):
                q = new[c]
                real[c] += q * r_real
                imaginary[c] += q * r_imaginary
                new[c] = a * z[c] * q - b * old[c]
                old[c] = q
        for c in range(n):
            out[c] += real[c] * re[c] + imaginary[c] * im[c]
            re[c], im[c] = x[c] * re[c] - y[c] * im[c], x[c] * im[c] + y[c] * re[c]


@parallel_loop
def forward(points, weights, tops, diagonal, up, down, scratch, partial):
    """partial[g] = the moments of the blocks of group g, in order; points (3, n), weights (n,),
    scratch (n_groups, 6, BLOCK), partial (n_groups, n_harmonics)."""
    n, groups = len(weights), len(partial)
    blocks = (n + BLOCK - 1) // BLOCK
    for g in prange(groups):
        partial[g] = 0.0
        for b in range(g * blocks // groups, (g + 1) * blocks // groups):
            c = slice(b * BLOCK, min(n, (b + 1) * BLOCK))
            add_moments(points[:, c], weights[c], tops, diagonal, up, down, scratch[g], partial[g])


@parallel_loop
def adjoint(points, r, tops, diagonal, up, down, scratch, out):
    """J; points (3, n), r (n_harmonics,), scratch (n_groups, 6, BLOCK), out (n,)."""
    n, groups = len(out), len(scratch)
    blocks = (n + BLOCK - 1) // BLOCK
    for g in prange(groups):
        for b in range(g * blocks // groups, (g + 1) * blocks // groups):
            c = slice(b * BLOCK, min(n, (b + 1) * BLOCK))
            evaluate_block(points[:, c], r, tops, diagonal, up, down, scratch[g], out[c])
