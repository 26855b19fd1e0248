"""What a run waits for while Numba compiles: for how long, and a second process that compiles the
kernels that are needed last.

    this process    sums, bound of the margin │ steps │ companions │ max-margin │ picture
    the second      kernels of a step ────────▸ of the max-margin ─▸ of the picture ─▸

The second process starts when something is compiled, which means that the caches are empty or old,
and calls the kernels with a datum or two. This process finds them compiled in Numba's cache.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import numpy as np
from numba.core.event import Listener, register

from ..certificates.certificate import certifies_margin
from ..methods.method import Method
from ..objectives.activations import FEATURES
from ..problem.problem import Problem
from ..solving.observer import Observer
from ..solving.state import LoopState

STEP, MAX_MARGIN, PICTURE = "step", "max_margin", "picture"
PATIENCE = 60.0  # seconds that this process waits for a kernel, then it compiles it itself


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
                self.ahead.start()

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
    """A second process that compiles.

    done : an Event for each stage, set when its kernels are compiled or nobody compiles them
    """

    def __init__(self, problem: Problem, kind: str) -> None:
        feature = problem.objective.feature
        stages = [STEP, PICTURE] if kind == "characteristics" else []
        if kind == "grid":
            from ..methods.grid.capture import captures

            stages = [STEP] if captures(problem) else []  # by the kernels of characteristics
        if certifies_margin(problem) and not problem.domain.fixed:
            stages.insert(1, MAX_MARGIN)
        built_in = FEATURES.get(feature.name) is feature
        self.order = (feature.name, problem.objective.axes, stages if built_in else [])
        self.done = {stage: Event() for stage in self.order[-1]}
        self.process: subprocess.Popen | None = None

    def start(self) -> None:
        """Start the process, unless it runs already or has nothing to do."""
        if self.process or not self.done:
            return
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        command = [sys.executable, "-P", "-m", __name__, json.dumps(self.order)]
        try:
            self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nothing)
        except OSError:  # no room for another one
            self.done = {}
            return
        self.listener = Thread(target=self._listen, args=(self.process,), daemon=True)
        self.listener.start()

    def _listen(self, process):
        for line in process.stdout:
            self.done[line.decode().strip()].set()
        for event in self.done.values():
            event.set()

    def wait(self, stage: str) -> None:
        """Wait until the kernels of a stage are compiled, if they are being compiled."""
        if self.process and stage in self.done:
            begun = time.monotonic()
            self.done[stage].wait(PATIENCE)
            COMPILATION.seconds += time.monotonic() - begun

    def stop(self) -> None:
        """End the process, which ends by itself when this one does."""
        if self.process:
            with self.process:
                self.process.kill()
                self.listener.join()


@contextmanager
def compiling_ahead() -> Iterator[None]:
    """Within, runs may start a second process that compiles, where there is a core for it."""
    PLANS.append(_cores() > 1)
    try:
        yield
    finally:
        PLANS.pop()
        if COMPILATION.ahead:
            COMPILATION.ahead.stop()
        COMPILATION.ahead = None


PLANS: list[bool] = []


def plan(problem: Problem, kind: str) -> None:
    """Tell what will be run, and by which kind of method."""
    if PLANS and PLANS[-1] and COMPILATION.ahead is None:
        COMPILATION.ahead = Ahead(problem, kind)


def wait(stage: str) -> None:
    """Wait for the kernels of a stage, if a second process compiles them."""
    if COMPILATION.ahead:
        COMPILATION.ahead.wait(stage)


class WaitsForKernels(Observer):
    """Waits before the first step until its kernels are compiled."""

    def step(self, method: Method, clock: LoopState) -> None:
        wait(STEP)


def _cores():
    """How many cores this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def compile_stage(stage: str, name: str, axes: int) -> None:
    """Call the kernels of a stage, for a built-in feature and inputs of so many axes."""
    feature, inputs = FEATURES[name], np.eye(axes)[:1]
    if stage == MAX_MARGIN:
        from ..certificates.search import local_maxima

        local_maxima(feature, inputs, np.ones(1), share=0.5)
        return
    from ..methods.frozen_relu.kinks import Kinks
    from ..problem.flow import Flow

    kinks, flow = Kinks.of(feature, inputs), Flow(1.0, 1.0)
    if stage == PICTURE:
        from ..methods.characteristics.backward import followed_back
        from ..methods.characteristics.history import History

        followed_back(kinks, History(np.zeros((1, 3))), flow, 0.0, np.eye(axes), 1.0)
        return
    from ..methods.frozen_relu.movement import Movement
    from ..operators.dense import blocked

    before, after = (
        (blocked(np.eye(axes)[:1]), np.zeros(1), np.zeros(1, dtype=np.int64)) for _ in range(2)
    )
    move = Movement(kinks, 1)
    move(before, np.ones(1), np.zeros(1), flow, 0.0, 0.0, 0.0, after)


def main() -> None:
    """The second process: compile what the arguments say, tell of each stage, and end when the
    first process does, which holds the other end of stdin."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the first process
    Thread(target=lambda: (sys.stdin.buffer.read(), os._exit(0)), daemon=True).start()
    name, axes, stages = json.loads(sys.argv[1])
    for stage in stages:
        compile_stage(stage, name, axes)
        print(stage, flush=True)


if __name__ == "__main__":
    main()
