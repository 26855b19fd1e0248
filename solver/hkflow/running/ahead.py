"""What a run does beside itself, in a second process. Where kernels are to be compiled, both
compile: this one what it wants next or, while it waits for the other, what is wanted later. The
second one finds the max-margin, and draws:

    this process    compiles sums, implicit steps │ steps │ companions │ compiles paths │
    the second      compiles steps, the max-margin                     │ max-margin     │ picture

Where all are compiled, and for grids, the second one computes the companions that tell errors:

    this process    steps      │ max-margin │
    the second      companions │ error bars │ picture
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from threading import Event, Thread
from typing import Any

from ..certificates.certificate import MarginCertifier
from ..compilation import COMPILATION
from ..methods.method import Method
from ..problem.problem import Problem
from ..solving.observer import Observer
from ..solving.state import LoopState
from .beside import SecondProcess
from .stages import BOUND, MAX_MARGIN, MEANWHILE, PICTURE, SLIDING, STEP, compile_stage, order_for

COMPANIONS, ERRORS = "companions", "errors"
TASKS = (MAX_MARGIN, PICTURE, COMPANIONS, ERRORS)
COMPILED, LEAVE = "compiled", "leave"  # said of a stage by the second process, and to it
PATIENCE = 60.0  # seconds that this process waits for what it then does itself


class Ahead:
    """A second process, which compiles in advance, and is asked to do TASKS.

    kind : of the run's method;  order : what `order_for` says
    done : an Event for each stage, set when its kernels are compiled or nobody compiles them
    meanwhile : {stage: others}, what this process compiles while it waits for a stage
    """

    def __init__(
        self,
        problem: Problem,
        kind: str,
        process: SecondProcess,
        stepper: str = "auto",
        proves: bool = True,
        tolerance: float | None = None,
    ) -> None:
        self.kind, self.order = kind, order_for(problem, kind, stepper, proves, tolerance)
        self.done = {stage: Event() for stage in self.order[-1]}
        self.meanwhile = dict(MEANWHILE.get(kind, {})) if MAX_MARGIN in self.done else {}
        self.process, self.compiled_before = process, COMPILATION.count
        self.answers: dict[str, Queue] = {task: Queue() for task in TASKS}
        self.asked: set[str] = set()

    def start(self) -> None:
        """Tell the process what to compile, and listen to it."""
        self.process.tell(self.order)
        self.listener = Thread(target=self._listen, daemon=True)
        self.listener.start()

    def _listen(self):
        for what, answer in self.process.answers():
            if what == COMPILED:
                self.done[answer].set()
            else:
                self.answers[what].put(answer)
        for event in self.done.values():
            event.set()
        for answers in self.answers.values():
            answers.put(None)

    @property
    def compiles(self) -> bool:
        """Whether this process has had to compile since the other one helps it."""
        return COMPILATION.count > self.compiled_before

    def waits(self, stage: str) -> bool:
        """Whether the kernels of a stage are being compiled."""
        return self.compiles and stage in self.done and not self.done[stage].is_set()

    def wait(self, stage: str) -> None:
        """Wait until the kernels of a stage are compiled, if they are being compiled; compile what
        is wanted later meanwhile."""
        if self.waits(stage):
            self._compile_for(stage)
            begun = time.monotonic()
            self.done[stage].wait(PATIENCE)
            COMPILATION.seconds += time.monotonic() - begun

    def _compile_for(self, stage):
        for other in self.meanwhile.pop(stage, ()):
            if not self.waits(stage):
                return
            self.process.tell([LEAVE, other])
            with suppress(Exception):  # whoever calls the kernels says what is wrong
                compile_stage(other, *self.order[:2])
            if other in self.done:
                self.done[other].set()

    def ask(self, task: str, folder: Path, *arguments: Any) -> None:
        """Let the process do one of the TASKS for the run in a folder."""
        self.asked.add(task)
        self.process.tell([task, str(folder), *arguments])

    def answer(self, task: str, seconds: float | None = 0.0) -> Any:
        """What it answers, which may take it so many seconds, or any time with None; None if it was
        not asked, or cannot do the task."""
        if task not in self.asked:
            return None
        ended = not self.listener.is_alive()  # then no answer is on its way
        timeout = 0.0 if ended else None if seconds is None else seconds + PATIENCE
        with suppress(Empty):
            return self.answers[task].get(timeout=timeout)
        self.stop()  # before it writes what this process writes then
        return None

    def stop(self) -> None:
        """End the process, which ends by itself when this one does."""
        self.process.stop()
        self.listener.join()


@dataclass
class Current:
    """The process that helps the run of now, if one does, and its Ahead once that is planned."""

    process: SecondProcess | None = None
    ahead: Ahead | None = None


CURRENT = Current()


@contextmanager
def helped_by(process: SecondProcess | None) -> Iterator[None]:
    """Within, a run has a second process do some of its work, where there is one."""
    CURRENT.process = process
    try:
        yield
    finally:
        if CURRENT.ahead:
            CURRENT.ahead.stop()
        CURRENT.process = CURRENT.ahead = None


def plan(
    problem: Problem,
    kind: str,
    stepper: str = "auto",
    proves: bool = True,
    tolerance: float | None = None,
) -> None:
    """Tell what will be run; arguments as of `order_for`."""
    if CURRENT.process and CURRENT.ahead is None:
        CURRENT.ahead = Ahead(problem, kind, CURRENT.process, stepper, proves, tolerance)
        CURRENT.ahead.start()


def waits(stage: str) -> bool:
    """Whether a second process is still compiling the kernels of a stage."""
    return CURRENT.ahead is not None and CURRENT.ahead.waits(stage)


def wait(stage: str) -> None:
    """Wait for the kernels of a stage, if a second process compiles them."""
    if CURRENT.ahead:
        CURRENT.ahead.wait(stage)


def ask(task: str, folder: Path, *arguments: Any) -> None:
    """Let the second process do one of the TASKS for the run in a folder."""
    if CURRENT.ahead:
        CURRENT.ahead.ask(task, folder, *arguments)


def answer(task: str, seconds: float | None = 0.0) -> Any:
    """What the second process answers to a task that it was asked to do: whether there is a
    max-margin in the folder now, or error bars, or the names of pictures; None without it, and if
    it failed."""
    return CURRENT.ahead.answer(task, seconds) if CURRENT.ahead else None


def give_up() -> None:
    """End the second process, whatever it does."""
    if CURRENT.ahead:
        CURRENT.ahead.stop()


def tells_errors() -> bool:
    """Whether the second process computes companions, since it was asked to."""
    return CURRENT.ahead is not None and COMPANIONS in CURRENT.ahead.asked


class AsksForCompanions(Observer):
    """Asks for the companions of the run in a folder when its start is saved: if nothing had to be
    compiled until then, or the run is one of a grid, whose own kernels take longer to compile than
    those of its companions.

    independent : whether by another method, too
    """

    def __init__(self, folder: Path, independent: bool) -> None:
        self.folder, self.independent, self.asks = folder, independent, True

    def save(self, method: Method, clock: LoopState) -> None:
        made = CURRENT.ahead
        if self.asks and made and (made.kind == "grid" or not COMPILATION.seconds):
            made.ask(COMPANIONS, self.folder, self.independent)
        self.asks = False


class WaitsForKernels(Observer):
    """Waits before the first step until its kernels are compiled."""

    def step(self, method: Method, clock: LoopState) -> None:
        for stage in (STEP, SLIDING):
            wait(stage)


class PatientCertifier(MarginCertifier):
    """Waits until the kernels of its bound are compiled."""

    def record(
        self, e: Any, margin: float, known: tuple, renew: bool, log_scale: float = 0.0
    ) -> dict[str, float]:
        """As of MarginCertifier."""
        if renew:
            wait(BOUND)
        return super().record(e, margin, known, renew, log_scale)
