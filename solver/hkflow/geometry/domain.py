"""The domain: on which space the measures of a problem live. What depends on the kind or the
dimension of the space is declared here, and asked of it by name."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..arguments import Floats, real_array, whole_number
from .circle import circle_mesh
from .geodesic import coarser_geodesic, finer_geodesic, geodesic_mesh_of
from .hypersphere import coarser_hypersphere, finer_hypersphere, hypersphere_mesh_of
from .mesh import Mesh
from .sphere import directions, surface_area

ROUNDED = 1e-6  # how far the length of a unit vector may be from 1, as in single precision


@dataclass(frozen=True)
class Meshes:
    """The meshes of one sphere.

    name : of each of them
    of_size : function (cells) -> Mesh; raises ValueError for a number of cells that none has
    coarser : function (cells) -> how many cells the next coarser mesh has that tells of errors;
        None if there is none
    finer : function (cells) -> how many cells the next finer mesh has that is worth trying
    first, most : cells of a coarse mesh to begin with, and of the finest that is worth while
    kept : whether they take so long to make that they are kept in the cache
    """

    name: str
    of_size: Callable[[int], Mesh]
    coarser: Callable[[int], int | None] = lambda cells: None
    finer: Callable[[int], int] = lambda cells: 4 * cells
    first: int = 1
    most: int = 10**9
    kept: bool = True


MESHES = {
    1: Meshes(
        "circle",
        circle_mesh,
        lambda cells: cells // 4 if cells >= 12 else None,
        lambda cells: 4 * cells,
        64,
        2**16,
        kept=False,
    ),
    2: Meshes("geodesic", geodesic_mesh_of, coarser_geodesic, finer_geodesic, 162, 655362),
    3: Meshes("600-cell", hypersphere_mesh_of, coarser_hypersphere, finer_hypersphere, 840, 409920),
}
PICTURES = {1: "circle", 2: "map"}
# how far a density on cells of width h is from its atoms at their centres
OFF_CENTRES = {1: "W1 h/4, W2 0.29 h", 2: "W2 about 0.40 h", 3: "W2 about 0.49 h"}


@dataclass(frozen=True)
class Domain:
    """The unit sphere S^d of R^(d+1), or fixed features on it, once for each output sign.

    dim : d
    signs : (1,) for the sphere, (1, −1) for the signed sphere
    fixed : whether it is finitely many directions without neighbours, so that nothing is
        transported
    Raises ValueError for a d that is no whole number, and for other signs.
    """

    dim: int
    signs: tuple[int, ...] = (1,)
    fixed: bool = False

    def __post_init__(self):
        object.__setattr__(self, "dim", whole_number(self.dim, "The dimension of a sphere"))
        if self.signs not in ((1,), (1, -1)):
            raise ValueError(f"signs must be (1,) or (1, -1), got {self.signs}.")

    @property
    def kind(self) -> str:
        """Its name in case files."""
        if self.fixed:
            return "fixed-features"
        return "sphere" if len(self.signs) == 1 else "signed-sphere"

    @property
    def name(self) -> str:
        """Its name in sentences, whatever the signs."""
        return "atoms" if self.fixed else "the circle" if self.dim == 1 else f"S^{self.dim}"

    @property
    def area(self) -> float:
        """|S^d|, of one sign."""
        return surface_area(self.dim)

    @property
    def ordered(self) -> bool:
        """Whether its points follow each other, as on the circle: distances W1 are sums there."""
        return not self.fixed and self.dim == 1

    @property
    def of_two(self) -> bool:
        """Whether a sign has two points alone: S⁰, of one input without a bias."""
        return not self.fixed and self.dim == 0

    @property
    def picture(self) -> str:
        """What its measures are drawn on: "circle", "map" of S², "bars" of fixed features, or the
        main "axes" of a sphere beyond."""
        return "bars" if self.fixed else PICTURES.get(self.dim, "axes")

    @property
    def in_space(self) -> bool:
        """Whether it can be looked at: circle and S²."""
        return self.picture in PICTURES.values()

    @property
    def in_slices(self) -> bool:
        """Whether it is looked at on great spheres through it: S³."""
        return not self.fixed and self.dim == 3

    def placed(self, points: Floats) -> Floats:
        """Points (n, d+1) where they are shown in space, (n, 2 or 3): themselves on circle and S²;
        those of S³ in a ball of radius π, as far from its middle as from the last axis, in radians,
        in the direction of their other coordinates."""
        if not self.in_slices:
            return points
        others = np.linalg.norm(points[:, :-1], axis=1)[:, None]
        direction = np.tile(np.eye(3)[0], (len(points), 1))  # of the poles, where there is none
        np.divide(points[:, :-1], others, out=direction, where=others > 0.0)
        return np.arctan2(others, points[:, -1:]) * direction

    def angles(self, points: Floats) -> dict[str, Floats]:
        """Points (n, d+1) by angles (n,): "angle" on the circle in radians, "longitude" and
        "latitude" on S² in degrees, nothing elsewhere."""
        if not self.in_space:
            return {}
        longitude = np.arctan2(points[:, 1], points[:, 0])
        if self.ordered:
            return {"angle": longitude % (2.0 * np.pi)}
        latitude = np.arcsin(np.clip(points[:, 2], -1.0, 1.0))
        return {"longitude": np.degrees(longitude), "latitude": np.degrees(latitude)}

    @property
    def off_centres(self) -> str:
        """How far a density on cells of width h is from its atoms at their centres, in words."""
        return OFF_CENTRES[self.dim]

    @property
    def has_meshes(self) -> bool:
        """Whether there are meshes of it."""
        return self.fixed or self.dim in MESHES

    def cells_for(self, wanted: float) -> int:
        """The fewest cells, of at least so many, that one of its meshes has, from `first` to
        `most`; of the circle any number."""
        meshes = self.meshes
        if self.ordered:
            return int(min(max(wanted, meshes.first), meshes.most))
        cells = meshes.first
        while cells < wanted and cells < meshes.most:
            cells = meshes.finer(cells)
        return cells

    @property
    def meshes(self) -> Meshes:
        """Its meshes. Raises ValueError for a sphere without one."""
        if self.fixed:
            return Meshes("atoms", lambda cells: atoms_mesh(np.eye(cells)), kept=False)
        if self.dim not in MESHES:
            there = ", ".join(f"S^{dim}" for dim in MESHES)
            raise ValueError(f"{self.name} has no mesh. There are meshes of {there}.")
        return MESHES[self.dim]

    def mesh(self, cells: int) -> Mesh:
        """Its mesh of a number of cells. Raises ValueError if there is none."""
        return self.meshes.of_size(cells)


def domain_of_mesh(name: str, dim: int) -> Domain | None:
    """The domain whose meshes have this name in R^(dim+1), or None."""
    domains = [Domain(dim, fixed=True), *([Domain(dim)] if dim in MESHES else [])]
    return next((domain for domain in domains if domain.meshes.name == name), None)


def atoms_mesh(positions: ArrayLike) -> Mesh:
    """A cell of volume one at each of the positions (n, p); weights are densities. The basis
    vectors make a diagonal network. Positions are unit vectors up to the rounding of single
    precision, which is mended here. Raises ValueError for others, and for no positions at all."""
    positions = np.atleast_2d(real_array(positions, "Positions"))
    if positions.ndim != 2 or not positions.size:
        raise ValueError(
            "Positions need at least one row and one column, got an array of shape"
            f" {positions.shape}."
        )
    if not np.isfinite(positions).all():
        bad = np.flatnonzero(~np.isfinite(positions).all(axis=1))
        raise ValueError(f"Positions must be finite, got {positions[bad[0]]} in row {bad[0]}.")
    lengths = np.linalg.norm(positions, axis=1)
    if len(bad := np.flatnonzero(np.abs(lengths - 1.0) > ROUNDED)):
        raise ValueError(
            "Positions must be unit vectors, as directions are everywhere, got the length"
            f" {lengths[bad[0]]:.9g} in row {bad[0]}. Divide them by their lengths; what a longer"
            " one adds to features belongs to its weight, or to the feature."
        )
    n, p = positions.shape
    none = np.zeros(0)
    return Mesh(
        name="atoms",
        centers=directions(positions),
        volumes=np.ones(n),
        faces=np.zeros((0, 2), dtype=np.int32),
        face_areas=none,
        face_distances=none,
        face_midpoints=np.zeros((0, p)),
        vertices=np.zeros((0, p)),
        face_vertices=np.zeros((0, p - 1), dtype=np.int32),
    )
