"""Density and captured atoms: convergence in a valley, budgets, exact merging, and a state that
resumes to the bit."""

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import h5py
import numba
import numpy as np
import pytest
from scipy.spatial import cKDTree

import hkflow
from hkflow.files.writing import checksum
from hkflow.geometry.hypersphere import hypersphere_mesh
from hkflow.geometry.sphere import normalize
from hkflow.methods.frozen_relu.frozen import TOUCH
from hkflow.methods.grid import capture_kernels
from hkflow.methods.grid.capture import MOST_KINKS, Capture, captures
from hkflow.methods.grid.capture_kernels import coupling_product, label
from hkflow.methods.grid.dead_region import dead_shares
from hkflow.methods.grid.finite_volume import FiniteVolume
from hkflow.methods.grid.state import Atoms
from hkflow.methods.grid.stencil import stencil_of
from hkflow.methods.grid.steppers import muscl_hancock
from hkflow.methods.particles.tangent_gram import coupling_product as particles_product
from hkflow.methods.step import Step
from hkflow.store.contents import check_state

VALLEY = -0.570524, 1.9549e-4  # ∫b·θ dν and ∫|a·θ| dν, characteristics with 163,842 seeds
# the same with noise σ = 0.3, e^−σT M(T) + σ∫e^−σs M(s) ds with M(s) the closed form at s: what is
# born at T − s has moved for a time s
NOISE, VALLEY_WITH_NOISE = 0.3, (-0.35487929, 0.07785196)
Flow = hkflow.Flow


def _linear(predictions, targets, weights, out):
    out[:] = targets
    return float(predictions @ targets)


@pytest.fixture
def pinned_mass(monkeypatch):
    """The scheme without capture, in which face velocities pin mass."""
    monkeypatch.setattr(muscl_hancock, "captures", lambda problem: False)


def valley(level, noise=0.0):
    """J = |a·θ| + 0.3 b·θ, fixed, a ⟂ b off the axes of the mesh, a uniform start, to t = 4;
    returns ∫b·θ dν, ∫|a·θ| dν."""
    a = np.array([0.3, -0.5, 0.8]) / np.sqrt(0.98)
    b = np.cross(a, [0.9, 0.2, -0.1])
    b /= np.linalg.norm(b)
    risk = hkflow.Risk("linear", _linear, False)
    targets = np.array([1.0, 1.0, 0.3, -0.3])
    objective = hkflow.Objective(hkflow.FEATURES["relu"], risk, np.array([a, -a, b, -b]), targets)
    problem = hkflow.Problem(hkflow.geodesic_mesh(level), objective, Flow(1.0, 0.0, noise))
    atoms = hkflow.solve(problem, 4.0, [4.0]).atoms_at(-1)
    return atoms.weights @ (atoms.positions @ b), atoms.weights @ np.abs(atoms.positions @ a)


def errors(*levels, noise=0.0):
    wanted = VALLEY_WITH_NOISE if noise else VALLEY
    return np.abs(np.array([valley(level, noise) for level in levels]) - wanted)


def test_a_valley_converges_at_second_order():
    found = errors(2, 3, 4)
    rates = 0.5 * np.log2(found[0] / found[2])
    assert 1.7 <= rates[0] <= 2.3 and rates[1] >= 1.5
    assert found[1, 0] <= 3e-4 and found[1, 1] <= 1e-5


def test_a_valley_with_noise_converges_at_second_order():
    found = errors(2, 3, 4, noise=NOISE)
    rates = 0.5 * np.log2(found[0] / found[2])
    assert ((rates >= 1.7) & (rates <= 2.3)).all()
    assert (found[1] <= 3e-4).all()


def dead_region(cells, **options):
    """Eight data on the circle, whose units are dead on an arc: mass flows to its ends, and then
    the loss gradient turns round. Predictions at t = 10."""
    rng = np.random.default_rng(14)
    inputs = np.column_stack([rng.normal(size=8), np.ones(8)])
    units = normalize(rng.normal(size=(3, 2)))
    targets = np.maximum(inputs @ units.T, 0.0) @ [1.0, -1.0, 1.0]
    objective = hkflow.Objective(hkflow.FEATURES["relu"], hkflow.RISKS["square"], inputs, targets)
    mesh = hkflow.circle_mesh(cells)
    density = np.tile(np.exp(mesh.centers @ normalize(np.array([1.0, 0.5]))), (2, 1))
    density /= (density @ mesh.volumes).sum()
    problem = hkflow.Problem(mesh, objective, Flow(1.0, 2.0), (1, -1), density)
    return hkflow.solve(problem, 10.0, [10.0], **options).predictions[-1]


