"""Voronoi meshes of S³: the 600 tetrahedra of the 600-cell divided evenly, N = 100 n³ + 20 n cells.

Points that divide a regular tetrahedron evenly are a piece of the face-centred cubic lattice, whose
cells have twelve faces. Carried to the sphere they stay even (the largest cell has up to 1.4 times
the volume of the smallest), but where tetrahedra meet they lie a hundredth of a width beside the
centroids of their cells. Four steps towards these, of chosen lengths, leave a thousandth.
"""

from itertools import permutations, product

import numpy as np

from ..arguments import Floats, Integers, whole_number
from .mesh import Mesh
from .polyhedra import corner_counts, pyramids
from .rows import sums_of_rows
from .sphere import distance, normalize
from .voronoi import near_in_memory

EDGES = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]  # of a tetrahedron
# Steps of lengths ω towards the centroids multiply a mode of their distances by Π (1 − ω μ), its μ
# between 0 and 1. Of four steps these, by Chebyshev, keep the largest μ |Π (1 − ω μ)| smallest.
ROOTS = np.cos(np.pi * np.arange(1, 10, 2) / 10.0)
STEPS = (1.0 + ROOTS[0]) / (ROOTS[0] - ROOTS[:0:-1])  # 1.03, 1.27, 2.05, 5.37
NEGLIGIBLE = 1e-9  # of the mean area of a face: where more than four cells meet, rounding adds such


def hypersphere_cells(divisions: int) -> int:
    """Number of cells N = 100 n³ + 20 n."""
    return 100 * divisions**3 + 20 * divisions


def hypersphere_mesh(divisions: int) -> Mesh:
    """Voronoi mesh of the points that divide each edge of the 600-cell into n equal parts, moved
    to the centroids of their cells.

    divisions : int n ≥ 1; the mesh has 100 n³ + 20 n cells (840 at 2, 6480 at 4, 51,360 at 8)
    """
    from scipy.spatial import cKDTree

    corners, shares, first = tetrahedra(whole_number(divisions, "The number of divisions", 1))
    # points are Σ_k λ_k v_k; symmetry maps points of the same shares, in any order, onto each other
    alike = np.sort(shares, axis=1) @ (divisions + 1) ** np.arange(1, 5)
    image = np.unique(alike[:, None] + shares, return_inverse=True)[1].reshape(shares.shape)
    parts = shares / divisions
    mesh = voronoi_mesh(divided(corners, parts, first))
    for step in STEPS:
        points = normalize(parts @ corners[0])
        cell = cKDTree(mesh.centers).query(points)[1]
        moved = points + step * (centroids(mesh)[cell] - points)
        found = np.linalg.solve(corners[0].T, moved.T).T
        mean = np.bincount(image.ravel(), found.ravel()) / np.bincount(image.ravel())
        parts = np.where(shares > 0, mean[image], 0.0)
        mesh = voronoi_mesh(divided(corners, parts, first))
    return mesh


def centroids(mesh: Mesh) -> Floats:
    """Centroids of the cells of a mesh of S³, projected to it, (n_cells, 4).

    ∫_cell x = ⅓ Σ over its faces of area × unit normal into it, by the divergence theorem.
    """
    left, right = mesh.faces.T
    inward = normalize(mesh.centers[right] - mesh.centers[left]) * mesh.face_areas[:, None]
    return normalize(
        sums_of_rows(right, inward, mesh.n_cells) - sums_of_rows(left, inward, mesh.n_cells)
    )


def hypersphere_mesh_of(cells: int) -> Mesh:
    """The mesh of S³ of a number of cells. Raises ValueError if none has it."""
    near = max(1, round((cells / 100.0) ** (1.0 / 3.0)))
    if hypersphere_cells(near) != cells:
        below = near if near == 1 or hypersphere_cells(near) < cells else near - 1
        choices = " or ".join(str(hypersphere_cells(n)) for n in (below, below + 1))
        raise ValueError(f"a mesh of S^3 has 100·n³ + 20·n cells, got {cells}. Nearest: {choices}.")
    return hypersphere_mesh(near)


