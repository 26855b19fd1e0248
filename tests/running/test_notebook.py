"""Runs as in a notebook: cells that are run again, bars, and what is shown of objects."""

import ast
import os
import pickle
import re
import signal
import sys
from base64 import b64decode
from dataclasses import replace
from functools import partial
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from conftest import ROOT
from typer.testing import CliRunner

import hkflow
from hkflow.app.cli import app
from hkflow.case.load import toml_of
from hkflow.running import again, progress
from hkflow.solving.observer import Observer

TABLES = {
    "title": "a <small> case",
    "data": {"source": "inline", "inputs": [[0.5], [-1.0], [0.2]], "targets": [1.0, -1.0, -1.0]},
    "objective": {"bias": True, "loss": "logistic"},
    "domain": {"kind": "signed-sphere", "cells": 24},
    "flow": {"kind": "hellinger-kantorovich"},
    "time": {"end": 0.4, "saves": 3},
}


def stamps(folder):
    return {path.name: path.stat().st_mtime_ns for path in folder.rglob("*.h5")}


@pytest.fixture
def out(tmp_path):
    return tmp_path / "run"


def test_the_same_case_is_loaded_and_another_one_is_moved_aside(out, capsys):
    first, before = hkflow.run(TABLES, out), stamps(out)
    assert capsys.readouterr().err == ""
    second = hkflow.run(TABLES, out)
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "holds this case and is loaded" in said
    assert first.status in said and stamps(out) == before
    assert np.array_equal(first.predictions, second.predictions)
    third = hkflow.run(TABLES, out, **{"time.end": 0.5})
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "kept beside it as 'run.1'" in said
    assert third.time[-1] == 0.5 and stamps(out.with_name("run.1")) == before
    with pytest.raises(hkflow.RunFolderError, match="is not empty"):
        hkflow.run(TABLES, out, force=False)
    hkflow.run(TABLES, out, force=True, **{"time.end": 0.5})
    assert out.with_name("run.2").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"title": "another"},
        {"data.targets": [1.0, -1.0, 1.0]},
        {"initial.mass": 2.0},
        {"domain.cells": 25},
        {"error.companions": "own"},
        {"method.tolerance": 2e-4},
    ],
)
def test_whatever_differs_makes_another_case(out, change):
    hkflow.run(TABLES, out, **{"time.end": 0.1})
    hkflow.run(TABLES, out, **{"time.end": 0.1} | change)
    assert out.with_name("run.1").exists()


def test_sibling_a_mark_of_the_words_alone_misses_other_data(out, tmp_path, monkeypatch):
    """The words of a case with a data file stay when the file changes."""
    data = {"source": "csv", "file": str(tmp_path / "a.csv"), "label": "y"}
    tables = TABLES | {"data": data | {"positive": ["1"], "negative": ["0"]}}
    (tmp_path / "a.csv").write_text("x,y\n0.5,1\n-1.0,0\n")
    first = hkflow.run(tables, out)
    (tmp_path / "a.csv").write_text("x,y\n0.6,1\n-1.0,0\n")
    other = hkflow.run(tables, out)
    assert (other.inputs != first.inputs).any()
    monkeypatch.setattr(again, "checksum", lambda arrays, text: text)
    tables = tables | {"title": "anew"}
    hkflow.run(tables, out)
    (tmp_path / "a.csv").write_text("x,y\n0.7,1\n-1.0,0\n")
    assert hkflow.run(tables, out).inputs.max() == 0.6


class Stop(Observer):
    """Raises as a second Ctrl-C does."""

    def step(self, method, clock):
        if clock.step == 2:
            raise KeyboardInterrupt


def test_a_run_that_was_broken_off_is_resumed(out, tmp_path, monkeypatch, capsys):
    whole = hkflow.run(TABLES, tmp_path / "whole")
    monkeypatch.setattr("hkflow.running.run.Signals.step", Stop.step)
    with pytest.raises(KeyboardInterrupt):
        hkflow.run(TABLES, out)
    monkeypatch.undo()
    monkeypatch.setattr("hkflow.running.ending.estimated", lambda *_: False)
    assert not hkflow.load(out).finished
    found = hkflow.run(TABLES, out)
    assert "is resumed" in capsys.readouterr().err and found.finished
    assert np.array_equal(found.predictions, whole.predictions)
    assert not out.with_name("run.1").exists()


