"""Atoms in a frozen potential J = λ + θ·g(θ), g constant between kinks: exact motion from
kink to kink.

Between kinks, and while it slides along some, an atom is driven by a constant vector G. With e =
−G/|G|, z = e·θ, τ = α|G|t:

    θ(t) = (θ + c e)/f,   c = z (cosh τ − 1) + sinh τ,   f = cosh τ + z sinh τ,   log m += (β/α) log
                          f − βλ t,

a great circle towards e, on which kink k is met at c = −(n_k·θ)/(n_k·e). In terms of E = e^τ and of
θ = aside + z e

    2f = (1 + z) E + (1 − z)/E,   2 f z(t) = (1 + z) E − (1 − z)/E,   f θ(t) = aside + f z(t) e,

which has no cancellation. On kinks the velocity is −α times the shortest vector of {g⁻ + Σ_k μ_k
n_k, 0 ≤ μ_k ≤ ε κ_k} (Filippov): a kink with 0 < μ_k < ε κ_k holds the atom, any other one is left
to the side of its bound.
"""

import numpy as np

from ...operators.dense import TILE
from ...operators.parallel_loops import divided_loop, small_kernel
from .tiles import END, LATER, LEAST, LOG_F, SIGN, SIZE, SQUARE, START, TAU, Z, glide, log_of_f

TOUCH = 1e-13  # |n_k·θ| of an atom that is on kink k
# distance of a normal from the span of those that hold: nearer, it holds nothing that they do not
DEPENDENT = 1e-9
SLIP = 1e-13  # normal velocity, relative to the vectors that make it, that is rounding
SURE = 1e-6  # normal velocity, relative to the jump, that is none of rounding
FAR = 1e300  # chord that stands for an infinite one
AT_ONCE = 16  # kinks that vector instructions look at before any is looked at by itself
LONGEST = 300.0  # τ beyond which e^τ is not formed
# lists of near kinks: the shortest distance; how much farther than the path as it is foreseen they
# reach; the share of the distance up to which they are trusted
NEAREST, WIDER, SAFE = 1e-9, 1.25, 0.999
SUMS = (
    "mass", "transport", "energy", "exchange", "crossings", "captures", "releases", "failures",
    "potential", "clinging", "gained",
)  # fmt: skip
(
    MASS, TRANSPORT, ENERGY, EXCHANGE, CROSSINGS, CAPTURES, RELEASES, FAILURES, POTENTIAL, CLINGING,
    GAINED,
) = range(11)  # fmt: skip


@small_kernel()
def along(normals, x, out):
    """out_k = n_k·x; normals (p, n_kinks), x (p,), out (n_kinks,)."""
    for k in range(len(out)):
        out[k] = normals[0, k] * x[0]
    for a in range(1, len(x)):
        for k in range(len(out)):
            out[k] += normals[a, k] * x[a]


@small_kernel(fastmath={"reassoc"})
def dot(x, y):
    """Σ x y; the same terms are added in the same order each time."""
    total = 0.0
    for a in range(len(x)):
        total += x[a] * y[a]
    return total


@small_kernel()
def add(x, factor, y):
    """x += factor y."""
    for a in range(len(x)):
        x[a] += factor * y[a]


@small_kernel()
def project(x, basis, held):
    """Take the components along basis[:held], orthonormal, out of x (p,)."""
    for h in range(held):
        add(x, -dot(x, basis[h]), basis[h])


@small_kernel(error_model="numpy")
def to_unit(x):
    """x / |x|, in place."""
    scale = 1.0 / np.sqrt(dot(x, x))
    for a in range(len(x)):
        x[a] *= scale


