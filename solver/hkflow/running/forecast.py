"""How long a run will take and how accurate it will be: from its first steps, and from a coarse run
beside it."""

import time
from math import log2
from typing import Any

import numpy as np

from ..accuracy.companions import error_bars
from ..arguments import Floats
from ..case.accuracy import asks_for_accuracy, first_size, sized
from ..case.build import build_problem
from ..case.datasets import DataSet
from ..case.load import CaseFile
from ..case.mesh_cache import cached_mesh
from ..case.resolve import best_method_of
from ..case.schema.case import Case
from ..case.schema.initial import GIVEN
from ..errors import CaseError
from ..methods.choice import kind_of, method_class
from ..methods.method import Method
from ..problem.problem import Problem
from ..solving.guards import GUARDS
from ..solving.loop import Loop
from ..solving.observer import Observer
from ..solving.solve import save_times
from ..solving.state import LoopState
from .accuracy import coarse_run, expected_power, relative_error
from .progress import say

MANY_STEPS = 1e5
MOST_BETWEEN = 2.0  # steps from save to save, where these are what keeps steps short
FEWER_SAVES = ["fewer time.saves"]
INEXACT = 1e-8  # of a kernel: what its series may leave out and nothing is said
FIRST_LOOK = 64  # steps, after which a forecast is made, and after twice as many, and so on
LAST_LOOK = 2**13
LEAST_POWER, MOST_POWER = 0.5, 8.0  # that times are taken to grow with steps
LARGE = 100.0  # targets, to which rates are in proportion
GROWN = 1.5  # times longer than the last step: a limit that does not keep steps short
PROBE_SECONDS, COARSE_SECONDS = 1.0, 5.0
# steps of a probe, at least the latter number if they take so many times as long
LEAST_PROBED, PATIENCE, FEWEST = 16, 4.0, 2


def steps_needed(step: int, half: float, time: float, end: float) -> float:
    """How many steps it takes to a time `end`, after some that came to `time` and the first half of
    them to `half`: t is taken to grow like a power of the steps."""
    if not 0.0 < half < time:
        return step * end / time if time > 0.0 else float("inf")
    power = min(max(log2(time / half), LEAST_POWER), MOST_POWER)
    return step * (end / time) ** (1.0 / power)


