import numpy as np
import pytest
from reference import kkt_residual

from hkflow import FEATURES, RISKS, Objective
from hkflow.certificates.kernel_machine import arc_cosine_kernel, kernel_margin
from hkflow.certificates.tangent_kernel import tangent_kernel, tangent_max_margin
from hkflow.measures.point_measure import Units

NAMES = ["linear", "relu", "squared-relu", "absolute-value"]


def network(feature, weights, x):
    """f(x) = (1/m) Σ b_j σ(a_j·x) for all weights in a row, first the a_j; (n,)."""
    m = len(weights) // (x.shape[1] + 1)
    return feature.matrix(weights[:-m].reshape(m, -1), x) @ weights[-m:] / m


def gradients(feature, units, x, step=1e-5):
    """∂f/∂(a, b) by central differences: (n, m p) for the hidden weights and (n, m) for the output
    ones."""
    w = np.concatenate([units.hidden.ravel(), units.output])
    shifts = step * np.eye(len(w))
    G = np.array(
        [(network(feature, w + s, x) - network(feature, w - s, x)) / (2.0 * step) for s in shifts]
    ).T
    return np.split(G, [units.hidden.size], axis=1)


def gaussian_terms(units, x, z, feature):
    """The two terms of the tangent kernel at one pair, unit by unit, each (m,)."""
    values = [feature.matrix(units.hidden, v)[0] for v in (x, z)]
    slopes = [feature.slopes(units.hidden, v)[0] for v in (x, z)]
    return values[0] * values[1], units.output**2 * slopes[0] * slopes[1] * (x @ z.T)[0, 0]


@pytest.fixture
def units(rng):
    return Units.gaussian(rng, 7, 3, 1, scale=2.0)


@pytest.mark.parametrize("name", NAMES)
def test_the_kernel_is_that_of_the_networks_gradient(name, units, rng):
    feature, x, z = FEATURES[name], rng.normal(size=(4, 3)), rng.normal(size=(5, 3))
    for layers, parts in (("hidden",), [0]), (("output",), [1]), (("output", "hidden"), [0, 1]):
        wanted = 7 * sum(
            gradients(feature, units, x)[i] @ gradients(feature, units, z)[i].T for i in parts
        )
        found = tangent_kernel(units.hidden, units.output, x, z, feature, layers)
        assert found == pytest.approx(wanted, rel=1e-7, abs=1e-8)


def test_finite_differences_see_a_wrong_factor(units, rng):
    """1/m² for 1/m, or |b_j| for b_j²."""
    feature, x = FEATURES["relu"], rng.normal(size=(4, 3))
    wanted = 7 * sum(G @ G.T for G in gradients(feature, units, x))
    for wrong in (
        tangent_kernel(units.hidden, units.output, x, x, feature) / 7,
        tangent_kernel(units.hidden, np.sqrt(np.abs(units.output)), x, x, feature),
    ):
        assert np.abs(wrong - wanted).max() > 0.05 * np.abs(wanted).max()


def test_a_wide_gaussian_network_has_the_arc_cosine_kernels(rng):
    """E σσ = p K on the sphere, with 1/2π in place of 1/2πp, and E b² σ'σ' x·z = x·z (π−ω)/2π, to 4
    standard errors."""
    feature, m = FEATURES["relu"], 200_000
    units = Units.gaussian(rng, m, 3, 1)
    for _ in range(5):
        x, z = rng.normal(size=(2, 1, 3))
        cosine = (x @ z.T)[0, 0] / np.linalg.norm(x) / np.linalg.norm(z)
        wanted = (
            3.0 * arc_cosine_kernel(x, z, 1)[0, 0],
            (x @ z.T)[0, 0] * (np.pi - np.arccos(cosine)) / (2.0 * np.pi),
        )
        total = tangent_kernel(units.hidden, units.output, x, z, feature)[0, 0]
        terms = gaussian_terms(units, x, z, feature)
        assert total == pytest.approx(sum(term.mean() for term in terms), rel=1e-11)
        for term, value in zip(terms, wanted, strict=True):
            error = term.std() / np.sqrt(m)
            assert abs(term.mean() - value) < 4.0 * error
            assert abs(term.mean() - value / 3.0) > 10.0 * error  # without the factor p


def test_the_gaussian_kernel_by_quadrature():
    """Gauss–Laguerre in the radius of the plane of x and z, midpoints on its circle: 1/2π, and 1/2π
    for the squared ReLU."""
    n = 20000
    angle = 2.0 * np.pi * (np.arange(n) + 0.5) / n
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    half_squares, weights = np.polynomial.laguerre.laggauss(10)
    x, z = np.array([[1.0, 0.4]]), np.array([[-0.3, 1.1]])
    for degree, moment in ((1, 2), (2, 8)):
        phi = [np.maximum(v @ circle.T, 0.0)[0] ** degree for v in (x, z)]
        wanted = weights @ (2.0 * half_squares) ** degree * np.mean(phi[0] * phi[1])
        assert moment * arc_cosine_kernel(x, z, degree)[0, 0] == pytest.approx(wanted, rel=1e-7)


def test_the_tangent_margin_and_its_machine(rng):
    """The machine is the linearised network: its weights v_j = m ∂_j g have Σ|v_j|²/m = 1 and its
    margins."""
    feature, units = FEATURES["relu"], Units.gaussian(rng, 60, 3, 1)
    x = np.column_stack([rng.uniform(-1.0, 1.0, (10, 2)), np.ones(10)])
    y = rng.choice([-1.0, 1.0], 10)
    found = tangent_max_margin(Objective(feature, RISKS["logistic"], x, y), units)
    K = tangent_kernel(units.hidden, units.output, x, x, feature)
    assert found.machine.value > 0.0 and kkt_residual(found.machine, K, y) < 1e-9
    assert found.machine.value == pytest.approx(kernel_margin(K, y).value, rel=1e-14)
    G = np.hstack(gradients(feature, units, x))
    v = 60 * G.T @ found.machine.coefficients
    assert v @ v / 60 == pytest.approx(1.0, rel=1e-6)
    assert np.min(y * (G @ v)) == pytest.approx(found.machine.value, rel=1e-6)
    new = rng.normal(size=(5, 3))
    assert found(new) == pytest.approx(
        np.hstack(gradients(feature, units, new)) @ v, rel=1e-5, abs=1e-6
    )


def test_more_layers_that_move_have_a_larger_margin(rng):
    """K is the sum of the two kernels, so no margin can shrink."""
    x, y = rng.normal(size=(10, 3)), rng.choice([-1.0, 1.0], 10)
    objective, units = (
        Objective(FEATURES["relu"], RISKS["logistic"], x, y),
        Units.gaussian(rng, 60, 3, 1),
    )
    both, output, hidden = (
        tangent_max_margin(objective, units, layers).machine.value
        for layers in (("output", "hidden"), ("output",), ("hidden",))
    )
    assert 0.0 < max(output, hidden) < both


def test_unknown_features_and_layers_are_refused(units):
    x = np.eye(3)
    with pytest.raises(ValueError, match="tangent kernel 'joint-relu'"):
        tangent_kernel(units.hidden, units.output, x, x, FEATURES["joint-relu"])
    with pytest.raises(ValueError, match="Unknown layer 'both'.*hidden, output"):
        tangent_kernel(units.hidden, units.output, x, x, FEATURES["relu"], ("both",))