def dead_region_errors():
    wanted = dead_region(4096, kind="characteristics", tolerance=1e-6)
    return [np.abs(dead_region(cells) - wanted).max() for cells in (128, 256, 512)]


def with_capture_rates(monkeypatch, rates):
    """Let grids take a function for the kernel."""
    names = {name: getattr(capture_kernels, name) for name in dir(capture_kernels)}
    monkeypatch.setattr(
        "hkflow.methods.grid.capture.kernels", SimpleNamespace(**names | {"capture_rates": rates})
    )


def test_mass_that_comes_to_a_dead_region_stays_at_its_edge():
    found = dead_region_errors()
    assert 1.0 <= 0.5 * np.log2(found[0] / found[2]) <= 2.0 and found[2] < 1e-4, found


def test_sibling_mass_at_the_edge_of_a_dead_region_comes_back(monkeypatch):
    def rates(starts, kink, per_volume, width, slopes, *others):
        capture_kernels.capture_rates(starts, kink, per_volume, width, 2.0 * slopes, *others)

    with_capture_rates(monkeypatch, rates)
    found = dead_region_errors()
    assert found[2] > 5e-4 and found[2] > 0.8 * found[1], found


def hill(level, time):
    """J = −(a·θ)₊ from a uniform start: z = a·θ > 0 moves to tanh(artanh z + t), all else stays.
    Error of ∫(a·θ)₊ dν."""
    a = np.array([0.3, -0.5, 0.8]) / np.sqrt(0.98)
    risk = hkflow.Risk("linear", _linear, False)
    data = np.array([a, 0.5 * a]), np.array([-0.5, -1.0])
    objective = hkflow.Objective(hkflow.FEATURES["relu"], risk, *data)
    problem = hkflow.Problem(hkflow.geodesic_mesh(level), objective, Flow(1.0, 0.0))
    atoms = hkflow.solve(problem, time, [time]).atoms_at(-1)
    nodes, weights = np.polynomial.legendre.leggauss(50)
    exact = 0.25 * weights @ np.tanh(np.arctanh(0.5 * (1.0 + nodes)) + time)
    z = atoms.positions @ a
    return abs(atoms.weights @ np.maximum(z, 0.0) - exact)


@pytest.mark.parametrize(("time", "limit"), [(1.0, 3e-3), (8.0, 8e-4)])
def test_mass_beside_a_dead_region_leaves_it_there(time, limit):
    found = [hill(level, time) for level in (1, 2, 3)]
    assert 1.5 <= np.log2(found[0] / found[2]) / 2.0 <= 2.3 and found[2] <= limit, found


def test_sibling_cells_with_one_density_hand_on_what_is_dead(monkeypatch):
    monkeypatch.setattr(
        "hkflow.methods.grid.dead_region.dead_shares", lambda mesh, _: np.zeros(mesh.n_cells)
    )
    found = [hill(level, 1.0) for level in (2, 3)]
    assert np.log2(found[0] / found[1]) <= 1.3 and found[1] >= 1e-2, found


def test_sibling_without_sinks_mass_stays_at_centres(monkeypatch):
    monkeypatch.setattr("hkflow.methods.grid.capture.ROUNDING", np.inf)
    assert hill(3, 8.0) >= 1e-3


def shares_by_points(mesh, inputs, n=400_000):
    """Dead shares of cells by points of a uniform distribution."""
    points = normalize(np.random.default_rng(0).normal(size=(n, mesh.dim + 1)))
    cells = cKDTree(mesh.centers).query(points)[1]
    dead = (points @ inputs.T <= 0.0).all(axis=1)
    counts = np.bincount(cells, minlength=mesh.n_cells)
    return np.bincount(cells, dead, mesh.n_cells) / counts, counts


@pytest.mark.parametrize("name", ["circle", "sphere", "space"])
def test_dead_shares_of_cells(name):
    mesh = MESHES[name] if name in MESHES else hypersphere_mesh(2)
    rng = np.random.default_rng(3)
    n = 1 if name == "space" else 3  # corners of the region are of first order
    inputs = rng.normal(size=(n, mesh.dim + 1)) + 2.0 * np.eye(mesh.dim + 1)[-1]
    found = dead_shares(mesh, inputs)
    wanted, counts = shares_by_points(mesh, inputs)
    off = (found - wanted) / np.sqrt(np.maximum(wanted * (1.0 - wanted), 0.05) / counts)
    assert np.sqrt(np.mean(off[(found > 0.0) & (found < 1.0)] ** 2)) < 2.0
    assert abs(found @ mesh.volumes - wanted @ mesh.volumes) < 3e-3 * mesh.volumes.sum()
    assert (dead_shares(mesh, inputs[:0]) == 0.0).all()


