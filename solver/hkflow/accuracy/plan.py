"""Which companions tell of the errors of a run."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..arguments import Floats, Integers
from ..geometry.mesh import TOLERANCE, is_like
from ..measures.point_measure import PointMeasure
from ..methods.choice import make_method
from ..problem.problem import Problem
from ..solving.result import Result
from ..solving.solution import Solution
from .companion import (
    LEAST,
    LONGER,
    Companion,
    MeshOf,
    as_short,
    batches_of,
    by_another,
    count_of,
    cut_short,
    is_kinked,
    longest_wait,
    options_of,
    other_method,
    sites_of,
    starts_from_points,
    thinned,
    with_shorter_steps,
    with_tolerance,
)
from .error_bars import ErrorBars

FEWER = 4  # times fewer points, or cells where meshes are of any size
FAR_FEWER = 6.0  # so many times fewer points, and more, are far fewer
TIMED = 150  # points or cells of the pair that tells errors in time, where there are so many
# cells of the coarsest companion, for features with a kink, whose orders are close, and without
MANY = {True: 40, False: 150}
# so many cells' centres at most start the independent method: on the circle all, where their
# sums are cheap, and of smooth margins; else 1/PART of them, but up to the second number anyway,
# or the first two meshes. Elsewhere a grid of fewer cells than the third takes no longer than that
INDEPENDENT, INDEPENDENT_ANYWAY, WORTH_ANOTHER, PART = 1000, 300, 1000, 64
# by how much the tolerance of one companion is tighter, of grids and of points, whose steps may be
# those between saves; or looser, where there is none with fewer points, and of the coarser mesh of
# the independent method
TIGHTER, LOOSER = {True: 0.25, False: 0.1}, 10.0
MORE_STEPS, FEW_STEPS = 2.0, 1000  # times a network's steps, and steps, that companions may take
FEW = 64  # steps of a run, up to which tolerances tell little: saves cut them, or they grow freely
FEW_INTERVALS = 8  # of noise in a run
SAVES = 21  # of companions at most, the first and the last of the run's and others between


@dataclass(frozen=True, eq=False)
class Rival:
    """A run of the same problem by another method, at the same saves, and its own error bars."""

    run: Solution
    bars: ErrorBars

    def __str__(self):
        return f"{self.run.method} from {count_of(self.run.problem)} points"


@dataclass(frozen=True, eq=False)
class Plan:
    """Which companions tell of a run.

    saves : of the run at which they are compared;  own : the run itself
    coarse, batches, apart : tell errors in space: fewer cells or points, parts of random points,
        another method
    pair : whose difference tells errors in time, the second with a tolerance `ratio` times that of
        the first, which may be the run itself
    alone : whether another method alone tells errors in space
    rival : a run by it that is known
    seen : on fewer cells, by whose distance from the rival the order is seen
    """

    saves: Integers
    own: Companion
    coarse: list[Companion]
    batches: list[Companion]
    pair: list[Companion]
    apart: list[Companion]
    ratio: float
    alone: bool
    rival: Rival | None
    seen: Companion | None

    @property
    def wanted(self) -> list[Companion]:
        """All that are to be computed, each once."""
        seen = [self.seen] if self.seen else []
        every = (*self.coarse, *self.batches, *self.pair, *self.apart, *seen)
        return [one for one in dict.fromkeys(every) if one is not self.own]


def planned(
    run: Result,
    problem: Problem | None,
    times: Floats,
    independent: bool,
    mesh_of: MeshOf,
    known: Sequence[Solution] = (),
    anyway: bool = False,
    rival: Rival | None = None,
) -> Plan | str:
    """The Plan for a run with saves at some times, or why nothing can be said of it; the other
    arguments as of `error_bars`."""
    if reason := _unfit(run, problem, times):
        return reason
    problem, grid = problem or run.problem, run.method == "grid"
    if not _has_coarser(problem, mesh_of):
        return "its mesh is not one of hkflow's, of which coarser ones are known"
    own = _itself(run, problem, times)
    wait = longest_wait(own)
    saves = _saves(times, LONGER * wait)
    before = [one for one in known if times_fit(one, times, saves)]
    counts = [] if _is_drawn(run) else _counts(own, before, anyway)
    # steps of smooth margins are implicit: few cells take as long as many
    slow = grid and problem.objective.risk.scaled is not None
    kind, others = _another(own, counts, slow) if independent and not rival else ("", [])
    alone = slow and bool(others) or rival is not None
    quick = (alone or bool(before)) and not (anyway and grid)
    in_space = [] if alone else _counts_in_space(own, counts)
    in_time = [] if rival else _counts_in_time(counts, quick)
    thinner = thinned(own, {*in_space, *in_time, *others}, mesh_of)
    if not quick:
        thinner |= {count: as_short(thinner[count]) for count in in_time if count in thinner}
    coarse = [thinner[count] for count in in_space if count in thinner]
    batches = batches_of(own) if _is_drawn(run) else []
    if not (coarse or batches or alone or _is_exact(own, run)):
        return (
            "it has too few cells or points to do with fewer: error bars begin at about"
            f" {FEWER * LEAST} of each output sign"
        )
    coarser = _coarser(own, before) if rival else []
    fewer = [thinner[count] for count in in_time if count in thinner] or coarse or batches
    fewer = fewer or coarser or ([own] if rival else [])
    pair, ratio = _pair(run, own, fewer, wait, times[-1])
    if not grid:
        coarse = [_or_looser(one, before) for one in coarse]
    pairs = zip(others, (1.0, LOOSER), strict=False)
    apart = [by_another(thinner[count], kind, count, factor) for count, factor in pairs]
    seen = coarser[0] if coarser else None
    plan = Plan(saves, own, coarse, batches, pair, apart, ratio, alone, rival, seen)
    return plan if plan.wanted or rival else "nothing of it can be made coarser or tighter"


def _unfit(run, problem, times):
    """Why nothing can be said of a run with saves at some times, or ""."""
    if run.method == "network" and run.options.get("training", "gradient-flow") != "gradient-flow":
        return "descent in steps is what was asked for"
    if problem is None and times[0] != 0.0:
        return "its start is no save"
    return ""


def _has_coarser(problem, mesh_of):
    """Whether hkflow makes coarser meshes of the kind of a problem's. On S² and S³ a mesh of this
    kind has the centres of the coarsest one, as Lloyd's iterations keep them by symmetry."""
    mesh = problem.mesh
    if mesh is None or problem.domain.fixed:
        return True
    meshes, cells = problem.domain.meshes, mesh.n_cells
    if mesh.name != meshes.name:
        return False
    while meshes.kept and (fewer := meshes.coarser(cells)):
        cells = fewer
    try:
        first = mesh_of(meshes, cells)
    except ValueError:
        return False
    if cells == mesh.n_cells:
        return is_like(mesh, first)
    apart = [np.square(mesh.centers - center).sum(axis=1).min() for center in first.centers]
    return max(apart) <= TOLERANCE**2


