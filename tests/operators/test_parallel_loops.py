"""A loop that is divided among threads gives the same numbers for any number of them."""

import multiprocessing
import threading
import time

import numba
import numpy as np
import pytest
from numba import prange

from hkflow.operators.parallel_loops import LARGE, SHARES, divided_loop, parallel_loop

several_threads = pytest.mark.skipif(
    numba.config.NUMBA_NUM_THREADS < 2, reason="one thread divides nothing"
)


@divided_loop()
def squares(begin, end, values, out):
    for i in range(begin, end):
        out[i] += values[i] ** 2


@divided_loop()
def overlapping(begin, end, values, out):
    for i in range(max(begin - 1, 0), end):
        out[i] += values[i] ** 2


def calculated(loop, n, threads):
    """Squares of n numbers, calculated by a number of threads."""
    values, out = np.arange(float(n)), np.zeros(n)
    before = numba.get_num_threads()
    numba.set_num_threads(threads)
    try:
        loop(n, LARGE, values, out)
    finally:
        numba.set_num_threads(before)
    return out


@pytest.mark.parametrize("n", [0, 1, 2, 1001])
def test_every_item_once(n):
    for threads in range(1, numba.config.NUMBA_NUM_THREADS + 1):
        assert np.array_equal(calculated(squares, n, threads), np.arange(float(n)) ** 2)


@several_threads
def test_parts_that_overlap_are_seen():
    assert not np.array_equal(calculated(overlapping, 1001, 2), np.arange(1001.0) ** 2)


@pytest.fixture
def interpreted(monkeypatch):
    """Kernels are run by Python."""
    monkeypatch.setattr(
        "hkflow.operators.parallel_loops.njit", lambda **_: lambda function: function
    )


def test_little_work_wakes_no_thread(interpreted):
    calls = []
    divided_loop()(lambda begin, end: calls.append((begin, end)))(7, LARGE - 1)
    assert calls == [(0, 7)]


@several_threads
def test_threads_that_are_done_take_what_is_left(interpreted):
    """The first item takes as long as all others, whoever does these."""
    shares, items, left = SHARES * numba.get_num_threads(), set(), threading.Event()
    n = 100 * shares

    def kernel(begin, end):
        if begin == 0:
            assert left.wait(30.0)
        items.update(range(begin, end))
        if len(items) == n - 100:
            left.set()

    divided_loop()(kernel)(n, LARGE)
    assert items == set(range(n))


@several_threads
def test_an_interrupted_call_returns_when_all_threads_are_done(interpreted):
    here, began, ended, main = threading.Event(), threading.Event(), [], threading.get_ident()

    def kernel(begin, end):
        if threading.get_ident() == main:
            here.set()
            assert began.wait(30.0)
            raise KeyboardInterrupt
        assert here.wait(30.0)
        began.set()
        time.sleep(0.01)
        ended.append(begin)

    with pytest.raises(KeyboardInterrupt):
        divided_loop()(kernel)(1000, LARGE)
    count = len(ended)
    time.sleep(0.1)
    assert len(ended) == count == SHARES * numba.get_num_threads() - 1


@parallel_loop
def cubes(values, out):
    for i in prange(len(values)):
        out[i] = values[i] ** 3


def goes_on(values):
    """Both kinds of loop in a process of its own."""
    out = np.zeros_like(values)
    squares(len(values), LARGE, values, out)
    assert np.array_equal(out, values**2)
    cubes(values, out)
    assert np.array_equal(out, values**3)


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="cannot fork")
def test_a_forked_process_goes_on_without_the_threads_of_its_parent():
    """Those of divided loops are made again; those of OpenMP cannot be, and would end it."""
    values = np.arange(float(LARGE))
    calculated(squares, 10, numba.config.NUMBA_NUM_THREADS)
    cubes(values, np.zeros_like(values))
    child = multiprocessing.get_context("fork").Process(target=goes_on, args=(values,))
    child.start()
    child.join(60)
    alive = child.is_alive()
    if alive:
        child.kill()
    assert not alive and child.exitcode == 0
