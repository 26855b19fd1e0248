"""Fixed blocks of cells or particles: the unit of parallel work, the same for every number of
threads.

A sum is kept per block and the blocks are added in order, so a result does not depend on how many
threads made it.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, wraps
from typing import Any

from numba import get_num_threads
from numpy import ndarray

from ..compiled import njit

BLOCK = 512
SHARES = 8  # of a divided loop, for each thread
LARGE = 50_000  # numbers in an array from which a second thread brings more than waking it costs


def n_blocks(n: int) -> int:
    """Number of blocks that cover n items."""
    return -(-n // BLOCK)


def parallel_loop(function: Callable) -> Any:
    """Compile a loop over blocks twice, serial and parallel: a call runs parallel if its largest
    array is large."""
    parallel = njit(parallel=True, cache=True)(function)
    serial = parallel.serial

    @wraps(function)
    def call(*arguments):
        for argument in arguments:
            if type(argument) is ndarray and argument.size >= LARGE:
                return parallel(*arguments)
        return serial(*arguments)

    # for callers who know better what is large
    call.parallel, call.serial = parallel, serial  # type: ignore[attr-defined]
    return call


def small_kernel(**options: Any) -> Callable:
    """Compile a function that makes no arrays, without counting references to those that it takes:
    counts are atomic additions, and as long as short loops."""
    return njit(cache=True, _nrt=False, **options)


def divided_loop(**options: Any) -> Callable:
    """Compile kernel(begin, end, …), a loop over items, once: call(n, work, …) divides n items
    among threads if the work, in numbers that are read, is large. Each thread takes the next share
    when it has done one, since items may differ in cost.

    For loops of milliseconds, whose speed with one thread and two is that of `prange`, which takes
    three to eight times as long to compile. The loops of a time step last as long as waking a
    thread of Python, 50 µs: they have `parallel_loop`.
    """

    def compiled(function: Callable) -> Any:
        kernel = njit(nogil=True, cache=True, **options)(function)

        @wraps(function)
        def call(n, work, *arguments):
            threads = min(get_num_threads(), n) if work >= LARGE else 1
            if threads < 2:
                if n:
                    kernel(0, n, *arguments)
                return
            parts = min(SHARES * threads, n)
            shares = iter([(n * k // parts, n * (k + 1) // parts) for k in range(parts)])

            def take():
                for begin, end in shares:
                    kernel(begin, end, *arguments)

            others = [_threads(os.getpid()).submit(take) for _ in range(threads - 1)]
            try:
                take()
            finally:  # nobody writes once an interrupted call has returned
                for other in others:
                    other.result()

        return call

    return compiled


@cache
def _threads(process):
    """The threads of a process: one that was forked has none of its parent's."""
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="kernel")
