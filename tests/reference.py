"""Slow NumPy twins of the compiled kernels: the same formulas, written for reading."""

from math import factorial

import numpy as np

from hkflow.methods.grid.limiters import LEAST_COURANT


def activate(activation, s):
    return [s, np.maximum(s, 0.0), np.maximum(s, 0.0) ** 2][activation]


def dense_forward(points, inputs, weights, activation):
    return activate(activation, inputs @ points.T) @ weights


def dense_adjoint(points, inputs, loss_gradient, activation):
    return loss_gradient @ activate(activation, inputs @ points.T)


def slope(activation, s):
    return [np.ones_like(s), (s > 0.0) * 1.0, 2.0 * np.maximum(s, 0.0)][activation]


def dense_gradient(points, inputs, loss_gradient, activation):
    return (loss_gradient[:, None] * slope(activation, inputs @ points.T)).T @ inputs


def gradients(st, density):
    differences = density[:, st.neighbors] - density[:, :, None]
    return np.einsum("cka,sck->sca", st.gradient_weights, differences)


def limited(name, a, b, courant=1.0):
    """Sweby's form ψ(r) b with r = a/b."""
    courant = np.clip(courant, LEAST_COURANT, 1.0)
    r = np.divide(a, b, out=np.zeros_like(a), where=b != 0.0)
    psi = {
        "minmod": np.clip(r, 0, 1),
        "van-leer": (r + np.abs(r)) / (1 + np.abs(r)),
        "mc": np.maximum(0, np.minimum(np.minimum(2 * r, (1 + r) / 2), 2)),
        "ultimate": np.maximum(0, np.minimum(np.minimum(2 * r / courant, (r + 2) / 3), 2)),
        "koren": np.maximum(0, np.minimum(np.minimum(2 * r, (r + 2) / 3), 2)),
    }[name]
    return psi * b


def transport(st, density, potential, alpha, limiter):
    """Divergence (n_signs, n_cells) and largest outflow rate per cell (n_signs, n_cells)."""
    gradient = gradients(st, density)
    own = np.arange(len(st.volumes))[:, None] * np.ones_like(st.neighbors)
    divergence, outflow = np.empty_like(density), np.empty_like(density)
    for s, (nu, J) in enumerate(zip(density, potential, strict=True)):
        flow = st.conductances * (J[own] - J[st.neighbors])
        up, down = np.where(flow > 0, own, st.neighbors), np.where(flow > 0, st.neighbors, own)
        face = nu[up]
        if limiter != "first-order":
            ahead = nu[down] - nu[up]
            along = np.einsum("cka,cka->ck", gradient[s][up], st.centers[down] - st.centers[up])
            aside = np.einsum("cka,cka->ck", gradient[s][up], st.offsets)
            face = np.clip(
                nu[up] + 0.5 * limited(limiter, 2 * along - ahead, ahead) + aside, 0.0, 2 * nu[up]
            )
        divergence[s] = -alpha * (flow * face).sum(axis=1) / st.volumes
        outflow[s] = alpha * np.maximum(flow, 0.0).sum(axis=1) / st.volumes
    return divergence, outflow


def face_flows(st, potential, alpha):
    """Flows, velocity, divergence, decline and outflow rate per cell."""
    fall = alpha * (potential[:, :, None] - potential[:, st.neighbors])
    flows, velocity = st.conductances * fall, np.einsum("cka,sck->sca", st.gradient_weights, fall)
    divergence, outflow = (
        flows.sum(axis=2) / st.volumes,
        np.maximum(flows, 0.0).sum(axis=2) / st.volumes,
    )
    return flows, velocity, divergence, np.sum(velocity**2, axis=2) / alpha, outflow


