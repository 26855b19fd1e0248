"""The records that a case file adds, [records] name = "module:function", as functions."""

from collections.abc import Callable
from pathlib import Path

from ..errors import CaseError
from ..solving.registry import check_records
from .functions import imported
from .schema import Case


def case_records(case: Case, folder: Path | None = None) -> dict[str, Callable]:
    """The functions of a case by the names of their records; modules in `folder` come first.

    Raises CaseError if one cannot be imported or its name is taken.
    """
    references = case.records or {}
    return check_records({name: _imported(name, references[name], folder) for name in references})


def _imported(record, reference, folder):
    try:
        return imported(reference, folder)
    except CaseError as error:
        raise CaseError(f"records.{record}: {error}") from error
