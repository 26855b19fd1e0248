"""Error bars of a run: estimated when it has ended, or later."""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from ..accuracy.companion import EXPECTED
from ..accuracy.companions import Watch, companions_of
from ..accuracy.companions import error_bars as bars_of
from ..accuracy.error_bars import ErrorBars
from ..case.build import build_problem
from ..case.datasets import DataSet
from ..case.mesh_cache import cached_mesh
from ..errors import CaseError, unknown_name
from ..problem.problem import Problem
from ..shown import as_typed
from ..solving.result import Result, ResultLike
from ..solving.solution import Solution
from ..solving.solve import save_times
from ..store.estimates import write_errors
from ..store.results import pack
from ..store.run import Run, load, loaded
from ..store.run_folder import lock
from .progress import counted

BROKEN_OFF, COMPANIONS = "broken off", ("all", "own")
RESUMED = "it was resumed; running the case again makes another"  # what misses its accuracy


def error_bars(run: ResultLike, companions: str = "all", quiet: bool = True) -> ErrorBars:
    """Estimate how far a Run, a Solution or a run folder is from the flow that it computes.

    Companions are computed: the same on fewer cells or points and with a tighter tolerance, and for
    grids by characteristics or particles, see `accuracy.companions`. They are estimates, no bounds;
    docs/explanation/accuracy.md says how often the true error lay within.

        bars = hkflow.error_bars(solution)
        print(bars)                    # the last save
        bars["predictions"]            # (n_saves,)

    companions : "all", or "own": without another method;  quiet : no progress
    Raises CaseError for other companions.
    """
    if companions not in COMPANIONS:
        raise CaseError(unknown_name("companions", companions, COMPANIONS))
    run = loaded(run)
    with counted("estimating errors", quiet) as watch:
        return bars_of(run, stated(run), companions == "all", cached_mesh, watch)


def stated(run: Result) -> Problem | None:
    """The problem as the run's case states it, where no save holds its start; None where a save
    does, or the case names files."""
    if not len(run.time) or run.time[0] == 0.0 or not isinstance(run, Run):
        return run.problem if not isinstance(run, Run) else None
    case = run.case
    elsewhere = case.initial.kind == "run" or getattr(case.initial, "file", None)
    if case.data.source == "arrays" or elsewhere or run.own.feature:
        return None
    return build_problem(case, Path(), DataSet(run.inputs, run.targets, run.weights))


class Judge(Protocol):
    """Judges a run that is made to an accuracy."""

    def judged(self, run: Run, problem: Problem, another: bool, watch: Watch | None) -> ErrorBars:
        """Its error bars; the arguments as of `accuracy.companions.error_bars`."""

    def told(self, run: Run, bars: ErrorBars) -> ErrorBars:
        """The bars, with the accuracy that was reached if no other run is made."""


def made_beside(run: Run, independent: bool) -> list[Solution]:
    """The companions that `estimated` will want when a run has ended that has begun.

    independent : whether to compute by another method, too
    """
    problem = replace(stated(run) or run.problem, test=None)
    times = save_times(run.case.time.end, run.case.time.saves)
    return companions_of(run, times, problem, independent, cached_mesh)


def estimated(
    run: Run,
    given: Problem | None,
    companions: str,
    quiet: bool,
    judge: Judge | None = None,
    ready: Sequence[Solution] = (),
) -> bool:
    """Estimate the errors of a run and write them into its folder; returns whether there is
    something to say of them.

    given : the Problem, if it was made in Python by functions that may not be such as can be
        imported
    ready : companions that were `made_beside` the run
    judge : of a run that is made to an accuracy, which needs bars whatever `companions` says
    """
    if (companions == "none" and judge is None) or not run.finished:
        return False
    try:
        problem = stated(run) or run.problem
        if given is not None:
            run = copy(run)
            problem = run.problem = replace(problem, objective=given.objective)
        problem, independent = replace(problem, test=None), companions == "all"
        with counted("estimating errors", quiet) as watch:
            if judge:
                bars = judge.judged(run, problem, independent, watch)
            else:
                bars = bars_of(run, problem, independent, cached_mesh, watch, ready=ready)
    except KeyboardInterrupt:
        bars = broken_off(run)
    except EXPECTED as error:  # which does not take back that the run is whole
        bars = ErrorBars(run.time, remark=str(error).rstrip("."))
    write_errors(run.path, judge.told(run, bars) if judge else bars)
    return True


def broken_off(run: Run) -> ErrorBars:
    """What is said of the errors of a run when their estimation was ended."""
    why = f"{BROKEN_OFF}; 'hkflow errors {as_typed(run.path)}' does it again"
    return ErrorBars(run.time, remark=why)


def keep(run: Run, bars: ErrorBars) -> None:
    """Write error bars into the run folder that they are of, and its results.h5 again; nothing for
    a run in one file.

    Raises RunFolderError if another run is there by now, or none.
    """
    run.check_place()
    path = run.path
    if not (path / "snap").is_dir():
        return
    with lock(path):
        run.check_place()
        write_errors(path, bars)
        pack(path, load(path))
