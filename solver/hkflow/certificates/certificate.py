"""What a run proves about the max-margin, from its own predictions and its own soft-argmin weights.

For every probability ν̄ and every p in the simplex, with γ_ℓ1 the max-margin over all measures of
mass one,

    min_i y_i h_ν̄(x_i)  ≤  γ_ℓ1  ≤  max_θ Σ_i p_i y_i φ(θ, x_i)
"""

from typing import Any

import numpy as np

from ..arguments import Floats
from ..operators.dense import RELU
from ..problem.problem import Problem
from .contradiction import contradiction
from .global_upper_bound import global_upper_bound, is_enclosable, nodes_of_record


def certifies_margin(problem: Problem) -> bool:
    """Whether a run of this problem encloses γ_ℓ1: labels, no weight decay, and a feature whose
    sums have a bound over the domain."""
    objective = problem.objective
    searched = problem.domain.fixed or is_enclosable(objective.feature, objective.axes)
    return (
        objective.risk.classifies
        and objective.weight_decay == 0.0
        and len(objective.targets) > 0
        and searched
    )


def margin_certifier(problem: Problem) -> "MarginCertifier | None":
    """The MarginCertifier of a problem, or None if its margin is not enclosed."""
    return MarginCertifier(problem) if certifies_margin(problem) else None


EVALUATIONS_PER_CONE = 2  # and coordinate: a certificate then takes a twentieth of the time


class MarginCertifier:
    """Records what a run proves about γ_ℓ1. Contradictory data prove γ_ℓ1 = 0, whatever the run
    does.

    evaluations : of the potential between two certificates, at least, so that these cost little
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, self.contradictory = problem, contradiction(problem.objective) is not None
        objective, cones = problem.objective, 0
        if objective.feature.activation == RELU and not problem.domain.fixed:
            cones = nodes_of_record(objective.inputs)
        self.evaluations = EVALUATIONS_PER_CONE * objective.inputs.shape[1] * cones

    def record(self, e: Any, margin: float, known: tuple, renew: bool) -> dict[str, float]:
        """The certificate of an evaluation e as numbers by name, and what margins are proved by
        now.

        margin : of e;  known : lower and upper bound so far;  renew : else the certificate is nan
        """
        proof = (
            margin_certificate(self.problem, e.predictions, e.mass, e.loss_gradient)
            if renew
            else NOTHING
        )
        upper = 0.0 if self.contradictory else proof["dual_value"]
        return proof | {
            "margin_lower": np.fmax(known[0], margin),
            "margin_upper": np.fmin(known[1], upper),
        }


def margin_certificate(
    problem: Problem, predictions: Floats, mass: float, residuals: Floats
) -> dict[str, float]:
    """The dual value of p_i ∝ −y_i ∂R/∂h_i and the residuals of complementary slackness, by name;
    nan where p is no probability.

    predictions (n_data,), mass : in one unit;  residuals : (n_data,) ∂R/∂h_i
    dual_value : the maximum over the whole domain, from above, rounding included
    slackness_measure, slackness_data : see slackness; their sum is dual_value − margin
    Source: Chizat & Bach 2020, Prop. 12.
    """
    p = np.maximum(-problem.objective.targets * residuals, 0.0)
    total = p.sum()
    if not (np.isfinite(total) and total > 0.0 and mass > 0.0):
        return NOTHING
    p /= total
    value = dual_value(problem, p)
    objective = problem.objective
    counts, margins = objective.weights > 0.0, objective.targets * predictions / mass
    measure, data = slackness(margins[counts], p[counts], value)
    return {"dual_value": value, "slackness_measure": measure, "slackness_data": data}


NOTHING = dict.fromkeys(("dual_value", "slackness_measure", "slackness_data"), np.nan)


def slackness(margins: Floats, dual: Floats, upper: float) -> Floats:
    """The two residuals of complementary slackness for margins y_i h_ν(x_i) of a probability ν,
    dual p and upper value."""
    mean = dual @ margins
    return np.array([upper - mean, mean - margins.min()])


def dual_value(problem: Problem, p: Floats) -> float:
    """max over the domain of Σ p_i y_i φ(θ, x_i), from above;  p : (n_data,) in the simplex."""
    objective, coefficients = problem.objective, p * problem.objective.targets
    if problem.domain.fixed:
        atoms = problem.mesh.centers  # type: ignore[union-attr]  # fixed features have a mesh
        values = coefficients @ objective.feature.matrix(atoms, objective.inputs)
        return float(np.multiply.outer(problem.output_signs, values).max())
    return global_upper_bound(
        objective.feature, objective.inputs, coefficients, problem.output_signs
    )
