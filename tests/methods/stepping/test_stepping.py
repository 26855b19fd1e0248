from types import SimpleNamespace

import numpy as np
import pytest
from scipy.integrate import RK45, solve_ivp

from hkflow.methods.stepping.embedded import PAIRS
from hkflow.methods.stepping.tableaus import SSPRK1, SSPRK2, SSPRK3, Tableau
from hkflow.solving.stepsize import StepControl, StepSize


@pytest.mark.parametrize("tableau", [SSPRK1, SSPRK2, SSPRK3], ids=lambda t: t.name)
def test_tableau_has_its_order_on_a_nonlinear_equation(tableau):
    def f(u):
        return np.array([u[1], -np.sin(u[0])])

    def run(steps):
        u, dt = np.array([1.0, 0.5]), 1.0 / steps
        for _ in range(steps):
            start = u
            for keep in tableau.keep:
                u = keep * start + (1 - keep) * (u + dt * f(u))
        return u

    wanted = solve_ivp(
        lambda t, u: f(u), (0, 1), [1.0, 0.5], rtol=1e-13, atol=1e-14, method="DOP853"
    ).y[:, -1]
    errors = [np.abs(run(steps) - wanted).max() for steps in (40, 80)]
    assert tableau.order - 0.15 < np.log2(errors[0] / errors[1]) < tableau.order + 0.15


def test_shu_osher_and_butcher_forms_agree_with_the_books():
    A, b = SSPRK3.butcher()
    assert np.allclose(A, [[0, 0, 0], [1, 0, 0], [0.25, 0.25, 0]], atol=1e-16)
    assert np.allclose(b, [1 / 6, 1 / 6, 2 / 3], atol=1e-16)


def test_a_wrong_tableau_is_refused():
    with pytest.raises(ValueError, match="not of order 3"):
        Tableau("typo", 3, (0.0, 3 / 4, 1 / 2))
    with pytest.raises(ValueError, match="convex"):
        Tableau("typo", 1, (-0.5, 0.0))


def test_step_size_hits_the_save_and_leaves_no_sliver():
    size = StepSize(order=3, tolerance=1e-3, limit=1.0)
    assert size.propose(bound=0.3, remaining=0.2) == 0.2
    assert size.propose(bound=0.3, remaining=0.4) == 0.2
    assert size.propose(bound=0.3, remaining=4.0) == 0.3
    assert size.propose(bound=9.0, remaining=4.0) == 1.0


def test_step_size_learns():
    size = StepSize(order=2, tolerance=1e-2, limit=1.0)
    assert not size.learn(0.5, 4e-2) and size.limit == pytest.approx(0.5 * 0.9 / 2)
    assert size.learn(0.2, 1e-12) and size.limit == pytest.approx(0.4)
    assert size.learn(0.4, 0.9e-2) and size.limit == pytest.approx(0.4 * 0.9 / np.sqrt(0.9))


def test_a_step_that_a_save_cut_to_less_than_rounding_shortens_no_others():
    size = StepSize(order=2, tolerance=1e-2, limit=1.0)
    assert size.learn(1e-300, np.finfo(float).eps) and size.limit == 1.0
    assert size.learn(1e-12, 0.0) and size.limit == 1.0
    # sibling: an error that is seen tells of longer steps
    assert size.learn(1e-6, 1e-4) and size.limit == pytest.approx(9e-6)


def test_step_size_halves_a_step_that_shorter_ones_do_not_make_more_accurate():
    size = StepSize(order=4, tolerance=1e-2, limit=1.0, trusted=2)
    as_told = 0.9 / 1.1**0.25
    for shortened in (as_told, as_told, 0.5, 0.5):
        assert not size.learn(0.4, 1.1e-2) and size.limit == pytest.approx(0.4 * shortened)
    for accurate in (1e-2, None):
        assert size.learn(0.4, accurate) and size.rejected == 0
        assert not size.learn(0.4, 1.1e-2)
    assert size.limit == pytest.approx(0.4 * as_told)


@pytest.mark.parametrize("first", [False, True])
def test_an_accepted_step_of_either_kind_forgets_the_rejections_of_both(first):
    method = SimpleNamespace(order=4, implicit_order=2, trusted=2, tolerance=1e-2, max_step=np.inf)
    control = StepControl(method, [1.0, 1.0], first)
    assert not control.learn(0.4, 1.1e-2) and control.size.rejected == 1
    control.implicit = not first
    assert control.learn(0.4, 1e-3)
    assert [size.rejected for size in control.sizes] == [0, 0]


def test_step_size_does_not_run_away_when_rounding_hides_the_error():
    size = StepSize(order=2, tolerance=1e-2, limit=0.5)
    assert size.learn(0.1, None) and size.limit == 0.5
    assert size.learn(0.5, None) and size.limit == pytest.approx(0.505)


def test_dopri5_is_that_of_scipy():
    pair = PAIRS["dopri5"]()
    assert np.array_equal(pair.A[:, :5], RK45.A) and not pair.A[:, 5].any()
    assert np.array_equal(pair.b, RK45.B) and np.array_equal(pair.estimates[0], RK45.E)
