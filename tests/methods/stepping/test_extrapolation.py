import numpy as np
import pytest

from hkflow.methods.stepping.extrapolation import GAUSS, STRETCH, extrapolate, usable


@pytest.mark.parametrize("ages", [[], [0.3], [0.3, 0.4], [0.1, 1.7, 2.0]])
def test_polynomials_of_its_degree_are_extrapolated_exactly(ages):
    nodes, times, degree = -np.array([0.0, *ages]), np.array([0.7, -0.05]), len(ages)
    powers = np.arange(degree + 2)
    values, out = nodes[:, None] ** powers, np.zeros((2, degree + 2))
    extrapolate(values, np.array(ages), times, out)
    wrong = np.abs(out - times[:, None] ** powers)
    assert wrong[:, :-1].max() < 1e-12 and wrong[0, -1] > 1e-3  # and no others


def test_the_two_points_of_a_step_give_the_mean_of_a_cubic():
    for power in range(4):
        assert np.mean(GAUSS**power) == pytest.approx(1.0 / (power + 1), rel=1e-15)
    assert np.mean(GAUSS**4) != pytest.approx(0.2, rel=1e-3)


def test_a_step_much_longer_than_the_past_is_extrapolated_from_less_of_it():
    assert usable(np.array([0.1, 0.0]), 5.0) == 1 and usable(np.zeros(2), 5.0) == 0
    assert (
        usable(np.array([0.1, 0.2]), 0.1) == 2
        and usable(np.array([0.1, 0.2]), 1.01 * 0.2 * STRETCH) == 1
    )
