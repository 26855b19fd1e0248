"""Uniform mesh of the circle S¹."""

import numpy as np

from ..arguments import whole_number
from .mesh import Mesh


def circle_mesh(cells: int) -> Mesh:
    """Uniform cells of width h = 2π / cells, centre j at angle (j + ½) h, face j between cells j
    and j+1.

    cells : int, at least 3
    """
    cells = whole_number(cells, "The number of cells", 3)
    h = 2.0 * np.pi / cells
    index = np.arange(cells)

    def point(angle):
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)

    faces = np.sort(np.stack([index, (index + 1) % cells], axis=1), axis=1)
    corners = point((index + 1) * h)
    return Mesh(
        name="circle",
        centers=point((index + 0.5) * h),
        volumes=np.full(cells, h),
        faces=faces.astype(np.int32),
        face_areas=np.ones(cells),
        face_distances=np.full(cells, h),
        face_midpoints=corners,
        vertices=corners,
        face_vertices=index[:, None].astype(np.int32),
    )
