"""What the papers prove about max-margins over the whole sphere, on data small enough to search for
counterexamples."""

from functools import cache

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from hkflow import FEATURES, RISKS, Objective, random_uniform
from hkflow.certificates.column_generation import max_margin, signed_features
from hkflow.certificates.fixed_points import l1_margin
from hkflow.objectives.data import cluster_grid, with_bias, xor

SIGNS = (1, -1)
LINE = np.array([-1.0, -0.35, 0.15, 0.6, 1.3]), np.array([1.0, -1.0, 1.0, -1.0, 1.0])
CORNERS = np.array([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]])


def an_objective(inputs, targets):
    return Objective(FEATURES["relu"], RISKS["smooth-margin"], inputs, targets)


@cache
def on_the_line():
    """Five inputs of alternating class in one dimension, with a bias, and their max-margin."""
    objective = an_objective(with_bias(LINE[0][:, None]), LINE[1])
    return objective, max_margin(objective, SIGNS)


def normalized_margin(objective, hidden, outputs):
    """min_i y_i f(x_i)/|Θ|² of the network f(x) = Σ_j outputs_j (hidden_j·x)₊."""
    f = np.maximum(objective.inputs @ hidden.T, 0.0) @ outputs
    return np.min(objective.targets * f) / (np.sum(hidden**2) + np.sum(outputs**2))


