"""Repeats of a network: the same run from other random starts, and of infinite width."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..accuracy.companion import EXPECTED, Companion, options_of, solved
from ..accuracy.companions import error_bars
from ..accuracy.estimate import rms
from ..accuracy.quantities import is_large, quantities
from ..accuracy.repeats import Repeats
from ..arguments import Floats
from ..case.first_measure import density_function, initial_points
from ..case.randomness import DYNAMICS
from ..case.schema.methods import CharacteristicsMethod, ParticlesMethod
from ..methods.rules import best_method, has_many_kinks
from ..store.estimates import write_repeats
from ..store.run import Run
from .error_bars import stated
from .progress import counted

PER_SIGN = 2000  # points of the infinite width
METHODS = {"characteristics": CharacteristicsMethod, "particles": ParticlesMethod}

Numbers = dict[str, Floats]


def repeated(run: Run, quiet: bool) -> bool:
    """Solve the repeats that the case of a finished run asks for and write them into its folder;
    whether there are any. Ctrl-C leaves those that are done.
    """
    count = getattr(run.case.method, "repeats", 1)
    if count == 1 or not run.finished or run.case.data.source == "arrays":
        return False
    with counted("solving other networks", quiet) as watch:
        found = _repeats(run, count, watch or (lambda done, of: None))
    write_repeats(run.path, found)
    return True


def _repeats(run: Run, count: int, watch: Callable[[int, int], None]) -> Repeats:
    normalised, remark, without = is_large(run), "", _without(run)
    networks = [quantities(run, normalised)]
    limit: Numbers = {}
    errors: Numbers = {}
    try:
        watch(0, count)
        if not without:
            with suppress(*EXPECTED):
                limit, errors = _infinite(run, normalised)
            without = "" if limit else "its computation failed"
        for k in range(1, count):
            watch(k, count)
            network = _network(run, k, normalised)
            networks += [network] if network else []
        if len(networks) < count:
            remark = f"{count - len(networks)} of {count} failed or have no start that is kept"
    except KeyboardInterrupt:
        remark = f"broken off after {len(networks)} of {count}"
        without = without or ("" if limit else "broken off")
    values = {
        name: np.array([one[name][:, 0] for one in networks]) for name in ("objective", "log_mass")
    }
    infinite = {name: limit[name][:, 0] for name in values if limit} | errors
    if "predictions" in limit:
        away = [rms(one["predictions"] - limit["predictions"]) for one in networks]
        values["distance"] = np.array(away)
    units = len(run.atoms_at(0))
    return Repeats(run.time, units, values, infinite, normalised, remark, without)


def _network(run, k, normalised):
    """The numbers of the network with the k-th seed after the run's, of the same data; none if it
    fails."""
    case = run.case.model_copy(update={"seed": run.case.seed + k})
    if case.is_drawn:
        problem = replace(run.problem, initial=_start(case, run.problem), density=None, exact=None)
    elif (problem := run.problem if run.time[0] == 0.0 else stated(run)) is None:
        return {}
    steps = np.random.SeedSequence(case.seed).spawn(DYNAMICS + 1)[DYNAMICS]
    return _numbers(
        solved(Companion(problem, options_of(run) | {"seed": steps}, 1.0, ""), run.time), normalised
    )


def _start(case, problem):
    objective = problem.objective
    return initial_points(case, Path(), objective.axes, problem.signs, objective.feature)


def _numbers(solution, normalised):
    found = quantities(solution, normalised) if solution else {}
    return found if all(np.isfinite(values).all() for values in found.values()) else {}


def _without(run):
    """Why a network has no infinite width here, or ""."""
    method = run.case.method
    if method.layers not in ("both", "normalized"):
        return f"layers '{method.layers}' follow no flow in which directions are free"
    if method.training == "sgd":
        return "stochastic gradients follow no flow"
    if method.points != "random" or not run.case.is_drawn:
        return "the units are not drawn from a measure that the case states"
    return "" if method.balance == 1.0 else "units that are not balanced follow no flow of measures"


def _infinite(run, normalised):
    """The numbers of the flow of infinite width from evenly spread points, and their error bars;
    empty if it fails."""
    problem, objective = run.problem, run.problem.objective
    data = bool(len(objective.inputs))
    many = has_many_kinks(objective.inputs)
    kind, _ = best_method(objective.feature.name, False, data, False, False, many=many)
    table = METHODS[kind](kind=kind, particles=PER_SIGN * len(problem.signs))
    case = run.case.model_copy(update={"method": table})
    density = density_function(case, objective.axes, problem.signs)
    start = _start(case, problem)
    problem = replace(problem, initial=start, density=density, draw=None, exact=None)
    solution = solved(Companion(problem, {"kind": kind}, 1.0, ""), run.time)
    found = _numbers(solution, normalised)
    if not found or density is None:  # whose points cannot be thinned out
        return found, {}
    bars = error_bars(solution, problem, independent=False)
    wanted = ("objective", "log_mass", "predictions")
    known = {f"{name}_error": bars[name] for name in wanted if name in bars.bars}
    return found, known if bars.normalised == normalised else {}
