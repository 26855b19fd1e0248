from itertools import product

import numpy as np
import pytest
import reference
from conftest import by_threads

import hkflow
from hkflow.operators.dense import RELU, SQUARED_RELU, blocked, unblocked
from hkflow.operators.moving_tree import (
    DIGIT,
    MovingTreeOperator,
    follow_curve,
    place_on_curve,
    sort_by_digit,
)

SHAPES = [(1, 1, 3), (31, 5, 3), (257, 40, 2), (3000, 150, 3), (2000, 300, 4), (700, 90, 30)]


def sums_of(operator, n, weights, loss_gradient):
    """h, J and G."""
    h, J = np.full(len(loss_gradient), np.nan), np.full(n, np.nan)
    G = np.full_like(operator.points, np.nan)
    operator.forward(weights, h)
    operator.gradient(loss_gradient, J, G)
    assert np.array_equal(G, blocked(unblocked(G, n), G.shape[2]), equal_nan=True)  # zero padding
    return h, J, unblocked(G, n)


def worst(activation, points, inputs, operator, rng):
    """Largest error of the three sums at some points, relative to the sums of sizes."""
    operator.points[:] = blocked(points, operator.points.shape[2])
    weights, loss_gradient = rng.normal(size=len(points)), rng.normal(size=len(inputs))
    h, J, G = sums_of(operator, len(points), weights, loss_gradient)
    products, sizes = np.abs(inputs) @ np.abs(points.T), np.abs(loss_gradient)
    feature, slope = (f(activation, products) for f in (reference.activate, reference.slope))
    wanted = reference.dense_forward(points, inputs, weights, activation)
    errors = [np.abs(h - wanted).max() / (feature @ np.abs(weights)).max()]
    wanted = reference.dense_adjoint(points, inputs, loss_gradient, activation)
    errors.append(np.abs(J - wanted).max() / (sizes @ feature).max())
    wanted = reference.dense_gradient(points, inputs, loss_gradient, activation)
    errors.append(np.abs(G - wanted).max() / ((sizes[:, None] * slope).T @ np.abs(inputs)).max())
    return max(errors)


@pytest.mark.parametrize("activation", [RELU, SQUARED_RELU])
@pytest.mark.parametrize("shape", SHAPES)
def test_all_sums_are_exact_to_rounding_wherever_points_move(activation, shape, rng):
    n, n_data, p = shape
    points, inputs = rng.normal(size=(n, p)), rng.normal(size=(n_data, p))
    operator = MovingTreeOperator(points, rng.normal(size=(n_data, p)), activation)
    operator.set_inputs(inputs)
    directions = rng.normal(size=(4, p))
    gathered = directions[rng.integers(0, 4, n)] + 1e-3 * rng.normal(size=(n, p))
    for moved in (points, -2.0 * points, gathered):
        assert worst(activation, moved, inputs, operator, rng) < 1e-14


@pytest.mark.parametrize("activation", [RELU, SQUARED_RELU])
def test_degenerate_geometry_is_exact_too(activation, rng):
    """Data that coincide, are opposite, zero or small; points on their circles, at one place, at
    zero, far away or at corners of the cube."""
    centers = hkflow.geodesic_mesh(3).centers
    across = np.cross(centers[:50], centers[50:100])
    inputs = np.concatenate([across, across, -across, np.eye(3), np.zeros((2, 3)), 1e-9 * across])
    points = np.concatenate(
        [centers, np.repeat(centers[:1], 300, axis=0), np.zeros((40, 3)), 1e6 * centers[:30],
         np.eye(3), -np.eye(3), [*product((-1.0, 0.0, 1.0), repeat=3)]]
    )  # fmt: skip
    operator = MovingTreeOperator(points, inputs, activation)
    assert worst(activation, points, inputs, operator, rng) < 1e-14


def test_what_is_not_a_number_stays_so(rng):
    """At its point and in all predictions; and the other points have their sums."""
    points, inputs = rng.normal(size=(1000, 3)), rng.normal(size=(60, 3))
    points[77, 1] = np.nan
    operator = MovingTreeOperator(points, inputs, RELU)
    loss_gradient = rng.normal(size=60)
    h, J, _ = sums_of(operator, 1000, np.ones(1000), loss_gradient)
    assert np.isnan(h).all() and np.flatnonzero(np.isnan(J)).tolist() == [77]
    others = np.arange(1000) != 77
    wanted = reference.dense_adjoint(points[others], inputs, loss_gradient, RELU)
    assert np.abs(J[others] - wanted).max() < 1e-13 * np.abs(wanted).max()


@pytest.mark.parametrize("part", [0, -1])
def test_a_cap_that_is_too_small_breaks_the_sums(part, rng):
    """Of leaves, and of branches."""

    class Small(MovingTreeOperator):
        def _put_in_order(self):
            super()._put_in_order()
            self.caps[:, part, -1] *= 0.5  # radii

    points, inputs = hkflow.geodesic_mesh(4).centers, rng.normal(size=(200, 3))
    operators = [kind(points, inputs, RELU) for kind in (MovingTreeOperator, Small)]
    right, wrong = (worst(RELU, points, inputs, operator, rng) for operator in operators)
    assert right < 1e-14 and wrong > 1e-9