@cache
def best_network(m, each=50):
    """The largest normalised margin of m units, (that of a network, a bound that none exceeds).

    Between two neighbouring kinks the activation is linear, so units of one sign there are as good
    as their sum, one unit. A mixed-integer linear programme chooses m of these arcs and signs, and
    a measure on `each` directions of every arc; the bound adds what other directions can gain.
    """
    objective, _ = on_the_line()
    x, y = objective.inputs, objective.targets
    kinks = np.sort(np.arctan2(x[:, 0], -x[:, 1]) % np.pi)
    ends = np.concatenate([kinks, kinks + np.pi, [kinks[0] + 2.0 * np.pi]])
    angles = np.linspace(ends[:-1], ends[1:], each)
    directions = np.stack([np.cos(angles), np.sin(angles)], axis=-1)  # (each, arcs, 2)
    values = y * np.maximum(directions @ x.T, 0.0)
    values = np.stack([values, -values]).reshape(-1, len(y)).T  # (n, columns), of both signs
    columns, arcs = values.shape[1], 2 * angles.shape[1]
    arc = np.arange(arcs).reshape(2, 1, -1)
    lies_in = np.arange(arcs)[:, None] == np.broadcast_to(arc, (2, *angles.shape)).ravel()
    # unknowns: weights, whether an arc is chosen, margin
    within = np.hstack([lies_in, -np.eye(arcs), np.zeros((arcs, 1))])
    margins = np.hstack([values, np.zeros((len(y), arcs)), -np.ones((len(y), 1))])
    found = milp(
        np.append(np.zeros(columns + arcs), -1.0),
        integrality=np.repeat([0, 1, 0], [columns, arcs, 1]),
        bounds=Bounds(0.0, np.append(np.ones(columns + arcs), np.inf)),
        constraints=[
            LinearConstraint(margins, lb=0.0),
            LinearConstraint(within, ub=0.0),
            LinearConstraint(np.repeat([1.0, 0.0], [columns, arcs + 1]), 1.0, 1.0),
            LinearConstraint(np.repeat([0.0, 1.0, 0.0], [columns, arcs, 1]), ub=m),
        ],
    )
    weights = found.x[:columns].reshape(2, *angles.shape)
    units = np.einsum("sea,eai->sai", weights, directions).reshape(-1, 2)
    signs, norms = np.repeat([1.0, -1.0], arcs // 2), np.linalg.norm(units, axis=1)
    assert np.count_nonzero(norms > 1e-9) <= m
    roots = np.sqrt(np.maximum(norms, 1e-300))
    network = normalized_margin(objective, units / roots[:, None], signs * roots)
    gap = np.diff(ends).max() / (each - 1)
    return network, -0.5 * found.mip_dual_bound / np.cos(0.5 * gap)


def test_the_atoms_are_a_network_of_half_the_margin():
    """Wei et al., Theorem 3.3: γ_{*,m} = γ_ℓ1/2 for m ≥ n, by hidden weights √w_j θ_j and output
    weights ε_j √w_j."""
    objective, found = on_the_line()
    atoms = found.atoms
    assert found.certified and 0.0 < found.lower <= found.upper <= found.lower * (1.0 + 1e-6)
    assert len(atoms) <= len(objective.targets) + 1 and atoms.mass == pytest.approx(1.0, rel=1e-12)
    root = np.sqrt(atoms.weights)
    margin = normalized_margin(objective, root[:, None] * atoms.positions, atoms.signs * root)
    assert margin == pytest.approx(0.5 * found.lower, rel=1e-10)
    unbalanced = normalized_margin(
        objective, 2.0 * root[:, None] * atoms.positions, 0.5 * atoms.signs * root
    )
    # the same function, |Θ|² = 4 + ¼ instead of 2
    assert unbalanced == pytest.approx(margin / 2.125, rel=1e-10)


def test_no_network_is_better_than_half_the_margin():
    """Wei et al., Theorem 3.3, the other half."""
    _, found = on_the_line()
    network, bound = best_network(len(LINE[0]))
    assert network == pytest.approx(0.5 * found.lower, rel=1e-9) and bound >= network
    assert bound <= 0.5 * found.upper * (1.0 + 2e-4)


def test_the_best_margin_grows_with_width_to_half_the_margin():
    """Wei et al., Theorem 3.2: γ_{*,1} ≤ γ_{*,2} ≤ … ≤ γ_{*,n} = γ_ℓ1/2."""
    _, found = on_the_line()
    n = len(LINE[0])
    networks, bounds = np.transpose([best_network(m) for m in range(1, n + 1)]) / (
        0.5 * found.lower
    )
    print("margins of 1, 2, … units over γ_ℓ1/2:", np.round(networks, 6))
    assert (bounds - networks >= -1e-9).all() and (bounds - networks <= 2e-4).all()
    # four changes of sign: three units do not separate
    assert networks[: n - 2] == pytest.approx(np.zeros(n - 2), abs=1e-9)
    assert 0.5 < networks[n - 2] < 0.9 and networks[-1] == pytest.approx(1.0, rel=1e-9)
    assert len(found.atoms) <= n


def test_the_four_corners_of_xor_have_a_margin_of_root_two_over_four():
    """Wei et al., Lemma D.1. Its network uses ((±1, ±1)/√2), and p = ¼ on the corners shows that
    there is no better one:

    Σ p_i y_i (θ·x_i)₊ = (|θ_1 + θ_2| − |θ_1 − θ_2|)/4 ≤ min(|θ_1|, |θ_2|)/2 ≤ √2/4; a bias adds
    nothing.
    """
    value, y = np.sqrt(2.0) / 4.0, CORNERS.prod(axis=1)
    found = max_margin(an_objective(CORNERS, y), SIGNS)
    assert found.lower == pytest.approx(value, rel=1e-6) and found.upper == pytest.approx(
        value, rel=1e-6
    )
    assert found.dual == pytest.approx(np.full(4, 0.25), abs=1e-3)
    angle = np.linspace(0.0, 2.0 * np.pi, 1601)
    theta = np.column_stack([np.cos(angle), np.sin(angle)])
    assert (np.maximum(theta @ CORNERS.T, 0.0) @ y / 4.0).max() == pytest.approx(value, rel=1e-12)
    inputs, targets = xor(None)(np.random.default_rng(0), 40)
    assert len(np.unique(inputs, axis=0)) == 4
    assert max_margin(an_objective(inputs, targets), SIGNS).lower == pytest.approx(value, rel=1e-6)
    assert max_margin(an_objective(CORNERS[:3], y[:3]), SIGNS).lower > 1.01 * value


def xor_sample(dim, n):
    """The objective of n points of XOR in R^dim, and the margin of its four units alone with their
    best weights."""
    inputs, targets = xor(None, dim)(np.random.default_rng(5), n)
    objective, planted = an_objective(inputs, targets), np.zeros((4, dim))
    planted[:, :2] = CORNERS / np.sqrt(2.0)
    values = [
        l1_margin(signed_features(objective, planted, sign * CORNERS.prod(axis=1))).value
        for sign in (1, -1)
    ]
    return objective, planted, values


@pytest.mark.parametrize("n", [12, 30])
def test_xor_among_gaussians_keeps_its_margin(n):
    """γ_ℓ1 ≥ √2/4 on any sample (Lemma D.1), here no more: turning a unit towards e_3 costs at the
    kinks of the other class."""
    value = np.sqrt(2.0) / 4.0
    objective, _, alone = xor_sample(3, n)
    assert alone[0] == pytest.approx(value, rel=1e-9) and alone[1] < 0.0
    found = max_margin(objective, SIGNS)
    print(f"xor, d = 3, n = {n}: γ in [{found.lower:.7f}, {found.upper:.7f}], √2/4 = {value:.7f}")
    assert (
        found.certified
        and found.lower >= value * (1.0 - 1e-6)
        and found.upper == pytest.approx(value, rel=2e-6)
    )


def test_few_data_among_gaussians_have_a_greater_margin_than_xor():
    value = np.sqrt(2.0) / 4.0
    corners = np.column_stack([CORNERS, [1.0, -0.5, 0.7, -2.0]])
    assert max_margin(an_objective(corners, CORNERS.prod(axis=1)), SIGNS).lower > 1.01 * value
    objective, planted, alone = xor_sample(10, 8)
    others = random_uniform(np.random.default_rng(0), 2000, 9)
    points, signs = (
        np.vstack([planted, others, others]),
        np.concatenate([CORNERS.prod(axis=1), np.repeat(SIGNS, 2000)]),
    )
    more = l1_margin(signed_features(objective, points, signs)).value
    print(f"xor, d = 10, n = 8: four units {alone[0]:.6f}, with 2000 directions {more:.6f}")
    assert alone[0] == pytest.approx(value, rel=1e-9) and more > 1.01 * value


def test_random_features_reach_the_margin_of_the_sphere_from_below():
    """Cluster data of Chizat & Bach 2020, sec. 6: the margin on m random directions rises with m
    and never exceeds γ_ℓ1."""
    rng = np.random.default_rng(7)
    inputs, targets = cluster_grid(rng, dim=2, clusters=3)(rng, 40)
    objective = an_objective(with_bias(inputs), targets)
    found = max_margin(objective, SIGNS)
    assert found.certified
    widths, means, errors = [8, 32, 128, 512, 1024], [], []
    for m in widths:
        values = []
        for _ in range(12):
            points = random_uniform(rng, m, 2)
            both = np.vstack([points, points]), np.repeat(SIGNS, m)
            values.append(l1_margin(signed_features(objective, *both)).value)
        assert max(values) <= found.upper
        means.append(np.mean(values) / found.lower)
        errors.append(np.std(values) / found.lower / np.sqrt(len(values)))
    print(
        "margin on m random directions over γ_ℓ1:",
        dict(zip(widths, np.round(means, 4), strict=True)),
    )
    assert (np.diff(means) > -2.0 * np.hypot(errors[1:], errors[:-1])).all()
    assert means[0] < 0.5 and 0.9 < means[-1] < 1.0
    best = np.vstack([random_uniform(rng, 8, 2), found.atoms.positions])
    both = np.vstack([best, best]), np.repeat(SIGNS, len(best))
    assert l1_margin(signed_features(objective, *both)).value == pytest.approx(
        found.lower, rel=1e-6
    )
