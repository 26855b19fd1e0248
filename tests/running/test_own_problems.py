"""Runs of tables, of Problems made in Python, and of activations of one's own: their folders hold
what is needed to read, draw, compare and resume them."""

import json
import os
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from typer.testing import CliRunner

import hkflow
from hkflow import plots
from hkflow.app.cli import app
from hkflow.app.report import write_report
from hkflow.case.functions import StoredFunction, imported, source_hash
from hkflow.case.load import case_of_tables, load_case
from hkflow.studies.members import key_of

MODULE = """
import numpy as np

STEEP = 1.0

def soft(s):
    t = np.tanh(STEEP * s)
    return _value(t), STEEP * (1.0 - t * t)

def _value(t):
    return t

def huber(h, y, q, out):
    out[:] = q * np.clip(h - y, -1.0, 1.0)
    return np.sum(q * np.where(abs(h - y) < 1, 0.5 * (h - y) ** 2, abs(h - y) - 0.5))

def brier(h, y, q, out):
    differences = h.reshape(len(y), -1) - np.eye(3)[y.astype(int)]
    out[:] = (q[:, None] * differences).ravel()
    return 0.5 * q @ np.sum(differences**2, axis=1)

def matrix(theta, x):
    return soft(x @ theta.T)[0]

def pullback(theta, x, residuals):
    return (residuals * soft(theta @ x.T)[1]) @ x

def draw(rng, n):
    x = rng.standard_normal((n, 2))
    return x, np.sign(x[:, 0])

def wrong(s):
    return np.tanh(s), 2.0 / np.cosh(s) ** 2

def one(s):
    return np.tanh(s)

def fails(s):
    raise KeyError("no")

number = 3
"""
TABLES = {
    "title": "a case of tables",
    "data": {"source": "inline", "inputs": [[0.5], [-1.0], [0.2]], "targets": [1.0, -1.0, -1.0]},
    "objective": {"bias": True, "loss": "logistic"},
    "domain": {"kind": "signed-sphere", "cells": 24},
    "flow": {"kind": "hellinger-kantorovich"},
    "time": {"end": 0.4, "saves": 3},
}
INPUTS, TARGETS = [[0.5, 1.0], [-1.0, 1.0], [0.2, 1.0]], [1.0, -1.0, -1.0]


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A module of the user's, that can be imported by a name of its own."""
    name = f"mine_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    return __import__(name)


def a_problem(feature=None, risk=None, kind="grid", mesh=None, **more):
    feature, risk = feature or hkflow.FEATURES["relu"], risk or hkflow.RISKS["logistic"]
    objective = hkflow.Objective(feature, risk, INPUTS, TARGETS)
    problem = hkflow.Problem(
        mesh or hkflow.circle_mesh(24), objective, hkflow.Flow(1.0, 2.0), (1, -1), **more
    )
    if kind == "grid":
        return problem
    start = problem.atoms()
    start = hkflow.Units.of(start, 1) if kind == "network" else start
    return hkflow.Problem(None, objective, problem.flow, (1, -1), start, **more)


def alike(a, b):
    """Whether two results have the same bits."""
    assert np.array_equal(a.time, b.time) and set(a.records) == set(b.records)
    assert np.array_equal(a.scaled_predictions, b.scaled_predictions)
    for name, values in a.records.items():
        assert np.array_equal(values, b.records[name], equal_nan=True), name


# --- tables


def test_tables_are_run_as_the_file_that_they_are(tmp_path):
    run = hkflow.run(
        TABLES | {"data": TABLES["data"] | {"inputs": np.array([[0.5], [-1.0], [0.2]])}},
        output=tmp_path / "tables",
        **{"time.saves": (0.1, np.float64(0.2))},
    )
    (tmp_path / "case.toml").write_text(run.header["case"])
    alike(run, hkflow.run(tmp_path / "case.toml", output=tmp_path / "file"))
    assert run.title == "a case of tables" and run.time.tolist() == [0.1, 0.2, 0.4]
    assert hkflow.check(TABLES)[0].domain.cells == 24
    with pytest.raises(hkflow.CaseError, match="the case: flow.kin: unknown key. Did you mean 'ki"):
        hkflow.run(TABLES | {"flow": {"kin": "wasserstein"}}, output=tmp_path / "none")
    assert not (tmp_path / "none").exists()


# --- problems


