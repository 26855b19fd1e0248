"""Repeats of a network in files: repeats.h5 of a run folder, and what results.h5 keeps of it."""

from pathlib import Path

import numpy as np

from ..accuracy.repeats import OF_INFINITE, QUANTITIES, Repeats, from_arrays
from ..arguments import Floats
from ..files.reading import find, open_hdf5, read_arrays
from ..files.userfiles import parse_json
from ..files.writing import write_arrays, write_hdf5

# what may be there, with its dimensions
REPEATS: dict[str, tuple[str, ...]] = dict.fromkeys(QUANTITIES, ("repeat", "time")) | {
    f"infinite_{name}": ("time",) for name in OF_INFINITE
}


def write_repeats(folder: Path, repeats: Repeats) -> None:
    """Write repeats.h5 of a run folder, whole."""

    def fill(file):
        write_arrays(file, repeats.arrays())
        file.attrs["repeats"] = repeats.words()

    write_hdf5(folder / "repeats.h5", fill)


def read_repeats(path: Path, time: Floats) -> Repeats | None:
    """The Repeats of a run folder or a results.h5, None without any. Raises one of DAMAGE if they
    are no such numbers."""
    file = path / "repeats.h5" if path.is_dir() else path
    if not file.exists():
        return None
    with open_hdf5(file) as opened:
        if "repeats" not in opened.attrs:
            return None
        group = opened if path.is_dir() else find(opened, "repeats")
        there = {name: dimensions for name, dimensions in REPEATS.items() if name in group}
        arrays = read_arrays(group, there, {"time": len(time)})
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise ValueError("repeats hold numbers that are not finite")
        return from_arrays(time, arrays, parse_json(opened.attrs["repeats"]))
