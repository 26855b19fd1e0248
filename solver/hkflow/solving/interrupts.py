"""SIGINT and SIGTERM, heard while something is under way that must end in order."""

import signal
import threading
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
