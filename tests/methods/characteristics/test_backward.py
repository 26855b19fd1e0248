"""The density by backward characteristics: closed forms, areas by finite differences, conservation
of mass; and the history that it takes, in memory and in run folders."""

import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import twin
from conftest import by_threads
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import roots_legendre
from test_frozen import SLOPES, VALLEY

import hkflow
from hkflow.geometry.sphere import normalize, surface_area
from hkflow.measures.initial import Caps, InitialDensity, Uniform, VonMisesFisher
from hkflow.measures.point_measure import atoms_of_density
from hkflow.methods.characteristics.backward import followed_back
from hkflow.methods.characteristics.history import History
from hkflow.methods.choice import make_method
from hkflow.methods.frozen_relu import movement
from hkflow.methods.frozen_relu.kinks import Kinks
from hkflow.methods.frozen_relu.movement import Movement
from hkflow.operators.dense import blocked, unblocked
from hkflow.store import run_writer

RELU = hkflow.FEATURES["relu"]
KIND = {"kind": "characteristics"}
RATES = [(1.0, 0.0, 0.0), (1.0, 2.0, 0.1), (0.7, 4.0, 0.0), (0.0, 4.0, 0.2)]


def forward(points, sign, kinks, rows, flow, decay):
    """Positions, growth of log masses and whether caught, of points moved by the rows of a
    History."""
    n = len(points)
    atoms, caught = (blocked(points), np.zeros(n), np.zeros(n, dtype=np.int64)), np.zeros(n, bool)
    move = Movement(kinks, len(atoms[0]))
    for row in rows:
        out, after = tuple(map(np.zeros_like, atoms)), np.zeros(n, dtype=bool)
        move(atoms, np.full(n, sign), row[2:], flow, decay, row[0], 0.0, out, (caught, after))
        atoms, caught = out, after
    return unblocked(atoms[0], n), atoms[1], caught


def draw(p, n, seed=7, flows=8):
    """Inputs and the rows of a history."""
    rng = np.random.default_rng([p, n, seed])
    r = 1.5 * rng.normal(size=(flows, n)) / np.sqrt(n)
    return rng.normal(size=(n, p)), np.column_stack([rng.uniform(0.05, 0.3, flows), 0 * r[:, 0], r])


