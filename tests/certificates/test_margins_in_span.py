"""Max-margins of few data in many inputs, searched in the span of the data."""

from dataclasses import replace

import numpy as np
import pytest

import hkflow
from hkflow.certificates import in_span
from hkflow.certificates.column_generation import enclosed_max_margin


def orthogonal_data(sizes, labels, p=40, activation="relu", seed=0):
    """Orthogonal inputs of these sizes, in any directions."""
    x = np.linalg.qr(np.random.default_rng(seed).normal(size=(p, len(sizes))))[0].T
    x *= np.array(sizes)[:, None]
    risk = hkflow.RISKS["logistic"]
    return hkflow.Objective(hkflow.FEATURES[activation], risk, x, np.array(labels, float))


def margin_of_orthogonal_data(sizes, labels):
    """1/(S₊ + S₋), S² = Σ |x_i|^−2 over a class: p_i ~ |x_i|^−2 there."""
    squares = np.array(sizes) ** -2.0
    return 1.0 / sum(np.sqrt(squares[np.array(labels) == one].sum()) for one in (1, -1))


def encloses(found, margin):
    """Up to the rounding of the data, which are not quite orthogonal."""
    return found.lower <= margin * (1.0 + 1e-15) and margin * (1.0 - 1e-15) <= found.upper


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1, 1), (1, 2, 0.5, 3, 1), (1e-3, 1, 10, 1, 1e3)])
@pytest.mark.parametrize(("activation", "factor"), [("relu", 1.0), ("joint-relu", 0.5)])
def test_orthogonal_data_have_their_margin(sizes, activation, factor):
    labels = (1, -1, 1, 1, -1)
    objective = orthogonal_data(sizes, labels, activation=activation)
    signs = (1,) if activation == "joint-relu" else (1, -1)
    found = enclosed_max_margin(objective, signs)
    wanted = factor * margin_of_orthogonal_data(sizes, labels)
    assert found.certified and found.reached
    assert encloses(found, wanted)
    # the lower end is the margin of the atoms as they are, in all coordinates
    z = objective.targets[:, None] * objective.feature.matrix(
        found.atoms.positions, objective.inputs
    )
    assert found.atoms.positions.shape[1] == objective.axes
    assert (z @ (found.atoms.signs * found.atoms.weights)).min() == pytest.approx(
        found.lower, rel=1e-12
    )


def test_in_all_coordinates_the_interval_is_the_same(monkeypatch):
    """In 40 of them cones tell nothing: by the main axes of the data."""
    objective = orthogonal_data((1, 2, 0.5, 3, 1), (1, -1, 1, 1, -1))
    monkeypatch.setattr(in_span, "SPARSE", 1e9)
    other = enclosed_max_margin(objective, (1, -1), nodes=1000)
    monkeypatch.undo()
    found = enclosed_max_margin(objective, (1, -1), start=other.atoms)
    assert found.lower == pytest.approx(other.lower, rel=1e-5)
    assert found.upper == pytest.approx(other.upper, rel=1e-5)


def test_sibling_a_direction_that_is_left_out_makes_a_wrong_bound(monkeypatch):
    whole = in_span.SpanOfData

    def without_one(objective):
        span = whole(objective)
        span.basis = span.basis[:-1]
        inputs = np.pad(objective.inputs @ span.basis.T, ((0, 0), (0, 1)))
        span.objective = replace(objective, inputs=inputs)
        return span

    monkeypatch.setattr(in_span, "SpanOfData", without_one)
    objective = orthogonal_data((1, 1, 1, 1, 1), (1, -1, 1, 1, -1))
    found = enclosed_max_margin(objective, (1, -1))
    wanted = margin_of_orthogonal_data((1, 1, 1, 1, 1), (1, -1, 1, 1, -1))
    assert not encloses(found, wanted)


def test_dependent_and_contradictory_data():
    """Rows that are equal up to a factor, a row that is 0, and one of weight 0."""
    x = np.zeros((5, 30))
    x[0, 0], x[1, 0], x[2, 1], x[4, 2] = 1.0, 2.0, 1.0, 1.0
    x = x @ np.linalg.qr(np.random.default_rng(1).normal(size=(30, 30)))[0]
    relu, risk = hkflow.FEATURES["relu"], hkflow.RISKS["logistic"]
    weights = np.array([0.25, 0.25, 0.25, 0.0, 0.25])
    labels = np.array([1.0, 1.0, -1.0, 1.0, 1.0])
    found = enclosed_max_margin(hkflow.Objective(relu, risk, x, labels, weights), (1, -1))
    wanted = margin_of_orthogonal_data((1, 1, 1), (1, -1, 1))
    assert encloses(found, wanted) and found.reached and found.dual[3] == 0.0
    labels[1] = -1.0
    none = enclosed_max_margin(hkflow.Objective(relu, risk, x, labels, weights), (1, -1))
    assert none.is_none


def test_classes_have_the_margin_of_all_coordinates(monkeypatch):
    rng = np.random.default_rng(2)
    feature = hkflow.vector_feature("relu", 3)
    objective = hkflow.Objective(feature, hkflow.SOFTMAX, rng.normal(size=(4, 24)), [0, 1, 2, 1])
    found = enclosed_max_margin(objective, (1,), 1e-4)
    monkeypatch.setattr(in_span, "SPARSE", 1e9)
    whole = enclosed_max_margin(objective, (1,), 1e-4, nodes=1000)
    assert found.lower == pytest.approx(whole.lower, rel=1e-3)
    assert found.reached and found.upper <= whole.upper
