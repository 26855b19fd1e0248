"""Meshes of the sphere."""

from .circle import circle_mesh
from .domain import atoms_mesh
from .geodesic import geodesic_cells, geodesic_level, geodesic_mesh
from .mesh import Mesh

__all__ = ["Mesh", "atoms_mesh", "circle_mesh", "geodesic_cells", "geodesic_level", "geodesic_mesh"]