def stretched(points, move, h=3e-6):
    """log of the factor by which a map (points) -> positions, growth, caught stretches areas, and
    where none of the neighbours used is caught."""
    n, p = points.shape
    frames = np.array([np.linalg.qr(np.column_stack([t, np.eye(p)]))[0][:, 1:p].T for t in points])
    sides, free = [], np.ones(n, dtype=bool)
    for k in range(p - 1):
        pair = [move(normalize(points + s * h * frames[:, k])) for s in (1.0, -1.0)]
        free &= ~(pair[0][2] | pair[1][2])
        sides.append((pair[0][0] - pair[1][0]) / (2.0 * h))
    D = np.stack(sides, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return 0.5 * np.log(np.linalg.det(D @ np.swapaxes(D, 1, 2))), free


@pytest.mark.parametrize("rates", RATES)
@pytest.mark.parametrize("p, n", [(2, 12), (3, 4), (3, 12), (4, 4), (6, 4)])
def test_density_is_mass_by_area_of_what_the_forward_map_makes(p, n, rates):
    """Points go back to where they came from; ν at the end times the area that finite differences
    find is the mass."""
    (inputs, rows), (alpha, beta, decay) = draw(p, n), rates
    kinks, flow = Kinks.of(RELU, inputs), hkflow.Flow(alpha, beta)
    seeds = hkflow.random_uniform(np.random.default_rng(p), 300, p - 1)
    for sign in (1.0, -1.0):

        def move(points, sign=sign):
            return forward(points, sign, kinks, rows, flow, decay)

        ends, growth, caught = move(seeds)
        area, free = stretched(seeds, move)
        free &= ~caught
        assert free.sum() > 40 and (caught.any() or alpha == 0.0)
        origins, found = followed_back(kinks, History(rows), flow, decay, ends, sign)
        assert np.abs(origins - seeds)[free].max() < 1e-9
        errors = np.abs(found - (growth - area))[free]
        # a difference of two points that a kink divides on their way is none
        assert np.quantile(errors, 0.97) < 1e-5 and np.median(errors) < 1e-8


@pytest.mark.parametrize("rates", RATES)
def test_kernel_against_its_slow_twin(rates):
    """Voids included, which the seeds of the test above never reach."""
    voids = 0
    for p, n in ((2, 6), (3, 8), (5, 8)):
        inputs, rows = draw(p, n)
        kinks = Kinks.of(RELU, inputs)
        points = hkflow.random_uniform(np.random.default_rng(n), 60, p - 1)
        flows = [(row[0], row[2:]) for row in rows]
        for sign in (1.0, -1.0):
            alpha, beta, decay = rates
            flow = hkflow.Flow(alpha, beta)
            origins, growth = followed_back(kinks, History(rows), flow, decay, points, sign)
            wanted = [twin.backward(q, sign, inputs, flows, *rates) for q in points]
            assert np.abs(origins - [w[0] for w in wanted])[np.isfinite(growth)].max() < 1e-9
            assert np.allclose(growth, [w[1] for w in wanted], rtol=0.0, atol=1e-8)
            voids += np.isinf(growth).sum()
    assert (voids > 30) == (rates[0] > 0.0)


def test_sibling_without_normal_speeds_the_area_is_missed():
    inputs, rows = draw(3, 12)
    kinks, flow = Kinks.of(RELU, inputs), hkflow.Flow(1.0, 0.0)
    seeds = hkflow.random_uniform(np.random.default_rng(3), 40, 2)

    def move(points):
        return forward(points, 1.0, kinks, rows, flow, 0.0)

    ends, growth, caught = move(seeds)
    area, free = stretched(seeds, move)
    flows = [(row[0], row[2:]) for row in rows]
    for speeds, fails in ((True, False), (False, True)):
        found = [twin.backward(q, 1.0, inputs, flows, 1.0, 0.0, 0.0, speeds)[1] for q in ends]
        assert (np.abs(found - (growth - area))[free & ~caught].max() > 1e-2) == fails


@pytest.mark.parametrize("rates", [(1.0, 0.0), (1.0, 4.0), (0.7, 2.0), (0.0, 4.0)])
@pytest.mark.parametrize("dim", [1, 2, 5])
def test_linear_features_have_their_closed_form_in_any_region(dim, rates):
    """ν = (cosh K + u sinh K)^−(d + β/α) / |S^d|, K = α ∫ e·r dt; down to densities of e^−40."""
    alpha, beta = rates
    axis = normalize(np.cos(1.0 + np.arange(dim + 1.0))[None])[0]
    sizes, points = np.array([0.9, -0.3, 1.4, 2.0]), hkflow.quasi_uniform(2000, dim)
    rows = np.column_stack([np.full(4, 0.5), np.zeros(4), sizes[:, None] * axis])
    kinks = Kinks.of(hkflow.FEATURES["linear"], np.eye(dim + 1))
    _, growth = followed_back(kinks, History(rows), hkflow.Flow(alpha, beta), 0.0, points, 1.0)
    K, u = 0.5 * sizes.sum(), points @ axis
    wanted = -beta * K * u
    if alpha > 0.0:
        near, far = (0.25 * np.sum((points + s * axis) ** 2, axis=1) for s in (1.0, -1.0))
        mixed = near * np.exp(alpha * K) + far * np.exp(-alpha * K)
        wanted = -(dim + beta / alpha) * np.log(mixed)
    assert np.abs(growth - wanted).max() < 1e-10 * np.abs(wanted).max()


def test_runs_know_the_closed_form_density():
    """Seeds at Gauss–Jacobi nodes would leave no error but that of time, here 1e-10 of r."""
    exact = hkflow.MomentFlow([1.0, 2.0, -1.0], 0.5, hkflow.Flow(1.0, 2.0))
    u, w = roots_legendre(40)
    e, aside = exact.direction, normalize(np.cross(exact.direction, [0.0, 0.0, 1.0])[None])[0]
    points = np.concatenate(
        [u[:, None] * e + s * np.sqrt(1 - u**2)[:, None] * aside for s in (1.0, -1.0)]
    )
    atoms = hkflow.PointMeasure(points, None, np.tile(0.25 * w, 2))
    start = hkflow.Problem(
        None, exact.objective(), exact.flow, (1,), atoms, exact,
        density=lambda points, sign: np.full(len(points), 0.25 / np.pi),
    )  # fmt: skip
    s = hkflow.solve(start, 1.0, 3, tolerance=1e-9, **KIND)
    points = hkflow.quasi_uniform(500, 2)
    for save in range(3):
        wanted = exact.density(points, s.time[save])
        assert np.abs(s.density_at(points, save)[0] / wanted - 1.0).max() < 1e-8
        logs = s.density_at(points, save, sign=1, log=True)
        assert np.abs(logs - np.log(wanted)).max() < 1e-8


def test_gathered_flows_keep_times_factors_and_the_mean_of_r(rng):
    n, first = 600, 200
    rows = np.column_stack([rng.uniform(0.1, 1.0, (n, 2)), 1.0 + 1e-7 * rng.normal(size=(n, 3))])
    rows[first:, 2:] += 1.0
    parts, found = (rows[:first], rows[first:]), History(rows).gathered().rows
    sums = np.array([part[:, :2].sum(axis=0) for part in parts])
    means = [np.average(part[:, 2:], axis=0, weights=part[:, 0]) for part in parts]
    assert found == pytest.approx(np.column_stack([sums, means]), rel=1e-12)
    still = np.column_stack([rows[:, :2], np.zeros((n, 3))])
    assert History(still).gathered().rows.shape == (1, 5)  # where r is 0
    for few in (History(rows[:500]), History(rows[:0])):
        assert few.gathered() is few


def hemispheres(count):
    """Midpoint rule on both sides of e₁·θ = 0, no cell across it: points and areas."""
    u = (np.arange(2 * count) + 0.5) / count - 1.0
    angle = (np.arange(6 * count) + 0.5) * np.pi / (3.0 * count)
    U, A = (x.ravel() for x in np.meshgrid(u, angle))
    root = np.sqrt(1.0 - U**2)
    points = np.column_stack([U, root * np.cos(A), root * np.sin(A)])
    return points, np.full(len(points), surface_area(2) / len(points))


@pytest.mark.parametrize("rates", [(1.0, 0.0), (1.0, 1.0)])
def test_density_and_what_the_valley_has_caught_are_the_whole_mass(rates):
    """Second order in the mesh that integrates the density; what is caught is known from seeds."""
    kinks, flow = Kinks.of(RELU, VALLEY), hkflow.Flow(*rates)
    rows = np.concatenate([[0.7, 0.0], SLOPES])[None]
    seeds, areas = hemispheres(120)
    _, growth, caught = forward(seeds, 1.0, kinks, rows, flow, 0.0)
    masses = areas / surface_area(2) * np.exp(growth)
    found = []
    for count in (16, 32, 64, 128):
        points, areas = hemispheres(count)
        _, logs = followed_back(kinks, History(rows), flow, 0.0, points, 1.0)
        found.append(np.exp(logs) @ areas / surface_area(2))
    orders = np.log2(np.divide(np.diff(found[:-1]), np.diff(found[1:])))
    assert ((orders > 1.8) & (orders < 2.2)).all(), orders
    assert 0.1 < masses[caught].sum() < 0.9
    assert abs(found[-1] + masses[caught].sum() - masses.sum()) < 1e-3
    # a factor too much of f is seen: half of the exponent d
    halved = np.exp(0.5 * logs) @ areas / surface_area(2)
    assert abs(halved + masses[caught].sum() - masses.sum()) > 3e-2


GRID = st.integers(-2, 2)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(GRID, GRID, GRID), min_size=1, max_size=9),
    st.lists(st.integers(-3, 3), min_size=18, max_size=18),
    st.sampled_from([(1.0, 0.0), (1.0, 2.0), (0.0, 4.0)]),
)
def test_degenerate_data_never_loop_and_free_points_come_back(inputs, gradients, rates):
    """Grids, duplicates, opposite and zero inputs, r that changes sign: forth and back again."""
    x, n = np.array(inputs, dtype=float), len(inputs)
    r = 0.3 * np.array(gradients, dtype=float).reshape(2, 9)[:, :n]
    history = History(np.column_stack([[1.0, 0.7], [0.0, 0.0], r]))
    kinks, flow = Kinks.of(RELU, x), hkflow.Flow(*rates)
    points = hkflow.quasi_uniform(40, 2)
    for sign in (1.0, -1.0):
        _, growth = followed_back(kinks, history, flow, 0.1, points, sign)
        assert not np.isnan(growth).any()
        ends, _, caught = forward(points, sign, kinks, history.rows, flow, 0.1)
        origins, growth = followed_back(kinks, history, flow, 0.1, ends, sign)
        assert np.isfinite(growth[~caught]).all()
        assert np.abs(origins - points)[~caught].max(initial=0.0) < 1e-6


