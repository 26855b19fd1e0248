"""Where the kinks of a potential cut the cells and the faces of a mesh.

Kink k is the great sphere n_k·θ = 0. Where it cuts a cell there is a chord, a polygon on S³, an arc
on S² and a point on the circle:

    ∫_face ∇(n_k·θ)₊·normal = (n_k·normal) · (size of the face where n_k·θ > 0)

which the difference of (n_k·θ)₊ between the centres misses where the kink cuts the face, or the
line between the centres. `Cuts` has the difference of both, a number for each such pair.
"""

from dataclasses import dataclass

import numpy as np

from ...geometry.mesh import Mesh, half_faces
from ...geometry.polyhedra import corner_counts, cut_faces, sections
from ...geometry.sphere import normalize

ASIDE = 1e-9  # by which kinks on S³ are moved, where many lie in faces of the mesh
OFF_AXES = np.array([0.31, -0.57, 0.23, 0.71])
SIDE = 1e-5  # distance from a kink at which slopes on its sides are taken


@dataclass(frozen=True, eq=False)
class Chords:
    """Chords sorted by cell, those of cell c from starts[c] to starts[c + 1].

    cell, kink : (n_chords,);  middles : (n_chords, d+1) unit vectors on the kinks
    per_volume : (n_chords,) area or length of the chord, 1 on the circle, over the cell's volume
    """

    starts: np.ndarray
    cell: np.ndarray
    kink: np.ndarray
    middles: np.ndarray
    per_volume: np.ndarray


@dataclass(frozen=True, eq=False)
class Cuts:
    """Corrections of the flows through faces, sorted by cell and then by kink.

    starts : (n_cells + 1,);  slot : of the face among those of its cell;  kink : k
    excess : what −∫∇(n_k·θ)₊·normal is more than its difference between the centres
    """

    starts: np.ndarray
    slot: np.ndarray
    kink: np.ndarray
    excess: np.ndarray


def cut_mesh(mesh: Mesh, normals: np.ndarray) -> tuple[Chords, Cuts]:
    """The Chords and Cuts of a mesh of circle, S² or S³ by kinks with normals (n_kinks, d+1)."""
    frame = _frame(mesh)
    found = [_of_kink(mesh, frame, normal) for normal in normals]
    counts = [[len(part[0]) for part in (chords, cuts)] for chords, cuts in found]
    kinks = [np.repeat(np.arange(len(normals)), column) for column in np.array(counts).T]
    (cell, length, middles), (face, excess) = (
        (np.concatenate(parts) for parts in zip(*column, strict=True))
        for column in zip(*found, strict=True)
    )
    order = np.argsort(cell, kind="stable")
    cell = cell[order]
    starts = np.searchsorted(cell, np.arange(mesh.n_cells + 1))
    chords = Chords(
        starts, cell, kinks[0][order], middles[order], length[order] / mesh.volumes[cell]
    )
    return chords, _halves(mesh, face, kinks[1], excess)


def _frame(mesh):
    """Centres on both sides of the faces, the unit normals of the faces, from left to right, and
    the lengths of the lines between the centres."""
    left, right = mesh.centers[mesh.faces[:, 0]], mesh.centers[mesh.faces[:, 1]]
    between = np.linalg.norm(right - left, axis=1)
    return left, right, (right - left) / between[:, None], between


