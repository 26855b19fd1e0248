"""Runs of a study: each in a folder named by what it computes, in processes of this machine or of a
Dask cluster."""

import gc
import hashlib
import json
import os
import shutil
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    ProcessPoolExecutor,
    wait,
)
from contextlib import contextmanager, suppress
from dataclasses import replace
from multiprocessing import active_children, get_context, resource_tracker
from pathlib import Path
from typing import Any
from uuid import uuid4

import numba
from filelock import FileLock, Timeout

from ..arguments import Floats
from ..case.load import CaseFile, toml_of
from ..case.schema.case import CertificateTable, ErrorTable
from ..errors import CaseError, HkflowError
from ..files.reading import open_hdf5
from ..files.userfiles import read_text, size_of
from ..methods.method import Method
from ..solving.interrupts import Interrupts
from ..solving.observer import Observer
from ..solving.registry import record_of
from ..solving.result import versions
from ..solving.state import LoopState
from ..store.run_folder import left_behind
from ..store.snapshots import snapshot_paths

PATIENCE = 60.0  # seconds in which a process of a study that was killed will have noticed
GRACE = 30.0  # of these, in which it ends its run in order
ANSWER = 10.0  # seconds in which a Dask scheduler answers
# their sentences explain themselves
EXPECTED = (HkflowError, OSError, MemoryError, ArithmeticError, ValueError)
BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

# of this process, if it is a worker
stopping, leaving, computing = threading.Event(), threading.Event(), threading.Lock()
stepping = threading.Event()  # while its run takes steps, and where these were interrupted
# a number shared with the study, if this process is one of its workers: the signal that interrupted
# it, or 0
told = None
# of this process, if it is a worker of Dask, which computes for one study after another: those that
# were interrupted
broken_off: set[str] = set()


def key_of(file: CaseFile) -> str:
    """A name for what a case computes: of the resolved case, its own functions, the files that it
    reads, and the version of hkflow."""
    from ..case.functions import own_feature
    from ..case.records import case_records
    from ..case.resolve import resolve
    from ..case.sources import source_hash

    resolved = toml_of(resolve(file.case, file.folder))
    digest = hashlib.sha256(f"{versions()['hkflow']}\n{resolved}".encode())
    for function in own_feature(file.case.objective.activation, file.folder).functions():
        digest.update(str(function.source).encode())
    for record in case_records(file.case, file.folder).values():
        digest.update(str(source_hash(record)).encode())
    data = file.case.data
    named = (getattr(data, "file", None), getattr(data, "test_file", None))
    for name in (*named, getattr(file.case.initial, "file", None)):
        if name is not None:
            with suppress(OSError):  # what is wrong with a file the run itself says
                size_of(file.folder / name)
                digest.update((file.folder / name).read_bytes())
    if file.case.initial.kind == "run":
        place = file.case.initial.place(file.folder)
        for path in (place / "run.json", place / "status.json") if place.is_dir() else (place,):
            with suppress(OSError):
                digest.update(path.read_bytes())
        # of a run that goes on
        digest.update(str([path.name for path in snapshot_paths(place)]).encode())
    return digest.hexdigest()[:12]


def is_finished(folder: Path) -> bool:
    """Whether a finished run lies in a folder, with all that its case asks for; a results.h5 that
    was cut off is none, and is made again."""
    try:
        end = json.loads(read_text(folder / "status.json"))
        whole = end["finished"] is True and end.get("complete", True)
        if whole:
            with open_hdf5(folder / "results.h5"):
                return True
        return False
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def compute(folder: Path, file: CaseFile, threads: int, study: str = "") -> tuple[bool, str]:
    """Make a run in its folder, or finish it, unless its study is broken off; returns whether it
    finished, and the sentence how. Nothing is raised."""
    from ..running.run import resume, run

    folder = Path(folder)
    if stopping.is_set():  # as by a signal that came while this process started
        return False, "Interrupted with its study"
    stepping.clear()
    numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # hidden, so that runs/* are runs
        held = FileLock(folder.with_name(f".{folder.name}.lock"), timeout=PATIENCE)
        with computing, held:
            if any((folder / "snap").glob("*.h5")):
                made = resume(folder, observers=(Stopping(study),))
            else:
                # a process was killed here before it saved anything
                shutil.rmtree(folder, ignore_errors=True)
                made = run(file, folder, False, observers=(Stopping(study),))
        return made.finished, made.status
    except KeyboardInterrupt:  # before its steps or after them
        return False, "Interrupted with its study"
    except Timeout:
        return False, f"Failed: another process is computing it{left_behind(held)}."
    except EXPECTED as error:
        return False, f"Failed: {str(error) or type(error).__name__}"
    except Exception as error:  # one wrong run must not end the others
        traceback.print_exc()
        return False, f"Failed unexpectedly: {type(error).__name__}: {error}"


