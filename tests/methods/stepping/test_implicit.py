"""The implicit coupling: its small convex problem, its orders, and margin flows far beyond where
explicit steps chatter."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from conftest import order
from scipy.optimize import brentq, minimize

import hkflow
from hkflow.methods.choice import make_method
from hkflow.methods.particles import points
from hkflow.methods.particles.tangent_gram import coupling_matrix
from hkflow.methods.stepping import implicit, implicit_loss_gradients
from hkflow.methods.stepping.implicit import coupled_loss_gradients
from hkflow.methods.stepping.implicit_loss_gradients import Coupling, leading
from hkflow.methods.stepping.newton import INDEFINITE, LOST, cholesky_solve, solve_positive
from hkflow.solving.solve import integrate
from hkflow.solving.stepsize import StepControl

LOSSES = ("square", "logistic", "exponential", "smooth-margin", "smooth-logistic-margin")


def an_objective(loss, n=6, feature="squared-relu"):
    rng = np.random.default_rng(3)
    x = np.column_stack([rng.normal(size=n), np.ones(n)])
    y = np.sin(2.0 * x[:, 0]) if loss == "square" else np.sign(x[:, 0])
    return hkflow.Objective(hkflow.FEATURES[feature], hkflow.RISKS[loss], x, y)


def a_coupling(rng, loss, log_scale, n=6, rank=4):
    objective = an_objective(loss, n)
    root = rng.normal(size=(n, rank))
    K = root @ root.T
    return (
        objective,
        Coupling.stored(objective, log_scale, K),
        Coupling(objective, log_scale, None, lambda data, v: K[np.ix_(data, data)] @ v),
        K,
    )


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 37, 70])
def test_systems_are_solved_as_by_lapack(n, rng):
    root, right = rng.normal(size=(n, n)), rng.normal(size=(2, n))
    matrix = root @ root.T + 0.1 * np.eye(n)
    wanted = np.linalg.solve(matrix, right.T).T
    assert solve_positive(matrix, right) == pytest.approx(wanted, rel=1e-9, abs=1e-9)
    matrix[0, 0] = -1.0  # what rounding may do
    assert not cholesky_solve(matrix.copy(), right.copy())
    assert np.array_equal(solve_positive(matrix, right), np.linalg.solve(matrix, right.T).T)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("log_scale", [-3.0, 0.0, 5.0])
@pytest.mark.parametrize("tau", [1e-4, 0.3])
def test_residuals_are_those_at_the_end(loss, log_scale, tau, rng):
    """r = ∇R(h − τ K r) to rounding, whether K is stored or applied."""
    objective, stored, applied, K = a_coupling(rng, loss, log_scale)
    h, start, out = rng.normal(size=6) * np.exp(-log_scale), np.zeros(6), np.zeros(6)
    objective.evaluate_risk(h, log_scale, start)
    for coupling, accuracy in ((stored, 1e-9), (applied, 1e-6)):
        if loss == "smooth-logistic-margin" and coupling is applied:
            continue  # its small margins need K itself
        r = coupling.solve(tau, h, start)
        objective.evaluate_risk(h - tau * K @ r, log_scale, out)
        assert r == pytest.approx(out, rel=accuracy, abs=accuracy * np.abs(out).max())
    objective.evaluate_risk(h - 1.01 * tau * K @ r, log_scale, out)
    assert tau == 1e-4 or r != pytest.approx(out, rel=1e-6)  # the test can fail


@pytest.mark.parametrize("tau", [1e-2, 1e-5, 1e-10])
def test_residuals_are_found_where_the_smooth_logistic_margin_is_near_zero(tau, rng):
    """R is a logarithm there, known to rounding of one and not of R."""
    for _ in range(50):
        objective, coupling, _, K = a_coupling(rng, "smooth-logistic-margin", 0.0)
        y, guess, out = objective.targets, np.zeros(6), np.zeros(6)
        h = 0.5 * rng.normal(size=6)

        def moved(s, h=h, y=y, objective=objective, out=out):
            return objective.evaluate_risk(h + s * y, 0.0, out)

        h = h + brentq(moved, -9.0, 9.0) * y
        objective.evaluate_risk(1.1 * h, 0.0, guess)
        r = coupling.solve(tau, h, guess)
        assert r is not None
        objective.evaluate_risk(h - tau * K @ r, 0.0, out)
        np.testing.assert_allclose(r, out, rtol=1e-9)


def with_idle_data(objective):
    """The same, with two data of weight 0 among its six."""
    x, y, q = objective.inputs, objective.targets, objective.weights
    more = np.array([[0.3, 1.0], [-5.0, 2.0]])
    return hkflow.Objective(
        objective.feature,
        objective.risk,
        np.insert(x, [0, 3], more, axis=0),
        np.insert(y, [0, 3], [1.0, -1.0]),
        np.insert(q, [0, 3], 0.0),
    )


@pytest.mark.parametrize("loss", LOSSES)
def test_data_of_weight_0_have_no_loss_gradients(loss, rng):
    """And change none of the others, whether K is stored or applied."""
    objective, coupling, _, K = a_coupling(rng, loss, 1.0)
    h, start = rng.normal(size=6), np.zeros(6)
    objective.evaluate_risk(h, 1.0, start)  # a guess
    wanted = coupling.solve(0.3, h, start)
    wider = np.zeros((8, 8))
    idle = with_idle_data(objective)
    those = np.flatnonzero(idle.weights)
    wider[np.ix_(those, those)] = K
    wider[[0, 4]], wider[:, [0, 4]] = 0.5, 0.5
    among, guess = np.full(8, -7.0), np.zeros(8)
    among[those], guess[those] = h, start
    for made in (
        Coupling.stored(idle, 1.0, wider),
        Coupling(idle, 1.0, None, lambda data, v: wider[np.ix_(data, data)] @ v),
    ):
        if loss == "smooth-logistic-margin" and made.matrix is None:
            assert made.solve(0.1, among, guess) is None  # its small margins need K itself
            continue
        r = made.solve(0.3, among, guess)
        assert r[[0, 4]].tolist() == [0.0, 0.0]
        assert r[those] == pytest.approx(wanted, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("kind", ["grid", "particles", "characteristics"])
@pytest.mark.parametrize("loss", LOSSES[3:])
def test_data_of_weight_0_do_not_slow_a_margin_flow(kind, loss):
    """Steps are implicit beside them; explicit ones would be as many as the mass is large."""
    few = an_objective(loss, feature="relu")
    points = np.tile(hkflow.quasi_uniform(50, 1), (2, 1))
    atoms = hkflow.PointMeasure(points, np.repeat([1.0, -1.0], 50))
    runs = [
        hkflow.solve(
            hkflow.Problem(
                hkflow.circle_mesh(64) if kind == "grid" else None,
                objective,
                hkflow.Flow(1.0, 4.0),
                (1, -1),
                None if kind == "grid" else atoms,
            ),
            30.0,
            kind=kind,
            tolerance=1e-3,
            observers=[lambda state: state.step > 1000],
        )
        for objective in (few, with_idle_data(few))
    ]
    assert all(run.finished for run in runs) and runs[0].log_mass[-1] > 8.0
    counts = [len(run.records["time"]) for run in runs]
    assert counts[1] < 1.3 * counts[0]
    assert runs[1].log_mass[-1] == pytest.approx(runs[0].log_mass[-1], abs=2e-2)


@pytest.mark.parametrize("loss", LOSSES[1:])
def test_a_matrix_that_rounding_made_indefinite_is_solved_for_all_the_same(loss, rng, monkeypatch):
    """The compiled loop of Newton's method gives up; the one in Python finds the same."""
    objective, stored, _, _ = a_coupling(rng, loss, 5.0)
    h, start = rng.normal(size=6), np.zeros(6)
    objective.evaluate_risk(h, 5.0, start)
    compiled = stored.solve(0.3, h, start)
    name = "hkflow.methods.stepping.implicit_loss_gradients.newton"
    monkeypatch.setattr(name, lambda *_: INDEFINITE)
    assert stored.solve(0.3, h, start) == pytest.approx(compiled, rel=1e-9, abs=1e-15)
    if loss != "smooth-logistic-margin":  # which has another way
        monkeypatch.setattr(name, lambda *_: LOST)
        monkeypatch.setattr(Coupling, "_cooled", lambda *_: None)
        assert stored.solve(0.3, h, start) is None


