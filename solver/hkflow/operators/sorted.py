"""Sums over all pairs on the circle, exact to rounding, at cost n_points + n_data after one sort of
the data.

The half-circle on which a(θ·x_i) = ω(θ)·μ(x_i) does not vanish begins and ends a quarter turn
before and after x_i. These 2n ends cut the circle into arcs, on each of which J is one polynomial:
J(θ) = ω(θ)·V_k on arc k, where V_k is V_(k−1) with the datum whose half-circle begins there, or
without the one whose half-circle ends. Likewise h_i is μ(x_i) times the moments of the arcs from
its beginning to its end, a difference of two running sums. Running sums are compensated.
"""

import numpy as np
from numba import prange

from ..arguments import Floats
from ..compiled import njit
from .dense import LINEAR, SQUARED_RELU, blocked
from .operator import check_shape
from .parallel_loops import parallel_loop
from .tree import moments


class SortedOperator:
    """All sums for φ = a(θ·x), θ and x in the plane, with a ReLU or squared ReLU a.

    points : (n_points, 2), or blocked as in DenseOperator;  inputs : (n_data, 2)
    activation : RELU or SQUARED_RELU
    moving : whether `points`, kept blocked, may be overwritten in place: then their arcs are found
        anew in every sum
    """

    def __init__(
        self, points: Floats, inputs: Floats, activation: int, moving: bool = False
    ) -> None:
        if inputs.shape[1] != 2 or activation == LINEAR:
            others = "'dense'" if moving and activation == LINEAR else "'dense' or 'tree'"
            raise ValueError(
                f"The sorted operator is for ReLU and squared ReLU on the circle. Take {others}."
            )
        self.points, self.activation, self.moving = (
            points if points.ndim == 3 else blocked(points),
            activation,
            moving,
        )
        self.squared, self.shape = activation == SQUARED_RELU, inputs.shape
        self.arcs = np.zeros((len(self.points), self.points.shape[2]), dtype=np.uint32)
        self.set_inputs(inputs)

    def set_inputs(self, inputs: Floats) -> None:
        """Take other data, as many as before; inputs (n_data, 2)."""
        check_shape(inputs, self.shape)
        n = len(inputs)
        turned = np.column_stack([-inputs[:, 1], inputs[:, 0]])
        # where half-circles begin, then where they end
        angles = pseudo_angles(np.concatenate([-turned, turned]))
        self.events = np.argsort(angles, kind="stable")
        self.ends, rank = angles[self.events], np.argsort(self.events)
        # arc k ends at ends[k]: a half-circle is the arcs begin … end − 1
        self.begin, self.end = rank[:n] + 1, rank[n:] + 1
        self.table = np.searchsorted(self.ends, np.linspace(0.0, 4.0, 2 * n + 1))
        self.moments = moments(inputs, self.activation, 1.0)
        self.sums = np.zeros((2 * n + 2, self.moments.shape[1]))
        find_arcs(self.points, self.ends, self.table, self.arcs)

    def forward(self, weights: Floats, out: Floats) -> None:
        """h_i = Σ_c weights_c φ(θ_c, x_i); weights (n_points,), out (n_data,)."""
        self._follow()
        sum_arcs(self.squared, self.points, self.arcs, weights, self.sums)
        read_half_circles(self.begin, self.end, self.moments, self.sums, out)

    def adjoint(self, loss_gradient: Floats, out: Floats) -> None:
        """J_c = Σ_i loss_gradient_i φ(θ_c, x_i); loss_gradient (n_data,), out (n_points,)."""
        self._follow()
        sum_half_circles(self.events, self.begin, self.end, self.moments, loss_gradient, self.sums)
        read_arcs(self.squared, self.points, self.arcs, self.sums, out)

    def gradient(self, loss_gradient: Floats, potential: Floats, gradient: Floats) -> None:
        """J_c, and G_c = Σ_i loss_gradient_i a'(θ_c·x_i) x_i; potential (n_points,), gradient
        blocked like `points`."""
        self.adjoint(loss_gradient, potential)
        read_slopes(self.squared, self.points, self.arcs, self.sums, len(potential), gradient)

    def _follow(self):
        if self.moving:
            find_arcs(self.points, self.ends, self.table, self.arcs)


@njit(cache=True)
def pseudo_angle(x, y):
    """A number in [0, 4] that grows with the angle of (x, y), without its sines: 0, 1, 2, 3 on the
    half-axes; 0 for (0, 0)."""
    size = abs(x) + abs(y)
    if size == 0.0:
        return 0.0
    if x < 0.0:
        return 2.0 - y / size
    return y / size if y >= 0.0 else 4.0 + y / size


