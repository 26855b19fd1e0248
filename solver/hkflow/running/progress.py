"""What a person watching a run sees: a bar with time, energy and ETA; plain lines where the output
is not a terminal."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..arguments import Floats
from ..methods.method import Method
from ..solving.observer import Observer
from ..solving.state import LoopState

LINE_SECONDS, BAR_SECONDS = 30.0, 0.1  # between two lines, or two looks of the bar


@contextmanager
def preparing(quiet: bool) -> Iterator[None]:
    """Say that something is being compiled while it is."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(
        "Preparing (the first run compiles its kernels; later runs find them compiled)"
    ):
        yield


@contextmanager
def counted() -> Iterator[Callable[[int, int], None] | None]:
    """A function watch(done, count) that shows a bar on a terminal, and nothing elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    with _bar() as bar:
        task = bar.add_task("", total=None)
        yield lambda done, count: bar.update(task, completed=done, total=count)


@contextmanager
def companions_made(
    quiet: bool, doing: str = "estimating errors"
) -> Iterator[Callable[[int, int], None] | None]:
    """A function watch(done, count) that says on a terminal what is being done."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    with _bar(f"{doing}  {{task.completed}} of {{task.total}}  ETA") as bar:
        task = bar.add_task("", total=None)
        yield lambda done, count: bar.update(task, completed=done, total=count)


def _bar(text=None):
    """A bar with its ETA, and a text or what is done of how many between them, on the terminal."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    middle = TextColumn(text) if text else MofNCompleteColumn()
    return Progress(
        BarColumn(), middle, TimeRemainingColumn(), console=Console(stderr=True), transient=True
    )


class StudyProgress:
    """A bar over the runs of a study on a terminal, a line for each elsewhere; the sentence of
    every run that fails."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.bar: Any = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.bar:
            self.bar.stop()

    def __call__(self, count: int, done: int, outcome: tuple[bool, str] | None) -> None:
        """After `done` of `count` runs, the last of which ended with this outcome."""
        if self.quiet or not count:
            return
        failed = outcome is not None and not outcome[0]
        if outcome is None:
            self.started = time.monotonic()
            if sys.stderr.isatty():
                self.bar = _bar()
                self.task = self.bar.add_task("", total=count)
                self.bar.start()
        elif self.bar:
            self.bar.update(self.task, completed=done)
            if failed:
                self.bar.console.print(outcome[1], markup=False)
        else:
            eta = (time.monotonic() - self.started) * (count - done) / done
            print(
                f"run {done} of {count}  ETA {eta:.0f} s{'  ' + outcome[1] if failed else ''}",
                file=sys.stderr,
                flush=True,
            )


class ProgressBar(Observer):
    """A bar on a terminal; elsewhere a line at most every half minute. The ETA counts this session
    only."""

    def start(self, method: Method, clock: LoopState, save_times: Floats) -> None:
        self.end, self.started, self.bar = save_times[-1], (time.monotonic(), clock.time), None
        self.due = self.started[0] + LINE_SECONDS
        if sys.stderr.isatty():
            self.bar, self.due = _bar("{task.description}"), 0.0
            self.task = self.bar.add_task("starting", total=self.end, completed=clock.time)
            self.bar.start()

    def step(self, method: Method, clock: LoopState) -> None:
        now = time.monotonic()
        if now < self.due:
            return
        text = (
            f"t = {clock.time:.4g} / {self.end:g}  step {clock.step}  energy"
            f" {method.current.objective:.6g}  ETA"
        )
        if self.bar:
            self.due = now + BAR_SECONDS
            self.bar.update(self.task, completed=clock.time, description=text)
        else:
            self.due = now + LINE_SECONDS
            spent, done = now - self.started[0], clock.time - self.started[1]
            eta = spent * (self.end - clock.time) / done if done > 0.0 else float("inf")
            print(f"{text} {eta:.0f} s", file=sys.stderr, flush=True)

    def finish(self, method: Method, clock: LoopState, status: str) -> None:
        if self.bar:
            self.bar.stop()
