"""Companions of a run: the same problem on fewer cells or points, with a tighter tolerance, and by
another method. What they differ by is how far the run may be from the flow."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import numpy as np

from ..arguments import Floats
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
BATCHES, SHARE = 4, 1.0 / 16.0  # of random points, a quarter where they are few
LEAST = 8  # points or cells of a companion
TIMED = 150  # points or cells of the pair that tells errors in time, where there are so many
# cells of the coarsest companion, for features with a kink, whose orders are close, and without
MANY = {True: 40, False: 150}
# so many cells' centres at most start the independent method: on the circle all, where their
# sums are cheap; else 1/64 of them, but up to the lesser number anyway
INDEPENDENT, INDEPENDENT_ANYWAY = 1000, 300
# by how much the tolerance of one companion is tighter, of grids and of points, whose steps may be
# those between saves; or looser, where there is none with fewer points
TIGHTER, LOOSER = {True: 0.25, False: 0.1}, 10.0
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
    def count(self) -> int:
        """Cells, or points of one sign."""
        p = self.problem
        return p.mesh.n_cells if p.mesh is not None else len(p.atoms()) // len(p.signs)


def _fresh(meshes, cells):
    return meshes.of_size(cells)


def error_bars(
    run: Result,
    problem: Problem | None = None,
    independent: bool = True,
    mesh_of: MeshOf = _fresh,
    watch: Watch | None = None,
) -> ErrorBars:
    """Estimate how far a finished run is from the flow that it computes, by companions of it.

    Errors in space: the same on 1/4 and 1/16 of the cells or points (on S³ 1/8 and 1/64), of many
    cells on 1/16 and 1/64, or for random points four parts of 1/16; see `estimate`. Errors in time:
    the smallest of them, or the same on about 150 cells or points, with a tighter tolerance; where
    there is none the run itself with a looser one. A grid without noise is besides compared with
    characteristics or particles, which are computed in another way.

    problem : what was solved, if the run does not begin at t = 0 with its first save
    independent : whether to compute by another method, too
    mesh_of : function (Meshes, cells) -> Mesh;  watch : function (done, of how many)
    """
    reason = _unfit(run, problem)
    if reason:
        return ErrorBars(run.time, remark=reason)
    problem, options = problem or run.problem, options_of(run)
    drawn = _is_drawn(run)
    thinner = [] if drawn else _coarser(problem, run.method, options, mesh_of)
    coarse = _told(run, thinner)
    batches = _batches(problem, options) if drawn else []
    if not (coarse or batches or _is_exact(problem, run)):
        return ErrorBars(run.time, remark="it has too few cells or points to do with fewer")
    brownian = run.method == "particles" and problem.objective.entropy > 0.0
    if (coarse or batches) and not brownian:
        last = _timed(thinner, coarse) if coarse else batches[-1]
        ratio = TIGHTER[run.method == "grid"]
        tight = _with_tolerance(last, ratio)
        pair = [last, *tight] if tight else []
    else:
        ratio = LOOSER
        pair = _with_tolerance(Companion(problem, options, 1.0, "the same"), ratio)
    apart = _independent(problem, run.method, thinner) if independent else []
    wanted = list({id(one): one for one in (*coarse, *batches, *pair, *apart)}.values())
    if not wanted:
        return ErrorBars(run.time, remark="nothing of it can be made coarser or tighter")
    made: dict[int, Solution] = {}
    for k, companion in enumerate(wanted):
        if watch:
            watch(k, len(wanted))
        solution = solved(companion, run.time)
        if solution is not None:
            made[id(companion)] = solution
    lost = [one.words for one in (*coarse, *batches, *pair) if id(one) not in made]
    if lost:
        words = f"a companion of it, {lost[0]}, did not reach its end"
        return ErrorBars(run.time, remark=words)
    return _bars(run, made, coarse, batches, pair, apart, ratio)


def _unfit(run, problem):
    """Why nothing can be said of a run, or ""."""
    if not run.finished:
        return "the run did not reach its end"
    if run.method == "network" and run.options.get("training", "gradient-flow") != "gradient-flow":
        return "descent in steps is what was asked for"
    if problem is None and run.time[0] != 0.0:
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
    """The options that its method takes."""
    known = signature(method_class(run.method)).parameters
    return {"kind": run.method} | {
        name: value for name, value in run.options.items() if name in known and value is not None
    }


# --- companions


def _coarser(problem, method, options, mesh_of):
    """The same on fewer and fewer cells or points; none if there is nothing to thin out."""
    found, one, width = [], problem, 1.0
    while made := _thinner(one, method, mesh_of):
        one, ratio, words = made
        width *= ratio
        if "noise_points" in options:
            options = options | {"noise_points": max(2, options["noise_points"] // FEWER)}
        found.append(Companion(one, options, width, words))
    return found


def _told(run, coarser):
    """By which errors in space are told: 1/4 and 1/16 of the cells or points; 1/16 and 1/64 of a
    grid's where these are so MANY cells: bars are as wide, and cost half."""
    many = (
        run.method == "grid" and len(coarser) > 2 and coarser[2].count >= MANY[_kinked(run.problem)]
    )
    return coarser[1:3] if many else coarser[:2]


