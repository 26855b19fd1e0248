"""However a run ends, the state in which it does is kept, and a resumed run has the bits of one
that went on."""

import os
import signal

import numpy as np
import pytest
from test_run_folder import CASE, LAGRANGIAN, content

import hkflow
from hkflow.certificates.certificate import MarginCertifier
from hkflow.methods.choice import make_method
from hkflow.methods.grid.finite_volume import FiniteVolume
from hkflow.methods.particles.ode import OdeMethod
from hkflow.running.error_bars import keep
from hkflow.solving.observer import Observer
from hkflow.solving.records import take_record
from hkflow.solving.solution import Memory
from hkflow.solving.solve import integrate
from hkflow.store import run_folder, run_writer

HOOKS = ("record", "save", "step", "stop")
SAVES = np.linspace(0.0, 0.6, 4)


class Ending(Observer):
    """Ends a run at a step, or at the first save after the start: with a sentence, or an exception
    at one of its hooks."""

    def __init__(self, step=None, raises=None):
        self.wanted, self.raises, self.here = step, raises, False

    def at(self, hook, method, clock):
        self.here = clock.step == self.wanted if self.wanted else clock.time == SAVES[1]
        if self.here and self.raises == hook:
            raise OverflowError("no more")

    def record(self, method, clock, record):
        self.at("record", method, clock)

    def save(self, method, clock):
        self.at("save", method, clock)

    def step(self, method, clock):
        self.at("step", method, clock)
        self.state = method.state()

    def stop(self):
        if self.here and self.raises == "stop":
            raise OverflowError("no more")
        return "Seen enough" if self.here and self.raises is None else None


def a_problem(loss="logistic"):
    objective = hkflow.Objective(
        hkflow.FEATURES["relu"],
        hkflow.RISKS[loss],
        [[0.5, 1.0], [-1.0, 1.0], [0.2, 1.0]],
        [1.0, -1.0, -1.0],
    )
    return hkflow.Problem(hkflow.circle_mesh(16), objective, hkflow.Flow(1.0, 2.0), (1, -1))


@pytest.fixture(params=["grid", "particles", "particles, random noise", "sgd"])
def case(request, tmp_path):
    """A case of each method, with records rarer than steps; descent ends where its bunches of 50
    steps do."""
    text = (
        CASE
        if request.param == "grid"
        else CASE.replace("max_step = 0.05", LAGRANGIAN[request.param])
    )
    text = text.replace("saves = 4", "saves = 4\nrecords = 0.11")
    text = text if request.param == "grid" else text.replace("cells = 24\n", "")
    text = (
        text
        if request.param != "sgd"
        else text.replace('[flow]\nkind = "perturbed"\nnoise = 0.1\n', "")
    )
    path = tmp_path / "case.toml"
    path.write_text(text)
    return path, 100 if request.param == "sgd" else 3


@pytest.fixture
def whole(case, tmp_path):
    hkflow.run(case[0], output=tmp_path / "whole")
    return content(tmp_path / "whole")


@pytest.mark.parametrize("interval", [10.0, np.inf])
def test_a_solution_keeps_the_state_in_which_an_observer_stopped_it(interval):
    """With its record, also where records are those of saves alone."""
    ending = Ending(step=3)
    s = hkflow.solve(a_problem(), 1.0, observers=[ending], record_interval=interval)
    assert not s.finished and s.status.startswith("Seen enough at t = ")
    assert (
        len(s.time) == 2
        and 0.0 < s.time[-1] < 1.0
        and np.array_equal(s.state_at(-1)["density"], ending.state["density"])
    )
    assert s.records["step"].tolist() == [0, 3] and s.records["time"][-1] == s.time[-1]


def test_a_solution_keeps_the_state_in_which_a_guard_stopped_it(monkeypatch):
    monkeypatch.setattr(
        FiniteVolume,
        "invalid_reason",
        lambda self: "too late" if self.current.mass > 1.01 else None,
    )
    s = hkflow.solve(a_problem(), 5.0)
    assert s.status.startswith("Stopped at t = ") and "too late" in s.status
    assert len(s.time) == 2 and s.time[-1] == s.records["time"][-1] > 0.0


def test_a_solution_keeps_the_state_whose_margin_is_wanted_from_the_start():
    s = hkflow.solve(a_problem("smooth-margin"), 1.0, saves=[0.5], until_margin=-1.0)
    assert s.finished and s.time.tolist() == [0.0] and s.density.shape == (1, 2, 16)


@pytest.mark.parametrize("hook", HOOKS)
def test_an_exception_carries_what_was_computed(hook):
    ending = Ending(step=4 if hook != "save" else None, raises=hook)
    with pytest.raises(OverflowError, match="no more") as raised:
        hkflow.solve(a_problem(), 1.0, saves=[0.0, SAVES[1], 1.0], observers=[ending])
    s = raised.value.solution
    steps = list(range(len(s.records["step"])))
    assert (
        s.status.startswith("Broken off at t = ")
        and f"after {steps[-1]} steps: OverflowError: no more." in s.status
    )
    assert s.records["step"].tolist() == steps and s.records["time"][-1] == s.time[-1]
    assert s.time.tolist() == [0.0, SAVES[1], s.time[-1]][: 2 if hook == "save" else 3]


