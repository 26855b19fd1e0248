"""How cost and memory grow: exponents by least squares in logarithms, with 95 % confidence
intervals.

"Beyond writing J" is the time of the tree less that of the least that any exact method does for
each cell: read its centre, write one linear function of it. Memory is what making and using a tree
adds to a process of its own.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
from numba import njit, prange
from scipy.optimize import nnls

from .contest import environment
from .particle_peers import descent, start
from .potential import mesh_points
from .potential_peers import data
from .timing import Row, alternate, exponent_row, skipped

CELLS, DATA, GOAL = (10_242, 40_962, 163_842, 655_362), 4096, 0.65
MORE_DATA = (256, 1024, 4096, 16_384)
PARTICLES = (20_000, 8, 500)  # units, inputs with bias, data; each up to eight times as large


@njit(parallel=True)
def linear(points, vector, out):
    """out_c = θ_c·vector."""
    for c in prange(len(out)):
        out[c] = points[c, 0] * vector[0] + points[c, 1] * vector[1] + points[c, 2] * vector[2]


def tree_times(points, n, repeats):
    """Median seconds of J, h and of a linear function of the points."""
    from hkflow.operators.dense import RELU
    from hkflow.operators.tree import TreeOperator

    rng, inputs = np.random.default_rng(1), data(n, 3)
    operator, J, h = TreeOperator(points, inputs, RELU), np.zeros(len(points)), np.zeros(n)
    g, w = rng.normal(size=n), rng.normal(size=len(points))
    calls = [
        lambda: operator.adjoint(g, J),
        lambda: operator.forward(w, h),
        lambda: linear(points, g[:3], J),
    ]
    return np.median(alternate(calls, repeats, warm=2), axis=0)


def tree_rows(cells, n, more_data, repeats):
    """Exponents in N at fixed n, and in n at one N."""
    times = np.array([tree_times(mesh_points(count), n, repeats) for count in cells])
    sizes = f"{cells[0]:,} to {cells[-1]:,} cells"
    beyond = times[:, 0] - times[:, 2]
    yield exponent_row(
        f"J beyond writing it, in N, {sizes}, {n} data",
        cells,
        beyond,
        ("<=", GOAL),
        milliseconds(beyond),
    )
    for k, name in enumerate(("J", "h", "a linear function of θ")):
        yield exponent_row(
            f"{name} in N, {sizes}, {n} data", cells, times[:, k], note=milliseconds(times[:, k])
        )
    middle = mesh_points(cells[-2])
    times = np.array([tree_times(middle, count, repeats) for count in more_data])
    for k, name in enumerate("Jh"):
        name = f"{name} in n, {more_data[0]} to {more_data[-1]:,} data, {len(middle):,} cells"
        yield exponent_row(name, more_data, times[:, k], note=milliseconds(times[:, k]))


def milliseconds(times):
    """Times for a note."""
    return ", ".join(f"{1e3 * t:.3g}" for t in times) + " ms"


def memory(cells, n):
    """Bytes that a tree and its use add to the memory of this process at most, after a small one
    has compiled all."""
    from hkflow import quasi_uniform

    points = quasi_uniform(cells, 2)
    tree_times(points[:2000], 64, 1)
    before = psutil.Process().memory_info().rss
    Path("/proc/self/clear_refs").write_text("5")  # the largest memory so far is forgotten
    tree_times(points, n, 1)
    peak = next(
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmHWM")
    )
    return 1024 * int(peak.split()[1]) - before


def memory_row(cells, n):
    """How far memory is from a N + b n √N + c, fitted to relative errors; each size in its own
    process."""
    variables = environment(1, keep=False) | {"MALLOC_MMAP_THRESHOLD_": "65536"}
    sizes, found = [(count, n) for count in cells] + [(cells[-2], n // 4), (cells[-2], 4 * n)], []
    for count, n_data in sizes:
        code = f"from benchmarks.growth import memory; print(memory({count}, {n_data}))"
        found.append(
            subprocess.run(
                [sys.executable, "-c", code],
                capture_output=True,
                check=True,
                text=True,
                env=variables,
            )
        )
    bytes_found = np.maximum([float(run.stdout) for run in found], 1e4)
    terms = np.array([[count, n_data * np.sqrt(count), 1e6] for count, n_data in sizes])
    (a, b, c), _ = nnls(terms / bytes_found[:, None], np.ones(len(sizes)))
    off = np.abs(terms @ (a, b, c) / bytes_found - 1.0).max()
    megabytes = ", ".join(
        f"{count:,} × {k}: {m / 1e6:.3g}" for (count, k), m in zip(sizes, bytes_found, strict=True)
    )
    note = f"farthest from {a:.3g} N + {b:.3g} n√N bytes + {c:.2g} MB, relative; {megabytes} MB"
    return Row("peak memory of the tree, linear in N + n√N", off, goal=("<=", 0.3), note=note)


def particle_rows(base, factors, repeats):
    """Exponents of the particle right-hand side in each of its three sizes."""
    from hkflow import Particles

    for axis, name in enumerate(("m", "d + 1", "n")):
        sizes = [
            [size * factor if a == axis else size for a, size in enumerate(base)]
            for factor in factors
        ]
        methods = [Particles(descent(start(*size)).problem) for size in sizes]
        calls = [lambda method=method: method.evaluate(method.current) for method in methods]
        times = np.median(alternate(calls, repeats), axis=0)
        label = f"particle right-hand side in {name}, from (m, d + 1, n) = {base}"
        yield exponent_row(label, np.multiply(base[axis], factors), times, note=milliseconds(times))


def rows(threads, quick):
    """All exponents, on one thread."""
    if threads > 1:
        return
    cells, n = ((642, 2562, 10_242), 64) if quick else (CELLS, DATA)
    try:
        yield from tree_rows(cells, n, (16, 64, 256) if quick else MORE_DATA, 5 if quick else 9)
        yield memory_row(cells, n)
    except (ImportError, OSError, subprocess.CalledProcessError) as error:
        yield skipped(
            "J beyond writing it, in N", getattr(error, "stderr", None) or error, ("<=", GOAL)
        )
    yield from particle_rows(
        (500, 4, 64) if quick else PARTICLES,
        (1, 2, 4) if quick else (1, 2, 4, 8),
        5 if quick else 9,
    )
