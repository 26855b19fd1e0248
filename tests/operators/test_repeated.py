"""Data of which many have the same inputs: sums over the different ones, in all methods."""

import numpy as np
import pytest

import hkflow
from hkflow.methods.choice import make_method
from hkflow.operators.dense import unblocked
from hkflow.operators.repeated import FEW, RepeatedOperator

FEATURES = {
    **{name: hkflow.FEATURES[name] for name in ("relu", "squared-relu", "absolute-value")},
    "joint": hkflow.FEATURES["joint-relu"],
    "three outputs": hkflow.vector_feature("relu", 3),
    "tanh": hkflow.ridge(lambda s: (np.tanh(s), 1.0 / np.cosh(s) ** 2)),
}


def objective(feature, n=1000, operator="auto", inputs=None):
    """n data of 8 different inputs, in any order."""
    rng = np.random.default_rng(0)
    if inputs is None:
        inputs = rng.choice(rng.normal(size=(8, 3)), n)
    targets = rng.integers(0, 3, n) if feature.outputs > 1 else rng.choice([-1.0, 1.0], n)
    risk = hkflow.SOFTMAX if feature.outputs > 1 else hkflow.RISKS["logistic"]
    return hkflow.Objective(feature, risk, inputs, targets, operator=operator)


def sums(made, weights):
    """h, J and, where points move, G."""
    made.evaluate(weights)
    found = [made.predictions]
    if hasattr(made, "slopes"):
        n = len(made.slopes)
        return [*found, made.slopes, unblocked(made.gradient, n)]
    return [*found, made.potential]


@pytest.mark.parametrize("feature", FEATURES.values(), ids=FEATURES)
@pytest.mark.parametrize("moving", [False, True])
def test_sums_are_those_over_all_data(feature, moving):
    one = objective(feature)
    points = hkflow.quasi_uniform(300, one.axes - 1)
    found = []
    for operator in ("auto", "dense"):
        o = objective(feature, operator=operator)
        made = o.at_moving_points(points) if moving else o.at_fixed_points(points)
        assert isinstance(made.operator, RepeatedOperator) == (operator == "auto")
        weights = np.random.default_rng(1).normal(size=300)
        found.append(sums(made, weights if moving else weights[None]))
    for short, long in zip(*found, strict=True):
        assert np.abs(short - long).max() < 1e-14 * max(1.0, np.abs(long).max())


def test_sibling_sums_of_other_data_are_seen():
    one = objective(FEATURES["relu"])
    points = hkflow.quasi_uniform(300, one.axes - 1)
    made, whole = (o.at_fixed_points(points) for o in (one, objective(one.feature, 1000, "dense")))
    made.operator.place = np.roll(made.operator.place, 1)
    weights = np.random.default_rng(1).normal(size=(1, 300))
    assert np.abs(sums(made, weights)[0] - sums(whole, weights)[0]).max() > 1e-3


def test_few_data_and_different_ones_are_summed_one_by_one():
    rng = np.random.default_rng(0)
    few = objective(FEATURES["relu"], FEW - 1)
    different = objective(FEATURES["relu"], inputs=rng.normal(size=(1000, 3)))
    for one in (few, different):
        made = one.at_fixed_points(hkflow.quasi_uniform(30, 2))
        assert not isinstance(made.operator, RepeatedOperator)


@pytest.mark.parametrize("kind", ["grid", "particles", "characteristics", "network"])
def test_all_methods_go_where_sums_over_all_data_lead(kind):
    points = np.tile(hkflow.quasi_uniform(40, 2), (2, 1))
    ends = []
    for operator in ("auto", "dense"):
        problem = hkflow.Problem(
            hkflow.geodesic_mesh(2) if kind == "grid" else None,
            objective(FEATURES["relu"], operator=operator),
            hkflow.Flow(1.0, 2.0),
            (1, -1),
            1.0 if kind == "grid" else hkflow.PointMeasure(points, np.repeat([1.0, -1.0], 40)),
        )
        ends.append(hkflow.solve(problem, 2.0, kind=kind).predictions[-1])
    assert np.abs(ends[0] - ends[1]).max() < 1e-10


def test_batches_are_drawn_anew():
    points = np.tile(hkflow.quasi_uniform(10, 2), (2, 1))
    atoms = hkflow.PointMeasure(points, np.repeat([1.0, -1.0], 10))
    one = objective(FEATURES["relu"])
    problem = hkflow.Problem(None, one, hkflow.Flow(1.0, 2.0), (1, -1), atoms)
    method = make_method(problem, "network", training="sgd", step=0.01, batch=FEW + 1)
    assert not isinstance(method.sample.operator, RepeatedOperator)
