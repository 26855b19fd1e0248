"""Rates that vary in time: against closed forms, against scipy, and from case files."""

from copy import copy, deepcopy
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from conftest import moment_problem
from scipy.integrate import solve_ivp

import hkflow
from hkflow.methods.particles.particles import Particles
from hkflow.problem.flow import VaryingRate

CASE = """
[data]
source = "inline"
inputs = [[1.0, 0.2], [-0.5, 1.0], [0.3, -0.4]]
targets = [1.0, -0.5, 0.2]
[domain]
kind = "sphere"
cells = 64
[flow]
transport = "1 + sin(3*t)"
reaction = "4*exp(-t)"
[objective]
activation = "squared-relu"
loss = "square"
[time]
end = 0.6
saves = 3
"""


def with_flow(problem, flow):
    """The same problem with another flow, whose closed form nobody knows."""
    problem = copy(problem)
    for name, value in (("flow", flow), ("exact", None)):
        object.__setattr__(problem, name, value)
    return problem


@pytest.mark.parametrize("stepper", ["muscl-hancock", "ssprk3"])
def test_a_factor_that_all_rates_have_in_common_is_a_change_of_time(stepper):
    """c(t) = 2t: the closed form at s = ∫c dt = t², to second order in the mesh."""
    errors = []
    for cells in (64, 128):
        problem = moment_problem(hkflow.circle_mesh(cells), 1.0, 4.0)
        other = with_flow(problem, hkflow.Flow("2*t", lambda t: 8.0 * t))
        found = hkflow.solve(other, 1.2, stepper=stepper, tolerance=1e-5)
        assert found.finished
        exact = problem.exact.density(problem.mesh.centers, 1.44)
        errors.append(np.abs(found.density[-1, 0] - exact) @ problem.mesh.volumes)
    assert errors[1] < 2e-3 and 1.8 < np.log2(errors[0] / errors[1]) < 2.4, errors


@pytest.mark.parametrize(
    "rate, integral",
    [
        ("2*t", 1.5**2),
        ("where(t < 0.7, 2, 0)", 1.4),  # a jump within a step, whichever it is
        ("where(t < 0.77, 0, 1)", 0.73),
        ("1 + sin(40*t)", 1.5 + (1.0 - np.cos(60.0)) / 40.0),
        (lambda t: abs(t - 0.4), 0.08 + 0.605),
    ],
)
def test_noise_that_varies_makes_a_density_uniform_by_its_integral(rate, integral):
    start = hkflow.Problem(
        hkflow.circle_mesh(32),
        moment_problem(hkflow.circle_mesh(32)).objective,
        hkflow.Flow(0.0, 0.0, rate),
        initial=lambda x, sign: 1.0 + 0.5 * x[:, 0],
    )
    found = hkflow.solve(start, 1.5)
    u = start.uniform
    wanted = u + np.exp(-integral) * (start.initial - u)
    assert np.abs(found.density[-1] - wanted).max() < 1e-11 * u


def test_a_rate_that_is_noise_itself_has_a_mean_all_the_same():
    """Pieces are no more than MOST_PIECES at a time."""
    asked = []

    def noisy(t):
        asked.append(t)
        return float(np.random.default_rng(int(t * 1e9)).random())

    flow = hkflow.Flow(noisy)
    flow.over(0.0, 1.0)
    assert abs(float(flow.transport) - 0.5) < 0.02 and len(asked) < 50_000


def scipy_particles(alpha, beta, end, n=24, jumps=(0.5,)):
    """Moments (2, n) of particles on the circle at the end, and the problem."""
    m_star, e = 0.8, np.array([0.6, -0.8])
    angles = (np.arange(n) + 0.5) * 2 * np.pi / n

    def rate(t, state):
        theta = np.array([np.cos(state[:n]), np.sin(state[:n])])
        turn = np.array([-theta[1], theta[0]])
        force = theta @ np.exp(state[n:]) - m_star * e
        return np.concatenate([-alpha(t) * (force @ turn), -beta(t) * (force @ theta)])

    state = np.concatenate([angles, np.full(n, -np.log(n))])
    for piece in pairwise([0.0, *jumps, end]):
        state = solve_ivp(rate, piece, state, rtol=1e-11, atol=1e-13, method="DOP853").y[:, -1]
    theta = np.array([np.cos(state[:n]), np.sin(state[:n])])
    points = np.array([np.cos(angles), np.sin(angles)]).T
    start = hkflow.PointMeasure(points, np.ones(n), np.full(n, 1.0 / n))
    problem = moment_problem(hkflow.circle_mesh(16), axis=(0.6, -0.8))
    return theta * np.exp(state[n:]), hkflow.Problem(
        None, problem.objective, hkflow.Flow(), initial=start
    )


