"""The time loop: steps accepted or rejected, save times hit exactly, observers called."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from ..arguments import Floats
from ..certificates.certificate import MarginCertifier
from ..certificates.contradiction import contradiction
from ..methods.method import Method
from ..methods.step import NO_GROWTH, Step
from ..problem.flow import RateError
from .observer import Observer, State, as_observers
from .records import take_record, true_smooth_margin
from .registry import own_record
from .state import LoopState, start_of
from .stepsize import StepControl

MAX_REJECTIONS = 40  # of one step, most of them at least halving it
TINY_STEP = 1e-10  # of the whole time
# between two certificates: one costs as much as ten other records; the end has one besides
CERTIFIED_STEPS = 16
# steps between two looks at how stiff an explicit run is; after a rejected step there is one
# besides
LOOK = 4
MAX_TINY_STEPS = 300  # in a row: a fault that lets only tiny steps pass ends the run as well
BEYOND = 1e-3  # of `until_margin`, by which the last step may exceed it
BLOWN_UP = 7.0  # growth of the log mass, a factor 1000, after which a stop may be a blow-up

# the guards look for nan and inf themselves
_quiet = np.errstate(over="ignore", invalid="ignore", divide="ignore")


class Loop:
    """A method on its way through the save times.

    method : with its initial (or resumed) state loaded;  times : increasing save times, the last is
        the end
    observers : Observers or functions of a State (see observer.py);  guards : see guards.py
    certificate : what encloses the margin of the data, or None;  clock : of the run that is
        resumed, or None
    record_interval : simulated time between records, 0 for every step, inf for the saves alone;
        saves have one each
    until_margin : end, with a save, as soon as the smooth margin γ̃ reaches this, to a thousandth
    records : a user's, {name: function of a State}
    status : a sentence once the run has ended;  finished : bool
    However it ends, observers are told to save the state in which it does. So they are where one of
    them raises an exception, which goes on its way then; and as the clock goes ahead of them, what
    they save can be resumed.
    """

    def __init__(
        self,
        method: Method,
        times: Floats,
        observers: Sequence[Observer | Callable] = (),
        guards: Sequence[Callable] = (),
        certificate: MarginCertifier | None = None,
        clock: LoopState | None = None,
        record_interval: float = 0.0,
        until_margin: float | None = None,
        records: Mapping[str, Callable] | None = None,
    ) -> None:
        self.method, self.times, self.guards, self.certificate = method, times, guards, certificate
        self.record_interval, self.until_margin = record_interval, until_margin
        self.observers = as_observers(observers)
        self.fresh, self.clock = clock is None, clock or start_of(method)
        # time of the last record; of a run that is resumed as far as its clock tells
        resumed = clock is not None and clock.next_record == clock.time + record_interval
        self.recorded = self.clock.time if resumed else None
        self.earlier = method.evaluations - self.clock.evaluations
        self.control = StepControl(method, self.clock.limits, self.clock.implicit)
        self.told = _Told(method, self.clock, self.observers)
        self.records, self.state = records or {}, State(method, self.clock)
        self.status: str | None = None
        self.finished = False

    def run(self) -> tuple[LoopState, str | None, bool]:
        """Take all steps; returns (clock, status sentence, finished)."""
        for _ in self.steps():
            pass
        return self.clock, self.status, self.finished

    def steps(self) -> Generator[None]:
        """Take the steps; yields after the start and after every accepted one, once the observers
        have seen it."""
        for observer in self.observers:
            observer.start(self.method, self.clock, self.times)
        try:
            if self.fresh:
                self._begin()
            if self.clock.step == 0:  # as of a resumed one that stopped there
                self._look_at_start()
            if self.fresh:
                yield
            while self._goes_on():
                if self._step():
                    yield
            self._end()
        except GeneratorExit:  # whoever took the steps wants no more of them
            if self._goes_on():
                self.status = f"Left {self._here()}."
            self._end()
        except Exception as error:
            self.told.fault(error)
            raise
        for observer in self.observers:
            observer.finish(self.method, self.clock, self.status)  # type: ignore[arg-type]

    def _goes_on(self):
        return (
            self.status is None and self.clock.next_save < len(self.times) and not self._reached()
        )

    def _reached(self):
        return (
            self.until_margin is not None and true_smooth_margin(self.method) >= self.until_margin
        )

    def _here(self):
        return f"at t = {self.clock.time:.6g} {self.clock.after}"

    @_quiet
    def _begin(self):
        """The record and save of the start."""
        with self.told.between_states():
            record, save = self._due(save=self.times[0] == 0.0)
        self.told.step(record, save)

    @_quiet
    def _look_at_start(self):
        if bad := _start_fault(self.method):
            self.status = f"Stopped at t = 0: {bad}."

    @_quiet
    def _step(self):
        """Take a step with its record and save, and ask observers whether to stop; returns whether
        there was one to take."""
        method, clock, target = self.method, self.clock, self.times[self.clock.next_save]
        # the margin is seen on a logarithmic scale
        whole = clock.time if method.flow.time_variable == "margin" else self.times[-1]
        step = accepted_step(
            method, clock, self.control, target, TINY_STEP * whole, self.guards, self.until_margin
        )
        if isinstance(step, str):
            why = f"{step}{_blow_up(method, clock)}{_end_of_margins(method)}"
            self.status = f"Stopped {self._here()}: {why}."
            return False
        hit, lowest = (
            step.dt == target - clock.time,
            min(clock.lowest_objective, method.trial.objective),
        )
        with self.told.between_states():
            method.accept(step)
            time = float(target) if hit else clock.time + step.dt
            clock.add(step, time, method.evaluations - self.earlier, self.control, lowest)
            clock.rescale(method.log_scale)
            record, save = self._due(save=hit)
        self.told.step(record, save)
        if clock.next_save < len(self.times):
            sentence = next(filter(None, (observer.stop() for observer in self.observers)), None)
            self.status = sentence and f"{sentence} {self._here()}."
        return True

    def _due(self, save):
        """What is due after a step: a record, or None, and whether to save. The clock is told
        before anybody else."""
        clock, reached, record = self.clock, self._reached(), None
        save, last = save or reached, reached or clock.time == self.times[-1]
        clock.next_save += bool(save)
        if clock.time >= clock.next_record or last or save:
            looked = last or clock.step >= clock.next_certificate
            renew = last or looked and self._earned()
            record = self._record(renew, tested=looked or save)
            clock.next_record, self.recorded = clock.time + self.record_interval, clock.time
            if looked:
                clock.next_certificate = clock.step + CERTIFIED_STEPS
            if renew:
                clock.certified = clock.evaluations
            clock.margin_lower = record.get("margin_lower", clock.margin_lower)
            clock.margin_upper = record.get("margin_upper", clock.margin_upper)
        return record, save

    def _earned(self):
        """Whether the run has computed enough since the last certificate to afford the next."""
        spent = self.clock.evaluations - self.clock.certified
        return self.certificate is None or spent >= self.certificate.evaluations

    def _record(self, renew, tested=True):
        """The record of now, the user's own included;  renew : whether to make a certificate;
        tested : whether to look at the test data."""
        record = take_record(self.method, self.clock, self.certificate, renew, tested)
        return record | {
            name: own_record(name, function, self.state) for name, function in self.records.items()
        }

    @_quiet
    def _end(self):
        """The last save and record, if they are not made, and the sentence."""
        clock, self.finished = self.clock, self.status is None
        if not self.finished:
            recorded = clock.time == self.recorded
            self.told.end(None if recorded else self._record(renew=True))
            return
        self.status = f"Completed at t = {clock.time:g} {clock.after}"
        self.status += (
            f": the smooth margin is {true_smooth_margin(self.method):.8g}."
            if self._reached()
            else "."
        )


def accepted_step(
    method: Method,
    clock: LoopState,
    control: StepControl,
    target: float,
    smallest: float,
    guards: Sequence[Callable],
    until_margin: float | None,
) -> Step | str:
    """Take one step that passes every guard, is accurate enough, and goes no further than
    `until_margin`. Returns it, or the sentence why there is none."""
    for attempt in range(MAX_REJECTIONS):
        try:
            _take_rates(method, clock.time, 0.0, target)
            often = method.implicit_cost == 1.0
            look = clock.step % round(LOOK * method.implicit_cost) == 0 or attempt > 0 and often
            dt = control.propose(target - clock.time, look)
            dt = _take_rates(method, clock.time, dt, target, control.implicit)
        except RateError as error:
            return str(error).rstrip(".")
        step = method.advance(dt, control.implicit)
        reason = step.rejection or next(
            filter(None, (guard(method, step, clock) for guard in guards)), None
        )
        if reason and method.fixed_steps:  # its steps are prescribed: there is no other one to try
            size = method.prescribed_step(dt)
            return f"{reason}, with the fixed step of {size:g}; a shorter one may do"
        if reason:
            control.size.limit = 0.5 * dt
        elif until_margin is not None and (share := _share_until(method, until_margin)) < 1.0:
            reason = f"the smooth margin went beyond {until_margin:g}"
            control.size.limit = share * step.dt
        elif control.learn(step.dt, step.error):
            clock.tiny_steps = (
                clock.tiny_steps + 1 if dt < smallest and dt < target - clock.time else 0
            )
            if clock.tiny_steps <= MAX_TINY_STEPS:
                return step
            clock.last_rejection = (
                clock.last_rejection or f"{MAX_TINY_STEPS} steps in a row were tiny"
            )
            break
        elif _is_at_limit(method, clock.time, dt):
            reason = NO_GROWTH
        else:
            reason = (
                f"the step's error is {step.error:.2g}, beyond the tolerance {method.tolerance:g}"
            )
        clock.last_rejection = reason
    return f"{clock.last_rejection}, even with a step of {dt:.2e}"


def _is_at_limit(method, time, dt):
    """Whether the smooth margin is the clock and has come to its limit, where rates by it have no
    bound: a step that it cannot see errs too much. Over kinks others do as well."""
    by_margin = method.flow.time_variable == "margin" and not method.slides
    return by_margin and 0.0 < time == time + dt


def _share_until(method, until):
    """The share of the step just tried after which γ̃ is `until`, where the whole step leads beyond
    it; else 1. In between γ̃ grows as an exponential function, as a line from below 0. What comes
    all at once at the step's end may lead anywhere: no shorter step would."""
    if method.fixed_steps:
        return 1.0
    before, after = true_smooth_margin(method), true_smooth_margin(method, method.before_jump)
    if not after > (1.0 + BEYOND) * until:
        return 1.0
    ends = np.array([before, (1.0 + 0.5 * BEYOND) * until, after])
    low, aim, high = np.log(ends) if before > 0.0 else ends
    return max((aim - low) / (high - low), 0.01) if np.isfinite(high) else 0.5


