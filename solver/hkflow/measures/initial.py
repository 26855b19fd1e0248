"""Initial measures on S^d: each knows its density, up to a factor, and how to draw independent
points from it."""

from dataclasses import dataclass

import numpy as np

from ..arguments import Floats, Integers
from ..errors import printable
from ..geometry.mesh import Mesh
from ..geometry.point_sets import quasi_uniform, random_uniform
from ..geometry.regions import negative_shares
from ..geometry.sphere import distance, normalize
from .formula import Formula
from .point_measure import PointMeasure

COORDINATES = ("x", "y", "z")  # other names of theta1, theta2, theta3
MOST_AXES = 100  # whose coordinates have names
VARIABLES = (*COORDINATES, "sign", *(f"theta{k + 1}" for k in range(MOST_AXES)))


def coordinates_of(points: Floats) -> dict[str, Floats]:
    """The coordinates (n,) of points (n, d+1) by all their names."""
    values = {f"theta{k + 1}": points[:, k] for k in range(min(points.shape[1], MOST_AXES))}
    return values | dict(zip(COORDINATES, points.T, strict=False))


@dataclass(frozen=True)
class Uniform:
    """The same density everywhere."""

    def density(self, points: Floats) -> Floats:
        """One at each of the points (n, d+1)."""
        return np.ones(len(points))

    relative = density

    def sample(self, rng: np.random.Generator, n: int, dim: int) -> Floats:
        """n independent points, (n, dim+1)."""
        return random_uniform(rng, n, dim)


@dataclass(frozen=True, eq=False)
class VonMisesFisher:
    """Density proportional to Σ_k e^{κ c_k·θ}; centers (n_centers, d+1), normalised here, and κ ≥
    0."""

    centers: Floats
    concentration: float

    def __post_init__(self):
        object.__setattr__(self, "centers", normalize(np.asarray(self.centers, dtype=float)))

    def density(self, points: Floats) -> Floats:
        """Largest exponent taken out; points (n, d+1)."""
        overlap = points @ self.centers.T
        return np.exp(self.concentration * (overlap - overlap.max())).sum(axis=1)

    def relative(self, points: Floats) -> Floats:
        """Density relative to that of one centre at itself, at each of the points (n, d+1)."""
        return np.exp(self.concentration * (points @ self.centers.T - 1.0)).sum(axis=1)

    def sample(self, rng: np.random.Generator, n: int, dim: int) -> Floats:
        """n independent points, (n, dim+1)."""
        if self.concentration == 0.0:
            return random_uniform(rng, n, dim)
        from scipy.stats import vonmises_fisher  # takes a second

        out, chosen = np.empty((n, dim + 1)), rng.integers(len(self.centers), size=n)
        for k, center in enumerate(self.centers):
            count = int((chosen == k).sum())
            if count:
                out[chosen == k] = (
                    vonmises_fisher(center, self.concentration)
                    .rvs(count, random_state=rng)
                    .reshape(count, -1)
                )
        return normalize(out)


@dataclass(frozen=True, eq=False)
class Caps:
    """Uniform on the union of caps; centers (n_caps, d+1), normalised here, and the radius in
    radians."""

    centers: Floats
    radius: float

    def __post_init__(self):
        object.__setattr__(self, "centers", normalize(np.asarray(self.centers, dtype=float)))

    def density(self, points: Floats) -> Floats:
        """One inside, zero outside; points (n, d+1). Raises ValueError if a cap holds none of the
        points."""
        distances = distance(points[:, None], self.centers[None])
        empty = np.flatnonzero((distances > self.radius).all(axis=0))
        if len(empty):
            raise ValueError(
                f"Cap {empty[0]} of radius {self.radius:g} holds none of the {len(points)} points;"
                " use more."
            )
        return (distances <= self.radius).any(axis=1).astype(float)

    def relative(self, points: Floats) -> Floats:
        """One inside, zero outside, at each of the points (n, d+1)."""
        return np.any([distance(points, c) <= self.radius for c in self.centers], axis=0) * 1.0

    def shares(self, mesh: Mesh) -> Floats:
        """The share of each cell that is inside, (n_cells,)."""

        def outside(points):
            return np.min([distance(points, c) for c in self.centers], axis=0) - self.radius

        return negative_shares(mesh, outside)

    def sample(self, rng: np.random.Generator, n: int, dim: int) -> Floats:
        """n independent points, (n, dim+1): a point of k overlapping caps is kept with probability
        1/k."""
        kept = np.empty((0, dim + 1))
        while len(kept) < n:
            points = self._in_caps(rng, n, dim)
            shared = (
                distance(points[:, None], self.centers[None]) <= self.radius * (1.0 + 1e-12)
            ).sum(axis=1)
            kept = np.concatenate([kept, points[rng.random(n) * np.maximum(shared, 1) < 1.0]])
        return kept[:n]

    def _in_caps(self, rng, n, dim):
        """Points uniform in a random cap each: s = (1 − cos χ)/2 follows a truncated beta(d/2, d/2)
        distribution."""
        from scipy.special import betainc, betaincinv

        center = self.centers[rng.integers(len(self.centers), size=n)]
        edge = betainc(0.5 * dim, 0.5 * dim, np.sin(0.5 * min(self.radius, np.pi)) ** 2)
        s = betaincinv(0.5 * dim, 0.5 * dim, edge * rng.random(n))[:, None]
        aside = rng.standard_normal((n, dim + 1))
        aside = normalize(aside - np.sum(aside * center, axis=1, keepdims=True) * center)
        return normalize((1.0 - 2.0 * s) * center + 2.0 * np.sqrt(s * (1.0 - s)) * aside)


