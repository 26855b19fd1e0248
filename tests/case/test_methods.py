"""What case files say of particles and networks."""

import re
from dataclasses import replace

import numpy as np
import pytest
from commands import hk
from conftest import ROOT
from test_cases_and_errors import MINIMAL

import hkflow
from hkflow.case.load import load_case
from hkflow.methods import rules

PARTICLES = '[method]\nkind = "particles"\n'
NETWORK = '[method]\nkind = "network"\n'
PROVED = 'layers = "radii"\ntraining = "gradient-descent"\nschedule = "proposition"\n'
FLOW = '[flow]\nkind = "hellinger-kantorovich"\n'


@pytest.fixture
def case(tmp_path):
    def write(extra="", text=MINIMAL):
        path = tmp_path / "small.toml"
        path.write_text(text.replace("[time]", f"{extra}\n[time]"))
        return path

    return write


@pytest.mark.parametrize(
    "extra, message",
    [
        (
            PARTICLES + "particles = 3",
            "method: 3 evenly spread points cannot be shared by 2 signs; give an even number",
        ),
        (PARTICLES + "units = 3", "method.units: unknown key."),
        (
            PARTICLES + 'noise = "randm"',
            (
                "method.noise: unknown value 'randm'. Did you mean 'random'? Choose from:"
                " deterministic, random"
            ),
        ),
        (
            PARTICLES + 'stepper = "euler"',
            "method: 'euler' takes fixed steps: give their length, 'max_step'",
        ),
        (
            PARTICLES + 'points = "gaussian"\n[initial]\nmass = 2.0',
            "method.points: 'gaussian' draws the whole start",
        ),
        (
            PARTICLES + 'particles = 4\n[initial]\nkind = "points"\npositions = [[1.0, 0.0]]',
            "the initial points are listed, so leave it out",
        ),
        (
            PARTICLES + 'particles = 4\npoints = "mesh"',
            "method.particles: the mesh has its own number of cells, so leave it out",
        ),
        (
            PARTICLES + 'points = "mesh"\n[initial]\nkind = "points"\npositions = [[1.0, 0.0]]',
            "'mesh' cannot choose them",
        ),
        (PARTICLES + "scale = 2.0", "points = 'gaussian' alone reads 'scale'; leave it out"),
        (
            PARTICLES + 'noise = "random"\nnoise_points = 10',
            "noise = 'deterministic' alone reads 'noise_points'",
        ),
        ('[method]\nkind = "network"\nstep = 0.1\nbatch = 3', "descent alone reads 'step'"),
        (
            '[method]\nkind = "network"\ntraining = "sgd"\nmax_step = 0.1',
            "training = 'gradient-flow' alone reads 'max_step'",
        ),
        (
            '[method]\nkind = "network"\npoints = "gaussian"\nbalance = 2.0',
            "units made from a measure alone read 'balance'",
        ),
        ('[initial]\nkind = "points"', "initial: give either 'positions' or 'file'"),
        ('[initial]\nkind = "points"\nfile = "p.csv"\nweights = [1.0]', "columns of 'file'"),
        ('[initial]\nkind = "points"\nfile = "none.csv"', "initial.file: "),
        (
            '[method]\nkind = "netwrk"',
            "method.kind: unknown value 'netwrk'. Did you mean 'network'",
        ),
        (
            '[method]\nkind = "network"\nlayers = "output"',
            "a network with layers 'output' follows transport 0, reaction 0 and no noise",
        ),
        (
            '[method]\nkind = "network"\nlayers = "radii"',
            "layers 'radii' follows transport 0, reaction 4 and no noise",
        ),
        (
            NETWORK + 'layers = "radii"\nbalance = 2.0',
            "units made from a measure alone read 'balance'",
        ),
        (NETWORK + 'layers = "diagonal"\nunits = 5', "units on a sphere alone read 'units'"),
        (
            NETWORK + 'layers = "both"\ntraining = "gradient-descent"\nschedule = "proposition"',
            "of layers 'radii' or 'output'",
        ),
        (NETWORK + 'layers = "radii"\nschedule = "proposition"', "descent alone reads 'schedule'"),
        (NETWORK + PROVED + "step = 0.1", "the other schedules alone read 'step'"),
        (
            NETWORK + 'layers = "both"\n[initial]\nkind = "zero"',
            "a network whose output layer alone is trained",
        ),
    ],
)
def test_faults_are_named(case, extra, message):
    with pytest.raises(hkflow.CaseError, match=re.escape(message)) as told:
        hkflow.check(case(extra))
    assert re.search(r"[^.]\.$", str(told.value))  # one full stop


