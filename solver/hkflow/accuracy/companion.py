"""A companion of a run: the same problem on fewer cells or points, with another tolerance, or by
another method."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from typing import Any, cast

import numpy as np

from ..arguments import Floats
from ..errors import HkflowError
from ..geometry.domain import Meshes
from ..geometry.mesh import Mesh
from ..geometry.point_sets import quasi_uniform
from ..geometry.transfer import restrict
from ..measures.initial import (
    BalancedUnits,
    Caps,
    CellDensity,
    InitialDensity,
    PointsInCells,
    cells_of,
    with_mass,
)
from ..measures.point_measure import DensityAndAtoms, PointMeasure, with_each_sign
from ..methods.choice import make_method, method_class
from ..methods.rules import best_method, has_many_kinks
from ..objectives.energies import Sum
from ..objectives.protocol import feature_of_data
from ..problem.problem import Problem
from ..solving.guards import GUARDS
from ..solving.loop import Loop
from ..solving.result import Result
from ..solving.solution import Memory, Solution

# Orders in the width that errors are expected to show. ROUGH: cells whose velocity jumps at a kink,
# and points on the circle that pass kinks, or leave one another, one at a time. CURVED: points on
# the circle of features without a kink, and cells of a density that jumps. SMOOTH: all others.
# Where nothing moves all are SMOOTH: integrals of continuous functions. MOVED: cells that were
# given points, which they move to their centres.
ROUGH, CURVED, SMOOTH, MOVED = (0.5, 1.0), (1.0, 1.5), (1.0, 2.0), (1.0, 1.0)
BATCHES, SHARE = 4, 1.0 / 16.0  # of random points, a quarter where they are few
LEAST = 8  # points or cells of a companion
# In more dimensions n points are no more even than n draws: their errors fall like n^-½, as those
# of second order do in as many
EVEN = 4
LONGER = 4.0  # so many times as long are the Brownian steps that tell errors of others
EXPECTED = (HkflowError, ValueError, ArithmeticError, MemoryError)

MeshOf = Callable[[Meshes, int], Mesh]


@dataclass(frozen=True, eq=False)
class Companion:
    """A run to be made: problem, options of its method, the width of its cells or the distance of
    its points (see `dim_of_errors`) in units of those of the run itself, what it is in words, how
    many steps it may take, and, if its steps are to be at most 1/parts as long as those of another
    run, the times of that run's records and the numbers of their steps times parts."""

    problem: Problem
    options: dict
    width: float
    words: str
    most: float = np.inf
    shorter: tuple[Floats, Floats] | None = None

    @property
    def orders(self) -> tuple[float, float]:
        """Which are expected of its method."""
        return orders_of(self.problem, self.options["kind"], self.options)


def options_of(run: Result) -> dict[str, Any]:
    """The options that its method takes. The stepper of a grid is among them, and that of particles
    with several outputs: on fewer cells, or with another tolerance, another one might be taken,
    whose errors are others."""
    known = signature(method_class(run.method)).parameters
    options = {"kind": run.method} | {
        name: value for name, value in run.options.items() if name in known and value is not None
    }
    if run.method == "particles":
        if run.problem.objective.feature.outputs > 1 and options.get("stepper", "auto") == "auto":
            made: Any = make_method(run.problem, **options)
            if made.over_kinks or made.sees_kinks:
                options["stepper"] = "sliding" if made.sees_kinks else "dopri5"
        if run.flow.noise > 0.0:  # of which companions have fewer
            return {"noise_points": known["noise_points"].default} | options
    if run.method != "grid":
        return options
    from ..methods.grid.finite_volume import best_stepper

    chosen = {name: options[name] for name in ("tolerance", "reconstruction") if name in options}
    return {"stepper": best_stepper(run.problem, **chosen)} | options


def count_of(problem: Problem) -> int:
    """Cells, or points of one sign."""
    mesh, start = problem.mesh, cast(PointMeasure, problem.initial)
    return len(start) // len(problem.signs) if mesh is None else mesh.n_cells


def sites_of(companion: Companion) -> int:
    """Points of one sign on which noise is put, where these alone stand for a density: it starts
    from given atoms. 0 of all other runs."""
    problem, options = companion.problem, companion.options
    given = problem.mesh is None and problem.density is None
    if not given or not problem.flow.noise > 0.0 or options.get("noise") == "random":
        return 0
    return options.get("noise_points", 0) // len(problem.signs)