@dataclass(frozen=True)
class Expression:
    """Density proportional to a Formula in the coordinates x, y, z or theta1, theta2, … of unit
    vectors, and in the output sign."""

    expression: str
    sign: float = 1.0

    def at(self, sign: float) -> "Expression":
        """That of one sign."""
        return Expression(self.expression, sign)

    def density(self, points: Floats) -> Floats:
        """Its values at points (n, d+1). Raises ValueError for one that is negative or not
        finite, or a coordinate that there is not."""
        formula, axes = Formula(self.expression, VARIABLES), points.shape[1]
        values = coordinates_of(points) | {"sign": self.sign}
        try:
            found = np.array(np.broadcast_to(formula(values), len(points)), dtype=float)
        except KeyError as error:
            raise ValueError(
                f"'{printable(self.expression)}' names {error}, and points have {axes} coordinates"
            ) from None
        wrong = np.flatnonzero(~((found >= 0.0) & (found < np.inf)))
        if len(wrong):
            place = ", ".join(f"{c:.3g}" for c in points[wrong[0]])
            raise ValueError(
                f"'{printable(self.expression)}' is {found[wrong[0]]:.3g} at θ = ({place}), sign"
                f" {self.sign:+g}; a density is finite and at least 0"
            )
        return found

    relative = density


SmoothMeasure = Uniform | VonMisesFisher | Caps | Expression


def of_sign(measure: SmoothMeasure, sign: float) -> SmoothMeasure:
    """A measure on one sign; an Expression alone may name it."""
    return measure.at(sign) if isinstance(measure, Expression) else measure


def in_cells(measure: SmoothMeasure, mesh: Mesh) -> Floats:
    """Density in cells (n_cells,) relative to that which `relative` knows: that at centres, which
    is the average to second order, but the average of caps, whose density jumps."""
    if isinstance(measure, Caps) and len(mesh.faces):
        return measure.shares(mesh)
    return measure.relative(mesh.centers)


@dataclass(frozen=True, eq=False)
class InitialDensity:
    """An initial density that is known at every point: a factor times a Uniform, VonMisesFisher,
    Caps or Expression, for the signs that carry it. The factor is inf on spheres whose area is
    less than numbers hold, of more than 400 dimensions."""

    measure: SmoothMeasure
    factor: float
    signs: tuple[int, ...]

    def __call__(self, points: Floats, sign: float) -> Floats:
        """Mass per unit area at points (n, d+1)."""
        shape = self.relative(points, sign)
        return np.multiply(self.factor, shape, out=np.zeros_like(shape), where=shape > 0.0)

    def relative(self, points: Floats, sign: float) -> Floats:
        """The same without the factor."""
        return float(sign in self.signs) * of_sign(self.measure, sign).relative(points)

    def in_cells(self, mesh: Mesh, sign: float) -> Floats:
        """Without the factor, in cells (n_cells,)."""
        return float(sign in self.signs) * in_cells(of_sign(self.measure, sign), mesh)


@dataclass(frozen=True, eq=False)
class CellDensity:
    """A density (n_signs, n_cells) on a mesh, constant in each cell."""

    mesh: Mesh
    density: Floats
    signs: tuple[int, ...]

    def __call__(self, points: Floats, sign: float) -> Floats:
        """Mass per unit area at points (n, d+1): that of the nearest centre."""
        return self.density[self.signs.index(int(sign))][cells_of(self.mesh, points)]


class PointsInCells(CellDensity):
    """Point masses as a density (n_signs, n_cells): each lies in the cell that holds it. On another
    mesh they lie elsewhere, so averages of the cells do not tell where."""

    @staticmethod
    def of(mesh: Mesh, signs: tuple[int, ...], atoms: PointMeasure) -> "PointsInCells":
        """That of atoms, which have some of the signs."""
        return PointsInCells(mesh, atoms_on_mesh(mesh, signs, atoms), tuple(signs))


