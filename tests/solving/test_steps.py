"""Runs step by step, and functions of a State as observers."""

import re

import numpy as np
import pytest
from conftest import moment_problem

import hkflow


def problem(cells=32):
    return moment_problem(hkflow.circle_mesh(cells), 1.0, 4.0)


def test_steps_are_those_of_solve():
    wanted = hkflow.solve(problem(), 1.0)
    seen = [
        (state.time, state.step, state.dt, state.objective, state.mass, state.predictions.copy())
        for state in hkflow.steps(problem(), 1.0)
    ]
    time, step, dt, objective, mass, predictions = (
        np.array(column) for column in zip(*seen, strict=True)
    )
    records = wanted.records
    for name, found in {"time": time, "step": step, "dt": dt}.items():
        assert np.array_equal(found, records[name])
    scale = np.exp(records["log_scale"])
    assert objective == pytest.approx(scale * records["objective"], rel=1e-15)
    assert mass == pytest.approx(scale * records["mass"], rel=1e-15)
    assert np.array_equal(predictions[-1], wanted.predictions[-1])


def test_a_state_is_in_plain_units():
    """A mass of 2^80 is kept in other units by the method; a State knows nothing of them."""
    mesh = hkflow.circle_mesh(16)
    density = np.full((1, 16), 2.0**80 / (2.0 * np.pi))
    heavy = hkflow.Problem(mesh, problem().objective, hkflow.Flow(0.0, 0.0, 1.0), (1,), density)
    state = next(hkflow.steps(heavy, 1.0))
    assert state.mass == pytest.approx(2.0**80, rel=1e-14)
    assert state.log_mass == pytest.approx(80.0 * np.log(2.0), rel=1e-14)
    assert state.density == pytest.approx(density, rel=1e-14)
    assert state.atoms().mass == pytest.approx(2.0**80, rel=1e-14)


def test_who_wants_no_more_steps_ends_the_run():
    class Ending(hkflow.Observer):
        status = None

        def finish(self, method, clock, status):
            self.status = status

    ending = Ending()
    steps = hkflow.steps(problem(), 5.0, observers=[ending])
    for state in steps:
        if state.time > 0.5:
            break
    assert ending.status is None
    steps.close()
    assert ending.status == f"Left at t = {state.time:.6g} after {state.step} steps."


def test_who_takes_the_last_step_sees_the_run_completed():
    class Ending(hkflow.Observer):
        def finish(self, method, clock, status):
            self.status = status

    for observers, wanted in (([], "Completed at t = 1"), ([lambda s: s.time > 0.3], "Stopped by")):
        ending = Ending()
        steps = hkflow.steps(problem(), 1.0, observers=[ending, *observers])
        for state in steps:
            if state.time == 1.0 or observers and state.time > 0.3:
                break
        steps.close()
        assert ending.status.startswith(wanted)


def test_functions_are_called_when_they_are_due():
    every, at, when, always = [], [], [], []
    observers = [
        hkflow.observe(lambda state: every.append(state.time), every=0.25),
        hkflow.observe(lambda state: at.append(state.time), at=[0.1, 0.9]),
        hkflow.observe(
            lambda state: when.append(state.step), when=lambda state: state.step % 3 == 0
        ),
        lambda state: always.append(state.time),
    ]
    time = hkflow.solve(problem(), 1.0, observers=observers).records["time"]
    assert always == time.tolist()
    reached = [time[np.searchsorted(time, wanted)] for wanted in (0.0, 0.25, 0.5, 0.75, 1.0)]
    assert every == pytest.approx(reached, abs=1e-14)
    assert at == [time[np.searchsorted(time, wanted)] for wanted in (0.1, 0.9)]
    assert when == [step for step in range(len(time)) if step % 3 == 0]