@small_kernel(error_model="numpy", forceinline=True)
def span(
    count, touched, at, free, taken, stuck, cap, mu, rows, base, force, basis, triangle, known,
):  # fmt: skip
    """force = base + Σ of ε κ n at upper bounds; the free normals, made orthonormal: N = basisᵀ
    triangle.

    Returns how many are free, or −1 where one depends on those before it: it is put at a bound. If
    that is because one was taken, this one goes back and is stuck: its speed is of rounding.
    known (p,): the kinks, counted from 1 and ended by 0, of which basis and triangle are there from
        the last time: the first of the free ones are most often the same
    """
    p, held = len(base), 0
    for a in range(p):
        force[a] = base[a]
    for i in range(count):
        if at[i] > 0:
            add(force, cap[i], rows[touched[i]])
        elif at[i] == 0:
            k, size = touched[i] + 1, 0.0
            if held < p - 1 and known[held] == k:
                free[held] = i
                held += 1
                continue
            known[held] = 0
            if held < p - 1:
                for a in range(p):
                    basis[held, a], triangle[a, held] = rows[touched[i], a], 0.0
                for _ in range(2):
                    for h in range(held):
                        part = dot(basis[h], basis[held])
                        triangle[h, held] += part
                        add(basis[held], -part, basis[h])
                size = np.sqrt(dot(basis[held], basis[held]))
            if size <= DEPENDENT:
                if taken >= 0:
                    i = taken
                    stuck[i] = 1
                at[i], mu[i] = (1, cap[i]) if 2.0 * mu[i] > cap[i] else (-1, 0.0)
                return -1
            triangle[held, held], free[held] = size, i
            known[held], known[held + 1] = k, 0
            for a in range(p):
                basis[held, a] /= size
            held += 1
    return held


@small_kernel(error_model="numpy", forceinline=True)
def multipliers(held, force, basis, triangle, target):
    """The μ of the free normals with which force + Σ μ n is orthogonal to them all, into target."""
    for h in range(held - 1, -1, -1):
        target[h] = -dot(basis[h], force)
        for other in range(h + 1, held):
            target[h] -= triangle[h, other] * target[other]
        target[h] /= triangle[h, h]


@small_kernel(error_model="numpy", forceinline=True)
def first_bound(held, free, cap, mu, target, slip):
    """The first free μ, as h, that meets a bound on the way from mu to target, and the share of the
    way; −1 if none does."""
    share, first = 1.0, -1
    for h in range(held):
        i, part = free[h], 2.0
        if target[h] <= slip:
            part = mu[i] / (mu[i] - target[h]) if mu[i] > target[h] else 0.0
        elif target[h] >= cap[i] - slip:
            part = (cap[i] - mu[i]) / (target[h] - mu[i]) if target[h] > mu[i] else 0.0
        if part < share or part <= 1.0 and first < 0:
            share, first = part, h
    return first, share


@small_kernel(error_model="numpy")
def settle(count, lists, limits, rows, base, force, basis, triangle, known):
    """What an atom on `count` kinks does: the shortest base + Σ μ_i n_i. Returns how many hold it,
    −1 if not found.

    lists (≥ 4, n_kinks): the kinks; their state −1 (μ = 0), 0 (free, holds) or +1 (μ = ε κ),
    overwritten; scratch limits (3, n_kinks): ε κ of each; its μ, overwritten; scratch.  rows
    (n_kinks, p);  base, force (p,): the result basis (p, p): orthonormal normals of those that
    hold.  triangle (p, p), known (p,): of the last call for the same rows, or known[0] = 0

    A bounded least-squares problem by active sets (Stark & Parker 1995): a kink is let go where μ
    meets a bound, and taken where the velocity would cross it. One with ε κ ≤ 0 never holds: it is
    crossed then, and speed grows.
    """
    if count == 0:
        for a in range(len(base)):
            force[a] = base[a]
        return 0
    touched, at, free, stuck = lists[0], lists[1], lists[2], lists[3]
    cap, mu, target = limits[0], limits[1], limits[2]
    taken, scale = -1, np.sqrt(dot(base, base))
    for i in range(count):
        stuck[i] = 0
        scale += abs(cap[i])
    slip = SLIP * scale
    for _ in range(16 * (count + 4)):
        held = span(
            count, touched, at, free, taken, stuck, cap, mu, rows, base, force, basis, triangle,
            known,
        )  # fmt: skip
        if held < 0:
            continue
        multipliers(held, force, basis, triangle, target)
        first, part = first_bound(held, free, cap, mu, target, slip)
        if first >= 0:
            for h in range(held):
                mu[free[h]] += part * (target[h] - mu[free[h]])
            i = free[first]
            if i == taken and part == 0.0:
                stuck[i] = 1
            at[i], mu[i] = (-1, 0.0) if target[first] <= slip else (1, cap[i])
            continue
        for h in range(held):
            mu[free[h]] = target[h]
        project(force, basis, held)
        worst, taken = slip, -1
        for i in range(count):
            wrong = at[i] * dot(rows[touched[i]], force) if at[i] != 0 and stuck[i] == 0 else 0.0
            if wrong > worst:
                worst, taken = wrong, i
        if taken < 0:
            return held
        if cap[taken] > 0.0:
            mu[taken], at[taken] = (cap[taken] if at[taken] > 0 else 0.0), 0
        else:
            at[taken] = -at[taken]
    return -1


