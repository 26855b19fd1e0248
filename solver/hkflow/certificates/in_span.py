"""Max-margins and minima of few data in many inputs: the same as those of the data's coordinates in
their span, with one coordinate more, which is 0.

    θ = (a, b),  a = Σ_h y_h q_h + y e:   θ·x depends on the y_h alone, and |y_h|² ≤ 1 − |b|²

Turning the sphere changes no margin, and of the directions beside the span one stands for all.
"""

from dataclasses import replace

import numpy as np

from ..geometry.sphere import normalize
from ..measures.point_measure import PointMeasure
from ..objectives.objective import Objective
from ..operators.matrix import products
from ..operators.span import orthonormal

SPARSE = 2  # inputs for each datum, from which on the span is searched
SAFETY = 8.0


class SpanOfData:
    """Coordinates y of directions, as far as data know them.

    objective : of the data in these coordinates;  basis : (k, p) the q_h;  beside : (p,) the e
    rounding : by which Σ c_i φ(θ, x_i) may be another there, in units of Σ |c_i| max |∇φ(·, x_i)|
    """

    def __init__(self, objective: Objective) -> None:
        x, eps = objective.inputs, np.finfo(float).eps
        n, self.p = x.shape
        self.basis = orthonormal(normalize(x[x.any(axis=1)]), self.p * eps)
        coordinates = np.pad(products(x, self.basis), ((0, 0), (0, 1)))
        self.objective = replace(objective, inputs=coordinates)
        least = int(np.argmin(np.einsum("hp,hp->p", self.basis, self.basis)))
        axis = np.eye(1, self.p, least)
        left = axis - products(products(axis, self.basis), self.basis.T)
        self.beside = normalize(left - products(products(left, self.basis), self.basis.T))[0]
        self.rounding = SAFETY * self.p * np.sqrt(n) * eps

    def coordinates(self, start: PointMeasure) -> PointMeasure:
        """A measure in these coordinates: directions beside the span are e."""
        a, b = np.split(start.positions, [self.p], axis=1)
        inside = products(a, self.basis)
        y = np.sqrt(np.maximum(np.sum(a**2, axis=1) - np.sum(inside**2, axis=1), 0.0))
        return PointMeasure(np.column_stack([inside, y, b]), start.signs, start.weights)

    def measure(self, found: PointMeasure) -> PointMeasure:
        """The measure of given coordinates."""
        inside, y, b = np.split(found.positions, [len(self.basis), len(self.basis) + 1], axis=1)
        positions = np.column_stack([products(inside, self.basis.T) + y * self.beside, b])
        return PointMeasure(positions, found.signs, found.weights)


def span_of_data(objective: Objective) -> SpanOfData | None:
    """That of more than SPARSE inputs for each datum, of features that know θ·x alone; else
    None."""
    n, p = objective.inputs.shape
    known = objective.feature.activation is not None or objective.feature.ridge is not None
    return SpanOfData(objective) if known and SPARSE * (n + 1) < p else None
