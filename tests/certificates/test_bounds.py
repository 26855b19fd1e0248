import numpy as np
import pytest

from hkflow import FEATURES
from hkflow.certificates.bounds import (
    RELU,
    kernel_margin_bound,
    kernel_regression_bound,
    margin_bound,
    network_margin_bound,
    network_regression_bound,
    separation_bound,
)
from hkflow.certificates.fixed_points import l1_margin
from hkflow.certificates.kernel_machine import arc_cosine_kernel, kernel_margin
from hkflow.geometry.sphere import normalize
from hkflow.measures.point_measure import Units

E = np.e


def test_network_margin_bound_is_the_formula():
    """γ = ½, D = 4, C = 8, n = 36, δ = e⁻⁸: 6/½ · 2/6 = 4; log₂ 64 = 6; √(8/72)."""
    found = network_margin_bound(0.5, 4.0, 8.0, 36, np.exp(-8.0))
    assert found.leading == pytest.approx(4.0, rel=1e-14)
    assert found.rest == pytest.approx(np.sqrt(np.log(6.0)) / 6.0 + 1.0 / 3.0, rel=1e-14)
    assert found.total == found.leading + found.rest


def test_margin_bound_is_the_formula():
    found = margin_bound(0.25, 0.01, 1.0, 100, np.exp(-2.0))
    assert (found.leading, found.rest) == pytest.approx(
        (0.16, np.sqrt(np.log(4.0)) / 10.0 + 0.1), rel=1e-14
    )


def test_kernel_margin_bound_is_the_formula():
    """γ = ½, D = 8, C = 4, d = 2, n = 16: 2√2/½ · √(8/32) = 2√2; sup|φ|₂/√κ = 2, log₂ 16 = 4."""
    found = kernel_margin_bound(0.5, 8.0, 4.0, 16, 2, np.exp(-2.0))
    assert (found.leading, found.rest) == pytest.approx(
        (np.sqrt(8.0), np.sqrt(np.log(4.0)) / 4.0 + 0.25), rel=1e-14
    )
    assert kernel_margin_bound(0.5, 8.0, 4.0, 16, 2, 0.1, constant=1.0).leading == pytest.approx(
        1.0, rel=1e-14
    )


def test_the_constant_of_relu_is_that_of_its_complexity(rng):
    """Exact Rademacher complexity of the unit ball, all 2¹⁰ signs of 10 data: at most ‖X‖/(n√2d),
    and 0.9 of it."""
    x, d, n = rng.normal(size=(10, 4)), 4, 10
    signs = 2.0 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1) - 1.0
    complexity = (
        np.mean(np.sqrt(np.einsum("si,ij,sj->s", signs, arc_cosine_kernel(x, x, 1), signs))) / n
    )
    mean_square = np.mean(np.sum(x**2, axis=1))
    used = kernel_margin_bound(0.01, mean_square, 4.0, n, d, 0.1).leading * 0.01 / 4.0
    assert 0.9 * used < complexity <= used
    # the printed constant 1 is no bound: 4 Rad exceeds it
    assert not complexity <= used / RELU * 1.0


def test_the_network_constant_covers_its_complexity(rng):
    """Rademacher complexity of |α|₁ ≤ 1 on a fine grid of directions, at most 3‖X‖/n."""
    x, n = rng.normal(size=(10, 3)), 10
    signs = 2.0 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1) - 1.0
    phi = FEATURES["relu"].matrix(normalize(rng.normal(size=(2000, 3))), x)
    complexity = np.mean(np.abs(signs @ phi).max(axis=1)) / n
    # γ_ℓ1 = 2γ
    used = (
        network_margin_bound(0.1, np.mean(np.sum(x**2, axis=1)), 5.0, n, 0.1).leading
        * 2.0
        * 0.1
        / 4.0
    )
    assert used / 10.0 < complexity <= used


