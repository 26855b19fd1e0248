"""How columns become inputs: those of the training data, and of new rows of the same kind."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import model_validator

from ..arguments import Floats
from ..errors import CaseError, printable, unknown_name
from ..objectives.data import ConstantColumns, principal_axes, standardization
from .cells import NOTHING, gaps_in, quoted, some, values_of
from .columns import Cells, Columns, Faults, cells_of, no_number
from .schema.data import Prepared
from .schema.tables import Table, Vector

REMEDY_NEW = "Fill it in; a run with data.missing = 'impute' takes its own data's means instead."


class Encoding(Table):
    """How a column becomes inputs: a number one, categories one each, two categories a single one.

    categories : in order, or None of numbers;  fill : what stands in for a missing value, or None
    """

    name: str
    categories: list[str] | None = None
    fill: float | str | None = None

    @property
    def inputs(self) -> list[str]:
        """Names of the inputs."""
        if self.categories is None:
            return [self.name]
        return [f"{self.name}={category}" for category in self._shown]

    @property
    def _shown(self):
        """The categories that have an input."""
        return self.categories[-1:] if len(self.categories) == 2 else self.categories

    def encoded(self, values: Cells) -> Floats:
        """Numbers (n,), or texts (n,), as inputs (n, k); nan where there is no value."""
        if self.fill is not None:
            gaps = np.isnan(values) if self.categories is None else np.equal(values, NOTHING)
            values = np.where(gaps, self.fill, values)
        if self.categories is None:
            return values[:, None]
        found = np.equal(values[:, None], np.array(self._shown, dtype=object)).astype(float)
        found[np.equal(values, NOTHING)] = np.nan
        return found


class Preparation(Table):
    """What was done to the columns of the training data: encodings; then (x/size − mean)/spread of
    each input; then coordinates along `axes` from `center`. Lists; None for what was not done.

    label : the column of targets;  positive, negative : its labels that are +1 and −1, if it has
        two classes;  classes : its labels that are 0, 1, …, if there is an output for each
    refuses : whether a missing value is an error;  notes : what was done, sentences
    """

    columns: list[Encoding]
    size: Vector | None = None
    mean: Vector | None = None
    spread: Vector | None = None
    center: Vector | None = None
    axes: list[Vector] | None = None
    label: str = ""
    positive: list[str] | None = None
    negative: list[str] | None = None
    classes: list[str] | None = None
    refuses: bool = True
    notes: list[str] = []

    @model_validator(mode="after")
    def _fits_together(self):
        count, scales = len(self.input_names), (self.size, self.mean, self.spread)
        given = [scale for scale in scales if scale is not None]
        if len(given) not in (0, 3) or any(len(scale) != count for scale in given):
            raise ValueError(f"'size', 'mean' and 'spread' are not {count} numbers each")
        if given and not all(map(all, (self.size, self.spread))):
            raise ValueError("'size' or 'spread' is 0")
        rows = [] if self.axes is None else [self.center or [], *self.axes]
        if (self.axes is None) != (self.center is None) or any(len(r) != count for r in rows):
            raise ValueError(f"'center' and 'axes' are not of {count} numbers")
        return self

    @property
    def input_names(self) -> list[str]:
        """Names of the inputs before they are projected."""
        return [name for column in self.columns for name in column.inputs]

    def __call__(self, raw: Any) -> Floats:
        """Inputs (n, dim), as the run computes with them, of raw rows; nan in rows with a missing
        value, unless it is imputed.

        raw : Columns or a frame with the raw columns by name, or rows (n, columns) in their order
        Raises CaseError for a column that is not there and for cells that fit it not, all at once;
        ValueError for rows of another length.
        """
        columns = self._columns(raw)
        faults = Faults(columns.source, columns)
        absent = [column.name for column in self.columns if column.name not in columns.named]
        if absent:
            columns.check_header(columns.source, absent[0])
        for name in absent:
            said = unknown_name("column", name, columns.named)
            faults.column(said[0].lower() + said[1:])
        if absent:
            faults.refuse()
        rows, parts = np.arange(len(columns.lines)), []
        for column in self.columns:
            values, wrong = values_of(columns, column.name, rows, column.categories is not None)
            faults.cells(column.name, wrong, no_number)
            if column.categories is not None:
                known = np.isin(values.astype(str), [*column.categories, "None"])
                said = some(column.categories)
                faults.cells(
                    column.name,
                    np.flatnonzero(~known),
                    lambda cell, said=said: f"'{printable(str(cell).strip())}' is none of {said}",
                )
            if self.refuses:
                faults.missing(column.name, gaps_in(values, wrong), REMEDY_NEW)
            parts.append(column.encoded(values))
        faults.refuse()
        return self.applied(np.column_stack(parts))

    def _columns(self, raw):
        """Raw rows as Columns; rows without names by their order."""
        if isinstance(raw, Columns | Mapping) or hasattr(raw, "columns"):
            return Columns.of(raw)
        if hasattr(raw, "column_names") or getattr(getattr(raw, "dtype", None), "names", None):
            return Columns.of(raw)
        try:
            rows = np.atleast_2d(cells_of(raw))  # a sparse matrix is one cell, an object
        except ValueError as error:
            raise ValueError(
                f"Inputs must make an array of rows of one length: {error}."
            ) from error
        names = [column.name for column in self.columns]
        if rows.ndim != 2 or hasattr(raw, "toarray"):
            raise ValueError(
                f"Inputs must make an array of rows, (n, {len(names)}), got"
                f" {type(raw).__name__} of shape {np.shape(raw)}."
            )
        if rows.shape[1] != len(names):
            raise ValueError(
                f"Inputs need {len(names)} columns ({some(names)}), without the bias, got"
                f" {rows.shape[-1]}."
            )
        return Columns("inputs", dict(zip(names, rows.T, strict=True)), np.arange(1, 1 + len(rows)))

    def applied(self, inputs: Floats) -> Floats:
        """Encoded inputs (n, k), scaled and projected."""
        if self.size is not None:
            inputs = (inputs / np.array(self.size) - np.array(self.mean)) / np.array(self.spread)
        if self.axes is not None:
            inputs = (inputs - np.array(self.center)) @ np.array(self.axes).T
        return inputs

    def fitted(
        self, table: Prepared, inputs: Floats, weights: Floats | None = None
    ) -> "Preparation":
        """The same, with the scales and axes of encoded training inputs (n, k) that a case wants.

        weights : (n,) by which rows count; all alike if None
        Raises CaseError for a constant column, and for more components than there are.
        """
        update: dict[str, Any] = {}
        if table.standardize:
            try:
                scales = map(np.ndarray.tolist, standardization(inputs, weights))
            except ConstantColumns as error:
                drawn = table.test_fraction is not None
                raise CaseError(self._constant(error.args[1], len(inputs), drawn)) from error
            update = dict(zip(("size", "mean", "spread"), scales, strict=True))
        made = self.model_copy(update=update)
        if table.components is None:
            return made
        if table.components > min(inputs.shape):
            raise CaseError(
                f"data.components: {table.components} components of {inputs.shape[0]} rows with"
                f" {inputs.shape[1]} inputs."
            )
        center, axes = principal_axes(made.applied(inputs), table.components, weights)
        return made.model_copy(update={"center": center.tolist(), "axes": axes.tolist()})

    def _constant(self, places, rows, drawn):
        """What is wrong with inputs at some places, which have one value in all training rows;
        drawn : whether a seed chose these."""
        names = self.input_names
        owners = [column for column in self.columns for _ in column.inputs]
        inputs, columns = ([of[k] for k in places] for of in (names, owners))
        rare = drawn and any(column.categories is not None for column in columns)
        remedy = f"; leave {quoted(dict.fromkeys(column.name for column in columns))} out of"
        remedy += " data.features" + ", or choose another seed" * rare
        return (
            f"data.standardize: {quoted(inputs)} {'is' if len(inputs) == 1 else 'are'} constant in"
            f" the {rows} training rows and cannot be standardized{remedy * bool(self.label)}."
        )
