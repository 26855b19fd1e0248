"""What a run proves about the max-margin, from its own predictions and its own soft-argmin weights.

For every probability ν̄ and every p in the simplex, with γ_ℓ1 the max-margin over all measures of mass one,

    min_i y_i h_ν̄(x_i)  ≤  γ_ℓ1  ≤  max_θ Σ_i p_i y_i φ(θ, x_i)
"""

import numpy as np

from .search import is_searchable, peaks

CHEAP = 64  # data in p up to which S² is searched at every record, at a cost of n²; with more only where a run is saved
LARGEST = 1000  # with more data S² is not searched at all: seconds and 9 n² bytes
NEGLIGIBLE = 1e-9  # share of p, of its lightest data, that the search may leave out; the bound counts it


def certifies_margin(problem):
    """Whether a run of this problem encloses γ_ℓ1: labels, no weight decay, and a domain that can be searched with certainty."""
    objective = problem.objective
    small = _is_circle(objective) or len(objective.targets) <= LARGEST
    searched = _is_discrete(problem) or small and is_searchable(objective.feature, objective.axes)
    return objective.risk.classifies and objective.weight_decay == 0.0 and len(objective.targets) > 0 and searched


def margin_certificate(problem, predictions, mass, residuals, thorough):
    """The dual value of p_i ∝ −y_i ∂R/∂h_i and the residuals of complementary slackness, by name.

    predictions (n_data,), mass : in one unit;  residuals : (n_data,) ∂R/∂h_i
    thorough : search even where it is not CHEAP; otherwise the values are nan there
    dual_value : the maximum over the whole domain, from above, rounding included
    slackness_measure, slackness_data : see slackness; their sum is dual_value − margin
    Source: Chizat & Bach 2020, Prop. 12.
    """
    objective, names = problem.objective, ("dual_value", "slackness_measure", "slackness_data")
    p = np.maximum(-objective.targets * residuals, 0.0)
    if not (np.isfinite(p).all() and p.sum() > 0.0 and mass > 0.0):
        return dict.fromkeys(names, np.nan)
    p /= p.sum()
    if not (thorough or _is_discrete(problem) or is_cheap(objective, p)):
        return dict.fromkeys(names, np.nan)
    value = dual_value(problem, p)
    return dict(zip(names, (value, *slackness(objective.targets * predictions / mass, p, value)), strict=True))


def slackness(margins, dual, upper):
    """The two residuals of complementary slackness for margins y_i h_ν(x_i) of a probability ν, dual p and upper value."""
    mean = dual @ margins
    return np.array([upper - mean, mean - margins.min()])


def is_cheap(objective, p):
    """Whether the search for weights p (n_data,) costs little beside a step."""
    return _is_circle(objective) or len(p) <= LARGEST and len(p) - len(_light(p)) <= CHEAP


def dual_value(problem, p):
    """max over the domain of Σ p_i y_i φ(θ, x_i), from above; the lightest data enter by the size of their features alone.

    p : (n_data,) in the simplex
    """
    objective, coefficients = problem.objective, p * problem.objective.targets
    feature, inputs, signs = objective.feature, objective.inputs, (1, -1) if problem.flow.signed else problem.signs
    if _is_discrete(problem):
        return float(np.multiply.outer(signs, coefficients @ feature.matrix(problem.mesh.centers, inputs)).max())
    light = _light(p)
    sizes = np.linalg.norm(inputs[light], axis=1) ** (1 if feature.joint else feature.degree)
    coefficients[light] = 0.0
    return peaks(feature, inputs, coefficients, signs).bound + float(p[light] @ sizes)


def _is_circle(objective):
    return objective.axes - objective.feature.joint <= 2


def _light(p):
    """The data with the smallest p, NEGLIGIBLE together."""
    order = np.argsort(p)
    return order[: np.searchsorted(np.cumsum(p[order]), NEGLIGIBLE * p.sum())]


def _is_discrete(problem):
    return problem.mesh is not None and problem.mesh.is_discrete
