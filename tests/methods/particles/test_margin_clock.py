"""The step in which the clock of the smooth margin goes on by a given amount."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import hkflow
from hkflow.methods.method import Method
from hkflow.methods.particles import points
from hkflow.methods.particles.ode import OdeMethod
from hkflow.methods.step import Step
from hkflow.solving.observer import Observer


def tried(grown, dt, *, remaining=0.0, fixed=False, varies=False, max_step=np.inf):
    """The Step that asks γ̃ to grow by dt, where grown(time) is what it grows by, and the times that
    are tried for it."""
    times = []

    def advance(time):
        times.append(time)
        made.trial.objective = -grown(time)
        return Step(time)

    made = SimpleNamespace(
        current=SimpleNamespace(speed=1.0, objective=0.0),
        trial=SimpleNamespace(objective=0.0),
        flow=SimpleNamespace(time_variable="margin", varies=varies),
        remaining=remaining,
        fixed_steps=fixed,
        max_step=max_step,
        unit=1.0,
    )
    step, time = points.PointMethod.by_clock(made, dt, advance)
    assert time == times[-1]
    return step, times


@pytest.mark.parametrize("dt", [1e-3, 1.0])
@pytest.mark.parametrize(
    "grown", [lambda t: t, lambda t: t**0.5, lambda t: t**1.5, np.log1p, np.expm1, np.arcsinh]
)
def test_the_clock_is_met_in_few_trials(grown, dt):
    step, times = tried(grown, dt)
    assert step.dt == dt and step.rejection is None
    assert abs(grown(times[-1]) - dt) <= points.CLOCK_ERROR * dt
    assert len(times) <= 7


def test_sibling_without_the_power_it_takes_many(monkeypatch):
    monkeypatch.setattr(points, "MIN_POWER", 1.0)
    assert len(tried(lambda t: t**0.5, 100.0)[1]) == points.MOST_CLOCK_CORRECTIONS


@pytest.mark.parametrize(
    "grown, dt, trials",
    [(np.log1p, 0.3, 1), (np.expm1, 0.1, 1), (np.log1p, 3.0, 2), (np.expm1, 1.0, 2)],
)
def test_a_step_between_saves_is_as_long_as_an_early_trial(grown, dt, trials):
    step, times = tried(grown, dt, remaining=10.0 * dt)
    assert step.rejection is None and len(times) == trials
    assert step.dt == grown(times[-1]) != dt
    assert points.NEAR[0] * dt <= step.dt <= points.NEAR[1] * dt


@pytest.mark.parametrize(
    "told",
    [
        {"remaining": 0.1},
        {"remaining": 0.104},
        {"fixed": True},
        {"varies": True},
        {"max_step": 0.1},
    ],
)
def test_a_step_that_may_not_be_longer_is_not(told):
    step, _ = tried(np.expm1, 0.1, **{"remaining": 1.0} | told)
    assert 0.09 < step.dt <= 0.1 * (1.0 + 2.0 * points.CLOCK_ERROR)


def test_a_clock_that_cannot_be_met_rejects_the_step():
    step, times = tried(lambda t: 1.0 if t < 2.0 else 5.0, 3.0)  # jumps past it
    assert "did not come" in step.rejection and len(times) == points.MOST_CLOCK_CORRECTIONS


@pytest.mark.parametrize("kind", ["particles", "characteristics"])
def test_a_run_by_the_margin_ends_at_its_saves_and_tries_its_steps_once(kind, monkeypatch):
    """γ̃ = −F gains what the clock says; with every step exact all others are tried again."""
    x = np.array([[1.0, 0.4], [-0.3, 0.8], [-0.9, -0.7]])
    objective = hkflow.Objective(
        hkflow.FEATURES["relu"], hkflow.RISKS["smooth-margin"], x, np.array([1.0, -1.0, 1.0])
    )
    start = hkflow.PointMeasure(
        np.tile(hkflow.quasi_uniform(9, 1), (2, 1)), np.repeat([1.0, -1.0], 9), np.full(18, 0.1)
    )
    flow = hkflow.Flow(1.0, 2.0, time_variable="margin")
    problem = hkflow.Problem(None, objective, flow, (1, -1), start)
    counts = []

    class Count(hkflow.Observer):
        def finish(self, method, clock, status):
            counts.append(method.evaluations)

    def run():
        s = hkflow.solve(
            problem, 8.0, saves=[0.0, 1.0, 3.5, 8.0], kind=kind, tolerance=1e-4,
            imex="implicit", observers=[Count()],
        )  # fmt: skip
        assert s.finished and s.time.tolist() == [0.0, 1.0, 3.5, 8.0], s.status
        r = s.records
        assert np.allclose(r["objective"][0] - r["objective"], r["time"], rtol=1e-9, atol=1e-12)
        return s

    short = run()
    monkeypatch.setattr(points, "NEAR", (1.0 - points.CLOCK_ERROR, 1.0 + points.CLOCK_ERROR))
    exact = run()
    assert np.abs(short.predictions[-1] - exact.predictions[-1]).max() < 3e-3 * 8.0
    assert counts[0] / short.records["step"][-1] < 0.6 * counts[1] / exact.records["step"][-1]


X = np.random.default_rng(0).normal(size=(6, 2))


def by_the_margin(kind, name, end):
    objective = hkflow.Objective(
        hkflow.FEATURES[name], hkflow.RISKS["smooth-margin"], X, np.sign(X[:, 0])
    )
    flow = hkflow.named_flow("hellinger-kantorovich", objective.feature.degree, True)
    flow = replace(flow, time_variable="margin")
    problem = hkflow.Problem(hkflow.circle_mesh(24), objective, flow, (1, -1))
    return hkflow.solve(problem, end, kind=kind)


@pytest.mark.parametrize(
    "kind, name",
    [("particles", "relu"), ("particles", "squared-relu"), ("characteristics", "relu")],
)
def test_the_clock_is_right_at_masses_that_change_the_unit(kind, name, monkeypatch):
    """Beyond e^44 the mass is the unit of F; the clock has none."""
    s = by_the_margin(kind, name, 1e24)
    assert s.finished and s.records["log_mass"][-1] > 50.0, s.status
    grown = -s.records["objective"][-1] * np.exp(s.records["log_scale"][-1])
    assert grown == pytest.approx(1e24, rel=1e-6)
    monkeypatch.setattr(Method, "unit", 1.0)
    assert not by_the_margin(kind, name, 1e24).finished


@pytest.mark.parametrize("kind", ["particles", "characteristics", "network"])
def test_where_the_margin_cannot_grow_its_clock_says_so(kind):
    """Data that contradict each other, and units that predict 0."""
    objective = hkflow.Objective(
        hkflow.FEATURES["relu"], hkflow.RISKS["smooth-margin"], np.ones((2, 2)), [-1.0, 1.0]
    )
    flow = hkflow.Flow(1.0, 2.0, time_variable="margin")
    problem = hkflow.Problem(hkflow.circle_mesh(24), objective, flow, (1, -1))
    s = hkflow.solve(problem, 1.0, kind=kind)
    assert not s.finished and "the smooth margin does not grow" in s.status
    said = (
        "rows 1 and 2 of the data hold one input with both labels, which bounds the smooth margin"
    )
    assert said in s.status


@pytest.mark.parametrize("kind", ["network", "characteristics"])
def test_units_that_step_over_kinks_are_told_what_keeps_the_clock(kind):
    """A smaller tolerance, which was said to help, does not; sliding along kinks does."""
    objective = hkflow.Objective(
        hkflow.FEATURES["relu"], hkflow.RISKS["smooth-margin"], X, np.sign(X[:, 0] * X[:, 1])
    )
    start = hkflow.PointMeasure(np.random.default_rng(1).normal(size=(20, 2)), [1.0, -1.0] * 10)
    flow = hkflow.Flow(1.0, 2.0, time_variable="margin")
    s = hkflow.solve(hkflow.Problem(None, objective, flow, (1, -1), start), 2.0, kind=kind)
    if kind == "network":
        assert "along kinks, which method.kind = 'characteristics' knows, gain less" in s.status
    else:
        assert s.finished


class Steps(Observer):
    """Ends a run after so many steps."""

    def __init__(self, most):
        self.left = most

    def stop(self):
        self.left -= 1
        return None if self.left > 0 else "many steps"


def to_the_limit(name, kind, **options):
    """Three data and two units of constant mass, whose smooth margin is bounded."""
    x, y = np.array([[1.0, 0.2], [0.3, -1.0], [-0.7, 0.6]]), [1.0, -1.0, 1.0]
    objective = hkflow.Objective(hkflow.FEATURES[name], hkflow.RISKS["smooth-margin"], x, y)
    start = hkflow.PointMeasure([[1.0, 0.4], [-0.5, 1.0]], [1, -1])
    flow = hkflow.Flow(1.0, 0.0, time_variable="margin")
    problem = hkflow.Problem(None, objective, flow, (1, -1), start)
    return hkflow.solve(problem, 50.0, kind=kind, observers=[Steps(1000)], **options)


@pytest.mark.parametrize("name", ["linear", "squared-relu"])
def test_at_the_limit_of_the_margin_its_clock_ends(name, monkeypatch):
    """Explicit steps move F up and down by their errors there, which is no growth."""
    s = to_the_limit(name, "particles")
    assert "the smooth margin does not grow" in s.status
    F = s.records["objective"]
    assert s.time[-1] == pytest.approx(F[0] - F[-1], abs=1e-5)
    if name == "linear":
        other = to_the_limit(name, "characteristics")
        assert F[-1] == pytest.approx(other.records["objective"][-1], abs=1e-9)
    monkeypatch.setattr(OdeMethod, "_misses_clock", lambda self, dt: False)
    assert "many steps" in to_the_limit(name, "particles").status


@pytest.mark.parametrize("loss", ["smooth-margin", "smooth-logistic-margin"])
def test_networks_that_die_come_to_the_limit_of_the_margin(loss):
    """Of one unit of the wrong sign the mass vanishes, and rates by the clock have no bound: it was
    said that an error is beyond the tolerance, or that a mass of 1e-258 misses its budget."""
    x = np.array([[1.0, 0.2], [0.5, 1.0]])
    objective = hkflow.Objective(hkflow.FEATURES["squared-relu"], hkflow.RISKS[loss], x, [1.0, 1.0])
    flow = hkflow.Flow(0.0, 4.0, time_variable="margin")
    start = hkflow.PointMeasure([[1.0, 0.0]], [-1.0])
    problem = hkflow.Problem(None, objective, flow, (1, -1), start)
    s = hkflow.solve(problem, 10.0, kind="network", layers="radii")
    assert "the smooth margin does not grow" in s.status
    limit = 0.0 if loss == "smooth-margin" else np.log(np.log(2.0))
    assert s.records["objective"][-1] == pytest.approx(limit, abs=1e-9)


def test_fixed_steps_need_not_keep_the_clock():
    """They have no error control, and are all as long as they are asked to be."""
    s = to_the_limit("squared-relu", "particles", stepper="euler", max_step=0.05)
    grown = -np.diff(s.records["objective"])
    assert 0.0 < grown[-1] < 0.5 * 0.05 and "the smooth margin does not grow" in s.status
