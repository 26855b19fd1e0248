"""Geodesic (icosahedral) Voronoi meshes of S²: the edges of the icosahedron are cut into f = 2^k or
3·2^k parts, which makes N = 10 f² + 2 cells, twelve of them pentagons:

    f       1    2    3    4    6    8    12    16    24     32     48     64
    N      12   42   92  162  362  642  1442  2562  5762  10242  23042  40962
"""

import numpy as np

from ..arguments import Floats, Integers, whole_number
from .mesh import Mesh
from .sphere import normalize
from .voronoi import edges, lloyd, voronoi_mesh

LLOYD_ITERATIONS = 8
MAX_LEVEL = 13  # k, of more cells than any machine holds
# f by the number of cells
PARTS = {10 * f**2 + 2: f for f in sorted(m * 2**k for m in (1, 3) for k in range(MAX_LEVEL + 1))}


def geodesic_cells(level: int) -> int:
    """Number of cells N = 10·4^level + 2."""
    return 10 * 4**level + 2


def geodesic_level(cells: int) -> int | None:
    """The level k with N = 10·4^k + 2 cells, or None if there is none."""
    level = round(np.log2(max(cells - 2, 1) / 10.0) / 2.0)
    return level if level >= 0 and geodesic_cells(level) == cells else None


def coarser_geodesic(cells: int) -> int | None:
    """How many cells the mesh of twice the width has, of 92 cells that of three times; None of the
    icosahedron."""
    parts = PARTS.get(cells, 1)
    return 10 * (parts // 2) ** 2 + 2 if parts > 1 else None


def finer_geodesic(cells: int) -> int:
    """How many cells the next finer mesh has, of 3/4 or 2/3 of the width."""
    return min(size for size in PARTS if size > cells)


def geodesic_mesh_of(cells: int) -> Mesh:
    """The geodesic mesh of a number of cells. Raises ValueError if none has it."""
    if cells not in PARTS:
        near = sorted(PARTS, key=lambda size: abs(np.log(size / cells)))[:2]
        choices = " or ".join(map(str, sorted(near)))
        raise ValueError(
            f"a mesh of S^2 has 10·4^k + 2 or 90·4^k + 2 cells, got {cells}. Nearest: {choices}."
        )
    return _mesh(PARTS[cells])


def icosahedron() -> tuple[Floats, Integers]:
    """Corners (12, 3) and triangles (20, 3), counter-clockwise seen from outside."""
    golden = (1.0 + np.sqrt(5.0)) / 2.0
    corner = np.array([(0.0, s, t * golden) for s in (-1.0, 1.0) for t in (-1.0, 1.0)])
    return _triangulated(np.concatenate([np.roll(corner, shift, axis=1) for shift in range(3)]))


def _triangulated(points):
    """Points (n, 3) carried to the sphere, and the triangles of their convex hull."""
    from scipy.spatial import ConvexHull  # meshes are kept, so it is rarely needed

    points = normalize(points)
    triangles = ConvexHull(points).simplices.astype(np.int64)
    a, b, c = (points[triangles[:, k]] for k in range(3))
    inward = np.einsum("ij,ij->i", a, np.cross(b, c)) < 0
    triangles[inward] = triangles[inward][:, ::-1]
    return points, triangles


def cut_into_nine(points: Floats, triangles: Integers) -> tuple[Floats, Integers]:
    """Cut each triangle of the icosahedron into nine at the thirds of its edges and its middle."""
    a, b = points[edges(triangles)[0].T]
    middles = points[triangles].sum(axis=1)
    return _triangulated(np.concatenate([points, 2.0 * a + b, a + 2.0 * b, middles]))


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
    Meshes between these, of 90·4^k + 2 cells, are made by their size: Domain(2).mesh(5762).
    Raises ValueError for other levels, and for those that no machine holds.
    """
    level = whole_number(level, "The level")
    if level > MAX_LEVEL:
        raise ValueError(
            f"The level must be at most {MAX_LEVEL}, got {level}. If that is a number of cells,"
            f" take Domain(2).mesh({level})."
        )
    return _mesh(2**level)


def _mesh(parts):
    """The mesh that cuts the edges of the icosahedron into so many parts, 2^k or 3·2^k."""
    points, triangles = icosahedron()
    cuts = [refine] * (parts.bit_length() - 1)
    if parts % 3 == 0:
        cuts[0] = cut_into_nine
    for cut in cuts:
        points, triangles = cut(points, triangles)
        points = lloyd(points, triangles, LLOYD_ITERATIONS)
    return voronoi_mesh("geodesic", points, triangles)
