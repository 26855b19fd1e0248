"""The loops of the Lagrangian methods, parallel over fixed blocks; sums are kept per block and added in block order.

Index conventions:  c particle, b block of `width` particles, a axis of R^p, k Runge–Kutta stage.
Positions are blocked: coordinate a of particle c is positions[c // width, a, c % width], padded with zeros.
"""

import numpy as np
from numba import njit, prange

from ..blocks import BLOCK


@njit(parallel=True, cache=True)
def combine(start, rates, coefficients, dt, out):
    """out = start + dt Σ_k coefficients_k rates_k; start, out (n,); rates (≥ n_stages, n); coefficients (n_stages,)."""
    n = len(start)
    for b in prange((n + BLOCK - 1) // BLOCK):
        low, high = b * BLOCK, min(n, (b + 1) * BLOCK)
        for i in range(low, high):
            out[i] = start[i]
        for k in range(len(coefficients)):
            factor = dt * coefficients[k]
            if factor != 0.0:
                for i in range(low, high):
                    out[i] += factor * rates[k, i]


@njit(parallel=True, cache=True)
def local_errors(start, rates, estimates, dt, relative, out):
    """Σ_i (dt Σ_k e_k rates_ki / (1 + relative |start_i|))² within each block, for every estimate e.

    start (n,); rates (n_stages, n); estimates (n_estimates, n_stages); relative 0 or 1; out (n_blocks, n_estimates)
    """
    n = len(start)
    for b in prange((n + BLOCK - 1) // BLOCK):
        for e in range(len(estimates)):
            total = 0.0
            for i in range(b * BLOCK, min(n, (b + 1) * BLOCK)):
                error = 0.0
                for k in range(estimates.shape[1]):
                    error += estimates[e, k] * rates[k, i]
                error *= dt / (1.0 + relative * abs(start[i]))
                total += error * error
            out[b, e] = total


@njit(parallel=True, cache=True)
def to_sphere(positions, n, out):
    """out = positions / |positions|, both blocked (n_blocks, p, width); n particles."""
    width = positions.shape[2]
    for b in prange(len(positions)):
        for c in range(min(width, n - b * width)):
            square = 0.0
            for a in range(positions.shape[1]):
                square += positions[b, a, c] ** 2
            scale = 1.0 / np.sqrt(square)
            for a in range(positions.shape[1]):
                out[b, a, c] = scale * positions[b, a, c]


@njit(parallel=True, cache=True)
def signed_weights(log_weights, signs, out):
    """out = ε e^{log weight}; all (n,)."""
    for b in prange((len(out) + BLOCK - 1) // BLOCK):
        for c in range(b * BLOCK, min(len(out), (b + 1) * BLOCK)):
            out[c] = signs[c] * np.exp(log_weights[c])


@njit(parallel=True, cache=True)
def particle_rates(positions, weights, signs, slopes, gradient, alpha, beta, sigma, decay, velocities, growth, sums):
    """θ̇ = −α (I − θθᵀ) ε G, d log w/dt = −βJ − σ with J = ε slope + decay, and the integrals over each block.

    positions, gradient, velocities (n_blocks, p, width); weights (signed), signs, slopes, growth (n,)
    sums (n_blocks, 4): mass, ∫J dν, ∫J² dν, ∫|∇J|² dν
    """
    n, width = len(weights), positions.shape[2]
    for b in prange(len(positions)):
        mass, first, second, steep = 0.0, 0.0, 0.0, 0.0
        for c in range(min(width, n - b * width)):
            i = b * width + c
            radial, square = 0.0, 0.0
            for a in range(positions.shape[1]):
                radial += positions[b, a, c] * gradient[b, a, c]
            for a in range(positions.shape[1]):
                tangent = gradient[b, a, c] - radial * positions[b, a, c]
                velocities[b, a, c] = -alpha * signs[i] * tangent
                square += tangent * tangent
            J, w = signs[i] * slopes[i] + decay, abs(weights[i])
            growth[i] = -beta * J - sigma
            mass += w
            first += w * J
            second += w * J * J
            steep += w * square
        sums[b, 0], sums[b, 1], sums[b, 2], sums[b, 3] = mass, first, second, steep


@njit(parallel=True, cache=True)
def unit_rates(
    hidden, output, slopes, gradient, train_hidden, train_output, decay_hidden, decay_output, degree, velocities, drift, sums
):
    """ȧ = −(b G + κ_a a) and ḃ = −(slope + κ_b b) as far as they are trained, and the integrals over each block.

    hidden, gradient, velocities (n_blocks, p, width); output, slopes, drift (n,); train_… 0 or 1; decay_… κ
    sums (n_blocks, 5), all times n: mass Σ|b||a|^degree, its rate, penalty ½Σ(κ_a|a|² + κ_b b²), and −dF/dt by the
    change of the direction and of the length of the trained weights
    """
    n, width, p = len(output), hidden.shape[2], hidden.shape[1]
    for block in prange(len(hidden)):
        mass, mass_rate, penalty, aside, along = 0.0, 0.0, 0.0, 0.0, 0.0
        for c in range(min(width, n - block * width)):
            i = block * width + c
            b, square, speed, radial = output[i], 0.0, 0.0, 0.0
            for a in range(p):
                w = hidden[block, a, c]
                velocity = -train_hidden * (b * gradient[block, a, c] + decay_hidden * w)
                velocities[block, a, c] = velocity
                square += w * w
                speed += velocity * velocity
                radial += w * velocity
            change = -train_output * (slopes[i] + decay_output * b)
            drift[i] = change
            size = square if degree == 2 else np.sqrt(square)
            sign = 1.0 if b >= 0.0 else -1.0
            mass += sign * b * size
            mass_rate += sign * change * size
            if square > 0.0:
                mass_rate += sign * b * degree * size * radial / square
            penalty += 0.5 * (decay_hidden * square + decay_output * b * b)
            speed += change * change
            radial += b * change
            length = train_hidden * square + train_output * b * b
            grown = radial * radial / length if length > 0.0 else 0.0
            along += grown
            aside += speed - grown
        sums[block, 0], sums[block, 1], sums[block, 2] = mass, mass_rate, penalty
        sums[block, 3], sums[block, 4] = aside, along


@njit(parallel=True, cache=True)
def normalized_unit_rates(hidden, inner, outer, slopes, gradient, decay, velocities, inner_drift, outer_drift, sums):
    """ȧ = −(b slope + κa), ḃ = −(a slope + κb), v̇ = −ab (I − θθᵀ) G/|v| with θ = v/|v|; integrals over each block.

    hidden (v), gradient, velocities (n_blocks, p, width); inner (a), outer (b), slopes, the drifts (n,); decay κ
    sums (n_blocks, 5): mass Σ|ab|, its rate, penalty ½κΣ(a² + b²), and −dF/dt by the directions and by the masses
    """
    n, width, p = len(inner), hidden.shape[2], hidden.shape[1]
    for block in prange(len(hidden)):
        mass, mass_rate, penalty, aside, along = 0.0, 0.0, 0.0, 0.0, 0.0
        for c in range(min(width, n - block * width)):
            i = block * width + c
            square, radial, speed = 0.0, 0.0, 0.0
            for a in range(p):
                square += hidden[block, a, c] ** 2
                radial += hidden[block, a, c] * gradient[block, a, c]
            weight = inner[i] * outer[i]
            for a in range(p):
                tangent = gradient[block, a, c] - radial / square * hidden[block, a, c]
                velocity = -weight * tangent / np.sqrt(square)
                velocities[block, a, c] = velocity
                speed += velocity * velocity
            inner_drift[i] = -(outer[i] * slopes[i] + decay * inner[i])
            outer_drift[i] = -(inner[i] * slopes[i] + decay * outer[i])
            mass += abs(weight)
            mass_rate += np.sign(weight) * (inner_drift[i] * outer[i] + inner[i] * outer_drift[i])
            penalty += 0.5 * decay * (inner[i] ** 2 + outer[i] ** 2)
            aside += speed
            along += inner_drift[i] ** 2 + outer_drift[i] ** 2
        sums[block, 0], sums[block, 1], sums[block, 2] = mass, mass_rate, penalty
        sums[block, 3], sums[block, 4] = aside, along
