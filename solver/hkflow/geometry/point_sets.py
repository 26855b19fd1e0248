"""Point sets on S^d that stand for the uniform measure: deterministic ones and random ones."""

import math

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
    from scipy.special import ndtri  # takes a moment, and is rarely needed

    return normalize(ndtri(np.clip(halton(n, dim + 1), 1e-12, 1.0 - 1e-12)))


def halton(n: int, axes: int) -> Floats:
    """The first n points of a scrambled Halton sequence of the cube, (n, axes).

    Coordinate a of point i has the digits of i to the base of the a-th prime after its point, the
    lowest first, each place with a permutation of its own, and as many places as a float tells
    apart (Owen 2017, Algorithm 1). They are those of `scipy.stats.qmc.Halton(axes, rng=0)`, which
    takes most of a second to import.
    """
    (rng,), columns = np.random.default_rng(0).spawn(1), np.zeros((axes, n))
    for column, base in zip(columns, _primes(axes), strict=True):
        places = math.ceil(54 / math.log2(base)) - 1
        permutations = np.tile(np.arange(base), (places, 1))
        for permutation in permutations:
            rng.shuffle(permutation)
        rest, unit = np.arange(n), 1.0 / base
        for permutation in permutations:
            if rest.any():
                rest, digits = np.divmod(rest, base)
                column += permutation[digits] * unit
            else:
                column += permutation[0] * unit
            unit /= base
    return columns.T


def _primes(count):
    """The first primes, so many."""
    found: list[int] = []
    number = 2
    while len(found) < count:
        if all(number % prime for prime in found):
            found.append(number)
        number += 1
    return found


def random_uniform(rng: np.random.Generator, n: int, dim: int) -> Floats:
    """n independent uniform points of S^dim, (n, dim+1)."""
    return normalize(rng.standard_normal((n, dim + 1)))
