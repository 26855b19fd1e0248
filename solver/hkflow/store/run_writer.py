"""Writes what a run saves and records into its folder, see run_folder."""

import json
import os
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path

import numpy as np

from ..arguments import Floats
from ..compilation import processor_time
from ..files.writing import checksum, sync_names, write_arrays, write_hdf5
from ..methods.method import Method
from ..objectives.protocol import prediction_shape
from ..solving.observer import Observer
from ..solving.state import LoopState
from .place import Place
from .run_folder import OF_THE_END, unwritten
from .snapshots import CHECKPOINT, END, snapshot_path

CHECKPOINT_SECONDS = 60.0
# for those who watch the records; what a snapshot counts on is written before it
FLUSH_SECONDS = 0.5
# seconds since the last file for which saves wait for others, all to be written in one
MAX_WAIT = 0.5
MAX_WAITING = 2**24  # bytes of saves that wait


def _writes(method: Callable) -> Callable:
    """A method of a RunWriter, whose failures are those of its folder: what other observers raise
    has nothing to do with it."""

    @wraps(method)
    def called(self, *arguments):
        try:
            return method(self, *arguments)
        except OSError as error:
            raise unwritten(self.folder, error) from error

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
    seconds : of processor time, all threads together, that the run has taken so far, without
        compiling
    """

    def __init__(
        self, folder: str | Path, checkpoint: Path | None = None, seconds: float = 0.0
    ) -> None:
        self.folder, self.checkpoint, self.began = (
            Path(folder),
            checkpoint,
            processor_time() - seconds,
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
        """Of processor time, all threads together and without compiling, earlier sessions included
        up to what they saved."""
        return processor_time() - self.began

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
