"""A mass that decays away: F stays readable, and no budget takes the rounding of numbers next to
zero for a fault."""

import numpy as np
import pytest
from commands import hk

import hkflow
from hkflow.analysis.summary import summary

METHODS = ("grid", "particles", "network")
CASE = """
[data]
source = "inline"
inputs = [[-1.0], [0.3], [1.2]]
targets = [1.0, -1.0, 1.0]
[objective]
activation = "relu"
loss = "square"
bias = true
weight_decay = 1e3
[domain]
kind = "signed-sphere"
cells = 32
[flow]
kind = "hellinger-kantorovich"
[time]
end = 1.0
saves = 3
"""


def decaying(kind, loss="square", decay=1e3, end=1.0, drive=None):
    """A run in which weight decay outweighs the data: |ν| falls like e^(−2·decay·t)."""
    x = np.random.default_rng(0).normal(size=20)
    targets = np.where(x > 0.0, 1.0, -1.0)
    objective = hkflow.Objective(
        hkflow.FEATURES["relu"],
        hkflow.RISKS[loss],
        np.column_stack([x, np.ones(20)]),
        targets,
        weight_decay=decay,
    )
    points = hkflow.quasi_uniform(16, 1)
    atoms = hkflow.PointMeasure(np.tile(points, (2, 1)), np.repeat([1, -1], 16))
    start = {"initial": atoms} if kind != "grid" else {}
    mesh = hkflow.circle_mesh(32) if kind == "grid" else None
    problem = hkflow.Problem(
        mesh, objective, hkflow.Flow(1.0, 2.0, drive=drive), signs=(1, -1), **start
    )
    return hkflow.solve(problem, end, kind=kind, tolerance=1e-4 if kind == "grid" else 1e-6)


@pytest.mark.parametrize("loss", ["square", "logistic", "smooth-margin", "smooth-logistic-margin"])
@pytest.mark.parametrize("kind", METHODS)
def test_a_vanishing_mass_leaves_the_risk_of_zero(kind, loss):
    """e^−2000 is no number: the run goes on without the mass, and F is R(0)."""
    run, of_zero = decaying(kind, loss), hkflow.RISKS[loss]
    n = len(run.problem.objective.targets)
    risk = of_zero.evaluate(
        np.zeros(n), run.problem.objective.targets, np.full(n, 1.0 / n), np.zeros(n)
    )
    assert run.finished, run.status
    assert not run.records["log_scale"].any()
    assert run.records["objective"][-1] == pytest.approx(risk, rel=1e-12, abs=1e-200)
    assert run.records["mass"][-1] < 1e-300
    assert np.abs(run.records["mass_residual"]).max() < 1e-4
    if kind == "particles":  # whose state is the logarithm of the mass
        assert run.records["log_mass"][-1] == pytest.approx(-2000.0, rel=2e-3)


@pytest.mark.parametrize("kind", METHODS)
def test_a_vanished_mass_has_error_bars(kind):
    """In plain units, whose numbers are those of F; relative to the mass they would be infinite."""
    run = decaying(kind)
    bars = hkflow.error_bars(run)
    assert not bars.normalised and {"objective", "predictions", "moment"} <= bars.bars.keys()
    assert bars["objective"][-1] <= 1e-12 and bars["moment"][-1] == 0.0


@pytest.mark.parametrize("kind", METHODS[:2])
def test_a_small_mass_is_right_in_the_units_of_one(kind):
    """Long before anything underflows: F − R(0) = λ|ν| to first order, and |ν| = e^(−2λt) as λ
    outweighs the data."""
    run = decaying(kind, decay=100.0, end=0.5)
    assert run.records["objective"].max() <= run.records["objective"][0]
    assert run.records["log_mass"][-1] == pytest.approx(-100.0, rel=1e-2)
    assert run.records["mass"][-1] == pytest.approx(np.exp(run.records["log_mass"][-1]), rel=1e-12)


@pytest.mark.parametrize("kind", METHODS[:2])
def test_a_mass_set_apart_returns_when_it_vanishes(kind):
    """drive = "measure" is the same flow in other units; down to 2^−64 they are those of the
    mass."""
    apart, plain = (decaying(kind, end=0.5, drive=drive) for drive in ("measure", None))
    assert apart.finished, apart.status
    scales = apart.records["log_scale"]
    assert -64.0 * np.log(2.0) <= scales.min() < -20.0 and scales[-1] == 0.0
    assert apart.records["objective"][-1] == pytest.approx(
        plain.records["objective"][-1], rel=1e-12
    )
    early = plain.records["log_mass"] > -30.0
    at = np.interp(plain.records["time"][early], apart.records["time"], apart.records["log_mass"])
    assert at == pytest.approx(plain.records["log_mass"][early], abs=0.05)


