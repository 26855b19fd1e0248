"""The sums with an output weight against NumPy."""

from functools import partial

import numpy as np
import pytest
import reference
from conftest import by_threads

from hkflow import FEATURES
from hkflow.operators import vector
from hkflow.operators.dense import LINEAR, RELU, SQUARED_RELU, TILE, blocked, unblocked
from hkflow.operators.joint import JointOperator
from hkflow.operators.vector import VectorOperator

SHAPES = [
    (1, 1, 1),
    (1, 1, 2),
    (5, 100, 2),
    (16, 8, 16),
    (17, 9, 5),
    (700, 33, 2),
    (333, 21, 300),
    (5000, 1, 4),
]


def twin(points, inputs, weights, loss_gradient, activation):
    """h, J and G of φ = b ψ(a·x) by the product rule."""
    a, b = points[:, :-1], points[:, -1]
    h = reference.dense_forward(a, inputs, weights * b, activation)
    J = reference.dense_adjoint(a, inputs, loss_gradient, activation)
    return (
        h,
        b * J,
        np.column_stack(
            [b[:, None] * reference.dense_gradient(a, inputs, loss_gradient, activation), J]
        ),
    )


def sizes(points, inputs, weights, loss_gradient, activation):
    """What rounding errors are measured by: the same sums of absolute values."""
    a, b, x, w, r = (
        np.abs(array) for array in (points[:, :-1], points[:, -1], inputs, weights, loss_gradient)
    )
    psi, slope = reference.activate(activation, x @ a.T), reference.slope(activation, x @ a.T)
    return (
        psi @ (w * b),
        b * (r @ psi),
        np.column_stack([b[:, None] * ((r[:, None] * slope).T @ x), r @ psi]),
    )


@pytest.mark.parametrize("activation", [LINEAR, RELU, SQUARED_RELU])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("width", [None, 16, 64])
def test_all_sums_agree_with_numpy(activation, shape, width, rng):
    n, n_data, p = shape
    points, inputs = rng.normal(size=(n, p + 1)), rng.normal(size=(n_data, p))
    weights, loss_gradient = rng.normal(size=n), rng.normal(size=n_data)
    operator = JointOperator(
        blocked(points, width) if width else points, rng.normal(size=(n_data, p)), activation
    )
    operator.set_inputs(inputs)
    for _ in range(2):  # the second time with moved points, which every sum reads by itself
        wanted, size = (
            twin(points, inputs, weights, loss_gradient, activation),
            sizes(points, inputs, weights, loss_gradient, activation),
        )
        h, J, K, G = (
            np.full(n_data, np.nan),
            np.full(n, np.nan),
            np.full(n, np.nan),
            np.full_like(operator.points, np.nan),
        )
        operator.gradient(loss_gradient, K, G)
        operator.adjoint(loss_gradient, J)
        operator.forward(weights, h)
        found = (h, J, K, unblocked(G, n))
        wanted, size = (three[:2] + three[1:] for three in (wanted, size))
        for got, right, bound in zip(found, wanted, size, strict=True):
            assert np.all(np.abs(got - right) <= 1e-13 * bound)
            # it can fail
            assert not right.any() or np.any(np.abs(got - (1 + 1e-9) * right) > 1e-13 * bound)
        assert np.array_equal(G, blocked(unblocked(G, n), G.shape[2]))  # zero on the padding
        points = rng.normal(size=(n, p + 1))
        operator.points[:] = blocked(points, operator.points.shape[2])


def test_sums_are_those_of_the_matrix(rng):
    feature, points, inputs = (
        FEATURES["joint-relu"],
        rng.normal(size=(40, 4)),
        rng.normal(size=(9, 3)),
    )
    weights, h = rng.normal(size=40), np.zeros(9)
    feature.operator(points, inputs).forward(weights, h)
    assert h == pytest.approx(feature.matrix(points, inputs) @ weights, rel=1e-12, abs=1e-13)
    # degree 2
    assert feature.matrix(3.0 * points, inputs) == pytest.approx(
        9.0 * feature.matrix(points, inputs), rel=1e-13
    )


