"""What a run does beside itself, in a second process. Where kernels are to be compiled, both
compile: this one what it wants next or, while it waits for the other, what is wanted later. The
second one finds the max-margin, and draws:

    this process    compiles sums, implicit steps │ steps │ companions │ compiles paths │
    the second      compiles steps, the max-margin                     │ max-margin     │ picture

Where all are compiled, and for grids, the second one computes the companions that tell errors:

    this process    steps      │ max-margin │
    the second      companions │ error bars │ picture
"""

import json
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, Queue
from threading import Event, Thread
from typing import Any

import numpy as np
from numba.core.event import Listener, register

from ..certificates.certificate import MarginCertifier, certifies_margin
from ..certificates.global_upper_bound import global_upper_bound
from ..certificates.search import local_maxima
from ..measures.point_measure import PointMeasure
from ..methods.method import Method
from ..methods.rules import many_kinks
from ..objectives.activations import feature_named, is_built_in
from ..objectives.losses import RISKS
from ..objectives.objective import Objective
from ..operators.dense import SMALL, blocked
from ..problem.flow import Flow
from ..problem.problem import Problem
from ..solving.final_margin import seeks_max_margin
from ..solving.observer import Observer
from ..solving.predicting import BLOCK, predictions_of
from ..solving.state import LoopState
from .beside import SecondProcess

STEP, SLIDING, HELD, IMPLICIT = "step", "sliding", "held", "implicit"
BOUND, MAX_MARGIN, PICTURE, PREDICTIONS = "bound", "max_margin", "picture", "predictions"
COMPANIONS, ERRORS = "companions", "errors"
TASKS = (MAX_MARGIN, PICTURE, COMPANIONS, ERRORS)
COMPILED, LEAVE = "compiled", "leave"
PATIENCE = 60.0  # seconds that this process waits for what it then does itself


class Compilation(Listener):
    """Seconds that this process has compiled, and the Ahead that is told when it begins."""

    def __init__(self) -> None:
        self.seconds, self.begun, self.depth = 0.0, 0.0, 0
        self.ahead: Ahead | None = None

    def on_start(self, event: Any) -> None:
        self.depth += 1  # a kernel compiles those that it calls
        if self.depth == 1:
            self.begun = time.monotonic()
            if self.ahead:
                self.ahead.compiles = True

    def on_end(self, event: Any) -> None:
        self.depth -= 1
        if not self.depth:
            self.seconds += time.monotonic() - self.begun


COMPILATION = Compilation()
register("numba:compile", COMPILATION)


def working_time() -> float:
    """Seconds on a clock that stands still while this process compiles."""
    compiling = time.monotonic() - COMPILATION.begun if COMPILATION.depth else 0.0
    return time.monotonic() - COMPILATION.seconds - compiling


