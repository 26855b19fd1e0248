"""The main job: a case in, a run folder out."""

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from multiprocessing import parent_process
from pathlib import Path
from typing import Any

import numba
import numpy as np

from ..arguments import check_options
from ..case.accuracy import asks_for_accuracy
from ..case.aliases import current
from ..case.datasets import lines_of_data
from ..case.described import described
from ..case.functions import OwnFunctions, own_feature
from ..case.load import CaseFile, case_of_tables, toml_of
from ..case.memory import estimated_memory
from ..case.preparation import Preparation
from ..case.records import resumed_records, stored_records
from ..certificates.contradiction import contradiction
from ..errors import CaseError, RunFolderError
from ..files.reading import DAMAGE
from ..files.userfiles import named
from ..files.writing import write_json
from ..measures.initial import CellDensity, PointsInCells
from ..methods.choice import kind_of, method_class
from ..operators.ranks import ALONE, Alone
from ..problem.problem import Problem
from ..solving.interrupts import unless_ctrl_c
from ..solving.observer import Observer, as_observers
from ..solving.registry import check_records, own_names
from ..solving.result import versions
from ..solving.solve import integrate, save_times
from ..store.contents import read_header
from ..store.run import Run, load
from ..store.run_folder import (
    FORMAT,
    POINTS,
    claim_folder,
    lock,
    prepare_resume,
    refuse_taken,
    refuse_used,
    write_problem,
    writing,
)
from ..store.run_writer import RunWriter
from . import ahead
from .again import git_commit, has_all, is_whole, mark_of, same_run
from .check import build_case, build_method, read_case, records_of
from .ending import ended
from .error_bars import Judge
from .forecast import Forecast
from .progress import PREPARING, ProgressBar, doing, next_place, say
from .signals import Signals, Unasked
from .watch import Watch

LARGE = 2e9  # bytes of a run beside which no companions are computed
# of a Problem, besides the options of its method
ARGUMENTS = (
    "end",
    "saves",
    "record_interval",
    "until_margin",
    "title",
    "seed",
    "certificate",
    "error",
)


def run(
    case: str | Path | dict | Problem | CaseFile,
    output: str | Path | None = None,
    force: bool | None = None,
    quiet: bool = True,
    observers: Sequence[Observer | Callable] = (),
    ranks: Alone = ALONE,
    records: Mapping[str, Callable] | None = None,
    watch: bool = False,
    **overrides: Any,
) -> Run:
    """Run a case, or a problem made in Python, and return its Run, with error bars.

    case : path of a TOML file, its tables {"data": {…}, …}, or a Problem
    output : run folder, by default runs/<name of the file>, runs/case or runs/problem
    force : what becomes of a used folder. By default the run of the very same case is loaded, or
        resumed if it was broken off, and any other run is moved aside; a line says so. True moves
        all runs aside, False refuses them, and so do several ranks by default. With observers or
        records of its own a run is never the same
    quiet : no progress bar, on a terminal or in a notebook;  observers : more of them (see
        solving.observer.Observer)
    records : further ones, {name: function of a State -> number}
    watch : with quiet=False on a terminal, curves of the records under the bar
    overrides : tables or dotted keys, run("a.toml", flow={"noise": 0.01}); of a Problem the
        arguments of hkflow.solve, run(problem, end=2.0, saves=5, kind="particles"), and seed and
        certificate={"seconds": …}, error={"companions": …}
    ranks : that compute the run together, each calling this: hkflow.ranks(). The first alone
        touches the folder and returns the Run, the others None
    Raises CaseError or RunFolderError before anything is written, if the case cannot be run as it
    stands; and RunFolderError if the folder can no longer be written. Ctrl-C ends it after the step
    under way, saved, with a KeyboardInterrupt that has the Run as its attribute `run`; on several
    ranks, and after SIGTERM, the Run is returned, with `signal`.
    """
    records, observers = check_records(records), as_observers(observers)
    with ranks.together():
        given = case if isinstance(case, Problem) else None
        file, own = ranks.all(
            lambda: _described(given, **overrides) if given else (read_case(case, overrides), None)  # type: ignore[arg-type]
        )
        folder = named(output or Path("runs") / file.name)
        force = bool(force) if ranks.size > 1 else force
        ranks.alike("cases or options", (file.case, str(folder), force))
        ranks.told(lambda: refuse_used(folder, force is not False))
        next_place()
        with doing(PREPARING, quiet):
            stated = ranks.all(lambda: _stated(file, given, own))
        to_accuracy = given is None and asks_for_accuracy(file.case)
        mark = mark_of(file.case if to_accuracy else stated.case, stated.problem, stated.own)
        met = force is None and not (observers or records)
        found = same_run(folder, mark, to_accuracy) if met else None
        if found is not None:
            return _met(found, given, quiet, watch)
        session = Session(quiet, watch, observers, ranks, records, given)
        if to_accuracy:
            from .accuracy import run_to_accuracy

            make = _maker(file, mark, session)
            made = run_to_accuracy(make, file, folder, force, ranks, quiet)
        else:
            made = _make(file, stated, folder, force, mark, session)
        return _unless_interrupted(made, ranks)


