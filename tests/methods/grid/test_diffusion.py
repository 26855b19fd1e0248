"""Diffusion on grids against the heat kernel, its balance with transport, budgets, resumption."""

import numpy as np
import pytest
from conftest import order
from scipy.optimize import brentq
from scipy.special import i0, i1

import hkflow
from hkflow.methods.choice import make_method
from hkflow.methods.grid.diffusion import Diffusion
from hkflow.methods.step import ENERGIES

AXIS = np.array([0.3, -0.5, 0.8, 0.4])
RATE, TIME, BAND = 0.3, 0.5, (1.8, 2.3)
MESHES = {
    "circle": [hkflow.circle_mesh(n) for n in (32, 64, 128)],
    "sphere": [hkflow.geodesic_mesh(level) for level in (2, 3, 4)],
}
STEPPERS = pytest.mark.parametrize("stepper", ["muscl-hancock", "ssprk3", "strang"])


def harmonics(points, time, rate=RATE):
    """1 + Y₁/2 + Y₃/4, zonal around an axis, each decaying like e^(−κ l (l + d − 1) t)."""
    d = points.shape[1] - 1
    u = points @ (AXIS[: d + 1] / np.linalg.norm(AXIS[: d + 1]))
    third = 4.0 * u**3 - 3.0 * u if d == 1 else 2.5 * u**3 - 1.5 * u
    return 1.0 + sum(
        size * Y * np.exp(-rate * l * (l + d - 1) * time)
        for size, l, Y in ((0.5, 1, u), (0.25, 3, third))
    )


def problem(mesh, flow, loss="square", initial=None, signs=(1,), decay=0.0):
    d = mesh.dim
    objective = hkflow.Objective(
        hkflow.FEATURES["linear"], hkflow.RISKS[loss], np.eye(d + 1), np.eye(d + 1)[0],
        np.ones(d + 1), decay,
    )  # fmt: skip
    return hkflow.Problem(mesh, objective, flow, signs, initial)


def error(mesh, stepper, rate=RATE, **rates):
    """Relative L1 error of what heat alone does."""
    flow = hkflow.Flow(0.0, diffusion=rate)
    start = problem(mesh, flow, initial=harmonics(mesh.centers, 0.0)[None])
    s = hkflow.solve(start, TIME, stepper=stepper)
    wanted = harmonics(mesh.centers, TIME)
    assert s.finished, s.status
    return np.abs(s.cell_density_at(-1)[0] - wanted) @ mesh.volumes / (wanted @ mesh.volumes)


@pytest.mark.parametrize("name", MESHES)
@STEPPERS
def test_harmonics_decay_at_second_order(name, stepper):
    e = np.array([error(mesh, stepper) for mesh in MESHES[name]])
    assert e[-1] < 2e-4 and BAND[0] < order(e)[-1] < BAND[1], (e, order(e))


def test_sibling_another_rate_is_no_solution():
    e = np.array([error(mesh, "muscl-hancock", 1.02 * RATE) for mesh in MESHES["circle"]])
    assert not BAND[0] < order(e)[-1] < BAND[1], (e, order(e))


@STEPPERS
def test_diffusion_and_transport_balance_in_von_mises(stepper):
    """F = ½ |∫θ dν − e|² + κ ∫ν log ν is stationary at ν ∝ e^(c e·θ), c = (1 − M)/κ and M =
    I₁(c)/I₀(c)."""
    kappa, e = 0.2, np.eye(2)[0]
    M = brentq(lambda m: m - i1((1.0 - m) / kappa) / i0((1.0 - m) / kappa), 0.0, 1.0)
    errors = []
    for n in (64, 128):
        mesh = hkflow.circle_mesh(n)
        s = hkflow.solve(problem(mesh, hkflow.Flow(1.0, diffusion=kappa)), 20.0, stepper=stepper)
        errors.append(abs((s.cell_density_at(-1)[0] * mesh.volumes) @ mesh.centers @ e - M))
    assert errors[1] < 4e-4 and 1.6 < order(errors)[0] < 2.6, errors


