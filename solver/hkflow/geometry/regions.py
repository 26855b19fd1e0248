"""How much of each cell of a mesh lies in a region that is given by the sign of a function."""

from collections.abc import Callable

import numpy as np

from ..arguments import Floats
from .mesh import Mesh, half_faces, simplices

REACH = 1.5  # widths within which a cell has all its corners
TIE = 1e-7  # relative distance of values that are told apart


def negative_shares(mesh: Mesh, level: Callable[[Floats], Floats]) -> Floats:
    """The share of each cell in which a level is not positive, (n_cells,).

    level : function (points (n, d+1)) -> (n,), by size about the distance from where it is 0
    By simplices between the centre of a cell and its faces, in which the level is taken for linear:
    to second order in the width, but for corners of the region.
    """
    at_centers = level(mesh.centers)
    share = (at_centers <= 0.0).astype(float)
    cell, _, face, _ = half_faces(mesh)
    near = np.abs(at_centers[cell]) <= REACH * mesh.width
    if not near.any():
        return share
    cell, corners, _, sizes = simplices(mesh, cell[near], face[near])
    used, corner = np.unique(corners, return_inverse=True)
    at_corners = level(mesh.vertices[used])
    values = np.column_stack([at_centers[cell], at_corners[corner.reshape(corners.shape)]])
    total = np.bincount(cell, sizes, mesh.n_cells)
    negative = np.bincount(cell, sizes * _negative_share(values), mesh.n_cells)
    there = total > 0.0
    share[there] = negative[there] / total[there]
    return share


def _negative_share(values):
    """The share of a simplex where a linear function with values (n, d+1) at the corners is
    negative, Σ_j (−v_j)₊^d / Π_{k≠j} (v_k − v_j)."""
    d = values.shape[1] - 1
    size = np.abs(values).max(axis=1, keepdims=True)
    v = values + TIE * size * np.arange(d + 1.0)  # those that are equal would divide by 0
    order = np.sort(v, axis=1)
    gaps = np.maximum(np.diff(order, axis=1), 0.5 * TIE * size)
    v = order[:, :1] + np.concatenate([np.zeros((len(v), 1)), np.cumsum(gaps, axis=1)], axis=1)
    share = np.zeros(len(v))
    for j in range(d + 1):
        others = np.delete(v, j, axis=1) - v[:, j : j + 1]
        share += np.maximum(-v[:, j], 0.0) ** d / np.prod(others, axis=1)
    flat = np.where(values.max(axis=1) <= 0.0, 1.0, share)
    return np.clip(np.where(values.min(axis=1) > 0.0, 0.0, flat), 0.0, 1.0)
