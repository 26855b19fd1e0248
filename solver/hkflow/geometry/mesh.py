"""The mesh: cells and the faces between them. Nothing above this room knows the dimension."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from ..arguments import Floats, Integers, check_shape
from ..shown import Shown
from .sphere import normalize, surface_area

TOLERANCE = 1e-9  # of unit vectors and sums of areas that were computed elsewhere
# Arrays and their dimensions; dimensions of one name have one extent.
MESH = {
    "centers": ("cell", "axis"),
    "volumes": ("cell",),
    "faces": ("face", "side"),
    "face_areas": ("face",),
    "face_distances": ("face",),
    "face_midpoints": ("face", "axis"),
    "vertices": ("vertex", "axis"),
    "face_vertices": ("face", "corner"),
}
INDICES = ("faces", "face_vertices")


@dataclass(frozen=True, eq=False, repr=False)
class Mesh(Shown):
    """Cells on S^d and the faces that they share.

    name : "circle", "geodesic", … or "atoms"
    centers : (n_cells, d+1) unit vectors, the centroids of the cells
    volumes : (n_cells,) d-dimensional areas; they sum to |S^d|
    faces : (n_faces, 2) int, the cells (left, right) on either side, left < right
    face_areas : (n_faces,) (d−1)-dimensional areas of the faces (1 on the circle)
    face_distances : (n_faces,) great-circle distances between the two centres
    face_midpoints : (n_faces, d+1) unit vectors
    vertices : (n_vertices, d+1) corners of the cells
    face_vertices : (n_faces, k) int, the corners of each face in order: k = d up to S², beyond it
        the first one again where a face has fewer than others
    """

    name: str
    centers: Floats
    volumes: Floats
    faces: Integers
    face_areas: Floats
    face_distances: Floats
    face_midpoints: Floats
    vertices: Floats
    face_vertices: Integers

    @property
    def dim(self) -> int:
        """Dimension d of the sphere."""
        return self.centers.shape[1] - 1

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return len(self.volumes)

    @property
    def width(self) -> float:
        """Typical cell width, (|S^d| / n_cells)^(1/d)."""
        return (self.volumes.sum() / self.n_cells) ** (1.0 / self.dim)

    def _facts(self):
        kind = f"{self.name}, {self.n_cells} cells"
        if not len(self.faces):
            return {"mesh": f"{kind} without faces, in R^{self.dim + 1}"}
        return {
            "mesh": f"{kind} and {len(self.faces)} faces on S^{self.dim}",
            "width": f"{self.width:.3g} wide",
        }

    def arrays(self) -> dict[str, NDArray]:
        """The arrays by name, for storing and for comparing."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "name"}

    def check(self) -> None:
        """Raise ValueError unless its arrays fit together and its cells, where they have faces, can
        cover the sphere."""
        self._check_shapes()
        for key, array in self.arrays().items():
            if not np.isfinite(array).all():
                raise ValueError(f"'{key}' holds numbers that are not finite")
        for key, count in (("faces", self.n_cells), ("face_vertices", len(self.vertices))):
            array = getattr(self, key)
            if array.size and not (array.min() >= 0 and array.max() < count):
                raise ValueError(
                    f"'{key}' points at {array.min()} to {array.max()}, and there are {count}"
                )
        if (self.faces[:, 0] >= self.faces[:, 1]).any():
            raise ValueError("'faces' do not lie between a cell and a later one")
        whole = bool(len(self.faces))
        if not (self.volumes > 0.0).all():
            raise ValueError("'volumes' are not positive")
        if whole:
            self.check_area(surface_area(self.dim))
        if not (self.face_areas > 0.0).all() or not (self.face_distances > 0.0).all():
            raise ValueError("'face_areas' or 'face_distances' are not positive")
        for key in ("centers", "face_midpoints", "vertices") if whole else ():
            array = getattr(self, key)
            if (np.abs(np.einsum("ij,ij->i", array, array) - 1.0) > TOLERANCE).any():
                raise ValueError(f"'{key}' are no unit vectors")

    def check_area(self, area: float) -> None:
        """Raise ValueError unless its volumes sum to an area."""
        if abs(self.volumes.sum() - area) > TOLERANCE * area:
            raise ValueError(f"'volumes' sum to {self.volumes.sum():.12g}, wanted {area:.12g}")

    def _check_shapes(self):
        sizes = {"side": 2}
        for key, wanted in MESH.items():
            array, kinds = (
                getattr(self, key),
                ("int32", "int64") if key in INDICES else ("float64",),
            )
            if not isinstance(array, np.ndarray) or array.dtype not in map(np.dtype, kinds):
                got = getattr(array, "dtype", type(array).__name__)
                raise ValueError(
                    f"'{key}' must be a NumPy array of {' or '.join(kinds)}, got {got}"
                )
            check_shape(key, array.shape, wanted, sizes)
        if sizes["corner"] < self.dim:
            raise ValueError(f"'face_vertices' have fewer than {self.dim} corners")