def test_a_grid_needs_cells_and_steps_belong_to_descent(case):
    no_cells = MINIMAL.replace("cells = 24\n", "")
    with pytest.raises(hkflow.CaseError, match="domain.cells is missing"):
        hkflow.check(case('[method]\nkind = "grid"\n', text=no_cells))
    with pytest.raises(hkflow.CaseError, match="domain.cells is missing"):
        hkflow.check(case('[method]\nlimiter = "minmod"\n', text=no_cells))
    hkflow.check(case(PARTICLES, text=no_cells))
    steps = MINIMAL.replace("end = 0.5", "steps = 10")
    with pytest.raises(
        hkflow.CaseError, match="time.steps counts the steps of a network's descent"
    ):
        hkflow.check(case(text=steps))
    with pytest.raises(hkflow.CaseError, match=r"\[flow\] is missing"):
        hkflow.check(case(text=MINIMAL.replace('[flow]\nkind = "hellinger-kantorovich"\n', "")))


NOISE = ('kind = "hellinger-kantorovich"', 'kind = "hellinger-kantorovich"\nnoise = 0.1')
SMOOTH = ('"relu"', '"squared-relu"')
WITHOUT_CELLS = ("cells = 24\n", "")
ENERGIES = ("[flow]", '[[energy]]\nkind = "external"\npotential = "x"\n\n[flow]')


@pytest.mark.parametrize(
    "changes, kind, why",
    [
        ([], "characteristics", "without noise, 'relu' units move in closed form"),
        ([WITHOUT_CELLS], "characteristics", "in closed form"),
        ([NOISE], "grid", "noise or entropy makes the measure a density"),
        ([NOISE, WITHOUT_CELLS], "particles", "there is noise or entropy, and no mesh"),
        ([SMOOTH], "particles", "there is no noise, and 'squared-relu' has no closed form"),
        ([ENERGIES], "particles", "there is no noise, and 'relu and energies' has no closed form"),
    ],
)
def test_auto_takes_the_best_method_and_check_says_why(case, changes, kind, why):
    text = MINIMAL
    for old, new in changes:
        text = text.replace(old, new)
    path = case('[method]\nkind = "auto"\ntolerance = 1e-3\n', text)
    resolved, problem = hkflow.check(path)
    assert (resolved.method.kind, resolved.method.tolerance) == (kind, 1e-3)
    meshed = WITHOUT_CELLS not in changes
    assert len(problem.atoms()) == (48 if meshed else 1000)
    assert meshed == (problem.mesh is not None)
    said, _ = hk("check", path)
    assert f"# method.kind = 'auto' takes {kind}: " in said and why in said


def test_check_of_energies_speaks_of_energies():
    """It spoke of a population risk alone."""
    said, _ = hk("check", ROOT / "cases" / "energies" / "oscillators.toml")
    assert "takes grid: without data F is a smooth function of a density" in said


@pytest.mark.parametrize("signed", ["sphere", "signed-sphere"])
def test_energies_alone_have_the_rates_of_no_units(tmp_path, signed):
    """β is 2 for ReLU units on the signed sphere, and 4 for all else: it was 2 by an activation
    that no energy has."""
    path = tmp_path / "case.toml"
    path.write_text(
        "[[energy]]\nkind = 'external'\npotential = 'x'\n"
        f"[domain]\nkind = '{signed}'\ndim = 1\ncells = 24\n"
        "[flow]\nkind = 'hellinger-kantorovich'\n[time]\nend = 1.0\n"
    )
    assert hkflow.check(path)[1].flow == hkflow.Flow(1.0, 4.0)


