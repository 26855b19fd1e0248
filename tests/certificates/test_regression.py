from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy.optimize import linprog

import hkflow
from hkflow.certificates import regression, regularised
from hkflow.certificates.regression import l1_interpolation
from hkflow.certificates.regularised import minimise
from hkflow.certificates.search import local_maxima
from hkflow.errors import HkflowError
from hkflow.objectives.activations import FEATURES
from hkflow.objectives.losses import RISKS
from hkflow.objectives.objective import Objective

BOTH = (1, -1)


@cache
def problem(feature="relu", n=12, d=1, seed=0):
    inputs = np.random.default_rng(seed).normal(size=(n, d))
    targets = np.sin(2.0 * inputs[:, 0]) + 0.2
    return Objective(
        FEATURES[feature], RISKS["square"], np.column_stack([inputs, np.ones(n)]), targets
    )


@cache
def least_on_circle(objective, m):
    """The least mass on m points of the circle with both signs, a linear programme."""
    angles = 2.0 * np.pi * np.arange(m) / m
    phi = objective.feature.matrix(
        np.column_stack([np.cos(angles), np.sin(angles)]), objective.inputs
    )
    solution = linprog(np.ones(2 * m), A_eq=np.column_stack([phi, -phi]), b_eq=objective.targets)
    assert solution.status == 0
    return solution.fun


def agrees_with_the_programme(objective):
    found, grid = l1_interpolation(objective, BOTH), least_on_circle(objective, 5000)
    return (
        found.certified
        and found.lower <= grid * (1.0 + 1e-9)
        and abs(grid / found.upper - 1.0) < 1e-5
    )


@pytest.mark.parametrize("feature", ["relu", "squared-relu"])
def test_the_mass_is_that_of_the_linear_programme(feature):
    assert agrees_with_the_programme(problem(feature))


def test_a_wrong_correction_is_noticed(monkeypatch):
    right = regression._corrected

    def wrong(objective, atoms, missing):
        atoms, residual = right(objective, atoms, missing)
        return replace(atoms, weights=1.001 * atoms.weights), residual

    monkeypatch.setattr(regression, "_corrected", wrong)
    assert not agrees_with_the_programme(problem("relu"))


@pytest.mark.parametrize(
    ("feature", "n", "d"),
    [("relu", 40, 1), ("relu", 20, 2), ("squared-relu", 20, 1), ("squared-relu", 10, 2)],
)
def test_the_gap_is_certified(feature, n, d):
    objective = problem(feature, n, d)
    found = l1_interpolation(objective, BOTH)
    atoms = found.atoms
    h = objective.feature.matrix(atoms.positions, objective.inputs) @ (atoms.signs * atoms.weights)
    owed = max(found.dual @ (objective.targets - h), 0.0)
    assert found.certified and 0.0 <= found.gap <= 1e-6
    assert found.upper == pytest.approx(atoms.mass + owed, rel=1e-14, abs=0)
    np.testing.assert_allclose(
        h, objective.targets, rtol=0, atol=2e-9 * np.abs(objective.targets).max()
    )
    assert (
        local_maxima(objective.feature, objective.inputs, found.dual, BOTH).values[0] <= 1.0 + 1e-12
    )
    assert found.dual @ objective.targets == pytest.approx(found.lower, rel=1e-12, abs=0)


def test_one_datum_is_met_along_itself():
    objective = Objective(FEATURES["relu"], RISKS["square"], [[3.0, 4.0]], [-2.0])
    found = l1_interpolation(objective, BOTH)
    assert found.upper == pytest.approx(0.4, rel=1e-9, abs=0)
    np.testing.assert_allclose(found.atoms.moment(), [-0.24, -0.32], rtol=1e-6, atol=0)


def test_few_data_in_many_inputs_are_certified_in_their_span():
    objective = problem("relu", n=2, d=39)
    assert l1_interpolation(objective, BOTH).certified
    assert not l1_interpolation(problem("relu", n=4, d=39), BOTH).certified  # no proof on S⁴


def test_linear_features_give_the_least_norm():
    objective = replace(problem("linear", n=2, d=2), targets=np.array([1.0, -0.5]))
    norm = np.linalg.norm(np.linalg.lstsq(objective.inputs, objective.targets, rcond=None)[0])
    assert l1_interpolation(objective, BOTH).upper == pytest.approx(norm, rel=1e-6, abs=0)


def test_few_units_are_found_by_their_data():
    """The values of one ReLU unit, more data than atoms: its mass is the least."""
    inputs = np.column_stack([np.linspace(-1.0, 1.0, 15), np.ones(15)])
    targets = 2.0 * np.maximum(inputs @ [0.8, 0.6], 0.0)
    found = l1_interpolation(Objective(FEATURES["relu"], RISKS["square"], inputs, targets), BOTH)
    assert found.certified and found.upper <= 2.0 * (1.0 + 1e-6)


