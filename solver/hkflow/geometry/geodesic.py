"""Geodesic (icosahedral) Voronoi mesh of S²: N = 10·4^k + 2 cells, twelve of them pentagons."""

import numpy as np

from ..arguments import Floats, Integers, whole_number
from .mesh import Mesh
from .sphere import normalize
from .voronoi import edges, lloyd, voronoi_mesh

LLOYD_ITERATIONS = 8


def geodesic_cells(level: int) -> int:
    """Number of cells N = 10·4^level + 2."""
    return 10 * 4**level + 2


def geodesic_level(cells: int) -> int | None:
    """The level k with N = 10·4^k + 2 cells, or None if there is none."""
    level = round(np.log2(max(cells - 2, 1) / 10.0) / 2.0)
    return level if level >= 0 and geodesic_cells(level) == cells else None


def coarser_geodesic(cells: int) -> int | None:
    """How many cells the mesh of twice the width has; None below the icosahedron."""
    level = geodesic_level(cells)
    return geodesic_cells(level - 1) if level else None


def finer_geodesic(cells: int) -> int:
    """How many cells the mesh of half the width has."""
    return 4 * (cells - 2) + 2


def geodesic_mesh_of(cells: int) -> Mesh:
    """The geodesic mesh of a number of cells. Raises ValueError if none has it."""
    level = geodesic_level(cells)
    if level is None:
        near = sorted(range(12), key=lambda k: abs(np.log(geodesic_cells(k) / cells)))[:2]
        choices = " or ".join(str(geodesic_cells(k)) for k in sorted(near))
        raise ValueError(f"a mesh of S^2 has 10·4^k + 2 cells, got {cells}. Nearest: {choices}.")
    return geodesic_mesh(level)


def icosahedron() -> tuple[Floats, Integers]:
    """Corners (12, 3) and triangles (20, 3), counter-clockwise seen from outside."""
    golden = (1.0 + np.sqrt(5.0)) / 2.0
    corner = np.array([(0.0, s, t * golden) for s in (-1.0, 1.0) for t in (-1.0, 1.0)])
    from scipy.spatial import ConvexHull  # meshes are kept, so it is rarely needed

    points = normalize(np.concatenate([np.roll(corner, shift, axis=1) for shift in range(3)]))
    triangles = ConvexHull(points).simplices.astype(np.int64)
    a, b, c = (points[triangles[:, k]] for k in range(3))
    inward = np.einsum("ij,ij->i", a, np.cross(b, c)) < 0
    triangles[inward] = triangles[inward][:, ::-1]
    return points, triangles


def refine(points: Floats, triangles: Integers) -> tuple[Floats, Integers]:
    """Cut each triangle into four at the midpoints of its edges."""
    ends, sides = edges(triangles)
    middle = len(points) + np.arange(len(ends))
    of_triangle = np.empty((len(triangles), 3), np.int64)  # the midpoint opposite to each corner
    for side in range(2):
        owner = triangles[sides[:, side]]
        opposite = (owner != ends[:, :1]) & (owner != ends[:, 1:])
        of_triangle[sides[:, side], opposite.argmax(axis=1)] = middle
    (a, b, c), (bc, ca, ab) = triangles.T, of_triangle.T
    points = np.concatenate([points, normalize(points[ends[:, 0]] + points[ends[:, 1]])])
    quarters = [np.stack(q, axis=1) for q in ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca))]
    return points, np.concatenate(quarters)


def geodesic_mesh(level: int) -> Mesh:
    """Voronoi mesh of the level-times refined icosahedron, made centroidal by Lloyd iterations at
    every level.

    level : int ≥ 0; the mesh has 10·4^level + 2 cells (642 at 3, 10,242 at 5, 163,842 at 7)
    """
    points, triangles = icosahedron()
    for _ in range(whole_number(level, "The level")):
        points, triangles = refine(points, triangles)
        points = lloyd(points, triangles, LLOYD_ITERATIONS)
    return voronoi_mesh("geodesic", points, triangles)
