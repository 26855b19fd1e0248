import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

from hkflow.certificates import fixed_points
from hkflow.certificates.fixed_points import (
    _by_pivots,
    l1_margin,
    l2_margin,
    least_distance,
    mirror_ascent_bound,
    nonnegative,
    projected_ascent_bound,
)
from hkflow.certificates.kernel_machine import arc_cosine_kernel, kernel_margin
from hkflow.errors import HkflowError

MARGINS = [l1_margin, l2_margin]
STEPS = 10_000


def dual_value(margin, z, kind):
    """What the dual weights prove that no admissible weights exceed."""
    slopes = margin.dual @ z
    return slopes.max() if kind is l1_margin else np.linalg.norm(slopes) / np.sqrt(z.shape[1])


def random_features(activation, n=20, m=200, seed=7):
    """z_ij = y_i φ(θ_j, x_i) for two clusters x = y e + noise in R³ and units uniform on the
    sphere, half of them negative."""
    rng = np.random.default_rng(seed)
    y, signs = np.repeat([1.0, -1.0], n // 2), np.repeat([1.0, -1.0], m // 2)
    x = y[:, None] * [1.0, 0.0, 0.0] + 0.2 * rng.normal(size=(n, 3))
    theta = rng.normal(size=(m, 3))
    theta /= np.linalg.norm(theta, axis=1, keepdims=True)
    return (
        y[:, None]
        * signs
        * {"relu": lambda v: np.maximum(v, 0.0), "linear": lambda v: v}[activation](x @ theta.T)
    )


def mirror_ascent(z, steps, start=10.0):
    """r ← r + η m ∇F(r), F = −log mean_i exp(−(z r²/m)_i), η = 1/(16 ‖z‖ √(t+1)): best margins so
    far, Σ 1/(β √(s+1))."""
    m = z.shape[1]
    r, margins, terms = np.full(m, start), np.empty(steps), np.empty(steps)
    for s in range(steps):
        a = r**2 / m
        beta, u = a.sum(), z @ a
        margins[s], terms[s] = u.min() / beta, 1.0 / (beta * np.sqrt(s + 1))
        r += 2.0 * r * (softmax(-u) @ z) / (16.0 * np.abs(z).max() * np.sqrt(s + 1))
    return np.maximum.accumulate(margins), np.cumsum(terms)


def projected_ascent(z, steps):
    """r ← r + η m ∇F(r), F = −log mean_i exp(−(z r/m)_i), η = β √2/(‖z‖ √(t+1)): best margins so
    far."""
    m = z.shape[1]
    r, beta, margins = np.zeros(m), 1.0, np.empty(steps)
    for s in range(steps):
        a = r / m
        beta, u = max(beta, np.sqrt(m) * np.linalg.norm(a)), z @ a
        margins[s] = u.min() / beta
        r += beta * np.sqrt(2.0) / (np.abs(z).max() * np.sqrt(s + 1)) * (softmax(-u) @ z)
    return np.maximum.accumulate(margins)


@pytest.fixture(scope="module", params=["relu", "linear"])
def mirror_run(request):
    z = random_features(request.param)
    return z, *mirror_ascent(z, STEPS)


@pytest.fixture(scope="module", params=["relu", "linear"])
def projected_run(request):
    z = random_features(request.param)
    return z, projected_ascent(z, STEPS)


def test_l1_margin_of_two_points_agrees_with_a_fine_grid(rng):
    share = np.linspace(0.0, 1.0, 20001)
    for _ in range(20):
        z = rng.normal(size=(4, 2))
        grid = (z @ [share, 1.0 - share]).min(axis=0).max()
        assert 0.0 <= l1_margin(z).value - grid + 1e-12 <= np.ptp(z) * 1e-4


def test_l2_margin_of_two_points_agrees_with_a_fine_grid(rng):
    angle = np.linspace(0.0, 2.0 * np.pi, 20001)
    for _ in range(20):
        z = rng.normal(size=(3, 2)) + 1.0
        grid = (z @ [np.cos(angle), np.sin(angle)]).min(axis=0).max() / np.sqrt(2.0)
        assert 0.0 <= l2_margin(z).value - max(grid, 0.0) + 1e-12 <= np.abs(z).max() * 1e-3


def test_the_number_of_points_enters_the_l2_norm():
    for m in (1, 4, 9):
        assert l2_margin(np.eye(m)).value == pytest.approx(1.0 / m, rel=1e-14)
        assert l2_margin(np.ones((3, m))).value == pytest.approx(1.0, rel=1e-14)
        assert l1_margin(np.eye(m)).value == pytest.approx(1.0 / m, rel=1e-14)


def test_data_that_nothing_separates():
    z = np.array([[1.0, -1.0], [-1.0, 1.0], [0.5, 2.0]])
    two = l2_margin(z)
    assert two.value == 0.0 and (two.weights == 0.0).all()
    assert np.linalg.norm(two.dual @ z) < 1e-15  # opposite rows: the origin is in their hull
    assert l1_margin(z).value == pytest.approx(0.0, abs=1e-12)
    assert l1_margin(-np.eye(4)).value == pytest.approx(-0.25, rel=1e-12)
    assert all(margin(np.zeros((2, 3))).value == 0.0 for margin in MARGINS)


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 8),
    m=st.integers(1, 8),
    shift=st.floats(-1.0, 3.0),
    size=st.floats(1e-6, 1e6),
)
@settings(max_examples=60, deadline=None)
def test_primal_and_dual_enclose_the_margin(seed, n, m, shift, size):
    z = size * (np.random.default_rng(seed).normal(size=(n, m)) + shift)
    for kind in MARGINS:
        margin = kind(z)
        assert margin.value == pytest.approx(
            np.min(z @ margin.weights), rel=1e-14, abs=1e-14 * size
        )
        assert margin.dual.sum() == pytest.approx(1.0, rel=1e-14) and (margin.dual >= 0.0).all()
        assert abs(dual_value(margin, z, kind) - margin.value) <= 1e-9 * np.abs(z).max()
    assert (
        l1_margin(z).weights.sum() == pytest.approx(1.0, rel=1e-14)
        and (l1_margin(z).weights >= 0.0).all()
    )
    assert np.sqrt(m) * np.linalg.norm(l2_margin(z).weights) <= 1.0 + 1e-14
    # |a|₁ ≤ √m |a|₂
    assert l2_margin(z).value <= l1_margin(np.hstack([z, -z])).value + 1e-9 * np.abs(z).max()