def dim_of_errors(problem: Problem) -> int:
    """The d by which the number n of cells or points tells their width or distance n^(-1/d): that
    of the sphere, of points at most EVEN; 1 on S⁰."""
    return problem.dim if problem.mesh is not None else min(max(problem.dim, 1), EVEN)


def other_method(problem: Problem) -> str:
    """The method that computes the same as a grid in another way; "" where neither characteristics
    nor particles do, as where the mobility is not ν. A sum of energies moves particles."""
    objective = problem.objective
    data, total = bool(len(objective.inputs)), isinstance(objective, Sum)
    apart = problem.flow.depth != 2.0 or problem.spreads or problem.domain.fixed
    if apart or not (data or total):
        return ""
    if total:
        return "particles"
    feature: Any = objective.feature
    varies, many = bool(problem.flow.varies), has_many_kinks(objective.inputs)
    kind, _ = best_method(feature.name, False, data, False, False, varies, many)
    if kind == "particles" and feature.activation is None and feature.pullback is None:
        return ""
    return kind


def by_another(companion: Companion, kind: str, count: int, factor: float) -> Companion:
    """The same by another method, with its own tolerance times a factor."""
    made = replace(companion, options={"kind": kind}, words=f"{kind} from {count} points")
    return made if factor == 1.0 else (with_tolerance(made, factor) or [made])[0]


def as_short(companion: Companion) -> Companion:
    """It with steps no longer than the cells of the run itself allow, if it is a grid that chooses
    its steps and whose cells bound them."""
    made: Any = make_method(companion.problem, **companion.options)
    if made.fixed_steps or companion.options["kind"] != "grid" or made.drifts_exactly:
        return companion
    cfl = made.cfl / companion.width
    return replace(companion, options=companion.options | {"cfl": cfl})


def cut_short(companion: Companion, times: Floats) -> Companion:
    """It with Brownian steps and intervals of noise as long as saves at some times leave them, so
    that fewer saves do not make them longer."""
    problem, options = companion.problem, companion.options
    acts = {"max_step": problem.objective.entropy, "noise_interval": problem.flow.noise}
    if options["kind"] != "particles" or not any(acts.values()):
        return companion
    made: Any = make_method(problem, **options)
    gap = float(np.diff(times, prepend=0.0).max())
    if gap == 0.0:  # it has ended where it started
        return companion
    cut = {name: gap for name, rate in acts.items() if rate > 0.0 and getattr(made, name) > gap}
    return replace(companion, options=options | cut)


def longest_wait(companion: Companion) -> float:
    """How long its Brownian steps or intervals of noise are; 0 without."""
    if companion.options["kind"] != "particles":
        return 0.0
    made: Any = make_method(companion.problem, **companion.options)
    if companion.problem.objective.entropy > 0.0:
        return float(made.max_step)
    return float(made.noise_interval) if companion.problem.flow.noise > 0.0 else 0.0


def with_tolerance(companion: Companion, factor: float, few: bool = False) -> list[Companion]:
    """It again with another tolerance, if a tolerance governs its steps, or with Brownian steps, of
    first order, LONGER times as long, or as short.

    Noise that is put on points at intervals errs like their square, whatever the tolerance: they
    change so that this falls like tolerance^½, and by more where they become longer, which saves
    cut, or are few: the square is not seen yet.
    """
    made: Any = make_method(companion.problem, **companion.options)
    if made.fixed_steps and companion.problem.objective.entropy > 0.0:
        step = made.max_step * (LONGER if factor > 1.0 else 1.0 / LONGER)
        words = f"{companion.words} with steps of {step:.2g}"
        return [replace(companion, options=companion.options | {"max_step": step}, words=words)]
    if made.fixed_steps:
        return []
    tolerance = factor * made.tolerance
    words = f"{companion.words} with tolerance {tolerance:.2g}"
    options = companion.options | {"tolerance": tolerance}
    if companion.problem.flow.noise > 0.0 and hasattr(made, "noise_interval"):
        power = 0.5 if few or factor > 1.0 else 0.25
        options["noise_interval"] = factor**power * made.noise_interval
    return [replace(companion, options=options, words=words)]