@pytest.mark.parametrize("operator", [JointOperator, partial(VectorOperator, outputs=1)])
def test_blocks_that_are_no_whole_tiles_are_refused(operator, rng):
    with pytest.raises(ValueError, match="Blocks must be a multiple of"):
        operator(np.zeros((2, 4, TILE + 1)), rng.normal(size=(5, 3)), activation=RELU)


def test_sums_of_several_outputs_are_the_same_bits_by_any_threads(rng):
    points, inputs = rng.normal(size=(3000, 7)), rng.normal(size=(200, 4))
    weights, r = rng.normal(size=3000), rng.normal(size=600)

    def sums():
        operator = VectorOperator(points, inputs, RELU, 3)
        h, J, G = np.empty(600), np.empty(3000), np.empty_like(operator.points)
        operator.forward(weights, h)
        operator.gradient(r, J, G)
        return h, J, G

    for one, two in zip(*by_threads(sums), strict=True):
        assert np.array_equal(one, two)


def test_few_groups_of_points_change_nothing_but_rounding(rng, monkeypatch):
    points, inputs, weights = (
        rng.normal(size=(3000, 7)), rng.normal(size=(200, 4)), rng.normal(size=3000)
    )  # fmt: skip
    found = []
    for largest in (vector.LARGEST, 1):  # numbers of partial sums
        monkeypatch.setattr(vector, "LARGEST", largest)
        operator, h = VectorOperator(points, inputs, RELU, 3), np.empty(600)
        operator.forward(weights, h)
        found.append((len(operator.partial), h))
    (many, first), (few, second) = found
    assert many > few == vector.FEWEST
    np.testing.assert_allclose(first, second, rtol=0.0, atol=1e-12 * np.abs(first).max())


def test_a_swapped_product_rule_is_seen(rng):
    points, inputs, loss_gradient = (
        rng.normal(size=(17, 3)),
        rng.normal(size=(9, 2)),
        rng.normal(size=9),
    )
    operator, J = JointOperator(points, inputs, RELU), np.empty(17)
    G = np.empty_like(operator.points)
    operator.gradient(loss_gradient, J, G)
    assert np.abs(unblocked(G, 17)[:, -1] - J).max() > 0.1 * np.abs(J).max()  # ∂J/∂b is J/b, not J


@pytest.mark.parametrize("activation", [LINEAR, RELU, SQUARED_RELU])
@pytest.mark.parametrize("shape", [(5, 7, 2), (17, 9, 5), (333, 21, 30)])
@pytest.mark.parametrize("k", [2, 5])
def test_several_outputs_are_the_sums_of_each(activation, shape, k, rng):
    n, n_data, p = shape
    points, inputs = rng.normal(size=(n, p + k)), rng.normal(size=(n_data, p))
    weights, r = rng.normal(size=n), rng.normal(size=(n_data, k))
    operator = VectorOperator(points, rng.normal(size=(n_data, p)), activation, k)
    operator.set_inputs(inputs)
    h, J, alone = np.empty(n_data * k), np.empty(n), np.empty(n)
    gradient = np.full_like(operator.points, np.nan)
    operator.forward(weights, h)
    operator.gradient(r.ravel(), J, gradient)
    operator.adjoint(r.ravel(), alone)
    G = unblocked(gradient, n)
    one = [points[:, [*range(p), p + m]] for m in range(k)]
    parts = [twin(one[m], inputs, weights, r[:, m], activation) for m in range(k)]
    large = [sizes(one[m], inputs, weights, r[:, m], activation) for m in range(k)]
    off = 1e-13 * max(1.0, max(np.max(size) for part in large for size in part))
    np.testing.assert_allclose(
        h.reshape(n_data, k), np.column_stack([part[0] for part in parts]), rtol=0.0, atol=off
    )
    for found in (J, alone):
        np.testing.assert_allclose(found, sum(part[1] for part in parts), rtol=0.0, atol=off)
    np.testing.assert_allclose(G[:, :p], sum(part[2][:, :p] for part in parts), rtol=0.0, atol=off)
    outputs = np.column_stack([part[2][:, p] for part in parts])
    np.testing.assert_allclose(G[:, p:], outputs, rtol=0.0, atol=off)
    assert np.array_equal(gradient, blocked(G, gradient.shape[2]))  # zero on the padding
    # outputs in another order are seen
    assert np.abs(G[:, p:] - outputs[:, ::-1]).max() > 1e6 * off
