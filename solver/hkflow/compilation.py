"""How long this process compiles kernels."""

import time
from typing import Any

from numba.core.event import Listener, register


class Compilation(Listener):
    """Counts how often this process compiles, for how many seconds, and how many of processor time;
    seconds in which it waits for another process to do so are added by who waits."""

    def __init__(self) -> None:
        self.seconds, self.work, self.depth, self.count = 0.0, 0.0, 0, 0
        self.begun = self.work_begun = 0.0

    def on_start(self, event: Any) -> None:
        self.depth += 1  # a kernel compiles those that it calls
        if self.depth == 1:
            self.begun, self.work_begun = time.monotonic(), time.process_time()
            self.count += 1

    def on_end(self, event: Any) -> None:
        self.depth -= 1
        if not self.depth:
            self.seconds += time.monotonic() - self.begun
            self.work += time.process_time() - self.work_begun


COMPILATION = Compilation()
register("numba:compile", COMPILATION)


def working_time() -> float:
    """Seconds on a clock that stands still while this process compiles."""
    compiling = time.monotonic() - COMPILATION.begun if COMPILATION.depth else 0.0
    return time.monotonic() - COMPILATION.seconds - compiling


def processor_time() -> float:
    """Seconds of processor time of this process, all its threads together, without compiling."""
    compiling = time.process_time() - COMPILATION.work_begun if COMPILATION.depth else 0.0
    return time.process_time() - COMPILATION.work - compiling
