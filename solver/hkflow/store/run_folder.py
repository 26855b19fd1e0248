"""The run folder: one closed, checksummed HDF5 file per snapshot, so that a crash at any moment loses nothing saved.

RUN/run.json            once: case as given and as resolved, versions, seed, threads, git commit
RUN/problem.h5          once: mesh, data, signs
RUN/snap/00000123.h5    state after step 123: at every save time, and the newest checkpoint
RUN/records.jsonl       one line per record, written within half a second and before each snapshot; a resumed run
                        cuts it back to the length that its snapshot knows
RUN/status.json         at the end: how the run ended
RUN/results.h5          at the end or by `hkflow pack`: everything in one tidy file
"""

import json
import os
import time
from pathlib import Path

import numpy as np
from filelock import FileLock, Timeout

from ..errors import RunFolderError
from ..observers.observer import Observer
from ..time_loop import Clock
from ..userfiles import parse_json
from .files import checksum, remove_temporaries, write_arrays, write_hdf5, write_json
from .reading import DAMAGE, open_hdf5, read_arrays

FORMAT = 4
CHECKPOINT_SECONDS = 60.0
FLUSH_SECONDS = 0.5  # for those who watch the records; what a snapshot counts on is written before it


def refuse_used(folder, force=False):
    """Raise RunFolderError if a folder is not empty, unless `force` will move it aside."""
    folder = Path(folder)
    if not force and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunFolderError(
            f"{folder} is not empty. Choose another --output, continue that run with 'hkflow resume {folder}', "
            "or give --force, which moves it aside."
        )


def claim_folder(folder, force=False):
    """Make an empty run folder and return its path; with `force` a used one is moved aside, never deleted.

    Raises RunFolderError if the folder is used or cannot be made.
    """
    folder = Path(folder)
    refuse_used(folder, force)
    try:
        if folder.exists() and (folder.is_file() or any(folder.iterdir())):
            whole = folder.resolve()
            whole.rename(next(p for k in range(1, 10**6) if not (p := whole.parent / f"{whole.name}.{k}").exists()))
        (folder / "snap").mkdir(parents=True)
    except OSError as error:
        raise RunFolderError(f"{folder}: cannot make the run folder ({error.strerror}).") from error
    return folder


def lock(folder):
    """The lock that keeps two processes from writing one run. Raises RunFolderError if another process holds it."""
    held = FileLock(folder / ".lock")
    try:
        held.acquire(timeout=0)
    except Timeout:
        raise RunFolderError(f"{folder}: another process is writing here; wait for it or stop it first.") from None
    return held


def write_problem(folder, problem, inputs, header):
    """Store what does not change during a run: data, signs and the mesh if there is one.

    inputs: (n, dim) without bias column;  header: the content of run.json
    """
    objective = problem.objective
    data = {"inputs": inputs, "targets": objective.targets, "weights": objective.weights}

    def fill(file):
        if problem.mesh is not None:
            write_arrays(file.create_group("mesh"), problem.mesh.arrays())
            file.attrs["mesh"] = problem.mesh.name
        write_arrays(file.create_group("data"), data)
        file["sign"] = signs = np.array(problem.signs)
        file.attrs["sha256"] = checksum(static_arrays(problem.mesh and problem.mesh.arrays(), data, signs))

    write_hdf5(folder / "problem.h5", fill)
    write_json(folder / "run.json", {"format": FORMAT, **header})


def static_arrays(mesh, data, sign):
    """What does not change during a run, by name, for its checksum; mesh: its arrays, or None."""
    named = {"mesh": mesh or {}, "data": data, "sign": {"": sign}}
    return {f"{group}/{name}": array for group, arrays in named.items() for name, array in arrays.items()}


