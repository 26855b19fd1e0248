"""What is said of the time that is left."""

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from hkflow import compilation
from hkflow.running import progress
from hkflow.running.stages import PICTURE

METHOD = SimpleNamespace(current=SimpleNamespace(objective=1.0))


@pytest.fixture
def clock(monkeypatch):
    """A clock that is set by hand."""
    now = [0.0]
    for module in compilation, progress:
        monkeypatch.setattr(
            module, "time", SimpleNamespace(monotonic=lambda: now[0], process_time=lambda: now[0])
        )
    now.append(compilation.Compilation())
    monkeypatch.setattr(compilation, "COMPILATION", now[1])
    monkeypatch.setattr(progress, "_shows_bars", lambda: False)
    return now


def lines(now, steps, capsys):
    """What is printed at steps (seconds, time, seconds of them in which kernels are compiled)."""
    bar, compilation = progress.ProgressBar(), now[1]
    bar.start(METHOD, SimpleNamespace(time=0.0), np.array([0.0, 10.0]))
    for count, (seconds, time, compiling) in enumerate(steps, 1):
        now[0] = seconds - compiling
        compilation.on_start(None)
        compilation.on_start(None)  # a kernel that the first one calls
        compilation.on_end(None)
        now[0] = seconds
        compilation.on_end(None)
        bar.step(METHOD, SimpleNamespace(time=time, step=count))
    return capsys.readouterr().err.splitlines()


def test_compiling_is_no_measure_of_the_steps(clock, capsys):
    """40 s for each unit of time, and 50 s in which kernels are compiled."""
    *_, last = lines(clock, [(0.0, 0.0, 0.0), (60.0, 1.0, 20.0), (130.0, 2.0, 30.0)], capsys)
    assert last.endswith("ETA 320 s")


def test_sibling_compiling_that_is_counted_as_steps_is_seen(clock, capsys, monkeypatch):
    monkeypatch.setattr(progress, "working_time", lambda: clock[0])
    *_, last = lines(clock, [(0.0, 0.0, 0.0), (60.0, 1.0, 20.0), (130.0, 2.0, 30.0)], capsys)
    assert last.endswith("ETA 520 s")


def test_a_wait_for_kernels_is_said(monkeypatch):
    """And none where nobody waits."""
    said, waited = [], []
    monkeypatch.setattr(progress, "doing", lambda what, quiet: said.append(what) or nullcontext())
    monkeypatch.setattr(progress, "wait", waited.append)
    for waits in (False, True):
        monkeypatch.setattr(progress, "waits", lambda stage, waits=waits: waits)
        progress.wait_for(PICTURE, quiet=False)
    assert said == [progress.COMPILING] and waited == [PICTURE]


@pytest.mark.parametrize("term, lines", [("dumb", True), ("unknown", True), ("xterm", False)])
def test_a_terminal_that_cannot_draw_again_gets_lines(capsys, monkeypatch, term, lines):
    """There rich shows nothing."""
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    bar = progress.ProgressBar()
    bar.start(METHOD, SimpleNamespace(time=0.0, step=0), np.array([0.0, 10.0]))
    bar.step(METHOD, SimpleNamespace(time=1.0, step=1))
    bar.finish(METHOD, SimpleNamespace(time=1.0, step=1), "")
    assert (bar.bar is None) == lines
    assert ("t = 1 / 10  step 1" in capsys.readouterr().err) or not lines
