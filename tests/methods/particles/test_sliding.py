"""Particles that meet kinks: closed forms, an independent event-driven integration, budgets, few
steps, resumption."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import by_threads
from event_driven import event_driven
from hypothesis import given, settings
from hypothesis import strategies as st

import hkflow
from hkflow.methods.choice import make_method
from hkflow.methods.frozen_relu.kinks import Kinks
from hkflow.methods.particles import particles, sliding
from hkflow.methods.particles.shifted import ShiftedKinks
from hkflow.methods.particles.waveform import NODES, Sliding
from hkflow.operators.dense import blocked, unblocked

RELU = hkflow.FEATURES["relu"]
KIND = {"kind": "particles"}
RATES = [(1.0, 0.0), (1.0, 2.0)]


def kinked(below, above):
    """The ridge with these slopes below and above 0."""

    def ramp(s):
        slope = np.where(s > 0.0, above, below)
        return slope * s, slope

    return hkflow.ridge(ramp, degree=1)


def moved(points, signs, inputs, loss_gradient, rates, time, slopes=(0.0, 1.0), joint=False):
    """Positions and growth of log masses at the end, and the sums; loss_gradient (k, n_data)."""
    n, blocks = len(points), blocked(np.asarray(points, dtype=float))
    move = Sliding(Kinks.of(kinked(*slopes), inputs), joint, len(blocks))
    out = np.zeros((4, *blocks.shape)), np.zeros((4, n))
    drive = np.atleast_2d(loss_gradient), np.zeros(1)
    signs = np.array(signs, dtype=float)
    sums = move((blocks, np.zeros(n)), signs, drive, rates, time, 0.0, NODES[1:], out)
    return unblocked(out[0][-1], n), out[1][-1], sums


A, B = np.eye(3)[:2]
VALLEY = np.array([A, -A, B, -B])  # |a·θ| + s b·θ is a sum of ReLUs


def circle(theta, force, time):
    """The flow of J = force·θ for a time."""
    size = np.linalg.norm(force)
    e, tau = -force / size, size * time
    z = e @ theta
    c, f = z * (np.cosh(tau) - 1.0) + np.sinh(tau), np.cosh(tau) + z * np.sinh(tau)
    return (theta + c * e) / f


def valley(theta, slope, time):
    """The flow of |a·θ| + slope b·θ: until a·θ = 0, then along the circle."""
    force = np.sign(theta @ A) * A + slope * B
    size = np.linalg.norm(force)
    e = -force / size
    z, c = e @ theta, -(A @ theta) / (A @ e)
    hit = np.log((z + c + np.sqrt((z + c) ** 2 + 1.0 - z**2)) / (1.0 + z)) / size
    if hit >= time or c < 0.0:
        return circle(theta, force, time)
    on = circle(theta, force, hit)
    on -= (on @ A) * A
    return circle(on / np.linalg.norm(on), slope * B, time - hit)


@pytest.mark.parametrize("slope, time", [(0.3, 4.0), (0.1, 8.0)])
def test_the_valley_is_slid_along_to_rounding(slope, time):
    """Also where the loss gradient grows like 1 + t: the same flow in the time t + t²/2."""
    points = hkflow.random_uniform(np.random.default_rng(0), 300, 2)
    r = np.array([1.0, 1.0, slope, -slope])
    wanted = np.array([valley(theta, slope, time) for theta in points])
    got, _, sums = moved(points, np.ones(300), VALLEY, r, (1.0, 0.0, 0.0, 0.0), time)
    assert np.abs(got - wanted).max() < 1e-11 and sums["captures"] > 290
    end = np.sqrt(1.0 + 2.0 * time) - 1.0
    got, _, _ = moved(points, np.ones(300), VALLEY, [r, end * r], (1.0, 0.0, 0.0, 0.0), end)
    assert np.abs(got - wanted).max() < 1e-10


def test_sibling_without_events_the_valley_is_missed(monkeypatch):
    monkeypatch.setattr(sliding, "first_zero", lambda c, count, side, allowed, end: end)
    theta, r = np.array([0.6, 0.0, 0.8]), np.array([[1.0, 1.0, 0.3, -0.3]])
    move = Sliding(Kinks.of(RELU, VALLEY), False, 1)
    jumps, constant = move.potential(r)
    scratch = move.scratch(1, 1)
    scratch.states[0, 0] = np.append(theta, 1.0) / np.sqrt(2.0)
    sliding.move.py_func(
        1.0, (), jumps, constant[:, 0], move.normals, move.rows, 1.0, 0.0, 0.0, np.zeros(1),
        np.zeros(1), 4.0, True, np.ones(1), 100, scratch, 0, np.zeros(len(sliding.SUMS)),
    )  # fmt: skip
    assert np.abs(np.sqrt(2.0) * scratch.at_nodes[0, 0, :3] - valley(theta, 0.3, 4.0)).max() > 0.1


@pytest.mark.parametrize("joint", [False, True])
def test_frozen_potentials_dissipate_what_the_sums_say(joint):
    """∫J dν falls by ∫∫ α|∇J|² + β J² dν dt, crossings, slides and releases included."""
    rng = np.random.default_rng(5)
    x, r = rng.normal(size=(8, 3)), rng.normal(size=8) / 3.0
    points, signs = hkflow.random_uniform(rng, 200, 2 + joint), np.ones(200)

    def J(theta):
        return r @ np.maximum(x @ theta[:, :3].T, 0.0) * (theta[:, 3] if joint else 1.0) + 0.1

    got, growth, sums = moved(points, signs, x, r, (0.8, 2.0, 0.0, 0.1), 3.0, joint=joint)
    lost = J(points).sum() - np.exp(growth) @ J(got)
    assert lost == pytest.approx(0.8 * sums["steep"] + 2.0 * sums["reaction"], rel=1e-9)
    assert sums["captures"] > 0.0 and sums["failures"] == 0.0


def test_a_balanced_joint_unit_is_a_signed_one():
    rng = np.random.default_rng(2)
    x, r = rng.normal(size=(6, 3)), rng.normal(size=(3, 6)) / 2.0
    points, signs = hkflow.random_uniform(rng, 100, 2), rng.choice([-1.0, 1.0], size=100)
    one, growth, _ = moved(points, signs, x, r, (1.0, 2.0, 0.0, 0.1), 2.0)
    doubled = np.column_stack([points, signs]) / np.sqrt(2.0)
    two, grown, _ = moved(doubled, signs, x, r, (1.0, 4.0, 0.0, 0.05), 2.0, joint=True)
    assert np.abs(np.sqrt(2.0) * two[:, :3] - one).max() < 1e-9
    assert np.abs(grown - growth).max() < 1e-9


def test_absolute_values_are_two_units():
    """ψ = |s| with inputs x is ReLU with inputs x and −x."""
    rng = np.random.default_rng(3)
    x, r = rng.normal(size=(5, 3)), rng.normal(size=(2, 5))
    points = hkflow.random_uniform(rng, 100, 2)
    rates = 1.0, 2.0, 0.0, 0.0
    one, growth, _ = moved(points, np.ones(100), x, r, rates, 1.0, slopes=(-1.0, 1.0))
    both = np.concatenate([x, -x]), np.concatenate([r, r], axis=1)
    two, grown, _ = moved(points, np.ones(100), *both, rates, 1.0)
    assert np.abs(one - two).max() < 1e-11 and np.abs(growth - grown).max() < 1e-11


def problem(flow, n=6, m=20, seed=0, loss="square", feature=RELU, inputs=None, decay=0.0):
    """Random data with a bias, and evenly spread particles of both signs, or on the joint
    sphere."""
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.normal(size=(n, 2)), np.ones(n)]) if inputs is None else inputs
    x = np.array(x, dtype=float)
    y = rng.normal(size=len(x))
    y = y if loss == "square" else np.where(y > 0.0, 1.0, -1.0)
    objective = hkflow.Objective(feature, hkflow.RISKS[loss], x, y, weight_decay=decay)
    if feature.joint:
        atoms = hkflow.PointMeasure(hkflow.quasi_uniform(2 * m, x.shape[1]))
        return hkflow.Problem(None, objective, flow, (1,), atoms)
    points = hkflow.quasi_uniform(m, x.shape[1] - 1)
    atoms = hkflow.PointMeasure(np.tile(points, (2, 1)), np.repeat([1.0, -1.0], m))
    return hkflow.Problem(None, objective, flow, (1, -1), atoms)


def agree(s, wanted, within):
    """In few steps, in all of which F falls, by what the budget says."""
    F, steps = s.records["objective"], s.records["step"][-1]
    assert s.finished and steps < 400
    assert np.abs(s.predictions - wanted).max() < within
    assert (np.diff(F) < 0.0).all()
    assert abs(s.records["energy_residual"][-1]) < 1e-7 * (F[0] - F[-1])


@pytest.mark.parametrize("feature", ["relu", "joint-relu"])
@pytest.mark.parametrize("rates", RATES)
def test_the_reference_agrees_with_an_event_driven_integration(rates, feature):
    start = problem(hkflow.Flow(*rates), 4, 2, seed=5, feature=hkflow.FEATURES[feature], decay=0.02)
    s = hkflow.solve(start, 5.0, [1.0, 2.0, 5.0], tolerance=1e-10, **KIND)
    wanted, slid = event_driven(start, [1.0, 2.0, 5.0])
    assert slid and s.finished and s.records["step"][-1] < 400
    assert np.abs(s.predictions - wanted).max() < 2e-8


def classes(outputs, seed, rates=(1.0, 4.0), m=5, n=6, p=2):
    """Units of several outputs, one with b = 0, which data of as many classes drive."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(n, p)), np.arange(n) % outputs
    positions = rng.normal(size=(m, p + outputs))
    positions[0, p:] = 0.0
    objective = hkflow.Objective(hkflow.vector_feature("relu", outputs), hkflow.SOFTMAX, x, y)
    positions /= np.linalg.norm(positions, axis=1)[:, None]
    atoms = hkflow.PointMeasure(positions, None, 1.0 + rng.random(m))
    return hkflow.Problem(None, objective, hkflow.Flow(*rates), (1,), atoms)


