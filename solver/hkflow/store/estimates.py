"""What is estimated of a run that has ended, in files: error bars and repeats, as errors.h5 and
repeats.h5 of its folder, and as groups of these names in results.h5."""

from pathlib import Path
from typing import Any

import numpy as np

from ..accuracy import error_bars, repeats
from ..accuracy.error_bars import LABELS, NEARBY, ErrorBars
from ..accuracy.repeats import OF_INFINITE, QUANTITIES, Repeats
from ..arguments import Floats
from ..files.reading import find, open_hdf5, read_arrays
from ..files.userfiles import parse_json
from ..files.writing import checksum, write_arrays, write_hdf5

# what may be there, with its dimensions
BARS: dict[str, tuple[str, ...]] = {
    f"{name}_{part}": ("time",) for name in LABELS for part in ("space", "time")
} | {"predictions_each": ("time", "datum")}
BARS |= dict(zip(NEARBY, (("nearby_atom", "axis"), *2 * [("nearby_atom",)]), strict=True))
REPEATS: dict[str, tuple[str, ...]] = dict.fromkeys(QUANTITIES, ("repeat", "time")) | {
    f"infinite_{name}": ("time",) for name in OF_INFINITE
}


def write_errors(folder: Path, errors: ErrorBars) -> None:
    """Write errors.h5 of a run folder, whole."""
    _write(folder, "errors", errors)


def write_repeats(folder: Path, found: Repeats) -> None:
    """Write repeats.h5 of a run folder, whole."""
    _write(folder, "repeats", found)


def _write(folder, name, found):
    arrays, words = found.arrays(), found.words()

    def fill(file):
        write_arrays(file, arrays)
        file.attrs[name], file.attrs["sha256"] = words, checksum(arrays, words)

    write_hdf5(folder / f"{name}.h5", fill)


def read_errors(path: Path, time: Floats, shape: tuple[int, ...]) -> ErrorBars | None:
    """The ErrorBars of a run folder or a results.h5, None without any;  shape : of its predictions
    at a save. Raises one of DAMAGE if they are no such bars."""
    sizes = {"time": len(time)} | dict(zip(("datum", "class"), shape, strict=False))
    found = _read(path, "errors", BARS, sizes)
    if found is None:
        return None
    if not all((array >= 0.0).all() for name, array in found[0].items() if name not in NEARBY):
        raise ValueError("error bars are not positive")
    return error_bars.from_arrays(time, *found)


def read_repeats(path: Path, time: Floats) -> Repeats | None:
    """The Repeats of a run folder or a results.h5, None without any. Raises one of DAMAGE if they
    are no such numbers."""
    found = _read(path, "repeats", REPEATS, {"time": len(time)})
    if found is None:
        return None
    if not all(np.isfinite(array).all() for array in found[0].values()):
        raise ValueError("repeats hold numbers that are not finite")
    return repeats.from_arrays(time, *found)


def _read(path, name, dimensions, sizes) -> tuple[dict[str, Floats], Any] | None:
    """The arrays that are there and what is said of them; None if nothing is. Without any array
    there is no group in results.h5."""
    whole = not path.is_dir()
    file = path if whole else path / f"{name}.h5"
    if not file.exists():
        return None
    with open_hdf5(file) as opened:
        if name not in opened.attrs:
            return None
        group: Any = opened
        if whole:
            group = find(opened, name) if name in opened else {}
        there = {key: axes for key, axes in dimensions.items() if key in group}
        arrays, words = read_arrays(group, there, sizes) if there else {}, opened.attrs[name]
        # early versions did not write it; in a results.h5 it is that of other arrays
        wanted = None if whole else opened.attrs.get("sha256")
        if wanted is not None and checksum(arrays, words) != wanted:
            raise ValueError(f"{name} are not what was written")
        return arrays, parse_json(words)
