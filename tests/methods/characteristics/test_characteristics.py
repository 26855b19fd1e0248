"""The method of characteristics: order, budgets, agreement with particles, stiff margins,
resumption, refusals."""

import numpy as np
import pytest
from conftest import by_threads
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import roots_jacobi

import hkflow
from hkflow.methods.characteristics import characteristics
from hkflow.methods.choice import make_method

KIND = {"kind": "characteristics"}
RATES = [(1.0, 0.0), (1.0, 2.0), (0.0, 4.0)]


def problem(flow, n=6, dim=2, m=60, loss="square", feature="relu", seed=0, inputs=None, decay=0.0):
    """Random data and evenly spread atoms, a little heavier on one side."""
    rng = np.random.default_rng(seed)
    x = (
        np.column_stack([rng.normal(size=(n, dim)), np.ones(n)])
        if inputs is None
        else np.array(inputs, dtype=float)
    )
    y = rng.normal(size=len(x))
    y = y if loss == "square" else np.where(y > 0.0, 1.0, -1.0)
    objective = hkflow.Objective(
        hkflow.FEATURES[feature], hkflow.RISKS[loss], x, y, weight_decay=decay
    )
    points = hkflow.quasi_uniform(m, x.shape[1] - 1)
    weights = np.tile((1.0 + points[:, 0] ** 2) / m, 2)
    atoms = hkflow.PointMeasure(np.tile(points, (2, 1)), np.repeat([1.0, -1.0], m), weights)
    return hkflow.Problem(None, objective, flow, (1, -1), atoms)


def by_steps(start, count, time):
    """The method after so many explicit steps of one size."""
    method = make_method(start, "characteristics", imex="explicit")
    for _ in range(count):
        step = method.advance(time / count)
        assert step.rejection is None
        method.accept(step)
    return method


def orders(found, wanted):
    errors = [np.abs(f - wanted).max() for f in found]
    return np.log2(np.divide(errors[:-1], errors[1:])), errors


@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_transport_exchanges_no_mass(decay):
    """The difference of two sums over all mass, each rounded in its own way, added up over steps:
    167,104 points stopped after 37, when the budget was off by 1e-12."""
    method = make_method(problem(hkflow.Flow(1.0, 0.0), m=1000, decay=decay), "characteristics")
    for _ in range(3):
        step = method.advance(0.1)
        assert step.rejection is None
        assert step.budget["mass_reaction"] == step.budget["mass_exchanged"] == 0.0
        method.accept(step)


@pytest.mark.parametrize("rates", [(1.0, 0.0), (1.0, 4.0), (0.0, 4.0)])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_third_order_in_time_against_the_exact_solution(dim, rates):
    """Gauss–Jacobi nodes along the axis, pairs of opposite points on circles of latitude."""
    axis = np.cos(1.0 + np.arange(dim + 1.0))
    exact = hkflow.MomentFlow(axis, 0.8, hkflow.Flow(*rates))
    e = exact.direction
    u, w = roots_jacobi(60, 0.5 * (dim - 2), 0.5 * (dim - 2))
    aside = np.eye(dim + 1)[0] - e[0] * e
    aside /= np.linalg.norm(aside)
    points = np.concatenate(
        [u[:, None] * e + s * np.sqrt(1 - u**2)[:, None] * aside for s in (1.0, -1.0)]
    )
    atoms = hkflow.PointMeasure(points, None, np.tile(0.5 * w / w.sum(), 2))
    start = hkflow.Problem(None, exact.objective(), exact.flow, (1,), atoms, exact)
    mass, moment = exact.mass_and_moment(2.0)
    found = []
    for count in (32, 64, 128):
        method = by_steps(start, count, 2.0)
        last = method.measure(method.state())
        found.append(np.append(last.moment(), last.mass))
    got, errors = orders(found, np.append(moment * e, mass))
    assert ((got > 2.7) & (got < 4.0)).all() and got[-1] < 3.8 and errors[-1] < 1e-7, (got, errors)