def six(flow, mesh):
    rng = np.random.default_rng(0)
    x, y = np.column_stack([rng.normal(size=(6, mesh.dim)), np.ones(6)]), rng.normal(size=6)
    objective = hkflow.Objective(RELU, hkflow.RISKS["square"], x, y)
    return hkflow.Problem(mesh, objective, flow, (1, -1))


@pytest.mark.parametrize("drive", [None, "measure", "probability"])
def test_mass_of_a_run_on_the_circle_is_density_and_captured(drive):
    """Kinks, voids and mass that is let go again: 40,000 points, atoms from 10,000 cells."""
    start = six(hkflow.Flow(1.0, 2.0, drive=drive), hkflow.circle_mesh(10_000))
    s = hkflow.solve(start, 2.0, [0.5, 2.0], **KIND)
    fine = hkflow.circle_mesh(40_000)
    for save in range(2):
        density, captured = s.density_at(fine.centers, save), s.captured_at(save)
        assert captured.mass > 0.01 * s.mass[save]
        total = (density @ fine.volumes).sum() + captured.mass
        assert total == pytest.approx(s.mass[save], rel=2e-4)
    assert (density == 0.0).any()  # voids
    assert s.records["releases"][-1] > 0 or s.records["captures"][-1] > 0


def test_solution_and_run_agree_to_the_bit_and_files_are_as_good(tmp_path):
    start = six(hkflow.Flow(1.0, 2.0, drive="probability"), hkflow.geodesic_mesh(2))
    start = replace(start, initial=1.0 + start.mesh.centers[:, 0] ** 2)
    s = hkflow.solve(start, 1.0, 3, **KIND)
    run = hkflow.run(start, tmp_path / "run", end=1.0, saves=3, **KIND)
    packed = hkflow.load(run.path / "results.h5")
    points = hkflow.quasi_uniform(500, 2)
    for save in range(3):
        wanted = s.density_at(points, save)
        for other in (run, hkflow.load(run.path), packed):
            assert np.array_equal(other.density_at(points, save), wanted)
            assert len(other.captured_at(save)) == len(s.captured_at(save))
    assert wanted.shape == (2, 500)
    assert np.array_equal(s.density_at(points, -1, sign=-1), wanted[1])
    assert len(s.history) == 2 * s.end["steps"] and s.history.durations.sum() == pytest.approx(1.0)
    assert np.array_equal(s.history.rows, packed.history.rows)
    # a restart on a mesh from what a run has
    again = replace(
        start, mesh=hkflow.geodesic_mesh(3), initial=s.density_on(hkflow.geodesic_mesh(3))
    )
    assert np.isfinite(hkflow.solve(again, 0.1, **KIND).mass).all()


