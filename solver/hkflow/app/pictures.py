"""The pictures of a run that `hkflow run` draws: as a program it is the second process of a run,
which finds the max-margin as well."""

import gc
from pathlib import Path

from ..running.ahead import MAX_MARGIN, PICTURE, serve
from ..running.run import certified
from ..store.run import Run, load


def draw_pictures(run: Run) -> str:
    """Draw a run and return the names of its pictures."""
    from ..plots.kinds import available, write

    pictures = [write("overview", run)]
    if "width" in available(run):
        pictures.append(write("width", run, wide=True))
    return ", ".join(map(str, pictures))


def _prepare():
    from ..plots import kinds  # noqa: F401
    from ..plots.figures import rehearse

    rehearse()


def _draw(folder: Path) -> str:
    return draw_pictures(load(folder))


def _certify(folder: Path, seconds: float) -> bool:
    return certified(load(folder), seconds)


if __name__ == "__main__":
    gc.disable()  # its one run leaves little
    serve(_prepare, {MAX_MARGIN: _certify, PICTURE: _draw})
