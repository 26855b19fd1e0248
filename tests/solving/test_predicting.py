"""Predictions at many inputs, some at a time."""

import numpy as np
import pytest

import hkflow
from hkflow.operators.matrix import MatrixOperator
from hkflow.solving import predicting


def tanh(s):
    return np.tanh(s), 1.0 / np.cosh(s) ** 2


@pytest.mark.parametrize("stored", [1, 1000, 10**6])
def test_own_functions_store_some_pairs_at_a_time(stored, rng, monkeypatch):
    monkeypatch.setattr(predicting, "STORED", stored)
    sizes = []
    forward = MatrixOperator.forward

    def recorded(self, weights, out):
        sizes.append(self.matrix.size)
        forward(self, weights, out)

    monkeypatch.setattr(MatrixOperator, "forward", recorded)
    atoms = hkflow.PointMeasure(hkflow.quasi_uniform(90, 2), np.ones(90), rng.uniform(size=90))
    inputs = rng.normal(size=(137, 3))
    found = predicting.predictions_of(hkflow.ridge(tanh), atoms, inputs)
    wanted = np.tanh(inputs @ atoms.positions.T) @ atoms.weights
    assert np.abs(found - wanted).max() < 1e-13
    assert sum(sizes) == 90 * 137 and max(sizes) <= max(90, stored)
