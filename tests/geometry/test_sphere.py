import numpy as np
import pytest
from scipy.stats import qmc

from hkflow.geometry.point_sets import halton, quasi_uniform
from hkflow.geometry.sphere import by_rows, distance, normalize, surface_area, triangle_area


def test_surface_areas():
    assert [surface_area(d) for d in (1, 2, 3)] == pytest.approx(
        [2 * np.pi, 4 * np.pi, 2 * np.pi**2], rel=1e-14
    )


def test_distance_is_accurate_near_zero_and_near_antipodes():
    x = np.array([1.0, 0.0, 0.0])
    for angle in (1e-12, 1e-6, 1.0, np.pi - 1e-6):
        y = np.array([np.cos(angle), np.sin(angle), 0.0])
        assert distance(x, y) == pytest.approx(angle, rel=1e-9, abs=0.0)


def test_vectors_of_any_length_are_normalized():
    for size in (1e-200, 1.0, 1e200):
        assert normalize(size * np.array([3.0, 0.0, -4.0])) == pytest.approx(
            [0.6, 0.0, -0.8], rel=1e-15
        )


def test_octant_has_an_eighth_of_the_area_and_a_sign():
    a, b, c = np.eye(3)
    assert triangle_area(a, b, c) == pytest.approx(np.pi / 2, rel=1e-15)
    assert triangle_area(a, c, b) == pytest.approx(-np.pi / 2, rel=1e-15)


def test_small_triangle_is_nearly_flat():
    h = 1e-4
    points = normalize(np.array([[1, 0, 0], [1, h, 0], [1, 0, h]]))
    assert triangle_area(*points) == pytest.approx(h * h / 2, rel=1e-7)


@pytest.mark.parametrize("dim", [1, 2, 3, 100, 101, 20_000])
def test_quasi_uniform_points_are_unit_vectors_without_a_preferred_direction(dim):
    """In 20,000 dimensions the tables of a Halton sequence would not fit into memory."""
    n = 400 if dim < 1000 else 20
    points = quasi_uniform(n, dim)
    assert points.shape == (n, dim + 1)
    assert np.linalg.norm(points, axis=1) == pytest.approx(np.ones(n), rel=1e-14)
    # of independent points about 1/√n
    assert np.linalg.norm(points.mean(axis=0)) < 1.1 / np.sqrt(n)
    assert np.array_equal(points, quasi_uniform(n, dim))


@pytest.mark.parametrize("n, axes", [(1, 4), (1000, 4), (300, 101)])
def test_a_halton_sequence_is_that_of_scipy(n, axes):
    wanted = qmc.Halton(axes, rng=0).random(n)
    assert np.array_equal(halton(n, axes), wanted)


@pytest.mark.parametrize("p", [1, 2, 3, 7, 8, 9, 30])
@pytest.mark.parametrize("shape", [(), (1,), (1000,), (0,), (30, 20)])
def test_points_are_normalised_with_the_bits_of_sums_over_each_row(p, shape, rng):
    x = rng.normal(size=(*shape, p)) * 10.0 ** rng.uniform(-9, 9, (*shape, 1))
    scaled = x / np.abs(x).max(axis=-1, keepdims=True)
    wanted = scaled / np.linalg.norm(scaled, axis=-1, keepdims=True)
    assert np.array_equal(normalize(x), wanted)
    assert np.array_equal(by_rows(np.logical_or, x > 1.0), (x > 1.0).any(axis=-1))