def test_sibling_capture_apart_from_transport_is_of_first_order(monkeypatch):
    """Mass caught after transport leaves an empty strip, which turns the fluxes of transport."""
    together = Capture.take

    def apart(self, dt, start, density):
        together(self, dt, density, density)

    monkeypatch.setattr(Capture, "take", apart)
    found = errors(2, 4)[:, 0]
    assert 0.5 * np.log2(found[0] / found[1]) <= 1.3 and found[1] >= 5e-4


@pytest.mark.parametrize("noise, least", [(0.0, 0.1), (NOISE, 0.03)])
def test_sibling_without_capture_a_valley_does_not_converge(pinned_mass, noise, least):
    assert (errors(2, 3, noise=noise)[:, 0] > least).all()


def problem_of(mesh, flow, loss="square", decay=0.0, n=6):
    rng = np.random.default_rng(1)
    inputs, targets = rng.normal(size=(n, mesh.dim + 1)), rng.choice([-1.0, 1.0], size=n)
    objective = hkflow.Objective(
        hkflow.FEATURES["relu"], hkflow.RISKS[loss], inputs, targets, None, decay
    )
    return hkflow.Problem(mesh, objective, flow, (1, -1))


CASES = {
    "transport": (Flow(1.0, 0.0), "square", 0.0),
    "reaction": (Flow(1.0, 2.0), "logistic", 0.0),
    "decay": (Flow(1.0, 2.0), "square", 0.05),
    "noise": (Flow(1.0, 2.0, 0.1), "square", 0.0),
    "keeps-mass": (Flow(1.0, 4.0, drive="probability"), "square", 0.0),
    "margin": (Flow(1.0, 2.0, drive="measure"), "smooth-logistic-margin", 0.0),
}
MESHES = {"circle": hkflow.circle_mesh(60), "sphere": hkflow.geodesic_mesh(3)}
MESHES["between"] = hkflow.Domain(2).mesh(1442)


@pytest.mark.parametrize("mesh", MESHES.values(), ids=MESHES)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_budgets_close_and_predictions_agree_with_particles(mesh, case):
    problem = problem_of(mesh, *case)
    solution = hkflow.solve(problem, 4.0, [4.0])
    r, noisy = solution.records, case[0].noise > 0.0
    assert solution.finished and r["captured"][-1] > 0.05
    assert np.abs(r["mass_residual"]).max() <= 1e-13
    assert np.abs(r["energy_residual"]).max() <= 1e-4
    if case[0].reaction == 0.0 or case[0].keeps_mass:
        assert np.abs(r["mass"] / r["mass"][0] - 1.0).max() <= 1e-13
    assert noisy or case[0].drive == "measure" or (np.diff(r["objective"]) <= 1e-15).all()
    method = {"kind": "characteristics"}
    if noisy:
        method = {
            "kind": "particles",
            "tolerance": 1e-4,
            "noise_points": 200,
            "noise_interval": 0.2,
        }
    other = hkflow.solve(problem, 4.0, [4.0], **method)
    assert np.abs(solution.predictions - other.predictions).max() <= 0.01


def with_row(problem, row, target):
    """The problem with one more datum, of weight 0."""
    o = problem.objective
    data = np.vstack([row, o.inputs]), np.append(target, o.targets), np.append(0.0, o.weights)
    objective = hkflow.Objective(o.feature, o.risk, *data)
    return hkflow.Problem(problem.mesh, objective, problem.flow, problem.signs)


@pytest.mark.parametrize("mesh", [MESHES["circle"], MESHES["sphere"]], ids=["circle", "sphere"])
@pytest.mark.parametrize("length", [1.0, 1e9])
def test_a_datum_without_weight_changes_nothing(mesh, length):
    """It has no kink that captures, its half of the sphere is as dead as it would be, and it says
    nothing of the size of rounding errors."""
    problem = problem_of(mesh, Flow(1.0, 2.0), n=3)
    row = -length * normalize(problem.objective.inputs.sum(axis=0))
    alone, beside = (
        hkflow.solve(one, 2.0) for one in (problem, with_row(problem, row, 30.0 * length))
    )
    assert alone.records["captured"][-1] > 0.05
    np.testing.assert_allclose(beside.predictions[:, 1:], alone.predictions, rtol=0.0, atol=1e-12)


def test_data_without_weight_are_no_kinks_too_many():
    """So many would be more than the mesh can tell apart."""
    alone = beside = problem_of(MESHES["circle"], Flow(1.0, 2.0), n=3)
    for angle in np.linspace(0.1, 3.0, round(MOST_KINKS / alone.mesh.width)):
        beside = with_row(beside, [np.cos(angle), np.sin(angle)], 1.0)
    assert captures(alone) and captures(beside)
    o = beside.objective
    counting = replace(o, weights=np.full(len(o.weights), 1.0 / len(o.weights)))
    assert not captures(replace(beside, objective=counting))


