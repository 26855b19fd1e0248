"""Areas that the cells of two meshes share, by which densities are carried from a fine mesh to a
coarse one; and the cell that a point lies in."""

import numpy as np
from numba import prange
from numpy.typing import ArrayLike

from ..arguments import Floats, Integers
from ..compiled import njit
from .circle import circle_mesh
from .mesh import Mesh, half_faces, is_like
from .polyhedra import copy, cut_polygon, dot, polyhedra, shared_volumes
from .rows import sums_of_rows
from .sphere import distance

TIGHT = 1e-10  # of a cell's area: what its pieces may miss of it
CORNERS = 24  # room for those of a cell that is being clipped


def restrict(density: ArrayLike, fine: Mesh, coarse: Mesh, linear: bool = False) -> Floats:
    """The cell averages, on a coarse mesh, of a density that is constant in each cell of a fine
    one, or linear; its mass stays.

        ν_C = Σ_F (|C ∩ F| ν_F + g_F·∫_{C ∩ F} (x − x_F) dx) / |C|,   g_F = 0 unless linear

    density : (..., n_fine) cell averages;  fine, coarse : meshes of the circle, geodesic meshes of
        S² or those of S³, `fine` of at least as many cells
    linear : g_F fits the neighbours by least squares, x_F is the mean of x over F. The averages may
        be negative where those of a positive density fall steeply
    Of a smooth density it differs from cell averages by O(h_fine²) where fine cells lie within
    coarse ones, or it is linear, and by O(h_fine²/h_coarse) where they cross their faces.
    Raises ValueError for other meshes.
    """
    if fine.n_cells == coarse.n_cells and np.array_equal(fine.centers, coarse.centers):
        return np.array(density, dtype=float)
    _check_family(fine, coarse)
    source, target, shared = _overlaps(fine, coarse)
    density = np.asarray(density, dtype=float)
    found = _masses(density, source, target, shared[:, 0], coarse.n_cells)
    if linear:
        found += _tilts(density, source, target, shared, fine, coarse)
    return found / coarse.volumes


def _tilts(density, source, target, shared, fine, coarse):
    """The mass that slopes in the fine cells add to coarse ones, (..., n_coarse); its sum is 0."""
    means = sums_of_rows(source, shared[:, 1:], fine.n_cells) / fine.volumes[:, None]
    apart = shared[:, 1:] - shared[:, :1] * means[source]
    rows = density.reshape(-1, fine.n_cells)
    tilts = [np.einsum("ka,ka->k", apart, g[source]) for g in _gradients(rows, means, fine)]
    found = [np.bincount(target, tilt, coarse.n_cells) for tilt in tilts]
    return np.array(found).reshape(*density.shape[:-1], coarse.n_cells)


def _gradients(rows, means, mesh):
    """Gradients g (n_rows, n_cells, d+1) of densities (n_rows, n_cells), tangent to the sphere:
    those with least Σ over the neighbours j of (ν_j − ν_i − g·(x_j − x_i))², x the means."""
    cell, neighbor, _, _ = half_faces(mesh)
    steps = means[neighbor] - means[cell]
    normal = np.einsum("ia,ib->iab", mesh.centers, mesh.centers) * mesh.width**2
    np.add.at(normal, cell, steps[:, :, None] * steps[:, None, :])
    right = np.zeros((*rows.shape, mesh.dim + 1))
    for row, side in zip(rows, right, strict=True):
        np.add.at(side, cell, (row[neighbor] - row[cell])[:, None] * steps)
    return np.linalg.solve(normal, right[..., None])[..., 0]


def _check_family(fine, coarse):
    """Raise ValueError unless cells of a coarse mesh overlap those of a fine one in a known way."""
    if fine.name != coarse.name or fine.name not in OVERLAPS or fine.n_cells < coarse.n_cells:
        raise ValueError(
            f"A density is restricted from a fine mesh ({', '.join(OVERLAPS)}) to a coarser one,"
            f" not from {fine.n_cells} cells ('{fine.name}') to {coarse.n_cells} ('{coarse.name}')."
        )


def _overlaps(fine, coarse):
    """Pairs of cells that meet, of the fine mesh and of the coarse one, and of what they share the
    area and ∫ x, (n_pairs, d+2)."""
    return OVERLAPS[fine.name](fine, coarse)


def _masses(density, source, target, areas, count):
    """What cells of a new mesh get, (..., count), of a density (..., n) on an old one."""
    rows = density.reshape(-1, density.shape[-1])
    masses = [np.bincount(target, areas * row[source], count) for row in rows]
    return np.array(masses).reshape(*density.shape[:-1], count)


def transferred(density: ArrayLike, old: Mesh, new: Mesh) -> Floats:
    """The cell averages, on a new mesh, of a density that is constant in each cell of an old one;
    its mass stays.

    density : (..., n_old);  old, new : meshes of the circle, geodesic meshes of S² or those of S³
    Raises ValueError for other meshes, unless they are the same one; ArithmeticError if they have
    these names and other cells.
    """
    if old.n_cells >= new.n_cells:
        return restrict(density, old, new)
    _check_family(new, old)
    target, source, shared = _overlaps(new, old)
    density = np.asarray(density, dtype=float)
    return _masses(density, source, target, shared[:, 0], new.n_cells) / new.volumes