def _itself(run, problem, times):
    """The run itself as a Companion."""
    # steps of networks may be short beyond bounds at kinks; early versions did not count them
    steps = run.end.get("steps", np.inf) if run.method == "network" else np.inf
    most = max(MORE_STEPS * steps, FEW_STEPS)
    return cut_short(Companion(problem, options_of(run), 1.0, "the same", most), times)


def _is_drawn(run):
    """Whether its points are random, at the start or by noise."""
    return run.options.get("points") in ("random", "gaussian") or _moves_at_random(run)


def _moves_at_random(run):
    """Whether its points take Brownian steps, or die and are born at random: then two lengths of
    steps or of intervals take other random numbers, and all points tell them apart."""
    by_noise = run.options.get("noise") == "random" and run.flow.noise > 0.0
    return by_noise or run.method == "particles" and run.problem.objective.entropy > 0.0


def _saves(times, apart):
    """At which companions are compared, SAVES at most, with the first and the last: so far apart
    that saves do not cut what is to be longer."""
    chosen = [0]
    for k, time in enumerate(times):
        if min(time - times[chosen[-1]], times[-1] - time) >= apart * (1.0 - 1e-9):
            chosen.append(k)
    chosen = np.unique([*chosen, len(times) - 1])
    return chosen[np.linspace(0, len(chosen) - 1, min(SAVES, len(chosen))).round().astype(int)]


