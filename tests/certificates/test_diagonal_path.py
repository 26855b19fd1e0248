from decimal import Decimal, localcontext
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp
from scipy.optimize import linprog, minimize
from scipy.special import logsumexp, softmax

from hkflow.certificates.diagonal_path import (
    coordinate,
    l1_margin_direction,
    l2_margin_direction,
    log_ratio,
    path_point,
    penalty,
    penalty_gradient,
)
from hkflow.certificates.fixed_points import l1_margin
from hkflow.errors import HkflowError

DEPTHS = [2, 3, 10]
SCALES = [1e-6, 1e-3, 0.05, 1.0, 30.0, 1e6]
SIZES = 10.0 ** np.linspace(-300, 300, 601)
# two support vectors, one at the ℓ₁ end
STEADY = np.array([[1.0, 0.6, 0.3], [0.8, -0.4, 0.5], [2.0, 0.2, -0.1]])
# two support vectors, two coordinates at the ℓ₁ end
UNIQUE = np.array([[0.5, 0.8, 0.5], [0.9, 0.2, -0.4], [1.5, 0.8, 0.3]])


def sparse_data():
    """Four points in R^10 like those of Moroshko et al. 2020, Fig. 8(b), with targets of both
    signs."""
    y = np.array([1.0, -1.0, 1.0, -1.0])
    return (
        y[:, None]
        * np.column_stack([np.ones(4), np.random.default_rng(8).uniform(0.0, 0.5, size=(4, 9))]),
        y,
    )


DATA = {"steady": (STEADY, np.ones(3)), "unique": (UNIQUE, np.ones(3)), "sparse": sparse_data()}


def inverse(s, depth):
    """h_D⁻¹(s), and asinh(s/2) for D = 2."""
    return log_ratio(s, depth) if depth == 2 else np.tanh((1.0 - 2.0 / depth) * log_ratio(s, depth))


def literal(xi, depth, power=None):
    """h_D(x) as the paper prints it, at x = tanh κξ, with 900 digits."""
    with localcontext() as digits:
        digits.prec = 900
        xi, D = Decimal(float(xi)), Decimal(depth)
        if depth == 2:
            return float(xi.exp() - (-xi).exp())
        e = (2 * (1 - 2 / D) * xi).exp()
        x, p = (e - 1) / (e + 1), power or D / (D - 2)
        return float((1 - x) ** -p - (1 + x) ** -p)


def unit(w):
    return w / np.linalg.norm(w)


def kkt_residuals(A, mu, depth, w, nu):
    """Stationarity, feasibility, complementarity, relative and written out for themselves."""
    slopes = inverse(w / mu, depth) / mu
    slack = A @ w - 1.0
    return (
        np.abs(slopes - nu @ A).max() / np.abs(slopes).max(),
        -slack.min(),
        np.abs(nu * slack).max() / nu.max(),
    )


@pytest.mark.parametrize("depth", [2, 2.5, 3, 4, 10, 1000])
def test_the_inverse_undoes_h_at_all_sizes(depth):
    for z in (SIZES, -SIZES):
        assert coordinate(log_ratio(z, depth), depth) == pytest.approx(z, rel=1e-12, abs=0.0)
    assert log_ratio(0.0, depth) == 0.0 and log_ratio(np.zeros((2, 3)), depth).shape == (2, 3)
    assert (np.diff(log_ratio(SIZES, depth)) > 0.0).all()


@pytest.mark.parametrize("depth", [2, 3, 4, 10])
def test_h_is_the_papers_formula(depth):
    for z in 10.0 ** np.linspace(-300, 300, 13):
        xi = log_ratio(z, depth)
        assert literal(xi, depth) == pytest.approx(z, rel=1e-12, abs=0.0)
        if depth > 2:
            assert literal(xi, depth, power=Decimal(depth) / (depth - 1)) != pytest.approx(
                z, rel=1e-2, abs=0.0
            )


@pytest.mark.parametrize("depth", [2, 3, 4, 10])
@pytest.mark.parametrize("z", [1e-6, 0.01, 0.7, 5.0, 300.0, 1e5])
def test_penalty_is_the_integral_of_the_inverse(depth, z):
    pieces = np.append(0.0, z * 0.5 ** np.arange(30)[::-1])
    wanted = sum(
        quad(inverse, a, b, args=(depth,), epsabs=0.0, epsrel=1e-13)[0] for a, b in pairwise(pieces)
    )
    assert penalty([z], 1.0, depth) == pytest.approx(wanted, rel=1e-12, abs=0.0)
    assert penalty([z], 1.0, depth) != pytest.approx(wanted * (1 + 1e-10), rel=1e-12, abs=0.0)


