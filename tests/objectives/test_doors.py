"""Doors of operators and objectives: every kind offers what is declared."""

import numpy as np
import pytest

import hkflow
from hkflow.objectives.protocol import AtFixedPoints, AtMovingPoints, ObjectiveProtocol
from hkflow.operators.choice import OPERATORS, make_operator
from hkflow.operators.dense import RELU
from hkflow.operators.joint import JointOperator
from hkflow.operators.matrix import MatrixOperator
from hkflow.operators.operator import MovingOperator, Operator

POINTS, X = hkflow.quasi_uniform(500, 1), np.column_stack([np.linspace(-1, 1, 30), np.ones(30)])


def data(feature):
    return hkflow.Objective(hkflow.FEATURES[feature], hkflow.RISKS["square"], X, X[:, 0])


def population():
    return hkflow.PopulationRisk(hkflow.FEATURES["relu"], hkflow.quasi_uniform(3, 1), np.ones(3))


@pytest.mark.parametrize("name", [name for name in OPERATORS if name != "harmonics"])
def test_operators_of_every_name(name):
    assert isinstance(make_operator(name, POINTS, X, RELU), Operator)
    if name in ("auto", "dense", "sorted"):
        assert isinstance(make_operator(name, POINTS, X, RELU, moving=True), MovingOperator)


def test_sibling_an_operator_without_its_adjoint_is_none():
    matrix = MatrixOperator(np.ones((3, 2)))
    assert isinstance(matrix, Operator) and not isinstance(matrix, MovingOperator)
    moving = hkflow.FEATURES["joint-relu"].moving_operator(hkflow.quasi_uniform(8, 2), X)
    assert isinstance(moving, MovingOperator) and isinstance(moving, JointOperator)

    class Half:
        def forward(self, weights, out):
            out[:] = 0.0

    assert not isinstance(Half(), Operator)


@pytest.mark.parametrize(
    "objective",
    [data("relu"), data("joint-relu"), population()],
    ids=["relu", "joint-relu", "population"],
)
def test_objectives(objective):
    assert isinstance(objective, ObjectiveProtocol)
    points = hkflow.quasi_uniform(500, objective.axes - 1)
    assert isinstance(objective.at_fixed_points(points), AtFixedPoints)
    assert isinstance(objective.at_moving_points(points), AtMovingPoints)
