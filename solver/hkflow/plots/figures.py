"""What all pictures share: one style, widths and fonts of journals, and how a picture becomes a
file."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from importlib.resources import as_file, files
from io import BytesIO
from pathlib import Path
from typing import TypeVar

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, SubFigure

from ..errors import CaseError, RunFolderError, unknown_name
from ..files.writing import for_user, write_whole

AnyFigure = Figure | SubFigure
Saves = Sequence[int] | None  # that have axes and colours in common with the one drawn
T = TypeVar("T")
COLUMN, PAGE = 85 / 25.4, 175 / 25.4  # inches: the widths of the style without a journal
ENTRY = 1.05  # inches of an entry of a legend, at least
MARKER, LETTER = 0.4, 0.06  # inches of its mark and of a letter
ROW, MOST_ENTRIES = 0.16, 32  # inches of a row of a legend, and its entries
FORMATS = (".pdf", ".pgf", ".png", ".svg")
TEX = ("lualatex", "xelatex", "pdflatex")  # any of which .pgf needs, to measure text


@dataclass(frozen=True)
class Journal:
    """What a journal wants of figures.

    column, page : widths in mm, equal where the text has one column
    fonts : in the order in which they are asked for a letter; matplotlib brings all of them
    settings : of matplotlib, further ones
    """

    column: float
    page: float
    fonts: tuple[str, ...]
    settings: dict[str, object]

    @property
    def one_column(self) -> bool:
        """Whether all its figures are as wide as the page."""
        return self.column == self.page


SANS: tuple = ("DejaVu Sans",), {}
TIMES: tuple = ("STIXGeneral", "DejaVu Sans"), {"mathtext.fontset": "stix"}
SMALL = dict.fromkeys(
    ("font.size", "axes.titlesize", "axes.labelsize", "figure.titlesize", "legend.fontsize"), 7
)
SMALL_TIMES = TIMES[0], TIMES[1] | SMALL
JOURNALS = {
    "hkflow": Journal(85.0, 175.0, *SANS),
    "aps": Journal(86.0, 178.0, *TIMES),
    "elsevier": Journal(90.0, 190.0, *SANS),
    "iclr": Journal(139.7, 139.7, *SMALL_TIMES),
    "icml": Journal(82.5, 171.4, *TIMES),
    "ieee": Journal(88.9, 181.8, *TIMES),
    "jmlr": Journal(152.4, 152.4, *SMALL_TIMES),
    "nature": Journal(89.0, 183.0, SANS[0], SMALL),
    "neurips": Journal(139.7, 139.7, *SMALL_TIMES),
    "siam": Journal(130.2, 130.2, *SMALL_TIMES),
    "springer": Journal(84.0, 174.0, *SANS),
}
_current = ContextVar("journal", default=JOURNALS["hkflow"])


@contextmanager
def style(journal: str | None = None) -> Iterator[None]:
    """The project's style, for whatever is drawn inside: fonts, line widths, colours that
    colour-blind people tell apart.

    journal : one of JOURNALS, whose widths and fonts all pictures inside take; by default that of
        the style around
    Raises CaseError for an unknown journal.
    """
    if journal is not None and journal not in JOURNALS:
        raise CaseError(unknown_name("style", journal, sorted(JOURNALS)))
    with _styled(_current.get() if journal is None else JOURNALS[journal]):
        yield


@contextmanager
def _styled(wanted):
    """The style with the widths and fonts of a Journal."""
    settings = {"font.family": list(wanted.fonts), "pgf.rcfonts": False, **wanted.settings}
    token = _current.set(wanted)
    try:
        with (
            as_file(files(__package__) / "hkflow.mplstyle") as path,
            matplotlib.rc_context(settings, fname=path),
        ):
            yield
    finally:
        _current.reset(token)


class Picture(Figure):
    """A figure that keeps the style it was made in wherever it is drawn later, since colours such
    as "C0" are looked up then; a notebook shows it without pyplot, too."""

    def __init__(self, size: tuple[float, float]) -> None:
        super().__init__(figsize=for_journal(size), layout="constrained")
        self.journal = _current.get()

    def draw(self, renderer: RendererBase) -> None:
        """Draw it, in its style."""
        with _styled(self.journal):
            super().draw(renderer)

    def _repr_png_(self):
        content = BytesIO()
        self.savefig(content, format="png", dpi="figure")
        return content.getvalue()


def for_journal(size: tuple[float, float]) -> tuple[float, float]:
    """Inches of a figure in the journal of the style, from those with about COLUMN or PAGE as its
    width."""
    width, height = size
    standard, journal = JOURNALS["hkflow"], _current.get()
    wide = width > 1.5 * COLUMN
    factor = journal.page / standard.page if wide else journal.column / standard.column
    return factor * width, height


def takes_page(wide: bool) -> bool:
    """Whether a figure is as wide as a page: if that is wanted, or the journal has one column."""
    return wide or _current.get().one_column


def write_figure(
    draw: Callable[[Figure], object], path: str | Path, size: tuple[float, float]
) -> Path:
    """Write what draw(figure) draws, in the project's style, on a figure of `size` inches; returns
    the path.

    size : with COLUMN or PAGE as its width, which the journal of the style replaces by its own
    Raises RunFolderError if the format is unknown or the file cannot be written, CaseError if there
    is no TeX for a .pgf.
    """
    path = Path(path)
    if path.suffix not in FORMATS:
        raise RunFolderError(
            f"{path}: unknown picture format '{path.suffix}'. Choose from: {', '.join(FORMATS)}."
        )
    tex = {"pgf.texsystem": _tex(path)} if path.suffix == ".pgf" else {}
    with style(), matplotlib.rc_context(tex):
        figure = Figure(figsize=for_journal(size), layout="constrained")
        draw(figure)
        if path.suffix == ".png":  # savefig would draw it twice, once only to lay it out
            figure.dpi = matplotlib.rcParams["savefig.dpi"]
            write = FigureCanvasAgg(figure).print_png
        else:
            write = partial(figure.savefig, format=path.suffix[1:])
        with for_user(path, "picture"):
            if tex:  # which puts images beside the file, named after it
                write(path)
            else:
                write_whole(path, write)
    return path


def rehearse() -> None:
    """Draw a little, so that the next picture finds fonts and what reads formulas loaded."""
    with style():
        figure = Figure(figsize=(1.0, 1.0), layout="constrained")
        ax = figure.subplots()
        ax.semilogy([1.0, 10.0], label=r"$\gamma$")
        ax.legend()
        FigureCanvasAgg(figure).draw()


def _tex(path):
    """The first TeX that is installed."""
    found = next(filter(shutil.which, TEX), None)
    if found is None:
        raise CaseError(
            f"{path}: a picture for LaTeX needs a TeX that measures its text: install one of"
            f" {', '.join(TEX)}, or choose a .pdf."
        )
    return found


def legend_columns(words: Sequence[str], width: float) -> int:
    """How many columns of a legend's words there is room for in a width in inches."""
    longest = max(map(len, words), default=0)
    return max(1, int(width / max(ENTRY, MARKER + LETTER * longest)))


