"""Companions of a run: the same problem on fewer cells or points, with a tighter tolerance, and by
another method. What they differ by is how far the run may be from the flow."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import numpy as np

from ..arguments import Floats, Integers
from ..errors import HkflowError
from ..geometry.domain import Meshes
from ..geometry.mesh import Mesh
from ..geometry.point_sets import quasi_uniform
from ..geometry.transfer import restrict
from ..measures.point_measure import DensityAndAtoms, PointMeasure
from ..methods.choice import make_method, method_class
from ..methods.rules import best_method
from ..objectives.energies import Sum
from ..problem.problem import Problem
from ..solving.guards import GUARDS
from ..solving.loop import Loop
from ..solving.result import Result
from ..solving.solution import Memory, Solution
from .error_bars import Bar, ErrorBars
from .estimate import (
    FACTOR,
    FAR,
    Spread,
    compared,
    extrapolated,
    of_batches,
    of_difference,
    of_points,
    rms,
)
from .quantities import is_large, quantities

# Orders in the width that errors are expected to show. ROUGH: cells whose velocity jumps at a kink,
# and points on the circle that pass kinks, or leave one another, one at a time. CURVED: points on
# the circle of features without a kink. SMOOTH: all others. Where nothing moves all are SMOOTH:
# integrals of continuous functions.
ROUGH, CURVED, SMOOTH = (0.5, 1.0), (1.0, 1.5), (1.0, 2.0)
FEWER = 4  # times fewer points, or cells where meshes are of any size
FAR_FEWER = 6.0  # so many times fewer points, and more, are far fewer
BATCHES, SHARE = 4, 1.0 / 16.0  # of random points, a quarter where they are few
LEAST = 8  # points or cells of a companion
TIMED = 150  # points or cells of the pair that tells errors in time, where there are so many
# cells of the coarsest companion, for features with a kink, whose orders are close, and without
MANY = {True: 40, False: 150}
# so many cells' centres at most start the independent method: on the circle all, where their
# sums are cheap, and of smooth margins; else 1/PART of them, but up to the second number anyway.
# Elsewhere a grid of fewer cells than the third takes no longer than that
INDEPENDENT, INDEPENDENT_ANYWAY, WORTH_ANOTHER, PART = 1000, 300, 1000, 64
# by how much the tolerance of one companion is tighter, of grids and of points, whose steps may be
# those between saves; or looser, where there is none with fewer points, and of the coarser mesh of
# the independent method
TIGHTER, LOOSER = {True: 0.25, False: 0.1}, 10.0
SAVES = 21  # of companions at most, the first and the last of the run's and others between
EXACT = "no error in space"
EXPECTED = (HkflowError, ValueError, ArithmeticError, MemoryError)

MeshOf = Callable[[Meshes, int], Mesh]
Watch = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Companion:
    """A run to be made: problem, options of its method, the width of its cells or the distance of
    its points in units of those of the run itself, and what it is in words."""

    problem: Problem
    options: dict
    width: float
    words: str

    @property
    def orders(self) -> tuple[float, float]:
        """Which are expected of its method."""
        return orders_of(self.problem, self.options["kind"], self.options)


@dataclass(frozen=True, eq=False)
class Rival:
    """A run of the same problem by another method, at the same saves, and its own error bars."""

    run: Solution
    bars: ErrorBars

    def __str__(self):
        return f"{self.run.method} from {_count(self.run.problem)} points"


def _fresh(meshes, cells):
    return meshes.of_size(cells)


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
    rival: Rival | None = None
    seen: Companion | None = None

    @property
    def wanted(self) -> list[Companion]:
        """All that are to be computed, each once."""
        seen = [self.seen] if self.seen else []
        every = (*self.coarse, *self.batches, *self.pair, *self.apart, *seen)
        return [one for one in {id(one): one for one in every}.values() if one is not self.own]


def error_bars(
    run: Result,
    problem: Problem | None = None,
    independent: bool = True,
    mesh_of: MeshOf = _fresh,
    watch: Watch | None = None,
    known: list[Solution] | None = None,
    anyway: bool = False,
    ready: Sequence[Solution] = (),
    rival: Rival | None = None,
) -> ErrorBars:
    """Estimate how far a finished run is from the flow that it computes, by companions of it.

    Errors in space: the same on 1/4 and 1/16 of the cells or points (on S³ 1/8 and 1/64), of many
    cells on 1/16 and 1/64, or for random points four parts of 1/16; see `estimate`. Errors in time:
    the smallest of them, or the same on about 150 cells or points, with a tighter tolerance; where
    there is none the run itself with a looser one. A grid without noise is besides compared with
    characteristics or particles, which are computed in another way; of smooth margins these alone
    tell errors in space.

    problem : what was solved, if the run does not begin at t = 0 with its first save
    independent : whether to compute by another method, too
    mesh_of : function (Meshes, cells) -> Mesh;  watch : function (done, of how many)
    known : runs of the same problem on fewer cells or points, made before, which are not computed
        again; from points the errors in space are told by the two largest of at most 1/4 of them.
        Companions that are computed are added
    anyway : whether bars are to be as narrow as they can be: with 1/4 of the points where runs of
        fewer are known, and with errors in time of a grid on more than the fewest cells
    ready : companions that were made beside the run, see `companions_of`
    rival : of a grid, which then tells errors alone
    """
    known = [] if known is None else known
    if not run.finished:
        return ErrorBars(run.time, remark="the run did not reach its end")
    plan = _planned(run, problem, run.time, independent, mesh_of, known, anyway, rival)
    if isinstance(plan, str):
        return ErrorBars(run.time, remark=plan)
    before = [one for one in (*ready, *known) if _times_fit(one, run.time, plan.saves)]
    made: dict[int, Solution] = {}
    for k, companion in enumerate(plan.wanted):
        if watch:
            watch(k, len(plan.wanted))
        solution = _found(companion, before) or solved(companion, run.time[plan.saves])
        if solution is not None:
            made[id(companion)] = solution
    if plan.alone and not rival and not all(id(one) in made for one in plan.apart):
        return error_bars(run, problem, False, mesh_of, watch, known, anyway)
    known += [one for one in made.values() if not any(one is other for other in known)]
    needed = [one for one in plan.wanted if not any(one is other for other in plan.apart)]
    lost = [one.words for one in needed if id(one) not in made]
    if lost:
        words = f"a companion of it, {lost[0]}, did not reach its end"
        return ErrorBars(run.time, remark=words)
    return _bars(run, plan, made)


def companions_of(
    run: Result,
    times: Floats,
    problem: Problem | None = None,
    independent: bool = True,
    mesh_of: MeshOf = _fresh,
) -> list[Solution]:
    """What `error_bars` will compute when a run has ended that has begun, as far as it can be made.

    times : of all its saves;  problem, independent, mesh_of : as of `error_bars`
    """
    plan = _planned(run, problem, times, independent, mesh_of)
    if isinstance(plan, str):
        return []
    made = (solved(companion, times[plan.saves]) for companion in plan.wanted)
    return [one for one in made if one is not None]


def _planned(run, problem, times, independent, mesh_of, known=(), anyway=False, rival=None):
    """The Plan for a run with saves at some times, or why nothing can be said of it; the other
    arguments as of `error_bars`."""
    if reason := _unfit(run, problem, times):
        return reason
    problem, drawn = problem or run.problem, _is_drawn(run)
    own = Companion(problem, options_of(run), 1.0, "the same")
    saves = np.unique(np.linspace(0, len(times) - 1, SAVES).round().astype(int))
    before = [one for one in known if _times_fit(one, times, saves)]
    counts = [] if drawn else _counts(own, before, anyway)
    # steps of smooth margins are implicit: few cells take as long as many
    slow = run.method == "grid" and problem.objective.risk.scaled is not None
    kind, others = _another(own, counts, slow) if independent and not rival else ("", [])
    alone = slow and bool(others) or rival is not None
    told = [] if alone else _told(own, counts)
    quick = (alone or bool(before)) and not (anyway and run.method == "grid")
    timed = _timed(counts, quick)
    thinner = _thinned(own, {*told, *timed, *others}, mesh_of)
    if not quick:
        thinner |= {count: _as_short(thinner[count]) for count in timed if count in thinner}
    coarse = [thinner[count] for count in told if count in thinner]
    batches = _batches(problem, own.options) if drawn else []
    if not (coarse or batches or alone or _is_exact(problem, run)):
        return "it has too few cells or points to do with fewer"
    brownian = run.method == "particles" and problem.objective.entropy > 0.0
    fewer = [thinner[n] for n in timed if n in thinner] or coarse or batches
    coarser = _coarser(own, before) if rival else []
    fewer = (coarser or [own])[-1:] if rival else fewer
    if fewer and not brownian:
        last = fewer[-1]
        ratio = TIGHTER[run.method == "grid"]
        tight = _with_tolerance(last, ratio)
        pair = [last, *tight] if tight else []
        if run.method != "grid":
            coarse = [_or_looser(one, before) for one in coarse]
    else:
        ratio = LOOSER
        loose = _with_tolerance(own, ratio)
        pair = [own, *loose] if loose else []
    pairs = zip(others, (1.0, LOOSER), strict=False)
    apart = [_by_another(thinner[count], kind, count, factor) for count, factor in pairs]
    seen = coarser[0] if coarser else None
    plan = Plan(saves, own, coarse, batches, pair, apart, ratio, alone, rival, seen)
    return plan if plan.wanted else "nothing of it can be made coarser or tighter"


def _unfit(run, problem, times):
    """Why nothing can be said of a run with saves at some times, or ""."""
    if run.method == "network" and run.options.get("training", "gradient-flow") != "gradient-flow":
        return "descent in steps is what was asked for"
    if problem is None and times[0] != 0.0:
        return "its start is no save"
    return ""


def _is_drawn(run):
    """Whether its points are random, at the start or by noise."""
    by_noise = run.options.get("noise") == "random" and run.flow.noise > 0.0
    by_steps = run.method == "particles" and run.problem.objective.entropy > 0.0
    return run.options.get("points") in ("random", "gaussian") or by_noise or by_steps


def _is_exact(problem, run):
    """Whether its points are the measure itself, and no choice of points for a density."""
    given = problem.mesh is None and problem.density is None and not _is_drawn(run)
    return problem.domain.fixed or run.method == "network" or given


def options_of(run: Result) -> dict[str, Any]:
    """The options that its method takes. The stepper of a grid is among them: on fewer cells, or
    with a tighter tolerance, another one might be taken, whose errors are others."""
    known = signature(method_class(run.method)).parameters
    options = {"kind": run.method} | {
        name: value for name, value in run.options.items() if name in known and value is not None
    }
    if run.method != "grid":
        return options
    from ..methods.grid.finite_volume import best_stepper

    chosen = {name: options[name] for name in ("tolerance", "reconstruction") if name in options}
    return {"stepper": best_stepper(run.problem, **chosen)} | options


# --- companions


def _counts(own, known=(), anyway=False):
    """Fewer and fewer cells, or points of one sign, down to LEAST; none if there is nothing to thin
    out. Of points those of runs that are known, where at least two of these have so few; anyway
    1/4 besides, where they are far fewer."""
    problem, counts = own.problem, []
    if problem.domain.fixed or own.options["kind"] == "network":
        return counts
    if problem.mesh is not None:
        coarser = problem.domain.meshes.coarser
    elif problem.density is not None and isinstance(problem.initial, PointMeasure):

        def coarser(count):
            return count // FEWER

        most = _count(problem) // FEWER
        found = {_count(one.problem) for one in known if one.problem.mesh is None}
        fewer = sorted((count for count in found if LEAST <= count <= most), reverse=True)
        if len(fewer) > 1:
            far = fewer[0] * FAR_FEWER <= most * FEWER
            return [most, *fewer] if anyway and far else fewer
    else:
        return counts
    count = coarser(_count(problem))
    while count and count >= LEAST:
        counts.append(count)
        count = coarser(count)
    return counts


def _times_fit(one, times, saves):
    """Whether a run has all the times, or those at some saves."""
    return any(np.array_equal(one.time, wanted) for wanted in (times, times[saves]))


def _found(companion, known):
    """The run among those that are known that a companion is, or None."""
    wanted = companion.options
    fits = (one for one in known if options_of(one) == wanted and _same_start(companion, one))
    return next(fits, None)


def _coarser(own, known):
    """Runs on coarser meshes that are known, the finest first, each with its loosest tolerance."""
    whole, found = _count(own.problem), {}
    grids = [one for one in known if one.problem.mesh is not None]
    for one in sorted(grids, key=lambda one: options_of(one).get("tolerance", 0.0)):
        found[_count(one.problem)] = one
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
    for one in [] if _found(companion, known) else known:
        looser = options_of(one).get("tolerance", np.inf)
        same = options_of(one) | {"tolerance": 0.0} == options | {"tolerance": 0.0}
        if same and looser <= LOOSER * tolerance and _same_start(companion, one):
            words = f"{companion.words} with tolerance {looser:.2g}"
            return replace(companion, options=options | {"tolerance": looser}, words=words)
    return companion


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


def _count(problem):
    """Cells, or points of one sign."""
    mesh = problem.mesh
    return len(problem.initial) // len(problem.signs) if mesh is None else mesh.n_cells


def _told(own, counts):
    """By which errors in space are told: 1/4 and 1/16 of the cells or points; 1/16 and 1/64 of a
    grid's where these are so MANY cells, as bars are as wide, and cost half."""
    grid, least = own.options["kind"] == "grid", MANY[_kinked(own.problem)]
    return counts[1:3] if grid and len(counts) > 2 and counts[2] >= least else counts[:2]


