"""Noise: the recorded bound of the optimality gap, the flow in discrete time, and starts that only
noise frees."""

from dataclasses import replace

import numpy as np
import pytest
import reference
from conftest import ROOT, order
from scipy.integrate import solve_ivp
from scipy.optimize import minimize, nnls

import hkflow
from hkflow.certificates import gap, minimise
from hkflow.methods.grid.finite_volume import FiniteVolume
from hkflow.methods.grid.right_hand_side import RightHandSide

FLOW, CIRCLE = hkflow.Flow(1.0, 2.0, 0.05), hkflow.circle_mesh(64)


def random_problem(
    loss="square", flow=FLOW, decay=0.05, activation="relu", n=6, mesh=CIRCLE, scale=1.0
):
    rng = np.random.default_rng(3)
    targets = np.sign(rng.normal(size=n)) if hkflow.RISKS[loss].classifies else rng.normal(size=n)
    inputs = scale * rng.normal(size=(n, mesh.dim + 1))
    objective = hkflow.Objective(
        hkflow.FEATURES[activation], hkflow.RISKS[loss], inputs, targets, None, decay
    )
    return hkflow.Problem(mesh, objective, flow, (1, -1), rng.random((2, mesh.n_cells)) ** 3)


# --- Wei et al., eq. E.13


def global_minimum(objective, points, signs):
    """The minimum of F over all nonnegative weights at fixed points, for the square risk and λ > 0.

    F = ½ |A w − b|² + λ Σw with A = √q ε φ, b = √q y. Its dual, max p·b − ½|p|² subject to Aᵀp ≤ λ,
    seeks the point of a polytope next to b, which is a problem of nonnegative least squares (Lawson
    & Hanson 1974, ch. 23).
    Returns F* and the weights (n_signs, n_points). Raises ArithmeticError unless primal and dual
    agree to 1e-10.
    """
    root, decay = np.sqrt(objective.weights), objective.weight_decay
    phi = objective.feature.matrix(points, objective.inputs)
    A, b = (
        root[:, None] * np.concatenate([sign * phi for sign in signs], axis=1),
        root * objective.targets,
    )
    system = np.vstack([-A, b @ A - decay])
    u, _ = nnls(system, np.append(0.0 * b, 1.0), maxiter=100 * A.shape[1])
    residual = system @ u - np.append(0.0 * b, 1.0)
    w = u / -residual[-1]
    primal = 0.5 * np.sum((A @ w - b) ** 2) + decay * w.sum()
    p = b - A @ w
    p *= min(1.0, decay / max(np.max(p @ A), decay))
    if not primal - (b @ p - 0.5 * p @ p) <= 1e-10 * primal:
        raise ArithmeticError(
            f"The minimum is not certain: {primal} by the weights, {b @ p - 0.5 * p @ p} by the"
            " dual."
        )
    return primal, w.reshape(len(signs), -1)


def least_objective(problem):
    """F* on the cells by Newton's method: each step is the exact minimum of a square risk, the last
    one ends at J ≥ 0."""
    objective, signs, centers = (
        problem.objective,
        np.array(problem.signs, dtype=float),
        problem.mesh.centers,
    )
    phi, decay, loss = (
        objective.feature.matrix(centers, objective.inputs),
        objective.weight_decay,
        objective.risk.name,
    )

    def state(w):
        h, r = phi @ (signs @ w), np.zeros(len(phi))
        return objective.evaluate_risk(h, 0.0, r) + decay * w.sum(), h, r

    w = np.zeros((len(signs), len(centers)))
    F, h, r = state(w)
    for _ in range(20):
        q = objective.weights
        curvature = {
            "square": q,
            "logistic": np.abs(r) * (1.0 - np.abs(r) / q),
            "exponential": np.abs(r),
        }[loss]
        model = hkflow.Objective(
            objective.feature,
            hkflow.RISKS["square"],
            objective.inputs,
            h - r / curvature,
            curvature,
            decay,
        )
        wanted = global_minimum(model, centers, problem.signs)[1]
        length = next(
            2.0**-k for k in range(60) if state(w + 2.0**-k * (wanted - w))[0] <= F + 1e-15
        )
        w = w + length * (wanted - w)
        F, h, r = state(w)
    J = signs[:, None] * (r @ phi) + decay
    assert J.min() > -1e-9 and np.abs(J * w).sum() < 1e-9
    return F