def test_all_parts_of_the_measure_are_told():
    """Atoms and density of a save have the mass and the predictions that the run says."""
    solution = hkflow.solve(problem_of(MESHES["sphere"], Flow(1.0, 2.0)), 2.0, [2.0])
    atoms, mesh = solution.atoms_at(-1), MESHES["sphere"]
    state = solution.state_at(-1)
    assert len(atoms) > mesh.n_cells * 2 and np.count_nonzero(state["atom_weights"]) > 10
    assert atoms.mass == pytest.approx(solution.mass[-1], rel=1e-13)
    assert (solution.cell_density_at(-1) @ mesh.volumes).sum() == pytest.approx(
        atoms.mass, rel=1e-13
    )
    inputs = solution.problem.objective.inputs
    np.testing.assert_allclose(solution.predict(inputs), solution.predictions[-1], atol=1e-13)


def cloud(n, problem, seed=0):
    rng = np.random.default_rng(seed)
    positions = problem.mesh.centers[5] + 0.02 * rng.normal(size=(n, problem.mesh.dim + 1))
    positions /= np.linalg.norm(positions, axis=1)[:, None]
    return Atoms(positions, np.ones(n), rng.random(n), np.full(n, 5))


@pytest.mark.parametrize("mesh", MESHES.values(), ids=MESHES)
def test_merging_keeps_mass_and_moments(mesh):
    problem = problem_of(mesh, Flow(1.0, 2.0))
    capture = Capture(problem, stencil_of(mesh))
    before = cloud(200, problem)
    after = capture.merged(before)
    sides = np.sign(before.positions @ capture.kinks.normals.T)
    assert len(after.weights) <= 2 * len(np.unique(sides, axis=0)) + 6
    assert after.mass == pytest.approx(before.mass, rel=1e-14)
    np.testing.assert_allclose(
        after.weights @ after.positions, before.weights @ before.positions, atol=1e-13
    )
    phi = np.maximum(before.positions @ problem.objective.inputs.T, 0.0)
    np.testing.assert_allclose(after.predictions, before.weights @ phi, atol=1e-12)
    assert (after.weights > 0.0).all()


@pytest.mark.parametrize(("name", "mistake"), [("relu", 0), ("absolute-value", 0), ("relu", 1)])
def test_atoms_couple_as_particles_do(name, mistake):
    """The kernel's product K v is that of NumPy; with α and β exchanged, it is not."""
    rng = np.random.default_rng(4)
    x, v = rng.normal(size=(9, 3)), rng.normal(size=9)
    points, weights = rng.normal(size=(40, 3)), rng.random(40)
    points /= np.linalg.norm(points, axis=1)[:, None]
    feature, flow = hkflow.FEATURES[name], Flow(1.3, 2.0)
    objective = hkflow.Objective(feature, hkflow.RISKS["square"], x, np.zeros(9))
    rates = (2.0, 1.3)[:: 1 - 2 * mistake]
    slopes, partial = np.empty((2, 3, 9))
    pieces, columns = map(float, feature.pieces), x.T.copy()
    coupling_product(points, weights, columns, *pieces, *rates, v * columns, slopes, partial)
    out = partial.sum(axis=0)
    wanted = particles_product(objective, points, weights, weights, flow, v)
    assert (np.abs(out - wanted).max() <= 1e-13 * np.abs(wanted).max()) == (not mistake)


@pytest.mark.parametrize("dim", [1, 2])
def test_labels_tell_cells_signs_and_sides_of_kinks(dim):
    """Atoms have one label where they have one cell, one sign and lie on the same sides or on the
    same kinks; with one kink left out, some that do not have one all the same."""
    rng = np.random.default_rng(dim)
    normals = np.linalg.qr(rng.normal(size=(dim + 1, dim + 1)))[0]
    points = np.concatenate([rng.normal(size=(200, dim + 1)), np.eye(dim + 1) @ normals])
    n = len(points)
    points /= np.linalg.norm(points, axis=1)[:, None]
    signs, cells = rng.choice([-1.0, 1.0], n), rng.integers(0, 3, n)
    codes = rng.integers(1, 2**63, (2, dim + 2), dtype=np.uint64) | np.uint64(1)
    s = points @ normals
    sides = np.where(np.abs(s) > TOUCH, np.sign(s), 0.0)
    known = np.column_stack([sides, signs, cells])
    _, wanted = np.unique(known, axis=0, return_inverse=True)
    for columns in (dim + 1, dim):
        keys = np.zeros(n, np.uint64)
        few = np.ascontiguousarray(normals[:, :columns])
        some = np.ascontiguousarray(np.delete(codes, np.s_[columns : dim + 1], axis=1))
        label(points, signs, cells, few, some, keys)
        same = (keys[:, None] == keys) == (wanted[:, None] == wanted)
        assert same.all() == (columns == dim + 1)


