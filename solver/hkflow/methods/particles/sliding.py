"""Particles between kinks and along them, while the loss gradient r(t) is a polynomial in time.

For φ = b ψ(a·x) with ψ positively homogeneous of degree 1, y = (a, b) of any length obeys

    ẏ = −α A(t) y,   a' = −α b G(t),   b' = −α G(t)·a,   θ = y/|y|,   log m += β/(2α) log|y|,

G = g₀ + Σ_{n_k·a > 0} κ_k n_k a polynomial in time between kinks. Of several outputs each has its
b_l, G_l and κ_kl, and a' = −α Σ_l b_l G_l, b_l' = −α G_l·a. On the signed sphere, φ = ε
ψ(θ·x), the same holds for y = (θ, ε)/√2, whose halves stay equally long: θ = a/|a|, and all
potentials are twice as large. Kinks that hold a particle take their directions out of G, so that
the multipliers μ(t) with n_k·(G + Σ μ n) = 0 are polynomials as well (Filippov). The Taylor series
of y is summed to rounding: the only error is that of r(t). What drives a is Σ_l b_l G_l for several
outputs: their multipliers Σ_l b_l(t) μ_l(t) are products of polynomials and series.

Kinks off the origin, n̂_k·(θ, 1) = 0 on the signed sphere (shifted.py), keep all this: n̂_k·(a, |b|)
is a polynomial. What holds leaves a small sphere θ = C + ρ η, η orthogonal to what holds, and on it

    η̇ = −(α/ρ) ∇(ε η·G),   J = ε (level + ρ η·G),   level = ĝ·(C, 1):

the same motion, α larger; log m loses β ∫ε level besides. The multipliers then are μ + (w/ρ) η·G
with C = Σ w n, polynomials if multiplied by |b|.

A piece of a path ends where n_k·a, a multiplier or its room κ − μ changes sign, or b while
something holds: zeros of polynomials. What the particle does there is `settle`'s choice.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...arguments import Floats
from ...compiled import njit
from ...operators.parallel_loops import divided_loop
from ..frozen_relu.frozen import SLIP, TOUCH, add, along, dot, project, settle

TERMS = 19  # of a Taylor series
LAST_TERM = 1e-16  # of a series, at the end of a piece, at most
ENOUGH = 3  # terms in a row that are smaller
NEAR = 4.0 * TOUCH  # |n_k·y| of a particle that is on kink k, where it has been found past one
REACH = 2.5  # how much more than y the distance (ρ n, n̂·(C, 1))·y of a shifted kink may change
PARTS = 4  # of a piece, in each of which a function is taken to turn once at most
HALVINGS = 60
SHORT = 0.1  # pieces in which |y| grows by less have the first rule of Gauss, others the second
RULES = [np.polynomial.legendre.leggauss(count) for count in (4, 6)]
TIMES, SHARES = ([0.5 * (rule[k] + 1 - k) for rule in RULES] for k in (0, 1))
FEW_TIMES, MANY_TIMES, FEW_SHARES, MANY_SHARES = *TIMES, *SHARES
SUMS = (
    "mass", "first", "reaction", "steep", "exchange", "crossings", "captures", "releases",
    "failures",
)  # fmt: skip
MASS, FIRST, REACTION, STEEP, EXCHANGE, CROSSINGS, CAPTURES, RELEASES, FAILURES = range(9)


class Scratch(NamedTuple):
    """Arrays that a particle is moved with, for each group of blocks, which is one thread's: the
    first axis.

    polynomials (2, degree + 1, outputs · q) : forces of all kinks that the particle is not on, and
        of those and the ones that hold it, about the time of the piece
    terms (TERMS, p + outputs) : Taylor coefficients of y;  states (2, p + outputs) : y, a node
    vectors (3, q) : two forces, the direction of the particle;  directions (outputs,) : b
    values (2, n_kinks) : n_k·y, sides;  tangents (n_kinks, q) : for kinks off the origin
    lists (5, n_kinks), limits (3, n_kinks), basis (2, q, q), known (q,) : see `settle`; the last
        list has the sides from which kinks were met
    held_kinks (q,) : those that hold it;  frames (2, q) : see `frame`
    room (outputs, 3, q, …) : multipliers, see `hold`;  levels (2, degree + 2) : see `heights`
    distance (TERMS,) : of a kink, a polynomial
    at_nodes (n_nodes, p + outputs), growths (n_nodes,) : y and the growth of log m at the nodes
    """

    polynomials: Floats
    terms: Floats
    states: Floats
    vectors: Floats
    directions: Floats
    values: Floats
    tangents: Floats
    lists: NDArray[np.int64]
    limits: Floats
    basis: Floats
    known: NDArray[np.int64]
    held_kinks: NDArray[np.int64]
    frames: Floats
    room: Floats
    levels: Floats
    distance: Floats
    at_nodes: Floats
    growths: Floats


@njit(cache=True)
def value(c, count, t):
    """Σ_j c_j t^j for j < count."""
    total = c[count - 1]
    for j in range(count - 2, -1, -1):
        total = total * t + c[j]
    return total


@njit(cache=True)
def slope(c, count, t):
    """Σ_j j c_j t^(j−1) for j < count."""
    total = 0.0
    for j in range(count - 1, 0, -1):
        total = total * t + j * c[j]
    return total


@njit(cache=True)
def first_zero(c, count, side, allowed, end):
    """The first t < end at which side Σ_j c_j t^j falls below −allowed, to rounding from above; or
    end."""
    begun = side * c[0] + allowed
    if begun <= 0.0:
        allowed += allowed - begun
    width, low = end / PARTS, 0.0
    for part in range(PARTS):
        high = end if part == PARTS - 1 else low + width
        if side * value(c, count, high) + allowed > 0.0:
            if side * slope(c, count, low) >= 0.0 or side * slope(c, count, high) <= 0.0:
                low = high
                continue
            left, right = low, high  # it turns within: look where
            for _ in range(HALVINGS):
                middle = 0.5 * (left + right)
                if side * value(c, count, middle) + allowed <= 0.0:
                    right = middle
                    break
                if side * slope(c, count, middle) < 0.0:
                    left = middle
                else:
                    right = middle
            if side * value(c, count, right) + allowed > 0.0:
                low = high
                continue
            high = right
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            if side * value(c, count, middle) + allowed > 0.0:
                low = middle
            else:
                high = middle
        return high
    return end


@njit(cache=True)
def column(c, a, t):
    """Σ_j c_ja t^j; without a view of the column, which costs more than the sum."""
    total = c[len(c) - 1, a]
    for j in range(len(c) - 2, -1, -1):
        total = total * t + c[j, a]
    return total


@njit(cache=True)
def size_of(c, j):
    """Length of row j."""
    total = 0.0
    for a in range(c.shape[1]):
        total += c[j, a] * c[j, a]
    return np.sqrt(total)


@njit(cache=True)
def shifted(c, begin, out):
    """Coefficients about `begin` of the polynomials in the columns of c (degree + 1, columns)."""
    degree = len(c) - 1
    for j in range(degree + 1):
        for a in range(c.shape[1]):
            out[j, a] = c[j, a]
    if begin == 0.0:
        return
    for k in range(degree):
        for j in range(degree - 1, k - 1, -1):
            for a in range(c.shape[1]):
                out[j, a] += begin * out[j + 1, a]


@njit(cache=True)
def series(y, F, several, outputs, rate, left, terms):
    """Taylor coefficients of y' = −rate A(F) y, into terms (TERMS, p + outputs), until they no
    longer count at a time `left`; y is the first, F (≥ 1, outputs · q). Returns how many there
    are."""
    outputs = outputs if len(several) else 1
    p, q, small, power = len(y) - outputs, F.shape[1] // outputs, 0, 1.0
    for a in range(len(y)):
        terms[0, a] = y[a]
    for j in range(len(terms) - 1):
        for a in range(len(y)):
            terms[j + 1, a] = 0.0
        for k in range(min(j + 1, len(F))):
            for one in range(outputs):
                first, last = one * q, p + one
                b = terms[j - k, last]
                for a in range(p):
                    terms[j + 1, a] -= F[k, first + a] * b
                    terms[j + 1, last] -= F[k, first + a] * terms[j - k, a]
        for a in range(len(y)):
            terms[j + 1, a] *= rate / (j + 1)
        power *= left
        small = small + 1 if power * size_of(terms, j + 1) < LAST_TERM else 0
        if small >= ENOUGH and j + 1 >= len(F):  # in a slow flow, only those of F count
            return j + 2
    return len(terms)


@njit(cache=True)
def at_time(terms, t, out):
    """y(t) from its Taylor coefficients, into out (like y); returns log |y(t)|, where |y(0)| = 1.

    That is known to a rounding of y(t) − y(0): masses grow by a power of |y|, which is large where
    transport is slow.
    """
    last, grown = len(terms) - 1, 0.0
    for a in range(len(out)):
        change = 0.0
        for j in range(last, 0, -1):
            change = (change + terms[j, a]) * t
        out[a] = change + terms[0, a]
        grown += change * (2.0 * terms[0, a] + change)
    return 0.5 * np.log1p(grown)


@njit(cache=True)
def length_of_piece(terms, left):
    """How far the series may go, `left` at most, by how much y may change on the way, and by how
    much of it beyond its first term."""
    end = left
    for j in range(len(terms) - 2, len(terms)) if len(terms) == TERMS else range(0):
        size = size_of(terms, j)
        if size * end**j > LAST_TERM:
            end = (LAST_TERM / size) ** (1.0 / j)
    bend, power = 0.0, end
    for j in range(2, len(terms)):
        power *= end
        bend += power * size_of(terms, j)
    return end, end * size_of(terms, 1) + bend, bend


@njit(cache=True)
def to_scale(y, halves):
    """Make |y| = 1, or |a| = |b| = 1/√2 for halves."""
    last = len(y) - 1 if halves else len(y)
    inner = 0.0
    for a in range(last):
        inner += y[a] * y[a]
    size = np.sqrt(2.0 * inner) if halves else np.sqrt(inner)
    for a in range(last):
        y[a] /= size
    if halves:
        y[last] = np.sqrt(0.5) if y[last] > 0.0 else -np.sqrt(0.5)


@njit(cache=True)
def integrate(
    terms, F, end, begin, time, mass, halves, power, decay, drift, shift, radius, level, lost,
    times, shares, several, outputs, node, force, sums,
):  # fmt: skip
    """Add the integrals along a piece to the sums, by a rule of times and shares of it; node (like
    y) and force (≥ p,) are scratch."""
    outputs = outputs if len(several) else 1
    p, q = len(node) - outputs, F.shape[1] // outputs
    scale, grows = 2.0 if halves else 1.0, power > 0.0
    for j in range(len(drift)):
        grows = grows or drift[j] != 0.0
    for j in range(len(lost)):
        grows = grows or lost[j] != 0.0
    for g in range(len(times)):
        t = end * times[g]
        log_size = at_time(terms, t, node)
        square = dot(node, node)
        bend, steep = 0.0, 0.0
        for one in range(outputs):
            b, along_a = node[p + one], 0.0
            for a in range(p):
                own = column(F, one * q + a, t)
                along_a += own * node[a]
                force[a] = b * own if one == 0 else force[a] + b * own
            bend += b * along_a
            steep += along_a * along_a
        for a in range(p):
            steep += force[a] * force[a]
        bare = 2.0 * scale * bend / square  # θ·∇J if joint
        J = 0.5 * radius * bare + decay + value(level, len(level), t)
        m = mass * shares[g] * end * time
        if grows:
            m *= np.exp(
                power * log_size
                - (value(drift, len(drift), begin + t) - value(drift, len(drift), begin))
                - value(lost, len(lost), t)
            )
        J_here = J - value(shift, len(shift), begin + t)
        along_sphere = scale * steep / square - bare * bare / scale
        sums[MASS] += m
        sums[FIRST] += m * J
        sums[REACTION] += m * J * J_here
        sums[STEEP] += m * max(along_sphere, 0.0)
        sums[EXCHANGE] += m * abs(J_here)


@njit(cache=True)
def touch(k, i, cap, side, lists, limits):
    """Put kink k into the list of those that the particle is on, as entry i."""
    lists[0, i], lists[1, i], lists[4, i] = k, side, side
    limits[0, i], limits[1, i] = cap, cap if side > 0 else 0.0


@njit(cache=True)
def add_kink(k, factor, several, jumps, rows, B):
    """B += factor κ_k n_k, a polynomial; the arrays of move_particles."""
    outputs, q = jumps.shape[1] if len(several) else 1, rows.shape[1]
    for j in range(len(B)):
        for one in range(outputs):
            for a in range(q):
                B[j, one * q + a] += factor * jumps[k, one, j] * rows[k, a]


@njit(cache=True)
def direct(y, u):
    """Outputs b of y, into u (outputs,): of one its sign, which is what counts. Returns the sign of
    multipliers: of several outputs they are sums that know it."""
    p = len(y) - len(u)
    if len(u) == 1:
        u[0] = 1.0 if y[p] >= 0.0 else -1.0
        return u[0]
    for one in range(len(u)):
        u[one] = y[p + one]
    return 1.0


@njit(cache=True)
def cap_of(k, u, now, jumps):
    """Σ_l u_l κ_kl at a time: the largest multiplier of kink k."""
    total = 0.0
    for one in range(len(u)):
        total += u[one] * value(jumps[k, one], jumps.shape[2], now)
    return total


@njit(cache=True)
def drive(u, now, B, here, curved, several, g):
    """The force of B at a time, into g (q,): along the sphere if some kinks are off the origin."""
    q, outputs = len(g), len(u) if len(several) else 1
    for a in range(q):
        g[a] = 0.0
        for one in range(outputs):
            g[a] += u[one] * column(B, one * q + a, now)
    if curved:
        tangential(g, here)


@njit(cache=True)
def tangential(x, here):
    """Take the direction (here, |θ|) = (θ, 1)/√2 out of x (p + 1,), and its last entry."""
    p, part = len(here) - 1, 0.0
    for a in range(p):
        part += 2.0 * x[a] * here[a]
    for a in range(p):
        x[a] -= part * here[a]
    x[p] = 0.0


@njit(cache=True)
def choose(
    count, u, now, several, jumps, rows, here, curved, tangents, sides, B, force, g, basis, lists,
    limits, held_kinks, known,
):  # fmt: skip
    """Let the particle decide what it does on `count` kinks, which B does not contain; returns how
    many hold it, −1 if not found."""
    drive(u, now, B, here, curved, several, g)
    for i in range(count if curved else 0):
        k = lists[0, i]
        for a in range(len(g)):  # an assignment of rows takes seconds to compile
            tangents[k, a] = rows[k, a]
        tangential(tangents[k], here)
    if curved:
        known[0] = 0
    held = settle(
        count, lists, limits, tangents if curved else rows, g, force, basis[0], basis[1], known
    )  # fmt: skip
    for i in range(count):
        k, side = lists[0, i], lists[1, i]
        sides[k] = side
        if side > 0:
            add_kink(k, 1.0, several, jumps, rows, B)
    for h in range(held):
        held_kinks[h] = lists[0, lists[2, h]]
    return held


@njit(cache=True)
def start(
    u, several, jumps, constant, normals, rows, s, sides, B, here, curved, g, lists, limits
):  # fmt: skip
    """Sides of all kinks, their sum B without those that the particle is on, and the list of these;
    returns its length. Ridges as in frozen_relu."""
    along(normals, here, s)
    for j in range(len(B)):
        for a in range(B.shape[1]):
            B[j, a] = constant[j, a]
    count = 0
    for k in range(len(s)):
        sides[k] = 0.0
        if abs(s[k]) <= TOUCH:
            touch(k, count, cap_of(k, u, 0.0, jumps), 0, lists, limits)
            count += 1
        else:
            sides[k] = 1.0 if s[k] > 0.0 else -1.0
            if s[k] > 0.0:
                add_kink(k, 1.0, several, jumps, rows, B)
    for i in range(count):
        ridge(i, u, 0.0, several, rows, here, curved, B, g, lists, limits)
    return count


@njit(cache=True)
def ridge(i, u, now, several, rows, here, curved, B, g, lists, limits):
    """Where entry i of the list begins: free on a valley, on the slower side of a ridge."""
    cap, k, normal_force = limits[0, i], lists[0, i], 0.0
    drive(u, now, B, here, curved, several, g)
    for a in range(len(g)):
        normal_force += g[a] * rows[k, a]
    if cap > 0.0:
        lists[1, i], limits[1, i] = 0, 0.5 * cap
    else:
        step = cap * (1.0 - 2.0 * rows[k, -1] ** 2) if curved else cap
        up = abs(normal_force + step) < abs(normal_force)
        lists[1, i], limits[1, i] = (1, cap) if up else (-1, 0.0)


@njit(cache=True, error_model="numpy")
def hold(held, now, jumps, held_kinks, basis, F, room):
    """Multipliers μ_l of the kinks that hold a particle and what is left of them, κ_l − μ_l, for
    b_l = 1: coefficients about `now` into room[l, 0] and room[l, 1] (held, degree + 1). Takes their
    directions out of the forces F. Returns the size of what rounding acts on."""
    degree, scale, q = len(F), size_of(F, 0), basis.shape[2]
    if held == 0:
        return scale
    for one in range(len(room)):
        mu, left, turned = room[one, 0], room[one, 1], room[one, 2, 0]
        for j in range(degree):  # triangle μ = −basisᵀ F
            force = F[j, one * q : (one + 1) * q]
            for h in range(held - 1, -1, -1):
                total = -dot(basis[0, h], force)
                for other in range(h + 1, held):
                    total -= basis[1, h, other] * mu[other, j]
                mu[h, j] = total / basis[1, h, h]
            project(force, basis[0], held)
        for h in range(held):
            for j in range(degree):
                turned[j] = jumps[held_kinks[h], one, j]
            for k in range(degree):
                for j in range(degree - 2, k - 1, -1):
                    turned[j] += now * turned[j + 1]
            scale += abs(turned[0])
            for j in range(degree):
                left[h, j] = turned[j] - mu[h, j]
    return scale


@njit(cache=True)
def add_outputs(held, terms, degree, room):
    """Make the multipliers of `hold` those of Σ_l b_l(t) G_l(t), into room[0]; returns how many
    coefficients they have."""
    total, count = room[0, 2, 0], len(terms) + degree - 1
    p = terms.shape[1] - len(room)
    for h in range(held):
        for side in range(2):
            for j in range(count):
                total[j] = 0.0
            for one in range(len(room)):
                for k in range(degree):
                    for j in range(len(terms)):
                        total[j + k] += room[one, side, h, k] * terms[j, p + one]
            for j in range(count):
                room[0, side, h, j] = total[j]
    return count


@njit(cache=True, error_model="numpy")
def frame(held, held_kinks, rows, basis, frames):
    """The small sphere θ = C + ρ η that kinks off the origin leave: returns ρ. Makes their normals
    (without last entries) orthonormal, N = basisᵀ triangle; frames (2, q): (C, 1) and w, C = N w.
    """
    q, Q, R = rows.shape[1], basis[0], basis[1]
    centre, lean = frames[0], frames[1]
    square = 0.0
    for a in range(q):
        centre[a] = 0.0
    for h in range(held):
        for a in range(q - 1):
            Q[h, a], R[a, h] = rows[held_kinks[h], a], 0.0
        Q[h, q - 1] = 0.0
        for _ in range(2):
            for other in range(h):
                part = dot(Q[other], Q[h])
                R[other, h] += part
                add(Q[h], -part, Q[other])
        R[h, h] = np.sqrt(dot(Q[h], Q[h]))
        lean[h] = -rows[held_kinks[h], q - 1]
        for other in range(h):
            lean[h] -= R[other, h] * lean[other]
        lean[h] /= R[h, h]
        for a in range(q):
            Q[h, a] /= R[h, h]
        add(centre, lean[h], Q[h])
        square += lean[h] * lean[h]
    for h in range(held - 1, -1, -1):
        for other in range(h + 1, held):
            lean[h] -= R[h, other] * lean[other]
        lean[h] /= R[h, h]
    centre[q - 1] = 1.0
    return np.sqrt(1.0 - square)


@njit(cache=True)
def heights(F, beta, time, sign, centre, level, lost):
    """ε level, and what log masses lose by it, polynomials; takes last entries out of F = ĝ."""
    p = F.shape[1] - 1
    for j in range(len(F)):
        level[j] = sign * dot(F[j], centre)
        lost[j + 1] = beta * time * level[j] / (j + 1)
        F[j, p] = 0.0


@njit(cache=True, error_model="numpy")
def lean_on(held, lean, terms, degree, rate, sign, room):
    """Make the multipliers of `hold` those on a small sphere, times |b|."""
    p, count, own = terms.shape[1] - 1, len(terms) - 1, room[0, 2, 0]
    for h in range(held):
        for side in range(2):
            found = room[0, side, h]
            for j in range(degree):
                own[j] = found[j]
            turn = -1.0 if side == 0 else 1.0
            for j in range(count):
                found[j] = turn * lean[h] * (j + 1) * terms[j + 1, p] / rate
                for k in range(min(j + 1, degree)):
                    found[j] += own[k] * sign * terms[j - k, p]
    return count


@njit(cache=True)
def place(y, centre, radius, out):
    """C + ρ η of y = (η, ε)/√2, into out (≥ p,)/√2, and 1/√2 behind it if there is room; a of y =
    (a, b) where no kink is off the origin."""
    p = min(len(y) - 1, len(out))
    for a in range(p):
        out[a] = np.sqrt(0.5) * centre[a] + radius * y[a]
    if len(out) > p:
        out[p] = np.sqrt(0.5)


@njit(cache=True, error_model="numpy")
def move(
    mass, several, jumps, constant, normals, rows, alpha, beta, decay, drift, shift, time, halves,
    nodes, most, scratch, group, sums,
):  # fmt: skip
    """Move one particle, the first of the states of a group, over a step, time 0 … 1 in units of
    `time`; the arrays of move_particles.

    One loop: a piece of the path, then what happens at its end; its parts share more arrays than
    they have lines.
    """
    y, node, u = scratch.states[group, 0], scratch.states[group, 1], scratch.directions[group]
    all_terms, distance, basis = scratch.terms[group], scratch.distance[group], scratch.basis[group]
    lists, limits, tangents = scratch.lists[group], scratch.limits[group], scratch.tangents[group]
    held_kinks, known, room = scratch.held_kinks[group], scratch.known[group], scratch.room[group]
    at_nodes, growths, frames = (
        scratch.at_nodes[group], scratch.growths[group], scratch.frames[group]
    )  # fmt: skip
    outputs, n_kinks, degree = len(u) if len(several) else 1, len(rows), len(constant)
    p = len(y) - outputs
    B, F = scratch.polynomials[group, 0], scratch.polynomials[group, 1]
    force, g = scratch.vectors[group, 0], scratch.vectors[group, 1]
    s, sides = scratch.values[group, 0], scratch.values[group, 1]
    sign = direct(y, u)
    curved, here = len(normals) > p, scratch.vectors[group, 2, : len(normals)]
    centre, level, lost = frames[0], scratch.levels[group, 0, :degree], scratch.levels[group, 1]
    radius, full = 1.0, beta * (2.0 if halves else 1.0) / (2.0 * alpha)
    reach = REACH if curved else 1.0
    frames[:] = 0.0
    place(y, centre, radius, here)
    count = start(
        u, several, jumps, constant, normals, rows, s, sides, B, here, curved, g, lists, limits
    )  # fmt: skip
    held = choose(
        count, u, 0.0, several, jumps, rows, here, curved, tangents, sides, B, force, g, basis,
        lists, limits, held_kinks, known,
    )  # fmt: skip
    now, growth, events, written = 0.0, 0.0, 0, 0
    while True:
        if held < 0 or events > most:
            sums[FAILURES] += 1
            return
        if curved:
            radius = frame(held, held_kinks, rows, basis, frames)
        rate, power = alpha * time / radius, full * radius * radius
        if held > 0:
            q = basis.shape[2]
            for a in range(p):
                g[a] = y[a]
            for a in range(p, q):
                g[a] = 0.0
            project(g, basis[0], held)
            for a in range(p):
                y[a] = g[a]
        to_scale(y, halves)
        place(y, centre, radius, here)
        shifted(B, now, F)
        if curved:
            heights(F, beta, time, sign, centre, level, lost)
        scale = hold(held, now, jumps, held_kinks, basis, F, room)
        fastest = max(rate * size_of(F, 0) * max(1.0, power), abs(lost[1]))
        left = 1.0 - now
        if fastest * left > 1.0:
            left = 1.0 / fastest
        terms = all_terms[: series(y, F, several, outputs, rate, left, all_terms)]
        end, change, bend = length_of_piece(terms, left)
        meets = False
        along(normals, here, s)
        for k in range(n_kinks):
            if sides[k] != 0.0 and sides[k] * s[k] + TOUCH <= reach * change:
                steady, off = 0.0, sign * dot(rows[k], centre) if curved else 0.0
                for a in range(p):
                    steady += radius * rows[k, a] * terms[1, a]
                steady += off * terms[1, p]
                ahead = s[k] + min(sides[k] * steady, 0.0) * sides[k] * end
                if sides[k] * ahead + TOUCH > reach * bend:
                    continue
                for j in range(len(terms)):
                    distance[j] = off * terms[j, p]
                    for a in range(p):
                        distance[j] += radius * rows[k, a] * terms[j, a]
                when = first_zero(distance, len(terms), sides[k], TOUCH, end)
                if when < end:
                    end, meets = when, True
        length = degree
        if curved:
            scale += held * size_of(frames, 1) * size_of(F, 0)
            length = lean_on(held, frames[1], terms, degree, alpha * time, sign, room)
        if outputs > 1:
            length = add_outputs(held, terms, degree, room)
        for h in range(held):
            for side in range(2):
                when = first_zero(room[0, side, h], length, sign, 2.0 * SLIP * scale, end)
                if when < end:
                    end, meets = when, True
        turns = False
        if held > 0 and not halves and outputs == 1:
            when = first_zero(terms[:, p], len(terms), sign, 0.0, end)
            if when < end:
                end, meets, turns = when, True, True
        begin = now
        short = fastest * end <= SHORT
        integrate(
            terms, F, end, begin, time, mass * np.exp(growth), halves, power, decay, drift, shift,
            radius, level, lost, FEW_TIMES if short else MANY_TIMES,
            FEW_SHARES if short else MANY_SHARES, several, outputs, node, force, sums,
        )  # fmt: skip
        last = not meets and end >= 1.0 - begin
        now = 1.0 if last else begin + end
        while written < len(nodes) and (nodes[written] <= now or last):
            log_size = at_time(terms, nodes[written] - begin, at_nodes[written])
            to_scale(at_nodes[written], halves)
            growths[written] = (
                growth
                + power * log_size
                - (value(drift, len(drift), nodes[written]) - value(drift, len(drift), begin))
                - value(lost, len(lost), nodes[written] - begin)
            )
            if curved:
                place(at_nodes[written], centre, radius, at_nodes[written, :p])
            written += 1
        if last:
            return
        log_size = at_time(terms, end, y)
        to_scale(y, halves)
        growth += (
            power * log_size
            - (value(drift, len(drift), now) - value(drift, len(drift), begin))
            - value(lost, len(lost), end)
        )
        at_end = 1.0  # by which the multipliers are larger here
        if curved:
            at_end = abs(y[p])
            place(y, centre, radius, y[:p])
        elif outputs > 1:
            at_end = np.exp(log_size)
        events += 1
        if not meets:
            continue
        if turns:
            sign = u[0] = -sign
        elif not halves and (outputs > 1 or y[p] != 0.0):
            sign = direct(y, u)
        for a in range(p):
            here[a] = y[a]
        along(normals, here, s)
        count = held
        for h in range(held):
            k = held_kinks[h]
            cap = cap_of(k, u, now, jumps)
            touch(k, h, cap, 0, lists, limits)
            mu = sign * value(room[0, 0, h], length, end) / at_end
            limits[1, h] = min(max(mu, 0.0), max(cap, 0.0))
        for k in range(n_kinks):
            if sides[k] != 0.0 and sides[k] * s[k] <= NEAR:
                touch(k, count, cap_of(k, u, now, jumps), int(sides[k]), lists, limits)
                if sides[k] > 0.0:
                    add_kink(k, -1.0, several, jumps, rows, B)
                count += 1
        for h in range(held):
            if limits[0, h] <= 0.0:
                ridge(h, u, now, several, rows, here, curved, B, g, lists, limits)
        held = choose(
            count, u, now, several, jumps, rows, here, curved, tangents, sides, B, force, g, basis,
            lists, limits, held_kinks, known,
        )  # fmt: skip
        for i in range(count):
            was, is_now = lists[4, i], lists[1, i]
            sums[CROSSINGS] += was * is_now == -1
            sums[CAPTURES] += was != 0 and is_now == 0
            sums[RELEASES] += was == 0 and is_now != 0


@divided_loop()
def move_particles(
    begin, end, positions, log_weights, signs, several, jumps, constant, normals, rows, alpha, beta,
    decay, drift, shift, time, log_scale, halves, nodes, most, scratch, new_positions,
    new_log_weights, sums,
):  # fmt: skip
    """Move particles over a step, in the potential of a loss gradient that is a polynomial in s =
    t/time.

    begin, end: the groups of blocks to move
    positions (n_blocks, p or p + outputs, width), blocked;  log_weights, signs (n,)
    several: a tuple, empty for one output, for which other loops are compiled
    jumps (n_kinks, outputs, degree + 1), constant (1 or n, degree + 1, outputs · q): κ(s) and
    g₀(s), of each particle if they differ;  normals (p, n_kinks), rows (n_kinks, q), q = p, or p +
    1 with a zero at last on the joint sphere; all with p + 1 for kinks off the origin
    drift (≥ 1,): coefficients of what log masses lose besides β ∫(J − λ);  shift: of what reaction
    takes J relative to
    halves: whether on the signed sphere, else joint;  nodes (n_nodes,): times s > 0 in order, the
    last one 1;  most: events of a particle before it is given up;  scratch: a Scratch
    new_positions (n_nodes, …), new_log_weights (n_nodes, n): at the nodes;  sums (n_blocks, 9), as
    in SUMS: ∫∫dν dt, ∫∫J, ∫∫J (J − shift), ∫∫|∇J|², ∫∫|J − shift|, events
    """
    n, groups = len(log_weights), len(scratch.terms)
    n_blocks, axes, width = positions.shape
    for group in range(begin, end):
        y = scratch.states[group, 0]
        state, growth = scratch.at_nodes[group], scratch.growths[group]
        for block in range(group * n_blocks // groups, (group + 1) * n_blocks // groups):
            sums[block] = 0.0
            for i in range(min(width, n - block * width)):
                c = block * width + i
                for a in range(axes):
                    y[a] = positions[block, a, i]
                if halves:
                    y[axes] = signs[c]
                    to_scale(y, True)
                move(
                    np.exp(log_weights[c] - log_scale), several, jumps,
                    constant[min(c, len(constant) - 1)], normals, rows, alpha, beta, decay, drift,
                    shift, time, halves, nodes, most, scratch, group, sums[block],
                )  # fmt: skip
                scale = np.sqrt(2.0) if halves else 1.0
                for j in range(len(nodes)):
                    new_log_weights[j, c] = log_weights[c] + growth[j]
                    for a in range(axes):
                        new_positions[j, block, a, i] = scale * state[j, a]