def balanced_atoms(
    n: int, dim: int, rng: np.random.Generator | None = None, outputs: int = 1
) -> PointMeasure:
    """n atoms with |a| = |b| on the sphere S^dim of (a, b): directions of a and of b, which has
    `outputs` coordinates, evenly spread, or drawn by rng; the second half has the b of the first
    with the other sign.

    Raises ValueError for a number that is odd or 0, and for spheres without room for a and b.
    """
    if n % 2 or n < 2:
        raise ValueError(
            f"{n} balanced units cannot be shared by the two signs of b; give an even number."
        )
    if outputs not in range(1, dim + 1):
        raise ValueError(
            f"A direction (a, b) of S^{dim} has {dim + 1} coordinates, of which b takes from 1 to"
            f" {dim}, got {outputs}."
        )
    if outputs > 1:
        both = quasi_uniform(n // 2, dim) if rng is None else random_uniform(rng, n // 2, dim)
        a, b = (normalize(part) for part in np.split(both, [dim + 1 - outputs], axis=1))
        return PointMeasure(np.concatenate([np.hstack([a, b]), np.hstack([a, -b])]))
    half = quasi_uniform(n // 2, dim - 1) if rng is None else random_uniform(rng, n // 2, dim - 1)
    ones = np.ones((n // 2, 1))
    return PointMeasure(np.concatenate([np.hstack([half, ones]), np.hstack([half, -ones])]))


@dataclass(frozen=True)
class BalancedUnits:
    """The uniform measure on |a| = |b| of units with some outputs, which atoms alone tell: it has
    no density."""

    outputs: int

    def atoms(self, n: int, dim: int) -> PointMeasure:
        """About n atoms on S^dim, evenly spread."""
        return balanced_atoms(n - n % 2, dim, outputs=self.outputs)

    def __call__(self, points: Floats, sign: float) -> Floats:
        """Raises ValueError."""
        raise ValueError("The measure on |a| = |b| has no density on the sphere of (a, b).")


def atoms_on_mesh(mesh: Mesh, signs: tuple[int, ...], atoms: PointMeasure) -> Floats:
    """Point masses as a density (n_signs, n_cells): each goes to the cell that holds it."""
    density = np.zeros((len(signs), mesh.n_cells))
    sheet = np.array([tuple(signs).index(s) for s in atoms.signs], dtype=np.int64)
    np.add.at(density, (sheet, cells_of(mesh, atoms.positions)), atoms.weights)
    return density / mesh.volumes


def cells_of(mesh: Mesh, points: Floats) -> Integers:
    """The cells that hold points (n, d+1): those with the nearest centres, (n,)."""
    from scipy.spatial import cKDTree

    return cKDTree(mesh.centers).query(points)[1]


def spread_atoms(
    mesh: Mesh, positions: Floats, weights: Floats, points: Floats, cell: Integers, logs: Floats
) -> Floats:
    """Atoms of one sign as a density (n_cells,) whose shape is known: each spreads its weight over
    the points that it is one of the nearest atoms of, in shares as e^logs; one without such points
    goes to the cell that holds it.

    positions (n, d+1), weights (n,);  points (m, d+1) in the cells (m,), logs (m,)
    """
    from scipy.spatial import cKDTree

    n, there = len(positions), logs > -np.inf
    points, cell, logs = points[there], cell[there], logs[there]
    masses, served = np.zeros(mesh.n_cells), np.zeros(n, dtype=bool)
    if n and len(points):
        # as many as make a simplex: fewer make a mosaic, more a blur
        count = list(range(1, min(n, mesh.dim + 1) + 1))
        distances, atoms = cKDTree(positions).query(points, count)
        near = 1.0 / np.maximum(distances, np.finfo(float).eps) ** 2
        top = np.full(n, -np.inf)
        np.maximum.at(top, atoms, logs[:, None])
        shares = near / near.sum(axis=1, keepdims=True) * np.exp(logs[:, None] - top[atoms])
        totals = np.bincount(atoms.ravel(), shares.ravel(), n)
        served = totals > 0.0
        shares *= np.divide(weights, totals, out=np.zeros(n), where=served)[atoms]
        masses += np.bincount(cell, shares.sum(axis=1), mesh.n_cells)
    home = cells_of(mesh, positions[~served])
    return (masses + np.bincount(home, weights[~served], mesh.n_cells)) / mesh.volumes


def with_mass(density: Floats, mesh: Mesh, mass: float) -> Floats:
    """The density times the number that makes its mass on the mesh equal to `mass`."""
    return density * (mass / (density @ mesh.volumes).sum())
