"""The study file: which case, what is refined, what is swept, what is measured. From TOML to a list
of members."""

import os
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tomlkit
from pydantic import Field, ValidationError, model_validator

from ..analysis.groups import full_labels_of
from ..arguments import Floats
from ..case.aliases import current
from ..case.lines import flat, lines_of, placed
from ..case.load import (
    OF_CASES,
    UNIONS,
    CaseFile,
    keys_of,
    load_case,
    parse_toml,
    read_toml,
    refuse_unfit,
    sentences,
)
from ..case.resolve import resolve
from ..case.schema.case import Case
from ..case.schema.tables import Count, Table
from ..errors import CaseError, led_by, printable, unknown_name
from ..shown import as_typed
from ..solving.registry import RECORDS
from ..store.contents import WORK

Values = dict[str, Any]
# keys whose numbers grow with resolution
COUNTED = ("cells", "particles", "units", "steps", "n", "noise_points", "batch")
# data that no random numbers make
GIVEN_DATA = ("csv", "file", "frame", "scikit-learn", "inline", "moment", "none")
MOST_MEMBERS = 100_000  # each is a run folder
# of every long table, beside values, errors and what varies
COLUMNS = ("h", "repeat", *WORK, "finished", "status", "run")
ERRORS = ("L1", "max", "W1", "predictions", "objective", "mass")


