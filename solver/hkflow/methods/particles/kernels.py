"""The loops of the Lagrangian methods, parallel over fixed blocks; sums are kept per block and
added in block order.

Index conventions:  c particle, b block of `width` particles, a axis of R^p, k Runge–Kutta stage.
Positions are blocked: coordinate a of particle c is positions[c // width, a, c % width], padded
with zeros.
"""

import numpy as np
from numba import prange

from ...compiled import njit
from ...operators.parallel_loops import BLOCK, parallel_loop


@njit(cache=True)
def add_rates(start, rates, coefficients, dt, low, high, out):
    """`combine` from low to high."""
    for i in range(low, high):
        out[i] = start[i]
    for k in range(len(coefficients)):
        factor = dt * coefficients[k]
        if factor != 0.0:
            for i in range(low, high):
                out[i] += factor * rates[k, i]


@parallel_loop
def combine(start, rates, coefficients, dt, out):
    """out = start + dt Σ_k coefficients_k rates_k; start, out (n,); rates (≥ n_stages, n);
    coefficients (n_stages,)."""
    n = len(start)
    for b in prange((n + BLOCK - 1) // BLOCK):
        add_rates(start, rates, coefficients, dt, b * BLOCK, min(n, (b + 1) * BLOCK), out)


@njit(cache=True)
def unit_floors(hidden, output, inner, by_hidden, by_output, of_hidden, of_output, of_inner):
    """The norm of every unit's trained weights, but at most 1, and 1 of a unit of zero: the floors
    of `local_errors` for its weights.

    hidden, of_hidden (n_blocks, axes, width); output, of_output (m,); inner, of_inner (m,) or (0,);
    by_hidden, by_output : whether these are trained, and grow with the unit
    """
    width = hidden.shape[2]
    for j in range(len(output)):
        b, c = divmod(j, width)
        square = 0.0
        if by_hidden:
            for a in range(hidden.shape[1]):
                square += hidden[b, a, c] ** 2
        if by_output:
            square += output[j] ** 2
        if len(inner):
            square += inner[j] ** 2
        size = min(np.sqrt(square), 1.0) if square > 0.0 else 1.0
        if by_hidden:
            for a in range(hidden.shape[1]):
                of_hidden[b, a, c] = size
        of_output[j] = size
        if len(inner):
            of_inner[j] = size


@parallel_loop
def local_errors(start, floors, rates, estimates, dt, relative, out):
    """Σ_i (dt Σ_k e_k rates_ki / (floor_i + relative |start_i|))² within each block, for every
    estimate e.

    start, floors (n,); rates (n_stages, n); estimates (n_estimates, n_stages); relative 0 or 1; out
    (n_blocks, n_estimates)
    """
    n = len(start)
    for b in prange((n + BLOCK - 1) // BLOCK):
        for e in range(len(estimates)):
            total = 0.0
            for i in range(b * BLOCK, min(n, (b + 1) * BLOCK)):
                error = 0.0
                for k in range(estimates.shape[1]):
                    error += estimates[e, k] * rates[k, i]
                error *= dt / (floors[i] + relative * abs(start[i]))
                total += error * error
            out[b, e] = total


@njit(cache=True)
def normalised(positions, count, out):
    """out = positions / |positions|, both (p, width), of the first `count` columns."""
    for c in range(count):
        square = 0.0
        for a in range(len(positions)):
            square += positions[a, c] ** 2
        scale = 1.0 / np.sqrt(square)
        for a in range(len(positions)):
            out[a, c] = scale * positions[a, c]


@parallel_loop
def to_sphere(positions, n, out):
    """out = positions / |positions|, both blocked (n_blocks, p, width); n particles."""
    width = positions.shape[2]
    for b in prange(len(positions)):
        normalised(positions[b], min(width, n - b * width), out[b])


@parallel_loop
def combine_on_sphere(start, rates, coefficients, dt, positions, out):
    """`combine`, and the positions of `out` carried back to the sphere.

    positions (n_blocks, p, width) : those of out, which begins with them; the rest are log weights
    """
    (blocks, p, width), n = positions.shape, len(start) - positions.size
    size = p * width
    for b in prange(blocks):
        count, low = min(width, n - b * width), positions.size + b * width
        add_rates(start, rates, coefficients, dt, b * size, (b + 1) * size, out)
        add_rates(start, rates, coefficients, dt, low, low + count, out)
        normalised(positions[b], count, positions[b])


@parallel_loop
def signed_weights(log_weights, signs, log_scale, out):
    """out = ε e^{log weight − L}; arrays (n,), L a number."""
    for b in prange((len(out) + BLOCK - 1) // BLOCK):
        for c in range(b * BLOCK, min(len(out), (b + 1) * BLOCK)):
            out[c] = signs[c] * np.exp(log_weights[c] - log_scale)


@njit(cache=True)
def inner_products(x, y, count, out):
    """out_c = Σ_a x_ac y_ac for the first `count` columns; x, y (p, width), out (width,)."""
    for c in range(count):
        out[c] = 0.0
    for a in range(len(x)):
        for c in range(count):
            out[c] += x[a, c] * y[a, c]


@parallel_loop
def particle_rates(
    positions,
    weights,
    signs,
    slopes,
    gradient,
    alpha,
    beta,
    sigma,
    decay,
    depth,
    velocities,
    growth,
    scratch,
    sums,
):
    """θ̇ = −α (I − θθᵀ) ε G, d log w/dt = −β w^(1 − 2/D) J − σ with J = ε slope + decay, and the
    integrals over each block.

    positions, gradient, velocities (n_blocks, p, width); weights (signed), signs, slopes, growth
    (n,); depth D scratch (n_blocks, 3, width); sums (n_blocks, 5): mass, ∫J m(ν), ∫J² m(ν), ∫|∇J|²
    dν, ∫m(ν), with m(w) = w^(2 − 2/D). Returns them summed over the blocks
    """
    n, width = len(weights), positions.shape[2]
    for b in prange(len(positions)):
        count = min(width, n - b * width)
        own = slice(b * width, b * width + count)
        w, epsilon, slope, rate = weights[own], signs[own], slopes[own], growth[own]
        radial, square = scratch[b, 0], scratch[b, 1]
        inner_products(positions[b], gradient[b], count, radial)
        for c in range(count):
            square[c] = 0.0
        for a in range(positions.shape[1]):
            for c in range(count):
                tangent = gradient[b, a, c] - radial[c] * positions[b, a, c]
                velocities[b, a, c] = -alpha * epsilon[c] * tangent
                square[c] += tangent * tangent
        mass, first, second, steep, mobility_mass = 0.0, 0.0, 0.0, 0.0, 0.0
        for c in range(count):
            J, nu = epsilon[c] * slope[c] + decay, abs(w[c])
            relative = 1.0 if depth == 2.0 else nu ** (1.0 - 2.0 / depth)
            m = nu * relative
            rate[c] = -beta * relative * J - sigma
            mass += nu
            first += m * J
            second += m * J * J
            steep += nu * square[c]
            mobility_mass += m
        sums[b, 0], sums[b, 1], sums[b, 2], sums[b, 3], sums[b, 4] = (
            mass,
            first,
            second,
            steep,
            mobility_mass,
        )
    mass, first, second, steep, mobility_mass = 0.0, 0.0, 0.0, 0.0, 0.0
    for b in range(len(sums)):
        mass += sums[b, 0]
        first += sums[b, 1]
        second += sums[b, 2]
        steep += sums[b, 3]
        mobility_mass += sums[b, 4]
    return mass, first, second, steep, mobility_mass


@parallel_loop
def frozen_weights(
    log_weights, signs, slopes, log_scale, tau, beta, sigma, decay, depth, keeps_mass, width,
    rate, out, weights, sums,
):  # fmt: skip
    """Log weights after a time tau with J = ε slope + decay frozen: (w^(2/D − 1))˙ = −(2/D − 1) βJ
    is a number then, and (log w)˙ if D = 2.

    log_weights, signs, slopes, rate (scratch), out, weights (n,), the last with signs, in units of
    e^log_scale; keeps_mass: whether J counts relative to ∫J dν̄ sums (n_blocks, 6): mass, ∫J m(ν),
    ∫J² m(ν) of each block of `width` particles, before and after. Returns them summed over the
    blocks
    """
    n, power = len(out), 2.0 / depth - 1.0
    shift = 0.0
    for end in range(2):
        for b in prange(len(sums)):
            mass, first, second = 0.0, 0.0, 0.0
            for c in range(b * width, min(n, (b + 1) * width)):
                if end == 1:
                    speed = rate[c] + beta * shift
                    if power == 0.0:
                        out[c] = log_weights[c] + tau * speed
                    else:
                        out[c] = log_weights[c] + np.log1p(tau * power * speed) / power
                nu = np.exp((out[c] if end == 1 else log_weights[c]) - log_scale)
                J, relative = signs[c] * slopes[c] + decay, 1.0
                if power != 0.0:
                    relative = nu ** (1.0 - 2.0 / depth)
                rate[c], weights[c] = -beta * relative * J - sigma, signs[c] * nu
                mass += nu
                first += nu * relative * J
                second += nu * relative * J * J
            sums[b, 3 * end], sums[b, 3 * end + 1], sums[b, 3 * end + 2] = mass, first, second
        if end == 0 and keeps_mass:
            whole, moment = 0.0, 0.0
            for b in range(len(sums)):
                whole += sums[b, 0]
                moment += sums[b, 1]
            shift = moment / whole
    before, after = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
    for b in range(len(sums)):
        before = (before[0] + sums[b, 0], before[1] + sums[b, 1], before[2] + sums[b, 2])
        after = (after[0] + sums[b, 3], after[1] + sums[b, 4], after[2] + sums[b, 5])
    return before, after


@parallel_loop
def unit_rates(
    hidden,
    output,
    slopes,
    gradient,
    train_hidden,
    train_output,
    decay_hidden,
    decay_output,
    degree,
    velocities,
    drift,
    scratch,
    sums,
):
    """ȧ = −(b G + κ_a a) and ḃ = −(slope + κ_b b) as far as they are trained, and the integrals
    over each block.

    hidden, gradient, velocities (n_blocks, p, width); output, slopes, drift (n,); train_… 0 or 1;
    decay_… κ scratch (n_blocks, 3, width); sums (n_blocks, 5), all times n: mass Σ|b||a|^degree,
    its rate, penalty ½Σ(κ_a|a|² + κ_b b²), and −dF/dt by the change of the direction and of the
    length of the trained weights
    """
    n, width, p = len(output), hidden.shape[2], hidden.shape[1]
    for block in prange(len(hidden)):
        count = min(width, n - block * width)
        own = slice(block * width, block * width + count)
        b, slope, change = output[own], slopes[own], drift[own]
        squares, speeds, radials = scratch[block, 0], scratch[block, 1], scratch[block, 2]
        for a in range(p):
            for c in range(count):
                velocities[block, a, c] = -train_hidden * (
                    b[c] * gradient[block, a, c] + decay_hidden * hidden[block, a, c]
                )
        inner_products(hidden[block], hidden[block], count, squares)
        inner_products(velocities[block], velocities[block], count, speeds)
        inner_products(hidden[block], velocities[block], count, radials)
        mass, mass_rate, penalty, aside, along = 0.0, 0.0, 0.0, 0.0, 0.0
        for c in range(count):
            change[c] = -train_output * (slope[c] + decay_output * b[c])
            square, speed, radial = (
                squares[c],
                speeds[c] + change[c] ** 2,
                radials[c] + b[c] * change[c],
            )
            size = square if degree == 2 else np.sqrt(square) if degree == 1 else 1.0
            mass += abs(b[c]) * size
            mass_rate += (change[c] if b[c] >= 0.0 else -change[c]) * size
            if square > 0.0:
                mass_rate += abs(b[c]) * degree * size * (radials[c] / square)
            penalty += 0.5 * (decay_hidden * square + decay_output * b[c] ** 2)
            length = train_hidden * square + train_output * b[c] ** 2
            grown = radial * (radial / length) if length > 0.0 else 0.0
            along += grown
            aside += speed - grown
        sums[block, 0], sums[block, 1], sums[block, 2] = mass, mass_rate, penalty
        sums[block, 3], sums[block, 4] = aside, along


@parallel_loop
def normalized_unit_rates(
    hidden,
    inner,
    outer,
    slopes,
    gradient,
    decay,
    velocities,
    inner_drift,
    outer_drift,
    scratch,
    sums,
):
    """ȧ = −(b slope + κa), ḃ = −(a slope + κb), v̇ = −ab (I − θθᵀ) G/|v| with θ = v/|v|; integrals
    over each block.

    hidden (v), gradient, velocities (n_blocks, p, width); inner (a), outer (b), slopes, the drifts
    (n,); decay κ scratch (n_blocks, 3, width); sums (n_blocks, 5): mass Σ|ab|, its rate, penalty
    ½κΣ(a² + b²), and −dF/dt by the directions and by the masses
    """
    n, width, p = len(inner), hidden.shape[2], hidden.shape[1]
    for block in prange(len(hidden)):
        count = min(width, n - block * width)
        own = slice(block * width, block * width + count)
        a, b, slope, da, db = (
            inner[own],
            outer[own],
            slopes[own],
            inner_drift[own],
            outer_drift[own],
        )
        squares, radials, speeds = scratch[block, 0], scratch[block, 1], scratch[block, 2]
        inner_products(hidden[block], hidden[block], count, squares)
        inner_products(hidden[block], gradient[block], count, radials)
        for axis in range(p):
            for c in range(count):
                tangent = (
                    gradient[block, axis, c] - radials[c] / squares[c] * hidden[block, axis, c]
                )
                velocities[block, axis, c] = -a[c] * b[c] * tangent / np.sqrt(squares[c])
        inner_products(velocities[block], velocities[block], count, speeds)
        mass, mass_rate, penalty, aside, along = 0.0, 0.0, 0.0, 0.0, 0.0
        for c in range(count):
            da[c], db[c] = -(b[c] * slope[c] + decay * a[c]), -(a[c] * slope[c] + decay * b[c])
            mass += abs(a[c] * b[c])
            mass_rate += np.sign(a[c] * b[c]) * (da[c] * b[c] + a[c] * db[c])
            penalty += 0.5 * decay * (a[c] ** 2 + b[c] ** 2)
            aside += speeds[c]
            along += da[c] ** 2 + db[c] ** 2
        sums[block, 0], sums[block, 1], sums[block, 2] = mass, mass_rate, penalty
        sums[block, 3], sums[block, 4] = aside, along
