"""The run folder: closed, checksummed files of snapshots, so that a crash at any moment loses
nothing saved.

RUN/run.json            once: case as given and as resolved, versions, seed, threads, git commit
RUN/problem.h5          once: mesh, data, signs
RUN/snap/00000123.h5    states at save times up to step 123, those of half a second in one file;
                        where the run ended before its time; and the newest checkpoint
RUN/records.jsonl       one line per record, written within half a second and before each snapshot;
                        a resumed run cuts it back to the length that its snapshot knows
RUN/history.bin         of characteristics: the rows of a History, float64, two for each step;
                        written and cut back as the records are
RUN/status.json         at the end: how the run ended
RUN/errors.h5           then: its error bars
RUN/repeats.h5          of a network with `repeats`: numbers of the others, and of infinite width
RUN/max_margin.json     after the end of a margin run: what its data allow, with the proof
RUN/results.h5          at the end or by `hkflow pack`: everything in one tidy file
RUN/damaged/            snapshots that a resume found damaged

A file is there in full or not at all, and on the disk before the next one is begun. What a crash
takes is computed again, to the same bits. Only files of these names are ever changed, and none
through a symbolic link.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import BaseFileLock, FileLock, Timeout

from ..arguments import Floats
from ..errors import RunFolderError
from ..files.writing import (
    checksum,
    remove_temporaries,
    sync_names,
    write_arrays,
    write_hdf5,
    write_json,
)
from ..problem.problem import Problem
from ..shown import as_typed
from ..solving.state import LoopState
from .snapshots import SNAPSHOT, missing_saves, read_snapshots, snapshot_paths

FORMAT = 5
POINTS = "points"  # the start of cells that were given points
READABLE = (4, FORMAT)  # 4 : a file for each snapshot
OWN = (
    "run.json",
    "problem.h5",
    "snap",
    "records.jsonl",
    "history.bin",
    "status.json",
    "errors.h5",
    "repeats.h5",
    "max_margin.json",
    "results.h5",
    "damaged",
    ".lock",
)
# what a session says at its end, and a run that goes on outdates: status first, that no older
# results pass for those of a finished run
OF_THE_END = ("status.json", "results.h5", "errors.h5", "repeats.h5")
CLAIMED = {"snap", ".lock"}  # what is in a folder before a run begins there


def refuse_used(folder: str | Path, force: bool) -> None:
    """Raise RunFolderError if a folder is not empty, unless `force` will move it aside.

    It moves a run folder alone, and neither the current folder nor one that this lies in.
    """
    folder = Path(folder)
    if not folder.exists() or folder.is_dir() and not any(folder.iterdir()):
        return
    if not force:
        remedy = "Choose another output folder"
        if _is_run(folder):
            begun = (folder / "run.json").exists()
            remedy += (
                f", continue that run with 'hkflow resume {as_typed(folder)}'"
                if begun
                else " than that of a run that never began"
            )
            remedy += ", or give --force (in Python force=True), which moves it aside"
        raise RunFolderError(f"{folder} is not empty. {remedy}.")
    whole, here = folder.resolve(), Path.cwd().resolve()
    if whole in (here, *here.parents):
        raise RunFolderError(
            f"{folder}: neither the current folder is moved aside nor one that this lies in. Choose"
            " another output folder."
        )
    if not _is_run(whole):
        raise RunFolderError(
            f"{folder}: holds something else than a run, which is never moved aside. Choose another"
            " output folder."
        )


def _is_run(folder):
    """Whether a folder is that of a run, or of one that was killed before it began."""
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else {"no folder"}
    return (
        "run.json" in names
        and not names.isdisjoint({"snap", "results.h5"})
        or all(map(_is_own, names))
    )


def _is_own(name):
    """Whether a file of a run folder is hkflow's own by its name, as it is or on its way to be
    written."""
    name = re.sub(r"^\.(.+)\.[0-9]+\.tmp$", r"\1", name)
    return name in OWN or SNAPSHOT.fullmatch(name) is not None


def claim_folder(folder: str | Path, force: bool) -> Path | None:
    """Make an empty run folder; with `force` a used one is moved aside, never deleted. Returns
    where that is then, or None.

    Raises RunFolderError if the folder is used, or cannot be moved or made.
    """
    folder, aside = Path(folder), None
    refuse_used(folder, force)
    whole = Path(os.path.realpath(folder))
    try:
        if whole.exists() and not _is_claimed_alone(whole):
            aside = _free(whole)
            with lock(whole):
                whole.rename(aside)
                (aside / ".lock").unlink(missing_ok=True)  # which may name this process
        (whole / "snap").mkdir(parents=True, exist_ok=True)
        sync_names(whole.parent)
    except OSError as error:
        raise RunFolderError(f"{folder}: cannot make the run folder ({error.strerror}).") from error
    return aside


def _is_claimed_alone(folder):
    """Whether nothing is in a folder, or what another run leaves that is about to begin there: the
    lock decides which of them does."""
    names = {path.name for path in folder.iterdir()}
    return names <= CLAIMED and not any((folder / "snap").glob("*"))


def _free(path):
    """A path beside one that is taken: its name with a number."""
    others = (path.with_name(f"{path.name}.{k}") for k in range(1, 10**6))
    return next(other for other in others if not os.path.lexists(other))


def lock(folder: Path) -> BaseFileLock:
    """The lock that keeps two processes from writing one run; what a killed one left on its way is
    removed.

    Raises RunFolderError if another process holds it, the folder cannot be locked, or a file that
    would be written is a symbolic link.
    """
    refuse_links(folder)
    held = FileLock(folder / ".lock")
    try:
        held.acquire(timeout=0)
    except Timeout:
        raise RunFolderError(
            f"{folder}: another process is writing here; wait for it or stop it"
            f" first{left_behind(held)}."
        ) from None
    except OSError as error:
        raise RunFolderError(
            f"{folder}: cannot be locked against other processes ({error.strerror}). Wanted a"
            " folder that can be written, on a disk with locks."
        ) from error
    with suppress(OSError):  # in a folder of someone else
        remove_temporaries(folder, _is_own)
    return held


def left_behind(held: BaseFileLock) -> str:
    """The remedy that is left where a disk has no locks and a file stands for one: it outlives a
    machine that fails. Nothing on other disks."""
    number, path = getattr(held, "pid", None), Path(held.lock_file)
    with suppress(OSError, ValueError):  # it has just been given back
        if number is not None:
            _, machine, *_ = path.read_text().split()
            return f". It is process {number} of {machine}; if that is no more, delete {path}"
    return ""


def refuse_taken(folder: Path) -> None:
    """Raise RunFolderError if another process has used a folder between claiming and locking it."""
    if any(path.name not in CLAIMED for path in folder.iterdir()):
        raise RunFolderError(f"{folder}: another process has begun a run here. Choose another one.")


def refuse_links(folder: Path) -> None:
    """Raise RunFolderError if a file of hkflow's is a symbolic link: its target may be someone
    else's."""
    for path in (*(folder / name for name in OWN), *snapshot_paths(folder)):
        if path.is_symlink():
            raise RunFolderError(
                f"{path}: is a symbolic link, and none is written through. Put its target in its"
                " place."
            )