def stepped(method, times):
    for _ in range(times):
        method.accept(method.advance(0.04))
    return method.state()


@pytest.mark.parametrize("drive", [None, "probability", "measure"])
def test_a_state_resumes_to_the_bit(drive):
    problem = problem_of(MESHES["sphere"], Flow(1.0, 2.0, drive=drive))
    one, two = FiniteVolume(problem), FiniteVolume(problem)
    two.load({name: np.copy(value) for name, value in stepped(one, 6).items()})
    ends = stepped(one, 6), stepped(two, 6)
    assert np.count_nonzero(ends[0]["atom_weights"]) > 10
    for name, value in ends[0].items():
        np.testing.assert_array_equal(value, ends[1][name], err_msg=name)


def test_run_folders_keep_atoms(tmp_path):
    problem = problem_of(MESHES["circle"], Flow(1.0, 2.0))
    made = hkflow.run(problem, output=tmp_path / "run", end=1.0, saves=3)
    folder = hkflow.load(tmp_path / "run")
    packed = hkflow.load(tmp_path / "run" / "results.h5")
    hkflow.export(made, "csv", "vtk")
    for run in (folder, packed):
        assert run.finished and run.state_at(-1)["atom_weights"].any()
        np.testing.assert_array_equal(run.atoms_at(-1).positions, made.atoms_at(-1).positions)
        np.testing.assert_array_equal(run.predictions, made.predictions)
        inputs = problem.objective.inputs
        np.testing.assert_allclose(run.predict(inputs), run.predictions[-1], atol=1e-13)


@pytest.mark.parametrize(
    "name, value, why",
    [
        ("atom_signs", 0.0, "'atom_signs' are not all 1 or -1"),
        ("atom_positions", 0.0, "'atom_positions' are zero"),
        ("atom_weights", -1.0, "'atom_weights' are negative"),
        ("atom_weights", np.nan, "not finite"),
    ],
)
def test_atoms_that_cannot_be_are_seen_when_they_are_read(name, value, why, tmp_path):
    problem = problem_of(MESHES["circle"], Flow(1.0, 2.0))
    run = hkflow.run(problem, tmp_path / "run", end=0.5, error={"companions": "none"})
    state = run.state_at(-1)
    sizes = {"sign": 2, "cell": MESHES["circle"].n_cells, "axis": 2}
    check_state(state, run.case, sizes)
    beyond = len(state["atom_weights"]) - 1  # room for more
    assert state["atom_weights"][0] > 0.0 == state["atom_weights"][beyond]
    for place, seen in ((0, True), (beyond, name == "atom_weights")):
        changed = np.array(state[name])
        changed[place] = value
        with pytest.raises(ValueError, match=why) if seen else nullcontext():
            check_state(state | {name: changed}, run.case, sizes)


@pytest.mark.parametrize("cell", [-1.0, 0.5, np.inf, "cells"])
def test_cells_of_atoms_are_those_of_the_mesh(cell, tmp_path):
    """All of them, since room for more has cells as well, or a state is refused: compiled code
    looks there without asking."""
    mesh = MESHES["circle"]
    run = hkflow.run(
        problem_of(mesh, Flow(1.0, 2.0)), tmp_path / "run", end=0.5, error={"companions": "none"}
    )
    state, sizes = run.state_at(-1), {"sign": 2, "cell": mesh.n_cells, "axis": 2}
    for place in (0, -1):
        changed = np.array(state["atom_cells"])
        changed[place] = mesh.n_cells if cell == "cells" else cell
        with pytest.raises(ValueError, match="atom_cells"):
            check_state(state | {"atom_cells": changed}, run.case, sizes)
    part = {name: array for name, array in state.items() if name != "atom_cells"}
    with pytest.raises(ValueError, match="'atom_cells' is missing beside 'atom_positions'"):
        check_state(part, run.case, sizes)


def test_the_room_for_atoms_grows_seldom_and_is_part_of_the_state():
    """Arrays of a state are as long as before, or doubled; what is beyond the atoms weighs nothing
    and is left out of the measure."""
    method = FiniteVolume(problem_of(MESHES["sphere"], Flow(1.0, 2.0)))
    rooms, counts = [], []
    for _ in range(12):
        state = stepped(method, 1)
        rooms.append(len(state["atom_weights"]))
        counts.append(len(method.current.atoms.weights))
        assert np.count_nonzero(state["atom_weights"]) == counts[-1] <= rooms[-1]
        measure = FiniteVolume.measure(state)
        assert len(measure.atoms.weights) == counts[-1]
    assert len(set(counts)) > 5 and len(set(rooms)) <= 4
    assert all(room in (64 * 2**k for k in range(12)) for room in rooms)
    again = FiniteVolume(method.problem)
    again.load(state)
    assert len(again.state()["atom_weights"]) == rooms[-1]


