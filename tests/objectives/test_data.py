import numpy as np
import pytest

from hkflow import FEATURES
from hkflow.objectives import data


def test_cluster_grid_lies_in_discs_of_one_class_each(rng):
    x, y = data.cluster_grid(rng, dim=4, clusters=3)(rng, 400)
    assert x.shape == (400, 4) and np.abs(x).max() <= 0.5 and set(y) == {-1.0, 1.0}
    step, radius = 3 / 8, 1 / 8
    cell = np.rint((x[:, :2] + 0.5 - radius) / step)
    assert np.linalg.norm(x[:, :2] - (-0.5 + radius + step * cell), axis=1).max() <= radius
    for one in np.unique(cell, axis=0):
        assert len(set(y[(cell == one).all(axis=1)])) == 1


def test_classes_of_clusters_can_be_given_and_count_from_the_lower_left(rng):
    classes = [1, 1, -1, 1]
    for _ in range(2):  # whatever the generator
        x, y = data.cluster_grid(rng, dim=3, clusters=2, classes=classes)(rng, 200)
        right, upper = (x[:, :2] > 0.0).T
        assert np.array_equal(y < 0.0, upper & ~right)


def test_xor_is_the_product_of_two_signs(rng):
    x, y = data.xor(rng, dim=5)(rng, 100)
    assert np.array_equal(np.abs(x[:, :2]), np.ones((100, 2))) and np.array_equal(
        y, x[:, 0] * x[:, 1]
    )
    assert 0.5 < x[:, 2:].std() < 1.5


def test_parity_counts_signs(rng):
    x, y = data.parity(rng, dim=4, bits=3)(rng, 64)
    assert np.allclose(np.linalg.norm(x, axis=1), 1.0, rtol=1e-14)
    assert np.array_equal(y, np.sign(x[:, :3]).prod(axis=1))


def test_teacher_keeps_its_margin(rng):
    x, y = data.teacher(
        rng, FEATURES["relu"], dim=2, units=6, bias=True, classify=True, margin=0.1
    )(rng, 200)
    assert x.shape == (200, 2) and set(y) == {-1.0, 1.0}
    with pytest.raises(ValueError, match="too large"):
        data.teacher(rng, FEATURES["relu"], classify=True, margin=1e6, tries=3)(rng, 20)


def test_the_same_seed_gives_the_same_bits():
    generators = (np.random.default_rng(seed) for seed in (3, 3, 4))
    one, two, other = (data.xor(rng, dim=4)(rng, 10)[0] for rng in generators)
    assert np.array_equal(one, two) and not np.array_equal(one, other)


def standardized(x):
    size, mean, spread = data.standardization(x)
    return (x / size - mean) / spread


def test_axes_have_one_sign_whatever_the_order_of_rows(rng):
    """Those of two standardized inputs have two entries of one size, of which rounding chose one,
    so that runs of the same rows in another order had mirrored inputs."""
    for _ in range(20):
        x = rng.standard_normal((20, 2))
        x[:, 1] -= x[:, 0]
        size, mean, spread = data.standardization(x)
        x = (x / size - mean) / spread
        axes = data.principal_axes(x, 2)[1]
        assert (axes[:, 0] > 0.0).all()
        assert data.principal_axes(x[::-1], 2)[1] == pytest.approx(axes, rel=1e-12)


def test_standardization_and_principal_axes(rng):
    x = rng.normal(size=(50, 3)) @ np.diag([1.0, 5.0, 0.1]) + 7.0
    z = standardized(x)
    assert np.allclose(z.mean(axis=0), 0, atol=1e-13) and np.allclose(z.std(axis=0), 1, rtol=1e-13)
    assert np.allclose(standardized(1e200 * x), z, rtol=1e-12)
    assert np.allclose(standardized(1e-200 * x), z, rtol=1e-12)
    with pytest.raises(ValueError, match="column 1 is constant"):
        data.standardization(np.column_stack([x[:, 0], np.full(50, 0.1)]))
    center, axes = data.principal_axes(x, 2)
    c = (x - center) @ axes.T
    values = np.linalg.eigvalsh(np.cov(x.T, bias=True))[::-1]
    assert np.allclose(np.cov(c.T, bias=True), np.diag(values[:2]), atol=1e-10)


@pytest.mark.parametrize("bias", [False, True])
def test_a_teacher_of_both_layers_is_the_one_of_the_input_layer(bias):
    """Its units are (a, b) with b = ±1; before, these points lacked their last coordinate."""
    (x, y), (x_joint, y_joint) = (
        data.teacher(np.random.default_rng(4), FEATURES[name], 3, 5, bias)(
            np.random.default_rng(5), 50
        )
        for name in ("relu", "joint-relu")
    )
    assert np.array_equal(x, x_joint) and np.abs(y).max() > 0.1
    assert y_joint == pytest.approx(y, rel=1e-13, abs=1e-14)


def test_distributions_of_the_plane_refuse_other_inputs_and_classes(rng):
    for make in (data.xor, data.cluster_grid):
        with pytest.raises(ValueError, match="number of inputs must be a whole number, at least 2"):
            make(rng, dim=1)
    for classes in ([1, -1], [1, -1, 0, 1]):
        with pytest.raises(ValueError, match="classes must be 4 labels 1 or -1"):
            data.cluster_grid(rng, clusters=2, classes=classes)
