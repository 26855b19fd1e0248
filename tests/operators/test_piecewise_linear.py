"""Features that are linear on either side of 0: sums without a matrix, and all methods."""

import numpy as np
import pytest

import hkflow
from hkflow.methods.frozen_relu.kinks import Kinks
from hkflow.methods.grid.steppers import muscl_hancock
from hkflow.operators.choice import OPERATORS
from hkflow.operators.dense import blocked, unblocked
from hkflow.operators.piecewise_linear import PiecewiseLinearOperator

ABSOLUTE = hkflow.FEATURES["absolute-value"]


def leaky(s):
    slope = np.where(s > 0.0, 1.0, 0.1)
    return slope * s, slope


LEAKY = hkflow.ridge(leaky, degree=1)
FEATURES = pytest.mark.parametrize("feature", [ABSOLUTE, LEAKY], ids=lambda f: f.name)


def worst(feature, points, inputs, rng, name="auto", moving=False, sabotage=None):
    """Largest error of h, J and, where points move, G, in units of the sums of sizes."""
    n, n_data = len(points), len(inputs)
    w, r = rng.normal(size=n), rng.normal(size=n_data)
    if moving:
        operator = feature.moving_operator(0.0 * points + 1.0, 0.0 * inputs + 1.0, name)
        operator.set_inputs(inputs)
        operator.points[:] = blocked(points, operator.points.shape[2])
    else:
        operator = feature.operator(points, inputs, name)
    assert isinstance(operator, PiecewiseLinearOperator)
    if sabotage:
        sabotage(operator)
    phi, size = feature.matrix(points, inputs), np.abs(inputs) @ np.abs(points.T)
    h, J = np.full(n_data, np.nan), np.full(n, np.nan)
    operator.forward(w, h)
    errors = [np.abs(h - phi @ w) / (size @ np.abs(w))]
    if moving:
        G = np.full_like(operator.points, np.nan)
        operator.gradient(r, J, G)
        wanted = feature.pullback(points, inputs, r)
        errors.append(np.abs(unblocked(G, n) - wanted) / (np.abs(r) @ np.abs(inputs)))
    else:
        operator.adjoint(r, J)
    errors.append(np.abs(J - r @ phi) / (np.abs(r) @ size))
    return max(error.max() for error in errors)


@FEATURES
@pytest.mark.parametrize(
    ("name", "p"),
    [("sorted", 2), *((name, p) for name in ("auto", "dense", "tree") for p in (2, 3, 4))],
)
def test_sums_are_those_of_the_matrix_to_rounding(feature, name, p, rng):
    points, inputs = hkflow.quasi_uniform(3000, p - 1), rng.normal(size=(41, p))
    assert worst(feature, points, inputs, rng, name) <= 1e-14
    assert worst(feature, points, inputs, rng, name, moving=True) <= 1e-14


def test_single_precision_is_as_exact_as_it_says(rng):
    assert "dense-single" in OPERATORS
    points, inputs = hkflow.quasi_uniform(500, 2), rng.normal(size=(41, 3))
    assert 1e-10 < worst(ABSOLUTE, points, inputs, rng, "dense-single") <= 1e-6


def test_sibling_a_slope_that_is_off_is_seen(rng):
    def off(operator):
        operator.below *= 1.0 + 1e-10

    points, inputs = hkflow.quasi_uniform(300, 2), rng.normal(size=(5, 3))
    assert worst(ABSOLUTE, points, inputs, rng, sabotage=off) > 1e-12


@FEATURES
def test_kinks_know_the_gradient(feature, rng):
    inputs = rng.normal(size=(6, 3))
    inputs[3], inputs[4] = -2.0 * inputs[0], 0.0
    points, r = rng.normal(size=(20, 3)), rng.normal(size=6)
    kinks = Kinks.of(feature, inputs)
    jumps, constant = kinks.gradient(r)
    gradient = constant + ((points @ kinks.normals.T > 0.0) * jumps) @ kinks.normals
    assert len(jumps) == 4
    assert gradient == pytest.approx(feature.pullback(points, inputs, r), rel=1e-13, abs=1e-13)


def solved(feature, kind, mesh, **options):
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(4, 3)), np.array([1.0, -1.0, 0.5, -0.5])
    objective = hkflow.Objective(feature, hkflow.RISKS["square"], x, y)
    problem = hkflow.Problem(mesh, objective, hkflow.Flow(1.0, 2.0), (1, -1))
    return hkflow.solve(problem, 4.0, kind=kind, **options)


@FEATURES
def test_the_methods_agree(feature):
    """With kinks that capture."""
    mesh = hkflow.geodesic_mesh(2)
    exact = solved(feature, "characteristics", mesh, tolerance=1e-6)
    particles = solved(feature, "particles", mesh, tolerance=1e-7)
    grid = solved(feature, "grid", mesh)
    h = exact.scaled_predictions[-1]
    assert particles.finished and np.abs(particles.scaled_predictions[-1] - h).max() <= 1e-5
    assert grid.records["captured"][-1] > 0.1
    assert np.abs(grid.scaled_predictions[-1] - h).max() <= 0.01


def test_sibling_a_grid_that_does_not_capture_disagrees(monkeypatch):
    mesh = hkflow.geodesic_mesh(2)
    exact = solved(ABSOLUTE, "characteristics", mesh, tolerance=1e-6)
    monkeypatch.setattr(muscl_hancock, "captures", lambda problem: False)
    grid = solved(ABSOLUTE, "grid", mesh)
    assert np.abs(grid.scaled_predictions[-1] - exact.scaled_predictions[-1]).max() > 0.01
