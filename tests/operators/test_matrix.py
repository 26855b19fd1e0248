"""Features given as functions: their matrix and sums are made of some data at a time."""

import numba
import numpy as np
import pytest

import hkflow
from hkflow.operators import matrix
from hkflow.operators.dense import unblocked
from hkflow.operators.matrix import FunctionOperator, MatrixOperator, add_gram, products, tiles


def tanh(s):
    return np.tanh(s), 1.0 / np.cosh(s) ** 2


RIDGE = hkflow.ridge(tanh)
FUNCTIONS = hkflow.Feature("tanh", RIDGE.matrix, pullback=RIDGE.pullback)


def small_tiles(monkeypatch, points, data):
    monkeypatch.setattr(matrix, "POINTS", points)
    monkeypatch.setattr(matrix, "DATA", data)


def test_tiles_are_all_pairs_once(monkeypatch):
    small_tiles(monkeypatch, 10, 4)
    for n_points, n_data in ((1, 1), (7, 30), (30, 7), (10, 4), (5, 1000), (11, 5)):
        count = np.zeros((n_data, n_points), dtype=int)
        for own, rows in tiles(n_points, n_data):
            assert count[rows, own].size <= 40
            count[rows, own] += 1
        assert (count == 1).all()
    assert list(tiles(7, 0)) == []


@pytest.mark.parametrize("feature", [RIDGE, FUNCTIONS], ids=["ridge", "pullback"])
@pytest.mark.parametrize("shape", [(1, 1), (32, 10), (4096, 16)])
def test_sums_are_those_of_the_whole_matrix(feature, shape, rng, monkeypatch):
    small_tiles(monkeypatch, *shape)
    points, inputs = rng.normal(size=(90, 5)), rng.normal(size=(37, 5))
    w, r = rng.normal(size=90), rng.normal(size=37)
    values, slopes = tanh(inputs @ points.T)
    stored, moving = feature.operator(points, inputs), feature.moving_operator(points, inputs)
    assert isinstance(stored, MatrixOperator) and isinstance(moving, FunctionOperator)
    assert np.abs(stored.matrix - values).max() < 1e-15
    h, J, G = np.ones(37), np.ones(90), np.ones_like(moving.points)
    moving.forward(w, h)
    moving.gradient(r, J, G)
    assert np.abs(h - values @ w).max() < 1e-13 and np.abs(J - r @ values).max() < 1e-13
    assert np.abs(unblocked(G, 90) - (r[:, None] * slopes).T @ inputs).max() < 1e-13


def test_a_ridge_makes_values_and_slopes_at_once(rng):
    calls = []

    def counted(s):
        calls.append(s.size)
        return tanh(s)

    points, inputs = rng.normal(size=(90, 5)), rng.normal(size=(37, 5))
    operator = hkflow.ridge(counted).moving_operator(points, inputs)
    calls.clear()
    operator.gradient(np.ones(37), np.zeros(90), np.zeros_like(operator.points))
    assert calls == [37 * 90]


def test_no_points_and_no_data_have_sums(rng):
    h, J = np.ones(7), np.zeros(0)
    operator = RIDGE.operator(np.zeros((0, 3)), rng.normal(size=(7, 3)))
    operator.forward(J, h)
    operator.adjoint(h, J)
    assert not h.any()
    assert RIDGE.operator(np.eye(3), np.zeros((0, 3))).matrix.shape == (0, 3)


@pytest.mark.parametrize("n", [0, 1, 3, 4, 6, 17, 40])
def test_a_gram_matrix_is_added(n, rng):
    rows, weights, once = rng.normal(size=(n, 1000)), rng.normal(size=1000), np.zeros((n, n))
    add_gram(rows, weights, once)
    wanted = (rows * weights) @ rows.T
    assert np.array_equal(once, once.T)
    assert once == pytest.approx(wanted, abs=1e-13 * np.abs(wanted).max(initial=0.0))
    add_gram(rows, weights, twice := once.copy())
    assert twice == pytest.approx(2.0 * wanted, abs=2e-13 * np.abs(wanted).max(initial=0.0))


def test_what_a_feature_stores_is_known_before(rng):
    inputs = rng.uniform(-1.0, 1.0, (700, 2))
    assert RIDGE.stored(100, inputs) == 700 * 100
    assert RIDGE.stored(100, inputs, "harmonics") == RIDGE.stored(2048, inputs)
    for points in (hkflow.quasi_uniform(100, 1), hkflow.quasi_uniform(2048, 1)):
        operator = RIDGE.operator(points, inputs)
        held = operator if isinstance(operator, MatrixOperator) else operator.of_data
        assert held.matrix.size == RIDGE.stored(len(points), inputs)
    for name in ("relu", "joint-relu", "absolute-value"):
        assert hkflow.FEATURES[name].stored(2048, inputs) == 0


@pytest.mark.parametrize("values", [lambda t, x: np.tanh(t[:, 0]), lambda t, x: np.tanh(x[:, :1])])
def test_values_of_another_shape_are_refused(values, rng):
    feature = hkflow.Feature("bad", values)
    with pytest.raises(ValueError, match="a value for each of 7 data and 90 points, got"):
        feature.operator(rng.normal(size=(90, 3)), rng.normal(size=(7, 3)))


def test_numbers_beside_moving_points_are_known_before():
    rng = np.random.default_rng(0)
    points, inputs = hkflow.quasi_uniform(2048, 1), rng.uniform(-1.0, 1.0, (700, 2))
    operator = RIDGE.moving_operator(points, inputs, on_sphere=True)
    assert operator.of_data.matrix.size == RIDGE.stored(2048, inputs, moving=True)
    assert RIDGE.stored(100, inputs[:, :1], moving=True) == 0


def test_products_are_those_of_numpy_on_any_number_of_threads(rng):
    for n, m, columns in ((1, 1, 1), (5, 3, 7), (3, 5, 7), (8, 4, 0), (0, 3, 2), (301, 45, 800)):
        left, right = rng.normal(size=(n, columns)), rng.normal(size=(m, columns))
        found, before = products(left, right), numba.get_num_threads()
        assert found == pytest.approx(left @ right.T, rel=1e-11, abs=1e-11)
        numba.set_num_threads(1)
        try:
            assert np.array_equal(products(left, right), found)
        finally:
            numba.set_num_threads(before)
