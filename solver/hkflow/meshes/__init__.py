"""Meshes of the sphere."""

from .circle import circle_mesh
from .geodesic import geodesic_cells, geodesic_level, geodesic_mesh
from .mesh import Mesh

__all__ = ["Mesh", "circle_mesh", "geodesic_cells", "geodesic_level", "geodesic_mesh"]
