"""Observed orders: synthetic errors whose orders are known, and intervals that cover as often as
they say."""

import numpy as np
import pytest

from hkflow import convergence_table
from hkflow.analysis.convergence import mean_and_band


@pytest.mark.parametrize("p", [0.5, 1.0, 2.0, 3.0, 4.0])
@pytest.mark.parametrize("ratio", [1.5, 2.0, 3.0])
def test_power_laws_give_their_order(p, ratio):
    h = 0.7 * ratio ** -np.arange(5.0)
    table = convergence_table(h, 3.0 * h**p)
    assert table.orders == pytest.approx(np.full(4, p), rel=1e-12)
    assert table.fit == pytest.approx((p, p, p), rel=1e-9)


def test_the_ratios_of_h_may_differ_and_come_in_any_order():
    h = np.array([0.1, 0.5, 0.02, 0.3])
    table = convergence_table(h, 2.0 * h**1.7)
    assert table.orders == pytest.approx(np.full(3, 1.7)) and table.fit.order == pytest.approx(1.7)


def test_the_interval_covers_the_order_as_often_as_it_says(rng):
    h = 2.0 ** -np.arange(6.0)
    fits = [
        convergence_table(h, h**2 * np.exp(0.2 * rng.standard_normal(6))).fit for _ in range(2000)
    ]
    covered = np.mean([fit.low <= 2.0 <= fit.high for fit in fits])
    assert 0.935 < covered < 0.965


def test_the_interval_of_repetitions_covers_as_well(rng):
    n = np.array([100.0, 316.0, 1000.0, 3162.0])
    fits, bars = [], []
    for _ in range(1000):
        table = convergence_table(1.0 / n, rng.standard_normal((4, 60)) / np.sqrt(n)[:, None])
        fits.append(table.fit)
        bars.append(table.bars)
    covered = np.mean([fit.low <= 0.5 <= fit.high for fit in fits])
    assert 0.9 < covered < 0.975
    # of the root mean square of 60 normal numbers: 1/√120
    assert np.mean(bars) == pytest.approx(1.0 / np.sqrt(120.0), rel=0.1)


@pytest.mark.parametrize("repeats", [3, 10])
@pytest.mark.parametrize("levels", [2, 5])
def test_the_interval_of_few_repetitions_covers_as_often_as_it_says(rng, repeats, levels):
    """It covered 68 % of the orders of three repetitions, by weights as uncertain as their bars."""
    h = 2.0 ** -np.arange(levels)
    fits = [
        convergence_table(h, h[:, None] * rng.standard_normal((levels, repeats))).fit
        for _ in range(1500)
    ]
    assert 0.92 < np.mean([fit.low <= 1.0 <= fit.high for fit in fits]) < 0.975


def test_repetitions_without_an_error_are_left_out():
    """Their scatter was a division of 0 by 0."""
    errors = [[1.0, 2.0, 1.5], [0.0, 0.0, 0.0], [0.25, 0.5, 0.4], [0.0, 0.0, 0.2]]
    fit = convergence_table([1.0, 0.5, 0.25, 0.1], errors).fit
    assert np.isfinite(fit).all()


def test_errors_without_an_order_are_left_out():
    h = 2.0 ** -np.arange(4.0)
    table = convergence_table(h, [1.0, 0.0, h[2] ** 2, h[3] ** 2])
    assert np.isnan(table.orders[:2]).all() and table.orders[2] == pytest.approx(2.0)
    assert table.fit.order == pytest.approx(2.0)
    nothing = convergence_table(h[:2], [np.nan, 1.0]).fit
    assert np.isnan(nothing).all()


def test_two_levels_have_an_order_without_an_interval():
    fit = convergence_table([0.2, 0.1], [4.0, 1.0]).fit
    assert fit.order == pytest.approx(2.0) and np.isnan(fit.low) and np.isnan(fit.high)


@pytest.mark.parametrize(
    "h, errors",
    [
        *(([0.1], [1.0]), ([0.1, 0.1], [1.0, 2.0]), ([0.1, -0.1], [1, 2]), ([0.2, 0.1], [1, 2, 3])),
        *(([0.2, 0.1], np.ones((2, 2, 2))), ([0.2, 0.1], np.ones((2, 0)))),
    ],
)
def test_what_has_no_order_is_refused(h, errors):
    with pytest.raises(ValueError, match="h"):
        convergence_table(h, errors)


def test_the_band_of_a_mean_covers_as_often_as_it_says(rng):
    mean, band = mean_and_band(rng.standard_normal((4000, 5)) + 2.0)
    assert 0.935 < np.mean(np.abs(mean - 2.0) < band) < 0.965
    assert mean_and_band([1.0, 2.0, 3.0]) == pytest.approx((2.0, 4.302653 / np.sqrt(3.0)), rel=1e-6)
