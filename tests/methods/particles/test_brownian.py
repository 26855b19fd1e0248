"""Brownian steps of particles, against closed forms and against the grid."""

import numba
import numpy as np
import pytest
from conftest import ROOT
from scipy.optimize import brentq
from scipy.stats import chi

import hkflow
from hkflow.methods.particles import particles

ERRORS = 3.5  # standard errors
LANGEVIN = ROOT / "cases" / "quickstart" / "mean-field-langevin.toml"


def _attraction(predictions, targets, weights, out):
    out[:] = -targets * predictions
    return float(0.5 * predictions @ out)


def problem(d, n, tau, kappa=0.0, flow=None, **keys):
    """F = −½ κ |∫θ dν|² + τ∫ν log ν, from n particles at a point."""
    start = hkflow.PointMeasure(np.tile(np.eye(d + 1)[0], (n, 1)), np.ones(n), np.full(n, 1.0 / n))
    objective = hkflow.Objective(
        hkflow.FEATURES["linear"], hkflow.Risk("attraction", _attraction, False), np.eye(d + 1),
        np.full(d + 1, kappa), entropy=tau,
    )  # fmt: skip
    return hkflow.Problem(None, objective, flow or hkflow.Flow(1.0), initial=start, **keys)


def solved(*args, time=1.0, dt=0.2, seed=0, **keys):
    s = hkflow.solve(problem(*args, **keys), time, kind="particles", max_step=dt, seed=seed)
    assert s.finished, s.status
    return s.atoms_at(-1).positions


@pytest.mark.parametrize("d", [1, 2, 4])
def test_heat_flow(d, tau=0.3, n=20_000):
    """Geodesic steps of length √(2τ dt) χ_d multiply ∫cos dν by E cos: e^(−dτ dt) in the limit."""
    for dt in (0.2, 0.01):
        x = solved(d, n, tau, dt=dt)[:, 0]
        factor = chi(d).expect(lambda size, dt=dt: np.cos(np.sqrt(2.0 * tau * dt) * size))
        assert abs(x.mean() - factor ** round(1.0 / dt)) < ERRORS * x.std() / np.sqrt(n)
    assert abs(x.mean() - np.exp(-d * tau)) < ERRORS * x.std() / np.sqrt(n)


def test_sibling_steps_of_another_length_are_seen(monkeypatch):
    honest = particles.geodesic_steps
    monkeypatch.setattr(particles, "geodesic_steps", lambda *a: honest(*a[:4], 1.05 * a[4], *a[5:]))
    with pytest.raises(AssertionError):
        test_heat_flow(2)


def test_the_stationary_moment(tau=0.4, n=10_000):
    """On S², m = coth x − 1/x at x = κm/τ; the attraction makes fluctuations larger."""
    kappa = 6.0 * tau
    m = brentq(lambda m: m - 1.0 / np.tanh(kappa * m / tau) + tau / (kappa * m), 1e-3, 1.0)
    x = kappa * m / tau
    variance = 1.0 / x**2 - 1.0 / np.sinh(x) ** 2
    found = np.linalg.norm(solved(2, n, tau, kappa, time=6.0, dt=0.01).mean(axis=0))
    error = np.sqrt(variance / n) / (1.0 - kappa / tau * variance)
    assert abs(found - m) < ERRORS * error < 0.02


def moments_at_threshold(d, share, tilt=0.3, tau=0.4, n=10_000, end=1.0, factor=1.0):
    """|∫θ dν| of 10⁴ particles and of a grid from U (1 + tilt e·θ) with K = −κ t, κ = share (d +
    1)τ, and the standard error of the former: m is a process of Ornstein and Uhlenbeck near U."""
    kappa, flow = share * (d + 1) * tau, hkflow.Flow(1.0)
    mesh = hkflow.circle_mesh(128) if d == 1 else hkflow.geodesic_mesh(4)
    density = (1.0 + tilt * mesh.centers[:, 0]) / mesh.volumes.sum()
    total = hkflow.Sum(hkflow.Interaction("linear", -kappa), axes=d + 1, entropy=tau)
    grid = hkflow.Problem(mesh, total, flow, initial=density[None])
    rng = np.random.default_rng(3)
    points = rng.standard_normal((2 * n, d + 1))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    points = points[rng.random(2 * n) < (1.0 + tilt * points[:, 0]) / (1.0 + tilt)][:n]
    n = len(points)
    atoms = hkflow.PointMeasure(points, np.ones(n), np.full(n, 1.0 / n))
    total = hkflow.Sum(hkflow.Interaction("linear", -factor * kappa), axes=d + 1, entropy=tau)
    cloud = hkflow.Problem(None, total, flow, initial=atoms)
    runs = [
        hkflow.solve(grid, end),
        hkflow.solve(cloud, end, kind="particles", max_step=0.02, seed=1),
    ]
    found = [run.atoms_at(-1).moment()[0] for run in runs]
    rate = d * tau * (share - 1.0)
    grown = np.exp(2.0 * rate * end)
    variance = (grown + tau * d * (grown - 1.0) / rate) / (d + 1) / n
    return found, np.sqrt(variance)


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("share", [0.5, 2.0])
def test_particles_grow_and_decay_as_the_grid_on_both_sides_of_the_threshold(d, share):
    (grid, cloud), error = moments_at_threshold(d, share)
    assert abs(grid - cloud) < ERRORS * error < 0.4 * grid, (grid, cloud, error)
    assert (grid > 0.3 / (d + 1)) == (share > 1.0)


