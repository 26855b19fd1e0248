"""Distances between measures, against linear programmes, closed forms and an independent
minimisation."""

import numpy as np
import pytest
from scipy.optimize import linprog, minimize
from scipy.special import rel_entr

import hkflow
from hkflow.geometry import sphere
from hkflow.measures import distances as metrics
from hkflow.measures import ghk

ot = pytest.importorskip("ot")


def points(rng, n, dim=2, spread=1.0):
    return np.eye(1, dim + 1) + spread * rng.normal(size=(n, dim + 1))


def signed(rng, n, dim=2, mass=1.0):
    """Atoms of both signs with uneven weights."""
    return hkflow.PointMeasure(
        points(rng, n, dim), rng.choice([1.0, -1.0], size=n), mass * rng.dirichlet(np.full(n, 0.5))
    )


def rotated(atoms, angle):
    """The same atoms turned in the plane of the first two axes."""
    turn = np.eye(atoms.positions.shape[1])
    turn[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    return hkflow.PointMeasure(atoms.positions @ turn.T, atoms.signs, atoms.weights)


def transport_cost(cost, p, q):
    """The optimal balanced cost, by linear programming."""
    n, m = cost.shape
    rows, columns = np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))
    return linprog(
        cost.ravel(), A_eq=np.vstack([rows, columns])[:-1], b_eq=np.concatenate([p, q])[:-1]
    ).fun


def by_sheets(a, b, power):
    """Σ_ε c_ε cost(a_ε/|a_ε|, b_ε/|b_ε|) from the definition, c_ε the mean mass of the sheets by
    the mean mass of all."""
    total = 0.0
    for sign in (1.0, -1.0):
        (x, p), (y, q) = a.sheet(sign), b.sheet(sign)
        cost = sphere.distance(x[:, None], y) ** power
        total += 0.5 * (p.sum() + q.sum()) * transport_cost(cost, p / p.sum(), q / q.sum())
    return total / (0.5 * (a.mass + b.mass))


@pytest.mark.parametrize("seed", range(8))
def test_wasserstein_distances_solve_their_linear_programmes(seed):
    rng = np.random.default_rng(seed)
    a, b = signed(rng, 14, dim=1), signed(rng, 19, dim=1, mass=2.5)
    assert metrics.wasserstein1(a, b) == pytest.approx((by_sheets(a, b, 1), 0.0), rel=1e-9)
    assert metrics.wasserstein2(a, b) == pytest.approx((by_sheets(a, b, 2) ** 0.5, 0.0), rel=1e-9)
    # the two are told apart
    assert abs(metrics.wasserstein1(a, b).value - by_sheets(a, b, 2) ** 0.5) > 1e-3
    c, d = signed(rng, 14, dim=3), signed(rng, 19, dim=3)
    assert metrics.wasserstein2(c, d) == pytest.approx((by_sheets(c, d, 2) ** 0.5, 0.0), rel=1e-9)


def test_wasserstein1_on_the_circle_agrees_with_pot_and_goes_round(rng):
    x, y, p, q = (
        rng.uniform(-4, 4, 500),
        rng.uniform(0, 5, 400),
        rng.dirichlet(np.ones(500)),
        rng.dirichlet(np.ones(400)),
    )
    wanted = 2 * np.pi * ot.wasserstein_circle(x / (2 * np.pi), y / (2 * np.pi), p, q)[0]
    assert metrics.circle_wasserstein1(x, p, y, q) == pytest.approx(wanted, rel=1e-10)
    one = np.ones(1)
    assert metrics.circle_wasserstein1(
        np.array([3.0]), one, np.array([-3.0]), one
    ) == pytest.approx(2 * np.pi - 6.0, rel=1e-12)


def test_wasserstein1_is_one_of_the_circle():
    """Of S² it was that of two of three coordinates."""
    a = hkflow.PointMeasure(hkflow.quasi_uniform(4, 2))
    with pytest.raises(ValueError, match="on the circle, got positions of 3 and 3 coordinates"):
        metrics.wasserstein1(a, a)


@pytest.mark.parametrize("dim", [1, 2])
def test_a_shift_is_seen_and_nothing_else(rng, dim):
    a = hkflow.PointMeasure(points(rng, 300, dim, 0.2))
    for measure in (metrics.wasserstein2, metrics.gaussian_hellinger_kantorovich) + (
        metrics.wasserstein1,
    ) * (dim == 1):
        itself, shifted = measure(a, a), measure(a, rotated(a, 1e-3))
        assert itself.value < 1e-7 and itself.bar < 1e-5
        assert 5e-4 < shifted.value < 1.001e-3 and shifted.bar < 1e-5
        if dim == 1:
            assert shifted.value == pytest.approx(1e-3, rel=1e-4)
    heavier = a.scaled_to(1.21)
    assert metrics.wasserstein2(a, heavier).value < 1e-7
    # √1.21 − √1
    assert metrics.gaussian_hellinger_kantorovich(a, heavier).value == pytest.approx(0.1, rel=1e-6)


