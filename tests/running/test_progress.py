"""What is said of the time that is left."""

from types import SimpleNamespace

import numpy as np
import pytest

from hkflow.running import progress

METHOD = SimpleNamespace(current=SimpleNamespace(objective=1.0))


@pytest.fixture
def clock(monkeypatch):
    """A clock that is set by hand."""
    now = [0.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(progress, "_shows_bars", lambda: False)
    return now


def lines(now, steps, capsys):
    """What is printed at steps (seconds, time)."""
    bar = progress.ProgressBar()
    bar.start(METHOD, SimpleNamespace(time=0.0), np.array([0.0, 10.0]))
    for count, (now[0], time) in enumerate(steps, 1):
        bar.step(METHOD, SimpleNamespace(time=time, step=count))
    return capsys.readouterr().err.splitlines()


def test_the_first_step_is_no_measure_of_the_others(clock, capsys):
    """It takes 50 s, for kernels are compiled in it, the others 40 s for each unit of time."""
    first, last = lines(clock, [(0.0, 0.0), (50.0, 1.0), (90.0, 2.0)], capsys)
    assert "ETA" not in first and last.endswith("ETA 320 s")
