"""A run folder that is met again: whether it holds the very same case."""

import json
import subprocess
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ..case.functions import OwnFunctions
from ..case.load import toml_of
from ..case.preparation import Preparation
from ..case.schema.tables import Table
from ..errors import RunFolderError
from ..files.writing import checksum
from ..problem.problem import Problem
from ..solving.result import versions
from ..store.contents import read_header
from ..store.run import Run, load
from ..store.run_folder import static_arrays
from .error_bars import BROKEN_OFF, RESUMED


def mark_of(case: Table, problem: Problem, own: OwnFunctions) -> str | None:
    """SHA-256 of all that the numbers of a run depend on: case, mesh, data and how they were
    prepared, initial measure, users' functions by their sources, and the version and commit of
    hkflow. None if a source is not known.

    case : as it was asked for, with the random seed;  problem : that it states
    """
    prepare, test = problem.prepare, problem.test
    unknown = prepare is not None and not isinstance(prepare, Preparation)
    if unknown or any(one.source is None for one in [*own.functions(), *own.records.values()]):
        return None
    mesh: Any = problem.mesh and problem.mesh.arrays()
    signs: Any = problem.signs
    arrays = static_arrays(mesh, _data(problem.objective), signs)
    arrays |= {f"test/{name}": array for name, array in _data(test).items()} if test else {}
    words = [toml_of(case), own.model_dump(mode="json"), versions()["hkflow"], git_commit()]
    words += [prepare.model_dump(mode="json")] if prepare else []
    return checksum(arrays | _arrays("initial", problem.initial), json.dumps(words))


def _data(objective: Any) -> dict[str, NDArray]:
    return {name: getattr(objective, name) for name in ("inputs", "targets", "weights")}


def _arrays(name: str, value: Any) -> dict[str, NDArray]:
    """The arrays of an initial measure by names; parts that are absent have none."""
    if not is_dataclass(value):
        return {} if value is None else {name: value}
    parts = [_arrays(f"{name}/{one.name}", getattr(value, one.name)) for one in fields(value)]
    return {key: array for part in parts for key, array in part.items()}


def same_run(folder: Path, mark: str | None, accuracy: bool) -> Run | None:
    """The Run in a folder if it is marked as the same one; None if it is another, or if there is
    nothing to load or to resume. Of those made to reach an `accuracy` it is the last, or the first
    that was broken off, from which resuming goes on to the last."""
    try:
        if mark is None or read_header(folder).get("mark") != mark:
            return None
        found = load(folder)
        bars = found.errors
        if bars is None or not bars.judges:
            leads = "asked" in found.header
        else:
            leads = bars.limit != RESUMED
    except RunFolderError:
        return None
    return found if found.is_begun and (leads or not accuracy) else None


def is_whole(run: Run) -> bool:
    """Whether a run has come as far as it can, with all that its case asks for: to its end, or to
    where something stopped it for good: no signal, and no observer of the user."""
    stopped = run.end.get("signal", True) is None and not run.end.get("observed")
    as_far = run.finished or stopped
    # one that missed its accuracy says nothing of it: another was to follow
    judged = "accuracy" not in run.header or run.errors is not None and run.errors.judges
    return bool(run.missing is None and as_far and run.end.get("complete", True) and judged)


def has_all(folder: Path) -> bool:
    """Whether the run in a folder has reached its end, with all that its case asks for, in files
    that can be read: what resuming it leaves as it is. A max-margin may be missing, which is not
    always found in time."""
    try:
        run = load(folder)
        whole = run.finished and is_whole(run) and load(folder / "results.h5").finished
        errors, repeats, _ = run.errors, run.repeats, run.max_margin
    except RunFolderError:
        return False
    case = run.case
    many = getattr(case.method, "repeats", 1) > 1 and case.data.source != "arrays"
    asked = [(errors, case.error.companions != "none"), (repeats, many)]
    there = all(one is not None or not wanted for one, wanted in asked)
    broken_off = any(
        getattr(one, name, "").startswith(BROKEN_OFF)
        for one in (errors, repeats)
        for name in ("remark", "without")
    )
    return whole and there and not broken_off


@cache
def git_commit() -> str | None:
    """The commit of hkflow's own working tree, with "+" if it is modified; None if hkflow does not
    run from one. Asked for once: what a process has loaded stays what it was."""
    here = Path(__file__).resolve().parent

    def git(*words):
        return subprocess.run(
            ["git", "-C", str(here), *words], capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", Path(__file__).name)
        return git("rev-parse", "HEAD") + (
            "+" if git("status", "--porcelain", "--untracked-files=no") else ""
        )
    except (OSError, subprocess.CalledProcessError):
        return None
