from itertools import product

import numpy as np
import pytest
from reference import kkt_residual
from scipy.optimize import minimize
from scipy.special import roots_jacobi
from sklearn.svm import SVC

from hkflow import FEATURES, RISKS, SOFTMAX, Objective, ridge, vector_feature
from hkflow.certificates import kernel_machine
from hkflow.certificates.fixed_points import l2_margin
from hkflow.certificates.kernel_machine import (
    KERNELS,
    KernelMachine,
    arc_cosine_kernel,
    f2_max_margin,
    kernel_margin,
    kernel_of,
    l2_interpolation,
    piecewise_linear_kernel,
)
from hkflow.errors import HkflowError
from hkflow.geometry.sphere import normalize

DEGREES = {"linear": 1, "relu": 1, "squared-relu": 2}
XOR, XOR_LABELS = (
    np.array([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]]),
    np.array([1.0, 1.0, -1.0, -1.0]),
)


def circle_mean(name, a, b):
    """∫ φ(θ, a) φ(θ, b) dτ(θ) on the circle, by Gauss–Legendre between the kinks: exact to
    rounding."""
    kinks = np.concatenate(
        [np.arctan2(v[1], v[0]) + np.array([0.5, 1.5]) * np.pi for v in (a, b)]
    ) % (2.0 * np.pi)
    ends = np.concatenate([[0.0], np.sort(kinks), [2.0 * np.pi]])
    nodes, weights = np.polynomial.legendre.leggauss(20)
    half = 0.5 * np.diff(ends)[:, None]
    angle = (0.5 * (ends[1:] + ends[:-1])[:, None] + half * nodes).ravel()
    theta = np.column_stack([np.cos(angle), np.sin(angle)])
    phi = FEATURES[name].matrix(theta, np.array([a, b]))
    return (half * weights).ravel() @ (phi[0] * phi[1]) / (2.0 * np.pi)


def sphere_mean(name, a, b, p):
    """The same on the sphere of R^p for a, b in the plane of two axes, where θ has length s, s² ~
    Beta(1, p/2 − 1)."""
    if p == 2:
        return circle_mean(name, a, b)
    nodes, weights = roots_jacobi(10, p / 2.0 - 2.0, 0.0)
    square = 0.5 * (1.0 + nodes)
    return weights @ square ** DEGREES[name] / weights.sum() * circle_mean(name, a, b)


def product_rule(latitudes, longitudes):
    """Points of S² and weights, Gauss–Legendre × trapezoid, total 1."""
    height, weights = np.polynomial.legendre.leggauss(latitudes)
    angle = 2.0 * np.pi * np.arange(longitudes) / longitudes
    radius = np.sqrt(1.0 - height**2)[:, None]
    theta = np.stack(
        np.broadcast_arrays(radius * np.cos(angle), radius * np.sin(angle), height[:, None]),
        axis=-1,
    )
    return theta.reshape(-1, 3), np.repeat(weights, longitudes) / (2.0 * longitudes)


def data(rng, n=12, p=3):
    """n random inputs in R^p with a bias and random labels."""
    return np.column_stack([rng.uniform(-1.0, 1.0, (n, p - 1)), np.ones(n)]), rng.choice(
        [-1.0, 1.0], n
    )


def objective(feature, x, y):
    return Objective(FEATURES[feature], RISKS["logistic"], x, y)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("p", [2, 3, 5])
def test_kernels_are_means_over_the_sphere(name, p, rng):
    for _ in range(10):
        pair = np.zeros((2, p))
        pair[:, :2] = rng.normal(size=(2, 2))
        assert KERNELS[name](pair[:1], pair[1:])[0, 0] == pytest.approx(
            sphere_mean(name, *pair[:, :2], p), rel=1e-12, abs=1e-14
        )


def leaky(s):
    return np.where(s > 0.0, s, -0.3 * s), np.where(s > 0.0, 1.0, -0.3)