class RunWriter(Observer):
    """Writes snapshots, checkpoints and records of a run into its folder.

    checkpoint : path of the checkpoint that a resumed run started from, removed once a newer snapshot is there
    seconds : of processor time, all threads together, that the run has taken so far
    """

    def __init__(self, folder, checkpoint=None, seconds=0.0):
        self.folder, self.checkpoint, self.began = Path(folder), checkpoint, time.process_time() - seconds

    @property
    def seconds(self):
        """Of processor time, all threads together, earlier sessions included up to what they saved."""
        return time.process_time() - self.began

    def start(self, method, clock, save_times):
        self.log = os.open(self.folder / "records.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.written = os.fstat(self.log).st_size
        self.lines, self.last_time = [], time.monotonic()
        self.last_flush = self.last_time
        self.last_step = clock.step if snapshot_path(self.folder, clock.step).exists() else None

    def record(self, method, clock, record):
        self.lines.append(json.dumps(record))
        if time.monotonic() - self.last_flush > FLUSH_SECONDS:
            self._flush()

    def _flush(self):
        """Write the records that are waiting."""
        if self.lines:
            lines = "\n".join([*self.lines, ""]).encode()
            while lines:  # a disk that fills up takes a part, and refuses the rest at the next time
                taken = os.write(self.log, lines)
                self.written, lines = self.written + taken, lines[taken:]
        self.lines, self.last_flush = [], time.monotonic()

    def save(self, method, clock):
        self._snapshot(method, clock, clock.next_save - 1)
        self._replace_checkpoint(None)

    def step(self, method, clock):
        if self.last_step != clock.step and time.monotonic() - self.last_time > CHECKPOINT_SECONDS:
            self._replace_checkpoint(self._snapshot(method, clock, -1))

    def finish(self, method, clock, status):
        if self.last_step != clock.step:
            self._replace_checkpoint(self._snapshot(method, clock, -1))
        self._flush()
        os.close(self.log)

    def _replace_checkpoint(self, path):
        """Remember the newest checkpoint; one older than the newest snapshot has done its duty."""
        old, self.checkpoint = self.checkpoint, path
        if old is not None and old != path:
            old.unlink(missing_ok=True)

    def _snapshot(self, method, clock, save):
        """Write the state after a step; `save` is its index among the saves, -1 for a checkpoint."""
        self._flush()
        os.fsync(self.log)
        path = snapshot_path(self.folder, clock.step)
        state = method.state()
        arrays = {name: value for name, value in state.items() if isinstance(value, np.ndarray)}
        numbers = {name: value for name, value in state.items() if name not in arrays}
        meta = {"clock": clock.as_dict(), "save": save, "records_length": self.written, "state": numbers}
        meta["seconds"] = self.seconds
        text = json.dumps(meta)  # numbers are written with all their digits
        arrays["predictions"] = method.current.predictions

        def fill(file):
            write_arrays(file, arrays)
            file.attrs["meta"] = text
            file.attrs["sha256"] = checksum(arrays, text)

        write_hdf5(path, fill)
        self.last_step, self.last_time = clock.step, time.monotonic()
        return path


def snapshot_path(folder, step):
    """Where the state after a step is kept."""
    return Path(folder) / "snap" / f"{step:08d}.h5"


def read_snapshot(path):
    """State, predictions and meta (clock, save, records_length) of a snapshot, or None if the file is damaged."""
    try:
        with open_hdf5(path) as file:
            arrays, text, wanted = read_arrays(file), file.attrs["meta"], file.attrs["sha256"]
        if checksum(arrays, text) != wanted:
            return None
        meta, predictions = _checked_meta(parse_json(text)), arrays.pop("predictions")
    except DAMAGE:
        return None
    return arrays | meta.pop("state"), predictions, meta


def _checked_meta(meta):
    """What a snapshot knows besides its arrays. Raises one of DAMAGE if something is missing or of another type."""
    clock, default = Clock(**meta["clock"]), Clock(0.0, 0.0, 0.0)
    for name, value in vars(default).items():
        found, numbers = getattr(clock, name), value if isinstance(value, list) else []
        fits = isinstance(found, int | float if isinstance(value, float) else type(value))
        if not fits or numbers and not (len(found) == len(value) and all(isinstance(n, int | float) for n in found)):
            raise ValueError(f"the clock's '{name}' is {found!r}")
    for name, kind in (("save", int), ("records_length", int), ("state", dict)):
        if not isinstance(meta[name], kind):
            raise ValueError(f"'{name}' is {meta[name]!r}")
    if not isinstance(meta.get("seconds", 0.0), int | float):
        raise ValueError(f"'seconds' is {meta['seconds']!r}")
    if min(clock.step, clock.next_save, clock.next_certificate, meta["records_length"]) < 0 or not 0.0 <= clock.time < np.inf:
        raise ValueError("a time or a count is negative or not finite")
    return meta


def prepare_resume(folder):
    """Bring a folder back to its newest intact snapshot: remove what came after it, cut the records.

    Returns the state for the method, the clock, the path of the snapshot if it is a checkpoint (else None), and the seconds
    that the run had taken.
    Raises RunFolderError if there is no intact snapshot or the records are shorter than it says.
    """
    folder = Path(folder)
    records = folder / "records.jsonl"
    for place in (folder, folder / "snap"):
        remove_temporaries(place)
    for path in sorted((folder / "snap").glob("*.h5"), reverse=True):
        snapshot = read_snapshot(path)
        if snapshot is None:
            path.unlink()
            continue
        state, _, meta = snapshot
        if not records.exists() or records.stat().st_size < meta["records_length"]:
            raise RunFolderError(f"{records}: is missing or cut short, so the run cannot be continued faithfully.")
        (folder / "status.json").unlink(missing_ok=True)
        os.truncate(records, meta["records_length"])
        for older in sorted((folder / "snap").glob("*.h5"))[:-1]:  # a crash may have kept a checkpoint past its duty
            found = read_snapshot(older)
            if found is not None and found[2]["save"] < 0:
                older.unlink()
        return state, Clock(**meta["clock"]), path if meta["save"] < 0 else None, meta.get("seconds", 0.0)
    raise RunFolderError(f"{folder}: holds no intact snapshot to resume from; run the case again.")