def coarser_hypersphere(cells: int) -> int | None:
    """How many cells the mesh of half as many divisions has; None of the 600-cell itself."""
    divisions = round((cells / 100.0) ** (1.0 / 3.0))
    return hypersphere_cells(divisions // 2) if divisions >= 2 else None


def finer_hypersphere(cells: int) -> int:
    """How many cells the mesh of twice as many divisions has."""
    return hypersphere_cells(2 * round((cells / 100.0) ** (1.0 / 3.0)))


def tetrahedra(n: int) -> tuple[Floats, Integers, Integers]:
    """Corners v (600, 4, 4) of the tetrahedra of the 600-cell; the shares of each corner, whole
    numbers of sum n, in the points that divide a tetrahedron evenly, (n_points, 4); and which of
    the points of all tetrahedra to take so that each is there once."""
    from scipy.spatial import ConvexHull

    signs = np.array(list(product((-1.0, 1.0), repeat=4)))
    golden = 0.5 * (1.0 + np.sqrt(5.0))
    corner = signs[::2] * [golden, 1.0, 1.0 / golden, 0.0]
    even = [list(p) for p in permutations(range(4)) if np.linalg.det(np.eye(4)[list(p)]) > 0.0]
    points = np.concatenate(
        [2.0 * np.eye(4), -2.0 * np.eye(4), signs, *(corner[:, p] for p in even)]
    )
    simplices = ConvexHull(points).simplices
    shares = np.array([share for share in product(range(n + 1), repeat=4) if sum(share) == n])
    # a point of several tetrahedra is told by the corners that have a share in it
    names = np.where(shares > 0, simplices[:, None] * (n + 1) + shares, 0).reshape(-1, 4)
    _, first = np.unique(np.sort(names, axis=1), axis=0, return_index=True)
    return points[simplices], shares, first


def divided(corners: Floats, parts: Floats, first: Integers) -> Floats:
    """The points Σ_k λ_k v_k of all tetrahedra on S³, (n_cells, 4), by those of one, parts
    (n_points, 4); corners, first : see tetrahedra."""
    return normalize(np.einsum("sk,tka->tsa", parts, corners).reshape(-1, 4)[first])


def cross(a: Floats, b: Floats, c: Floats) -> Floats:
    """The vectors n of R⁴ with x·n = det(x, a, b, c);  a, b, c : (n, 4)."""
    out = np.empty(a.shape)
    for k in range(4):
        x, y, z = (np.delete(v, k, axis=1) for v in (a, b, c))
        out[:, k] = (-1.0) ** k * _dot(x, np.cross(y, z))
    return out


def _dot(a, b):
    return np.einsum("ij,ij->i", a, b)


def rings(
    points: Floats, vertices: Floats, tetrahedra: Integers
) -> tuple[Integers, Integers, Integers, Integers]:
    """The faces between Voronoi cells, and the ring of corners around each.

    points (n_cells, 4);  vertices, tetrahedra : (n_vertices, 4) corners of the cells, and the cells
        that meet at each
    Returns ends (n_faces, 2) the cells on either side, and for each corner of each face, in order:
    face, vertex, and the vertex that follows (n_corners,)

        face      0 0 0 0 1 1 1 …
        vertex    7 2 9 4 3 8 5 …
        next      2 9 4 7 8 5 3 …
    """
    n = np.int64(len(points))
    pairs = np.sort(tetrahedra[:, EDGES].reshape(-1, 2), axis=1)
    keys, face = np.unique(n * pairs[:, 0] + pairs[:, 1], return_inverse=True)
    vertex, ends = np.repeat(np.arange(len(vertices)), 6), np.stack([keys // n, keys % n], axis=1)
    # the corners of a face, by their angle around its inside
    inside = normalize(sums_of_rows(face, vertices[vertex], len(ends)))
    some = np.empty(len(ends), np.int64)
    some[face] = vertex
    normal, first = points[ends[:, 1]] - points[ends[:, 0]], vertices[some]
    along = first - _dot(first, inside)[:, None] * inside
    across = cross(normalize(normal), inside, along)
    corner = vertices[vertex]
    order = np.lexsort((np.arctan2(_dot(corner, across[face]), _dot(corner, along[face])), face))
    face, vertex = face[order], vertex[order]
    start = np.searchsorted(face, np.arange(len(ends)))
    following = np.append(vertex[1:], 0)
    following[np.append(start[1:], len(face)) - 1] = vertex[start]
    return ends, face, vertex, following


def voronoi_mesh(points: Floats) -> Mesh:
    """The Voronoi mesh of points of S³, cells numbered so that neighbours lie close in memory.

    points : (n_cells, 4) unit vectors
    Faces are polygons on great spheres, each in the plane that bisects the chord of its two
    centres. Areas are exact; cells are made of two equal pyramids over each face. The Delaunay
    tetrahedra are the facets of the convex hull, whose normals are the corners of the cells.
    """
    from scipy.spatial import ConvexHull

    hull, n = ConvexHull(points), len(points)
    vertices, rank = normalize(hull.equations[:, :4]), np.empty(n, np.int64)
    order = near_in_memory(n, hull.simplices[:, EDGES].reshape(-1, 2))
    points, rank[order] = points[order], np.arange(n)
    ends, face, vertex, following = rings(points, vertices, rank[hull.simplices])
    count = len(ends)
    left, right = points[ends[:, 0]], points[ends[:, 1]]
    normal, foot, a, b = (
        normalize(right - left)[face],
        normalize(left + right)[face],
        vertices[vertex],
        vertices[following],
    )
    turn = _dot(cross(normal, foot, a), b)
    areas = np.bincount(
        face, 2.0 * np.arctan2(turn, 1.0 + _dot(foot, a) + _dot(a, b) + _dot(b, foot)), count
    )
    distances, real = distance(left, right), areas > NEGLIGIBLE * areas.mean()
    arcs = distance(a, b)
    middles = sums_of_rows(face, cross(normal, a, b) / np.sinc(arcs / np.pi)[:, None], count)
    slot = np.arange(len(face)) - np.searchsorted(face, face)
    corners = np.repeat(vertex[np.searchsorted(face, np.arange(count))][:, None], slot.max() + 1, 1)
    corners[face, slot] = vertex
    ends, corners, halves = ends[real], corners[real], np.empty(np.count_nonzero(real))
    normals = normalize(points[ends[:, 1]] - points[ends[:, 0]])
    pyramids(points[ends[:, 0]], normals, vertices[corners], corner_counts(corners), halves)
    volumes = np.bincount(ends[:, 0], halves, n) + np.bincount(ends[:, 1], halves, n)
    return Mesh(
        name="600-cell",
        centers=points,
        volumes=volumes,  # type: ignore[arg-type]  # NumPy says int
        faces=ends.astype(np.int32),
        face_areas=areas[real],
        face_distances=distances[real],
        face_midpoints=normalize(middles[real]),
        vertices=vertices,
        face_vertices=corners.astype(np.int32),
    )
