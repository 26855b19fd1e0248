"""The density of a measure that flows in frozen potentials, at any point: along the characteristic
that ends there, followed back.

Off the kinks that trap, one characteristic ends at every point. Going back over a time in which r
is frozen is going forward with −r: a valley becomes a ridge, and a ridge a valley. A point that is
caught by such a valley on its way back comes out of a void, which opened at the ridge: its density
is 0. Along a characteristic, with f as in frozen_relu/frozen.py,

    ν(θ(t)) = ν(θ) f^(d + β/α) e^(−βλt)   between kinks (α = 0: ν(θ) e^(−βJ(θ)t)),
    ν v_n is the same on both sides       of a kink that is crossed, v_n the speed normal to it,
"""

import numpy as np

from ...arguments import Floats
from ...operators.parallel_loops import divided_loop, small_kernel
from ...problem.flow import Flow
from ..frozen_relu.frozen import (
    AT_ONCE,
    FAR,
    LONGEST,
    NEAREST,
    SAFE,
    SLIP,
    WIDER,
    add,
    along,
    angle_bound,
    dot,
    list_near,
    reach,
    to_unit,
)
from ..frozen_relu.kinks import Kinks
from ..frozen_relu.movement import EVENTS, EVENTS_PER_KINK, GROUPS, room_of
from ..frozen_relu.tiles import log_of_f
from .history import History


@small_kernel(error_model="numpy")
def next_crossing(s, slopes, sides, far):
    """The first kink that θ + c e meets for 0 ≤ c < far from the side it is on, and c; (−1, far) if
    there is none.

    s, slopes, sides (n_kinks,): n_k·θ, n_k·e and the side of kink k. A point that has just crossed
    a kink does not meet it again because rounding has left it on the other side.
    """
    first = -1
    for begin in range(0, len(s), AT_ONCE):
        stop = begin + AT_ONCE
        own, speeds, side = s[begin:stop], slopes[begin:stop], sides[begin:stop]
        ahead = 0
        for k in range(len(own)):
            ahead += (side[k] * speeds[k] < 0.0) & (side[k] * (own[k] + far * speeds[k]) < 0.0)
        for k in range(len(own) if ahead > 0 else 0):
            if side[k] * speeds[k] < 0.0 and side[k] * (own[k] + far * speeds[k]) < 0.0:
                first, far = begin + k, max(0.0, -own[k] / speeds[k])
    return first, far


@small_kernel(error_model="numpy")
def glide(theta, e, aside, plus, minus, tau):
    """Take θ along the great circle towards e for τ, in place; returns log f.

    aside (p,): θ − z e;  plus, minus: 1 ± z, z = θ·e
    """
    shrink = np.exp(-tau)
    half = 0.5 * (plus + minus * shrink * shrink)
    if half == 0.0:
        return -tau
    later = 0.5 * (plus - minus * shrink * shrink) / half
    for a in range(len(theta)):
        theta[a] = aside[a] * (shrink / half) + later * e[a]
    to_unit(theta)
    return log_of_f(tau, shrink, minus, half)


@small_kernel(error_model="numpy")
def go_back(
    theta, sign, jumps, constants, durations, normals, rows, alpha, beta, decay, most, vectors,
    values, places, nearby,
):  # fmt: skip
    """Take θ back to where it was before all flows; returns log ν(θ now)/ν(θ then), −inf where it
    comes out of a void.

    Arguments as of `trace`. Sides are kept as they are, for a position on a kink has none. A point
    that kinks send to and fro is caught where they meet.
    """
    p, growth = len(theta), 0.0
    e, aside, base = vectors[1], vectors[2], vectors[3]
    every, all_slopes, all_sides = values[0], values[1], values[2]
    along(normals, theta, every)
    for k in range(len(every)):
        all_sides[k] = 1.0 if every[k] > 0.0 else -1.0
    # as in frozen_relu.frozen.move: none but the `near` kinks of places can be met
    near, walked, distance = len(rows), 0.0, -1.0
    s, sides, slopes, around = every, all_sides, all_slopes, normals
    for flow in range(len(durations) - 1, -1, -1):
        time = durations[flow]
        growth -= beta * decay * time
        for j in range(near if near < len(rows) else 0):
            all_sides[places[j]] = sides[j]
        if near == len(rows) and nearby.shape[1] > 0:
            along(normals, theta, every)
            near, walked, distance = 0, 0.0, -1.0
            s, sides, slopes = every[:0], all_sides[:0], all_slopes[:0]
        for k in range(len(every)):
            all_slopes[k] = jumps[flow, k] if all_sides[k] > 0.0 else 0.0
        for a in range(p):
            base[a] = -sign * (constants[flow, a] + dot(all_slopes, normals[a]))
        events = 0
        while True:
            size = np.sqrt(dot(base, base))
            end = alpha * size * time
            if end == 0.0:
                growth += beta * time * dot(theta, base)
                break
            for a in range(p):
                e[a] = -base[a] / size
            z = dot(e, theta)
            for a in range(p):
                aside[a] = theta[a] - z * e[a]
            square = dot(aside, aside)
            plus, minus = (
                (1.0 + z, square / (1.0 + z)) if z >= 0.0 else (square / (1.0 - z), 1.0 - z)
            )
            along(around, theta, s)
            along(around, e, slopes)
            far = 0.5 * (plus * np.exp(end) - minus * np.exp(-end)) - z if end < LONGEST else FAR
            met, c = next_crossing(s, slopes, sides, far)
            if near < len(rows):
                walked, least = walked + angle_bound(c, z, square), NEAREST
                while walked > SAFE * distance:  # what is not in the list may be met
                    wanted = min(1.0, WIDER * angle_bound(far, z, square))
                    near, distance = list_near(
                        theta, wanted, least, near, distance, normals, rows, values, places, nearby
                    )
                    least = 2.0 * distance
                    s, sides, slopes, around = every, all_sides, all_slopes, normals
                    if near < len(rows):
                        s, sides, slopes = values[3, :near], values[4, :near], all_slopes[:near]
                        around = nearby
                    along(around, e, slopes)
                    met, c = next_crossing(s, slopes, sides, far)
                    walked = angle_bound(c, z, square) if near < len(rows) else 0.0
            tau = end if met < 0 else min(end, max(0.0, np.log(reach(c, z, plus, minus, square))))
            growth -= (p - 1.0 + beta / alpha) * glide(theta, e, aside, plus, minus, tau)
            if met < 0:
                break
            events += 1
            cap, side, row = -sign * jumps[flow, places[met]], sides[met], rows[places[met]]
            comes = side * dot(base, row)
            goes = comes - cap
            if goes <= SLIP * (size + abs(cap)) or events > most:
                return -np.inf
            growth += np.log(goes / comes)
            add(base, -side * cap, row)
            sides[met] = -side
            time -= tau / (alpha * size)
    return growth


