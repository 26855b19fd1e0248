"""Point sets on S^d that stand for the uniform measure: deterministic ones and random ones."""

import numpy as np

from ..arguments import Floats
from .sphere import normalize

MAX_HALTON = 100  # dimensions


def quasi_uniform(n: int, dim: int) -> Floats:
    """n evenly spread points of S^dim, the same ones each time. Returns (n, dim+1).

    Equal arcs on the circle, a Fibonacci spiral on S² (Swinbank & Purser 2006), in higher dimension
    a Halton sequence of the cube, carried to Gaussians and from there to the sphere. Beyond a
    hundred dimensions no n is large enough for such a sequence to be more even than draws, and its
    tables grow like dim²: there, draws of a fixed seed.
    """
    k = np.arange(n) + 0.5
    if dim == 1:
        angle = 2.0 * np.pi * k / n
        return np.column_stack([np.cos(angle), np.sin(angle)])
    if dim == 2:
        height = 1.0 - 2.0 * k / n
        angle = np.pi * (3.0 - np.sqrt(5.0)) * k
        radius = np.sqrt(1.0 - height**2)
        return np.column_stack([radius * np.cos(angle), radius * np.sin(angle), height])
    if dim > MAX_HALTON:
        return random_uniform(np.random.default_rng(0), n, dim)
    from scipy.special import ndtri  # seconds together, and rarely needed
    from scipy.stats import qmc

    cube = qmc.Halton(dim + 1, scramble=True, rng=0).random(n)
    return normalize(ndtri(np.clip(cube, 1e-12, 1.0 - 1e-12)))


def random_uniform(rng: np.random.Generator, n: int, dim: int) -> Floats:
    """n independent uniform points of S^dim, (n, dim+1)."""
    return normalize(rng.standard_normal((n, dim + 1)))
