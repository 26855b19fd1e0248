"""The enclosed max-margin against linear programmes on dense points, closed forms and its own
proof."""

import importlib

import numpy as np
import pytest
from brute_force import exact_highest, explicit_candidates

import hkflow
from hkflow.certificates.column_generation import (
    enclosed_max_margin,
    max_margin,
    max_margin_of_atoms,
)
from hkflow.certificates.fixed_points import l1_margin, least_distance
from hkflow.errors import HkflowError
from hkflow.geometry.sphere import normalize

FEATURES = hkflow.FEATURES
SIGNED, RISK = (1, -1), hkflow.RISKS["smooth-margin"]
module = importlib.import_module("hkflow.certificates.column_generation")


def objective(feature, n, axes, seed=0, labels="two clusters"):
    """n data with a bias in R^axes, and their labels."""
    rng = np.random.default_rng(seed)
    y = rng.choice([-1.0, 1.0], size=n)
    x = rng.normal(size=(n, axes - 1))
    if labels == "two clusters":
        x = 0.3 * x + y[:, None] * np.eye(1, axes - 1)
    return hkflow.Objective(
        FEATURES[feature], hkflow.RISKS["smooth-margin"], np.column_stack([x, np.ones(n)]), y
    )


def matrix(feature, points, x):
    s = np.maximum(x @ points.T, 0.0)
    return {"relu": s, "squared-relu": s**2, "linear": x @ points.T}[feature]


def signed_matrix(o, points, signs=SIGNED):
    z = o.targets[:, None] * matrix(o.feature.name, points, o.inputs)
    return np.hstack([sign * z for sign in signs])


def kinks(x):
    """Where data in R² have theirs, on the circle."""
    return normalize(np.concatenate([x @ [[0.0, 1.0], [-1.0, 0.0]], x @ [[0.0, -1.0], [1.0, 0.0]]]))


def check(found, o, tolerance, signs=SIGNED):
    """Everything that a MaxMargin says of itself, by an independent evaluation."""
    y, a, size = o.targets, found.atoms, np.linalg.norm(o.inputs, axis=1).max() ** o.feature.degree
    margins = (
        y
        * (matrix(o.feature.name, normalize(a.positions), o.inputs) @ (a.signs * a.weights))
        / a.weights.sum()
    )
    assert (
        a.mass == pytest.approx(1.0, rel=1e-13) and (a.weights > 0.0).all() and len(a) <= len(y) + 1
    )
    assert found.lower == pytest.approx(margins.min(), rel=0, abs=4e-16 * size)
    assert (found.dual >= 0.0).all() and found.dual.sum() == pytest.approx(1.0, rel=1e-13)
    away = (
        found.upper - (found.dual * y) @ matrix(o.feature.name, a.positions, o.inputs) * a.signs
    )  # of the maximum, atom by atom
    wanted = [away @ a.weights, found.dual @ (margins - margins.min())]
    assert (
        found.slackness == pytest.approx(wanted, abs=1e-14 * size)
        and (found.slackness >= -1e-14 * size).all()
    )
    assert found.lower <= found.upper
    if found.certified:
        assert found.upper - found.lower <= tolerance * abs(found.lower) + 1e-10
        dense = hkflow.quasi_uniform(20_000, o.axes - 1)
        if o.axes in (2, 3):
            dense = np.concatenate(
                [dense, kinks(o.inputs) if o.axes == 2 else explicit_candidates(o.inputs)]
            )
        assert (found.dual @ signed_matrix(o, dense, signs)).max() <= found.upper


@pytest.mark.parametrize("feature", ["relu", "squared-relu"])
@pytest.mark.parametrize("n", [6, 15])
def test_on_the_circle_a_dense_programme_agrees(feature, n):
    o = objective(feature, n, 2, n, labels="any")
    angles = 2.0 * np.pi * np.arange(5000) / 5000
    dense = np.concatenate([np.column_stack([np.cos(angles), np.sin(angles)]), kinks(o.inputs)])
    found, wanted = max_margin(o, SIGNED, 1e-8), l1_margin(signed_matrix(o, dense)).value
    check(found, o, 1e-8)
    assert found.upper >= wanted - 1e-9 and found.lower == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("feature", ["relu", "squared-relu"])
