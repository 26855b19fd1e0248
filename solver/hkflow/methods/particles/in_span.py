"""Points in what few data in many inputs see of them: a coordinate for each direction of the span
of the data, and one more.

    θ = (a, b),  a = Σ_h y_h q_h + y e,   q_h orthonormal in the span, e a unit vector beside it

Forces on a lie in the span, so that each point keeps its e, and (y_h, y, b) moves on a sphere of
its own as θ does on the large one; b are the output weights of joint features.
"""

from dataclasses import replace

import numpy as np

from ...arguments import Floats
from ...geometry.sphere import normalize
from ...objectives.objective import Objective
from ...operators.matrix import products
from ...problem.problem import Problem
from ..frozen_relu.span import and_zero, spanned
from .tangent_gram import knows_slopes

SPARSE = 2  # inputs for each datum, from which on points are moved in the span of the data


class InSpan:
    """Coordinates of the points that a flow starts from, and of where it brings them.

    objective : in these coordinates;  basis : (k, p) the q_h;  columns : (p, k) the same
    start : (n, p + outputs) where the points begin;  coordinates : (n, k + 1 + outputs) there
    """

    def __init__(self, objective: Objective, start: Floats) -> None:
        x, self.start = objective.inputs, start
        self.basis = spanned(normalize(x[x.any(axis=1)]))
        self.objective = replace(objective, inputs=and_zero(products(x, self.basis)))
        self.p = x.shape[1]
        a, b = np.split(start, [self.p], axis=1)
        inside, self.columns = products(a, self.basis), self.basis.T.copy()
        left = a - products(inside, self.columns)
        # the second time takes out what rounding has left
        left -= products(products(left, self.basis), self.columns)
        y = np.linalg.norm(left, axis=1, keepdims=True)
        self.coordinates = np.hstack([inside, y, b])

    def positions(self, coordinates: Floats) -> Floats:
        """Where points of these coordinates are, (n, p + outputs): at the start to the bit, so that
        a run that is resumed from its first save has the same e."""
        k = len(self.basis)
        (inside, y, b), (first, had, _) = (
            np.split(c, [k, k + 1], axis=1) for c in (coordinates, self.coordinates)
        )
        kept = np.divide(y, had, out=np.ones_like(y), where=had > 0.0)
        out = np.empty_like(self.start)
        np.multiply(self.start[:, : self.p], kept, out=out[:, : self.p])
        out[:, : self.p] += products(inside - kept * first, self.columns)
        out[:, self.p :] = b
        return out


def in_span(problem: Problem) -> InSpan | None:
    """The coordinates in which the points of a problem are moved; None where it has no more than
    SPARSE inputs for each datum, or more acts on points than data do."""
    objective: object = problem.objective  # or what stands in for one
    if (
        not isinstance(objective, Objective)
        or objective.entropy > 0.0
        or problem.flow.noise > 0.0
        or not knows_slopes(objective.feature)
    ):
        return None
    count = np.count_nonzero(objective.inputs.any(axis=1))
    if not 0 < SPARSE * (count + 1) < objective.inputs.shape[1]:
        return None
    atoms = problem.atoms()
    return InSpan(objective, atoms.positions[atoms.weights > 0.0])
