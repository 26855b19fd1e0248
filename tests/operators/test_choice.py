import re

import numpy as np
import pytest

import hkflow
from hkflow.operators.choice import cheapest, make_operator
from hkflow.operators.dense import LINEAR, RELU, DenseOperator
from hkflow.operators.moving_tree import MovingTreeOperator
from hkflow.operators.sorted import SortedOperator
from hkflow.operators.tree import TreeOperator


def test_the_cheapest_is_dense_for_few_and_fast_for_many():
    assert (
        cheapest(642, 40, 3, RELU, False) == "dense"
        and cheapest(163842, 4096, 3, RELU, False) == "tree"
    )
    assert (
        cheapest(10, 10**6, 5, RELU, True) == "dense"
        and cheapest(10**5, 1000, 3, LINEAR, True) == "dense"
    )
    assert (
        cheapest(64, 10, 2, RELU, False) == "dense"
        and cheapest(10**6, 10**5, 2, RELU, True) == "sorted"
    )
    assert (
        cheapest(10**5, 1000, 3, LINEAR, False) == "tree"
        and cheapest(10**5, 3, 3, LINEAR, False) == "dense"
    )
    # on S³, measured: 0.89 of the dense sums at 6480 points, 0.62 and 0.50 at 51,360
    assert cheapest(6480, 4000, 4, RELU, False) == "dense"
    assert (
        cheapest(51_360, 1000, 4, RELU, False) == cheapest(51_360, 4000, 4, RELU, False) == "tree"
    )
    # points that move, measured on one core: 0.44 and 0.87 of the dense sums for 1000 data at
    # 100,000 points on S² and S³, 0.65 and 1.23 at 20,000; 1.69 for 150 data
    assert cheapest(10**5, 1000, 3, RELU, True) == cheapest(10**5, 1000, 4, RELU, True) == "tree"
    assert cheapest(20_000, 1000, 3, RELU, True) == "tree"
    assert cheapest(20_000, 1000, 4, RELU, True) == "dense"
    assert cheapest(10**5, 150, 3, RELU, True) == cheapest(642, 1000, 3, RELU, True) == "dense"
    # in many dimensions every circle cuts every cap
    assert cheapest(10**5, 10**4, 10, RELU, False) == "dense"


@pytest.mark.parametrize(
    ("name", "kind", "p"),
    [("dense", DenseOperator, 3), ("tree", TreeOperator, 3), ("sorted", SortedOperator, 2)],
)
def test_a_name_forces_a_transform(name, kind, p):
    assert isinstance(make_operator(name, np.eye(p), np.eye(p), RELU), kind)
    moving = MovingTreeOperator if name == "tree" else kind
    assert isinstance(make_operator(name, np.eye(p), np.eye(p), RELU, moving=True), moving)


def test_what_cannot_be_made_is_refused():
    with pytest.raises(ValueError, match="Unknown operator 'fast'"):
        make_operator("fast", np.eye(3), np.eye(3), RELU)
    with pytest.raises(ValueError, match="stay where they are"):
        make_operator("dense-single", np.eye(3), np.eye(3), RELU, moving=True)
    with pytest.raises(ValueError, match="has no operator 'tree'"):
        hkflow.FEATURES["joint-relu"].operator(np.eye(3), np.eye(2), "tree")


@pytest.mark.parametrize("activation", [LINEAR, RELU])
@pytest.mark.parametrize("p", [2, 3])
@pytest.mark.parametrize(
    "name, moving", [("dense-single", True), ("sorted", True), ("sorted", False)]
)
def test_what_a_refusal_offers_can_be_made(name, activation, p, moving):
    points = np.eye(p)
    try:
        make_operator(name, points, points, activation, moving)
    except ValueError as error:
        for other in re.findall(r"'([\w-]+)'", str(error).partition("Take")[2]):
            make_operator(other, points, points, activation, moving)


def test_a_case_forces_a_transform(tmp_path):
    with pytest.raises(hkflow.CaseError, match="sorted operator is for"):
        hkflow.run(
            "cases/quickstart/iris.toml",
            output=tmp_path / "a",
            objective={"operator": "sorted"},
            domain={"cells": 162},
        )
    run = hkflow.run(
        "cases/quickstart/iris.toml",
        output=tmp_path / "b",
        objective={"operator": "tree"},
        domain={"cells": 162},
        time={"end": 0.1},
    )
    assert run.finished and run.case.objective.operator == "tree"


def test_a_run_in_single_precision_agrees_to_its_rounding(rng):
    """Its energy may rise by its rounding, which the guard knows; the same steps, but for their
    sizes in the seventh digit."""
    inputs = np.column_stack([rng.normal(size=(60, 2)), np.ones(60)])
    found = {}
    for name in ("dense", "dense-single"):
        objective = hkflow.Objective(
            hkflow.FEATURES["relu"],
            hkflow.RISKS["square"],
            inputs,
            np.sign(inputs[:, 0] * inputs[:, 1]),
            operator=name,
        )
        problem = hkflow.Problem(
            hkflow.geodesic_mesh(3), objective, hkflow.Flow(1.0, 2.0), signs=(1, -1)
        )
        found[name] = hkflow.solve(problem, 3.0, stepper="ssprk3")
    one, two = (solution.density[-1] for solution in found.values())
    assert all(solution.finished for solution in found.values())
    assert 1e-9 < np.abs(one - two).max() / one.max() < 1e-4