class Forecast(Observer):
    """Foresees how many steps a run takes, looking after 64, 128, … of them, and says once if twice
    these are more than 10⁵, what keeps them short, and what makes them fewer.

    aloud : whether it says so;  seconds : after which it ends the run, of a probe
    steps : foreseen, or None;  durations : seconds of the steps of a probe;  sentence : what it
        says, or ""
    """

    def __init__(self, aloud: bool = True, seconds: float | None = None) -> None:
        self.aloud, self.seconds, self.sentence = aloud, seconds, ""
        self.steps: float | None = None
        self.durations: list[float] = []

    def start(self, method: Method, clock: LoopState, save_times: Floats) -> None:
        self.begun, self.end, self.saves = (clock.step, clock.time), save_times[-1], len(save_times)
        self.half, self.look, self.last = 0.0, FIRST_LOOK // 2, time.monotonic()
        self.foreseen = self.latest = 0.0
        self.passed = 0, 0.0  # steps and time of the last step of a probe, which was `latest` long

    def step(self, method: Method, clock: LoopState) -> None:
        step, passed = clock.step - self.begun[0], clock.time - self.begun[1]
        if step == 0:  # the record of the start is made
            self.last = time.monotonic()
            return
        if self.seconds is not None:
            self._keep_pace(step, passed)
        if step < self.look or self.look > LAST_LOOK or self.sentence:
            return
        if self.look >= FIRST_LOOK:
            before = self.foreseen
            self.steps = steps_needed(step, self.half, passed, self.end - self.begun[1])
            self.foreseen = self.steps
            # steps that begin to grow are foreseen to be fewer each time
            many = min(self.steps, before) > MANY_STEPS and self.steps > 0.5 * before
            if many and not method.fixed_steps:
                self.sentence = self._in_words(method, clock, step)
                if self.aloud:
                    say(self.sentence)
        self.half, self.look = passed, 2 * step

    def _keep_pace(self, step, passed):
        """Note how long the step took, and what so few of them tell: the first ones grow, and a
        save may cut one short."""
        now = time.monotonic()
        self.durations.append(now - self.last)
        self.last = now
        dt, before = (passed - self.passed[1]) / (step - self.passed[0]), self.latest
        self.passed, self.latest = (step, passed), dt
        if self.look < FIRST_LOOK and dt > 0.0:
            self.steps = step + (self.end - self.begun[1] - passed) / max(dt, before)

    def stop(self) -> str | None:
        # the first steps may compile kernels
        many = len(self.durations) >= LEAST_PROBED
        passed = sum(self.durations[LEAST_PROBED // 2 :] if many else self.durations)
        if self.seconds is None or len(self.durations) < FEWEST:
            return None
        return "Probed" if passed > self.seconds * (1.0 if many else PATIENCE) else None

    @property
    def pace(self) -> float:
        """Seconds of a usual step of a probe; of two, the first of which may have compiled kernels,
        the shorter."""
        return sorted(self.durations)[(len(self.durations) - 1) // 2]

    def _in_words(self, method, clock, step):
        """What is foreseen, why, and the remedies: where saves are the reason, these alone."""
        why, remedies = _reason(method, clock, self.saves, self.steps)
        if remedies != FEWER_SAVES:
            best = kind_of(method.problem, "auto")
            if type(method) is not method_class(best):
                remedies = [f"method.kind = '{best}'", *remedies]
            data = getattr(method.problem.objective, "data", None) or method.problem.objective
            largest = np.abs(data.targets).max(initial=0.0)
            if largest > LARGE and not data.risk.classifies:
                remedies = [f"targets divided by their size, {largest:.0e}", *remedies]
            remedies = [*remedies, "an earlier time.end"]
        return (
            f"At the pace of its first {step} steps, to t = {clock.time:.3g}, the run takes about"
            f" {self.steps:.0e} of them to t = {self.end:g}: {why}. What makes them fewer:"
            f" {'; '.join(remedies)}."
        )


def _reason(method, clock, saves, steps):
    """What keeps the last of so many steps short, in words, and keys that make it longer."""
    dt, limit = clock.dt, clock.limits[clock.implicit]
    mesh = method.problem.mesh
    interval = getattr(method, "interval", np.inf) if method.flow.noise else np.inf
    if saves > steps / MOST_BETWEEN:
        return f"there are {saves} saves", FEWER_SAVES
    if max(dt, min(limit, GROWN * dt)) > 0.99 * method.max_step:  # saves divide them evenly
        return f"none is longer than {method.max_step:g}", ["a longer method.max_step"]
    if dt > 0.99 * interval:
        return f"noise comes every {interval:g}", ["a longer method.noise_interval"]
    if limit < GROWN * dt:
        what = f"a method.tolerance above {method.tolerance:g}"
        return f"the tolerance keeps them at {dt:.1e}", [what]
    if mesh is not None and method.moves:
        return f"mass crosses one of {mesh.n_cells} cells in {dt:.1e}", ["fewer domain.cells"]
    implicit = method.imex == "explicit" and method.knows_implicit()
    return f"each is {dt:.1e} long", ["method.imex = 'auto'"] if implicit else []


def prospects(file: CaseFile, case: Case, problem: Problem, method: Method) -> list[str]:
    """Sentences on a case that is not run yet: which method suits it, how many steps and seconds it
    needs, how accurate it will be, and what of its kernels error bars do not see.

    case : resolved;  problem : that it states;  method : of that, at its start
    Takes the first steps, of a second in all, and where that is a matter of seconds makes a coarse
    run with its error bars.
    """
    found = [_suits(case, problem), *_inexact_kernels(problem.objective)]
    if asks_for_accuracy(file.case):  # of which the problem is but the first try
        return found
    end: Any = case.time.end
    times = save_times(end, case.time.saves)
    probe = Forecast(aloud=False, seconds=PROBE_SECONDS)
    # without certificates, which cost little beside many steps
    loop = Loop(method, times, [probe], GUARDS, until_margin=case.time.until_margin)
    clock, _, finished = loop.run()
    count = clock.step if finished else probe.steps
    if not count:
        return [*found, "Expected time: unknown, for it took no step."]
    seconds = probe.pace * count
    more = "" if case.error.companions == "none" else ", and up to as long again for its error bars"
    found.append(f"Expected time: {_rounded(seconds)} s, about {_rounded(count)} steps{more}.")
    found += [probe.sentence] if probe.sentence else []
    return [*found, f"Expected accuracy: {_accuracy(file, case, problem, times, seconds)}"]


def _inexact_kernels(objective):
    """A sentence on each kernel whose series is not its own to many digits."""
    kernels = [(one.kernel, one.zonal) for one in getattr(objective, "interactions", ())]
    return [
        f"The kernel '{kernel}' is computed as a series of degree {zonal.degree}, off by"
        f" {zonal.error:.1g} where it has a kink or is steep; error bars do not see that."
        for kernel, zonal in kernels
        if zonal.error > INEXACT * zonal.size
    ]


def _rounded(number):
    return f"{number:.2g}" if number < 1000.0 else f"{number:.0e}"


def _suits(case, problem):
    """The method that suits a problem, why, and which one the case takes."""
    best, why = best_method_of(case, problem.objective)
    where = f"on {problem.domain.name} (d = {problem.dim})"
    if case.method.kind == best:
        return f"method.kind = 'auto' takes {best}: {why}. So does this case, {where}."
    return f"method.kind = 'auto' takes {best}: {why}. This case takes {case.method.kind} {where}."


def _accuracy(file, case, problem, times, seconds):
    """A sentence on the error of predictions to expect, from a coarse run."""
    later = "not estimated beforehand; error bars at the end of the run tell."
    kind, dim, signs = case.method.kind, problem.dim, len(problem.signs)
    chosen = getattr(case.method, "points", "quasi-uniform") == "quasi-uniform"
    if problem.domain.fixed or not chosen or case.initial.kind in GIVEN or kind == "network":
        return later
    own = problem.mesh.n_cells if kind == "grid" else len(problem.atoms()) // signs
    size = min(first_size(dim), own)
    if seconds * size / own > COARSE_SECONDS:
        return later
    try:
        coarse = sized(case, dim, size)
        o: Any = problem.objective
        inputs = o.inputs[:, : o.inputs.shape[1] - case.objective.bias]
        small = build_problem(coarse, file.folder, DataSet(inputs, o.targets, o.weights))
    except (CaseError, ValueError):
        return later
    run = coarse_run(small, coarse.method, times)
    if run is None:
        return later
    bars = error_bars(run, small, independent=False, mesh_of=cached_mesh)
    total, space, in_time = relative_error(run, bars)
    if total != total:
        return later
    error = space * (size / own) ** expected_power(run, bars) + in_time
    what = "predictions" if "predictions" in bars.bars else "moments"
    points = f"{size} {'cells' if kind == 'grid' else 'points for each sign'}"
    return f"{what} to about {error:.1g}, relative, by the error bars of a run with {points}."
