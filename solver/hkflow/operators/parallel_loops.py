"""Fixed blocks of cells or particles: the unit of parallel work, the same for every number of
threads.

A sum is kept per block and the blocks are added in order, so a result does not depend on how many
threads made it.
"""

from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any

from numba import njit
from numpy import ndarray

BLOCK = 512
LARGE = 50_000  # numbers in an array from which a second thread brings more than waking it costs


def n_blocks(n: int) -> int:
    """Number of blocks that cover n items."""
    return -(-n // BLOCK)


def parallel_loop(function: Callable) -> Any:
    """Compile a loop over blocks twice, serial and parallel: a call runs parallel if its largest
    array is large."""
    parallel = njit(parallel=True, cache=True)(function)
    twin = FunctionType(function.__code__, function.__globals__, function.__name__)
    # Numba keeps compiled code under this name
    twin.__qualname__ = twin.__name__ = f"{function.__name__}_serial"
    serial = njit(cache=True)(twin)

    @wraps(function)
    def call(*arguments):
        for argument in arguments:
            if type(argument) is ndarray and argument.size >= LARGE:
                return parallel(*arguments)
        return serial(*arguments)

    # for callers who know better what is large
    call.parallel, call.serial = parallel, serial  # type: ignore[attr-defined]
    return call
