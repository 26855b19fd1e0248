"""Volumes of convex polyhedra on S³, and what two cells share.

A polyhedron is made of pyramids from any one point, the apex, to its faces, signed where the apex
lies beyond a face. The boundary of A ∩ B is that of A within B and that of B within A, so polygons
alone are clipped.
"""

from typing import NamedTuple

import numpy as np

from ..arguments import Floats, Integers
from ..compiled import njit
from .mesh import Mesh, half_faces
from .sphere import normalize

NODES, WEIGHTS = np.polynomial.legendre.leggauss(8)
CORNERS = 32  # room for those of a face that is being clipped
NOTHING = 1e-30  # area that has a middle all the same
ON_PLANE = 1e-13  # distance from a plane that counts as none
SAME_PLANE = 1e-14  # 1 − |cosine| of the normals of faces that lie in one great sphere


@njit(cache=True)
def cut_polygon(polygon, n, normal, cut):
    """The part of a convex spherical polygon, its first n rows, with x·normal ≥ 0 (Sutherland &
    Hodgman 1974): written to `cut`; returns how many corners it has."""
    m, p = 0, dot(polygon[0], normal) if n else 0.0
    for i in range(n):
        here, following = polygon[i], polygon[i + 1 if i + 1 < n else 0]
        q = dot(following, normal)
        if p >= 0.0:
            copy(here, cut[m])
            m += 1
        if p * q < 0.0:
            square = 0.0
            for axis in range(len(normal)):
                if p > 0.0:
                    cut[m, axis] = p * following[axis] - q * here[axis]
                else:
                    cut[m, axis] = q * here[axis] - p * following[axis]
                square += cut[m, axis] ** 2
            length = np.sqrt(square)
            for axis in range(len(normal)):
                cut[m, axis] /= length
            m += 1
        p = q
    return m


@njit(cache=True)
def copy(array, out):
    """out = array, of the same shape. An assignment of arrays makes the compiler build a sentence
    about shapes, which takes seconds."""
    for place in np.ndindex(array.shape):
        out[place] = array[place]


@njit(cache=True)
def dot(a, b):
    """a·b"""
    total = 0.0
    for axis in range(len(a)):
        total += a[axis] * b[axis]
    return total


@njit(cache=True)
def pyramid(apex, normal, polygon, n):
    """Volume of the spherical pyramid from an apex over a polygon, its first n rows, in the plane
    of a unit normal; positive if the apex is behind it and det(m, normal, a, b) > 0 for corners
    a, b in order.

        V = ½ ∮ (h − R tan h / tan R) dφ,   h distance of the apex from the plane, of foot m,
                                            R(φ) from the edge, φ the angle around m

    is the volume ∫∫ (r/2 − sin(2r)/4) dΩ, r the distance of the face in a direction, with the
    integral towards the edge done. With sin²R − sin²h = cos²h sin²ρ, ρ(φ) = distance of m from the
    edge, and R / tan R = 1 − Σ_k b_k sin^{2k} R, b_k = a_k / (2k), a_k = a_{k−1} 2k / (2k + 1),
    a_0 = 1, the bracket is

        sin h cos h sin²ρ Σ_k b_k Σ_{j<k} sin^{2j} R sin^{2(k−1−j)} h,

    of positive terms, for R < π/2. On an edge a Gauss rule of 8 points is exact to rounding.
    """
    sine = -dot(normal, apex)
    cosine2 = 1.0 - sine**2
    foot = (apex + sine * normal) / np.sqrt(cosine2)
    total, q = 0.0, np.empty(4)
    for i in range(n):
        a, b = polygon[i], polygon[(i + 1) % n]
        turn = determinant(foot, normal, a, b)
        for k in range(len(NODES)):
            node = 0.5 * (1.0 + NODES[k])
            square = up = 0.0
            for axis in range(4):
                q[axis] = (1.0 - node) * a[axis] + node * b[axis]
                square += q[axis] ** 2
                up += q[axis] * foot[axis]
            side2 = 0.0
            for axis in range(4):
                side2 += (q[axis] - up * foot[axis]) ** 2
            x, y = sine**2, sine**2 + cosine2 * side2 / square
            share, powers, lowest, order, series, added = 1.0, 1.0, 1.0, 1.0, 0.0, 1.0
            while added > 1e-17 * series:
                share /= 2.0 * order + 1.0
                added = share * powers
                series += added
                share *= 2.0 * order
                lowest *= x
                powers = y * powers + lowest
                order += 1.0
            total += WEIGHTS[k] * turn / square * series
    return 0.25 * sine * np.sqrt(cosine2) * total


