"""Problems solved in memory, at once or step by step."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from numbers import Real
from reprlib import repr as shortened
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..arguments import (
    Floats,
    check_apart,
    check_options,
    check_positive,
    option_names,
    real_array,
    whole_number,
)
from ..certificates.certificate import MarginCertifier
from ..errors import CaseError
from ..methods.choice import kind_of, make_method, method_class
from ..methods.method import Method
from ..objectives.own import check_own
from ..problem.problem import Problem
from .guards import GUARDS
from .interrupts import DeferredInterrupt
from .loop import Loop
from .observer import Observer, State, as_observers
from .registry import check_records
from .solution import Memory, Solution
from .state import LoopState


def save_times(end: float, saves: int | ArrayLike) -> Floats:
    """The times to save at: `saves` equally spaced ones from 0 to end, or the listed ones and the
    end.

    Raises CaseError if the list does not increase within [0, end] or there are fewer than two
    equally spaced times, or so many that some are the same number.
    """
    try:
        check_positive(end=end)
    except ValueError as error:
        raise CaseError(f"time.{error}") from error
    try:
        if np.ndim(saves) == 0:
            count = whole_number(saves, "the number of saves (the start and the end count)", 2)
            evenly = np.linspace(0.0, end, count)
            check_apart(evenly)
            return evenly
        times = real_array(saves, "times")
    except ValueError as error:
        raise CaseError(f"time.saves: {error}") from error
    if (
        times.ndim != 1
        or not len(times)
        or not ((np.diff(times) > 0.0).all() and times[0] >= 0.0 and times[-1] <= end)
    ):
        raise CaseError(
            f"time.saves: listed times must increase within [0, {end:g}], got"
            f" {shortened(times.tolist())}."
        )
    return times if times[-1] == end else np.append(times, end)


def integrate(
    method: Method,
    times: Floats,
    observers: Sequence[Observer | Callable] = (),
    guards: Sequence[Callable] = GUARDS,
    clock: LoopState | None = None,
    record_interval: float = 0.0,
    until_margin: float | None = None,
    records: Mapping[str, Callable] | None = None,
    certifier: type[MarginCertifier] = MarginCertifier,
) -> tuple[LoopState, str | None, bool]:
    """Run a method through the save times, guarded and certified; returns (clock, status sentence,
    finished). See loop.Loop."""
    certificate = certifier.of(method.problem)
    return Loop(
        method, times, observers, guards, certificate, clock, record_interval, until_margin, records
    ).run()


def steps(
    problem: Problem,
    end: float,
    saves: int | ArrayLike = 2,
    observers: Sequence[Observer | Callable] = (),
    record_interval: float = 0.0,
    until_margin: float | None = None,
    records: Mapping[str, Callable] | None = None,
    **method: Any,
) -> Iterator[State]:
    """Solve a problem step by step: an iterator of a State, at the start and after every step.

        for state in hkflow.steps(problem, 2.0):
            if state.objective < 1e-3:
                break

    Arguments as of `solve`. A State shows the step that the loop is at: keep numbers, not States.
    """
    times = _checked(problem, end, saves, record_interval, until_margin, method)
    check_records(records)
    made, certificate = make_method(problem, **method), MarginCertifier.of(problem)
    loop = Loop(
        made, times, observers, GUARDS, certificate, None, record_interval, until_margin, records
    )
    return _states(loop.steps(), loop.state)


def _states(steps, state):
    """A State for each step; who wants no more of them ends the loop."""
    try:
        for _ in steps:
            yield state
    finally:
        steps.close()


def solve(
    problem: Problem,
    end: float,
    saves: int | ArrayLike = 2,
    observers: Sequence[Observer | Callable] = (),
    record_interval: float = 0.0,
    until_margin: float | None = None,
    title: str = "",
    records: Mapping[str, Callable] | None = None,
    **method: Any,
) -> Solution:
    """Solve a problem in memory from t = 0 to t = end.

    saves : number of equally spaced saves, or a list of times;  observers : Observers, or functions
        of a State
    records : further ones, {name: function of a State -> number}
    until_margin : end where the smooth margin γ̃ reaches this;  title : of the Solution
    method : the keys of [method] in a case file, but for those of the start, which the problem has
        (particles, units, points, scale, repeats), and accuracy; kind is "grid" where there is a
        mesh, else "auto"
    Returns a Solution; its status says in a sentence how the run ended. Exceptions, of an observer
    say, and Ctrl-C, which is heard after the step under way, have it as their attribute `solution`.
    """
    times = _checked(problem, end, saves, record_interval, until_margin, method)
    check_records(records)
    memory, made = Memory(method, title), make_method(problem, **method)
    interrupt = DeferredInterrupt()
    observers, finished = (memory, *as_observers(observers), interrupt), False
    try:
        with interrupt:
            _, _, finished = integrate(
                made,
                times,
                observers,
                record_interval=record_interval,
                until_margin=until_margin,
                records=records,
            )
        if interrupt.received:
            raise KeyboardInterrupt(memory.end["status"])
    except (Exception, KeyboardInterrupt) as error:
        error.solution = memory.solution(made, finished)  # type: ignore[union-attr]
        error.add_note("What was computed until then is this exception's attribute `solution`.")
        raise
    return memory.solution(made, finished)


def _is_number(value: Any) -> bool:
    """Whether it is a real number, not nan."""
    return isinstance(value, Real) and value == value


def _checked(problem, end, saves, record_interval, until_margin, method):
    """The save times; writes the kind of the method. Raises CaseError for wrong arguments,
    ValueError for options that the method has not and for functions of the problem that are not
    what they are taken for."""
    if not isinstance(problem, Problem):
        raise CaseError(f"Wanted a hkflow.Problem, got {problem!r:.60}. hkflow.run takes cases.")
    check_own(problem.objective)
    problem.check_density()
    kind = method["kind"] = kind_of(problem, method.get("kind"))
    own = option_names(solve)[:-1]
    check_options(method, method_class(kind), f"{kind} option", besides=("kind", *own))
    times = save_times(end, saves)
    margin: Any = 0.0 if until_margin is None else until_margin
    if not (_is_number(record_interval) and record_interval >= 0.0 and _is_number(margin)):
        raise CaseError(
            f"record_interval must be at least 0 and until_margin a number, got {record_interval!r}"
            f" and {until_margin!r}."
        )
    risk = problem.objective.risk
    if until_margin is not None and not risk.has_smooth_margin:
        raise CaseError(
            f"until_margin: the risk '{risk.name}' has no smooth margin; take 'logistic',"
            " 'exponential', 'softmax' or a smooth margin, or leave it out."
        )
    return times