def with_shorter_steps(
    companion: Companion, factor: float, run: Result, parts: int
) -> list[Companion]:
    """It with another tolerance and steps at most 1/parts as long as those of a run, parts 2 or 4,
    if a tolerance governs its steps.

    Errors of implicit steps are relative to what J exchanges in the time in which it acts. Before
    that, as from large weights, predictions change by a small part of it, and steps are those
    between saves, or twice the last one, whatever the tolerance; and so are those of grids that
    saves, or cells, cut.
    """
    times, steps = (np.asarray(run.records.get(name, ()), float) for name in ("time", "step"))
    share = {2: "half", 4: "a quarter"}[parts]
    return [
        replace(one, words=f"{one.words} and steps {share} as long", shorter=(times, parts * steps))
        for one in with_tolerance(companion, factor)
    ]


def thinned(own: Companion, counts: set[int], mesh_of: MeshOf) -> dict[int, Companion]:
    """The same on so many cells, or from so many points, by their number, each made from the finer
    one before; up to one that has no mass. Or with so many `sites_of` noise."""
    sites, one = sites_of(own), cast(Any, own.problem)
    whole = sites or count_of(one)
    found = {whole: own}
    for count in sorted(counts - {whole}, reverse=True):
        one = one if sites else _thinner(one, count, mesh_of)
        if one is None:
            break
        options, share = own.options, count / whole
        if "noise_points" in options:
            signs = len(one.signs)
            born = signs * max(1, round(share * options["noise_points"] / signs))
            options = options | {"noise_points": max(2, born)}
        points = count if one.mesh is not None else len(one.initial)
        words = f"{points} {'cells' if options['kind'] == 'grid' else 'points'}"
        words = f"noise on {count * len(one.signs)} points" if sites else words
        found[count] = Companion(one, options, share ** (-1.0 / dim_of_errors(one)), words)
    return found


def _thinner(problem, count, mesh_of):
    """The problem on a mesh of so many cells, or from so many points of each sign; None if none of
    these has mass."""
    if problem.mesh is not None:
        mesh = mesh_of(problem.domain.meshes, count)
        return replace(problem, mesh=mesh, initial=_carried(problem, mesh), exact=None)
    if isinstance(problem.density, BalancedUnits):
        atoms = problem.density.atoms(count, problem.dim)
        return replace(problem, initial=atoms.scaled_to(problem.initial.mass), exact=None)
    points = quasi_uniform(count, problem.dim)
    shape = getattr(problem.density, "relative", problem.initial_density)
    weights = np.concatenate([shape(points, sign) for sign in problem.signs])
    alive = weights > 0.0
    if not alive.any():
        return None
    points, signs = with_each_sign(points, problem.signs)
    atoms = PointMeasure(points[alive], signs[alive], weights[alive])
    return replace(problem, initial=atoms.scaled_to(problem.initial.mass), exact=None)


def _at_centers(density, mesh, sign):
    """Values of a function (points, sign) -> density in the cells (n_cells,) of a mesh."""
    return np.broadcast_to(density(mesh.centers.copy(), sign), mesh.n_cells)


def _carried(problem, mesh):
    """The initial measure on a coarser mesh; atoms stay. A density that is known at every point is
    taken as on the finer mesh: averages over its cells would hide the error of that. So would those
    of points: the cell that holds its centre gets all of a cell."""
    fine, known, (density, atoms) = problem.mesh, problem.density, problem.initial_parts
    if atoms is None and np.ptp(density, axis=1).max() == 0.0:  # uniform: no overlaps need be found
        return np.repeat(density[:, :1], mesh.n_cells, axis=1)
    if atoms is None and known is not None and not isinstance(known, CellDensity):
        of_case = isinstance(known, InitialDensity)  # whose mass is given
        in_cells = known.in_cells if of_case else partial(_at_centers, known)
        values = np.array([in_cells(mesh, sign) for sign in problem.signs])
        if values.any():
            mass = float((density @ fine.volumes).sum())
            return with_mass(values, mesh, mass) if of_case else values
    if starts_from_points(problem):
        held, masses = cells_of(mesh, fine.centers), density * fine.volumes
        found = np.array([np.bincount(held, row, mesh.n_cells) for row in masses]) / mesh.volumes
    else:
        found = restrict(density, fine, mesh)
    return found if atoms is None else DensityAndAtoms(found, atoms)


