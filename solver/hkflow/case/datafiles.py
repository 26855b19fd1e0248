"""Data sets from files and from scikit-learn: rows of numbers and a label, checked line by line."""

import csv
import importlib.util
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..arguments import Floats, Integers
from ..errors import CaseError, unknown_name
from ..files.userfiles import open_text

Texts = NDArray[np.str_]
Labels = list[str | int] | None  # of one class


def read_csv(
    path: Path, delimiter: str, features: list[str] | None, label: str
) -> tuple[Floats, Texts, list[str]]:
    """The columns `features` (all but the label if None) and the column `label` of a CSV file with
    a header.

    Returns inputs (n, n_features), labels (n,) as text, and the names of the features.
    Raises CaseError naming the file and, where there is one, the line or the column.
    """
    places, rows = _read_table(path, delimiter, "data.file")
    features = [name for name in places if name != label] if features is None else features
    for key, names in (("features", features), ("label", [label])):
        for name in names:
            if name not in places:
                raise CaseError(f"data.{key}: {path}: {unknown_name('column', name, places)}")
    labels = np.array([row[places[label]].strip() for _, row in rows], dtype=str)
    return (
        _numbers(rows, {name: places[name] for name in features}, f"data.file: {path}"),
        labels,
        features,
    )


def lines_of(
    path: Path, delimiter: str, label: str, positive: Labels, negative: Labels
) -> Integers:
    """The lines of a CSV file, from 1, that the data stand in which `read_csv` and
    `targets_from_labels` make of it; (n,)."""
    header, rows = _read_table(path, delimiter, "data.file")
    at_label, wanted = (
        list(header).index(label),
        {str(name) for name in (*(positive or ()), *(negative or ()))},
    )
    return np.array(
        [line for line, row in rows if positive is None or row[at_label].strip() in wanted]
    )


def read_points(
    path: Path, axes: int
) -> tuple[list[list[float]], list[float] | None, list[float] | None]:
    """Point masses from a CSV file with a header: columns 'sign' and 'weight' where there are any,
    all others coordinates.

    Returns positions, signs and weights as lists; the last two None without their column.
    Raises CaseError naming the file and the line for what is no point of R^axes, no sign or no
    positive weight.
    """
    places, rows = _read_table(path, ",", "initial.file")
    values = _numbers(rows, places, f"initial.file: {path}")
    coordinates = [k for name, k in places.items() if name not in ("sign", "weight")]
    if len(coordinates) != axes:
        raise CaseError(
            f"initial.file: {path}: wanted {axes} columns of coordinates (the inputs, bias"
            f" included), got {len(coordinates)}."
        )
    for name, fits, wanted in (
        ("sign", lambda v: np.abs(v) == 1.0, "1 or -1"),
        ("weight", lambda v: v > 0.0, "a positive number"),
    ):
        if name in places and not (fine := fits(values[:, places[name]])).all():
            (line, _), wrong = rows[fine.argmin()], values[fine.argmin(), places[name]]
            raise CaseError(
                f"initial.file: {path}, line {line}: {name} is {wrong:g}, wanted {wanted}."
            )
    signs, weights = (
        values[:, places[name]].tolist() if name in places else None for name in ("sign", "weight")
    )
    return values[:, coordinates].tolist(), signs, weights


def _read_table(path, delimiter, key):
    """{column name: its place} and rows, each (line number, fields), of a CSV file."""
    try:
        with open_text(path, newline="") as stream:
            reader = csv.reader(stream, delimiter=delimiter)
            rows = [(reader.line_num, row) for row in reader if row]
    except OSError as error:
        raise CaseError(f"{key}: {path} cannot be read ({error.strerror}).") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise CaseError(f"{key}: {path} is not a readable CSV file: {error}.") from error
    if not rows:
        raise CaseError(f"{key}: {path} is empty; wanted a header line and rows of data.")
    if len(rows) == 1:
        raise CaseError(f"{key}: {path} has a header line only; wanted rows of data below it.")
    header = [name.strip() for name in rows[0][1]]
    places, width = {name: k for k, name in enumerate(header)}, len(header)
    if len(places) < len(header):
        twice = next(name for k, name in enumerate(header) if places[name] != k)
        raise CaseError(f"{key}: {path}: the header names column '{twice}' twice.")
    for line, row in rows[1:]:
        if len(row) != width:
            raise CaseError(
                f"{key}: {path}, line {line}: {len(row)} fields where the header has {width}."
            )
    return places, rows[1:]


def _numbers(rows, places, where):
    """The numbers (n, len(places)) of some columns; a cell without a finite one is looked for only
    if there is any."""
    try:
        cells = (float(row[k]) for _, row in rows for k in places.values())
        values = np.fromiter(cells, dtype=float, count=len(rows) * len(places)).reshape(
            len(rows), len(places)
        )
    except ValueError:
        values = None
    if values is None or not np.isfinite(values).all():
        for line, row in rows:
            for name, k in places.items():
                _number(row[k], f"{where}, line {line}, column '{name}'")
    return values


def read_scikit_learn(name: str, features: list[str] | None) -> tuple[Floats, Texts, list[str]]:
    """A data set shipped inside scikit-learn. Returns inputs, labels as text (class names or
    numbers), feature names."""
    if importlib.util.find_spec("sklearn") is None:
        raise CaseError(
            "data.source: 'scikit-learn' needs the package scikit-learn: pip install"
            " 'hkflow[data]'."
        )
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name.replace('-', '_')}")()
    names = [str(feature) for feature in bunch.feature_names]
    for feature in features or []:
        if feature not in names:
            raise CaseError(f"data.features: {unknown_name('feature', feature, names)}")
    inputs = np.asarray(bunch.data, dtype=float)
    if features:
        inputs = inputs[:, [names.index(feature) for feature in features]]
    classes = getattr(bunch, "target_names", None)
    labels = (
        [str(classes[t]) for t in bunch.target]
        if classes is not None
        else [repr(float(t)) for t in bunch.target]
    )
    return inputs, np.array(labels), features or names


def targets_from_labels(
    inputs: Floats, labels: Texts, positive: Labels, negative: Labels
) -> tuple[Floats, Floats]:
    """Rows with one of the listed labels and their targets ±1, or all rows with the label as a
    number.

    Raises CaseError if a listed label does not occur, if no label is listed and some label is no
    number.
    """
    if positive is None:
        return inputs, np.array(
            [
                _number(label, "data.label: without 'positive' and 'negative', label")
                for label in labels
            ]
        )
    groups = {
        "positive": [str(name) for name in positive],
        "negative": [str(name) for name in negative or ()],
    }
    for key, names in groups.items():
        for name in names:
            if name not in labels:
                raise CaseError(f"data.{key}: {unknown_name('label', name, set(labels.tolist()))}")
    plus, minus = np.isin(labels, groups["positive"]), np.isin(labels, groups["negative"])
    return inputs[plus | minus], np.where(plus, 1.0, -1.0)[plus | minus]


def _number(text, where):
    try:
        value = float(text)
    except ValueError:
        raise CaseError(f"{where}: {text.strip()!r} is not a number.") from None
    if not np.isfinite(value):
        raise CaseError(f"{where}: {text.strip()!r} is not finite.")
    return value