def test_any_dual_weights_bound_every_margin(rng):
    z, p = rng.normal(size=(12, 30)) + 0.3, rng.dirichlet(np.ones(12), size=50)
    assert l1_margin(z).value <= (p @ z).max(axis=1).min()
    assert l2_margin(z).value <= np.linalg.norm(p @ z, axis=1).min() / np.sqrt(30)


@pytest.mark.parametrize("angle", [1e-2, 1e-4, 1e-6])
def test_a_tiny_l2_margin_is_found(angle):
    """Two unit rows, almost opposite: the nearest point of their segment is sin(angle) away, known
    to rounding/angle."""
    z = np.array([[np.cos(angle), np.sin(angle)], [-np.cos(angle), np.sin(angle)]])
    assert l2_margin(z).value == pytest.approx(
        np.sin(angle) / np.sqrt(2.0), rel=0.0, abs=1e-15 / angle
    )


def test_hundreds_of_data_and_repeated_ones_are_solved(rng):
    z = np.repeat(rng.normal(size=(60, 300)), 4, axis=0)
    once = rng.permutation(len(z))
    for kind in MARGINS:
        assert kind(z).value == pytest.approx(kind(z[once]).value, abs=1e-10 * np.abs(z).max())
        assert kind(z).value > 0.0


def test_the_certificate_refuses_weights_that_are_not_the_best(monkeypatch):
    z = random_features("relu")
    honest, (n, m) = scipy.optimize.linprog, z.shape

    def careless(*args, **options):
        solution = honest(*args, **options)
        solution.x[:m] = 1.0 / m
        return solution

    monkeypatch.setattr(scipy.optimize, "linprog", careless)
    monkeypatch.setattr(fixed_points, "least_distance", lambda G, h: np.full(n, 1.0 / n))
    for kind in MARGINS:
        with pytest.raises(HkflowError, match=r"away from its dual bound .* more than 1e-08"):
            kind(z)