def objective_by_scipy(problem):
    """The same minimum, to fewer digits, by a method that knows nothing of squares or duals: its
    objective."""
    objective, signs = problem.objective, problem.signs
    phi = np.concatenate(
        [s * objective.feature.matrix(problem.mesh.centers, objective.inputs) for s in signs],
        axis=1,
    )

    def value(w):
        g = np.zeros(len(phi))
        F = objective.evaluate_risk(phi @ w, 0.0, g) + objective.weight_decay * w.sum()
        return F, g @ phi + objective.weight_decay

    start, bounds = np.full(phi.shape[1], 1e-2), [(0, None)] * phi.shape[1]
    options = {"maxiter": 50000, "maxfun": 100000, "ftol": 1e-15, "gtol": 1e-10, "maxcor": 50}
    return minimize(value, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options).fun


@pytest.mark.parametrize("activation", ["relu", "absolute-value"])
@pytest.mark.parametrize("loss", ["square", "logistic", "exponential"])
@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_the_recorded_bound_holds_at_every_record(loss, noise, activation):
    problem = random_problem(loss, hkflow.Flow(1.0, 2.0, noise), activation=activation)
    lowest = least_objective(problem)
    s = hkflow.solve(problem, 10.0)
    r = s.records
    excess = r["objective"] - lowest
    assert s.finished and len(excess) > 50 and excess.min() > -1e-9
    assert np.all(r["gap_bound"] >= excess - 1e-9)
    assert r["gap_bound"][-1] < 0.2 * r["gap_bound"][0]


@pytest.mark.parametrize("loss", ["square", "logistic", "exponential"])
def test_two_independent_minima_agree(loss):
    problem = random_problem(loss)
    assert (
        -1e-12
        < objective_by_scipy(problem) - least_objective(problem)
        < {"square": 2e-3}.get(loss, 1e-9)
    )


@pytest.mark.parametrize("name", ["first", "lowest"])
def test_sibling_a_term_of_the_other_sign_bounds_nothing(monkeypatch, name):
    """∫J dν alone bounds a start that predicts too much everywhere, where J ≥ λ; min J alone a
    start that is stuck."""
    _, stuck = hkflow.check(ROOT / "cases" / "wei" / "stuck.toml", **{"domain.cells": 64})
    much = replace(
        random_problem(activation="squared-relu"), signs=(1,), initial=np.full((1, 64), 5.0)
    )
    problem = {"first": much, "lowest": stuck}[name]
    lowest, _ = global_minimum(problem.objective, CIRCLE.centers, problem.signs)
    integrate, search = RightHandSide.integrate, gap.global_upper_bound

    def holds():
        r = hkflow.solve(problem, 1.0).records
        return r["gap_bound"] >= r["objective"] - lowest

    def flipped_mean(self, e):
        integrate(self, e)
        e.potential_integral = -e.potential_integral

    def flipped_minimum(*arguments):
        return 2.0 * problem.objective.weight_decay - search(*arguments)

    assert holds().all()
    if name == "first":
        monkeypatch.setattr(RightHandSide, "integrate", flipped_mean)
    else:
        monkeypatch.setattr(gap, "global_upper_bound", flipped_minimum)
    assert not holds().all()


def test_the_bound_holds_where_steps_are_implicit_and_where_the_mass_is_apart():
    """Implicit steps are driven by loss gradients that are not those of the density; log_scale is
    the unit of the record."""
    plain = random_problem(scale=3.0)
    lowest, _ = global_minimum(plain.objective, CIRCLE.centers, (1, -1))
    for drive, coupling in (
        (None, "implicit"),
        ("measure", "implicit"),
        ("measure", "explicit"),
        ("probability", "explicit"),
    ):
        r = hkflow.solve(
            replace(plain, flow=hkflow.Flow(1.0, 2.0, 0.05, drive=drive)), 5.0, imex=coupling
        ).records
        unit = np.exp(r["log_scale"])
        assert np.all(unit * r["gap_bound"] >= unit * r["objective"] - lowest), (drive, coupling)
    explicit, fine = (
        hkflow.solve(plain, 1.0, imex=coupling, max_step=8e-3).records["gap_bound"][-1]
        for coupling in ("explicit", "implicit")
    )
    assert fine == pytest.approx(explicit, rel=0.1)