CASE = """
[data]
source = "inline"
inputs = [[0.5], [-1.0], [0.2], [1.0]]
targets = [1.0, -1.0, -1.0, 1.0]
[objective]
activation = "relu"
bias = true
loss = "logistic"
[domain]
kind = "signed-sphere"
cells = 64
[initial]
kind = "von-mises-fisher"
centers = [[1.0, 1.0], [0.0, -1.0]]
concentration = 3.0
mass = 2.0
[flow]
kind = "hellinger-kantorovich"
[method]
kind = "characteristics"
points = "mesh"
[time]
end = 2.0
saves = 3
"""


@pytest.mark.parametrize("points", ["mesh", "quasi-uniform"])
def test_cases_know_their_initial_density_between_seeds(tmp_path, points):
    (tmp_path / "case.toml").write_text(CASE)
    run = hkflow.run(tmp_path / "case.toml", tmp_path / "run", **{"method.points": points})
    _, problem = hkflow.check(tmp_path / "case.toml", **{"method.points": points})
    arcs = hkflow.circle_mesh(2000)
    density = run.density_at(arcs.centers, 0)
    measure = VonMisesFisher(np.array([[1.0, 1.0], [0.0, -1.0]]), 3.0)
    wanted = measure.density(arcs.centers)
    wanted *= 1.0 / (wanted @ arcs.volumes)
    assert density == pytest.approx(np.array([wanted, wanted]), rel=1e-6)
    s = hkflow.solve(problem, 2.0, 3, **KIND)
    for save in range(3):
        assert np.array_equal(s.density_on(arcs, save), run.density_on(arcs, save))
        total = (run.density_on(arcs, save) @ arcs.volumes).sum() + run.captured_at(save).mass
        assert total == pytest.approx(run.mass[save], rel=1e-13)
    sampled = (run.density_at(arcs.centers) @ arcs.volumes).sum() + run.captured_at().mass
    assert sampled == pytest.approx(run.mass[-1], rel=2e-2)


