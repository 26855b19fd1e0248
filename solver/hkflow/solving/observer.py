"""What can watch a run: progress bars, memories, run folders, and functions of users."""

from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..arguments import Floats, check_positive, real_array
from ..errors import CaseError
from ..measures.point_measure import PointMeasure
from ..methods.method import Method
from ..shown import Shown, counted
from .records import take_record
from .state import LoopState


class Observer:
    """Called by the loop; every method may be left as it is.

    method : the method with its accepted state;  clock : time, step and the running budgets;
        record : dict of numbers
    """

    def start(self, method: Method, clock: LoopState, save_times: Floats) -> None:
        """Before the first step of this session."""

    def record(self, method: Method, clock: LoopState, record: dict[str, float]) -> None:
        """After accepted steps, as often as records are wanted."""

    def step(self, method: Method, clock: LoopState) -> None:
        """At the start, and after every accepted step."""

    def save(self, method: Method, clock: LoopState) -> None:
        """At every save time, and where the run ends before its time."""

    def stop(self) -> str | None:
        """A sentence that ends the run after this step, or None."""

    def finish(self, method: Method, clock: LoopState, status: str) -> None:
        """After the last step, also if an exception ended the run."""


class State(Shown):
    """The accepted state of a run that goes on, in plain units: what e^log_scale times the method's
    own numbers is."""

    def __init__(self, method: Method, clock: LoopState) -> None:
        self._method, self._clock = method, clock

    def _facts(self):
        return {
            "time": f"t = {self.time:.6g} after {counted(self.step, 'step')}",
            "objective": f"objective {self.objective:.6g}",
            "mass": f"mass {self.mass:.6g}",
        }

    @property
    def time(self) -> float:
        """Simulated time."""
        return self._clock.time

    @property
    def step(self) -> int:
        """How many steps were accepted so far."""
        return self._clock.step

    @property
    def dt(self) -> float:
        """Length of the last step."""
        return self._clock.dt

    @property
    def objective(self) -> float:
        """F, in units of e^log_scale for risks that are scale-free, such as the smooth margin."""
        return self._scaled(self._method.current.objective)

    @property
    def mass(self) -> float:
        """|ν|."""
        return self._scaled(self._method.current.mass)

    @property
    def log_mass(self) -> float:
        """log |ν|, a number where the mass is none."""
        return self._method.current.log_mass

    @property
    def predictions(self) -> Floats:
        """h on the data, (n_data,)."""
        return self._scaled(self._method.current.predictions)

    @property
    def density(self) -> Floats:
        """Of a grid: (n_signs, n_cells) mass per unit area. Raises CaseError for other methods."""
        method: Any = self._method
        if not hasattr(method, "density"):
            raise CaseError(
                f"A state of {type(method).__name__} is made of atoms, whose density is not known:"
                " take state.atoms(), or the method 'grid'."
            )
        return self._scaled(method.density(method.state(), method.problem.mesh))

    def atoms(self) -> PointMeasure:
        """The measure as atoms: cells, particles, or Π₂ of a network. They are the caller's own."""
        return deepcopy(self._method.problem.atoms_of(self._method.measure(self._method.state())))

    def record(self) -> dict[str, float]:
        """The numbers that a record holds, by name; certificates left out, which cost more than all
        the rest."""
        return take_record(self._method, self._clock)

    def _scaled(self, value):
        with np.errstate(over="ignore", invalid="ignore"):
            return np.exp(self._method.log_scale) * value


def observe(
    function: Callable, every: float | None = None, at: ArrayLike = (), when: Callable | None = None
) -> Observer:
    """An Observer that calls a function of a State, and ends the run if that returns True or a
    sentence; a number, or anything else, does not.

    every : simulated time between calls, the start counts;  at : times, each at the first step that
        reaches it
    when : function of a State, whether to call now. With none of the three it is called after every
        step
    Raises ValueError for an interval that is not positive, times that are no numbers, and what is
    no function.
    """
    return _Function(function, every, at, when)


def as_observers(watching: Any) -> list[Observer]:
    """Observers as they are, functions of a State as ones that are called after every step. Raises
    ValueError for anything else, one alone included."""
    if not isinstance(watching, Iterable) or isinstance(watching, str):
        raise ValueError(
            "observers must be a list of Observers and functions of a State, observers=[function],"
            f" got {watching!r:.60}."
        )
    return [one if isinstance(one, Observer) else observe(one) for one in watching]


class _Function(Observer):
    def __init__(self, function, every, at, when):
        if not callable(function) or isinstance(function, type):
            raise ValueError(
                f"An observer is a hkflow.Observer or a function of a State, got {function!r:.60}."
            )
        if not (when is None or callable(when)):
            raise ValueError(f"when must be a function of a State, got {when!r:.60}.")
        if every is not None:
            check_positive(finite=False, every=every)
        self.function, self.every, self.when, self.answer = function, every, when, None
        self.at = np.sort(np.atleast_1d(real_array(at, "Times at")))
        if np.isnan(self.at).any():
            raise ValueError(f"Times at must be numbers, got {at}.")
        self.always = every is None and when is None and not self.at.size

    def start(self, method, clock, save_times):
        self.state, self.next = State(method, clock), clock.time
        self.passed = int(
            np.searchsorted(self.at, clock.time, side="left" if clock.step == 0 else "right")
        )

    def step(self, method, clock):
        if self._due(clock.time):
            self.answer = self.function(self.state)

    def _due(self, time):
        due = self.always or self.when is not None and bool(self.when(self.state))
        if self.every is not None and time >= self.next:
            self.next += self.every * (1.0 + (time - self.next) // self.every)
            due = True
        passed = int(np.searchsorted(self.at, time, side="right"))
        due, self.passed = due or passed > self.passed, passed
        return due

    def stop(self):
        if isinstance(self.answer, str):
            return self.answer or None
        ends = isinstance(self.answer, bool | np.bool_) and self.answer
        return f"Stopped by {getattr(self.function, '__name__', 'a function')}" if ends else None