def _is_exact(own, run):
    """Whether its points are the measure itself, and no choice of points for a density."""
    problem = own.problem
    given = problem.mesh is None and problem.density is None and not sites_of(own)
    given = (given or problem.domain.of_two) and not _is_drawn(run)
    return problem.domain.fixed or run.method == "network" or given


def _counts(own, known=(), anyway=False):
    """Fewer and fewer cells, or points of one sign, down to LEAST; none if there is nothing to thin
    out. Of points those of runs that are known, where at least two of these have so few; anyway
    1/4 besides, where they are far fewer."""
    problem, counts = own.problem, []
    given = problem.domain.fixed or problem.domain.of_two
    if given or own.options["kind"] == "network":
        return counts
    sites, coarser = sites_of(own), _fewer
    if problem.mesh is not None:
        coarser = problem.domain.meshes.coarser
    elif problem.density is not None and isinstance(problem.initial, PointMeasure):
        most = count_of(problem) // FEWER
        found = {count_of(one.problem) for one in known if one.problem.mesh is None}
        fewer = sorted((count for count in found if LEAST <= count <= most), reverse=True)
        if len(fewer) > 1:
            far = fewer[0] * FAR_FEWER <= most * FEWER
            return [most, *fewer] if anyway and far else fewer
    elif not sites:
        return counts
    count = coarser(sites or count_of(problem))
    while count and count >= LEAST:
        counts.append(count)
        count = coarser(count)
    return counts


def _fewer(count):
    """How many points, or sites of noise, come after so many."""
    return count // FEWER


def _counts_in_space(own, counts):
    """By which errors in space are told: 1/4 and 1/16 of the cells or points; 1/16 and 1/64 of a
    grid's where these are so MANY cells, as bars are as wide, and cost half."""
    grid, least = own.options["kind"] == "grid", MANY[is_kinked(own.problem)]
    return counts[1:3] if grid and len(counts) > 2 and counts[2] >= least else counts[:2]


def _counts_in_time(counts, quick=False):
    """On which cells or points errors in time are told: the fewest of at least TIMED, but no more
    than 1/64; none where these are too few, and the fewest by which errors in space are told do.
    Quickly on the fewest: errors in time of more points are alike, of more cells often smaller."""
    return counts[-1:] if quick else [count for count in counts[2:] if count >= TIMED][-1:]


def _pair(run, own, fewer, wait, end):
    """Two companions whose difference tells errors in time, and the ratio of their tolerances; none
    where no tolerance governs the steps.

    These are the one with the fewest cells or points, and it with a tighter tolerance. Where there
    is none, or moves at random would tell them apart, they are the run itself and it with a looser
    one; if intervals cannot be longer before the end, with a tighter one; if steps are few or may
    be implicit, with a tighter one and steps half as long.

    fewer : from more cells or points to fewer;  wait : see `longest_wait`
    """
    if fewer and not _moves_at_random(run):
        first, ratio = fewer[-1], TIGHTER[run.method == "grid"]
    else:
        first, ratio = own, TIGHTER[False] if LONGER * wait > end else LOOSER
    few = run.end.get("steps", np.inf) < FEW
    if first is own and wait == 0.0 and (few or _steps_implicitly(own)):
        ratio = TIGHTER[False]
        others = with_shorter_steps(own, ratio, run, 2)
    else:
        others = with_tolerance(first, ratio, few=FEW_INTERVALS * wait > end)
    return ([first, *others] if others else []), ratio


