import numba
import numpy as np
import pytest
import reference

from hkflow.operators.dense import LINEAR, RELU, SQUARED_RELU, DenseOperator, blocked, unblocked
from hkflow.operators.matrix import FunctionOperator, MatrixOperator

SHAPES = [
    (1, 1, 1),
    (1, 1, 2),
    (5, 100, 2),
    (16, 8, 16),
    (17, 9, 5),
    (700, 33, 2),
    (1500, 7, 3),
    (512, 4, 6),
    (1000, 256, 16),
]
SHAPES += [(333, 21, 300), (90, 500, 801), (5000, 1, 4)]


@pytest.mark.parametrize("activation", [LINEAR, RELU, SQUARED_RELU])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("width", [None, 16, 64])
def test_all_sums_agree_with_numpy(activation, shape, width, rng):
    n, n_data, p = shape
    points, inputs = rng.normal(size=(n, p)), rng.normal(size=(n_data, p))
    weights, loss_gradient = rng.normal(size=n), rng.normal(size=n_data)
    operator = DenseOperator(
        blocked(points, width) if width else points, rng.normal(size=(n_data, p)), activation
    )
    operator.set_inputs(inputs)
    for _ in range(2):  # the second time with moved points
        h, J, K, G = (
            np.full(n_data, np.nan),
            np.full(n, np.nan),
            np.full(n, np.nan),
            np.full_like(operator.points, np.nan),
        )
        operator.forward(weights, h)
        operator.adjoint(loss_gradient, J)
        operator.gradient(loss_gradient, K, G)
        S, size = inputs @ points.T, np.abs(inputs) @ np.abs(points.T)
        assert np.all(
            np.abs(h - reference.activate(activation, S) @ weights)
            <= 1e-13 * (reference.activate(activation, size) @ np.abs(weights))
        )
        for one in (J, K):
            assert np.all(
                np.abs(one - loss_gradient @ reference.activate(activation, S))
                <= 1e-13 * (np.abs(loss_gradient) @ reference.activate(activation, size))
            )
        size = (np.abs(loss_gradient)[:, None] * reference.slope(activation, size)).T @ np.abs(
            inputs
        )
        wanted = reference.dense_gradient(points, inputs, loss_gradient, activation)
        assert np.all(np.abs(unblocked(G, n) - wanted) <= 1e-13 * size)
        # it can fail
        assert not wanted.any() or np.any(
            np.abs(unblocked(G, n) - (1 + 1e-11) * wanted) > 1e-13 * size
        )
        assert np.array_equal(G, blocked(unblocked(G, n), G.shape[2]))  # zero on the padding
        points = rng.normal(size=(n, p))
        operator.points[:] = blocked(points, operator.points.shape[2])


@pytest.mark.parametrize(
    "shape", [(5000, 50, 3), (1000, 256, 16), (333, 21, 300), (5, 100, 2), (40000, 30, 4)]
)
def test_results_do_not_depend_on_the_number_of_threads(shape, rng):
    n, n_data, p = shape
    points, inputs = rng.normal(size=(n, p)), rng.normal(size=(n_data, p))
    weights, loss_gradient, results = rng.normal(size=n), rng.normal(size=n_data), []
    operator = DenseOperator(points, inputs, RELU)
    for threads in (1, numba.config.NUMBA_NUM_THREADS):
        previous = numba.get_num_threads()
        numba.set_num_threads(threads)
        h, J, G = np.empty(n_data), np.empty(n), np.empty_like(operator.points)
        operator.forward(weights, h)
        operator.gradient(loss_gradient, J, G)
        results.append((h, J, G))
        numba.set_num_threads(previous)
    assert all(np.array_equal(one, two) for one, two in zip(*results, strict=True))


def test_potential_and_gradient_do_not_depend_on_the_blocks(rng):
    points, inputs, loss_gradient, results = (
        rng.normal(size=(777, 5)),
        rng.normal(size=(99, 5)),
        rng.normal(size=99),
        [],
    )
    for width in (16, 48, 512):
        operator = DenseOperator(blocked(points, width), inputs, RELU)
        J, G = np.empty(777), np.empty_like(operator.points)
        operator.gradient(loss_gradient, J, G)
        results.append(np.column_stack([J, unblocked(G, 777)]))
    assert np.array_equal(results[0], results[1]) and np.array_equal(results[0], results[2])


def gradient_of(operator, n, loss_gradient):
    J, G = np.full(n, np.nan), np.full_like(operator.points, np.nan)
    operator.gradient(loss_gradient, J, G)
    return J, G


