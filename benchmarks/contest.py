"""Contestants in processes of their own, whose threads and memory are settled before any library
loads; they take turns.

A contestant is a module-level function `make(*arguments)` that returns {variant: run}, with
run(steps) -> (seconds, result). The fastest variant competes. With one thread a process stays on
one core, because XLA knows no other way.
"""

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np

from .timing import clock, ratio

SECONDS = 0.3  # of one turn, about
# glibc keeps freed memory
KEEP = {"MALLOC_TRIM_THRESHOLD_": "1000000000000", "MALLOC_MMAP_THRESHOLD_": "1000000000000"}
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def environment(threads, keep=True):
    """Environment variables of a process with this many threads."""
    kept = {name: value for name, value in os.environ.items() if name not in KEEP}
    return (
        kept
        | {name: str(threads) for name in THREADS}
        | {"OMP_WAIT_POLICY": "passive"}
        | (KEEP if keep else {})
    )


def settle(threads):
    """Stay on as many cores as there are threads."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])


def timed(prepare, take, result=None):
    """run(steps) -> (seconds of take(steps, prepare()), what `result` makes of it)."""

    def run(steps):
        state = prepare()
        begin = clock()
        state = take(steps, state)
        return clock() - begin, result and result(state)

    return run


def calls(work):
    """run(steps) that calls work() again and again; the result is what the last call returns."""

    def take(steps, _):
        for _ in range(steps):
            found = work()
        return found

    return timed(lambda: None, take, np.array)


# --- in the process of a contestant

runs, steps = {}, {}


def choose(make, arguments, checked):
    """Make a contestant and try its variants; returns (the fastest one's name, {name: result after
    `checked` steps})."""
    runs.update(make(*arguments))
    for run in runs.values():
        run(1)
    found = {name: run(checked) for name, run in runs.items()}
    steps.update({name: max(1, int(SECONDS * checked / time)) for name, (time, _) in found.items()})
    return min(found, key=lambda name: found[name][0]), {
        name: result for name, (_, result) in found.items()
    }


def turn(name):
    """Seconds per step of a variant in one turn."""
    return runs[name](steps[name])[0] / steps[name]


# --- in the process that compares


class Player:
    """A contestant in its process; `missing` says why there is none."""

    def __init__(self, make, arguments, threads, keep=True, checked=1):
        before = dict(os.environ)
        os.environ.clear()
        os.environ.update(environment(threads, keep))
        self.pool = ProcessPoolExecutor(1, get_context("spawn"), settle, (threads,))
        self.variant, self.results, self.missing = "", {}, None
        try:
            self.pool.submit(os.getpid).result()  # it starts with the environment of this moment
            self.variant, self.results = self.pool.submit(choose, make, arguments, checked).result()
        except ImportError as error:
            self.missing = str(error)
        finally:
            os.environ.clear()
            os.environ.update(before)

    def turn(self, variant=None):
        """Seconds per step of a variant, the fastest if none is named."""
        return self.pool.submit(turn, self.variant if variant is None else variant).result()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.pool.shutdown()


def duel(ours, theirs, rounds=5):
    """Median seconds per step of both, and the fields of the ratio theirs / ours; they take
    turns."""
    times = np.array([[ours.turn(), theirs.turn()] for _ in range(rounds)])
    return *np.median(times, axis=0), ratio(times[:, 1], times[:, 0])
