"""The discrete domain: finitely many directions without neighbours, so that nothing is
transported."""

import numpy as np
from numpy.typing import ArrayLike

from ..arguments import real_array
from .mesh import Mesh


def atoms_mesh(positions: ArrayLike) -> Mesh:
    """A cell of volume one at each of the positions (n, p); weights are densities. The basis
    vectors make a diagonal network."""
    positions = np.atleast_2d(real_array(positions, "Positions"))
    n, p = positions.shape
    none = np.zeros(0)
    return Mesh(
        name="atoms",
        centers=positions,
        volumes=np.ones(n),
        faces=np.zeros((0, 2), dtype=np.int32),
        face_areas=none,
        face_distances=none,
        face_midpoints=np.zeros((0, p)),
        vertices=np.zeros((0, p)),
        face_vertices=np.zeros((0, p - 1), dtype=np.int32),
    )
