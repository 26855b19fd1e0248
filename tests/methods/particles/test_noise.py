"""Uniform noise: new mass on a fixed set, or deaths and births, against the grid."""

from dataclasses import replace

import numpy as np
import pytest
from agreement import grid_problem, objective, particle_problem
from scipy.integrate import solve_ivp

import hkflow
from hkflow.measures.point_measure import with_each_sign
from hkflow.methods.choice import make_method
from hkflow.solving.guards import GUARDS
from hkflow.solving.observer import Observer
from hkflow.solving.solve import integrate

FLOW, TIME = hkflow.Flow(1.0, 2.0, 0.5), 1.0


@pytest.fixture(scope="module")
def problem():
    return particle_problem(objective(1, "squared-relu", 30, 5), FLOW, 500)


@pytest.fixture(scope="module")
def wanted(problem):
    return hkflow.solve(
        grid_problem(problem.objective, FLOW, 2048), TIME, tolerance=1e-7
    ).predictions[-1]


def test_injected_mass_converges_at_second_order_in_the_interval(problem, wanted):
    errors = []
    for interval in (0.25, 0.125, 0.0625):
        s = hkflow.solve(
            problem, TIME, kind="particles", noise_interval=interval, noise_points=1000
        )
        assert (
            s.finished
            and abs(s.records["mass_residual"][-1]) < 1e-5
            and abs(s.records["energy_residual"][-1]) < 1e-5
        )
        assert s.records["particles"][-1] == 1000 + 1000 * round(TIME / interval)
        errors.append(np.abs(s.predictions[-1] - wanted).max())
    assert np.all(np.abs(np.log2(np.divide(errors[:-1], errors[1:])) - 2.0) < 0.3), errors


def test_deaths_and_births_have_the_grid_as_their_mean(problem, wanted):
    """48 runs of 1000 particles: the mean lies within 3.5 standard errors of the grid at every
    datum, none far inside."""
    runs = np.array(
        [
            hkflow.solve(
                problem, TIME, kind="particles", noise="random", noise_interval=0.05, seed=seed
            ).predictions[-1]
            for seed in range(48)
        ]
    )
    error, deviation = runs.mean(axis=0) - wanted, runs.std(axis=0, ddof=1) / np.sqrt(48)
    assert np.abs(error / deviation).max() < 3.5
    assert deviation.max() < 0.01 * np.abs(wanted).max()
    without = hkflow.solve(
        particle_problem(problem.objective, hkflow.Flow(1.0, 2.0), 500), TIME, kind="particles"
    )
    # it can fail: noise makes a difference
    assert np.abs(without.predictions[-1] - wanted).max() > 10 * deviation.max()


def test_random_noise_errs_by_its_interval_as_deterministic_noise_does():
    """Without decay between the renewals it erred 33 times as much: by 0.026 here, where the runs
    scatter by 0.0025."""
    exact = hkflow.MomentFlow([1.0, 0.3], 1.5, hkflow.Flow(1.0, 4.0, 0.5))
    mesh = hkflow.circle_mesh(100_000)
    problem = hkflow.Problem(mesh, exact.objective(), exact.flow)
    s = hkflow.solve(problem, 2.0, 2, kind="particles", noise="random", noise_interval=0.4)
    wanted = exact.mass_and_moment(2.0)[1] * exact.direction
    assert np.abs(s.predictions[-1] / wanted - 1.0).max() < 0.01


def test_random_noise_scatters_like_one_over_root_m():
    obj, scatter, counts = objective(1, "squared-relu", 30, 5), [], (50, 200, 800)
    for n in counts:
        start = particle_problem(obj, FLOW, n)
        runs = [
            hkflow.solve(
                start, TIME, kind="particles", noise="random", seed=seed, tolerance=1e-4
            ).predictions[-1]
            for seed in range(24)
        ]
        scatter.append(np.sqrt(np.mean(np.var(runs, axis=0, ddof=1))))
    assert -0.6 < np.polyfit(np.log(counts), np.log(scatter), 1)[0] < -0.4, scatter


def test_noise_alone_gives_the_mass_law():
    """No transport, no reaction: |ν| − 1 decays like e^{−σt}, for both kinds, at saves that no
    interval divides."""
    obj = objective(2, "relu", 5, 1)
    start = hkflow.PointMeasure(hkflow.quasi_uniform(40, 2)).scaled_to(3.0)
    problem = hkflow.Problem(None, obj, hkflow.Flow(0.0, 0.0, 0.7), (1,), start)

    def excess(**options):
        s = hkflow.solve(
            problem, TIME, saves=[0.13, 0.77], kind="particles", noise_interval=0.03, **options
        )
        return (
            np.array([s.atoms_at(k).mass for k in range(len(s.time))])
            - 1.0
            - 2.0 * np.exp(-0.7 * s.time)
        )

    assert np.abs(excess(noise="deterministic", noise_points=50)).max() < 1e-12
    runs = np.array([excess(noise="random", seed=seed) for seed in range(60)])
    error = runs.std(axis=0, ddof=1) / np.sqrt(60)
    assert np.all(np.abs(runs.mean(axis=0)) < 3.5 * error) and error.max() < 0.03


