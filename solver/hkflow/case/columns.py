"""Named columns of whatever holds them, file or frame, and all that is wrong with their cells."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arguments import Floats, Integers
from ..errors import CaseError, printable
from .labels import is_missing, number_of

Cells = NDArray[Any]  # (n,) numbers, texts or objects

COMMA = re.compile(r"\s*[+-]?\d+,\d+([eE][+-]?\d+)?\s*")  # a number with a decimal comma
THOUSANDS = re.compile(r"\s*[+-]?[1-9]\d{0,2},\d{3}\s*")  # which 1,234 may be as well
GROUPED = re.compile(r"\s*[+-]?[1-9]\d{0,2}([.,'’ \xa0\u202f]\d{3})+([.,]\d+)?\s*")  # 1.234,56
MAX_SHOWN = 10  # faults that a message lists
MAX_TEXT = 40  # letters of a cell that it shows
FAULTY = {"M": "a date", "m": "a duration", "c": "a complex number"}  # kinds that are no numbers


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns by name, each (n,) cells, that a case reads its data from.

    source : how messages call what holds them
    lines : (n,) of each row in its file, or rows counted from 1;  unit : which of the two
    comma : whether numbers have a decimal comma;  named_by_place : whether the names are those that
        an array of rows was given
    faults : rows that are left out, being no rows of the table;  notes : what was found, sentences
    """

    source: str
    named: Mapping[str, Cells]
    lines: Integers
    unit: str = "row"
    comma: bool = False
    faults: tuple[tuple[int, str], ...] = ()
    notes: tuple[str, ...] = ()
    named_by_place: bool = False

    def __eq__(self, other):
        """Whether the cells are the same, as ranks ask that compute one run together."""
        return (
            isinstance(other, Columns)
            and list(self.named) == list(other.named)
            and all(
                list(map(str, cells.tolist())) == list(map(str, other.named[name].tolist()))
                for name, cells in self.named.items()
            )
        )

    def check_header(self, where: str, wanted: str) -> None:
        """Raise CaseError if no column of a text file has the name wanted and all names are
        numbers, as where its first line is one of the data; `where` begins the message."""
        if self.unit != "line" or wanted in self.named:
            return
        if not numbers(np.array(list(self.named), dtype=object), self.comma)[1]:
            raise CaseError(
                f"{where}: no column is called '{printable(wanted)}', and the first line holds"
                " numbers alone. Begin the file with a line of the columns' names."
            )

    @staticmethod
    def of(frame: Any, source: str = "the frame") -> "Columns":
        """Those of a pandas or polars DataFrame, a pyarrow Table, a dictionary of arrays, an array
        of rows or one with named fields.

        A two-dimensional array X of a dictionary gives X1, X2, …, one of rows x1, x2, …
        Raises CaseError for anything else, and for columns of different lengths.
        """
        if isinstance(frame, Columns):
            return frame
        found: dict[str, Cells] = {}
        names = _names(frame)
        nameless = names is None
        if names is None:
            names, frame = ["x"], {"x": frame}
        for name in names:
            if names.count(name) > 1:
                raise _twice(source, name)
            for one, cells in _split(str(name), cells_of(frame[name])):
                if one in found:
                    raise _twice(source, one)
                found[one] = cells
        lengths = {name: len(cells) for name, cells in found.items()}
        if len(set(lengths.values())) > 1:
            few = list(lengths.items())[:MAX_SHOWN]
            said = ", ".join(f"'{printable(name)}' {n}" for name, n in few)
            raise CaseError(f"{source}: columns have different lengths: {said}.")
        lines = np.arange(1, 1 + max(lengths.values(), default=0))
        return Columns(source, found, lines, named_by_place=nameless)


def _twice(source, name):
    return CaseError(f"{source}: names the column '{printable(name)}' twice.")


def _names(frame):
    """The names by which a frame gives its columns, None for an array of rows. Raises CaseError if
    it is neither."""
    if isinstance(frame, Mapping):
        return list(frame)
    if hasattr(frame, "collect"):  # of polars, and others whose rows are not computed yet
        raise CaseError(
            f"data.frame: a {type(frame).__name__} holds no rows yet; give frame.collect()."
        )
    names = getattr(frame, "column_names", None)  # of pyarrow
    names = getattr(frame, "columns", None) if names is None else names
    names = getattr(getattr(frame, "dtype", None), "names", None) if names is None else names
    if names is not None:
        return list(names)
    if isinstance(frame, list | tuple) or hasattr(frame, "__array__"):
        return None
    raise CaseError(
        "data.frame: wanted a frame of pandas or polars, a table of pyarrow, a dictionary of arrays"
        f" or an array of rows, got {type(frame).__name__}."
    )


def cells_of(column: Any) -> Cells:
    """The cells of a column (n,), or of several, (n, k); masked ones are missing."""
    kind: Any = getattr(column, "type", None)
    if hasattr(kind, "index_type"):  # categories of pyarrow, of which numpy takes gaps for the last
        column = column.cast(kind.value_type)
    if np.ma.is_masked(column):
        column = np.ma.filled(column.astype(object), None)
    cells = np.asarray(column)
    return cells.astype(object) if cells.dtype.kind in "US" else cells


