"""What a run predicts for the rows of a new table, as a CSV file."""

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from ..accuracy.quantities import bars_at
from ..arguments import Floats
from ..case.columns import Columns
from ..case.datafiles import read_columns
from ..case.preparation import Encoding, Preparation
from ..errors import CaseError, RunFolderError
from ..solving.result import Result
from .shown import is_normalised

# how its columns begin, and what it may have a line for
PREDICTION, UNITS = "prediction", ("line", "row")


def read_rows(run: Result, path: str | Path) -> Columns:
    """The columns of a file of new rows; what separates fields and decimals is as the run's case
    says, else found. Raises CaseError if the file cannot be read."""
    data = getattr(getattr(run, "case", None), "data", None)
    delimiter, decimal = (getattr(data, key, None) for key in ("delimiter", "decimal"))
    return read_columns(Path(path), delimiter, decimal, key="new rows")


def predicted(run: Result, columns: Columns) -> dict[str, Any]:
    """Columns (n,) by name, one entry for each row: its line, or row from 1; the prediction of the
    last save, or one for each class; the class, if the run tells some apart, "" where none leads;
    and the error bar of each prediction, if the run has one.

    Where the mass is beyond numbers they are predictions/mass. A row with a missing value that the
    run does not impute has the prediction nan.
    Raises CaseError with all cells that do not fit, and for columns that are not there;
    RunFolderError for a run without a save, or of energies without data.
    """
    if len(run.time) == 0:
        raise RunFolderError(f"{run.name}: holds no save yet, so it predicts nothing.")
    if not run.predicts:
        raise RunFolderError(f"{run.name}: energies without data predict nothing.")
    normalised = is_normalised((run, -1))
    inputs = run.prepare(columns if _is_named(run, columns) else _in_order(run, columns))
    with np.errstate(over="ignore", invalid="ignore"):  # of inputs near the largest numbers
        values = run.predict(inputs, -1, normalised, prepared=True)
    called = f"{PREDICTION}/mass" if normalised else PREDICTION
    names = run.class_names
    of_each = {f"{called} {name}": values[:, k] for k, name in enumerate(names)}
    table = {columns.unit: columns.lines} | (of_each or {called: values})
    known = ~np.isnan(values[:, 0] if names else values)
    if names:
        leads = np.sum(values == values.max(axis=1, keepdims=True), axis=1) == 1
        table["class"] = np.where(leads, np.array(names)[values.argmax(axis=1)], "")
    elif run.classifies:
        table["class"] = _classes(run.preparation, values)
    bars = run.errors
    if bars is not None and "predictions" in bars.bars and bars.normalised == normalised:
        table["error"] = np.where(known, bars_at(run, inputs), np.nan)
    return table


def write_table(table: dict[str, Any], stream: TextIO) -> None:
    """Write columns as CSV with a header, every number with all its digits; nothing for nan."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(table)
    for row in zip(*(np.asarray(column).tolist() for column in table.values()), strict=True):
        writer.writerow(["" if cell != cell else cell for cell in row])


def _is_named(run, columns):
    """Whether a run finds its inputs by the names of columns; those of an array of rows, which are
    of hkflow, only where it has more columns than these, as one that the run was made of."""
    if run.preparation is None:
        return False
    wanted = {column.name for column in run.preparation.columns}
    return not columns.named_by_place or wanted < set(columns.named)


def _in_order(run, columns) -> Columns | Floats:
    """The rows of a table as a run takes them where one of both has no names of columns: all its
    columns in their order."""
    made, cells = run.preparation, list(columns.named.values())
    names = list(columns.named) if made is None else [column.name for column in made.columns]
    count = run.inputs.shape[1] if made is None else len(names)
    if len(cells) != count:
        raise CaseError(
            f"{columns.source}: wanted {count} columns, the inputs of the run in their order, got"
            f" {len(cells)}: {', '.join(columns.named)}."
        )
    if made is None:
        return Preparation(columns=[Encoding(name=name) for name in names])(columns)
    return replace(columns, named=dict(zip(names, cells, strict=True)))


def _classes(preparation, values):
    """The label on whose side of zero each prediction lies; +1 and -1 where several labels share a
    side."""
    sides = getattr(preparation, "positive", None), getattr(preparation, "negative", None)
    plus, minus = (
        listed[0] if listed and len(listed) == 1 else sign
        for listed, sign in zip(sides, ("+1", "-1"), strict=True)
    )
    return np.where(values > 0.0, plus, np.where(values < 0.0, minus, ""))
