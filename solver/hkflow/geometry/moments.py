"""Means of x and x xᵀ over the cells of a mesh, by quadrature over the simplices between the centre
of a cell and its faces."""

import numpy as np

from ..arguments import Floats
from .mesh import Mesh, half_faces, simplices

# points (n, d+1) in a simplex of d dimensions, of equal weights, that integrate quadratics exactly
RULES = {
    1: 0.5 + np.array([[1.0, -1.0], [-1.0, 1.0]]) / np.sqrt(12.0),
    2: np.full((3, 3), 1 / 6) + 0.5 * np.eye(3),
}


def moments(mesh: Mesh) -> tuple[Floats, Floats]:
    """The means of x (n_cells, d+1) and of x xᵀ (n_cells, d+1, d+1) over the cells."""
    cell, _, face, _ = half_faces(mesh)
    cell, corner, _, size = simplices(mesh, cell, face)
    corners = np.concatenate([mesh.centers[cell][:, None], mesh.vertices[corner]], axis=1)
    flat = np.einsum("qi,fia->fqa", RULES[mesh.dim], corners)
    length = np.linalg.norm(flat, axis=2)
    # seen from the centre of the sphere: distance of the simplex's plane / |x|^(d+1)
    share = size[:, None] * length ** -(mesh.dim + 1.0)
    share *= _distance(corners)[:, None]
    x = flat / length[..., None]
    total = np.bincount(cell, share.sum(axis=1), mesh.n_cells)
    share /= total[cell, None]
    first, second = np.zeros_like(mesh.centers), np.zeros((*mesh.centers.shape, mesh.dim + 1))
    np.add.at(first, cell, np.einsum("fq,fqa->fa", share, x))
    np.add.at(second, cell, np.einsum("fq,fqa,fqb->fab", share, x, x))
    return first, second


def _distance(corners):
    """Of the planes through simplices (n, d+1, d+1) from the origin."""
    normal = np.linalg.solve(corners, np.ones((*corners.shape[:2], 1)))[..., 0]
    return 1.0 / np.linalg.norm(normal, axis=1)
