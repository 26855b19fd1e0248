"""The right-hand side is the equation: steppers follow it, and its integrals are the budgets."""

import numpy as np
import pytest

import hkflow
from hkflow.methods.grid import right_hand_side
from hkflow.methods.grid.finite_volume import FiniteVolume
from hkflow.methods.grid.steppers import muscl_hancock

SPHERE = hkflow.geodesic_mesh(2)
FLOWS = {
    "all terms": hkflow.Flow(1.0, 2.0, 0.3),
    "mass kept": hkflow.Flow(1.0, 2.0, 0.3, drive="probability"),
    "reaction": hkflow.Flow(0.0, 2.0),
    "depth 3": hkflow.Flow(0.0, 2.0, depth=3.0),
}


def random_problem(flow, seed=4, n=6):
    rng = np.random.default_rng(seed)
    objective = hkflow.Objective(
        hkflow.FEATURES["relu"],
        hkflow.RISKS["square"],
        rng.normal(size=(n, 3)),
        rng.normal(size=n),
        None,
        0.1,
    )
    density = 0.1 + rng.random((2, SPHERE.n_cells))
    return hkflow.Problem(SPHERE, objective, flow, (1, -1), density)


@pytest.fixture(autouse=True)
def no_capture(monkeypatch):
    """The semi-discrete equation is that of the density alone, in which kinks capture nothing."""
    monkeypatch.setattr(muscl_hancock, "captures", lambda problem: False)


def rate_at_start(problem, limiter="mc"):
    """∂_t ν at the initial density, and the Evaluation there."""
    rhs = FiniteVolume(problem, limiter=limiter).rhs
    e = rhs.new_evaluation()
    e.density[:] = problem.initial
    return rhs.rate(e), e


def difference(problem, dt, **options):
    """How far (ν(dt) − ν(0)) / dt is from the right-hand side, relative to it."""
    rate, _ = rate_at_start(problem, limiter="first-order")
    after = hkflow.solve(problem, dt, tolerance=1e9, limiter="first-order", **options).density[-1]
    return np.abs((after - problem.initial) / dt - rate).max() / np.abs(rate).max()


STEPPERS = ["ssprk1", "ssprk2", "ssprk3", "strang", "muscl-hancock"]


@pytest.mark.parametrize("flow", FLOWS.values(), ids=FLOWS)
@pytest.mark.parametrize("stepper", STEPPERS)
def test_a_short_step_follows_the_right_hand_side(stepper, flow):
    assert difference(random_problem(flow), 1e-6, stepper=stepper) < 1e-4


def test_implicit_and_euler_steps_follow_it_as_well():
    problem = random_problem(FLOWS["all terms"])
    assert difference(problem, 1e-6, imex="implicit") < 1e-4
    assert difference(problem, 1e-6, stepper="euler", max_step=1e-6) < 1e-7


@pytest.mark.parametrize("flow", FLOWS.values(), ids=FLOWS)
def test_its_integrals_are_the_budgets(flow):
    problem = random_problem(flow)
    rate, e = rate_at_start(problem)
    change = rate * SPHERE.volumes
    assert np.sum(e.potential * change) == pytest.approx(sum(e.rates.energy), rel=1e-12)
    size = np.abs(change).sum()
    assert np.sum(change) == pytest.approx(sum(e.rates.mass), rel=1e-12, abs=1e-13 * size)


def test_sibling_a_transport_of_the_other_sign_is_seen(monkeypatch):
    honest = right_hand_side.kernels.transport

    def flipped(*arguments):
        honest(*arguments)
        divergence = arguments[-2]
        divergence *= -1.0

    problem = random_problem(FLOWS["all terms"])
    monkeypatch.setattr(right_hand_side.kernels, "transport", flipped)
    assert difference(problem, 1e-6, stepper="muscl-hancock") > 0.1
