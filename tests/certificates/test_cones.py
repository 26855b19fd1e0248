"""Bounds over cones beyond S² against all cells of the arrangement, and the margins they prove."""

from itertools import product
from math import comb

import numba
import numpy as np
import pytest
from brute_force import cells, highest_of_cells

import hkflow
from hkflow.certificates import column_generation, cones
from hkflow.certificates.column_generation import enclosed_max_margin, max_margin
from hkflow.certificates.global_upper_bound import enclose, global_upper_bound
from hkflow.certificates.search import local_maxima

RELU, RISK = hkflow.FEATURES["relu"], hkflow.RISKS["smooth-margin"]
BOTH, MANY = (1, -1), 10**6


def with_bias(n, p, rng):
    return np.column_stack([rng.normal(size=(n, p - 1)), np.ones(n)])


def rotated(x, p, rng):
    """Data of fewer coordinates on a random subspace of R^p."""
    return x @ np.linalg.qr(rng.normal(size=(p, p)))[0][: x.shape[1]]


@pytest.mark.parametrize("p, n", [(4, 25), (5, 14), (6, 11)])
def test_the_bound_is_the_maximum_over_all_cells(p, n, rng):
    """The cells are as many as Cover's formula says."""
    x = with_bias(n, p, rng)
    patterns = cells(x)
    assert len(patterns) == 2 * sum(comb(n - 1, k) for k in range(p))
    for c in (rng.normal(size=n), rng.choice([-1.0, 1.0], size=n)):
        scale = np.abs(c) @ np.linalg.norm(x, axis=1)
        highest = highest_of_cells(x, c, patterns)
        bound = global_upper_bound(RELU, x, c, nodes=MANY)
        assert 0.0 <= bound - highest <= 1e-9 * scale
        bounds = [global_upper_bound(RELU, x, c, nodes=nodes) for nodes in (1, 30, 300)]
        assert (np.diff(bounds) <= 0.0).all() and bounds[-1] >= highest and bounds[0] > 1.1 * bound


@pytest.mark.parametrize("p, n", [(4, 25), (5, 14)])
def test_a_margin_is_proved_by_all_cells(p, n, rng):
    x, y = with_bias(n, p, rng), rng.choice([-1.0, 1.0], size=n)
    found, patterns = max_margin(hkflow.Objective(RELU, RISK, x, y), BOTH), cells(x)
    assert found.certified and found.reached and found.lower > 0.0
    highest = max(highest_of_cells(x, sign * found.dual * y, patterns) for sign in BOTH)
    atoms, weights = found.atoms.positions, found.atoms.signs * found.atoms.weights
    margins = y * (np.maximum(x @ atoms.T, 0.0) @ weights) / found.atoms.weights.sum()
    assert margins.min() * (1.0 - 1e-9) <= found.lower <= highest <= found.upper
    assert found.upper <= highest * (1.0 + 1e-6)
    few = enclosed_max_margin(hkflow.Objective(RELU, RISK, x, y), BOTH, nodes=50)
    assert few.certified and not few.reached and few.lower <= found.upper <= few.upper < 1.0


@pytest.mark.parametrize("p", [2, 4])
def test_a_programme_that_cannot_be_solved_leaves_what_is_known(p, rng, monkeypatch):
    """The first programmes make an interval, in which the max-margin lies, and a measure."""
    x, y = rng.normal(size=(12, p)), rng.choice([-1.0, 1.0], 12)
    objective, honest, calls = hkflow.Objective(RELU, RISK, x, y), column_generation.l1_margin, []
    whole = enclosed_max_margin(objective, BOTH, 1e-6)

    def gives_up(z, seconds):
        calls.append(len(z))
        if len(calls) > allowed:
            raise hkflow.HkflowError("The HiGHS status code was not recognized.")
        return honest(z, seconds)

    monkeypatch.setattr(column_generation, "l1_margin", gives_up)
    allowed = 1
    found = enclosed_max_margin(objective, BOTH, 1e-6)
    assert found.lower <= whole.upper and whole.lower <= found.upper and found.atoms.mass > 0.0
    assert found.rounds == 1 < whole.rounds
    allowed, calls = 0, []
    with pytest.raises(hkflow.HkflowError, match="not recognized"):
        enclosed_max_margin(objective, BOTH, 1e-6)


