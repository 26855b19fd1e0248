"""How far a regularised problem is from its global minimum, from the potential of its own state
(Wei et al. 2019, eq. E.13), or by duality."""

from typing import Any

import numpy as np

from ..arguments import Floats
from ..objectives.losses import RISKS, SOFTMAX
from ..problem.problem import Problem
from .global_upper_bound import global_upper_bound, is_enclosable
from .search import is_searchable

ROUNDED = 1e-14  # of F: what rounding may hide of the difference of two values
NONNEGATIVE = *(RISKS[name] for name in ("square", "logistic", "exponential")), SOFTMAX


def bounds_gap(problem: Problem) -> bool:
    """Whether `gap_bound` is known: λ > 0, R ≥ 0, no entropy, the mobility ν and features of known
    size."""
    objective, feature = problem.objective, problem.objective.feature
    sized = feature.activation is not None or feature.pieces is not None
    known = sized and objective.risk in NONNEGATIVE and objective.entropy == 0.0
    return known and objective.weight_decay > 0.0 and problem.flow.depth == 2.0


def bounds_every_gap(problem: Problem) -> bool:
    """Whether `gap_of_measure` is known, and min J is found and not only bounded."""
    feature, axes = problem.objective.feature, problem.objective.axes
    return bounds_gap(problem) and searches(problem) and is_searchable(feature, axes)


def gap_bound(problem: Problem, e: Any, log_scale: float, lowest_objective: float) -> float:
    """A bound of F(ν) − F*, F* the minimum over all measures on the sphere, in units of
    e^log_scale.

    F(ν) − F* ≤ ∫J dν − W min(min J, 0),  W = F_lowest / λ ≥ F* / λ ≥ |ν*| as R ≥ 0  (Wei et al.
    2019, eq. E.13)

    e : the Evaluation of ν;  lowest_objective : of the run so far
    min J is one of the whole sphere where a bound is known. For a population, on atoms and for
    squared ReLU beyond S² it is the minimum over cells, and so is F*. If loss gradients g other
    than ∂R/∂h drive the flow (implicit steps), then J − J_g = Σ (∂_i R − g_i) φ_i enters exactly in
    ∫J dν and by its bound in min J over cells.
    """
    objective, own = problem.objective, np.zeros_like(e.loss_gradient)
    if len(own):
        objective.evaluate_risk(e.predictions, log_scale, own)
    off = own - e.loss_gradient
    if searches(problem):
        lowest = _lowest(problem, own)
    else:
        lowest = e.lowest - np.abs(off).sum() * objective.largest_feature
    mean = e.potential_integral + off @ e.predictions
    return mean - lowest_objective / objective.weight_decay * min(lowest, 0.0)


def gap_of_measure(
    problem: Problem, predictions: Floats, log_scale: float, mass: float, lowest_objective: float
) -> float:
    """A bound of the same of any measure, as of atoms, by its predictions and mass, in units of
    e^log_scale: the lower one of E.13, ∫J dν = Σ_i ∂_i R h_i + λ|ν|, and of Fenchel's duality,

    F(ν) − F* ≤ F(ν) + R*(c ∂R),  c = λ/(λ − min(min J, 0)),  since −c Σ_i ∂_i R φ(·, x_i) ≤ λ

    Wanted: `bounds_every_gap`.
    """
    objective, own = problem.objective, np.zeros(predictions.size)
    risk = objective.evaluate_risk(predictions.ravel(), log_scale, own)
    decay, lowest = objective.weight_decay, min(_lowest(problem, own), 0.0)
    mean = float(own @ predictions.ravel()) + decay * mass
    with np.errstate(over="ignore", invalid="ignore"):  # a mass may be below numbers
        least = np.exp(-log_scale) * _dual_value(objective, decay / (decay - lowest) * own)
        by_mass = mean - lowest_objective / decay * lowest
    whole = risk + decay * mass
    return float(min(by_mass, whole - least + ROUNDED * abs(whole)))


def _dual_value(objective, gradient):
    """−R*(g) of g (n_predictions,), between 0 and a gradient ∂R/∂h."""
    from scipy.special import entr  # −x log x

    counted, name = objective.weights > 0.0, objective.risk.name
    q, y = objective.weights[counted], objective.targets[counted]
    g = gradient.reshape(len(counted), -1)[counted] / q[:, None]
    if name == SOFTMAX.name:  # the probabilities p with g = p − e_y
        g[np.arange(len(q)), y.astype(int)] += 1.0
        return float(q @ entr(np.maximum(g, 0.0)).sum(axis=1))
    b = -g[:, 0]
    if name == "square":
        return float(q @ (b * (y - 0.5 * b)))
    b = np.abs(b)
    if name == "exponential":
        return float(q @ (b + entr(b)))
    b = np.minimum(b, 1.0)
    return float(q @ (entr(b) + entr(1.0 - b)))


def _lowest(problem, gradient):
    """A lower bound of min J over the whole sphere, for the gradient ∂R/∂h."""
    o = problem.objective
    return o.weight_decay - global_upper_bound(o.feature, o.inputs, -gradient, problem.signs)


def searches(problem: Problem) -> bool:
    """Whether min J is one of the whole sphere."""
    objective = problem.objective
    return (
        len(objective.targets) > 0
        and not problem.domain.fixed
        and is_enclosable(objective.feature, objective.axes)
    )
