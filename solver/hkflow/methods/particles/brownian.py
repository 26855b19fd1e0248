"""Brownian steps of particles on the sphere of any dimension, for objectives with entropy:

    dθ = −α ∇_S J dt + √(2ατ) dB

by geodesics θ ← exp_θ(−α ∇_S J dt + √(2ατ dt) ξ), ξ a Gaussian vector of the tangent space: of
weak order one in dt. The law of a particle follows ∂_t ν = α div(ν ∇J) + ατ Δν.

Source: Jørgensen 1975 (geodesic random walks).
"""

import numpy as np
from numba import prange

from ...operators.parallel_loops import parallel_loop


@parallel_loop
def geodesic_steps(positions, velocities, random, dt, spread, n, out):
    """out = exp_θ(dt u + spread ξ), ξ the tangent part of the Gaussian numbers `random`.

    positions θ, velocities u (tangent), random, out (n_blocks, p, width), blocked as in kernels.py;
    n particles
    """
    axes, width = positions.shape[1:]
    for b in prange(len(positions)):
        for c in range(min(width, n - b * width)):
            radial = 0.0
            for a in range(axes):
                radial += positions[b, a, c] * random[b, a, c]
            square = 0.0
            for a in range(axes):
                tangent = random[b, a, c] - radial * positions[b, a, c]
                out[b, a, c] = dt * velocities[b, a, c] + spread * tangent
                square += out[b, a, c] ** 2
            length, size = np.sqrt(square), 0.0
            share = np.sin(length) / length if length > 0.0 else 1.0
            for a in range(axes):
                out[b, a, c] = np.cos(length) * positions[b, a, c] + share * out[b, a, c]
                size += out[b, a, c] ** 2
            for a in range(axes):
                out[b, a, c] /= np.sqrt(size)