@small_kernel()
def settle_one(at, cap, normal, base, force, basis):
    """`settle` on a single kink that an atom meets from the side `at`; returns 0, or the side it
    goes on."""
    slope, slip = dot(base, normal), SLIP * (np.sqrt(dot(base, base)) + abs(cap))
    for a in range(len(base)):
        force[a] = base[a]
    if slope < -slip and slip < slope + cap:
        add(force, -slope, normal)
        for a in range(len(base)):
            basis[0, a] = normal[a]
        return 0
    mean = slope + 0.5 * cap
    side = -1 if mean > 0.0 else 1 if mean < 0.0 else at
    if side > 0:
        add(force, cap, normal)
    return side


@small_kernel()
def clings(kink, force, rows, jumps):
    """Whether an atom on a kink that does not hold it has no speed to leave it with: the last kink
    of a dead unit, and those with normals orthogonal to all that drives it."""
    speed, total = abs(dot(force, rows[kink])), 0.0
    if speed > SURE * abs(jumps[kink]):
        return False
    for k in range(len(jumps)):
        total += abs(jumps[k])
    return speed <= SLIP * total


@small_kernel()
def enter(j, i, sign, jumps, rows, sides, base, lists, limits):
    """Put kink lists[5, j], on side sides[j], into the list of those that the atom is on, as entry
    i."""
    k, side = lists[5, j], int(sides[j])
    cap = sign * jumps[k]
    lists[0, i], lists[1, i], lists[4, i] = k, side, side
    limits[0, i], limits[1, i] = cap, cap if side > 0 else 0.0
    if side > 0:
        add(base, -cap, rows[k])
    sides[j] = 0.0


@small_kernel()
def arrive(j, count, sign, jumps, rows, s, sides, base, lists, limits):
    """Renew the list of kinks that an atom is on where it meets kink lists[5, j]; returns its
    length. s, sides: of the kinks in lists[5]"""
    kept = 0
    for i in range(count):
        k, at = lists[0, i], lists[1, i]
        own = k if len(s) == len(rows) else 0
        while lists[5, own] != k:
            own += 1
        if at != 0 and at * s[own] > TOUCH:
            sides[own] = at
            if at > 0:
                add(base, limits[0, i], rows[k])
        else:
            lists[0, kept], lists[1, kept], lists[4, kept] = k, at, at
            limits[0, kept], limits[1, kept] = limits[0, i], limits[1, i]
            kept += 1
    met = 0
    for k in range(len(s)):
        met += (sides[k] * s[k] <= TOUCH) & (sides[k] != 0.0)
    if met == (sides[j] * s[j] <= TOUCH):  # no other, most often
        enter(j, kept, sign, jumps, rows, sides, base, lists, limits)
        return kept + 1
    for k in range(len(s)):
        if sides[k] != 0.0 and (sides[k] * s[k] <= TOUCH or k == j):
            enter(k, kept, sign, jumps, rows, sides, base, lists, limits)
            kept += 1
    return kept


