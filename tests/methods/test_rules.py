"""Rules that both doors ask: what case files refuse, Python refuses with the same words."""

import numpy as np
import pytest
from pydantic import ValidationError

import hkflow
from hkflow.case.schema.methods import GridMethod, NetworkMethod
from hkflow.methods import rules
from hkflow.methods.grid.steppers.choice import STEPPERS
from hkflow.methods.network import network

GRID = [
    ({"stepper": "ssprk3", "cfl": 0.6}, "positivity with 'ssprk3' and 'mc' needs at most 0.5"),
    ({"stepper": "muscl-hancock", "cfl": 0.95}, None),
    ({"stepper": "ssprk2", "cfl": 0.95, "limiter": "first-order"}, None),
    ({"reconstruction": "quadratic", "stepper": "ssprk3"}, "which the stepper 'ssprk3' does not"),
    (
        {"reconstruction": "quadratic", "limiter": "koren"},
        "no slopes to limit, got limiter 'koren'",
    ),
    ({"stepper": "euler"}, "'euler' takes fixed steps"),
]
DESCENT = {"training": "gradient-descent"}
PROVED = DESCENT | {"schedule": "proposition"}
NETWORK = [
    ({"step": 0.1}, "descent alone reads 'step'; leave it out"),
    ({"schedule": "inverse-sqrt"}, "descent alone reads 'schedule'"),
    (DESCENT | {"batch": 7}, "training = 'sgd' alone reads 'batch'"),
    (DESCENT | {"tolerance": 1e-3, "max_step": 0.1}, "reads 'tolerance', 'max_step'"),
    (DESCENT | {"step": 0.1, "schedule": "inverse-sqrt"}, None),
    (PROVED | {"layers": "both"}, "of layers 'radii' or 'output', got 'gradient-descent' of"),
    (PROVED | {"layers": "radii", "training": "sgd"}, "got 'sgd' of layers 'radii'"),
    (PROVED | {"layers": "radii", "step": 0.1}, "the other schedules alone read 'step'"),
]


def grid(**options):
    rng = np.random.default_rng(1)
    objective = hkflow.Objective(
        hkflow.FEATURES["relu"], hkflow.RISKS["square"], rng.normal(size=(4, 2)), np.ones(4)
    )
    problem = hkflow.Problem(hkflow.circle_mesh(12), objective, hkflow.Flow(1.0, 2.0), (1, -1))
    return hkflow.FiniteVolume(problem, **options)


def a_network(**options):
    rng = np.random.default_rng(1)
    objective = hkflow.Objective(
        hkflow.FEATURES["relu"], hkflow.RISKS["square"], rng.normal(size=(4, 2)), np.ones(4)
    )
    layers = options.get("layers", "both")
    start = hkflow.PointMeasure(hkflow.quasi_uniform(6, 1), np.tile([1.0, -1.0], 3))
    flow = network.network_flow(layers, 1)
    return hkflow.Network(hkflow.Problem(None, objective, flow, (1, -1), start), **options)


@pytest.mark.parametrize(
    ("table", "method", "options", "message"),
    [(GridMethod, grid, *row) for row in GRID]
    + [(NetworkMethod, a_network, *row) for row in NETWORK],
)
def test_case_files_and_python_refuse_the_same(table, method, options, message):
    kind = {"kind": table.model_fields["kind"].annotation.__args__[0]}
    if message is None:
        table.model_validate(kind | options)
        method(**options)
        return
    with pytest.raises(ValidationError) as by_case:
        table.model_validate(kind | options)
    with pytest.raises(ValueError) as by_python:
        method(**options)
    (fault,) = by_case.value.errors()
    assert message in str(by_python.value)
    assert str(fault["ctx"]["error"]) == str(by_python.value)


def test_steps_of_every_stepper_stay_below_the_largest_courant_number():
    for name in STEPPERS:
        made = grid(stepper=name, max_step=0.01).stepper
        assert made.cfl <= made.largest_cfl == rules.largest_courant_number(name, "mc")


def test_sibling_a_rule_that_is_not_asked_is_seen(monkeypatch):
    monkeypatch.setattr(network, "check_descent", lambda *_: None)
    options, message = NETWORK[0]
    with pytest.raises(pytest.fail.Exception):
        test_case_files_and_python_refuse_the_same(NetworkMethod, a_network, options, message)
