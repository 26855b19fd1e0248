"""Seeds where they matter: nodes of an adaptive cubature of the sphere at t = 0, for integrands
that flow along with the measure.

The sphere is cut into spherical simplices, at first the orthants. A simplex with corners V (rows)
carries the nodes of a cubature of the flat simplex, seen from the centre:

    θ = x/|x|, x = b V,   dω = |det V| / |x|^(d+1) db

It is cut in two through the middle of its longest edge where that changes the integral most.
"""

from collections.abc import Callable
from itertools import product
from math import factorial

import numpy as np

from ...arguments import Floats, Integers
from ...geometry.sphere import normalize
from ...operators.dense import blocked, unblocked
from ...problem.flow import Flow
from ..frozen_relu.kinks import Kinks
from ..frozen_relu.movement import Movement
from .history import History

EVEN = 0.25  # share of the seeds from which on simplices are cut where it matters
AT_ONCE = 0.2  # share of the simplices that are cut before all are compared again


def carried(
    kinks: Kinks, history: History, flow: Flow, decay: float, points: Floats, signs: Floats
) -> tuple[Floats, Floats]:
    """Where a history moves points (n, d+1) of signs ε (n,), and the growth of log masses there,
    (n,)."""
    n = len(points)
    atoms: tuple = blocked(np.ascontiguousarray(points)), np.zeros(n), np.zeros(n, dtype=np.int64)
    move = Movement(kinks, len(atoms[0]))
    for time, r in zip(history.durations, history.loss_gradients, strict=True):
        out = tuple(map(np.empty_like, atoms))
        move(atoms, signs, r, flow, decay, time, 0.0, out)
        atoms = out
    return unblocked(atoms[0], n), atoms[1] + history.log_factors.sum()


def orthants(dim: int) -> Floats:
    """The parts of S^dim in the orthants of R^(dim+1): corners (2^(dim+1), dim+1, dim+1)."""
    return np.array([np.diag(signs) for signs in product((1.0, -1.0), repeat=dim + 1)])


def rule(dim: int) -> tuple[Floats, Floats]:
    """Barycentric coordinates (n, dim+1) and weights (n,), positive and of sum 1, of a cubature of
    the simplex.

    Gauss's with three nodes for an edge (degree 5), Strang and Fix's with six for a triangle
    (degree 4), that with dim+1 nodes otherwise (degree 2; Stroud 1971, T_n 2-1).
    """
    p = dim + 1
    if p == 2:
        x, w = np.polynomial.legendre.leggauss(3)
        return np.column_stack([0.5 + 0.5 * x, 0.5 - 0.5 * x]), 0.5 * w
    orbits = [((dim + 2.0 - np.sqrt(dim + 2.0)) / ((dim + 1.0) * (dim + 2.0)), 1.0)]
    if p == 3:
        orbits = [(0.445948490915965, 0.670144769034033), (0.091576213509771, 0.329855230965967)]
    places = [other + (1.0 - p * other) * np.eye(p) for other, _ in orbits]
    return np.concatenate(places), np.repeat([weight / p for _, weight in orbits], p)


def nodes(corners: Floats) -> tuple[Floats, Floats]:
    """Nodes (n, k, d+1) and weights (n, k), areas, of simplices with corners (n, d+1, d+1)."""
    p = corners.shape[1]
    places, weights = rule(p - 1)
    x = np.einsum("ka,sab->skb", places, corners)
    size = np.linalg.norm(x, axis=2)
    areas = np.abs(np.linalg.det(corners))[:, None] * weights / factorial(p - 1) / size**p
    return x / size[:, :, None], areas


def halves(corners: Floats) -> Floats:
    """Simplices (n, d+1, d+1) cut through the middles of their longest edges: (n, 2, d+1, d+1)."""
    p, every = corners.shape[1], np.arange(len(corners))
    first, second = np.triu_indices(p, 1)
    edges = np.linalg.norm(corners[:, first] - corners[:, second], axis=2)
    longest = np.argmax(np.round(edges, 12), axis=1)
    a, b = first[longest], second[longest]
    middle = normalize(corners[every, a] + corners[every, b])
    cut = np.stack([corners, corners], axis=1)
    cut[every, 0, b], cut[every, 1, a] = middle, middle
    return cut


class Cubature:
    """Adaptive cubature of vector-valued integrands over the spheres of some signs.

    integrand : function (points (n, d+1), signs (n,)) -> (n, n_values);  density : function
        (points, sign) -> (n,) that it is weighted by
    corners (n, d+1, d+1), signs (n,) : the simplices;  parts : (n, n_values) their integrals
    changes : (n, n_values) half of what cutting the simplex that each came from has changed
    """

    def __init__(self, integrand: Callable, density: Callable, dim: int, signs: tuple) -> None:
        self.integrand, self.density = integrand, density
        one, self.per_simplex = orthants(dim), len(rule(dim)[1])
        self.corners = np.tile(one, (len(signs), 1, 1))
        self.signs = np.repeat(np.array(signs, dtype=float), len(one))
        self.parts = self._integrals(self.corners, self.signs)
        self.changes = np.full_like(self.parts, np.inf)

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.corners) * self.per_simplex

    def measure(self) -> tuple[Floats, Floats, Floats]:
        """Nodes (n_nodes, d+1), their signs and masses (n_nodes,)."""
        return self._nodes(self.corners, self.signs)

    def cut(self, chosen: Integers) -> None:
        """Cut the chosen simplices, indices, in two."""
        children = halves(self.corners[chosen]).reshape(-1, *self.corners.shape[1:])
        signs = np.repeat(self.signs[chosen], 2)
        parts = self._integrals(children, signs)
        change = 0.5 * (parts[::2] + parts[1::2] - self.parts[chosen])
        stay = np.delete(np.arange(len(self.corners)), chosen)
        for name, new in (
            ("corners", children),
            ("signs", signs),
            ("parts", parts),
            ("changes", np.repeat(change, 2, axis=0)),
        ):
            setattr(self, name, np.concatenate([getattr(self, name)[stay], new]))

    def refine(self, most: int) -> None:
        """Cut simplices, evenly at first, then where it changes most, up to so many nodes."""
        while 2 * self.n_nodes <= EVEN * most or not np.isfinite(self.changes).all():
            self.cut(np.arange(len(self.corners)))
        while (room := (most - self.n_nodes) // self.per_simplex) > 0:
            count = min(room, max(1, int(AT_ONCE * len(self.corners))))
            order = np.argsort(-np.abs(self.changes).max(axis=1), kind="stable")
            self.cut(np.sort(order[:count]).astype(np.int64))

    def error(self) -> float:
        """Estimated error of the integrals, relative to the largest one of an absolute value: what
        the last cuts have changed, and twice its scatter."""
        scale = np.abs(self.parts).sum(axis=0).max()
        sums = np.abs(self.changes.sum(axis=0)) + 2.0 * np.sqrt(np.sum(self.changes**2, axis=0))
        return float(sums.max() / scale) if scale > 0.0 else 0.0

    def _nodes(self, corners, signs):
        points, areas = nodes(corners)
        signs, masses = np.repeat(signs, self.per_simplex), areas.ravel()
        points = points.reshape(len(signs), -1)
        for sign in np.unique(signs):
            mine = signs == sign
            masses[mine] *= self.density(points[mine], sign)
        return points, signs, masses

    def _integrals(self, corners, signs):
        points, signs, masses = self._nodes(corners, signs)
        values = masses[:, None] * self.integrand(points, signs)
        return values.reshape(len(corners), self.per_simplex, -1).sum(axis=1)