def test_results_hold_states_of_different_lengths(tmp_path):
    """The atoms of every save come back from results.h5, and xarray has their mass."""
    xarray = pytest.importorskip("xarray")
    problem = problem_of(MESHES["sphere"], Flow(1.0, 2.0))
    made = hkflow.run(problem, output=tmp_path / "run", end=1.0, saves=5)
    packed = hkflow.load(tmp_path / "run" / "results.h5")
    assert len({len(made.state_at(k)["atom_weights"]) for k in range(5)}) > 1
    for k in range(5):
        for name, value in made.state_at(k).items():
            if name in packed.state_at(k):
                np.testing.assert_array_equal(packed.state_at(k)[name], value, err_msg=name)
        assert packed.atoms_at(k).mass == pytest.approx(made.mass[k], rel=1e-13)
    with xarray.open_dataset(tmp_path / "run" / "results.h5", engine="h5netcdf") as data:
        assert data["atom_positions"].dims == ("time", "atom", "axis")
    made_data = hkflow.to_xarray(made)
    smooth = (made_data["density"].values @ problem.mesh.volumes).sum(1)
    held = made_data["atom_weights"].fillna(0.0).sum("atom").values
    np.testing.assert_allclose(smooth + held, made.mass, rtol=1e-12)
    np.testing.assert_allclose((made.density @ problem.mesh.volumes).sum(1), made.mass, rtol=1e-12)
    assert held[-1] > 0.01 * made.mass[-1]


def states_by_threads():
    """States after runs with one thread and with all."""
    problem = problem_of(hkflow.geodesic_mesh(4), Flow(1.0, 2.0), n=40)
    states = []
    for threads in (1, numba.config.NUMBA_NUM_THREADS):
        numba.set_num_threads(threads)
        states.append(hkflow.solve(problem, 0.5, [0.5]).state_at(-1))
    numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
    return states


def test_the_bits_do_not_depend_on_the_number_of_threads():
    one, all_ = states_by_threads()
    assert np.count_nonzero(one["atom_weights"]) > 512  # more than one parallel block
    for name, value in one.items():
        np.testing.assert_array_equal(value, all_[name], err_msg=name)


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS == 1, reason="needs two threads")
def test_sibling_sums_by_threads_change_bits(monkeypatch):
    """Predictions of atoms as a sum over as many parts as there are threads."""
    honest = Capture._atoms

    def by_threads(self, positions, signs, weights, cells):
        atoms = honest(self, positions, signs, weights, cells)
        phi = np.maximum(positions @ self.problem.objective.inputs.T, 0.0)
        parts = np.array_split(np.arange(len(weights)), numba.get_num_threads())
        atoms.predictions[:] = sum((signs * weights)[part] @ phi[part] for part in parts)
        return atoms

    monkeypatch.setattr(Capture, "_atoms", by_threads)
    one, all_ = states_by_threads()
    assert not all(np.array_equal(value, all_[name]) for name, value in one.items())


def run_from_before_there_were_atoms(path):
    run = hkflow.run(problem_of(MESHES["circle"], Flow(1.0, 2.0)), output=path, end=0.5, saves=3)
    for path in sorted((run.path / "snap").glob("*.h5")):
        with h5py.File(path) as file:
            arrays = {n: item[()] for n, item in file.items() if not n.startswith("atom_")}
        with h5py.File(path, "w") as file:
            for name, array in arrays.items():
                file[name] = array
            file.attrs["sha256"] = checksum(arrays)
    return run.path


def test_a_run_from_before_there_were_atoms_is_refused(tmp_path):
    path = run_from_before_there_were_atoms(tmp_path / "run")
    with pytest.raises(hkflow.RunFolderError, match="captures? into atoms.*Run its case again"):
        hkflow.resume(path)
    assert len(hkflow.load(path).time) == 3


def test_sibling_a_state_that_hides_its_atoms_is_not_refused(tmp_path, monkeypatch):
    path, state = run_from_before_there_were_atoms(tmp_path / "run"), FiniteVolume.state

    def hidden(self):
        return {n: value for n, value in state(self).items() if not n.startswith("atom_")}

    monkeypatch.setattr(FiniteVolume, "state", hidden)
    assert hkflow.resume(path).finished


