"""Runs and studies that are killed, starved or robbed: nothing saved is lost, every file opens, and
they end as if nothing had been."""

import ctypes
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np

import hkflow
from hkflow.store.snapshots import read_snapshots

CASE = """
title = "A run to be broken off"
[data]
source = "cluster-grid"
n = 20
[objective]
activation = "relu"
bias = true
loss = "logistic"
[domain]
kind = "signed-sphere"
cells = 162
[flow]
kind = "hellinger-kantorovich"
[method]
max_step = 0.004
[time]
end = 4.0
saves = 21
"""
STUDY = (
    'case = "case.toml"\n[refine]\nmethod.max_step = [0.016, 0.008, 0.004]\n[set]\ntime.end = 2.0\n'
)
PATIENCE = 120.0  # seconds for a process that was told to stop


def hkflow_process(*words, **options):
    """A process of the command line."""
    command = [sys.executable, "-c", "from hkflow.app.cli import main; main()", *map(str, words)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


def finished(process):
    """Exit code and messages of a process."""
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out + err


def arrays_of(path):
    """All arrays of a results.h5, and its status."""
    found = {}
    with h5py.File(path, "r") as file:
        file.visititems(
            lambda name, item: (
                found.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None
            )
        )
        return found, file.attrs["status"]


def same(a, b):
    """Whether two runs have the same bits."""
    (first, how), (second, why) = arrays_of(a / "results.h5"), arrays_of(b / "results.h5")
    return (
        how == why
        and first.keys() == second.keys()
        and all(np.array_equal(first[k], second[k], equal_nan=True) for k in first)
    )


def prepare(place, end=4.0, companions="all"):
    """A folder with the case, up to an end and with such companions, and an undisturbed run of
    it."""
    place.mkdir(parents=True, exist_ok=True)
    errors = f'[error]\ncompanions = "{companions}"\n'
    (place / "case.toml").write_text(CASE.replace("end = 4.0", f"end = {end}") + errors)
    (place / "study.toml").write_text(STUDY)
    if not (place / "whole" / "results.h5").exists():
        hkflow.run(place / "case.toml", output=place / "whole", force=True)
    return place


def intact(folder):
    """What is wrong with the files of a run folder that was left by force; snapshots are whole or
    are not there."""
    for path in (folder / "snap").glob("*.h5"):
        if not path.name.startswith(".") and read_snapshots(path) is None:
            return f"{path.name} is damaged"
    return None


def begun(process, folder):
    """Wait until a process has saved the start of its run."""
    began = time.monotonic()
    while (
        not any(folder.glob("snap/*.h5"))
        and process.poll() is None
        and time.monotonic() - began < PATIENCE
    ):
        time.sleep(0.02)


def broken_off(place, seed, number, times=6):
    """Start a run, send it a signal soon after it has saved its start, go on and send it one at
    any moment, so many times or until it is done; None, or what went wrong."""
    rng, folder = random.Random(seed), place / f"run-{seed}"
    codes = {0, -number} if number == signal.SIGKILL else {0, 128 + number, -number, 1}
    for attempt in range(20):
        words = (
            ("resume", folder)
            if any(folder.glob("snap/*.h5"))
            else ("run", place / "case.toml", "--output", folder, "--force")
        )
        process = hkflow_process(*words, "--quiet")
        moment = rng.uniform(0.3, 3.5)
        if attempt == 0:
            begun(process, folder)
            moment = rng.uniform(0.0, 0.5)
        try:
            process.wait(timeout=moment if attempt < times else PATIENCE)
        except subprocess.TimeoutExpired:
            process.send_signal(number)
        code, words = finished(process)
        if code not in codes or "Traceback" in words and number != signal.SIGINT:
            return f"exit code {code}: {words[-300:]}"
        if fault := intact(folder):
            return fault
        if code == 0:
            break
    fault = (
        None
        if same(folder, place / "whole")
        else "the result differs from that of the undisturbed run"
    )
    shutil.rmtree(folder) if fault is None else None
    for leftover in place.glob(f"run-{seed}.*"):
        shutil.rmtree(leftover)
    return fault


class Spoiler(hkflow.Observer):
    """Ends a run from a random step on, by a sentence or by an exception in one of its calls."""

    def __init__(self, rng, steps):
        self.call = rng.choice(("sentence", "record", "save", "step", "stop"))
        self.last = rng.randrange(steps)

    def _reached(self, call, clock=None):
        self.time = clock.time if clock else self.time
        self.over = clock.step >= self.last if clock else self.over
        if self.over and self.call == call:
            raise ArithmeticError("spoiled")

    def record(self, method, clock, record):
        self._reached("record", clock)

    def save(self, method, clock):
        self._reached("save", clock)

    def step(self, method, clock):
        self._reached("step", clock)

    def stop(self):
        self._reached("stop")
        return "Spoiled" if self.over and self.call == "sentence" else None


def spoiled(place, seed):
    """An observer ends the run, or fails: the state in which it ended is a save, and a resumed run
    is as if nothing had been."""
    rng, folder = random.Random(seed), place / f"spoiled-{seed}"
    overrides = {"time.records": rng.choice((0.0, 0.013, 1.0))}
    whole = place / f"whole-{overrides['time.records']}"
    if not whole.exists():
        hkflow.run(place / "case.toml", output=whole, **overrides)
    spoiler = Spoiler(rng, int(0.9 * hkflow.load(whole).records["step"][-1]))
    try:
        hkflow.run(place / "case.toml", output=folder, observers=[spoiler], **overrides)
    except ArithmeticError:
        pass
    cut = hkflow.load(folder)
    if cut.finished or cut.time[-1] != spoiler.time:
        return (
            f"ended by '{spoiler.call}' at t = {spoiler.time}, but the last save is at t ="
            f" {cut.time[-1]}"
        )
    if fault := intact(folder):
        return fault
    hkflow.resume(folder)
    fault = None if same(folder, whole) else "the result differs from that of the undisturbed run"
    shutil.rmtree(folder) if fault is None else None
    return fault


def study_broken_off(place, seed):
    """The same with a study; its table is that of an undisturbed one."""
    rng, folder = random.Random(seed), place / f"study-{seed}"
    if not (place / "study-whole" / "table.csv").exists():
        hkflow.study(place / "study.toml", place / "study-whole")
    for attempt in range(20):
        process = hkflow_process(
            "study", place / "study.toml", "--output", folder, "--quiet", start_new_session=True
        )
        try:
            process.wait(timeout=rng.uniform(0.5, 6.0) if attempt < 3 else PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
        code, words = finished(process)
        if code not in (0, -signal.SIGKILL):
            return f"exit code {code}: {words[-300:]}"
        if code == 0:
            break
    tables = [errors_in(path / "table.csv") for path in (folder, place / "study-whole")]
    fault = None if tables[0] == tables[1] else f"its table differs: {tables}"
    shutil.rmtree(folder) if fault is None else None
    return fault


def errors_in(path):
    """The errors in a table.csv, as text."""
    header, *rows = (line.split(",") for line in path.read_text().splitlines())
    return [
        [text for name, text in zip(header, row, strict=False) if name.startswith("error")]
        for row in rows
    ]


def no_room(place, seed):
    """A disk that is full: a sentence, what was saved is whole, and with room it goes on.

    The disk is a small file system where one may be mounted, in every other try; else a limit on
    the size of files stands for it.
    """
    rng, disk = random.Random(seed), place / f"full-{seed}"
    limit = rng.choice((1_000, 20_000, 45_000, 60_000, 100_000, 200_000))
    disk.mkdir()
    small = seed % 2 == 1 and _mount(disk, 4 * limit)

    def starve():
        if not small:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    environment = os.environ | {"HKFLOW_CACHE": str((disk if small else place) / "cache")}
    if seed % 10 == 9:  # nothing compiled yet, and no room to keep what is
        environment |= {"NUMBA_CACHE_DIR": str(disk / "numba")}
    folder = disk / "run"
    try:
        words = ("run", place / "case.toml", "--output", folder, "--quiet")
        code, words = finished(hkflow_process(*words, preexec_fn=starve, env=environment))
        if code and ("Traceback" in words or code not in (1, 2)):
            return f"exit code {code}: {words[-400:]}"
        if code == 0 or not any(folder.glob("snap/*.h5")):
            return None
        if small:
            subprocess.run(["mount", "-o", "remount,size=1g", disk], check=True)
        code, words = finished(hkflow_process("resume", folder, "--quiet"))
        return (
            None if code == 0 and same(folder, place / "whole") else f"cannot go on: {words[-300:]}"
        )
    finally:
        if small:
            subprocess.run(["umount", disk], check=True)
        shutil.rmtree(disk)


def _mount(folder, size):
    """Mount a file system of so many bytes at a folder; returns whether that was allowed."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder]
    try:
        return subprocess.run(command, capture_output=True).returncode == 0
    except OSError:
        return False


def removed(place, seed):
    """The output folder is taken away while the run goes on: a sentence."""
    rng, folder = random.Random(seed), place / f"removed-{seed}"
    process = hkflow_process("run", place / "case.toml", "--output", folder, "--quiet")
    begun(process, folder)
    time.sleep(rng.uniform(0.0, 0.5))
    shutil.rmtree(folder, ignore_errors=True)
    code, words = finished(process)
    shutil.rmtree(folder, ignore_errors=True)
    return (
        None
        if code in (0, 1, 2) and "Traceback" not in words
        else f"exit code {code}: {words[-400:]}"
    )


def forbidden(place, seed):
    """An output folder that may not be written: a sentence, before anything is computed."""
    locked = place / "locked"
    locked.mkdir(exist_ok=True)
    locked.chmod(0o500)
    target = ("/proc/hkflow", place / "case.toml" / "run", Path("/dev/null/run"), locked / "run")[
        seed % 4
    ]
    process = hkflow_process(
        "run", place / "case.toml", "--output", target, "--quiet", preexec_fn=_obey_permissions
    )
    code, words = finished(process)
    fine = (
        code == 2
        and "Traceback" not in words
        and str(target) in words
        and not any(locked.iterdir())
    )
    return None if fine else f"exit code {code}: {words[-300:]}"


def narrow_streams(place, seed):
    """A run whose standard streams are closed, full or in latin-1: it is that of open ones, and a
    result that was saved stays."""
    rng, folder = random.Random(seed), place / f"streams-{seed}"
    closed = [number for number in range(3) if rng.random() < 0.4]
    environment = os.environ | {"PYTHONIOENCODING": rng.choice(("latin-1", "ascii", "utf-8"))}
    words = (
        "run",
        place / "case.toml",
        "--output",
        folder,
        *(("--quiet",) if rng.random() < 0.3 else ()),
    )
    with open("/dev/full", "w") as full:
        options = {"stdout": full} if rng.random() < 0.2 else {"stdout": subprocess.PIPE}
        command = [
            sys.executable,
            "-c",
            "from hkflow.app.cli import main; main()",
            *map(str, words),
        ]
        process = subprocess.Popen(
            command,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            preexec_fn=lambda: [os.close(n) for n in closed],
            **options,
        )
        _, said = process.communicate(timeout=PATIENCE)
    codes = (0, 1) if "stdout" in options and options["stdout"] is full else (0,)
    fault = (
        None
        if process.returncode in codes and "Traceback" not in said and same(folder, place / "whole")
        else said[-300:]
    )
    shutil.rmtree(folder, ignore_errors=True)
    return fault


def _obey_permissions():
    """Let a process of the superuser be bound by permissions as others are: it loses
    CAP_DAC_OVERRIDE when it begins."""
    if os.geteuid() == 0:
        drop_from_bounding_set, dac_override = 24, 1
        ctypes.CDLL(None).prctl(drop_from_bounding_set, dac_override, 0, 0, 0)


def two_writers(place, seed):
    """Two processes with one output: one of them is refused, the other's run is whole."""
    folder = place / f"two-{seed}"
    processes = [
        hkflow_process("run", place / "case.toml", "--output", folder, "--quiet") for _ in range(2)
    ]
    ends = [finished(process) for process in processes]
    codes = sorted(code for code, _ in ends)
    fault = (
        None
        if codes == [0, 2]
        and same(folder, place / "whole")
        and not any("Traceback" in w for _, w in ends)
        else str(ends)
    )
    shutil.rmtree(folder, ignore_errors=True)
    return fault


def two_caches(place, seed):
    """Two processes that fill one mesh cache: both run, and what they leave can be read."""
    cache = place / f"cache-{seed}"
    environment = os.environ | {"HKFLOW_CACHE": str(cache)}
    words = ("--quiet", "--set", "time.end=0.02", "--set", "domain.cells=2562")
    words += ("--set", "error.companions=none")  # which have meshes of their own
    processes = [
        hkflow_process(
            "run",
            place / "case.toml",
            "--output",
            place / f"cache-run-{seed}-{k}",
            *words,
            env=environment,
        )
        for k in range(2)
    ]
    ends = [finished(process) for process in processes]
    fault = (
        None
        if [code for code, _ in ends] == [0, 0] and len(list(cache.glob("*.h5"))) == 1
        else str(ends)
    )
    if fault is None and not same(*(place / f"cache-run-{seed}-{k}" for k in range(2))):
        fault = "the two runs differ"
    for path in (cache, *(place / f"cache-run-{seed}-{k}" for k in range(2))):
        shutil.rmtree(path, ignore_errors=True)
    return fault


ATTACKS = {
    "kill -9 during a run and its resumes": lambda place, seed: broken_off(
        place, seed, signal.SIGKILL
    ),
    "SIGTERM during a run and its resumes": lambda place, seed: broken_off(
        place, seed, signal.SIGTERM
    ),
    "SIGINT during a run and its resumes": lambda place, seed: broken_off(
        place, seed, signal.SIGINT
    ),
    "an observer that ends a run, or fails": spoiled,
    "kill -9 during a study": study_broken_off,
    "no room on the disk": no_room,
    "output folder removed": removed,
    "output folder that may not be written": forbidden,
    "two processes with one output": two_writers,
    "two processes fill the mesh cache": two_caches,
    "standard streams closed, full or in latin-1": narrow_streams,
}
