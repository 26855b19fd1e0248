import numpy as np
import pytest

import hkflow
from hkflow.methods.stepping.extrapolation import GAUSS, NEAREST, STRETCH, extrapolate, usable


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


def test_states_that_differ_by_rounding_alone_are_not_extrapolated_from():
    assert usable(np.array([1e-80, 0.1]), 1.0) == 0
    assert usable(np.array([0.1, 0.1 + 1e-80]), 0.1) == 1
    assert usable(np.array([0.99 * NEAREST, 1.0]), 1.0) == 0
    assert usable(np.array([1.01 * NEAREST, 1.0]), 1.0) == 2
    assert usable(np.array([1.0, 1.0 + 0.99 * NEAREST]), 1.0) == 1
    # what comes of it: equal ages count twice
    out = np.zeros((1, 1))
    extrapolate(np.ones((3, 1)), np.array([0.1, 0.1]), np.array([0.2]), out)
    assert out[0, 0] != pytest.approx(1.0, rel=0.1)


@pytest.mark.parametrize("kind", ["grid", "characteristics"])
@pytest.mark.parametrize("cut", [[1e-300], [1e-17], [0.05, 0.05 + 1e-16]])
def test_a_save_that_cuts_a_step_to_nearly_nothing_changes_no_result(kind, cut):
    """A step after one of 1e-80 began with slopes of rounding over 1e-80: no run got past it."""
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((5, 2)), np.sign(rng.standard_normal(5))
    problem = hkflow.Problem(
        hkflow.circle_mesh(64),
        hkflow.Objective(hkflow.FEATURES["relu"], hkflow.RISKS["logistic"], x, y),
        hkflow.Flow(1.0, 1.0),
        signs=(1, -1),
        initial=np.full((2, 64), 0.25 / np.pi),
    )
    plain, cut = (hkflow.solve(problem, 1.0, [*at, 1.0], kind=kind) for at in ([0.05], cut))
    assert plain.finished and cut.finished and cut.end["steps"] <= plain.end["steps"] + 6
    assert cut.predictions[-1] == pytest.approx(plain.predictions[-1], abs=2e-4)
    assert cut.predictions[-1] != pytest.approx(cut.predictions[0], abs=1e-2)
