"""Error bars of a run by its companions: what they differ by is how far the run may be from the
flow."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ..arguments import Floats
from ..geometry.domain import Meshes
from ..geometry.mesh import Mesh
from ..problem.problem import Problem
from ..solving.result import Result
from ..solving.solution import Solution
from .companion import (
    Companion,
    MeshOf,
    dim_of_errors,
    errs_by_chance,
    order_of_points,
    solved,
    steps_over_kinks,
    with_shorter_steps,
    with_tolerance,
)
from .error_bars import Bar, ErrorBars
from .estimate import (
    FACTOR,
    FAR,
    Spread,
    beside,
    compared,
    extrapolated,
    of_batches,
    of_difference,
    of_points,
    rms,
    until_they_part,
)
from .plan import FAR_FEWER, FEW, LOOSER, Rival, found_among, planned, times_fit
from .quantities import is_large, quantities

EXACT, LOST = "no error in space", "a companion of it, {}, did not reach its end"
# share of the run's steps up to which a run with a looser tolerance tells its errors in time
FEWER_STEPS = 0.7
TIGHTER_THAN_OWN = 0.1  # times the tolerance, that tells them where it takes more
FAR_TIGHTER = 0.01  # times the tighter tolerance, where that leaves the steps as they are
# of grids that spread, where steps are few, from save to save or in all. Others of so many parts of
# them tell, at the tolerance at which a step of second order has their length; and so of more that
# another tolerance hardly changes
CUT, PARTS = 2, 4

Watch = Callable[[int, int], None]


def fresh(meshes: Meshes, cells: int) -> Mesh:
    """The mesh of so many cells, made anew."""
    return meshes.of_size(cells)


def error_bars(
    run: Result,
    problem: Problem | None = None,
    independent: bool = True,
    mesh_of: MeshOf = fresh,
    watch: Watch | None = None,
    known: list[Solution] | None = None,
    anyway: bool = False,
    ready: Sequence[Solution] = (),
    rival: Rival | None = None,
) -> ErrorBars:
    """Estimate how far a finished run is from the flow that it computes, by companions of it.

    Errors in space: the same on 1/4 and 1/16 of the cells or points (on S³ 1/8 and 1/64), of many
    cells on 1/16 and 1/64, or for random points four parts of 1/16; see `estimate`. A grid without
    noise is besides compared with characteristics or particles, which are computed in another way;
    of smooth margins these alone tell errors in space.

    Errors in time, by another tolerance:

        usually                           a tighter one for the smallest of those in space, or for
                                          the same on about 150 cells or points
        none is smaller                   a looser one for the run itself, or a tighter one if that
                                          changes nothing
        points under smooth margins       a tighter one, with steps half as long
        grids with noise or entropy that  a tighter one, with steps a quarter as long
        take few steps, or hardly more
        with a tighter tolerance

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
    plan = planned(run, problem, run.time, independent, mesh_of, known, anyway, rival)
    if isinstance(plan, str):
        return ErrorBars(run.time, remark=plan)
    before = [one for one in (*ready, *known) if times_fit(one, run.time, plan.saves)]
    made: dict[Companion, Solution] = {}
    for k, companion in enumerate(plan.wanted):
        if watch:
            watch(k, len(plan.wanted))
        solution = found_among(companion, before) or solved(companion, run.time[plan.saves])
        if solution is not None:
            made[companion] = solution
        elif companion in plan.batches:  # all of them are needed
            return ErrorBars(run.time, remark=LOST.format(companion.words))
    plan = _told_in_time(run, plan, made)
    if plan.alone and not rival and not all(one in made for one in plan.apart):
        return error_bars(run, problem, False, mesh_of, watch, known, anyway)
    known += [one for one in made.values() if not any(one is other for other in known)]
    needed = [one for one in plan.wanted if one not in plan.apart]
    lost = [one.words for one in needed if one not in made]
    if lost:
        return ErrorBars(run.time, remark=LOST.format(lost[0]))
    return _bars(run, plan, made)