def test_sibling_another_attraction_is_seen():
    (grid, cloud), error = moments_at_threshold(2, 2.0, factor=1.5)
    assert abs(grid - cloud) > ERRORS * error


def test_mean_field_langevin_against_the_grid():
    """Predictions of a two-layer ReLU network with entropy, on the irises."""
    cells = hkflow.check(LANGEVIN)[1]
    points = {"kind": "particles", "points": "random", "particles": 10_000, "max_step": 0.02}
    grid = hkflow.solve(cells, 4.0)
    cloud = hkflow.solve(
        hkflow.check(LANGEVIN, method=points)[1], 4.0, kind="particles", max_step=0.02, seed=1
    )
    assert np.diff(grid.records["objective"]).max() < 0.0
    atoms, inputs = cloud.atoms_at(-1), grid.problem.objective.inputs
    units = atoms.mass * atoms.signs[:, None] * np.maximum(atoms.positions @ inputs.T, 0.0)
    errors = units.std(axis=0) / np.sqrt(len(units))
    start = np.abs(grid.predictions[-1]) / errors  # from predictions that vanish
    z = np.abs(cloud.predictions[-1] - grid.predictions[-1]) / errors
    assert z.max() < ERRORS < 0.5 * np.median(start), (z.max(), np.median(start))


def test_the_same_bits_for_any_number_of_threads_and_on_resumption(tmp_path):
    many = numba.config.NUMBA_NUM_THREADS
    found = []
    for threads in (1, many):
        numba.set_num_threads(threads)
        found.append(solved(2, 20_000, 0.3, 1.0, time=0.6))
    np.testing.assert_array_equal(*found)
    start = problem(2, 100, 0.3)
    linear = hkflow.Objective(
        start.objective.feature, hkflow.RISKS["square"], np.eye(3), np.ones(3), entropy=0.3
    )
    start = hkflow.Problem(None, linear, start.flow, initial=start.initial)
    keys = {"end": 1.0, "saves": 3, "kind": "particles", "max_step": 0.05, "seed": 7}
    whole = hkflow.run(start, tmp_path / "whole", **keys)
    part = hkflow.run(start, tmp_path / "part", observers=[lambda state: state.step >= 9], **keys)
    assert not part.finished
    part = hkflow.resume(tmp_path / "part")
    np.testing.assert_array_equal(part.atoms_at(-1).positions, whole.atoms_at(-1).positions)
    other = hkflow.run(start, tmp_path / "other", **(keys | {"seed": 8}))
    assert not np.array_equal(other.atoms_at(-1).positions, whole.atoms_at(-1).positions)


def test_what_does_not_go_with_it():
    for flow, name in ((hkflow.Flow(1.0, 4.0), "reaction"), (hkflow.Flow(1.0, 0.0, 0.1), "noise")):
        with pytest.raises(ValueError, match=f"entropy have no {name}.*choose the method 'grid'"):
            solved(2, 10, 0.3, flow=flow)
    with pytest.raises(ValueError, match="Brownian steps of the stepper 'euler', got 'dopri5'"):
        solved_by = {"kind": "particles", "max_step": 0.1, "stepper": "dopri5"}
        hkflow.solve(problem(2, 10, 0.3), 1.0, **solved_by)
    with pytest.raises(ValueError, match="are explicit: leave out imex = 'implicit'"):
        hkflow.Particles(problem(1, 10, 0.1), max_step=0.1, imex="implicit")
    with pytest.raises(ValueError, match="No 'tolerance' governs Brownian steps"):
        hkflow.Particles(problem(1, 10, 0.1), max_step=0.1, tolerance=1e-6)
    with pytest.raises(ValueError, match="Brownian steps: give their length, 'max_step'"):
        hkflow.solve(problem(2, 10, 0.3), 1.0, kind="particles")


def test_the_length_of_steps_has_an_error_bar(d=2, tau=0.3, dt=0.2):
    """Steps four times as long stand beside a run: its error in time lies within the bar."""
    s = hkflow.solve(problem(d, 20_000, tau), 1.6, kind="particles", max_step=dt)
    bar = hkflow.error_bars(s).bars["moment"]
    factor = chi(d).expect(lambda size: np.cos(np.sqrt(2.0 * tau * dt) * size))
    wrong = abs(factor ** round(1.6 / dt) - np.exp(-d * tau * 1.6))
    assert wrong < np.sqrt(3.0) * bar.time[-1] and bar.time[-1] < 10.0 * wrong, (
        wrong,
        bar.time[-1],
    )
    assert abs(s.atoms_at(-1).positions[:, 0].mean() - np.exp(-d * tau * 1.6)) < 2.0 * bar.total[-1]