def write_problem(
    folder: Path, problem: Problem, inputs: Floats, header: dict, initial: Floats | None
) -> None:
    """Store what does not change during a run: data, signs and the mesh if there is one.

    inputs: (n, dim) without bias column;  header: the content of run.json;  initial : (n_signs,
        n_cells) the initial density, of atoms that start from a mesh
    """
    objective = problem.objective
    data = {"inputs": inputs, "targets": objective.targets, "weights": objective.weights}
    data |= test_arrays(problem.test, inputs.shape[1])

    def fill(file):
        if problem.mesh is not None:
            write_arrays(file.create_group("mesh"), problem.mesh.arrays())
            file.attrs["mesh"] = problem.mesh.name
        write_arrays(file.create_group("data"), data)
        file["sign"] = signs = np.array(problem.signs)
        if initial is not None:
            file["initial"] = initial
        file.attrs["sha256"] = checksum(
            static_arrays(problem.mesh and problem.mesh.arrays(), data, signs, initial)
        )

    write_hdf5(folder / "problem.h5", fill)
    write_json(folder / "run.json", {"format": FORMAT, **header})


def test_arrays(test: Any, columns: int) -> dict[str, Floats]:
    """The test data, an objective with so many columns before the bias, by the names of
    files.reading.TEST; nothing without."""
    if test is None:
        return {}
    equal = np.all(test.weights == 1.0 / len(test.weights))
    weights = {} if equal else {"test_weights": test.weights}
    return {"test_inputs": test.inputs[:, :columns], "test_targets": test.targets} | weights