@STEPPERS
@pytest.mark.parametrize(
    "flow",
    [
        hkflow.Flow(1.0, diffusion=0.5),
        hkflow.Flow(1.0, 4.0, diffusion=0.5),
        hkflow.Flow(0.0, 4.0, diffusion=0.5),
        hkflow.Flow(1.0, 4.0, 0.2, diffusion=0.5, drive="probability"),
    ],
    ids=str,
)
def test_the_energy_identity_closes(flow, stepper):
    mesh = hkflow.circle_mesh(64)
    start = problem(mesh, flow, initial=harmonics(mesh.centers, 0.0)[None] / mesh.volumes.sum())
    s = hkflow.solve(start, 2.0, stepper=stepper, tolerance=1e-4)
    assert s.finished, s.status
    r = s.records
    exchanged = sum(abs(r[name][-1]) for name in ENERGIES)
    assert r["energy_diffusion"][-1] > 0.1 * exchanged > 0.0
    assert np.abs(r["energy_residual"]).max() <= 1e-4 * exchanged
    assert np.abs(r["mass_residual"]).max() <= 1e-4
    if flow.reaction == 0.0:
        assert np.abs(r["mass"] / r["mass"][0] - 1.0).max() <= 1e-12


def test_sibling_a_work_that_is_off_is_seen(monkeypatch):
    honest = Diffusion.work
    monkeypatch.setattr(Diffusion, "work", lambda self, J: 1.2 * honest(self, J))
    with pytest.raises(AssertionError):
        test_the_energy_identity_closes(hkflow.Flow(1.0, diffusion=0.5), "muscl-hancock")


def test_kinks_capture_nothing_that_diffuses():
    objective = hkflow.Objective(
        hkflow.FEATURES["relu"], hkflow.RISKS["square"], np.eye(3), [1.0, -1.0, 0.5]
    )
    mesh = hkflow.geodesic_mesh(2)
    for diffusion in (0.0, 0.05):
        start = hkflow.Problem(mesh, objective, hkflow.Flow(1.0, 2.0, diffusion=diffusion), (1, -1))
        s = hkflow.solve(start, 1.0)
        assert s.finished and ("captured" in s.records) == (diffusion == 0.0)


@pytest.mark.parametrize("kind", ["particles", "characteristics", "network"])
def test_other_methods_refuse_it(kind):
    start = problem(hkflow.circle_mesh(8), hkflow.Flow(1.0, diffusion=0.1))
    with pytest.raises(ValueError, match=f"'{kind}' has no diffusion.*Choose from: grid"):
        make_method(start, kind)
    with pytest.raises(ValueError, match="nothing moves: diffusion must be 0"):
        problem(hkflow.atoms_mesh(np.eye(3)), hkflow.Flow(0.0, 4.0, diffusion=0.1))
    with pytest.raises(ValueError, match="without diffusion"):
        hkflow.MomentFlow([1.0, 0.0], 0.8, hkflow.Flow(diffusion=0.1))


CASE = """
[data]
source = "moment"
direction = [1.0, 0.0]
target = 0.8
[objective]
activation = "linear"
loss = "square"
[domain]
kind = "sphere"
cells = 64
[flow]
kind = "wasserstein"
diffusion = 0.2
[time]
end = 1.0
saves = 5
"""


def test_a_case_runs_and_resumes_to_the_bit(tmp_path):
    (tmp_path / "case.toml").write_text(CASE)
    whole = hkflow.run(tmp_path / "case.toml", output=tmp_path / "whole")
    assert whole.finished and whole.problem.flow.diffusion == 0.2 and whole.problem.exact is None
    part = hkflow.run(
        tmp_path / "case.toml", output=tmp_path / "part", observers=[lambda state: state.step >= 9]
    )
    assert not part.finished and len(part.records["time"]) == 10 < len(whole.records["time"])
    part = hkflow.resume(tmp_path / "part")
    for name in ("objective", "energy_diffusion", "energy_residual"):
        assert np.array_equal(part.records[name], whole.records[name])