def moments(solution):
    atoms = solution.atoms_at(-1)
    return atoms.positions.T * atoms.weights


APART = hkflow.Flow("1 + 0.8*sin(5*t)", "2*exp(-t)")  # the two do not commute


def apart():
    return scipy_particles(lambda t: 1.0 + 0.8 * np.sin(5.0 * t), lambda t: 2.0 * np.exp(-t), 1.0)


def errors_of_steps(stepper, counts):
    """Of so many equal steps."""
    wanted, problem = apart()
    errors = []
    for count in counts:
        method, dt = Particles(with_flow(problem, APART.own()), stepper), 1.0 / count
        for k in range(count):
            method.take_rates(k * dt, dt, 0.0, implicit=False)
            method.accept(method.advance(dt))
        end = method.measure(method.state())
        errors.append(np.linalg.norm(end.positions.T * end.weights - wanted))
    return errors


@pytest.mark.parametrize("stepper, order, counts", [("dopri5", 5, (8, 16)), ("dop853", 8, (2, 4))])
def test_rates_that_vary_apart_leave_the_pair_its_order(stepper, order, counts):
    """The coefficient of order 5 of dopri5 is so small that 6 is seen, as with constant rates."""
    coarse, fine = errors_of_steps(stepper, counts)
    assert order - 0.5 < np.log2(coarse / fine) < order + 1.2, (coarse, fine)


def test_rates_of_the_begin_of_a_step_would_not_do(monkeypatch):
    """The sibling: one value instead of those of the stages."""
    values = VaryingRate.values
    first = lambda self, times: values(self, np.full(len(times), times[0]))
    monkeypatch.setattr(VaryingRate, "values", first)
    coarse, fine = errors_of_steps("dopri5", (8, 16))
    assert fine > 1e-3 and np.log2(coarse / fine) < 1.5


def test_rates_that_vary_apart_do_not_shorten_steps():
    wanted, problem = apart()
    found = hkflow.solve(with_flow(problem, APART), 1.0, kind="particles", tolerance=1e-7)
    assert found.records["step"][-1] < 30 and np.abs(moments(found) - wanted).max() < 1e-8


@pytest.mark.parametrize("centre", [0.34, 0.58, 0.88])
def test_a_rate_that_acts_between_stages_is_seen(centre):
    half, high = 0.03, 30.0
    acts = lambda t: high if abs(t - centre) < half else 0.0
    jumps = centre - half, centre + half
    wanted, problem = scipy_particles(lambda t: 1.0, acts, 1.0, jumps=jumps)
    flow = hkflow.Flow(1.0, f"where(abs(t - {centre}) < {half}, {high}, 0)")
    found = hkflow.solve(with_flow(problem, flow), 1.0, kind="particles", tolerance=1e-5)
    assert found.finished and np.abs(moments(found) - wanted).max() < 1e-5


def test_a_rate_may_jump():
    wanted, problem = scipy_particles(lambda t: 1.0, lambda t: 4.0 if t < 0.5 else 1.0, 1.0)
    flow = hkflow.Flow(1.0, "where(t < 0.5, 4, 1)")
    found = hkflow.solve(with_flow(problem, flow), 1.0, kind="particles", tolerance=1e-6)
    assert found.finished and found.records["step"][-1] < 150
    assert np.abs(moments(found) - wanted).max() < 1e-5


def test_a_flow_says_its_rates_and_keeps_them():
    flow = hkflow.Flow("1 + t", 4.0, "0.1*exp(-t)")
    assert flow.transport == VaryingRate("1 + t", 1.0) and flow.noise > 0.0
    assert flow.equation == "∂ₜν = (1 + t) div(ν ∇J) − 4 ν J − (0.1*exp(-t)) (ν − U)"
    assert flow.varies == ("transport", "noise") and not replace(flow, transport=1, noise=0).varies
    for other in (
        deepcopy(flow),
        replace(flow, drive=None),
        eval(repr(flow), {"Flow": hkflow.Flow}),
    ):
        assert other == flow and hash(other) == hash(flow)
    assert flow != hkflow.Flow("1 + 2*t", 4.0, "0.1*exp(-t)")
    flow.own().over(1.0, 0.5)
    assert float(flow.transport) == pytest.approx(1.0, rel=1e-15)  # a solve takes a copy


