from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

import hkflow
from hkflow import FEATURES, RISKS, Objective


def an_objective(rng, activation, loss, weight_decay=0.3, n=6, p=3):
    targets = rng.choice([-1.0, 1.0], size=n)
    targets[:2] = 1.0, -1.0
    return Objective(
        FEATURES[activation], RISKS[loss], rng.normal(size=(n, p)), targets, None, weight_decay
    )


@pytest.mark.parametrize("activation", FEATURES)
@pytest.mark.parametrize("loss", RISKS)
@pytest.mark.parametrize("signs", [(1,), (1, -1)])
def test_potential_is_the_derivative_of_the_value(activation, loss, signs, rng):
    objective = an_objective(rng, activation, loss)
    points = rng.normal(size=(40, objective.axes))
    on = objective.at_fixed_points(points / np.linalg.norm(points, axis=1, keepdims=True), signs)
    weights, direction = rng.random((len(signs), 40)) / 20, rng.normal(size=(len(signs), 40))
    on.evaluate(weights)
    slope = (on.potential * direction).sum()
    h = 1e-4
    centred = [
        (on.evaluate(weights + k * h * direction) - on.evaluate(weights - k * h * direction))
        / (2 * k * h)
        for k in (1, 2)
    ]
    assert (4 * centred[0] - centred[1]) / 3 == pytest.approx(slope, rel=1e-8, abs=1e-10)


@pytest.mark.parametrize("loss", RISKS)
@pytest.mark.parametrize("factor", [0.01, 8.0, 300.0])
def test_log_scale_is_a_factor_of_the_measure(loss, factor, rng):
    points = rng.normal(size=(30, 3))
    one, two = (
        an_objective(np.random.default_rng(1), "relu", loss).at_fixed_points(points, (1, -1))
        for _ in range(2)
    )
    weights = rng.random((2, 30)) / 300
    scaled = two.evaluate(weights, log_scale=np.log(factor))
    assert one.evaluate(factor * weights) == pytest.approx(factor * scaled, rel=1e-12)
    assert one.potential == pytest.approx(two.potential, rel=1e-11)
    assert one.predictions == pytest.approx(factor * two.predictions, rel=1e-13)


@pytest.mark.parametrize("loss", ["smooth-margin", "smooth-logistic-margin"])
def test_smooth_margins_need_no_number_for_the_scale(loss):
    """At log mass 10⁴ and 10⁸ the soft-argmin is the argmin, shared by those that tie, and the
    margin the smallest."""
    out, y, h = np.empty(3), np.array([1.0, -1.0, 1.0]), np.array([0.25, -0.25, 0.5])
    for log_scale in (800.0, 1e4, 1e8):
        assert RISKS[loss].scaled(h, log_scale, y, np.array([0.5, 0.25, 0.25]), out) == -0.25
        assert -y * out == pytest.approx([2 / 3, 1 / 3, 0.0], abs=1e-300, rel=1e-15)


@given(
    margins=st.lists(st.floats(-1e8, 1e8), min_size=1, max_size=8),
    loss=st.sampled_from(["logistic", "smooth-margin", "smooth-logistic-margin"]),
)
@settings(max_examples=200, deadline=None)
def test_log_sum_exp_forms_are_safe_for_any_margin(margins, loss):
    u = np.array(margins)
    y = np.where(np.arange(len(u)) % 2, -1.0, 1.0)
    q, out = np.full(len(u), 1 / len(u)), np.empty(len(u))
    value = RISKS[loss].evaluate(y * u, y, q, out)
    p = -y * out
    if loss == "smooth-logistic-margin":
        # log ℓ(−u)
        logs = np.where(u > 300.0, -u, np.log(np.maximum(np.logaddexp(0.0, -u), 1e-300)))
        assert value == pytest.approx(logsumexp(logs, b=q), rel=1e-12, abs=1e-12)
        assert p == pytest.approx(
            np.exp(np.log(q) - np.logaddexp(0.0, u) - value), rel=1e-7, abs=1e-300
        )
    elif loss == "smooth-margin":
        assert value == pytest.approx(logsumexp(-u, b=q), rel=1e-12, abs=1e-12)
        assert p.sum() == pytest.approx(1.0, rel=1e-12) and (p >= 0).all()
    else:
        assert value == pytest.approx((q * np.logaddexp(0.0, -u)).sum(), rel=1e-12, abs=1e-300)
        assert (p >= 0).all() and (p <= q).all()


def test_smooth_margin_of_an_enormous_margin():
    out = np.empty(2)
    value = RISKS["smooth-margin"].evaluate(np.array([1e8, 2e8]), np.ones(2), np.full(2, 0.5), out)
    assert value == pytest.approx(-1e8 + np.log(0.5), rel=1e-15)
    assert out == pytest.approx([-1.0, 0.0], abs=1e-300)


def test_errors_and_margins():
    objective = Objective(FEATURES["relu"], RISKS["logistic"], np.eye(3), [1.0, -1.0, 1.0])
    h = np.array([0.5, 0.25, 2.0])
    assert objective.error(h) == pytest.approx(1 / 3) and objective.margin(h) == -0.25
    regression = Objective(FEATURES["relu"], RISKS["square"], np.eye(3), [1.0, 0.0, 1.0])
    assert regression.error(h) == pytest.approx(np.sqrt((0.25 + 0.0625 + 1) / 3)) and np.isnan(
        regression.margin(h)
    )


