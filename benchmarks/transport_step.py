"""One transport step (velocity, reconstruction, flux, divergence) against streaming its arrays once, on the same threads.

The stream reads every array that the step reads and writes every array that it writes, once, in order, in a Numba loop.
"""

import time

import numpy as np
from numba import get_num_threads, njit, prange

import hkflow
from hkflow.blocks import n_blocks
from hkflow.eulerian import kernels
from hkflow.eulerian.limiters import limiter_code
from hkflow.eulerian.stencil import stencil_of

LEVEL, REPEATS, GOAL = 7, 60, 4.0


@njit(parallel=True, fastmath=True)
def read(array, sums):
    """Sum an array, 4096 entries to a block; reordering allowed, so that memory alone limits the speed."""
    for b in prange(len(sums)):
        total = 0.0
        for i in range(b * 4096, min(len(array), (b + 1) * 4096)):
            total += array[i]
        sums[b] = total


@njit(parallel=True)
def write(array):
    """Fill an array."""
    for i in prange(len(array)):
        array[i] = 1.0


def main():
    """Print both times and their ratio; medians over alternating repeats."""
    mesh, rng = hkflow.geodesic_mesh(LEVEL), np.random.default_rng(0)
    st = stencil_of(mesh)
    nu = np.exp(mesh.centers @ rng.normal(size=3))[None]
    J = np.maximum(mesh.centers @ rng.normal(size=(3, 5)), 0.0).sum(axis=1)[None]
    G, out, outflow = np.zeros((1, mesh.n_cells, 3)), np.zeros_like(nu), np.zeros(n_blocks(mesh.n_cells))
    code = limiter_code("mc")

    def step():
        kernels.gradients(st.neighbors, st.gradient_weights, nu, st.axes, G)
        kernels.transport(
            st.neighbors, st.conductances, st.offsets, st.centers, st.volumes, nu, J, G, 1.0, code, st.axes, out, outflow
        )  # fmt: skip

    inputs = [st.neighbors, st.gradient_weights, st.conductances, st.offsets, st.centers, st.volumes, nu, J, G]
    inputs = [np.ravel(array).view(np.float64) for array in inputs]
    sums = np.zeros(-(-max(map(len, inputs)) // 4096))

    def stream():
        for array in inputs:
            read(array, sums[: -(-len(array) // 4096)])
        write(np.ravel(G))
        write(np.ravel(out))

    times = {step: [], stream: []}
    for repeat in range(REPEATS + 3):
        for work, found in times.items():
            start = time.perf_counter()
            work()
            if repeat >= 3:
                found.append(time.perf_counter() - start)
    one, other = (1e3 * float(np.median(found)) for found in times.values())
    megabytes = sum(array.nbytes for array in inputs) / 1e6
    print(f"{mesh.n_cells} cells, {get_num_threads()} threads, {megabytes:.0f} MB read per step")
    print(f"transport step {one:.2f} ms, stream {other:.2f} ms, ratio {one / other:.2f} (goal: at most {GOAL:g})")


if __name__ == "__main__":
    main()