def test_atoms_without_mass_are_drawn():
    """On S³, where no map shows them; F over their mass is infinite."""
    objective = hkflow.Objective(
        hkflow.FEATURES["relu"], hkflow.RISKS["square"], np.eye(4), np.ones(4), weight_decay=1e3
    )
    atoms = hkflow.PointMeasure(hkflow.quasi_uniform(16, 3), np.resize([1.0, -1.0], 16))
    problem = hkflow.Problem(None, objective, hkflow.Flow(1.0, 2.0), (1, -1), atoms)
    run = hkflow.solve(problem, 1.0, kind="particles", tolerance=0.1)
    assert run.finished and run.mass[-1] == 0.0
    hkflow.plots.draw("density", run)
    assert run.objective_at(-1, normalised=True) == np.inf


@pytest.mark.parametrize("kind", ["grid", "network"])
def test_a_folder_of_a_vanished_mass_is_drawn_and_summarised(kind, tmp_path):
    (tmp_path / "decay.toml").write_text(CASE)
    out, err = hk(
        "run", tmp_path / "decay.toml", "--output", tmp_path / "run", "--set", f"method.kind={kind}"
    )
    assert out.startswith("Completed at t = 1") and err == ""
    residual = float(out.split("mass residual:")[1].split()[0])
    assert abs(residual) < 1e-4
    assert (tmp_path / "run" / "overview.png").stat().st_size > 15_000  # not empty axes


@pytest.mark.parametrize(
    "kind, name",
    [
        (kind, name)
        for kind in ("grid", "particles")
        for name in ("relu", "linear", "squared-relu", "joint-relu")
    ]
    + [("characteristics", "relu"), ("characteristics", "linear")],
)
def test_the_size_of_inputs_and_targets_is_a_unit(kind, name):
    """Inputs and targets 2⁻⁴⁰ times as large: the same steps, 2⁸⁰ times as long, or 2¹⁶⁰ times.
    Rounding was taken to be that of features of size 1, which hid all errors of steps."""
    feature = hkflow.FEATURES[name]
    rng, found = np.random.default_rng(3), []
    x, y = rng.standard_normal((9, 2)), rng.standard_normal(9)
    signs = (1,) if feature.joint else (1, -1)
    for power in (0, -40):
        unit = 2.0 ** (power * (2 if name == "squared-relu" else 1))
        objective = hkflow.Objective(feature, hkflow.RISKS["square"], 2.0**power * x, unit * y)
        mesh = (
            (hkflow.geodesic_mesh(1) if feature.joint else hkflow.circle_mesh(32))
            if kind == "grid"
            else None
        )
        atoms = (
            None
            if mesh
            else hkflow.PointMeasure(
                hkflow.quasi_uniform(20, objective.axes - 1), np.resize(signs, 20)
            )
        )
        problem = hkflow.Problem(mesh, objective, hkflow.Flow(1.0, 2.0), signs, atoms)
        run = hkflow.solve(problem, 2.0 / unit**2, kind=kind)
        found.append((run.records["step"][-1], run.predictions[-1] / unit))
    assert found[0][0] == found[1][0] > 2
    assert found[1][1] == pytest.approx(found[0][1], rel=1e-9)


@pytest.mark.parametrize("kind", ["grid", "characteristics", "particles"])
@pytest.mark.parametrize("size", [1e30, 1e-30, 1e100])
def test_a_mass_that_is_kept_may_be_of_any_size(kind, size):
    """Inputs 1/size as large: the same flow, size times as long. From a mass of 2⁶⁴ on it was
    taken in units of itself, but for the mass that is to be kept."""
    rng, found = np.random.default_rng(3), []
    x, y = rng.standard_normal((9, 2)), rng.standard_normal(9)
    mesh = hkflow.circle_mesh(32) if kind == "grid" else None
    for unit in (1.0, size):
        objective = hkflow.Objective(hkflow.FEATURES["relu"], hkflow.RISKS["square"], x / unit, y)
        atoms = hkflow.PointMeasure(
            hkflow.quasi_uniform(20, 1), np.resize([1, -1], 20), np.full(20, unit)
        )
        start = atoms if mesh is None else np.full((2, 32), unit)
        flow = hkflow.Flow(1.0, 2.0, drive="probability")
        problem = hkflow.Problem(mesh, objective, flow, (1, -1), start)
        run = hkflow.solve(problem, 0.5 * unit, kind=kind)
        assert run.finished, run.status
        assert run.mass[-1] == pytest.approx(run.mass[0], rel=1e-12)
        found.append(run.predictions[-1])
    assert found[1] == pytest.approx(found[0], rel=1e-6)


def test_a_mass_that_has_vanished_has_no_bar_of_its_logarithm(tmp_path):
    """The total mass was told to be 0 ± 23."""
    case = {
        "energy": [{"kind": "external", "potential": "1 + 0.5*x"}],
        "domain": {"kind": "sphere", "dim": 1, "cells": 32},
        "flow": {"kind": "hellinger"},
        "method": {"kind": "particles", "points": "mesh"},
        "time": {"end": 800.0, "saves": 3},
    }
    run = hkflow.run(case, output=tmp_path / "run")
    run.errors = hkflow.error_bars(run)
    assert run.errors["log_mass"][-1] > 1.0 and dict(summary(run))["total mass"] == "0"