def _steps_implicitly(own):
    """Whether its points may take implicit steps, as smooth margins come to need."""
    options, kinds = own.options, ("particles", "characteristics")
    implicit = options["kind"] in kinds and options.get("imex", "auto") != "explicit"
    return implicit and own.problem.objective.risk.scaled is not None


def _another(own, counts, slow=False):
    """Which other method computes the same as a grid, and from how many centres of cells: those of
    two meshes, whose difference tells of space and time; none where there is no other, or these are
    too few.

    slow : whether any number of cells takes as long as the run's
    """
    problem, kind = own.problem, ""
    # from the centres of cells that were given points another method errs as the cells do
    if own.options["kind"] == "grid" and not starts_from_points(problem):
        kind = other_method(problem)
    if not kind:
        return "", []
    cells, meshes = count_of(problem), problem.domain.meshes
    most = min(cells, INDEPENDENT)
    if not (problem.domain.ordered or slow):
        # cells hold mass that attracts itself: what they leave falls with no order
        if cells < WORTH_ANOTHER and not getattr(problem.objective, "interactions", ()):
            return "", []
        most = min(max(cells // PART, INDEPENDENT_ANYWAY), most)
    found = [n for n in (cells, *counts) if n <= most][:2]
    if len(found) < 2 and meshes.first <= cells:  # on S³, where meshes are few
        found = [n for n in (meshes.first, meshes.coarser(meshes.first)) if n]
    return (kind, found) if len(found) > 1 else ("", [])


def _coarser(own, known):
    """Runs on coarser meshes that are known, the finest first, each with its loosest tolerance."""
    whole, found = count_of(own.problem), {}
    grids = [one for one in known if one.problem.mesh is not None]
    for one in sorted(grids, key=lambda one: options_of(one).get("tolerance", 0.0)):
        found[count_of(one.problem)] = one
    return [
        Companion(one.problem, options_of(one), (whole / n) ** (1.0 / one.dim), f"{n} cells")
        for n, one in sorted(found.items(), reverse=True)
        if n < whole
    ]


def _or_looser(companion, known):
    """The companion, with the tolerance of a known run that is it but for a tolerance which is at
    most LOOSER times as large."""
    options = companion.options
    tolerance = make_method(companion.problem, **options).tolerance
    for one in [] if found_among(companion, known) else known:
        looser = options_of(one).get("tolerance", np.inf)
        same = options_of(one) | {"tolerance": 0.0} == options | {"tolerance": 0.0}
        if same and looser <= LOOSER * tolerance and _same_start(companion, one):
            words = f"{companion.words} with tolerance {looser:.2g}"
            return replace(companion, options=options | {"tolerance": looser}, words=words)
    return companion


def times_fit(one: Solution, times: Floats, saves: Integers) -> bool:
    """Whether a run has all the times, or those at some saves."""
    return any(np.array_equal(one.time, wanted) for wanted in (times, times[saves]))


def found_among(companion: Companion, known: Sequence[Solution]) -> Solution | None:
    """The run among those that are known that a companion is, or None."""
    wanted = companion.options
    if companion.shorter:
        return None
    fits = (one for one in known if options_of(one) == wanted and _same_start(companion, one))
    return next(fits, None)


def _same_start(companion, run):
    """Whether both begin from the same density, or the same points."""
    one, other = companion.problem.initial, run.problem.initial
    if isinstance(one, PointMeasure) and isinstance(other, PointMeasure):
        pairs = [(one.positions, other.positions), (one.weights, other.weights)]
    else:
        pairs = [(one, other)]
    return all(
        isinstance(a, np.ndarray)
        and isinstance(b, np.ndarray)
        and a.shape == b.shape
        and np.allclose(a, b, rtol=1e-12, atol=0.0)
        for a, b in pairs
    )
