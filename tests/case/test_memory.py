"""The memory that a run needs is known before it begins."""

from types import SimpleNamespace

import numpy as np
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


def test_noise_that_has_no_room_is_told_what_makes_it_less():
    """Fewer cells, particles, units or data were advised, which changed nothing."""
    case = "cases/moroshko/path.toml"
    with pytest.raises(hkflow.CaseError, match=r"adds about 2e\+10 particles: .*noise_interval"):
        hkflow.check(case, flow={"noise": 0.1})
    tables = {"kind": "particles", "particles": 200}
    case, flow = "cases/icm/fig2.toml", {"noise": 0.1}
    with pytest.raises(hkflow.CaseError, match="take method.noise = 'random'"):
        hkflow.check(case, method=tables, flow=flow, time={"end": 1e5})
    assert hkflow.check(case, method=tables | {"noise": "random"}, flow=flow, time={"end": 1e5})


def test_noise_is_not_blamed_for_what_has_no_room_without_it(monkeypatch):
    """That its particles are more than the first ones was enough."""
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=10**6))
    tables = {"kind": "particles", "particles": 10}
    with pytest.raises(hkflow.CaseError, match="Use fewer cells, particles, units or data"):
        hkflow.check("cases/icm/fig2.toml", method=tables, flow={"noise": 0.1})


def test_equal_rows_are_stored_once():
    """All 3000 were counted, of which the sums hold ten."""
    case, _ = hkflow.check(OWN, domain={"cells": 4096})
    feature = hkflow.Feature("wave", lambda points, inputs: np.cos(3.0 * inputs @ points.T), 0)
    inputs = np.random.default_rng(0).normal(size=(10, 2))

    def needed(rows, operator="auto"):
        risk, targets = hkflow.RISKS["square"], np.zeros(len(rows))
        objective = hkflow.Objective(feature, risk, rows, targets, operator=operator)
        return estimated_memory(case, objective)

    many, all_rows = np.tile(inputs, (300, 1)), 8 * 4096 * 3000
    assert needed(many) - needed(inputs) < 0.2 * all_rows
    assert needed(many, "dense") - needed(inputs) > all_rows


@pytest.mark.parametrize(
    ("n", "columns", "outputs", "measured"),
    [(900_000, 15, 1, 1.76e9), (1_000_000, 3, 1, 1.01e9), (80_000, 15, 5, 0.6e9)],
)
def test_many_data_are_counted(n, columns, outputs, measured):
    """Against the most that runs of 1000 particles took of tables with so many rows."""
    objective = SimpleNamespace(
        inputs=np.broadcast_to(0.0, (n, columns)),
        axes=columns + (outputs if outputs > 1 else 0),
        feature=SimpleNamespace(outputs=outputs),
    )
    tables = {
        "data": {"source": "teacher", "n": 10, "dim": 2},
        "objective": {"bias": True, "loss": "square"},
        "domain": {"kind": "signed-sphere"},
        "method": {"kind": "particles", "particles": 1000},
        "flow": {"kind": "hellinger-kantorovich"},
        "time": {"end": 1.0},
    }
    case, _ = hkflow.check(tables)
    assert estimated_memory(case, objective) == pytest.approx(measured, rel=0.2)