def test_penalty_of_depth_two_is_the_papers_formula():
    z = np.array([-30.0, -1.0, 0.3, 2.0, 1e4])
    wanted = 2.0 - np.sqrt(4.0 + z**2) + z * np.arcsinh(z / 2.0)
    assert penalty(z[:, None], 1.0, 2) == pytest.approx(wanted, rel=1e-13)
    assert penalty(7.0 * z, 7.0, 2) == pytest.approx(wanted.sum(), rel=1e-13)


@pytest.mark.parametrize("depth", DEPTHS)
def test_penalty_is_a_square_near_zero_and_a_norm_far_away(depth):
    """q ≈ z²/4 (D = 2) or κz²/4 near 0; |z| (log |z| − 1) or |z| − |z|^(1−κ)/(1−κ) far away: no
    digit is lost anywhere."""
    near, far, kappa = (
        10.0 ** np.linspace(-150, -8, 9),
        10.0 ** np.linspace(25, 300, 9),
        1.0 - 2.0 / depth,
    )
    assert penalty(near[:, None], 1.0, depth) == pytest.approx(
        (kappa or 1.0) * near**2 / 4.0, rel=1e-14, abs=0.0
    )
    wanted = far - far ** (1.0 - kappa) / (1.0 - kappa) if kappa else far * (np.log(far) - 1.0)
    assert penalty(-far[:, None], 1.0, depth) == pytest.approx(wanted, rel=1e-13, abs=0.0)


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("mu", [0.02, 1.0, 40.0])
def test_gradient_is_the_derivative_of_the_penalty(depth, mu, rng):
    w, h = mu * rng.normal(size=6) * 10.0 ** rng.uniform(-1, 2, size=6), 1e-3
    for i, slope in enumerate(penalty_gradient(w, mu, depth)):
        steps = h * w[i] * np.array([1, 2])
        up, down = (
            np.array([penalty(w[i : i + 1] + side * step, mu, depth) for step in steps])
            for side in (1, -1)
        )
        centred = (up - down) / (2 * steps)
        assert (4 * centred[0] - centred[1]) / 3 == pytest.approx(slope, rel=1e-8)
        assert centred[0] != pytest.approx(2.0 * slope, rel=1e-2)


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("mu", SCALES)
@pytest.mark.parametrize("depth", DEPTHS)
def test_path_points_meet_their_optimality_conditions(depth, mu, name):
    x, y = DATA[name]
    point, A = path_point(x, y, mu, depth), y[:, None] * x
    assert point.residual <= 1e-10
    assert (point.multipliers >= 0.0).all()
    assert np.min(A @ point.weights) == pytest.approx(1.0, rel=1e-10)
    stationarity, feasibility, complementarity = kkt_residuals(
        A, mu, depth, point.weights, point.multipliers
    )
    assert stationarity <= 1e-10 and abs(feasibility) <= 1e-10 and complementarity <= 1e-10
    wrong = kkt_residuals(A, mu, depth, point.weights * (1.0 + 1e-5), point.multipliers)
    assert max(wrong) > 1e-6


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("depth", DEPTHS)
def test_path_points_have_the_least_penalty(depth, name, rng):
    x, y = DATA[name]
    A = y[:, None] * x
    for mu in (0.05, 1.0):
        w = path_point(x, y, mu, depth).weights
        least = penalty(w, mu, depth)
        others = w + rng.normal(size=(300, len(w))) * 10.0 ** rng.uniform(-4, 0, size=(300, 1))
        others = others[(others @ A.T > 0.0).all(axis=1)]
        others /= (others @ A.T).min(axis=1)[:, None]
        assert len(others) > 100 and (penalty(others, mu, depth) >= least * (1.0 - 1e-12)).all()
        assert (penalty(others, mu, depth) < 1.01 * least).any()
        found = minimize(
            penalty,
            l2_margin_direction(x, y),
            (mu, depth),
            jac=penalty_gradient,
            method="SLSQP",
            constraints={
                "type": "ineq",
                "fun": lambda v, A=A: A @ v - 1.0,
                "jac": lambda v, A=A: A,
            },
            options={"ftol": 1e-14, "maxiter": 500},
        )
        assert w == pytest.approx(found.x, abs=1e-5)


