"""Equal rows are found as NumPy finds them."""

import numpy as np
import pytest

from hkflow.geometry.rows import sums_of_rows, unique_rows


@pytest.mark.parametrize("kind", [np.int64, float])
def test_rows_are_those_of_numpy(rng, kind):
    for _ in range(200):
        rows = rng.integers(-2, 3, size=(rng.integers(0, 40), rng.integers(1, 5))).astype(kind)
        _, first, places = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        found, where = unique_rows(rows)
        assert np.array_equal(found, first)
        assert np.array_equal(where, places.ravel())


def test_both_zeros_are_one_number():
    assert unique_rows(np.array([[1.0, 0.0], [1.0, -0.0]]))[1].tolist() == [0, 0]


def test_rows_of_a_group_are_added(rng):
    rows, group = rng.normal(size=(50, 3)), rng.integers(0, 7, 50)
    wanted = np.zeros((9, 3))
    np.add.at(wanted, group, rows)
    assert np.array_equal(sums_of_rows(group, rows, 9), wanted)
