"""A case file, checked and built."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from ..case.accuracy import asks_for_accuracy, dimension, sized
from ..case.build import build_problem, read_named, resolve
from ..case.load import CaseFile, case_of_tables, load_case
from ..case.schema import Case
from ..errors import CaseError, HkflowError
from ..problem.problem import Problem
from ..solving.result import Result
from ..store.run import load


def check(case: str | Path | dict | CaseFile, **overrides: Any) -> tuple[Case, Problem]:
    """Read and check a case file, or the tables of one, its data included, without computing or
    writing. Returns (resolved case, problem)."""
    return build_case(read_case(case, overrides))


def read_case(case: str | Path | dict | CaseFile, overrides: dict) -> CaseFile:
    """The CaseFile of a path or of tables, or one as it is."""
    if isinstance(case, CaseFile):
        return case
    return case_of_tables(case, overrides) if isinstance(case, dict) else load_case(case, overrides)


def build_case(file: CaseFile) -> tuple[Case, Problem]:
    """The resolved case of a CaseFile and its Problem; raises CaseError, which names the file.

    Of a case that asks for an accuracy it is the coarse one with which that begins.
    """
    try:
        if asks_for_accuracy(file.case):
            file = replace(file, case=sized(file.case, dimension(file.case, file.folder)))
        resolved, data = read_named(resolve(file.case, file.folder), file.folder)
        return resolved, build_problem(resolved, file.folder, data, _earlier(file))
    except CaseError as error:
        raise CaseError(f"{file.source}: {error}") from error


def _earlier(file: CaseFile) -> Result | None:
    """The run that a case starts from, if it does."""
    if file.case.initial.kind != "run":
        return None
    try:
        return load(file.case.initial.place(file.folder))
    except HkflowError as error:
        raise CaseError(f"initial.run: {error}") from error
