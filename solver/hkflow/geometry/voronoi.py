"""Voronoi cells on S² from the triangulation of their centres."""

import numpy as np

from ..arguments import Floats, Integers
from .mesh import Mesh
from .rows import sums_of_rows
from .sphere import distance, normalize, triangle_area


def edges(triangles: Integers) -> tuple[Integers, Integers]:
    """The edges of a closed, consistently oriented triangulation.

    triangles : (n_triangles, 3) int, corners counter-clockwise seen from outside
    Returns ends (n_edges, 2) with ends[:, 0] < ends[:, 1], and sides (n_edges, 2): the triangles on
    the right and on the left of the edge seen from its first end.
    """
    n = len(triangles)
    start = triangles.ravel(order="F")
    stop = np.roll(triangles, -1, axis=1).ravel(order="F")
    triangle = np.tile(np.arange(n), 3)
    forward = start < stop
    key = np.where(forward, start, stop) * np.int64(triangles.max() + 1) + np.where(
        forward, stop, start
    )
    left, right = np.flatnonzero(forward), np.flatnonzero(~forward)
    left, right = left[np.argsort(key[left])], right[np.argsort(key[right])]
    if not np.array_equal(key[left], key[right]):
        raise ValueError("The triangulation is not closed: some edge belongs to one triangle only.")
    return np.stack([start[left], stop[left]], axis=1), np.stack(
        [triangle[right], triangle[left]], axis=1
    )


def circumcenters(points: Floats, triangles: Integers) -> Floats:
    """Points at equal distance from the three corners: the corners of the Voronoi cells."""
    a, b, c = (points[triangles[:, k]] for k in range(3))
    return normalize(np.cross(b - a, c - a))


def centroids(points: Floats, triangles: Integers, ends: Integers, sides: Integers) -> Floats:
    """Centroids of the Voronoi cells, projected to the sphere.

    ∫_cell x dS = ½ Σ_edges (arc length) × (unit normal of the edge's plane), by the divergence
    theorem.
    """
    corners = circumcenters(points, triangles)
    a, b = corners[sides[:, 0]], corners[sides[:, 1]]
    moment = normalize(np.cross(a, b)) * distance(a, b)[:, None]
    first, second = (sums_of_rows(end, moment, len(points)) for end in ends.T)
    return normalize(first - second)


def lloyd(points: Floats, triangles: Integers, iterations: int) -> Floats:
    """Move each centre to the centroid of its cell, `iterations` times, keeping the
    triangulation."""
    ends, sides = edges(triangles)
    for _ in range(iterations):
        points = centroids(points, triangles, ends, sides)
    return points


def near_in_memory(n: int, ends: Integers) -> Integers:
    """An order of n cells in which neighbours, the ends (n_edges, 2), lie close in memory."""
    from scipy.sparse import csr_array  # meshes are kept, so these are rarely needed
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    graph = csr_array(
        (np.ones(2 * len(ends)), (np.r_[ends[:, 0], ends[:, 1]], np.r_[ends[:, 1], ends[:, 0]])),
        shape=(n, n),
    )
    return reverse_cuthill_mckee(graph, symmetric_mode=True)


def voronoi_mesh(name: str, points: Floats, triangles: Integers) -> Mesh:
    """The Voronoi mesh dual to a Delaunay triangulation, cells renumbered so that neighbours lie
    close in memory.

    points : (n_cells, 3) unit vectors;  triangles : (n_triangles, 3) int, counter-clockwise
    Raises ValueError if the triangulation is not Delaunay (some face would have a negative length).
    """
    n = len(points)
    order = near_in_memory(n, edges(triangles)[0])
    rank = np.empty(n, np.int64)
    rank[order] = np.arange(n)
    points, triangles = points[order], rank[triangles]

    ends, sides = edges(triangles)
    corners = circumcenters(points, triangles)
    left, right = points[ends[:, 0]], points[ends[:, 1]]
    a, b = corners[sides[:, 0]], corners[sides[:, 1]]
    half_left, half_right = triangle_area(left, a, b), triangle_area(right, b, a)
    if min(half_left.min(), half_right.min()) <= 0.0:
        raise ValueError("The triangulation is not Delaunay: a Voronoi face has negative length.")
    areas = np.bincount(ends[:, 0], half_left, n) + np.bincount(ends[:, 1], half_right, n)
    return Mesh(
        name=name,
        centers=points,
        volumes=areas,  # type: ignore[arg-type]  # NumPy says int
        faces=ends.astype(np.int32),
        face_areas=distance(a, b),
        face_distances=distance(left, right),
        face_midpoints=normalize(a + b),
        vertices=corners,
        face_vertices=sides.astype(np.int32),
    )