def as_member(file: CaseFile, curves: Iterable[str]) -> CaseFile:
    """A case without what its study does not show, unless it asks for that itself: error bars,
    which the study judges, and the max-margin, which is drawn beside curves of margins."""
    left_out: dict[str, Any] = {"error": ErrorTable(companions="none")}
    if not any(record_of(name).panel == "margins" for name in curves):
        left_out["certificate"] = CertificateTable(seconds=0.0)
    asked = file.case.model_fields_set
    update = {name: table for name, table in left_out.items() if name not in asked}
    return replace(file, case=file.case.model_copy(update=update))


class Stopping(Observer):
    """Ends a run when its process is told to stop, or the study that asked for it is gone or broken
    off."""

    def __init__(self, study: str = "") -> None:
        self.study = study

    def start(self, method: Method, clock: LoopState, save_times: Floats) -> None:
        stepping.set()

    def finish(self, method: Method, clock: LoopState, status: str) -> None:
        if not status.startswith("Interrupted"):
            stepping.clear()

    def stop(self) -> str | None:
        if told is not None and told.value:
            return f"Interrupted by {signal.Signals(told.value).name}"
        ends = stopping.is_set() or self.study in broken_off
        return "Interrupted with its study" if ends else None


def compute_all(
    tasks: dict[Path, CaseFile],
    workers: int,
    threads: int,
    scheduler: str | None,
    tell: Callable[[Path, tuple[bool, str]], object],
) -> tuple[dict[Path, tuple[bool, str]], int | None]:
    """Compute {folder: CaseFile}, at most `workers` at a time with so many threads each.

    scheduler : address of a Dask scheduler whose workers do it instead;  tell(folder, outcome) :
        called as each ends
    Returns {folder: (finished, sentence)} and the signal that interrupted it, or None: then runs
    that were on their way have saved. A process that dies takes those beside it down: what was
    running is tried again, one by one.
    Raises CaseError if the scheduler cannot be reached, or is lost.
    """
    outcomes, lost, study = {}, None, uuid4().hex

    def done(folder, outcome):
        outcomes[folder] = outcome
        tell(folder, outcome)

    with _Interrupt() as interrupt:
        while not interrupt.received and (
            waiting := {folder: file for folder, file in tasks.items() if folder not in outcomes}
        ):
            alone = lost is not None
            with _executor(scheduler, 1 if alone else workers, threads, interrupt.told) as (
                executor,
                room,
                break_off,
            ):
                try:
                    lost = _drain(
                        executor, room, break_off, waiting, threads, study, interrupt, done
                    )
                except CancelledError:
                    raise CaseError(
                        f"scheduler {scheduler}: it no longer answers. Start it and its workers"
                        " again; the same study then computes what is missing."
                    ) from None
            for folder in lost if alone and not interrupt.received else ():
                done(folder, (False, "Failed: its process was killed, perhaps for want of memory."))
            lost = lost or None
    return outcomes, interrupt.received


def _drain(executor, room, break_off, tasks, threads, study, interrupt, done):
    """Compute tasks, as many at a time as there is room; returns those that ran when a process
    died."""
    waiting, running, ends = list(tasks.items()), {}, False
    try:
        while running or waiting and not interrupt.received:
            while waiting and len(running) < room and not interrupt.received:
                folder, file = waiting.pop(0)
                with _starting():
                    future = executor.submit(compute, str(folder), file, threads, study)
                running[future] = folder
            ended, _ = wait(running, timeout=0.2, return_when=FIRST_COMPLETED)
            for future in ended:
                done(running[future], _outcome(future))
                del running[future]
            if interrupt.received and not ends:
                break_off(study)
                ends = True
    except BrokenExecutor:
        return list(running.values())
    return []


