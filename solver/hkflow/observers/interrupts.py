"""SIGINT and SIGTERM, heard while something is under way that must end in order."""

import signal
import threading


class Interrupts:
    """A context in which `_receive(number, frame)` of an heir answers the two signals; what answered before comes back after it."""

    def __init__(self):
        self.previous = {}

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():  # no other may hear signals
            self.previous = {s: signal.signal(s, self._receive) for s in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_):
        for number, handler in self.previous.items():
            signal.signal(number, handler)