@pytest.mark.parametrize("feature, m", [("linear", 100), ("relu", 500)])
@pytest.mark.parametrize("rates", [(1.0, 0.0), (1.0, 2.0)])
def test_third_order_where_flows_do_not_commute(feature, m, rates):
    start = problem(hkflow.Flow(*rates), 5, 2, m, feature=feature, seed=1)
    wanted = by_steps(start, 160, 2.0).current.predictions
    got, errors = orders(
        [by_steps(start, count, 2.0).current.predictions for count in (20, 40)], wanted
    )
    assert ((got > 2.7) & (got < 4.0)).all(), (got, errors)


def test_sibling_one_mean_for_the_whole_step_is_of_second_order(monkeypatch):
    start = problem(hkflow.Flow(1.0, 2.0), 5, 2, 100, feature="linear")
    wanted = by_steps(start, 320, 2.0).current.predictions
    monkeypatch.setattr(characteristics, "HALVES", np.full((2, 2), 0.5))
    got, _ = orders(
        [by_steps(start, count, 2.0).current.predictions for count in (64, 128)], wanted
    )
    assert (got < 2.5).all()


@pytest.mark.parametrize("rates", [(1.0, 0.0), (1.0, 2.0)])
def test_predictions_agree_with_particles(rates):
    """Few data, strong kinks: particles that step over them chatter, in ten times the steps for
    each digit, to the same end."""
    start = problem(hkflow.Flow(*rates), 4, m=8, seed=3)
    ours = hkflow.solve(start, 2.0, [0.5, 2.0], tolerance=1e-8, **KIND)
    loose = hkflow.solve(start, 2.0, [0.5, 2.0], tolerance=1e-6, **KIND)
    theirs = hkflow.solve(
        start, 2.0, [0.5, 2.0], kind="particles", tolerance=1e-6, stepper="dopri5"
    )
    assert ours.records["captures"][-1] > 0.0
    assert np.abs(ours.predictions - theirs.predictions).max() < 2e-4
    assert np.abs(ours.predictions - loose.predictions).max() < 1e-6
    assert 50 * loose.records["step"][-1] < theirs.records["step"][-1]


@pytest.mark.parametrize("rates", RATES)
@pytest.mark.parametrize("loss", ["square", "logistic", "smooth-margin"])
def test_tolerance_is_the_size_of_the_error(loss, rates):
    start = problem(hkflow.Flow(*rates), 12, m=150, loss=loss, seed=1)
    exact = hkflow.solve(start, 4.0, tolerance=1e-7, **KIND).predictions[-1]
    size = max(np.sqrt(np.mean(exact**2)), 1.0)
    for tolerance in (1e-3, 1e-5):
        s = hkflow.solve(start, 4.0, tolerance=tolerance, **KIND)
        error = np.sqrt(np.mean((s.predictions[-1] - exact) ** 2)) / size
        assert error < 2.0 * tolerance and (np.diff(s.records["objective"]) < 0.0).all()
        exchanged = s.records["objective"][0] - s.records["objective"][-1]
        assert abs(s.records["energy_residual"][-1]) < 10.0 * tolerance * exchanged
        assert rates[1] > 0.0 or abs(s.records["mass"][-1] / s.records["mass"][0] - 1.0) < 1e-13


GRID = st.integers(-1, 1)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(GRID, GRID, st.integers(0, 1)), min_size=1, max_size=8),
    st.sampled_from(RATES),
    st.sampled_from(["square", "logistic"]),
)
def test_degenerate_data_come_to_an_end_and_lower_the_objective(inputs, rates, loss):
    """Grids, duplicates, opposite and zero inputs, many kinks through one point."""
    start = problem(hkflow.Flow(*rates), loss=loss, m=14, inputs=inputs)
    s = hkflow.solve(start, 5.0, **KIND)
    assert s.finished, s.status
    assert (np.diff(s.records["objective"]) <= 1e-15).all()
    assert abs(s.records["mass_residual"][-1]) < 1e-13
    assert rates[1] > 0.0 or abs(s.records["mass"][-1] / s.records["mass"][0] - 1.0) < 1e-13