def _unless_interrupted(made, ranks):
    """A run that was made; on one rank `unless_ctrl_c`."""
    if ranks.size > 1:
        return made
    advice = "" if made.finished else f" hkflow.resume('{made.path}') goes on from there."
    return unless_ctrl_c(made, "run", made.status + advice)


@dataclass(frozen=True)
class Session:
    """Who computes a run, or goes on with it, and who looks on; as the arguments of `run`.

    records : {name: function of a State}, those that the case names included once it is read
    given : the Problem, if it was made in Python
    judge : of a run that is made to an accuracy;  asked : the CaseFile that asks for it
    """

    quiet: bool
    watch: bool
    observers: Sequence[Observer | Callable]
    ranks: Alone
    records: Mapping[str, Callable]
    given: Problem | None = None
    judge: Judge | None = None
    asked: CaseFile | None = None


@dataclass(frozen=True)
class Stated:
    """What a case states: resolved, as a Problem, and the functions of its user.

    records : functions that the case names;  own : all of them as a run folder stores them
    """

    case: Any
    problem: Problem
    records: dict[str, Callable]
    own: OwnFunctions


def _stated(file, given=None, own=None):
    """The Stated of a CaseFile, or of a Problem that was made in Python and its OwnFunctions."""
    case, problem = (file.case, given) if given else build_case(file)
    records = records_of(case, file)
    functions = own or own_feature(case.objective.activation, file.folder)
    kept = {"records": stored_records(case, records, file.folder)}
    return Stated(case, problem, records, functions.model_copy(update=kept))


def _met(found, given, quiet, watch):
    """The run that a folder holds already, resumed if it was broken off."""
    if is_whole(found):
        say(f"{found.path} holds this case and is loaded; force=True runs it again. {found.status}")
    else:
        say(f"{found.path} holds this case, and is resumed. {found.status}")
        found = resume(found.path, quiet, watch=watch)
    if given is not None:
        found.problem = given
    return found


def _maker(asked, mark, session):
    """The function of `run_to_accuracy` that makes a run folder of a case, for a CaseFile that asks
    for an accuracy."""

    def make(file, folder, force, judge):
        judged = replace(session, judge=judge, asked=asked)
        return _make(file, _stated(file), folder, force, mark, judged)

    return make


