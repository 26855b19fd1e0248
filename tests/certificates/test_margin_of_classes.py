"""Max-margins of units with an output for each class, against linear programmes on dense units,
those of two classes, and all cells of the arrangement."""

import numpy as np
import pytest
from brute_force import largest_norm
from scipy.optimize import linprog

import hkflow
from hkflow.certificates import cones
from hkflow.certificates.column_generation import (
    enclosed_max_margin,
    max_margin,
    max_margin_of_atoms,
)
from hkflow.certificates.global_upper_bound import enclose, global_upper_bound
from hkflow.certificates.search import local_maxima
from hkflow.geometry.sphere import normalize

MANY = 10**6


def relu(s):
    return np.maximum(s, 0.0)


def linear(s):
    return s


def objective(x, y, k, activation="relu", **options):
    return hkflow.Objective(hkflow.vector_feature(activation, k), hkflow.SOFTMAX, x, y, **options)


def clusters(n, p, k, rng):
    """n data around k points of R^p, and their classes."""
    y = np.arange(n) % k
    centers = np.column_stack([np.cos(2.0 * np.pi * y / k), np.sin(2.0 * np.pi * y / k)])
    return 0.3 * rng.normal(size=(n, p)) + np.pad(centers, ((0, 0), (0, p - 2))), y


def sums(c, x, points, k):
    """|Σ_i c_i (a·x_i)₊| at points a (m, p), c datum by datum."""
    return np.linalg.norm(relu(points @ x.T) @ c.reshape(-1, k), axis=1)


def coefficients(dual, y):
    """Σ_l p_il (e_{y_i} − e_l), (n, k), of weights p that are 0 at the own class."""
    c = -dual
    c[np.arange(len(y)), y] = dual.sum(axis=1)
    return c


@pytest.mark.parametrize("p, n, k", [(1, 6, 3), (2, 14, 3), (3, 10, 2), (3, 10, 4), (4, 7, 3)])
def test_the_bound_is_the_largest_norm_over_all_cells(p, n, k, rng):
    for centred in (True, False):
        x, c = rng.normal(size=(n, p)), rng.normal(size=(n, k))
        c -= centred * c.mean(axis=1, keepdims=True)
        scale = np.linalg.norm(c, axis=1) @ np.linalg.norm(x, axis=1)
        highest, feature = 0.5 * largest_norm(x, c), hkflow.vector_feature("relu", k)
        bound = global_upper_bound(feature, x, c.ravel(), nodes=MANY)
        assert 0.0 <= bound - highest <= 1e-9 * scale
        bounds = [global_upper_bound(feature, x, c.ravel(), nodes=m) for m in (1, 10, 30, 100)]
        assert (np.diff(bounds) <= 0.0).all() and bounds[-1] >= highest
        assert p == 1 or bounds[0] == pytest.approx(0.5 * scale, rel=1e-9)
        # climbs know the same point here, and branch and bound gathers it from half as high
        found = local_maxima(feature, x, c.ravel())
        assert not found.certified and found.values[0] == pytest.approx(highest, rel=1e-9)
        _, points, _ = enclose(feature, x, c.ravel(), (1,), MANY, 0.5 * highest)
        values = c.ravel() @ feature.matrix(points, x)
        assert values.max() == pytest.approx(highest, rel=1e-9)
        assert np.linalg.norm(points, axis=1) == pytest.approx(1.0, rel=1e-12)


def test_data_on_one_line_act_as_one(rng):
    x, c = rng.normal(size=(9, 3)), rng.normal(size=(9, 3))
    feature, along = hkflow.vector_feature("relu", 3), np.array([-2.0, 3.0, -0.5])
    more, weights = np.vstack([x, along[:, None] * x[:3]]), np.vstack([c, rng.normal(size=(3, 3))])
    bound = global_upper_bound(feature, more, weights.ravel(), nodes=MANY)
    dense = np.concatenate([hkflow.quasi_uniform(200_000, 2), normalize(x), -normalize(x)])
    highest = 0.5 * sums(weights, more, dense, 3).max()
    assert highest <= bound <= highest * (1.0 + 1e-3)