def test_the_bound_of_several_classes_lies_above_the_gap(rng):
    """To the minimum over weights of dense units (a, b), |a| = |b|, by L-BFGS-B."""
    n, k, decay = 12, 2, 0.05
    y = np.arange(n) % k
    x = rng.normal(size=(n, 1)) + np.where(y == 0, 2.0, -1.0)[:, None]
    feature = hkflow.vector_feature("relu", k)
    objective = hkflow.Objective(feature, hkflow.SOFTMAX, x, y, None, decay)
    mesh = hkflow.geodesic_mesh(3)
    problem = hkflow.Problem(mesh, objective, hkflow.Flow(1.0, 4.0))
    r = hkflow.solve(problem, 100.0).records
    angles = 2.0 * np.pi * np.arange(100) / 100
    b = np.tile(np.column_stack([np.cos(angles), np.sin(angles)]), (2, 1))
    a = np.repeat([1.0, -1.0], 100)[:, None]
    units = 0.5 * np.maximum(x @ a.T, 0.0)[:, None] * b.T  # (n, k, units)

    def value(w):
        h = units @ w
        p = np.exp(h - h.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        loss = -np.log(p[np.arange(n), y]).mean()
        residuals = (p - np.eye(k)[y]) / n
        return loss + decay * w.sum(), np.tensordot(residuals, units, 2) + decay

    found = minimize(value, np.zeros(200), jac=True, bounds=[(0.0, None)] * 200)
    assert np.all(r["gap_bound"] >= r["objective"] - found.fun)
    assert r["objective"][-1] - found.fun < 1e-2
    assert r["gap_bound"][-1] < 0.02 * r["gap_bound"][0]


def test_there_is_a_bound_only_where_it_is_known():
    records = [
        hkflow.solve(problem, 0.01).records
        for problem in (
            random_problem(decay=0.0),
            random_problem("smooth-margin"),
            random_problem(flow=hkflow.Flow(0.0, 9.0, depth=3.0)),
        )
    ]
    assert not any("gap_bound" in r for r in records)
    atoms = replace(random_problem(), mesh=None, initial=hkflow.PointMeasure([[1.0, 0.0]]))
    assert "gap_bound" not in hkflow.solve(atoms, 0.01, kind="particles").records
    teacher = hkflow.PopulationRisk(hkflow.FEATURES["relu"], [[1.0, 0.5]], [1.0], 0.1)
    r = hkflow.solve(hkflow.Problem(CIRCLE, teacher, hkflow.Flow(1.0, 2.0), (1, -1)), 40.0).records
    assert (
        np.all(r["gap_bound"] >= r["objective"] - r["objective"].min())
        and r["gap_bound"][-1] < 1e-2 * r["gap_bound"][0]
    )


# --- Wei et al., sec. E.3


def euler_step(problem, limiter, eta, sabotage=1.0):
    """ν + η(−σν + σU − β ν J + α div(ν∇J)) in NumPy."""
    flow, mesh, nu = problem.flow, problem.mesh, problem.initial
    phi = problem.objective.feature.matrix(mesh.centers, problem.objective.inputs)
    signs = np.array(problem.signs, dtype=float)
    loss_gradient = problem.objective.weights * (
        phi @ (signs @ nu * mesh.volumes) - problem.objective.targets
    )
    J = signs[:, None] * (loss_gradient @ phi) + problem.objective.weight_decay
    divergence, _ = reference.transport(
        FiniteVolume(problem).rhs.stencil, nu, J, flow.transport, limiter
    )
    uniform = 1.0 / (len(signs) * mesh.volumes.sum())
    return nu + eta * (
        -flow.noise * nu + flow.noise * uniform - sabotage * flow.reaction * nu * J + divergence
    )


@pytest.mark.parametrize("mesh", [CIRCLE, hkflow.geodesic_mesh(2)], ids=["circle", "sphere"])
@pytest.mark.parametrize("limiter", ["mc", "first-order"])
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_a_step_is_the_explicit_formula(mesh, limiter, noise):
    problem, eta = random_problem(flow=hkflow.Flow(1.0, 2.0, noise), mesh=mesh), 0.004
    s = hkflow.solve(problem, eta, stepper="euler", max_step=eta, limiter=limiter)
    assert s.finished and s.records["step"][-1] == 1
    size = problem.initial.max()
    assert np.abs(s.density[-1] - euler_step(problem, limiter, eta)).max() <= 1e-14 * size
    assert np.abs(s.density[-1] - euler_step(problem, limiter, eta, 2.0)).max() > 1e-5 * size


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_the_discrete_flow_is_first_order_in_the_step(noise):
    problem = random_problem(flow=hkflow.Flow(1.0, 2.0, noise), activation="squared-relu")

    def end(**options):  # first-order fluxes depend smoothly on the density
        return hkflow.solve(problem, 1.0, limiter="first-order", **options).density[-1]

    wanted, errors = end(stepper="ssprk3", tolerance=1e9, max_step=1 / 512), []
    for steps in (128, 256, 512):
        errors.append(np.abs(end(stepper="euler", max_step=1 / steps) - wanted).max())
    assert np.all(np.abs(order(errors) - 1.0) < 0.1), errors


def test_the_discrete_flow_has_the_mass_that_it_should():
    """Transport alone keeps it to rounding; with noise |ν| − 1 shrinks by 1 − ση in each step; each
    step takes η."""
    steps = {"stepper": "euler", "max_step": 1 / 256}
    for noise in (0.0, 0.3):
        problem = random_problem(flow=hkflow.Flow(1.0, 0.0, noise))
        s = hkflow.solve(problem, 1.0, **steps)
        r = s.records
        assert s.finished and len(r["mass"]) == 257 and np.ptp(r["dt"][1:]) < 1e-15
        wanted = 1.0 + (r["mass"][0] - 1.0) * (1.0 - noise / 256) ** np.arange(257)
        assert r["mass"] == pytest.approx(wanted, rel=1e-13, abs=0)
        assert np.abs(r["mass_residual"]).max() < 1e-12


def test_a_step_that_is_too_long_is_refused_with_a_sentence():
    courant = hkflow.solve(random_problem(), 10.0, stepper="euler", max_step=1.0)
    assert not courant.finished and courant.status.startswith(
        "Stopped at t = 0 after 0 steps: Courant number"
    )
    fixed = random_problem(flow=hkflow.Flow(0.0, 2.0, 0.1))
    negative = hkflow.solve(fixed, 100.0, stepper="euler", max_step=5.0)
    assert not negative.finished and "< 0 in" in negative.status and "first cell" in negative.status
    with pytest.raises(ValueError, match="takes fixed steps: give their length"):
        hkflow.solve(fixed, 1.0, stepper="euler")


# --- Wei et al., Theorem 4.3


def gaps(noises, kind="stuck", **changes):
    """F − F* at the end for several noise rates, and the same for the best convex function; both
    are minima over all directions, which captured atoms can take, not over the centres of cells."""
    found = []
    for noise in noises:
        changes |= {
            "flow.kind": "hellinger-kantorovich",
            "flow.noise": noise,
            "domain.cells": 32,
            "time.end": 200.0,
        }
        _, problem = hkflow.check(ROOT / "cases" / "wei" / f"{kind}.toml", **changes)
        s = hkflow.solve(problem, 200.0, record_interval=1.0)
        lowest = minimise(problem.objective, problem.signs).lower
        assert s.finished and np.all(s.records["gap_bound"] >= s.records["objective"] - lowest)
        found.append(s.records["objective"][-1] - lowest)
    return (
        np.array(found),
        minimise(problem.objective, (1,)).lower - lowest,
    )


def test_noise_frees_a_start_without_full_support():
    (stuck, tiny, small, large), convex = gaps([0.0, 0.001, 0.01, 0.1])
    # a local equilibrium: the best function of units with sign +1
    assert stuck == pytest.approx(convex, rel=1e-3)
    assert stuck > 10 * small > 100 * tiny > 0.0 and small < large < stuck
    assert 0.8 < np.log10(small / tiny) < 1.4  # what is left is the noise's own share


def test_sibling_a_start_with_full_support_is_not_stuck():
    (gap,), convex = gaps([0.0], **{"initial.signs": [1, -1]})
    assert gap < 1e-3 * convex


def test_the_empty_sheet_stays_empty_and_the_stuck_state_is_an_equilibrium():
    _, problem = hkflow.check(ROOT / "cases" / "wei" / "stuck.toml", **{"domain.cells": 64})
    s = hkflow.solve(problem, 50.0)
    assert not s.density[-1][1].any() and s.density[-1][0].any()
    r = s.records
    rate = np.diff(r["objective"][-2:]) / np.diff(r["time"][-2:])
    assert abs(rate[0]) < 1e-4 and r["minimum_potential"][-1] < -0.1


@pytest.mark.parametrize(
    "options",
    [{"imex": "explicit"}, {"imex": "implicit"}, {"imex": "implicit", "stepper": "ssprk3"}],
)
def test_noise_that_keeps_the_mass_errs_by_the_tolerance_where_j_stands_still(options):
    """By one datum the smooth margin is linear in ν, and J the same at all times: budgets close to
    rounding, however far the mean of J moves in a step."""
    mesh, x, beta, sigma = hkflow.circle_mesh(21), np.array([1.0, 0.5]), 4.0, 0.3
    J, start = mesh.centers @ x, 1.0 + 0.5 * np.cos(np.arange(21.0))
    start /= start @ mesh.volumes
    o = hkflow.Objective(hkflow.FEATURES["linear"], hkflow.RISKS["smooth-margin"], x[None], [-1.0])
    flow = hkflow.Flow(0.0, beta, sigma, drive="probability")
    problem = hkflow.Problem(mesh, o, flow, (1,), start[None])

    def rate(t, nu):
        mean = (J * nu) @ mesh.volumes / (nu @ mesh.volumes)
        return -beta * nu * (J - mean) - sigma * nu + sigma / (2.0 * np.pi)

    exact = solve_ivp(rate, (0.0, 1.0), start, rtol=1e-11, atol=1e-13).y[:, -1] @ (mesh.volumes * J)
    errors = [
        abs(hkflow.solve(problem, 1.0, tolerance=tolerance, **options).predictions[-1, 0] - exact)
        for tolerance in (1e-4, 1e-6)
    ]
    assert errors[0] < 1e-4 and errors[1] < 1e-6


@pytest.mark.parametrize("stepper", ["ssprk3", "strang", "muscl-hancock"])
def test_noise_that_keeps_the_mass_errs_by_the_tolerance_where_steps_become_implicit(stepper):
    """Two data that mass 1000 makes stiff: explicit Runge–Kutta steps are not split, implicit steps
    of the same run are."""
    mesh, x = hkflow.circle_mesh(21), np.array([[1.0, 0.5], [0.2, -1.0]])
    beta, sigma, mass = 2.0, 0.3, 1000.0
    start = 1.0 + 0.5 * np.cos(np.arange(21.0))
    start *= mass / (start @ mesh.volumes)
    o = hkflow.Objective(hkflow.FEATURES["linear"], hkflow.RISKS["smooth-margin"], x, [-1.0, -1.0])
    flow = hkflow.Flow(0.0, beta, sigma, drive="probability")
    problem = hkflow.Problem(mesh, o, flow, (1,), start[None])
    phi = mesh.centers @ x.T

    def rate(t, nu):
        h = phi.T @ (mesh.volumes * nu)
        r = np.exp(h - h.max())
        J = phi @ (r / r.sum())
        mean = (J * nu) @ mesh.volumes / (nu @ mesh.volumes)
        return -beta * nu * (J - mean) - sigma * nu + sigma * mass / (2.0 * np.pi)

    exact = solve_ivp(rate, (0.0, 3.0), start, method="LSODA", rtol=1e-11, atol=1e-10).y[:, -1]
    found = hkflow.solve(problem, 3.0, tolerance=1e-6, stepper=stepper)
    h = phi.T @ (mesh.volumes * exact)
    assert np.abs(found.predictions[-1] - h).max() < 1e-6 * mass
