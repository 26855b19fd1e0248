"""The loops of a step in a velocity field that stands still: transport by what crosses each face,
and the reaction, exactly.

Index conventions and parallel blocks as in kernels.py. Each face is computed once, by the cell that
it carries mass away from:

    leaving_ck = mass that crosses the face within the step;   ν_c ← (kept_c + Σ_k arriving) /
    volume_c

What crosses a face lies before it, within a distance ξ: the volume swept is dt · flow · (1 − D dt/2
+ (D dt)²/6), D the divergence of the velocity, and its middle lies ξ/2 before the face and ½ dt
times the velocity along the face to its side.
"""

import numpy as np
from numba import prange

from ...operators.parallel_loops import BLOCK, parallel_loop
from .limiters import limited


@parallel_loop
def face_flows(
    neighbors, conductances, gradient_weights, volumes, potential, alpha, axes, flows, velocity,
    divergence, decline, outflow,
):  # fmt: skip
    """The velocity field −α∇J: flows_ck = α (J_c − J_k) conductance_ck out of c through face k, U =
    −α∇J by least squares.

    neighbors, conductances (n_cells, n_slots); gradient_weights (n_cells, n_slots, d+1); volumes
    (n_cells,) potential (n_signs, n_cells); flows (n_signs, n_cells, n_slots) volume per time;
    velocity (n_signs, n_cells, d+1) divergence, decline (n_signs, n_cells): Σ_k flow / volume, and
    −dJ/dt = α|∇J|² of what moves along outflow (n_blocks,): largest Σ_out flow / volume in each
    block
    """
    n_signs, n = potential.shape
    for b in prange((n + BLOCK - 1) // BLOCK):
        largest = 0.0
        for s in range(n_signs):
            for c in range(b * BLOCK, min(n, (b + 1) * BLOCK)):
                leaving, net = 0.0, 0.0
                for a in range(len(axes)):
                    velocity[s, c, a] = 0.0
                for k in range(neighbors.shape[1]):
                    fall = alpha * (potential[s, c] - potential[s, neighbors[c, k]])
                    flows[s, c, k] = conductances[c, k] * fall
                    leaving += max(flows[s, c, k], 0.0)
                    net += flows[s, c, k]
                    for a in range(len(axes)):
                        velocity[s, c, a] += gradient_weights[c, k, a] * fall
                divergence[s, c], decline[s, c] = net / volumes[c], 0.0
                for a in range(len(axes)):
                    decline[s, c] += velocity[s, c, a] ** 2 / alpha
                largest = max(largest, leaving / volumes[c])
                if not np.isfinite(leaving):
                    largest = np.inf
        outflow[b] = largest


@parallel_loop
def outgoing(
    dt, neighbors, conductances, offsets, centers, volumes, density, gradient, flows, velocity,
    divergence, limiter, axes, leaving, kept,
):  # fmt: skip
    """Mass that leaves each cell through each of its faces in a step, and mass that it keeps.

        leaving = dt φ flow · ν at the middle of what crosses,   φ = 1 − ½ D dt + ⅙ (D dt)²,   λ = ξ
        / |x_k − x_c|
        ν there = ν_c + ½ (1 − λ) L + ∇ν·offset − ½ dt U_t·∇ν,   L = limited(2a − b, b), a = ∇ν·(x_k
        − x_c), b = ν_k − ν_c

    U_t is the part of U along the face; D is taken a third of the way before it. 0 ≤ ν there ≤ 2
    ν_c, and where more would leave than there is, all faces give the same share of what there is.

    neighbors, conductances (n_cells, n_slots); offsets (n_cells, n_slots, d+1); centers (n_cells,
    d+1); volumes (n_cells,) density, divergence (n_signs, n_cells); gradient, velocity (n_signs,
    n_cells, d+1); flows (n_signs, n_cells, n_slots) limiter < 0: φ = 1 and ν there = ν_c;  leaving
    (n_signs, n_cells, n_slots), kept (n_signs, n_cells)
    """
    n_signs, n = density.shape
    for b in prange((n + BLOCK - 1) // BLOCK):
        for s in range(n_signs):
            for c in range(b * BLOCK, min(n, (b + 1) * BLOCK)):
                nu, D, swept, total = density[s, c], divergence[s, c], 0.0, 0.0
                if limiter >= 0:
                    for a in range(len(axes)):
                        swept += velocity[s, c, a] * gradient[s, c, a]
                for k in range(neighbors.shape[1]):
                    volume = dt * max(flows[s, c, k], 0.0)
                    face = nu
                    if volume > 0.0 and limiter >= 0:
                        other = neighbors[c, k]
                        ahead = density[s, other] - nu
                        along, aside, towards, length = 0.0, 0.0, 0.0, 0.0
                        for a in range(len(axes)):
                            step = centers[other, a] - centers[c, a]
                            along += gradient[s, c, a] * step
                            towards += velocity[s, c, a] * step
                            aside += gradient[s, c, a] * offsets[c, k, a]
                            length += step * step
                        courant = volume / (conductances[c, k] * length)
                        z = dt * (D + (0.5 - courant / 3.0) * (divergence[s, other] - D))
                        phi = 1.0 + z * (z / 6.0 - 0.5)
                        volume *= phi
                        sideways = aside - 0.5 * dt * (swept - towards * along / length)
                        slope = limited(limiter, 2.0 * along - ahead, ahead, courant)
                        face = nu + 0.5 * (1.0 - phi * courant) * slope + sideways
                        face = min(max(face, 0.0), 2.0 * nu)
                    leaving[s, c, k] = volume * face
                    total += volume * face
                mass = nu * volumes[c]
                if total > mass:
                    for k in range(neighbors.shape[1]):
                        leaving[s, c, k] *= mass / total
                    total = mass
                kept[s, c] = mass - total


@parallel_loop
def arrive(neighbors, back, volumes, leaving, kept, density):
    """ν_c = (kept_c + Σ_k leaving of the neighbour k into c) / volume_c.

    neighbors, back (n_cells, n_slots): slot of c among the neighbours of its neighbour;  the others
    as in `outgoing`
    """
    n_signs, n = density.shape
    for b in prange((n + BLOCK - 1) // BLOCK):
        for s in range(n_signs):
            for c in range(b * BLOCK, min(n, (b + 1) * BLOCK)):
                mass = kept[s, c]
                for k in range(neighbors.shape[1]):
                    mass += leaving[s, neighbors[c, k], back[c, k]]
                density[s, c] = mass / volumes[c]


@parallel_loop
def react(dt, beta, sigma, source, shift, lead, volumes, potential, decline, start, density, sums):
    """ν′ = −(β (J + lead·decline − shift) + σ) ν + source over dt, all but ν fixed, exactly, z =
    −(β (…) + σ) dt:

        ν ← e^z ν + dt φ₁(z) source,   ∫ν dt = dt φ₁(z) ν + dt² φ₂(z) source,   φ₁ = (e^z − 1)/z, φ₂
                                       = (φ₁ − 1)/z

    potential J, decline, start, density (n_signs, n_cells), density may be start; volumes
    (n_cells,) sums (n_blocks, 5): integrals 0 of J and 2 of 1 and 3 of their size over what the
    reaction brought, 1 and 4 over −σ∫ν dt
    """
    n_signs, n = density.shape
    for b in prange((n + BLOCK - 1) // BLOCK):
        work, lost_work, mass, size, lost = 0.0, 0.0, 0.0, 0.0, 0.0
        for s in range(n_signs):
            for c in range(b * BLOCK, min(n, (b + 1) * BLOCK)):
                nu, J, volume = start[s, c], potential[s, c], volumes[c]
                z = -(beta * (J + lead * decline[s, c] - shift) + sigma) * dt
                after, loss, gain = np.exp(z) * nu, 0.0, 0.0
                if sigma > 0.0:
                    one = np.expm1(z) / z if z != 0.0 else 1.0
                    two = (
                        (one - 1.0) / z
                        if abs(z) > 1e-2
                        else 0.5 + z * (1 / 6 + z * (1 / 24 + z * (1 / 120 + z / 720)))
                    )
                    after += dt * one * source
                    loss, gain = -sigma * dt * (one * nu + dt * two * source), dt * source
                reaction = (after - nu - loss - gain) * volume
                work += J * reaction
                lost_work += J * loss * volume
                mass += reaction
                size += abs(reaction)
                lost += loss * volume
                density[s, c] = after
        sums[b, 0], sums[b, 1], sums[b, 2] = work, lost_work, mass
        sums[b, 3], sums[b, 4] = size, lost


@parallel_loop
def exchange(volumes, potential, start, density, sums):
    """Integrals of what changed, over each block: sums (n_blocks, 2), 0 ∫J (ν − start), 1 ∫(|ν| −
    |start|)."""
    n_signs, n = density.shape
    for b in prange((n + BLOCK - 1) // BLOCK):
        work, mass = 0.0, 0.0
        for s in range(n_signs):
            for c in range(b * BLOCK, min(n, (b + 1) * BLOCK)):
                work += potential[s, c] * (density[s, c] - start[s, c]) * volumes[c]
                mass += (abs(density[s, c]) - abs(start[s, c])) * volumes[c]
        sums[b, 0], sums[b, 1] = work, mass