@pytest.mark.parametrize("key", ["tolerance = 1e-3", "accuracy = 0.3"])
def test_check_says_what_kinks_of_many_data_change(case, monkeypatch, key):
    monkeypatch.setattr(rules, "MANY_KINKS", 2)
    monkeypatch.setattr(rules, "MANY_NUMBERS", 2)
    text = MINIMAL.replace("cells = 24\n", "")
    said, _ = hk("check", case(f'[method]\nkind = "auto"\n{key}\n', text))
    assert "# method.kind = 'auto' takes particles: " in said and "So does this case" in said


def test_a_mesh_is_a_grid_by_default_and_no_mesh_the_best_method(case):
    assert hkflow.check(case())[0].method.kind == "grid"
    text = MINIMAL.replace("cells = 24\n", "")
    assert hkflow.check(case(text=text))[0].method.kind == "characteristics"
    few = hkflow.check(case("[method]\nparticles = 10\n", text))[1]
    assert len(few.atoms()) == 10
    with pytest.raises(hkflow.CaseError, match="listed, so leave it out"):
        listed = '[initial]\nkind = "points"\npositions = [[1.0, 0.0]]\n'
        hkflow.check(case(listed + "[method]\nparticles = 10\n", text))


def test_a_density_that_stays_in_place_is_a_grid(case):
    """Of output weights alone, which a network of the layers 'output' follows: 'auto' took
    characteristics, which refused the mobility."""
    text = MINIMAL.replace(FLOW, '[flow]\nkind = "output-layer"\n')
    auto = '[method]\nkind = "auto"\n'
    found, problem = hkflow.check(case(auto, text))
    assert found.method.kind == "grid"
    assert hkflow.solve(problem, 0.1, kind="auto").method == "grid"
    with pytest.raises(hkflow.CaseError, match="cells is missing: this flow needs a grid, since"):
        hkflow.check(case(auto, text.replace("cells = 24\n", "")))
    to_accuracy = case(auto + "accuracy = 0.1\n", text.replace("cells = 24\n", ""))
    assert hkflow.check(to_accuracy)[0].method.kind == "grid"
    five = text.replace("[[0.5], [-1.0]]", "[[0.5, 1, 2, 3, 4], [-1.0, 1, 1, 1, 1]]")
    with pytest.raises(hkflow.CaseError, match="Set method.kind = 'network'"):
        hkflow.check(case(auto, five))
    five = five.replace("cells = 24\n", "")
    with pytest.raises(hkflow.CaseError, match="none. Set method.kind = 'network'"):
        hkflow.check(case(auto + "accuracy = 0.1\n", five))


def test_problems_in_python_have_the_same_default(tmp_path):
    objective = hkflow.Objective(
        hkflow.FEATURES["relu"], hkflow.RISKS["square"], np.eye(2), np.ones(2)
    )
    atoms = hkflow.PointMeasure(np.eye(2), np.array([1, -1]), np.ones(2))
    points = hkflow.Problem(None, objective, hkflow.Flow(), (1, -1), atoms)
    assert hkflow.solve(points, 0.1).method == "characteristics"
    assert hkflow.run(points, tmp_path / "run", end=0.1).method == "characteristics"
    noisy = hkflow.Problem(None, objective, hkflow.Flow(noise=0.1), (1, -1), atoms)
    assert hkflow.solve(noisy, 0.1, kind="auto").method == "particles"
    meshed = hkflow.Problem(hkflow.circle_mesh(24), objective, hkflow.Flow(), (1, -1))
    assert hkflow.solve(meshed, 0.1).method == "grid"
    assert hkflow.solve(meshed, 0.1, kind="auto").method == "characteristics"
    pulled = replace(meshed, objective=hkflow.Sum(objective, hkflow.External("x")))
    assert hkflow.solve(pulled, 0.1, kind="auto").method == "particles"
    units = hkflow.Units(np.eye(2), np.array([1.0, -1.0]))
    network = hkflow.Problem(None, objective, hkflow.Flow(1.0, 2.0), (1, -1), units)
    assert hkflow.solve(network, 0.1).method == "network"


