"""Error bars from numbers on several meshes: exact where the error is a power of the width."""

import numpy as np
import pytest

from hkflow.accuracy.estimate import (
    FACTOR,
    WIDE,
    compared,
    extrapolated,
    of_batches,
    of_points,
    rms,
)

SMOOTH = (1.0, 2.0)
TRUTH = np.linspace(1.0, 2.0, 12).reshape(4, 3)
SHAPE = np.array([[1.0, -2.0, 0.5]])


def points(values, widths, band):
    return of_points(values, widths, band, 5.0 / 3.0)


def on_meshes(order, widths):
    """Results whose error is 0.1 h^p in some direction."""
    return [TRUTH + 0.1 * width**order * SHAPE for width in widths]


@pytest.mark.parametrize("order", [1.0, 1.4, 2.0])
@pytest.mark.parametrize("widths", [(1.0, 2.0, 4.0), (1.0, 4.0, 16.0), (1.0, 2.1, 3.9)])
def test_a_power_of_the_width_is_found_and_its_error_times_the_safety(order, widths):
    values = on_meshes(order, widths)
    found = extrapolated(values, widths, SMOOTH)
    assert found.order == pytest.approx(order, abs=0.006)
    assert found.bar == pytest.approx(FACTOR * rms(values[0] - TRUTH), rel=0.02)
    assert "in the asymptotic range" in found.verdict


def test_an_order_below_the_band_widens_the_bar():
    widths = (1.0, 2.0, 4.0)
    values = on_meshes(0.3, widths)
    found = extrapolated(values, widths, SMOOTH)
    assert "not in the asymptotic range: order 0.3" in found.verdict
    assert found.bar == pytest.approx(WIDE * rms(values[0] - values[1]))  # as of order 1
    assert (found.bar > rms(values[0] - TRUTH) / 4.0).all()


def test_an_order_above_the_band_is_taken_for_its_end():
    widths = (1.0, 2.0, 4.0)
    values = on_meshes(3.0, widths)
    wanted = FACTOR * rms(values[1] - values[2]) / 4.0 / 3.0  # as of order 2, from the coarser two
    assert extrapolated(values, widths, SMOOTH).bar == pytest.approx(wanted)


def test_results_that_agree_by_chance_do_not_make_a_small_bar():
    widths = (1.0, 2.0, 4.0)
    values = on_meshes(2.0, widths)
    values[1][2] = values[0][2]  # at one save
    found = extrapolated(values, widths, SMOOTH)
    assert (found.bar > 0.5 * rms(values[0] - TRUTH)).all()


def test_the_start_is_no_worse_by_what_comes_later():
    """There results may be exact, as those of opposite signs that cancel; other saves count the
    saves beside them."""
    values = [np.vstack([0.0 * TRUTH[:1], one]) for one in on_meshes(2.0, (1.0, 2.0, 4.0))]
    found = extrapolated(values, (1.0, 2.0, 4.0), SMOOTH).bar
    assert found[0] == 0.0 and (found[1:] > 0.0).all()
    assert found[1] == max(
        extrapolated([one[1:] for one in values], (1.0, 2.0, 4.0), SMOOTH).bar[:2]
    )


@pytest.mark.parametrize("own", [extrapolated, points])
def test_what_grows_widens_no_bar_before_it_has_grown(own):
    """Errors of a share of what grows twentyfold between saves: bars are of that share. Where it
    shrinks, the larger error before counts as it is."""
    sizes = 20.0 ** np.arange(5.0)[:, None]
    for rows, bound in ((sizes, 1.01), (sizes[::-1], 20.01)):
        values = [rows * (1.0 + 0.01 * width**1.5) * SHAPE for width in (1.0, 2.0, 4.0)]
        found = own(values, (1.0, 2.0, 4.0), SMOOTH).bar / rms(values[0])
        assert bound - 1.0 < (found / found[0])[1:].max() < bound


@pytest.mark.parametrize(("own", "holds"), [(points, True), (extrapolated, False)])
def test_sets_of_points_that_are_good_or_bad_by_chance_have_steady_bars(own, holds):
    """Errors of order 5/3 times lognormal numbers: 95 % of the bars hold, and 90 % are alike to a
    factor of nine. Those by observed orders are not."""
    rng, widths, ratios = np.random.default_rng(0), (1.0, 2.0, 4.0), []
    for _ in range(400):
        sizes = [width ** (5.0 / 3.0) * rng.lognormal(0.0, 0.4) for width in widths]
        values = [size * rng.normal(size=(1, 10)) for size in sizes]  # the truth is 0
        ratios.append(own(values, widths, SMOOTH).bar[0] / rms(values[0])[0])
    low, high = np.quantile(ratios, [0.05, 0.95])
    assert (low > 0.9 and high < 9.0 * low) == holds


