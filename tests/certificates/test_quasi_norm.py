"""Stationary points of the quasi-norm max-margin problem, against brute force, local searches and
the ends of gradient flows."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import minimize
from scipy.special import softmax

from hkflow.certificates.diagonal_path import l1_margin_direction, path_point
from hkflow.certificates.quasi_norm import _measured, quasi_norm, stationary_points

STEADY = np.array([[1.0, 0.6, 0.3], [0.8, -0.4, 0.5], [2.0, 0.2, -0.1]])
UNIQUE = np.array([[0.5, 0.8, 0.5], [0.9, 0.2, -0.4], [1.5, 0.8, 0.3]])
MANY = np.array(
    [[0.9, 0.5, 0.7, 0.2], [0.4, 0.8, 0.3, 0.6], [0.6, 0.3, 0.9, 0.8], [0.2, 0.9, 0.5, 0.4]]
)
DATA = {"steady": STEADY, "unique": UNIQUE, "many": MANY}


def random_data(d, n, seed=3):
    """Standard normal inputs, the class by the sign of their sum; both classes occur."""
    x = np.random.default_rng(seed).normal(size=(n, d))
    y = np.sign(x.sum(axis=1))
    assert abs(y.sum()) < n
    return x, y


def unit(w):
    return w / np.linalg.norm(w)


def closest(points, w):
    return min(np.abs(unit(point.weights) - unit(w)).max() for point in points)


def optimality(w, A, depth, tight=1e-6):
    """How well the direction of w satisfies the conditions; a coordinate that only tends to zero is
    felt as u_k/max u, slower than w_k."""
    return _measured(A, w / np.min(A @ w), depth, tight)


def left_over(A, point, depth, exponent=None):
    """The stationarity of the w-form on the support, relative, written out for itself."""
    w, p = point.weights, 2.0 / depth
    alive = w != 0.0
    slopes = p * np.sign(w[alive]) * np.abs(w[alive]) ** (p - 1.0 if exponent is None else exponent)
    return np.abs(slopes - (point.multipliers @ A)[alive]).max() / np.abs(slopes).max()


@pytest.mark.parametrize("name", DATA)
def test_depth_two_is_the_l1_margin(name):
    A = DATA[name]
    (point,) = stationary_points(A, np.ones(len(A)), 2)
    assert point.weights == pytest.approx(
        l1_margin_direction(A, np.ones(len(A))), rel=1e-9, abs=1e-12
    )
    assert point.minimum and (np.abs(point.multipliers @ A) <= 1.0 + 1e-12).all()
    # the linear programme's dual
    assert point.multipliers.sum() == pytest.approx(point.value, rel=1e-12)
    deep = stationary_points(A, np.ones(len(A)), 3)
    loose = [
        optimality(other.weights, A, 2) for other in deep if closest([point], other.weights) > 1e-6
    ]
    assert (
        loose
        and min(other.residual for other in loose) > 1e-3
        and not any(other.minimum for other in loose)
    )


@pytest.mark.parametrize("depth", [2.5, 3, 10])
@pytest.mark.parametrize("name", DATA)
def test_points_meet_their_optimality_conditions(name, depth):
    A = DATA[name]
    points = stationary_points(A, np.ones(len(A)), depth)
    assert [p.value for p in points] == sorted(p.value for p in points) and points[0].minimum
    for point in points:
        assert point.residual <= 1e-11 and (point.multipliers >= 0.0).all()
        assert np.min(A @ point.weights) == pytest.approx(1.0, rel=1e-11)
        assert left_over(A, point, depth) < 1e-9
        assert point.value == pytest.approx(quasi_norm(point.weights, depth), rel=1e-14)
        # Euler: Σν = (2/D) Σ|w|^(2/D)
        assert point.multipliers.sum() * depth / 2.0 == pytest.approx(point.value, rel=1e-9)
        assert optimality(3.0 * point.weights, A, depth).residual <= 1e-11


def test_another_exponent_is_told_apart():
    points = [p for p in stationary_points(MANY, np.ones(4), 3) if np.count_nonzero(p.weights) > 1]
    assert len(points) > 5
    for point in points:
        assert (
            left_over(MANY, point, 3) < 1e-9
            and left_over(MANY, point, 3, exponent=2.0 / 3.0) > 1e-3
        )
    curved = [p for p in points if np.count_nonzero(p.weights) > np.count_nonzero(p.multipliers)]
    assert curved and min(optimality(p.weights, MANY, 4).residual for p in curved) > 1e-3


@pytest.mark.parametrize("name", ["steady", "unique"])
def test_the_first_is_the_least_of_all(name):
    """Every direction of a lattice on the cube's surface, coordinate planes and axes included, 6 ·
    121² or so."""
    A, depth = DATA[name], 3
    side = np.arange(-60, 61) / 60.0
    face = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    lattice = np.concatenate(
        [np.insert(face, axis, value, axis=1) for axis in range(3) for value in (-1.0, 1.0)]
    )
    margins = (lattice @ A.T).min(axis=1)
    values = quasi_norm(lattice[margins > 0.0] / margins[margins > 0.0][:, None], depth)
    first = stationary_points(A, np.ones(3), depth)[0]
    assert first.value <= values.min() * (1.0 + 1e-12)
    assert values.min() == pytest.approx(first.value, rel=0.01)


@pytest.mark.parametrize("name", DATA)
def test_minima_are_told_from_saddles_by_their_neighbours(name, rng):
    """A saddle falls to both sides along v, A_TS v = 0; a minimum has no lower neighbour in any
    direction."""
    A, kinds = DATA[name], set()
    for point in stationary_points(A, np.ones(len(A)), 3):
        w, alive = point.weights, point.weights != 0.0
        tight = np.abs(A @ w - 1.0) < 1e-9
        kinds.add(point.minimum)
        # `many` has a vertex with one tight row to spare
        assert point.minimum == (tight.sum() >= alive.sum())
        if point.minimum:
            others = w + 10.0 ** rng.uniform(-9, -6, size=(4000, 1)) * rng.normal(
                size=(4000, len(w))
            )
        else:
            v = np.zeros(len(w))
            v[alive] = np.linalg.svd(A[tight][:, alive])[2][-1]
            others = w + 1e-3 * np.min(np.abs(w[alive] / v[alive])) * np.array([v, -v])
        others /= (others @ A.T).min(axis=1)[:, None]
        assert ((quasi_norm(others, 3) >= point.value) == point.minimum).all()
    assert kinds == {True, False}


def test_a_vertex_with_a_multiplier_of_zero_is_no_minimum():
    """(½, ½) is stationary for the row (1, 1) alone; a second row through it forbids one of the two
    sides to which it falls."""
    points = stationary_points(np.array([[1.0, 1.0], [1.5, 0.5]]), np.ones(2), 3)
    (middle,) = [point for point in points if np.abs(point.weights - 0.5).max() < 1e-9]
    assert not middle.minimum and points[0].minimum
    assert (
        middle.multipliers[1] == pytest.approx(0.0, abs=1e-9)
        and quasi_norm(np.array([0.51, 0.49]), 3) < middle.value
    )


@pytest.mark.parametrize(("d", "n"), [(3, 4), (4, 4), (5, 4)])
def test_local_searches_end_at_listed_points(d, n, rng):
    """SLSQP on the network's own problem, min |u|² s.t. A (u₊³ − u₋³) ≥ 1, which is smooth."""
    x, y = random_data(d, n)
    A, signed = y[:, None] * x, y[:, None] * np.hstack([x, -x])
    points, ends = stationary_points(x, y, 3), []

    def search(start):
        return minimize(
            lambda u: u @ u,
            start,
            jac=lambda u: 2.0 * u,
            method="SLSQP",
            constraints={
                "type": "ineq",
                "fun": lambda u: signed @ u**3 - 1.0,
                "jac": lambda u: 3.0 * signed * u**2,
            },
            bounds=[(0.0, None)] * (2 * d),
            options={"ftol": 1e-14, "maxiter": 400},
        )

    # from many starts SLSQP fails, or stops short; from which depends on BLAS
    for _ in range(100):
        found = search(rng.uniform(0.0, 1.5, size=2 * d))
        if np.abs(search(found.x).x - found.x).max() > 1e-6:
            continue
        up, down = np.split(found.x**3, 2)
        if found.success and np.min(A @ (up - down)) > 1.0 - 1e-7:
            assert closest(points, up - down) < 1e-4
            ends.append((quasi_norm(up - down, 3), up - down))
        if len(ends) == 15:
            break
    assert len(ends) == 15
    best = min(value for value, _ in ends)
    assert best >= points[0].value * (1.0 - 1e-6)
    assert best == pytest.approx(points[0].value, rel=1e-6)
    kept = {
        min(range(len(points)), key=lambda i: np.abs(unit(points[i].weights) - unit(w)).max())
        for _, w in ends
    }
    gone = [point for i, point in enumerate(points) if i not in kept]
    assert gone and any(closest(gone, w) > 1e-2 for _, w in ends)  # a shorter list would be noticed