def test_ctrl_c_in_the_last_step_ends_a_loop_over_runs_that_are_complete(out):
    """It was lost: the loop went on."""

    def presses(state):
        if state.time == 0.4:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt, match="^Completed at t = 0.4") as raised:
            hkflow.run(TABLES, out, observers=[presses], time={"end": 0.4})
    finally:
        signal.signal(signal.SIGINT, before)
    assert raised.value.run.finished and "resume" not in str(raised.value)
    assert hkflow.load(out).finished and hkflow.load(out).time[-1] == 0.4


def test_ctrl_c_ends_a_loop_over_runs_and_the_same_call_goes_on(out, press):
    press(1)
    with pytest.raises(KeyboardInterrupt, match="resume.*goes on from there") as raised:
        for end in (0.4, 0.5):
            hkflow.run(TABLES, out, time={"end": end})
    broken = raised.value.run
    assert broken.status.startswith("Interrupted by SIGINT") and broken.time[-1] < 0.4
    assert not out.with_name("run.1").exists()
    press(2)
    with pytest.raises(KeyboardInterrupt, match="after 2 steps"):
        hkflow.resume(out)
    assert hkflow.run(TABLES, out).finished


def test_the_command_line_says_how_to_go_on_after_ctrl_c(tmp_path, press):
    press(3)
    path = tmp_path / "short.toml"
    path.write_text(toml_of(hkflow.check(TABLES)[0]), encoding="utf-8")
    found = CliRunner().invoke(app, ["run", str(path), "--output", str(tmp_path / "run")])
    assert found.exit_code == 128 + signal.SIGINT
    assert "hkflow resume" in found.stderr and "Interrupted by SIGINT" in found.stdout


def test_a_run_that_was_killed_before_its_first_save_begins_anew(out):
    hkflow.run(TABLES, out)
    for path in (*(out / "snap").iterdir(), out / "status.json", out / "results.h5"):
        path.unlink()
    empty = hkflow.load(out)
    assert "0 saves" in repr(empty) and "<table>" in empty._repr_html_()
    assert hkflow.run(TABLES, out).finished and out.with_name("run.1").exists()


def test_observers_records_and_folders_that_are_no_runs(out):
    hkflow.run(TABLES, out, records={"three": lambda state: 3.0})
    found = hkflow.run(TABLES, out)
    assert "three" not in found.records and out.with_name("run.1").exists()
    steps = []
    hkflow.run(TABLES, out, observers=[hkflow.observe(lambda state: steps.append(1))])
    assert steps and out.with_name("run.2").exists()
    (out.parent / "letters").mkdir()
    (out.parent / "letters" / "a.txt").write_text("keep me")
    with pytest.raises(hkflow.RunFolderError, match="something else than a run"):
        hkflow.run(TABLES, out.parent / "letters")


@pytest.mark.parametrize("kind", ["grid", "particles", "network"])
def test_a_problem_is_known_again_by_its_arrays(out, kind):
    problem = hkflow.check(TABLES)[1]
    if kind != "grid":
        start = problem.atoms()
        start = hkflow.Units.of(start, 1) if kind == "network" else start
        flow = hkflow.Flow(1.0, 2.0)
        problem = hkflow.Problem(None, problem.objective, flow, (1, -1), start)
    hkflow.run(problem, out, end=0.2, kind=kind)
    before = stamps(out)
    assert hkflow.run(problem, out, end=0.2, kind=kind).problem is problem
    assert stamps(out) == before
    other = start = problem.initial
    if kind == "grid":
        other = start * 1.01
    elif kind == "particles":
        other = start.scaled_to(1.01)
    else:
        other = hkflow.Units(start.hidden, 1.01 * start.output)
    changed = hkflow.Problem(
        problem.mesh, problem.objective, problem.flow, problem.signs, initial=other
    )
    hkflow.run(changed, out, end=0.2, kind=kind)
    assert out.with_name("run.1").exists()


