"""What a study asks of its members."""

import signal
import threading
from concurrent.futures import Future
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from hkflow.case.load import load_case
from hkflow.errors import CaseError
from hkflow.studies import members
from hkflow.studies.members import as_member

RINGS = "cases/quickstart/rings.toml"


@pytest.mark.parametrize(
    ("curves", "seconds"), [([], 0.0), (["objective", "own"], 0.0), (["objective", "margin"], 5.0)]
)
def test_max_margins_are_sought_where_they_are_drawn(curves, seconds):
    case = as_member(load_case(RINGS), curves).case
    assert (case.error.companions, case.certificate.seconds) == ("none", seconds)


def test_what_a_case_asks_for_stays():
    file = load_case(RINGS, {"certificate.seconds": 2.0, "error.companions": "own"})
    case = as_member(file, []).case
    assert (case.error.companions, case.certificate.seconds) == ("own", 2.0)
    assert load_case(RINGS).case.certificate.seconds == 5.0


def test_the_second_signal_kills_where_there_is_no_such_signal(monkeypatch):
    """As on Windows."""
    done = []
    child = SimpleNamespace(pid=7, kill=lambda: done.append("killed"))
    monkeypatch.delattr(signal, "SIGKILL")
    monkeypatch.setattr(members, "active_children", lambda: [child])
    monkeypatch.setattr(members.os, "kill", lambda pid, number: done.append((pid, number)))
    interrupt = members._Interrupt()
    for _ in range(2):
        interrupt._receive(signal.SIGINT, None)
    assert done == [(7, signal.SIGINT), "killed"]


def ended(monkeypatch, end):
    """What compute_all returns if the future of the only run ends so."""
    future = Future()
    end(future)
    executor = SimpleNamespace(submit=lambda *_: future)
    cluster = nullcontext((executor, 1, None))
    monkeypatch.setattr(members, "_executor", lambda *_: cluster)
    return members.compute_all({"run": None}, 1, 1, "tcp://here", lambda *_: None)[0]


def test_a_scheduler_that_is_lost_is_told_with_the_remedy(monkeypatch):
    """As Dask does it: it cancels what was submitted."""
    with pytest.raises(CaseError, match="tcp://here: it no longer answers. Start it and its"):
        ended(monkeypatch, lambda future: (future.cancel(), future.set_running_or_notify_cancel()))


def test_a_worker_that_cannot_compute_fails_its_run_alone(monkeypatch):
    """As one without hkflow, or where all that began a run were killed."""
    why = ModuleNotFoundError("No module named 'hkflow'")
    ((finished, status),) = ended(monkeypatch, lambda future: future.set_exception(why)).values()
    assert not finished
    assert status == f"Failed on its worker: ModuleNotFoundError: {why}"


def test_workers_of_a_cluster_hear_that_a_study_is_broken_off(monkeypatch):
    """That one alone: they go on to the next."""
    future, calls = Future(), []

    def submit(*call):
        calls.append(call)
        threading.Timer(3.0, lambda: future.done() or future.set_result((True, "late"))).start()
        signal.raise_signal(signal.SIGTERM)
        return future

    def break_off(study):
        members._break_off(study)
        future.set_result((False, members.Stopping(study).stop()))

    monkeypatch.setattr(members, "broken_off", set())
    cluster = nullcontext((SimpleNamespace(submit=submit), 1, break_off))
    monkeypatch.setattr(members, "_executor", lambda *_: cluster)
    outcomes, received = members.compute_all({"run": None}, 1, 1, "tcp://here", lambda *_: None)
    assert received == signal.SIGTERM and outcomes["run"] == (False, "Interrupted with its study")
    assert members.broken_off == {calls[0][-1]}
    assert members.Stopping("another").stop() is None
