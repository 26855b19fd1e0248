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
from ...operators.ranks import ALONE
from ...problem.problem import Problem
from ..frozen_relu.span import and_zero, spanned
from .tangent_gram import knows_slopes

SPARSE = 2  # inputs for each datum, from which on points are moved in the span of the data


class InSpan:
    """Coordinates of the points that a flow starts from, and of where it brings them.

    objective : in these coordinates;  basis : (k, p) the q_h;  beside : (n, p) the e
    """

    def __init__(self, objective: Objective, positions: Floats) -> None:
        x = objective.inputs
        self.basis = spanned(normalize(x[x.any(axis=1)]))
        self.objective = replace(objective, inputs=and_zero(x @ self.basis.T))
        self.p = x.shape[1]
        left = positions[:, : self.p]
        for _ in range(2):  # the second time takes out what rounding has left
            left = left - (left @ self.basis.T) @ self.basis
        size = np.linalg.norm(left, axis=1, keepdims=True)
        self.beside = np.divide(left, size, out=np.zeros_like(left), where=size > 0.0)

    def coordinates(self, positions: Floats) -> Floats:
        """(n, k + 1 + outputs) of these points at positions (n, p + outputs)."""
        a, b = np.split(positions, [self.p], axis=1)
        return np.hstack([a @ self.basis.T, np.einsum("na,na->n", a, self.beside)[:, None], b])

    def positions(self, coordinates: Floats) -> Floats:
        """Where points of these coordinates are, (n, p + outputs)."""
        k = len(self.basis)
        inside, y, b = np.split(coordinates, [k, k + 1], axis=1)
        out = np.empty((len(coordinates), self.p + b.shape[1]))
        out[:, self.p :] = b
        np.multiply(self.beside, y, out=out[:, : self.p])
        out[:, : self.p] += inside @ self.basis
        return out


def in_span(problem: Problem) -> InSpan | None:
    """The coordinates in which the points of a problem are moved; None where it has no more than
    SPARSE inputs for each datum, or more acts on points than data do."""
    objective: object = problem.objective  # or what stands in for one
    if (
        not isinstance(objective, Objective)
        or objective.entropy > 0.0
        or objective.ranks is not ALONE
        or problem.flow.noise > 0.0
        or not knows_slopes(objective.feature)
    ):
        return None
    count = np.count_nonzero(objective.inputs.any(axis=1))
    if not 0 < SPARSE * (count + 1) < objective.inputs.shape[1]:
        return None
    atoms = problem.atoms()
    return InSpan(objective, atoms.positions[atoms.weights > 0.0])