def _make(file, stated, folder, force, mark, session):
    """Make the run of a CaseFile in a folder; folder, force : as of `run`.

    mark : that its case is known by when the folder is met again, or None
    """
    case, problem, ranks = stated.case, stated.problem, session.ranks
    kept = {} if mark is None or session.observers or session.records else {"mark": mark}
    session = replace(session, records=stated.records | session.records)
    if ranks.size == 1:
        stepper = getattr(case.method, "stepper", None) or "auto"
        tolerance = getattr(case.method, "tolerance", None)
        proves = case.certificate.seconds > 0.0
        ahead.plan(problem, case.method.kind, stepper, proves, tolerance)
    with doing(PREPARING, session.quiet):
        method = ranks.all(lambda: build_method(problem.distributed(ranks), case, file))

    def begin():
        aside = claim_folder(folder, force is not False)
        if aside and force is None:
            say(f"What {folder} held is kept beside it as '{aside.name}'.")
        held.enter_context(lock(folder))
        refuse_taken(folder)
        columns = problem.objective.inputs.shape[1] - case.objective.bias
        inputs = problem.objective.inputs[:, :columns]
        header = _header(file, case, ranks) | _own(stated.own) | _prepared_by(problem)
        header |= _contradiction(problem, case, file.folder) | _start(problem) | kept
        header |= _asked(session, mark) if session.judge else {}
        with writing(folder):
            write_problem(folder, problem, inputs, header, _initial(problem, case))

    with ExitStack() as held:
        ranks.told(begin)
        made = _integrate(method, case, RunWriter(folder), session)
    if session.given and made:  # whose functions may not be such as can be imported
        made.problem = session.given
    return made


def _initial(problem, case):
    """The initial density (n_signs, n_cells) that only the run folder can tell later; None for the
    others."""
    unknown = problem.density is None or isinstance(problem.density, CellDensity)
    atoms = case.method.kind in ("characteristics", "particles") and unknown
    return problem.initial_parts[0] if atoms and problem.mesh is not None else None


def _described(problem, end=None, saves=2, record_interval=0.0, until_margin=None, title="",
               seed=0, certificate=None, error=None, **method):  # fmt: skip
    """The CaseFile of a Problem, and the OwnFunctions that it needs."""
    if end is None:
        raise CaseError("A Problem is run up to a time: run(problem, end=2.0).")
    kind = kind_of(problem, method.get("kind"))
    method = current({"method": method | {"kind": kind}}, "the problem")["method"]
    check_options(method, method_class(method["kind"]), "option", besides=("kind", *ARGUMENTS))
    saves = save_times(end, saves).tolist() if np.ndim(saves) else saves
    time = {"end": float(end), "saves": saves, "records": record_interval}
    time |= {} if until_margin is None else {"until_margin": until_margin}
    case, own = described(problem, time, method, title, seed, certificate, error)
    return CaseFile(case, toml_of(case), Path(), "problem", "the problem", {}), own


def _own(functions):
    """What run.json says of users' functions; nothing if there are none."""
    found = functions.model_dump(exclude_none=True, exclude_defaults=True)
    return {"own": found} if found else {}


def _prepared_by(problem):
    """What run.json says of how raw columns become inputs; nothing where they are taken as they are
    or by a function of the user."""
    made = isinstance(problem.prepare, Preparation)
    return {"preparation": problem.prepare.model_dump(exclude_none=True)} if made else {}


def resume(
    folder: str | Path,
    quiet: bool = True,
    observers: Sequence[Observer | Callable] = (),
    ranks: Alone = ALONE,
    records: Mapping[str, Callable] | None = None,
    watch: bool = False,
) -> Run:
    """Continue an interrupted run to the bits that it would have had without the interruption, and
    return its Run; one that has reached its end stays as it is.

    observers, watch, ranks : as for `run`, ranks as many as one likes; all must see the folder
    records : as for `run`. Those that the case names go on by themselves, by functions that are
        found where the run found them. Another record of the run that is not given is nan from here
        on, and the status says so; a new one is nan up to here
    Raises CaseError, with nothing changed, if a function of the case is not there any more or not
    what it was; Ctrl-C does what it does to `run`.
    """
    folder, given = Path(folder), check_records(records)
    observers = as_observers(observers)

    read: list[Run] = []

    def newest():
        own = OwnFunctions.model_validate(read_header(folder).get("own", {}))
        own.check(folder)
        resumed_records(own, given, folder)  # before anything is changed
        held.enter_context(lock(folder))
        with writing(folder):
            found = prepare_resume(folder)
            try:
                read.append(_read(folder))
            except RunFolderError:  # perhaps of what the repair cuts off or sets aside
                found[-1].make(folder)
                read.append(_read(folder))
        return found

    def repaired(repair, header):
        with writing(folder):
            repair.make(folder)
            if header["format"] != FORMAT:
                write_json(folder / "run.json", header | {"format": FORMAT})

    session = Session(quiet, watch, observers, ranks, given)
    with ranks.together(), ExitStack() as held:
        if not (observers or given) and ranks.told(lambda: has_all(folder)):
            made: Any = None if ranks.rank else load(folder)
            return made
        state, clock, checkpoint, seconds, repair = ranks.told(newest)
        stored = ranks.all(lambda: read[0] if read else load(folder))

        def go_on(judge=None):
            with doing(PREPARING, quiet):
                method = ranks.all(
                    lambda: build_method(stored.problem.distributed(ranks), stored.case)
                )
            ranks.all(lambda: _continue(method, state, clock, stored))
            ranks.told(lambda: repaired(repair, stored.header))
            of_case = ranks.all(lambda: resumed_records(stored.own, given, folder))
            judged = replace(session, records=of_case | given, judge=judge)
            remark = _on_missing(stored.records, judged.records, clock)
            writer = RunWriter(folder, checkpoint, seconds)
            made = _integrate(method, stored.case, writer, judged, clock, remark)
            held.close()  # where more than this run is made, it is moved aside
            return made

        wanted = stored.header.get("accuracy")
        made = _to_accuracy(go_on, stored, session) if isinstance(wanted, float) else go_on()
    return _unless_interrupted(made, ranks)