@njit(cache=True)
def determinant(a, b, c, d):
    """det(a, b, c, d) of vectors of R⁴."""
    u, v, w = a[0] * b[1] - a[1] * b[0], a[0] * b[2] - a[2] * b[0], a[0] * b[3] - a[3] * b[0]
    x, y, z = a[1] * b[2] - a[2] * b[1], a[1] * b[3] - a[3] * b[1], a[2] * b[3] - a[3] * b[2]
    return (
        u * (c[2] * d[3] - c[3] * d[2])
        - v * (c[1] * d[3] - c[3] * d[1])
        + w * (c[1] * d[2] - c[2] * d[1])
        + x * (c[0] * d[3] - c[3] * d[0])
        - y * (c[0] * d[2] - c[2] * d[0])
        + z * (c[0] * d[1] - c[1] * d[0])
    )


@njit(cache=True)
def pyramids(apexes, normals, corners, counts, out):
    """The pyramids over faces: apexes, normals (n_faces, 4), corners (n_faces, k, 4), counts
    (n_faces,), out (n_faces,)."""
    for f in range(len(out)):
        out[f] = pyramid(apexes[f], normals[f], corners[f], counts[f])


class Polyhedra(NamedTuple):
    """The cells of a mesh of S³ by their faces.

    corners (n_faces, k, 4), counts (n_faces,), normals (n_faces, 4) from the left cell to the right
    faces, sides (n_cells, n_slots) : of each cell, −1 where it has fewer; 1 if it is their left
        cell, −1 if the right
    """

    corners: Floats
    counts: Integers
    normals: Floats
    faces: Integers
    sides: Floats


def polyhedra(mesh: Mesh) -> Polyhedra:
    """The cells of a mesh of S³."""
    cell, _, face, slot = half_faces(mesh)
    faces = np.full((mesh.n_cells, slot.max() + 1), -1)
    faces[cell, slot] = face
    left, right = mesh.centers[mesh.faces[:, 0]], mesh.centers[mesh.faces[:, 1]]
    return Polyhedra(
        mesh.vertices[mesh.face_vertices],
        corner_counts(mesh.face_vertices),
        normalize(right - left),
        faces,
        np.where(mesh.faces[faces, 0] == np.arange(mesh.n_cells)[:, None], 1.0, -1.0),
    )


def corner_counts(face_vertices: Integers) -> Integers:
    """How many corners each face has, of (n_faces, k) where the first stands in for those that it
    lacks."""
    return 1 + np.count_nonzero(face_vertices[:, 1:] != face_vertices[:, :1], axis=1)


@njit(cache=True)
def boundary(apex, own, c, other, d, keeps, polygon, cut, part):
    """Add the faces of the cell c of Polyhedra within the cell d of others to their part (5,): the
    pyramids over them from an apex, and ⅓ area × unit normal into c.

    keeps : whether a face that lies in one of theirs, on the same side, belongs to it;  polygon,
        cut (CORNERS, 4) : scratch
    """
    for k in range(own.faces.shape[1]):
        f = own.faces[c, k]
        if f < 0:
            break
        n = own.counts[f]
        copy(own.corners[f, :n], polygon[:n])
        for j in range(other.faces.shape[1]):
            g = other.faces[d, j]
            if g < 0 or n == 0:
                break
            outward = other.sides[d, j] * other.normals[g]
            together = own.sides[c, k] * dot(own.normals[f], outward)
            if abs(together) < 1.0 - SAME_PLANE:
                n = cut_polygon(polygon, n, -outward, cut)
                polygon, cut = cut, polygon
            elif together < 0.0 or not keeps:
                n = 0
        if n > 2:
            side, normal = own.sides[c, k], own.normals[f]
            part[0] += side * pyramid(apex, normal, polygon, n)
            third = side * polygon_area(normal, polygon, n) / 3.0
            for axis in range(4):
                part[1 + axis] -= third * normal[axis]


@njit(cache=True)
def sides_of(own, c, other, d):
    """Where the cell c of Polyhedra lies by its corners: 1 within the cell d of others, −1 beyond
    one of its planes, 0 if neither is plain."""
    within = 1
    for j in range(other.faces.shape[1]):
        g, lowest, highest = other.faces[d, j], np.inf, -np.inf
        if g < 0:
            break
        for k in range(own.faces.shape[1]):
            f = own.faces[c, k]
            for i in range(own.counts[f] if f >= 0 else 0):
                beyond = other.sides[d, j] * dot(own.corners[f, i], other.normals[g])
                lowest, highest = min(lowest, beyond), max(highest, beyond)
        if lowest > -ON_PLANE:
            return -1
        if highest > ON_PLANE:
            within = 0
    return within


