"""The rows of a table that a case uses, with everything that is wrong with them: targets, weights,
missing values."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..arguments import Floats, Integers
from ..errors import CaseError, printable, unknown_name
from .cells import NOTHING, as_list, gaps_in, have_hashes, named_by, some, texts_of, values_of
from .columns import FAULTY, Cells, Columns, Faults, no_number, number_remedy, numbers
from .labels import is_missing, label_of, number_of, text_of
from .preparation import Encoding, Preparation
from .schema.data import Labelled

MAX_CLASSES = 100  # that all labels of a column are
MAX_CATEGORIES = 20  # of a column that is categorical because it holds no number
MAX_LINES = 5  # of rows, that a note names
LEAST_WEIGHT = 1e-300  # of the largest: rows that count for less count as much
ROUNDING = 1e-12  # of sums of weights: of categories that are as common the first one counts
REMEDY = (
    "Fill it in, or give data.missing = 'drop' (leaves such rows out) or 'impute' (takes means of"
    " inputs; leaves rows without a label or a weight out)."
)


@dataclass(frozen=True, eq=False)
class RawTable:
    """The rows of a table that a case uses.

    values : for each column of inputs (n,) numbers, nan where missing, or texts, None where missing
    targets : (n,);  weights : (n,) of sum 1, or None of rows that count alike
    lines : (n,) in the file, or rows from 1
    columns : an Encoding for each, without fill;  notes : what was done, sentences
    classes : names of the classes 0, 1, … that targets are; None of other targets
    """

    values: Sequence[Cells]
    targets: Floats
    weights: Floats | None
    lines: Integers
    columns: tuple[Encoding, ...]
    notes: tuple[str, ...]
    classes: list[str] | None

    def filled(self, training: Integers) -> "RawTable":
        """The same, whose columns with a gap are filled with what the training rows have: their
        mean, of categories the commonest."""
        columns, said = [], []
        weights = np.ones(len(training)) if self.weights is None else self.weights[training]
        for column, values in zip(self.columns, self.values, strict=True):
            gaps, seen, fill, shown = gaps_in(values), values[training], NOTHING, ""
            known = np.delete(np.arange(len(seen)), gaps_in(seen))
            if column.categories is None and len(known):
                fill = float(np.average(seen[known], weights=weights[known]))
                shown = f"its mean {fill:.6g}"
            elif len(known):
                names, which = np.unique(seen[known], return_inverse=True)
                counts = np.bincount(which, weights[known])
                fill = names[np.argmax(counts >= (1.0 - ROUNDING) * counts.max())]
                shown = f"its commonest category {fill}"
            if fill is None:
                raise CaseError(
                    f"data.missing: column '{printable(column.name)}' has no value to impute from."
                )
            columns.append(column.model_copy(update={"fill": fill}))
            if len(gaps):
                said.append(f"{len(gaps)} in '{printable(column.name)}' by {shown}")
        notes = (f"missing values imputed: {', '.join(said)}",) if said else ()
        return replace(self, columns=tuple(columns), notes=self.notes + notes)

    def encoded(self) -> Floats:
        """The inputs (n, k)."""
        pairs = zip(self.columns, self.values, strict=True)
        return np.column_stack([column.encoded(values) for column, values in pairs])


def raw_table(
    table: Labelled, columns: Columns, label: str, where: str, several: bool = False
) -> RawTable:
    """The rows and columns of a table that a case uses; what is missing is dropped if it says so.

    where : how messages on cells begin;  several : whether every label is a class
    Raises CaseError with everything that is wrong.
    """
    features = [name for name in columns.named if name not in (label, table.weight)]
    features = features if table.features is None else table.features
    _check_names(table, columns, features, label, where)
    if not len(columns.lines) and not columns.faults:
        raise CaseError(f"{where}: has no rows.")
    columns = _counting(table, columns)
    faults, notes = Faults(where, columns), list(columns.notes)
    if several:
        faults.refuse()  # rows that are none hide labels
    classes = _classes(table, columns.named[label], label, where) if several else None
    rows, targets = _targets(table, columns, label, faults, notes, classes)
    counted, weights = _weights(table, columns, rows, faults, notes)
    rows, targets = rows[counted], targets[counted]
    notes += [f"rows count by '{printable(table.weight)}'"] if table.weight is not None else []
    values, encodings = [], []
    for name in features:
        categorical = name in table.categorical
        found, wrong = values_of(columns, name, rows, categorical)
        if len(rows) and len(gaps_in(found, wrong)) == len(rows):
            faults.column(f"column '{printable(name)}' is empty: leave it out of data.features")
            continue
        cells = columns.named[name]
        others = cells[rows[wrong]]
        remedy = number_remedy(set(map(str, others.tolist())))
        infinite = wrong and np.isinf(found[wrong]).all()
        texts = not (remedy or infinite or cells.dtype.kind in FAULTY) and have_hashes(others)
        if texts and wrong and len(wrong) + len(gaps_in(found, wrong)) == len(rows):
            found, wrong = texts_of(cells[rows]), []
            _check_categories(name, found, faults)
        faults.cells(name, rows[wrong], no_number)
        if remedy:
            faults.remedies[remedy] = None
        elif wrong and (texts or cells.dtype.kind == "M"):
            meant = "texts are meant" if texts else "each date is a category"
            faults.remedies[f"If {meant}: data.categorical = ['{printable(name)}']."] = None
        values.append(found)
        if table.missing == "refuse":
            faults.missing(name, rows[gaps_in(found, wrong)], REMEDY)
        encodings.append(_encoding(name, found))
    faults.refuse()
    keep = np.ones(len(rows), dtype=bool)
    if table.missing == "drop":
        for found in values:
            keep[gaps_in(found)] = False
        if not keep.all():
            notes.append(f"{_count(~keep)} with missing values dropped{_at(columns, rows[~keep])}")
        values = [found[keep] for found in values]
        encodings = [
            _encoding(one.name, found) for one, found in zip(encodings, values, strict=True)
        ]
    for one in encodings:
        if one.categories is not None:
            many = len(one.inputs)
            notes.append(
                f"'{printable(one.name)}' becomes {many} input{'s' * (many > 1)}: "
                + some(one.inputs)
            )
    lines, shares = columns.lines[rows[keep]], _shares(weights, keep)
    return RawTable(values, targets[keep], shares, lines, tuple(encodings), tuple(notes), classes)


def test_rows(
    table: Labelled, columns: Columns, label: str, preparation: Preparation, where: str
) -> tuple[Floats, Floats, Floats | None, list[str]]:
    """Inputs (n, dim), targets (n,), weights (n,) of sum 1 or None, and notes of a second table,
    prepared as the training data are.

    where : how messages on cells begin
    Raises CaseError with everything that is wrong, and if no row is left.
    """
    names = [column.name for column in preparation.columns]
    for_names = table.model_copy(update={"features": names, "categorical": []})
    _check_names(for_names, columns, names, label, where)
    columns = _counting(table, columns)
    faults, notes = Faults(where, columns), list(columns.notes)
    classes = preparation.classes
    rows, targets = _targets(table, columns, label, faults, notes, classes, known=False)
    counted, weights = _weights(table, columns, rows, faults, notes)
    rows, targets = rows[counted], targets[counted]
    faults.refuse()
    chosen = {name: columns.named[name][rows] for name in names}
    found = replace(columns, source=where, named=chosen, lines=columns.lines[rows], faults=())
    inputs = preparation(found)
    keep = ~np.isnan(inputs).any(axis=1)
    if not keep.all():
        notes.append(f"{_count(~keep)} with missing values dropped{_at(columns, rows[~keep])}")
    if not keep.any():
        raise CaseError(f"{where}: no rows are left to test on.")
    return inputs[keep], targets[keep], _shares(weights, keep), [*notes, f"{keep.sum()} rows"]


def _check_names(table, columns, features, label, where):
    """Raise CaseError for names that no column has, all of them."""
    columns.check_header(where, label)
    wrong = [
        f"data.{key}: {where.partition(': ')[2]}: {unknown_name('column', name, columns.named)}"
        for key, names in (
            ("features", features), ("label", [label]), ("categorical", table.categorical),
            ("weight", [] if table.weight is None else [table.weight]),
        )
        for name in names
        if name not in columns.named
    ]  # fmt: skip
    wrong += [
        f"data.features: names '{printable(name)}' twice."
        for name, count in Counter(features).items()
        if count > 1
    ]
    if label in features:
        wrong.append(f"data.features: '{printable(label)}' is the label, so it is no input.")
    if table.weight in features:
        said = printable(table.weight)
        wrong.append(f"data.features: '{said}' is the weight of the rows, so it is no input.")
    if table.weight == label:
        wrong.append(f"data.weight: '{printable(label)}' is the label.")
    if not features:
        wrong.append(f"{where}: has no column besides the label '{printable(label)}'.")
    if wrong:
        raise CaseError("\n".join(wrong))


def _classes(table, cells, label, where):
    """Names of the classes that the labels of a column are: those listed, or all, sorted as
    numbers if they are."""
    if table.classes is not None:
        return [text_of(name) for name in table.classes]
    names: dict[str, str] = {}  # of several spellings the one that comes first
    for cell in dict.fromkeys(as_list(cells)):
        if not is_missing(cell):
            names.setdefault(label_of(cell), text_of(cell))
    if not 2 <= len(names) <= MAX_CLASSES:
        raise CaseError(
            f"{where}, column '{printable(label)}' has {len(names)} different labels; the loss"
            f" 'softmax' wants 2 to {MAX_CLASSES}, or those listed in data.classes. A number is"
            " regressed with the loss 'square'."
        )
    try:
        return sorted(names.values(), key=lambda name: (number_of(name), name))
    except ValueError:
        return sorted(names.values())


def _targets(table, columns, label, faults, notes, classes, known=True):
    """The rows that have a target, (n,), and their targets: numbers, or ±1, or 0, 1, … of
    `classes`; all labels that the table lists occur if they are `known`."""
    cells = columns.named[label]
    sides = {key: getattr(table, key) for key in ("positive", "negative")}
    listed = {"classes": classes} if classes else sides if table.positive else {}
    if not listed:
        targets, wrong = numbers(cells, columns.comma)
        gaps = gaps_in(targets, wrong)
        remedy = number_remedy(set(map(str, cells[wrong].tolist())))
        infinite = wrong and np.isinf(targets[wrong]).all()
        if wrong and not (remedy or infinite) and len(wrong) + len(gaps) == len(cells):
            found = sorted({str(cell).strip() for cell in cells[wrong]})
            shown = ", ".join(map(printable, found[:MAX_CATEGORIES]))
            faults.column(
                f"column '{printable(label)}': '{printable(found[0])}' is not a number; its labels"
                f" are {shown}{', …' if len(found) > MAX_CATEGORIES else ''}: list them in"
                " data.positive and data.negative, one class against the rest, or take the loss"
                " 'softmax', which tells all apart, or name a label that is a number"
            )
        else:
            faults.no_numbers(label, wrong)
        chosen = ~np.isin(np.arange(len(cells)), gaps)
    else:
        found = named_by(cells, label_of)
        if known and not columns.faults:  # which hide labels
            _check_labels(listed, cells, set(found.tolist()))
        if classes:
            values = {label_of(name): float(k) for k, name in enumerate(classes)}
        else:
            values = {
                label_of(name): value
                for key, value in (("negative", -1.0), ("positive", 1.0))
                for name in sides[key]
            }
        gaps = np.flatnonzero(np.equal(found, NOTHING))
        targets = np.array([values.get(name, np.nan) for name in found.tolist()])
        chosen = ~np.isnan(targets)
        if classes and table.classes is None:  # a label that no training row has
            unknown = np.setdiff1d(np.flatnonzero(~chosen), gaps)
            said = some(classes)
            faults.cells(label, unknown, lambda cell: f"'{printable(str(cell))}' is none of {said}")
        if others := int((~chosen).sum()) - len(gaps):
            notes.append(f"{others} of {len(cells)} rows have other labels and are left out")
    if table.missing == "refuse":
        faults.missing(label, gaps, REMEDY)
    elif len(gaps):
        notes.append(f"{_count(gaps)} without a label dropped{_at(columns, gaps)}")
    rows = np.flatnonzero(chosen)
    return rows, targets[rows]


def _counting(table, columns):
    """Columns without the rows of weight 0, whose other cells are not looked at."""
    if table.weight is None:
        return columns
    none = values_of(columns, table.weight, np.arange(len(columns.lines)))[0] == 0.0
    if not none.any():
        return columns
    note = f"{_count(none)} of weight 0 left out{_at(columns, np.flatnonzero(none))}"
    named = {name: cells[~none] for name, cells in columns.named.items()}
    notes = (*columns.notes, note)
    return replace(columns, named=named, lines=columns.lines[~none], notes=notes)


def _weights(table, columns, rows, faults, notes):
    """Which of some rows count, their places, and by what weights, None for all alike."""
    if table.weight is None:
        return np.arange(len(rows)), None
    values, wrong = values_of(columns, table.weight, rows)
    faults.no_numbers(table.weight, rows[wrong])
    negative = np.setdiff1d(np.flatnonzero(values < 0.0), wrong)
    faults.cells(
        table.weight, rows[negative], lambda cell: f"'{printable(str(cell).strip())}' is negative"
    )
    gaps = gaps_in(values, wrong)
    if table.missing == "refuse":
        faults.missing(table.weight, rows[gaps], REMEDY)
    elif len(gaps):
        notes.append(f"{_count(gaps)} without a weight dropped{_at(columns, rows[gaps])}")
    counted = np.flatnonzero(values > 0.0)
    return counted, values[counted]


def _shares(weights, keep):
    """The weights of the rows that are kept, a mask, divided by their sum; None as it is."""
    if weights is None or not keep.any():
        return None
    # no sum overflows, and rows that count next to nothing have a mean of their own
    kept = np.maximum(weights[keep] / weights[keep].max(), LEAST_WEIGHT)
    return kept / kept.sum()


def _check_labels(listed, cells, known):
    """Raise CaseError for listed labels that do not occur, all of them."""
    wrong = [
        (key, name)
        for key, names in listed.items()
        for name in names
        if label_of(name) not in known
    ]
    if wrong:
        choices = {str(cell).strip() for cell in cells.tolist() if not is_missing(cell)}
        said = [f"data.{key}: {unknown_name('label', name, choices)}" for key, name in wrong]
        raise CaseError("\n".join(said))


def _check_categories(name, texts, faults):
    """Add a fault if texts are too many to be categories."""
    count = len(set(texts.tolist()) - {None})
    if count > MAX_CATEGORIES:
        faults.column(
            f"column '{printable(name)}' holds {count} different texts and no number: leave it out"
            " of data.features, or list it in data.categorical if each is a category"
        )


def _encoding(name, values):
    if values.dtype.kind != "O":
        return Encoding(name=name)
    return Encoding(name=name, categories=sorted(set(values.tolist()) - {None}))


def _count(rows):
    """Some rows, a mask or places, in words."""
    rows = np.asarray(rows)
    many = int(rows.sum()) if rows.dtype == bool else len(rows)
    return f"{many} row{'s' * (many > 1)}"


def _at(columns, rows):
    """Where some rows are, in words."""
    lines = columns.lines[rows].tolist()
    more = ", …" if len(lines) > MAX_LINES else ""
    return (
        f" ({columns.unit}{'s' * (len(lines) > 1)} {', '.join(map(str, lines[:MAX_LINES]))}{more})"
    )