class Tanh:
    def __call__(self, s):
        return np.tanh(s), 1.0 / np.cosh(s) ** 2


def scaled_tanh(scale, s):
    return np.tanh(scale * s), scale / np.cosh(scale * s) ** 2


@pytest.mark.parametrize(
    "make", [Tanh, lambda: partial(scaled_tanh, 2.0)], ids=["object", "partial"]
)
def test_functions_without_a_name_are_known_again_in_another_session(out, make):
    """Names had their addresses, which every session has others of."""
    x = np.array([[0.5, 1.0], [-1.0, 1.0]])
    for _ in range(2):
        objective = hkflow.Objective(hkflow.ridge(make()), hkflow.RISKS["square"], x, [1.0, -1.0])
        problem = hkflow.Problem(hkflow.circle_mesh(16), objective, hkflow.Flow(1.0))
        hkflow.run(problem, out, end=0.1)
        assert " at 0x" not in (out / "run.json").read_text(encoding="utf-8")
    assert not out.with_name("run.1").exists()


def test_a_run_to_an_accuracy_is_loaded_when_it_was_judged(out, capsys):
    tables = TABLES | {"domain": {"kind": "signed-sphere"}, "method": {"accuracy": 0.05}}
    assert hkflow.run(tables, out).errors.reached < 0.05
    capsys.readouterr()
    hkflow.run(tables, out)
    assert "is loaded" in capsys.readouterr().err


# --- bars


class Shell:
    kernel, execution_count = object(), 1
    events = SimpleNamespace(register=lambda *_: None)  # of pyplot


@pytest.fixture
def notebook(monkeypatch):
    """Stands in for IPython; what was shown, in order, each a list of the HTML that it had."""
    shown = []

    def display(what, display_id=False):
        shown.append([what._repr_html_()])
        return SimpleNamespace(update=lambda new, own=shown[-1]: own.append(new._repr_html_()))

    python, module = ModuleType("IPython"), ModuleType("IPython.display")
    python.get_ipython, module.display = Shell, display
    python.version_info = (9, 0)  # which matplotlib looks at
    monkeypatch.setitem(sys.modules, "IPython", python)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr(progress, "BAR_SECONDS", 0.0)
    monkeypatch.setattr(progress.NotebookBar, "place", None)
    return shown


def test_a_notebook_sees_a_bar_that_goes(out, notebook, monkeypatch, capsys):
    """One place for all that is waited for in a run: each was a blank line in the end."""
    hkflow.run(TABLES, out, quiet=False)
    (texts,) = notebook
    assert any("preparing" in text for text in texts) and texts[-1] == ""
    bar = [text for text in texts if "energy" in text]
    values = [float(v) for text in bar for v in re.findall(r'value="([\d.e-]+)"', text)]
    assert values[-1] == 0.4 and values == sorted(values) and "ETA" in bar[-1]
    assert capsys.readouterr().err == ""
    hkflow.run(TABLES, out, quiet=False)
    assert len(notebook) == 2  # IPython's clear_output may have taken the first
    monkeypatch.setattr(Shell, "execution_count", 2)
    with progress.doing("waiting", False), progress.doing("beside it", False):
        assert len(notebook) == 4


def test_a_bar_is_plain_text_where_there_is_no_html():
    assert repr(progress._Html("<progress></progress> a &lt; b")) == " a < b"


def test_a_quiet_run_shows_nothing(out, notebook):
    hkflow.run(TABLES, out)
    assert notebook == []


def test_a_notebook_bar_counts_and_prints(notebook):
    with progress.counted("estimating errors") as watch:
        watch(1, 4)
    assert any("estimating errors 1 of 4" in text for text in notebook[0])
    study = progress.StudyProgress(False)
    with study:
        study(2, 0, None)
        study(2, 1, (False, "Failed: a < b"))
    assert any(handle == ["Failed: a &lt; b"] for handle in notebook)


@pytest.mark.parametrize(
    "count, outcome", [(1, (True, "Completed.")), (9, (False, "Interrupted by SIGINT."))]
)
def test_the_bar_of_a_study_goes_without_a_with_block(notebook, count, outcome):
    """`hkflow.study(path, watch=hkflow.StudyProgress(False))` left it there."""
    watch = progress.StudyProgress(False)
    watch(count, 0, None)
    watch(count, 1, outcome)
    assert notebook[0][-1] == ""