def test_signs_are_kept_apart(rng):
    a = signed(rng, 40)
    b = hkflow.PointMeasure(a.positions, -a.signs, a.weights)
    assert (
        metrics.wasserstein2(a, b).value > 0.1
        and metrics.gaussian_hellinger_kantorovich(a, b).value > 0.1
    )
    plus = hkflow.PointMeasure(a.positions, None, a.weights)
    assert np.isnan(metrics.wasserstein2(a, plus)).all()
    half = a.scaled_to(0.5)
    far = hkflow.PointMeasure([[1.0, 0.0, 0.0]], [-1.0], [0.5])
    near = hkflow.PointMeasure([[1.0, 0.0, 0.0]], [1.0], [0.3])
    # no plan joins them
    assert metrics.gaussian_hellinger_kantorovich(near, far).value ** 2 == pytest.approx(
        0.8, rel=1e-12
    )
    assert metrics.gaussian_hellinger_kantorovich(half, half).value < 1e-6


@pytest.mark.parametrize("mass", [1e-3, 1.0, 40.0])
@pytest.mark.parametrize("angle", [0.0, 0.01, 1.0, np.pi])
def test_ghk_between_two_atoms_has_its_closed_form(mass, angle):
    a, b = (
        hkflow.PointMeasure([[1.0, 0.0]], None, [mass]),
        hkflow.PointMeasure([[np.cos(angle), np.sin(angle)]], None, [2.0]),
    )
    wanted = mass + 2.0 - 2.0 * np.sqrt(2.0 * mass) * np.exp(-0.5 * angle**2)
    assert metrics.gaussian_hellinger_kantorovich(a, b).value ** 2 == pytest.approx(
        wanted, abs=1e-12 * (mass + 2.0)
    )


@pytest.mark.parametrize("angle", [1e-6, 1e-4, 0.01])
def test_ghk_of_near_atoms_is_off_by_no_more_than_its_bar(angle):
    a, b = hkflow.PointMeasure([[1.0, 0.0]]), hkflow.PointMeasure([[np.cos(angle), np.sin(angle)]])
    value, bar = metrics.gaussian_hellinger_kantorovich(a, b)
    assert abs(value - np.sqrt(-2.0 * np.expm1(-0.5 * angle**2))) <= bar < 1e-6


@pytest.mark.parametrize("mass", [1e-250, 1e250])
def test_ghk_of_masses_whose_products_are_no_numbers(mass, rng):
    """GHK(m a, m b) = √m GHK(a, b)."""
    one, other = (
        (sphere.normalize(points(rng, 20)), None, rng.dirichlet(np.ones(20))) for _ in range(2)
    )
    far = metrics.gaussian_hellinger_kantorovich(
        *(hkflow.PointMeasure(x, s, mass * w) for x, s, w in (one, other))
    )
    near = metrics.gaussian_hellinger_kantorovich(
        *(hkflow.PointMeasure(x, s, w) for x, s, w in (one, other))
    )
    assert far.value == pytest.approx(np.sqrt(mass) * near.value, rel=1e-9)


def primal(plan, cost, a, b):
    p, q = plan.sum(axis=1), plan.sum(axis=0)
    return np.sum(cost * plan) + np.sum(rel_entr(p, a) - p + a) + np.sum(rel_entr(q, b) - q + b)


@pytest.mark.parametrize("seed", range(4))
def test_ghk_bounds_hold_against_an_independent_minimisation(seed):
    rng = np.random.default_rng(seed)
    x, y = points(rng, 4), points(rng, 5)
    cost, a, b = (
        metrics.distances(sphere.normalize(x), sphere.normalize(y)) ** 2,
        rng.dirichlet(np.ones(4)),
        2 * rng.dirichlet(np.ones(5)),
    )
    lower, upper = ghk.ghk_bounds(cost, a, b)

    def value_and_slope(roots):
        plan = roots.reshape(4, 5) ** 2
        slope = cost + np.log(plan.sum(axis=1) / a)[:, None] + np.log(plan.sum(axis=0) / b)
        return primal(plan, cost, a, b), (2.0 * roots.reshape(4, 5) * slope).ravel()

    start = np.sqrt(np.outer(a, b)).ravel()
    found = minimize(value_and_slope, start, jac=True, method="BFGS", options={"gtol": 1e-9}).fun
    assert 0.0 < upper - lower < 4e-12
    assert found == pytest.approx(lower, rel=1e-7) and lower <= found + 1e-12
    assert value_and_slope(start)[0] > 1.001 * upper  # a plan that is not optimal is worse


