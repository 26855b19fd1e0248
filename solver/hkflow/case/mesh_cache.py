"""Meshes kept between runs in the user's cache folder, which may be deleted at any time.

Two processes that miss the same mesh both build it and each renames its own file into place: the
last one wins, both are right.
"""

import os
import warnings
from pathlib import Path
from weakref import WeakValueDictionary

from ..compiled import user_folder
from ..files.reading import DAMAGE, check_mesh, open_hdf5, read_arrays
from ..files.writing import checksum, write_arrays, write_hdf5
from ..geometry.domain import Meshes
from ..geometry.mesh import MESH, Mesh

FORMAT = 5  # of the cached files; to be raised when the construction of the mesh changes
IN_USE: WeakValueDictionary[Path, Mesh] = WeakValueDictionary()  # by their files


def cache_folder() -> Path:
    """The folder of cached meshes: HKFLOW_CACHE if set, else the user's cache folder."""
    return Path(os.environ.get("HKFLOW_CACHE") or user_folder())


def cached_mesh(meshes: Meshes, cells: int) -> Mesh:
    """The mesh of a number of cells, one of the Meshes of a domain: the one in use if there is one,
    from the cache if it is there and right, or built and stored.

    Warns of a file that is there and is not that mesh.
    """
    if not meshes.kept:
        return meshes.of_size(cells)
    path = cache_folder() / f"{meshes.name}-{cells}-v{FORMAT}.h5"
    mesh = IN_USE.get(path)
    if mesh is None:
        mesh = IN_USE[path] = _kept(path, meshes, cells)
    return mesh


def _kept(path, meshes, cells):
    """The mesh from its file in the cache, which is written if it is not there or not right."""
    try:
        return _read(path, meshes.name, cells)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except DAMAGE as error:
        warnings.warn(
            f"{path}: not the mesh that belongs here ({error}); it is built again.", stacklevel=3
        )
    mesh = meshes.of_size(cells)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_hdf5(path, lambda file: _fill(file, mesh))
    except OSError:
        pass  # no room or no right to write: the cache only saves time
    return mesh


def _fill(file, mesh):
    write_arrays(file, mesh.arrays())
    file.attrs["format"], file.attrs["mesh"] = FORMAT, mesh.name
    file.attrs["sha256"] = checksum(mesh.arrays())


def _read(path, name, cells):
    """The mesh in a file. Raises one of DAMAGE if it is not one of this name and size."""
    with open_hdf5(path) as file:
        kept = file.attrs["format"], file.attrs["mesh"]
        if kept != (FORMAT, name):
            raise ValueError(
                f"format and mesh are {kept[0]} and {kept[1]}, wanted {FORMAT} and {name}"
            )
        arrays = read_arrays(file, MESH, {"cell": cells, "side": 2})
        if checksum(arrays) != file.attrs["sha256"]:
            raise ValueError("the checksum does not fit")
    check_mesh(name, arrays)
    return Mesh(name, **arrays)
