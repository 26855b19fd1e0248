"""A small part of every attack, and siblings: what is broken on purpose is seen."""

import signal
import sys

import numpy as np
import pytest
from conftest import ROOT

import hkflow
from hkflow.case.load import toml_of
from hkflow.methods.method import Method

sys.path.insert(0, str(ROOT))
from attacks import endurance, files, fuzz, interruptions, numerics, shown, whole


def test_wrong_case_files_are_refused():
    assert fuzz.fuzz(100, first=10**6) == {}


def test_wrong_study_files_are_refused():
    assert fuzz.fuzz(300, first=10**6, one=fuzz.one_study) == {}


def test_cases_of_what_the_schema_offers_run_to_their_end():
    assert whole.campaign(4, first=10**6) == {}


def test_sibling_what_packing_changes_is_seen(tmp_path, monkeypatch):
    path = tmp_path / "case.toml"
    path.write_text(files.CASE)
    (tmp_path / "data.csv").write_text(files.ROWS)
    resolved, problem = hkflow.check(path)
    assert fuzz.changed(path, resolved, problem) is None
    monkeypatch.setattr(
        fuzz, "toml_of", lambda case: toml_of(case).replace("saves = 4", "saves = 3")
    )
    assert "another case" in fuzz.changed(path, resolved, problem)
    monkeypatch.undo()
    honest = hkflow.load
    monkeypatch.setattr(fuzz.hkflow, "load", lambda place: shifted(honest(place)))
    assert "another run" in fuzz.changed(path, resolved, problem)


def shifted(run):
    """A run with one record changed."""
    run.records["mass"] = run.records["mass"] * (1.0 + 1e-15)
    return run


def test_sibling_numbers_of_another_file_are_seen(tmp_path, monkeypatch):
    def leaky(path):
        run = honest(path)
        run.weights[:] = files.SECRET
        return run

    run, honest = files.make_run(tmp_path), hkflow.load
    monkeypatch.setattr(files.hkflow, "load", leaky)
    assert any(
        "another file" in (files.hostile_run(tmp_path, run, seed) or "") for seed in range(10)
    )


def test_sibling_a_traceback_and_a_mute_message_are_seen(monkeypatch):
    def broken(path):
        raise KeyError("cells")

    monkeypatch.setattr(hkflow, "check", broken)
    assert all(fault.startswith("KeyError") for fault in fuzz.fuzz(20).values())

    def mute(path):
        raise hkflow.CaseError("something is wrong.")

    monkeypatch.setattr(hkflow, "check", mute)
    assert len(fuzz.fuzz(20)) > 15


@pytest.mark.parametrize("kind, tries", [("csv", 200), ("run", 25), ("hostile", 20)])
def test_wrong_files_are_refused(kind, tries, tmp_path):
    assert files.campaign(kind, tmp_path, tries, first=10**6) == {}


@pytest.mark.filterwarnings("ignore")  # numbers run out there, as they are meant to
def test_hostile_numbers(monkeypatch):
    monkeypatch.setattr(numerics.Few, "STEPS", 100)
    ends, wrong = numerics.campaign(60, first=10**6)
    assert wrong == {} and ends["completed"] > 20


def test_what_is_shown_of_hostile_runs(tmp_path):
    assert shown.campaign(3, first=10**6 + 1) == {}


def small():
    """A run of two data on eight cells."""
    return hkflow.solve(
        hkflow.Problem(
            hkflow.circle_mesh(8),
            hkflow.Objective(
                hkflow.FEATURES["relu"], hkflow.RISKS["square"], np.eye(2), np.ones(2)
            ),
            hkflow.Flow(1.0, 1.0),
        ),
        0.1,
    )


def test_sibling_what_cannot_be_shown_is_seen(monkeypatch, tmp_path):
    monkeypatch.setattr(numerics, "solved", lambda seed: ("small", small(), None))
    monkeypatch.setattr(shown, "views", lambda run, folder: [("a view", lambda: 1 / 0)])
    assert shown.one(0, tmp_path) == ("small", "a view: ZeroDivisionError: division by zero")
    warned = [("a view", lambda: np.float64(1.0) / 0.0)]
    monkeypatch.setattr(shown, "views", lambda run, folder: warned)
    assert "RuntimeWarning: divide by zero" in shown.one(0, tmp_path)[1]


def test_sibling_a_rising_objective_is_seen():
    solution = small()
    assert numerics.faults(solution) is None
    solution.records["objective"][-1] *= 2.0
    assert "rose" in numerics.faults(solution)


def test_sibling_a_clock_that_stops_where_the_unit_changes_is_seen(monkeypatch):
    monkeypatch.setattr(Method, "unit", 1.0)
    risk, flow = hkflow.RISKS["smooth-margin"], hkflow.Flow(1.0, 2.0, time_variable="margin")
    objective = hkflow.Objective(hkflow.FEATURES["relu"], risk, np.eye(2), [1.0, -1.0])
    problem = hkflow.Problem(hkflow.circle_mesh(8), objective, flow, (1, -1))
    solution = hkflow.solve(problem, 1e24, kind="characteristics")
    assert not solution.finished
    assert numerics.stopped(solution, 0.0) == f"stopped: {solution.status}"


def test_a_long_run_keeps_its_size():
    *_, fault = endurance.endure(2000)
    assert fault is None


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return interruptions.prepare(tmp_path_factory.mktemp("attacks"), end=2.0, companions="none")


@pytest.mark.parametrize(
    "number, times", [(signal.SIGKILL, 2), (signal.SIGTERM, 1)], ids=["SIGKILL", "SIGTERM"]
)
def test_a_run_that_is_broken_off(number, times, place):
    assert interruptions.broken_off(place, 3, number, times) is None


@pytest.mark.parametrize(
    "name", [n for n in interruptions.ATTACKS if "resumes" not in n and "study" not in n]
)
def test_interruptions(name, place, request):
    if not name.startswith("two processes"):  # which are to run at the same time
        request.getfixturevalue("one_core")
    assert interruptions.ATTACKS[name](place, 3) is None


@pytest.mark.usefixtures("one_core")
def test_sibling_a_run_that_differs_is_seen(place, tmp_path):
    (tmp_path / "whole").symlink_to(place / "whole")
    changed = interruptions.prepare(tmp_path, end=0.2, companions="none")
    assert "differs" in interruptions.broken_off(changed, 0, signal.SIGKILL, times=0)