@pytest.mark.parametrize("sigma", [0.1, 10.0, 100.0])
def test_strong_noise_keeps_its_mass(sigma):
    """|ν| stays 1 where it begins with 1; with intervals of 0.05, σ = 100 left 0.4."""
    start = hkflow.PointMeasure(hkflow.quasi_uniform(40, 2), None, np.full(40, 1.0 / 40))
    feature, flow = objective(2, "squared-relu", 5, 1), hkflow.Flow(1.0, 0.0, sigma)
    problem = hkflow.Problem(None, feature, flow, (1,), start)
    s = hkflow.solve(problem, 0.1, kind="particles", noise_points=40)
    assert s.finished and np.abs(s.mass - 1.0).max() < 1e-12
    assert s.records["step"][-1] >= 0.4 * sigma  # two steps in 1/(2σ)


def test_intervals_need_not_fit_the_saves():
    problem = particle_problem(objective(1, "squared-relu", 10, 5), FLOW, 20)
    for options in ({"saves": [0.0, 1e-12, 1.0]}, {"noise_interval": 1e10}):
        s = hkflow.solve(problem, TIME, kind="particles", noise_points=10, **options)
        assert s.finished, s.status


@pytest.mark.parametrize("noise", ["random", "deterministic"])
def test_a_flow_that_keeps_its_mass_keeps_it_with_noise(noise):
    """Births of other masses than the deaths moved it by 6 % and 0.1 %."""
    points = hkflow.quasi_uniform(200, 1)
    start = hkflow.PointMeasure(points, np.ones(200), np.full(200, 2.5 / 200))
    energy = hkflow.Sum(hkflow.External("x + 0.5*x*y"), axes=2)
    flow = hkflow.Flow(1.0, 2.0, 2.0, drive="probability")
    problem = hkflow.Problem(None, energy, flow, (1,), start)
    solution = hkflow.solve(problem, 1.0, 5, kind="particles", noise=noise)
    np.testing.assert_allclose(solution.mass, 2.5, rtol=1e-9, atol=0.0)
    assert abs(solution.records["mass_residual"][-1]) < 1e-9


def test_unknown_noise_is_refused(problem):
    with pytest.raises(ValueError, match="Unknown noise 'randm'. Did you mean 'random'"):
        hkflow.Particles(problem, noise="randm")
    with pytest.raises(ValueError, match="multiple of the 2 signs, got 7"):
        hkflow.Particles(problem, noise_points=7)


@pytest.mark.parametrize("noise", ["deterministic", "random"])
def test_noise_on_fixed_features_is_left_to_the_grid(noise):
    """Particles were born on the whole sphere, and not where the features are."""
    inputs, y = np.array([[1.0, 0.2], [0.3, -1.0], [-0.5, 0.7]]), np.array([1.0, -1.0, 0.5])
    features = np.vstack([np.eye(2), -np.eye(2)])
    objective = hkflow.Objective(hkflow.FEATURES["linear"], hkflow.RISKS["square"], inputs, y)
    flow = hkflow.Flow(0.0, 4.0, noise=0.5)
    mesh, start = hkflow.atoms_mesh(features), np.full((1, 4), 0.25)
    problem = hkflow.Problem(mesh, objective, flow, initial=start)
    with pytest.raises(ValueError, match="not on fixed features: choose the method 'grid'"):
        hkflow.solve(problem, 1.0, kind="particles", noise=noise)
    phi = features @ inputs.T

    def rate(t, nu):
        return -4.0 * nu * (phi @ (nu @ phi - y) / 3.0) - 0.5 * nu + 0.5 / 4.0

    wanted = solve_ivp(rate, (0.0, 1.0), np.full(4, 0.25), rtol=1e-11, atol=1e-13).y[:, -1] @ phi
    grid = hkflow.solve(problem, 1.0, tolerance=1e-6).predictions[-1]
    np.testing.assert_allclose(grid, wanted, rtol=1e-4, atol=0.0)


def test_noise_upon_hardly_any_mass_is_counted_in_the_right_units():
    """The first mass is so small that the units change in the very step in which noise acts."""
    objective = hkflow.Objective(
        hkflow.FEATURES["relu"], hkflow.RISKS["square"], np.eye(2), np.ones(2)
    )
    start = hkflow.PointMeasure(hkflow.quasi_uniform(8, 1), weights=np.full(8, 1e-30))
    problem = hkflow.Problem(None, objective, hkflow.Flow(0.0, 0.0, 0.5), (1,), start)
    solution = hkflow.solve(problem, 2.0, kind="particles", noise_interval=0.01, noise_points=10)
    assert solution.finished, solution.status
    mass = np.exp(solution.records["log_mass"][-1])
    assert mass == pytest.approx(-np.expm1(-1.0), rel=1e-4)
    assert abs(solution.records["mass_residual"][-1]) < 1e-9 * solution.records["mass"][-1]


