"""A film of a run: the same picture at every save, with the same axes and colours."""

import os
import shutil
import subprocess
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import matplotlib
from matplotlib.animation import FFMpegWriter, PillowWriter
from matplotlib.figure import Figure

from ..errors import CaseError, RunFolderError
from ..files.writing import for_user, remove_left
from ..solving.result import ResultLike
from ..studies.study import StudyResult
from .figures import for_journal, style
from .kinds import draw, loaded, plot_of, size_of

SECONDS = 8.0  # that a film takes if its speed is not given
SLOWEST, FASTEST = 2.0, 20.0  # pictures a second, if not given
FPS = (0.1, 100.0)  # that can be asked for
DOTS = 200  # per inch
FORMATS = (".mp4", ".gif")


def animate(
    name: str,
    run: ResultLike | StudyResult,
    path: str | Path | None = None,
    fps: float | None = None,
    wide: bool = False,
    under: ResultLike | None = None,
    watch: Callable[[int, int], None] | None = None,
) -> Path:
    """Write a film of a picture, see `plots.draw`, over all saves of a run and return its path.

    path : .mp4, which needs ffmpeg (or pip install 'hkflow[movie]'), or .gif; by default
        RUN/<name>.mp4, or .gif without ffmpeg
    fps : pictures a second, by default so many that it takes 8 seconds, 2 to 20;  watch : called
        with (done, of how many)
    The file is written whole or not at all. Raises CaseError for a picture that is unknown, does
    not fit the run or does not change, and for an fps beyond 0.1 to 100, RunFolderError for another
    format and for a file that cannot be written.
    """
    run = loaded(run)  # type: ignore[assignment]
    kind = plot_of(name, run, moving=True)
    program = ffmpeg()
    path = Path(path) if path else run.folder / f"{name}{'.mp4' if program else '.gif'}"
    if path.suffix not in FORMATS:
        raise RunFolderError(
            f"{path}: unknown film format '{path.suffix}'. Choose from: {', '.join(FORMATS)}."
        )
    if path.suffix == ".mp4" and not program:
        raise CaseError(
            f"{path}: MP4 needs ffmpeg: install it, or pip install 'hkflow[movie]', or choose a"
            " .gif."
        )
    count = len(run.time)
    if fps is None:
        fps = min(max(count / SECONDS, SLOWEST), FASTEST)
    elif not FPS[0] <= fps <= FPS[1]:
        raise CaseError(f"fps: wanted {FPS[0]:g} to {FPS[1]:g} pictures a second, got {fps:g}.")
    with style():
        settings = {"animation.ffmpeg_path": program or "", "savefig.dpi": DOTS}
        with matplotlib.rc_context(settings):
            writer = FFMpegWriter(fps, codec="h264") if path.suffix == ".mp4" else PillowWriter(fps)
            figure = Figure(figsize=for_journal(size_of(kind, run, wide)), layout="constrained")
            _write(
                writer,
                figure,
                path,
                count,
                lambda save: draw(name, run, figure, save, under, shared=range(count)),
                watch,
            )
    return path


def ffmpeg() -> str | None:
    """The path of ffmpeg, or of the one that the package imageio-ffmpeg brings; None without
    either."""
    found = shutil.which("ffmpeg")
    if found is None and find_spec("imageio_ffmpeg"):
        from imageio_ffmpeg import get_ffmpeg_exe

        found = get_ffmpeg_exe()
    return found


def _write(writer, figure, path, count, paint, watch):
    """Every save as a picture, the last for a second longer, into a file that is renamed when it is
    complete."""
    temporary = path.with_name(f".{path.stem[:50]}.{os.getpid()}.tmp{path.suffix}")
    pause = max(1, round(writer.fps))
    with for_user(path, "film"):
        temporary.touch()  # refused before anything is drawn, and in the words of the system
        try:
            with writer.saving(figure, temporary, DOTS):
                for k in range(count):
                    figure.clear()
                    paint(k)
                    for _ in range(1 if k < count - 1 else pause):
                        writer.grab_frame()
                    if watch:
                        watch(k + 1, count)
            os.replace(temporary, path)
            remove_left(path, f".{path.stem[:50]}.", f".tmp{path.suffix}")
        except subprocess.CalledProcessError as error:  # ffmpeg's, as of a disk that fills up
            raise OSError(
                f"{Path(error.cmd[0]).name} ended with code {error.returncode}"
            ) from error
        finally:
            temporary.unlink(missing_ok=True)