def _timed(counts, quick=False):
    """On which cells or points errors in time are told: the fewest of at least TIMED, but no more
    than 1/64; none where these are too few, and the fewest by which errors in space are told do.
    Quickly on the fewest: errors in time of more points are alike, of more cells often smaller."""
    return counts[-1:] if quick else [count for count in counts[2:] if count >= TIMED][-1:]


def _as_short(companion):
    """It with steps no longer than the cells of the run itself allow."""
    made = make_method(companion.problem, **companion.options)
    cfl = getattr(made, "cfl", None)
    options = {} if cfl is None or made.fixed_steps else {"cfl": cfl / companion.width}
    return replace(companion, options=companion.options | options)


def _another(own, counts, slow=False):
    """Which other method computes the same as a grid, and from how many centres of cells: those of
    two meshes, whose difference tells of space and time; none where there is no other, or these are
    too few.

    slow : whether any number of cells takes as long as the run's
    """
    problem, kind = own.problem, ""
    if own.options["kind"] == "grid":
        kind = other_method(problem)
    if not kind:
        return "", []
    cells = _count(problem)
    if not (problem.domain.ordered or slow):
        cells = max(cells // PART, INDEPENDENT_ANYWAY) if cells >= WORTH_ANOTHER else 0
    found = [n for n in (_count(problem), *counts) if n <= min(cells, INDEPENDENT)][:2]
    return (kind, found) if len(found) > 1 else ("", [])


def other_method(problem: Problem) -> str:
    """The method that computes the same as a grid in another way; "" where neither characteristics
    nor particles do. A sum of energies moves particles."""
    objective = problem.objective
    data, total = bool(len(objective.inputs)), isinstance(objective, Sum)
    if not (data or total) or problem.flow.signed or problem.spreads or problem.domain.fixed:
        return ""
    if total:
        return "particles"
    feature: Any = objective.feature
    kind, _ = best_method(feature.name, False, data, False, False, bool(problem.flow.varies))
    if kind == "particles" and feature.activation is None and feature.pullback is None:
        return ""
    return kind


def _by_another(companion, kind, count, factor):
    """The same by another method, with its own tolerance times a factor."""
    made = replace(companion, options={"kind": kind}, words=f"{kind} from {count} points")
    return made if factor == 1.0 else (_with_tolerance(made, factor) or [made])[0]


def _thinned(own, counts, mesh_of):
    """The same on so many cells, or from so many points, by their number, each made from the finer
    one before; up to one that has no mass."""
    whole, one = _count(own.problem), own.problem
    found = {whole: own}
    for count in sorted(counts - {whole}, reverse=True):
        one = _thinner(one, count, mesh_of)
        if one is None:
            break
        options, share = own.options, count / whole
        if "noise_points" in options:
            options = options | {"noise_points": max(2, round(share * options["noise_points"]))}
        points = count if one.mesh is not None else len(one.initial)
        words = f"{points} {'cells' if options['kind'] == 'grid' else 'points'}"
        found[count] = Companion(one, options, share ** (-1.0 / one.dim), words)
    return found


def _thinner(problem, count, mesh_of):
    """The problem on a mesh of so many cells, or from so many points of each sign; None if none of
    these has mass."""
    if problem.mesh is not None:
        mesh = mesh_of(problem.domain.meshes, count)
        return replace(problem, mesh=mesh, initial=_carried(problem, mesh), exact=None)
    points = quasi_uniform(count, problem.dim)
    weights = np.concatenate([problem.density(points, sign) for sign in problem.signs])
    signs = np.repeat(np.array(problem.signs, dtype=float), count)
    alive = weights > 0.0
    if not alive.any():
        return None
    points = np.tile(points, (len(problem.signs), 1))
    atoms = PointMeasure(points[alive], signs[alive], weights[alive])
    return replace(problem, initial=atoms.scaled_to(problem.initial.mass), exact=None)


def _carried(problem, mesh):
    """The initial measure on a coarser mesh, of the same mass on each sign; atoms stay."""
    fine, (density, atoms) = problem.mesh, problem.initial_parts
    if atoms is None and np.ptp(density, axis=1).max() == 0.0:  # uniform: no overlaps need be found
        return np.repeat(density[:, :1], mesh.n_cells, axis=1)
    found = restrict(density, fine, mesh)
    return found if atoms is None else DensityAndAtoms(found, atoms)


def _batches(problem, options):
    """Disjoint parts of random points, none of a few or of a network's units; each with random
    numbers of its own."""
    start = problem.initial
    if not isinstance(start, PointMeasure) or len(start) < LEAST:
        return []
    order = np.random.default_rng(0).permutation(len(start))
    random = options.get("noise") == "random" or problem.objective.entropy > 0.0
    count = min(max(LEAST, int(SHARE * len(start))), len(start) // BATCHES)
    parts = [order[k * count : (k + 1) * count] for k in range(BATCHES)]
    return [
        Companion(
            replace(problem, initial=_part(start, part), exact=None),
            options | ({"seed": k} if random else {}),
            (len(start) / count) ** (1.0 / problem.dim),
            f"{count} points",
        )
        for k, part in enumerate(parts)
    ]


def _part(atoms, chosen):
    """Some of the atoms, with the mass of all."""
    part = PointMeasure(atoms.positions[chosen], atoms.signs[chosen], atoms.weights[chosen])
    return part.scaled_to(atoms.mass)


def _with_tolerance(companion, factor):
    """It again with another tolerance, if a tolerance governs its steps, or with Brownian steps, of
    first order, four times as long."""
    made = make_method(companion.problem, **companion.options)
    if made.fixed_steps and companion.problem.objective.entropy > 0.0:
        longest = 4.0 * made.max_step
        words = f"{companion.words} with steps of {longest:.2g}"
        return [replace(companion, options=companion.options | {"max_step": longest}, words=words)]
    if made.fixed_steps or getattr(made, "tolerance", None) is None:
        return []
    tolerance = factor * made.tolerance
    words = f"{companion.words} with tolerance {tolerance:.2g}"
    return [replace(companion, options=companion.options | {"tolerance": tolerance}, words=words)]


def solved(companion: Companion, times: Floats) -> Solution | None:
    """The run of a companion in memory; None if it fails."""
    try:
        made, memory = (
            make_method(companion.problem, **companion.options),
            Memory(companion.options),
        )
        _, _, finished = Loop(made, times, (memory,), GUARDS, record_interval=np.inf).run()
    except EXPECTED:
        return None
    return memory.solution(made, finished) if finished else None


# --- bars


def _bars(run, plan, made):
    """The bars of a run from the companions that were made, which have some of its saves."""
    saves, own, rival = plan.saves, plan.own, plan.rival
    normalised = any(is_large(one) for one in (run, *made.values()))
    found = {
        key: quantities(one, normalised, saves if len(one.time) > len(saves) else None)
        for key, one in made.items()
    }
    found[id(own)] = quantities(run, normalised, saves)
    if rival:
        found[id(rival)] = quantities(rival.run, normalised, saves)
    coarse, batches, apart = plan.coarse, plan.batches, plan.apart
    another = bool(rival or apart) and all(id(one) in made for one in apart)
    bars, each = {}, np.zeros(run.scaled_predictions.shape)
    for name, values in found[id(own)].items():
        if not all(np.isfinite(one[name]).all() for one in found.values()):
            continue  # of a mass that vanishes, or is beyond numbers

        def of(companions, name=name):
            return [found[id(one)][name] for one in companions]

        spread = Spread(np.zeros(len(values)), np.nan, "by another method" if another else EXACT)
        if coarse:
            spread = _extrapolated([own, *coarse], of)
        elif batches:
            spread = of_batches(values, of(batches), batches[0].width ** -run.dim)
        one, other = of(plan.pair or [own, own])
        space, time = spread.bar, of_difference(plan.ratio) * rms(one - other)
        verdict = spread.verdict
        if rival:
            away = rms(values - found[id(rival)][name])
            total = away + rival.bars[name][saves]
            time = np.minimum(time, total)
            space, order = total - time, _order_seen(plan, away, found, name)
            spread = Spread(space, order, verdict)
        elif another:
            theirs, away = _extrapolated(apart, of).bar, rms(values - of(apart)[0])
            total, disagrees = FACTOR * away + theirs, False
            if coarse:
                total, disagrees = compared(space + time, away, theirs)
            time = np.minimum(time, total)
            space = total - time
            verdict += "; another method differs by more than meshes do" if disagrees else ""
        space_and_time = (_at_all(one, saves) for one in (space, time))
        bars[name] = Bar(*space_and_time, spread.order, verdict)
        if name == "predictions":
            others = [*coarse, *batches, *([rival] if rival else apart if another else [])]
            coarser = [*of(others), other][0]
            shares = _shares(np.abs(values - coarser))
            each = bars[name].total[:, None] * _at_all(shares, saves)
            each = each.reshape(run.scaled_predictions.shape)
    told = (*coarse, *batches[:1], *plan.pair, *apart)
    words = [one.words for one in told if id(one) in made] + ([str(rival)] if rival else [])
    return ErrorBars(run.time, bars, each, normalised, tuple(dict.fromkeys(words)))


def _order_seen(plan, away, found, name):
    """The order by which the distance from the rival falls from a coarser run to this one, nan
    without that."""
    if plan.seen is None:
        return np.nan
    before = rms(found[id(plan.seen)][name] - found[id(plan.rival)][name])
    ratio = np.linalg.norm(before) / max(np.linalg.norm(away), 1e-300)
    return float(np.log(max(ratio, 1e-300)) / np.log(plan.seen.width))


def _extrapolated(companions, results):
    """The Spread of the first of some companions with meshes or points of several widths, by what
    all make."""
    first = companions[0]
    widths = [one.width / first.width for one in companions]
    if first.options["kind"] == "grid":
        return extrapolated(results(companions), widths, first.orders)
    order = order_of_points(first.problem, first.orders)
    far = len(widths) > 2 and widths[1] ** first.problem.dim > FAR_FEWER
    safety = FAR if far else FACTOR
    return of_points(results(companions), widths, first.orders, order, safety)


def _shares(apart):
    """The bar of every prediction over that of all together, at least 1, and larger where a coarser
    result is farther apart."""
    mean = rms(apart)[:, None]
    share = np.divide(apart, mean, out=np.ones_like(apart), where=mean > 0.0)
    return np.maximum(share, 1.0)


def _at_all(values, saves):
    """Values (n, …) at some saves, the first and the last among them, at all: between two of them
    the larger one."""
    every = np.arange(saves[-1] + 1)
    after = np.searchsorted(saves, every)
    before = np.searchsorted(saves, every, side="right") - 1
    return np.maximum(values[before], values[after])


def orders_of(problem: Problem, method: str, options: Mapping[str, Any]) -> tuple[float, float]:
    """The lowest and the highest order that are expected of a method."""
    feature = problem.objective.feature
    if not (problem.flow.moves or problem.spreads):
        return SMOOTH
    if method == "grid":
        rough = _kinked(problem) and not feature.joint
        return ROUGH if rough or options.get("limiter") == "first-order" else SMOOTH
    if not problem.domain.ordered:
        return SMOOTH
    return ROUGH if _kinked(problem) or feature.pieces else CURVED


def order_of_points(problem: Problem, band: tuple[float, float]) -> float:
    """The order by which errors of points fall: the highest of the band, and two thirds up for
    features with a kink at every datum."""
    low, high = band
    rough = _kinked(problem) and not problem.objective.feature.joint
    return low + 2.0 / 3.0 * (high - low) if rough else high


def _kinked(problem):
    """Whether its feature has a kink at every datum."""
    objective: Any = problem.objective
    return bool(objective.feature.kink or objective.feature.kinks) and len(objective.inputs) > 0