def test_a_cone_needs_what_the_sum_turns_by(rng, monkeypatch):
    """No value on a cone exceeds its bound, with many kinks and few; without |P V| some do."""

    def bounds():
        found = []
        for x, c, V in drawn:
            theta, cut = np.empty(4), np.empty(3)
            data = x, c, np.zeros((3, 4)), V, 0.0, theta, cut, cones._scratch(len(x), 4)
            found.append(cones._bound_of_norm.py_func(*data))
        return np.array(found)

    drawn, highest = [], []
    for cuts in (0, 1, 2, 4, 8, 16, 24) * 6:
        x, c = normalize(rng.normal(size=(8, 4))), rng.normal(size=(8, 3))
        V = cones.cover(4)[0]
        for child in rng.integers(2, size=cuts):
            half, edge = np.empty((4, 4)), rng.choice(4, 2, replace=False)
            cones._halve(V, np.array([*edge, rng.uniform(0.1, 0.9)]), child, half)
            V = half
        inside = normalize(rng.dirichlet(np.full(4, 0.3), size=4000) @ V)
        drawn.append((x, c, V))
        highest.append(sums(c, x, inside, 3).max())
    assert (bounds() >= np.array(highest) * (1.0 - 1e-12)).all()
    monkeypatch.setattr(cones, "_across", lambda v, u: 0.0)
    assert (bounds() < np.array(highest) * (1.0 - 1e-9)).any()


@pytest.mark.parametrize("p", [2, 3, 4])
def test_two_classes_have_the_margin_of_one_output_times_the_root_of_two(p, rng):
    """b = (β, −β)/√2 makes the lead √2 β (a·x)₊ of a unit (a, β)."""
    x, y = clusters(20, p, 2, rng)
    one = hkflow.Objective(
        hkflow.FEATURES["joint-relu"], hkflow.RISKS["smooth-margin"], x, 2.0 * y - 1.0
    )
    found, joint = max_margin(objective(x, y, 2)), max_margin(one)
    assert found.certified and found.reached and joint.lower > 0.01
    assert np.sqrt(2.0) * joint.lower <= found.upper * (1.0 + 1e-12)
    assert found.lower <= np.sqrt(2.0) * joint.upper * (1.0 + 1e-12)
    assert found.relative_gap <= 1e-6


@pytest.mark.parametrize("psi", [relu, linear])
def test_the_interval_holds_the_value_of_a_programme_on_dense_units(psi, rng):
    """Of three classes, whose b lie on a circle: the programme's value is a lower bound of γ*, and
    its p makes an upper one."""
    x, y = clusters(12, 2, 3, rng)
    found = max_margin(objective(x, y, 3, psi.__name__))
    angles = 2.0 * np.pi * np.arange(360) / 360
    a = np.column_stack([np.cos(angles), np.sin(angles)])
    plane = np.linalg.svd(np.ones((1, 3)))[2][1:]
    b = a[::3] @ plane
    h = 0.5 * psi(x @ a.T)[:, :, None, None] * b  # (n, a, b, class) of units of length one
    own = np.take_along_axis(h, y[:, None, None, None], axis=3)
    z = np.moveaxis(own - h, 3, 1)[np.arange(3) != y[:, None]].reshape(24, -1)
    m = z.shape[1]
    solved = linprog(
        np.append(np.zeros(m), -1.0),
        A_ub=np.column_stack([-z, np.ones(24)]),
        b_ub=np.zeros(24),
        A_eq=np.append(np.ones(m), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0.0, None)] * m + [(None, None)],
    )
    p = np.zeros((12, 3))
    p[np.arange(3) != y[:, None]] = -solved.ineqlin.marginals
    fine = 2.0 * np.pi * np.arange(100_000) / 100_000
    V = psi(np.column_stack([np.cos(fine), np.sin(fine)]) @ x.T) @ coefficients(p, y)
    low, high = -solved.fun, 0.5 * np.linalg.norm(V, axis=1).max() / p.sum() * (1.0 + 1e-6)
    assert 0.1 < low <= high < 1.001 * low
    assert found.certified and found.reached
    assert low <= found.upper and found.lower <= high
    assert found.upper - found.lower <= 1e-6 * found.lower


