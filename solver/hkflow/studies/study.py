"""A study from its file to its tables: what is missing is computed, then all of it is measured."""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ..analysis.convergence import ConvergenceTable, convergence_table
from ..analysis.measures import errors_of, values_of
from ..arguments import Floats
from ..case.accuracy import dimension
from ..case.build import has_exact
from ..case.load import parse_toml
from ..case.resolve import resolve
from ..errors import CaseError, RunFolderError
from ..files.reading import DAMAGE, find, open_hdf5, read
from ..files.userfiles import named
from ..running.beside import cores
from ..solving.interrupts import unless_ctrl_c
from ..store.contents import WORK
from ..store.run import load, read_ending
from ..store.run_folder import lock
from .file import ERRORS, Member, Study, StudyTable, load_study, resolution
from .members import as_member, compute_all, is_finished, key_of
from .report import AGAINST, markdown, write_report

WRITTEN = ("table.md", "table.tex", "table.csv", "figure.png", "figure.pdf")  # beside study.h5
ROUNDING = 1e-13  # errors below it are rounding, without an order


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of a member: its run's folder, whether it finished, the sentence how, errors,
    values and work by name.

    problem : the sentence why its errors could not be measured, or ""
    """

    member: Member
    folder: Path
    finished: bool
    status: str
    errors: dict
    values: dict
    work: dict
    problem: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class StudyResult:
    """A study that was run.

    study, folder;  outcomes : one for each member that is not a reference, in the order of the
    study
    against : one of exact, reference, finest, or "" without [refine];  names : of the errors
        measured
    h : (n_levels,) resolutions, None if the levels are no numbers;  signal : that interrupted it,
        or None
    """

    study: Study
    folder: Path
    outcomes: list[Outcome]
    against: str
    names: list
    h: Floats | None
    signal: int | None = None

    def __repr__(self):
        done = sum(outcome.finished for outcome in self.outcomes)
        return f"<StudyResult {self.folder}: {done} of {len(self.outcomes)} runs finished>"

    def _repr_markdown_(self):
        return markdown(self)

    @property
    def failed(self) -> list[Outcome]:
        """The outcomes of members that did not finish or could not be measured."""
        return [outcome for outcome in self.outcomes if not outcome.finished or outcome.problem]

    @property
    def complete(self) -> bool:
        """Whether every member finished and could be measured."""
        return not self.failed

    def of(self, group: int, level: int) -> list[Outcome]:
        """The outcomes of all repeats at one place."""
        return self._by_place.get((group, level), [])

    @cached_property
    def _by_place(self):
        places: dict[tuple[int, int], list[Outcome]] = {}
        for outcome in self.outcomes:
            places.setdefault((outcome.member.group, outcome.member.level), []).append(outcome)
        return places

    def levels(self) -> range:
        """The levels that have errors: all, less the finest if the others are measured against
        it."""
        count = len(self.study.levels)
        return range(count - 1 if self.against == "finest" else count)

    def errors(self, group: int, name: str) -> Floats:
        """(n_levels, repeats) errors of a group, nan where there is none."""
        return np.array(
            [[o.errors.get(name, np.nan) for o in self.of(group, level)] for level in self.levels()]
        )

    def convergence(self, group: int, name: str) -> ConvergenceTable | None:
        """The ConvergenceTable of an error of a group; None if its levels are no numbers or there
        is only one."""
        errors = self.errors(group, name)
        if self.h is None or len(errors) < 2:
            return None
        return convergence_table(self.h[: len(errors)], np.where(errors < ROUNDING, np.nan, errors))

    def verdicts(self) -> Iterator[tuple[int, str, Any, float, float, bool]]:
        """For each group and expected order: (group, name, fit, low, high, whether it holds)."""
        for name, (low, high) in self.study.table.expected.items():
            for group in range(len(self.study.groups)):
                table = self.convergence(group, name)
                fit = table.fit if table else None
                yield group, name, fit, low, high, fit is not None and low <= fit.order <= high

    @property
    def as_expected(self) -> bool:
        """Whether every expected order holds."""
        return all(verdict[-1] for verdict in self.verdicts())


def study(
    path: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    threads: int = 1,
    scheduler: str | None = None,
    watch: Callable[[int, int, tuple[bool, str] | None], object] | None = None,
    quick: bool = False,
) -> StudyResult:
    """Run what is missing of a study file and return its StudyResult; tables and study.h5 lie in
    its folder then.

    output : folder, by default studies/<name of the file>;  workers : runs at a time, as many as
        cores / threads if None
    threads : of each run;  scheduler : address of a Dask scheduler, which must see the same folder
    watch : called with (number of runs, done, the outcome of the last or None) as they end
    quick : the small version that the file's table [quick] makes of it
    Finished runs in the folder are used again: they are known by their resolved case, data files
    and version of hkflow.
    Raises CaseError if the study or one of its cases is wrong, and RunFolderError if the folder
    cannot be used, before anything is computed; and RunFolderError if the tables cannot be written.
    After Ctrl-C runs are saved, and KeyboardInterrupt has the StudyResult as its attribute `study`.
    """
    what = load_study(path, quick)
    _check_finest(what)
    dim = _dimension(what)
    folder = named(output or Path("studies") / what.name)
    runs = folder.resolve() / "runs"  # for processes that may run elsewhere
    folders = [runs / key_of(member.file) for member in what.members]
    tasks = {
        place: as_member(member.file, what.table.curves)
        for place, member in zip(folders, what.members, strict=True)
    }
    _refuse_others(folder, folders)
    # the finest take longest
    tasks = {place: tasks[place] for place in reversed(tasks) if not is_finished(place)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunFolderError(
            f"{folder}: cannot make the folder of the study ({error.strerror})."
        ) from error
    watch = watch or (lambda count, done, outcome: None)
    watch(len(tasks), 0, None)
    ended = []

    def tell(place, outcome):
        ended.append(place)
        watch(len(tasks), len(ended), outcome)

    workers = workers or max(1, cores() // threads)
    with lock(folder):
        outcomes, received = (
            compute_all(tasks, workers, threads, scheduler, tell) if tasks else ({}, None)
        )
        result = _measured(what, folder, folders, outcomes, received, dim)
        try:
            write_report(result)
        except OSError as error:
            raise RunFolderError(
                f"{error.filename}: cannot be written ({error.strerror}). Runs that are finished"
                " are used again: make room, then run the study once more."
            ) from error
    return unless_ctrl_c(result, "study", "The study was interrupted; the same call goes on.")


def _refuse_others(folder, members):
    """Raise RunFolderError if a folder is that of a run, or holds files of others that the study
    would write over; its own has study.h5, or a member's folder where it was broken off."""
    if (folder / "study.h5").exists() or any(place.exists() for place in members):
        return
    if (folder / "run.json").exists():
        raise RunFolderError(f"{folder}: is the folder of a run. Choose another one for the study.")
    if there := [name for name in WRITTEN if (folder / name).exists()]:
        raise RunFolderError(
            f"{folder}: there is no study here, and it would write over {there[0]}. Choose another"
            " folder for it."
        )