def test_relative_densities_are_those_of_one_point_at_a_time():
    points = hkflow.quasi_uniform(300, 2)
    for measure in (Uniform(), VonMisesFisher(np.eye(3)[:2], 4.0), Caps(np.eye(3)[:1], 0.7)):
        both = measure.relative(points), measure.density(points)
        assert np.allclose(both[0] / both[0].max(), both[1] / both[1].max(), rtol=1e-14)
        assert np.array_equal(measure.relative(points[:7]), both[0][:7])


def test_grids_give_the_density_of_the_cell_and_others_say_what_to_take():
    start = six(hkflow.Flow(1.0, 2.0), hkflow.geodesic_mesh(1))
    grid = hkflow.solve(start, 0.1)
    density, caught = grid.density_on(start.mesh), grid.captured_at()
    assert np.array_equal(density, grid.density_at(start.mesh.centers))
    assert np.allclose(grid.density_on(start.mesh, log=True), np.log(density))
    assert (density @ start.mesh.volumes).sum() + caught.mass == pytest.approx(grid.mass[-1])
    signed = hkflow.solve(replace(start, flow=hkflow.Flow(0.0, 1.0, depth=1.0)), 5.0)
    for logs in (
        signed.density_on(start.mesh, log=True),
        signed.density_at(start.mesh.centers, log=True),
    ):
        assert (np.isnan(logs) == (signed.density_on(start.mesh) < 0.0)).all()
        assert np.isnan(logs).any() and not np.isnan(logs).all()
    for other in (hkflow.geodesic_mesh(0), hkflow.geodesic_mesh(2)):  # conservative both ways
        there = grid.density_on(other) @ other.volumes
        assert there == pytest.approx(density @ start.mesh.volumes, rel=1e-13)
    assert 0 < len(caught) == np.count_nonzero(grid.state_at(-1)["atom_weights"])
    assert caught.mass == pytest.approx(grid.state_at(-1)["atom_weights"].sum(), rel=1e-14)
    particles = hkflow.solve(start, 0.1, kind="particles")
    with pytest.raises(ValueError, match="'particles' is made of atoms alone; take atoms_at"):
        particles.density_at([[1.0, 0.0, 0.0]])
    with pytest.raises(ValueError, match=r"got the shape \(\). For the cells of a grid take cell_"):
        grid.density_at(1)
    with pytest.raises(ValueError, match="sign must be one of"):
        grid.density_at([[1.0, 0.0, 0.0]], sign=2)
    with pytest.raises(ValueError, match=r"on a mesh, such as geodesic_mesh\(4\), got None"):
        grid.density_on(None)
    atoms = replace(start, mesh=None, initial=start.atoms())
    with pytest.raises(ValueError, match="made of atoms, whose density nobody knows: start from a"):
        hkflow.solve(atoms, 0.1, **KIND).density_at([[1.0, 0.0, 0.0]])


