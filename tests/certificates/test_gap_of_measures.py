"""How far a measure is from the minimum at most: never less than it is, never more than F."""

import numpy as np
import pytest

import hkflow
from hkflow.certificates import gap, minimise
from hkflow.certificates.gap import gap_of_measure

RISKS = ("square", "logistic", "exponential", "softmax")


def problem(risk, decay, seed):
    """Nine data on the circle, one without weight, one of size 0, two alike with different
    targets."""
    rng = np.random.default_rng(seed)
    x, q = rng.normal(size=(9, 2)), rng.uniform(0.2, 3.0, 9)
    x[1], x[2], q[0] = 0.0, x[3], 0.0
    y = rng.normal(size=9) if risk == "square" else np.resize([1.0, -1.0], 9)
    feature, signs = hkflow.FEATURES["relu"], (1, -1)
    if risk == "softmax":  # of linear units: of two classes, minimise knows the logistic risk
        feature, signs, y = hkflow.vector_feature("linear", 2), (1,), (y > 0.0).astype(float)
    o = hkflow.Objective(feature, {**hkflow.RISKS, "softmax": hkflow.SOFTMAX}[risk], x, y, q, decay)
    flow = hkflow.named_flow("hellinger-kantorovich", feature.degree, signs == (1, -1))
    return hkflow.Problem(None, o, flow, signs, atoms(o, signs, seed))


def atoms(o, signs, seed):
    rng = np.random.default_rng(seed + 100)
    points = rng.normal(size=(5, o.axes))
    points /= np.linalg.norm(points, axis=1)[:, None]
    return hkflow.PointMeasure(points, rng.choice(signs, 5), rng.uniform(0.0, 0.5, 5))


def least(problem):
    """A lower bound of min F, to 1e-6 of it."""
    o, counted = problem.objective, problem.objective.weights > 0.0
    rest = o.inputs[counted], o.targets[counted], o.weights[counted]
    if o.risk is not hkflow.SOFTMAX:
        return minimise(
            hkflow.Objective(o.feature, o.risk, *rest, o.weight_decay), problem.signs
        ).lower
    # h₁ − h₀ = w·x of b ∝ (−1, 1): |ν| = √2 |w|, the mass of linear units by √2
    y = 2.0 * rest[1] - 1.0
    linear = hkflow.FEATURES["linear"], hkflow.RISKS["logistic"]
    decay = np.sqrt(2.0) * o.weight_decay
    return minimise(hkflow.Objective(*linear, rest[0], y, rest[2], decay)).lower


def bound(problem, scale=0.0):
    """F and the bound, of the start in units of e^scale."""
    o, start, unit = problem.objective, problem.initial, np.exp(scale)
    h = o.feature.matrix(start.positions, o.inputs) @ (start.signs * start.weights) / unit
    F = o.evaluate_risk(h, scale, np.empty_like(h)) + o.weight_decay * start.mass / unit
    return unit * F, unit * gap_of_measure(problem, h, scale, start.mass / unit, F)


def holds(risk, decay, seed):
    p = problem(risk, decay, seed)
    F, most = bound(p)
    assert bound(p, 0.7) == pytest.approx((F, most), rel=1e-9)
    return F - least(p) <= most + 2e-6 * F and most <= F * (1.0 + 1e-12)


@pytest.mark.parametrize("decay", [0.3, 1e-2, 1e-4])
@pytest.mark.parametrize("risk", RISKS)
def test_the_bound_is_above_the_gap_and_at_most_the_objective(risk, decay):
    """It was 100 F and more at a small weight decay, by |ν*| ≤ F/λ alone."""
    assert all(holds(risk, decay, seed) for seed in range(4))


@pytest.mark.parametrize("risk", RISKS)
def test_sibling_a_dual_value_that_is_too_large_is_noticed(risk, monkeypatch):
    right = gap._dual_value
    monkeypatch.setattr(gap, "_dual_value", lambda *given: 10.0 * right(*given))
    assert not all(holds(risk, 0.3, seed) for seed in range(4))


def test_values_near_the_largest_numbers_are_below_F_and_no_warning():
    p = problem("square", 1e-3, 0)
    o = p.objective
    rest = o.inputs, 1e150 * o.targets, o.weights, o.weight_decay
    large = hkflow.Objective(o.feature, o.risk, *rest)
    F, most = bound(hkflow.Problem(None, large, p.flow, p.signs, p.initial))
    assert 0.0 < most <= F * (1.0 + 1e-12) < np.inf