@pytest.mark.parametrize("log_scale", [60.0, 1e4])
def test_beyond_all_scales_the_soft_argmin_solves_a_quadratic_programme(log_scale, rng):
    """At temperature 0, p minimises ½ τ pᵀKp + u·p over the simplex: an independent solver finds no
    better one."""
    for _ in range(5):
        objective, coupling, _, K = a_coupling(rng, "smooth-margin", log_scale)
        y, tau, h = objective.targets, 0.1, 0.1 * rng.normal(size=6)
        p = -y * coupling.solve(tau, h, -y / 6)

        def value(p, K=K, h=h, y=y, tau=tau):
            return 0.5 * tau * (y * p) @ K @ (y * p) + (y * h) @ p

        simplex = {"type": "eq", "fun": lambda p: p.sum() - 1.0}
        found = minimize(
            value,
            np.full(6, 1 / 6),
            bounds=[(0, 1)] * 6,
            constraints=simplex,
            method="SLSQP",
            tol=1e-14,
        )
        assert p.sum() == pytest.approx(1.0, rel=1e-9) and p.min() >= 0.0
        assert value(p) <= found.fun + 1e-9 and not value(np.roll(p, 1)) <= found.fun + 1e-9


def grid(loss, mass, cells=64, flow=hkflow.Flow(1.0, 4.0), feature="squared-relu"):
    start = np.full((2, cells), mass / (4.0 * np.pi))
    return hkflow.Problem(
        hkflow.circle_mesh(cells), an_objective(loss, feature=feature), flow, (1, -1), start
    )


