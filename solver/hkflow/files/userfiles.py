"""Files that users name: regular ones alone, no larger than can be meant. A device never ends, a
pipe may never begin."""

import errno
import io
import json
import os
import stat
from pathlib import Path
from typing import Any, TextIO

from ..errors import RunFolderError

SPECIAL = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}
MAX_DIGITS = 100  # of an integer: the state of a random number generator has 39
# that the bytes of a file may fill: what is made of a text is several times as large
MEMORY_SHARE = 1 / 8


def size_of(path: str | os.PathLike[str], largest: float | None = None) -> int:
    """Bytes of a regular file, which is not opened for it.

    largest : most that it may have, by default a share of the machine's memory
    Raises OSError, whose strerror says what is wrong, for anything else.
    """
    try:
        found = os.stat(path)
    except ValueError as error:  # a name with NUL, or with letters that the file system has not
        raise OSError(errno.EINVAL, "no file can have this name") from error
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(found.st_mode):
        kind = SPECIAL.get(stat.S_IFMT(found.st_mode), "no file")
        raise OSError(
            errno.EINVAL, f"it is {kind}, wanted a regular file: write what it gives into one"
        )
    largest = _room() if largest is None else largest
    if found.st_size > largest:
        raise OSError(
            errno.EFBIG,
            f"it has {found.st_size / 1e6:,.0f} MB, at most {largest / 1e6:,.0f} MB are read",
        )
    return found.st_size


def open_text(
    path: str | os.PathLike[str], newline: str | None = None, largest: float | None = None
) -> TextIO:
    """A regular file opened as UTF-8 text, with or without a byte-order mark. Raises OSError as
    `size_of` does."""
    size_of(path, largest)
    # it may have been replaced by a pipe since
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    return io.TextIOWrapper(open(handle, "rb"), encoding="utf-8-sig", newline=newline)


def read_text(path: str | os.PathLike[str], largest: float | None = None) -> str:
    """The text of a file. Raises OSError as `size_of` does, UnicodeDecodeError for what is not
    UTF-8."""
    with open_text(path, largest=largest) as stream:
        return stream.read()


def parse_json(text: str | bytes) -> Any:
    """What a JSON text holds. Raises ValueError for integers that no float can follow, and
    RecursionError for endless nesting."""
    return json.loads(text, parse_int=_integer)


def _integer(digits):
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"an integer of {len(digits)} digits")
    return int(digits)


def named(path: str | os.PathLike[str]) -> Path:
    """The Path of a file or folder, there or not. Raises RunFolderError for a name that none can
    have, and what is no name."""
    if not isinstance(path, str | os.PathLike):
        raise RunFolderError(f"Wanted the path of a file or folder, got {path!r:.60}.")
    path = Path(path)
    try:
        os.stat(path)
    except ValueError as error:
        raise RunFolderError(
            f"{str(path)!r}: no file can have this name ({error}); choose another."
        ) from error
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise RunFolderError(
                f"{path}: the name is too long for this disk; choose a shorter one."
            ) from error
    return path


def _room():
    import psutil  # not wanted where help is

    return int(MEMORY_SHARE * psutil.virtual_memory().total)
