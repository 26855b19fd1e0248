"""The few ways in which hkflow touches files: whole or not at all."""

import hashlib
import json
import os
from io import BytesIO

import h5py
import numpy as np


def write_whole(path, write):
    """Make a file that is either there in full or not there: write(temporary path), flush to disk,
    rename.

    A crash before the rename leaves a file `.name.tmp` that nobody reads and the next writer
    overwrites or removes.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        write(temporary)
        sync(temporary)
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync(path.parent)


def write_hdf5(path, fill, **options):
    """Make an HDF5 file, whole: fill(file) is done in memory, since HDF5 crashes at the end of a
    process whose disk was full.

    options : of h5py.File;  memory : twice the size of the file
    """
    image = BytesIO()
    with h5py.File(image, "w", **options) as file:
        fill(file)
    # not a view: it may outlive the image where writing fails, at which Python 3.12 crashes
    content = image.getvalue()
    write_whole(path, lambda temporary: temporary.write_bytes(content))


def write_json(path, content):
    """Write a dictionary as a JSON file, whole."""
    text = json.dumps(content, indent=2, ensure_ascii=False)
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def remove_temporaries(folder, is_own):
    """Remove what crashed writers left, where is_own(name) says that the file is ours."""
    for path in folder.glob(".*.tmp"):
        if is_own(path.name):
            path.unlink()


def write_arrays(group, arrays):
    """Store arrays by name in an HDF5 group."""
    for name, array in arrays.items():
        group.create_dataset(name, data=np.asarray(array), dtype=np.asarray(array).dtype)


def checksum(arrays, text=""):
    """SHA-256 over names, types, shapes and bytes of arrays, and a text."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name}:{array.dtype.str}:{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def sync(path):
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