def _read(folder):
    """The Run in a folder, with what moved its atoms."""
    run = load(folder)
    run.history  # noqa: B018  # kept by the run
    return run


def _asked(session, mark):
    """What run.json says of a case that asks for an accuracy, by which it can be asked again: for
    the first of its runs, which is as planned."""
    case = session.asked.case.model_dump(mode="json", exclude_unset=True)
    asked = {"case": case, "folder": str(session.asked.folder.resolve()), "mark": mark}
    planned = mark and not session.judge.again
    return {"accuracy": session.judge.wanted} | ({"asked": asked} if planned else {})


def _to_accuracy(go_on, stored, session):
    """The run that a resumed one of those made to an accuracy comes to: where the files of its case
    are what they were, the coarse runs are made again, and what follows is that of an undisturbed
    one.

    go_on : function (judge) that makes the Run of the rest of it
    """
    from .accuracy import Attempt, run_to_accuracy

    alone = Attempt(None, stored.header["accuracy"])
    asked = _asked_again(stored) if session.ranks.size == 1 else None
    if asked is None:
        return go_on(alone)

    def begun(judge):
        resolved, _ = build_case(judge.choice.file)
        same = toml_of(resolved) == stored.header["resolved_case"]
        return go_on(judge if same else alone)

    make = _maker(asked, stored.header["asked"]["mark"], session)
    how = session.ranks, session.quiet
    return run_to_accuracy(make, asked, stored.path, True, *how, begun)


def _asked_again(stored):
    """The CaseFile that asked for the accuracy of a run; None unless it states what it did then."""
    try:
        asked, text = stored.header["asked"], stored.header["case"]
        file = replace(case_of_tables(asked["case"]), folder=Path(asked["folder"]), text=text)
        stated = _stated(file)
        same = mark_of(file.case, stated.problem, stated.own) == asked["mark"]
    except (CaseError, KeyError, TypeError):
        return None
    return file if same else None


def _on_missing(stored, records, clock):
    """A sentence on the user's records that cannot go on, or ""."""
    missing = [f"'{name}'" for name in own_names(stored) if name not in records]
    if not missing:
        return ""
    return (
        f" Not recorded after t = {clock.time:.6g}, for want of a function (`records` of"
        f" hkflow.resume): {', '.join(missing)}."
    )