@contextmanager
def _starting():
    """SIGINT is blocked in processes that start meanwhile, until `_begin_worker` unblocks it:
    earlier it would be a traceback among what they import."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # which starts a process, and lets SIGINT through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _outcome(future):
    """What `compute` returned, or that its worker failed, as where Dask's are killed one after
    another or lack hkflow."""
    try:
        return future.result()
    except (BrokenExecutor, CancelledError):
        raise
    except Exception as error:
        return False, f"Failed on its worker: {type(error).__name__}: {error}"


@contextmanager
def _executor(scheduler, workers, threads, shared):
    """An executor, how many calls it takes at a time, and what tells its workers that a study is
    broken off: those of this machine have heard the signal."""
    if scheduler is None:
        with (
            _surroundings(threads),
            ProcessPoolExecutor(
                workers,
                mp_context=get_context("spawn"),
                initializer=_begin_worker,
                initargs=(os.getpid(), shared),
            ) as pool,
        ):
            yield pool, workers, lambda study: None
        return
    try:
        from distributed import Client
    except ImportError as error:
        raise CaseError("A scheduler wants Dask: pip install 'hkflow[dask]'.") from error
    try:
        client = Client(scheduler, timeout=ANSWER)
    except (OSError, ValueError) as error:
        raise CaseError(
            f"scheduler {scheduler}: no Dask scheduler answers there ({error})."
        ) from error
    with client:
        count = len(client.scheduler_info(n_workers=-1)["workers"])
        if not count:
            raise CaseError(
                f"scheduler {scheduler}: it has no workers yet. Start 'dask worker {scheduler}"
                " --nthreads 1'."
            )

        def break_off(study):
            client.run(_break_off, study, on_error="ignore")

        yield client.get_executor(pure=False), count, break_off


def _break_off(study):
    """End the runs of a study in this worker after their steps."""
    broken_off.add(study)


@contextmanager
def _surroundings(threads):
    """What new processes find: so many threads for BLAS, and no main module, or each would run the
    user's script once more."""
    main, before = sys.modules["__main__"], {name: os.environ.get(name) for name in BLAS_THREADS}
    hidden = {name: vars(main).pop(name) for name in ("__file__", "__spec__") if name in vars(main)}
    main.__spec__ = None
    os.environ |= dict.fromkeys(BLAS_THREADS, str(threads))
    try:
        yield
    finally:
        vars(main).update(hidden)
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)


def _begin_worker(study, shared):
    """A process of a study ends its run, not itself, on SIGINT; its run and itself on SIGTERM, or
    when the study is gone.

    SIGTERM is what the pool sends to all when one of its processes has died; from Python 3.12 on it
    waits until they are gone.
    """
    global told
    told = shared
    gc.freeze()  # what is imported stays: garbage is not looked for in it again and again
    signal.signal(signal.SIGINT, _interrupted)
    signal.signal(signal.SIGTERM, lambda *_: leaving.set())
    threading.Thread(target=_watch, args=(study,), daemon=True).start()
    if hasattr(signal, "pthread_sigmask"):  # one that came since `_starting` comes now
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _watch(study):
    while os.getppid() == study and not leaving.wait(0.5):
        pass
    stopping.set()
    computing.acquire(timeout=GRACE)  # what is cut off is computed again
    os._exit(1)


def _interrupted(*_):
    """Steps are ended in order, by `Stopping`; what comes before and after them at once."""
    stopping.set()
    if computing.locked() and not stepping.is_set():
        raise KeyboardInterrupt


class _Interrupt(Interrupts):
    """Ends the runs of the processes that compute at the first SIGINT or SIGTERM; a second one
    kills them."""

    def __init__(self):
        super().__init__()
        self.received, self.told = None, get_context("spawn").RawValue("i", 0)

    def _receive(self, number, _frame):
        self.told.value = self.told.value or int(number)
        for child in active_children():
            if self.received is None:
                os.kill(child.pid, signal.SIGINT)
            else:
                child.kill()  # Windows has no SIGKILL
        self.received = self.received or int(number)