@pytest.mark.parametrize("steps", [3, 9])
def test_a_history_cut_by_a_crash_is_made_again_to_the_bit(tmp_path, monkeypatch, steps):
    """What was written after the last snapshot is cut off at resuming, half rows included."""
    monkeypatch.setattr(run_writer, "CHECKPOINT_SECONDS", 0.0)
    (tmp_path / "case.toml").write_text(CASE)
    whole = hkflow.run(tmp_path / "case.toml", tmp_path / "whole")

    class Crash(Exception):
        pass

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Crash):
        honest, seen = run_writer.RunWriter.step, []

        def step(self, method, clock):
            honest(self, method, clock)
            seen.append(clock.step)
            if len(seen) == steps:
                raise Crash

        patch.setattr(run_writer.RunWriter, "step", step)
        hkflow.run(tmp_path / "case.toml", tmp_path / "cut")
    with open(tmp_path / "cut" / "history.bin", "ab") as file:
        file.write(np.full(17, 0.25).tobytes() + b"abc")
    arcs = hkflow.circle_mesh(300)
    cut = hkflow.load(tmp_path / "cut")
    assert np.array_equal(cut.density_on(arcs, 0), whole.density_on(arcs, 0))
    again = hkflow.resume(tmp_path / "cut")
    histories = [(tmp_path / name / "history.bin").read_bytes() for name in ("whole", "cut")]
    assert histories[0] == histories[1] and len(histories[0]) == 8 * 6 * 2 * whole.end["steps"]
    assert np.array_equal(again.density_on(arcs), whole.density_on(arcs))
    (tmp_path / "cut" / "history.bin").write_bytes(np.full(6, np.nan).tobytes())
    with pytest.raises(hkflow.RunFolderError, match="history.bin: damaged .holds numbers that"):
        hkflow.load(tmp_path / "cut").density_on(arcs)
    (tmp_path / "cut" / "history.bin").write_bytes(histories[0][:-100])
    with pytest.raises(ValueError, match="what moved its atoms was not kept"):
        hkflow.load(tmp_path / "cut").density_on(arcs)
    with pytest.raises(hkflow.RunFolderError, match="history.bin: is missing or cut short"):
        hkflow.resume(tmp_path / "cut")


