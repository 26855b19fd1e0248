"""Cases that ask for an accuracy instead of cells, points and tolerance: made into cases that
name these."""

from pathlib import Path
from typing import Any

import numpy as np

from ..errors import CaseError
from ..geometry.domain import Domain
from .datasets import read_named
from .functions import built_in_feature
from .resolve import best_method_of, best_without_mesh
from .schema.case import Case, ErrorTable
from .schema.initial import GIVEN
from .schema.methods import TABLES

FIRST_POINTS = 256  # for each sign, of the coarse run on a sphere without meshes
MOST_POINTS = 400_000  # for each sign


def asks_for_accuracy(case: Case) -> bool:
    """Whether a case names an accuracy instead of cells, points and tolerance."""
    return getattr(case.method, "accuracy", None) is not None


def dimension(case: Case, folder: Path) -> int:
    """d of the sphere, from the data."""
    return _dimension_and_data(case, folder)[0]


def _dimension_and_data(case, folder):
    """d of the sphere, and the DataSet, None without one."""
    if case.data.source == "none":
        return case.domain.dim, None  # checked with the case
    named, data = read_named(case, folder)
    table: Any = named.data
    if data is not None:
        columns = data.inputs.shape[1]
    else:
        columns = len(table.direction) if table.source == "moment" else table.dim
    feature = built_in_feature(case.objective, data.targets if data else np.zeros(0))
    outputs = feature.joint * feature.outputs if feature else 0
    return columns + case.objective.bias - 1 + outputs, data


def with_method(case: Case, folder: Path) -> tuple[Case, int]:
    """A case that asks for an accuracy, with the method named that suits it if it is "auto"; and d
    of its sphere. Both depend on the data, which are read."""
    dim, data = _dimension_and_data(case, folder)
    table = case.method
    if table.kind != "auto":
        return case, dim
    kind, _ = best_method_of(case, data, Domain(dim).has_meshes)
    keys = table.model_dump(include=table.model_fields_set)
    method = TABLES[kind].model_validate(keys | {"kind": kind})
    return case.model_copy(update={"method": method}), dim


def first_size(dim: int) -> int:
    """Cells, or points for each sign, of the coarse run."""
    domain = Domain(dim)
    return domain.meshes.first if domain.has_meshes else FIRST_POINTS


def size_for(kind: str, dim: int, wanted: float) -> int:
    """The smallest number of cells that there is, or of points for each sign, of at least so many;
    the largest if there is none."""
    if kind == "grid":
        return Domain(dim).cells_for(wanted)
    return int(min(max(wanted, first_size(dim)), MOST_POINTS))


def is_largest(kind: str, dim: int, size: int) -> bool:
    """Whether no more cells or points are tried."""
    return size >= (Domain(dim).meshes.most if kind == "grid" else MOST_POINTS)


def sized(case: Case, dim: int, size: int | None = None, tolerance: float | None = None) -> Case:
    """A case whose method is named, with cells or points and tolerance in place of its accuracy;
    those of the coarse run if not given.

    Raises CaseError for a grid of a sphere without meshes.
    """
    table, size = case.method, size or first_size(dim)
    kind: str = table.kind
    if kind == "grid" and not Domain(dim).has_meshes:
        raise CaseError(
            f"method.accuracy: a grid needs a mesh, and directions lie on {Domain(dim).name}, of"
            f" which there is none. Set method.kind = '{best_without_mesh(case)}'."
        )
    keys = table.model_dump(include=table.model_fields_set - {"kind", "accuracy"})
    if tolerance is not None:
        keys["tolerance"] = tolerance
    domain = case.domain
    if kind == "grid":
        domain = domain.model_copy(update={"cells": size})
    elif case.initial.kind not in GIVEN:
        keys["particles"] = size * (1 if domain.kind == "sphere" else 2)
    method = TABLES[kind].model_validate({"kind": kind} | keys)
    own = case.error if case.error.companions != "none" else ErrorTable(companions="own")
    return case.model_copy(update={"domain": domain, "method": method, "error": own})
