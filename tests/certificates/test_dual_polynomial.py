"""Sparse deconvolution: the spikes that particles and a grid find are those of the optimality
conditions, and the dual polynomial proves it."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import ROOT
from scipy.optimize import nnls, root

import hkflow
from hkflow.analysis.summary import summary
from hkflow.case.load import load_case
from hkflow.certificates import dual_polynomial
from hkflow.certificates import spikes as spikes_of
from hkflow.running.check import build_case

DECAY = 0.01


@pytest.fixture(scope="module")
def problem():
    return build_case(load_case(ROOT / "cases" / "energies" / "deconvolution.toml"))[1]


def unit(angles):
    return np.column_stack([np.cos(angles), np.sin(angles)])


@pytest.fixture(scope="module")
def spikes(problem):
    """Angles and masses (3,) of the solution: η = λ and η′ = 0 at three angles."""
    o = problem.objective

    def conditions(unknown):
        angles, masses = np.split(unknown, 2)
        values, slopes = o.feature.ridge(o.inputs @ unit(angles).T)
        r = o.weights * (values @ masses - o.targets)
        turned = o.inputs @ unit(angles + 0.5 * np.pi).T
        return np.concatenate([r @ values + DECAY, r @ (slopes * turned)])

    found = root(conditions, [0.5, 1.8, 4.0, 1.0, 0.7, 1.3], tol=1e-14)
    assert np.abs(found.fun).max() < 1e-14
    return np.split(found.x, 2)


def test_particles_find_three_spikes_with_their_certificate(problem, spikes):
    run = hkflow.solve(problem, 1000.0, kind="particles", tolerance=1e-8)
    atoms = run.atoms_at(-1)
    heavy = atoms.weights > 1e-5
    angles = np.arctan2(atoms.positions[:, 1], atoms.positions[:, 0]) % (2.0 * np.pi)
    nearest = np.abs(angles[:, None] - spikes[0]).argmin(axis=1)
    assert np.abs(angles - spikes[0][nearest])[heavy].max() < 1e-6
    masses = [atoms.weights[nearest == k].sum() for k in range(3)]
    assert masses == pytest.approx(spikes[1], abs=1e-6)
    lower, upper = dual_polynomial(problem.objective, run.predictions[-1])
    assert lower <= upper < DECAY * (1.0 + 1e-5) and upper > DECAY * (1.0 - 1e-5)
    _, before = dual_polynomial(problem.objective, run.predictions[0])
    assert before > 2.0 * DECAY  # what is not optimal has no certificate


def test_a_grid_is_above_the_minimum_by_the_square_of_its_cells_and_particles_go_on(
    problem, spikes
):
    """Where F is flat, masses at centres of cells are off by a share of a cell; merged, they move
    to the solution."""
    values, offs = [], []
    for cells in (128, 512):
        on_grid = hkflow.Problem(hkflow.circle_mesh(cells), problem.objective, problem.flow)
        solution = hkflow.solve(on_grid, 1000.0, tolerance=1e-3)
        values.append(solution.records["objective"][-1])
        atoms = solution.atoms_at(-1)
        angles = np.arctan2(atoms.positions[:, 1], atoms.positions[:, 0]) % (2.0 * np.pi)
        nearest = np.abs(angles[:, None] - spikes[0]).argmin(axis=1)
        masses = np.bincount(nearest, atoms.weights)
        means = np.bincount(nearest, atoms.weights * angles) / masses
        offs.append(np.abs(means - spikes[0]).max())
    gaps = np.array(values) - 0.02752063954252
    assert (gaps > 0.0).all() and 1.6 < 0.5 * np.log2(gaps[0] / gaps[1]) < 2.4
    assert offs[0] < 0.07 * 2.0 * np.pi / 128 and 1e-4 < offs[1] < 0.05 * 2.0 * np.pi / 512
    merged = hkflow.PointMeasure(unit(means), np.ones(3), masses)
    points = hkflow.Problem(None, problem.objective, problem.flow, initial=merged)
    atoms = hkflow.solve(points, 300.0, kind="particles", tolerance=1e-8).atoms_at(-1)
    assert np.abs(atoms.positions - unit(spikes[0])).max() < 1e-6
    assert atoms.weights == pytest.approx(spikes[1], abs=1e-6)


def on_grid(problem, cells):
    """The last atoms of a grid."""
    start = hkflow.Problem(hkflow.circle_mesh(cells), problem.objective, problem.flow)
    return hkflow.solve(start, 500.0, tolerance=1e-3).atoms_at(-1)


def test_the_spikes_of_a_grid_are_those_of_the_problem(problem, spikes):
    """To rounding, where means of its cells are off by more than h²."""
    for cells in (128, 512):
        atoms = on_grid(problem, cells)
        found = spikes_of(problem.objective, atoms)
        assert found.certified and found.lower <= found.upper
        np.testing.assert_allclose([found.angles, found.masses], spikes, rtol=1e-12)
    means = np.array([angle_near(atoms, angle) for angle in spikes[0]])
    assert np.abs(means - spikes[0]).max() > (2.0 * np.pi / cells) ** 2


def angle_near(atoms, angle):
    near = np.abs(atoms.positions - unit(np.array([angle]))).max(axis=1) < 0.4
    x, y = atoms.weights[near] @ atoms.positions[near]
    return np.arctan2(y, x) % (2.0 * np.pi)


def test_sibling_two_spikes_have_no_certificate(problem):
    atoms = on_grid(problem, 128)
    two = atoms.positions[:, 1] > 0.0
    found = spikes_of(
        problem.objective, hkflow.PointMeasure(atoms.positions[two], None, atoms.weights[two])
    )
    assert len(found.angles) == 2 and found.lower > 2.0 * DECAY and not found.certified


def test_a_run_says_its_spikes(tmp_path):
    case = ROOT / "cases" / "energies" / "deconvolution.toml"
    for method in ("particles", "grid"):
        how = {"tolerance": 1e-3, "kind": method}
        hkflow.run(case, tmp_path / method, quiet=True, method=how, domain={"cells": 128})
        said = dict(summary(hkflow.load(tmp_path / method)))["spikes"]
        assert said.startswith("θ = 0.489211096, 1.80697162, 3.99119831; masses 0.834764032, ")


def test_what_has_no_spikes_is_refused(problem):
    start = hkflow.PointMeasure(unit(np.array([0.5, 2.0])), np.array([1.0, -1.0]))
    with pytest.raises(ValueError, match="got λ = 0.01 and 1 negative signs"):
        spikes_of(problem.objective, start)


def test_energies_entropy_and_features_without_gradient_are_refused(problem):
    """η of a Sum left its potential out; spikes were certified whatever the entropy."""
    o, start = problem.objective, hkflow.PointMeasure(unit(np.array([0.5, 1.8, 4.0])))
    pulled = hkflow.Sum(o, hkflow.External("x"))
    with pytest.raises(ValueError, match="of an hkflow.Objective alone, got a Sum"):
        dual_polynomial(pulled, np.zeros(16))
    with pytest.raises(ValueError, match="of an hkflow.Objective alone, got a Sum"):
        spikes_of(pulled, start)
    with pytest.raises(ValueError, match="got entropy = 0.1"):
        spikes_of(replace(o, entropy=0.1), start)
    with pytest.raises(ValueError, match="need the gradient of the feature 'linear'"):
        spikes_of(replace(o, feature=hkflow.FEATURES["linear"]), start)


def test_a_weight_decay_above_all_of_eta_leaves_no_spikes(problem):
    """ν = 0 is the minimum then, however little mass the flow still has."""
    o = problem.objective
    heavy = replace(o, weight_decay=1.01 * dual_polynomial(o, np.zeros(16))[1])
    for mass in (1e-9, 1e-87):
        start = hkflow.PointMeasure(unit(np.linspace(0.0, 6.0, 40)), None, np.full(40, mass))
        found = spikes_of(heavy, start)
        assert found.certified and len(found.angles) == len(found.masses) == 0
        assert str(found).startswith("none, ν = 0 is best; max η/λ = 0.9900")
    with pytest.raises(ValueError, match="No spikes satisfy"):  # a little λ less, and there is one
        spikes_of(replace(o, weight_decay=0.97 * heavy.weight_decay), start)


def test_spikes_of_negative_mass_are_said_to_be_that(problem):
    o = problem.objective
    targets = o.feature.matrix(unit(np.array([1.0, 4.0])), o.inputs) @ [1.0, -1.0]
    start = hkflow.PointMeasure(unit(np.array([4.0])))
    with pytest.raises(ValueError, match="1 of them have masses below 0"):
        spikes_of(replace(o, targets=targets), start)


def test_the_bound_encloses_what_finer_samples_find(problem):
    predictions = problem.objective.targets * 0.3
    lower, upper = dual_polynomial(problem.objective, predictions)
    r = problem.objective.weights * (predictions - problem.objective.targets)
    points = unit(np.linspace(0.0, 2.0 * np.pi, 1_000_003))
    highest = np.max(-r @ problem.objective.feature.matrix(points, problem.objective.inputs))
    assert lower <= highest <= upper < lower * (1.0 + 1e-5)


def test_kinks_are_refused(problem):
    relu = hkflow.Objective(
        hkflow.FEATURES["relu"], hkflow.RISKS["square"], problem.objective.inputs, np.ones(16)
    )
    with pytest.raises(ValueError, match="with kinks is not enclosed"):
        dual_polynomial(relu, np.zeros(16))


def test_predictions_and_measures_of_another_shape_are_refused(problem):
    """They ended with numpy's words on `matmul`."""
    o = problem.objective
    for wrong in (np.zeros(o.n_predictions + 1), np.zeros((o.n_predictions, 1)), 0.0):
        with pytest.raises(ValueError, match=rf"of the shape \({o.n_predictions},\).*got"):
            dual_polynomial(o, wrong)
    with pytest.raises(ValueError, match=r"on the circle, got one with points of R\^3"):
        spikes_of(o, hkflow.PointMeasure(np.eye(3)))


