"""The time loop: steps accepted or rejected, save times hit exactly, observers called."""

from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from importlib import import_module
from inspect import signature

import numpy as np

from ..arguments import check_options, real_array, whole_number
from ..errors import CaseError, unknown_name
from ..certificates.certificate import NOTHING, certifies_margin, margin_certificate, proved_upper
from .guards import GUARDS
from .interrupts import DeferredInterrupt
from .observer import Observer
from ..methods.step import BUDGET
from .stepsize import StepControl

MAX_REJECTIONS = 40  # of one step, each at least halving it
TINY_STEP = 1e-10  # of the whole time
CERTIFIED_STEPS = 16  # between two certificates: one costs as much as ten other records; the end has one besides
ENERGIES = tuple(f"energy_{name}" for name in BUDGET[:4])
LOOK = 4  # steps between two looks at how stiff an explicit run is; after a rejected step there is one besides
MAX_TINY_STEPS = 300  # in a row: a fault that lets only tiny steps pass ends the run as well
METHODS = {
    "grid": "methods.grid.finite_volume.FiniteVolume",
    "characteristics": "methods.characteristics.characteristics.Characteristics",
    "particles": "methods.particles.particles.Particles",
    "network": "methods.network.network.Network",
}


@dataclass
class Clock:
    """Where a run is, and what it has exchanged so far: with the method's state, all that a resumed run needs.

    budget : (7,) integrals over time of the terms of BUDGET
    limits : bounds from accuracy of explicit and of implicit steps;  implicit : whether the last step was implicit
    next_save, next_record : index of the next save time; time from which the next record is due
    next_certificate : step from which the next certificate is due
    tiny_steps : how many of the last steps in a row were tiny;  last_rejection : why a step was last rejected
    lowest_objective : so far;  gross : (2,) what energy and mass exchanged so far, signs disregarded
    log_scale : L, objectives, masses and budgets are in units of e^L
    margin_lower, margin_upper : the max-margin of the data as enclosed so far by the records
    evaluations : of the potential, those of rejected steps included
    """

    objective_at_start: float
    mass_at_start: float
    limits: list
    implicit: bool = False
    time: float = 0.0
    step: int = 0
    dt: float = 0.0
    next_save: int = 0
    next_record: float = 0.0
    next_certificate: int = 0
    tiny_steps: int = 0
    last_rejection: str = ""
    lowest_objective: float = np.inf
    budget: list = field(default_factory=lambda: [0.0] * len(BUDGET))
    gross: list = field(default_factory=lambda: [0.0, 0.0])
    log_scale: float = 0.0
    margin_lower: float = -np.inf
    margin_upper: float = np.inf
    evaluations: int = 0

    def rescale(self, log_scale):
        """Go over to units of e^log_scale."""
        factor, self.log_scale = np.exp(self.log_scale - log_scale), log_scale
        if factor != 1.0:
            self.objective_at_start *= factor
            self.mass_at_start *= factor
            self.lowest_objective *= factor
            self.budget = [float(factor * total) for total in self.budget]
            self.gross = [float(factor * total) for total in self.gross]

    def as_dict(self):
        """Numbers by name, for storing."""
        return asdict(self)

    @classmethod
    def from_dict(cls, numbers):
        """The clock that was stored; run folders of format 4 have the limit of explicit steps alone."""
        limit = {"limits": [numbers["limit"], np.inf]} if "limit" in numbers else {}
        return cls(**{name: value for name, value in numbers.items() if name != "limit"}, **limit)


@dataclass(eq=False)
class Solution:
    """A run in memory.

    time : (n_saves,), the end, however it came, included;  states : one dictionary per save, as the method's `state` gives it
    scaled_predictions : (n_saves, n_data) h in units of e^log_scale;  predictions : h itself
    records : dict of (n_records,) arrays, objectives and masses in units of e^log_scale;  status : one sentence;  finished : bool
    """

    problem: object
    method: type
    time: np.ndarray
    states: list
    scaled_predictions: np.ndarray
    records: dict
    status: str
    finished: bool

    def atoms_at(self, save):
        """The measure at a save as atoms."""
        return self.problem.atoms_of(self.method.measure(self.states[save]))

    @property
    def density(self):
        """Of a grid: (n_saves, n_signs, n_cells) with ν = e^log_scale · density."""
        return np.array([state["density"] for state in self.states])

    @property
    def log_scale(self):
        """(n_saves,); 0 for networks."""
        return np.array([state.get("log_scale", 0.0) for state in self.states], dtype=float)

    @property
    def predictions(self):
        """h on the data at the saves, (n_saves, n_data); inf, with the sign of h, where it is beyond numbers."""
        return in_plain_units(self.scaled_predictions, self.log_scale)