def _check_finest(what):
    """Raise CaseError unless the level that all others are measured against is the finest."""
    if _against(what) == "finest" and (h := resolution(what, 1)) is not None and h[-1] > h.min():
        raise CaseError(
            f"{what.name}: errors are measured against the last entry of [refine], which is not the"
            " finest; list them from coarse to fine."
        )


def _dimension(what):
    """d of the sphere of all members, by which h is told from cells; 1 where nothing is refined.

    Raises CaseError if they have several, and for faults of their data.
    """
    dims = set()
    for member in what.members if what.levels else []:
        if member.repeat == 0:
            try:
                dims.add(dimension(member.file.case, member.file.folder))
            except CaseError as error:
                raise CaseError(member.file.placed(error)) from error
    if len(dims) > 1:
        raise CaseError(
            f"{what.name}: cases on spheres of different dimensions"
            f" ({', '.join(f'd = {dim}' for dim in sorted(dims))}) have no mesh width in common;"
            " make a study of each."
        )
    return max(dims, default=1)


def _measured(what, folder, folders, outcomes, received, dim):
    """The StudyResult of what lies in the folders."""
    read = lru_cache(maxsize=4)(
        lambda place: load(place / "results.h5") if is_finished(place) else None
    )
    places = dict(zip(((m.group, m.level, m.repeat) for m in what.members), folders, strict=True))
    against, found = _against(what), []
    for member, place in zip(what.members, folders, strict=True):
        if member.level < 0:
            continue
        errors, problem, values, work = {}, "", {}, dict.fromkeys(WORK, np.nan)
        finished, status = outcomes.get(place, (False, "Not computed yet."))
        try:
            if is_finished(place):
                records, end = read_ending(place / "results.h5", what.table.values)
                finished, status = True, end["status"]
                values = values_of(records, what.table.values)
                work |= {name: end[name] for name in WORK}
            # the rest of a run is wanted for its errors alone
            judges = against == "finest" and member.level == len(what.levels) - 1
            if what.levels and not judges and (run := read(place)) is not None:
                errors, problem = _errors(
                    run, against, read, _reference(what, places, member, against)
                )
        except RunFolderError as error:  # of one member, as where another process resumes it
            finished, problem = False, str(error).removesuffix(".")
            if (place / "results.h5").exists():
                problem += "; without this file, the same study makes it again"
        found.append(Outcome(member, place, finished, status, errors, values, work, problem))
    measured = {name for outcome in found for name in outcome.errors}
    names = [name for name in what.table.errors or ERRORS if name in measured]
    return StudyResult(
        what,
        folder,
        found,
        against,
        names,
        resolution(what, dim) if what.levels else None,
        received,
    )