def companions_of(
    run: Result,
    times: Floats,
    problem: Problem | None,
    independent: bool,
    mesh_of: MeshOf,
) -> list[Solution]:
    """What `error_bars` will compute when a run has ended that has begun, as far as it can be made:
    without what needs the steps of the run.

    times : of all its saves;  problem, independent, mesh_of : as of `error_bars`
    """
    plan = planned(run, problem, times, independent, mesh_of)
    if isinstance(plan, str):
        return []
    wanted = [companion for companion in plan.wanted if companion.shorter is None]
    made = (solved(companion, times[plan.saves]) for companion in wanted)
    return [one for one in made if one is not None]


def _told_in_time(run, plan, made):
    """The plan, in which another tolerance tells errors in time where that of the pair cannot; its
    run is added to those that were made."""
    if not plan.pair:
        return plan
    first, second = (made.get(one) for one in plan.pair)
    brownian = plan.own.problem.objective.entropy > 0.0  # no tolerance governs its steps
    if plan.pair[0] is plan.own and plan.ratio > 1.0 and not brownian:
        return _told_by_tighter(run, plan, made)
    if second is None:  # it took far more steps than the run, as of networks at kinks
        return _told_by_tolerance(LOOSER, run, plan, made)
    if first is None:
        return plan
    steps, tighter = first.end["steps"], second.end["steps"]
    if plan.own.options["kind"] == "grid":  # whose cells keep steps short, if saves do not
        few = steps <= max(CUT * (len(plan.saves) - 1), FEW)
        if plan.own.problem.spreads and (few or FEWER_STEPS * tighter < steps):
            shorter = with_shorter_steps(plan.pair[0], PARTS**-2, first, PARTS)
            return _told_by(PARTS**-2, shorter, run, plan, made)
    elif steps == tighter:
        return _told_by_tolerance(FAR_TIGHTER * plan.ratio, run, plan, made)
    return plan


def _told_by_tighter(run, plan, made):
    """The plan, in which a tighter tolerance than the run's tells errors in time where a looser one
    has hardly changed the steps, as between close saves; it and steps half as long where that has
    hardly changed them either; the looser one nonetheless if these take far more steps."""
    # early versions did not keep how many steps a run took
    steps, looser = run.end.get("steps", np.inf), made.get(plan.pair[1])
    if looser is None or looser.end["steps"] <= FEWER_STEPS * steps:
        return plan
    before, plan = plan, _told_by_tolerance(TIGHTER_THAN_OWN, run, plan, made)
    if plan is before or FEWER_STEPS * made[plan.pair[1]].end["steps"] >= steps:
        return plan
    shorter = with_shorter_steps(plan.pair[0], TIGHTER_THAN_OWN, run, 2)
    return _told_by(TIGHTER_THAN_OWN, shorter, run, plan, made)


def _told_by_tolerance(ratio, run, plan, made):
    """The plan, in which a tolerance `ratio` times that of the first of the pair tells errors in
    time; as it is if its run fails."""
    return _told_by(ratio, with_tolerance(plan.pair[0], ratio), run, plan, made)


def _told_by(ratio, others, run, plan, made):
    """The plan, in which the first of these companions that is made tells errors in time; ratio :
    of its tolerance and that of the first of the pair."""
    for one in others:
        if (solution := solved(one, run.time[plan.saves])) is not None:
            made[one] = solution
            return replace(plan, pair=[plan.pair[0], one], ratio=ratio)
    return plan


