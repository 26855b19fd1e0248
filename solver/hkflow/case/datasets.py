"""The data of a case: read or drawn, prepared, divided into training and test data."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import psutil

from ..arguments import Floats, Integers
from ..errors import CaseError
from ..geometry.sphere import normalize
from ..objectives import data as generators
from ..objectives.activations import Feature
from ..objectives.losses import SOFTMAX
from .datafiles import read_columns, read_scikit_learn
from .functions import check_activation, feature_of
from .preparation import Encoding, Preparation
from .randomness import DATA, SPLIT, random_numbers
from .schema.arrays import ProblemCase
from .schema.case import Case
from .schema.data import Labelled, Prepared
from .schema.tables import Table
from .table_rows import raw_table, test_rows


@dataclass(frozen=True, eq=False)
class DataSet:
    """Data as the objective takes them.

    inputs : (n, dim) without the bias;  targets : (n,);  weights : (n,), or None for 1/n each
    preparation : that made the inputs from raw columns; None if they are as they were
    lines : (n,) of the rows in their text file, None of other data
    test : inputs (n_test, dim), targets (n_test,) and weights of what is held out, None for 1/n
        each; or None
    """

    inputs: Floats
    targets: Floats
    weights: Floats | None = None
    preparation: Preparation | None = None
    lines: Integers | None = None
    test: tuple[Floats, Floats, Floats | None] | None = None


GENERATORS = {
    "cluster-grid": generators.cluster_grid,
    "xor": generators.xor,
    "parity": generators.parity,
}


def teacher_of(case: Case | ProblemCase) -> tuple[Floats, Floats] | None:
    """Directions (units, columns) and output weights ±1 (units,) of the network that labels a
    case's data; None without one.

    Data that were standardized or projected have none: the network lives in other coordinates.
    Raises CaseError for given positions of another dimension.
    """
    data = case.data
    if (
        data.source not in ("teacher", "population")
        or data.source == "teacher"
        and (data.standardize or data.components)
    ):
        return None
    given = _given_teacher(case)
    return given or generators.teacher_units(
        random_numbers(case.seed, DATA), data.dim + case.objective.bias, data.units
    )


def _given_teacher(case):
    """Directions and output weights of the network that a [data] table names, None if random."""
    data, columns = case.data, case.data.dim + case.objective.bias
    if data.positions is None:
        return None
    if len(data.positions[0]) != columns:
        raise CaseError(
            f"data.positions: wanted vectors of R^{columns} (data.dim = {data.dim}, bias included),"
            f" got {len(data.positions[0])} numbers."
        )
    n = len(data.positions)
    outputs = np.array(data.signs or [1] * n) * np.array(data.weights or [1.0] * n)
    return normalize(np.array(data.positions)), outputs


def lines_of_data(case: Case | ProblemCase, folder: Path) -> Integers | None:
    """The lines (n,) of the text file that the data come from; None if they come from none."""
    if case.data.source not in ("csv", "file"):
        return None
    return read_data(case, folder, feature_of(case.objective.activation, folder)).lines


def input_names(
    case: Case | ProblemCase, count: int, preparation: Preparation | None = None
) -> list[str]:
    """Names of the inputs, for axes: those of the columns read, unless they were projected; else
    x₁, x₂, …"""
    names = preparation.input_names if preparation else getattr(case.data, "features", None)
    listed = getattr(case.data, "features", None) and case.data.components is None
    return list(names) if listed else generators.numbered("x", count)


def read_named(case: Case, folder: Path) -> tuple[Case, DataSet | None]:
    """The case with the columns written out that it reads, and its data, None if it has none."""
    if case.data.source in ("moment", "population", "none"):
        return case, None
    data = read_data(case, folder, feature_of(case.objective.activation, folder))
    if getattr(case.data, "features", ()) is None:
        names = [column.name for column in data.preparation.columns]
        case = case.model_copy(update={"data": case.data.model_copy(update={"features": names})})
    if (classes := getattr(data.preparation, "classes", None)) and case.data.classes is None:
        case = case.model_copy(update={"data": case.data.model_copy(update={"classes": classes})})
    return case, data


def read_data(case: Case, folder: Path, feature: Feature) -> DataSet:
    """The data as the [data] table asks;  feature : of a teacher."""
    data = case.data
    check_room(data)
    rng = random_numbers(case.seed, DATA)
    split = random_numbers(case.seed, SPLIT)
    if isinstance(data, Labelled):
        return _read_table(data, folder, split, case.objective.loss == SOFTMAX.name)
    weights = None
    if data.source == "inline":
        inputs, targets, weights = _inline(data)
    else:
        if data.source == "teacher":
            axes = data.dim + case.objective.bias
            check_activation(feature, np.random.default_rng(0).standard_normal((4, axes)), axes)
        try:
            inputs, targets = distribution(case, rng, feature)(rng, data.n)
        except ValueError as error:
            raise CaseError(f"data: {error}") from error
    preparation = None
    if data.standardize or data.components:
        names = [f"inputs[{k}]" for k in range(inputs.shape[1])]
        preparation = Preparation(columns=[Encoding(name=name) for name in names])
    training, held_out = _parts(data, split, len(inputs))
    return _divided(data, inputs, targets, weights, preparation, training, held_out)


def _parts(data, rng, n):
    """The numbers of the training rows and of those that are held out, in order; None if all are
    training data."""
    if data.test_fraction is None:
        return np.arange(n), None
    count = round(data.test_fraction * n)
    if not 0 < count < n:
        raise CaseError(
            f"data.test_fraction: {data.test_fraction:g} of {n} rows leaves"
            f" {'none to test' if count == 0 else 'none to train'} on; choose another share."
        )
    order = rng.permutation(n)
    return np.sort(order[count:]), np.sort(order[:count])


def _divided(data, inputs, targets, weights, preparation, training, held_out, lines=None):
    """The DataSet of encoded inputs (n, k), scaled and projected as the training rows are."""
    whole, shares = held_out is None, _weights_of(training, weights)
    if preparation is not None:
        # weights of inline data are those of the risk alone
        counts = shares if isinstance(data, Labelled) else None
        preparation = preparation.fitted(data, inputs if whole else inputs[training], counts)
        inputs = preparation.applied(inputs)
    if whole:
        return DataSet(inputs, targets, weights, preparation, lines)
    test = inputs[held_out], targets[held_out], _weights_of(held_out, weights)
    lines = None if lines is None else lines[training]
    return DataSet(inputs[training], targets[training], shares, preparation, lines, test)


def _weights_of(rows, weights):
    """The weights of some rows, of the same sum as those of all; None if there are none."""
    if weights is None:
        return None
    own = weights[rows]
    if weights.any() and not own.any():
        raise CaseError(
            "data.weights: all rows that data.test_fraction holds out, or all others, have weight"
            " 0; choose another share or seed."
        )
    return own * (weights.sum() / own.sum()) if own.any() else own


def _read_table(data, folder, split, several):
    """The DataSet of a table with labels; split : generator that draws what is held out;  several :
    whether every label is a class."""
    label, where = getattr(data, "label", None), "data.frame: the frame"
    if data.source == "scikit-learn":
        columns, label = read_scikit_learn(data.name)
        where = f"data.name: {data.name}"
    elif data.source == "frame":
        if data.frame is None:
            raise CaseError(
                "data.frame: the frame is one that a Python program holds; give it there:"
                " hkflow.run(case, data={'frame': frame})."
            )
        columns = data.frame
    else:
        columns = read_columns(folder / data.file, data.delimiter, data.decimal)
        where = f"data.file: {folder / data.file}"
    table = raw_table(data, columns, label, where, several)
    if len(table.targets) == 0:
        raise CaseError("data: no rows are left; at least one is needed.")
    training, held_out = _parts(data, split, len(table.targets))
    if data.missing == "impute":
        table = table.filled(training)
    notes = list(table.notes)
    if held_out is not None:
        notes.append(f"{len(held_out)} of {len(table.targets)} rows are held out as test data")
    classes = {
        key: None if getattr(data, key) is None else [str(name) for name in getattr(data, key)]
        for key in ("positive", "negative")
    }
    preparation = Preparation(
        columns=list(table.columns),
        label=label,
        classes=table.classes,
        refuses=data.missing == "refuse",
        notes=notes,
        **classes,
    )
    lines = table.lines if columns.unit == "line" else None
    made = _divided(
        data, table.encoded(), table.targets, table.weights, preparation, training, held_out, lines
    )
    if getattr(data, "test_file", None) is not None:
        path = folder / data.test_file
        where = f"data.test_file: {path}"
        columns = read_columns(path, data.delimiter, data.decimal, "data.test_file")
    elif (columns := getattr(data, "test_frame", None)) is not None:
        where = "data.test_frame: the test frame"
    else:
        return made
    *test, notes = test_rows(data, columns, label, made.preparation, where)
    said = made.preparation.notes + [f"test data: {note}" for note in notes]
    preparation = made.preparation.model_copy(update={"notes": said})
    return replace(made, preparation=preparation, test=tuple(test))


def check_room(data: Table) -> None:
    """Raise CaseError if generated data, or what generates them, are beyond the machine's
    memory."""
    rows = {key: getattr(data, key, 1) for key in ("n", "units", "clusters")} | {
        "clusters": getattr(data, "clusters", 1) ** 2
    }
    key = max(rows, key=rows.get)
    needed, there = 8 * rows[key] * getattr(data, "dim", 1), psutil.virtual_memory().total
    if needed > 0.25 * there:  # they are copied while they are made
        raise CaseError(
            f"data.{key}: the data need {needed / 1e9:.3g} GB several times, and this machine has"
            f" {there / 1e9:.1f} GB."
        )


def distribution(case: Case, rng: np.random.Generator, feature: Feature) -> Callable:
    """The function draw(rng, n) of a [data] table that names a distribution; what it fixes first
    comes from rng."""
    keys = case.data.model_dump(exclude={"source", "n", *Prepared.model_fields})
    if case.data.source == "teacher":
        network = _given_teacher(case)
        keys = {name: keys[name] for name in ("dim", "units", "classify", "margin")}
        return generators.teacher(rng, feature, bias=case.objective.bias, network=network, **keys)
    return GENERATORS[case.data.source](rng, **keys)


def _inline(data):
    lengths = {len(row) for row in data.inputs}
    if len(lengths) > 1:
        raise CaseError(f"data.inputs: rows have different lengths: {sorted(lengths)}.")
    for key in ("targets", "weights"):
        values = getattr(data, key)
        if values is not None and len(values) != len(data.inputs):
            raise CaseError(f"data.{key}: {len(values)} values for {len(data.inputs)} inputs.")
    return (
        np.array(data.inputs),
        np.array(data.targets),
        None if data.weights is None else np.array(data.weights),
    )