@small_kernel()
def start(theta, sign, jumps, constant, normals, rows, s, sides, active, base, lists, limits):
    """Sides of all kinks, their sum `base` without those that θ is on, and the list of these;
    returns its length.

    On a ridge (ε κ ≤ 0) an atom begins on the side where it is slower: a dead unit on its last kink
    stays dead, whatever rounding made of its side.
    """
    along(normals, theta, s)
    for k in range(len(s)):
        sides[k] = 1.0 if s[k] > 0.0 else -1.0
    for k in range(len(s)):
        active[k] = jumps[k] if s[k] > 0.0 else 0.0
    for a in range(len(base)):
        base[a] = sign * (constant[a] + dot(active, normals[a]))
    near, count = 0, 0
    for k in range(len(s)):
        near += abs(s[k]) <= TOUCH
    for k in range(len(s) if near > 0 else 0):
        if abs(s[k]) <= TOUCH:
            lists[5, k] = k
            enter(k, count, sign, jumps, rows, sides, base, lists, limits)
            count += 1
    for i in range(count):
        cap, slope = limits[0, i], dot(base, rows[lists[0, i]])
        if cap > 0.0:
            lists[1, i], limits[1, i] = 0, 0.5 * cap
        else:
            lists[1, i], limits[1, i] = (1, cap) if abs(slope + cap) < abs(slope) else (-1, 0.0)
    return count


@small_kernel(error_model="numpy")
def list_near(
    theta, distance, least, listed, before, normals, rows, values, places, nearby,
):  # fmt: skip
    """List the kinks that are near an atom: places (n_kinks,) begins with those with |n_k·θ| ≤ a
    distance, and those that it is on, values[3] and values[4] with their s and sides, nearby
    (p, room) with their normals. values[0], values[2]: s and sides of all.

    listed, before: length and distance of the last list, −1 if this is the first
    Returns the length, and the distance, which is shorter than asked for where more than half of
    the room would be taken, but not than `least`. If there is no room for the list, it is of all
    kinks, and nothing is copied.
    """
    count, room, s, sides = 0, nearby.shape[1], values[0], values[2]
    if before > 0.0:
        along(normals, theta, s)
        for j in range(listed):
            s[places[j]], sides[places[j]] = values[3, j], values[4, j]
    distance = max(least, distance)
    for k in range(len(s)):
        count += abs(s[k]) <= distance
    if 2 * count > room:
        distance = max(least, 0.5 * room / count * distance)
    count = 0
    for k in range(len(s)):
        if abs(s[k]) <= distance or sides[k] == 0.0:
            if count < room:
                values[3, count], values[4, count], places[count] = s[k], sides[k], k
                for a in range(len(nearby)):
                    nearby[a, count] = rows[k, a]
            count += 1
    if count <= room:
        return count, distance
    for k in range(len(s)):
        places[k] = k
    return len(s), distance


@small_kernel(error_model="numpy")
def next_kink(s, slopes, sides, far):
    """The first kink that θ + c e meets for 0 ≤ c < far, and c; (−1, far) if there is none."""
    first = -1
    for begin in range(0, len(s), AT_ONCE):
        stop = begin + AT_ONCE
        own, speeds, side = s[begin:stop], slopes[begin:stop], sides[begin:stop]
        ahead = 0
        for k in range(len(own)):
            ahead += side[k] * (own[k] + far * speeds[k]) < 0.0
        for k in range(len(own) if ahead > 0 else 0):
            if side[k] * (own[k] + far * speeds[k]) < 0.0:
                first, far = begin + k, max(0.0, -own[k] / speeds[k])
    return first, far


