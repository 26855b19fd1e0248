"""How measures are drawn and called: colours, their scales, titles."""

from collections.abc import Collection, Iterable, Sequence
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, SymLogNorm
from matplotlib.ticker import NullLocator

from ..arguments import Floats
from ..case.preparation import Preparation
from ..solving.result import Result
from .figures import AnyFigure

PIXELS = 200  # of a map of inputs, along each
MANY = 300  # data from which they are drawn smaller
NAME = 40  # letters of a column's name that are shown
# letters of a line beside an axis and under it, where the panel is the whole picture, and a part
TALL, BROAD, NARROW = 24, 40, 18
DECADES = 4  # shown below the largest density
SIGNED_DECADES = 2  # shown below the largest size of a density of both signs
# of a scale, up to which numbers between powers of ten are written; beyond they have no marks: each
# takes as long to lay out as a number that is read
FEW_DECADES = 2.5
SEEN = 9  # saves at most that are read to find colours and axes for all of them
COLORS = {1.0: "C1", -1.0: "C5"}  # of signs, those of classes and those of units
WIDE = 1.7  # width over height from which the sheets of two signs stand side by side
PEAKED = 20.0  # largest density over the mean from which a density is shown by its logarithm


def plain(text: str, length: int = 200) -> str:
    """A user's text as labels show it: its dollars are letters, not mathematics, bytes of a file's
    name that are no letters are \\udcff, and it is cut where it is long."""
    text = text.encode("utf-8", "backslashreplace").decode()
    text = text if len(text) <= length else text[: length - 1] + "…"
    return text.replace("$", r"\$")


def one_line(name: object, length: int = NAME) -> str:
    """A column's name, or a class's, as labels show it: line breaks in it are spaces."""
    return plain(" ".join(str(name).split()), length)


def label_inputs(ax: Axes, x: str, y: str | None = None, narrow: bool = False) -> None:
    """Write names of inputs along axes, in lines that are no longer than these.

    narrow : whether other panels are beside this one
    """
    ax.set_xlabel(fill(x, NARROW if narrow else BROAD))
    if y is not None:
        ax.set_ylabel(fill(y, NARROW if narrow else TALL))


def input_names(run: Result) -> list[str]:
    """What the axes of inputs are called: their columns, cut where they are long, and that these
    are standardised."""
    return labels_of_inputs(run.input_names, run.preparation)


def labels_of_inputs(names: Sequence[str], made: Any) -> list[str]:
    """The same of names and of what makes the inputs, see Problem.prepare."""
    scaled = isinstance(made, Preparation) and made.size is not None and made.axes is None
    after = ", standardised" if scaled else ""
    return [one_line(name, NAME - len(after)) + after for name in names]


def time_of(run: Result, save: int) -> str:
    """A title: when a save was made."""
    return f"{run.flow.clock} = {run.time[save]:.4g}"


def sign_name(sign: float) -> str:
    """How labels call a sheet."""
    return f"output sign {'+' if sign > 0 else '−'}1"


def sheet_names(signs: Collection[float]) -> list[str]:
    """How the maps of all signs are called: one alone needs no name."""
    return [""] if len(signs) == 1 else [sign_name(sign) for sign in signs]


def sheets(figure: AnyFigure, signs: Collection[float]) -> Any:
    """Axes for the map of each sign: side by side on a wide figure, one over the other on a narrow
    one."""
    box = figure.bbox
    wide = box.width > WIDE * box.height
    return np.atleast_1d(figure.subplots(1, len(signs)) if wide else figure.subplots(len(signs), 1))


def sign_color(sign: float, signs: Collection[float]) -> str:
    """The colour of an output sign, as of the class that it speaks for; where there is one sign
    alone, that of all else."""
    return "C0" if len(signs) == 1 else COLORS[sign]


class Colors(NamedTuple):
    """A scale of colours: its norm, the name of its map, None for the style's own, and at which end
    there is more."""

    norm: Any  # a Normalize
    map: str | None
    extend: str


def colors_of(densities: Collection[Floats]) -> Colors:
    """The Colors that show where densities of any shapes are concentrated.

    Logarithmic over at most DECADES and at least one; where densities have both signs, from both
    ends towards 0.
    """
    largest = max(np.abs(density).max() for density in densities) or 1.0
    smallest = min(density.min() for density in densities)
    if smallest < 0.0:
        return Colors(
            SymLogNorm(largest * 10.0**-SIGNED_DECADES, vmin=-largest, vmax=largest),
            "PuOr_r",
            "neither",
        )
    lowest = np.clip(smallest, largest * 10.0**-DECADES, 0.1 * largest)
    return Colors(LogNorm(lowest, largest), None, "min" if smallest < lowest else "neither")


def clipped(density: Floats, norm: Any) -> Floats:
    """A density, raised to the least that the colours or a logarithmic axis show: what is below
    belongs to the lowest colour."""
    return np.maximum(density, norm.vmin)


def thinned(saves: Sequence[int], save: int) -> list[int]:
    """At most SEEN of the saves, evenly chosen, and the one that is shown."""
    chosen = np.unique(np.rint(np.linspace(0, len(saves) - 1, SEEN)).astype(int))
    return sorted({saves[k] for k in chosen} | {save})


def draw_scale(
    figure: AnyFigure, image: Any, axes: Iterable[Axes], label: str, extend: str
) -> None:
    """The scale of colours of some axes, beside them; a logarithmic one of few decades has marks at
    1, 2 and 5 of each."""
    bar = figure.colorbar(image, ax=list(axes), shrink=0.9, pad=0.02, aspect=25, extend=extend)
    bar.set_label(label)
    norm = image.norm
    if isinstance(norm, LogNorm) and norm.vmax > 10.0**FEW_DECADES * norm.vmin:
        bar.minorticks_off()
    if isinstance(image.norm, SymLogNorm):
        decade = 10.0 ** np.floor(np.log10(norm.vmax))
        bar.set_ticks([-decade, -0.1 * decade, 0.0, 0.1 * decade, decade])
        bar.ax.yaxis.set_minor_locator(NullLocator())
    if isinstance(image.norm, LogNorm) and norm.vmax < 10.0**FEW_DECADES * norm.vmin:
        decades = 10.0 ** np.arange(np.floor(np.log10(norm.vmin)), np.ceil(np.log10(norm.vmax)) + 1)
        ticks = np.outer(decades, (1.0, 2.0, 5.0)).ravel()
        ticks = ticks[(ticks >= norm.vmin) & (ticks <= norm.vmax)]
        plain = norm.vmin >= 1e-3 and norm.vmax < 1e4
        bar.set_ticks(
            ticks, labels=[f"{tick:g}" if plain else f"{tick:.0e}" for tick in ticks], minor=False
        )
        bar.ax.yaxis.set_minor_locator(NullLocator())