def static_arrays(
    mesh: dict | None, data: dict, sign: Floats, initial: Floats | None = None
) -> dict[str, Any]:
    """What does not change during a run, by name, for its checksum; mesh: its arrays, or None."""
    named = {"mesh": mesh or {}, "data": data, "sign": {"": sign}}
    named |= {} if initial is None else {"initial": {"": initial}}
    return {
        f"{group}/{name}": array
        for group, arrays in named.items()
        for name, array in arrays.items()
    }


@contextmanager
def writing(folder: str | Path) -> Iterator[None]:
    """Turn what a full disk or a folder that is gone says into a RunFolderError."""
    try:
        yield
    except OSError as error:
        raise unwritten(folder, error) from error


def unwritten(folder: str | Path, error: OSError) -> RunFolderError:
    """What is raised where a file of a run folder cannot be written."""
    reason = os.strerror(error.errno) if error.errno else error
    if not os.path.isdir(folder):  # which raises nothing
        remedy = "If it was moved, 'hkflow resume' continues the run from where it is now."
    elif snapshot_paths(folder):
        remedy = (
            "What was saved before is whole: make room, then continue with 'hkflow resume"
            f" {as_typed(folder)}'."
        )
    else:
        remedy = (
            "Nothing was saved: make room, then run the case again, with --force (in Python"
            " force=True) if into the same folder."
        )
    return RunFolderError(f"{folder}: cannot be written ({reason}). {remedy}")


@dataclass(frozen=True)
class Repair:
    """What brings a run folder back to its newest intact snapshot; making it is idempotent.

    damaged : files to set aside;  spent : checkpoints that a crash kept past their duty
    lengths : bytes to cut the logs back to
    """

    damaged: list[Path]
    spent: list[Path]
    lengths: dict[Path, int]

    def make(self, folder: Path) -> None:
        for path in self.damaged:
            if path.exists():
                _set_aside(path, folder / "damaged")
        remove_temporaries(folder / "snap", _is_own)
        for log, length in self.lengths.items():
            os.truncate(log, length)
        for path in self.spent:
            path.unlink(missing_ok=True)


def prepare_resume(folder: str | Path) -> tuple[dict, LoopState, Path | None, float, Repair]:
    """What a run goes on from, its newest intact snapshot; nothing is changed.

    Returns the state for the method, the clock, the path of the snapshot if it is a checkpoint
    (else None), the seconds that the run had taken, and the Repair that is wanted before it goes
    on.
    Raises RunFolderError if a snapshot cannot be read, none is intact, an earlier save is missing,
    or the records are shorter than the snapshot says.
    """
    folder = Path(folder)
    records, metas, damaged, newest = folder / "records.jsonl", {}, [], None
    for path in snapshot_paths(folder):
        snapshots = read_snapshots(path)
        if snapshots is None:
            damaged.append(path)
        else:
            metas[path], newest = [meta for _, _, meta in snapshots], snapshots[-1]
    if newest is None:
        raise RunFolderError(
            f"{folder}: holds no intact snapshot to resume from; run the case again, with --force"
            " (in Python force=True) if into the same folder."
        )
    state, _, meta = newest
    if sentence := missing_saves(folder, [one for some in metas.values() for one in some], damaged):
        raise RunFolderError(sentence)
    lengths = {records: meta["records_length"]}
    if "history_length" in meta:
        lengths[folder / "history.bin"] = meta["history_length"]
    for log, length in lengths.items():
        if not log.exists() or log.stat().st_size < length:
            raise RunFolderError(
                f"{log}: is missing or cut short, so the run cannot be continued faithfully."
            )
    *older, last = metas
    spent = [path for path in older if metas[path][-1]["save"] < 0]
    return (
        state,
        LoopState.from_dict(meta["clock"]),
        last if meta["save"] < 0 else None,
        meta.get("seconds", 0.0),
        Repair(damaged, spent, lengths),
    )


def _set_aside(path, place):
    """Move a file into a folder, under a name that is free there."""
    place.mkdir(exist_ok=True)
    target = place / path.name
    path.rename(_free(target) if os.path.lexists(target) else target)
