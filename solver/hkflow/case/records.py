"""The records that a case file adds, [records] name = "module:function", as functions."""

from collections.abc import Callable
from pathlib import Path

from ..errors import CaseError
from ..solving.registry import check_records
from .functions import imported
from .schema import Case, ProblemCase


def case_records(case: Case | ProblemCase, folder: Path | None = None) -> dict[str, Callable]:
    """The functions of a case by the names of their records; modules in `folder` come first.

    Raises CaseError if one cannot be imported or its name is taken.
    """
    found = {}
    for name, reference in (getattr(case, "records", None) or {}).items():
        try:
            found[name] = imported(reference, folder)
        except CaseError as error:
            raise CaseError(f"records.{name}: {error}") from error
    return check_records(found)
