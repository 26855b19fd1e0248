"""What measures predict at inputs that do not drive them."""

from typing import Any

import numpy as np

from ..arguments import Floats
from ..measures.point_measure import PointMeasure
from ..objectives.protocol import feature_of_data
from ..problem.problem import Problem

BLOCK = 4096  # inputs that are predicted at a time
STORED = 2**22  # numbers that features may store for them
# a mass beyond e^±600 is kept apart from its measure: as a number it would soon be inf or 0
LARGEST_LOG_MASS = 600.0


def predictions_of(feature: Any, atoms: PointMeasure, inputs: Floats) -> Floats:
    """h(x) = Σ_j weight_j ε_j φ(θ_j, x) at inputs (n, p), bias included; (n,), of vectors
    (n, k)."""
    k, rows = feature.outputs, BLOCK
    if each := feature.stored(len(atoms), inputs[:1], "dense"):
        rows = max(1, min(BLOCK, STORED // each))
    out = np.zeros(k * len(inputs))
    for start in range(0, len(inputs), rows):
        operator = feature.operator(atoms.positions, inputs[start : start + rows], "dense")
        operator.forward(atoms.signs * atoms.weights, out[k * start : k * (start + rows)])
    return out if k == 1 else out.reshape(-1, k)


def unscaled(state: dict) -> tuple[dict, float]:
    """A state whose measure is of order one, and s with ν = e^s · that measure."""
    if "log_weights" in state:
        scale = float(state["log_weights"].max())
        return state | {"log_weights": state["log_weights"] - scale}, scale
    if "log_scale" in state:
        return state | {"log_scale": 0.0}, float(state["log_scale"])
    return state, 0.0


def test_predictions_of(problem: Problem, measure: Any, state: dict, log_scale: float) -> Floats:
    """h on the test data of a problem for a state, see `predictions_at`; (n_test,), of vectors
    (n_test, k)."""
    assert problem.test is not None
    return predictions_at(problem.test.inputs, problem, measure, state, log_scale)


def predictions_at(
    inputs: Floats, problem: Problem, measure: Any, state: dict, log_scale: float
) -> Floats:
    """h at inputs (n, p), bias included, for a state, in units of e^log_scale; (n,), of vectors
    (n, k).

    measure : the method's function of a state
    """
    small, scale = unscaled(state)
    atoms = problem.atoms_of(measure(small))
    with np.errstate(over="ignore", invalid="ignore"):
        factor = np.exp(scale - log_scale)
        return factor * predictions_of(feature_of_data(problem.objective), atoms, inputs)