@njit(cache=True)
def shared_volumes(fine, coarse, centers, whole, starts, candidates, shared):
    """The part of each cell of fine Polyhedra within its candidates among coarse ones.

    centers (n_fine, 4), whole (n_fine,) : centres and volumes of the fine cells;  starts (n_fine +
        1,), candidates (n_pairs,), shared (n_pairs, 5) : those of the cell c from starts[c] to
        starts[c + 1];  shared : out, volume and ∫ x
    About 60 µs for a pair; in parallel the compiler would take 20 s.
    """
    polygon, cut = np.empty((CORNERS, 4)), np.empty((CORNERS, 4))
    for c in range(len(centers)):
        for e in range(starts[c], starts[c + 1]):
            d = candidates[e]
            where = sides_of(fine, c, coarse, d)
            if where >= 0:
                boundary(centers[c], fine, c, coarse, d, True, polygon, cut, shared[e])
            if where == 0:
                boundary(centers[c], coarse, d, fine, c, False, polygon, cut, shared[e])
            elif where > 0:
                shared[e, 0] = whole[c]


@njit(cache=True)
def polygon_area(normal, polygon, n):
    """Area of a convex polygon of S³, its first n rows, in the plane of a unit normal."""
    total = 0.0
    for i in range(1, n - 1):
        a, b, c = polygon[0], polygon[i], polygon[i + 1]
        volume = abs(determinant(normal, a, b, c))
        total += 2.0 * np.arctan2(volume, 1.0 + dot(a, b) + dot(b, c) + dot(c, a))
    return total


@njit(cache=True)
def cut_faces(corners, counts, planes, normal, positive, ends, crossed):
    """Cut faces by the great sphere normal·θ = 0.

    corners (n, k, 4), counts (n,) of the faces, planes (n, 4) their unit normals;  positive (n,) :
    out, area where normal·θ > 0;  crossed (n,) : out, whether it goes through, and ends (n, 2, 4)
        where it does
    """
    cut = np.empty((CORNERS, 4))
    for f in range(len(counts)):
        n, found = counts[f], 0
        m = cut_polygon(corners[f], n, normal, cut)
        positive[f] = polygon_area(planes[f], cut, m)
        for i in range(n):
            a, b = corners[f, i], corners[f, i + 1 if i + 1 < n else 0]
            p, q = dot(a, normal), dot(b, normal)
            if p * q < 0.0 and found < 2:
                for axis in range(4):
                    ends[f, found, axis] = (p * b[axis] - q * a[axis]) / (p - q)
                found += 1
        crossed[f] = found == 2


@njit(cache=True)
def triangles(hubs, ends, normal, areas):
    """Areas (n,) of the triangles of hubs (n, 4) and edges (n, 2, 4), in the plane of a unit
    normal."""
    corners = np.empty((3, 4))
    for e in range(len(areas)):
        for axis in range(4):
            corners[0, axis] = hubs[e, axis]
            corners[1, axis], corners[2, axis] = ends[e, 0, axis], ends[e, 1, axis]
        areas[e] = polygon_area(normal, corners, 3)


def sections(cells: Integers, ends: Floats, normal: Floats) -> tuple[Integers, Floats, Floats]:
    """The polygons in which the great sphere normal·θ = 0 cuts cells.

    cells (n,), ends (n, 2, 4) : an edge of the polygon of a cell, up to its length
    Returns the cells, each once, the areas of their polygons, and middles (n_cells, 4).
    """
    ends = normalize(ends)
    found, place = np.unique(cells, return_inverse=True)
    hubs = np.zeros((len(found), 4))
    np.add.at(hubs, place, ends.sum(axis=1))
    hubs = normalize(hubs)
    areas, parts = np.zeros(len(found)), np.zeros(len(cells))
    triangles(hubs[place], ends, normal, parts)
    np.add.at(areas, place, parts)
    middles = np.zeros_like(hubs)
    parts = (parts + NOTHING)[:, None] * normalize(hubs[place] + ends.sum(axis=1))
    np.add.at(middles, place, parts)
    return found, areas, normalize(middles)