def test_steps_become_times_that_the_descent_hits_exactly(case, tmp_path):
    text = MINIMAL.replace("end = 0.5", "steps = 90\nsaves = 4")
    extra = (
        '[method]\nkind = "network"\nunits = 6\ntraining = "gradient-descent"\nstep = 0.1\nschedule'
        ' = "inverse-sqrt"\n'
    )
    run = hkflow.run(case(extra, text), output=tmp_path / "run")
    assert run.records["step"][-1] == 90 and len(run.time) == 4
    assert run.time[-1] == pytest.approx(np.sum(0.1 / np.sqrt(np.arange(90) + 1)), rel=1e-14)
    assert run.time[1] == pytest.approx(np.sum(0.1 / np.sqrt(np.arange(30) + 1)), rel=1e-14)


def test_the_steps_of_a_proposition_count_time(case, tmp_path):
    text = (
        MINIMAL.replace("logistic", "smooth-margin")
        .replace(FLOW, "")
        .replace("end = 0.5", "steps = 130\nsaves = 4")
    )
    run = hkflow.run(
        case(NETWORK + PROVED + 'points = "quasi-uniform"\nunits = 8', text),
        output=tmp_path / "run",
    )
    assert run.time.tolist() == [0.0, 43.0, 87.0, 130.0] and run.records["step"][-1] == 130
    assert np.all(run.records["best_margin"][1:] >= run.records["bound"][1:])
    again = hkflow.resume(tmp_path / "run")
    assert (
        again.time.tolist() == run.time.tolist()
        and again.atoms_at(-1).mass == run.atoms_at(-1).mass
    )
    with pytest.raises(
        hkflow.CaseError, match="time counts steps, so end and saves are whole numbers"
    ):
        hkflow.check(case(NETWORK + PROVED, text.replace("steps = 130", "end = 130.0")))
    zero = (
        '[initial]\nkind = "zero"\n' + NETWORK + PROVED.replace("radii", "output") + "units = 8\n"
    )
    run = hkflow.run(case(zero, text), output=tmp_path / "zero")
    assert run.finished and run.mass[0] == 0.0 and run.records["best_margin"][-1] > 0.0
    packed = hkflow.load(tmp_path / "zero" / "results.h5")
    assert packed.mass[-1] == run.mass[-1] > 0.0


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_diagonal_network_has_its_depth_from_the_flow(case, tmp_path, depth):
    text = (
        MINIMAL.replace("relu", "linear")
        .replace("signed-sphere", "fixed-features")
        .replace("cells = 24\n", "")
    )
    text = text.replace("logistic", "smooth-margin")
    flow = f'[flow]\nkind = "diagonal"\ndepth = {float(depth)}\n'
    start = (
        '[initial]\nkind = "zero"\n' if depth == 1 else '[initial]\nkind = "scaled"\nscale = 0.5\n'
    )
    path = case(NETWORK + 'layers = "diagonal"\n' + start, text.replace(FLOW, flow))
    run = hkflow.run(path, output=tmp_path / "raw")
    assert run.finished and (run.problem.flow.reaction, run.problem.flow.depth) == (depth**2, depth)
    if depth > 1:
        grid = hkflow.run(path, output=tmp_path / "grid", **{"method.kind": "grid"})
        assert np.allclose(run.predictions, grid.predictions, rtol=1e-3, atol=1e-4)
    packed = hkflow.load(tmp_path / "raw" / "results.h5")
    assert np.array_equal(packed.atoms_at(-1).weights, run.atoms_at(-1).weights)


def test_balance_is_refused_where_output_weights_are_signs(case):
    text = MINIMAL.replace('activation = "relu"', 'activation = "squared-relu"')
    with pytest.raises(
        hkflow.CaseError, match="units with trained output weights alone read 'balance'"
    ):
        hkflow.check(case('[method]\nkind = "network"\nbalance = 2.0', text))