KILLED = """
import os, signal, sys, hkflow
from hkflow.store import run_writer
run_writer.CHECKPOINT_SECONDS = 0.0
def kill(state):
    if state.step == 6:
        os.kill(os.getpid(), signal.SIGKILL)
hkflow.run(sys.argv[1], sys.argv[2], observers=[kill])
"""


def test_killed_and_resumed_to_the_same_density(tmp_path):
    (tmp_path / "case.toml").write_text(CASE)
    whole = hkflow.run(tmp_path / "case.toml", tmp_path / "whole")
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, tmp_path / "case.toml", tmp_path / "cut"], check=False
    )
    assert ended.returncode == -signal.SIGKILL
    again = hkflow.resume(tmp_path / "cut")
    assert np.array_equal(again.history.rows, whole.history.rows)
    points = hkflow.quasi_uniform(100, 1)
    assert np.array_equal(again.density_at(points), whole.density_at(points))


def test_one_and_two_threads_make_the_same_bits():
    def density():
        s = hkflow.solve(
            six(hkflow.Flow(1.0, 2.0), hkflow.geodesic_mesh(1)), 0.5, kind="characteristics"
        )
        return s.density_at(hkflow.quasi_uniform(3000, 2))

    one, two = by_threads(density)
    assert np.array_equal(one, two)


def test_implicit_and_rejected_steps_keep_what_was_accepted():
    """Atoms moved again by the history end where the run has them, bit for bit."""
    rng = np.random.default_rng(5)
    x = np.column_stack([rng.normal(size=(12, 2)), np.ones(12)])
    y = np.where(rng.normal(size=12) > 0.0, 1.0, -1.0)
    objective = hkflow.Objective(RELU, hkflow.RISKS["smooth-margin"], x, y)
    start = hkflow.Problem(
        hkflow.geodesic_mesh(1), objective, hkflow.Flow(1.0, 2.0, drive="measure"), (1, -1)
    )
    s = hkflow.solve(start, 60.0, tolerance=1e-3, **KIND)
    atoms = start.atoms()
    method = make_method(start, "characteristics")
    for sign in (1.0, -1.0):
        mine = atoms.signs == sign
        ends, growth, caught = forward(
            atoms.positions[mine], sign, method.kinks, s.history.rows, s.flow, 0.0
        )
        state = s.state_at(-1)
        assert np.abs(ends - state["positions"][mine]).max() < 1e-9
        assert np.allclose(
            np.log(atoms.weights[mine]) + growth, state["log_weights"][mine], rtol=0.0, atol=1e-8
        )
        assert np.array_equal(caught, state["captured"][mine] > 0.0)
    assert s.log_mass[-1] > 3.0


def test_averages_over_cells_have_the_mass_and_the_predictions_of_the_run():
    """Sharp peaks included, which values at points miss; voids stay empty."""
    start = six(hkflow.Flow(1.0, 2.0), hkflow.geodesic_mesh(4))
    s, x = hkflow.solve(start, 4.0, **KIND), start.objective.inputs
    assert s.captured_at().mass > 0.1 * s.mass[-1]

    def missed(mesh, density):
        """Of mass and predictions, by cells and captured atoms."""
        cells = hkflow.PointMeasure(
            np.tile(mesh.centers, (2, 1)), np.repeat([1.0, -1.0], mesh.n_cells),
            (density * mesh.volumes).ravel(),
        )  # fmt: skip
        parts = cells, s.captured_at()
        h = sum(
            (atoms.signs * atoms.weights) @ RELU.matrix(atoms.positions, x).T for atoms in parts
        )
        mass = sum(atoms.mass for atoms in parts)
        return abs(mass / s.mass[-1] - 1.0), np.abs(h - s.predictions[-1]).max()

    found = [missed(mesh, s.density_on(mesh)) for mesh in map(hkflow.geodesic_mesh, (2, 3, 4))]
    size = np.abs(s.predictions[-1]).max()
    assert max(mass for mass, _ in found) < 1e-13
    assert found[-1][1] < 2e-3 * size and found[-1][1] < 0.5 * found[0][1], found
    fine = hkflow.geodesic_mesh(4)
    assert (s.density_on(fine) == 0.0).any() and (s.density_on(fine) >= 0.0).all()
    # values at the centres, of the right mass, are no such averages
    sampled = s.density_at(fine.centers)
    kept = s.mass[-1] - s.captured_at().mass
    sampled *= kept / (sampled @ fine.volumes).sum()
    assert missed(fine, sampled)[1] > 2e-3 * size
    normalised = s.density_on(fine, log=True) - s.log_mass[-1]
    assert np.allclose(np.exp(normalised) * s.mass[-1], s.density_on(fine))


