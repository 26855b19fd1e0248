"""What a run proves about the max-margin, from its own predictions and its own soft-argmin weights.

For every probability ν̄ and every p in the simplex, with γ_ℓ1 the max-margin over all measures of
mass one,

    min_i y_i h_ν̄(x_i)  ≤  γ_ℓ1  ≤  max_θ Σ_i p_i y_i φ(θ, x_i)

Of k classes every lead h_{y_i} − h_l, l ≠ y_i, takes the place of a margin y_i h, and has a weight
p_il.
"""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..arguments import Floats
from ..objectives.objective import Objective
from ..problem.problem import Problem
from .contradiction import contradiction
from .global_upper_bound import global_upper_bound, is_enclosable, nodes_of_record


def certifies_margin(problem: Problem) -> bool:
    """Whether a run of this problem encloses γ_ℓ1: labels, no weight decay, and a feature whose
    sums have a bound over the domain."""
    objective = problem.objective
    searched = problem.domain.fixed or is_enclosable(objective.feature, objective.axes)
    return (
        objective.risk.has_margins
        and objective.weight_decay == 0.0
        and len(objective.targets) > 0
        and searched
    )


EVALUATIONS_PER_CONE = 2  # and coordinate: a certificate then takes a twentieth of the time


class MarginCertifier:
    """Records what a run proves about γ_ℓ1. Contradictory data prove γ_ℓ1 = 0, whatever the run
    does.

    evaluations : of the potential between two certificates, at least, so that these cost little
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, self.contradictory = problem, contradiction(problem.objective) is not None
        feature, inputs = problem.objective.feature, problem.objective.inputs
        cones = 0 if problem.domain.fixed else nodes_of_record(feature, inputs)
        self.evaluations = EVALUATIONS_PER_CONE * inputs.shape[1] * cones

    @classmethod
    def of(cls, problem: Problem) -> Self | None:
        """That of a problem, or None if its margin is not enclosed."""
        return cls(problem) if certifies_margin(problem) else None

    def record(
        self, e: Any, margin: float, known: tuple, renew: bool, log_scale: float = 0.0
    ) -> dict[str, float]:
        """The certificate of an evaluation e as numbers by name, and what margins are proved by
        now.

        margin : of e;  known : lower and upper bound so far;  renew : else the certificate is nan
        log_scale : predictions and mass are in units of e^log_scale
        """
        proof = (
            margin_certificate(self.problem, e.predictions, e.mass, e.loss_gradient, log_scale)
            if renew
            else NOTHING
        )
        upper = 0.0 if self.contradictory else proof["dual_value"]
        return proof | {
            "margin_lower": np.fmax(known[0], margin),
            "margin_upper": np.fmin(known[1], upper),
        }


def margin_certificate(
    problem: Problem,
    predictions: Floats,
    mass: float,
    residuals: Floats,
    log_scale: float = 0.0,
) -> dict[str, float]:
    """The dual value of p_i ∝ −y_i ∂R/∂h_i, of k classes p_il ∝ ∂R/∂h_il for l ≠ y_i, and the
    residuals of complementary slackness, by name; nan where p is no probability.

    predictions (n_predictions,), mass : in units of e^log_scale;  residuals : (n_predictions,)
        ∂R/∂h; if all are less than numbers hold, p is that of the predictions
    dual_value : the maximum over the whole domain, from above, rounding included
    slackness_measure, slackness_data : dual_value less the mean of margins under p, and that mean
        less the smallest margin; their sum is dual_value − margin
    Source: Chizat & Bach 2020, Prop. 12; of classes Wei et al. 2019, below eq. 2.2.
    """
    objective = problem.objective
    if not residuals.any():
        p = objective.soft_argmin(predictions, log_scale)
    elif objective.risk.coupled:
        p = np.where(others(objective), residuals.reshape(len(objective.targets), -1), 0.0)
    else:
        p = -objective.targets * residuals
    p = np.maximum(p, 0.0)
    total = p.sum()
    if not (np.isfinite(total) and total > 0.0 and mass > 0.0):
        return NOTHING
    p /= total
    value = dual_value(problem, p)
    mean = float(coefficients(objective, p) @ predictions) / mass
    least = objective.margin(predictions) / mass
    return {
        "dual_value": value,
        "slackness_measure": value - mean,
        "slackness_data": mean - least,
    }


NOTHING = dict.fromkeys(("dual_value", "slackness_measure", "slackness_data"), np.nan)


def dual_value(problem: Problem, p: Floats) -> float:
    """max over the domain of Σ p_i y_i φ(θ, x_i), from above;  p : (n_data,) in the simplex, of k
    classes (n_data, k)."""
    objective, c = problem.objective, coefficients(problem.objective, p)
    if problem.domain.fixed:
        atoms = problem.mesh.centers  # type: ignore[union-attr]  # fixed features have a mesh
        values = c @ objective.feature.matrix(atoms, objective.inputs)
        return float(np.multiply.outer(problem.output_signs, values).max())
    return global_upper_bound(objective.feature, objective.inputs, c, problem.output_signs)


def coefficients(objective: Objective, p: Floats) -> Floats:
    """c (n_predictions,) with Σ_i p_i y_i φ(·, x_i) = Σ c φ: p_i y_i, or datum by datum
    Σ_l p_il (e_{y_i} − e_l) of k classes, whose p (n_data, k) are 0 at the own class."""
    if p.ndim == 1:
        return p * objective.targets
    return np.where(others(objective), -p, p.sum(axis=1, keepdims=True)).reshape(-1)


def others(objective: Objective) -> NDArray[np.bool_]:
    """(n_data, k) which classes are not a datum's own."""
    return objective.targets[:, None] != np.arange(objective.feature.outputs)