@pytest.mark.parametrize("p, k, n", [(2, 3, 15), (3, 3, 30), (3, 5, 25), (4, 3, 20)])
def test_what_is_said_of_a_margin_is_so(p, k, n, rng):
    x, y = clusters(n, p, k, rng)
    found = max_margin(objective(x, y, k))
    a, b = found.atoms.positions[:, :p], found.atoms.positions[:, p:]
    h = relu(x @ a.T) @ (found.atoms.weights[:, None] * b)
    others = np.arange(k) != y[:, None]
    leads = (h[np.arange(n), y][:, None] - h)[others]
    assert np.linalg.norm(found.atoms.positions, axis=1) == pytest.approx(1.0, rel=1e-12)
    assert found.atoms.mass == pytest.approx(1.0, rel=1e-12) and len(found.atoms) <= len(leads) + 1
    assert found.lower == pytest.approx(leads.min(), rel=1e-9) and found.lower > 1e-3
    assert found.dual.shape == (n, k) and not found.dual[~others].any()
    assert found.dual.sum() == pytest.approx(1.0, rel=1e-12) and (found.dual >= 0.0).all()
    dense = hkflow.quasi_uniform(50_000, p - 1)
    highest = 0.5 * sums(coefficients(found.dual, y), x, dense, k).max()
    assert highest <= found.upper <= highest * (1.0 + 1e-2)
    assert found.certified and found.upper <= found.lower * (1.0 + 1e-6)
    assert found.slackness.sum() == pytest.approx(found.upper - found.lower, abs=1e-12)
    assert found.support.tolist() == np.flatnonzero(found.dual.sum(axis=1)).tolist()
    few = enclosed_max_margin(objective(x, y, k), nodes=20)
    assert few.certified and few.lower <= found.upper and few.upper >= found.lower
    on_atoms = max_margin_of_atoms(objective(x, y, k), found.atoms.positions)
    assert on_atoms.lower == pytest.approx(found.lower, rel=1e-7)


def test_data_on_a_grid_are_enclosed():
    """Linear programmes with many optimal p, which jumped about until the solver failed."""
    x = np.array([(i, j, 1.0) for i in range(4) for j in range(4)])
    found = max_margin(objective(x, np.arange(16) % 4, 4))
    assert found.reached and found.lower > 0.05


def test_one_input_in_two_classes_leaves_no_margin(rng):
    """Unless it does not count."""
    x, y = clusters(12, 2, 3, rng)
    x[1], weights = 2.0 * x[0], np.ones(12)
    found = max_margin(objective(x, y, 3, weights=weights))
    assert found.certified and found.is_none and found.support.tolist() == [0, 1]
    assert "rows 1 and 2 of the data" in found.why_none
    weights[1] = 0.0
    without = max_margin(objective(np.delete(x, 1, axis=0), np.delete(y, 1), 3))
    found = max_margin(objective(x, y, 3, weights=weights))
    assert found.lower == pytest.approx(without.lower, rel=2e-6) and found.lower > 0.01
    assert found.dual.shape == (12, 3) and not found.dual[1].any()


def test_an_input_of_zero_leaves_no_margin(rng):
    x, y = clusters(9, 2, 3, rng)
    x[4] = 0.0
    found = max_margin(objective(x, np.ones(9), 3))
    assert found.is_none and abs(found.lower) <= found.resolution
    assert max_margin(objective(x, y, 3)).is_none