def test_sets_that_do_not_come_closer_to_one_another_widen_the_bar():
    values = [TRUTH, TRUTH + SHAPE, TRUTH + 0.9 * SHAPE]
    found = points(values, (1.0, 2.0, 4.0), SMOOTH)
    assert "not in the asymptotic range" in found.verdict
    assert found.bar == pytest.approx(WIDE * rms(SHAPE)[0] / (2.0 ** (5.0 / 3.0) - 1.0))


def test_two_meshes_tell_no_order():
    values = on_meshes(2.0, (1.0, 2.0))
    found = extrapolated(values, (1.0, 2.0), SMOOTH)
    assert np.isnan(found.order) and found.verdict == "one companion tells no order"
    assert found.bar == pytest.approx(WIDE * rms(values[0] - values[1]) / 3.0)


def test_two_results_that_agree_by_chance_at_a_save_have_the_bar_beside():
    """Of 840 points on S³ a bar was a seventeenth of the error."""
    values = on_meshes(2.0, (1.0, 2.0))
    values[1][2] = values[0][2]
    error = rms(values[0] - TRUTH)
    for own in (extrapolated, points):
        assert (own(values, (1.0, 2.0), SMOOTH).bar > error).all()


def test_equal_results_have_no_error():
    found = extrapolated([TRUTH] * 3, (1.0, 2.0, 4.0), SMOOTH)
    assert not found.bar.any() and found.verdict == "companions agree"


@pytest.mark.parametrize("own", [extrapolated, points])
def test_rounding_has_no_order(own):
    """It was said to be of an order, 0.2, in the asymptotic range or not."""
    values = [TRUTH * (1.0 + k * np.finfo(float).eps) for k in (0, 2, 5)]
    found = own(values, (1.0, 2.0, 4.0), SMOOTH)
    assert np.isnan(found.order) and found.verdict == "companions agree"
    assert (0.5 * rms(values[0] - values[1]) <= found.bar).all() and found.bar.max() < 1e-13


def test_another_method_widens_a_bar_only_beyond_its_own():
    bar = np.array([1.0, 2.0])
    kept, disagrees = compared(bar, 2.0 * bar, 3.0 * bar)
    assert np.array_equal(kept, bar) and not disagrees
    wider, disagrees = compared(bar, 2.0 * bar, 0.75 * bar)
    assert np.array_equal(wider, 2.75 * bar) and disagrees


def test_rounding_is_no_disagreement():
    """At the start, where both may be exact."""
    bar, own = np.array([0.0, 1e-3]), np.array([0.0, 1e-4])
    for apart, differs in ((1e-17, False), (1e-6, True)):
        assert compared(bar, np.array([apart, 1e-4]), own)[1] == differs


def test_another_method_that_is_known_better_narrows_a_bar():
    bar = np.array([1.0, 2.0])
    closer, disagrees = compared(bar, 0.1 * bar, 0.2 * bar)
    assert closer == pytest.approx(0.3 * bar) and not disagrees
    kept, _ = compared(bar, 0.1 * bar, 0.95 * bar)
    assert np.array_equal(kept, bar)


@pytest.mark.parametrize(("scale", "holds"), [(1.0, True), (0.1, False)])
def test_bars_of_random_points_hold_the_error(scale, holds):
    """Of means of n normal numbers, in nineteen of twenty; not so if batches vary too little."""
    rng, inside, n, share = np.random.default_rng(0), 0, 320, 1.0 / 16.0
    for _ in range(300):
        draws = rng.normal(size=(n, 3))
        mean = draws.mean(axis=0, keepdims=True)
        parts = [draws[20 * k : 20 * (k + 1)].mean(axis=0, keepdims=True) for k in range(4)]
        parts = [mean + scale * (part - mean) for part in parts]
        inside += of_batches(mean, parts, share).bar[0] >= rms(mean)[0]
    assert (inside >= 0.93 * 300) == holds
