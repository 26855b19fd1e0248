"""Slow NumPy twins of the compiled kernels: the same formulas, written for reading."""

import numpy as np


def activate(kernel, s):
    return [s, np.maximum(s, 0.0), np.maximum(s, 0.0) ** 2][kernel]


def dense_forward(points, inputs, weights, kernel):
    return activate(kernel, inputs @ points.T) @ weights


def dense_adjoint(points, inputs, residuals, kernel):
    return residuals @ activate(kernel, inputs @ points.T)


def slope(kernel, s):
    return [np.ones_like(s), (s > 0.0) * 1.0, 2.0 * np.maximum(s, 0.0)][kernel]


def dense_gradient(points, inputs, residuals, kernel):
    return (residuals[:, None] * slope(kernel, inputs @ points.T)).T @ inputs


def gradients(st, density):
    differences = density[:, st.neighbors] - density[:, :, None]
    return np.einsum("cka,sck->sca", st.gradient_weights, differences)


def limited(name, a, b):
    """Sweby's form ψ(r) b with r = a/b."""
    r = np.divide(a, b, out=np.zeros_like(a), where=b != 0.0)
    psi = {
        "minmod": np.clip(r, 0, 1),
        "van-leer": (r + np.abs(r)) / (1 + np.abs(r)),
        "mc": np.maximum(0, np.minimum(np.minimum(2 * r, (1 + r) / 2), 2)),
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
            face = np.clip(nu[up] + 0.5 * limited(limiter, 2 * along - ahead, ahead) + aside, 0.0, 2 * nu[up])
        divergence[s] = -alpha * (flow * face).sum(axis=1) / st.volumes
        outflow[s] = alpha * np.maximum(flow, 0.0).sum(axis=1) / st.volumes
    return divergence, outflow


def integrals(density, potential, divergence, volumes):
    return np.array(
        [
            (density * volumes).sum(),
            (potential * density * volumes).sum(),
            (potential**2 * density * volumes).sum(),
            (potential * volumes).sum(),
            (potential * divergence * volumes).sum(),
            density.min(),
        ]
    )


def stage(keep, dt, with_transport, beta, sigma, source, start, divergence, potential, factor, growth):
    w = factor + dt * np.exp(-growth) * (with_transport * divergence + source)
    factor = keep * start + (1 - keep) * w
    growth = (1 - keep) * (growth - dt * (beta * potential + sigma))
    return factor, growth, np.exp(growth) * factor