@pytest.mark.parametrize("d", [3, 4, 5])
def test_xor_has_a_known_margin(d, rng):
    """Labels x₁x₂ on the corners of a square with bias: by symmetry p = 1/4, and the highest point
    is θ = ±(1, ±1, 0)/√2, at √2/4. Three bits: p = 1/8 and ±(1, ±1, ±1, ±1)/2, at 1/8."""
    corners = np.array(list(product((-1.0, 1.0), repeat=2)))
    x = rotated(np.column_stack([corners, np.ones(4)]), d + 1, rng)
    found = max_margin(hkflow.Objective(RELU, RISK, x, corners.prod(axis=1)), BOTH)
    assert found.certified and found.lower <= np.sqrt(2.0) / 4.0 + 1e-15
    assert found.upper == pytest.approx(np.sqrt(2.0) / 4.0, rel=2e-6) and found.reached
    corners = np.array(list(product((-1.0, 1.0), repeat=3)))
    x = rotated(np.column_stack([corners, np.ones(8)]), d + 1, rng)
    found = max_margin(hkflow.Objective(RELU, RISK, x, corners.prod(axis=1)), BOTH)
    assert found.upper == pytest.approx(0.125, rel=2e-6) and found.reached


@pytest.mark.parametrize("p", [4, 6])
def test_degenerate_data_have_the_bound_of_their_subspace(p, rng):
    """Parallel, opposite and repeated data and zeros on S², whose bound is that of another code."""
    lattice = np.array([(a, b, 1.0) for a in range(-2, 3) for b in range(-2, 3)])
    axes = np.vstack([np.eye(3), -np.eye(3), 2.0 * np.eye(3), np.zeros((1, 3))])
    for x in (lattice, axes):
        for c in (rng.normal(size=len(x)), np.ones(len(x)), np.sign(x[:, 0] * x[:, 1] + 0.1)):
            wanted = max(global_upper_bound(RELU, x, c / len(x)), 0.0)
            found = global_upper_bound(RELU, rotated(x, p, rng), c / len(x), nodes=MANY)
            assert found == pytest.approx(wanted, rel=1e-8, abs=1e-8)
    assert global_upper_bound(RELU, np.zeros((3, p)), np.ones(3)) == 0.0
    assert 0.0 <= global_upper_bound(RELU, rotated(lattice, p, rng), -np.ones(25)) < 1e-9


def test_points_above_enough_are_found(rng):
    x, c = with_bias(30, 4, rng), rng.normal(size=30) / 30.0
    bound, points, signs = enclose(RELU, x, c, BOTH, MANY, 1e-3)
    values = signs * (np.maximum(points @ x.T, 0.0) @ c)
    assert len(points) > 1 and (values > 1e-3).all()
    assert np.linalg.norm(points, axis=1) == pytest.approx(1.0, rel=1e-14)
    assert values.max() <= bound and values.max() == pytest.approx(bound, rel=1e-6)
    bound, points, _ = enclose(RELU, x, c, BOTH, MANY, 1.01 * bound)
    assert len(points) == 0
    joint = hkflow.FEATURES["joint-relu"]  # half of it
    assert global_upper_bound(joint, x, c, nodes=MANY) == pytest.approx(bound / 2.02, rel=1e-2)


def test_cones_that_are_looked_at_together_prove_more_on_any_number_of_threads(rng):
    """The same bits on one thread and two; lower than the bound of those looked at one by one, and
    above all values that climbs reach."""
    x, c = with_bias(60, 8, rng), rng.normal(size=60) / 60.0
    alone, found = global_upper_bound(RELU, x, c, nodes=cones.ALONE), []
    for threads in {1, numba.config.NUMBA_NUM_THREADS}:
        numba.set_num_threads(threads)
        found.append(global_upper_bound(RELU, x, c, nodes=cones.ALONE + 3000))
    highest = local_maxima(RELU, x, c).values[0]
    assert len(set(found)) == 1 and 0.0 < highest <= found[0] < alone


# --- siblings


def test_sibling_without_undecided_data_there_is_no_bound(rng, monkeypatch):
    """A bound that forgets data whose sign changes on a cone lies below the maximum."""
    honest, x = cones._bound, with_bias(12, 4, rng)

    def forgetful(x, c, linear, V, enough, theta, cut, scratch):
        products = x @ V.T
        decided = ~((products > 1e-9).any(axis=1) & (products < -1e-9).any(axis=1))
        scratch = cones._scratch(decided.sum(), len(V))
        return honest(x[decided], c[decided], linear, V, enough, theta, cut, scratch)

    patterns, below = cells(x), 0
    for broken in (False, True):
        if broken:
            monkeypatch.setattr(cones, "_search", cones._search.py_func)
            monkeypatch.setattr(cones, "_look", cones._look.py_func)
            monkeypatch.setattr(cones, "_bound", forgetful)
        for sign in BOTH:
            c = sign * np.where(np.arange(12) % 3, 1.0, -1.0)
            below += global_upper_bound(RELU, x, c, nodes=200) < highest_of_cells(x, c, patterns)
        assert (below > 0) == broken