@small_kernel(error_model="numpy")
def angle_bound(c, z, square):
    """A bound of the angle between θ and θ + c e: its tangent, inf for obtuse ones."""
    return c * np.sqrt(square) / (1.0 + c * z) if 1.0 + c * z > 0.0 else np.inf


@small_kernel(error_model="numpy")
def reach(c, z, plus, minus, square):
    """e^τ at which the chord is c; plus, minus = 1 ± z, square = |aside|²."""
    u = z + c
    f = np.sqrt(u * u + square)
    if u >= 0.0:
        return (f + u) / plus
    return minus / (f - u)


@small_kernel(error_model="numpy", forceinline=True)
def spend(mass, after, size, square, z, later, tau, log_f, gain, alpha, beta, decay, sums):
    """Add to the sums what ∫J dν falls by on a great circle, from z to `later`, and what of it is
    by transport."""
    fall = mass * (decay - size * z) - after * (decay - size * later)
    steep = fall
    # ∫ f^(β/α − 2) e^(−βλt) dτ by the trapezoidal rule with its first correction
    if beta > 0.0:
        power, rate = beta / alpha - 2.0, beta * decay / (alpha * size)
        ending = np.exp(gain - 2.0 * log_f)
        bend = power * z - rate - ending * (power * later - rate)
        steep = size * square * mass * (0.5 * tau * (1.0 + ending) + tau * tau / 12.0 * bend)
    sums[TRANSPORT] += min(max(steep, 0.0), max(fall, 0.0))
    sums[ENERGY] += fall