def test_ctrl_c_carries_what_was_computed():
    class Press(Ending):
        def step(self, method, clock):
            super().step(method, clock)
            if self.here:
                os.kill(os.getpid(), signal.SIGINT)

        def stop(self):
            return None

    # a shell starts what it sends to the background deaf to Ctrl-C
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt) as raised:
            hkflow.solve(a_problem(), 1.0, observers=[Press(step=3)])
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    s = raised.value.solution
    assert (
        s.status.startswith("Interrupted by SIGINT at t = ")
        and s.records["step"][-1] == 3
        and len(s.time) == 2
    )


@pytest.mark.parametrize("on_save", [False, True], ids=["between-saves", "at-a-save"])
def test_a_stopped_run_shows_its_end_and_resumes_to_the_same_bits(case, whole, tmp_path, on_save):
    ending = Ending(step=None if on_save else case[1])
    run = hkflow.run(case[0], output=tmp_path / "run", observers=[ending])
    assert not run.finished and run.status.startswith("Seen enough at t = ")
    assert (
        run.records["time"][-1] == run.time[-1]
        and len(run.time) == np.sum(run.time[-1] > SAVES) + 1
    )
    state = run.state_at(-1)
    for name, value in ending.state.items():
        if name in state:
            assert np.array_equal(state[name], value), name
    packed = hkflow.load(tmp_path / "run" / "results.h5")
    assert np.array_equal(packed.time, run.time) and len(packed.records["time"]) == len(
        run.records["time"]
    )
    assert len(hkflow.load(tmp_path / "run").time) == len(run.time)
    hkflow.resume(tmp_path / "run")
    assert content(tmp_path / "run") == whole


KEPT = {"grid": {}, "particles": {"kind": "particles", "particles": 10, "noise_points": 6}}


@pytest.mark.parametrize("method", KEPT)
def test_a_mass_that_is_kept_is_that_of_a_start_which_no_save_has(tmp_path, method):
    """The problem of the folder begins with the first save, whose mass is another one by rounding,
    or by the steps."""
    (tmp_path / "case.toml").write_text(CASE)
    late = {
        "flow": {"kind": "spherical-hellinger", "noise": 0.3},
        "domain.cells": 24 if method == "grid" else None,
        "method": KEPT[method],
        "initial": {"kind": "uniform", "mass": 1.7},
        "time": {"end": 0.6, "saves": [0.1, 0.3], "records": 0.05},
    }
    hkflow.run(tmp_path / "case.toml", tmp_path / "whole", **late)
    ending = Ending(step=5)
    run = hkflow.run(tmp_path / "case.toml", tmp_path / "run", observers=[ending], **late)
    assert not run.finished and run.time[0] > 0.0
    hkflow.resume(tmp_path / "run")
    assert content(tmp_path / "run") == content(tmp_path / "whole")


def test_a_mass_that_blows_up_has_grown_from_that_of_the_start(tmp_path):
    objective = hkflow.Sum(hkflow.Interaction("1 + 0*t", strength=-1.0), axes=2)
    problem = hkflow.Problem(hkflow.circle_mesh(16), objective, hkflow.Flow(0.0, 1.0))
    ending = Ending(step=60)
    run = hkflow.run(problem, tmp_path / "run", observers=[ending], end=2.0, saves=[0.5])
    assert not run.finished and run.mass[0] > 1.5
    run = hkflow.resume(tmp_path / "run")
    assert "the mass has grown from 1 to " in run.status


@pytest.mark.parametrize("on_save", [False, True], ids=["between-saves", "at-a-save"])
@pytest.mark.parametrize("hook", HOOKS)
def test_an_exception_leaves_a_folder_that_resumes_to_the_same_bits(
    case, whole, tmp_path, hook, on_save
):
    if hook == "save" and not on_save:
        pytest.skip("nothing is saved there")
    if hook == "record":  # at every step
        case[0].write_text(case[0].read_text().replace("records = 0.11", "records = 0.0"))
        hkflow.run(case[0], output=tmp_path / "another")
        whole = content(tmp_path / "another")
    ending = Ending(step=None if on_save else case[1], raises=hook)
    with pytest.raises(OverflowError, match="no more"):
        hkflow.run(case[0], output=tmp_path / "run", observers=[ending])
    cut = hkflow.load(tmp_path / "run")
    assert not cut.finished and "hkflow resume" in cut.status
    assert cut.time[-1] == SAVES[1] if on_save else 0.0 < cut.time[-1] != SAVES[1]
    assert not list((tmp_path / "run").glob("**/.*.tmp"))
    hkflow.resume(tmp_path / "run")
    assert content(tmp_path / "run") == whole