def crossings(st, dt, density, flows, velocity, divergence, limiter):
    """What leaves each cell through each face (n_signs, n_cells, n_slots) and the density
    afterwards (n_signs, n_cells)."""
    nu, volume = density[:, :, None] * np.ones(flows.shape), dt * np.maximum(flows, 0.0)
    if limiter == "first-order":
        leaving = volume * nu
    else:
        slope, steps = gradients(st, density), st.centers[st.neighbors] - st.centers[:, None]
        length = np.where(st.conductances > 0.0, np.sum(steps**2, axis=2), 1.0)
        ahead, along = density[:, st.neighbors] - nu, np.einsum("sca,cka->sck", slope, steps)
        courant = volume / (np.where(st.conductances > 0.0, st.conductances, 1.0) * length)
        D = divergence[:, :, None] + (0.5 - courant / 3) * (
            divergence[:, st.neighbors] - divergence[:, :, None]
        )
        phi = 1 - dt * D / 2 + (dt * D) ** 2 / 6
        swept = np.einsum("sca,sca->sc", velocity, slope)[:, :, None]
        sideways = swept - np.einsum("sca,cka->sck", velocity, steps) * along / length
        limits = limited(limiter, 2 * along - ahead, ahead, courant)
        face = nu + 0.5 * (1 - phi * courant) * limits
        face += np.einsum("sca,cka->sck", slope, st.offsets) - 0.5 * dt * sideways
        leaving = volume * phi * np.clip(face, 0.0, 2 * nu)
    masses, total = density * st.volumes, leaving.sum(axis=2)
    leaving = (
        leaving
        * np.divide(masses, total, out=np.ones_like(total), where=total > masses)[:, :, None]
    )
    masses = masses - leaving.sum(axis=2)
    for s in range(len(density)):
        np.add.at(masses[s], st.neighbors, leaving[s])
    return leaving, masses / st.volumes


def react(dt, beta, sigma, source, shift, lead, volumes, potential, decline, start):
    """The density and the five sums of the activation; the functions φ by their series."""
    z = -(beta * (potential + lead * decline - shift) + sigma) * dt
    one, two = (sum(z**k / factorial(k + order) for k in range(40)) for order in (1, 2))
    after, spent = np.exp(z) * start + dt * one * source, dt * one * start + dt**2 * two * source
    loss = -sigma * spent
    reaction = after - start - loss - dt * source
    parts = [potential * reaction, potential * loss, reaction, np.abs(reaction), loss]
    return after, np.array([(part * volumes).sum() for part in parts])


def exchange(volumes, potential, start, density):
    return np.array(
        [
            (potential * (density - start) * volumes).sum(),
            ((np.abs(density) - np.abs(start)) * volumes).sum(),
        ]
    )


def integrals(density, mobility, potential, divergence, volumes):
    return np.array(
        [
            (np.abs(density) * volumes).sum(),
            (np.where(density < 0.0, -1.0, 1.0) * potential * mobility * volumes).sum(),
            (potential**2 * mobility * volumes).sum(),
            (potential * volumes).sum(),
            (potential * divergence * volumes).sum(),
            density.min(),
            potential.min(),
        ]
    )


def stage(
    keep,
    dt,
    with_transport,
    beta,
    sigma,
    source,
    shift,
    start,
    divergence,
    potential,
    factor,
    growth,
):
    w = factor + dt * np.exp(-growth) * (with_transport * divergence + source)
    factor = keep * start + (1 - keep) * w
    growth = (1 - keep) * (growth - dt * (beta * (potential - shift) + sigma))
    return factor, growth, np.exp(growth) * factor


def mobility_stage(keep, dt, beta, depth, reference, start, potential, growth):
    growth = (1 - keep) * (growth - dt * beta * potential)
    if depth == 1.0:
        return growth, start + reference * growth
    u = (start / reference) ** (1 / depth)
    return growth, reference * (u ** (2 - depth) - (depth - 2) / depth * growth) ** (
        depth / (2 - depth)
    )


def mobilities(density, depth, reference):
    return reference * np.abs(density / reference) ** (2 - 2 / depth)


def euler_stage(dt, with_transport, beta, sigma, source, shift, start, divergence, potential):
    return start + dt * (
        with_transport * divergence - beta * start * (potential - shift) - sigma * start + source
    )


def carriers(left, right, conductances, volumes, potential, density, mobility, beta, alpha):
    upwind = np.where(potential[:, left] > potential[:, right], density[:, left], density[:, right])
    return beta * mobility.sum(axis=0) * volumes, alpha * upwind.sum(axis=0) * conductances


def carried(left, right, mobility_mass, flowing, potential):
    rate, flux = mobility_mass * potential, flowing * (potential[right] - potential[left])
    np.add.at(rate, right, flux)
    np.add.at(rate, left, -flux)
    return rate


