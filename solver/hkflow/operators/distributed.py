"""Sums over all pairs, shared out between ranks by what they result in: each number is made by the
rank that owns it.

            sums that a rank makes                                     then on every rank, by one
            Allgatherv
    rank 0    h of its data over all points,  J, G of its points over all data    h_0 … h_n,  J_0 …
              J_N,  G_0 … G_N
    rank 1    …                               …

No sum is split between ranks, so no rounding depends on their number or on the MPI library: every
number is added up by one rank in the order of a process alone, all ranks have its bits, and stay in
step without being told to. The price is that everything linear in points and data, the state with
it, is held and computed by each rank.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from ..arguments import Floats, Integers
from .caps import LEAF
from .dense import SMALL
from .ranks import Alone
from .tree import TreeOperator


def shared(
    ranks: Alone, make: Callable[[Floats, Floats], Any], points: Floats, inputs: Floats
) -> Any:
    """make(points, inputs), or what shares its sums between several ranks if they are many.

    make : function (points (n_points, p) or blocked, inputs (n_data, p)) -> operator;  ranks : see
        hkflow.operators.ranks
    """
    if ranks.size == 1 or len(points) * inputs.size < SMALL:
        return make(points, inputs)
    data = RankSlice(ranks, len(inputs))
    to_data = make(points, inputs[data.own])
    blocks = getattr(to_data, "points", None)
    if blocks is None:
        part = RankSlice(ranks, len(points))
        return DistributedOperator(data, part, to_data, make(points[part.own], inputs))
    part = RankSlice(ranks, len(points), blocks.shape[2])
    return DistributedOperator(data, part, to_data, make(blocks[part.units], inputs), blocks)


def shared_tree(ranks: Alone, points: Floats, inputs: Floats, activation: int) -> Any:
    """The same for a TreeOperator: each rank owns a share of the leaves, made of points or data,
    whichever are more, and a share of the others."""
    if ranks.size == 1 or len(points) * inputs.size < SMALL:
        return TreeOperator(points, inputs, activation)
    flipped = len(inputs) > len(points)
    few, many = (
        RankSlice(ranks, n, unit)
        for n, unit in zip(sorted((len(points), len(inputs))), (1, LEAF), strict=True)
    )
    to_many = TreeOperator(points, inputs, activation, flipped, many.units)
    many.order = to_many.order.astype(np.intp)
    if flipped:
        return DistributedOperator(
            many, few, to_many, TreeOperator(points[few.own], inputs, activation, flipped)
        )
    return DistributedOperator(
        few, many, TreeOperator(points, inputs[few.own], activation, flipped), to_many
    )


class RankSlice:
    """Which of n results this rank makes.

    unit : parts are made of so many results at a time;  own, units : slices of this rank's results,
        and units
    results : (n,) buffer in which all parts meet;  order : which result each of its numbers is,
        None if they are in order
    """

    def __init__(self, ranks: Any, n: int, unit: int = 1) -> None:
        self.ranks, self.unit = ranks, unit
        self.order: Integers | None = None
        count = -(-n // unit)
        edges = [count * r // ranks.size for r in range(ranks.size + 1)]
        self.units = slice(edges[ranks.rank], edges[ranks.rank + 1])
        self.edges = np.array(edges)
        ends = np.minimum(unit * np.array(edges), n)
        self.own = slice(*ends[ranks.rank : ranks.rank + 2].tolist())
        self.padded = np.zeros(count * unit)
        self.results = self.padded[:n]
        self.complete = self.completion(self.padded)

    def completion(self, buffer: Floats) -> Callable[[], object]:
        """A function that fills in the other ranks' parts of a buffer, which has as many numbers
        for each unit."""
        edges = self.edges * (buffer.size // max(1, self.edges[-1]))
        return self.ranks.completion(buffer, np.diff(edges).tolist(), edges[:-1].tolist())

    def make(self, sums: Callable[[Floats, Floats], object], given: Floats, out: Floats) -> None:
        """Make this rank's results by sums(given, place), and all ranks' in out (n,)."""
        if self.own.start < self.own.stop:
            sums(given, self.results if self.order is not None else self.results[self.own])
        self.complete()
        if self.order is None:
            out[:] = self.results
        else:
            out[self.order] = self.results


class DistributedOperator:
    """The sums of an operator, of which each rank makes its part.

    data, part : RankSlice of data and of points;  to_data, to_points : operators that make h,
        and J and G, of those
    points : (n_blocks, p, width) if they may be overwritten in place, of which a rank owns whole
        blocks, as a view

        both[block, :, c]     G_1 … G_p | J        what a gradient sends, in one message
    """

    def __init__(
        self, data: RankSlice, part: RankSlice, to_data: Any, to_points: Any, points: Any = None
    ) -> None:
        self.data, self.part, self.to_data, self.to_points, self.points = (
            data,
            part,
            to_data,
            to_points,
            points,
        )

    def set_inputs(self, inputs: Floats) -> None:
        """Take other data, as many as before; inputs (n_data, p)."""
        self.to_data.set_inputs(inputs[self.data.own])
        self.to_points.set_inputs(inputs)

    def forward(self, weights: Floats, out: Floats) -> None:
        """h_i = Σ_c weights_c φ(θ_c, x_i); weights (n_points,), out (n_data,)."""
        self.data.make(self.to_data.forward, weights, out)

    def adjoint(self, loss_gradient: Floats, out: Floats) -> None:
        """J_c = Σ_i loss_gradient_i φ(θ_c, x_i); loss_gradient (n_data,), out (n_points,)."""
        self.part.make(self.to_points.adjoint, loss_gradient, out)

    def gradient(self, loss_gradient: Floats, potential: Floats, gradient: Floats) -> None:
        """J_c, and G_c = Σ_i loss_gradient_i ∇φ(θ_c, x_i); potential (n_points,), gradient blocked
        like `points`."""
        part, (own, both, complete) = self.part, self.message
        if len(own):
            self.to_points.gradient(loss_gradient, part.results[part.own], own)
        J = part.padded.reshape(len(both), -1)
        both[part.units, :-1], both[part.units, -1] = own, J[part.units]
        complete()
        gradient[:], J[:] = both[:, :-1], both[:, -1]
        potential[:] = part.results

    @cached_property
    def message(self) -> tuple[Floats, Floats, Callable[[], object]]:
        """This rank's G, the buffer `both`, and what fills it in: made with the first gradient,
        which fixed points never want."""
        blocks, p, width = self.points.shape
        both = np.zeros((blocks, p + 1, width))
        return np.zeros_like(self.points[self.part.units]), both, self.part.completion(both)
