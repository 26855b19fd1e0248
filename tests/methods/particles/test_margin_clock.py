"""The step in which the clock of the smooth margin goes on by a given amount."""

from types import SimpleNamespace

import numpy as np
import pytest

from hkflow.methods.particles import points
from hkflow.methods.step import Step


def trials(grown, dt):
    """The times tried until γ̃ has grown by dt, where grown(time) is what it grows by."""
    tried = []

    def advance(time):
        tried.append(time)
        made.trial.objective = -grown(time)
        return Step(time)

    made = SimpleNamespace(
        current=SimpleNamespace(speed=1.0, objective=0.0),
        trial=SimpleNamespace(objective=0.0),
        flow=SimpleNamespace(time_variable="margin"),
    )
    step, _ = points.PointMethod.by_clock(made, dt, advance)
    assert step.dt == dt and step.rejection is None
    return tried


@pytest.mark.parametrize("dt", [1e-3, 1.0])
@pytest.mark.parametrize(
    "grown", [lambda t: t, lambda t: t**0.5, lambda t: t**1.5, np.log1p, np.expm1, np.arcsinh]
)
def test_the_clock_is_met_in_few_trials(grown, dt):
    tried = trials(grown, dt)
    assert abs(grown(tried[-1]) - dt) <= points.CLOCK_ERROR * dt
    assert len(tried) <= 7


def test_sibling_without_the_power_it_takes_many(monkeypatch):
    monkeypatch.setattr(points, "MIN_POWER", 1.0)
    assert len(trials(lambda t: t**0.5, 100.0)) == points.MOST_CLOCK_CORRECTIONS
