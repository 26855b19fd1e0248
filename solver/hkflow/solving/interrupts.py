"""SIGINT and SIGTERM, heard while something is under way that must end in order."""

import signal
import threading
from collections.abc import Callable
from typing import Any

from .observer import Observer


class Interrupts:
    """A context in which `_receive(number, frame)` of an heir answers signals; what answered before
    comes back after it."""

    heard: tuple[signal.Signals, ...] = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self.previous: dict[signal.Signals, Any] = {}

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():  # no other may hear signals
            self.previous = {s: signal.signal(s, self._receive) for s in self.heard}
        return self

    def __exit__(self, *_):
        for number, handler in self.previous.items():
            signal.signal(number, handler)


def unless_ctrl_c(made: Any, name: str, sentence: str) -> Any:
    """What was made. Raises KeyboardInterrupt with the sentence, and what was made as its attribute
    `name`, if that is what Ctrl-C does and it ended it: a loop over runs and the cells of a
    notebook below end then, too."""
    if made.signal != signal.SIGINT or (
        signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        return made
    error = KeyboardInterrupt(
        f"{sentence} What was computed is this exception's attribute `{name}`."
    )
    setattr(error, name, made)
    raise error


def until_ctrl_c(make: Callable[[], Any], name: str) -> Any:
    """What make() returns, or what `unless_ctrl_c` raises by that name."""
    try:
        return make()
    except KeyboardInterrupt as error:
        if not hasattr(error, name):
            raise
        return getattr(error, name)


class DeferredInterrupt(Interrupts, Observer):
    """Ends a run after the step under way on Ctrl-C, if that would raise KeyboardInterrupt; a
    second one raises it at once."""

    heard = (signal.SIGINT,)
    received = False

    def __enter__(self):
        return (
            super().__enter__()
            if signal.getsignal(signal.SIGINT) is signal.default_int_handler
            else self
        )

    def _receive(self, number, _frame):
        self.received = True
        self.__exit__()

    def stop(self) -> str | None:
        return "Interrupted by SIGINT" if self.received else None