@pytest.mark.parametrize(
    "kind, options",
    [
        ("grid", {"limiter": "minmod"}),
        ("grid", {"max_step": np.inf, "tolerance": 1e-5}),
        ("particles", {"tolerance": 1e-6}),
        ("characteristics", {}),
        ("network", {"training": "sgd", "batch": 5, "seed": 3}),
    ],
)
def test_a_problem_is_run_as_it_is_solved(tmp_path, kind, options):
    problem = a_problem(kind=kind)
    solution = hkflow.solve(problem, 0.4, [0.1, 0.3], kind=kind, **options)
    run = hkflow.run(
        problem, tmp_path / "run", end=0.4, saves=[0.1, 0.3], kind=kind, title="mine", **options
    )
    alike(solution, run)
    again = hkflow.load(tmp_path / "run")
    alike(solution, again)
    alike(solution, hkflow.load(tmp_path / "run" / "results.h5"))
    assert again.title == "mine" and again.method == kind and again.bias
    assert again.problem.objective.feature is hkflow.FEATURES["relu"]
    assert again.predict([[0.3]]) == pytest.approx(solution.predict([[0.3]]), rel=1e-13)
    assert np.array_equal(again.inputs, solution.inputs)
    assert plots.available(again) == plots.available(solution)
    assert not hkflow.compare(solution, again).notes
    assert "own" not in again.header


def test_what_a_run_folder_cannot_say_is_refused_before_it_is_made(tmp_path):
    problem, folder = a_problem(), tmp_path / "run"
    with pytest.raises(hkflow.CaseError, match="run up to a time: run.problem, end=2.0"):
        hkflow.run(problem, folder)
    with pytest.raises(ValueError, match="Unknown option 'limitr'. Did you mean 'limiter'"):
        hkflow.run(problem, folder, end=1.0, limitr="mc")
    with pytest.raises(hkflow.CaseError, match="method.limiter: unknown value 'mcc'"):
        hkflow.run(problem, folder, end=1.0, limiter="mcc")
    with pytest.raises(hkflow.CaseError, match="listed times must increase"):
        hkflow.run(problem, folder, end=1.0, saves=[0.3, 0.2])
    strange = hkflow.Mesh("mine", **hkflow.circle_mesh(24).arrays())
    with pytest.raises(hkflow.CaseError, match="cannot hold the mesh: no mesh is called 'mine'"):
        hkflow.run(a_problem(mesh=strange), folder, end=1.0)
    assert not folder.exists()


def test_exact_solutions_atoms_and_populations_are_read_back(tmp_path):
    exact = hkflow.MomentFlow(np.array([1.0, 0.5]), 0.8, hkflow.Flow(1.0, 1.0))
    moment = hkflow.Problem(hkflow.circle_mesh(64), exact.objective(), exact.flow, exact=exact)
    hkflow.run(moment, tmp_path / "moment", end=0.3)
    found = hkflow.load(tmp_path / "moment")
    assert 0.0 < found.exact_errors()[0][-1] < 1e-2 and not found.bias
    atoms = hkflow.Problem(
        hkflow.atoms_mesh(np.eye(3)),
        hkflow.Objective(hkflow.FEATURES["linear"], hkflow.RISKS["square"], np.eye(3), [1, 2, 3]),
        hkflow.Flow(0.0, 4.0),
        (1, -1),
    )
    hkflow.run(atoms, tmp_path / "atoms", end=0.3)
    assert hkflow.load(tmp_path / "atoms").domain.fixed
    risk = hkflow.PopulationRisk(hkflow.FEATURES["relu"], [[1.0, 0.0], [0.5, 2.0]], [1.0, -1.0])
    population = hkflow.Problem(hkflow.circle_mesh(24), risk, hkflow.Flow(1.0, 2.0), (1, -1))
    run = hkflow.run(population, tmp_path / "population", end=0.3)
    found = hkflow.load(tmp_path / "population")
    assert found.predict([[0.3, 0.2]]) == pytest.approx(run.predict([[0.3, 0.2]]), rel=1e-12)
    assert np.array_equal(found.teacher_network[0], risk.teacher)
    for name in ("moment", "atoms", "population"):
        assert plots.save_overview(hkflow.load(tmp_path / name)).exists()


