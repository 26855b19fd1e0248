import numpy as np
import pytest
import reference

import hkflow
from hkflow.operators.dense import RELU, SQUARED_RELU, blocked, unblocked
from hkflow.operators.sorted import SortedOperator

SHAPES = [(1, 1), (7, 3), (300, 1), (64, 500), (1000, 200), (70_000, 50)]


@pytest.mark.parametrize("activation", [RELU, SQUARED_RELU])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("moving", [False, True])
def test_all_sums_are_exact_to_rounding(activation, shape, moving, rng):
    n, n_data = shape
    points, inputs = rng.normal(size=(n, 2)), rng.normal(size=(n_data, 2))
    operator = SortedOperator(points, rng.normal(size=(n_data, 2)), activation, moving)
    operator.set_inputs(inputs)
    for _ in range(2 if moving else 1):  # the second time with moved points
        weights, loss_gradient = rng.normal(size=n), rng.normal(size=n_data)
        h, J, K, G = (
            np.full(n_data, np.nan),
            np.full(n, np.nan),
            np.full(n, np.nan),
            np.full_like(operator.points, np.nan),
        )
        operator.forward(weights, h)
        operator.adjoint(loss_gradient, J)
        operator.gradient(loss_gradient, K, G)
        size = reference.activate(activation, np.abs(inputs) @ np.abs(points.T))
        assert np.all(
            np.abs(h - reference.dense_forward(points, inputs, weights, activation))
            <= 1e-14 * (size @ np.abs(weights)).max()
        )
        wanted = reference.dense_adjoint(points, inputs, loss_gradient, activation)
        assert np.all(
            np.abs(J - wanted) <= 1e-14 * (np.abs(loss_gradient) @ size).max()
        ) and np.array_equal(J, K)
        wanted = reference.dense_gradient(points, inputs, loss_gradient, activation)
        slope = (
            np.abs(loss_gradient)[:, None]
            * reference.slope(activation, np.abs(inputs) @ np.abs(points.T))
        ).T @ np.abs(inputs)
        assert np.all(np.abs(unblocked(G, n) - wanted) <= 1e-14 * slope.max())
        # it can fail
        assert not wanted.any() or np.any(
            np.abs(unblocked(G, n) - (1 + 1e-11) * wanted) > 1e-14 * slope.max()
        )
        assert np.array_equal(G, blocked(unblocked(G, n), G.shape[2]))  # zero on the padding
        points = rng.normal(size=(n, 2))
        operator.points[:] = blocked(points, operator.points.shape[2])


@pytest.mark.parametrize("activation", [RELU, SQUARED_RELU])
def test_ends_that_meet_points_or_each_other_are_exact_too(activation, rng):
    mesh = hkflow.circle_mesh(128)
    inputs = np.concatenate(
        [
            mesh.centers[::4],
            -mesh.centers[::8],
            mesh.vertices[:20],
            np.eye(2),
            -np.eye(2),
            np.zeros((2, 2)),
        ]
    )
    points = np.concatenate(
        [mesh.centers, np.eye(2), -np.eye(2), mesh.centers[:9], np.zeros((2, 2))]
    )
    operator = SortedOperator(points, inputs, activation)
    h, J = np.zeros(len(inputs)), np.zeros(len(points))
    weights, loss_gradient = rng.normal(size=len(points)), rng.normal(size=len(inputs))
    operator.forward(weights, h), operator.adjoint(loss_gradient, J)
    assert (
        np.abs(h - reference.dense_forward(points, inputs, weights, activation)).max()
        < 1e-14 * np.abs(weights).sum()
    )
    assert (
        np.abs(J - reference.dense_adjoint(points, inputs, loss_gradient, activation)).max()
        < 1e-14 * np.abs(loss_gradient).sum()
    )


def test_running_sums_do_not_drift(rng):
    """Sums over 10⁵ data that all but cancel stay exact to 1e-12 of the potential that is left."""
    n = 100_000
    inputs, loss_gradient = rng.normal(size=(n, 2)), rng.choice([-1.0, 1.0], size=n)
    points = hkflow.circle_mesh(50).centers
    J = np.zeros(50)
    SortedOperator(points, inputs, RELU).adjoint(loss_gradient, J)
    wanted = np.array(
        [
            np.sum((loss_gradient * np.maximum(inputs @ point, 0.0)).astype(np.longdouble))
            for point in points
        ]
    )
    assert np.abs(J - wanted).max() < 1e-12 * np.abs(wanted).max()


def test_only_the_circle_and_its_half_circles_are_sorted():
    with pytest.raises(ValueError, match="on the circle"):
        SortedOperator(np.eye(3), np.eye(3), RELU)
    with pytest.raises(ValueError, match="New inputs must have the shape"):
        SortedOperator(np.eye(2), np.eye(2), RELU).set_inputs(np.ones((3, 2)))
