"""A second process beside this one, started before the solver is loaded, so that both load it at
the same time."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


class SecondProcess:
    """A Python process that runs a module, and is told things and answers in lines of JSON.

    It ends by itself when this process ends, whose end of its stdin is closed then. It has
    the flags -E, -s and -I that this process has, or it might import another hkflow.
    """

    def __init__(self, program: str) -> None:
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        own = {"-E": sys.flags.ignore_environment, "-s": sys.flags.no_user_site}
        places = [flag for flag, given in own.items() if given]
        command = [sys.executable, "-P", *places, "-m", program]
        self.process = subprocess.Popen(command, 0, stdin=pipe, stdout=pipe, stderr=nothing)

    def tell(self, words: Any) -> None:
        """Write a line to it; nothing if it has ended."""
        with suppress(OSError, ValueError):
            self.process.stdin.write(json.dumps(words).encode() + b"\n")  # type: ignore[union-attr]

    def answers(self) -> Iterator[Any]:
        """What it says, until it ends."""
        with suppress(ValueError):  # stopped by this process
            yield from map(json.loads, self.process.stdout)  # type: ignore[arg-type]

    def stop(self) -> None:
        """End it, whatever it does."""
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """End it, and forget what it said."""
        self.stop()
        self.process.stdin.close()  # type: ignore[union-attr]
        self.process.stdout.close()  # type: ignore[union-attr]


@contextmanager
def second_process(program: str, wanted: bool) -> Iterator[SecondProcess | None]:
    """A SecondProcess while the block runs; None where none is wanted or no core is free."""
    process = None
    if wanted and has_free_core():
        with suppress(OSError):  # no room for another one
            process = SecondProcess(program)
    try:
        yield process
    finally:
        if process:
            process.close()


def has_free_core() -> bool:
    """Whether a second process has a core of its own, which NUMBA_NUM_THREADS=1 denies."""
    return cores() > 1 and os.environ.get("NUMBA_NUM_THREADS") != "1"


def cores() -> int:
    """How many cores this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1
