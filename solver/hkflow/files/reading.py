"""HDF5 files of unknown origin: what is read lies in the file itself, is no larger than it can
hold, and has the wanted shape.

HDF5 itself follows links into other files, takes arrays out of any file that a header names, and
makes room for whatever size a header claims. All readers of the project go through here; what is
wrong is an OSError or a ValueError.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

import h5py
import numpy as np
from h5py import h5d, h5i, h5l, h5o, h5s
from numpy.typing import NDArray

from ..arguments import check_shape
from ..geometry.domain import Domain, domain_of_mesh
from ..geometry.mesh import INDICES, Mesh
from .userfiles import size_of

# that hkflow writes
FILTERS = (h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32)
DENSEST = 1100  # bytes that deflate can make of one: 1032, and what surrounds them
WHOLE = (*INDICES, "sign", "count")  # arrays of whole numbers
DAMAGE = (
    OSError,
    KeyError,
    ValueError,
    TypeError,
    AttributeError,
    IndexError,
    RuntimeError,
    EOFError,
    ArithmeticError,
    MemoryError,
)

TEST = {
    "test_inputs": ("test_datum", "input"),
    "test_targets": ("test_datum",),
    "test_weights": ("test_datum",),  # there unless 1/n each
}
DATA = {"inputs": ("datum", "input"), "targets": ("datum",), "weights": ("datum",)}
# with one axis more, "class", where there is an output for each class
BY_CLASS = ("predictions", "residuals", "predictions_each", "gamma_dual")


@contextmanager
def open_hdf5(path: str | os.PathLike[str]) -> Iterator[h5py.File]:
    """A regular HDF5 file, opened for reading, without the lock of HDF5: a file that is there is
    whole, and some disks have no locks."""
    size_of(path, largest=np.inf)
    with open(path, "rb") as stream, h5py.File(stream, "r") as file:
        yield file


def read_arrays(
    group: h5py.Group,
    dimensions: dict[str, tuple] | None = None,
    sizes: dict[str, int] | None = None,
) -> dict[str, NDArray]:
    """Arrays of numbers of an HDF5 group by name: all of them, or those that `dimensions` names,
    with the shapes that it says.

    sizes : {dimension: extent} that are known; those of others are added. Checked before anything
        is read
    """
    if dimensions is None:
        items = {name: find(group, name) for name in group}
        return {name: read(item) for name, item in items.items() if isinstance(item, h5py.Dataset)}
    found = {name: find(group, name, h5py.Dataset) for name in dimensions}
    sizes = {} if sizes is None else sizes
    for name, item in found.items():
        check_array(item, name, dimensions[name], sizes)
    return {name: _numbers(item) for name, item in found.items()}


def find(group: h5py.Group, name: str, kind: Any = None) -> Any:
    """An item that lies in a group of its own file; kind : h5py.Dataset or h5py.Group, or None for
    either."""
    place = name.encode()
    if not group.id.links.exists(place):
        raise ValueError(f"'{name}' is missing")
    if group.id.links.get_info(place).type != h5l.TYPE_HARD:
        raise ValueError(f"'{name}' is a link, maybe to another file, and links are not followed")
    opened = h5o.open(group.id, place)
    item = h5py.Dataset(opened) if isinstance(opened, h5d.DatasetID) else group[name]
    if kind and not isinstance(item, kind):
        raise ValueError(f"'{name}' is no {kind.__name__.lower()}")
    return item


def read(dataset: h5py.Dataset, at: Any = (), text: bool = False) -> Any:
    """The numbers of a dataset, or a part of them; text : whether it may hold texts instead."""
    check_storage(dataset, text)
    if text and h5py.check_string_dtype(dataset.dtype):
        return dataset.asstr()[at]
    return _numbers(dataset) if at == () else dataset[at]


def _numbers(dataset):
    """All numbers of a dataset: h5py's dataset[()], in two thirds of the time."""
    found = np.empty(dataset.id.shape, dataset.id.dtype)
    if found.size:
        dataset.id.read(h5s.ALL, h5s.ALL, found)
    return found[()]


def check_storage(dataset: h5py.Dataset, text: bool = False) -> None:
    """Raise ValueError unless a dataset is one of numbers, or texts, is kept in its file and can be
    as large as it says."""
    where, dtype, shape = dataset.id, dataset.id.dtype, dataset.shape
    plist = where.get_create_plist()

    def refuse(why):
        raise ValueError(f"'{dataset.name.rpartition('/')[2]}' {why}")

    layout = plist.get_layout()
    if layout == h5d.VIRTUAL or plist.get_external_count():
        refuse("is kept in another file, and other files are not read")
    numbers = dtype.kind in "biuf" and dtype.itemsize <= 8 and dtype.isnative
    if shape is None or not (numbers or text and h5py.check_string_dtype(dtype)):
        refuse(f"holds no numbers as they are written here, but {dtype}")
    filters = [plist.get_filter(k)[0] for k in range(plist.get_nfilters())]
    if not set(filters) <= set(FILTERS) or len(set(filters)) < len(filters):
        refuse("is compressed in a way that is not used here")
    kept = min(where.get_storage_size(), h5i.get_file_id(where).get_filesize())
    room = kept * (DENSEST if h5py.h5z.FILTER_DEFLATE in filters else 1)
    size, chunks = prod(shape), plist.get_chunk() if layout == h5d.CHUNKED else ()
    claimed = dtype.itemsize * max(size, size and prod(chunks))
    if claimed > room:
        refuse(f"claims {claimed:,} bytes, and the file holds {kept:,} of it")


def check_array(array: Any, name: str, dimensions: tuple, sizes: dict[str, int]) -> None:
    """Raise ValueError unless an array or a dataset is one of numbers with these dimensions.

    sizes : {dimension: extent}; a dimension that is not in it has the extent of the first array
        that has it. Where it has "class", arrays BY_CLASS have this axis besides
    """
    if name in BY_CLASS and "class" in sizes:
        dimensions = (*dimensions, "class")
    kind = "i" if name in WHOLE else "f"
    check_shape(name, array.shape, dimensions, sizes)
    if array.dtype.kind != kind or kind == "f" and array.dtype.itemsize != 8:
        raise ValueError(
            f"'{name}' holds {array.dtype}, wanted {'whole numbers' if kind == 'i' else 'float64'}"
        )
    if isinstance(array, h5py.Dataset):
        check_storage(array)


def check_mesh(name: str, arrays: dict[str, NDArray]) -> None:
    """Raise ValueError unless arrays with the shapes of MESH can be a mesh of this name: cells that
    cover the sphere, faces."""
    p = arrays["centers"].shape[1]
    domain = domain_of_mesh(name, p - 1)
    if domain is None:
        both = Domain(p - 1), Domain(p - 1, fixed=True)
        known = " or ".join(repr(one.meshes.name) for one in both if one.has_meshes)
        raise ValueError(f"no mesh is called {name!r} in R^{p}, where the name is {known}")
    if domain.fixed != (len(arrays["faces"]) == 0):
        raise ValueError("'faces' do not lie between a cell and a later one")
    mesh = Mesh(name, **arrays)
    mesh.check()
    if domain.fixed:  # each volume is one
        mesh.check_area(mesh.n_cells)
