"""Data sets from files, from frames and from scikit-learn, as columns; and point masses."""

import csv
import importlib.util
import io
import re
import zipfile
import zlib
from collections.abc import Iterable
from itertools import chain, islice
from pathlib import Path

import numpy as np

from ..arguments import Floats
from ..errors import CaseError, printable
from ..files.userfiles import open_text, size_of
from .columns import COMMA, THOUSANDS, Columns, Faults, no_number, numbers

DELIMITERS = (",", ";", "\t", "|")
NAMES = {";": "semicolons", "\t": "tabs", "|": "bars"}
SAMPLE = 50  # lines from which the delimiter is found
POINT = re.compile(r"\s*[+-]?\d*\.\d+([eE][+-]?\d+)?\s*")
# what a damaged file makes libraries say
UNREADABLE = (
    OSError, ValueError, TypeError, KeyError, EOFError, MemoryError, NotImplementedError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def read_columns(
    path: Path, delimiter: str | None = None, decimal: str | None = None, key: str = "data.file"
) -> Columns:
    """The columns of a file, by its ending: .parquet, .npy, .npz, and text of any other: CSV with a
    header line.

    delimiter, decimal : of text; found in it if None
    Raises CaseError, which begins with the key, if it is none.
    """
    kind = path.suffix.lower()
    if kind not in (".parquet", ".npy", ".npz"):
        return read_text_columns(path, delimiter, decimal, key)
    try:
        size_of(path)
        frame = _read_parquet(path, key) if kind == ".parquet" else _read_numpy(path)
        return Columns.of(frame, str(path))
    except UNREADABLE as error:
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise CaseError(
            f"{key}: {printable(path)} cannot be read ({reason.rstrip('.')})."
        ) from error


def _read_numpy(path):
    """The array of a .npy file, or those of a .npz file by name; no pickled objects."""
    found = np.load(path, allow_pickle=False)
    if not hasattr(found, "files"):
        return found
    with found:
        return {name: found[name] for name in found.files}


def _read_parquet(path, key):
    """A Parquet file as a table of pyarrow."""
    if importlib.util.find_spec("pyarrow") is None:
        raise CaseError(
            f"{key}: Parquet files need the package pyarrow: pip install 'hkflow[parquet]'."
        )
    from pyarrow import parquet

    return parquet.read_table(path)


def read_text_columns(
    path: Path, delimiter: str | None = None, decimal: str | None = None, key: str = "data.file"
) -> Columns:
    """The columns of a CSV file with a header line, as texts. A row of another width than the
    header's is a fault; columns without a name are left out, and that is noted."""
    try:
        with open_text(path, newline="") as stream:
            text = stream.read()
        delimiter = delimiter or _delimiter(text)
        header, cells, lines, faults = _fields(text, delimiter)
    except OSError as error:
        raise CaseError(f"{key}: {printable(path)} cannot be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise CaseError(
            f"{key}: {path} is not a readable CSV file: {error}. Save it as UTF-8."
        ) from error
    except csv.Error as error:
        raise CaseError(f"{key}: {path} is not a readable CSV file: {error}.") from error
    if not header:
        raise CaseError(f"{key}: {path} is empty; wanted a header line and rows of data.")
    if not len(lines) and not faults:
        raise CaseError(f"{key}: {path} has a header line only; wanted rows of data below it.")
    names = [name.strip() for name in header]
    places = {name: k for k, name in enumerate(names) if name}
    if twice := [name for k, name in enumerate(names) if name and places[name] != k]:
        said = ", ".join(f"'{printable(name)}'" for name in dict.fromkeys(twice))
        raise CaseError(f"{key}: {path}: the header names column {said} twice.")
    if decimal == delimiter == "," and '"' not in text:
        raise CaseError(
            f"{key}: {printable(path)}: commas separate its fields, so no number has a decimal"
            " comma: leave data.decimal out, or say in data.delimiter what separates them."
        )
    if decimal is None:
        may_be = delimiter != "," and "," in text
        decimal = _decimal(cells, lines, f"{key}: {path}") if may_be else "."
    notes = []
    if delimiter in NAMES:
        comma = " and numbers have a decimal comma" if decimal == "," else ""
        notes.append(f"fields are separated by {NAMES[delimiter]}{comma}")
    if unnamed := len(names) - len(places):
        notes.append(f"{unnamed} column{'s' * (unnamed > 1)} without a name left out")
    named = {name: np.array(cells[k], dtype=object) for name, k in places.items()}
    return Columns(str(path), named, lines, "line", decimal == ",", faults, tuple(notes))


def _fields(text, delimiter):
    """The header, the cells of each column, the lines of the rows, and the rows of another width as
    faults."""
    if '"' not in text and (plain := _plain_fields(text.replace("\r\n", "\n"), delimiter)):
        return plain
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    rows = [(reader.line_num, row) for row in reader if row]
    header, width = rows[0][1] if rows else [], len(rows[0][1]) if rows else 0
    faults = tuple(
        (line, f"line {line}: {len(row)} fields where the header has {width}")
        for line, row in rows[1:]
        if len(row) != width
    )
    whole = [(line, row) for line, row in rows[1:] if len(row) == width]
    cells = list(zip(*(row for _, row in whole), strict=True)) or [()] * width
    return header, cells, np.array([line for line, _ in whole], dtype=int), faults


def _plain_fields(text, delimiter):
    """The same of a text without quotes in which every line has as many fields as the header, which
    takes a third of the time; None of another."""
    text = text.removesuffix("\n")
    lines = text.split("\n")
    width, count = lines[0].count(delimiter) + 1, len(lines) - 1
    if "\r" in text or not count or any(line.count(delimiter) != width - 1 for line in lines):
        return None
    if width == 1 and "" in lines:  # an empty line is no row
        return None
    cells = text.replace("\n", delimiter).split(delimiter)
    columns = [cells[width + k :: width] for k in range(width)]
    return cells[:width], columns, np.arange(2, count + 2), ()


def _delimiter(text):
    """What separates the fields of a text: what gives all its first lines one number of fields, or
    its header most of them."""
    sample, found = "".join(islice(io.StringIO(text, newline=""), SAMPLE)), {}
    for delimiter in DELIMITERS:
        try:
            reader = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter)
            widths = [len(row) for row in reader if row]
        except csv.Error:
            continue
        found[delimiter] = (bool(widths) and set(widths) == {widths[0]}, widths[:1])
    fitting = {d: widths for d, (even, widths) in found.items() if even and widths[0] > 1}
    fitting = fitting or {d: widths for d, (_, widths) in found.items()}
    return max(fitting, key=lambda d: fitting[d], default=",")


