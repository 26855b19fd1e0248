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
from ..case.load import CaseFile, toml_of
from ..case.memory import estimated_memory
from ..case.preparation import Preparation
from ..case.records import case_records, resumed_records, stored_records
from ..certificates.certificate import certifies_margin
from ..certificates.contradiction import contradiction
from ..errors import CaseError, RunFolderError
from ..files.reading import DAMAGE
from ..files.userfiles import named
from ..files.writing import write_json
from ..methods.choice import kind_of, method_class
from ..methods.method import Method
from ..operators.ranks import ALONE, Alone
from ..problem.problem import Problem
from ..solving.final_margin import final_max_margin
from ..solving.interrupts import Interrupts, unless_ctrl_c
from ..solving.observer import Observer, as_observers
from ..solving.registry import check_records, own_names
from ..solving.result import versions
from ..solving.solve import integrate, save_times
from ..solving.state import LoopState
from ..store.contents import read_header
from ..store.estimates import write_errors
from ..store.margins import write_max_margin
from ..store.results import add_to_packed, pack
from ..store.run import Run, load
from ..store.run_folder import (
    FORMAT,
    RunWriter,
    claim_folder,
    lock,
    prepare_resume,
    refuse_taken,
    refuse_used,
    write_problem,
    writing,
)
from . import ahead
from .again import git_commit, is_whole, mark_of, same_run
from .check import build_case, build_method, read_case
from .error_bars import broken_off, estimated
from .forecast import Forecast
from .progress import PREPARING, ProgressBar, doing, next_place, say, wait_for
from .repeats import repeated
from .watch import Watch

SAID = 1  # what an observer's sentence counts among the numbers of signals: less than they do
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
        mark = None
        if not (observers or records):
            mark = mark_of(file.case if to_accuracy else stated.case, stated.problem, stated.own)
        found = same_run(folder, mark, to_accuracy) if force is None else None
        if found is not None:
            return _met(found, given, quiet, watch)
        session = Session(quiet, watch, observers, ranks, records)
        if to_accuracy:
            from .accuracy import run_to_accuracy

            def make(file, folder, force, judge):
                return _make(file, _stated(file), folder, force, mark, session, judge=judge)

            made = run_to_accuracy(make, file, folder, force, ranks, quiet)
        else:
            made = _make(file, stated, folder, force, mark, session, given)
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
    """

    quiet: bool
    watch: bool
    observers: Sequence[Observer | Callable]
    ranks: Alone
    records: Mapping[str, Callable]


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
    records = case_records(case, file.folder)
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


def _make(file, stated, folder, force, mark, session, given=None, judge=None):
    """Make the run of a CaseFile in a folder; the arguments as of `run`.

    mark : that it is known by when the folder is met again, or None;  judge : of a run that
        is made to an accuracy
    """
    case, problem, ranks = stated.case, stated.problem, session.ranks
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
            say(f"{folder} held another run, which is kept beside it as '{aside.name}'.")
        held.enter_context(lock(folder))
        refuse_taken(folder)
        columns = problem.objective.inputs.shape[1] - case.objective.bias
        inputs = problem.objective.inputs[:, :columns]
        header = _header(file, case, ranks) | _own(stated.own) | _prepared_by(problem)
        header |= _contradiction(problem, case, file.folder) | ({"mark": mark} if mark else {})
        header |= {"accuracy": judge.wanted} if judge else {}
        with writing(folder):
            write_problem(folder, problem, inputs, header, _initial(problem, case))

    with ExitStack() as held:
        ranks.told(begin)
        made = _integrate(
            folder, method, case, RunWriter(folder), session, given=given, judge=judge
        )
    if given and made:  # whose functions may not be such as can be imported
        made.problem = given
    return made


def _initial(problem, case):
    """The initial density (n_signs, n_cells) that only the run folder can tell later; None for the
    others."""
    atoms = case.method.kind == "characteristics" and problem.density is None
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
    return its Run.

    observers, watch, ranks : as for `run`, ranks as many as one likes; all must see the folder
    records : as for `run`. Those that the case names go on by themselves, by functions that are
        found where the run found them. Another record of the run that is not given is nan from here
        on, and the status says so; a new one is nan up to here
    Raises CaseError, with nothing changed, if a function of the case is not there any more or not
    what it was; Ctrl-C does what it does to `run`.
    """
    folder, given = Path(folder), check_records(records)
    observers = as_observers(observers)

    def repair():
        header = read_header(folder)
        own = OwnFunctions.model_validate(header.get("own", {}))
        own.check(folder)
        resumed_records(own, given, folder)  # before anything is changed
        held.enter_context(lock(folder))
        with writing(folder):
            found = prepare_resume(folder)
            if header["format"] != FORMAT:
                write_json(folder / "run.json", header | {"format": FORMAT})
            return found

    with ranks.together(), ExitStack() as held:
        state, clock, checkpoint, seconds = ranks.told(repair)
        stored = ranks.all(lambda: load(folder))
        with doing(PREPARING, quiet):
            method = ranks.all(lambda: build_method(stored.problem.distributed(ranks), stored.case))
        ranks.all(lambda: _continue(method, state, clock, stored))
        of_case = ranks.all(lambda: resumed_records(stored.own, given, folder))
        session = Session(quiet, watch, observers, ranks, of_case | given)
        remark = _on_missing(stored.records, session.records, clock)
        writer = RunWriter(folder, checkpoint, seconds)
        judge = _judge_of(stored.header)
        made = _integrate(folder, method, stored.case, writer, session, clock, remark, judge=judge)
    return _unless_interrupted(made, ranks)