# --- what is shown


def test_objects_say_what_they_are_and_how_large(out):
    run = hkflow.run(TABLES, out)
    problem = run.problem
    solution = hkflow.solve(problem, 0.1)
    things = (run, solution, problem, problem.mesh, problem.flow, problem.objective)
    for one in things:
        assert len(repr(one)) < 250 and "\n" not in repr(one) and "array" not in repr(one)
        assert one._repr_html_().startswith("<div>")
    assert "grid of 24 cells on the circle, 3 data, 3 saves" in repr(run)
    assert run.status in repr(run) and run.finished
    assert repr(solution).startswith("<Solution: grid of 24 cells")
    assert repr(problem.mesh) == "<Mesh: circle, 24 cells and 24 faces on S^1, 0.262 wide>"
    assert repr(problem.flow) == "Flow(transport=1.0, reaction=2.0)"
    assert "relu units, logistic risk, 3 data in R^2" in repr(problem)
    html = run._repr_html_()
    assert "a &lt;small&gt; case" in html and "∂ₜν = div(ν ∇J) − 2 ν J" in html
    assert b64decode(re.search(r"base64,([^\"]+)", html)[1])[:4] == b"\x89PNG"
    assert "max_margin" not in vars(solution)  # which takes seconds
    assert "hkflow.page(run)" in html
    hkflow.page(run).write(run.path / "view.html")
    assert re.search(r'href="[^"]*view.html"', run._repr_html_())


def test_flows_are_written_out():
    flows = {
        hkflow.Flow(1.0, 4.0, 0.01): "∂ₜν = div(ν ∇J) − 4 ν J − 0.01 (ν − U)",
        hkflow.Flow(0.0, 9.0, depth=3.0): "∂ₜν = − 9 ν^1.33 J",
        hkflow.Flow(0.0, 1.0, depth=1.0): "∂ₜν = − τ J",
        hkflow.Flow(0.0): "∂ₜν = 0",
        hkflow.Flow(1.0, 4.0, drive="measure"): "∂ₜν = div(ν ∇J) − 4 ν (J − ∫J dν̄)",
    }
    for flow, equation in flows.items():
        assert flow.equation == equation and eval(repr(flow), {"Flow": hkflow.Flow}) == flow


def test_other_objects_show_themselves(rng):
    from hkflow.objectives.activations import FEATURES

    risk = hkflow.PopulationRisk(FEATURES["relu"], np.eye(3), np.ones(3))
    points = hkflow.PointMeasure(rng.normal(size=(5, 3)))
    problem = hkflow.Problem(None, risk, hkflow.Flow(), (1,), points)
    assert "teacher of 3 units in R^3" in repr(problem) and "from 5 points" in repr(problem)
    assert "2 cells without faces, in R^2" in repr(hkflow.atoms_mesh(np.eye(2)))
    empty = hkflow.solve(problem, 0.01)
    assert "particles on S^2, 0 data" in repr(empty) and "<table>" in empty._repr_html_()