def _bars(run, plan, made):
    """The bars of a run from the companions that were made, which have some of its saves."""
    saves, rival = plan.saves, plan.rival
    test = None if run.test is None else run.test.inputs
    normalised = any(is_large(one) for one in (run, *made.values()))
    if rival:  # in the units of whose bars all is told
        normalised = rival.bars.normalised
    found = {
        key: quantities(one, normalised, saves if len(one.time) > len(saves) else None, test)
        for key, one in made.items()
    }
    found[plan.own] = quantities(run, normalised, saves, test)
    if rival:
        found[rival] = quantities(rival.run, normalised, saves, test)
    others = [rival] if rival else plan.apart
    others = others if all(one in found for one in others) else []
    over_kinks = bool(plan.pair) and steps_over_kinks(plan.pair[0])
    bars, each, nearby, stretch = {}, np.zeros(run.scaled_predictions.shape), None, 0.0
    for name, values in found[plan.own].items():
        if not all(np.isfinite(one[name]).all() for one in found.values()):
            continue  # of a mass that vanishes, or is beyond numbers
        if rival and name not in rival.bars.bars:
            continue

        def of(companions, name=name):
            return [found[one][name] for one in companions]

        bar = _bar(plan, name, others, of, over_kinks)
        space_and_time = (_at_all(one, saves) for one in (bar.space, bar.time))
        bars[name] = Bar(*space_and_time, bar.order, bar.verdict)
        if name == "predictions":
            coarser = [*plan.coarse, *plan.batches, *others, *plan.pair[1:], plan.own][0]
            apart = values - of([coarser])[0]
            shares = _shares(np.abs(apart))
            last = beside(rms(apart), rms(values))[-1]
            if last > 0.0:
                result = rival.run if rival and coarser is rival else made[coarser]
                nearby, stretch = result.atoms_at(-1, normalised), float(bar.total[-1] / last)
            each = bars[name].total[:, None] * _at_all(shares, saves)
            each = each.reshape(run.scaled_predictions.shape)
    told = (*plan.coarse, *plan.batches[:1], *plan.pair, *plan.apart)
    words = [one.words for one in told if one in made] + ([str(rival)] if rival else [])
    words = tuple(dict.fromkeys(words))
    return ErrorBars(run.time, bars, each, normalised, words, nearby=nearby, stretch=stretch)


def _bar(plan, name, others, of, over_kinks):
    """The Bar of one quantity at the saves that are compared.

    others : runs by another method, the rival or two of which the first tells;  of : function
        (companions) -> their results;  over_kinks : see `steps_over_kinks`
    """
    own, (values,) = plan.own, of([plan.own])
    one, other = of(plan.pair or [own, own])
    apart = rms(one - other)
    if over_kinks or own.options["kind"] == "grid":  # both may agree at a save by chance
        apart = beside(apart, rms(values))
    else:
        apart = until_they_part(apart, rms(values - values[0]))
    time = of_difference(plan.ratio, 0.25 if over_kinks else 0.5) * apart
    spread = Spread(np.zeros(len(values)), np.nan, "by another method" if others else EXACT)
    if plan.coarse:
        spread = _extrapolated([own, *plan.coarse], of)
    elif plan.batches:
        share = plan.batches[0].width ** -dim_of_errors(own.problem)
        spread = of_batches(values, of(plan.batches), share)
    space, order, verdict = spread.bar, spread.order, spread.verdict
    if others:
        away = rms(values - of(others)[0])
        if plan.rival:
            total = away + plan.rival.bars[name][plan.saves]
            order = _order_seen(plan, away, of)
        elif plan.coarse:
            total, disagrees = compared(space + time, away, _extrapolated(others, of).bar)
            verdict += "; another method differs by more than meshes do" if disagrees else ""
        else:
            total = FACTOR * away + _extrapolated(others, of).bar
        time = np.minimum(time, total)
        space = total - time
    return Bar(space, time, order, verdict)


def _order_seen(plan, away, of):
    """The order by which the distance from the rival falls from a coarser run to this one, nan
    without that."""
    if plan.seen is None:
        return np.nan
    coarser, rival = of([plan.seen, plan.rival])
    ratio = np.linalg.norm(rms(coarser - rival)) / max(np.linalg.norm(away), 1e-300)
    return float(np.log(max(ratio, 1e-300)) / np.log(plan.seen.width))


def _extrapolated(companions, results):
    """The Spread of the first of some companions with meshes or points of several widths, by what
    all make."""
    first = companions[0]
    widths = [one.width / first.width for one in companions]
    if not errs_by_chance(first.problem, first.options["kind"]):
        return extrapolated(results(companions), widths, first.orders)
    order = order_of_points(first.problem, first.orders)
    far = len(widths) > 2 and widths[1] ** dim_of_errors(first.problem) > FAR_FEWER
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
