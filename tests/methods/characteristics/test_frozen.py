"""Atoms in a frozen potential: closed forms, an independent event-driven integration,
identities."""

import sys

import numpy as np
import pytest
import twin
from hypothesis import given, settings
from hypothesis import strategies as st

import hkflow
from hkflow.methods.frozen_relu import frozen, movement
from hkflow.methods.frozen_relu.frozen import SUMS
from hkflow.methods.frozen_relu.kinks import Kinks
from hkflow.methods.frozen_relu.movement import Movement
from hkflow.operators.dense import blocked, unblocked

RELU, LINEAR = hkflow.FEATURES["relu"], hkflow.FEATURES["linear"]


def moved(
    points, signs, inputs, loss_gradient, flow, decay, time, feature=RELU, held=None, logs=None
):
    """Positions, growth of log masses, numbers of kinks that hold, and the sums by name."""
    n, blocks = len(points), blocked(np.asarray(points, dtype=float))
    logs = np.zeros(n) if logs is None else logs
    held = np.zeros(n, dtype=np.int64) if held is None else held
    out = np.zeros_like(blocks), np.zeros(n), np.zeros(n, dtype=np.int64)
    movement = Movement(Kinks.of(feature, inputs), len(blocks))
    sums = movement(
        (blocks, logs, held),
        np.asarray(signs, dtype=float),
        loss_gradient,
        flow,
        decay,
        time,
        0.0,
        out,
    )
    return unblocked(out[0], n), out[1] - logs, out[2], dict(zip(SUMS, sums.tolist(), strict=True))


def dissipated(points, growth, moved_to, signs, inputs, loss_gradient, decay):
    """What ∫J dν has lost, J frozen, from masses of one."""
    before = signs * (loss_gradient @ np.maximum(inputs @ np.asarray(points).T, 0.0)) + decay
    after = signs * (loss_gradient @ np.maximum(inputs @ moved_to.T, 0.0)) + decay
    return np.sum(before) - np.sum(np.exp(growth) * after)


def valley(points, time, slope=0.3):
    """Closed form of the flow of |a·θ| + slope b·θ, a = e₁, b = e₂: until a·θ = 0, then along the
    circle."""
    a, b = np.eye(3)[:2]
    out = []
    for theta in points:
        side = np.sign(theta @ a)
        force = side * a + slope * b
        hit = twin.time_to(theta, force, a, 1.0)
        theta, _ = twin.closed(theta, force, 0.0, 1.0, 0.0, min(hit, time))
        if hit < time:
            theta = theta - (theta @ a) * a
            theta, _ = twin.closed(
                theta / np.linalg.norm(theta), slope * b, 0.0, 1.0, 0.0, time - hit
            )
        out.append(theta)
    return np.array(out)


VALLEY = np.array(
    [[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, -1.0, 0.0]]
)  # |a·θ| + s b·θ is a sum of ReLUs
SLOPES = np.array([1.0, 1.0, 0.3, -0.3])


@pytest.mark.parametrize("slope, time", [(0.3, 4.0), (0.1, 8.0), (0.3, 0.01)])
def test_the_valley_is_reached_and_slid_along_exactly(slope, time):
    points = hkflow.quasi_uniform(2562, 2)
    got, _, held, sums = moved(
        points,
        np.ones(2562),
        VALLEY,
        SLOPES * [1, 1, slope / 0.3, slope / 0.3],
        hkflow.Flow(1.0),
        0.0,
        time,
    )
    wanted = valley(points, time, slope)
    assert np.abs(got - wanted).max() < 1e-12 and sums["failures"] == 0
    assert (held == (np.abs(wanted[:, 0]) < 1e-15)).all() and (held.any() or time < 1.0)


def test_sibling_without_sliding_the_valley_is_missed(monkeypatch):
    """Crossed, not slid along, the valley's bottom is left again: the check above sees it."""

    def cross(at, cap, normal, base, force, basis):
        force[:] = base + (cap if at < 0 else 0.0) * normal
        return -at

    points = hkflow.quasi_uniform(64, 2)
    monkeypatch.setattr(frozen, "settle_one", cross)
    patched = frozen.move.py_func
    assert patched.__globals__["settle_one"] is cross
    far = 0.0
    for theta in points:
        scratch = (
            np.zeros((5, 3)),
            np.zeros((2, 3, 3)),
            np.zeros(3, dtype=np.int64),
            np.zeros((5, 2)),
            np.array([[0, 0]] * 5 + [[0, 1]]),
            np.zeros((3, 0)),
            np.zeros((3, 2)),
        )
        kinks = Kinks.of(RELU, VALLEY)
        jumps, constant = kinks.gradient(SLOPES)
        place = theta.copy()
        normals = kinks.normals.T.copy(), kinks.normals
        patched(
            place,
            1.0,
            0,
            1.0,
            jumps,
            constant,
            *normals,
            1.0,
            0.0,
            0.0,
            4.0,
            1000,
            *scratch,
            np.zeros(len(SUMS)),
        )
        far = max(far, np.abs(place - valley([theta], 4.0)[0]).max())
    assert far > 1e-3