@pytest.mark.parametrize("name", [*KERNELS, "absolute-value", "leaky"])
def test_kernels_are_means_over_s2_in_any_frame(name, rng):
    theta, weights = product_rule(200, 400)
    x, z = rng.normal(size=(4, 3)), rng.normal(size=(5, 3))
    feature = FEATURES.get(name, ridge(leaky, degree=1))
    phi = [feature.matrix(theta, v) for v in (x, z)]
    assert np.abs((phi[0] * weights) @ phi[1].T - kernel_of(feature)(x, z)).max() < 2e-5


def test_linear_and_relu_are_two_slopes(rng):
    x, z = rng.normal(size=(4, 5)), rng.normal(size=(3, 5))
    for name, slopes in (("linear", (1.0, 1.0)), ("relu", (0.0, 1.0))):
        wanted = KERNELS[name](x, z)
        assert piecewise_linear_kernel(x, z, *slopes) == pytest.approx(wanted, abs=1e-14)


def test_wrong_constants_of_the_kernels_are_seen(rng):
    """p for p(p+2), the Gaussian 1/2π for 1/2πp, or a wrong power of |x|: far outside the
    tolerance."""
    a, b = rng.normal(size=(2, 2))
    for p in (2, 3, 5):
        wanted = {name: sphere_mean(name, a, b, p) for name in KERNELS}
        x, z = (np.append(v, np.zeros(p - 2))[None] for v in (a, b))
        one, two = (arc_cosine_kernel(x, z, degree)[0, 0] for degree in (1, 2))
        for wrong, right in (
            (p * one, "relu"),
            ((p + 2) * two, "squared-relu"),
            (two / np.linalg.norm(a), "squared-relu"),
        ):
            assert wrong != pytest.approx(wanted[right], rel=1e-2)


@pytest.mark.parametrize("degree", [1, 2])
def test_kernels_of_nearly_parallel_and_opposite_inputs(degree):
    """With δ from 0 or π the series k₁ = ½ − δ²/4 + δ³/6π, k₁ = δ³/6π; k₂ = 3/2 − δ², k₂ = 2δ⁵/15π,
    to a few ε and δ⁴."""
    for delta in (1e-3, 1e-6, 1e-9, 0.0):
        x, z = (
            np.array([[1.0, 0.0]]),
            np.array([[np.cos(delta), np.sin(delta)], [-np.cos(delta), np.sin(delta)]]),
        )
        found = arc_cosine_kernel(x, z, degree)[0] * (2.0 if degree == 1 else 8.0)
        near, far = (
            (0.5 - delta**2 / 4.0 + delta**3 / (6.0 * np.pi), delta**3 / (6.0 * np.pi))
            if degree == 1
            else (1.5 - delta**2, 2.0 * delta**5 / (15.0 * np.pi))
        )
        assert (
            found == pytest.approx([near, far], rel=0.0, abs=2e-15 + 2.0 * delta**4)
            and (found >= 0.0).all()
        )
    x = np.array([[3.0, -4.0, 12.0], [0.0, 0.0, 0.0]])
    exact = 169.0 / 6.0 if degree == 1 else 169.0**2 * 1.5 / 15.0
    assert arc_cosine_kernel(x, x, degree) == pytest.approx(np.diag([exact, 0.0]), rel=4e-16)


def test_the_machine_of_xor_data():
    """p = ¼ by symmetry: γ₂² = (k₁(0) − 2 k₁(π/2) + k₁(π))/4 for |x|² = p = 2; no linear machine
    separates them."""
    found = f2_max_margin(objective("relu", XOR, XOR_LABELS))
    assert found.machine.value == pytest.approx(np.sqrt(0.5 - 1.0 / np.pi) / 2.0, rel=1e-14)
    assert found.machine.dual == pytest.approx(np.full(4, 0.25), rel=1e-12)
    assert found(XOR) == pytest.approx(found.machine.value * XOR_LABELS, rel=1e-13)
    linear = f2_max_margin(objective("linear", XOR, XOR_LABELS))
    assert linear.machine.value == 0.0 and (linear(XOR) == 0.0).all()
    assert kkt_residual(linear.machine, KERNELS["linear"](XOR, XOR), XOR_LABELS) == np.inf


