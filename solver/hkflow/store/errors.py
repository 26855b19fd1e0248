"""Error bars in files: errors.h5 of a run folder, and what results.h5 keeps of it."""

from pathlib import Path

from ..accuracy.error_bars import LABELS, ErrorBars, from_arrays
from ..arguments import Floats
from ..files.reading import find, open_hdf5, read_arrays
from ..files.userfiles import parse_json
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


def read_errors(path: Path, time: Floats, shape: tuple[int, ...]) -> ErrorBars | None:
    """The ErrorBars of a run folder or a results.h5, None without any;  shape : of its predictions
    at a save. Raises one of DAMAGE if they are no such bars."""
    file = path / "errors.h5" if path.is_dir() else path
    if not file.exists():
        return None
    with open_hdf5(file) as opened:
        if "errors" not in opened.attrs:
            return None
        group = opened
        if not path.is_dir():
            group = find(opened, "errors") if "errors" in opened else {}
        there = {name: dimensions for name, dimensions in BARS.items() if name in group}
        sizes = {"time": len(time)} | dict(zip(("datum", "class"), shape, strict=False))
        arrays = read_arrays(group, there, sizes) if there else {}
        if not all((array >= 0.0).all() for array in arrays.values()):
            raise ValueError("error bars are not positive")
        return from_arrays(time, arrays, parse_json(opened.attrs["errors"]))