def test_ghk_bounds_meet_pot_and_bear_tiny_and_uneven_masses(rng):
    for size, lightest, ratio in ((60, 0, 1.0), (40, -15, 1e-6), (50, -5, 1e6)):
        x, y = sphere.normalize(points(rng, size)), sphere.normalize(points(rng, size + 3))
        cost, a, b = (
            metrics.distances(x, y) ** 2,
            10.0 ** rng.uniform(lightest, 0, size),
            ratio * rng.dirichlet(np.ones(size + 3)),
        )
        lower, upper = ghk.ghk_bounds(cost, a, b)
        assert upper - lower < 1e-11 * (a.sum() + b.sum())
        if ratio == 1.0:
            plan = ot.unbalanced.mm_unbalanced(a, b, cost, 1.0, numItermax=3000)
            assert lower <= primal(plan, cost, a, b) < lower * (1 + 1e-3)
    assert ghk.ghk_bounds(np.zeros((0, 2)), np.zeros(0), np.array([1.0, 0.5])) == pytest.approx(
        (1.5, 1.5), rel=1e-15
    )


def test_ghk_between_an_atom_and_many_of_very_uneven_masses_has_its_closed_form(rng):
    """|a| + |b| − 2 (|a| Σ b_j e^{−d_j²})^½: first steps went to potentials of 1e10 and left no
    digits of the slacks."""
    for _ in range(300):
        n = rng.integers(2, 40)
        cost, b = rng.uniform(0.0, np.pi**2, (1, n)), rng.random(n) ** rng.integers(0, 12)
        b = np.maximum(b * 10.0 ** rng.integers(-9, 1, n), 1e-15 * b.max())
        lower, upper = ghk.ghk_bounds(cost, np.ones(1), b)
        wanted = 1.0 + b.sum() - 2.0 * np.sqrt(b @ np.exp(-cost[0]))
        assert lower <= wanted <= upper < lower + 2e-12 * (1.0 + b.sum())


@pytest.mark.parametrize("size", [1, 2, 5, 30, 31])
def test_the_factor_is_that_of_the_complement(rng, size):
    z, diagonal = rng.normal(size=(size, 20)), rng.uniform(120, 150, size)
    out, right = np.zeros((size, size)), rng.normal(size=size)
    ghk.complement_factor(z, diagonal, out)
    complement = np.diag(diagonal) - z @ z.T
    assert np.abs(out - np.linalg.cholesky(complement)).max() < 1e-12
    assert complement @ ghk.solved(out, right) == pytest.approx(right, abs=1e-12)


def test_a_factor_that_rounding_has_eaten_up_is_finite(rng):
    z, diagonal, out = rng.normal(size=(30, 20)), rng.uniform(120, 150, 30), np.zeros((30, 30))
    z[0], diagonal[0] = 0.0, 0.0
    z[1, 0], diagonal[1] = 100.0, 1.0  # not positive definite: no nan
    ghk.complement_factor(z[1:], diagonal[1:], out[1:, 1:])
    assert np.isfinite(out[1, 1]) and out[1, 1] > 0.0


