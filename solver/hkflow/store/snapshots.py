"""Files of snapshots in a run folder: states at several saves, each with its clock, under one
checksum."""

import re
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import h5py
import numpy as np

from ..errors import RunFolderError
from ..files.reading import DAMAGE, read_arrays
from ..files.userfiles import parse_json, size_of
from ..files.writing import checksum
from ..shown import as_typed
from ..solving.state import LoopState

# in the place of a save's index: what only a resumed run reads; where a run ended before its time
CHECKPOINT, END = -1, -2
CLOCK = vars(LoopState(0.0, 0.0, [0.0, 0.0]))  # the types of its entries
SNAPSHOT = re.compile(r"[0-9]{8,}\.h5")


def snapshot_path(folder: str | Path, step: int) -> Path:
    """Where snapshots are kept of which the last is the state after a step."""
    return Path(folder) / "snap" / f"{step:08d}.h5"


def snapshot_paths(folder: str | Path) -> list[Path]:
    """The files of snapshots by their steps; what has another name is not hkflow's."""
    found = (path for path in (Path(folder) / "snap").glob("*.h5") if SNAPSHOT.fullmatch(path.name))
    return sorted(found, key=lambda path: int(path.stem))


def read_snapshots(path: Path) -> list[tuple] | None:
    """What a file of snapshots holds, [(state, predictions, meta), …]; None if it is damaged or not
    there.

    meta : clock, save, records_length, seconds
    Raises RunFolderError if the file cannot be read, so that nobody knows what is in it.
    """
    try:
        size_of(path, largest=np.inf)
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except (OSError, MemoryError) as error:
        why = (
            f"{path}: cannot be read ({getattr(error, 'strerror', 'larger than the memory')}); make"
            " it readable and try again."
        )
        raise RunFolderError(why) from error
    try:
        with h5py.File(BytesIO(content), "r") as file:
            arrays, text, wanted = read_arrays(file), file.attrs.get("meta"), file.attrs["sha256"]
        if checksum(arrays, text or "") != wanted:
            return None
        if text is not None:  # of format 4, a single one
            return [_snapshot(arrays, parse_json(text))]
        metas = parse_json(arrays.pop("meta").tobytes())
        if not metas:
            return None
        rows = ({name: array[k] for name, array in arrays.items()} for k in range(len(metas)))
        return [_snapshot(row, meta) for row, meta in zip(rows, metas, strict=True)]
    except DAMAGE:
        return None


def _snapshot(arrays, meta):
    """(state, predictions, meta) of one snapshot from what is stored of it."""
    meta, predictions = _checked_meta(meta), arrays.pop("predictions")
    return arrays | meta.pop("state"), predictions, meta


def _checked_meta(meta):
    """What a snapshot knows besides its arrays. Raises one of DAMAGE if something is missing or of
    another type."""
    clock = LoopState.from_dict(meta["clock"])
    for name, value in CLOCK.items():
        found, numbers = getattr(clock, name), value if isinstance(value, list) else []
        fits = isinstance(found, int | float if isinstance(value, float) else type(value))
        if (
            not fits
            or numbers
            and not (len(found) == len(value) and all(isinstance(n, int | float) for n in found))
        ):
            raise ValueError(f"the clock's '{name}' is {found!r}")
    for name, kind in (("save", int), ("records_length", int), ("state", dict)):
        if not isinstance(meta[name], kind):
            raise ValueError(f"'{name}' is {meta[name]!r}")
    if not isinstance(meta.get("history_length", 0), int) or meta.get("history_length", 0) < 0:
        raise ValueError(f"'history_length' is {meta['history_length']!r}")
    if not isinstance(meta.get("seconds", 0.0), int | float):
        raise ValueError(f"'seconds' is {meta['seconds']!r}")
    if (
        min(clock.step, clock.next_save, clock.next_certificate, meta["records_length"]) < 0
        or not 0.0 <= clock.time < np.inf
    ):
        raise ValueError("a time or a count is negative or not finite")
    return meta | {"clock": clock.as_dict()}


def missing_saves(folder: Path, metas: Sequence[dict], damaged: Sequence[Path]) -> str | None:
    """A sentence on the first save that is not there though a later one is, and how to get it back,
    or None.

    metas : of all intact snapshots in their order;  damaged : files that may have held it
    """
    saves = {meta["save"] for meta in metas}
    gap = (
        next((k for k in range(metas[-1]["clock"]["next_save"]) if k not in saves), None)
        if metas
        else None
    )
    if gap is None:
        return None
    why = f" ({', '.join(map(str, damaged))}: damaged)" if damaged else ""
    return (
        f"{folder}: save {gap} is missing{why}. To have it computed again, move the snapshots from"
        f" it on out of {folder / 'snap'}, then 'hkflow resume {as_typed(folder)}'."
    )
