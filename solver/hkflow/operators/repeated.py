"""Sums over data of which many have the same inputs, such as levels or yes and no: made once for
each of the different inputs.

    h_i = h(x_place(i))      J_c = Σ_x (Σ_{i: x_i = x} r_i) φ(θ_c, x)      G_c likewise
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..arguments import Floats, Integers
from ..geometry.rows import unique_rows
from ..remembered import remembered

FEW = 256  # data, for which it is not worth it

_distinct = remembered(most=4)(unique_rows)


def over_distinct(make: Callable[[Floats], Any], inputs: Floats, outputs: int = 1) -> Any:
    """make(inputs), or the same sums made over the different inputs, where these are at most half
    of many.

    make : function (inputs (n, p)) -> operator;  outputs : of a unit
    """
    some, place = summed_rows(inputs)
    return make(some) if place is None else RepeatedOperator(make(some), place, outputs)


def summed_rows(inputs: Floats) -> tuple[Floats, Integers | None]:
    """The inputs that sums are made over, and which of them a datum has; all, and None, where they
    are few, or more than half of them differ."""
    if len(inputs) < FEW:
        return inputs, None
    first, place = _distinct(inputs)
    return (inputs, None) if 2 * len(first) > len(inputs) else (inputs[first], place)


class RepeatedOperator:
    """The sums of an operator over different inputs, for data of which each has one of these.

    operator : of m inputs;  place : (n_data,) which of these a datum has;  outputs : k of a unit,
        predictions (n_data · k,) lie datum by datum
    """

    def __init__(self, operator: Any, place: Integers, outputs: int) -> None:
        self.operator, self.place = operator, place
        self.order = np.argsort(place, kind="stable")
        m = place.max() + 1
        self.starts = np.searchsorted(place[self.order], np.arange(m))
        self.sums, self.sorted = np.zeros((m, outputs)), np.zeros((len(place), outputs))

    @property
    def points(self) -> Floats:
        """Those that move, blocked, to be overwritten in place."""
        return self.operator.points

    def forward(self, weights: Floats, out: Floats) -> None:
        """h;  weights (n_points,), out (n_data · k,)."""
        self.operator.forward(weights, self.sums.reshape(-1))
        # "clip" writes to `out` without a buffer
        np.take(self.sums, self.place, axis=0, out=out.reshape(self.sorted.shape), mode="clip")

    def adjoint(self, loss_gradient: Floats, out: Floats) -> None:
        """J;  loss_gradient (n_data · k,), out (n_points,)."""
        self.operator.adjoint(self._gathered(loss_gradient), out)

    def gradient(self, loss_gradient: Floats, potential: Floats, gradient: Floats) -> None:
        """J and G;  potential (n_points,), gradient blocked like `points`."""
        self.operator.gradient(self._gathered(loss_gradient), potential, gradient)

    def _gathered(self, loss_gradient):
        """Sums of the loss gradients of equal inputs, (m · k,)."""
        r = loss_gradient.reshape(self.sorted.shape)
        np.take(r, self.order, axis=0, out=self.sorted, mode="clip")
        # which sums in pairs, so that rounding does not grow with the data
        np.add.reduceat(self.sorted.T, self.starts, axis=1, out=self.sums.T)
        return self.sums.reshape(-1)