def spread(density: ArrayLike, coarse: Mesh, fine: Mesh) -> Floats:
    """The masses in the cells of a fine circle mesh of a density that is constant in each cell of a
    coarse one.

    density : (..., n_coarse);  returns (..., n_fine)
    """
    target, source, shared = _circle_overlaps(fine, coarse)
    return _masses(np.asarray(density), source, target, shared[:, 0], fine.n_cells)


def _circle_overlaps(fine, coarse):
    """Pairs of uniform arcs that meet; see `_overlaps`. Raises ArithmeticError for others."""
    for mesh in (fine, coarse):
        if not is_like(mesh, circle_mesh(mesh.n_cells)):
            raise ArithmeticError(
                "Densities are carried between circle meshes as hkflow.circle_mesh makes them; the"
                f" one of {mesh.n_cells} cells is another."
            )
    counts = fine.n_cells, coarse.n_cells
    # in units of a common refinement, so that ends which coincide are equal
    ends = np.unique(
        np.concatenate(
            [np.arange(n + 1) * (m // np.gcd(*counts)) for n, m in (counts, counts[::-1])]
        )
    )
    middles, whole = 0.5 * (ends[:-1] + ends[1:]), ends[-1]
    source, target = (np.floor(middles * n / whole).astype(int) for n in counts)
    unit = 2.0 * np.pi / whole
    lengths, angles = unit * np.diff(ends), unit * middles
    chords = 2.0 * np.sin(0.5 * lengths)
    return source, target, np.stack([lengths, chords * np.cos(angles), chords * np.sin(angles)], 1)


def _sphere_overlaps(fine, coarse):
    """Pairs of Voronoi cells that meet; see `_overlaps`. Raises ArithmeticError if some area is
    missed."""
    from scipy.spatial import cKDTree

    corners, counts = corner_table(fine)
    _, nearest = cKDTree(coarse.centers).query(fine.centers)
    ring = neighbor_table(coarse)
    candidates = np.concatenate([nearest[:, None], ring[nearest]], axis=1)
    shared = np.zeros((*candidates.shape, 4))
    clipped(fine.vertices[corners], counts, candidates, ring, coarse.centers, shared)
    shared[:, 1:][ring[nearest] == nearest[:, None]] = 0.0  # padding
    _check_complete(shared[..., 0].sum(axis=1), fine)
    source, place = np.nonzero(shared[..., 0] > 0.0)
    return source, candidates[source, place], shared[source, place]


def _space_overlaps(fine, coarse):
    """Pairs of cells of S³ that meet; see `_overlaps`. Raises ArithmeticError if some volume is
    missed."""
    from scipy.spatial import cKDTree

    one, two = polyhedra(fine), polyhedra(coarse)
    radii = [_radii(mesh) for mesh in (fine, coarse)]
    reach = 2.0 * np.sin(0.5 * np.minimum(radii[0] + radii[1].max(), np.pi))  # as chords
    near = cKDTree(coarse.centers).query_ball_point(fine.centers, reach, return_sorted=True)
    starts = np.cumsum([0, *map(len, near)])
    candidates, shared = np.concatenate(near), np.zeros((starts[-1], 5))
    shared_volumes(one, two, fine.centers, fine.volumes, starts, candidates, shared)
    source = np.repeat(np.arange(fine.n_cells), np.diff(starts))
    _check_complete(np.bincount(source, shared[:, 0], fine.n_cells), fine)
    there = shared[:, 0] > TIGHT * fine.volumes.min()
    return source[there], candidates[there], shared[there]


def _radii(mesh):
    """The distance of each cell's farthest corner from its centre, (n_cells,)."""
    found = np.zeros(mesh.n_cells)
    for cells in mesh.faces.T:
        apart = distance(mesh.centers[cells][:, None], mesh.vertices[mesh.face_vertices])
        np.maximum.at(found, cells, apart.max(axis=1))
    return found


def _check_complete(found, fine):
    """Raise ArithmeticError unless the pieces of each cell, found (n_cells,), make it up."""
    missed = np.abs(found - fine.volumes).max() / fine.volumes.min()
    if missed > TIGHT:
        raise ArithmeticError(
            f"The pieces of a cell miss {missed:.1e} of its area: the meshes are not nested well"
            " enough."
        )


OVERLAPS = {"circle": _circle_overlaps, "geodesic": _sphere_overlaps, "600-cell": _space_overlaps}


def neighbor_table(mesh: Mesh) -> Integers:
    """The neighbours of each cell, (n_cells, n_slots) int; a cell with fewer of them lists
    itself."""
    cell, neighbor, _, slot = half_faces(mesh)
    table = np.repeat(np.arange(mesh.n_cells)[:, None], slot.max(initial=-1) + 1, axis=1)
    table[cell, slot] = neighbor
    return table


@njit(cache=True)
def nearest_cell(point, cell, ring, centers):
    """The Voronoi cell that a point (p,) of a sphere lies in, from a guess: go to the neighbour
    whose centre is nearest while one is nearer. Outside a cell there always is one, since its faces
    are the bisectors to its neighbours.

    ring (n_cells, k), see `neighbor_table`;  centers (n_cells, p)
    """
    while True:
        nearest, highest = cell, 0.0
        for a in range(len(point)):
            highest += point[a] * centers[cell, a]
        for k in range(ring.shape[1]):
            cosine = 0.0
            for a in range(len(point)):
                cosine += point[a] * centers[ring[cell, k], a]
            if cosine > highest:
                highest, nearest = cosine, np.int64(ring[cell, k])
        if nearest == cell:
            return cell
        cell = nearest


@njit(cache=True)
def nearest_cells(points, ring, centers, cells):
    """The cell of each of points (n, p), cells (n,): out. The guess is the cell of the point
    before, so points that follow one another had better lie close together."""
    cell = np.int64(0)
    for i in range(len(points)):
        cell = nearest_cell(points[i], cell, ring, centers)
        cells[i] = cell


def corner_table(mesh: Mesh) -> tuple[Integers, Integers]:
    """The corners of each cell of S² in order, counter-clockwise seen from outside: (n_cells,
    n_slots) int, and how many."""
    cell, _, face, slot = half_faces(mesh)
    x, pairs = mesh.centers[cell], mesh.face_vertices[face]
    a, b = mesh.vertices[pairs[:, 0]], mesh.vertices[pairs[:, 1]]
    turned = np.einsum("ij,ij->i", x, np.cross(a, b)) < 0.0
    first = np.where(turned, pairs[:, 1], pairs[:, 0])  # where the cell's boundary enters the face
    axis = np.eye(3)[np.abs(mesh.centers).argmin(axis=1)]
    east = np.cross(axis, mesh.centers)[cell]
    north, at = np.cross(x, east), mesh.vertices[first]
    angle = np.arctan2(np.einsum("ij,ij->i", at, north), np.einsum("ij,ij->i", at, east))
    order = np.lexsort((angle, cell))
    table = np.zeros((mesh.n_cells, slot.max() + 1), dtype=np.int64)
    table[cell, slot] = first[order]
    return table, np.bincount(cell, minlength=mesh.n_cells)


@njit(parallel=True, cache=True)
def clipped(corners, counts, candidates, ring, centers, shared):
    """The part of each convex spherical polygon within each of its candidate Voronoi cells
    (Sutherland & Hodgman 1974).

    corners (n, n_slots, 3), counts (n,);  candidates (n, m) cells;  ring (n_cells, k) their
    neighbours, centers (n_cells, 3)
    The cell c is cut out by its bisectors {x : x·(centers_c − centers_j) ≥ 0}.
    shared (n, m, 4): out, its area and ∫ x
    """
    for f in prange(len(corners)):
        clip(corners[f], counts[f], candidates[f], ring, centers, shared[f])


# a function of its own: within a parallel loop the compiler takes longer over it
@njit(cache=True)
def clip(corners, count, candidates, ring, centers, shared):
    """The parts of one polygon; the arrays of `clipped`.

    By the divergence theorem ∫ x = ½ Σ over its edges of length × unit normal into it.
    """
    polygon, cut = np.empty((CORNERS, 3)), np.empty((CORNERS, 3))
    for e in range(len(candidates)):
        c, n = candidates[e], count
        copy(corners[:n], polygon[:n])
        for k in range(ring.shape[1]):
            if ring[c, k] == c:
                continue
            m = cut_polygon(polygon, n, centers[c] - centers[ring[c, k]], cut)
            polygon, cut, n = cut, polygon, m
        for i in range(1, n - 1):
            a, b, d = polygon[0], polygon[i], polygon[i + 1]
            volume = (
                a[0] * (b[1] * d[2] - b[2] * d[1])
                + a[1] * (b[2] * d[0] - b[0] * d[2])
                + a[2] * (b[0] * d[1] - b[1] * d[0])
            )
            shared[e, 0] += 2.0 * np.arctan2(volume, 1.0 + dot(a, b) + dot(b, d) + dot(d, a))
        for i in range(n):
            a, b = polygon[i], polygon[i + 1 if i + 1 < n else 0]
            x, y, z = (
                a[1] * b[2] - a[2] * b[1],
                a[2] * b[0] - a[0] * b[2],
                a[0] * b[1] - a[1] * b[0],
            )
            sine = np.sqrt(x * x + y * y + z * z)
            half = 0.5 * np.arctan2(sine, dot(a, b)) / sine if sine > 0.0 else 0.5
            shared[e, 1] += half * x
            shared[e, 2] += half * y
            shared[e, 3] += half * z