@pytest.mark.parametrize("depth", [3, 10])
def test_the_end_of_the_path_is_stationary_at_its_rate(depth):
    """Q_μ's path ends at the ℓ₁ max-margin, stationary here for any depth; its zeros are ∝ μ, and
    felt as μ^(1/D)."""
    scales = np.array([1e-5, 1e-6, 1e-7])
    residuals = [
        optimality(path_point(UNIQUE, np.ones(3), mu, depth).weights, UNIQUE, depth).residual
        for mu in scales
    ]
    slopes = np.diff(np.log(residuals)) / np.diff(np.log(scales))
    assert slopes == pytest.approx(1.0 / depth, rel=0.05)
    end = l1_margin_direction(UNIQUE, np.ones(3))
    assert optimality(end, UNIQUE, depth).residual < 1e-12
    assert closest(stationary_points(UNIQUE, np.ones(3), depth), end) < 1e-9


def flow_ends(A, alpha, depth, levels):
    """w = u₊^D − u₋^D of a network from u = α when its smooth margin is at levels; the time is log
    γ̃ and the unknown log u."""
    d = A.shape[1]
    signed = np.hstack([A, -A])

    def rate(time, logs):
        u = np.exp(logs)
        force = depth * u ** (depth - 1) * (softmax(-signed @ u**depth) @ signed)
        return np.exp(time) * force / (u * (force @ force))

    start = np.log(alpha) * np.ones(2 * d)
    first = 1e-3 * alpha**depth
    found = solve_ivp(
        rate, np.log([first, levels[-1]]), start, "Radau", np.log(levels), rtol=1e-7, atol=1e-8
    )
    assert found.success
    u = np.exp(found.y.T) ** depth
    return u[:, :d] - u[:, d:]


