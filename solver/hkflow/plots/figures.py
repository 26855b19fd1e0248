"""What all pictures share: two widths, one style, and how a picture becomes a file."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from ..errors import RunFolderError

AnyFigure = Figure | SubFigure
Saves = Sequence[int] | None  # that have axes and colours in common with the one drawn
COLUMN, PAGE = 85 / 25.4, 175 / 25.4  # inches: a column of a journal, and its page
ENTRY = 1.05  # inches of an entry of a legend
FORMATS = (".pdf", ".png", ".svg")


@contextmanager
def style() -> Iterator[None]:
    """The project's style, for whatever is drawn inside: fonts, line widths, colours that
    colour-blind people tell apart."""
    with as_file(files(__package__) / "hkflow.mplstyle") as path, matplotlib.rc_context(fname=path):
        yield


def write_figure(
    draw: Callable[[Figure], object], path: str | Path, size: tuple[float, float]
) -> Path:
    """Write what draw(figure) draws, in the project's style, on a figure of `size` inches; returns
    the path.

    Raises RunFolderError if the format is unknown or the file cannot be written.
    """
    path = Path(path)
    if path.suffix not in FORMATS:
        raise RunFolderError(
            f"{path}: unknown picture format '{path.suffix}'. Choose from: {', '.join(FORMATS)}."
        )
    with style():
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        try:
            figure.savefig(path)
        except OSError as error:
            raise RunFolderError(
                f"{path}: the picture cannot be written ({error.strerror})."
            ) from error
    return path


def legend_below(figure: AnyFigure, ax: Axes, title: str | None = None) -> None:
    """One legend for all axes of a figure, from the labels of one of them, in as many columns as
    its width has room for."""
    handles, words = ax.get_legend_handles_labels()
    columns = max(1, int(figure.bbox.width / figure.dpi / ENTRY))
    figure.legend(
        handles, words, loc="outside lower center", ncols=min(columns, len(words)), title=title
    )