def test_results_of_functions_are_told_in_a_line_not_by_their_arrays(out, tmp_path):
    run = hkflow.run(TABLES, out, **{"domain.cells": 96})
    objective = run.problem.objective
    decayed = replace(objective, weight_decay=0.1)
    found = {
        "atoms on S^1, mass": run.atoms_at(-1),
        "2 units in R^1": hkflow.Units([[1.0], [2.0]], [1.0, 1.0]),
        "a density on 4 cells, 1 atom": hkflow.DensityAndAtoms(
            np.ones((1, 4)), hkflow.PointMeasure([[1.0, 0.0]])
        ),
        "≤ γ ≤": hkflow.certificates.max_margin(objective, (1, -1)),
        "no margin is positive": hkflow.certificates.max_margin(objective),
        "of 3 data count": hkflow.certificates.f2_max_margin(objective),
        "≤ F ≤": hkflow.certificates.minimise(decayed, (1, -1)),
        "predictions ± ": hkflow.error_bars(run),
        "order 2.00 (95 %": hkflow.convergence_table([1.0, 0.5, 0.25], [1.0, 0.25, 0.0625]),
        "t = 0 after 0 steps": next(hkflow.steps(run.problem, 0.1)),
        "Comparison of": hkflow.compare(run, run),
    }
    for words, one in found.items():
        assert words in repr(one) and "array" not in repr(one) and len(repr(one)) < 300
        assert "\n" not in repr(one)
        assert one._repr_html_().startswith("<")
    bars = found["predictions ± "]
    assert "objective" in bars and "0" not in bars and list(bars) == list(bars.bars)
    assert "error 2.500e-01, order 2.00" in found["order 2.00 (95 %"]._repr_html_()
    (tmp_path / "case.toml").write_text(toml_of(run.case), encoding="utf-8")
    (tmp_path / "study.toml").write_text('case = "case.toml"\n[sweep]\nseed = [0]\n')
    study = hkflow.study(tmp_path / "study.toml", tmp_path / "study", workers=1)
    assert repr(study).endswith("study: 1 of 1 runs finished>")
    assert "| seed |" in study._repr_markdown_() and len(repr(study.outcomes[0])) < 1000


# --- what goes to other processes, and is kept between sessions


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("source", ["xor", "parity", "cluster-grid", "teacher"])
def test_problems_of_drawn_data_can_be_pickled(source, bias):
    tables = TABLES | {"data": {"source": source, "n": 5}}
    objective = TABLES["objective"] | {"bias": bias, "loss": "square"}
    problem = hkflow.check(tables | {"objective": objective}, domain={"cells": 12})[1]
    drawn = [
        one.draw(np.random.default_rng(1), 4)
        for one in (problem, pickle.loads(pickle.dumps(problem)))
    ]
    assert all(np.array_equal(*pair) for pair in zip(*drawn, strict=True))
    assert drawn[0][0].shape[1] == problem.objective.inputs.shape[1]


def test_energies_and_kernel_machines_can_be_pickled():
    energy = hkflow.Sum(hkflow.Interaction("exp(t)"), hkflow.External("x*y"), axes=2)
    problem = hkflow.Problem(hkflow.circle_mesh(16), energy, hkflow.Flow(1.0))
    solution = hkflow.solve(problem, 0.1)
    copy = pickle.loads(pickle.dumps(solution))
    assert np.array_equal(copy.density, solution.density)
    assert hkflow.solve(copy.problem, 0.1).records["objective"][-1] == solution.objective_at(-1)
    x = np.array([[1.0, 0.5], [-1.0, 0.2]])
    found = hkflow.certificates.f2_max_margin(
        hkflow.Objective(hkflow.FEATURES["relu"], hkflow.RISKS["logistic"], x, [1, -1])
    )
    assert np.array_equal(pickle.loads(pickle.dumps(found))(x), found(x))


# --- a notebook, top to bottom


def cells():
    text = (ROOT / "docs" / "howto" / "notebook.md").read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, flags=re.S | re.M)


def run_cell(text, names):
    """Run a cell, and show its last line if it is an expression; what is shown."""
    tree = ast.parse(text)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    if last is None:
        return ""
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    return value._repr_html_() or value._repr_png_()


def test_a_notebook_runs_top_to_bottom_and_again(tmp_path, monkeypatch, notebook, capsys):
    case = tmp_path / "cases" / "verification" / "teacher-circle.toml"
    case.parent.mkdir(parents=True)
    text = (ROOT / case.relative_to(tmp_path)).read_text(encoding="utf-8")
    case.write_text(re.sub(r"(?m)^cells = .*$", "cells = 64", text), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    shown = [run_cell(text, names) for text in cells()]
    assert len(shown) == 5 and shown[0].count("<img") == 1 and "∂ₜν" in shown[1] + shown[2]
    assert shown[3].startswith(b"\x89PNG") and len(names["records"]) > 5
    said = capsys.readouterr().err
    assert "is loaded" in said and "'circle.1'" in said
    assert run_cell("problem.flow", names).count("div(ν ∇J)") == 1