@pytest.mark.parametrize("name", DATA)
def test_gradient_flows_from_small_starts_end_at_stationary_points(name):
    """Where the residual is felt zeros, u_k = O(α) against max u ∝ γ̃^(1/D): it falls tenfold from
    γ̃ = 10³ to 10⁶ for D = 3."""
    A = DATA[name]
    ends = flow_ends(A, 0.1, 3, [1e3, 1e6])
    residuals = [optimality(w, A, 3, tight=2e-2).stationarity for w in ends]
    points = stationary_points(A, np.ones(len(A)), 3)
    print(
        f"{name}: residuals {residuals[0]:.2e}, {residuals[1]:.2e}, distance"
        f" {closest(points, ends[1]):.1e}"
    )
    assert residuals[1] < 1e-2 and residuals[1] / residuals[0] == pytest.approx(0.1, rel=0.2)
    assert closest(points, ends[1]) < 1e-4
    assert optimality(path_point(A, np.ones(len(A)), 1.0, 3).weights, A, 3).residual > 0.02


def test_sparse_data_have_their_l1_margin_as_the_global_minimum():
    """Moroshko et al. 2020, Fig. 8(b): first coordinate 1, nine others in [0, ½]; w = e_1 has the
    least value for every depth."""
    x = np.column_stack([np.ones(4), np.random.default_rng(8).uniform(0.0, 0.5, size=(4, 9))])
    points = stationary_points(x, np.ones(4), 3, only_minima=True)
    assert points[0].weights == pytest.approx(l1_margin_direction(x, np.ones(4)), abs=1e-12)
    assert points[0].value == pytest.approx(1.0) and points[1].value > 2.0 and len(points) > 20


def test_repeated_and_useless_data_change_nothing():
    """Many tight rows at one vertex, a column of zeros, and a row that is never tight."""
    wanted = stationary_points(STEADY, np.ones(3), 3)
    more = np.column_stack([np.vstack([STEADY, STEADY[:2], 9.0 * STEADY[:1]]), np.zeros(6)])
    found = stationary_points(more, np.ones(6), 3)
    assert len(found) == len(wanted) and [p.minimum for p in found] == [p.minimum for p in wanted]
    for one, other in zip(found, wanted, strict=True):
        assert one.weights[:3] == pytest.approx(other.weights, abs=1e-11) and one.weights[3] == 0.0


def test_what_has_no_answer_is_refused():
    with pytest.raises(ValueError, match="only_minima or take fewer"):
        stationary_points(np.ones((10, 10)) + np.eye(10), np.ones(10), 3)
    with pytest.raises(
        ValueError, match=r"need \d+ systems of equations, more than 300000: take fewer"
    ):
        stationary_points(np.ones((12, 12)) + np.eye(12), np.ones(12), 3, only_minima=True)
    with pytest.raises(ValueError, match="No linear classifier separates"):
        stationary_points(np.array([[1.0, 0.0], [-1.0, 0.0]]), np.ones(2), 3)
    with pytest.raises(ValueError, match="depth at least 2, got 1"):
        stationary_points(STEADY, np.ones(3), 1)
