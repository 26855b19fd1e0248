"""The second process of `hkflow run`, a program: see running.ahead."""

import gc
import json
import os
import signal
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

import numba

from ..running.ahead import COMPANIONS, COMPILED, ERRORS, LEAVE, MAX_MARGIN, PICTURE
from ..running.ending import certified
from ..running.error_bars import estimated, made_beside
from ..running.stages import compile_stage
from ..solving.solution import Solution
from ..store.run import load
from .pictures import draw_pictures

READY: list[Solution] = []  # companions that were made


def serve() -> None:
    """Compile what the first line says, tell of each stage, and do the TASKS that others ask for,
    or leave stages out; end when the first process does, which holds the other end of stdin."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the first process
    answers, sys.stdout = sys.stdout, sys.stderr
    asked: Queue[list] = Queue()
    Thread(target=_receive, args=(asked,), daemon=True).start()

    def tell(what, answer):
        print(json.dumps([what, answer]), file=answers, flush=True)

    def obey(word, *of):
        if word == LEAVE:
            left.update(of)
        else:
            tell(word, _done(word, *of))

    name, axes, stages = asked.get()
    left: set[str] = set()
    later = []  # the first process may wait for a stage before
    for stage in stages:
        if stage not in left:
            compile_stage(stage, name, axes)
            tell(COMPILED, stage)
        while not asked.empty():
            words = asked.get()
            if words[0] in (COMPANIONS, ERRORS):
                later.append(words)
            else:
                obey(*words)
    for words in later:
        obey(*words)
    _prepare()
    while True:
        obey(*asked.get())


def _receive(asked):
    """Take lines until there are no more, then end the process."""
    for line in open(0, "rb", closefd=False):  # noqa: SIM115
        asked.put(json.loads(line))
    os._exit(0)


def _done(task: str, folder: str, *arguments: Any) -> object:
    """What a task answers; None if it fails or would warn: the first process does it then, and says
    what there is to say."""
    with suppress(Exception), warnings.catch_warnings():
        for kind in (UserWarning, RuntimeWarning):
            warnings.simplefilter("error", kind)
        return TASKS[task](Path(folder), *arguments)
    return None


def _prepare():
    """Load what draws."""
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
    serve()
