"""Atoms moved in tiles, as if they met no kink, against the same atoms moved one by one."""

import numpy as np
import pytest

import hkflow
from hkflow.methods.frozen_relu.frozen import SUMS
from hkflow.methods.frozen_relu.kinks import Kinks
from hkflow.methods.frozen_relu.movement import Movement
from hkflow.operators.dense import TILE, blocked, unblocked

RELU, LINEAR = hkflow.FEATURES["relu"], hkflow.FEATURES["linear"]
N = 300
EVENTS = ("crossings", "captures", "releases", "failures", "clinging")
RATES = [(1.0, 0.0, 0.0), (1.0, 2.0, 0.1), (0.7, 4.0, 0.0), (2.0, 0.3, -0.2), (0.0, 4.0, 0.2)]


def draw(p, n, seed=0):
    rng = np.random.default_rng([p, n, seed])
    x, r = rng.normal(size=(n, p)), rng.normal(size=n) / np.sqrt(n)
    return x, r, hkflow.random_uniform(rng, N, p - 1), rng.choice([-1.0, 1.0], size=N)


class Moves:
    """The same atoms moved by one Movement with tiles, and by one without."""

    def __init__(self, inputs, feature=RELU, n=N, width=None):
        self.width = width or TILE * 2
        blocks = -(-n // self.width)
        self.tiled, self.single = (Movement(Kinks.of(feature, inputs), blocks) for _ in range(2))
        assert self.tiled.tiled
        self.single.tiled = False

    def one(self, move, points, signs, r, flow, decay, time, logs, scale, held):
        n, blocks = len(points), blocked(points, self.width)
        captured = np.arange(n) % 3 == 0, np.zeros(n, dtype=bool)
        out = np.zeros_like(blocks), np.zeros(n), np.zeros(n, dtype=np.int64)
        sums = move((blocks, logs, held), signs, r, flow, decay, time, scale, out, captured)
        sums = dict(zip(SUMS, sums.tolist(), strict=True))
        return unblocked(out[0], n), out[1] - logs, (out[2], captured[1]), sums

    def difference(
        self, points, signs, r, flow, decay, time, logs=None, scale=0.0, held=None, ok=...
    ):
        """The largest difference, of log masses relative to their growth and of sums relative to
        themselves or the mass; inf if events, or what kinks hold, differ."""
        logs = np.zeros(len(points)) if logs is None else logs
        held = np.zeros(len(points), dtype=np.int64) if held is None else held
        a, b = (
            self.one(move, points, signs, r, flow, decay, time, logs, scale, held)
            for move in (self.tiled, self.single)
        )
        self.growth, self.sums = a[1], a[3]
        if any((x != y).any() for x, y in zip(a[2], b[2], strict=True)):
            return np.inf
        if any(a[3][name] != b[3][name] for name in EVENTS):
            return np.inf
        far = max(
            np.abs(a[0] - b[0])[ok].max(),
            (np.abs(a[1] - b[1]) / np.maximum(1.0, np.abs(b[1])))[ok].max(),
        )
        for name in set(SUMS) - set(EVENTS) if ok is ... else ():
            size = max(abs(b[3][name]), b[3]["mass"], 1e-300)
            far = max(far, abs(a[3][name] - b[3][name]) / size)
        return far


@pytest.mark.parametrize("p", [2, 3, 4, 16])
@pytest.mark.parametrize("rates", RATES)
@pytest.mark.parametrize("n, time", [(1, 2.5), (8, 1.0), (20, 0.1)])
def test_tiles_move_atoms_as_they_are_moved_one_by_one(p, rates, n, time):
    x, r, points, signs = draw(p, n)
    alpha, beta, decay = rates
    moves, flow = Moves(x), hkflow.Flow(alpha, beta)
    assert moves.difference(points, signs, r, flow, decay, time) < 1e-13
    assert alpha == 0.0 or 0 < moves.sums["crossings"] + moves.sums["clinging"] < 20 * N


@pytest.mark.parametrize("p", [2, 3, 16])
def test_sibling_kinks_that_tiles_do_not_see_are_not_met(p):
    x, r, points, signs = draw(p, 8)
    moves = Moves(x)
    moves.tiled.columns[:] = moves.tiled.columns[:, :, :1]
    assert moves.difference(points, signs, r, hkflow.Flow(1.0, 2.0), 0.0, 1.0) > 1e-3


@pytest.mark.parametrize("p", [2, 3, 16])
@pytest.mark.parametrize("rates", RATES)
def test_features_without_kinks(p, rates):
    x, r, points, signs = draw(p, 5)
    moves = Moves(x, LINEAR)
    assert moves.difference(points, signs, r, hkflow.Flow(*rates[:2]), rates[2], 1.7) < 1e-13


@pytest.mark.parametrize("time", [0.0, 1e-12, 30.0, 300.0, 800.0, 1e5])
@pytest.mark.parametrize("beta", [0.0, 0.1])
def test_short_and_long_times(time, beta):
    """e^−τ underflows, and what begins at the maximum of the potential stays there."""
    x, r, points, signs = draw(3, 4)
    flow = hkflow.Flow(1.0, beta)
    for feature in (RELU, LINEAR):
        assert Moves(x, feature).difference(points, signs, r, flow, 0.0, time) < 1e-13
    x, r = np.array([[1.0, 0.0, 0.0]]), np.ones(1)
    points[::5] = signs[::5, None] * x
    assert Moves(x, LINEAR).difference(points, signs, r, flow, 0.0, time) < 1e-13


def test_atoms_that_nothing_drives_keep_their_places_and_decay():
    """Behind all kinks ∇J = 0: what moves is λ alone, and transport adds nothing."""
    points = hkflow.quasi_uniform(N, 2)
    dead = points[:, 0] < -1e-3
    moves = Moves(np.array([[1.0, 0.0, 0.0]]))
    r, flow = np.array([0.5]), hkflow.Flow(1.0, 2.0)
    assert moves.difference(points, np.ones(N), r, flow, 0.3, 2.0) < 1e-13
    assert (moves.growth[dead] == -2.0 * 0.3 * 2.0).all()
    points = points[dead]
    moves = Moves(np.array([[1.0, 0.0, 0.0]]), n=len(points))
    assert moves.difference(points, np.ones(len(points)), r, flow, 0.0, 2.0) == 0.0
    assert moves.sums["transport"] == 0.0 and (moves.growth == 0.0).all()


@pytest.mark.parametrize("width", [1, 5, TILE + 3, 3 * TILE])
@pytest.mark.parametrize("n", [1, 7, N])
def test_blocks_of_any_width(width, n):
    x, r, points, signs = draw(3, 12)
    moves = Moves(x, n=n, width=width)
    flow = hkflow.Flow(1.0, 2.0)
    assert moves.difference(points[:n], signs[:n], r, flow, 0.1, 0.3) < 1e-13


@pytest.mark.parametrize("size", [-2000.0, -720.0, 720.0])
def test_masses_that_are_no_floating_point_numbers(size):
    x, r, points, signs = draw(3, 12)
    flow, logs = hkflow.Flow(1.0, 2.0), size + np.linspace(-5.0, 5.0, N)
    moves = Moves(x)
    assert moves.difference(points, signs, r, flow, 0.1, 0.3, logs, size) < 1e-12
    if size < 0.0:  # in another unit they are zero
        assert moves.difference(points, signs, r, flow, 0.1, 0.3, logs) < 1e-12


def test_atoms_that_kinks_hold_are_left_to_them():
    x, r, points, signs = draw(3, 12)
    moves, flow = Moves(x), hkflow.Flow(1.0, 2.0)
    blocks, r = blocked(points, moves.width), np.abs(r)
    out = np.zeros_like(blocks), np.zeros(N), np.zeros(N, dtype=np.int64)
    atoms = blocks, np.zeros(N), np.zeros(N, dtype=np.int64)
    moves.tiled(atoms, np.ones(N), r, flow, 0.0, 1.0, 0.0, out)
    assert 0 < np.count_nonzero(out[2]) < N
    at = unblocked(out[0], N)
    for way in (1.0, -1.0):  # held, and let go
        assert moves.difference(at, np.ones(N), way * r, flow, 0.0, 0.1, held=out[2]) < 1e-13


def test_an_atom_that_is_nowhere_leaves_the_others_in_its_tile_alone():
    x, r, points, signs = draw(3, 12)
    points[17] = np.nan
    moves = Moves(x)
    ok = np.arange(N) != 17
    assert moves.difference(points, signs, r, hkflow.Flow(1.0, 2.0), 0.1, 0.3, ok=ok) < 1e-13
    assert np.isnan(moves.growth[17])