def test_a_run_of_own_functions_is_drawn_reported_and_resumed(mine, tmp_path):
    feature = hkflow.Feature("soft", mine.matrix, pullback=mine.pullback)
    risk = hkflow.Risk("huber", mine.huber, classifies=False)
    problem = a_problem(feature, risk)
    stop = hkflow.observe(lambda state: "Enough", at=[0.2])
    arguments = {"end": 0.4, "saves": 5, "max_step": 0.02}
    whole = hkflow.run(problem, tmp_path / "whole", **arguments)
    hkflow.run(problem, tmp_path / "broken", observers=[stop], **arguments)
    resumed = hkflow.resume(tmp_path / "broken")
    alike(whole, resumed)
    alike(whole, hkflow.solve(problem, 0.4, 5, max_step=0.02))
    own = json.loads((tmp_path / "whole" / "run.json").read_text())["own"]
    assert own["feature"]["matrix"] == {
        "function": f"{mine.__name__}:matrix",
        "source": source_hash(mine.matrix),
    }
    assert own["risk"]["name"] == "huber" and not own["risk"]["classifies"]
    found = hkflow.load(tmp_path / "whole" / "results.h5")
    assert found.predict([[0.3]]) == pytest.approx(whole.predict([[0.3]]), rel=1e-14)
    for name in plots.available(found):
        FigureCanvasAgg(plots.draw(name, found)).draw()
    assert write_report([found], tmp_path / "page.html").exists()
    hkflow.export(tmp_path / "whole", "csv", "vtk")


def test_a_risk_of_several_outputs_is_read_back(mine, tmp_path):
    """Its run ended in a traceback, and spoke of a smooth margin, that of softmax."""
    risk = hkflow.Risk("brier", mine.brier, classifies=False, coupled=True)
    feature, labels = hkflow.vector_feature("relu", 3), [0.0, 1.0, 2.0]
    objective = hkflow.Objective(feature, risk, INPUTS, labels)
    start = hkflow.PointMeasure(hkflow.quasi_uniform(20, 4))
    problem = hkflow.Problem(None, objective, hkflow.Flow(1.0, 4.0), initial=start)
    stop = hkflow.observe(lambda state: "Enough", at=[0.2])
    arguments = {"end": 0.4, "saves": 5, "max_step": 0.02, "kind": "particles"}
    whole = hkflow.run(problem, tmp_path / "whole", **arguments)
    hkflow.run(problem, tmp_path / "broken", observers=[stop], **arguments)
    alike(whole, hkflow.resume(tmp_path / "broken"))
    alike(whole, hkflow.solve(problem, 0.4, 5, kind="particles", max_step=0.02))
    assert hkflow.load(tmp_path / "whole").predict([[0.3]]).shape == (1, 3)
    assert np.isnan(whole.records["smooth_margin"]).all()
    with pytest.raises(hkflow.CaseError, match="'brier' has no smooth margin"):
        hkflow.solve(problem, 0.4, kind="particles", until_margin=1.0)


def test_fresh_data_of_a_users_function(mine, tmp_path):
    problem = a_problem(kind="network", draw=mine.draw)
    options = {"kind": "network", "training": "sgd", "batch": 3, "seed": 5}
    run = hkflow.run(problem, tmp_path / "run", end=0.2, **options)
    alike(run, hkflow.solve(problem, 0.2, **options))
    assert run.header["own"]["draw"]["function"] == f"{mine.__name__}:draw"
    x, y = hkflow.load(tmp_path / "run").problem.draw(np.random.default_rng(0), 4)
    assert x.shape == (4, 2) and y.shape == (4,)


def test_a_function_that_is_gone_or_another_is_told_where_it_is_needed(mine, tmp_path):
    problem = a_problem(hkflow.ridge(mine.soft))
    stop = hkflow.observe(lambda state: "Enough", at=[0.2])
    hkflow.run(problem, tmp_path / "run", end=0.4, saves=5, observers=[stop])
    source = tmp_path / f"{mine.__name__}.py"

    def faults(why):
        run = hkflow.load(tmp_path / "run")
        assert run.status and run.dim == 1 and len(run.atoms_at(-1)) and run.density.size
        for name in ("density", "records", "predictions"):
            FigureCanvasAgg(plots.draw(name, run)).draw()
        hkflow.export(run, "csv")
        for needed in (lambda: run.predict([[0.1]]), lambda: hkflow.resume(tmp_path / "run")):
            with pytest.raises(hkflow.CaseError, match=why):
                needed()

    for changed in (
        MODULE.replace("return _value(t), STEEP", "return _value(t), 1.0 * STEEP"),
        MODULE.replace("    return t\n", "    return 1.0 * t\n"),  # of a function that it calls
        MODULE.replace("STEEP = 1.0", "STEEP = 2.0"),
    ):
        assert changed != MODULE
        source.write_text(changed)
        del sys.modules[mine.__name__]
        faults(f"run: the source of '{mine.__name__}:soft' is not what it was")
    source.unlink()
    del sys.modules[mine.__name__]
    faults(f"'{mine.__name__}:soft': the module '{mine.__name__}' cannot be imported")
    source.write_text(MODULE + "\n# words\n\nother = 5\n")
    assert hkflow.resume(tmp_path / "run").finished


