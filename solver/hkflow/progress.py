"""What a person watching a run sees: a bar with time, energy and ETA; plain lines where the output is not a terminal."""

import time
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from .observers.observer import Observer

LINE_SECONDS = 30.0


@contextmanager
def preparing(quiet):
    """Say that something is being compiled while it is."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield
        return
    with console.status("Preparing (the first run compiles its kernels; later runs find them compiled)"):
        yield


class ProgressBar(Observer):
    """A bar on a terminal; elsewhere a line at most every half minute. The ETA counts this session only."""

    def start(self, method, clock, save_times):
        self.end, self.started = save_times[-1], (time.monotonic(), clock.time)
        self.console = Console(stderr=True)
        self.bar, self.last_line = None, time.monotonic()
        if self.console.is_terminal:
            columns = [BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn()]
            self.bar = Progress(*columns, console=self.console, transient=True)
            self.task = self.bar.add_task("starting", total=self.end, completed=clock.time)
            self.bar.start()

    def step(self, method, clock):
        if self.bar:
            self.bar.update(self.task, completed=clock.time, description=self._text(method, clock) + "  ETA")
        elif time.monotonic() - self.last_line > LINE_SECONDS:
            self.last_line = time.monotonic()
            spent, done = self.last_line - self.started[0], clock.time - self.started[1]
            eta = spent * (self.end - clock.time) / done if done > 0.0 else float("inf")
            self.console.print(f"{self._text(method, clock)}  ETA {eta:.0f} s", highlight=False, soft_wrap=True)

    def finish(self, method, clock, status):
        if self.bar:
            self.bar.stop()

    def _text(self, method, clock):
        return f"t = {clock.time:.4g} / {self.end:g}  step {clock.step}  energy {method.current.objective:.6g}"