class StudyTable(Table):
    """A study file.

    Every key of a case can be set, refined or swept by its dotted name. Keys that are refined go
    together, entry by entry; so do those of one [[sweep]] table. Several [[sweep]] tables, a plain
    [sweep] with its keys one by one, and several cases multiply.
    """

    title: str = Field("", description="of tables and pictures")
    case: str | Annotated[list[str], Field(min_length=1)] = Field(
        description="case file, or several, relative to the study file"
    )
    repeats: Count = Field(
        1,
        description=(
            "runs with the seeds seed, seed + 1, …, whose errors are taken together; one where"
            " nothing depends on the seed"
        ),
    )
    set: Values = Field({}, description="overrides that all members share")
    refine: Values = Field(
        {}, description="lists of equal length, from coarse to fine: what orders are measured in"
    )
    sweep: Values | list[Values] = Field(
        {}, description="lists of values: every combination, or entry by entry in [[sweep]]"
    )
    reference: Values = Field(
        {}, description="overrides of the run that errors are measured against"
    )
    against: Literal["exact", "reference", "finest"] | None = Field(
        None,
        description=(
            "what errors are measured against; the reference if there is one, else the exact"
            " solution, else the finest"
        ),
    )
    errors: list[Literal[ERRORS]] | None = Field(  # type: ignore[valid-type]
        None, description="of a refinement; all that can be measured if absent"
    )
    values: list[str] = Field(
        ["objective", "mass"],
        description="last records, shown of a sweep; those of [records] of the cases too",
    )
    curves: list[str] = Field(
        [],
        description=(
            "records over time, which the figure then shows: a curve for each entry of the sweep,"
            " with a band over the repeats"
        ),
    )
    expected: dict[
        Literal[ERRORS],  # type: ignore[valid-type]
        Annotated[list[float], Field(min_length=2, max_length=2)],
    ] = Field({}, description="lowest and highest order that the fit of an error should have")
    quick: Values = Field(
        {},
        description=(
            "keys of this file as a small version of the study has them: hkflow study --quick"
        ),
    )

    @model_validator(mode="after")
    def _lists(self):
        for name, axes in (("refine", [flat(self.refine)]), ("sweep", _axes(self.sweep))):
            for key, values in (item for axis in axes for item in axis.items()):
                if not isinstance(values, list) or not values:
                    raise ValueError(f"{name}.{key}: wanted a list of values, got {values!r}")
        return self

    @model_validator(mode="after")
    def _makes_sense(self):
        lengths = {key: len(values) for key, values in flat(self.refine).items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(
                "keys of [refine] go together, so their lists must be equally long, got"
                f" {_counts(lengths)}"
            )
        if lengths and min(lengths.values()) < 2:
            raise ValueError("[refine] needs two values or more")
        if self.reference and not self.refine:
            raise ValueError("[reference] is for a study with [refine]")
        if self.against == "reference" and not self.reference:
            raise ValueError("against = 'reference' needs a table [reference]")
        if self.reference and self.against in ("exact", "finest"):
            raise ValueError(
                f"[reference] is not used with against = '{self.against}'; leave one out"
            )
        if not self.refine and (self.errors or self.expected or self.against):
            raise ValueError("errors, expected and against are for a study with [refine]")
        for name, (low, high) in self.expected.items():
            if not low <= high:
                raise ValueError(f"expected.{name}: the lowest order, {low:g}, is above {high:g}")
        for axis in _axes(self.sweep):
            lengths = {key: len(values) for key, values in axis.items()}
            if len(set(lengths.values())) > 1:
                raise ValueError(
                    "keys of one [[sweep]] go together, so their lists must be equally long, got"
                    f" {_counts(lengths)}"
                )
        return self


@dataclass(frozen=True)
class Member:
    """One run of a study.

    group, level, repeat : its place; level is the index in [refine], −1 for the reference;  file :
        its case
    changes : {dotted key: value}, what makes it differ from others of the study
    """

    group: int
    level: int
    repeat: int
    file: CaseFile = field(repr=False)
    changes: dict


@dataclass(frozen=True)
class Study:
    """A checked study: its table, name and text;  groups : {key: value} of what is swept;  levels :
    the same of what is refined, none without [refine];  members : all runs, those of the references
    included."""

    table: StudyTable
    name: str
    text: str
    groups: list
    levels: list
    members: list


def load_study(path: str | os.PathLike[str], quick: bool = False) -> Study:
    """Read a study file and every case in it, with the keys of its table [quick] if a small version
    is wanted.

    Raises CaseError with all faults of the study, or of its first wrong member.
    """
    path = Path(path)
    text = read_toml(path)
    tables = parse_toml(text, path)
    refuse_unfit(tables, path)
    if "case" not in tables and OF_CASES & tables.keys():
        raise CaseError(
            f"{path}: is a case, not a study: hkflow run {as_typed(path)}. A study names it: case ="
            f" '{path.name}'."
        )
    tables = current(tables, str(path), text)
    small = quick and isinstance(tables.get("quick", {}), dict)
    changes = tables.pop("quick", {}) if small else {}
    lines = lines_of(text, changes)
    if small:
        tables = _changed(tables, changes)
        text = tomlkit.dumps(tables)
    try:
        table = StudyTable.model_validate(tables)
    except ValidationError as error:
        raise CaseError(placed(sentences(error, StudyTable), str(path), lines)) from None
    cases = [table.case] if isinstance(table.case, str) else table.case
    axes = [[{"case": case} for case in cases]] + [_entries(axis) for axis in _axes(table.sweep)]
    levels = _entries(flat(table.refine))
    count = prod(map(len, axes)) * (len(levels) + bool(table.reference)) * table.repeats
    if count > MOST_MEMBERS:
        raise CaseError(
            f"{path}: a study has at most {MOST_MEMBERS:,} runs, got {count:,}: the entries of"
            " [sweep] times those of [refine] times repeats."
        )
    groups = [
        {key: value for part in parts for key, value in part.items()} for parts in product(*axes)
    ]
    members = []
    for g, group in enumerate(groups):
        swept = {key: value for key, value in group.items() if key != "case"}
        common = _merged(flat(table.set), swept)
        ends = [(-1, flat(table.reference))] if table.reference else []
        for level, changes in (*enumerate(levels), *ends):
            merged = _merged(common, changes)
            members += _repeated(path, g, level, group["case"], merged, table.repeats)
    records = {*RECORDS, *(name for m in members for name in m.file.case.records or ())}
    for key, names in (("values", table.values), ("curves", table.curves)):
        if unknown := [name for name in names if name not in records]:
            raise CaseError(f"{path}: {key}: {unknown_name('record', unknown[0], records)}")
    if taken := [name for name in table.values if name in COLUMNS]:
        raise CaseError(
            f"{path}: values: tables of studies have a column '{taken[0]}' already. Call the record"
            " otherwise."
        )
    if len(cases) == 1:
        groups = [{key: value for key, value in group.items() if key != "case"} for group in groups]
    return Study(table, path.stem, text, groups, levels if table.refine else [], members)


def _repeated(path, group, level, case, changes, repeats):
    """The checked members of a place, one for each repeat; messages say which place is wrong."""
    place, seeds = path.parent / case, None
    try:
        file = load_case(place, changes)
        resolve(file.case, file.folder)
        if repeats > 1 and needs_seed(file.case):
            seeds = range(file.case.seed, file.case.seed + repeats)
            load_case(place, changes | {"seed": seeds[-1]})  # the largest is a seed, too
    except CaseError as error:
        lead = f"{path}, with {printable(described(changes))}"
        raise CaseError(led_by(lead, error)) from None
    if seeds is None:
        return [Member(group, level, k, file, changes) for k in range(repeats)]
    cases = [file.case.model_copy(update={"seed": seed}) for seed in seeds]
    return [
        Member(group, level, k, replace(file, case=one), changes | {"seed": seed})
        for k, (one, seed) in enumerate(zip(cases, seeds, strict=True))
    ]


def needs_seed(case: Case) -> bool:
    """Whether another seed may change what a case computes; without it all repeats are one run."""
    drawn = case.data.source not in GIVEN_DATA or getattr(case.data, "test_fraction", None)
    method = case.method
    steps = getattr(method, "training", "") == "sgd" or getattr(method, "noise", "") == "random"
    return bool(drawn or case.is_drawn or steps or case.records)


def described(changes: dict[str, Any]) -> str:
    """Overrides in words: noise = 0.1, kind = wasserstein."""
    return (
        ", ".join(f"{key} = {readable(value)}" for key, value in changes.items())
        or "nothing changed"
    )


def readable(value: Any) -> str:
    """A value of a case as a reader wants to see it."""
    if isinstance(value, dict):
        return value.get("kind") or ", ".join(
            f"{key} {readable(inner)}" for key, inner in value.items()
        )
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    return Path(value).stem if str(value).endswith(".toml") else str(value)


def in_words(groups: list[Values]) -> list[dict[str, str]]:
    """Groups of a sweep with their values as a reader wants to see them: tables by their kinds and
    what else tells them apart."""
    words: list[dict[str, str]] = [{} for _ in groups]
    for key in groups[0]:
        texts = {repr(group[key]): readable(group[key]) for group in groups}
        tables = {repr(group[key]): group[key] for group in groups}
        if len(set(texts.values())) < len(texts):  # as of files of one name in several folders
            texts = {name: str(value).removesuffix(".toml") for name, value in tables.items()}
        if len(tables) > 1 and all(isinstance(table, dict) for table in tables.values()):
            labels = full_labels_of([flat(table) for table in tables.values()])
            texts = dict(zip(tables, labels, strict=True))
        for one, group in zip(words, groups, strict=True):
            one[key] = texts[repr(group[key])]
    return words


def resolution(study: Study, dim: int) -> Floats | None:
    """h of each level, from the first key of [refine] whose values are numbers and all different;
    None if there is none.

    number^(−1/d) for cells, one over the number for what is counted, else the value itself.
    """
    for key in study.levels[0]:
        values, last = [level[key] for level in study.levels], key.rsplit(".", 1)[-1]
        numbers = all(isinstance(value, int | float) and value > 0 for value in values)
        if numbers and len(set(values)) == len(values):
            power = (-1.0 / dim if last == "cells" else -1.0) if last in COUNTED else 1.0
            return np.array(values, dtype=float) ** power
    return None


def _changed(tables, changes):
    """Tables with some keys changed; lists are replaced as a whole, and so is a sweep."""
    inner = [
        key
        for key, value in changes.items()
        if isinstance(value, dict) and isinstance(tables.get(key), dict)
    ]
    return (
        tables
        | changes
        | {key: _changed(tables[key], changes[key]) for key in inner if key != "sweep"}
    )


def _merged(earlier, later):
    """Overrides of which the later count; where they choose the kind of a table, keys that this
    kind does not have are left out."""
    kept = dict(earlier)
    for table, choice in UNIONS.items():
        whole = later.get(table) if isinstance(later.get(table), dict) else {}
        kind = later.get(f"{table}.{choice}", whole.get(choice))
        if kind is None:
            continue
        fields = keys_of(table, kind) - {choice, *whole}
        for key in earlier:
            first, _, name = key.partition(".")
            if first == table and name.partition(".")[0] not in fields:
                del kept[key]
    return kept | later


def _axes(sweep):
    """The tables {key: list} whose entries multiply."""
    if isinstance(sweep, list):
        return [flat(axis) for axis in sweep]
    return [{key: values} for key, values in flat(sweep).items()]


def _entries(axis):
    """A table of equally long lists as a list of {key: value}; one entry without keys for an empty
    table."""
    if not axis:
        return [{}]
    return [dict(zip(axis, entry, strict=True)) for entry in zip(*axis.values(), strict=True)]


def _counts(lengths):
    return ", ".join(f"{count} for '{key}'" for key, count in lengths.items())
