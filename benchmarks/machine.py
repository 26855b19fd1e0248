"""What the machine itself can do in the same run: streaming through memory, and DGEMM."""

import os

import numpy as np
from numba import njit, prange

from .timing import Row, alternate

CHUNK = 4096


@njit(parallel=True, fastmath=True)
def read(array, sums):
    """Sum an array, CHUNK entries to a block; reordering allowed, so that memory alone limits the
    speed."""
    for b in prange(len(sums)):
        total = 0.0
        for i in range(b * CHUNK, min(len(array), (b + 1) * CHUNK)):
            total += array[i]
        sums[b] = total


@njit(parallel=True)
def write(array):
    """Fill an array."""
    for i in prange(len(array)):
        array[i] = 1.0


def numbers(array):
    """An array's memory as float64, without a copy; what does not fill a last number is left
    out."""
    flat = array.reshape(-1).view(np.uint8)
    return flat[: len(flat) // 8 * 8].view(np.float64)


def stream(inputs, outputs=()):
    """A function that reads every input and writes every output once, in order; `outputs` are
    overwritten."""
    inputs, outputs = [numbers(a) for a in inputs], [numbers(a) for a in outputs]
    sums = np.zeros(-(-max((len(a) for a in inputs), default=1) // CHUNK))

    def work():
        for array in inputs:
            read(array, sums[: -(-len(array) // CHUNK)])
        for array in outputs:
            write(array)

    return work


def dgemm(size):
    """A function that multiplies two matrices, 2 size³ operations."""
    a, b = np.random.default_rng(0).normal(size=(2, size, size))
    out = np.empty_like(a)
    return lambda: np.matmul(a, b, out=out)


def rows(threads, quick):
    """Bandwidth and DGEMM."""
    size, n = (256, 1 << 18) if quick else (1536, 1 << 25)
    array = np.ones(n)
    times = np.median(
        alternate([stream([array]), stream([], [array]), dgemm(size)], 5 if quick else 9, warm=2),
        axis=0,
    )
    for name, time, work, unit in (
        ("read from memory", times[0], 8e-9 * n, "GB/s"),
        ("write to memory", times[1], 8e-9 * n, "GB/s"),
        ("DGEMM", times[2], 2e-9 * size**3, "Gflop/s"),
    ):
        yield Row(name, work / time, unit)
    yield Row(
        "load when this part ended",
        os.getloadavg()[0],
        "programs",
        note="average of a minute, this one included",
    )
