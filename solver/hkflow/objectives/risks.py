"""Risks R(h_1, …, h_n): convex functions of the predictions, returned together with their gradients."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numba import njit


@dataclass(frozen=True)
class Risk:
    """A convex function of the predictions.

    name : how messages and files call it
    evaluate : function (predictions, targets, weights, out) -> R; writes ∂R/∂h_i to out. All arrays (n_data,)
    classifies : whether targets are classes ±1, so that errors and margins make sense
    """

    name: str
    evaluate: Callable
    classifies: bool


@njit(cache=True)
def square(predictions, targets, weights, out):
    """R = ½ Σ q_i (h_i − y_i)²."""
    value = 0.0
    for i in range(len(out)):
        difference = predictions[i] - targets[i]
        out[i] = weights[i] * difference
        value += 0.5 * out[i] * difference
    return value


@njit(cache=True)
def logistic(predictions, targets, weights, out):
    """R = Σ q_i log(1 + e^{−y_i h_i}), without overflow for any margin."""
    value = 0.0
    for i in range(len(out)):
        u = targets[i] * predictions[i]
        tail = np.exp(-abs(u))
        value += weights[i] * (np.log1p(tail) + max(-u, 0.0))
        out[i] = -targets[i] * weights[i] * (tail if u > 0.0 else 1.0) / (1.0 + tail)
    return value


@njit(cache=True)
def exponential(predictions, targets, weights, out):
    """R = Σ q_i e^{−y_i h_i}."""
    value = 0.0
    for i in range(len(out)):
        term = weights[i] * np.exp(-targets[i] * predictions[i])
        out[i] = -targets[i] * term
        value += term
    return value


@njit(cache=True)
def smooth_margin(predictions, targets, weights, out):
    """R = log Σ q_i e^{−u_i}, u_i = y_i h_i: minus the smooth margin S; p_i = −y_i ∂R/∂h_i is a soft-argmin (COLT eq. 6).

    The smallest margin is taken out of the sum, so margins and exponents of any size are safe.
    """
    smallest = np.inf
    for i in range(len(out)):
        smallest = min(smallest, targets[i] * predictions[i])
    total = 0.0
    for i in range(len(out)):
        out[i] = weights[i] * np.exp(smallest - targets[i] * predictions[i])
        total += out[i]
    for i in range(len(out)):
        out[i] *= -targets[i] / total
    return np.log(total) - smallest


RISKS = {
    risk.name: risk
    for risk in (
        Risk("square", square, False),
        Risk("logistic", logistic, True),
        Risk("exponential", exponential, True),
        Risk("smooth-margin", smooth_margin, True),
    )
}
