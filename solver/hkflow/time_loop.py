"""The time loop: steps accepted or rejected, save times hit exactly, observers called."""

from copy import deepcopy
from dataclasses import asdict, dataclass, field
from importlib import import_module

import numpy as np

from .errors import CaseError, unknown_name
from .margins.certificate import NOTHING, certifies_margin, margin_certificate
from .observers.guards import GUARDS
from .observers.observer import Observer
from .stepping.step import BUDGET
from .stepping.stepsize import StepSize

MAX_REJECTIONS = 40  # of one step, each at least halving it
TINY_STEP = 1e-10  # of the whole time
CERTIFIED_STEPS = 16  # between two certificates: one costs as much as ten other records; the end has one besides
ENERGIES = tuple(f"energy_{name}" for name in BUDGET[:4])
MAX_TINY_STEPS = 300  # in a row: a fault that lets only tiny steps pass ends the run as well
METHODS = {
    "grid": "eulerian.finite_volume.FiniteVolume",
    "characteristics": "characteristics.characteristics.Characteristics",
    "particles": "lagrangian.particles.Particles",
    "network": "lagrangian.network.Network",
}


@dataclass
class Clock:
    """Where a run is, and what it has exchanged so far: with the method's state, all that a resumed run needs.

    budget : (7,) integrals over time of the terms of BUDGET;  limit : the step-size controller's bound
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
    limit: float
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


@dataclass(eq=False)
class Solution:
    """A run in memory.

    time : (n_saves,);  states : one dictionary per save, as the method's `state` gives it;  predictions : (n_saves, n_data)
    records : dict of (n_records,) arrays;  status : one sentence;  finished : bool
    """

    problem: object
    method: type
    time: np.ndarray
    states: list
    predictions: np.ndarray
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
        """Of a grid: (n_saves,)."""
        return np.array([state["log_scale"] for state in self.states])


def save_times(end, saves):
    """The times to save at: `saves` equally spaced ones from 0 to end, or the listed ones and the end.

    Raises CaseError if the list does not increase within [0, end] or there are fewer than two equally spaced times.
    """
    if not (np.isfinite(end) and end > 0.0):
        raise CaseError(f"time.end: must be finite and positive, got {end}.")
    if np.ndim(saves) == 0:
        if saves < 2:
            raise CaseError(f"time.saves: at least 2 saves are needed (the start and the end), got {saves}.")
        return np.linspace(0.0, end, int(saves))
    times = np.asarray(saves, dtype=float)
    if len(times) == 0 or not (np.diff(times) > 0.0).all() or times[0] < 0.0 or times[-1] > end:
        raise CaseError(f"time.saves: listed times must increase within [0, {end:g}], got {list(saves)}.")
    return times if times[-1] == end else np.append(times, end)


def take_record(method, clock, certified=False):
    """The numbers recorded after a step, by name; energies and masses are integrals since the start, in units of e^log_scale.

    certified : whether the problem's margin is to be enclosed, which costs more than all the rest; else its values are nan
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
        clock.margin_lower = float(np.fmax(clock.margin_lower, record["margin"]))
        clock.margin_upper = float(np.fmin(clock.margin_upper, record["dual_value"]))
        record |= {"margin_lower": clock.margin_lower, "margin_upper": clock.margin_upper}
    return {name: float(value) for name, value in record.items()}