def test_on_the_sphere_a_dense_programme_is_a_lower_bound(feature):
    o = objective(feature, 12, 3)
    found = max_margin(o, SIGNED, 1e-7)
    wanted = l1_margin(signed_matrix(o, hkflow.quasi_uniform(5000, 2))).value
    check(found, o, 1e-7)
    assert wanted <= found.upper and found.lower == pytest.approx(wanted, rel=6e-3)


@pytest.mark.parametrize("signs", [(1,), SIGNED])
@pytest.mark.parametrize(
    "axes, n, tolerance", [(2, 40, 1e-6), (2, 200, 1e-6), (3, 40, 1e-5), (3, 200, 1e-5)]
)
@pytest.mark.parametrize("feature", ["relu", "squared-relu"])
def test_the_interval_is_as_short_as_promised(feature, axes, n, tolerance, signs):
    o = objective(feature, n, axes)
    check(max_margin(o, signs, tolerance), o, tolerance, signs)


def leaky(s):
    return np.where(s > 0.0, s, 0.1 * s), np.where(s > 0.0, 1.0, 0.1)


@pytest.mark.parametrize("axes", [3, 4, 6])
@pytest.mark.parametrize("feature", [FEATURES["absolute-value"], hkflow.ridge(leaky, degree=1)])
def test_units_that_are_linear_on_either_side_of_zero(feature, axes):
    """Enclosed where the data are turned, too, and not below what dense points reach."""
    rng = np.random.default_rng(axes)
    x, y = rng.normal(size=(12, axes)), rng.choice([-1.0, 1.0], size=12)
    turn, points = (
        np.linalg.qr(rng.normal(size=(axes, axes)))[0],
        hkflow.quasi_uniform(3000, axes - 1),
    )
    found = [
        max_margin(hkflow.Objective(feature, RISK, inputs, y), SIGNED) for inputs in (x, x @ turn)
    ]
    assert all(one.certified and one.reached for one in found)
    assert max(one.lower for one in found) <= min(one.upper for one in found)
    z = y[:, None] * feature.matrix(points, x)
    wanted = l1_margin(np.hstack([z, -z])).value
    assert wanted <= found[0].upper and found[0].lower == pytest.approx(wanted, rel=0.4)


def test_an_open_search_is_seen(monkeypatch):
    """A search that never finds the highest point leaves an upper value below what dense points
    prove."""
    honest, o = module.local_maxima, objective("relu", 20, 3)
    check(max_margin(o, SIGNED), o, 1e-6)

    def blind(*arguments):
        found = honest(*arguments)
        return type(found)(found.points, found.signs, 0.9 * found.values, True, 0.0)

    monkeypatch.setattr(module, "local_maxima", blind)
    found = max_margin(o, SIGNED)
    with pytest.raises(AssertionError):
        check(found, o, 1e-6)


@pytest.mark.parametrize("axes", [2, 3])
def test_joint_relu_has_half_of_the_margin(axes):
    whole, half = (objective(feature, 20, axes) for feature in ("relu", "joint-relu"))
    a, b = max_margin(whole, SIGNED, 1e-8), max_margin(half, (1,), 1e-8)
    assert (
        b.certified
        and b.lower == pytest.approx(0.5 * a.lower, rel=2e-8)
        and b.upper == pytest.approx(0.5 * a.upper, rel=2e-8)
    )
    z = half.targets[:, None] * half.feature.matrix(b.atoms.positions, half.inputs)
    assert b.lower == pytest.approx((z @ b.atoms.weights).min(), rel=1e-12)


@pytest.mark.parametrize("signs", [(1,), SIGNED])
def test_linear_features_have_the_hard_margin(signs):
    """∫ θ·x dν is w·x with |w| ≤ 1: the nearest point of the hull of y x, on any sphere."""
    o = objective("linear", 30, 4, labels="two clusters")
    z = o.targets[:, None] * (o.inputs + 3.0 * o.targets[:, None] * np.eye(1, 4))
    o = hkflow.Objective(o.feature, o.risk, z * o.targets[:, None], o.targets)
    found = max_margin(o, signs, 1e-7)
    check(found, o, 1e-7, signs)
    assert found.certified and found.lower == pytest.approx(
        np.linalg.norm(least_distance(z, np.ones(30)) @ z), rel=1e-7
    )
    one = hkflow.Objective(o.feature, o.risk, [[3.0, 4.0, 0.0, 0.0]], [-1.0])
    assert max_margin(one, signs).upper == pytest.approx(5.0, rel=1e-6)