@pytest.mark.parametrize("shape", [(1, 1), (7, 6), (23, 10)])
def test_a_step_of_the_bounds_solves_the_linearised_conditions(shape, rng):
    """The loops against the same formulas on whole arrays."""
    n, m = shape
    plan, slack, cost, a, b = (rng.uniform(0.5, 2.0, s) for s in (shape, shape, shape, n, m))
    f, g, t = rng.normal(size=n), rng.normal(size=m), 0.3
    carried, gap, rows, columns = ghk.marginals(cost, plan, slack)
    assert (carried, gap) == pytest.approx((np.sum(cost * plan), np.sum(plan * slack)), rel=1e-13)
    assert rows == pytest.approx(plan.sum(axis=1), rel=1e-13)
    assert columns == pytest.approx(plan.sum(axis=0), rel=1e-13)
    solve, wanted = ghk._newton(plan, slack, f, g, a, b, rows, columns), np.zeros(shape)
    target = 0.0
    for _ in "predictor", "corrector":
        df, dg = solve(wanted.sum(axis=1), wanted.sum(axis=0))
        opening = df[:, None] + dg
        change = (target - plan * slack + plan * opening) / slack
        # log π₁ = log a − f and log π₂ = log b − g, to first order
        assert np.log(rows / a) + change.sum(axis=1) / rows == pytest.approx(-f - df, abs=1e-11)
        assert np.log(columns / b) + change.sum(axis=0) / columns == pytest.approx(
            -g - dg, abs=1e-11
        )
        shares = np.max(-change / plan), np.max(opening / slack)
        assert ghk.extremes(plan, slack, wanted, df, dg) == pytest.approx(shares, rel=1e-12)
        if not np.any(target):
            left = np.sum((plan + t * change) * (slack - t * opening))
            got = ghk.complementarity(plan, slack, df, dg, t)
            assert got == pytest.approx(left, rel=1e-12)
            target = 0.1 + change * opening
            sums = ghk.targets(plan, slack, df, dg, 0.1, wanted)
            assert wanted == pytest.approx(target / slack, rel=1e-12)
            assert sums[0] == pytest.approx(wanted.sum(axis=1), rel=1e-12)
            assert sums[1] == pytest.approx(wanted.sum(axis=0), rel=1e-12)
    moved = plan + t * change, slack - t * opening
    ghk.move(plan, slack, wanted, df, dg, t)
    assert plan == pytest.approx(moved[0], rel=1e-12)
    assert slack == pytest.approx(moved[1], rel=1e-12)


def test_distances_are_accurate_when_near_and_when_opposite():
    x = np.array([[1.0, 0.0, 0.0]])
    y = np.array([[np.cos(t), np.sin(t), 0.0] for t in (1e-9, 1.0, np.pi - 1e-9)])
    assert metrics.distances(x, y)[0] == pytest.approx([1e-9, 1.0, np.pi - 1e-9], rel=1e-12)
    assert metrics.distances(x, y) == pytest.approx(sphere.distance(x[:, None], y), rel=1e-12)


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_quantisation_errs_by_less_than_its_bar(dim):
    rng = np.random.default_rng(dim)
    a, b = signed(rng, 250, dim), rotated(signed(rng, 300, dim, mass=1.7), 0.2)
    for measure in (metrics.wasserstein2, metrics.gaussian_hellinger_kantorovich):
        exact = measure(a, b, atoms=1000)
        bars = []
        for atoms in (15, 60):
            got = measure(a, b, atoms=atoms)
            assert abs(got.value - exact.value) <= got.bar + exact.bar
            assert got.value != pytest.approx(exact.value, rel=1e-6)  # something was gathered
            assert measure(b, a, atoms=atoms).value == pytest.approx(got.value, rel=1e-6)
            bars.append(got.bar)
        assert exact.bar < 1e-9 and bars[1] < 0.75 * bars[0] and bars[1] < 1.5


def test_gathered_sheets_keep_mass_and_mean_direction(rng):
    a, b = (points(rng, 900), rng.uniform(size=900)), (points(rng, 40), rng.uniform(size=40))
    a, b = ((sphere.normalize(x), p) for x, p in (a, b))
    (x, p, moved), (y, q, stayed) = metrics.quantised(a, b, 60)
    assert 50 <= len(p) <= 60 and p.sum() == pytest.approx(a[1].sum(), rel=1e-12)
    assert np.linalg.norm(x, axis=1) == pytest.approx(1.0, rel=1e-12)
    assert np.linalg.norm(p @ x - a[1] @ a[0]) < moved * p.sum()
    assert np.array_equal(y, b[0]) and np.array_equal(q, b[1]) and stayed == 0.0
    assert transport_cost(metrics.distances(x, y) ** 2, p / p.sum(), q / q.sum()) > 0.0
    random = a[0][rng.choice(900, 60)]
    assert moved < np.average(metrics.distances(a[0], random).min(axis=1) ** 2, weights=a[1])
    opposite = (np.array([[1.0, 0.0], [-1.0, 0.0]]), np.ones(2))
    x, p, moved = metrics.quantised(opposite, opposite, 1)[0]
    assert (
        np.linalg.norm(x) == pytest.approx(1.0)
        and p.tolist() == [2.0]
        and moved == pytest.approx(0.5 * np.pi**2)
    )


def test_systematic_draws_follow_the_weights(rng):
    weights = rng.dirichlet(np.ones(50))
    counts = np.mean(
        [np.bincount(metrics.systematic_draw(rng, weights, 200), minlength=50) for _ in range(300)],
        axis=0,
    )
    assert np.abs(counts - 200 * weights).max() < 0.2
    assert len(set(metrics.systematic_draw(rng, np.ones(100), 60).tolist())) == 60