def test_a_function_without_a_name_is_good_for_its_own_session(tmp_path):
    feature = hkflow.Feature("soft", lambda theta, x: np.tanh(x @ theta.T))
    run = hkflow.run(a_problem(feature), tmp_path / "run", end=0.2)
    assert plots.save_overview(run).exists() and run.predict([[0.1]]).shape == (1,)
    found = hkflow.load(tmp_path / "run")
    assert found.records["objective"][-1] == run.records["objective"][-1]
    with pytest.raises(hkflow.CaseError, match="with a function at the top of a module"):
        found.predict([[0.1]])
    with pytest.raises(hkflow.CaseError, match="run: '.*lambda.*' cannot be imported"):
        hkflow.resume(tmp_path / "run")


def test_loading_imports_nothing(mine, tmp_path):
    hkflow.run(a_problem(hkflow.ridge(mine.soft)), tmp_path / "run", end=0.2)
    (tmp_path / f"{mine.__name__}.py").write_text("raise SystemExit('imported')")
    code = (
        "import sys, hkflow\nrun = hkflow.load(sys.argv[1])\nprint(run.atoms_at(-1).mass)\n"
        "try:\n    run.predict([[0.1]])\nexcept hkflow.CaseError as error:\n    print(error)"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "run")]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    mass, sentence = done.stdout.splitlines()
    assert float(mass) > 0.0 and "cannot be imported (SystemExit: imported)" in sentence


# --- activations of case files


def write_case(folder, activation, **changes):
    tables = TABLES | {"objective": TABLES["objective"] | {"activation": activation}} | changes
    (folder / "case.toml").write_text(case_of_tables(tables).text)
    (folder / "units.py").write_text(MODULE)
    return folder / "case.toml"


def test_byte_code_of_another_content_is_not_taken(tmp_path, monkeypatch):
    """Of the same length and time, which Python takes for the same; so does the sibling."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "bytes"))
    path = tmp_path / "twice.py"

    def written(number):
        path.write_text(f"def value():\n    return {number}\n")
        os.utime(path, (1e9, 1e9))

    found = []
    for number in (1, 2):
        written(number)
        spec = spec_from_file_location("twice", path)
        spec.loader.exec_module(module := module_from_spec(spec))
        found.append((imported("twice:value", tmp_path)(), module.value()))
    assert found == [(1, 1), (2, 1)]


@pytest.mark.parametrize("kind", ["grid", "particles"])
def test_a_case_names_an_activation_beside_it(tmp_path, kind):
    folder = tmp_path / "cases"
    folder.mkdir()
    method = {"kind": kind} | ({"points": "mesh"} if kind == "particles" else {})
    path = write_case(folder, "units:soft", method=method)
    run = hkflow.run(path, output=tmp_path / "run")
    feature = hkflow.Feature(
        "tanh",
        lambda theta, x: np.tanh(x @ theta.T),
        pullback=lambda theta, x, r: (r / np.cosh(theta @ x.T) ** 2) @ x,
    )
    flow = hkflow.Flow(1.0, 4.0)
    objective = hkflow.Objective(feature, hkflow.RISKS["logistic"], INPUTS, TARGETS)
    problem = hkflow.Problem(hkflow.circle_mesh(24), objective, flow, (1, -1))
    if kind == "particles":
        problem = hkflow.Problem(None, objective, flow, (1, -1), problem.atoms())
    solution = hkflow.solve(problem, 0.4, 3, kind=kind)
    assert run.predictions == pytest.approx(solution.predictions, rel=1e-6)
    own = run.header["own"]["feature"]
    assert own["ridge"]["function"] == "units:soft" and len(own["ridge"]["source"]) == 64
    again = hkflow.load(tmp_path / "run")
    assert again.predict([[0.1]]) == pytest.approx(solution.predict([[0.1]]), rel=1e-6)
    done = CliRunner().invoke(app, ["plot", str(tmp_path / "run"), "overview"])
    assert done.exit_code == 0, done.output
    (folder / "units.py").write_text(MODULE.replace("STEEP = 1.0", "STEEP = 2.0"))
    with pytest.raises(hkflow.CaseError, match="the source of 'units:soft' is not what it was"):
        hkflow.load(tmp_path / "run").predict([[0.1]])
    assert (
        np.abs(
            hkflow.run(path, output=tmp_path / "steep").predictions[-1] - run.predictions[-1]
        ).max()
        > 1e-3
    )


LEAKY = """
import hkflow
def slopes(s):
    return np.where(s > 0.0, 1.0, 0.1)