def degenerate(family, seed):
    """Inputs (n, 3), off any grid but for the last family."""
    rng = np.random.default_rng(seed)
    if family == "gridded":
        return rng.integers(-1, 2, size=(8, 3)).astype(float)
    x = rng.normal(size=(5, 3))
    if family == "three kinks through one point":
        return rng.normal(size=(5, 2)) @ x[:2]
    if family == "zero rows":
        return x * np.array([1.0, 0.0, 1.0, 1.0, 1.0])[:, None]
    return np.concatenate([x, {"duplicates": x, "opposite": -x}[family]])


FAMILIES = ("three kinks through one point", "zero rows", "duplicates", "opposite", "gridded")


def faults(run, tolerance=1e-4):
    """What does not hold of a run: the end, F falls in every step, the mass, the energy identity
    to the tolerance, a tenth of what is wanted."""
    r = run.records
    F, mass = r["objective"], r["mass"]
    found = {
        "end": not run.finished,
        "F": (np.diff(F) > 1e-15).any(),
        "mass": np.abs(r["mass_residual"]).max() > 1e-13,
        "energy": np.abs(r["energy_residual"]).max() > tolerance * (F[0] - F[-1]),
    }
    if run.flow.reaction == 0.0:
        found["mass"] |= np.abs(mass / mass[0] - 1.0).max() > 1e-13
    return {name for name, wrong in found.items() if wrong}


@pytest.mark.parametrize("rates", RATES[:2])
@pytest.mark.parametrize("family", FAMILIES)
def test_budgets_close_where_loss_gradients_change_sign_during_slides(family, rates):
    flips = 0
    for seed in range(3):
        start = problem(hkflow.Flow(*rates), m=14, seed=seed, inputs=degenerate(family, seed))
        run = hkflow.solve(start, 5.0, **KIND)
        assert not faults(run), seed
        r = np.sign(run.history.loss_gradients)
        flips += int((r[1:] * r[:-1] < 0.0).sum()) if run.records["held"].max() > 0.0 else 0
    assert flips > 0


def test_sibling_the_loss_gradient_of_the_begin_alone_breaks_the_energy_identity(monkeypatch):
    def begin(values, ages, times, out):
        out[:] = values[len(ages)]

    monkeypatch.setattr(characteristics, "extrapolate", begin)
    monkeypatch.setattr(characteristics, "CAUTION", 0.0)
    start = problem(hkflow.Flow(1.0, 2.0), m=14, inputs=degenerate("opposite", 0))
    assert "energy" in faults(hkflow.solve(start, 5.0, max_step=0.5, **KIND))


def energy_defects(rates):
    """What is missing in the energy budget of runs of 10, 20 and 40 equal steps."""
    start, found = problem(hkflow.Flow(*rates), m=200, decay=0.1), []
    for count in (10, 20, 40):
        method, missing = make_method(start, "characteristics", imex="explicit"), 0.0
        for _ in range(count):
            before, step = method.current.objective, method.advance(0.5 / count)
            method.accept(step)
            missing += method.current.objective - before - step.budget.energy.sum()
        found.append(abs(missing))
    return found


@pytest.mark.parametrize("rates", RATES)
def test_the_energy_budget_is_of_third_order(rates):
    """At least; kinks are crossed where atoms move."""
    defects = energy_defects(rates)
    assert defects[0] > 20.0 * defects[2], defects


def test_sibling_what_atoms_lose_in_the_halves_alone_is_of_second_order(monkeypatch):
    monkeypatch.setattr(characteristics.Characteristics, "_correct_energy", lambda *_: None)
    for rates in RATES:
        defects = energy_defects(rates)
        assert defects[0] < 20.0 * defects[2], defects