@small_kernel(error_model="numpy")
def move(
    theta, mass, held, sign, jumps, constant, normals, rows, alpha, beta, decay, time, most,
    vectors, basis, known, values, lists, nearby, limits, sums,
):  # fmt: skip
    """Move one atom for a time; returns the growth of its log mass and how many kinks hold it.

    Each turn of the loop: the atom rests, or goes along a great circle to the next kink; then what
    it does there. One long function: its parts as functions of their own cost a tenth of the time.
    """
    p = len(theta)
    e, aside, base, force = vectors[1], vectors[2], vectors[3], vectors[4]
    every, all_slopes, all_sides = values[0], values[1], values[2]
    count = start(
        theta, sign, jumps, constant, normals, rows, every, all_sides, all_slopes, base, lists,
        limits,
    )  # fmt: skip
    before, growth, events = held, 0.0, 0
    if alpha == 0.0:
        count = 0  # what does not move is not held, and no kink that it is on adds to its potential
    held = settle(count, lists, limits, rows, base, force, basis[0], basis[1], known)
    sums[CAPTURES] += max(held - before, 0)
    sums[RELEASES] += max(before - held, 0)
    sums[POTENTIAL] += mass * (decay + dot(theta, force))
    # until the path is longer than `distance`, none but the `near` kinks of lists[5] can be met;
    # walked: a bound of its length
    near, walked, distance = len(rows) if nearby.shape[1] == 0 else 0, 0.0, -1.0
    s, sides, slopes, around = every[:near], all_sides[:near], all_slopes[:near], normals
    while True:
        if held < 0 or events > most:
            sums[FAILURES] += 1
            break
        if held > 0:
            project(theta, basis[0], held)
            to_unit(theta)
        size = np.sqrt(dot(force, force))
        end = alpha * size * time
        if end == 0.0 or held == p - 1:  # at rest
            potential = decay + dot(theta, force)
            gain, meets = -beta * potential * time, -1
            after = mass * np.exp(gain)
            sums[ENERGY] += potential * (mass - after)
        else:  # along a great circle
            for a in range(p):
                e[a] = -force[a] / size
            z = dot(e, theta)
            for a in range(p):
                aside[a] = theta[a] - z * e[a]
            square = dot(aside, aside)
            plus, minus = (
                (1.0 + z, square / (1.0 + z)) if z >= 0.0 else (square / (1.0 - z), 1.0 - z)
            )
            far = 0.5 * (plus * np.exp(end) - minus * np.exp(-end)) - z if end < LONGEST else FAR
            along(around, e, slopes)
            meets, c = next_kink(s, slopes, sides, far)
            if near < len(rows):
                walked, least = walked + angle_bound(c, z, square), NEAREST
                while walked > SAFE * distance:  # what is not in the list may be met
                    wanted = min(1.0, WIDER * angle_bound(far, z, square))
                    near, distance = list_near(
                        theta, wanted, least, near, distance, normals, rows, values, lists[5],
                        nearby,
                    )  # fmt: skip
                    least = 2.0 * distance
                    s, sides, slopes, around = every, all_sides, all_slopes, normals
                    if near < len(rows):
                        s, sides, slopes = values[3, :near], values[4, :near], all_slopes[:near]
                        around = nearby
                    along(around, e, slopes)
                    meets, c = next_kink(s, slopes, sides, far)
                    walked = angle_bound(c, z, square) if near < len(rows) else 0.0
            tau = end if meets < 0 else min(end, max(0.0, np.log(reach(c, z, plus, minus, square))))
            shrink, later = np.exp(-tau), z
            half = 0.5 * (plus + minus * shrink * shrink)
            log_f = -tau
            if half > 0.0:
                later = 0.5 * (plus - minus * shrink * shrink) / half
                log_f = log_of_f(tau, shrink, minus, half)
                for a in range(p):
                    theta[a] = aside[a] * (shrink / half) + later * e[a]
                project(theta, basis[0], held)
                to_unit(theta)
            passed = time if meets < 0 else tau / (alpha * size)
            gain = beta / alpha * log_f - beta * decay * passed
            after = mass * np.exp(gain)
            spend(mass, after, size, square, z, later, tau, log_f, gain, alpha, beta, decay, sums)
            time -= passed
        growth += gain
        sums[GAINED] += after - mass
        sums[EXCHANGE] += abs(after - mass)
        mass = after
        if meets < 0:
            break
        events += 1  # on a kink
        along(around, theta, s)
        count = arrive(meets, count, sign, jumps, rows, s, sides, base, lists, limits)
        if count == 1 and lists[1, 0] != 0:
            lists[1, 0] = settle_one(
                lists[1, 0], limits[0, 0], rows[lists[0, 0]], base, force, basis[0]
            )
            held = int(lists[1, 0] == 0)
            if held:
                known[0] = 0
                limits[1, 0] = -dot(base, rows[lists[0, 0]])
        else:
            held = settle(count, lists, limits, rows, base, force, basis[0], basis[1], known)
        for i in range(count):
            was, now = lists[4, i], lists[1, i]
            sums[CROSSINGS] += was * now == -1
            sums[CAPTURES] += was != 0 and now == 0
            sums[RELEASES] += was == 0 and now != 0
            if now != 0:
                sums[CLINGING] += clings(lists[0, i], force, rows, jumps)
    sums[MASS] += mass
    return growth, max(held, 0)