@pytest.mark.parametrize("shape", [(1000, 256, 16), (5000, 50, 3), (90, 500, 801)])
def test_what_forward_keeps_of_the_products_changes_no_bit_of_the_gradient(shape, rng):
    """Points or data that have changed since are seen; and it can fail."""
    n, n_data, p = shape
    loss_gradient, h = rng.normal(size=n_data), np.zeros(n_data)
    inputs, others = rng.normal(size=(2, n_data, p))
    points, moved = rng.normal(size=(2, n, p))
    operator = DenseOperator(points, inputs, RELU)
    gradient_of(operator, n, loss_gradient)
    assert operator.marks.size == operator.points.size // p * len(operator.columns)

    def same(points, inputs):
        alone = gradient_of(DenseOperator(points, inputs, RELU), n, loss_gradient)
        found = gradient_of(operator, n, loss_gradient)
        return all(np.array_equal(one, two) for one, two in zip(alone, found, strict=True))

    operator.forward(np.zeros(n), h)
    assert same(points, inputs)
    operator.points[:] = blocked(moved, operator.points.shape[2])
    assert same(moved, inputs)
    operator.marked[:] = operator.points  # as if they were those of the last forward
    assert not same(moved, inputs)
    operator.forward(np.zeros(n), h)
    assert same(moved, inputs)
    operator.set_inputs(others)
    assert same(moved, others)


@pytest.mark.parametrize("activation", [LINEAR, RELU, SQUARED_RELU])
def test_nan_is_passed_on(activation):
    points = np.ones((3, 2))
    points[1, 0] = np.nan
    operator, h, J = DenseOperator(points, np.ones((4, 2)), activation), np.empty(4), np.empty(3)
    operator.forward(np.ones(3), h)
    operator.adjoint(np.ones(4), J)
    K, _ = gradient_of(operator, 3, np.ones(4))
    assert np.all(np.isnan(h)) and np.array_equal(np.isnan(J), [False, True, False])
    assert np.array_equal(np.isnan(K), np.isnan(J))


def test_wrong_arrays_are_refused(rng):
    with pytest.raises(ValueError, match="multiple of"):
        DenseOperator(np.zeros((2, 3, 10)), np.zeros((4, 3)), RELU)
    with pytest.raises(ValueError, match="shape"):
        DenseOperator(np.zeros((5, 3)), np.zeros((4, 3)), RELU).set_inputs(np.zeros((5, 3)))


@pytest.mark.parametrize("activation", [LINEAR, RELU, SQUARED_RELU])
@pytest.mark.parametrize("shape", [(1, 1, 1), (17, 9, 5), (5000, 300, 3), (40000, 30, 4)])
def test_single_precision_is_exact_to_its_own_rounding(activation, shape, rng):
    n, n_data, p = shape
    points, inputs, weights, loss_gradient = (
        rng.normal(size=s) for s in ((n, p), (n_data, p), n, n_data)
    )
    operator, h, J = (
        DenseOperator(points, inputs, activation, single=True),
        np.full(n_data, np.nan),
        np.full(n, np.nan),
    )
    operator.forward(weights, h), operator.adjoint(loss_gradient, J)
    size = reference.activate(activation, np.abs(inputs) @ np.abs(points.T))
    errors = np.abs(h - reference.dense_forward(points, inputs, weights, activation)) / (
        size @ np.abs(weights)
    )
    errors = np.append(
        errors,
        np.abs(J - reference.dense_adjoint(points, inputs, loss_gradient, activation))
        / (np.abs(loss_gradient) @ size),
    )
    assert errors.max() < 3e-7 and (n < 5 or errors.max() > 1e-10)  # 1e-10: they are not double


@pytest.mark.parametrize("activation", [LINEAR, RELU, SQUARED_RELU])
def test_features_by_matrix_and_pullback_give_the_same_sums(activation, rng):
    points, inputs, loss_gradient, weights = (
        rng.normal(size=(70, 3)),
        rng.normal(size=(33, 3)),
        rng.normal(size=33),
        rng.normal(size=70),
    )
    by_matrix = MatrixOperator(reference.activate(activation, inputs @ points.T))
    h, J = np.empty(33), np.empty(70)
    by_matrix.forward(weights, h)
    by_matrix.adjoint(loss_gradient, J)
    assert np.allclose(
        h, reference.dense_forward(points, inputs, weights, activation), rtol=1e-12, atol=1e-13
    )
    assert np.allclose(
        J,
        reference.dense_adjoint(points, inputs, loss_gradient, activation),
        rtol=1e-12,
        atol=1e-13,
    )
    by_function = FunctionOperator(
        points, rng.normal(size=(33, 3)),
        lambda points, inputs: reference.activate(activation, inputs @ points.T),
        lambda points, inputs,
        loss_gradient: reference.dense_gradient(points, inputs, loss_gradient, activation),
    )  # fmt: skip
    by_function.set_inputs(inputs)
    k, K, G = np.empty(33), np.empty(70), np.empty_like(by_function.points)
    by_function.forward(weights, k)
    by_function.gradient(loss_gradient, K, G)
    assert np.allclose(k, h, rtol=1e-12, atol=1e-13) and np.allclose(K, J, rtol=1e-12, atol=1e-13)
    assert np.allclose(
        unblocked(G, 70),
        reference.dense_gradient(points, inputs, loss_gradient, activation),
        rtol=1e-12,
        atol=1e-13,
    )