CASES = [(p, n, seed) for p in (2, 3, 4, 6) for n, seed in ((4, 0), (12, 1))]


def draw(p, n, seed, count=24):
    rng = np.random.default_rng([p, n, seed])
    x, r = rng.normal(size=(n, p)), rng.normal(size=n) / np.sqrt(n)
    return x, r, hkflow.random_uniform(rng, count, p - 1), rng.choice([-1.0, 1.0], size=count)


@pytest.mark.parametrize("p, n, seed", CASES)
@pytest.mark.parametrize(
    "rates", [(1.0, 0.0, 0.0), (1.0, 2.0, 0.1), (0.7, 4.0, 0.0), (0.0, 4.0, 0.2)]
)
def test_kernel_against_its_slow_twin(p, n, seed, rates):
    x, r, points, signs = draw(p, n, seed)
    alpha, beta, decay = rates
    got, growth, held, sums = moved(points, signs, x, r, hkflow.Flow(alpha, beta), decay, 2.5)
    wanted = [
        twin.frozen(t, s, x, r, alpha, beta, decay, 2.5) for t, s in zip(points, signs, strict=True)
    ]
    assert np.abs(got - [w[0] for w in wanted]).max() < 1e-11
    assert np.abs(growth - [w[1] for w in wanted]).max() < 1e-11
    lost = dissipated(points, growth, got, signs, x, r, decay)
    size = np.sum(1.0 + np.exp(growth)) * (np.abs(r) @ np.linalg.norm(x, axis=1) + decay)
    assert abs(lost - sums["energy"]) < 1e-14 * size and sums["failures"] == 0
    assert 0.0 <= sums["transport"] <= sums["energy"] * (1.0 + 1e-12)
    assert alpha == 0.0 or sums["crossings"] > 0
    if (p, seed) == (3, 1) and alpha > 0.0:
        assert held.any() and sums["captures"] - sums["releases"] == held.sum()


@pytest.mark.parametrize("p, n, seed", [(2, 8, 5), (3, 6, 1), (4, 8, 2), (6, 10, 3)])
def test_against_an_event_driven_integration(p, n, seed):
    x, r, points, signs = draw(p, n, seed, 8)
    for time in (1.0, 5.0):
        got, growth, _, _ = moved(points, signs, x, r, hkflow.Flow(1.0, 2.0), 0.05, time)
        for k in range(len(points)):
            theta, grown = twin.frozen(points[k], signs[k], x, r, 1.0, 2.0, 0.05, time, ode=True)
            assert np.abs(got[k] - theta).max() < 1e-9 and abs(growth[k] - grown) < 1e-9


@pytest.mark.parametrize("p, n, seed, time", [(6, 30, 3, 12.0), (8, 40, 4, 8.0)])
def test_many_valleys_hold_an_atom_at_once(p, n, seed, time):
    """Up to six kinks hold an atom, taken and let go again on the way."""
    x, r, points, _ = draw(p, n, seed)
    r = np.abs(r) * np.where(np.arange(n) % 3 == 0, -1.0, 1.0)
    got, growth, held, sums = moved(
        points, np.ones(len(points)), x, r, hkflow.Flow(1.0, 1.0), 0.0, time
    )
    wanted = [twin.frozen(theta, 1.0, x, r, 1.0, 1.0, 0.0, time) for theta in points]
    assert (
        np.abs(got - [w[0] for w in wanted]).max() < 1e-11
        and np.abs(growth - [w[1] for w in wanted]).max() < 1e-11
    )
    assert held.max() >= 3 and sums["releases"] > 0 and sums["failures"] == 0