@pytest.mark.parametrize(
    "flow, options, sentence",
    [
        (("1 - t",), {}, "transport must be finite and at least 0 at all times, got -0"),
        ((1.0, 0.0, "0.1 + t"), {"kind": "particles"}, "no noise that varies, got '0.1"),
        (("1 + t",), {"kind": "characteristics"}, "no transport that varies"),
    ],
)
def test_what_cannot_vary_is_said(flow, options, sentence):
    problem = with_flow(moment_problem(hkflow.circle_mesh(16)), hkflow.Flow(*flow))
    if options:
        with pytest.raises(ValueError, match=sentence):
            hkflow.solve(problem, 2.0, **options)
    else:
        assert sentence in hkflow.solve(problem, 2.0).status


def test_a_case_whose_rate_becomes_negative_is_refused_at_once():
    """It was called valid, and its run stopped at t = 3.1."""
    case, wave = "cases/wei/perturbed.toml", {"flow.noise": "sin(t)"}
    with pytest.raises(hkflow.CaseError, match=r"toml:27: flow: noise must be finite .* at t = "):
        hkflow.check(case, **wave)
    assert hkflow.check(case, **wave, **{"time.end": 3.0})


def test_an_error_of_a_rate_s_own_function_is_no_end_of_a_run():
    def broken(t):
        if t > 0.1:
            raise ValueError("no table beyond 0.1")
        return 1.0

    problem = with_flow(moment_problem(hkflow.circle_mesh(16)), hkflow.Flow(broken))
    with pytest.raises(ValueError, match="no table beyond") as error:
        hkflow.solve(problem, 1.0)
    assert error.value.solution.time[0] == 0.0  # what was computed until then


class Rising:
    def __call__(self, t):
        return 1.0 + t


def test_a_rate_is_any_function_of_time():
    """Named or not."""
    wanted = hkflow.Flow("1 + t", "1 + t")
    flow = hkflow.Flow(Rising(), partial(float.__add__, 1.0))
    assert flow.equation == "∂ₜν = Rising(t) div(ν ∇J) − partial(t) ν J"
    ends = [
        hkflow.solve(with_flow(moment_problem(hkflow.circle_mesh(16)), one), 1.0).predictions[-1]
        for one in (flow, wanted)
    ]
    assert np.array_equal(*ends)


@pytest.mark.parametrize(
    "rate, why",
    [
        (lambda t: [1.0 + t], r"transport must be one real number at a time, got array\(\[1"),
        (lambda t: 1.0 + t + 0j, "transport must be one real number at a time, got .*0j"),
        (lambda t: "1", "transport must be one real number at a time, got .*'1'"),
        (lambda t: None, "transport must be one real number at a time, got None"),
    ],
)
def test_what_is_no_rate_is_told(rate, why):
    with pytest.raises(ValueError, match=why):
        hkflow.Flow(rate)


def test_formulas_are_checked_where_they_are_given():
    with pytest.raises(ValueError, match="'x' is unknown. Choose from: t, pi"):
        hkflow.Flow("1 + x")
    with pytest.raises(ValueError, match="constant rates"):
        moment_problem(hkflow.circle_mesh(16), transport="1 + t")


def test_an_interaction_bounds_steps_by_the_rates_of_now():
    """A kernel keeps its bounds by rates, and rates that vary are equal at all times."""
    total = hkflow.Sum(hkflow.Interaction("quadratic"), axes=2)
    flow = hkflow.Flow("1 + t", "4*exp(-t)").own()
    for t in (0.0, 2.0):
        flow.over(t, 0.0)
        bound = total.stiffness(flow.transport, flow.reaction, 1.0, 1.0)
        wanted = total.stiffness(1.0 + t, 4.0 * np.exp(-t), 1.0, 1.0)
        assert bound == pytest.approx(wanted, rel=1e-13)


def test_case_files_give_formulas_and_resume_to_the_same_bits(tmp_path):
    case = tmp_path / "case.toml"
    case.write_text(CASE)
    whole = hkflow.run(case, tmp_path / "whole")
    assert whole.method == "grid" and whole.flow.varies == ("transport", "reaction")
    cut = hkflow.run(case, tmp_path / "cut", observers=[lambda state: state.time > 0.4])
    assert not cut.finished
    again = hkflow.resume(tmp_path / "cut")
    assert again.finished and np.array_equal(again.density, whole.density)
    again = hkflow.run(whole.problem, tmp_path / "problem", end=0.6, saves=3)
    assert again.finished and np.array_equal(again.density, whole.density)
    for value, sentence in (("1 +", "is no formula"), (-1.0, "at least 0, or a formula in t")):
        with pytest.raises(hkflow.CaseError, match=sentence):
            hkflow.run(case, tmp_path / "bad", **{"flow.noise": value})
