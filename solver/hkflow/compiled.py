"""Numba's `njit` for kernels: what is compiled is kept until the source of any kernel changes, and
parallel loops go on in a process that was forked.

Numba keeps the code of a function until its own file changes. What it calls may be in another file,
and is compiled into it: after an update it would go on with the callee of before.

GNU OpenMP ends a process at its first parallel loop if that was forked from one with threads.
"""

import hashlib
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import cache, wraps
from pathlib import Path
from tempfile import TemporaryFile
from threading import Event
from types import FunctionType
from typing import Any

import llvmlite
import numba
from platformdirs import user_cache_path

HERE = Path(__file__).parent
SIGNS = (b"njit(", b"parallel_loop", b"divided_loop", b"small_kernel")  # in files of kernels
PREFIX, KEPT = "hkflow-", 3  # folders of compiled code, of the sources that were used last


without_threads = Event()  # set in a process that was forked from one with threads of OpenMP


def _lose_threads():
    with suppress(ValueError):  # no threads yet
        if numba.threading_layer() == "omp":
            without_threads.set()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_lose_threads)


def njit(**options: Any) -> Callable[[Callable], Any]:
    """As numba.njit(**options); what `cache=True` keeps lies in `kept_code`, if there is such a
    folder. With `parallel=True` Python alone can call it, and it has a twin `serial`, which takes
    its place in a process without threads. Raises HkflowError where nothing may be compiled."""
    if numba.config.DISABLE_JIT:  # some kernels call what Python has not
        from .errors import HkflowError

        raise HkflowError(
            "NUMBA_DISABLE_JIT: hkflow's kernels run as compiled code alone; unset it."
        )
    if not options.get("parallel"):
        return lambda function: _compiled(function, options)
    return lambda function: _parallel(function, options)


def _compiled(function, options):
    before, folder = numba.config.CACHE_DIR, kept_code()
    kept = {"cache": folder is not None and options.get("cache", False)}
    numba.config.CACHE_DIR = str(folder or before)  # which is read when a function is wrapped
    try:
        made = numba.njit(**options | kept)(function)
    finally:
        numba.config.CACHE_DIR = before
    if kept["cache"]:
        _forgive(made._cache)
    return made


def _forgive(kept):
    """Compile what cannot be read, or is of other types, as two processes leave it that write at
    the same time; go on without keeping what there is no room for."""
    load, save = kept.load_overload, kept.save_overload

    def loaded(types, context):
        with suppress(Exception):
            found = load(types, context)
            return found if found is None or found.signature.args == types else None
        return None

    def saved(*arguments):
        with suppress(Exception):
            save(*arguments)

    kept.load_overload, kept.save_overload = loaded, saved


def _parallel(function, options):
    twin = FunctionType(function.__code__, function.__globals__, function.__name__)
    # Numba keeps compiled code under this name
    twin.__qualname__ = twin.__name__ = f"{function.__name__}_serial"
    parallel, serial = _compiled(function, options), _compiled(twin, options | {"parallel": False})

    @wraps(function)
    def call(*arguments):
        return serial(*arguments) if without_threads.is_set() else parallel(*arguments)

    call.serial = serial
    return call


@cache
def kept_code() -> Path | None:
    """The folder of what is compiled from the kernels as they are now: in NUMBA_CACHE_DIR, or
    beside the package, else in the user's cache folder; None if nothing can be written there.

    Folders of earlier kernels are removed, but for the last few.
    """
    for place in (Path(numba.config.CACHE_DIR or HERE / "__pycache__"), user_folder()):
        folder = place / f"{PREFIX}{source_hash()[:16]}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            TemporaryFile(dir=folder).close()
            os.utime(folder)
        except OSError:
            continue
        with suppress(OSError):
            # by a clock that was set back, this one may look older than all others
            others = sorted({*place.glob(f"{PREFIX}*")} - {folder}, key=os.path.getmtime)
            for old in others[: 1 - KEPT]:
                shutil.rmtree(old, ignore_errors=True)
        return folder
    return None


def user_folder() -> Path:
    """The user's cache folder; of a user without a home, as in some containers, one in which
    nothing can be kept."""
    try:
        return user_cache_path("hkflow")
    except RuntimeError:
        return Path(os.devnull) / "hkflow"


def source_hash() -> str:
    """SHA-256 of the files of kernels and the version of the compiler."""
    digest = hashlib.sha256(f"{numba.__version__} {llvmlite.__version__}".encode())
    for path in sorted(HERE.rglob("*.py")):
        text = path.read_bytes()
        if any(sign in text for sign in SIGNS):
            digest.update(text)
    return digest.hexdigest()
