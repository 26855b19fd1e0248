"""How far a regularised problem is from its global minimum, from the potential of its own state (Wei et al. 2019, eq. E.13)."""

import numpy as np

from ..objectives.risks import RISKS

NONNEGATIVE = tuple(RISKS[name] for name in ("square", "logistic", "exponential"))


def bounds_gap(problem):
    """Whether `gap_bound` is known: λ > 0, R ≥ 0, the mobility ν and features of known size."""
    objective = problem.objective
    sized = objective.feature.kernel is not None and objective.risk in NONNEGATIVE
    return sized and objective.weight_decay > 0.0 and problem.flow.depth == 2.0


def gap_bound(objective, e, log_scale, lowest_objective):
    """A bound of F(ν) − F*, F* the minimum over all measures on the cells, in units of e^log_scale.

    F(ν) − F* ≤ ∫J dν − W min(min J, 0),  W = F_lowest / λ ≥ F* / λ ≥ |ν*| as R ≥ 0  (Wei et al. 2019, eq. E.13)

    objective : F;  e : the Evaluation of ν;  lowest_objective : of the run so far
    min J is the minimum over cells: the one over the sphere differs by O(h). If residuals g other than ∂R/∂h drive the flow
    (implicit steps), J − J_g = Σ (∂_i R − g_i) φ_i enters exactly in ∫J dν and by its bound in min J.
    """
    own = np.zeros_like(e.residuals)
    if len(own):
        objective.evaluate_risk(e.predictions, log_scale, own)
    off = own - e.residuals
    mean, lowest = e.first + off @ e.predictions, e.lowest - np.abs(off).sum() * objective.largest_feature
    return mean - lowest_objective / objective.weight_decay * min(lowest, 0.0)