def test_data_that_nothing_separates():
    """The same point with both labels, or negative labels for positive units: the margin is
    zero."""
    x, y = np.array([[1.0, 0.5], [1.0, 0.5], [-1.0, 1.0]]), np.array([1.0, -1.0, 1.0])
    for feature in ("relu", "squared-relu"):
        o = hkflow.Objective(FEATURES[feature], hkflow.RISKS["smooth-margin"], x, y)
        found = max_margin(o, SIGNED)
        assert found.lower <= 0.0 <= found.upper + 1e-9 and found.upper - found.lower < 1e-9
    o = hkflow.Objective(FEATURES["relu"], hkflow.RISKS["smooth-margin"], x, -np.ones(3))
    found = max_margin(o, (1,))
    assert found.lower <= found.upper <= 1e-9  # positive units cannot help negative labels
    linear = hkflow.Objective(
        FEATURES["linear"], hkflow.RISKS["smooth-margin"], x[:, :1], [1.0, 1.0, 1.0]
    )
    assert max_margin(linear, SIGNED).lower == pytest.approx(0.0, abs=1e-9)


def test_a_start_is_accepted_and_changes_nothing():
    o = objective("relu", 30, 3)
    cold = max_margin(o, SIGNED, 1e-6)
    warm = max_margin(o, SIGNED, 1e-6, cold.atoms)
    check(warm, o, 1e-6)
    assert warm.rounds <= cold.rounds and warm.lower == pytest.approx(cold.lower, rel=2e-6)


def nearly_coinciding(distance, seed):
    """Two inputs of opposite labels at that distance, and up to three more."""
    rng = np.random.default_rng(seed)
    first, more = rng.normal(size=3), rng.normal(size=(int(rng.integers(0, 4)), 3))
    x = np.concatenate([[first, first + distance * rng.normal(size=3)], more])
    return hkflow.Objective(
        FEATURES["relu"],
        RISK,
        x,
        np.concatenate([[1.0, -1.0], rng.choice([-1.0, 1.0], size=len(more))]),
    )


@pytest.mark.parametrize("distance", [1e-3, 1e-5, 1e-6, 1e-7, 1e-8])
def test_nearly_coinciding_data_have_a_proved_interval(distance):
    """Both ends in exact arithmetic or by NumPy alone; where linear programmes are too coarse, a
    sentence says so."""
    proved = 0
    for seed in range(12):
        o, signs = nearly_coinciding(distance, seed), SIGNED if seed % 2 else (1,)
        try:
            found = max_margin(o, signs, 1e-3)
        except HkflowError as error:
            assert "wider than the tolerance" in str(error)
            continue
        check(found, o, 1e-3, signs)
        assert max(exact_highest(o.inputs, sign * found.dual * o.targets) for sign in signs) <= max(
            found.upper, 0.0
        )
        proved += 1
    assert proved >= 10


def test_what_has_no_max_margin_is_refused():
    regression, labels = (
        hkflow.Objective(FEATURES["relu"], hkflow.RISKS["square"], np.eye(2), [1.0, v])
        for v in (0.5, -1.0)
    )
    for refused in (
        lambda: max_margin(regression),
        lambda: max_margin_of_atoms(regression, np.eye(2)),
    ):
        with pytest.raises(
            ValueError, match=r"targets \+1 and -1, got 0\.5\. List the classes in data\.positive"
        ):
            refused()
    for tolerance in (np.nan, np.inf, -1e-6):
        with pytest.raises(ValueError, match="finite and at least 0, got"):
            max_margin(labels, SIGNED, tolerance)


def test_a_missed_tolerance_names_one_that_is_met(monkeypatch):
    monkeypatch.setattr(module, "MAX_ROUNDS", 5)
    o = objective("relu", 40, 3)
    with pytest.raises(
        HkflowError, match=r"wider than the tolerance 1e-09 after 5 rounds\. Take a tolerance"
    ) as missed:
        max_margin(o, SIGNED, 1e-9)
    enough = float(str(missed.value).split("Take a tolerance of ")[1].rstrip("."))
    assert 1e-9 < max_margin(o, SIGNED, enough).relative_gap <= enough