def test_noise_in_further_dimensions_of_xor_shrinks_the_margin(rng):
    """Wei, Lemma 3.6: any p bounds γ₂, in particular 1/n."""
    bounds = []
    for d in (2, 5, 20):
        x = np.column_stack([np.tile(XOR, (10, 1)), rng.normal(size=(40, d - 2))])
        y = np.tile(XOR_LABELS, 10)
        value = f2_max_margin(objective("relu", x, y)).machine.value
        bounds.append(value)
        assert 0.0 < value <= np.sqrt(y @ KERNELS["relu"](x, x) @ y) / 40.0 * (1.0 + 1e-12)
    assert bounds[0] > bounds[1] > bounds[2]


@pytest.mark.parametrize("name", ["relu", "squared-relu"])
def test_machines_meet_their_optimality_conditions(name, rng):
    for n in (2, 12, 40):
        x, y = data(rng, n)
        K = KERNELS[name](x, x)
        machine = kernel_margin(K, y)
        assert kkt_residual(machine, K, y) < 1e-7
        assert (
            machine.lower
            == machine.value
            <= machine.upper * (1.0 + 1e-14)
            <= machine.value * (1.0 + 1e-8)
        )
        assert np.min(y * machine.decision(K)) == pytest.approx(machine.value, rel=1e-7)


@pytest.mark.parametrize("pairs", [1, 100, 10**6])
def test_decisions_at_many_inputs_are_made_some_at_a_time(rng, monkeypatch, pairs):
    monkeypatch.setattr(kernel_machine, "PAIRS", pairs)
    x = rng.normal(size=(40, 3))
    K, sizes = KERNELS["relu"], []

    def kernel(new, data):
        sizes.append(len(new) * len(data))
        return K(new, data)

    machine = kernel_machine.kernel_margin(K(x, x), np.sign(x[:, 0]))
    decide, new = kernel_machine.KernelClassifier(machine, kernel, x), rng.normal(size=(70, 3))
    wanted = machine.decision(K(new, x))
    assert np.abs(decide(new) - wanted).max() < 1e-13 * np.abs(wanted).max()
    assert max(sizes) <= max(pairs, 40) and sum(sizes) < 70 * 40  # some data do not count
    assert decide(new[:0]).shape == (0,)


def test_the_optimality_conditions_refuse_other_machines(rng):
    """A scaled norm, even dual weights or a margin 1% too large."""
    x, y = data(rng)
    K = KERNELS["relu"](x, x)
    good = kernel_margin(K, y)
    even = np.full(len(y), 1.0 / len(y))
    upper = np.sqrt((even * y) @ K @ (even * y))
    for wrong in (
        KernelMachine(good.value, good.lower, good.upper, good.dual, 1.01 * good.coefficients),
        KernelMachine(1.01 * good.value, good.lower, good.upper, good.dual, good.coefficients),
        KernelMachine(upper, upper, upper, even, even * y / upper),
    ):
        assert kkt_residual(wrong, K, y) > 5e-3


def test_machines_agree_with_a_general_solver(rng):
    """SLSQP on max t s.t. y_i (Lv)_i ≥ t, |v|² ≤ 1."""
    for _ in range(5):
        x, y = data(rng, 8, 5)
        K = KERNELS["relu"](x, x)
        z = y[:, None] * np.linalg.cholesky(K)
        solution = minimize(
            lambda v: -v[-1],
            np.zeros(9),
            jac=lambda v: np.append(np.zeros(8), -1.0),
            method="SLSQP",
            constraints=[
                {
                    "type": "ineq",
                    "fun": lambda v, z=z: z @ v[:-1] - v[-1],
                    "jac": lambda v, z=z: np.column_stack([z, -np.ones(8)]),
                },
                {
                    "type": "ineq",
                    "fun": lambda v: 1.0 - v[:-1] @ v[:-1],
                    "jac": lambda v: np.append(-2.0 * v[:-1], 0.0),
                },
            ],
            options={"ftol": 1e-14, "maxiter": 500},
        )
        assert kernel_margin(K, y).value == pytest.approx(-solution.fun, rel=1e-7)