def _timed(coarser, told):
    """On which cells or points errors in time are told: the fewest of at least TIMED, but no more
    than 1/16, with steps no longer than the cells of the run itself allow; where there are none,
    the fewest by which errors in space are told."""
    few = [one for one in coarser[2:] if one.count >= TIMED]
    if not few:
        return told[-1]
    made = make_method(few[-1].problem, **few[-1].options)
    cfl = getattr(made, "cfl", None)
    options = {} if cfl is None or made.fixed_steps else {"cfl": cfl / few[-1].width}
    return replace(few[-1], options=few[-1].options | options)


def _thinner(problem, method, mesh_of):
    """The problem on the next coarser mesh, or from 1/4 of the points; the ratio of widths; words.
    None if there is none of at least LEAST."""
    if problem.domain.fixed or method == "network":
        return None
    if problem.mesh is not None:
        cells = problem.domain.meshes.coarser(problem.mesh.n_cells)
        if cells is None or cells < LEAST:
            return None
        mesh = mesh_of(problem.domain.meshes, cells)
        ratio = (problem.mesh.n_cells / cells) ** (1.0 / problem.dim)
        coarse = replace(problem, mesh=mesh, initial=_carried(problem, mesh), exact=None)
        return coarse, ratio, f"{cells} {'cells' if method == 'grid' else 'points'}"
    if problem.density is None or not isinstance(problem.initial, PointMeasure):
        return None
    count = len(problem.initial) // (FEWER * len(problem.signs))
    if count < LEAST:
        return None
    points = quasi_uniform(count, problem.dim)
    weights = np.concatenate([problem.density(points, sign) for sign in problem.signs])
    signs = np.repeat(np.array(problem.signs, dtype=float), count)
    alive = weights > 0.0
    if not alive.any():
        return None
    points = np.tile(points, (len(problem.signs), 1))
    atoms = PointMeasure(points[alive], signs[alive], weights[alive])
    few = replace(problem, initial=atoms.scaled_to(problem.initial.mass), exact=None)
    return few, FEWER ** (1.0 / problem.dim), f"{len(atoms)} points"


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
    options = companion.options | {"tolerance": tolerance}
    if companion.options["kind"] == "grid":  # another stepper would have other errors in space
        options["stepper"] = made.stepper_name
    return [replace(companion, options=options, words=words)]