def starts_from_points(problem: Problem) -> bool:
    """Whether cells were given points at the start, each to the one that holds it."""
    on_cells = problem.mesh is not None and not problem.domain.fixed
    return on_cells and isinstance(problem.density, PointsInCells)


def batches_of(companion: Companion) -> list[Companion]:
    """Disjoint parts of its random points, none of a few or of a network's units; each with random
    numbers of its own."""
    problem, options = companion.problem, companion.options
    start = problem.initial if problem.mesh is None else problem.atoms()
    if not isinstance(start, PointMeasure) or len(start) < LEAST:
        return []
    order = np.random.default_rng(0).permutation(len(start))
    random = options.get("noise") == "random" or problem.objective.entropy > 0.0
    count = min(max(LEAST, int(SHARE * len(start))), len(start) // BATCHES)
    parts = [order[k * count : (k + 1) * count] for k in range(BATCHES)]
    return [
        Companion(
            replace(problem, mesh=None, initial=_part(start, part), exact=None),
            options | ({"seed": k} if random else {}),
            (len(start) / count) ** (1.0 / dim_of_errors(problem)),
            f"{count} points",
            companion.most,
        )
        for k, part in enumerate(parts)
    ]


def _part(atoms, chosen):
    """Some of the atoms, with the mass of all."""
    return atoms.part(chosen).scaled_to(atoms.mass)


def solved(companion: Companion, times: Floats) -> Solution | None:
    """The run of a companion in memory; None if it fails, or takes too many steps."""
    try:
        made, memory = (
            make_method(companion.problem, **companion.options),
            Memory(companion.options),
        )
        watch = memory, lambda state: state.step > companion.most
        loop = Loop(made, times, watch, GUARDS, record_interval=np.inf)
        if companion.shorter:
            loop.control.keep_below(_longest_step(*companion.shorter, 0.0))
        for _ in loop.steps():
            if companion.shorter:
                loop.control.keep_below(_longest_step(*companion.shorter, loop.clock.time))
    except EXPECTED:
        return None
    return memory.solution(made, loop.finished) if loop.finished else None


def _longest_step(times, steps, now):
    """The step at a time, by the times of records and the numbers of their steps; inf if these are
    not known."""
    if len(times) < 2:
        return np.inf
    k = min(max(int(np.searchsorted(times, now, side="right")), 1), len(times) - 1)
    return float(times[k] - times[k - 1]) / max(float(steps[k] - steps[k - 1]), 1.0)


def orders_of(problem: Problem, method: str, options: Mapping[str, Any]) -> tuple[float, float]:
    """The lowest and the highest order that are expected of a method."""
    feature = feature_of_data(problem.objective)
    moves = problem.flow.moves or problem.spreads
    if starts_from_points(problem):
        return ROUGH if moves and is_kinked(problem) and not feature.joint else MOVED
    if not moves:
        return SMOOTH
    if method == "grid":
        rough = is_kinked(problem) and not feature.joint
        if rough or options.get("limiter") == "first-order":
            return ROUGH
        return CURVED if isinstance(getattr(problem.density, "measure", None), Caps) else SMOOTH
    if not problem.domain.ordered:
        return SMOOTH
    return ROUGH if is_kinked(problem) or feature.pieces else CURVED


def errs_by_chance(problem: Problem, method: str) -> bool:
    """Whether chance makes errors of some number larger and of another smaller, as it does of sets
    of points, and of cells, which move the points that they were given."""
    return method != "grid" or starts_from_points(problem)


def order_of_points(problem: Problem, band: tuple[float, float]) -> float:
    """The order by which errors of points fall: the highest of the band, and two thirds up for
    features with a kink at every datum."""
    low, high = band
    rough = is_kinked(problem) and not feature_of_data(problem.objective).joint
    return low + 2.0 / 3.0 * (high - low) if rough else high


def steps_over_kinks(companion: Companion) -> bool:
    """Whether its points cross kinks that its steps do not look for."""
    kinked = is_kinked(companion.problem) and companion.problem.objective.entropy == 0.0
    return kinked and make_method(companion.problem, **companion.options).slides


def is_kinked(problem: Problem) -> bool:
    """Whether its feature has a kink at every datum."""
    feature = feature_of_data(problem.objective)
    return bool(feature.kink or feature.kinks) and len(problem.objective.inputs) > 0
