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

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from io import BytesIO
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from filelock import BaseFileLock, FileLock, Timeout

from ..arguments import Floats
from ..errors import RunFolderError
from ..files.reading import DAMAGE, read_arrays
from ..files.userfiles import parse_json, size_of
from ..files.writing import (
    checksum,
    remove_temporaries,
    sync_names,
    write_arrays,
    write_hdf5,
    write_json,
)
from ..methods.method import Method
from ..objectives.protocol import prediction_shape
from ..problem.problem import Problem
from ..solving.observer import Observer
from ..solving.state import LoopState
from .place import Place

FORMAT = 5
READABLE = (4, FORMAT)  # 4 : a file for each snapshot
# in the place of a save's index: what only a resumed run reads; where a run ended before its time
CHECKPOINT, END = -1, -2
CHECKPOINT_SECONDS = 60.0
# for those who watch the records; what a snapshot counts on is written before it
FLUSH_SECONDS = 0.5
# seconds since the last file for which saves wait for others, all to be written in one
MAX_WAIT = 0.5
MAX_WAITING = 2**24  # bytes of saves that wait
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
CLOCK = vars(LoopState(0.0, 0.0, [0.0, 0.0]))  # the types of its entries
SNAPSHOT = re.compile(r"[0-9]{8,}\.h5")


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
                f", continue that run with 'hkflow resume {folder}'"
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
    """The lock that keeps two processes from writing one run.

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
        raise _unwritten(folder, error) from error


def _unwritten(folder, error):
    reason = os.strerror(error.errno) if error.errno else error
    return RunFolderError(
        f"{folder}: cannot be written ({reason}). What was saved before is whole: make room, then"
        f" continue with 'hkflow resume {folder}'."
    )


def _writes(method: Callable) -> Callable:
    """A method of a RunWriter, whose failures are those of its folder: what other observers raise
    has nothing to do with it."""

    @wraps(method)
    def called(self, *arguments):
        try:
            return method(self, *arguments)
        except OSError as error:
            raise _unwritten(self.folder, error) from error

    return called


class Log:
    """A file that grows at its end; what is added to it waits until it is flushed.

    length : of the file, in bytes, with what waits
    """

    def __init__(self, path: Path) -> None:
        # Windows would turn the bytes of line ends into others
        how = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
        self.handle = os.open(path, how, 0o666)
        self.length, self.waiting = os.fstat(self.handle).st_size, bytearray()

    def add(self, content: bytes) -> None:
        self.waiting += content
        self.length += len(content)

    def flush(self) -> None:
        # a disk that fills up takes a part, and refuses the rest at the next time
        while self.waiting:
            del self.waiting[: os.write(self.handle, self.waiting)]

    def sync(self) -> None:
        self.flush()
        os.fsync(self.handle)

    def close(self) -> None:
        os.close(self.handle)


class RunWriter(Observer):
    """Writes snapshots, checkpoints and records of a run; a context, at whose end nothing waits to
    be written.

    A save that comes within half a second of the last file waits for others, so that many saves
    cost little: what a crash can take of them took no longer to compute.

    checkpoint : path of the checkpoint or end that a resumed run started from, removed once a newer
        snapshot is there
    seconds : of processor time, all threads together, that the run has taken so far
    """

    def __init__(
        self, folder: str | Path, checkpoint: Path | None = None, seconds: float = 0.0
    ) -> None:
        self.folder, self.checkpoint, self.began = (
            Path(folder),
            checkpoint,
            time.process_time() - seconds,
        )
        self.logs: dict[str, Log] = {}
        self.waiting: list[tuple[dict, dict]] = []
        self.size = 0

    def __enter__(self):
        return self

    @_writes
    def __exit__(self, kind, *_):
        ends_at_once = kind is not None and not issubclass(kind, Exception)  # at a second signal
        if self.logs and not ends_at_once:
            self._write()
            self._flush()

    @property
    def seconds(self) -> float:
        """Of processor time, all threads together, earlier sessions included up to what they
        saved."""
        return time.process_time() - self.began

    @_writes
    def start(self, method: Method, clock: LoopState, save_times: Floats) -> None:
        self.place, self.goes_on = Place(self.folder), False
        self.logs = {"records": Log(self.folder / "records.jsonl")}
        if method.history is not None:
            self.logs["history"], self.kept = Log(self.folder / "history.bin"), len(method.history)
        sync_names(self.folder)
        self.last_time = self.last_flush = time.monotonic()
        self.last_write = -np.inf
        self.next_save = clock.next_save
        self.last_step = clock.step if snapshot_path(self.folder, clock.step).exists() else None

    @_writes
    def record(self, method: Method, clock: LoopState, record: dict[str, float]) -> None:
        self.logs["records"].add(f"{json.dumps(record)}\n".encode())
        if time.monotonic() - self.last_flush > FLUSH_SECONDS:
            self._flush()

    def _forget_the_end(self):
        """Remove what an earlier session said at its end, now that its run goes on."""
        for path in (self.folder / name for name in OF_THE_END):
            if path.exists():
                path.unlink()
        self.goes_on = True

    def _keep(self, method):
        """Add what moved the points since it was last asked for to the history."""
        if "history" in self.logs:
            rows = method.history.since(self.kept)
            self.logs["history"].add(rows.astype("<f8").tobytes())
            self.kept += len(rows)

    def _flush(self):
        """Write the records and the history that are waiting."""
        for log in self.logs.values():
            log.flush()
        self.last_flush = time.monotonic()

    @_writes
    def save(self, method: Method, clock: LoopState) -> None:
        scheduled, self.next_save = clock.next_save > self.next_save, clock.next_save
        if scheduled:
            self._take(method, clock, clock.next_save - 1)
            self._write_in_time()
        elif self.last_step != clock.step or self.checkpoint is not None:
            self._write_alone(method, clock, END)

    @_writes
    def step(self, method: Method, clock: LoopState) -> None:
        if not self.goes_on:
            self._forget_the_end()
        if self.last_step != clock.step and time.monotonic() - self.last_time > CHECKPOINT_SECONDS:
            self._write_alone(method, clock, CHECKPOINT)
        self._keep(method)
        self._write_in_time()

    @_writes
    def finish(self, method: Method, clock: LoopState, status: str) -> None:
        try:
            self._write()
            self._flush()
        finally:
            for log in self.logs.values():
                log.close()
            self.logs = {}

    def _write_alone(self, method, clock, save):
        """A file of its own for what a resumed run removes."""
        self._write()
        self._take(method, clock, save)
        self._write()

    def _take(self, method, clock, save):
        """Let the state after a step wait; `save` is its index among the saves, or CHECKPOINT or
        END."""
        self._keep(method)
        state = method.state()
        arrays = {
            name: np.array(value) for name, value in state.items() if isinstance(value, np.ndarray)
        }
        numbers = {name: value for name, value in state.items() if name not in arrays}
        meta = {
            "clock": clock.as_dict(),
            "save": save,
            **{f"{name}_length": log.length for name, log in self.logs.items()},
            "state": numbers,
        }
        meta["seconds"] = self.seconds
        shape = prediction_shape(method.problem.objective)
        arrays["predictions"] = np.array(method.current.predictions).reshape(shape)
        if self.waiting and _layout(arrays) != _layout(self.waiting[0][0]):
            self._write()
        self.waiting.append((arrays, meta))
        self.size += sum(array.nbytes for array in arrays.values())
        self.last_step, self.last_time = clock.step, time.monotonic()

    def _write_in_time(self):
        if self.waiting and (
            time.monotonic() - self.last_write > MAX_WAIT or self.size > MAX_WAITING
        ):
            self._write()

    def _write(self):
        """Write what waits: records, then all snapshots in one file. An older checkpoint has done
        its duty then.

        Each array has the snapshots along its first axis; `meta` is the text of a JSON list.
        """
        if not self.waiting:
            return
        self.place.there()
        self._flush()
        for log in self.logs.values():
            log.sync()
        states, metas = zip(*self.waiting, strict=True)
        text = json.dumps(metas).encode()  # numbers are written with all their digits
        arrays = {name: np.stack([state[name] for state in states]) for name in states[0]}
        arrays["meta"] = np.frombuffer(text, np.uint8)

        def fill(file):
            write_arrays(file, arrays)
            file.attrs["sha256"] = checksum(arrays)

        path = snapshot_path(self.folder, metas[-1]["clock"]["step"])
        write_hdf5(path, fill)
        old, self.checkpoint = self.checkpoint, path if metas[-1]["save"] < 0 else None
        if old is not None and old != path:
            old.unlink(missing_ok=True)
        self.waiting, self.size, self.last_write = [], 0, time.monotonic()


def _layout(arrays):
    """What arrays must have in common to be stacked."""
    return {name: (array.shape, array.dtype) for name, array in arrays.items()}


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
        f" it on out of {folder / 'snap'}, then 'hkflow resume {folder}'."
    )


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


def prepare_resume(folder: str | Path) -> tuple[dict, LoopState, Path | None, float]:
    """Bring a folder back to its newest intact snapshot: set aside what is damaged, cut the
    records.

    Returns the state for the method, the clock, the path of the snapshot if it is a checkpoint
    (else None), and the seconds that the run had taken.
    Raises RunFolderError, with nothing changed, if a snapshot cannot be read, none is intact, an
    earlier save is missing, or the records are shorter than the snapshot says.
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
            " (in Python force=True) if into it."
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
    for path in damaged:
        _set_aside(path, folder / "damaged")
    for place in (folder, folder / "snap"):
        remove_temporaries(place, _is_own)
    for log, length in lengths.items():
        os.truncate(log, length)
    *older, last = metas
    for path in older:  # a crash may have kept a checkpoint past its duty
        if metas[path][-1]["save"] < 0:
            path.unlink()
    return (
        state,
        LoopState.from_dict(meta["clock"]),
        last if meta["save"] < 0 else None,
        meta.get("seconds", 0.0),
    )


def _set_aside(path, place):
    """Move a file into a folder, under a name that is free there."""
    place.mkdir(exist_ok=True)
    target = place / path.name
    path.rename(_free(target) if os.path.lexists(target) else target)