def _judge_of(header):
    """What judges a run that is resumed, None unless it is one of those made to an accuracy."""
    wanted = header.get("accuracy")
    if not isinstance(wanted, float):
        return None
    from .accuracy import Attempt

    return Attempt(None, wanted, True)


def _on_missing(stored, records, clock):
    """A sentence on the user's records that cannot go on, or ""."""
    missing = [f"'{name}'" for name in own_names(stored) if name not in records]
    if not missing:
        return ""
    return (
        f" Not recorded after t = {clock.time:.6g}, for want of a function (`records` of"
        f" hkflow.resume): {', '.join(missing)}."
    )


def _integrate(
    folder, method, case, writer, session, clock=None, remark="", given=None, judge=None
):
    """Take the steps of a run, and what its case asks for after them; returns its Run, None on all
    ranks but the first.

    clock : of a run that goes on;  remark : added to its status;  given, judge : as of `_make`
    """
    ranks, until = session.ranks, case.time.until_margin
    own = as_observers(session.observers)
    signals = Signals(ranks, own if ranks.size > 1 else ())
    observers = [*(map(Unasked, own) if ranks.size > 1 else own), signals]
    if not ranks.rank:
        # a margin that ends a run is not foreseen
        forecast = [Forecast()] if until is None else []
        wanted, fresh = case.error.companions, clock is None and judge is None and given is None
        if forecast and fresh and wanted != "none" and _leaves_room(case, method):
            forecast.append(ahead.AsksForCompanions(folder, wanted == "all"))
        observers = [writer, *observers, *forecast, ahead.WaitsForKernels()]
        if not session.quiet:
            observers.append(Watch() if session.watch else ProgressBar())
    with signals, writer:
        clock, status, finished = integrate(
            method,
            save_times(case.time.end, case.time.saves),
            observers,
            clock=clock,
            record_interval=case.time.records,
            until_margin=until,
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
    ended: list[Run] = []
    ranks.told(lambda: ended.append(_ended(folder, case, said, session.quiet, given, judge)))
    if signals.received == signal.SIGTERM and parent_process() is not None:
        # the run has heard it in the place of a process whose pool waits for its end
        os.kill(os.getpid(), signal.SIGTERM)
    return ended[0] if ended else None


def _ended(folder, case, said, quiet, given, judge):
    """Write how a run ended, pack it, and add what its case asks for besides; returns its Run.

    said : of status.json;  given, judge : as of `_make`
    """
    wanted, finished = case.error.companions, said["finished"]
    # what the case asks for besides comes later: a kill until then is known by this
    asks = _asks_for_more(case, judge)
    with writing(folder):
        write_json(folder / "status.json", said | ({"complete": False} if asks else {}))
        made = _readable(load(folder))
        pack(folder, made)  # whatever breaks off what follows, the run is whole
        proves = certifies_margin(made.problem) and not said["signal"]
        seconds = case.certificate.seconds if proves else 0.0
        beside = ahead.tells_errors()
        if beside and not finished:
            ahead.give_up()
            beside = False
        if beside:
            ahead.ask(ahead.ERRORS, folder, wanted)
        elif seconds:
            ahead.ask(ahead.MAX_MARGIN, folder, seconds)
        added = not beside and estimated(made, given, wanted, quiet, judge)
        if seconds:
            added |= _certify(made, seconds, quiet)
        if beside:
            added |= _estimated_beside(made, wanted, quiet)
        added |= repeated(made, quiet)
        made = add_to_packed(made) if added else made
        if asks:
            write_json(folder / "status.json", said)
    return made


def _readable(run):
    """A run that has ended, less what an earlier session left beside it, if that is damaged."""
    run.end.pop("complete", None)
    for name in ("errors", "repeats"):
        try:
            getattr(run, name)
        except RunFolderError:
            (run.path / f"{name}.h5").unlink()
    return run


def _asks_for_more(case, judge):
    """Whether something is to be computed after the steps: error bars, max-margin or repeats."""
    bars = judge is not None or case.error.companions != "none"
    return bars or case.certificate.seconds > 0.0 or getattr(case.method, "repeats", 1) > 1


def _leaves_room(case, method):
    """Whether a run is small enough that its companions may be there at the same time."""
    if ahead.CURRENT.ahead is None:
        return False
    return estimated_memory(case, method.problem.objective) <= LARGE


def _estimated_beside(run, companions, quiet):
    """As `estimated`, by the second process; by this one if that fails. Ctrl-C costs the error bars
    alone."""
    try:
        with doing("estimating errors", quiet):
            found = ahead.answer(ahead.ERRORS, None)
    except KeyboardInterrupt:
        ahead.give_up()
        write_errors(run.path, broken_off(run))
        return True
    return estimated(run, None, companions, quiet) if found is None else found


def _certify(run, seconds, quiet):
    """Add the max-margin of the data to the folder of a run, which is complete without, where the
    second process does not; returns whether there is one. Ctrl-C costs it alone."""
    try:
        wait_for(ahead.MAX_MARGIN, quiet)
        with doing("max-margin", quiet):
            beside = ahead.answer(ahead.MAX_MARGIN, seconds)
            return certified(run, seconds) if beside is None else beside
    except KeyboardInterrupt:  # without it, the run's own interval stands
        ahead.give_up()
        return False


def certified(run: Run, seconds: float) -> bool:
    """Write the max-margin of a run's data into its folder, if it is found in time; returns whether
    it is."""
    found = final_max_margin(run, seconds)
    if found is not None:
        write_max_margin(run.path, found)
    return found is not None


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
            f"{stored.path}: the state to continue from is not one of this run ({error})."
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


def _contradiction(problem, case, folder):
    """Which data contradict each other, by their lines in a data file, for run.json; nothing if
    none do."""
    found = contradiction(problem.objective)
    return {"contradiction": found.sentence(lines_of_data(case, folder))} if found else {}


class Unasked(Observer):
    """An observer whom the loop does not ask whether to stop: Signals does, for all ranks."""

    def __init__(self, observer: Observer) -> None:
        told = ("start", "record", "step", "save", "finish")
        vars(self).update({name: getattr(observer, name) for name in told})


class Signals(Interrupts, Observer):
    """Ends a run after the current step on SIGINT or SIGTERM to any of its ranks, or as soon as
    observers say so on any of them; a second signal ends it at once."""

    def __init__(self, ranks: Alone = ALONE, observers: Sequence[Observer] = ()) -> None:
        super().__init__()
        self.ranks, self.observers, self.seen = ranks, observers, 0
        self.received: int | None = None
        self.witnesses: tuple[float, ...] = ()

    def _receive(self, number, _frame):
        self.seen = int(number)
        self.__exit__()

    def step(self, method: Method, clock: LoopState) -> None:
        self.witnesses = clock.time, method.current.mass, clock.budget["energy_exchanged"]

    def stop(self) -> str | None:
        said = next(filter(None, (observer.stop() for observer in self.observers)), None)
        number = self.ranks.largest(self.seen or (SAID if said else 0), self.witnesses)
        if number == SAID:
            return self.ranks.first(said)
        self.received = number or None
        return f"Interrupted by {signal.Signals(number).name}" if number else None

    def finish(self, method: Method, clock: LoopState, status: str) -> None:
        """A signal in the last step is no reason to stop, but whoever called hears of it: on
        this rank alone, for the others may have ended by an error."""
        self.received = self.received or self.seen or None