def test_machines_agree_with_a_library_on_mirrored_data_and_not_otherwise(rng):
    """With every (−K(x, ·), −y) added the free intercept of SVC is 0 by symmetry; without it is
    another, larger margin."""
    x, y = data(rng, 10, 3)
    y[0], y[1:] = 1.0, -1.0
    K = KERNELS["relu"](x, x)
    mirrored = np.block([[K, -K], [-K, K]])
    margins = []
    for kernel, labels in ((mirrored, np.append(y, -y)), (K, y)):
        svc = SVC(kernel="precomputed", C=1e12, tol=1e-12).fit(kernel, labels)
        weights = svc.dual_coef_[0]
        margins.append(
            1.0 / np.sqrt(weights @ kernel[np.ix_(svc.support_, svc.support_)] @ weights)
        )
    value = kernel_margin(K, y).value
    assert value == pytest.approx(margins[0], rel=1e-6)
    assert margins[1] > 1.01 * value


def test_the_margin_of_many_random_units_tends_to_that_of_the_kernel(rng):
    x, y = data(rng, 10, 3)
    theta = normalize(rng.normal(size=(20000, 3)))
    found = l2_margin(y[:, None] * FEATURES["relu"].matrix(theta, x)).value
    assert found == pytest.approx(f2_max_margin(objective("relu", x, y)).machine.value, rel=0.03)


def test_scales_do_not_matter(rng):
    x, y = data(rng)
    K = KERNELS["relu"](x, x)
    value = kernel_margin(K, y).value
    for size in (1e-12, 1e12):
        assert kernel_margin(size**2 * K, y).value == pytest.approx(size * value, rel=1e-8)


def test_the_certificate_refuses_other_weights(monkeypatch, rng):
    x, y = data(rng)
    monkeypatch.setattr(
        kernel_machine, "least_distance", lambda G, h: np.full(len(h), 1.0 / len(h))
    )
    with pytest.raises(HkflowError, match="of its dual bound .* more than 1e-08"):
        kernel_margin(KERNELS["relu"](x, x), y)


@pytest.mark.parametrize(
    "seed, name, known",  # by 60 digits
    [
        (35, "squared-relu", 6.87938546268e-5),
        (62, "squared-relu", 2.42692407882e-6),
        (120, "relu", 1.75992008639e-5),
        (137, "squared-relu", 1.25170874681e-5),
    ],
)
def test_small_margins_are_known_to_the_rounding_of_the_kernel(seed, name, known):
    """They were refused, for two values that are farther apart than GAP: by 1e-8 to 1e-6."""
    rng = np.random.default_rng(seed)
    d, n = int(rng.integers(2, 4)), int(rng.integers(5, 25))
    x, y = rng.normal(size=(n, d)), rng.choice([-1.0, 1.0], n)
    found = kernel_margin(KERNELS[name](x, x), y)
    apart = (found.upper - found.lower) / found.upper
    assert kernel_machine.GAP < apart < 2e-6
    assert max(abs(found.lower - known), abs(found.upper - known)) < 1.5 * apart * known


def test_interpolation_is_the_least_norm(rng):
    x, _ = data(rng, 15, 4)
    y, K = rng.normal(size=15), KERNELS["relu"](x, x)
    found = l2_interpolation(K, y)
    assert found.norm == pytest.approx(np.sqrt(y @ np.linalg.solve(K, y)), rel=1e-9)
    assert found.decision(K) == pytest.approx(y, rel=0.0, abs=1e-9) and found.residual < 1e-9
    assert found.norm**2 == pytest.approx(found.coefficients @ K @ found.coefficients, rel=1e-9)
    more, extra = np.vstack([x, rng.normal(size=(1, 4))]), np.append(y, 0.3)
    assert l2_interpolation(KERNELS["relu"](more, more), extra).norm > found.norm


def test_interpolation_of_one_unit_costs_n_on_average():
    """Wei, Lemma D.7: E |g|² = n for y_i = (θ·x_i)₊ and θ uniform, since E yyᵀ = K; here over S² by
    quadrature."""
    theta, weights = product_rule(60, 120)
    x = normalize(np.array([[1.0, 0.2, 0.1], [0.3, -1.0, 0.2], [-0.4, 0.3, 1.0], [0.5, 0.5, -0.6]]))
    K, values = KERNELS["relu"](x, x), FEATURES["relu"].matrix(theta, x)
    squares = np.array([l2_interpolation(K, y).norm ** 2 for y in values.T])
    assert weights @ squares == pytest.approx(4.0, rel=2e-3)
    # the Gaussian constant would give n/p
    assert weights @ squares != pytest.approx(4.0 * 3, rel=0.5)