def _decimal(columns, lines, where):
    """What the decimals of numbers follow, where fields are separated by something else than a
    comma: a comma if no number has a point, else a point. Raises CaseError where it may be
    thousands that follow the comma."""
    first, thousands = None, True
    for row, cell in chain.from_iterable(map(enumerate, columns)):
        if "," in cell and COMMA.fullmatch(cell):
            first = first or (row, cell.strip())
            if not THOUSANDS.fullmatch(cell):
                thousands = False
                break
    if first is None:
        return "."
    if any("." in cell and POINT.fullmatch(cell) for cell in chain.from_iterable(columns)):
        return "."  # and those with a comma are faults
    if thousands:
        raise CaseError(
            f"{where}, line {lines[first[0]]}: '{first[1]}' may have decimals or thousands behind"
            " its comma, as all such numbers of the file; data.decimal = ',' or '.' says which."
        )
    return ","


def all_numbers(columns: Columns, faults: Faults, names: Iterable[str]) -> dict[str, Floats]:
    """Some columns as numbers, (n,) each. Raises CaseError with all cells that are none, and with
    the faults that there are already."""
    values = {}
    for name in names:
        values[name], wrong = numbers(columns.named[name], columns.comma)
        faults.cells(name, wrong, no_number)
        faults.cells(name, np.setdiff1d(np.flatnonzero(np.isnan(values[name])), wrong), no_number)
    faults.refuse()
    return values


def read_points(
    path: Path, axes: int
) -> tuple[list[list[float]], list[float] | None, list[float] | None]:
    """Point masses from a CSV file with a header: columns 'sign' and 'weight' where there are any,
    all others coordinates.

    Returns positions, signs and weights as lists; the last two None without their column.
    Raises CaseError naming the file and all lines of what is no point of R^axes, no sign or no
    positive weight.
    """
    columns = read_text_columns(path, key="initial.file")
    faults = Faults(f"initial.file: {path}", columns)
    values = all_numbers(columns, faults, columns.named)
    coordinates = [name for name in columns.named if name not in ("sign", "weight")]
    if len(coordinates) != axes:
        raise CaseError(
            f"initial.file: {path}: wanted {axes} columns of coordinates (the inputs, bias"
            f" included), got {len(coordinates)}."
        )
    for name, fits, wanted in (
        ("sign", lambda v: np.abs(v) == 1.0, "1 or -1"),
        ("weight", lambda v: v > 0.0, "a positive number"),
    ):
        for row in np.flatnonzero(~fits(values[name])) if name in values else ():
            line = int(columns.lines[row])
            text = f"line {line}: {name} is {values[name][row]:g}, wanted {wanted}"
            faults.found.append((line, text))
    faults.refuse()
    signs, weights = (values[n].tolist() if n in values else None for n in ("sign", "weight"))
    return np.column_stack([values[n] for n in coordinates]).tolist(), signs, weights


def read_scikit_learn(name: str) -> tuple[Columns, str]:
    """The columns of a data set shipped inside scikit-learn, and the name of that of its labels:
    names of classes, or numbers."""
    if importlib.util.find_spec("sklearn") is None:
        raise CaseError(
            "data.source: 'scikit-learn' needs the package scikit-learn: pip install"
            " 'hkflow[data]'."
        )
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name.replace('-', '_')}")()
    columns = np.asarray(bunch.data, dtype=float).T
    named = {
        str(feature): cells for feature, cells in zip(bunch.feature_names, columns, strict=True)
    }
    classes = getattr(bunch, "target_names", None)
    labels = np.asarray(bunch.target)
    if classes is not None:
        labels = np.array([str(classes[t]) for t in labels], dtype=object)
    return Columns.of(named | {LABEL: labels}, f"scikit-learn's {name}"), LABEL


LABEL = "its label"  # the column of a data set of scikit-learn