def test_smooth_features_and_explicit_steppers_capture_nothing():
    mesh = MESHES["circle"]
    rng = np.random.default_rng(0)
    for name, flow in (("squared-relu", Flow(1.0, 4.0)), ("relu", Flow(0.0, 2.0))):
        objective = hkflow.Objective(
            hkflow.FEATURES[name], hkflow.RISKS["square"], rng.normal(size=(3, 2)), np.ones(3)
        )
        method = FiniteVolume(hkflow.Problem(mesh, objective, flow))
        assert method.current.atoms is None and "atom_weights" not in method.state()


@pytest.mark.parametrize("mesh", MESHES)
def test_data_at_zero_have_no_kink_and_count_for_nothing_beside_others(mesh):
    def solved(count, at_zero):
        axes = MESHES[mesh].centers.shape[1]
        inputs = np.random.default_rng(0).normal(size=(count, axes))
        inputs = np.concatenate([inputs, np.zeros((at_zero, axes))])
        targets = np.append(np.ones(count), np.zeros(at_zero))
        weights = np.full(len(inputs), 1.0 / max(count, 1))
        objective = hkflow.Objective(
            hkflow.FEATURES["relu"], hkflow.RISKS["square"], inputs, targets, weights
        )
        return hkflow.solve(hkflow.Problem(MESHES[mesh], objective, Flow(1.0, 4.0)), 0.1)

    nothing_moves = solved(0, 2).density
    assert nothing_moves[-1] == pytest.approx(nothing_moves[0], rel=1e-12)
    many, none = (solved(2, at_zero).predictions[-1, :2] for at_zero in (5000, 0))
    assert many == pytest.approx(none, rel=1e-12)


def traps(starts, kink, per_volume, width, slopes, signs, jumps, *others):
    """Capture by kinks that trap, and by no others."""
    held = 2.0 * np.abs(slopes) <= (1.0 + 1e-6) * np.abs(jumps[kink])
    capture_kernels.capture_rates(
        starts, kink, per_volume, width, np.where(held, 0.0, np.inf), signs, jumps, *others
    )


def jumps_of_predictions():
    """By how much predictions after a time 0.1 in J = ½|a·θ| + tilt a·θ change when the tilt does
    by 2e-5: where the kink ceases to trap, and where mass leaves it too fast to be captured."""
    a = np.array([0.3, -0.5, 0.8]) / np.sqrt(0.98)
    data = np.array([a, -a]), np.ones(2)
    objective = hkflow.Objective(
        hkflow.FEATURES["relu"], hkflow.Risk("linear", _linear, False), *data
    )
    method = FiniteVolume(hkflow.Problem(hkflow.geodesic_mesh(3), objective, Flow(1.0, 0.0)))
    after = method.rhs.new_evaluation()

    def predictions(tilt):
        r = np.array([0.5 + tilt, 0.5 - tilt])
        return method.stepper.frozen.drive(method.current, after, r, 0.1, Step(0.1)).copy()

    ends = 0.5, 0.5 + method.stepper.capture.width
    tilts = [side * end for end in ends for side in (1.0, -1.0)]
    return [np.abs(predictions(t + 1e-5) - predictions(t - 1e-5)).max() for t in tilts]


def test_what_a_kink_captures_is_continuous_in_the_loss_gradients():
    assert max(jumps_of_predictions()) <= 1e-5


def test_sibling_kinks_that_trap_or_do_not_make_predictions_jump(monkeypatch):
    with_capture_rates(monkeypatch, traps)
    assert jumps_of_predictions()[0] >= 1e-4


def stiff_margin_flow():
    """A run by implicit steps in which kinks let go what they hold, at log masses of 30."""
    case = {
        "seed": 7,
        "data": {"source": "cluster-grid", "n": 20, "clusters": 2},
        "objective": {"activation": "relu", "bias": True, "loss": "smooth-margin"},
        "domain": {"kind": "signed-sphere", "cells": 162},
        "flow": {"transport": 1.0, "reaction": 2.0},
        "time": {"end": 140.0},
    }
    return hkflow.solve(hkflow.check(case)[1], 140.0, imex="implicit", saves=2)


def test_implicit_steps_go_on_where_kinks_let_go():
    run = stiff_margin_flow()
    assert run.finished and run.end["steps"] < 600, run.status


def test_sibling_with_kinks_that_trap_or_do_not_they_stop(monkeypatch):
    with_capture_rates(monkeypatch, traps)
    assert not stiff_margin_flow().finished