class Ahead:
    """A second process, which compiles in advance, and is asked to do TASKS.

    kind : of the run's method;  order : what `order_for` says
    done : an Event for each stage, set when its kernels are compiled or nobody compiles them
    meanwhile : {stage: others}, what this process compiles while it waits for a stage
    compiles : whether this process has had to compile
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
        self.meanwhile: dict[str, list[str]] = {}
        if MAX_MARGIN in self.done and kind == "characteristics":
            self.meanwhile = {STEP: [HELD, IMPLICIT], MAX_MARGIN: [PICTURE, PREDICTIONS]}
        elif MAX_MARGIN in self.done and kind == "particles":
            self.meanwhile = {SLIDING: [IMPLICIT, MAX_MARGIN]}
        self.process, self.compiles = process, False
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


def order_for(
    problem: Problem,
    kind: str,
    stepper: str = "auto",
    proves: bool = True,
    tolerance: float | None = None,
) -> tuple[str, int, list[str]]:
    """What a second process compiles for a run by a kind of method: the name of the feature, axes
    of the inputs, and stages.

    stepper, tolerance : of particles;  proves : whether the run may take time for the max-margin
    """
    objective = problem.objective
    feature, axes = objective.feature, objective.inputs.shape[1]
    stages = [STEP, PICTURE, PREDICTIONS] if kind == "characteristics" else []
    if kind == "grid":
        from ..methods.grid.capture import captures

        stages = [STEP] if captures(problem) else []  # by the kernels of characteristics
    if kind == "particles" and stepper in ("auto", "sliding") and objective.entropy == 0.0:
        from ..methods.particles.ode import default_tolerance

        many = many_kinks(feature.outputs, tolerance or default_tolerance(objective))
        few = 0 < len(objective.inputs) < many or stepper == "sliding"
        stages = [SLIDING] if few and problem.flow.transport > 0.0 and feature.kink else []
    if certifies_margin(problem) and not problem.domain.fixed:
        # the bound is wanted with the first record, late where a grid's sums are to be compiled; of
        # several outputs it takes longest, and is late as well
        of_margins = [BOUND] if kind == "grid" or feature.outputs > 1 else []
        if proves and seeks_max_margin(problem):
            of_margins.append(MAX_MARGIN)
        stages[1:1] = of_margins
    return feature.name, axes, stages if is_built_in(feature) else []


@contextmanager
def helped_by(process: SecondProcess | None) -> Iterator[None]:
    """Within, a run has a second process do some of its work, where there is one."""
    HELPERS.append(process)
    try:
        yield
    finally:
        HELPERS.pop()
        if COMPILATION.ahead:
            COMPILATION.ahead.stop()
        COMPILATION.ahead = None


HELPERS: list[SecondProcess | None] = []


def plan(
    problem: Problem,
    kind: str,
    stepper: str = "auto",
    proves: bool = True,
    tolerance: float | None = None,
) -> None:
    """Tell what will be run; arguments as of `order_for`."""
    if HELPERS and HELPERS[-1] and COMPILATION.ahead is None:
        COMPILATION.ahead = Ahead(problem, kind, HELPERS[-1], stepper, proves, tolerance)
        COMPILATION.ahead.start()


def waits(stage: str) -> bool:
    """Whether a second process is still compiling the kernels of a stage."""
    return COMPILATION.ahead is not None and COMPILATION.ahead.waits(stage)


def wait(stage: str) -> None:
    """Wait for the kernels of a stage, if a second process compiles them."""
    if COMPILATION.ahead:
        COMPILATION.ahead.wait(stage)


def ask(task: str, folder: Path, *arguments: Any) -> None:
    """Let the second process do one of the TASKS for the run in a folder."""
    if COMPILATION.ahead:
        COMPILATION.ahead.ask(task, folder, *arguments)


def answer(task: str, seconds: float | None = 0.0) -> Any:
    """What the second process answers to a task that it was asked to do: whether there is a
    max-margin in the folder now, or error bars, or the names of pictures; None without it, and if
    it failed."""
    return COMPILATION.ahead.answer(task, seconds) if COMPILATION.ahead else None


def give_up() -> None:
    """End the second process, whatever it does."""
    if COMPILATION.ahead:
        COMPILATION.ahead.stop()


def tells_errors() -> bool:
    """Whether the second process computes companions, since it was asked to."""
    return COMPILATION.ahead is not None and COMPANIONS in COMPILATION.ahead.asked


class AsksForCompanions(Observer):
    """Asks for the companions of the run in a folder when its start is saved: if nothing had to be
    compiled until then, or the run is one of a grid, whose own kernels take longer to compile than
    those of its companions.

    independent : whether by another method, too
    """

    def __init__(self, folder: Path, independent: bool) -> None:
        self.folder, self.independent, self.asks = folder, independent, True

    def save(self, method: Method, clock: LoopState) -> None:
        made = COMPILATION.ahead
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


def compile_stage(stage: str, name: str, axes: int) -> None:
    """Call the kernels of a stage, for a built-in feature and inputs of so many axes."""
    COMPILE[stage](feature_named(name), np.eye(1, axes))


def _steps(feature, inputs):
    from ..methods.frozen_relu.kinks import Kinks
    from ..methods.frozen_relu.movement import Movement

    move = Movement(Kinks.of(feature, inputs), 1)
    before, after = ((blocked(inputs), np.zeros(1), np.zeros(1, dtype=np.int64)) for _ in range(2))
    move(before, np.ones(1), np.zeros(1), Flow(1.0, 1.0), 0.0, 0.0, 0.0, after)


def _sliding_steps(feature, inputs):
    from ..methods.particles.shifted import kinks_of
    from ..methods.particles.waveform import NODES, Sliding

    kinks, outputs = kinks_of(feature, inputs), feature.outputs
    move, drive = Sliding(kinks, feature.joint, 1, outputs), (np.ones((len(NODES), outputs)), NODES)
    points = blocked(np.ones((1, inputs.shape[1] + feature.joint * outputs)))
    nodes = NODES[1:]
    out = np.zeros((len(nodes), *points.shape)), np.zeros((len(nodes), 1))
    move((points, np.zeros(1)), np.ones(1), drive, (1.0, 1.0, 0.0, 0.0), 1.0, 0.0, nodes, out)


def _coupling_of_held(feature, inputs):
    from ..methods.frozen_relu.tangent_gram import held_coupling

    one_held = np.ones((2, inputs.shape[1])), np.ones(2), np.arange(2) == 1
    held_coupling(_datum(feature, inputs), inputs, *one_held, Flow(1.0, 1.0))


def _implicit_steps(feature, inputs):
    from ..methods.stepping.implicit_residuals import Coupling

    coupling = Coupling.stored(_datum(feature, inputs), 0.0, np.eye(1))
    coupling.solve(1.0, np.zeros(1), -np.ones(1))


def _datum(feature, inputs):
    return Objective(feature, RISKS["smooth-margin"], inputs, np.ones(1))


def _bound(feature, inputs):
    global_upper_bound(feature, inputs, np.ones(feature.outputs))


def _max_margin(feature, inputs):
    from ..certificates import column_generation  # noqa: F401  # with scipy.optimize

    local_maxima(feature, inputs, np.ones(feature.outputs), share=0.5)


def _backward_paths(feature, inputs):
    from ..methods.characteristics.backward import followed_back
    from ..methods.characteristics.history import History
    from ..methods.frozen_relu.kinks import Kinks

    kinks, nothing = Kinks.of(feature, inputs), History(np.zeros((1, 3)))
    followed_back(kinks, nothing, Flow(1.0, 1.0), 0.0, inputs, 1.0)


def _predictions(feature, inputs):
    """So many that threads share them."""
    axes = inputs.shape[1]
    units = PointMeasure(np.ones((SMALL // BLOCK, axes + feature.joint)))
    predictions_of(feature, units, np.zeros((BLOCK, axes)))


COMPILE: dict[str, Callable] = {
    STEP: _steps,
    SLIDING: _sliding_steps,
    HELD: _coupling_of_held,
    IMPLICIT: _implicit_steps,
    BOUND: _bound,
    MAX_MARGIN: _max_margin,
    PICTURE: _backward_paths,
    PREDICTIONS: _predictions,
}


def serve(prepare: Callable[[], object], tasks: Mapping[str, Callable[..., Any]]) -> None:
    """The second process: compile what the first line says, tell of each stage, and do the tasks
    that the others ask for, or leave stages out; end when the first process does, which holds the
    other end of stdin.

    prepare : loads what draws;  tasks : functions (folder, …) -> answer by their names, for TASKS
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the first process
    answers, sys.stdout = sys.stdout, sys.stderr
    asked: Queue[tuple] = Queue()
    Thread(target=_receive, args=(asked,), daemon=True).start()

    def tell(what, answer):
        print(json.dumps([what, answer]), file=answers, flush=True)

    def do(task, folder, *arguments):
        made = None
        with suppress(Exception), warnings.catch_warnings():
            # what there is to say is said by the first process, which does the task then
            for kind in (UserWarning, RuntimeWarning):
                warnings.simplefilter("error", kind)
            made = tasks[task](Path(folder), *arguments)
        tell(task, made)

    def obey(word, *of):
        if word == LEAVE:
            left.update(of)
        else:
            do(word, *of)

    left: set[str] = set()
    name, axes, stages = asked.get()
    later = []
    for stage in stages:
        if stage not in left:
            compile_stage(stage, name, axes)
            tell(COMPILED, stage)
        while not asked.empty():
            word = asked.get()
            if word[0] in (COMPANIONS, ERRORS):  # the first process may wait for a stage before
                later.append(word)
            else:
                obey(*word)
    for word in later:
        obey(*word)
    prepare()
    while True:
        obey(*asked.get())


def _receive(asked):
    """Take lines until there are no more, then end the process."""
    for line in open(0, "rb", closefd=False):  # noqa: SIM115
        asked.put(json.loads(line))
    os._exit(0)