def _split(name, cells):
    """(name, column) of a column, or of each column of a matrix."""
    if cells.ndim == 1:
        return [(name, cells)]
    if cells.ndim != 2:
        raise CaseError(
            f"data.frame: '{printable(name)}' has the shape {cells.shape}; wanted (n,) or (n, k)."
        )
    return [(f"{name}{k + 1}", column) for k, column in enumerate(cells.T)]


@dataclass
class Faults:
    """All that is wrong with a table, to be said at once.

    where : how the message begins
    """

    where: str
    columns: Columns
    found: list[tuple[int, str]] = field(default_factory=list)
    remedies: dict[str, None] = field(default_factory=dict)

    def __post_init__(self):
        self.found += self.columns.faults

    def cells(self, name: str, rows: Iterable[int], what: Any) -> None:
        """Add faults of cells in a column; what : a text, or a function of the cell."""
        cells, lines, unit = self.columns.named[name], self.columns.lines, self.columns.unit
        for row in rows:
            text = what if isinstance(what, str) else what(cells[row])
            place = f"{unit} {lines[row]}, column '{printable(name)}'"
            self.found.append((int(lines[row]), f"{place}: {text}"))

    def no_numbers(self, name: str, rows: Sequence[int] | Integers) -> None:
        """Add cells that are no numbers, with what would make numbers of them."""
        self.cells(name, rows, no_number)
        if remedy := number_remedy(set(map(str, self.columns.named[name][rows].tolist()))):
            self.remedies[remedy] = None

    def missing(self, name: str, rows: Iterable[int], remedy: str) -> None:
        """Add cells without a value."""
        before = len(self.found)
        self.cells(name, rows, "has no value")
        if len(self.found) > before:
            self.remedies[remedy] = None

    def column(self, text: str) -> None:
        """Add a fault of a whole column."""
        self.found.append((0, text))

    def refuse(self) -> None:
        """Raise CaseError if there are any: the first MAX_SHOWN by their lines, how many more there
        are, and the remedies."""
        if not self.found:
            return
        texts = (text for _, text in sorted(self.found, key=lambda fault: fault[0]))
        found = [text.removesuffix(".") for text in texts]
        remedies = "".join(f" {remedy}" for remedy in self.remedies)
        if len(found) == 1:
            raise CaseError(f"{self.where}, {found[0]}.{remedies}")
        shown, more = found[:MAX_SHOWN], len(found) - MAX_SHOWN
        rows = "".join(f"\n  {text}" for text in shown)
        rows += f"\n  and {more} more" if more > 0 else ""
        lines = f"\n {remedies}" if remedies else ""
        raise CaseError(f"{self.where}: {len(found)} problems:{rows}.{lines}")


def numbers(cells: Cells, comma: bool = False) -> tuple[Floats, list[int]]:
    """Cells as numbers, (n,), nan where there is no value; and the rows of those that are neither.

    comma : whether the decimals of texts follow a comma
    """
    if cells.dtype.kind in FAULTY:
        return np.full(len(cells), np.nan), list(range(len(cells)))
    if cells.dtype.kind in "fiub":
        values = cells.astype(float)
    else:
        listed = cells.tolist()
        try:
            if comma:
                listed = _with_points(listed)
            plain = all(map(isinstance, listed, repeat(str))) and "_" not in "".join(listed)
            values = np.fromiter(map(float if plain else number_of, listed), float, len(listed))
        except (ValueError, TypeError):
            return _numbers_among(cells.tolist(), comma)
    return values, np.flatnonzero(np.isinf(values)).tolist()


def _with_points(texts):
    """Texts of numbers with a decimal comma as such with a point. Raises ValueError if one has a
    point already, or a line break."""
    joined = "\n".join(texts)
    made = joined.replace(",", ".").split("\n")
    if "." in joined or len(made) != len(texts):
        raise ValueError
    return made


def _numbers_among(cells, comma):
    """The same of cells that are not all numbers."""
    values, wrong = np.full(len(cells), np.nan), []
    for k, cell in enumerate(cells):
        try:
            if comma and isinstance(cell, str):
                cell = cell.replace(".", "x").replace(",", ".")  # 1.5 is no number with a comma
            values[k] = number_of(cell)
        except (ValueError, TypeError):
            if not is_missing(cell):
                wrong.append(k)
    infinite = np.flatnonzero(np.isinf(values)).tolist()
    return values, sorted(wrong + infinite) if infinite else wrong


def number_remedy(texts: Iterable[str]) -> str:
    """What makes numbers of texts that are some with other decimals, or with separators between
    thousands; empty if none is."""
    commas = [text for text in texts if COMMA.fullmatch(text)]
    if any(GROUPED.fullmatch(text) and not COMMA.fullmatch(text) for text in texts):
        return "Numbers with separators between thousands: take these out."
    if not commas:
        return ""
    if all(map(THOUSANDS.fullmatch, commas)):
        return "If decimals follow these commas: data.decimal = ','; if thousands: take them out."
    return "Numbers with a decimal comma: data.decimal = ','."


def no_number(cell: Any) -> str:
    """What is wrong with a cell that is no number."""
    kind = FAULTY.get(getattr(getattr(cell, "dtype", None), "kind", ""))
    shown = printable(str(cell).strip())
    shown = shown if len(shown) <= MAX_TEXT else f"{shown[: MAX_TEXT - 1]}…"
    try:
        infinite = kind is None and np.isinf(number_of(cell))
    except (ValueError, TypeError):
        infinite = False
    return f"'{shown}' is {'not finite' if infinite else kind or 'not a number'}"
