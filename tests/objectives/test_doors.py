"""Doors of operators and objectives: every kind offers what is declared."""

import numpy as np
import pytest

import hkflow
from hkflow.objectives.protocol import ObjectiveProtocol, OnMovingPoints, OnPoints
from hkflow.operators.choice import TRANSFORMS, make_transform
from hkflow.operators.dense import RELU
from hkflow.operators.joint import JointTransform
from hkflow.operators.matrix import MatrixTransform
from hkflow.operators.operator import MovingOperator, Operator

POINTS, X = hkflow.quasi_uniform(500, 1), np.column_stack([np.linspace(-1, 1, 30), np.ones(30)])


def data(feature):
    return hkflow.Objective(hkflow.FEATURES[feature], hkflow.RISKS["square"], X, X[:, 0])


def population():
    return hkflow.PopulationRisk(hkflow.FEATURES["relu"], hkflow.quasi_uniform(3, 1), np.ones(3))


@pytest.mark.parametrize("name", TRANSFORMS)
def test_operators_of_every_name(name):
    assert isinstance(make_transform(name, POINTS, X, RELU), Operator)
    if name in ("auto", "dense", "sorted"):
        assert isinstance(make_transform(name, POINTS, X, RELU, moving=True), MovingOperator)


def test_sibling_an_operator_without_its_adjoint_is_none():
    matrix = MatrixTransform(np.ones((3, 2)))
    assert isinstance(matrix, Operator) and not isinstance(matrix, MovingOperator)
    moving = hkflow.FEATURES["joint-relu"].moving_transform(hkflow.quasi_uniform(8, 2), X)
    assert isinstance(moving, MovingOperator) and isinstance(moving, JointTransform)

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
    assert isinstance(objective.on(points), OnPoints)
    assert isinstance(objective.on_moving(points), OnMovingPoints)
