"""Sums over the real harmonics of the circle or of S² at given points, made on the fly.

    h_lm = Σ_c w_c Y_lm(θ_c)      J_c = Σ_lm r_lm Y_lm(θ_c),      ∫ Y_lm Y_l'm' dU = δ

On S² Y_lm = Q_lm(z) Re (x + iy)^m and Q_lm(z) Im (x + iy)^m, Q by the recurrence in l of fully
normalised Legendre functions without their factor sin^m, so that no pole is special (Holmes &
Featherstone 2002). On the circle Y = 1, √2 cos kω, √2 sin kω: the same with l = m alone.
Cost of either sum: about 2.5 multiplications for each point and harmonic; nothing is stored.
"""

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numba import prange

from ..arguments import Floats
from ..compiled import njit
from .dense import blocked
from .parallel_loops import parallel_loop

if TYPE_CHECKING:
    from scipy.sparse import csr_array

AXES = (2, 3)  # of the spaces of the spheres whose harmonics are known
MAX_DEGREE = 500  # on S²: Q_lm stays a number
AT_ONCE = 4  # degrees
WIDTH = 128  # of a block of points: it stays in the nearest cache
GROUPS = 64  # groups of blocks of points, at most: a group is summed in order by one thread


@njit(inline="always")
def four(row, start):
    """Four numbers of a row."""
    return row[start], row[start + 1], row[start + 2], row[start + 3]


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
        self.axes, self.coordinates = axes, np.zeros((-(-len(points) // WIDTH), 3 * WIDTH))
        self.move(points)
        # highest l for each m
        self.tops = orders if axes == 2 else np.full(degree + 1, degree)
        self.diagonal, self.up, self.down = _recurrence(degree, axes)
        self.degrees = np.concatenate(
            [
                np.repeat(np.arange(m, top + 1), 1 if m == 0 else 2)
                for m, top in enumerate(self.tops)
            ]
        )
        groups = min(GROUPS, len(self.coordinates))
        self.partial = np.zeros((groups, len(self.degrees)))
        self.scratch = np.zeros((groups, 6 * WIDTH))

    def values(self, points: Floats) -> Floats:
        """Y_lm of other points (n, p), as an array (n_harmonics, n)."""
        n, k = len(points), 0
        out = np.empty((len(self.degrees), n))
        around = points[:, 0] + 1j * points[:, 1]
        height = points[:, 2] if self.axes == 3 else np.zeros(n)
        power = np.ones(n, dtype=complex)  # (x + iy)^m
        for m, top in enumerate(self.tops):
            before, Q = np.zeros(n), np.full(n, self.diagonal[m])
            for l in range(m, top + 1):
                for part in (power.real, power.imag)[: 1 + (m > 0)]:
                    out[k] = Q * part
                    k += 1
                before, Q = Q, self.up[m, l + 1] * height * Q - self.down[m, l + 1] * before
            power *= around
        return out

    def move(self, points: Floats) -> None:
        """Take other points, as many as before."""
        length = points.shape[1] * WIDTH
        self.coordinates[:, :length] = blocked(points, WIDTH).reshape(-1, length)

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

    def gradients(self, loss_gradient: Floats, points: Floats) -> Floats:
        """∇J along the sphere at the points (n, p) that were taken last, (n, p): (θ × ∇J) × θ."""
        n, component = len(points), np.zeros(len(points))
        theta, turned = np.zeros((n, 3)), np.zeros((n, 3))
        theta[:, : self.axes] = points
        for k, turn in enumerate(reversed(self.turns), 1):
            self.adjoint(turn @ loss_gradient, component)
            turned[:, -k] = component
        return np.ascontiguousarray(np.cross(turned, theta)[:, : self.axes])

    @cached_property
    def turns(self) -> "list[csr_array]":
        """From r to the numbers r of each component of θ × ∇J, which are harmonics of the same
        degrees: on the circle one, x ∂_y − y ∂_x, on S² three, x, y and z.

        ∂_φ takes Y_lm = Q_lm Re (x + iy)^m to −m times its imaginary part; the others lead from m
        to m ± 1 by ½ √(l(l + 1) − m(m + 1)), and √2 times that between 0 and 1.
        """
        from scipy.sparse import csr_array  # slow to load

        size, L = len(self.degrees), len(self.tops)
        at = np.full((2, L, L + 1), -1)  # of real and imaginary parts, of l and m
        orders = np.repeat(
            np.arange(L), [(t + 1 - m) * (1 + (m > 0)) for m, t in enumerate(self.tops)]
        )
        parts = np.concatenate(
            [np.tile([0, 1][: 1 + (m > 0)], t + 1 - m) for m, t in enumerate(self.tops)]
        )
        at[parts, self.degrees, orders] = np.arange(size)
        l, m = np.meshgrid(np.arange(L), np.arange(L), indexing="ij")
        up = 0.5 * np.sqrt(np.maximum(l * (l + 1.0) - m * (m + 1.0), 0.0))
        up[:, 0] *= np.sqrt(2.0)

        def turn(*pairs):
            """Of rows (to, from, numbers), with the opposite ones."""
            to, start, numbers = (np.concatenate([np.ravel(p[k]) for p in pairs]) for k in range(3))
            on = (to >= 0) & (start >= 0)
            to, start, numbers = to[on], start[on], numbers[on]
            half = csr_array((numbers, (to, start)), shape=(size, size))
            return csr_array(half - half.T)

        (re, im), (more_re, more_im) = at[:, :, :-1], at[:, :, 1:]
        around = turn((im, re, -m))
        if self.axes == 2:
            return [around]
        return [
            turn((more_im, re, up), (im, more_re, up)),
            turn((more_re, re, -up), (more_im, im, -up)),
            around,
        ]


def projection_on_degrees(degree: int, axes: int) -> tuple[Floats, Floats]:
    """Gauss' nodes t (degree + 1,), and the matrix that takes K(t) to its λ_l, l = 0 … degree, on
    the sphere of R^axes.

    ∫K(θ·θ′) Y_l(θ′) dU = λ_l Y_l;  λ_l = ∫K P_l dw / ∫dw, P_l(1) = 1, dw = (1 − t²)^((axes − 3)/2)
    dt
    """
    from scipy.special import roots_jacobi  # slow to load

    t, w = roots_jacobi(degree + 1, 0.5 * (axes - 3), 0.5 * (axes - 3))
    P = np.ones((degree + 2, len(t)))
    P[1] = t
    for l in range(2, degree + 1):
        P[l] = ((2 * l + axes - 4) * t * P[l - 1] - (l - 1) * P[l - 2]) / (l + axes - 3)
    return t, P[:-1] * (w / w.sum())


def _recurrence(degree, axes):
    """Q_mm, (degree + 1,), and a, b of Q_lm = a_ml z Q_(l−1)m − b_ml Q_(l−2)m, (degree + 1, degree
    + 2 + AT_ONCE), zero beyond the degree."""
    m, l = np.meshgrid(np.arange(degree + 1.0), np.arange(degree + 2.0 + AT_ONCE), indexing="ij")
    up, down = np.zeros(m.shape), np.zeros(m.shape)
    diagonal = np.full(degree + 1, np.sqrt(2.0))
    diagonal[0] = 1.0
    if axes == 3:
        factors = np.sqrt((2.0 * m[1:, 0] + 1.0) / (2.0 * m[1:, 0]))
        diagonal[1:] *= np.cumprod(factors)
        on = (l > m) & (l <= degree)
        m, l = m[on], l[on]
        up[on] = np.sqrt((2 * l - 1) * (2 * l + 1) / ((l - m) * (l + m)))
        with np.errstate(divide="ignore", invalid="ignore"):
            b = np.sqrt((2 * l + 1) * (l + m - 1) * (l - m - 1) / ((l - m) * (l + m) * (2 * l - 3)))
        down[on] = np.where(l - m > 1, b, 0.0)
    return diagonal, up, down


# Degrees go by AT_ONCE through the points of a block, so that what is read is used four times. Rows
# lie in one array s: Re and Im of (x + iy)^m, Q before, Q now, two sums. LLVM knows how far apart
# they are and vectorises the loops, ten times as fast as over arrays of their own.


@njit(cache=True, fastmath={"reassoc", "contract"})
def add_moments(points, weights, tops, diagonal, up, down, s, out):
    """Add the moments of one block; points (3 WIDTH,), weights (n,), s (6 WIDTH,), out
    (n_harmonics,)."""
    n, k = len(weights), 0
    found = np.zeros((2, AT_ONCE))
    for c in range(n):
        s[c], s[WIDTH + c] = weights[c], 0.0
    for m in range(len(tops)):
        for c in range(n):
            s[2 * WIDTH + c], s[3 * WIDTH + c] = 0.0, diagonal[m]
        for l in range(m, tops[m] + 1, AT_ONCE):
            (a0, a1, a2, a3), (b0, b1, b2, b3) = four(up[m], l + 1), four(down[m], l + 1)
            r0, r1, r2, r3, i0, i1, i2, i3 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
            for c in range(n):
                u, v, height = s[c], s[WIDTH + c], points[2 * WIDTH + c]
                q0 = s[3 * WIDTH + c]
                q1 = a0 * height * q0 - b0 * s[2 * WIDTH + c]
                q2 = a1 * height * q1 - b1 * q0
                q3 = a2 * height * q2 - b2 * q1
                s[3 * WIDTH + c] = a3 * height * q3 - b3 * q2
                s[2 * WIDTH + c] = q3
                r0 += q0 * u
                r1 += q1 * u
                r2 += q2 * u
                r3 += q3 * u
                i0 += q0 * v
                i1 += q1 * v
                i2 += q2 * v
                i3 += q3 * v
            found[0, 0], found[0, 1], found[0, 2], found[0, 3] = r0, r1, r2, r3
            found[1, 0], found[1, 1], found[1, 2], found[1, 3] = i0, i1, i2, i3
            for j in range(min(AT_ONCE, tops[m] + 1 - l)):
                for part in range(1 if m == 0 else 2):
                    out[k] += found[part, j]
                    k += 1
        for c in range(n):
            s[c], s[WIDTH + c] = (
                points[c] * s[c] - points[WIDTH + c] * s[WIDTH + c],
                points[c] * s[WIDTH + c] + points[WIDTH + c] * s[c],
            )


# inlined: a process that compiles would call this one, and a later one a copy with other rounding
@njit(cache=True, fastmath={"contract"}, forceinline=True)
def evaluate_block(points, r, tops, diagonal, up, down, s, out):
    """J of one block; points (3 WIDTH,), r (n_harmonics,), s (6 WIDTH,), out (n,)."""
    n, k = len(out), 0
    given = np.zeros((2, AT_ONCE))
    for c in range(n):
        s[c], s[WIDTH + c], out[c] = 1.0, 0.0, 0.0
    for m in range(len(tops)):
        for c in range(n):
            s[2 * WIDTH + c], s[3 * WIDTH + c] = 0.0, diagonal[m]
            s[4 * WIDTH + c], s[5 * WIDTH + c] = 0.0, 0.0
        for l in range(m, tops[m] + 1, AT_ONCE):
            (a0, a1, a2, a3), (b0, b1, b2, b3) = four(up[m], l + 1), four(down[m], l + 1)
            given[:] = 0.0
            for j in range(min(AT_ONCE, tops[m] + 1 - l)):
                for part in range(1 if m == 0 else 2):
                    given[part, j] = r[k]
                    k += 1
            (r0, r1, r2, r3), (i0, i1, i2, i3) = four(given[0], 0), four(given[1], 0)
            for c in range(n):
                height = points[2 * WIDTH + c]
                q0 = s[3 * WIDTH + c]
                q1 = a0 * height * q0 - b0 * s[2 * WIDTH + c]
                q2 = a1 * height * q1 - b1 * q0
                q3 = a2 * height * q2 - b2 * q1
                s[3 * WIDTH + c] = a3 * height * q3 - b3 * q2
                s[2 * WIDTH + c] = q3
                s[4 * WIDTH + c] += q0 * r0 + q1 * r1 + q2 * r2 + q3 * r3
                s[5 * WIDTH + c] += q0 * i0 + q1 * i1 + q2 * i2 + q3 * i3
        for c in range(n):
            out[c] += s[4 * WIDTH + c] * s[c] + s[5 * WIDTH + c] * s[WIDTH + c]
            s[c], s[WIDTH + c] = (
                points[c] * s[c] - points[WIDTH + c] * s[WIDTH + c],
                points[c] * s[WIDTH + c] + points[WIDTH + c] * s[c],
            )


@parallel_loop
def forward(points, weights, tops, diagonal, up, down, scratch, partial):
    """partial[g] = the moments of the blocks of group g, in order; points (n_blocks, 3
    WIDTH), weights (n,), scratch (n_groups, 6 WIDTH), partial (n_groups, n_harmonics)."""
    n, groups, blocks = len(weights), len(partial), len(points)
    for g in prange(groups):
        partial[g] = 0.0
        for b in range(g * blocks // groups, (g + 1) * blocks // groups):
            c = slice(b * WIDTH, min(n, (b + 1) * WIDTH))
            add_moments(points[b], weights[c], tops, diagonal, up, down, scratch[g], partial[g])


@parallel_loop
def adjoint(points, r, tops, diagonal, up, down, scratch, out):
    """J; points (n_blocks, 3 WIDTH), r (n_harmonics,), scratch (n_groups, 6 WIDTH), out (n,)."""
    n, groups, blocks = len(out), len(scratch), len(points)
    for g in prange(groups):
        for b in range(g * blocks // groups, (g + 1) * blocks // groups):
            c = slice(b * WIDTH, min(n, (b + 1) * WIDTH))
            evaluate_block(points[b], r, tops, diagonal, up, down, scratch[g], out[c])