def test_regression_bounds_are_the_formulas():
    """M = 3, c = 2, n = 8, |α|₁ X = e²/4 or 0, δ = e⁻²."""
    found = network_regression_bound(E**2 / 8.0, 2.0, 3.0, 2.0, 8, np.exp(-2.0))
    assert (found.leading, found.rest) == pytest.approx((4.5 * E**2 / 4.0, 2.0 * 0.5), rel=1e-14)
    found = network_regression_bound(0.0, 2.0, 3.0, 2.0, 8, np.exp(-2.0))
    assert (found.leading, found.rest) == pytest.approx(
        (4.5, 2.0 * np.sqrt((2.0 + np.log(2.0)) / 16.0)), rel=1e-14
    )
    root = np.sqrt(2.0 * np.pi)
    found = kernel_regression_bound(root * E**2 / 8.0, 2.0, 3.0, 2.0, 8, 2, np.exp(-2.0))
    assert (found.leading, found.rest) == pytest.approx(
        (RELU * 3.0 * root * E**2 / 4.0 / (8.0 * np.sqrt(2.0)), 1.0), rel=1e-14
    )
    printed = kernel_regression_bound(0.0, 2.0, 3.0, 2.0, 8, 2, 0.1, constant=1.0).leading
    assert printed == pytest.approx(3.0 * root / (8.0 * np.sqrt(2.0)), rel=1e-14)


def test_separation_bound_is_the_formula():
    """R/Δ = 4, r = 1, ε = 0: 4²/√n; B = log₂(4·2) + 3·2 = 9."""
    found = separation_bound(1.0, 0.25, 1, 64, np.exp(-2.0))
    assert (found.leading, found.rest) == pytest.approx(
        (2.0, np.sqrt(np.log(9.0)) / 8.0 + 0.125), rel=1e-14
    )
    assert separation_bound(
        1.0, 0.25, 3, 64, 0.1, epsilon=0.5, constant=2.0
    ).leading == pytest.approx(64.0, rel=1e-14)


def test_margins_of_xor_data_in_the_units_of_the_bounds():
    """Four units along the diagonals: γ_ℓ1 = √2/4, and a raw network has half of it per |Θ|², so
    6/γ √(2/n) = 48/√n.

    γ_ℓ1 taken for γ would give half the bound that is proved.
    """
    x, y = (
        np.array([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]]),
        np.array([1.0, 1.0, -1.0, -1.0]),
    )
    angle = np.pi * np.arange(720) / 360.0
    z = y[:, None] * FEATURES["relu"].matrix(np.column_stack([np.cos(angle), np.sin(angle)]), x)
    one, two = (
        l1_margin(np.hstack([z, -z])).value,
        kernel_margin(arc_cosine_kernel(x, x, 1), y).value,
    )
    assert one == pytest.approx(np.sqrt(2.0) / 4.0, rel=1e-9) and 0.0 < two < one
    network = Units(x, np.sqrt(2.0) * y)  # balanced, |b| = |a|
    predictions = FEATURES["relu"].matrix(network.hidden, x) @ network.output
    gamma = np.min(y * predictions) / (np.sum(network.hidden**2) + np.sum(network.output**2))
    assert gamma == pytest.approx(one / 2.0, rel=1e-9)
    assert network_margin_bound(gamma, 2.0, np.sqrt(2.0), 10_000, 0.1).leading == pytest.approx(
        0.48, rel=1e-9
    )
    assert network_margin_bound(one, 2.0, np.sqrt(2.0), 10_000, 0.1).leading == pytest.approx(
        0.24, rel=1e-9
    )
    assert kernel_margin_bound(two, 2.0, np.sqrt(2.0), 10_000, 2, 0.1).leading == pytest.approx(
        RELU / two / 100.0, rel=1e-14
    )


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1])
def test_numbers_out_of_range_are_refused(delta):
    with pytest.raises(ValueError, match="probability"):
        network_margin_bound(0.1, 1.0, 1.0, 10, delta)
    with pytest.raises(ValueError, match="probability"):
        network_regression_bound(0.1, 1.0, 1.0, 1.0, 10, delta)
    for gamma in (0.0, -1.0, 1.1, np.nan):
        with pytest.raises(ValueError, match="A margin is positive"):
            network_margin_bound(gamma, 1.0, 1.0, 10, 0.1)
    for distance, epsilon in ((0.0, 0.0), (2.1, 0.0), (1.0, 1.0)):
        with pytest.raises(ValueError, match="0 < Δ"):
            separation_bound(1.0, distance, 2, 10, 0.1, epsilon)