def accepted_step(method, clock, stepsize, target, smallest, guards):
    """Take one step that passes every guard and is accurate enough. Returns it, or the sentence why there is none."""
    for _ in range(MAX_REJECTIONS):
        dt = stepsize.propose(method.bound(target - clock.time), target - clock.time)
        step = method.advance(dt)
        reason = step.rejection or next(filter(None, (guard(method, step, clock) for guard in guards)), None)
        if reason and method.prescribed:  # its steps are prescribed: there is no other one to try
            return reason
        if reason:
            stepsize.limit = 0.5 * dt
        elif stepsize.learn(dt, step.error):
            clock.tiny_steps = clock.tiny_steps + 1 if dt < smallest and dt < target - clock.time else 0
            if clock.tiny_steps <= MAX_TINY_STEPS:
                return step
            clock.last_rejection = clock.last_rejection or f"{MAX_TINY_STEPS} steps in a row were tiny"
            break
        else:
            reason = f"the step's error is {step.error:.2g}, beyond the tolerance {stepsize.tolerance:g}"
        clock.last_rejection = reason
    return f"{clock.last_rejection}, even with a step of {dt:.2e}"


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # the guards look for nan and inf themselves
def integrate(method, times, observers=(), guards=GUARDS, clock=None, record_interval=0.0, until_margin=None):
    """Run a method through the save times; returns (clock, status sentence, finished).

    method : with its initial (or resumed) state loaded;  times : increasing save times, the last is the end
    clock : of the run that is resumed, or None;  record_interval : simulated time between records, 0 for every step
    until_margin : end, with a save, as soon as the smooth margin γ̃ reaches this
    """
    fresh = clock is None
    if fresh:
        start = method.current
        limit, log_scale = method.first_limit(), method.log_scale
        clock = Clock(start.objective, start.mass, limit, lowest_objective=start.objective, log_scale=log_scale)
    evaluations = method.evaluations - clock.evaluations
    stepsize = StepSize(method.order, method.tolerance, method.max_step, clock.limit)
    for observer in observers:
        observer.start(method, clock, times)

    def reached():
        return until_margin is not None and true_smooth_margin(method) >= until_margin

    def tell(save):
        last = clock.time == times[-1] or reached()
        if clock.time >= clock.next_record or last:
            clock.next_record = clock.time + record_interval
            certified = last or clock.step >= clock.next_certificate
            if certified:
                clock.next_certificate = clock.step + CERTIFIED_STEPS
            record = take_record(method, clock, certified)
            for observer in observers:
                observer.record(method, clock, record)
        if save:
            clock.next_save += 1
            for observer in observers:
                observer.save(method, clock)
        for observer in observers:
            observer.step(method, clock)

    status = None
    if fresh:
        tell(save=times[0] == 0.0)
        bad = _start_fault(method)
        status = f"Stopped at t = 0: {bad}." if bad else None
    while status is None and clock.next_save < len(times) and not reached():
        target = times[clock.next_save]
        whole = clock.time if method.flow.clock == "margin" else times[-1]  # the smooth margin is seen on a logarithmic scale
        step = accepted_step(method, clock, stepsize, target, TINY_STEP * whole, guards)
        if isinstance(step, str):
            status = f"Stopped at t = {clock.time:.6g} after {clock.step} steps: {step}."
            break
        hit = step.dt == target - clock.time
        lowest = min(clock.lowest_objective, method.trial.objective)
        method.accept(step)
        clock.time = float(target) if hit else clock.time + step.dt
        clock.step, clock.dt, clock.limit = clock.step + step.count, step.dt, stepsize.limit
        clock.budget = [total + float(part) for total, part in zip(clock.budget, step.budget, strict=True)]
        clock.gross = [total + float(part) for total, part in zip(clock.gross, step.gross, strict=True)]
        clock.lowest_objective = lowest
        clock.evaluations = method.evaluations - evaluations
        clock.rescale(method.log_scale)
        tell(save=hit or reached())
        if clock.next_save < len(times):
            sentence = next(filter(None, (observer.stop() for observer in observers)), None)
            status = sentence and f"{sentence} at t = {clock.time:.6g} after {clock.step} steps."
    finished = status is None
    if finished and reached():
        status = (
            f"Completed at t = {clock.time:g} after {clock.step} steps: the smooth margin is {true_smooth_margin(method):.8g}."
        )
    status = status or f"Completed at t = {clock.time:g} after {clock.step} steps."
    for observer in observers:
        observer.finish(method, clock, status)
    return clock, status, finished


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
    """Keeps saves and records in memory."""

    def __init__(self):
        self.saves, self.records = [], []

    def record(self, method, clock, record):
        self.records.append(record)

    def save(self, method, clock):
        self.saves.append((clock.time, deepcopy(method.state()), method.current.predictions.copy()))


def method_class(kind):
    """The method of a name, loaded when it is first wanted; raises ValueError with the choices for an unknown one."""
    if kind not in METHODS:
        raise ValueError(unknown_name("method", kind, METHODS))
    module, name = METHODS[kind].rsplit(".", 1)
    return getattr(import_module(f".{module}", __package__), name)


def make_method(problem, kind="grid", **options):
    """The method of a name for a problem; raises ValueError with the choices for an unknown one."""
    return method_class(kind)(problem, **options)


def solve(problem, end, saves=2, observers=(), record_interval=0.0, until_margin=None, **method):
    """Solve a problem in memory from t = 0 to t = end.

    saves : number of equally spaced saves, or a list of times;  until_margin : end where the smooth margin γ̃ reaches this
    method : the keys of [method] in a case file
    Returns a Solution; its status says in a sentence how the run ended.
    """
    memory, made = Memory(), make_method(problem, **method)
    _, status, finished = integrate(
        made, save_times(end, saves), (memory, *observers), record_interval=record_interval, until_margin=until_margin
    )
    time, states, predictions = zip(*memory.saves, strict=True) if memory.saves else ((), (), ())
    records = {name: np.array([r[name] for r in memory.records]) for name in memory.records[0]}
    return Solution(problem, type(made), np.array(time), list(states), np.array(predictions), records, status, finished)
