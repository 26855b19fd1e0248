"""HDF5 files are those that h5py makes by itself, and the same numbers make the same file."""

import errno
import fcntl
import os
import stat
import tracemalloc
from pathlib import Path

import h5py
import numpy as np
import pytest

import hkflow
from hkflow.files import writing
from hkflow.files.reading import read_arrays
from hkflow.files.writing import PAGE, write_array, write_arrays, write_hdf5, write_page

NEW = ("v108", "v110")  # of results.h5: in these versions a file may say when it was written
ARRAYS = {
    "positions": np.arange(12.0).reshape(4, 3)[:, ::2],
    "steps": np.arange(5),
    "held": np.array([True, False]),
    "scale": np.float64(2.5),
    "none": np.zeros((0, 3)),
    "text": np.frombuffer(b"text", np.uint8),
    "größe": np.ones(2),
    "data/inputs": np.ones((2, 2)),
}


def described(file):
    """All that a file says of its datasets."""
    found = {}

    def add(name, item):
        if isinstance(item, h5py.Dataset):
            plist = item.id.get_create_plist()
            how = item.dtype, item.shape, item.chunks, item.fillvalue, plist.get_nfilters()
            found[name] = (*how, plist.get_obj_track_times(), item[()].tobytes())

    file.visititems(add)
    return found


@pytest.mark.parametrize("name", ["", "."])
def test_the_current_folder_is_no_page(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(hkflow.RunFolderError, match="the page cannot be written"):
        write_page(Path(name), "text", "page")
    assert list(tmp_path.iterdir()) == []


def test_devices_and_links_are_written_through_not_replaced(tmp_path):
    """Root's --output /dev/null made a file of the device, for all programs of the machine."""
    pipe, link, target = (tmp_path / name for name in ("pipe", "link", "target"))
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_page(pipe, "text", "page")
    assert pipe.is_fifo() and os.read(reader, 99) == b"text"
    os.close(reader)
    link.symlink_to(target)
    for text in (f"{PAGE}first", f"{PAGE}second"):
        write_page(link, text, "page")
        assert link.is_symlink() and target.read_text() == text
    assert len(list(tmp_path.iterdir())) == 3


def test_a_link_to_itself_is_replaced(tmp_path):
    """It ended in a traceback: no file is there that the link could keep."""
    (tmp_path / "loop.html").symlink_to("loop.html")
    write_page(tmp_path / "loop.html", PAGE, "page")
    assert (tmp_path / "loop.html").read_text() == PAGE


def test_arrays_are_stored_as_h5py_stores_them(tmp_path):
    write_hdf5(tmp_path / "own.h5", lambda file: write_arrays(file, ARRAYS), libver=NEW)
    with h5py.File(tmp_path / "theirs.h5", "w", libver=NEW) as file:
        for name, array in ARRAYS.items():
            file.create_dataset(name, data=array)
    with h5py.File(tmp_path / "own.h5") as own, h5py.File(tmp_path / "theirs.h5") as theirs:
        assert described(own) == described(theirs)
        assert len(described(own)) == len(ARRAYS)
        plain = {name: array for name, array in ARRAYS.items() if "/" not in name}
        found = read_arrays(own)
        assert found.keys() == plain.keys()
        for name, array in plain.items():
            assert np.array_equal(found[name], array) and type(found[name]) is type(array)


def test_sibling_datasets_with_the_time_of_writing_are_told_from_those_without(
    tmp_path, monkeypatch
):
    plain = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    monkeypatch.setattr(writing, "packed", lambda chunks: plain)
    with pytest.raises(AssertionError):
        test_arrays_are_stored_as_h5py_stores_them(tmp_path)


def test_a_file_may_begin_with_another(tmp_path):
    write_hdf5(tmp_path / "a.h5", lambda file: write_arrays(file, {"a": np.arange(3.0)}))
    begun = (tmp_path / "a.h5").read_bytes()
    begin = tmp_path / "a.h5"
    write_hdf5(tmp_path / "b.h5", lambda file: write_arrays(file, {"b": np.ones(2)}), begin)
    with h5py.File(tmp_path / "b.h5") as file:
        assert file["a"][()].tolist() == [0.0, 1.0, 2.0] and file["b"][()].tolist() == [1.0, 1.0]
    assert (tmp_path / "a.h5").read_bytes() == begun
    assert {path.name for path in tmp_path.iterdir()} == {"a.h5", "b.h5"}


def test_a_large_file_is_held_once_in_memory(tmp_path):
    """Made, and added to: results of 20,000 inputs are some gigabytes."""
    path, large = tmp_path / "a.h5", np.random.default_rng(0).normal(size=4_000_000)
    for name, array, begun in (("large", large, None), ("more", np.ones(2), path)):
        tracemalloc.start()
        write_hdf5(path, lambda file: write_array(file, name, array), begun)  # noqa: B023
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1.3 * path.stat().st_size


def test_a_folder_whose_names_cannot_be_flushed_does_no_harm(tmp_path, monkeypatch):
    """As on Windows, which flushes only files that may be written, and on some network drives. A
    broken disk is told."""
    flush, why = os.fsync, errno.EINVAL

    def fsync(handle):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(why, os.strerror(why))
        assert fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
        flush(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    write_page(tmp_path / "page.html", PAGE, "page")
    why = errno.EIO
    with pytest.raises(hkflow.RunFolderError, match=os.strerror(why)):
        write_page(tmp_path / "page.html", PAGE, "page")


def test_two_writers_with_one_pid_do_no_harm(tmp_path):
    """Threads, or containers that fill one cache: one took the other's temporary file."""
    file = tmp_path / "mesh"

    def write(temporary):
        temporary.write_text("ours")
        writing.write_text(file, "theirs")

    writing.write_whole(file, write)
    assert file.read_text() == "ours" and list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("name", ["a" * 255, "ä" * 127, "𝕒" * 63])
def test_names_may_be_as_long_as_the_disk_allows(tmp_path, name):
    """The name of the temporary file was longer."""
    write_page(tmp_path / name, "text", "page")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_what_a_killed_writer_left_is_removed_by_who_replaces_the_file(tmp_path):
    """Hidden files of killed commands stayed for ever, such as `.overview.png.7.tmp`."""
    page = tmp_path / "a[1].html"
    names = {
        ".a[1].html.7.tmp": True,
        ".a[1].html.8.tmp": False,
        ".a1.html.7.tmp": True,
        ".a[1].html.mine.tmp": True,
        ".a[1].html.2.h5.7.tmp": True,
    }
    for name, old in names.items():
        (tmp_path / name).write_text("half")
        if old:
            before = (tmp_path / name).stat().st_mtime - 2.0 * writing.ABANDONED
            os.utime(tmp_path / name, (before, before))
    write_page(page, PAGE, "page")
    assert {path.name for path in tmp_path.iterdir()} == {page.name, *names}
    write_page(page, PAGE, "page")
    assert {path.name for path in tmp_path.iterdir()} == {page.name, *list(names)[1:]}


def test_rows_of_a_checked_array_are_read_one_by_one(tmp_path):
    """A chunk beyond what HDF5 keeps at hand, 1 MiB, was read and checked anew for each row: 2000
    rows of 80 MB took 49 s instead of 1 s."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        write_array(file, "rows", np.zeros((700, 1000)), is_checked=True)
        chunks = file["rows"].chunks
        assert 2**17 < 8 * np.prod(chunks) < 2**20 and chunks[1] == 1000