@pytest.mark.parametrize("answer", [True, "Converged"])
def test_a_function_ends_the_run(answer):
    def small(state):
        return answer if state.time > 0.5 else None

    run = hkflow.solve(problem(), 5.0, observers=[small])
    said = "Converged" if answer == "Converged" else "Stopped by small"
    assert not run.finished and run.status.startswith(f"{said} at t = 0.5")
    assert 0.5 < run.time[-1] < 1.0


@pytest.mark.parametrize("answer", [17, np.ones(3), "", [1], 0.5])
def test_a_number_ends_no_run(answer):
    """As file.write returns one: a function that writes a line ended the run at its first step."""
    run = hkflow.solve(problem(), 0.1, observers=[lambda state: answer])
    assert run.finished


@pytest.mark.parametrize("wrong", [3, hkflow.Observer])
def test_what_is_no_observer_is_told(wrong, tmp_path):
    with pytest.raises(ValueError, match="An observer is a hkflow.Observer or a function"):
        hkflow.solve(problem(), 0.1, observers=[wrong])
    with pytest.raises(ValueError, match="An observer is a hkflow.Observer or a function"):
        hkflow.run(problem(), tmp_path / "run", end=0.1, observers=[wrong])
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("wrong", [print, "print", None, hkflow.Observer()])
def test_observers_are_a_list(wrong, tmp_path):
    told = re.escape(f"observers=[function], got {wrong!r:.60}.")
    for call in (
        lambda: hkflow.solve(problem(), 0.1, observers=wrong),
        lambda: next(hkflow.steps(problem(), 0.1, observers=wrong)),
        lambda: hkflow.run(problem(), tmp_path / "run", end=0.1, observers=wrong),
    ):
        with pytest.raises(ValueError, match=told):
            call()
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"every": "1"}, "every must be a number greater than 0, got '1'."),
        ({"every": 0.0}, "every must be a number greater than 0, got 0.0."),
        ({"at": ["a"]}, "Times at must be real numbers, got text."),
        ({"at": [0.1, np.nan]}, "Times at must be numbers, got [0.1, nan]."),
        ({"when": 3}, "when must be a function of a State, got 3."),
    ],
)
def test_when_to_look_on_is_checked_at_once(options, told):
    with pytest.raises(ValueError, match=re.escape(told)):
        hkflow.observe(print, **options)


def test_times_lie_ahead():
    with pytest.raises(hkflow.CaseError, match="time.end"):
        hkflow.steps(problem(), -1.0)


@pytest.mark.parametrize("kind", ["grid", "particles", "characteristics"])
def test_an_observer_may_change_what_it_is_given(kind):
    """Particles and characteristics went on from there."""

    def changes(state):
        atoms = state.atoms()
        atoms.positions[:], atoms.weights[:] = [1.0, 0.0], 3.0
        for array in (state.predictions, state.density if kind == "grid" else np.zeros(1)):
            array[...] = 7.0

    x = np.array([[1.0, 0.2], [-0.4, 1.0], [0.3, -1.0]])
    objective = hkflow.Objective(hkflow.FEATURES["relu"], hkflow.RISKS["square"], x, [1, -1, 1])
    flow, mesh = hkflow.Flow(1.0, 2.0), hkflow.circle_mesh(16)
    one = hkflow.Problem(mesh, objective, flow, (1, -1))
    if kind == "particles":
        one = hkflow.Problem(None, objective, flow, (1, -1), one.atoms())
    wanted, found = (
        hkflow.solve(one, 0.5, kind=kind, observers=observers) for observers in ([], [changes])
    )
    for name, values in wanted.records.items():
        assert np.array_equal(values, found.records[name], equal_nan=True), name


def test_one_step_is_singular():
    problem = moment_problem(hkflow.circle_mesh(16))
    one = hkflow.solve(problem, 1e-3)
    assert one.status == "Completed at t = 0.001 after 1 step."
    assert "1 step, " in one._repr_html_()
    assert hkflow.solve(problem, 1.0).status.endswith(" steps.")