@pytest.mark.parametrize("axes, bits", [(2, 5), (3, 3), (4, 3), (5, 2)])
def test_the_curve_goes_from_each_cell_of_the_cube_to_its_neighbour(axes, bits):
    side = range(1 << bits)
    cells = np.array([*product(side, repeat=axes)], dtype=np.uint32)
    digits = np.ascontiguousarray(cells.T)
    follow_curve(digits, bits)
    places = np.zeros(len(cells), dtype=np.int64)
    for level in reversed(range(bits)):
        for a in range(axes):
            places = 2 * places + (digits[a] >> level & 1)
    path = cells[np.argsort(places)].astype(int)
    assert np.array_equal(np.sort(places), np.arange(len(cells)))
    assert (np.abs(np.diff(path, axis=0)).sum(axis=1) == 1).all()


def test_points_that_follow_each_other_on_the_curve_are_near(rng):
    """Runs of 32 of 5000 points on S² lie in caps not much wider than discs of their area."""
    points = rng.normal(size=(5000, 3))
    units = points / np.linalg.norm(points, axis=1, keepdims=True)
    keys = np.zeros(5000, dtype=np.uint64)
    place_on_curve(len(blocked(points)), 0, blocked(points), keys)
    order = (np.sort(keys) & np.uint64(0xFFFFFFFF)).astype(int)
    runs = units[order][:4992].reshape(-1, 32, 3)
    radii = np.linalg.norm(runs - runs.mean(axis=1, keepdims=True), axis=2).max(axis=1)
    disc = np.sqrt(4.0 * 32 / 5000)
    assert np.array_equal(np.sort(order), np.arange(5000)) and np.median(radii) < 2.0 * disc


@pytest.mark.parametrize("first", [0, 7])
def test_keys_are_sorted_by_a_digit_and_keep_their_order_otherwise(first, rng):
    keys, out = rng.integers(0, 1 << 40, 5000).astype(np.uint64), np.zeros(5000, dtype=np.uint64)
    sort_by_digit(keys, first, np.zeros(1 << DIGIT, dtype=np.int64), out)
    digit = (keys >> np.uint64(first)) & np.uint64((1 << DIGIT) - 1)
    assert np.array_equal(out, keys[np.argsort(digit, kind="stable")])


def test_sums_depend_on_where_the_points_are_and_on_nothing_before(rng):
    """Nor on the number of threads: what a run needs that goes on from a checkpoint."""
    points, inputs = rng.normal(size=(4000, 3)), rng.normal(size=(300, 3))
    weights, loss_gradient = rng.normal(size=4000), rng.normal(size=300)

    def fresh():
        return sums_of(MovingTreeOperator(points, inputs, RELU), 4000, weights, loss_gradient)

    used = MovingTreeOperator(rng.normal(size=points.shape), inputs, RELU)
    sums_of(used, 4000, weights, loss_gradient)
    used.points[:] = blocked(points, used.points.shape[2])
    found = [*by_threads(fresh), sums_of(used, 4000, weights, loss_gradient)]
    for sums in found[1:]:
        assert all(np.array_equal(one, two) for one, two in zip(found[0], sums, strict=True))


def test_sums_take_no_memory_that_grows_with_points(rng):
    """But scratch of each thread, some numbers for each datum."""
    import tracemalloc

    n = 60_000
    points, inputs = rng.normal(size=(n, 3)), rng.normal(size=(100, 3))
    operator = MovingTreeOperator(points, inputs, RELU)
    weights, loss_gradient, h, J = np.ones(n), np.ones(100), np.zeros(100), np.zeros(n)
    G = np.zeros_like(operator.points)
    for turn in range(2):  # noqa: B007
        operator.points *= -1.0
        tracemalloc.start()
        operator.forward(weights, h)
        operator.gradient(loss_gradient, J, G)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert turn and peak < points.nbytes / 10, f"{peak} bytes"


def test_tree_and_dense_make_the_same_particles(rng):
    inputs = np.column_stack([rng.normal(size=(60, 2)), np.ones(60)])
    found = []
    for name in ("dense", "tree"):
        objective = hkflow.Objective(
            hkflow.FEATURES["relu"], hkflow.RISKS["square"], inputs,
            np.sign(inputs[:, 0] * inputs[:, 1]), operator=name,
        )  # fmt: skip
        problem = hkflow.Problem(
            hkflow.geodesic_mesh(3), objective, hkflow.Flow(1.0, 2.0), signs=(1, -1)
        )
        solution = hkflow.solve(problem, 1.0, kind="particles")
        found.append(solution.atoms_at(-1).weights)
    assert 0.0 < np.abs(found[0] - found[1]).max() < 1e-9 * found[0].max()


def test_the_tree_is_for_activations_with_two_sides_and_keeps_the_number_of_data():
    with pytest.raises(ValueError, match=r"ReLU and squared ReLU\. Take 'dense'"):
        hkflow.FEATURES["linear"].moving_operator(np.eye(3), np.eye(3), "tree")
    with pytest.raises(ValueError, match="New inputs must have the shape"):
        MovingTreeOperator(np.eye(3), np.eye(3), RELU).set_inputs(np.ones((2, 3)))