def test_normalised_flows_and_weight_decay():
    """drive "measure" is the same flow seen through ν̄; "probability" keeps the mass as particles
    do; decay enters J."""
    plain = hkflow.solve(problem(hkflow.Flow(1.0, 2.0)), 3.0, tolerance=1e-6, **KIND)
    seen = hkflow.solve(
        problem(hkflow.Flow(1.0, 2.0, drive="measure")), 3.0, tolerance=1e-6, **KIND
    )
    assert np.abs(seen.predictions[-1] - plain.predictions[-1]).max() < 1e-5
    assert seen.records["mass"][-1] == pytest.approx(1.0, abs=1e-12)
    for flow, decay in (
        (hkflow.Flow(1.0, 2.0, drive="probability"), 0.0),
        (hkflow.Flow(1.0, 2.0), 0.2),
    ):
        start = problem(flow, 3, m=8, decay=decay, feature="linear")
        ours = hkflow.solve(start, 1.0, tolerance=1e-7, **KIND)
        theirs = hkflow.solve(start, 1.0, kind="particles", stepper="dop853", tolerance=1e-9)
        assert np.abs(ours.predictions - theirs.predictions).max() < 1e-6
        assert ours.records["mass"][-1] == pytest.approx(theirs.records["mass"][-1], abs=1e-6)
        assert (
            abs(ours.records["energy_residual"][-1]) < 1e-5
            and abs(ours.records["mass_residual"][-1]) < 1e-13
        )
        if flow.keeps_mass:
            assert ours.records["mass"][-1] == pytest.approx(ours.records["mass"][0], rel=1e-13)


def test_stiff_margins_are_implicit_and_enclosed():
    """Log mass 100 in some hundred steps; both ends of the interval close in on the max-margin."""
    start = problem(hkflow.Flow(1.0, 2.0, drive="measure"), 12, m=100, loss="smooth-margin", seed=5)
    s = hkflow.solve(start, 900.0, tolerance=1e-3, **KIND)
    r = s.records
    gamma = hkflow.certificates.max_margin(start.objective, (1, -1))
    assert s.finished and r["log_mass"][-1] > 100.0 and r["step"][-1] < 500, s.status
    assert r["margin_lower"][-1] <= gamma.upper and gamma.lower <= r["margin_upper"][-1]
    assert r["margin_upper"][-1] - r["margin_lower"][-1] < 1e-2 * gamma.lower


def heavy(mass):
    """Eight units of a large mass, the smooth margin of twelve data: loss gradients jump where
    kinks let a unit go."""
    rng = np.random.default_rng(2)
    x, y = np.column_stack([rng.normal(size=(12, 3)), np.ones(12)]), rng.choice([-1.0, 1.0], 12)
    objective = hkflow.Objective(hkflow.FEATURES["relu"], hkflow.RISKS["smooth-margin"], x, y)
    atoms = hkflow.PointMeasure(
        rng.normal(size=(8, 4)), np.tile([-1.0, 1.0], 4), np.full(8, mass / 8)
    )
    return hkflow.Problem(None, objective, hkflow.Flow(1.0, 2.0), (1, -1), atoms)


def test_steps_go_by_jumps_of_stiff_loss_gradients():
    """To the end in some hundred steps; a tenth of the tolerance is closer to explicit steps."""
    run = hkflow.solve(heavy(1e10), 50.0, [50.0], kind="characteristics")
    assert run.finished and run.end["steps"] <= 300, run.status
    wanted = hkflow.solve(
        heavy(1e2), 2.0, [2.0], kind="characteristics", tolerance=1e-6, imex="explicit"
    ).predictions[-1]
    for tolerance in (1e-3, 1e-4):
        got = hkflow.solve(
            heavy(1e2), 2.0, [2.0], kind="characteristics", tolerance=tolerance, imex="implicit"
        ).predictions[-1]
        assert np.linalg.norm(got - wanted) < 5.0 * tolerance * np.linalg.norm(wanted)