def particles(loss, mass, n=200, flow=hkflow.Flow(1.0, 4.0)):
    points = np.tile(hkflow.quasi_uniform(n // 2, 1), (2, 1))
    atoms = hkflow.PointMeasure(points, np.repeat([1.0, -1.0], n // 2), np.full(n, mass / n))
    return hkflow.Problem(None, an_objective(loss), flow, (1, -1), atoms)


@cache
def reference(make, loss, mass):
    """Predictions after 0.05 by explicit steps, the grid's 2000 of them."""
    short = {"max_step": 0.05 / 2000, "tolerance": 1e9}
    tight = {"kind": "particles", "stepper": "dop853", "tolerance": 1e-11}
    options = tight if make is particles else short
    return hkflow.solve(make(loss, mass), 0.05, imex="explicit", **options).predictions[-1]


def mistakes(make, loss, mass, steps, **options):
    """Relative errors of the predictions after 0.05 for numbers of equal, implicit steps."""
    problem, wanted, found = make(loss, mass), reference(make, loss, mass), []
    for count in steps:
        got = hkflow.solve(problem, 0.05, imex="implicit", max_step=0.05 / count, **options)
        assert len(got.records["time"]) == count + 1, got.status
        found.append(np.abs(got.predictions[-1] - wanted).max() / np.abs(wanted).max())
    return found


@pytest.mark.parametrize(
    "loss, mass", list(zip(LOSSES, (50.0, 200.0, 20.0, 50.0, 50.0), strict=True))
)
@pytest.mark.parametrize("stepper, wanted", [("ssprk1", 1), ("ssprk3", 2)])
def test_the_grid_is_of_first_and_second_order_through_stiff_coupling(loss, mass, stepper, wanted):
    """The explicit bound is 10 to 100 times below these steps."""
    errors = mistakes(grid, loss, mass, (16, 32, 64), stepper=stepper, tolerance=1.0)
    assert np.all(np.abs(order(errors) - wanted) < 0.25), errors


@pytest.mark.parametrize(
    "loss, mass", list(zip(LOSSES, (50.0, 200.0, 20.0, 50.0, 50.0), strict=True))
)
@pytest.mark.parametrize("stepper, wanted", [("euler", 1), ("dopri5", 2)])
def test_particles_are_of_first_and_second_order_through_stiff_coupling(
    loss, mass, stepper, wanted
):
    options = {"kind": "particles", "stepper": stepper, "tolerance": 0.9}
    errors = mistakes(particles, loss, mass, (16, 32, 64), **options)
    assert np.all(np.abs(order(errors) - wanted) < 0.25), errors


def test_the_coupling_may_be_applied_instead_of_stored(monkeypatch):
    problem = grid("smooth-margin", np.exp(4.0), 64, hkflow.Flow(1.0, 4.0, drive="measure"))
    stored = hkflow.solve(problem, 4.0, tolerance=1e-3)
    monkeypatch.setattr("hkflow.methods.grid.tangent_gram.DENSE", 0)
    applied = hkflow.solve(problem, 4.0, tolerance=1e-3)
    assert len(stored.records["time"]) == len(applied.records["time"]) < 120
    assert applied.density[-1] == pytest.approx(stored.density[-1], rel=1e-3, abs=1e-6)


def test_a_margin_flow_runs_on_at_the_steps_of_transport():
    """From log mass 10 on, every step is the transport's, p and the dual value move smoothly, and F
    falls."""
    flow, end = hkflow.Flow(1.0, 4.0, drive="measure"), 85.0
    problem, duals, transported = grid("smooth-margin", np.exp(4.0), 64, flow), [], []

    class Watch(hkflow.Observer):
        def step(self, method, clock):
            e, y = method.current, method.problem.objective.targets
            duals.append((-y * e.loss_gradient, -e.lowest))
            transported.append(clock.dt * e.outflow / method.cfl)

    solution = hkflow.solve(problem, end, observers=(Watch(),), tolerance=1e-3)
    records = solution.records
    assert solution.finished and records["log_mass"][-1] > 100.0
    late = records["log_mass"][2:] > 10.0
    p, dual = np.array([p for p, _ in duals])[2:][late], np.array([d for _, d in duals])[2:][late]
    assert (
        np.abs(np.diff(p, axis=0)).max() < 0.02 and np.abs(np.diff(dual)).max() < 0.02 * dual.max()
    )
    assert p.sum(axis=1) == pytest.approx(np.ones(len(p)), rel=1e-12)
    assert np.mean(np.array(transported)[2:][late] > 0.99) > 0.95
    scaled = records["objective"][1:] - records["objective"][:-1] * np.exp(
        -np.diff(records["log_scale"])
    )
    assert np.all(scaled <= 0.0)
    assert np.abs(records["energy_residual"]).max() < 1e-4
    assert dual[-1] > records["margin"][-1] > 0.9 * dual[-1]  # the certified interval of MATH 6


def test_explicit_steps_of_the_same_flow_are_right_but_many():
    """Without transport to a tolerance; with it to the mesh error, a share of which depends on the
    step."""

    def both(cells, rate, end):
        problem = grid("smooth-margin", np.exp(4.0), cells, hkflow.Flow(rate, 4.0, drive="measure"))
        return [hkflow.solve(problem, end, imex=coupling) for coupling in ("auto", "explicit")]

    moved, coarser = both(64, 1.0, 1.5), both(32, 1.0, 1.5)
    errors = [
        run[0].records["objective"][-1] - run[1].records["objective"][-1]
        for run in (moved, coarser)
    ]
    mesh_error = moved[1].records["objective"][-1] - coarser[1].records["objective"][-1]
    # of muscl-hancock the mesh error at the transport's own step differs from that at short steps
    # by a term dt · h
    assert np.abs(errors).max() < 0.3 * abs(mesh_error) and abs(errors[0]) < 0.4 * abs(errors[1])
    automatic, explicit = both(32, 0.0, 4.0)
    assert len(explicit.records["time"]) > 5 * len(automatic.records["time"])
    assert explicit.density[-1] == pytest.approx(automatic.density[-1], rel=2e-3, abs=1e-5)
    assert explicit.log_scale[-1] == pytest.approx(automatic.log_scale[-1], rel=1e-4)


def test_a_log_mass_of_ten_thousand():
    """e^{10⁴} is no number, but the flow goes on: rates are those of the margin, growth β times
    it."""
    flow = hkflow.Flow(0.0, 4.0, drive="measure")
    solution = hkflow.solve(grid("smooth-margin", 1.0, 16, flow), 40.0, tolerance=1e-3)
    assert solution.finished
    m = hkflow.FiniteVolume(solution.problem)
    m.load(solution.states[-1] | {"log_scale": 1e4})
    before = m.current.objective
    for _ in range(20):
        step = m.advance(0.1, implicit=True)
        assert step.rejection is None
        m.accept(step)
    assert m.log_scale - 1e4 == pytest.approx(-4.0 * 2.0 * before, rel=1e-3) and np.isfinite(
        m.current.objective
    )


def test_a_correction_whose_slopes_are_rounding_alone_is_taken_whole():
    gap = np.array([-1e-17, 0.0])
    line = implicit._Line(np.zeros(2), np.ones(2), gap)
    assert not line.shorten(gap) and line.share == 1.0  # a quotient of 0 and 0 else


def test_a_start_at_which_nothing_acts_stays_there():
    """Data that contradict each other, and a measure that predicts 0 of them: J = 0, so there is no
    exchange that an error could be relative to."""
    objective = hkflow.Objective(
        hkflow.FEATURES["linear"], hkflow.RISKS["exponential"], np.ones((2, 2)), [-1.0, 1.0]
    )
    axes = np.vstack([np.eye(2), -np.eye(2)])  # of which rounding leaves the sums 0
    atoms = hkflow.PointMeasure(np.tile(axes, (2, 1)), np.repeat([1.0, -1.0], 4), np.full(8, 2e5))
    problem = hkflow.Problem(None, objective, hkflow.Flow(0.0, 1.0), (1, -1), atoms)
    method = make_method(problem, kind="particles")
    step = method.advance(0.1, implicit=True)
    assert step.error is None and not step.rejection
    solution = hkflow.solve(problem, 1.0, kind="particles")
    assert solution.finished and (solution.records["objective"] == 1.0).all()


def test_unknown_risks_and_empty_data_are_refused():
    risk = hkflow.Risk("mine", hkflow.RISKS["square"].evaluate, False)
    x = np.eye(2)
    objective = hkflow.Objective(hkflow.FEATURES["relu"], risk, x, np.ones(2))
    problem = hkflow.Problem(hkflow.circle_mesh(16), objective, hkflow.Flow(1.0, 2.0))
    with pytest.raises(ValueError, match="the curvature of the risk 'mine' is not known"):
        hkflow.FiniteVolume(problem, imex="implicit")
    with pytest.raises(ValueError, match="Unknown imex 'implict'. Did you mean 'implicit'"):
        hkflow.FiniteVolume(problem, imex="implict")
    population = hkflow.PopulationRisk(hkflow.FEATURES["relu"], x, np.ones(2))
    problem = hkflow.Problem(hkflow.circle_mesh(16), population, hkflow.Flow(1.0, 2.0))
    with pytest.raises(ValueError, match="population risk"):
        hkflow.FiniteVolume(problem, imex="implicit")


def test_the_smooth_logistic_margin_needs_a_stored_coupling_below_margins_of_35(monkeypatch):
    """There its conjugate has no closed form, and Newton's method wants K itself."""
    logistic, exponential = an_objective("smooth-logistic-margin"), an_objective("smooth-margin")
    start = np.full((2, 64), np.exp(8.0) / (4.0 * np.pi))
    flow, mesh = hkflow.Flow(1.0, 4.0, drive="measure"), hkflow.circle_mesh(64)
    method = hkflow.FiniteVolume(
        hkflow.Problem(mesh, logistic, flow, (1, -1), start), imex="implicit"
    )
    assert method.knows_implicit()  # uniform start: all margins are 0
    monkeypatch.setattr("hkflow.methods.stepping.implicit_loss_gradients.DENSE", 0)
    assert not method.knows_implicit()
    grown = hkflow.solve(hkflow.Problem(mesh, exponential, flow, (1, -1), start), 2.0).states[-1]
    method.load(grown)
    assert method.knows_implicit()


def test_the_composition_is_the_second_order_sdirk_method():
    """∫p dt over a step needs Σ bᵢ = 1 and Σ bᵢcᵢ = ½, with loss gradients at the ends of what they
    are implicit in."""
    (first, taken), (second, last) = implicit.SUBSTEPS[2]
    assert taken + last == pytest.approx(1.0) and first == second == last
    assert taken * first + last * 1.0 == pytest.approx(0.5, abs=1e-15)


def test_errors_of_implicit_steps_are_relative_to_the_longest_of_late():
    """Where loss gradients jump, steps as short as the jump asks for pass: what they are off by is
    little of what longer ones exchange."""
    from hkflow.methods.choice import make_method

    problem = grid("exponential", 50.0, feature="relu")
    method = make_method(problem, kind="characteristics", tolerance=1e-5)
    alone = method.advance(1e-3, implicit=True).error
    assert alone > 0.0 and method.reach == 0.0
    method.reach = 0.1
    assert method.advance(1e-3, implicit=True).error == pytest.approx(0.01 * alone, rel=1e-6)
    method.reach = 1e-4
    step = method.advance(1e-3, implicit=True)
    assert step.error == pytest.approx(alone, rel=1e-6)
    method.accept(step)
    assert method.reach == pytest.approx(1e-3) and method.state()["reach"] == method.reach
    method.accept(method.advance(4e-4, implicit=True))
    assert method.reach == pytest.approx(6e-4)


def many_data_problem(n=600):
    """Many data on the circle that a threshold separates, and 40 atoms for each sign."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=n)
    y = np.where(x > 0.0, 1.0, -1.0)
    inputs = np.column_stack([x + 0.3 * y, np.ones(n)])
    objective = hkflow.Objective(hkflow.FEATURES["relu"], hkflow.RISKS["smooth-margin"], inputs, y)
    points = np.tile(hkflow.quasi_uniform(40, 1), (2, 1))
    atoms = hkflow.PointMeasure(points, np.repeat([1.0, -1.0], 40))
    return hkflow.Problem(None, objective, hkflow.Flow(1.0, 4.0), (1, -1), atoms)


def many_data(kind, n=600, end=12.0, **options):
    """Its margin flow."""
    return hkflow.solve(many_data_problem(n), end, kind=kind, tolerance=1e-3, **options)


@pytest.mark.parametrize("kind", ["characteristics", "particles"])
def test_of_many_data_implicit_steps_are_taken_where_they_pay(kind):
    """Explicit steps would be as many as the mass is large."""
    run = many_data(kind)
    margin = (run.targets * run.predictions[-1]).min() / run.mass[-1]
    assert run.finished and run.log_mass[-1] > 10.0 and margin > 0.0
    assert len(run.records["time"]) < 100
    few = many_data(kind, n=200)  # where implicit steps cost next to nothing
    assert len(few.records["time"]) < 200
    implicit = many_data(kind, end=4.0, imex="implicit")
    explicit = many_data(kind, end=4.0, imex="explicit")
    assert implicit.log_mass[-1] == pytest.approx(explicit.log_mass[-1], abs=2e-3)


@cache
def stiff():
    """The state of a margin flow of many data, half of which lead, by characteristics."""
    method = make_method(many_data_problem(), "characteristics")
    for k in range(20):
        step = method.advance(0.05 + 0.01 * k, implicit=True)
        assert not step.rejection
        method.accept(step)
    assert 256 < method.n_leading() < 500
    return method.state()


def implicit_step_of_many_data():
    """Predictions and loss gradients after one more step, and how many data led at its begin."""
    method = make_method(many_data_problem(), "characteristics", tolerance=1e-8)
    method.load(stiff())
    leads = method.accepted_coupling().leading(method.current.loss_gradient)
    step = method.advance(0.25, implicit=True)
    assert not step.rejection
    return method.trial.predictions, method.trial.loss_gradient, len(leads)


def three_lead(coupling, loss_gradient):
    return np.sort(np.argsort(np.abs(loss_gradient))[-3:])


def test_leading_data_make_all_loss_gradients(monkeypatch):
    """As if K were made of all data, even if only three of them are known to lead."""
    h, r, count = implicit_step_of_many_data()
    assert count < 500
    for name, value in (("FEW", 1000), ("Coupling.leading", three_lead)):
        with monkeypatch.context() as patch:
            patch.setattr(f"{implicit_loss_gradients.__name__}.{name}", value)
            others, their, leads = implicit_step_of_many_data()
        assert leads == (600 if name == "FEW" else 3)
        assert np.abs(others - h).max() < 1e-8 * np.abs(h).max()
        assert np.abs(their - r).max() < 1e-6 * np.abs(r).max()


def test_sibling_data_that_are_not_made_to_lead_are_missed(monkeypatch):
    h, r, _ = implicit_step_of_many_data()
    monkeypatch.setattr(Coupling, "leading", three_lead)
    monkeypatch.setattr(Coupling, "followers", lambda *_: np.arange(0))
    others, their, _ = implicit_step_of_many_data()
    assert np.abs(their - r).max() > 0.1 * np.abs(r).max()


def test_both_substeps_share_one_matrix(monkeypatch):
    """Data that stop to lead in the middle of a step stay among those of which K is known."""
    method, made = make_method(many_data_problem(), "particles"), []
    of_points = points.PointMethod.state(method)
    method.load(method.state() | {name: stiff()[name] for name in of_points})

    def counted(objective, *state):
        made.append(len(objective.targets))
        return coupling_matrix(objective, *state)

    monkeypatch.setattr(points, "coupling_matrix", counted)
    assert not method.advance(0.25, implicit=True).rejection
    first, second = (e.loss_gradient for e in (method.current, method.trial))
    assert len(leading(method.problem.objective, second)) < made[0]
    assert made == [len(leading(method.problem.objective, first))]


def test_few_points_and_many_data_tell_their_stiffness_without_k(monkeypatch):
    method = make_method(many_data_problem(), "particles")
    method.n_leading = lambda: len(method.problem.objective.targets)
    wanted = method.stiffness()
    monkeypatch.setattr(points, "FEWER", 0)
    monkeypatch.setattr(points, "coupling_matrix", None)
    method.state_changed()
    assert method.stiffness() == pytest.approx(wanted, rel=1e-12)


def answer_of_a_linear_flow(margins, tau, log_scale=5.0, **options):
    """What coupled_loss_gradients make of data of a smooth margin whose predictions are linear in
    r: the objective, r, the step and the predictions."""
    n, rng = len(margins), np.random.default_rng(0)
    objective, root = an_objective("smooth-margin", n), rng.normal(size=(n, 20))
    K, h, guess = root @ root.T / 20, objective.targets * margins, np.zeros(n)
    objective.evaluate_risk(h, log_scale, guess)
    coupling = Coupling(objective, log_scale, lambda data: K[np.ix_(data, data)], **options)
    assert len(coupling.leading(guess)) == 1
    r, step = coupled_loss_gradients(
        coupling, lambda r, tau, step: h - tau * (K @ r), tau, guess, 1e-4
    )
    return objective, r, step, h - tau * (K @ r)


def one_far_behind(n=300):
    """Margins of which one weighs all at first, and many after a while."""
    margins = np.random.default_rng(1).uniform(-1.0, 1.0, n)
    margins[0] = -2.0
    return margins


def test_many_data_that_turn_out_to_lead_at_once_are_solved_for():
    """More than are made to lead at once: those that wait do not drive the flow."""
    objective, r, step, h = answer_of_a_linear_flow(one_far_behind(), 10.0)
    wanted = np.zeros_like(r)
    objective.evaluate_risk(h, 5.0, wanted)
    assert not step.rejection and np.sum(np.abs(r) > 1e-3) > 1
    assert np.abs(r - wanted).max() < 1e-8


def test_more_data_that_lead_than_are_stored_reject_the_step():
    """No matrix is made of them, which for 50,000 data would not fit into memory."""
    step = answer_of_a_linear_flow(one_far_behind(), 10.0, most=200)[2]
    assert step.rejection == "more than 200 data are to lead"


@pytest.mark.parametrize("loss", ["exponential", "logistic", "smooth-margin"])
def test_loss_gradients_of_data_that_follow_are_those_of_their_margins(loss, rng):
    """Those of ∇R at the predictions; data that weigh as much as those that lead are told."""
    n, log_scale = 300, 4.0
    objective = an_objective(loss, n)
    h = objective.targets * (0.3 + rng.random(n))
    wanted = np.zeros(n)
    objective.evaluate_risk(h, log_scale, wanted)
    coupling = Coupling.stored(objective, log_scale, np.eye(n))
    leads = coupling.leading(wanted)
    assert 1 < len(leads) < n
    found = np.where(np.isin(np.arange(n), leads), wanted, 0.0)
    assert not len(coupling.followers(0.1, leads, h, found))
    assert found == pytest.approx(wanted, rel=1e-9, abs=1e-14 * np.abs(wanted).max())
    found = np.where(np.isin(np.arange(n), leads[1:]), wanted, 0.0)
    assert coupling.followers(0.1, leads[1:], h, found).tolist() == [leads[0]]
    assert np.abs(found).max() <= np.abs(wanted[leads[1:]]).max()


def test_sibling_steps_of_many_data_that_stay_explicit_do_not_end(monkeypatch):
    monkeypatch.setattr(points.PointMethod, "most_stored", 2)
    run = many_data("characteristics", observers=[lambda state: state.step >= 1500])
    assert not run.finished


@pytest.mark.parametrize(
    "n, by_atoms, by_cells", [(256, 1.0, 1.0), (400, 250.0 / 3.0, 50.0), (600, 150.0, 64.0)]
)
def test_implicit_steps_cost_as_many_explicit_ones_as_data_lead(n, by_atoms, by_cells):
    """By products, as those of grids where many lead, as many as with the largest K. Of points as
    many more as factors of K cost, n²/60 over 80 points, or over 20 of fewer."""
    atoms = many_data_problem(n)
    start = np.full((2, 32), 0.1)
    cells = hkflow.Problem(hkflow.circle_mesh(32), atoms.objective, atoms.flow, (1, -1), start)
    assert make_method(atoms, "characteristics").implicit_cost == pytest.approx(by_atoms)
    few = replace(atoms, initial=atoms.initial.part(np.arange(10)))
    more = n**2 / 1200.0 if n > 256 else 0.0
    cost = make_method(few, "characteristics").implicit_cost
    assert cost == pytest.approx((n / 8.0 if n > 256 else 1.0) + more)
    assert make_method(cells, "grid").implicit_cost == by_cells


@pytest.mark.parametrize("imex", ["auto", "implicit"])
def test_products_follow_margins_of_the_logistic_tail_down_to_where_steps_are_explicit(imex):
    """600 data that all lead, whose margins fall from 89 to next to nothing by weight decay."""
    y = np.tile([1.0, -1.0], 300)
    inputs = np.column_stack([y * np.linspace(1.0, 1.001, 600), np.ones(600)])
    risk = hkflow.RISKS["smooth-logistic-margin"]
    objective = hkflow.Objective(hkflow.FEATURES["relu"], risk, inputs, y, weight_decay=3.0)
    mesh = hkflow.circle_mesh(64)
    start = np.exp(5.0 * mesh.centers[:, 0] * np.array([[1.0], [-1.0]]))
    start *= 200.0 / np.sum(start * mesh.volumes)
    problem = hkflow.Problem(mesh, objective, hkflow.Flow(1.0, 4.0), (1, -1), start)
    run = hkflow.solve(problem, 0.3, kind="grid", imex=imex, tolerance=1e-3)
    explicit = hkflow.solve(problem, 0.3, kind="grid", imex="explicit", tolerance=1e-3)
    margins = np.min(run.targets * run.predictions, axis=1)
    assert run.finished and margins[0] > 80.0 and margins[-1] < 10.0
    assert run.log_mass[-1] == pytest.approx(explicit.log_mass[-1], abs=2e-3)


class Costly:
    """A method whose explicit steps are stable up to 1e-3, and whose implicit ones cost as much as
    10 of them."""

    order, trusted, implicit_order, tolerance, max_step = 2, 0, 2, 1e-3, 1.0
    imex, fixed_steps, implicit_cost, least_gain = "auto", False, 10.0, 1.0
    stability, enters, leaves = 2.0, 0.8, 0.2

    def knows_implicit(self):
        return True

    def largest_stable_step(self, remaining):
        return np.inf

    def exceeds_stiffness(self, dt, limit):
        return dt * 2000.0 > limit

    def stable_step(self):
        return 1e-3


def test_what_an_implicit_step_costs_is_what_it_has_to_gain():
    """By its own length and before the next save: or else steps are explicit."""
    control = StepControl(Costly(), [9e-4, np.inf], False)
    assert control.propose(5e-3) == 9e-4 and not control.implicit  # the save comes first
    assert control.propose(1.0, look=False) == 9e-4 and not control.implicit
    assert control.propose(1.0) == 9e-3 and control.implicit  # 10 times as long, at first
    assert control.learn(9e-3, 1e-9) and control.propose(1.0) == 18e-3 and control.implicit
    control.propose(4e-3)  # what is left before a save does not pay
    assert not control.implicit and control.limits[False] == 1e-3
    control = StepControl(Costly(), [9e-4, 8e-3], False)  # found to be too short when last tried
    control.propose(1.0)
    assert not control.implicit


@pytest.mark.parametrize("make", [grid, particles])
def test_an_implicit_run_resumes_to_the_same_bits(make):
    """Loss gradients and their defect belong to the state: at large mass they do not follow from
    the measure."""
    problem = make("smooth-margin", np.exp(6.0), flow=hkflow.Flow(1.0, 4.0, drive="measure"))
    kind = {"kind": "particles", "tolerance": 1e-4} if make is particles else {}
    whole = cut(problem, 0.3, 0.6, **kind)
    assert whole.current.defect > 0.0 and whole.log_scale > 6.0


@pytest.mark.parametrize("at", [8.0, 10.0])
def test_a_run_of_many_data_resumes_to_the_same_bits(at):
    """Before and after its steps become implicit."""
    cut(many_data_problem(), at, 10.5, kind="characteristics", tolerance=1e-3)


def cut(problem, at, end, **kind):
    """Compute a run at once, and in two parts, which have to be the same; returns its method."""
    whole, first = make_method(problem, **kind), make_method(problem, **kind)
    integrate(whole, [0.0, at, end])
    clock, _, _ = integrate(first, [0.0, at])
    second = make_method(problem, **kind)
    second.load(
        {
            name: np.copy(value) if isinstance(value, np.ndarray) else value
            for name, value in first.state().items()
        }
    )
    integrate(second, [0.0, at, end], clock=clock)
    for name, value in whole.state().items():
        if name != "random":
            assert np.array_equal(value, second.state()[name]), name
    return whole


def test_the_output_layer_on_a_sphere_is_a_linear_flow():
    """g = ν/τ from zero obeys ġ = −J, square risk: the matrix exponential on the cells."""
    mesh, objective = hkflow.circle_mesh(24), an_objective("square")
    problem = hkflow.Problem(
        mesh, objective, hkflow.Flow(0.0, 1.0, depth=1.0), initial=np.zeros((1, 24))
    )
    solution = hkflow.solve(problem, 3.0, max_step=0.01)
    phi = objective.feature.matrix(mesh.centers, objective.inputs)
    q, tau = objective.weights, mesh.volumes / mesh.volumes.sum()
    values, vectors = np.linalg.eigh(np.sqrt(np.outer(q, q)) * ((phi * tau) @ phi.T))
    shrunk = vectors @ (np.exp(-3.0 * values) * (vectors.T @ (np.sqrt(q) * objective.targets)))
    assert objective.targets - solution.predictions[-1] == pytest.approx(
        shrunk / np.sqrt(q), abs=1e-6
    )
    assert solution.density[-1].min() < 0.0 < solution.density[-1].max()
    signs = solution.atoms_at(-1).signs
    assert set(signs) == {-1.0, 1.0}


def draws(domain, loss, seeds):
    """Margin problems with separable data, and uniform starts."""
    for seed in seeds:
        rng = np.random.default_rng(seed)
        circle = domain == "circle"
        x = rng.normal(size=(10, 1) if circle else (20, 2))
        score = x @ rng.normal(size=x.shape[1])
        y = np.where(score > np.median(score), 1.0, -1.0)
        lifted = np.column_stack([x, np.ones(len(x))])
        objective = hkflow.Objective(hkflow.FEATURES["relu"], hkflow.RISKS[loss], lifted, y)
        mesh = hkflow.circle_mesh(64) if circle else hkflow.geodesic_mesh(2)
        yield hkflow.Problem(mesh, objective, hkflow.Flow(1.0, 2.0), signs=(1, -1))


class StopAfter(hkflow.Observer):
    """Ends a run after so many steps, and knows how many were implicit."""

    def __init__(self, steps):
        self.most, self.taken, self.implicit = steps, 0, 0

    def step(self, method, clock):
        self.taken, self.implicit = clock.step, self.implicit + clock.implicit

    def stop(self):
        return "Stopped" if self.taken >= self.most else None


@pytest.mark.parametrize("domain", ["circle", "sphere"])
@pytest.mark.parametrize("loss", ["smooth-margin", "smooth-logistic-margin"])
def test_auto_takes_about_as_few_steps_as_the_better_coupling(domain, loss):
    """Explicit steps of stiff flows shrink like 1/mass: auto leaves them in time, and reaches the
    same margin."""
    for problem in draws(domain, loss, (1, 2) if domain == "circle" else (1,)):
        end, runs = 25.0, {}
        for coupling in ("implicit", "auto", "explicit"):
            watch = StopAfter(10**9 if coupling != "explicit" else 2 * runs["implicit"][1].taken)
            runs[coupling] = (
                hkflow.solve(problem, end, imex=coupling, observers=(watch,), record_interval=1.0),
                watch,
            )
        (implicit, best), (auto, own), (explicit, other) = runs.values()
        better = min(best.taken, other.taken) if explicit.finished else best.taken
        assert auto.finished and own.taken <= 1.3 * better + 10
        assert auto.records["margin"][-1] == pytest.approx(implicit.records["margin"][-1], abs=1e-3)
    assert own.implicit > 0


@pytest.mark.parametrize("flow", ["hellinger", "hellinger-kantorovich"])
def test_steps_are_long_where_data_are_fitted_to_rounding(flow):
    """In the kernel regime, a large mass, residuals soon are the rounding of predictions, to a
    share of which nothing can be solved for: steps were taken for unsettled, 10,000 of them."""
    rng = np.random.default_rng(4)
    x, y = 3.0 * rng.normal(size=(4, 3)), rng.normal(size=4)
    objective = hkflow.Objective(hkflow.FEATURES["squared-relu"], hkflow.RISKS["square"], x, y)
    points = hkflow.quasi_uniform(200, 2)
    positions, signs = np.vstack([points, points]), np.repeat([1, -1], 200)
    start = hkflow.PointMeasure(positions, signs, np.full(400, 0.25))
    problem = hkflow.Problem(None, objective, hkflow.named_flow(flow, 2, True), (1, -1), start)
    solution = hkflow.solve(problem, 0.3, kind="particles")
    assert solution.finished and solution.records["step"][-1] < 200
    assert solution.predictions[-1] == pytest.approx(y, abs=1e-11)
