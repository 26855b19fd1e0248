"""The loops of the finite-volume scheme, parallel over fixed blocks of cells.

Sums are kept per block and added in block order, so every result is the same, bit for bit, for any
number of threads. Index conventions:  s sign, c cell, k slot of a neighbour, a axis of R^(d+1), b
block. `axes` is a tuple of length d+1: its length is known at compile time, so loops over the axes
are unrolled.
"""

import numpy as np
from numba import prange

from ...operators.parallel_loops import BLOCK, parallel_loop, small_kernel
from .limiters import limited


@parallel_loop
def gradients(neighbors, gradient_weights, density, axes, out):
    """Least-squares gradient, ∇ν_c = Σ_k g_ck (ν_k − ν_c).

    neighbors (n_cells, n_slots); gradient_weights (n_cells, n_slots, d+1); density (n_signs,
    n_cells) out (n_signs, n_cells, d+1)
    """
    n_signs, n = density.shape
    for b in prange((n + BLOCK - 1) // BLOCK):
        for s in range(n_signs):
            for c in range(b * BLOCK, min(n, (b + 1) * BLOCK)):
                for a in range(len(axes)):
                    out[s, c, a] = 0.0
                for k in range(neighbors.shape[1]):
                    difference = density[s, neighbors[c, k]] - density[s, c]
                    for a in range(len(axes)):
                        out[s, c, a] += gradient_weights[c, k, a] * difference


@parallel_loop
def transport(
    neighbors, conductances, offsets, centers, volumes, density, potential, gradient, alpha,
    limiter, axes, out, outflow,
):  # fmt: skip
    """Upwind divergence, out = α div(ν∇J): face velocity −α (J_k − J_c)/chord, limited linear face
    values.

    neighbors, conductances (n_cells, n_slots); offsets (n_cells, n_slots, d+1); centers (n_cells,
    d+1); volumes (n_cells,) density, potential (n_signs, n_cells); gradient (n_signs, n_cells,
    d+1), not read when limiter < 0 (first order) out (n_signs, n_cells); outflow (n_blocks,):
    largest Σ_out area·velocity / volume in each block
    """
    n_signs, n = density.shape
    for b in prange((n + BLOCK - 1) // BLOCK):
        largest = 0.0
        for s in range(n_signs):
            for c in range(b * BLOCK, min(n, (b + 1) * BLOCK)):
                net, leaving = 0.0, 0.0
                for k in range(neighbors.shape[1]):
                    other = np.int64(neighbors[c, k])
                    flow = conductances[c, k] * (potential[s, c] - potential[s, other])
                    up, down = (c, other) if flow > 0.0 else (other, c)
                    nu = density[s, up]
                    face = nu
                    if limiter >= 0:
                        ahead = density[s, down] - nu
                        along, aside = 0.0, 0.0
                        for a in range(len(axes)):
                            along += gradient[s, up, a] * (centers[down, a] - centers[up, a])
                            aside += gradient[s, up, a] * offsets[c, k, a]
                        # the upstream difference is the one that the gradient predicts; 0 ≤ face ≤
                        # 2ν gives positivity
                        face = nu + 0.5 * limited(limiter, 2.0 * along - ahead, ahead) + aside
                        face = min(max(face, 0.0), 2.0 * nu)
                    net += flow * face
                    leaving += max(flow, 0.0)
                out[s, c] = -alpha * net / volumes[c]
                largest = max(largest, alpha * leaving / volumes[c])
        outflow[b] = largest


@parallel_loop
def integrals(density, mobility, potential, divergence, volumes, out):
    """Integrals over each block: 0 |ν|, 1 ∫J sgn(ν) m(ν), 2 ∫J² m(ν), 3 ∫J dθ, 4 ∫J·divergence dθ;
    5, 6 smallest ν and J.

    density, mobility m(ν), potential, divergence (n_signs, n_cells); volumes (n_cells,); out
    (n_blocks, 7)
    """
    n_signs, n = density.shape
    for b in prange((n + BLOCK - 1) // BLOCK):
        mass, first, second, plain, work, smallest, lowest = 0.0, 0.0, 0.0, 0.0, 0.0, np.inf, np.inf
        for s in range(n_signs):
            for c in range(b * BLOCK, min(n, (b + 1) * BLOCK)):
                nu, m, J, volume = density[s, c], mobility[s, c], potential[s, c], volumes[c]
                mass += abs(nu) * volume
                first += (J if nu >= 0.0 else -J) * m * volume
                second += J * J * m * volume
                plain += J * volume
                work += J * divergence[s, c] * volume
                smallest = min(smallest, nu)
                lowest = min(lowest, J)
        out[b, 0], out[b, 1], out[b, 2], out[b, 3], out[b, 4] = mass, first, second, plain, work
        out[b, 5], out[b, 6] = smallest, lowest


@parallel_loop
def stage(
    keep, dt, with_transport, beta, sigma, source, shift, start, divergence, potential, factor,
    growth, density,
):  # fmt: skip
    """One Shu–Osher stage of ν = e^Λ w, w′ = e^−Λ (transport + source), Λ′ = −β (J − shift) − σ.

        w ← keep·start + (1 − keep) (w + dt e^−Λ (transport + source));   Λ ← (1 − keep) (Λ + dt
        Λ′);   ν ← e^Λ w

    with w = start and Λ = 0 before the first stage. The reaction never bounds dt: w ≥ 0 depends on
    transport alone. start, divergence, potential, factor (w), growth (Λ), density (ν): (n_signs,
    n_cells); the last three are overwritten
    """
    n_signs, n = density.shape
    for b in prange((n + BLOCK - 1) // BLOCK):
        for s in range(n_signs):
            for c in range(b * BLOCK, min(n, (b + 1) * BLOCK)):
                inflow = source
                if with_transport:
                    inflow += divergence[s, c]
                w = factor[s, c] + dt * np.exp(-growth[s, c]) * inflow
                factor[s, c] = keep * start[s, c] + (1.0 - keep) * w
                growth[s, c] = (1.0 - keep) * (
                    growth[s, c] - dt * (beta * (potential[s, c] - shift) + sigma)
                )
                density[s, c] = np.exp(growth[s, c]) * factor[s, c]


@parallel_loop
def mobility_stage(keep, dt, beta, depth, reference, start, potential, growth, density):
    """The same stage of ∂_t ν = −β m(ν) J, m(ν) = τ (ν/τ)^(2 − 2/D): for fixed J it is solved
    exactly.

        Λ ← (1 − keep) (Λ − dt βJ);   (ν/τ)^(2/D − 1) = (start/τ)^(2/D − 1) − (1 − 2/D) Λ

    depth D ≠ 2; reference τ, a number; D = 1 is linear and keeps signs; others end at zero, which
    those of D < 2 reach; nan where the growth explodes (D > 2)
    """
    n_signs, n = density.shape
    power = 2.0 / depth - 1.0
    for b in prange((n + BLOCK - 1) // BLOCK):
        for s in range(n_signs):
            for c in range(b * BLOCK, min(n, (b + 1) * BLOCK)):
                growth[s, c] = (1.0 - keep) * (growth[s, c] - dt * beta * potential[s, c])
                if depth == 1.0:
                    density[s, c] = start[s, c] + reference * growth[s, c]
                else:
                    root = (start[s, c] / reference) ** power + power * growth[s, c]
                    if power > 0.0:
                        root = max(root, 0.0)
                    density[s, c] = reference * root ** (1.0 / power)


@parallel_loop
def mobilities(density, depth, reference, out):
    """m(ν) = τ |ν/τ|^(2 − 2/D); density, out (n_signs, n_cells); depth D; reference τ, a number."""
    n_signs, n = density.shape
    for b in prange((n + BLOCK - 1) // BLOCK):
        for s in range(n_signs):
            for c in range(b * BLOCK, min(n, (b + 1) * BLOCK)):
                out[s, c] = reference * abs(density[s, c] / reference) ** (2.0 - 2.0 / depth)


@parallel_loop
def euler_stage(
    dt, with_transport, beta, sigma, source, shift, start, divergence, potential, density
):
    """One explicit Euler step, ν ← ν + dt (transport − β ν (J − shift) − σν + source). All arrays
    (n_signs, n_cells)."""
    n_signs, n = density.shape
    for b in prange((n + BLOCK - 1) // BLOCK):
        for s in range(n_signs):
            for c in range(b * BLOCK, min(n, (b + 1) * BLOCK)):
                rate = source - (beta * (potential[s, c] - shift) + sigma) * start[s, c]
                if with_transport:
                    rate += divergence[s, c]
                density[s, c] = start[s, c] + dt * rate


@parallel_loop
def begin_stages(start, factor, growth):
    """Before the first stage: w = start, Λ = 0. All (n_signs, n_cells)."""
    n_signs, n = start.shape
    for b in prange((n + BLOCK - 1) // BLOCK):
        for s in range(n_signs):
            for c in range(b * BLOCK, min(n, (b + 1) * BLOCK)):
                factor[s, c] = start[s, c]
                growth[s, c] = 0.0


@small_kernel()
def carriers(
    left, right, conductances, volumes, potential, density, mobility, beta, alpha, mobility_mass,
    flowing,
):  # fmt: skip
    """β m(ν) volume of each cell and α ν conductance of each face, ν upwind, over all signs.

    left, right, conductances (n_faces,);  volumes (n_cells,);  potential, density, mobility
    (n_signs, n_cells);  mobility_mass (n_cells,), flowing (n_faces,): written
    """
    n_signs = len(density)
    for c in range(len(volumes)):
        total = 0.0
        for s in range(n_signs):
            total += mobility[s, c]
        mobility_mass[c] = beta * total * volumes[c]
    for f in range(len(left)):
        i, j, total = left[f], right[f], 0.0
        for s in range(n_signs):
            total += density[s, i] if potential[s, i] > potential[s, j] else density[s, j]
        flowing[f] = alpha * total * conductances[f]


@small_kernel()
def carried(left, right, mobility_mass, flowing, potential, rate):
    """rate_c = mobility_mass_c J_c + Σ flowing (J_c − J_k) over the faces towards its neighbours k.

    arrays as in `carriers`;  potential J, rate (n_cells,)
    """
    for c in range(len(rate)):
        rate[c] = mobility_mass[c] * potential[c]
    for f in range(len(left)):
        flux = flowing[f] * (potential[right[f]] - potential[left[f]])
        rate[right[f]] += flux
        rate[left[f]] -= flux