@pytest.fixture(scope="module")
def beside_a_potential():
    """Six ReLU data on S² beside an external potential, HK, to t = 20: the problem on a mesh, and
    predictions of particles."""
    rng = np.random.default_rng(0)
    inputs, targets = rng.standard_normal((6, 3)), rng.standard_normal(6)
    data = hkflow.Objective(hkflow.FEATURES["relu"], hkflow.RISKS["square"], inputs, targets)
    objective = hkflow.Sum(data, hkflow.External("0.05*x*y - 0.05*z"))

    def problem(level):
        mesh = hkflow.geodesic_mesh(level)
        return hkflow.Problem(mesh, objective, hkflow.Flow(1.0, 2.0), (1, -1))

    exact = hkflow.solve(problem(4), 20.0, kind="particles", tolerance=1e-4)
    return problem, exact.predictions[-1]


def grids_beside(beside_a_potential):
    """Grids of 642 and 2562 cells and their errors."""
    problem, exact = beside_a_potential
    runs = [hkflow.solve(problem(level), 20.0) for level in (3, 4)]
    return runs, [np.sqrt(np.mean((run.predictions[-1] - exact) ** 2)) for run in runs]


def test_kinks_capture_beside_external_potentials(beside_a_potential):
    """F falls in every step, by what the budget says."""
    runs, errors = grids_beside(beside_a_potential)
    assert errors[0] < 3e-3 and 0.7 < np.log2(errors[0] / errors[1]) < 2.2, errors
    for run in runs:
        r = run.records
        fall = r["objective"][0] - r["objective"][-1]
        assert run.finished and r["captured"][-1] > 0.3 and (np.diff(r["objective"]) < 0.0).all()
        assert abs(r["energy_residual"][-1]) < 1e-3 * fall
        assert abs(r["mass_residual"][-1]) < 1e-3 * r["mass"][-1]


def test_sibling_without_capture_errors_stay(beside_a_potential, monkeypatch):
    monkeypatch.setattr(hkflow.Sum, "moves_atoms", False)
    _, errors = grids_beside(beside_a_potential)
    assert errors[1] > 4e-3 and errors[0] < 2.0 * errors[1], errors


def test_a_potential_acts_on_both_signs_alike(beside_a_potential):
    """J of ε = −1 is that of ε = 1 with the loss gradients of the other sign."""
    method = FiniteVolume(beside_a_potential[0](2))
    frozen, r = method.stepper.frozen, np.random.default_rng(1).standard_normal(6)
    rates = []
    for sign in (1.0, -1.0):
        method.current.loss_gradient[:] = sign * r
        method.rhs.drive(method.current)
        frozen.follow(method.current)
        rates.append(frozen.capture.rates.copy())
    assert np.abs(rates[0] - rates[1][::-1]).max() <= 1e-12 * rates[0].max() and rates[0].any()


def atoms_beside(steps):
    """Atoms of dead units in V = −½ x² to t = 1, where tan of their angles to the x axis falls like
    e^−t: errors of angles and log masses, the budget, ∫V before, and the atoms."""
    inputs = np.array([[0.2, 1.0], [-0.2, 1.0]])
    data = hkflow.Objective(hkflow.FEATURES["relu"], hkflow.RISKS["square"], inputs, np.ones(2))
    mesh = hkflow.circle_mesh(64)
    problem = hkflow.Problem(
        mesh, hkflow.Sum(data, hkflow.External("-0.5*x**2")), hkflow.Flow(1.0, 0.5)
    )
    capture, angles = Capture(problem, stencil_of(mesh)), np.array([-0.6, -1.0, -1.3])
    now = capture._atoms(
        np.column_stack([np.cos(angles), np.sin(angles)]), np.ones(3), np.ones(3), np.zeros(3)
    )
    step, before = Step(1.0), now.external_energy
    for _ in range(steps):
        moved, _ = capture.move(now, np.zeros(2), 1.0 / steps, 0.0, step)
        now = capture._atoms(moved.positions, moved.signs, moved.weights, moved.cells)
    exact = np.arctan(np.tan(angles) * np.exp(-1.0))
    off = np.abs(np.arctan2(now.positions[:, 1], now.positions[:, 0]) - exact).max()
    growth = 0.25 + 0.125 * np.log((1.0 + np.tan(exact) ** 2) / (1.0 + np.tan(angles) ** 2))
    return off, np.abs(np.log(now.weights) - growth).max(), step, before, now


def test_atoms_in_potentials_move_at_second_order_and_keep_their_budget():
    found = [atoms_beside(steps) for steps in (8, 16, 32)]
    for k in range(2):
        errors = [one[k] for one in found]
        assert 1.8 < np.log2(errors[1] / errors[2]) < 2.3, errors
    for _, _, step, before, now in found:
        assert step.budget.energy.sum() == pytest.approx(now.external_energy - before, abs=1e-13)