def bump(points, sign):
    """A density that a run folder knows by its name."""
    return 1.0 + (0.5 if sign > 0 else 0.0) * points[:, 0] ** 2


@pytest.mark.parametrize(
    "density",
    [
        bump,
        InitialDensity(Uniform(), 0.3, (1, -1)),
        InitialDensity(VonMisesFisher(np.eye(3)[:2], 2.0), 0.7, (1,)),
        InitialDensity(Caps(np.eye(3)[:1], 0.8), 0.7, (1, -1)),
    ],
    ids=["function", "uniform", "von-mises-fisher", "caps"],
)
def test_run_folders_know_densities_of_atoms(tmp_path, density):
    mesh = hkflow.geodesic_mesh(2)
    values = np.array([density(mesh.centers, sign) for sign in (1, -1)])
    start = six(hkflow.Flow(1.0, 2.0), mesh)
    start = replace(start, mesh=None, initial=atoms_of_density(mesh, (1, -1), values))
    start = replace(start, density=density)
    run = hkflow.run(start, tmp_path / "run", end=0.5, **KIND)
    points = hkflow.quasi_uniform(200, 2)
    wanted = run.density_at(points)
    assert wanted.max() > 0.1
    for read in (hkflow.load(run.path), hkflow.load(run.path / "results.h5")):
        assert np.array_equal(read.density_at(points), wanted)
    again, _ = hkflow.reseeded(run.path, 600)
    seeded = hkflow.run(again, tmp_path / "again", end=0.5, **KIND)
    if density is not bump:  # whose name is that of a loaded one
        assert hkflow.load(seeded.path).density_at(points, 0) == pytest.approx(
            run.density_at(points, 0), rel=1e-14
        )


def test_densities_that_no_folder_knows_are_left_out(tmp_path):
    start = six(hkflow.Flow(1.0, 2.0), hkflow.geodesic_mesh(1))
    start = replace(
        start, mesh=None, initial=start.atoms(), density=lambda points, sign: points[:, 0] + 2.0
    )
    run = hkflow.run(start, tmp_path / "run", end=0.1, **KIND)
    assert run.has_density and not hkflow.load(run.path).has_density


@pytest.mark.parametrize("p, n", [(2, 1000), (3, 200), (3, 1000)])
def test_lists_of_near_kinks_change_nothing(p, n, monkeypatch):
    """Bit for bit, in voids and elsewhere: with short and with long lists as with none."""
    inputs, rows = draw(p, n)
    kinks, flow, found = Kinks.of(RELU, inputs), hkflow.Flow(1.0, 2.0), []
    points = hkflow.random_uniform(np.random.default_rng(n), 100, p - 1)
    for room in (0.0, 1.0, movement.ROOM):
        monkeypatch.setattr(movement, "ROOM", room)
        assert (movement.room_of(n) > 0) == (room > 0.0)
        found.append(followed_back(kinks, History(rows), flow, 0.1, points, 1.0))
    every, *listed = found
    for origins, growth in listed:
        np.testing.assert_array_equal(origins, every[0])
        np.testing.assert_array_equal(growth, every[1])
    assert np.isfinite(every[1]).any() and np.isinf(every[1]).any()