@pytest.mark.parametrize(
    "change, message",
    [
        ({"targets": [1.0, 2.0]}, r"targets \+1 or -1"),
        ({"targets": [1.0]}, "need 2 targets"),
        ({"inputs": [[np.nan, 1.0], [0.0, 1.0]]}, "finite"),
        ({"weight_decay": -1.0}, "at least 0"),
        ({"weight_decay": np.nan}, "at least 0"),
    ],
)
def test_bad_arguments_are_refused(change, message):
    good = {"inputs": np.eye(2), "targets": [1.0, -1.0], "weight_decay": 0.0}
    Objective(FEATURES["relu"], RISKS["logistic"], **good)
    with pytest.raises(ValueError, match=message):
        Objective(FEATURES["relu"], RISKS["logistic"], **(good | change))


@pytest.mark.parametrize(
    "name, slope", [("smooth-margin", 1000.0), ("smooth-logistic-margin", np.log(1000.0))]
)
def test_data_of_no_weight_do_not_set_the_scale_of_the_others(name, slope):
    """Before, the smallest margin was taken out of the sum whatever its weight, and the rest of the
    sum was 0: a division by it."""
    h, y, out = np.array([-1000.0, 900.0, 901.0]), np.ones(3), np.zeros(3)
    value = RISKS[name].evaluate(h, y, np.array([0.0, 0.5, 0.5]), out)
    assert value == pytest.approx(np.log(0.5 + 0.5 * np.exp(-1.0)) - 900.0, rel=1e-14)
    np.testing.assert_allclose(
        out, [0.0, -1.0 / (1.0 + np.exp(-1.0)), -1.0 / (1.0 + np.exp(1.0))], rtol=1e-14, atol=0.0
    )
    value = RISKS[name].evaluate(h, y, np.array([1e-300, 0.5, 0.5]), out)
    assert value == pytest.approx(slope - 300.0 * np.log(10.0), rel=1e-13)


@pytest.mark.parametrize(
    "function, got",
    [
        (np.tanh, r"those of the shapes \[\(1,\), \(1,\), \(1,\)\]"),
        (lambda s: (s, 1.0), r"\[\(3, 1\), \(\)\]"),
        (lambda s: 1 // 0, "ZeroDivisionError"),
        (3, "not callable"),
    ],
)
def test_a_ridge_wants_a_function_and_its_derivative(function, got):
    with pytest.raises(ValueError, match=rf"{got}.* Wanted a function s -> \(ψ\(s\), ψ′\(s\)\)"):
        hkflow.ridge(function)


@pytest.mark.parametrize("loss", ["square", "logistic", "softmax"])
def test_a_weight_is_a_number_of_copies(rng, loss):
    """Of the error, and of the mean by which steps are judged."""
    counts, outputs = np.array([3, 1, 2, 1]), 3 if loss == "softmax" else 1
    x, targets = rng.normal(size=(4, 2)), np.array([1.0, -1.0, 1.0, 1.0])
    feature = hkflow.vector_feature("relu", 3) if loss == "softmax" else hkflow.FEATURES["relu"]
    risk = hkflow.SOFTMAX if loss == "softmax" else hkflow.RISKS[loss]
    targets = np.array([0.0, 2.0, 1.0, 1.0]) if loss == "softmax" else targets
    h = rng.normal(size=(4, outputs))
    one = hkflow.Objective(feature, risk, x, targets, counts / 7.0)
    copied = hkflow.Objective(feature, risk, *(np.repeat(a, counts, axis=0) for a in (x, targets)))
    copies = np.repeat(h, counts, axis=0).ravel()
    for name in ("error", "margin", "rms"):
        np.testing.assert_allclose(
            getattr(one, name)(h.ravel()), getattr(copied, name)(copies), rtol=1e-14
        )
    assert one.error(h.ravel()) > 0.0


def test_arrays_are_copied_once(rng):
    """Before, an objective, and the run made of it, changed with the arrays of the caller."""
    given = rng.normal(size=(4, 2)), np.ones(4), np.full(4, 0.25)
    objective = hkflow.Objective(hkflow.FEATURES["relu"], hkflow.RISKS["square"], *given)
    held = [getattr(objective, name) for name in ("inputs", "targets", "weights")]
    kept = [array.copy() for array in given]
    for array in given:
        array *= 2.0
    for array, wanted in zip(held, kept, strict=True):
        np.testing.assert_array_equal(array, wanted)
    assert replace(objective, weight_decay=1.0).inputs is objective.inputs
    signs, weights = np.ones(4), np.ones(4)
    atoms = hkflow.PointMeasure(rng.normal(size=(4, 2)), signs, weights)
    signs[0], weights[0] = -1.0, 2.0
    assert atoms.signs.all() and (atoms.weights == 1.0).all()


def test_weights_of_data_are_taken_as_they_are(rng):
    """Seven times the weights are seven times the risk and the potential; errors are shares."""
    x, y, q = rng.normal(size=(6, 3)), rng.normal(size=6), np.array([1.0, 1, 1, 1, 1, 2]) / 7
    points, weights = rng.normal(size=(9, 3)), rng.random((1, 9))
    relu, square = hkflow.FEATURES["relu"], hkflow.RISKS["square"]
    repeated = hkflow.Objective(relu, square, np.vstack([x, x[5]]), np.append(y, y[5]))
    one, seven = (hkflow.Objective(relu, square, x, y, w) for w in (q, 7 * q))
    found = [o.at_fixed_points(points) for o in (repeated, one, seven)]
    values = [on.evaluate(weights) for on in found]
    assert values == pytest.approx([values[1]] * 2 + [7 * values[1]], rel=1e-13, abs=0.0)
    assert found[2].potential == pytest.approx(7 * found[1].potential, rel=1e-12, abs=1e-14)
    assert found[0].potential == pytest.approx(found[1].potential, rel=1e-12, abs=1e-14)
    h = found[1].predictions
    assert seven.error(h) == pytest.approx(one.error(h), rel=1e-14, abs=0.0)
