"""Runs to an accuracy: cells or points and tolerance are chosen from a coarse run, and again from
error bars."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from psutil import virtual_memory

from ..accuracy.companion import (
    Companion,
    dim_of_errors,
    errs_by_chance,
    order_of_points,
    orders_of,
    other_method,
    solved,
)
from ..accuracy.companions import Watch, error_bars
from ..accuracy.error_bars import ErrorBars
from ..accuracy.plan import Rival
from ..arguments import Floats
from ..case.accuracy import first_size, is_largest, size_for, sized, with_method
from ..case.load import CaseFile
from ..case.memory import estimated_memory
from ..case.mesh_cache import cached_mesh
from ..case.resolve import resolve
from ..case.schema.methods import TABLES
from ..compilation import processor_time
from ..errors import CaseError, HkflowError
from ..methods.rules import MANY_KINKS
from ..operators.ranks import Alone
from ..problem.problem import Problem
from ..solving.result import Result
from ..solving.solution import Solution
from ..solving.solve import save_times
from ..store.run import Run
from .check import build_case
from .error_bars import BROKEN_OFF, RESUMED, keep
from .progress import PREPARING, doing, say

AGAIN = 2  # times at most that a run is made again with more
AIM = 0.9  # of the accuracy that is wanted: what misses by little is to grow little
LAST = 0.75  # of it, by the last run, after which there is no other
IN_TIME = 0.2  # of that at most, or what errors in time are where these are less
OVERRATED = 2.5  # times, at least, that errors in time of few cells are told as larger
TIME_ORDER = 0.8  # of errors in the tolerance; from 2/3 to 1.4 have been seen
# tolerances: of the first run from points as a share of the accuracy, which leaves errors of 0.05
# to 0.1 of it, at most LOOSEST; of grids, whose looser steps are implicit ones and take longer;
# of grids whose loss is a smooth margin, where steps are implicit anyway
OF_POINTS, LOOSEST, OF_GRIDS, OF_MARGINS, TIGHTEST = 0.3, 3e-3, 1e-4, 1e-2, 1e-10
OVER_KINKS = 0.1  # times that of points: of positions, where others are of predictions
GROWTH = 256.0  # at most so many times more points at once: what is coarser says little of it
OF_RIVALS = 0.25  # of the accuracy: that of another method by which a grid is judged
NEAR = 16.0  # times more points than a coarse run's are chosen again, from one of 1/16 of them
FEWER = 1.5  # times fewer cells or points are tried, again and again, where these are too many
LONGEST, LONG = 3600.0, 60.0  # seconds of steps: at most, and from where on they are announced
EXACT = 1e-14  # relative, below which nothing is left to gain


@dataclass(frozen=True)
class Choice:
    """How a run to an accuracy is made.

    kind : of the method;  size : cells, or points for each sign;  tolerance : of the method
    seconds : that its steps are expected to take;  memory : bytes that it needs
    limit : what keeps it from more cells or points, or "";  bars : if a coarse run was this very
        run, those of it;  known : runs on fewer cells or points that are made already
    rival : of a grid, the run by another method by which it is judged
    """

    file: CaseFile
    kind: str
    size: int
    tolerance: float
    seconds: float
    memory: int
    limit: str
    bars: ErrorBars | None = None
    known: list[Solution] = field(default_factory=list)
    rival: Rival | None = None

    def __str__(self):
        what = "cells" if self.kind == "grid" else "points for each sign"
        return f"{self.kind}, {self.size} {what}, tolerance {self.tolerance:.2g}"


def relative_error(run: Result, bars: ErrorBars) -> tuple[float, float, float]:
    """The largest of `relative_errors`, and its parts in space and time; nan without bars."""
    parts = relative_errors(run, bars)
    space, in_time = parts[:, np.argmax(parts.sum(axis=0))].tolist()
    return space + in_time, space, in_time


def relative_errors(run: Result, bars: ErrorBars) -> Floats:
    """Errors in space and time of the predictions at the saves, and of those of test data, (2, k);
    relative to the larger of predictions and targets, root mean squares (numbers of classes count
    as 1, as ±1 do). Without data those of the first and second moment, relative to the mass."""
    if not bars.bars:
        return np.full((2, 1), np.nan)
    if "predictions" in bars.bars:
        parts = _of_predictions(run, bars, "predictions", run.scaled_predictions, run.targets)
        if "test_predictions" in bars.bars:
            test = run.scaled_test_predictions, run.test.targets
            tested = _of_predictions(run, bars, "test_predictions", *test)
            parts = np.hstack([parts, tested])
        return parts
    sizes = np.ones(len(run.time)) if bars.normalised else np.maximum(run.mass, 1e-300)
    bar = bars.leading(sizes)
    return np.array([bar.space, bar.time]) / sizes


def _of_predictions(run, bars, name, scaled, targets):
    """Relative errors of predictions at the saves in space and time, (2, n_saves); of those in
    units of e^log_scale, (n_saves, n) or (n_saves, n, k), for targets (n,).

    Where there are bars of h/|ν| alone, the mass being beyond numbers, errors of the mass are
    errors of h as well: |δh| ≤ |ν| |δ(h/|ν|)| + |h| |δ log |ν||.
    """
    plain = bars.bars.get(f"plain_{name}")
    bar, per_mass = plain or bars.bars[name], bars.normalised and plain is None
    unit = run.log_mass if per_mass else 0.0
    h = scaled.reshape(len(run.time), -1)
    own = np.sqrt(np.mean(h**2, axis=1)) * np.exp(run.log_scale - unit)
    wanted = 1.0 if run.class_names else np.sqrt(np.mean(targets**2))
    sizes = np.maximum(own, wanted * np.exp(-unit))
    parts = np.array([bar.space, bar.time]) / sizes
    if per_mass:
        mass = bars.bars["log_mass"]
        parts += np.array([mass.space, mass.time]) * (own / sizes)
    return parts


def run_to_accuracy(
    run: Callable[..., Run],
    file: CaseFile,
    folder: Path,
    force: bool | None,
    ranks: Alone,
    quiet: bool,
    begun: Callable[["Attempt"], Run] | None = None,
) -> Run:
    """Make the run of a case that asks for an accuracy: as planned, and again with more at most
    twice; earlier ones are moved aside.

    run : function (file, folder, force, judge) that makes a run folder of a case, with error bars
        by a Judge;  force, ranks, quiet : as of hkflow.run
    begun : function (judge) that ends the first run where that was broken off
    """
    if ranks.size > 1:
        raise CaseError(
            file.placed(
                "method.accuracy: several ranks compute what is chosen already; give cells or"
                " particles, and tolerance."
            )
        )
    method: Any = file.case.method
    wanted = method.accuracy
    with doing(PREPARING, quiet):
        choice = plan(file)
    for again in range(AGAIN + 1):
        if choice.seconds > LONG:
            say(f"An accuracy of {wanted:g} takes {choice}: about {choice.seconds:.1g} s.")
        judge = Attempt(choice, wanted, again)
        if begun and not again:
            made = begun(judge)
        else:
            made = run(choice.file, folder, True if again else force, judge)
        if not made.finished:
            return _unfinished(made, wanted)
        bars: Any = made.errors
        if bars.wanted == wanted:
            break
        choice = refined(file, choice, made, bars, AIM if again == 0 else LAST)
    return made


@dataclass(frozen=True)
class Attempt:
    """One of the runs that are made to reach an accuracy.

    choice : how, None of one that is resumed by itself;  wanted : the accuracy;  again : how many
        were made before; after AGAIN no other is
    """

    choice: Choice | None
    wanted: float
    again: int = AGAIN

    def judged(self, run: Run, problem: Problem, another: bool, watch: Watch | None) -> ErrorBars:
        """The error bars of the run, those of the coarse run if that was this very run.

        problem : as the case states it;  another : whether another method may be asked
        watch : function (done, of how many)
        """
        if self.choice is None:
            return bars_for(self.wanted, run, problem, another, [], None, watch)
        bars, rival = self.choice.bars, self.choice.rival
        # a margin or an observer may have ended this run before its last saves
        if bars and np.array_equal(bars.time, run.time):
            return bars
        if rival and not np.array_equal(rival.run.time, run.time):
            rival = None
        known = self.choice.known  # companions of this run are added to them
        return bars_for(self.wanted, run, problem, another, known, rival, watch)

    def told(self, run: Run, bars: ErrorBars) -> ErrorBars:
        """Them, with the accuracy that was reached and what kept it from more if no other run is
        made."""
        reached = relative_error(run, bars)[0]
        if reached <= self.wanted:
            limit = ""
        elif bars.remark.startswith(BROKEN_OFF):
            limit = bars.remark
        elif self.choice is None:
            limit = RESUMED
        elif self.choice.limit or self.again == AGAIN:
            limit = self.choice.limit or f"{AGAIN + 1} runs were made"
        else:
            return bars
        return replace(bars, wanted=self.wanted, reached=reached, limit=limit)


def as_wanted(run: Run, bars: ErrorBars) -> ErrorBars:
    """New error bars of a run, with the accuracy that it was made to and what they say of it."""
    before = run.errors
    if before is None or not before.judges:
        return bars
    reached = relative_error(run, bars)[0]
    kept = reached > before.wanted and not before.limit.startswith(BROKEN_OFF)
    limit = before.limit if kept else ""
    return replace(bars, wanted=before.wanted, reached=reached, limit=limit)


def _unfinished(made, wanted):
    """A run that did not reach its end, which says so of the accuracy if no signal ended it."""
    if made.missing or made.signal is not None:
        return made
    bars = ErrorBars(made.time, remark="the run did not reach its end", wanted=wanted)
    keep(made, bars)
    return made.read_again()


def plan(file: CaseFile) -> Choice:
    """How to make the run of a case that asks for an accuracy, from a coarse run in memory, and
    where many more cells or points are needed from others of 1/16 of these: orders that few show
    are not those of many. Grids are judged by another method, which is made to a quarter of
    the accuracy before."""
    case, dim = with_method(file.case, file.folder)
    file, first = replace(file, case=case), first_size(dim)
    rival = _rival(file, dim, first)
    size, choice = first, _tried(file, dim, first, rival=rival)
    while choice.size > NEAR * size:
        size = size_for(choice.kind, dim, choice.size / NEAR)
        choice = _tried(file, dim, size, choice.known, rival)
    return choice


def _rival(file, dim, first):
    """The Rival of the grid of a case; None for other methods, where no other method computes the
    same, and where it would not be accurate enough."""
    case = sized(file.case, dim, first)
    if case.method.kind != "grid" or case.error.companions != "all":
        return None
    resolved, problem = build_case(replace(file, case=case))
    kind = other_method(problem)
    if not kind:
        return None
    wanted = OF_RIVALS * file.case.method.accuracy
    method = TABLES[kind].model_validate({"kind": kind, "accuracy": wanted})
    domain = file.case.domain.model_copy(update={"cells": None})
    other = replace(file, case=file.case.model_copy(update={"method": method, "domain": domain}))
    try:
        choice = plan(other)
        times = save_times(resolved.time.end, resolved.time.saves)
        for again in range(AGAIN + 1):
            resolved, problem = build_case(choice.file)
            run = None if choice.limit else coarse_run(problem, resolved.method, times)
            if run is None:
                return None
            bars = choice.bars or bars_for(wanted, run, problem, True, choice.known)
            if relative_error(run, bars)[0] <= wanted:
                return Rival(run, bars)
            choice = refined(other, choice, run, bars, AIM if again == 0 else LAST)
    except HkflowError:
        pass
    return None


def _tried(file, dim, size, known=(), rival=None):
    """The Choice by a coarse run of so many cells or points."""
    wanted, case = file.case.method.accuracy, sized(file.case, dim, size)
    resolved, problem = build_case(replace(file, case=case))
    tolerance = float(np.clip(OF_POINTS * wanted, TIGHTEST, LOOSEST))
    if case.method.kind == "particles" and len(problem.objective.inputs) >= MANY_KINKS:
        tolerance *= OVER_KINKS
    if case.method.kind == "grid":
        tolerance = OF_GRIDS if problem.objective.risk.scaled is None else OF_MARGINS
    case = sized(file.case, dim, size, tolerance)
    method = resolved.method.model_copy(update={"tolerance": tolerance})
    end: Any = resolved.time.end
    began = processor_time()
    known = list(known)
    run = coarse_run(problem, method, save_times(end, resolved.time.saves))
    if run is None:
        seconds = processor_time() - began
        return _choice(file, case, dim, problem.objective, size, None, seconds)
    bars = bars_for(wanted, run, problem, case.error.companions == "all", known, rival)
    found = _better(file, case, dim, size, run, bars, run.end["seconds"], rival=rival)
    found = replace(found, known=[run, *known], rival=rival)
    same = found.size == size and found.tolerance == tolerance
    return replace(found, bars=bars) if same and bars.bars else found


def coarse_run(problem: Problem, table: Any, times: Floats) -> Solution | None:
    """A run of few cells or points in memory; None if it fails.

    table : of the method in the case;  times : of the saves
    """
    options = {
        name: value
        for name, value in table.model_dump().items()
        if value is not None and name not in ("particles", "points", "scale", "accuracy")
    }
    run = solved(Companion(problem, options, 1.0, "the coarse run"), times)
    if run is not None:
        run.options["points"] = getattr(table, "points", None)
    return run


def bars_for(
    wanted: float,
    run: Result,
    problem: Problem,
    another: bool,
    known: list[Solution],
    rival: Rival | None = None,
    watch: Watch | None = None,
) -> ErrorBars:
    """The error bars of a run that is made to an accuracy; where those that cost little are too
    wide for it, as narrow ones as can be.

    another : whether another method may be asked;  problem, known, rival, watch : as of
        `error_bars`
    """
    bars = error_bars(run, problem, another, cached_mesh, watch, known, rival=rival)
    if rival:
        return bars
    if not relative_error(run, bars)[0] <= wanted:
        bars = error_bars(run, problem, another, cached_mesh, watch, known, anyway=True)
    return bars


def refined(
    file: CaseFile, choice: Choice, made: Result, bars: ErrorBars, aim: float = AIM
) -> Choice:
    """What to do after a run that was not accurate enough, by its error bars."""
    named, dim = with_method(file.case, file.folder)
    file = replace(file, case=named)
    seconds = made.end.get("seconds", choice.seconds)
    case, made_before = choice.file.case, {"known": choice.known, "rival": choice.rival}
    found = _better(file, case, dim, choice.size, made, bars, seconds, aim, choice.rival)
    if found.size > choice.size or found.tolerance < 0.9 * choice.tolerance:
        return replace(found, **made_before)
    more = size_for(choice.kind, dim, 2.0 * choice.size)
    o = made.problem.objective
    found = _choice(file, case, dim, o, more, choice.tolerance, seconds, choice.size)
    return replace(found, **made_before)


def _better(file, case, dim, size, run, bars, seconds, aim=AIM, rival=None):
    """A choice by the errors of a run of so many cells or points: by their sum where it is largest,
    and by those in space and in time alone at all other saves, and of test data. The bar of a rival
    stays as it is, and all besides is taken for errors in space: those in time are told by few
    cells, which overrate them."""
    floor = relative_error(rival.run, rival.bars)[0] if rival else 0.0
    wanted = aim * file.case.method.accuracy - floor
    total, space, in_time = relative_error(run, bars)
    elsewhere = np.zeros(2) if rival else relative_errors(run, bars).max(axis=1)
    if rival:
        space, in_time = total - floor, in_time / OVERRATED
    tolerance, o = case.method.tolerance, run.problem.objective
    if np.isnan(total):
        return _choice(file, case, dim, o, 4 * size, tolerance, seconds)
    allowed = wanted if rival else wanted - min(in_time, IN_TIME * wanted)
    power = expected_power(run, bars)
    most = max(space / allowed, elsewhere[0] / wanted)
    grows = most ** (1.0 / power) if most * wanted > EXACT else 0.0
    new = size_for(case.method.kind, dim, size * min(max(grows, 1.0), GROWTH))
    left = wanted if rival else wanted - min(space * (size / new) ** power, allowed)
    beyond = max(in_time / left if in_time > left else 0.0, elsewhere[1] / wanted)
    if beyond > 1.0:  # how far a looser one would do is not known
        tolerance *= beyond ** (-1.0 / TIME_ORDER)
    tolerance = max(tolerance, TIGHTEST)
    return _choice(file, case, dim, o, new, tolerance, seconds, size)


def expected_power(run: Result, bars: ErrorBars) -> float:
    """The p of n^-p by which errors are expected to fall with the number n of cells or points:
    where they `errs_by_chance` that by which their bars are told; else by the observed order, at
    least the middle of those expected, since a lower one has widened the bar already."""
    bar = bars.leading()
    if "random" in bar.verdict:
        return 0.5
    dim = dim_of_errors(run.problem)
    band = orders_of(run.problem, run.method, run.options)
    if errs_by_chance(run.problem, run.method):
        return order_of_points(run.problem, band) / dim
    unknown = np.isnan(bar.order) or "not in the asymptotic range" in bar.verdict
    order = 1.5 if unknown else float(np.clip(bar.order, float(np.mean(band)), 2.0))
    return order / dim


def _choice(file, case, dim, objective, wanted, tolerance, seconds, size=None):
    """The Choice of at least so many cells or points."""
    kind = case.method.kind
    new = size_for(kind, dim, wanted)
    limit = f"{new} is the most" if is_largest(kind, dim, new) else ""
    there, power = virtual_memory().total, 1.0 + (1.0 / dim if kind == "grid" else 0.0)
    while True:
        made = sized(file.case, dim, new, tolerance)
        memory = estimated_memory(resolve(made, file.folder), objective)
        takes = seconds * (new / (size or new)) ** power
        if new <= first_size(dim) or (memory <= there and takes <= LONGEST):
            break
        limit = f"the memory of {there / 1e9:.1f} GB"
        if memory <= there:
            limit = f"more would take over {LONGEST / 3600.0:g} h: give cells or particles for that"
        wanted = min(wanted, new) / FEWER
        new = size_for(kind, dim, wanted)
    named: Any = replace(file, case=made)
    return Choice(
        named,
        kind,
        new,
        float(made.method.tolerance or 1e-6),
        takes,
        memory,
        limit,
    )