def test_sibling_errors_relative_to_single_steps_end_at_a_jump(monkeypatch):
    """What one step exchanges is less than the jump, however short it is."""
    no_reach = property(lambda _: 0.0, lambda *_: None)
    monkeypatch.setattr(characteristics.Characteristics, "reach", no_reach, raising=False)
    run = hkflow.solve(heavy(1e10), 50.0, [50.0], kind="characteristics")
    assert not run.finished and run.time[-1] < 1.0


def test_the_clock_of_the_margin_runs_by_it():
    start = problem(
        hkflow.Flow(1.0, 2.0, time_variable="margin"), 12, m=40, loss="smooth-margin", seed=5
    )
    s = hkflow.solve(start, 1.0, tolerance=1e-4, **KIND)
    assert s.finished and s.records["objective"][0] - s.records["objective"][-1] == pytest.approx(
        1.0, abs=1e-8
    )


def test_resumed_bit_for_bit():
    """Also where steps are implicit, and in the midst of a history."""
    for loss, end in (("square", 3.0), ("smooth-margin", 40.0)):
        start = problem(hkflow.Flow(1.0, 2.0, drive="measure"), 10, m=50, loss=loss)
        one = make_method(start, "characteristics", tolerance=1e-3)
        two = make_method(start, "characteristics", tolerance=1e-3)
        for count in range(12):
            if count in (1, 2, 7):
                two = make_method(start, "characteristics", tolerance=1e-3)
                two.load({name: np.copy(value) for name, value in one.state().items()})
            for method in (one, two):
                method.accept(method.advance(end / 40.0))
            a, b = one.state(), two.state()
            assert all(np.array_equal(a[name], b[name]) for name in a), count


def test_one_and_two_threads_make_the_same_bits():
    def moved():
        start = problem(hkflow.Flow(1.0, 2.0), 40, m=700)
        last = hkflow.solve(start, 1.0, kind="characteristics").states[-1]
        return last["positions"], last["log_weights"]

    one, two = by_threads(moved)
    assert all(map(np.array_equal, one, two))


def test_what_has_no_closed_form_is_refused_with_the_method_that_has_it():
    noisy = problem(hkflow.Flow(1.0, 2.0, noise=0.1))
    with pytest.raises(
        ValueError, match="has no noise, got noise = 0.1. Choose from: grid, particles"
    ):
        make_method(noisy, "characteristics")
    for flow in (noisy.flow, hkflow.Flow("1 + t", 2.0)):  # also by the class itself
        with pytest.raises(ValueError, match="neither noise nor entropy, nor rates that vary"):
            hkflow.Characteristics(problem(flow))
    with pytest.raises(ValueError, match="not for the feature 'squared-relu'"):
        make_method(problem(hkflow.Flow(1.0, 4.0), feature="squared-relu"), "characteristics")
    with pytest.raises(ValueError, match="mobility of depth 2"):
        make_method(problem(hkflow.Flow(0.0, 9.0, depth=3.0)), "characteristics")
    with pytest.raises(ValueError, match="Unknown imex 'explict'"):
        make_method(problem(hkflow.Flow()), "characteristics", imex="explict")


def test_too_many_events_are_reported(monkeypatch):
    method = make_method(problem(hkflow.Flow()), "characteristics")
    monkeypatch.setattr(method.move, "most", 0)
    assert "atoms met more than 0 kinks in one step" in method.advance(5.0).rejection


def test_a_step_that_leaves_no_mass_is_rejected():
    """Where the flow keeps the mass, λ = 1 leaves e^−10⁴ of it to be scaled up after 10⁴."""
    flow = hkflow.Flow(1.0, 1.0, drive="probability")
    step = make_method(problem(flow, decay=1.0), "characteristics").advance(1e4)
    assert step.rejection == "no mass is left"