def bump(s):
    """A blur of the circle and its derivative."""
    return np.exp(6.0 * (s - 1.0)), 6.0 * np.exp(6.0 * (s - 1.0))


def noisy(noise, decay, separation=1.0, seed=0):
    """24 samples of two blurred spikes."""
    feature, at = hkflow.ridge(bump), unit(2.0 * np.pi * np.arange(24) / 24)
    values = feature.matrix(unit(np.array([1.0, 1.0 + separation])), at) @ [1.0, 0.7]
    values += noise * np.random.default_rng(seed).normal(size=24)
    return hkflow.Objective(feature, hkflow.RISKS["square"], at, values, weight_decay=decay / 24)


def best_on_cells(o):
    """The measure of least F on 1000 points of the circle, by nonnegative least squares."""
    points, root_q = unit(2.0 * np.pi * np.arange(1000) / 1000), np.sqrt(o.weights)
    A, b = root_q[:, None] * o.feature.matrix(points, o.inputs), root_q * o.targets
    last = b @ A - o.weight_decay
    u, _ = nnls(np.vstack([-A, last]), np.append(np.zeros(24), 1.0), maxiter=10**5)
    return hkflow.PointMeasure(points[u > 0.0], None, u[u > 0.0] / (1.0 - last @ u))


@pytest.mark.parametrize(("noise", "decay"), [(0.01, 1e-5), (0.1, 1e-3)])
def test_noise_a_hundred_times_the_weight_decay_leaves_the_certificate(noise, decay):
    """η is −100 λ somewhere, which widened the bound of what it is at most."""
    o = noisy(noise, decay)
    found = spikes_of(o, best_on_cells(o))
    assert found.certified and found.lower > o.weight_decay * (1.0 - 1e-7)
    h = o.feature.matrix(unit(found.angles), o.inputs) @ found.masses
    r, points = o.weights * (h - o.targets), unit(np.linspace(0.0, 2.0 * np.pi, 1_000_003))
    assert np.max(-r @ o.feature.matrix(points, o.inputs)) <= found.upper


def test_spikes_of_a_thousandth_of_the_mass_are_found():
    """They passed for what lies elsewhere, and those that were left had no certificate."""
    missed = 0
    for seed in range(5):
        o = noisy(0.01, 1e-3, 0.3, seed)
        found = spikes_of(o, best_on_cells(o))
        assert found.certified
        missed += found.masses.min() < 1e-3 * found.masses.sum()
    assert missed > 0


def test_a_measure_without_mass_has_no_spikes_near(problem):
    """That ended with numpy's words on arrays of no size."""
    for start in (
        hkflow.PointMeasure(unit(np.zeros(1)), None, np.zeros(1)),
        hkflow.PointMeasure(np.zeros((0, 2)), None, np.zeros(0)),
    ):
        with pytest.raises(ValueError, match="from a measure with mass"):
            spikes_of(problem.objective, start)