def legend_height(words: Sequence[str], columns: int) -> float:
    """Inches of the rows of a legend in so many columns, and of what says how many it leaves out;
    0 for one entry alone, which needs no legend."""
    count = len(thinned(words)) if len(words) > 1 else 0
    return ROW * (-(-count // columns) + (len(words) > count > 0))


def thinned(entries: Sequence[T]) -> list[T]:
    """The entries of a legend that are shown: all, or MOST_ENTRIES of them from the first to the
    last, beyond which a legend would fill the picture."""
    if len(entries) <= MOST_ENTRIES:
        return list(entries)
    last, between = len(entries) - 1, MOST_ENTRIES - 1
    return [entries[k * last // between] for k in range(MOST_ENTRIES)]


def left_out(count: int) -> str:
    """What a legend says of entries that it leaves out; "" if it has all of them."""
    return f"{MOST_ENTRIES} of {count} are named" if count > MOST_ENTRIES else ""


def legend_below(figure: AnyFigure, ax: Axes, title: str | None = None) -> None:
    """One legend for all axes of a figure, from the labels of one of them, in as many columns as
    its width has room for."""
    handles, words = ax.get_legend_handles_labels()
    title = "\n".join(filter(None, (title, left_out(len(words))))) or None
    handles, words = thinned(handles), thinned(words)
    columns = legend_columns(words, figure.bbox.width / figure.dpi)
    figure.legend(
        handles, words, loc="outside lower center", ncols=min(columns, len(words)), title=title
    )