def test_many_and_repeated_data(rng):
    x = rng.normal(size=(40, 10)) + 1.0
    for depth in DEPTHS:
        w = path_point(x, np.ones(40), 0.01, depth).weights
        assert path_point(
            np.vstack([x, x[::-1]]), np.ones(80), 0.01, depth
        ).weights == pytest.approx(w, rel=1e-9, abs=1e-9)


def test_one_datum_by_hand():
    """One datum x on one axis: w = 1/x whatever the penalty, and ν x = ∇Q."""
    for depth in DEPTHS:
        point = path_point([[2.0, 0.0]], [-1.0], 0.1, depth)
        assert point.weights == pytest.approx([-0.5, 0.0], rel=1e-12)
        assert point.multipliers == pytest.approx(
            penalty_gradient(0.5, 0.1, depth) / 2.0, rel=1e-12
        )


def test_only_the_ratio_of_predictor_and_scale_counts():
    x, y = DATA["sparse"]
    for depth in DEPTHS:
        w = path_point(x, y, 0.2, depth).weights
        assert 8.0 * path_point(8.0 * x, y, 0.2 / 8.0, depth).weights == pytest.approx(
            w, rel=1e-12, abs=1e-14
        )
        assert path_point(8.0 * x, y, 0.2, depth).weights != pytest.approx(w / 8.0, rel=1e-3)


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("depth", DEPTHS)
def test_large_scales_lead_to_the_l2_margin(depth, name):
    x, y = DATA[name]
    limit = unit(l2_margin_direction(x, y))
    far = [
        np.linalg.norm(unit(path_point(x, y, mu, depth).weights) - limit) for mu in (20.0, 200.0)
    ]
    assert 1.98 < np.log10(far[0] / far[1]) < 2.02
    assert unit(path_point(x, y, 1e6, depth).weights) == pytest.approx(limit, rel=0.0, abs=1e-12)


@pytest.mark.parametrize(("depth", "closeness"), [(2, 2e-4), (3, 1e-5), (10, 2e-6)])
def test_small_scales_lead_to_the_l1_margin(depth, closeness):
    for name in ("unique", "sparse"):
        x, y = DATA[name]
        limit = unit(l1_margin_direction(x, y))
        assert unit(path_point(x, y, 1e-6, depth).weights) == pytest.approx(
            limit, rel=0.0, abs=closeness
        )
        assert (
            np.linalg.norm(limit - unit(l2_margin_direction(x, y))) > 1e3 * closeness or depth == 2
        )


@pytest.mark.parametrize("depth", DEPTHS)
def test_zeros_of_the_l1_end_vanish_at_their_rate(depth):
    """w_i ∝ μ for D > 2, and μ^(1−r) for D = 2, where r < 1 is the slope of the linear programme's
    dual at coordinate i."""
    slopes = l1_margin(np.hstack([UNIQUE, -UNIQUE])).dual @ UNIQUE
    r = slopes[2] / slopes[0] if depth == 2 else 0.0
    zeros = [path_point(UNIQUE, np.ones(3), mu, depth).weights[2] for mu in (1e-5, 1e-6)]
    assert np.log10(zeros[0] / zeros[1]) == pytest.approx(
        1.0 - r, abs=0.02 if depth == 3 else 0.002
    )


@pytest.mark.parametrize("name", DATA)
def test_limits_are_the_least_norms(name):
    x, y = DATA[name]
    A, d = y[:, None] * x, x.shape[1]
    one, two = l1_margin_direction(x, y), l2_margin_direction(x, y)
    programme = linprog(np.ones(2 * d), A_ub=-np.hstack([A, -A]), b_ub=-np.ones(len(A)))
    assert np.abs(one).sum() == pytest.approx(programme.fun, rel=1e-9)
    assert np.min(A @ one) == pytest.approx(1.0, rel=1e-14) and np.min(A @ two) == pytest.approx(
        1.0, rel=1e-14
    )
    projected = minimize(
        lambda w: w @ w,
        one,
        constraints={"type": "ineq", "fun": lambda w: A @ w - 1.0},
        options={"ftol": 1e-15},
    )
    assert two == pytest.approx(projected.x, abs=1e-6)
    assert np.linalg.norm(two) < np.linalg.norm(one) and np.abs(two).sum() > np.abs(one).sum()