class Account(Observer):
    """A guard and an observer: what it saw of each step before this was accepted, against the
    clock's sums afterwards."""

    def __init__(self, refuses):
        self.sums, self.misses, self.refuses, self.noisy = 0.0, 0, refuses, 0

    def __call__(self, method, step, clock):
        self.seen, self.mass = step.budget.values.copy(), method.trial.mass
        noisy = step.budget["mass_noise_gain"] != 0.0
        self.noisy += noisy
        return "once more" if self.refuses and noisy and self.noisy % 2 else None

    def step(self, method, clock):
        if clock.step:
            self.sums += self.seen
            self.misses += not (
                np.array_equal(clock.budget.values, self.sums) and method.current.mass == self.mass
            )


@pytest.mark.parametrize("noise", ["deterministic", "random"])
def test_noise_has_no_clock_of_the_margin(noise):
    """Random noise stopped at the first renewal, since the smooth margin did not grow; the other
    took intervals of the margin for times: a mass of 1, which stays, fell to 0.80."""
    risk, y = hkflow.RISKS["smooth-margin"], np.array([1.0, -1.0])
    objective = hkflow.Objective(hkflow.FEATURES["relu"], risk, np.eye(2), y)
    flow = hkflow.Flow(1.0, 2.0, 0.1, time_variable="margin")
    problem = particle_problem(objective, flow, 40)
    with pytest.raises(ValueError, match="take the clock 'time'"):
        make_method(problem, "particles", noise=noise)
    timed = replace(problem, flow=replace(flow, time_variable="time"))
    make_method(timed, "particles", noise=noise)


@pytest.mark.parametrize("noise", ["deterministic", "random"])
@pytest.mark.parametrize("refuses", [False, True])
def test_guards_see_all_that_a_step_exchanges(problem, noise, refuses):
    """Noise too, and a step that they refuse leaves nothing behind."""
    account, method = (
        Account(refuses),
        make_method(problem, "particles", noise=noise, noise_points=100, tolerance=1e-4),
    )
    clock, status, finished = integrate(method, [0.3], [account], guards=(*GUARDS, account))
    assert finished, status
    assert account.misses == 0 and clock.budget["mass_noise_gain"] != 0.0
    assert method.current.mass == pytest.approx(
        clock.mass_at_start + clock.budget.mass.sum(), rel=1e-5
    )
    assert method.n == (1000 + 100 * 6 if noise == "deterministic" else 1000) and account.noisy == (
        12 if refuses else 6
    )


def test_sibling_noise_that_brings_another_mass_is_stopped(problem, monkeypatch):
    honest = hkflow.Particles._given
    monkeypatch.setattr(hkflow.Particles, "_given", lambda self: 2.0 * honest(self))
    # the wrong mass, but the budget of it
    assert hkflow.solve(problem, 0.3, kind="particles").finished
    monkeypatch.undo()
    inject = hkflow.Particles._inject
    monkeypatch.setattr(hkflow.Particles, "_inject", lambda self, y: 2.0 * inject(self, y))
    assert "where the budget says" in hkflow.solve(problem, 0.3, kind="particles").status


@pytest.mark.parametrize("noise, signs", [("random", (1, -1)), ("deterministic", (1,))])
def test_a_margin_that_noise_jumps_over_is_reached(noise, signs):
    """Ever shorter steps led to the same jump, 2e-27 at last, and the run stopped there."""
    x, y = np.array([[1.0, 0.2], [-0.3, 1.0], [0.5, -1.0]]), np.array([1.0, -1.0, 1.0])
    y = y if noise == "random" else np.ones(3)  # on the sphere noise adds to all predictions
    objective = hkflow.Objective(hkflow.FEATURES["relu"], hkflow.RISKS["exponential"], x, y)
    start = hkflow.PointMeasure(*with_each_sign(hkflow.quasi_uniform(32, 1), signs)).scaled_to(0.1)
    problem = hkflow.Problem(None, objective, hkflow.Flow(1.0, 0.0, 0.5), signs, start)
    options = {"kind": "particles", "noise": noise, "noise_interval": 0.05, "max_step": 0.01}
    free = hkflow.solve(problem, 1.0, **options)
    margins = free.records["smooth_margin"]
    highest = np.maximum.accumulate(margins)
    k = int(np.argmax(np.diff(highest)))  # a jump
    aim = 0.5 * (highest[k] + highest[k + 1])
    assert margins[k + 1] > 1.01 * aim
    s = hkflow.solve(problem, 1.0, until_margin=aim, **options)
    assert s.finished and "the smooth margin is" in s.status, s.status
    assert s.time[-1] == free.records["time"][k + 1]
    assert s.records["smooth_margin"][-1] == margins[k + 1] and s.records["dt"][1:].min() > 1e-6