@pytest.mark.parametrize("z", [np.ones(3), np.ones((0, 3)), np.array([[1.0, np.nan]])])
def test_what_is_no_matrix_is_refused(z):
    for kind in MARGINS:
        with pytest.raises(ValueError, match="finite matrix"):
            kind(z)


def test_least_distance_meets_its_optimality_conditions(rng):
    for _ in range(50):
        G, h = rng.normal(size=(6, 9)), rng.normal(size=6)
        p = least_distance(G, h)
        lam = p * (h @ p) / max(np.sum((p @ G) ** 2), 1e-300)
        slack = G @ (lam @ G) - h
        assert (lam >= 0.0).all() and slack.min() >= -1e-12 and np.abs(lam * slack).max() <= 1e-12
    assert (least_distance(np.eye(3), -np.ones(3)) == 0.0).all()


def many(kind, n=300):
    """Half-spaces that are nearly all active, a third of them, and of which some are others' sums
    or copies; in one order, a triangle first."""
    rng = np.random.default_rng(3)
    G, h = rng.normal(size=(n, 2 * n)), np.ones(n)
    if kind == "uneven":
        h = 1.0 + 0.7 * rng.normal(size=n)
    if kind == "twins":
        G[n // 2 :] = G[: n - n // 2]
        G = np.linalg.qr(G[: n // 2].T, mode="r").T[np.arange(n) % (n // 2)]
    return G, h


@pytest.mark.parametrize("kind", ["even", "uneven", "twins"])
def test_many_active_half_spaces_are_found_by_pivots(kind, monkeypatch):
    """To the optimality conditions, and the point of nonnegative least squares."""
    G, h = many(kind)
    R = G.T if kind == "twins" else np.linalg.qr(G.T, mode="r")
    assert _by_pivots(R, h) is not None
    p = least_distance(G, h)
    lam = p * (h @ p) / np.sum((p @ G) ** 2)
    slack = G @ (lam @ G) - h
    assert lam.min() >= 0.0 and slack.min() >= -1e-12 and np.abs(lam * slack).max() < 1e-12
    monkeypatch.setattr(fixed_points, "_by_pivots", lambda R, h: None)
    other = least_distance(G, h)
    assert (lam @ G) == pytest.approx(other * (h @ other) / np.sum((other @ G) ** 2) @ G, abs=1e-9)


def test_what_pivots_do_not_find_least_squares_do(monkeypatch):
    """Few half-spaces are active, data coincide, there is no triangle, or rounding hides them."""
    rng = np.random.default_rng(5)
    x = np.column_stack([rng.normal(size=(300, 2)), np.ones(300)])
    few = np.linalg.cholesky(arc_cosine_kernel(x, x, 1)) * np.sign(x[:, :1])
    asked = []

    def seen(R, h, honest=_by_pivots):
        asked.append(honest(R, h))
        return asked[-1]

    monkeypatch.setattr(fixed_points, "_by_pivots", seen)
    near = many("even")[0]
    near[1] = near[0] * (1.0 + 1e-15)
    for G in few, near, rng.normal(size=(300, 20)) + 3.0:
        p = least_distance(G, np.ones(300))
        lam = p / np.sum((p @ G) ** 2)
        assert lam.min() >= 0.0 and (G @ (lam @ G)).min() > 1.0 - 1e-6
    assert asked == [None] * 3
    assert kernel_margin(np.zeros((300, 300)), np.ones(300)).value == 0.0
    assert kernel_margin(x @ x.T, np.ones(300)).value > 0.0
    assert asked == [None] * 5


def test_nonnegative_least_squares_where_columns_depend_on_each_other():
    """SciPy's nnls leaves these small integers with slopes of −2 and 1."""
    A = np.array(
        [
            [-1, -1, 0, 0, 1, -1, -1, 0, 0, 1, 0, -1],
            [0, -1, 1, 1, 1, 0, -1, 0, 1, 1, 0, 0],
            [0, -1, 0, -1, 1, 1, 1, 0, -1, -1, 1, -1],
            [0, -1, 1, 1, 1, -1, -1, -1, -1, 1, 0, 1],
            [0, 1, 1, -1, 1, 0, 0, -1, -1, 0, 1, 0],
            [0, -1, 0, 0, -1, 1, -1, 0, 1, -1, 1, -1],
        ],
        dtype=float,
    )
    b = np.array([1.0, -1.0, 1.0, 0.0, 1.0, 1.0])
    u = nonnegative(A, b)
    slopes = A.T @ (A @ u - b)
    assert u.min() >= 0.0 and slopes.min() > -1e-12 and np.abs(slopes[u > 0.0]).max() < 1e-12


def test_mirror_ascent_stays_above_its_bound(mirror_run):
    z, best, sums = mirror_run
    t = np.arange(1, STEPS + 1)
    bound = mirror_ascent_bound(
        l1_margin(z).value, np.abs(z).max(), z.shape[1], z.shape[0], t, sums
    )
    assert (best >= bound).all()
    assert best[-1] <= l1_margin(z).value * (1.0 + 1e-14)


def test_the_bound_of_mirror_ascent_can_break(mirror_run):
    """Constants added instead of subtracted, or γ₁ three times too large: the same run falls
    below."""
    z, best, sums = mirror_run
    gamma, t = l1_margin(z).value, np.arange(1, STEPS + 1)
    numbers = np.abs(z).max(), z.shape[1], z.shape[0], t, sums
    assert (best < 2.0 * gamma - mirror_ascent_bound(gamma, *numbers)).all()
    assert best[-1] < mirror_ascent_bound(3.0 * gamma, *numbers)[-1]


def test_mirror_ascent_bound_is_the_formula():
    """By hand: m = n = t = 1 leaves γ − ‖z‖; e² data, e units and e² steps leave γ − (‖z‖ (8 + 2 +
    1) + 8 sum)/e."""
    e = np.e
    assert mirror_ascent_bound(0.5, 3.0, 1, 1, [1], [7.0]) == pytest.approx([-2.5], rel=1e-15)
    assert mirror_ascent_bound(0.5, 3.0, e, e**2, [e**2], [7.0]) == pytest.approx(
        [0.5 - (33.0 + 56.0) / e], rel=1e-14
    )


def test_projected_ascent_stays_above_its_bound(projected_run):
    z, best = projected_run
    t = np.arange(1, STEPS + 1)
    assert (
        best >= projected_ascent_bound(l2_margin(z).value, np.abs(z).max(), z.shape[0], t)
    ).all()
    assert best[-1] <= l2_margin(z).value * (1.0 + 1e-14)


def test_the_bound_of_projected_ascent_can_break(projected_run):
    """Constants added, γ₂ twice too large, or γ₂ without the √m of its norm: the same run falls
    below."""
    z, best = projected_run
    gamma, t = l2_margin(z).value, np.arange(1, STEPS + 1)
    numbers = np.abs(z).max(), z.shape[0], t
    for wrong in (np.sqrt(z.shape[1]) * gamma, 2.0 * gamma):
        assert best[-1] < projected_ascent_bound(wrong, *numbers)[-1]
    assert (best < 2.0 * gamma - projected_ascent_bound(gamma, *numbers)).all()


def test_projected_ascent_bound_is_the_formula():
    wanted = 0.5 - 3.0 / 2.0 * (np.sqrt(8.0) + np.sqrt(3.0) * 2.0 / 0.5)
    assert projected_ascent_bound(0.5, 3.0, np.e**2, [4]) == pytest.approx([wanted], rel=1e-14)
    with pytest.raises(ValueError, match="positive margin"):
        projected_ascent_bound(0.0, 1.0, 3, [1])