@pytest.mark.parametrize("outputs, seed", [(2, 0), (3, 1), (4, 3)])
@pytest.mark.parametrize("rates", RATES)
def test_several_outputs_agree_with_an_event_driven_integration(rates, outputs, seed):
    start = classes(outputs, seed, rates)
    s = hkflow.solve(start, 8.0, [1.0, 3.0, 8.0], tolerance=1e-9, **KIND)
    wanted, slid = event_driven(start, [1.0, 3.0, 8.0])
    assert slid
    agree(s, wanted, 1e-7)


def test_the_order_of_classes_does_not_matter():
    start = classes(3, 1, n=7)
    o, atoms, order = start.objective, start.initial, np.array([2, 0, 1])
    a, b = np.split(atoms.positions, [2], axis=1)
    moved = hkflow.PointMeasure(np.column_stack([a, b[:, order]]), None, atoms.weights)
    other = replace(o, targets=np.argsort(order)[o.targets.astype(int)])
    one, two = (
        hkflow.solve(s, 8.0, tolerance=1e-5, **KIND)
        for s in (start, replace(start, objective=other, initial=moved))
    )
    assert one.records["step"][-1] == two.records["step"][-1]
    assert np.abs(one.predictions[-1][:, order] - two.predictions[-1]).max() < 1e-10