def test_sibling_a_wrong_factor_of_the_mass_is_seen():
    """With β for β/α in log m the twin and the dissipation both differ."""
    x, r, points, signs = draw(3, 12, 1)
    got, growth, _, sums = moved(points, signs, x, r, hkflow.Flow(0.7, 4.0), 0.0, 2.5)
    wrong = 0.7 * growth
    assert abs(dissipated(points, wrong, got, signs, x, r, 0.0) - sums["energy"]) > 1e-3


def test_linear_features_move_along_one_circle():
    rng = np.random.default_rng(3)
    x, r, points = rng.normal(size=(5, 4)), rng.normal(size=5), hkflow.random_uniform(rng, 300, 3)
    got, growth, held, sums = moved(
        points, np.ones(300), x, r, hkflow.Flow(1.3, 2.0), 0.2, 1.7, LINEAR
    )
    for k in range(0, 300, 37):
        theta, grown = twin.closed(points[k], r @ x, 0.2, 1.3, 2.0, 1.7)
        assert np.abs(got[k] - theta).max() < 1e-14 and abs(growth[k] - grown) < 1e-13
    assert not held.any() and sums["crossings"] == 0


def test_pieces_may_be_split_anywhere():
    """A time in two halves, or in fifty parts, is the same motion: nothing depends on where an
    interval begins."""
    x, r, points, signs = draw(3, 12, 4, 200)
    flow = hkflow.Flow(1.0, 2.0)
    whole, growth, held, sums = moved(points, signs, x, r, flow, 0.0, 3.0)
    for parts in (2, 50):
        at, logs, by, total = (
            points,
            np.zeros(200),
            np.zeros(200, dtype=np.int64),
            dict.fromkeys(SUMS, 0.0),
        )
        for _ in range(parts):
            at, gain, by, some = moved(at, signs, x, r, flow, 0.0, 3.0 / parts, held=by, logs=logs)
            logs, total = logs + gain, {name: total[name] + some[name] for name in SUMS}
        assert (
            np.abs(at - whole).max() < 1e-11
            and np.abs(logs - growth).max() < 1e-11
            and (by == held).all()
        )
        for name in ("crossings", "captures", "releases"):
            assert total[name] == sums[name]


GRID = st.integers(-2, 2)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(GRID, GRID, GRID), min_size=1, max_size=9),
    st.lists(st.integers(-3, 3), min_size=9, max_size=9),
    st.lists(st.tuples(GRID, GRID, GRID), min_size=1, max_size=6).map(
        lambda rows: [row for row in rows if any(row)]
    ),
)
def test_degenerate_data_never_loop_and_dissipate_exactly(inputs, loss_gradient, points):
    """Grids, duplicates, opposite and zero inputs, starts on kinks: J falls by what the sums
    say."""
    if not points:
        return
    x, r = np.array(inputs, dtype=float), 0.3 * np.array(loss_gradient[: len(inputs)], dtype=float)
    points = hkflow.PointMeasure(np.array(points, dtype=float)).positions
    for sign in (1.0, -1.0):
        signs = np.full(len(points), sign)
        for flow in (hkflow.Flow(1.0, 0.0), hkflow.Flow(1.0, 2.0)):
            got, growth, _, sums = moved(points, signs, x, r, flow, 0.1, 4.0)
            assert sums["failures"] == 0
            assert np.abs(np.linalg.norm(got, axis=1) - 1.0).max() < 1e-14
            lost = dissipated(points, growth, got, signs, x, r, 0.1)
            assert abs(lost - sums["energy"]) < 1e-11 * max(1.0, np.exp(growth).max())


@pytest.mark.parametrize("count", [3, 7])
def test_kinks_through_a_common_point(count):
    """Normals on a great circle: all kinks meet in two points, and atoms slide along one or rest
    where they meet."""
    rng = np.random.default_rng(count)
    angle = rng.uniform(0.0, np.pi, count)
    x = np.column_stack([np.cos(angle), np.sin(angle), np.zeros(count)])
    points = np.concatenate([hkflow.random_uniform(rng, 40, 2), [[0.0, 0.0, 1.0]]])
    got, growth, _, sums = moved(
        points, np.ones(41), x, np.ones(count), hkflow.Flow(1.0, 1.0), 0.0, 10.0
    )
    wanted = [twin.frozen(t, 1.0, x, np.ones(count), 1.0, 1.0, 0.0, 10.0) for t in points]
    assert sums["failures"] == 0 and np.abs(got - [w[0] for w in wanted]).max() < 1e-9
    assert np.abs(growth - [w[1] for w in wanted]).max() < 1e-9


