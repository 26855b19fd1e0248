"""Geodesic meshes kept between runs in the user's cache folder, which may be deleted at any time.

Two processes that miss the same mesh both build it and each renames its own file into place: the
last one wins, both are right.
"""

import os
import warnings
from pathlib import Path

from platformdirs import user_cache_path

from ..files.reading import DAMAGE, MESH, check_mesh, open_hdf5, read_arrays
from ..files.writing import checksum, write_arrays, write_hdf5
from ..geometry import geodesic_mesh
from ..geometry.geodesic import LLOYD_ITERATIONS, geodesic_cells
from ..geometry.mesh import Mesh

FORMAT = 2  # of the cached files; to be raised when the construction of the mesh changes


def cache_folder() -> Path:
    """The folder of cached meshes: HKFLOW_CACHE if set, else the user's cache folder."""
    return Path(os.environ.get("HKFLOW_CACHE") or user_cache_path("hkflow"))


def cached_geodesic_mesh(level: int) -> Mesh:
    """The geodesic mesh of a level, from the cache if it is there and right; built and stored
    otherwise.

    Warns of a file that is there and is not that mesh.
    """
    path = cache_folder() / f"geodesic-{level}-lloyd-{LLOYD_ITERATIONS}-v{FORMAT}.h5"
    try:
        return _read(path, level)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except DAMAGE as error:
        warnings.warn(
            f"{path}: not the mesh that belongs here ({error}); it is built again.", stacklevel=2
        )
    mesh = geodesic_mesh(level)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_hdf5(path, lambda file: _fill(file, mesh, level))
    except OSError:
        pass  # no room or no right to write: the cache only saves time
    return mesh


def _fill(file, mesh, level):
    write_arrays(file, mesh.arrays())
    file.attrs["format"], file.attrs["level"] = FORMAT, level
    file.attrs["sha256"] = checksum(mesh.arrays())


def _read(path, level):
    """The mesh in a file. Raises one of DAMAGE if it is not the one of this level."""
    with open_hdf5(path) as file:
        kept = file.attrs["format"], file.attrs["level"]
        if kept != (FORMAT, level):
            raise ValueError(
                f"format and level are {kept[0]} and {kept[1]}, wanted {FORMAT} and {level}"
            )
        arrays = read_arrays(
            file, MESH, {"cell": geodesic_cells(level), "axis": 3, "side": 2, "corner": 2}
        )
        if checksum(arrays) != file.attrs["sha256"]:
            raise ValueError("the checksum does not fit")
    check_mesh("geodesic", arrays)
    return Mesh("geodesic", **arrays)