@divided_loop()
def move_atoms(
    begin, end, positions, log_weights, held, signs, jumps, constant, normals, rows, tiled, columns,
    column_jumps, alpha, beta, decays, time, log_scale, most, vectors, basis, known, values, lists,
    nearby, limits, tiles, numbers, new_positions, new_log_weights, new_held, sums, captured,
    new_captured,
):  # fmt: skip
    """Move atoms for a time in the potential J = λ + ε θ·(g₀ + Σ_{n_k·θ > 0} κ_k n_k), λ and g₀ the
    same for all or each atom's own.

    If tiled, a tile of atoms at once, as if they met no kink; those that meet one, one by one.

    begin, end: the groups of blocks that are moved;  positions, new_positions (n_blocks, p, width),
    blocked as in methods/particles/kernels.py;  log_weights, held, signs and the new ones (n,): log
    mass, how many kinks hold an atom, ε;  jumps κ (n_kinks,), constant g₀ (1 or n, p);  normals (p,
    n_kinks), rows its transpose;  tiled: only if α > 0 and all have the same g₀;  columns
    (n_kinks / DATA, p, DATA): the normals, padded with one of them;  column_jumps (n_kinks / DATA,
    DATA): κ, zero on padding
    alpha, beta, decays (1 or n,), time: α, β, λ, t;  log_scale: masses are in units of its
    exponential;  most: events of an atom before it is given up
    vectors (n_groups, 5, p), basis (n_groups, 2, p, p), known (n_groups, p), values (n_groups, 5,
    n_kinks), lists (n_groups, 6, n_kinks), nearby (n_groups, p, room), limits (n_groups, 3,
    n_kinks), tiles (n_groups, VECTORS, p, TILE) and numbers (n_groups, NUMBERS, TILE): scratch of
    each group of blocks, which is one thread's; nearby holds the normals of kinks near an atom
    sums (n_blocks, 11), as in SUMS: ∫dν at the end; ∫∫α|∇J|² dν dt; what ∫J dν falls by; ∫∫|dm|;
    events; ∫J dν before; kinks met and not left; ∫∫dm, a sum of its own, since differences of ∫dν
    have a rounding that adds up over steps
    captured, new_captured (n,) bool: whether a kink has ever held an atom, or it met one and did
    not leave it
    """
    n, groups = len(log_weights), len(vectors)
    n_blocks, p, width = positions.shape
    for g in range(begin, end):
        theta, own, bases, kinks = vectors[g, 0], vectors[g], basis[g], values[g]
        listed, bounds, tile, found = lists[g], limits[g], tiles[g], numbers[g]
        for b in range(g * n_blocks // groups, (g + 1) * n_blocks // groups):
            total = sums[b]
            total[:] = 0.0
            for i in range(min(width, n - b * width)):
                c, t = b * width + i, i % TILE
                if tiled and t == 0:
                    for j in range(min(TILE, width - i, n - c)):
                        found[SIGN, j] = signs[c + j]
                        for a in range(p):
                            tile[START, a, j] = positions[b, a, i + j]
                    glide(columns, column_jumps, constant[0], alpha, time, tile, found)
                decay = decays[min(c, len(decays) - 1)]
                mass = np.exp(log_weights[c] - log_scale)
                if tiled and held[c] == 0 and found[LEAST, t] > TOUCH:
                    for a in range(p):
                        theta[a] = tile[END, a, t]
                    size, z, later, log_f = (
                        found[SIZE, t], found[Z, t], found[LATER, t], found[LOG_F, t],
                    )  # fmt: skip
                    growth = beta / alpha * log_f - beta * decay * time
                    after = mass * np.exp(growth)
                    if size > 0.0:
                        spend(
                            mass, after, size, found[SQUARE, t], z, later, found[TAU, t], log_f,
                            growth, alpha, beta, decay, total,
                        )  # fmt: skip
                    else:
                        total[ENERGY] += decay * (mass - after)
                    total[POTENTIAL] += mass * (decay - size * z)
                    total[GAINED] += after - mass
                    total[EXCHANGE] += abs(after - mass)
                    total[MASS] += after
                    new_held[c], new_captured[c] = 0, captured[c]
                else:
                    for a in range(p):
                        theta[a] = positions[b, a, i]
                    caught = total[CAPTURES] + total[CLINGING]
                    growth, new_held[c] = move(
                        theta, mass, held[c], signs[c], jumps, constant[min(c, len(constant) - 1)],
                        normals, rows, alpha, beta, decay, time, most, own, bases, known[g], kinks,
                        listed, nearby[g], bounds, total,
                    )  # fmt: skip
                    new_captured[c] = captured[c] or total[CAPTURES] + total[CLINGING] > caught
                new_log_weights[c] = log_weights[c] + growth
                for a in range(p):
                    new_positions[b, a, i] = theta[a]