def particle_rates(positions, weights, signs, slopes, gradient, alpha, beta, sigma, decay, depth):
    """Velocities (n, p), growth (n,) and the sums mass, ∫J m, ∫J² m, ∫|∇J|² dν, ∫m; everything
    unblocked."""
    tangent = gradient - np.sum(gradient * positions, axis=1, keepdims=True) * positions
    J, w = signs * slopes + decay, np.abs(weights)
    m = w ** (2 - 2 / depth)
    sums = [w.sum(), m @ J, m @ J**2, w @ np.sum(tangent**2, axis=1), m.sum()]
    return -alpha * signs[:, None] * tangent, -beta * m / w * J - sigma, np.array(sums)


def frozen_weights(
    log_weights, signs, slopes, log_scale, tau, beta, sigma, decay, depth, keeps_mass
):
    """Log weights, signed weights and (mass, ∫J m, ∫J² m) before and after a time tau with J
    frozen."""
    J, power = signs * slopes + decay, 2 / depth - 1

    def integrals(logs):
        w = np.exp(logs - log_scale)
        m = w ** (2 - 2 / depth)
        return w, m / w, np.array([w.sum(), m @ J, m @ J**2])

    _, relative, before = integrals(log_weights)
    shift = before[1] / before[0] if keeps_mass else 0.0
    rate = -beta * (relative * J - shift) - sigma
    grown = tau * rate if depth == 2 else np.log1p(tau * power * rate) / power
    w, _, after = integrals(log_weights + grown)
    return log_weights + grown, signs * w, np.array([before, after])


def unit_rates(
    hidden, output, slopes, gradient, train_hidden, train_output, decay_hidden, decay_output, degree
):
    """Velocities, drift and the five sums of the activation, unblocked."""
    velocities = -train_hidden * (output[:, None] * gradient + decay_hidden * hidden)
    drift = -train_output * (slopes + decay_output * output)
    r, sign = np.linalg.norm(hidden, axis=1), np.where(output < 0, -1.0, 1.0)
    mass_rate = sign * drift * r**degree + np.abs(output) * degree * r ** (degree - 2) * np.sum(
        hidden * velocities, axis=1
    )
    trained = np.column_stack([train_hidden * hidden, train_output * output])
    speed = np.column_stack([velocities, drift])
    length = np.sum(trained**2, axis=1)
    along = np.where(
        length > 0, np.sum(trained * speed, axis=1) ** 2 / np.where(length > 0, length, 1.0), 0.0
    )
    penalty = 0.5 * (decay_hidden * r**2 + decay_output * output**2)
    parts = [
        np.abs(output) * r**degree,
        mass_rate,
        penalty,
        np.sum(speed**2, axis=1) - along,
        along,
    ]
    return velocities, drift, np.array([part.sum() for part in parts])


def normalized_unit_rates(hidden, inner, outer, slopes, gradient, decay):
    """Velocities, both drifts and the five sums of the activation, unblocked."""
    r, weight = np.linalg.norm(hidden, axis=1, keepdims=True), inner * outer
    theta = hidden / r
    tangent = gradient - np.sum(gradient * theta, axis=1, keepdims=True) * theta
    velocities = -weight[:, None] * tangent / r
    inner_drift, outer_drift = -(outer * slopes + decay * inner), -(inner * slopes + decay * outer)
    mass_rate = np.sign(weight) * (inner_drift * outer + inner * outer_drift)
    penalty = 0.5 * decay * (inner**2 + outer**2)
    parts = [
        np.abs(weight),
        mass_rate,
        penalty,
        np.sum(velocities**2, axis=1),
        inner_drift**2 + outer_drift**2,
    ]
    return velocities, inner_drift, outer_drift, np.array([part.sum() for part in parts])


def kkt_residual(machine, K, y):
    """The largest violation of the optimality conditions of kernel_margin, with u_i = y_i g(x_i):

        p ≥ 0,  Σ p = 1,  |g|²_H = 1,  u_i ≥ γ,  p_i (u_i − γ) = 0,   the last two relative to γ

    inf if γ = 0.   Source: Chizat & Bach 2020, Prop. 12 (for 𝓕₂).
    """
    p, c, gamma = machine.dual, machine.coefficients, machine.value
    if not gamma > 0.0:
        return np.inf
    slack = y * machine.decision(K) / gamma - 1.0
    sums = abs(p.sum() - 1.0), abs(c @ K @ c - 1.0)
    return max(-p.min(), *sums, -slack.min(), np.abs(p * slack).max())
