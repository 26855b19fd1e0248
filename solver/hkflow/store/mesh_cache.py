"""Geodesic meshes kept between runs in the user's cache folder, which may be deleted at any time.

Two processes that miss the same mesh both build it and each renames its own file into place: the last one wins, both are right.
"""

import os
from pathlib import Path

import h5py
from platformdirs import user_cache_path

from ..meshes import geodesic_mesh
from ..meshes.geodesic import LLOYD_ITERATIONS
from ..meshes.mesh import Mesh
from .files import checksum, read_arrays, write_arrays, write_hdf5

FORMAT = 1  # of the cached files; to be raised when the construction of the mesh changes


def cache_folder():
    """The folder of cached meshes: HKFLOW_CACHE if set, else the user's cache folder."""
    return Path(os.environ.get("HKFLOW_CACHE") or user_cache_path("hkflow"))


def cached_geodesic_mesh(level):
    """The geodesic mesh of a level, from the cache if it is there and intact; built and stored otherwise."""
    path = cache_folder() / f"geodesic-{level}-lloyd-{LLOYD_ITERATIONS}-v{FORMAT}.h5"
    mesh = _read(path)
    if mesh is None:
        mesh = geodesic_mesh(level)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_hdf5(path, lambda file: _fill(file, mesh))
        except OSError:
            pass  # no room or no right to write: the cache only saves time
    return mesh


def _fill(file, mesh):
    write_arrays(file, mesh.arrays())
    file.attrs["sha256"] = checksum(mesh.arrays())


def _read(path):
    try:
        with h5py.File(path, "r") as file:
            arrays, wanted = read_arrays(file), file.attrs["sha256"]
    except (OSError, KeyError, ValueError, TypeError, RuntimeError, AttributeError):  # damaged
        return None
    return Mesh("geodesic", **arrays) if checksum(arrays) == wanted else None