def test_sibling_kinks_of_one_output_are_not_those_of_several(monkeypatch):
    start, potential = classes(3, 1), Sliding.potential
    right = hkflow.solve(start, 8.0, tolerance=1e-7, **KIND)

    def of_first(move, loss_gradient):
        jumps, constant = potential(move, loss_gradient)
        jumps[:, 1:] = 0.0
        return jumps, constant

    monkeypatch.setattr(Sliding, "potential", of_first)
    wrong = hkflow.solve(start, 8.0, tolerance=1e-3, **KIND)
    assert not np.abs(wrong.predictions[-1] - right.predictions[-1]).max() < 1e-2


def test_few_levels_of_a_table_take_few_steps():
    """Three by three levels of 200 rows make nine kinks: over them, the pair of order five takes
    11,569 steps for an error of 2e-3."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, size=(200, 2)).astype(float)
    y = x.sum(axis=1) % 3
    x = np.column_stack([(x - x.mean(axis=0)) / x.std(axis=0), np.ones(200)])
    objective = hkflow.Objective(hkflow.vector_feature("relu", 3), hkflow.SOFTMAX, x, y)
    atoms = hkflow.PointMeasure(hkflow.quasi_uniform(200, 5))
    start = hkflow.Problem(None, objective, hkflow.Flow(1.0, 4.0), (1,), atoms)
    coarse, fine = (hkflow.solve(start, 10.0, tolerance=t, **KIND) for t in (1e-5, 1e-8))
    steps = [s.records["step"][-1] for s in (coarse, fine)]
    assert steps[0] <= 20 and steps[1] <= 60
    assert np.abs(coarse.predictions[-1] - fine.predictions[-1]).max() < 2e-4


@pytest.mark.parametrize("tolerance, slides", [(1e-5, False), (1e-6, True), (1e-7, True)])
def test_several_outputs_step_over_kinks_where_that_is_cheap(tolerance, slides):
    """50 kinks: fewer than 1e-4/tolerance are located."""
    start = classes(3, 0, n=50)
    assert make_method(start, "particles", tolerance=tolerance).sees_kinks == slides
    assert make_method(start, "particles").sees_kinks  # the default is 1e-6
    many = classes(3, 0, n=150)
    assert make_method(many, "particles").tolerance == 1e-6
    assert not make_method(many, "particles").sees_kinks
    assert make_method(many, "particles", tolerance=5e-7).sees_kinks


@pytest.mark.parametrize("rates", RATES)
def test_the_reference_agrees_with_characteristics(rates):
    start = problem(hkflow.Flow(*rates), 4, 8)
    s = hkflow.solve(start, 5.0, [1.0, 2.0, 5.0], tolerance=1e-10, **KIND)
    other = hkflow.solve(start, 5.0, [1.0, 2.0, 5.0], kind="characteristics", tolerance=1e-8)
    assert np.abs(s.predictions - other.predictions).max() < 2e-8


@pytest.mark.parametrize("rates", RATES)
def test_strong_kinks_take_few_steps(rates):
    """Square loss of six data to t = 40: 60,446 steps without event location."""
    start = problem(hkflow.Flow(*rates), m=40, seed=1)
    wanted = hkflow.solve(start, 40.0, tolerance=1e-7, **KIND).predictions[-1]
    s = hkflow.solve(start, 40.0, tolerance=1e-6, **KIND)
    r = s.records
    assert r["step"][-1] <= 250 and np.abs(s.predictions[-1] - wanted).max() < 1e-5
    assert (np.diff(r["objective"]) < 0.0).all()
    assert abs(r["energy_residual"][-1]) < 1e-5 * (r["objective"][0] - r["objective"][-1])
    assert abs(r["mass_residual"][-1]) < 1e-13 * r["mass"][-1]
    assert rates[1] > 0.0 or abs(r["mass"][-1] / r["mass"][0] - 1.0) < 1e-13


def test_sibling_a_solver_that_steps_over_kinks_chatters():
    start = problem(hkflow.Flow(1.0), 4, 8, seed=3)
    steps = [
        hkflow.solve(start, 1.0, stepper=stepper, tolerance=1e-6, **KIND).records["step"][-1]
        for stepper in ("auto", "dopri5")
    ]
    assert 20 * steps[0] < steps[1]


GRID = st.integers(-1, 1)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(GRID, GRID, st.integers(0, 1)), min_size=1, max_size=7),
    st.sampled_from(RATES),
    st.sampled_from(["square", "logistic"]),
    st.sampled_from(["relu", "joint-relu"]),
)
def test_degenerate_data_come_to_an_end_and_lower_the_objective(inputs, rates, loss, feature):
    """Grids, duplicates, opposite and zero inputs, many kinks through one point."""
    feature = hkflow.FEATURES[feature]
    start = problem(hkflow.Flow(*rates), m=10, loss=loss, inputs=inputs, feature=feature)
    s = hkflow.solve(start, 5.0, tolerance=1e-5, **KIND)
    r = s.records
    assert s.finished and r["step"][-1] < 400, s.status
    assert (np.diff(r["objective"]) <= 1e-15).all()
    assert abs(r["mass_residual"][-1]) < 1e-13 * r["mass"][-1]


@pytest.mark.parametrize(
    "flow, decay, loss",
    [
        (hkflow.Flow(1.0, 2.0, drive="probability"), 0.1, "square"),
        (hkflow.Flow(1.0, 2.0, drive="measure"), 0.0, "square"),
        (hkflow.Flow(1.0, 2.0, time_variable="margin"), 0.0, "smooth-margin"),
    ],
)
def test_drives_clocks_and_decay_agree_with_characteristics(flow, decay, loss):
    start = problem(flow, 5, 10, loss=loss, decay=decay)
    s = hkflow.solve(start, 1.0, tolerance=1e-8, imex="explicit", **KIND)
    other = hkflow.solve(start, 1.0, kind="characteristics", tolerance=1e-8, imex="explicit")
    assert s.finished and np.abs(s.predictions[-1] - other.predictions[-1]).max() < 1e-6
    assert s.records["mass"][-1] == pytest.approx(other.records["mass"][-1], rel=1e-6)


def test_noise_decays_and_injects_as_it_does_between_steps_of_the_other_solver():
    start = problem(hkflow.Flow(1.0, 2.0, 0.2), 4, 10)
    options = {"noise_points": 20, "noise_interval": 0.1, **KIND}
    one = hkflow.solve(start, 0.5, tolerance=1e-8, **options)
    two = hkflow.solve(start, 0.5, tolerance=1e-7, stepper="dopri5", **options)
    assert one.records["particles"][-1] == two.records["particles"][-1]
    assert np.abs(one.predictions[-1] - two.predictions[-1]).max() < 1e-4


def test_stiff_margins_are_implicit():
    """Frozen flows of implicit steps see the kinks as well: the normalised margin never falls."""
    start = problem(hkflow.Flow(1.0, 2.0, drive="measure"), 12, 30, loss="smooth-margin", seed=5)
    s = hkflow.solve(start, 60.0, tolerance=1e-3, **KIND)
    assert s.finished and s.records["log_mass"][-1] > 4.0 and s.records["step"][-1] < 400, s.status


def test_resumed_bit_for_bit():
    for loss, feature in (("square", "relu"), ("smooth-margin", "relu"), ("square", "joint-relu")):
        start = problem(hkflow.Flow(1.0, 2.0), 8, loss=loss, feature=hkflow.FEATURES[feature])
        one, two = (make_method(start, tolerance=1e-4, **KIND) for _ in range(2))
        for count in range(8):
            if count in (1, 5):
                two = make_method(start, tolerance=1e-4, **KIND)
                two.load({name: np.copy(v) for name, v in one.state().items() if name != "random"}
                         | {"random": one.state()["random"]})  # fmt: skip
            implicit = loss == "smooth-margin" and count >= 4
            for method in (one, two):
                step = method.advance(0.1, implicit)
                assert not step.rejection
                method.accept(step)
            a, b = one.state(), two.state()
            assert all(np.array_equal(a[name], b[name]) for name in a if name != "random"), count


def test_one_and_two_threads_make_the_same_bits():
    def moved():
        start = problem(hkflow.Flow(1.0, 2.0), 40, m=700)
        last = hkflow.solve(start, 0.5, tolerance=1e-4, **KIND).states[-1]
        return last["positions"], last["log_weights"]

    one, two = by_threads(moved)
    assert all(map(np.array_equal, one, two))


def leaky(s):
    return np.where(s > 0.0, s, 0.1 * s), np.where(s > 0.0, 1.0, 0.1)


def test_a_users_ridge_of_degree_1_slides():
    feature = hkflow.ridge(leaky, degree=1)
    assert feature.kink == (0.1, 1.0) and hkflow.ridge(leaky).kink is None
    start = problem(hkflow.Flow(1.0), 4, 8, seed=3, feature=feature)
    s = hkflow.solve(start, 3.0, tolerance=1e-6, **KIND)
    fine = hkflow.solve(start, 3.0, tolerance=1e-9, **KIND)
    assert s.records["step"][-1] < 100 and (np.diff(s.records["objective"]) < 0.0).all()
    assert np.abs(s.predictions[-1] - fine.predictions[-1]).max() < 1e-5


# ψ(s) = v + b s + Σ_j J_j (s − c_j)₊ as (v, b, c, J)
SHIFTED = {
    "hinge": (0.0, 0.0, [0.3], [1.0]),
    "absolute value": (0.4, -1.0, [0.4], [2.0]),
    "hat": (0.0, 0.0, [-0.6, 0.1, 0.7], [1.0, -2.0, 1.0]),
    "with levels": (0.5, 0.3, [-0.2, 0.5], [-0.7, 1.1]),
}


def piecewise(value, below, places, jumps, declared=None):
    """The ridge of this ψ, which declares all its kinks or those given."""

    def psi(s):
        up = np.asarray(s, dtype=float)[..., None] - places
        return value + below * s + np.maximum(up, 0.0) @ jumps, below + (up > 0.0) @ jumps

    return hkflow.ridge(psi, kinks=places if declared is None else declared)


def shifted_problem(shape, rates, seed):
    feature = piecewise(*SHIFTED[shape])
    return problem(hkflow.Flow(*rates), 4, 2, seed=seed, feature=feature, decay=0.02)


@pytest.mark.parametrize(
    "shape, seed", [("hinge", 0), ("absolute value", 3), ("hat", 3), ("with levels", 5)]
)
@pytest.mark.parametrize("rates", RATES)
def test_kinks_off_the_origin_agree_with_an_event_driven_integration(rates, shape, seed):
    start = shifted_problem(shape, rates, seed)
    s = hkflow.solve(start, 3.0, [1.0, 3.0], tolerance=1e-10, **KIND)
    wanted, slid = event_driven(start, [1.0, 3.0], SHIFTED[shape])
    assert slid
    agree(s, wanted, 1e-8)


def test_sibling_without_their_levels_masses_grow_wrongly(monkeypatch):
    start, gradient = shifted_problem("with levels", (1.0, 2.0), 5), ShiftedKinks.gradient

    def without(kinks, loss_gradient):
        jumps, constant = gradient(kinks, loss_gradient)
        constant[-1] = 0.0
        return jumps, constant

    right = hkflow.solve(start, 1.0, tolerance=1e-6, **KIND).predictions[-1]
    monkeypatch.setattr(ShiftedKinks, "gradient", without)
    wrong = hkflow.solve(start, 1.0, tolerance=1e-6, **KIND).predictions[-1]
    assert np.abs(wrong - right).max() > 1e-3


def test_kinks_through_the_origin_are_those_of_degree_1():
    flow = hkflow.Flow(1.0, 2.0)
    one, two = (
        hkflow.solve(problem(flow, 4, 8, feature=feature), 5.0, tolerance=1e-9, **KIND)
        for feature in (RELU, piecewise(0.0, 0.0, [0.0], [1.0]))
    )
    assert np.abs(one.predictions[-1] - two.predictions[-1]).max() < 1e-8


def test_kinks_have_to_be_those_of_the_function():
    with pytest.raises(ValueError, match="grow"):
        hkflow.ridge(leaky, kinks=(0.5, 0.5))
    for wrong in ([0.1], [-0.6, 0.7]):
        with pytest.raises(ValueError, match="linear between its kinks"):
            _ = piecewise(*SHIFTED["hat"], declared=wrong).hinges
    value, below, places, jumps = piecewise(*SHIFTED["with levels"]).hinges
    assert (value, below) == pytest.approx((0.5, 0.3)) and list(places) == [-0.2, 0.5]
    assert jumps == pytest.approx([-0.7, 1.1])


def test_features_without_kinks_take_the_steps_they_took():
    start = problem(hkflow.Flow(1.0, 4.0), feature=hkflow.FEATURES["squared-relu"])
    one, two = (hkflow.solve(start, 1.0, stepper=s, **KIND) for s in ("auto", "dopri5"))
    assert np.array_equal(one.predictions, two.predictions)


def test_too_many_events_are_reported(monkeypatch):
    method = make_method(problem(hkflow.Flow()), **KIND)
    monkeypatch.setattr(method.sliding, "most", 0)
    assert "particles met more than 0 kinks in one step" in method.advance(5.0).rejection


Q = np.array([[0.0, 0.1, 0.0], [0.1, 0.2, 0.0], [0.0, 0.0, -0.1]])  # V = ½ θᵀQθ + 0.1 z
BESIDE = (
    hkflow.External("0.1*x*y + 0.1*y**2 - 0.05*z**2 + 0.1*z"),
    hkflow.Interaction("quadratic", -0.05),
)


def forces_beside(theta, w):
    """∇E + E θ of E = ½ θᵀQθ + 0.1 z − 0.05 Σ_j w_j (θ·θ_j)²."""
    t = theta @ theta.T
    E = 0.5 * np.sum(theta @ Q * theta, axis=1) + 0.1 * theta[:, 2] - 0.05 * t**2 @ w
    found = theta @ Q + [0.0, 0.0, 0.1] - 0.1 * (w * t) @ theta
    return found + (E - np.sum(found * theta, axis=1))[:, None] * theta


def with_energies(start):
    return replace(start, objective=hkflow.Sum(start.objective, *BESIDE))


@pytest.mark.parametrize("shape", [None, "with levels"])
@pytest.mark.parametrize("rates", RATES)
def test_data_beside_energies_agree_with_an_event_driven_integration(rates, shape):
    """Kinks are located there as well, at what an order of five costs."""
    hinges = (SHIFTED[shape],) if shape else ((0.0, 0.0, [0.0], [1.0]),)
    start = shifted_problem(shape, rates, 5) if shape else problem(hkflow.Flow(*rates), 4, 2, 5)
    start, times = with_energies(start), [1.0, 3.0]
    s = hkflow.solve(start, 3.0, times, tolerance=1e-9, **KIND)
    wanted, slid = event_driven(start, times, *hinges, forces_beside)
    assert slid
    agree(s, wanted, 1e-7)
    alone, _ = event_driven(start, times, *hinges)
    assert np.abs(s.predictions - alone).max() > 1e-3


def drifting():
    """Dead units that a quadratic potential moves, far from the data's kinks, and the angle at
    which they arrive: of θ = (sin a, cos a) in V = −½ z², tan a falls like e^−t."""
    x = np.array([[0.3, 0.0, 1.0], [-0.3, 0.0, 1.0]])
    data = hkflow.Objective(RELU, hkflow.RISKS["square"], x, np.array([1.0, -1.0]))
    angles = np.linspace(0.3, 1.2, 5)
    atoms = hkflow.PointMeasure(np.column_stack([np.sin(angles), 0.0 * angles, -np.cos(angles)]))
    energy = hkflow.Sum(data, hkflow.External("-0.5*z**2"))
    found = hkflow.solve(
        hkflow.Problem(None, energy, hkflow.Flow(1.0), (1,), atoms), 4.0, tolerance=1e-6, **KIND
    )
    p = found.states[-1]["positions"]
    return np.abs(np.arctan(np.tan(angles) * np.exp(-4.0)) - np.arctan2(p[:, 0], -p[:, 2])).max()


def test_what_no_prediction_shows_is_followed_as_closely():
    assert drifting() < 1e-6


def test_sibling_errors_of_predictions_alone_do_not_see_it(monkeypatch):
    monkeypatch.setattr(particles.Particles, "_moved", lambda self, last: 0.0)
    assert drifting() > 1e-4


@pytest.mark.parametrize("flow", [{"drive": "probability"}, {"noise": 0.2}])
def test_energies_beside_data_go_with_masses_that_stay_and_with_noise(flow):
    start = with_energies(problem(hkflow.Flow(1.0, 2.0, **flow), 4, 2))
    some = {"tolerance": 1e-7, "noise_points": 2, "noise_interval": 0.5}
    found = [
        hkflow.solve(start, 1.0, stepper=stepper, **some, **KIND)
        for stepper in ("sliding", "dopri5")
    ]
    assert np.abs(found[0].predictions - found[1].predictions).max() < 2e-6
    assert abs(found[0].records["energy_residual"][-1]) < 1e-6