def test_repeated_data_interpolate_only_repeated_values(rng):
    x, y = data(rng, 8)
    twice, values = np.vstack([x, x[:1]]), np.append(y, y[0])
    K = KERNELS["relu"](twice, twice)
    assert l2_interpolation(K, values).norm == pytest.approx(
        l2_interpolation(K[:8, :8], y).norm, rel=1e-9
    )
    with pytest.raises(HkflowError, match="numerically singular"):
        l2_interpolation(K, np.append(y, -y[0]))
    assert kernel_margin(K, np.append(y, -y[0])).value == 0.0
    near = np.vstack([x, x[:1] * [1.0 + 1e-14, 1.0, 1.0]])
    with pytest.raises(HkflowError, match="numerically singular"):
        l2_interpolation(KERNELS["relu"](near, near), np.append(y, -y[0]))
    assert l2_interpolation(K, np.zeros(9)).norm == 0.0


def test_a_norm_that_rests_on_rounding_is_refused():
    """λ = 2 and 10⁻¹³: the values differ by 10⁻⁶ only and are reached, but that part has 10/11 of
    the norm²."""
    for small, known in ((1e-13, False), (1e-10, True)):
        K, y = (
            np.array([[1.0, 1.0 - small], [1.0 - small, 1.0]]),
            np.array([1.0 + 1e-6, 1.0 - 1e-6]),
        )
        if known:
            assert l2_interpolation(K, y).norm ** 2 == pytest.approx(1.0 + 2e-12 / small, rel=1e-5)
            continue
        with pytest.raises(HkflowError, match=r"norm² is known to \d\.\de-03"):
            l2_interpolation(K, y)


def test_what_is_no_problem_is_refused(rng):
    x, y = data(rng, 4)
    K = KERNELS["relu"](x, x)
    for wrong, labels, message in (
        (K[:2], y, "n_data by n_data"),
        (K * np.nan, y, "finite"),
        (np.triu(K), y, "symmetric"),
        (K, y[:2], "finite labels"),
        (K, 2.0 * y, r"\+1 or -1"),
    ):
        with pytest.raises(ValueError, match=message):
            kernel_margin(wrong, labels)
    with pytest.raises(HkflowError, match="negative eigenvalues"):
        kernel_margin(K - np.eye(4), y)
    with pytest.raises(ValueError, match="degree 1 or 2"):
        arc_cosine_kernel(x, x, 3)
    with pytest.raises(
        ValueError, match="closed-form kernel 'joint-relu'.*linear, relu, squared-relu"
    ):
        f2_max_margin(objective("joint-relu", x, y))


@pytest.mark.parametrize("bits", [7, 8])
def test_the_machine_of_all_corners_of_a_cube(bits):
    """Parity of two bits: by symmetry p = 1/n. SciPy's nnls stops short of it."""
    x = np.array(list(product((1.0, -1.0), repeat=bits))) / np.sqrt(bits)
    y, K = np.sign(x[:, 0] * x[:, 1]), KERNELS["relu"](x, x)
    expected = np.sqrt(y @ K @ y) / len(y)
    assert kernel_margin(K, y).value == pytest.approx(expected, rel=1e-8)


def test_several_classes_are_refused_for_what_they_are():
    """They were told that their feature is unknown."""
    o = Objective(vector_feature("relu", 3), SOFTMAX, np.eye(3), np.arange(3))
    with pytest.raises(ValueError, match="one of labels .* got units of 3"):
        f2_max_margin(o)


@pytest.mark.parametrize("size", [1e-150, 1e100])
def test_kernels_whose_squares_are_beyond_numbers_have_their_margin(size):
    """The norm of K was 0 or infinite, and the margin 0."""
    K, y = np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([1.0, -1.0])
    one, other = kernel_margin(K, y), kernel_margin(K * size * size, y)
    assert other.value == pytest.approx(size * one.value, rel=1e-12, abs=0)
    assert other.upper == pytest.approx(size * one.upper, rel=1e-12, abs=0)