def in_plain_units(scaled, log_scale):
    """e^log_scale · scaled, row by row, where log_scale is (n,) and scaled (n, …); inf with a sign where it is beyond numbers."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(scaled == 0.0, 0.0, np.exp(log_scale)[:, None] * scaled)


def save_times(end, saves):
    """The times to save at: `saves` equally spaced ones from 0 to end, or the listed ones and the end.

    Raises CaseError if the list does not increase within [0, end] or there are fewer than two equally spaced times.
    """
    if not (np.isfinite(end) and end > 0.0):
        raise CaseError(f"time.end: must be finite and positive, got {end}.")
    try:
        if np.ndim(saves) == 0:
            return np.linspace(0.0, end, whole_number(saves, "the number of saves (the start and the end count)", 2))
        times = real_array(saves, "times")
    except ValueError as error:
        raise CaseError(f"time.saves: {error}") from error
    if times.ndim != 1 or not len(times) or not ((np.diff(times) > 0.0).all() and times[0] >= 0.0 and times[-1] <= end):
        raise CaseError(f"time.saves: listed times must increase within [0, {end:g}], got {list(saves)}.")
    return times if times[-1] == end else np.append(times, end)


def take_record(method, clock, certified=False):
    """The numbers recorded after a step, by name; energies and masses are integrals since the start, in units of e^log_scale.

    certified : whether the problem's margin is to be enclosed, which costs more than all the rest; else its values are nan
    Neither the method nor the clock is changed.
    """
    e, problem = method.current, method.problem
    objective, budget = problem.objective, clock.budget
    record = {"time": clock.time, "step": clock.step, "dt": clock.dt, "objective": e.objective, "mass": e.mass}
    record |= {"log_mass": e.log_mass, "log_scale": clock.log_scale, **method.record(clock)}
    if method.keeps_budgets:
        record |= zip(ENERGIES, budget, strict=False)
        record["energy_residual"] = e.objective - clock.objective_at_start - sum(budget[:4])
        record["mass_residual"] = e.mass - clock.mass_at_start - sum(budget[4:])
    else:
        record |= dict.fromkeys((*ENERGIES, "energy_residual", "mass_residual"), np.nan)
    record["training_error"] = objective.error(e.predictions)
    if objective.risk.classifies:
        record["margin"] = objective.margin(e.predictions) / e.mass if e.mass > 0.0 else 0.0
        record["smooth_margin"] = objective.smooth_margin(e.predictions, clock.log_scale)
    if certifies_margin(problem):
        record |= margin_certificate(problem, e.predictions, e.mass, e.residuals) if certified else NOTHING
        record["margin_lower"] = np.fmax(clock.margin_lower, record["margin"])
        record["margin_upper"] = np.fmin(clock.margin_upper, proved_upper(problem, record["dual_value"]))
    return {name: float(value) for name, value in record.items()}


def accepted_step(method, clock, control, target, smallest, guards):
    """Take one step that passes every guard and is accurate enough. Returns it, or the sentence why there is none."""
    for attempt in range(MAX_REJECTIONS):
        dt = control.propose(target - clock.time, look=attempt > 0 or clock.step % LOOK == 0)
        step = method.advance(dt, control.implicit)
        reason = step.rejection or next(filter(None, (guard(method, step, clock) for guard in guards)), None)
        if reason and method.prescribed:  # its steps are prescribed: there is no other one to try
            return reason
        if reason:
            control.size.limit = 0.5 * dt
        elif control.learn(dt, step.error):
            clock.tiny_steps = clock.tiny_steps + 1 if dt < smallest and dt < target - clock.time else 0
            if clock.tiny_steps <= MAX_TINY_STEPS:
                return step
            clock.last_rejection = clock.last_rejection or f"{MAX_TINY_STEPS} steps in a row were tiny"
            break
        else:
            reason = f"the step's error is {step.error:.2g}, beyond the tolerance {method.tolerance:g}"
        clock.last_rejection = reason
    return f"{clock.last_rejection}, even with a step of {dt:.2e}"


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # the guards look for nan and inf themselves
def integrate(method, times, observers=(), guards=GUARDS, clock=None, record_interval=0.0, until_margin=None):
    """Run a method through the save times; returns (clock, status sentence, finished).

    method : with its initial (or resumed) state loaded;  times : increasing save times, the last is the end
    clock : of the run that is resumed, or None;  record_interval : simulated time between records, 0 for every step
    until_margin : end, with a save, as soon as the smooth margin γ̃ reaches this
    However it ends, observers are told to save the state in which it does. So they are where one of them raises an exception,
    which goes on its way then; and as the clock goes ahead of them, what they save can be resumed.
    """
    fresh = clock is None
    if fresh:
        start = method.current
        limits, log_scale = [method.first_limit(), np.inf], method.log_scale
        clock = Clock(start.objective, start.mass, limits, lowest_objective=start.objective, log_scale=log_scale)
    evaluations = method.evaluations - clock.evaluations
    control = StepControl(method, clock.limits, clock.implicit)
    told = _Told(method, clock, observers)
    for observer in observers:
        observer.start(method, clock, times)

    def reached():
        return until_margin is not None and true_smooth_margin(method) >= until_margin

    def due(save):
        """What is due after a step: a record, or None, and whether to save. The clock is told before anybody else."""
        save, record, last = save or reached(), None, clock.time == times[-1] or reached()
        clock.next_save += bool(save)
        if clock.time >= clock.next_record or last:
            certified = last or clock.step >= clock.next_certificate
            record = take_record(method, clock, certified)
            clock.next_record = clock.time + record_interval
            clock.next_certificate = clock.step + CERTIFIED_STEPS if certified else clock.next_certificate
            clock.margin_lower = record.get("margin_lower", clock.margin_lower)
            clock.margin_upper = record.get("margin_upper", clock.margin_upper)
        return record, save

    status = None
    try:
        if fresh:
            with told.between_states():
                record, save = due(save=times[0] == 0.0)
            told.step(record, save)
            bad = _start_fault(method)
            status = f"Stopped at t = 0: {bad}." if bad else None
        while status is None and clock.next_save < len(times) and not reached():
            target = times[clock.next_save]
            whole = clock.time if method.flow.clock == "margin" else times[-1]  # the margin is seen on a logarithmic scale
            step = accepted_step(method, clock, control, target, TINY_STEP * whole, guards)
            if isinstance(step, str):
                status = f"Stopped at t = {clock.time:.6g} after {clock.step} steps: {step}."
                break
            hit = step.dt == target - clock.time
            lowest = min(clock.lowest_objective, method.trial.objective)
            with told.between_states():
                method.accept(step)
                clock.time = float(target) if hit else clock.time + step.dt
                clock.step, clock.dt = clock.step + step.count, step.dt
                clock.limits, clock.implicit = control.limits, control.implicit
                clock.budget = [total + float(part) for total, part in zip(clock.budget, step.budget, strict=True)]
                clock.gross = [total + float(part) for total, part in zip(clock.gross, step.gross, strict=True)]
                clock.lowest_objective = lowest
                clock.evaluations = method.evaluations - evaluations
                clock.rescale(method.log_scale)
                record, save = due(save=hit)
            told.step(record, save)
            if clock.next_save < len(times):
                sentence = next(filter(None, (observer.stop() for observer in observers)), None)
                status = sentence and f"{sentence} at t = {clock.time:.6g} after {clock.step} steps."
        finished = status is None
        if not finished:
            recorded = clock.next_record == clock.time + record_interval
            told.end(None if recorded else take_record(method, clock, certified=True))
    except Exception as error:
        told.fault(error)
        raise
    if finished and reached():
        status = (
            f"Completed at t = {clock.time:g} after {clock.step} steps: the smooth margin is {true_smooth_margin(method):.8g}."
        )
    status = status or f"Completed at t = {clock.time:g} after {clock.step} steps."
    for observer in observers:
        observer.finish(method, clock, status)
    return clock, status, finished


class _Told:
    """Tells observers what is due, and remembers the step last saved, and whether state and clock belong together."""

    def __init__(self, method, clock, observers):
        self.method, self.clock, self.observers = method, clock, observers
        self.saved, self.agree = None, True

    @contextmanager
    def between_states(self):
        """While one state gives way to the next, and its record is made, there is none to save."""
        self.agree = False
        yield
        self.agree = True

    def step(self, record, save):
        """A step is done; so are the record of it, unless None, and a save, if one is due."""
        if record is not None:
            self._record(record)
        if save:
            self._save()
        for observer in self.observers:
            observer.step(self.method, self.clock)

    def end(self, record):
        """The run ends before its time: its last state is saved, and recorded after that, for a resumed run forgets the record."""
        if self.saved != self.clock.step:
            self._save()
        if record is not None:
            self._record(record)

    def fault(self, error):
        """An exception ends the run: its last whole state is saved. What observers raise now becomes a note of the exception."""
        method, clock = self.method, self.clock
        reason = f"{type(error).__name__}: {error}".rstrip(".: ")
        status = f"Broken off at t = {clock.time:.6g} after {clock.step} steps: {reason}."
        calls = [lambda observer: observer.finish(method, clock, status)]
        if self.agree and self.saved != clock.step:
            calls.insert(0, lambda observer: observer.save(method, clock))
        for call in calls:
            for observer in self.observers:
                try:
                    call(observer)
                except Exception as another:
                    error.add_note(f"Then {type(observer).__name__} raised {type(another).__name__}: {another}")

    def _record(self, record):
        for observer in self.observers:
            observer.record(self.method, self.clock, record)

    def _save(self):
        self.saved = self.clock.step
        for observer in self.observers:
            observer.save(self.method, self.clock)


def true_smooth_margin(method):
    """γ̃ of the accepted state in units of one, inf beyond the largest number."""
    return method.problem.objective.smooth_margin(method.current.predictions, method.log_scale) * np.exp(method.log_scale)


def _start_fault(method):
    """What is wrong with the initial state itself."""
    e = method.current
    if np.isfinite(e.objective) and np.isfinite(e.mass):
        return None if method.first_limit() > 0.0 else "the potential is so large that no step is short enough"
    return f"the initial objective is {e.objective} and the mass {e.mass}"


class Memory(Observer):
    """Keeps saves, records and the sentence of the end in memory."""

    def __init__(self):
        self.saves, self.records, self.status = [], [], ""

    def record(self, method, clock, record):
        self.records.append(record)

    def save(self, method, clock):
        self.saves.append((clock.time, deepcopy(method.state()), method.current.predictions.copy()))

    def finish(self, method, clock, status):
        self.status = status

    def solution(self, method, finished):
        """The run of a method as far as it went."""
        time, states, predictions = zip(*self.saves, strict=True) if self.saves else ((), (), ())
        names = self.records[0] if self.records else ()
        records = {name: np.array([r[name] for r in self.records]) for name in names}
        predictions = np.array(predictions).reshape(len(time), len(method.current.predictions))
        problem = method.problem
        return Solution(problem, type(method), np.array(time), list(states), predictions, records, self.status, finished)


def method_class(kind):
    """The method of a name, loaded when it is first wanted; raises ValueError with the choices for an unknown one."""
    if kind not in METHODS:
        raise ValueError(unknown_name("method", kind, METHODS))
    module, name = METHODS[kind].rsplit(".", 1)
    return getattr(import_module(f"hkflow.{module}"), name)


def make_method(problem, kind="grid", **options):
    """The method of a name for a problem; raises ValueError with the choices for an unknown one, or an unknown option."""
    made = method_class(kind)
    check_options(options, made, f"{kind} option")
    return made(problem, **options)


def solve(problem, end, saves=2, observers=(), record_interval=0.0, until_margin=None, **method):
    """Solve a problem in memory from t = 0 to t = end.

    saves : number of equally spaced saves, or a list of times;  until_margin : end where the smooth margin γ̃ reaches this
    method : the keys of [method] in a case file
    Returns a Solution; its status says in a sentence how the run ended. Exceptions, of an observer say, and Ctrl-C, which is
    heard after the step under way, have it as their attribute `solution`.
    """
    kind, own = method.get("kind", "grid"), list(signature(solve).parameters)[1:-1]
    check_options(method, method_class(kind), f"{kind} option", besides=("kind", *own))
    times = save_times(end, saves)
    if not record_interval >= 0.0 or until_margin is not None and np.isnan(until_margin):
        raise CaseError(f"record_interval must be at least 0 and until_margin a number, got {record_interval} and {until_margin}.")
    memory, made, interrupt = Memory(), make_method(problem, **method), DeferredInterrupt()
    observers, finished = (memory, *observers, interrupt), False
    try:
        with interrupt:
            _, _, finished = integrate(
                made, times, observers, record_interval=record_interval, until_margin=until_margin
            )
        if interrupt.received:
            raise KeyboardInterrupt(memory.status)
    except (Exception, KeyboardInterrupt) as error:
        error.solution = memory.solution(made, finished)
        error.add_note("What was computed until then is this exception's attribute `solution`.")
        raise
    return memory.solution(made, finished)
