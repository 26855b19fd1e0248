"""The records that a case file adds, [records] name = "module:function", as functions."""

from collections.abc import Callable, Collection
from pathlib import Path

from ..errors import CaseError
from ..solving.registry import check_records
from .functions import OwnFunctions, StoredFunction, home_of, imported
from .schema.arrays import ProblemCase
from .schema.case import Case


def case_records(case: Case | ProblemCase, folder: Path | None) -> dict[str, Callable]:
    """The functions of a case by the names of their records; modules in `folder` come first.

    Raises CaseError if one cannot be imported or its name is taken.
    """
    found = {}
    for name, reference in _named(case).items():
        try:
            found[name] = imported(reference, folder)
        except CaseError as error:
            raise CaseError(f"records.{name}: {error}") from error
    return check_records(found)


def stored_records(
    case: Case | ProblemCase, functions: dict[str, Callable], folder: Path
) -> dict[str, StoredFunction]:
    """What a run folder stores of the records that a case names.

    functions : those of `case_records`;  folder : of the case
    """
    return {
        name: StoredFunction.of(functions[name], reference, home_of(reference, folder))
        for name, reference in _named(case).items()
    }


def resumed_records(own: OwnFunctions, given: Collection[str], where: Path) -> dict[str, Callable]:
    """The functions by which a run goes on with the records that its case names.

    own : of its run folder `where`;  given : names of records that the caller has functions for
    Raises CaseError if one cannot be imported, or its source is not what it was.
    """
    found = {}
    for name, stored in own.records.items():
        if name in given:
            continue
        try:
            found[name] = stored.load(f"{where}: records.{name}", sourceless=True)
        except CaseError as error:
            remedy = f"hkflow.resume(folder, records={{'{name}': function}})"
            raise CaseError(f"{error} Or give a function for it: {remedy}.") from error
    return found


def _named(case):
    """References to functions by the names of their records."""
    return getattr(case, "records", None) or {}
