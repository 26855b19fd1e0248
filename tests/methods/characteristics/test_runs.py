"""Runs by characteristics from case files: read, compared, drawn, exported and resumed as those of
particles."""

import re
import sys

import numpy as np
import pytest

import hkflow
from hkflow.app.cli import main
from hkflow.plots.kinds import available
from hkflow.store import run_writer

CASE = """
title = "small"
[data]
source = "inline"
inputs = [[0.5, 1.0], [-1.0, 0.3], [0.2, -0.7], [1.0, 1.1]]
targets = [1.0, -1.0, -1.0, 1.0]
[objective]
activation = "relu"
bias = true
loss = "logistic"
[domain]
kind = "signed-sphere"
cells = 42
[flow]
kind = "hellinger-kantorovich"
[method]
kind = "characteristics"
particles = 60
[time]
end = 2.0
saves = 5
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("characteristics") / "small.toml"
    path.write_text(CASE)
    return path


@pytest.fixture(scope="module")
def run(path):
    return hkflow.run(path, output=path.parent / "run")


def test_a_run_is_read_back_whole(run):
    packed = hkflow.load(run.path / "results.h5")
    assert run.finished and run.method == packed.method == "characteristics"
    for save in range(len(run.time)):
        a, b, state = run.atoms_at(save), packed.atoms_at(save), run.state_at(save)
        assert np.array_equal(a.weights, b.weights) and np.array_equal(a.positions, b.positions)
        assert np.array_equal(packed.state_at(save)["held"], state["held"]) and state[
            "positions"
        ].shape == (
            60,
            3,
        )
        h = np.maximum(run.problem.objective.inputs @ a.positions.T, 0.0) @ (a.signs * a.weights)
        assert np.allclose(h, run.predictions[save], atol=1e-13)
    for name in ("particles", "crossings", "captures", "releases", "held"):
        assert np.isfinite(run.records[name]).all()
    assert run.records["crossings"][-1] > 0 and (np.diff(run.records["crossings"]) >= 0).all()


def test_it_compares_with_particles_and_is_drawn_and_exported(
    path, run, tmp_path, monkeypatch, capsys
):
    def command(*words):
        monkeypatch.setattr(sys, "argv", ["hkflow", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code in (0, None)
        return capsys.readouterr().out

    other = hkflow.run(
        path, output=tmp_path / "particles", method={"kind": "particles", "particles": 60}
    )
    compared = hkflow.compare(run, other)
    assert np.abs(run.predictions - other.predictions).max() < 1e-3 and np.allclose(
        compared.time, run.time
    )
    assert "cloud of 60 particles moved along characteristics on S^2" in command(
        "compare", run.path, other.path
    )
    assert available(run) == available(other)
    for kind in ("particles", "density", "records"):
        hkflow.plots.draw(kind, run)
    command("export", run.path, "--csv", "--vtk", "--output", tmp_path / "out")
    assert "held" in next((tmp_path / "out").glob("*-particles.csv")).read_text().split("\n")[
        0
    ].split(",")
    assert "4 data, 60 particles on S^2, 2 sign(s)" in command("check", path)


def test_interrupted_and_resumed_to_the_same_bits(path, run, tmp_path, monkeypatch):
    monkeypatch.setattr(run_writer, "CHECKPOINT_SECONDS", 0.0)

    class Interrupt(Exception):
        pass

    for steps in (3, 9):
        with pytest.MonkeyPatch.context() as patch, pytest.raises(Interrupt):
            honest, seen = run_writer.RunWriter.step, []

            def step(self, method, clock, honest=honest, seen=seen, steps=steps):
                honest(self, method, clock)
                seen.append(clock.step)
                if len(seen) == steps:
                    raise Interrupt

            patch.setattr(run_writer.RunWriter, "step", step)
            hkflow.run(path, output=tmp_path / f"cut{steps}")
        again = hkflow.resume(tmp_path / f"cut{steps}")
        assert np.array_equal(again.predictions, run.predictions)
        for name in run.records:
            assert np.array_equal(again.records[name], run.records[name], equal_nan=True), name


@pytest.mark.parametrize("points", ["quasi-uniform", "random", "mesh", "gaussian"])
def test_starts_are_those_of_particles(path, points):
    free, count = path.with_name("free.toml"), {} if points == "mesh" else {"method.particles": 20}
    free.write_text(CASE.replace("particles = 60", ""))
    mine, theirs = (
        hkflow.check(free, **{"method.kind": kind, "method.points": points} | count)[1].atoms()
        for kind in ("characteristics", "particles")
    )
    assert np.array_equal(mine.positions, theirs.positions) and np.array_equal(
        mine.weights, theirs.weights
    )


@pytest.mark.parametrize(
    "overrides, message",
    [
        (
            {"method.particles": 3},
            "method: 3 evenly spread points cannot be shared by 2 signs; give an even number",
        ),
        ({"method.stepper": "dopri5"}, "method.stepper: unknown key"),
        ({"method.scale": 2.0}, "points = 'gaussian' alone reads 'scale'; leave it out"),
        (
            {"method.points": "mesh"},
            "method.particles: the mesh has its own number of cells, so leave it out",
        ),
    ],
)
def test_faults_are_named(path, overrides, message):
    with pytest.raises(hkflow.CaseError, match=re.escape(message)):
        hkflow.check(path, **overrides)


@pytest.mark.parametrize(
    "overrides, message",
    [
        (
            {"flow": {"kind": "perturbed", "noise": 0.1}},
            "method: The method 'characteristics' has no noise, got noise = 0.1",
        ),
        (
            {"objective.activation": "squared-relu"},
            "method: Characteristics are known for features of data that are linear",
        ),
    ],
)
def test_what_has_no_closed_form_is_refused_before_anything_is_written(
    path, tmp_path, overrides, message
):
    with pytest.raises(hkflow.CaseError, match=re.escape(message)):
        hkflow.run(path, output=tmp_path / "run", **overrides)
    assert not (tmp_path / "run").exists()


def test_where_nothing_moves_there_is_nothing_to_get_wrong():
    """Targets 0 of a start that predicts 0: the rounding of predictions is no error of steps."""
    inputs = np.random.default_rng(0).normal(size=(10, 2))
    data = {"source": "inline", "inputs": inputs.tolist(), "targets": [0.0] * 10}
    tables = {
        "data": data,
        "objective": {"activation": "relu", "loss": "square"},
        "domain": {"kind": "signed-sphere"},
        "flow": {"kind": "hellinger-kantorovich"},
        "method": {"kind": "characteristics", "particles": 40},
        "time": {"end": 3.0},
    }
    case, problem = hkflow.check(tables)
    run = hkflow.solve(problem, 3.0, kind="characteristics")
    assert run.finished and np.abs(run.predictions).max() < 1e-14
