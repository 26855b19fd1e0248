import numpy as np
import pytest
import reference

from hkflow.transforms.dense import LINEAR, RELU, SQUARED_RELU, DenseTransform, MatrixTransform


@pytest.mark.parametrize("kernel", [LINEAR, RELU, SQUARED_RELU])
@pytest.mark.parametrize("shape", [(1, 1, 2), (700, 33, 2), (1500, 7, 3), (512, 4, 6)])
def test_both_sums_agree_with_numpy(kernel, shape, rng):
    n, n_data, p = shape
    points, inputs = rng.normal(size=(n, p)), rng.normal(size=(n_data, p))
    weights, residuals = rng.normal(size=n), rng.normal(size=n_data)
    for transform in (DenseTransform(points, inputs, kernel), MatrixTransform(reference.activate(kernel, inputs @ points.T))):
        h, J = np.full(n_data, np.nan), np.full(n, np.nan)
        transform.forward(weights, h)
        transform.adjoint(residuals, J)
        size_h = reference.activate(kernel, np.abs(inputs) @ np.abs(points.T)) @ np.abs(weights)
        assert np.all(np.abs(h - reference.dense_forward(points, inputs, weights, kernel)) <= 1e-13 * size_h)
        size_J = np.abs(residuals) @ reference.activate(kernel, np.abs(inputs) @ np.abs(points.T))
        assert np.all(np.abs(J - reference.dense_adjoint(points, inputs, residuals, kernel)) <= 1e-13 * size_J)


def test_results_do_not_depend_on_the_number_of_threads(rng):
    import numba

    transform = DenseTransform(rng.normal(size=(5000, 3)), rng.normal(size=(50, 3)), RELU)
    weights, results = rng.normal(size=5000), []
    for threads in (1, numba.config.NUMBA_NUM_THREADS):
        previous = numba.get_num_threads()
        numba.set_num_threads(threads)
        results.append(np.empty(50))
        transform.forward(weights, results[-1])
        numba.set_num_threads(previous)
    assert np.array_equal(*results)
