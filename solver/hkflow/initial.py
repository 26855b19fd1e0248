"""Initial densities on a mesh: nonnegative, (n_signs, n_cells), with exactly the mass asked for."""

import numpy as np
from scipy.spatial import cKDTree

from .sphere import distance, normalize


def uniform(mesh, signs):
    """The same density everywhere."""
    return np.ones((len(signs), mesh.n_cells))


def von_mises_fisher(mesh, signs, centers, concentration):
    """Sum of e^{κ c·θ} over the centres c (n, d+1), with κ ≥ 0."""
    overlap = mesh.centers @ normalize(np.asarray(centers, dtype=float)).T
    return np.tile(np.exp(concentration * (overlap - overlap.max())).sum(axis=1), (len(signs), 1))


def caps(mesh, signs, centers, radius):
    """One in the cells whose centre lies within `radius` (radians) of one of the centres (n, d+1).

    Raises ValueError if a cap holds no cell centre.
    """
    distances = distance(mesh.centers[:, None], normalize(np.asarray(centers, dtype=float))[None])
    empty = np.flatnonzero((distances > radius).all(axis=0))
    if len(empty):
        raise ValueError(f"Cap {empty[0]} of radius {radius:g} holds no cell centre; cells are {mesh.width:.2g} wide.")
    return np.tile((distances <= radius).any(axis=1).astype(float), (len(signs), 1))


def points(mesh, signs, positions, point_signs, weights):
    """Point masses (n_points, d+1) with signs and weights (n_points,), each given to the cell that holds it."""
    _, cell = cKDTree(mesh.centers).query(normalize(np.asarray(positions, dtype=float)))
    density = np.zeros((len(signs), mesh.n_cells))
    sheet = [tuple(signs).index(s) for s in point_signs]
    np.add.at(density, (sheet, cell), weights)
    return density / mesh.volumes


def with_mass(density, mesh, mass):
    """The density times the number that makes its mass on the mesh equal to `mass`."""
    return density * (mass / (density @ mesh.volumes).sum())
