"""Numba's `njit` for kernels: what is compiled is kept until the source of any kernel changes.

Numba keeps the code of a function until its own file changes. What it calls may be in another file,
and is compiled into it: after an update it would go on with the callee of before.
"""

import hashlib
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import llvmlite
import numba
from platformdirs import user_cache_path

HERE = Path(__file__).parent
SIGNS = (b"njit(", b"parallel_loop", b"divided_loop", b"small_kernel")  # in files of kernels
PREFIX, KEPT = "hkflow-", 3  # folders of compiled code, of the sources that were used last


def njit(**options: Any) -> Callable[[Callable], Any]:
    """As numba.njit(**options); what `cache=True` keeps lies in `kept_code`, if there is such a
    folder."""

    def compiled(function: Callable) -> Any:
        before, folder = numba.config.CACHE_DIR, kept_code()
        kept = {"cache": folder is not None and options.get("cache", False)}
        numba.config.CACHE_DIR = str(folder or before)  # which is read when a function is wrapped
        try:
            return numba.njit(**options | kept)(function)
        finally:
            numba.config.CACHE_DIR = before

    return compiled


@cache
def kept_code() -> Path | None:
    """The folder of what is compiled from the kernels as they are now: in NUMBA_CACHE_DIR, or
    beside the package, else in the user's cache folder; None if nothing can be written there.

    Folders of earlier kernels are removed, but for the last few.
    """
    for place in (Path(numba.config.CACHE_DIR or HERE / "__pycache__"), user_cache_path("hkflow")):
        folder = place / f"{PREFIX}{source_hash()[:16]}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            TemporaryFile(dir=folder).close()
            os.utime(folder)
        except OSError:
            continue
        with suppress(OSError):
            others = sorted(place.glob(f"{PREFIX}*"), key=os.path.getmtime)
            for old in others[:-KEPT]:
                shutil.rmtree(old, ignore_errors=True)
        return folder
    return None


def source_hash() -> str:
    """SHA-256 of the files of kernels and the version of the compiler."""
    digest = hashlib.sha256(f"{numba.__version__} {llvmlite.__version__}".encode())
    for path in sorted(HERE.rglob("*.py")):
        text = path.read_bytes()
        if any(sign in text for sign in SIGNS):
            digest.update(text)
    return digest.hexdigest()
