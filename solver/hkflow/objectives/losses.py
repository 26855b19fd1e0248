"""Risks R(h_1, …, h_n): convex functions of the predictions, returned together with their
gradients."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..compiled import njit
from ..errors import namesake, unknown_name

TAILS = ("exponential", "logistic", "square")


@dataclass(frozen=True)
class Risk:
    """A convex function of the predictions.

    name : how messages and files call it
    evaluate : function (predictions, targets, weights, out) -> R; writes ∂R/∂h_i to out. All arrays
        (n_data,)
    classifies : whether targets are classes ±1, so that errors and margins make sense
    tail : "exponential" or "logistic" if R is the sum of such losses, or its logarithm where it is
        `scaled`; "square" for the square risk, None for any other
    coupled : whether a datum has several predictions, whose targets are classes 0, 1, …, k − 1;
        predictions and out are (n_data · k,) then, datum by datum
    scaled : function (predictions, log_scale, targets, weights, out) -> e^−log_scale R(h) at h =
        e^log_scale predictions, where that never overflows; None: then e^log_scale has to be a
        number
    Raises ValueError for an unknown tail.
    """

    name: str
    evaluate: Callable
    classifies: bool
    tail: str | None = None
    scaled: Callable | None = None
    coupled: bool = False

    def __post_init__(self):
        if self.tail is not None and self.tail not in TAILS:
            raise ValueError(unknown_name("tail", self.tail, TAILS))

    @property
    def has_margins(self) -> bool:
        """Whether targets are classes, two or more."""
        return self.classifies or self.coupled

    @property
    def has_smooth_margin(self) -> bool:
        """Whether −log R, or −R where R is a logarithm, is one."""
        return self.is_softmax or (self.classifies and self.tail is not None)

    @property
    def is_softmax(self) -> bool:
        """Whether it is hkflow's own of several classes, of whose form a user's need not be."""
        # by name: one that another process pickled has a copy
        return all(
            getattr(self.evaluate, key, "") == getattr(softmax, key)
            for key in ("__module__", "__qualname__")
        )


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


LARGEST_LOG = 690.0  # e^690 is a number; margins that differ by less than e^-690 are ties
ROUNDED_ONE = 1e-14  # weights whose sum is this close to one sum to one
# share of a sum, below which a difference is not what is left of it; equal weights leave 1/n
CANCELLED = 1e-8
LARGE_MARGIN = 35.0  # from here on log(1 + e^−u) and e^−u are the same number


@njit(cache=True)
def smooth_margin_scaled(predictions, log_scale, targets, weights, out):
    """e^−L log Σ q_i e^{−u_i}, u_i = e^L y_i predictions_i: minus the smooth margin S in units of
    e^L, for any L.

    p_i = −y_i ∂R/∂h_i is a soft-argmin (COLT eq. 6). The smallest margin is taken out of the sum,
    so margins, exponents and scales of any size are safe; tiny ones keep their digits.
    """
    scale = np.exp(min(log_scale, LARGEST_LOG))
    smallest = np.inf
    for i in range(len(out)):
        if weights[i] > 0.0:  # a datum that does not count must not set the scale of those that do
            smallest = min(smallest, targets[i] * predictions[i])
    whole, lost = 0.0, 0.0
    for i in range(len(out)):
        out[i] = (
            np.expm1(-scale * (targets[i] * predictions[i] - smallest)) if weights[i] > 0.0 else 0.0
        )
        whole += weights[i]
        lost += weights[i] * out[i]
    # the smallest margin has next to no weight: its own digits are lost in the difference
    if whole + lost < CANCELLED * whole:
        total = 0.0
        for i in range(len(out)):
            if weights[i] > 0.0:
                out[i] = np.exp(-scale * (targets[i] * predictions[i] - smallest))
                total += weights[i] * out[i]
        for i in range(len(out)):
            out[i] = -targets[i] * weights[i] * out[i] / total
        return np.log(total) / scale - smallest
    for i in range(len(out)):
        out[i] = -targets[i] * weights[i] * (1.0 + out[i]) / (whole + lost)
    offset = np.log(whole) if abs(whole - 1.0) > ROUNDED_ONE else 0.0
    return (np.log1p(lost / whole) + offset) / scale - smallest


@njit(cache=True)
def smooth_logistic_margin_scaled(predictions, log_scale, targets, weights, out):
    """e^−L log Σ q_i log(1 + e^{−u_i}), u_i = e^L y_i predictions_i; p_i = q_i ℓ′(−u_i) / Σ q_k
    ℓ(−u_k) (COLT eq. 6)."""
    scale = np.exp(min(log_scale, LARGEST_LOG))
    smallest = np.inf
    for i in range(len(out)):
        if weights[i] > 0.0:  # a datum that does not count must not set the scale of those that do
            smallest = min(smallest, targets[i] * predictions[i])
    if scale * smallest > LARGE_MARGIN:
        return smooth_margin_scaled(predictions, log_scale, targets, weights, out)
    u = scale * smallest
    largest = np.log1p(np.exp(-abs(u))) + max(-u, 0.0)
    total = 0.0
    for i in range(len(out)):
        u = scale * targets[i] * predictions[i]
        total += weights[i] * (np.log1p(np.exp(-abs(u))) + max(-u, 0.0)) / largest
    for i in range(len(out)):
        u = scale * targets[i] * predictions[i]
        tail = np.exp(-abs(u))
        out[i] = (
            -targets[i] * weights[i] * (tail if u > 0.0 else 1.0) / (1.0 + tail) / (largest * total)
        )
    return (np.log(total) + np.log(largest)) / scale


@njit(cache=True)
def smooth_margin(predictions, targets, weights, out):
    """R = log Σ q_i e^{−u_i}, u_i = y_i h_i: minus the smooth margin S = −log loss."""
    return smooth_margin_scaled(predictions, 0.0, targets, weights, out)


@njit(cache=True)
def smooth_logistic_margin(predictions, targets, weights, out):
    """R = log Σ q_i log(1 + e^{−u_i}): the same for the logistic loss; its weights p do not sum to
    one."""
    return smooth_logistic_margin_scaled(predictions, 0.0, targets, weights, out)


@njit(cache=True)
def softmax(predictions, targets, weights, out):
    """R = Σ q_i (log Σ_l e^{h_il} − h_iy), y = y_i: the cross-entropy of several classes, without
    overflow (Wei et al., eq. 2.1)."""
    n = len(targets)
    k = len(out) // n
    value = 0.0
    for i in range(n):
        begin, end = i * k, (i + 1) * k
        top, true = begin, begin + int(targets[i])
        for j in range(begin + 1, end):
            if predictions[j] > predictions[top]:
                top = j
        below = (
            0.0  # Σ e^{h_l − h_top} but for the top itself, so that small ones keep their digits
        )
        for j in range(begin, end):
            out[j] = np.exp(predictions[j] - predictions[top])
            if j != top:
                below += out[j]
        others = 0.0  # the probability of all classes but the true one, for the same reason
        for j in range(begin, end):
            out[j] *= weights[i] / (1.0 + below)
            if j != true:
                others += out[j]
        out[true] = -others
        value += weights[i] * (predictions[top] - predictions[true] + np.log1p(below))
    return value


SMOOTH_MARGINS = {"exponential": smooth_margin_scaled, "logistic": smooth_logistic_margin_scaled}

RISKS = {
    risk.name: risk
    for risk in (
        Risk("square", square, False, "square"),
        Risk("logistic", logistic, True, "logistic"),
        Risk("exponential", exponential, True, "exponential"),
        Risk("smooth-margin", smooth_margin, True, "exponential", smooth_margin_scaled),
        Risk(
            "smooth-logistic-margin",
            smooth_logistic_margin,
            True,
            "logistic",
            smooth_logistic_margin_scaled,
        ),
    )
}

# beside the table of risks of one prediction for each datum
SOFTMAX = Risk("softmax", softmax, False, coupled=True)
ALL_RISKS = RISKS | {SOFTMAX.name: SOFTMAX}


def check_name(risk: Risk) -> None:
    """Raise ValueError for a user's risk that is called as one of hkflow's, by whose name
    certificates know it."""
    known = ALL_RISKS.get(risk.name)
    if known is not None and (risk.evaluate, risk.scaled) != (known.evaluate, known.scaled):
        raise ValueError(namesake("risk", risk.name))