def test_what_changed_weights_cannot_meet_more_atoms_do():
    """Values of three squared ReLU units at nine data, a nearly singular problem: refused with `no
    measure was found that meets all 9 data`, although there is one."""
    rng, feature = np.random.default_rng(4), FEATURES["squared-relu"]
    inputs = np.column_stack([rng.normal(size=9), np.ones(9)])
    units = rng.normal(size=(3, 2))
    units /= np.linalg.norm(units, axis=1)[:, None]
    weights = rng.normal(size=3)
    y = feature.matrix(units, inputs) @ weights
    found = l1_interpolation(Objective(feature, RISKS["square"], inputs, y), BOTH)
    assert found.lower <= found.upper <= np.abs(weights).sum() and found.gap < 1e-5
    h = feature.matrix(found.atoms.positions, inputs) @ (found.atoms.signs * found.atoms.weights)
    np.testing.assert_allclose(h, y, rtol=0, atol=2e-9 * np.abs(y).max())


def test_the_regularised_risk_tends_to_it():
    objective = problem()
    found = minimise(replace(objective, weight_decay=1e-12), BOTH)
    assert found.upper / 1e-12 == pytest.approx(
        l1_interpolation(objective, BOTH).upper, rel=3e-6, abs=0
    )


def test_zero_is_met_by_nothing():
    objective = problem()
    found = l1_interpolation(replace(objective, targets=0.0 * objective.targets), BOTH)
    assert found.certified and len(found.atoms) == 0 and found.upper == found.gap == 0.0


def test_data_that_contradict_each_other_are_refused():
    objective = Objective(FEATURES["relu"], RISKS["square"], [[1.0, 1.0], [1.0, 1.0]], [1.0, -1.0])
    with pytest.raises(HkflowError, match="meets all 2 data"):
        l1_interpolation(objective, BOTH)


@pytest.mark.parametrize("size", [1e-20, 1e-8, 1e12])
def test_small_inputs_are_met_as_large_ones_are(size):
    """|ν| = y/|x| of one datum; at inputs of 1e-20 no measure was found."""
    objective = Objective(FEATURES["relu"], RISKS["square"], [[0.6 * size, 0.8 * size]], [1.0])
    found = l1_interpolation(objective)
    assert found.certified and found.upper == pytest.approx(1.0 / size, rel=1e-9)


def test_a_sum_of_energies_is_refused():
    """It asked for the gradient of a feature that has one."""
    with pytest.raises(ValueError, match="of an hkflow.Objective alone, got a Sum"):
        l1_interpolation(hkflow.Sum(problem(), hkflow.External("x")), BOTH)


def noise(n, seed=0):
    inputs = np.random.default_rng(seed).normal(size=(n, 1))
    targets = np.random.default_rng(seed + 1).normal(size=n)
    return Objective(FEATURES["relu"], RISKS["square"], hkflow.with_bias(inputs), targets)


@pytest.mark.parametrize("n", [30, 60])
def test_targets_of_noise_take_few_steps(n, monkeypatch):
    """Rounding kept programmes of a small λ from their end, and steps were taken to the last that
    are allowed: 43,000 for 60 data."""
    step, steps = regularised._Dual._step, []

    def counted(*arguments):
        steps.append(1)
        assert len(steps) < 400
        return step(*arguments)

    monkeypatch.setattr(regularised._Dual, "_step", counted)
    assert l1_interpolation(noise(n), BOTH).certified


def test_a_gap_within_the_tolerance_is_certified(monkeypatch):
    """It was not where the programmes before stayed above a tenth of the tolerance."""
    monkeypatch.setattr(
        regression, "minimise", lambda *given: replace(minimise(*given), certified=False)
    )
    found = l1_interpolation(problem(), BOTH)
    assert found.certified and found.gap <= 1e-6


@pytest.mark.parametrize("seed", [13, 20, 22])
def test_what_data_are_missed_by_is_counted_where_they_nearly_coincide(seed):
    """|x| has mass 2. Measures that missed it by 1e-10 were lighter than was possible, by up to
    2e-5, and the interval was empty."""
    x = np.random.default_rng(seed).normal(size=(6, 1))
    x = np.vstack([x, x + 1e-4])
    square = RISKS["square"]
    objective = Objective(FEATURES["relu"], square, hkflow.with_bias(x), np.abs(x[:, 0]))
    found = l1_interpolation(objective, BOTH, 1e-8)
    assert found.lower <= found.upper and found.upper == pytest.approx(2.0, rel=1e-8)


def test_rows_of_very_different_sizes_drown_no_others():
    """Exact numbers beside: two long rows that nearly agree decide between the short ones."""
    A = np.vstack([np.eye(3), 2.0**40 * np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0 + 2.0**-20]])])
    b = np.array([1.0, -2.0, 0.5, 2.0**40, 2.0**40 + 1.0])
    np.testing.assert_allclose(
        regularised._least_squares(A)(b), solved_in_fractions(A, b), rtol=0, atol=1e-9
    )


def solved_in_fractions(A, b):
    """argmin |A x − b| by the normal equations in fractions."""
    rows, right = [[Fraction(v) for v in row] for row in A], [Fraction(v) for v in b]
    n = A.shape[1]
    M = [[sum(r[i] * r[j] for r in rows) for j in range(n)] for i in range(n)]
    v = [sum(r[i] * z for r, z in zip(rows, right, strict=True)) for i in range(n)]
    for k in range(n):
        for i in range(n):
            if i != k:
                ratio = M[i][k] / M[k][k]
                M[i] = [x - ratio * y for x, y in zip(M[i], M[k], strict=True)]
                v[i] -= ratio * v[k]
    return [float(v[k] / M[k][k]) for k in range(n)]