@pytest.mark.parametrize("feature", ["relu", "squared-relu"])
@pytest.mark.parametrize("seed", range(6))
def test_beyond_the_sphere_lower_stays_below_upper(feature, seed):
    o = objective(feature, 40, 5, seed)
    found = max_margin(o, SIGNED, 1e-3)
    assert found.certified == (feature == "relu")
    check(found, o, 1e-3)


def mingled(seed):
    """Two clusters in R⁵ that overlap."""
    rng = np.random.default_rng(seed)
    y = rng.choice([-1.0, 1.0], size=40)
    x = 0.5 * rng.normal(size=(40, 4)) + y[:, None] * np.eye(1, 4)
    return hkflow.Objective(FEATURES["relu"], RISK, np.column_stack([x, np.ones(40)]), y)


@pytest.mark.parametrize("seed", [5, 8])
def test_what_a_climb_misses_inverts_no_interval(seed):
    """Here an upper value once fell 7e-5 below the lower one, that of a p whose highest directions
    had not been found yet."""
    check(max_margin(mingled(seed), SIGNED), mingled(seed), 1e-6)


def test_a_first_programme_without_margin_keeps_its_directions():
    """200 mingled data: the first linear programmes have margin 0, and to drop what p thinks little
    of went round in circles."""
    rng = np.random.default_rng(0)
    y = rng.choice([-1.0, 1.0], size=200)
    x = np.column_stack([0.6 * rng.normal(size=200) + y, np.ones(200)])
    o = hkflow.Objective(FEATURES["relu"], RISK, x, y)
    found = max_margin(o, SIGNED)
    check(found, o, 1e-6)
    assert 0.0 < found.lower < 1e-4


@pytest.mark.parametrize("signs", [(1, -1), (1,)])
@pytest.mark.parametrize(
    "inputs", [[[1e6, 0.0], [0.0, 1e-6]], [[1e6, 0.0], [1e6, 1e-6]], [[1e5, 0.0], [0.0, 1e-7]]]
)
@pytest.mark.parametrize("turned", [0.0, 0.05])
def test_a_long_datum_does_not_hide_the_margin_of_a_short_one(inputs, signs, turned):
    """They were said to be not separable: weights on row 2, to which no unit gives a mean margin
    above 1e-05."""
    name = "relu" if len(signs) > 1 else "linear"
    risk, y = hkflow.RISKS["smooth-margin"], np.array([1.0, -1.0])
    data = hkflow.Objective(hkflow.FEATURES[name], risk, np.array(inputs), y)
    c, s = np.cos(turned), np.sin(turned)
    start = hkflow.PointMeasure([[c, s], [-s, -c], [s, -c]], [1, signs[-1], signs[-1]])
    found = enclosed_max_margin(data, signs, start=start)
    assert 0.0 < found.lower <= found.upper and not found.is_none
    assert "no margin is positive" not in str(found)


def test_margins_that_rounding_makes_are_none():
    """XOR has none for linear units, beside a long datum neither."""
    inputs = np.array([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0], [1e3, 3.0]])
    y = np.array([1.0, 1.0, -1.0, -1.0, 1.0])
    data = hkflow.Objective(hkflow.FEATURES["linear"], hkflow.RISKS["smooth-margin"], inputs, y)
    assert enclosed_max_margin(data).is_none


def test_rounding_of_features_of_unknown_size_is_not_taken_for_that_of_the_inputs():
    """A margin of 1e-8 of opposite inputs is rounding of features of 1e8."""
    feature = hkflow.Feature(
        "huge",
        lambda points, inputs: 1e8 * (inputs @ points.T),
        1,
        pullback=lambda points, inputs, g: np.repeat(1e8 * (g @ inputs)[None], len(points), 0),
    )
    rng = np.random.default_rng(12)
    x = rng.integers(-64, 64, (2, 3)) / 7.0
    x[1] = -3.3 * x[0]
    data = hkflow.Objective(feature, RISK, x, np.ones(2))
    assert enclosed_max_margin(data).is_none