@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize("axes", [2, 3])
def test_an_atom_on_dependent_kinks_takes_the_shortest_vector(axes, free):
    """More valleys through one point than directions, normals of a grid; beginning with all
    multipliers free, or at bounds."""
    rng = np.random.default_rng(axes)
    for _ in range(300):
        rows = np.unique(rng.integers(-1, 2, size=(6, axes)).astype(float), axis=0)
        rows = rows[rows.any(axis=1)]
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        rows = np.column_stack([rows, np.zeros(len(rows))])  # ⟂ θ, the last axis
        n, p = rows.shape
        base, cap = rng.normal(size=p), rng.uniform(0.1, 1.0, size=n)
        at = np.zeros(n, dtype=np.int64) if free else rng.choice([-1, 1], n)
        mu = 0.5 * (1.0 + at) * cap
        lists = np.stack([np.arange(n), at, *np.zeros((3, n), dtype=np.int64)])
        limits, force = np.stack([cap, mu, np.zeros(n)]), np.zeros(p)
        known = np.zeros(p, dtype=np.int64)
        held = frozen.settle(n, lists, limits, rows, base, force, *np.zeros((2, p, p)), known)
        wanted = twin.choose(base, list(zip(rows, cap, strict=True)))
        assert 0 <= held < p and np.abs(force - wanted).max() < 1e-9


def test_a_dead_unit_on_its_last_kink_stands_still():
    x, r = np.array([[1.0, 0.0, 0.0]]), np.array([0.5])
    points = np.array([[0.3, 0.4, 0.5], [0.0, 0.6, 0.8], [-0.1, 0.2, 0.7]])
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    got, growth, _, _ = moved(points, np.ones(3), x, r, hkflow.Flow(1.0, 2.0), 0.0, 50.0)
    assert np.abs(got[1:] - points[1:]).max() < 1e-15 and (growth[1:] == 0.0).all()
    assert abs(got[0, 0]) < 1e-9


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_what_died_on_a_kink_stays_dead_when_its_slope_turns(side):
    """On the last kink to 1e-17, to either side: rounding does not decide that a unit revives when
    r turns."""
    x = side * np.array([[0.6, 0.8, 0.0]])
    points = np.array([[0.8, -0.6, 0.0], [0.8, -0.6, 1.0], [-0.8, 0.6, 2.0]])
    points = points + np.array([[1e-16], [-1e-16], [0.0]]) * x
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    for r in (0.5, -0.5):
        got, growth, held, _ = moved(
            points, np.ones(3), x, np.array([r]), hkflow.Flow(1.0, 2.0), 0.0, 3.0
        )
        assert (
            np.abs(got - points).max() < 1e-15 and np.abs(growth).max() < 1e-15 and not held.any()
        )


@pytest.mark.parametrize("axes", [1, 2, 3, 6])
@pytest.mark.parametrize("n", [1, 2, 50])
def test_kinks_of_inputs_without_a_parallel_one_are_the_inputs_and_a_copy_is_found(axes, n):
    x = np.random.default_rng(axes + n).normal(size=(n if axes > 1 else 1, axes))
    alone = Kinks.of(RELU, x)
    assert alone.kink.tolist() == list(range(len(x)))
    assert alone.normals == pytest.approx(x / np.linalg.norm(x, axis=1)[:, None], abs=1e-15)
    for copy in (2.0, -1.0 / 3.0):
        both = Kinks.of(RELU, np.concatenate([x, copy * x[-1:]]))
        assert both.kink.tolist() == [*range(len(x)), len(x) - 1]
        assert both.normals.tolist() == alone.normals.tolist()


def test_kinks_merge_parallel_inputs_of_either_sign_and_skip_zeros():
    x = np.array(
        [
            [1.0, 2.0, 2.0],
            [0.0, 0.0, 0.0],
            [-0.5, -1.0, -1.0],
            [1e-3, 2e-3, 2e-3],
            [2.0, -1.0, 0.0],
            [-2.0, 1.0, 0.0],
        ]
    )
    kinks = Kinks.of(RELU, x)
    assert len(kinks.normals) == 2 and np.allclose(
        kinks.length[:, None] * kinks.normals[kinks.kink], x, rtol=0.0, atol=1e-15
    )
    r, rng = np.arange(1.0, 7.0), np.random.default_rng(0)
    jumps, constant = kinks.gradient(r)
    for theta in rng.normal(size=(20, 3)):
        g = constant + jumps @ (kinks.normals * (kinks.normals @ theta > 0.0)[:, None])
        assert theta @ g == pytest.approx(r @ np.maximum(x @ theta, 0.0), abs=1e-14)
    assert (
        len(Kinks.of(RELU, np.zeros((3, 2))).normals) == 0 and len(Kinks.of(LINEAR, x).normals) == 0
    )