@pytest.mark.parametrize("checkpoints", [False, True])
def test_a_guarded_run_shows_its_end_and_resumes_to_the_same_bits(
    case, whole, tmp_path, monkeypatch, checkpoints
):
    with pytest.MonkeyPatch.context() as patch:
        for method in (FiniteVolume, OdeMethod):
            honest = method.invalid_reason
            patch.setattr(
                method,
                "invalid_reason",
                lambda self, honest=honest: "tired" if self.taken > case[1] else honest(self),
            )
            patch.setattr(method, "taken", 0, raising=False)

        class Count(Observer):
            def step(self, method, clock):
                method.taken = clock.step

        if checkpoints:
            patch.setattr(run_writer, "CHECKPOINT_SECONDS", 0.0)
        patch.setattr("hkflow.solving.loop.MAX_REJECTIONS", 3)
        run = hkflow.run(case[0], output=tmp_path / "run", observers=[Count()])
        # without a step: it stops where it was
        again = hkflow.resume(tmp_path / "run", observers=[Count()])
    assert not run.finished and run.status.startswith("Stopped at t = ") and "tired" in run.status
    assert run.time[-1] == run.records["time"][-1] > 0.0 and np.all(
        np.diff(run.records["step"]) > 0
    )
    assert again.records["step"].tolist() != [] and np.all(np.diff(again.records["step"]) > 0)
    hkflow.resume(tmp_path / "run")
    folder, wanted = content(tmp_path / "run"), whole
    for _, clock, *_ in (*folder[0].values(), *wanted[0].values()):
        clock.pop("last_rejection")
    assert folder == wanted


def test_a_record_changes_neither_method_nor_clock():
    method = make_method(a_problem(), tolerance=1e-3)
    memory = Memory()
    clock, _, _ = integrate(method, [0.5, 1.0], (memory,))
    clock.margin_lower = clock.margin_upper = 0.0
    before, state = (
        clock.as_dict(),
        {name: np.copy(value) for name, value in method.state().items()},
    )
    take_record(method, clock, MarginCertifier.of(method.problem), renew=True)
    assert clock.as_dict() == before
    assert all(np.array_equal(value, state[name]) for name, value in method.state().items())


def test_a_full_disk_is_told_once_and_what_was_saved_stays(tmp_path, monkeypatch):
    """Where writing fails in an observer's call, the calls at the end may fail as well: the first
    error is the one that is told."""
    path = tmp_path / "case.toml"
    path.write_text(CASE)
    honest, calls = os.write, []

    def full(handle, data):
        calls.append(len(data))
        if len(calls) > 2:
            if len(calls) == 3:
                honest(handle, bytes(data)[: len(data) // 2])
            raise OSError(28, "No space left on device")
        return honest(handle, data)

    monkeypatch.setattr(run_writer, "FLUSH_SECONDS", 0.0)
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(hkflow.RunFolderError, match="No space left.*make room"):
        hkflow.run(path, output=tmp_path / "run")
    monkeypatch.undo()
    hkflow.resume(tmp_path / "run")
    hkflow.run(path, output=tmp_path / "whole")
    assert content(tmp_path / "run") == content(tmp_path / "whole")


def test_what_an_observer_cannot_open_is_not_the_run_folder(tmp_path):
    """It had been called a disk that is full."""
    (tmp_path / "case.toml").write_text(CASE)

    def look(state):
        (tmp_path / "none").read_text()

    with pytest.raises(FileNotFoundError):
        hkflow.run(tmp_path / "case.toml", tmp_path / "run", observers=[look])


def test_a_resumed_run_takes_back_what_an_earlier_session_said_of_its_end(tmp_path):
    """Its status, results and error bars are those of a part; those who look on, or a kill, would
    leave them beside newer saves."""
    seen = []

    def look(state):
        seen.append([name for name in run_folder.OF_THE_END if (run.path / name).exists()])

    (tmp_path / "small.toml").write_text(CASE)
    run = hkflow.run(tmp_path / "small.toml", tmp_path / "run", observers=[Ending(step=3)])
    keep(run, hkflow.error_bars(run, "own"))
    look(None)
    hkflow.resume(run.path, observers=[look])
    assert seen[0] == ["status.json", "results.h5", "errors.h5"] and not any(seen[1:])
    assert hkflow.load(run.path).finished and (run.path / "results.h5").exists()


@pytest.mark.parametrize("wanted", [3.0, 50.0, 700.0])
def test_a_run_until_a_margin_ends_there_to_a_thousandth(wanted):
    s = hkflow.solve(a_problem("smooth-margin"), 1e6, until_margin=wanted)
    assert s.finished and wanted <= -s.records["objective"][-1] <= 1.001 * wanted


def test_a_run_that_has_reached_its_end_is_resumed_as_it_is(tmp_path):
    """All that was added to it was computed again; error bars that were asked for later were
    lost."""
    (tmp_path / "small.toml").write_text(CASE)
    run = hkflow.run(tmp_path / "small.toml", tmp_path / "run", **{"error.companions": "none"})
    keep(run, hkflow.error_bars(run, "own"))
    before = {path: path.stat().st_mtime_ns for path in run.path.glob("*.*")}
    assert hkflow.resume(run.path).errors is not None
    assert {path: path.stat().st_mtime_ns for path in before} == before
    (run.path / "results.h5").unlink()
    hkflow.resume(run.path)
    assert (run.path / "results.h5").exists()