def _independent(problem, method, coarser):
    """The same by characteristics or particles from the centres of up to 300 to 1000 cells, with a
    tight tolerance, and of two coarser meshes, so that what they differ by tells of space and time;
    none where neither is another way, or these are too few. A sum of energies moves particles."""
    data, total = bool(len(problem.objective.inputs)), isinstance(problem.objective, Sum)
    if method != "grid" or problem.spreads or problem.domain.fixed or not (data or total):
        return []
    if problem.flow.signed:
        return []
    feature, kind = problem.objective.feature, "particles"
    if not total:
        kind, _ = best_method(feature.name, False, data, False, False, bool(problem.flow.varies))
        if kind == "particles" and feature.activation is None and feature.pullback is None:
            return []
    cells = problem.mesh.n_cells
    share = cells if problem.domain.ordered else max(cells // 64, INDEPENDENT_ANYWAY)
    own = Companion(problem, {}, 1.0, f"{cells} points")
    found = [one for one in (own, *coarser) if one.count <= min(share, INDEPENDENT)][:3]
    if len(found) < 2:
        return []
    first, *coarse = (
        replace(one, options={"kind": kind}, words=f"{kind} from {one.count} points")
        for one in found
    )
    return [*(_with_tolerance(first, TIGHTER[False]) or [first]), *coarse]


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


def _bars(run, made, coarse, batches, pair, apart, ratio):
    """The bars of a run from the companions that were made."""
    everything = [run, *made.values()]
    normalised = any(is_large(one) for one in everything)
    own = quantities(run, normalised)
    found = {key: quantities(solution, normalised) for key, solution in made.items()}

    def results(companions):
        return [found[id(one)] for one in companions if id(one) in found]

    several, parts, others = results(coarse), results(batches), results(apart)
    one, other = [own, own, *results(pair)][-2:]
    widths = [1.0, *(one.width for one in coarse if id(one) in found)]
    bars, each = {}, np.zeros(run.scaled_predictions.shape)
    for name, values in own.items():
        if not all(np.isfinite(one[name]).all() for one in (own, *found.values())):
            continue  # of a mass that vanishes, or is beyond numbers
        share = batches[0].width ** -run.dim if batches else 0.0
        band = orders_of(run.problem, run.method, run.options)
        order = None if run.method == "grid" else order_of_points(run.problem, band)
        spread = _in_space(name, values, several, parts, widths, band, share, order)
        time = np.zeros(len(values))
        if pair:
            time = of_difference(ratio) * rms(one[name] - other[name])
        space, verdict = spread.bar, spread.verdict
        if len(others) > 1 and len(others) == len(apart) and several:
            another = _of_another([one[name] for one in others], apart)
            total, disagrees = compared(space + time, rms(values - others[0][name]), another)
            time = np.minimum(time, total)
            space = total - time
            verdict += "; another method differs by more than meshes do" if disagrees else ""
        bars[name] = Bar(space, time, spread.order, verdict)
        if name == "predictions":
            each = _each(values, [*several, *parts, other], bars[name].total).reshape(each.shape)
    words = (one.words for one in (*coarse, *batches[:1], *pair, *apart) if id(one) in made)
    return ErrorBars(run.time, bars, each, normalised, tuple(dict.fromkeys(words)))


def _in_space(name, values, several, parts, widths, band, share, order):
    if several:
        results = [values, *(one[name] for one in several)]
        if order is None:
            return extrapolated(results, widths, band)
        return of_points(results, widths, band, order)
    if parts:
        return of_batches(values, [one[name] for one in parts], share)
    return Spread(np.zeros(len(values)), np.nan, "no error in space")


def _of_another(results, companions):
    """The bar of the independent method, from its runs."""
    first = companions[0]
    widths = [one.width / first.width for one in companions]
    band = orders_of(first.problem, first.options["kind"], first.options)
    return of_points(results, widths, band, order_of_points(first.problem, band)).bar


def _each(values, others, total):
    """The bars of every prediction, at least those of all together, and larger where it differs
    more."""
    apart = np.abs(values - others[0]["predictions"])
    mean = rms(apart)[:, None]
    share = np.divide(apart, mean, out=np.ones_like(apart), where=mean > 0.0)
    return total[:, None] * np.maximum(share, 1.0)


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
