"""The few ways in which hkflow touches files: whole or not at all."""

import errno
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from glob import escape
from io import BytesIO
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from h5py import h5d, h5p, h5s, h5t

from ..errors import RunFolderError

# what Windows and some network drives say of a folder that is to be flushed
UNSYNCED = (errno.EACCES, errno.EBADF, errno.EINVAL, errno.ENOTSUP)
# bytes of an array that is kept in the header of its dataset; and that share a checksum, or one
# row: few, since whoever reads a row reads all of them, and less than HDF5 keeps at hand
SMALL, LARGEST_CHUNK = 2**11, 2**18
PAGE = "<!DOCTYPE html>"  # how pages begin
ABANDONED = 600.0  # seconds without a byte after which a file on its way has no writer any more


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Make a file that is either there in full or not there: write(temporary path), flush to disk,
    rename.

    A kill before the rename leaves a file `.name.NUMBER.tmp` that nobody reads; who replaces the
    file that is there later removes it. The number is random: threads have one PID, and so may
    processes of two machines. A device or a pipe, as /dev/stdout, is written into, and the file
    that a link points to is replaced, not the link.
    """
    if not path.name:  # as of the current folder
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not (path.is_file() or path.is_dir()):
        write(path)
        return
    path = Path(os.path.realpath(path)) if path.is_symlink() else path  # one in a circle as it is
    is_replaced = path.exists()
    # a name may have 255 bytes, and a letter up to 4
    temporary = path.with_name(f".{path.name[:50]}.{int.from_bytes(os.urandom(6))}.tmp")
    try:
        write(temporary)
        sync(temporary)
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename in (None, str(temporary)):
            error.filename = str(path)  # a full disk names none
        raise
    sync_names(path.parent)
    if is_replaced:  # not for each of many snapshots, whose folder takes long to look through
        remove_left(path, f".{path.name[:50]}.", ".tmp")


def remove_left(path: Path, before: str, after: str) -> None:
    """Remove what killed writers of a file have left beside it, under the names before + NUMBER +
    after.

    A file is left if nothing was written to it for a while before `path` was, by the clock of the
    disk alone.
    """
    with suppress(OSError):  # another writer may remove it, or have moved the folder
        written = path.stat().st_mtime
        for other in path.parent.glob(f"{escape(before)}[0-9]*{escape(after)}"):
            number = other.name.removeprefix(before).removesuffix(after)
            if number.isdecimal() and written - other.stat().st_mtime > ABANDONED:
                other.unlink()


def write_text(path: Path, text: str) -> None:
    """Write a text in UTF-8, whole; names of files in it show what is no UTF-8 as \\udcff."""
    content = text.encode("utf-8", "backslashreplace")
    write_whole(path, lambda temporary: temporary.write_bytes(content))


def write_page(path: Path, text: str, what: str) -> Path:
    """Write a page of HTML, whole, with the folders that lead to it; returns its path. Raises
    RunFolderError, which calls it `what`, if it cannot be written, or another file is there."""
    with for_user(path, what):
        check_replaced(path, (PAGE,), what)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    return path


def check_replaced(path: Path, openings: tuple[str, ...], what: str) -> None:
    """Raise RunFolderError where a file is there that hkflow did not make as one of its `what`s,
    which begin with one of `openings`: data, a case or a part of a run folder is never written
    over."""
    if not os.path.isfile(path):  # nor of a name that no file can have
        return
    wanted = tuple(opening.encode() for opening in openings)
    with path.open("rb") as file:
        found = file.read(max(map(len, wanted)))
    if found and not found.startswith(wanted):
        raise RunFolderError(
            f"{path}: is another file than a {what} of hkflow, and is not written over. Choose"
            " another place, or remove it."
        )


@contextmanager
def for_user(path: Path, what: str) -> Iterator[None]:
    """Around the writing of what a user asked for: what the system says becomes a RunFolderError,
    which calls it `what`."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error
        raise RunFolderError(
            f"{path}: the {what} cannot be written ({reason}). Choose another place for it;"
            " commands have --output."
        ) from error