@njit(cache=True)
def pseudo_angles(vectors):
    """Those of vectors (n, 2)."""
    out = np.empty(len(vectors))
    for i in range(len(vectors)):
        out[i] = pseudo_angle(vectors[i, 0], vectors[i, 1])
    return out


@parallel_loop
def find_arcs(points, ends, table, arcs):
    """The number of ends that are not beyond each point; points (n_blocks, 2, width), ends (2n,)
    increasing.

    table (2n + 1,): how many ends are below each of 2n + 1 even steps from 0 to 4;  arcs (n_blocks,
    width)
    """
    n = len(ends)
    for b in prange(len(points)):
        for c in range(points.shape[2]):
            angle = pseudo_angle(points[b, 0, c], points[b, 1, c])
            step = min(int(angle * (0.25 * n)), n - 1)
            low, high = table[step], table[step + 1]
            while low < high:
                middle = (low + high) // 2
                if ends[middle] <= angle:
                    low = middle + 1
                else:
                    high = middle
            while low > 0 and ends[low - 1] > angle:  # the step itself was rounded
                low -= 1
            while low < n and ends[low] <= angle:
                low += 1
            arcs[b, c] = low


@njit(cache=True)
def sum_half_circles(events, begin, end, moments, loss_gradient, sums):
    """V_k = Σ loss_gradient_i μ(x_i) over the data whose half-circle holds arc k; sums (2n + 2, M),
    the first 2n + 1 rows."""
    n, M = moments.shape
    for a in range(M):
        total, lost = 0.0, 0.0
        for i in range(n):
            if begin[i] > end[i]:
                total, lost = compensated(total, lost, loss_gradient[i] * moments[i, a])
        sums[0, a] = total + lost
        for k in range(2 * n):
            i, sign = (events[k], 1.0) if events[k] < n else (events[k] - n, -1.0)
            total, lost = compensated(total, lost, sign * loss_gradient[i] * moments[i, a])
            sums[k + 1, a] = total + lost


@njit(inline="always")
def compensated(total, lost, term):
    """total + term, and what rounding has taken from it so far (Neumaier 1974)."""
    new = total + term
    lost += (total - new) + term if abs(total) >= abs(term) else (term - new) + total
    return new, lost


@parallel_loop
def read_arcs(squared, points, arcs, sums, out):
    """J_c = ω(θ_c)·V of the point's arc; points (n_blocks, 2, width), sums (., M), out
    (n_points,)."""
    width = points.shape[2]
    for b in prange(len(points)):
        for c in range(min(width, len(out) - b * width)):
            x, y, V = points[b, 0, c], points[b, 1, c], sums[arcs[b, c]]
            out[b * width + c] = (
                x * x * V[0] + 2.0 * x * y * V[1] + y * y * V[2] if squared else x * V[0] + y * V[1]
            )


@parallel_loop
def read_slopes(squared, points, arcs, sums, n, gradient):
    """G_c = ∂J/∂θ at each of n points; gradient (n_blocks, 2, width), zero on padding."""
    width = points.shape[2]
    for b in prange(len(points)):
        for c in range(width):
            x, y, V = points[b, 0, c], points[b, 1, c], sums[arcs[b, c]]
            on = 1.0 if b * width + c < n else 0.0
            gradient[b, 0, c] = on * (2.0 * (x * V[0] + y * V[1]) if squared else V[0])
            gradient[b, 1, c] = on * (2.0 * (x * V[1] + y * V[2]) if squared else V[1])


@njit(cache=True)
def sum_arcs(squared, points, arcs, weights, sums):
    """P_k = Σ weights_c ω(θ_c) over the points on arcs before k; sums (2n + 2, M)."""
    width = points.shape[2]
    sums[:] = 0.0
    for b in range(len(points)):
        for c in range(min(width, len(weights) - b * width)):
            x, y, w, S = (
                points[b, 0, c],
                points[b, 1, c],
                weights[b * width + c],
                sums[arcs[b, c] + 1],
            )
            if squared:
                S[0] += w * x * x
                S[1] += 2.0 * w * x * y
                S[2] += w * y * y
            else:
                S[0] += w * x
                S[1] += w * y
    for a in range(sums.shape[1]):
        total, lost = 0.0, 0.0
        for k in range(1, len(sums)):
            total, lost = compensated(total, lost, sums[k, a])
            sums[k, a] = total + lost


@parallel_loop
def read_half_circles(begin, end, moments, sums, out):
    """h_i = μ(x_i)·(P_end − P_begin), around the circle; begin, end (n,), moments (n, M), sums (2n
    + 2, M), out (n,)."""
    n, M = moments.shape
    for i in prange(n):
        h = 0.0
        for a in range(M):
            around = sums[end[i], a] - sums[begin[i], a]
            if end[i] < begin[i]:
                around += sums[2 * n + 1, a]
            h += moments[i, a] * around
        out[i] = h