def _against(what):
    """What errors are measured against."""
    if not what.levels:
        return ""
    if what.table.against or what.table.reference:
        return what.table.against or "reference"
    return (
        "exact"
        if all(has_exact(resolve(member.file.case, member.file.folder)) for member in what.members)
        else "finest"
    )


def _reference(what, places, member, against):
    """The folder of the run that a member is measured against; None for the exact solution."""
    if against == "exact":
        return None
    return places[
        (member.group, -1 if against == "reference" else len(what.levels) - 1, member.repeat)
    ]


def _errors(run, against, read, place):
    """The errors of a run, and "" or the sentence why there are none."""
    reference = read(place) if place else None
    if reference is None:
        if against != "exact":
            return {}, "its reference did not finish"
        if run.problem.exact is None:
            return {}, "it has no exact solution"
    try:
        return errors_of(run, reference), ""
    except (ValueError, CaseError) as error:
        return {}, str(error)


def read_study(folder: str | os.PathLike[str]) -> StudyResult:
    """The StudyResult that lies in the folder of a study, as its study.h5 has it: without the cases
    of its members.

    Raises RunFolderError if there is none or it is damaged.
    """
    folder = named(folder)
    try:
        return _read_study(folder)
    except DAMAGE as error:
        raise RunFolderError(
            f"{folder}: no study here, or a damaged one (study.h5: {error})."
        ) from error


def _read_study(folder):
    with open_hdf5(folder / "study.h5") as file:
        attrs = {name: str(file.attrs[name]) for name in ("study", "groups", "levels", "against")}
        columns = {name: read(find(file, name, h5py.Dataset), text=True) for name in file}
    table = StudyTable.model_validate(parse_toml(attrs["study"], "study"))
    groups, levels = json.loads(attrs["groups"]), json.loads(attrs["levels"])
    tables = [*groups, *levels] if isinstance(groups, list) and isinstance(levels, list) else []
    if not groups or not tables or not all(isinstance(changes, dict) for changes in tables):
        raise ValueError("groups and levels are not lists of changes")
    rows, places = {column.shape for column in columns.values()}, len(groups) * max(1, len(levels))
    if len(rows) != 1 or len(columns["run"]) % places or attrs["against"] not in ("", *AGAINST):
        raise ValueError(
            f"{len(columns['run'])} runs and the lengths of columns do not fit {places} places"
        )
    errors = [name for name in table.errors or ERRORS if f"error {name}" in columns]
    count, found = len(columns["repeat"]) // (len(groups) * max(1, len(levels))), []
    for k, place in enumerate(columns["run"]):
        member = Member(
            k // (count * max(1, len(levels))),
            k // count % max(1, len(levels)),
            int(columns["repeat"][k]),
            None,
            {},
        )
        values = [
            {name: columns[key][k] for name, key in names}
            for names in (
                [(name, f"error {name}") for name in errors],
                [(name, name) for name in table.values],
                [(name, name) for name in WORK],
            )
        ]
        found.append(
            Outcome(
                member, folder / place, bool(columns["finished"][k]), columns["status"][k], *values
            )
        )
    study = Study(
        table,
        folder.resolve().name,
        attrs["study"],
        groups,
        levels,
        [outcome.member for outcome in found],
    )
    return StudyResult(study, folder, found, attrs["against"], errors, columns.get("h"))