def flow_direction(A, alpha, depth, accuracy):
    """w/|w| where the network w = u₊^D − u₋^D, from u = α, has climbed γ̃ = −log mean_n exp(−(A
    w)_n) to `accuracy`."""
    n, d = A.shape
    signed = np.hstack([A, -A])

    def margin(u):
        return np.log(n) - logsumexp(-signed @ u**depth)

    def rate(_, u):
        return depth * u ** (depth - 1) * (softmax(-signed @ u**depth) @ signed)

    def reached(_, u):
        return margin(u) - accuracy

    reached.terminal = True
    # Lemma 3
    slowest = (
        2.0
        * depth**2
        * alpha ** (2 * depth - 2)
        / np.linalg.norm(l2_margin_direction(A, np.ones(n))) ** 2
    )
    solution = solve_ivp(
        rate,
        (0.0, accuracy / slowest),
        np.full(2 * d, alpha),
        "Radau",
        events=reached,
        rtol=1e-9,
        atol=1e-10 * alpha,
    )
    up, down = np.split(solution.y_events[0][0] ** depth, 2)
    return unit(up - down)


def distance_to_the_path(A, alpha, depth, mu, point_at=1.0):
    """|w/|w| − ŵ/|ŵ|| between the flow at γ̃ = α^D/μ and the path at μ times `point_at`."""
    w = path_point(A, np.ones(len(A)), mu * point_at, depth).weights
    return np.linalg.norm(flow_direction(A, alpha, depth, alpha**depth / mu) - unit(w))


@pytest.mark.parametrize("A", [STEADY, UNIQUE], ids=["steady", "unique"])
@pytest.mark.parametrize("depth", [2, 3])
def test_gradient_flow_runs_along_the_path(depth, A):
    """Theorem 6: at γ̃ = α^D/μ the flow is O(1/γ̃) from the path at μ, 5.1e-5 for D = 2, α = 100,
    and farther from other μ."""
    mu, alphas = 0.5, (30.0, 100.0)
    distances = np.array([distance_to_the_path(A, alpha, depth, mu) for alpha in alphas])
    print(f"D = {depth}: {distances[0]:.3e} at α = 30, {distances[1]:.3e} at α = 100")
    assert distances[1] < 1e-4
    assert np.log(distances[0] / distances[1]) / np.log(alphas[1] / alphas[0]) == pytest.approx(
        depth, abs=0.01
    )
    for wrong in (0.99, 1.01):
        assert distance_to_the_path(A, 100.0, depth, mu, wrong) > 2.0 * distances[1]


def test_gradient_flow_leaves_the_path_where_a_multiplier_would_have_to_fall():
    """λ_n = μν_n is 4 ∫ of the flow's weight of datum n, which only grows; on the path of `steady`
    λ_1 is largest at μ = 0.13."""
    first = [
        mu * path_point(STEADY, np.ones(3), mu, 2).multipliers[0]
        for mu in (0.5, 0.2, 0.14, 0.13, 0.12, 0.1, 0.05, 0.01)
    ]
    assert (
        (np.diff(first[:4]) > 0.0).all() and (np.diff(first[3:]) < 0.0).all() and first[-1] == 0.0
    )
    before, after = (
        [distance_to_the_path(STEADY, alpha, 2, mu) for alpha in (30.0, 100.0)]
        for mu in (0.2, 0.05)
    )
    assert before[0] / before[1] == pytest.approx((100.0 / 30.0) ** 2, rel=0.02)
    assert after == pytest.approx([0.0374, 0.0370], rel=0.01)


def test_what_has_no_path_is_refused():
    x, y = np.array([[1.0, 0.0], [-1.0, 0.0]]), np.ones(2)
    for solve in (l1_margin_direction, l2_margin_direction, lambda x, y: path_point(x, y, 1.0, 2)):
        with pytest.raises(ValueError, match="No linear classifier separates"):
            solve(x, y)
        with pytest.raises(ValueError, match=r"targets \+1 or -1"):
            solve(x, 0.5 * y)
    with pytest.raises(ValueError, match="depth at least 2, got 1"):
        path_point(STEADY, y=np.ones(3), mu=1.0, depth=1)
    for mu in (0.0, np.nan):
        with pytest.raises(ValueError, match="must be positive"):
            path_point(STEADY, np.ones(3), mu, 2)
        with pytest.raises(ValueError, match="must be positive"):
            penalty(np.ones(3), mu, 2)


@pytest.mark.parametrize(("mu", "depth"), [(1e-12, 10), (1e-15, 100)])
def test_a_scale_too_small_for_rounding_is_refused(mu, depth):
    with pytest.raises(HkflowError, match=f"depth {depth}, leaves .* more than 1e-09"):
        path_point(STEADY, np.ones(3), mu, depth)
    with pytest.raises(HkflowError, match="did not settle"):
        log_ratio(np.nan, depth)
