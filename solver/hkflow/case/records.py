"""The records that a case file adds, [records] name = "module:function", as functions."""

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from ..errors import CaseError
from ..solving.registry import check_records
from .schema import Case


def case_records(case: Case, folder: Path | None = None) -> dict[str, Callable]:
    """The functions of a case by the names of their records; modules in `folder` come first.

    Raises CaseError if one cannot be imported or its name is taken.
    """
    references = case.records or {}
    return check_records({name: _imported(name, references[name], folder) for name in references})


def _imported(record, reference, folder):
    module, _, name = reference.partition(":")
    places = [] if folder is None else [str(Path(folder).resolve())]
    sys.path[:0] = places
    try:
        return getattr(import_module(module), name)
    except Exception as error:  # whatever the user's module says
        raise CaseError(
            f"records.{record}: '{reference}' cannot be imported ({type(error).__name__}: {error})."
            " Wanted module:function, of a module beside the case file or where Python looks;"
            " PYTHONPATH adds a folder."
        ) from error
    finally:
        del sys.path[: len(places)]
