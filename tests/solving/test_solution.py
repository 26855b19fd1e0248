"""What a Solution says is what a Run says, in the same units."""

import numpy as np
import pytest

import hkflow

INPUTS, TARGETS = [[0.5, 1.0], [-1.0, 1.0], [0.2, 1.0]], [1.0, -1.0, -1.0]
CASE = f"""
[data]
source = "inline"
inputs = {[row[:1] for row in INPUTS]}
targets = {TARGETS}
[objective]
bias = true
loss = "smooth-margin"
[domain]
kind = "signed-sphere"
cells = 24
[flow]
transport = 1.0
reaction = 2.0
drive = "measure"
[time]
end = 2.0
saves = 3
"""


@pytest.fixture
def problem():
    objective = hkflow.Objective(
        hkflow.FEATURES["relu"], hkflow.RISKS["smooth-margin"], INPUTS, TARGETS
    )
    return hkflow.Problem(
        hkflow.circle_mesh(24), objective, hkflow.Flow(1.0, 2.0, drive="measure"), (1, -1)
    )


@pytest.mark.parametrize("kind", ["grid", "particles"])
def test_a_solution_and_a_run_give_the_same_predictions(problem, tmp_path, kind):
    path = tmp_path / "case.toml"
    path.write_text(
        CASE + ('[method]\nkind = "particles"\npoints = "mesh"\n' if kind == "particles" else "")
    )
    s, run = hkflow.solve(problem, 2.0, 3, kind=kind), hkflow.run(path, output=tmp_path / "run")
    assert np.abs(s.log_scale[1:]).min() > 0.1  # or the units would not matter
    for name in ("time", "log_scale", "predictions", "scaled_predictions"):
        assert getattr(s, name) == pytest.approx(getattr(run, name), rel=1e-9, abs=1e-12), name
    atoms = s.atoms_at(-1)
    h = problem.objective.feature.matrix(atoms.positions, problem.objective.inputs) @ (
        atoms.signs * atoms.weights
    )
    assert s.predictions[-1] == pytest.approx(h, rel=1e-12)


def test_a_network_has_no_units_of_its_own(problem):
    units = hkflow.Units.gaussian(np.random.default_rng(0), 20, 2, 1)
    start = hkflow.Problem(None, problem.objective, hkflow.Flow(1.0, 2.0), (1, -1), units)
    s = hkflow.solve(start, 0.1, kind="network")
    assert not s.log_scale.any() and np.array_equal(s.predictions, s.scaled_predictions)


def test_predictions_beyond_numbers_are_infinite_with_their_sign_and_zeros_stay(problem, tmp_path):
    s = hkflow.solve(problem, 0.1, 2)
    s.log_scale[:] = 800.0
    s.scaled_predictions[:] = [[0.5, -0.5, 0.0]] * 2
    assert np.array_equal(s.predictions, [[np.inf, -np.inf, 0.0]] * 2)
    s.states[-1]["density"][:, ::2] = 0.0
    for density in (s.density_on(s.mesh), s.density_at(s.mesh.centers)):
        assert (density[:, ::2] == 0.0).all() and (density[:, 1::2] == np.inf).all()
    path = tmp_path / "case.toml"
    path.write_text(CASE)
    run = hkflow.run(path, output=tmp_path / "run")
    run.log_scale, run.scaled_predictions = (
        np.array([800.0, -800.0, 0.0]),
        np.array([[0.5, -0.5, 0.0]] * 3),
    )
    assert np.array_equal(
        run.predictions, [[np.inf, -np.inf, 0.0], [0.0, -0.0, 0.0], [0.5, -0.5, 0.0]]
    )


def test_an_objective_that_was_not_recorded_has_its_entropy():
    energy = hkflow.Sum(hkflow.External("0.3*x"), axes=2, entropy=0.2)
    problem = hkflow.Problem(hkflow.circle_mesh(32), energy, hkflow.Flow(1.0, 1.0))
    whole = hkflow.solve(problem, 1.0, 5)
    sparse = hkflow.solve(problem, 1.0, 5)
    sparse.records = {}
    for normalised in (False, True):
        wanted = [whole.objective_at(save, normalised) for save in range(5)]
        found = [sparse.objective_at(save, normalised) for save in range(5)]
        assert found == pytest.approx(wanted, rel=1e-12)


def test_a_smooth_margin_that_is_none_cannot_be_waited_for():
    """The end of the run was the end of time, without a word."""
    energy = hkflow.Sum(hkflow.External("0.3*x"), axes=2)
    squares = hkflow.Objective(hkflow.FEATURES["relu"], hkflow.RISKS["square"], np.eye(2), [1, -1])
    for objective in (energy, squares):
        start = hkflow.PointMeasure(np.eye(objective.axes))
        problem = hkflow.Problem(None, objective, hkflow.Flow(), initial=start)
        with pytest.raises(hkflow.CaseError, match="until_margin: the risk .* no smooth margin"):
            hkflow.solve(problem, 1.0, until_margin=2.0, kind="particles")


@pytest.mark.parametrize("kind", ["network", "particles", "grid"])
def test_every_save_has_a_record(kind):
    """Of a network whose layers are not balanced, F is not that of its measure."""
    x, y = np.random.default_rng(0).standard_normal((2, 5, 3))
    objective = hkflow.Objective(
        hkflow.FEATURES["linear"], hkflow.RISKS["square"], x, y[:, 0], weight_decay=0.1
    )
    units, mesh = hkflow.Units(y[:4], [1.0, -2.0, 0.5, 1.0]), hkflow.geodesic_mesh(1)
    start = {"network": units, "particles": hkflow.PointMeasure(y[:4]), "grid": None}[kind]
    flow, mesh = hkflow.Flow(1.0, 2.0), mesh if kind == "grid" else None
    problem = hkflow.Problem(mesh, objective, flow, (1, -1), start)
    whole, sparse = (
        hkflow.solve(problem, 1.0, 5, kind=kind, record_interval=rare) for rare in (0.0, 0.4)
    )
    assert np.isin(sparse.time, sparse.records["time"]).all()
    assert len(sparse.records["time"]) < len(whole.records["time"])
    for save in range(5):
        assert sparse.objective_at(save) == whole.objective_at(save)