def _integrate(method, case, writer, session, clock=None, remark=""):
    """Take the steps of a run, and what its case asks for after them; returns its Run, None on all
    ranks but the first.

    clock : of a run that goes on;  remark : added to its status
    """
    ranks, folder, own = session.ranks, writer.folder, as_observers(session.observers)
    several = ranks.size > 1
    signals = Signals(ranks, own if several else ())
    observers = [*(map(Unasked, own) if several else own), signals]
    if not ranks.rank:
        observers = [writer, *observers, *_forecast(method, case, folder, session, clock)]
        observers.append(ahead.WaitsForKernels())
        if not session.quiet:
            observers.append(Watch() if session.watch else ProgressBar())
    with signals, writer:
        clock, status, finished = integrate(
            method,
            save_times(case.time.end, case.time.saves),
            observers,
            clock=clock,
            record_interval=case.time.records,
            until_margin=case.time.until_margin,
            records=session.records,
            certifier=ahead.PatientCertifier,
        )
    said = {
        "status": status + remark,
        "finished": finished,
        "signal": signals.received,
        "steps": clock.step,
        "evaluations": clock.evaluations,
        "seconds": writer.seconds,
    }
    if session.observers and not finished:
        said["observed"] = True  # perhaps ended by them
    made: list[Run] = []

    def end():
        made.append(ended(folder, case, said, session.quiet, session.given, session.judge))

    ranks.told(end)
    if signals.received == signal.SIGTERM and parent_process() is not None:
        # the run has heard it in the place of a process whose pool waits for its end
        os.kill(os.getpid(), signal.SIGTERM)
    return made[0] if made else None


def _forecast(method, case, folder, session, clock):
    """Observers who look at what is to come: how long the run will take, and, for one that begins,
    its companions."""
    if case.time.until_margin is not None:
        return []  # when a margin is reached is not foreseen
    wanted, fresh = case.error.companions, clock is None
    plain = session.judge is None and session.given is None
    if fresh and plain and wanted != "none" and _leaves_room(case, method):
        return [Forecast(), ahead.AsksForCompanions(folder, wanted == "all")]
    return [Forecast()]


def _leaves_room(case, method):
    """Whether a run is small enough that its companions may be there at the same time."""
    if ahead.CURRENT.ahead is None:
        return False
    return estimated_memory(case, method.problem.objective) <= LARGE


def _continue(method, state, clock, stored):
    """Load a state into a method. Raises RunFolderError if it is not one of this method, or the
    clock not one of this case."""
    if "atom_weights" in method.state() and "atom_weights" not in state:
        raise RunFolderError(
            f"{stored.path}: begun by a version whose grid did not turn mass that kinks of ReLU"
            " capture into atoms; this one does, and would go on to other numbers. Run its case"
            " again in another folder; what is saved here can still be read."
        )
    try:
        times = save_times(stored.case.time.end, stored.case.time.saves)
        if clock.next_save < len(times) and times[clock.next_save] < clock.time:
            raise ValueError(
                f"its time is {clock.time:g}, and the next save {times[clock.next_save]:g}"
            )
        fresh, found = method.state(), {name: np.shape(value) for name, value in state.items()}
        for name, value in fresh.items():
            shape = found.get(name)
            if (
                shape is None
                or len(shape) != np.ndim(value)
                or stored.method == "grid"
                and not name.startswith("atom_")  # whose number changes
                and shape != np.shape(value)
            ):
                raise ValueError(f"'{name}' has the shape {shape}, wanted {np.shape(value)}")
        method.load(state)
        if method.history is not None and stored.history is not None:
            method.history.begin_with(stored.history)
    except DAMAGE as error:
        raise RunFolderError(
            f"{stored.path}: the state to continue from is not one of this run ({error}), or one of"
            " another version. Run its case again in another folder; what is saved here can still"
            " be read."
        ) from error


def _header(file, case, ranks):
    """What run.json holds besides the format."""
    return {
        "case": file.text,
        "resolved_case": toml_of(case),
        "title": case.title,
        "seed": case.seed,
        "threads": numba.get_num_threads(),
        "ranks": ranks.size,
        "versions": versions(),
        "commit": git_commit(),
    }


def _start(problem):
    """What run.json says of a start that cells alone do not tell: that they were given points."""
    return {"start": POINTS} if isinstance(problem.density, PointsInCells) else {}


def _contradiction(problem, case, folder):
    """Which data contradict each other, by their lines in a data file, for run.json; nothing if
    none do."""
    found = contradiction(problem.objective)
    return {"contradiction": found.sentence(lines_of_data(case, folder))} if found else {}
