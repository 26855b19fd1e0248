"""What a study asks of its members."""

import signal
from types import SimpleNamespace

import pytest

from hkflow.case.load import load_case
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