def write_hdf5(
    path: Path, fill: Callable[[h5py.File], object], begun: Path | None = None, **options: Any
) -> None:
    """Make an HDF5 file, whole: fill(file) is done in memory, since HDF5 crashes at the end of a
    process whose disk was full.

    begun : the file that it begins with, if any;  options : of h5py.File;  memory : the size of the
        file
    """
    # bytes that nobody else holds are written to where they are, without a copy
    image = BytesIO(begun.read_bytes() if begun else b"")
    with h5py.File(image, "r+" if begun else "w", **options) as file:
        fill(file)
    # not a view: it may outlive the image where writing fails, at which Python 3.12 crashes
    content = image.getvalue()
    write_whole(path, lambda temporary: temporary.write_bytes(content))


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a dictionary as a JSON file, whole."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False))


def remove_temporaries(folder: Path, is_own: Callable[[str], bool]) -> None:
    """Remove what crashed writers left, where is_own(name) says that the file is ours."""
    for path in folder.glob(".*.tmp"):
        if is_own(path.name):
            path.unlink()


def write_arrays(group: h5py.Group, arrays: Mapping[str, Any], is_checked: bool = False) -> None:
    """Store arrays by name in an HDF5 group; is_checked : as of `write_array`."""
    for name, array in arrays.items():
        write_array(group, name, array, is_checked)


def write_array(
    group: h5py.Group, name: str, array: Any, is_checked: bool = False
) -> h5d.DatasetID:
    """Store an array of numbers in an HDF5 group.

    is_checked : whether with checksums, by which whoever reads it finds that bytes were changed; in
        a file of the versions from 1.8 on
    """
    array = np.asarray(array, order="C")
    packing = packed(_chunks(array) if is_checked and array.nbytes > SMALL else ())
    if is_checked and array.nbytes <= SMALL:
        packing.set_layout(h5d.COMPACT)  # in the header, which has a checksum of its own
    made = create(group, name, array.shape, array.dtype, packing)
    if array.size:
        made.write(h5s.ALL, h5s.ALL, array)
    return made


def _chunks(array):
    """The whole array, or as many rows as make LARGEST_CHUNK."""
    rows = LARGEST_CHUNK * len(array) // array.nbytes
    return (min(max(rows, 1), len(array)), *array.shape[1:])


def create(
    group: h5py.Group, name: str, shape: tuple[int, ...], dtype: np.dtype, packing: h5p.PropDCID
) -> h5d.DatasetID:
    """A new dataset of numbers in an HDF5 group, and the groups that its name wants: as h5py's
    create_dataset makes it, in a third of the time."""
    link = h5p.create(h5p.LINK_CREATE)
    link.set_create_intermediate_group(True)
    if not name.isascii():
        link.set_char_encoding(h5t.CSET_UTF8)
    kind = h5t.py_create(dtype, logical=True)
    return h5d.create(group.id, name.encode(), kind, h5s.create_simple(shape), packing, link)


def packed(chunks: tuple[int, ...] = (), is_compressed: bool = False) -> h5p.PropDCID:
    """How an array is stored: as it is, or in chunks with checksums, which may be compressed."""
    made = h5p.create(h5p.DATASET_CREATE)
    made.set_obj_track_times(False)  # the same numbers make the same file
    if chunks:
        made.set_chunk(chunks)
        if is_compressed:
            made.set_shuffle()
            made.set_deflate(1)
        made.set_fletcher32()
    return made


def checksum(arrays: Mapping[str, Any], text: str = "") -> str:
    """SHA-256 over names, types, shapes and bytes of arrays, and a text."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name}:{array.dtype.str}:{array.shape}".encode())
        digest.update(array.data)
    return digest.hexdigest()


def sync(path: Path) -> None:
    """Flush a file to the disk."""
    with open(path, "r+b", buffering=0) as file:  # Windows flushes what may be written alone
        os.fsync(file.fileno())


def sync_names(folder: Path) -> None:
    """Flush the names in a folder to the disk, where the system can."""
    try:
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        if error.errno not in UNSYNCED:
            raise