def _blow_up(method, clock):
    """What to add to a stop if the mass has grown as one does that blows up by attraction, or by a
    mobility ν^(2 − 2/depth) of a depth above 2; or nothing."""
    problem, log_mass = method.problem, method.current.log_mass
    attracts = getattr(problem.objective, "interactions", ()) and problem.flow.reaction != 0.0
    why = "attraction" if attracts else "a depth above 2" if problem.flow.depth > 2.0 else ""
    start = clock.log_scale + np.log(clock.mass_at_start)
    if not why or not log_mass - start > BLOWN_UP:
        return ""
    with np.errstate(over="ignore"):
        begun, grown = np.exp([start, log_mass])
    return (
        f"; the mass has grown from {begun:.3g} to {grown:.3g}, as where {why} makes it grow"
        " without bound in finite time"
    )


def _take_rates(method, begin, dt, target, implicit=False):
    """Give rates that vary what they are in a step; returns the step, shorter where they change
    much."""
    shortest = method.tolerance * target
    return method.take_rates(begin, dt, shortest, implicit) if method.flow.varies else dt


class _Told:
    """Tells observers what is due, and remembers the step last saved, and whether state and clock
    belong together."""

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
        """The run ends before its time: its last state is saved, and recorded after that, for a
        resumed run forgets the record."""
        if self.saved != self.clock.step:
            self._save()
        if record is not None:
            self._record(record)

    def fault(self, error):
        """An exception ends the run: its last whole state is saved. What observers raise now
        becomes a note of the exception."""
        method, clock = self.method, self.clock
        reason = f"{type(error).__name__}: {error}".rstrip(".: ")
        status = f"Broken off at t = {clock.time:.6g} {clock.after}: {reason}."
        calls = [lambda observer: observer.finish(method, clock, status)]
        if self.agree and self.saved != clock.step:
            calls.insert(0, lambda observer: observer.save(method, clock))
        for call in calls:
            for observer in self.observers:
                try:
                    call(observer)
                except Exception as another:
                    error.add_note(
                        f"Then {type(observer).__name__} raised {type(another).__name__}: {another}"
                    )

    def _record(self, record):
        for observer in self.observers:
            observer.record(self.method, self.clock, dict(record))

    def _save(self):
        self.saved = self.clock.step
        for observer in self.observers:
            observer.save(self.method, self.clock)


def _end_of_margins(method):
    """That the clock of the smooth margin ends where data contradict each other, to be added to why
    a run stopped; "" elsewhere."""
    by_margin = method.flow.time_variable == "margin"
    found = contradiction(method.problem.objective) if by_margin else None
    if found is None:
        return ""
    return f"; {found.sentence()}, which bounds the smooth margin: take the clock 'time'"


def _start_fault(method):
    """What is wrong with the initial state itself."""
    e = method.current
    if np.isfinite(e.objective) and np.isfinite(e.mass):
        return (
            None
            if method.initial_step() > 0.0
            else "the potential is so large that no step is short enough"
        )
    return f"the initial objective is {e.objective} and the mass {e.mass}"
