"""Error bars in files: errors.h5 of a run folder, and what results.h5 keeps of it."""

from pathlib import Path

import h5py

from ..accuracy.error_bars import LABELS, ErrorBars, from_arrays
from ..arguments import Floats
from ..files.reading import find, open_hdf5, read_arrays
from ..files.writing import write_arrays, write_hdf5

# what may be there, with its dimensions
BARS: dict[str, tuple[str, ...]] = {
    f"{name}_{part}": ("time",) for name in LABELS for part in ("space", "time")
} | {"predictions_each": ("time", "datum")}


def write_errors(folder: Path, errors: ErrorBars) -> None:
    """Write errors.h5 of a run folder, whole."""

    def fill(file):
        write_arrays(file, errors.arrays())
        file.attrs["errors"] = errors.words()

    write_hdf5(folder / "errors.h5", fill)


def read_errors(path: Path, time: Floats, data: int) -> ErrorBars | None:
    """The ErrorBars of a run folder or a results.h5, None without any. Raises one of DAMAGE if
    they are no such bars."""
    file = path / "errors.h5" if path.is_dir() else path
    if not file.exists():
        return None
    with open_hdf5(file) as opened:
        if "errors" not in opened.attrs:
            return None
        group = opened if path.is_dir() else opened.get("errors", {})
        there = {name: dimensions for name, dimensions in BARS.items() if name in group}
        sizes = {"time": len(time), "datum": data}
        arrays = _read(opened, path.is_dir(), there, sizes)
        return from_arrays(time, arrays, opened.attrs["errors"])


def _read(file: h5py.File, alone: bool, there: dict, sizes: dict) -> dict:
    if not there:
        return {}
    return read_arrays(file if alone else find(file, "errors"), there, sizes)