def is_like(mesh: Mesh, other: Mesh) -> bool:
    """Whether two meshes have the same cells in the same order, to rounding."""
    return mesh.centers.shape == other.centers.shape and np.allclose(
        mesh.centers, other.centers, rtol=0.0, atol=TOLERANCE
    )


def half_faces(mesh: Mesh) -> tuple[Integers, Integers, Integers, Integers]:
    """Each face seen from both of its cells, sorted by cell.

    Returns cell, neighbor, face (2 n_faces,) int and slot: the position among the half-faces of its
    cell.

        cell      0 0 0 0 0 0 1 1 1 …
        slot      0 1 2 3 4 5 0 1 2 …
    """
    n_faces = len(mesh.faces)
    cell = np.concatenate([mesh.faces[:, 0], mesh.faces[:, 1]])
    neighbor = np.concatenate([mesh.faces[:, 1], mesh.faces[:, 0]])
    face = np.concatenate([np.arange(n_faces), np.arange(n_faces)])
    order = np.argsort(cell, kind="stable")
    cell, neighbor, face = cell[order], neighbor[order], face[order]
    starts = np.searchsorted(cell, np.arange(mesh.n_cells))
    return cell, neighbor, face, np.arange(len(cell)) - starts[cell]


def pieces(mesh: Mesh) -> tuple[Floats, Integers, Floats]:
    """The cells cut into simplices between their centres and their faces: middles (n, d+1), cell
    (n,) and volumes (n,), those of a cell together its own.

    Sums of values at the middles are cell averages to second order.
    """
    cell, _, face, _ = half_faces(mesh)
    cell, _, edges, sizes = simplices(mesh, cell, face)
    there = sizes > 0.0  # a fan of a face with few corners ends before the others
    cell, sizes, edges = cell[there], sizes[there], edges[there]
    volumes = sizes * (mesh.volumes / np.bincount(cell, sizes, mesh.n_cells))[cell]
    return normalize(mesh.centers[cell] + edges.sum(axis=1) / (mesh.dim + 1.0)), cell, volumes


def simplices(
    mesh: Mesh, cell: Integers, face: Integers
) -> tuple[Integers, Integers, Floats, Floats]:
    """The simplices between the centres of cells (n,) and a face (n,) of each; a face of many
    corners is cut into a fan.

    Returns their cells (m,), corners among the mesh's vertices (m, d), edges from the centre to
    these (m, d, d+1), and sizes (m,) up to a factor.
    """
    dim, slots = mesh.dim, mesh.face_vertices.shape[1]
    fans = [[0, *range(i, i + dim - 1)] for i in range(1, slots - dim + 2)]
    corners = np.concatenate([mesh.face_vertices[face][:, fan] for fan in fans])
    cell = np.tile(cell, len(fans))
    edges = mesh.vertices[corners] - mesh.centers[cell][:, None]
    sizes = np.sqrt(np.maximum(np.linalg.det(edges @ np.swapaxes(edges, 1, 2)), 0.0))
    return cell, corners, edges, sizes
