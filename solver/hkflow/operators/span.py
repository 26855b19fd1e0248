"""Orthonormal bases of spans, one vector after the other (Gram and Schmidt)."""

import numpy as np

from ..arguments import Floats
from ..compiled import njit
from .parallel_loops import small_kernel


def orthonormal(vectors: Floats, least: float) -> Floats:
    """An orthonormal basis, rows (≤ n, p), of the span of unit vectors (n, p); one depends on those
    before if its distance from their span is at most `least`."""
    basis = np.zeros((len(vectors) + 1, vectors.shape[1]))
    return basis[: span(vectors, basis, least)]


@small_kernel(fastmath={"reassoc"}, error_model="numpy")
def extend(basis, count, x, least):
    """Make x (p,) one more of the orthonormal vectors basis[:count]; returns how many there are,
    as many as before if x depends on them."""
    own = basis[count]
    for a in range(len(x)):
        own[a] = x[a]
    for _ in range(2):  # the second time takes out what rounding has left
        for h in range(count):
            along = 0.0
            for a in range(len(x)):
                along += own[a] * basis[h, a]
            for a in range(len(x)):
                own[a] -= along * basis[h, a]
    square = 0.0
    for a in range(len(x)):
        square += own[a] * own[a]
    size = np.sqrt(square)
    if size <= least:
        return count
    for a in range(len(x)):
        own[a] /= size
    return count + 1


@njit(cache=True)
def span(vectors, basis, least):
    """Make the first rows of basis (n + 1, p) an orthonormal basis of the span of unit vectors (n,
    p); returns how many there are."""
    count = np.int64(0)
    for x in vectors:
        count = extend(basis, count, x, least)
    return count
