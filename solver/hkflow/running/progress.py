"""What a person watching a run sees: a bar with time, energy and ETA, on a terminal or in a
notebook; plain lines elsewhere."""

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape, unescape
from importlib import import_module
from typing import Any

from ..arguments import Floats
from ..compilation import COMPILATION, working_time
from ..methods.method import Method
from ..solving.observer import Observer
from ..solving.state import LoopState
from .ahead import wait, waits

PREPARING = "preparing (the first run compiles its kernels; later runs find them compiled)"
COMPILING = "compiling, which later runs need not"
DUMB = ("dumb", "unknown")  # names of terminals that only go on
LINE_SECONDS, BAR_SECONDS = 30.0, 0.1  # between two lines, or two looks of the bar


def say(sentence: str) -> None:
    """Tell what is done with files, in a line."""
    print(sentence, file=sys.stderr, flush=True)


def next_place() -> None:
    """Have the next bar in a notebook take a new place: what is above may have been cleared."""
    NotebookBar.place = None


@contextmanager
def doing(what: str, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Say on a terminal or in a notebook what is being done while it is; yields a function that
    says something else instead."""
    if not quiet and _in_notebook():
        with NotebookBar() as bar:
            task = bar.add_task(what)
            yield lambda text: bar.update(task, 0.0, description=text)
    elif quiet or not _draws_again():
        yield lambda text: None
    else:
        from rich.console import Console

        with Console(stderr=True).status(what) as status:
            yield status.update


def wait_for(stage: str, quiet: bool) -> None:
    """Wait for the kernels of a stage, if a second process compiles them, and say so."""
    if waits(stage):
        with doing(COMPILING, quiet):
            wait(stage)


@contextmanager
def counted(what: str, quiet: bool = False) -> Iterator[Callable[[int, int], None] | None]:
    """A function watch(done, count) that says on a terminal or in a notebook how much is done of
    what; None elsewhere."""
    if quiet or not _shows_bars():
        yield None
        return
    with progress_bar("{task.description}") as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, count: bar.update(
            task, completed=done, total=count, description=f"{what} {done} of {count}  ETA"
        )


def _in_notebook():
    """Whether this process computes the cells of a notebook."""
    return getattr(_shell(), "kernel", None) is not None


def _shell() -> Any:
    """The interactive shell of IPython that this process is, if it is one."""
    python = sys.modules.get("IPython")
    return python and python.get_ipython()


def _shows_bars():
    return _in_notebook() or _draws_again()


def _draws_again():
    """Whether this is a terminal where a line can be drawn again: on others, as in Emacs, rich
    would show nothing."""
    return sys.stderr.isatty() and os.environ.get("TERM", "").lower() not in DUMB


def progress_bar(text: str | None = None) -> Any:
    """A bar with its ETA, and a text or what is done of how many between them, on the terminal or
    in a notebook."""
    if _in_notebook():
        return NotebookBar()
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
        BarColumn(),
        middle,
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        get_time=working_time,
    )


class NotebookBar:
    """A bar below a cell of a notebook, of plain HTML that every notebook shows; it goes when it
    stops, and leaves its place to the next one of a run: empty ones are blank lines. For one task,
    by the methods of rich.progress.Progress that are used here."""

    place: tuple[int, Any] | None = None  # the number of a cell, and what shows nothing there now

    def __init__(self) -> None:
        self.handle: Any = None
        self.console, self.next_look = self, 0.0

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self) -> None:
        self.cell = _shell().execution_count
        place, NotebookBar.place = NotebookBar.place, None
        if place and place[0] == self.cell:
            self.handle = place[1]
        else:
            self.handle = self._display(_Html(""), display_id=True)

    def stop(self) -> None:
        if self.handle is not None:
            self.handle.update(_Html(""))
            NotebookBar.place, self.handle = (self.cell, self.handle), None

    def add_task(self, text: str, total: float | None = None, completed: float = 0.0) -> int:
        self.text, self.total, self.first = text, total, completed
        self.completed, self.began = completed, working_time()
        self._show()
        return 0

    def update(
        self, task: int, completed: float, total: float | None = None, description: str = ""
    ) -> None:
        self.completed, self.total = completed, total or self.total
        self.text = description or self.text
        self._show()

    def print(self, text: str, markup: bool = False) -> None:
        """A line that stays."""
        self._display(_Html(escape(text)))

    def _show(self):
        now = time.monotonic()
        if self.handle is None or now < self.next_look:
            return
        self.next_look = now + BAR_SECONDS
        text = escape(self.text)
        if not self.total:
            self.handle.update(_Html(text))
            return
        done = self.completed - self.first
        eta = (
            (working_time() - self.began) * (self.total - self.completed) / done
            if done > 0.0
            else None
        )
        if not text.endswith("ETA"):
            text = f"{text} {self.completed:g} of {self.total:g}  ETA"
        text = text.removesuffix("ETA") if eta is None else f"{text} {eta:.0f} s"
        bar = f'<progress value="{self.completed:g}" max="{self.total:g}"></progress>'
        self.handle.update(_Html(f"{bar} {text}"))

    @staticmethod
    def _display(what, **options):
        return import_module("IPython.display").display(what, **options)


class _Html:
    """What a notebook shows as it stands."""

    def __init__(self, text):
        self.text = text

    def _repr_html_(self):
        return self.text

    def __repr__(self):  # where there is no HTML
        return unescape(re.sub("<[^>]*>", "", self.text))


class StudyProgress:
    """A bar over the runs of a study on a terminal or in a notebook, a line for each elsewhere; the
    sentence of every run that fails."""

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
            self.started = working_time()
            if _shows_bars():
                self.bar = progress_bar()
                self.bar.start()
                self.task = self.bar.add_task("", total=count)
        elif self.bar:
            self.bar.update(self.task, completed=done)
            if failed:
                self.bar.console.print(outcome[1], markup=False)
            if done == count or failed and outcome[1].startswith("Interrupted"):
                self.bar.stop()
        else:
            eta = (working_time() - self.started) * (count - done) / done
            print(
                f"run {done} of {count}  ETA {eta:.0f} s{'  ' + outcome[1] if failed else ''}",
                file=sys.stderr,
                flush=True,
            )


class ProgressBar(Observer):
    """A bar on a terminal or in a notebook; elsewhere a line at most every half minute. The ETA
    counts this session only, without the time in which kernels are compiled."""

    def start(self, method: Method, clock: LoopState, save_times: Floats) -> None:
        self.end, self.started, self.bar = save_times[-1], (working_time(), clock.time), None
        self.due = time.monotonic() + LINE_SECONDS
        if _shows_bars():
            self.bar, self.due = self._make_bar(), 0.0
            self.bar.start()
            text = COMPILING if COMPILATION.seconds else "starting"
            self.task = self.bar.add_task(text, total=self.end, completed=clock.time)

    def _make_bar(self) -> Any:
        return progress_bar("{task.description}")

    def step(self, method: Method, clock: LoopState) -> None:
        now = time.monotonic()
        if now < self.due:
            return
        text = (
            f"t = {clock.time:.4g} / {self.end:g}  step {clock.step}  energy"
            f" {method.current.objective:.6g}"
        )
        if self.bar:
            self.due = now + BAR_SECONDS
            self.bar.update(self.task, completed=clock.time, description=f"{text}  ETA")
        else:
            self.due = now + LINE_SECONDS
            spent, done = working_time() - self.started[0], clock.time - self.started[1]
            if done > 0.0:
                text += f"  ETA {spent * (self.end - clock.time) / done:.0f} s"
            print(text, file=sys.stderr, flush=True)

    def finish(self, method: Method, clock: LoopState, status: str) -> None:
        if self.bar:
            self.bar.stop()