def bent(s):
    return slopes(s) * s, slopes(s)
leaky = hkflow.ridge(bent, degree=1)
def square(s):
    return s * s, 2.0 * s
squared = hkflow.ridge(square, degree=2)
"""


@pytest.mark.parametrize(
    "source, activation, made_of",
    [
        ("inline", "soft", "soft"),
        ("teacher", "soft", "soft"),
        ("inline", "leaky", "leaky.ridge"),
        ("inline", "squared", "squared.ridge"),
    ],
)
def test_a_run_folder_shows_what_it_holds_where_the_activation_is_not(
    source, activation, made_of, tmp_path
):
    """A colleague who has the folder alone was refused even the records."""
    folder = tmp_path / "cases"
    folder.mkdir()
    teacher = {"source": "teacher", "n": 6, "dim": 1, "classify": True}
    path = write_case(
        folder, f"units:{activation}", **({"data": teacher} if source == "teacher" else {})
    )
    (folder / "units.py").write_text(MODULE + LEAKY)
    hkflow.run(path, output=tmp_path / "run")
    (folder / "units.py").unlink()
    run = hkflow.load(tmp_path / "run")
    for name in ("density", "records", "predictions"):
        FigureCanvasAgg(plots.draw(name, run)).draw()
    assert len(hkflow.export(run, "csv", "vtk")) == 4
    done = CliRunner().invoke(app, ["info", str(tmp_path / "run")])
    assert done.exit_code == 0 and "objective:" in done.output
    for command in ("plot", "report", "view"):  # the maps were all that they left out, and stopped
        done = CliRunner().invoke(app, [command, str(tmp_path / "run")])
        assert done.exit_code == 0, done.output
        said = f"Without maps of predictions: {tmp_path / 'run'}: 'units:{made_of}': the module"
        assert done.output.count(said) == 1
    with pytest.raises(hkflow.CaseError, match="this run has lost its activation"):
        plots.draw("decision", run)
    if activation == "leaky":  # two slopes are all of it, and the folder knows them
        assert run.predict(run.inputs) == pytest.approx(run.predictions[-1], rel=1e-12)
    else:
        with pytest.raises(hkflow.CaseError, match=f"'units:{made_of}': the module 'units' cannot"):
            run.predict(run.inputs)
    done = CliRunner().invoke(app, ["errors", str(tmp_path / "run")])
    assert "the module 'units' cannot be imported" in str(done.exception)


def test_a_case_names_a_feature(tmp_path):
    path = write_case(tmp_path, "units:soft")
    plain = hkflow.run(path, output=tmp_path / "plain")
    source = "import hkflow\nwhole = hkflow.Feature('whole', matrix, pullback=pullback)\n"
    source += "part = hkflow.ridge(soft, degree=None)\nhomogeneous = hkflow.ridge(soft, degree=1)\n"
    source += "known = hkflow.FEATURES['relu']\n"
    source += "def hat(s):\n    return np.maximum(0.5 - np.abs(s), 0.0), "
    source += "-np.sign(s) * (np.abs(s) < 0.5)\n"
    source += "kinked = hkflow.ridge(hat, kinks=[-0.5, 0, 0.5])\n"
    source += "curved = hkflow.ridge(soft, kinks=[0.0])\n"
    for name in ("whole", "part"):
        path = write_case(tmp_path, f"units:{name}")
        (tmp_path / "units.py").write_text(MODULE + source)
        run = hkflow.run(path, output=tmp_path / name)
        assert run.predictions == pytest.approx(plain.predictions, rel=1e-12)
        again = hkflow.load(tmp_path / name)
        assert again.predict([[0.1]]) == pytest.approx(plain.predict([[0.1]]), rel=1e-12)
    path = write_case(tmp_path, "units:kinked")
    (tmp_path / "units.py").write_text(MODULE + source)
    hkflow.run(path, output=tmp_path / "kinked")
    assert hkflow.load(tmp_path / "kinked").problem.objective.feature.kinks == (-0.5, 0.0, 0.5)
    for name, why in (
        ("homogeneous", "'units:homogeneous' is not homogeneous of degree 1"),
        ("known", "'units:known' is Feature; wanted a function"),
        ("curved", "'units:curved' is not continuous and linear between its kinks 0"),
    ):
        path = write_case(tmp_path, f"units:{name}")
        (tmp_path / "units.py").write_text(MODULE + source)
        with pytest.raises(hkflow.CaseError, match=why):
            hkflow.check(path)


def test_a_function_of_another_notebook_is_said_to_be_one():
    with pytest.raises(hkflow.CaseError, match="in a notebook or a script: define it again"):
        StoredFunction(function="__main__:psi_of_yesterday", source="0").load("runs/own")


@pytest.mark.parametrize(
    "activation, why",
    [
        ("unit:soft", r"the module 'unit' cannot be imported \(ModuleNotFoundError"),
        ("units:sof", "there is no 'sof' in the module 'units'"),
        ("units:number", "'units:number' is int; wanted a function"),
        ("units:wrong", "'units:wrong' has another gradient than its values: .* where differences"),
        ("units:one", "'units:one' does not fit: .* Wanted a function s -> "),
        ("units:fails", "'units:fails' does not fit: KeyError"),
        ("units:", "wanted module:function"),
        ("units", "objective.activation: unknown value 'units'. Choose from: .*, module:function"),
    ],
)
def test_what_is_no_activation_is_refused_with_a_sentence(tmp_path, activation, why):
    path = tmp_path / "case.toml"
    (tmp_path / "units.py").write_text(MODULE)
    text = write_case(tmp_path, "units:soft").read_text().replace("units:soft", activation)
    path.write_text(text)
    with pytest.raises(hkflow.CaseError, match=why) as caught:
        hkflow.check(path)
    assert str(path) in str(caught.value)


def test_modules_of_one_name_in_two_folders_are_two(tmp_path):
    for name, steep in (("a", "1.0"), ("b", "2.0")):
        (tmp_path / name).mkdir()
        write_case(tmp_path / name, "units:soft")
        (tmp_path / name / "units.py").write_text(MODULE.replace("STEEP = 1.0", f"STEEP = {steep}"))
    found = [hkflow.check(tmp_path / name / "case.toml")[1] for name in ("a", "b")]
    values = [p.objective.feature.matrix(np.eye(2), np.eye(2))[0, 0] for p in found]
    assert values == pytest.approx([np.tanh(1.0), np.tanh(2.0)])


def test_a_study_tells_runs_of_another_source_apart(tmp_path):
    path = write_case(tmp_path, "units:soft")
    key = key_of(load_case(path))
    (tmp_path / "units.py").write_text(MODULE + "\n# words\n")
    assert key_of(load_case(path)) == key
    (tmp_path / "units.py").write_text(MODULE.replace("STEEP = 1.0", "STEEP = 2.0"))
    assert key_of(load_case(path)) != key


def test_a_damaged_header_is_no_run(tmp_path):
    run = hkflow.run(a_problem(), tmp_path / "run", end=0.1)
    path = run.path / "run.json"
    header = json.loads(path.read_text())
    for own in (
        {"feature": {"name": 3}},
        {"feature": 5},
        [],
        {"draw": {"function": "a:b", "x": 1}},
    ):
        path.write_text(json.dumps(header | {"own": own}))
        with pytest.raises(hkflow.RunFolderError, match="run.json: damaged"):
            hkflow.load(run.path)
    path.write_text(json.dumps(header | {"resolved_case": header["resolved_case"] + "\nx = 1"}))
    with pytest.raises(hkflow.RunFolderError, match="run.json: damaged"):
        hkflow.load(run.path)


def test_a_stored_function_is_known_by_its_source_alone(mine):
    stored = StoredFunction.of(mine.soft)
    assert stored.load("here") is mine.soft
    other = StoredFunction(function=stored.function, source="0" * 64)
    with pytest.raises(hkflow.CaseError, match="^here: the source of"):
        other.load("here")
    assert source_hash(np.tanh) is None
