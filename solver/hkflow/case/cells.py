"""Cells of columns as numbers, as texts and by names, those that hold nothing, and how a few of
them are told."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arguments import Integers
from ..errors import printable
from .columns import Cells, Columns, numbers
from .labels import is_missing, label_of, text_of

NOTHING: Any = None  # in the place of a text that is missing
MOST_TOLD = 20  # names that a message lists


def values_of(
    columns: Columns, name: str, rows: Integers, categorical: bool = False
) -> tuple[NDArray[Any], list[int]]:
    """The cells of a column at some rows as numbers, or as texts, and the places among them of
    those that are neither a number nor missing."""
    cells = columns.named[name]
    cells = cells if len(rows) == len(cells) else cells[rows]
    if categorical:
        return texts_of(cells), []
    values, wrong = numbers(cells, columns.comma)
    if wrong and all(label_of(cells[row]) in ("0", "1") for row in wrong):  # true and false
        values[wrong] = [float(label_of(cells[row])) for row in wrong]
        wrong = []
    return values, wrong


def texts_of(cells: Cells) -> Cells:
    """Cells as texts, None where there is no value, (n,)."""
    return named_by(cells, text_of)


def named_by(cells: Cells, name: Callable[[Any], str]) -> Cells:
    """What a function names each cell, None where there is no value, (n,); equal cells are named
    once."""
    found = as_list(cells)  # once: no two nan are equal
    known = {cell: None if is_missing(cell) else name(cell) for cell in set(found)}
    return np.array([known[cell] for cell in found], dtype=object)


def as_list(cells: Cells) -> list[Any]:
    """Cells as a list of what has a hash, None for a date that is missing."""
    if cells.dtype.kind in "mM" and np.datetime_data(cells.dtype)[0] == "ns":
        cells = cells.astype(f"{cells.dtype.kind}8[us]")  # nanoseconds would be whole numbers
    listed = cells.tolist()
    return listed if have_hashes(listed) else list(map(str, listed))


def have_hashes(cells: Iterable[Any]) -> bool:
    """Whether cells are no lists, and hold none."""
    try:
        set(cells)
    except TypeError:
        return False
    return True


def gaps_in(values: NDArray[Any], wrong: Sequence[int] = ()) -> Integers:
    """The places without a value; wrong : places of cells that have one, but no number."""
    if values.dtype.kind == "O":
        return np.flatnonzero(np.equal(values, NOTHING))
    gaps = np.flatnonzero(np.isnan(values))
    return np.setdiff1d(gaps, wrong) if len(wrong) else gaps


def quoted(names: Iterable[str]) -> str:
    """Names in quotes, not too many of them."""
    return some([f"'{printable(name)}'" for name in names])


def some(names: Sequence[str]) -> str:
    """Names, not too many of them."""
    return ", ".join(names[:MOST_TOLD]) + (", …" if len(names) > MOST_TOLD else "")