def _of_kink(mesh, frame, normal):
    """Chords (cell, length, middle) and cuts (face, excess) of one kink."""
    left, right, *_ = frame
    kink = normal
    if mesh.face_vertices.shape[1] > 2:  # on S³
        normal = normalize(normal + ASIDE * OFF_AXES)
    corners = (mesh.vertices @ normal)[mesh.face_vertices]
    sides = [np.asarray(s > 0.0) for s in (left @ normal, right @ normal, *corners.T)]
    near = np.flatnonzero(~(np.all(sides, axis=0) | ~np.any(sides, axis=0)))
    if mesh.face_vertices.shape[1] > 2:
        (cell, size, middles), cuts = _polygons(mesh, frame, normal, near)
        # back on the kink: slopes are taken on both sides of it, at distances of SIDE
        return (cell, size, normalize(middles - np.outer(middles @ kink, kink))), cuts
    ends, areas = corners[near], mesh.face_areas[near]
    first = np.abs(ends[:, 0])
    faces_are_points = mesh.face_vertices.shape[1] == 1  # on the circle
    if faces_are_points:
        crossed, positive = np.zeros(len(near), dtype=bool), (ends[:, 0] > 0.0).astype(float)
        arc = points = None
    else:
        crossed = (ends[:, 0] > 0.0) != (ends[:, 1] > 0.0)
        last = np.abs(ends[:, 1])
        arc = np.arctan2(first * np.sin(areas), first * np.cos(areas) + last)
        positive = np.where(ends[:, 0] > 0.0, np.where(crossed, arc, areas), areas - arc)
        positive = np.where(crossed | (ends[:, 0] > 0.0), positive, 0.0)
        a, b = (mesh.vertices[mesh.face_vertices[near, i]] for i in range(2))
        points = normalize(np.sin(areas - arc)[:, None] * a + np.sin(arc)[:, None] * b)
    excess = _excess(mesh, frame, normal, near, positive)
    kept = excess != 0.0
    if faces_are_points:
        return _points_of(mesh, normal), (near[kept], excess[kept])
    faces = mesh.faces[near[crossed]]
    owner, points = faces.ravel(), np.repeat(points[crossed], 2, axis=0)
    order = np.argsort(owner, kind="stable")
    cell, begin, count = np.unique(owner[order], return_index=True, return_counts=True)
    pair = count == 2  # a cell is convex; through a corner alone there is no chord
    one, two = points[order[begin[pair]]], points[order[begin[pair] + 1]]
    length = 2.0 * np.arcsin(np.minimum(0.5 * np.linalg.norm(one - two, axis=1), 1.0))
    return (cell[pair], length, normalize(one + two)), (near[kept], excess[kept])


def _excess(mesh, frame, normal, near, positive):
    """What is missed through faces `near` of which the part `positive` has normal·θ > 0."""
    left, right, across, between = (part[near] for part in frame)
    slope = np.maximum(right @ normal, 0.0) - np.maximum(left @ normal, 0.0)
    return mesh.face_areas[near] * slope / between - (across @ normal) * positive


def _polygons(mesh, frame, normal, near):
    """Chords and cuts of one kink on S³."""
    corners = mesh.vertices[mesh.face_vertices[near]]
    counts, n = corner_counts(mesh.face_vertices[near]), len(near)
    positive, ends, crossed = np.zeros(n), np.zeros((n, 2, 4)), np.zeros(n, dtype=bool)
    cut_faces(corners, counts, frame[2][near], normal, positive, ends, crossed)
    owners, twice = mesh.faces[near[crossed]].ravel(), np.repeat(ends[crossed], 2, axis=0)
    return sections(owners, twice, normal), (near, _excess(mesh, frame, normal, near, positive))


def _points_of(mesh, normal):
    """The two points of a kink on the circle, as chords of length 1."""
    points = np.array([[-normal[1], normal[0]], [normal[1], -normal[0]]])
    cell = np.argmax(points @ mesh.centers.T, axis=1)
    return cell, np.ones(2), points


def _halves(mesh, face, kink, excess):
    """Cuts of faces as Cuts of cells: from the other side, what is more is less."""
    cell, _, faces, slot = half_faces(mesh)
    place = np.argsort(faces, kind="stable").reshape(-1, 2)[face]  # of both halves
    owner, slots = cell[place].ravel(), slot[place].ravel()
    signs = np.where(cell[place] == mesh.faces[face, :1], 1.0, -1.0)
    kinks, values = np.repeat(kink, 2), (signs * excess[:, None]).ravel()
    order = np.argsort(owner, kind="stable")
    starts = np.searchsorted(owner[order], np.arange(mesh.n_cells + 1))
    return Cuts(starts, slots[order], kinks[order], values[order])
