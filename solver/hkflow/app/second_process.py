"""The second process of `hkflow run`, a program: see running.ahead."""

import gc
from collections.abc import Callable
from pathlib import Path

import numba

from ..running.ahead import COMPANIONS, ERRORS, MAX_MARGIN, PICTURE, serve
from ..running.error_bars import estimated, made_beside
from ..running.run import certified
from ..solving.solution import Solution
from ..store.run import load
from .pictures import draw_pictures

READY: list[Solution] = []


def _prepare():
    from ..plots import kinds  # noqa: F401
    from ..plots.figures import rehearse

    rehearse()


def _draw(folder: Path) -> str:
    return draw_pictures(load(folder))


def _certify(folder: Path, seconds: float) -> bool:
    return certified(load(folder), seconds)


def _make_companions(folder: Path, independent: bool) -> int:
    """How many were made, on one thread, since the first process computes at the same time."""
    threads = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        READY.extend(made_beside(load(folder), independent))
    finally:
        numba.set_num_threads(threads)
    return len(READY)


def _estimate(folder: Path, companions: str) -> bool:
    return estimated(load(folder), None, companions, quiet=True, ready=READY)


TASKS: dict[str, Callable[..., object]] = {
    MAX_MARGIN: _certify,
    PICTURE: _draw,
    COMPANIONS: _make_companions,
    ERRORS: _estimate,
}

if __name__ == "__main__":
    gc.disable()  # its one run leaves little
    serve(_prepare, TASKS)