def test_kinks_of_many_data_of_few_directions_take_no_pairs_of_data():
    """Of a line in R³⁰, whose unit vectors differ in their last bits, and of the corners of a
    cube."""
    rng, n = np.random.default_rng(0), 100_000
    line = Kinks.of(RELU, np.outer(rng.normal(size=n), rng.normal(size=30)))
    assert len(line.normals) == 1 and (line.length < 0.0).any() and (line.length > 0.0).any()
    x = hkflow.with_bias(rng.choice([-1.0, 1.0], size=(n, 3)))
    cube = Kinks.of(RELU, x)
    assert len(cube.normals) == 8 and (cube.length > 0.0).all()
    assert np.abs(cube.length[:, None] * cube.normals[cube.kink] - x).max() < 1e-15


@pytest.mark.parametrize(("axes", "time"), [(3, 8.0), (8, 6.0)])
def test_of_many_kinks_none_is_missed(axes, time):
    """600 kinks, of which moves cross so many that lists of near ones are made again: against the
    slow twin, which looks at all of them each time."""
    rng = np.random.default_rng(axes)
    x = rng.normal(size=(600, axes))
    r = (rng.normal(size=600) + 0.3) / 600
    points = hkflow.quasi_uniform(4, axes - 1)
    signs = np.array([1.0, 1.0, -1.0, -1.0])
    got, growth, _, sums = moved(points, signs, x, r, hkflow.Flow(1.0, 2.0), 0.1, time)
    wanted = [
        twin.frozen(t, s, x, r, 1.0, 2.0, 0.1, time) for t, s in zip(points, signs, strict=True)
    ]
    np.testing.assert_allclose(got, [theta for theta, _ in wanted], atol=1e-11)
    np.testing.assert_allclose(growth, [grown for _, grown in wanted], atol=1e-11)
    assert sums["crossings"] > 100 and sums["failures"] == 0


def test_lists_of_near_kinks_change_nothing(monkeypatch):
    """Not a bit of atoms that no kink has held; of others n·θ may be rounded before they are put
    back on what holds them, or after."""
    rng = np.random.default_rng(7)
    x, r = rng.normal(size=(900, 5)), (rng.normal(size=900) + 0.3) / 900
    points, signs = hkflow.quasi_uniform(64, 4), np.tile([1.0, -1.0], 32)

    def found(some=slice(None)):
        flow = hkflow.Flow(1.0, 2.0)
        return moved(points[some], signs[some], x, r, flow, 0.1, 20.0)

    listed = found()
    free = np.array([found(slice(k, k + 1))[3]["captures"] == 0 for k in range(64)])
    assert 10 < free.sum() < 30
    assert listed[3]["crossings"] > 64 * movement.ROOM * np.sqrt(900) / 10 and listed[2].any()
    monkeypatch.setattr(movement, "ROOM", 0.0)
    every = found()
    for one, other in zip(listed[:3], every[:3], strict=True):
        np.testing.assert_allclose(one, other, rtol=0.0, atol=1e-14)
        np.testing.assert_array_equal(one[free], other[free])
    assert all(listed[3][name] == every[3][name] for name in ("crossings", "captures", "releases"))


def test_data_that_are_equal_to_the_bit_share_kinks_without_scipy(rng, monkeypatch):
    """Its trees and graphs take half a second to load, in each process of a run."""
    x = np.round(rng.normal(size=(60, 3)), 1)[rng.integers(0, 20, 60)]
    x[::5] *= -1.0
    nearly = np.nextafter(x, np.inf, where=rng.random(x.shape) < 0.5, out=x.copy())
    wanted = Kinks.of(RELU, nearly)
    for name in ("scipy.sparse", "scipy.sparse.csgraph", "scipy.spatial"):
        monkeypatch.setitem(sys.modules, name, None)
    found = Kinks.of(RELU, x)
    assert 1 < len(found.normals) <= 20 and np.array_equal(found.kink, wanted.kink)
    np.testing.assert_allclose(found.length, wanted.length, rtol=1e-14)
    np.testing.assert_allclose(found.normals, wanted.normals, rtol=0.0, atol=1e-14)
    with pytest.raises(ImportError):  # sibling: data that are nearly equal want them
        Kinks.of(RELU, nearly)