@divided_loop()
def trace(
    begin, end, points, sign, jumps, constants, durations, normals, rows, alpha, beta, decay, most,
    vectors, values, places, nearby, origins, growth,
):  # fmt: skip
    """Take points back through flows with frozen loss gradients, the last one first.

    points, origins (n, p): where they are, and where they come from;  sign: ε;  growth (n,): log of
    the density at the points over that at the origins;  jumps (n_flows, n_kinks), constants
    (n_flows, p), durations (n_flows,): κ, g₀ and time of each flow;  normals (p, n_kinks), rows its
    transpose;  alpha, beta, decay: α, β, λ;  most: kinks met by a point in one flow before it is
    taken for caught;  vectors (n_groups, 4, p), values (n_groups, 5, n_kinks), places (n_groups,
    n_kinks), which holds 0, 1, …, nearby (n_groups, p, room): scratch of each group of points,
    which is one thread's;  begin, end: the groups
    """
    n, groups = len(points), len(vectors)
    for g in range(begin, end):
        theta = vectors[g, 0]
        for i in range(g * n // groups, (g + 1) * n // groups):
            for a in range(len(theta)):
                theta[a] = points[i, a]
            growth[i] = go_back(
                theta, sign, jumps, constants, durations, normals, rows, alpha, beta, decay, most,
                vectors[g], values[g], places[g], nearby[g],
            )  # fmt: skip
            for a in range(len(theta)):
                origins[i, a] = theta[a]


def followed_back(
    kinks: Kinks, history: History, flow: Flow, decay: float, points: Floats, sign: float
) -> tuple[Floats, Floats]:
    """Where the characteristics that end at points began, (n, d+1), and log ν(points)/ν₀(there),
    (n,), −inf in voids.

    points : (n, d+1) unit vectors;  sign : ε;  decay : λ. Costs n_points · (n_flows · n_kinks +
        n_crossings · √n_kinks); for α = 0, where nothing moves, n_points · n_kinks.
    """
    durations, loss_gradients = history.durations, history.loss_gradients
    if flow.transport == 0.0:
        total = np.einsum("k,ki->i", durations, loss_gradients)
        loss_gradients, decay = total[None], decay * durations.sum()
        durations = np.ones(1)
    parts = [kinks.gradient(r) for r in loss_gradients]
    count, p = len(kinks.normals), points.shape[1]
    jumps = np.array([jumps for jumps, _ in parts]).reshape(len(parts), count)
    constants = np.array([constant for _, constant in parts]).reshape(len(parts), p)
    points = np.ascontiguousarray(points, dtype=float)
    n = len(points)
    groups = max(min(n, GROUPS), 1)
    origins, growth = np.zeros((n, p)), np.zeros(n)
    trace(
        groups, n * jumps.size,
        points, float(sign), jumps, constants, np.ascontiguousarray(durations),
        np.ascontiguousarray(kinks.normals.T), kinks.normals, float(flow.transport),
        float(flow.reaction), float(decay), EVENTS + EVENTS_PER_KINK * count,
        np.zeros((groups, 4, p)), np.zeros((groups, 5, count)),
        np.tile(np.arange(count), (groups, 1)), np.zeros((groups, p, room_of(count))),
        origins, growth,
    )  # fmt: skip
    return origins, growth + history.log_factors.sum()