def test_steps_and_end_take_each_other_s_place_in_overrides(case):
    extra = '[method]\nkind = "network"\ntraining = "gradient-descent"\n'
    resolved, _ = hkflow.check(case(extra), **{"time.steps": 7})
    assert resolved.time.end == pytest.approx(0.07, rel=1e-14)
    resolved, _ = hkflow.check(
        case(extra, MINIMAL.replace("end = 0.5", "steps = 7")), time={"end": 2.0}
    )
    assert resolved.time.end == 2.0


@pytest.mark.parametrize("kind", ["grid", "particles"])
def test_an_accuracy_in_an_override_takes_the_places_of_what_it_chooses(case, kind):
    path = case(f'[method]\nkind = "{kind}"\ntolerance = 1e-5')
    for asked in {"method.accuracy": 0.01}, {"method": {"kind": kind, "accuracy": 0.01}}:
        found = load_case(path, asked).case
        assert (found.method.accuracy, found.method.kind) == (0.01, kind)
        assert found.domain.cells is None and "tolerance" not in found.method.model_fields_set
        for also in {"domain.cells": 42}, {"domain": {"cells": 42}}, {"method.tolerance": 1e-3}:
            for both in asked | also, also | asked:
                with pytest.raises(hkflow.CaseError, match="leave one|give one"):
                    load_case(path, both)
    for none in {"method.accuracy": None}, {"method": {"kind": kind, "accuracy": None}}:
        found = load_case(path, none).case
        assert (found.domain.cells, found.method.tolerance) == (24, 1e-5)


@pytest.mark.parametrize("dim", [3, 10])
def test_the_moment_problem_runs_in_any_dimension_and_reports_its_error(tmp_path, dim):
    path = tmp_path / "moment.toml"
    path.write_text(
        f'[data]\nsource = "moment"\ndirection = {[1.0 + k for k in range(dim + 1)]}\ntarget ='
        ' 0.5\n[objective]\nactivation = "linear"\nloss = "square"\n[domain]\nkind ='
        ' "sphere"\n[flow]\nkind = "hellinger-kantorovich"\n'
        + PARTICLES
        + "particles = 20000\n[time]\nend = 1.0\n"
    )
    run = hkflow.run(path, output=tmp_path / "run")
    assert max(error[-1] for error in run.exact_errors()) < 0.02
    gaussian = hkflow.run(
        path, output=tmp_path / "gaussian", method={"kind": "particles", "points": "gaussian"}
    )
    assert gaussian.exact_errors() is None  # its mass is not one


@pytest.mark.parametrize("file", [False, True])
def test_listed_points_start_particles_grids_and_networks_alike(case, tmp_path, file):
    (tmp_path / "p.csv").write_text("x,y,sign,weight\n1,0,1,1\n0,2,-1,3\n")
    inline = "positions = [[1.0, 0.0], [0.0, 2.0]]\nsigns = [1, -1]\nweights = [1.0, 3.0]"
    start = '[initial]\nkind = "points"\nmass = 2.0\n' + ('file = "p.csv"' if file else inline)
    for method in (PARTICLES, '[method]\nkind = "network"', ""):
        _, problem = hkflow.check(case(method + "\n" + start))
        atoms = problem.atoms()
        order = np.argsort(-atoms.signs)
        assert np.allclose(atoms.weights[order], [0.5, 1.5]) and np.array_equal(
            atoms.signs[order], [1.0, -1.0]
        )
        if method:
            assert np.allclose(atoms.positions[order], [[1, 0], [0, 1]])


@pytest.mark.parametrize(
    "rows, message",
    [
        ("x,y,sign\n1,0,2\n", "line 2: sign is 2, wanted 1 or -1"),
        ("x,y,weight\n1,0,1\n1,0,-1\n", "line 3: weight is -1, wanted a positive number"),
        ("x,sign\n1,1\n", "wanted 2 columns of coordinates (the inputs, bias included), got 1"),
        ("x,y\n1,a\n", "line 2, column 'y': 'a' is not a number"),
        ("x,y\n", "has a header line only"),
        ("x,y\n0,0\n", "wanted nonzero vectors of R^2"),
    ],
)
def test_bad_point_files_are_refused_with_their_line(case, tmp_path, rows, message):
    (tmp_path / "p.csv").write_text(rows)
    with pytest.raises(hkflow.CaseError, match=re.escape(message)):
        hkflow.check(case(PARTICLES + '[initial]\nkind = "points"\nfile = "p.csv"'))


