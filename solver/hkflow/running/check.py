"""A case file, checked and built."""

from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ..case.accuracy import asks_for_accuracy, sized, with_method
from ..case.build import build_problem
from ..case.datasets import read_named
from ..case.load import CaseFile, case_of_tables, load_case
from ..case.randomness import DYNAMICS
from ..case.records import case_records
from ..case.resolve import resolve
from ..case.schema.case import Case
from ..errors import CaseError, HkflowError
from ..methods.choice import make_method
from ..methods.method import Method
from ..objectives.own import check_own
from ..problem.flow import RateError
from ..problem.problem import Problem
from ..solving.result import Result
from ..store.run import load

TIMES = 1001  # at which rates that vary are looked at beforehand


def check(case: str | Path | dict | CaseFile, **overrides: Any) -> tuple[Case, Problem]:
    """Read and check a case file, or the tables of one, its data and whether its method fits
    included, without computing or writing. Returns (resolved case, problem)."""
    return build_all(read_case(case, overrides))[:2]


def build_all(file: CaseFile) -> tuple[Case, Problem, Method]:
    """The resolved case of a CaseFile, its Problem and the method of that; raises CaseError, which
    names the file, for whatever a run would refuse."""
    resolved, problem = build_case(file)
    records_of(resolved, file)
    return resolved, problem, build_method(problem, resolved, file)


def read_case(case: str | Path | dict | CaseFile, overrides: dict) -> CaseFile:
    """The CaseFile of a path or of tables, or one as it is."""
    if isinstance(case, CaseFile):
        return case
    if not isinstance(case, dict | str | PathLike):
        raise CaseError(
            f"Wanted a case file, its tables or a Problem, got a {type(case).__name__}. The Problem"
            " that 'check' returns beside a case is run by run(problem, end=…)."
        )
    return case_of_tables(case, overrides) if isinstance(case, dict) else load_case(case, overrides)


def build_case(file: CaseFile) -> tuple[Case, Problem]:
    """The resolved case of a CaseFile and its Problem; raises CaseError, which names the file.

    Of a case that asks for an accuracy it is the coarse one with which that begins.
    """
    try:
        if asks_for_accuracy(file.case):
            file = replace(file, case=sized(*with_method(file.case, file.folder)))
        named, data = read_named(file.case, file.folder)
        resolved = resolve(named, file.folder, data)
        problem = build_problem(resolved, file.folder, data, _earlier(file))
        if problem.flow.time_variable == "time" and resolved.time.until_margin is None:
            _check_rates(problem.flow, resolved.time.end)
        return resolved, problem
    except CaseError as error:
        raise CaseError(file.placed(error)) from error


def _check_rates(flow, end):
    """Raise CaseError if a rate that varies will be negative or no number, which ends a run."""
    try:
        flow.values(np.linspace(0.0, end, TIMES))
    except RateError as error:
        raise CaseError(f"flow: {error}") from error


def records_of(case: Any, file: CaseFile) -> dict[str, Callable]:
    """The functions of the records that a resolved case names; raises CaseError, which names the
    file, if one cannot be imported or its name is taken."""
    try:
        return case_records(case, file.folder)
    except CaseError as error:
        raise CaseError(file.placed(error)) from error


def _earlier(file: CaseFile) -> Result | None:
    """The run that a case starts from, if it does."""
    if file.case.initial.kind != "run":
        return None
    try:
        return load(file.case.initial.place(file.folder))
    except HkflowError as error:
        raise CaseError(f"initial.run: {error}") from error


# of [method], that the initial measure was made with
STARTING_KEYS = {"particles", "units", "points", "scale"}
BESIDE = {"repeats"}  # of [method], that says what is solved beside the run


def build_method(problem: Problem, case: Any, file: CaseFile | None = None) -> Method:
    """The method of a resolved case; raises CaseError, which names the file, for options and
    functions of a user's that do not fit."""
    options = {
        key: value
        for key, value in case.method.model_dump().items()
        if value is not None and key not in STARTING_KEYS | BESIDE
    }
    seed: dict[str, Any] = {}
    if case.method.kind in ("particles", "network"):
        stated = case.data.source == "arrays"  # as hkflow.solve takes it
        streams = np.random.SeedSequence(case.seed).spawn(DYNAMICS + 1)
        seed = {"seed": case.seed if stated else streams[DYNAMICS]}
    try:
        check_own(problem.objective)
    except ValueError as error:
        raise CaseError(str(error)) from error
    try:
        return make_method(problem, **options, **seed)
    except ValueError as error:
        said = f"method: {error}"
        raise CaseError(file.placed(said) if file else said) from error
