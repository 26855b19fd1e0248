"""The memory that a run needs is known before it begins."""

from types import SimpleNamespace

import psutil
import pytest

import hkflow
from hkflow.case.memory import estimated_memory

OWN = "cases/own/tanh.toml"


def estimated(**tables):
    case, problem = hkflow.check(OWN, domain={"cells": 4096}, data={"n": 3000}, **tables)
    return estimated_memory(case, problem.objective)


def test_a_stored_matrix_is_counted():
    by_harmonics, by_matrix = estimated(), estimated(objective={"operator": "dense"})
    assert by_matrix - by_harmonics > 0.9 * 8 * 4096 * 3000


def test_a_matrix_that_has_no_room_is_refused(monkeypatch):
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=250e6))
    assert estimated() < 250e6
    with pytest.raises(hkflow.CaseError, match="the run needs about 0.3 GB .* or data"):
        estimated(objective={"operator": "dense"})