@pytest.mark.parametrize("points", ["quasi-uniform", "random", "mesh", "gaussian"])
@pytest.mark.parametrize(
    "table",
    [
        "",
        '[initial]\nkind = "caps"\ncenters = [[0.0, 1.0]]\nradius = 0.7\nmass = 2.0\nsigns = [-1]',
    ],
)
def test_starts_have_their_mass_on_their_signs(case, points, table):
    if points == "gaussian" and table:
        return
    for kind, key in (("particles", "particles"), ("network", "units")):
        count = "" if points == "mesh" else f"{key} = 400\n"
        _, problem = hkflow.check(
            case(f'[method]\nkind = "{kind}"\n{count}points = "{points}"\n{table}')
        )
        atoms = problem.atoms()
        if points != "gaussian":
            assert atoms.mass == pytest.approx(2.0 if table else 1.0, rel=1e-13)
        assert set(atoms.signs) == ({-1.0} if table else {1.0, -1.0})
        if table:
            assert hkflow.PointMeasure([[0.0, 1.0]]).positions @ atoms.positions.T == pytest.approx(
                1.0, abs=1.0 - np.cos(0.7) + 1e-12
            )


def test_starts_follow_the_seed_and_overrides_of_the_kind_start_afresh(case):
    path = case('[method]\nkind = "grid"\nlimiter = "minmod"\nstepper = "ssprk2"')
    one, two, other = (
        hkflow.check(path, seed=seed, method={"kind": "particles", "points": "random"})[1]
        .atoms()
        .positions
        for seed in (1, 1, 2)
    )
    assert np.array_equal(one, two) and not np.array_equal(one, other)
    resolved, _ = hkflow.check(path, **{"method.particles": 6, "method.kind": "particles"})
    assert resolved.method.particles == 6 and resolved.method.stepper == "auto"


def test_a_network_needs_no_flow_and_fresh_data_no_preparation(case):
    text = MINIMAL.replace('[flow]\nkind = "hellinger-kantorovich"\n', "")
    resolved, problem = hkflow.check(case('[method]\nkind = "network"', text))
    assert (problem.flow.transport, problem.flow.reaction) == (
        1.0,
        2.0,
    ) and resolved.flow.kind is None
    teacher = 'source = "teacher"\nn = 10\ndim = 1\nstandardize = true'
    text = text.replace(
        'source = "inline"\ninputs = [[0.5], [-1.0]]\ntargets = [1.0, -1.0]', teacher
    ).replace("logistic", "square")
    with pytest.raises(hkflow.CaseError, match="fresh batches cannot be standardized"):
        hkflow.check(case('[method]\nkind = "network"\ntraining = "sgd"', text))
    _, problem = hkflow.check(
        case('[method]\nkind = "network"\ntraining = "sgd"', text.replace("standardize = true", ""))
    )
    inputs, targets = problem.draw(np.random.default_rng(0), 5)
    assert inputs.shape == (5, 2) and np.all(inputs[:, 1] == 1.0) and targets.shape == (5,)


def test_high_dimension_runs_from_a_case_and_is_drawn(tmp_path):
    from hkflow.plots.overview import save_overview

    path = tmp_path / "high.toml"
    path.write_text(
        'seed = 1\n[data]\nsource = "cluster-grid"\nn = 40\ndim = 15\n[objective]\nbias ='
        ' true\nloss = "smooth-margin"\n[domain]\nkind = "signed-sphere"\n[flow]\nkind ='
        ' "hellinger-kantorovich"\n'
        + PARTICLES
        + 'particles = 200\npoints = "random"\n[time]\nend = 3.0\nsaves = 3\n'
    )
    run = hkflow.run(path, output=tmp_path / "run")
    assert run.finished and run.dim == 15 and run.atoms_at(-1).positions.shape == (200, 16)
    assert run.records["objective"][-1] < run.records["objective"][0] - 0.05
    assert save_overview(run).stat().st_size > 20_000
