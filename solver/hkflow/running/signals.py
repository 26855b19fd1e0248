"""What ends a run before its time: signals, and observers of several ranks."""

import signal
from collections.abc import Sequence

from ..methods.method import Method
from ..operators.ranks import ALONE, Alone
from ..solving.interrupts import Interrupts
from ..solving.observer import Observer
from ..solving.state import LoopState

SAID = 1  # what an observer's sentence counts among the numbers of signals: less than they do


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
