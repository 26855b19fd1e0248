"""Orders of convergence against closed-form solutions, in bands on both sides, each with a sibling
that must fail."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from conftest import exact_errors, moment_problem, order

import hkflow
from hkflow.methods.grid import muscl_hancock as hancock
from hkflow.methods.grid.finite_volume import FiniteVolume
from hkflow.solving.solve import integrate

TIME = 2.0
LEVELS = (3, 4, 5)
BETWEEN = (362, 1442, 5762)  # cells of the meshes between
LIMITS = {0.0: (3.6e-3, 9e-4, 2.3e-4, 6e-5), 4.0: (1e-3, 2.5e-4, 7e-5, 2e-5)}
BAND = (1.8, 2.3)


@cache
def sphere(level):
    return hkflow.geodesic_mesh(level)


def errors(
    meshes,
    sabotage=lambda method: None,
    reaction=0.0,
    transport=1.0,
    axis=(0.3, -0.5, 0.8),
    **options,
):
    """L1 and maximum errors at t = 2, (n_meshes, 2). sabotage: changes the method before it
    runs."""
    result = []
    for mesh in meshes:
        problem = moment_problem(mesh, transport, reaction, axis=axis)
        method = FiniteVolume(problem, **options)
        sabotage(method)
        _, status, finished = integrate(method, [TIME])
        assert finished, status
        result.append(exact_errors(problem, method.current.density, TIME))
    return np.array(result)


def in_band(orders, band=BAND):
    return band[0] <= orders[-1] <= band[1]


@pytest.mark.parametrize("reaction", LIMITS)
def test_sphere_meets_the_stated_errors_at_second_order(reaction):
    e = errors(map(sphere, (*LEVELS, 6)), reaction=reaction)
    assert np.all(e[:, 0] <= LIMITS[reaction])
    assert in_band(order(e[:, 0])), order(e[:, 0])
    assert in_band(order(e[:, 1])), order(e[:, 1])


def between(reaction):
    """Errors on the meshes between levels, and whether they lie between those of the levels."""
    e = errors(map(hkflow.Domain(2).mesh, BETWEEN), reaction=reaction)
    levels = errors(map(sphere, (2, *LEVELS)), reaction=reaction)
    return e, np.all((levels[1:] < e) & (e < levels[:-1]))


@pytest.mark.parametrize("reaction", LIMITS)
def test_meshes_between_levels_are_second_order_with_errors_between(reaction):
    e, lie_between = between(reaction)
    assert lie_between and in_band(order(e[:, 0])) and in_band(order(e[:, 1])), (e, order(e))


@pytest.mark.parametrize("axis", [(0.0, 0.0, 1.0), (1.0, 2.0, -0.5)])
def test_errors_hold_along_other_axes(axis):
    e = errors([sphere(3), sphere(4)], axis=axis)
    assert np.all(e[:, 0] <= LIMITS[0.0][:2])


@pytest.mark.parametrize("reaction", LIMITS)
def test_circle_is_second_order(reaction):
    e = errors([hkflow.circle_mesh(n) for n in (64, 128, 256)], reaction=reaction)
    assert in_band(order(e[:, 0])) and in_band(order(e[:, 1])), e


@pytest.mark.parametrize("limiter", ["mc", "van-leer", "minmod", "koren", "ultimate"])
def test_every_limiter_is_second_order_in_the_mean(limiter):
    e = errors([hkflow.circle_mesh(n) for n in (128, 256, 512)], limiter=limiter)
    assert in_band(order(e[:, 0])), order(e[:, 0])


def test_first_order_is_first_order():
    e = errors([hkflow.circle_mesh(n) for n in (128, 256)], limiter="first-order", cfl=0.9)
    assert in_band(order(e[:, 0]), (0.85, 1.15))


# --- siblings: the tests above fail on broken code


def scaled(**factors):
    def change(method):
        stencil = method.rhs.stencil
        arrays = {name: factor * getattr(stencil, name) for name, factor in factors.items()}
        for holder in (method.rhs, method.stepper.frozen.transport):
            holder.stencil = replace(holder.stencil, **arrays)
        method.load(method.state())

    return change


def test_sibling_halved_gradients_lose_the_order():
    e = errors([sphere(3), sphere(4)], scaled(gradient_weights=0.5))
    assert not in_band(order(e[:, 0]))


def test_sibling_faces_taken_at_the_wrong_place_lose_the_maximum_norm_order():
    e = errors([sphere(3), sphere(4), sphere(5)], scaled(offsets=0.0), reaction=4.0)
    assert not in_band(order(e[:, 1]))


def test_sibling_meshes_that_are_not_centroidal_have_larger_errors(monkeypatch):
    levels = errors(map(sphere, LEVELS), reaction=4.0)
    monkeypatch.setattr("hkflow.geometry.geodesic.LLOYD_ITERATIONS", 0)
    e = errors(map(hkflow.Domain(2).mesh, BETWEEN), reaction=4.0)
    assert (e[1:, 1] > levels[:-1, 1]).all() and not in_band(order(e[:, 1])), (e, order(e))


def test_sibling_reaction_two_for_four_misses_the_stated_error():
    def swap(method):
        method.flow = method.rhs.flow = hkflow.Flow(1.0, 2.0)
        method.load(method.state())

    assert errors([sphere(3)], swap, reaction=4.0)[0, 0] > 10 * LIMITS[4.0][0]


def test_sibling_downwind_flux_is_stopped():
    problem = moment_problem(hkflow.circle_mesh(64))
    method = FiniteVolume(problem)
    scaled(conductances=-1.0)(method)
    _, status, finished = integrate(method, [TIME])
    assert not finished and "objective increased" in status


# --- time

ORDERS = [("ssprk1", 1), ("ssprk2", 2), ("ssprk3", 3), ("strang", 2)]


def at_full_steps(stepper="muscl-hancock", reaction=4.0):
    """Orders in L1 of steps that shrink with the mesh, by the Courant number or by 1/n, whatever
    their budgets."""
    options = {"reaction": reaction, "stepper": stepper, "tolerance": 1e9}
    return order(
        [errors([hkflow.circle_mesh(n)], max_step=1.0 / n, **options)[0, 0] for n in (64, 128, 256)]
    )


@pytest.mark.parametrize("reaction", [0.0, 4.0])
def test_full_steps_are_of_second_order_in_space_and_time(reaction):
    orders = at_full_steps(reaction=reaction)
    assert np.all((orders > 1.75) & (orders < 2.4))


def test_sibling_residuals_of_the_past_lose_the_order(monkeypatch):
    monkeypatch.setattr("hkflow.methods.grid.steppers.muscl_hancock.GAUSS", np.zeros(1))
    assert at_full_steps()[-1] < 1.5


def test_sibling_fluxes_of_the_past_lose_the_order(monkeypatch):
    """Face values at the beginning of the step, in place of those at its middle: plain Euler steps
    of the semi-discrete flow."""
    outgoing, tiny = hancock.outgoing, 1e-6

    def begin(dt, *arguments):
        *_, volumes, density = arguments[:6]
        leaving, kept = arguments[-2:]
        outgoing(tiny * dt, *arguments)
        leaving /= tiny
        np.subtract(density * volumes, leaving.sum(axis=2), out=kept)

    monkeypatch.setattr(hancock, "outgoing", begin)
    assert at_full_steps(reaction=0.0)[-1] < 1.5


@cache
def by_steps(dt, stepper, transport):
    """The density at t = 1 by steps of one length."""
    problem = moment_problem(hkflow.circle_mesh(16), transport, 4.0)
    # first-order fluxes depend smoothly on the density, limited ones have kinks
    solution = hkflow.solve(
        problem, 1.0, stepper=stepper, max_step=dt, tolerance=1e9, limiter="first-order"
    )
    assert solution.records["dt"][1:] == pytest.approx(dt, rel=1e-9)
    return solution.density[-1]


STAGED = [(stepper, wanted, rate) for stepper, wanted in ORDERS for rate in (1.0, 0.0)]


@pytest.mark.parametrize("stepper, wanted, transport", [*STAGED, ("muscl-hancock", 3, 0.0)])
def test_steppers_have_their_order_in_time(stepper, wanted, transport):
    """Fixed steps on one coarse mesh against a very fine step: the mesh error cancels. Hancock's
    depends on the step."""
    reference = by_steps(1 / 2048, "ssprk3", transport)
    steps = (1 / 64, 1 / 128, 1 / 256)
    e = [np.abs(by_steps(dt, stepper, transport) - reference).max() for dt in steps]
    assert wanted - 0.2 < order(e)[-1] < wanted + 0.3, order(e)


def test_tolerance_bounds_the_time_error():
    problem = moment_problem(hkflow.circle_mesh(64), 0.0, 4.0)
    found = [
        exact_errors(problem, hkflow.solve(problem, TIME, tolerance=tol).density[-1], TIME)[0]
        for tol in (1e-2, 1e-4, 1e-6)
    ]
    assert found[0] < 1e-3 and found[1] < 1e-5 and found[2] < 1e-7
    assert found[0] > found[1] > found[2]


@cache
def by_tolerance(stepper, tolerance, transport, max_step=np.inf):
    """The density at TIME by steps of a tolerance."""
    problem = moment_problem(hkflow.circle_mesh(16), transport, 4.0)
    method = FiniteVolume(problem, stepper=stepper, tolerance=tolerance, max_step=max_step)
    assert integrate(method, [TIME])[2]
    return method.current.density.copy()


@pytest.mark.parametrize(
    "stepper, transport",
    [("muscl-hancock", 0.0), ("ssprk2", 0.0), ("ssprk3", 0.0), ("ssprk3", 1.0), (None, 1.0)],
)
def test_the_tolerance_is_proportional_to_the_error_in_time(stepper, transport):
    """On a fixed mesh, against short steps of ssprk3, two decades of tolerance are one to three of
    error.

    With transport the error of muscl-hancock holds a term step × mesh width, which its tolerance
    does not see: it fails the same.
    """

    def falls(stepper):
        loose, tight = (
            np.abs(by_tolerance(stepper, tolerance, transport) - limit).max()
            for tolerance in (1e-5, 1e-7)
        )
        return loose / tight

    limit = by_tolerance("ssprk3", 1e-10, transport, 2e-3)
    assert 30.0 < falls(stepper) < 300.0
    assert transport == 0.0 or falls("muscl-hancock") < 30.0
