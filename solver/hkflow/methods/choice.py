"""Methods by their names in case files."""

from importlib import import_module
from typing import Any

from ..arguments import check_options
from ..errors import unknown_name
from ..measures.point_measure import Units
from ..problem.problem import Problem
from .method import Method
from .rules import best_method, has_many_kinks

METHODS = {
    "grid": "grid.finite_volume.FiniteVolume",
    "characteristics": "characteristics.characteristics.Characteristics",
    "particles": "particles.particles.Particles",
    "network": "network.network.Network",
}

SUMMING = ("grid", "particles")  # those that know sums of energies

AUTO = "auto"


def method_class(kind: str) -> type[Any]:
    """The method of a name, loaded when it is first wanted; raises ValueError with the choices for
    an unknown one."""
    if kind not in METHODS:
        raise ValueError(unknown_name("method", kind, (*METHODS, AUTO)))
    module, name = METHODS[kind].rsplit(".", 1)
    return getattr(import_module(f".{module}", __package__), name)


def kind_of(problem: Problem, kind: str | None = None) -> str:
    """The name of a problem's method: as given; "grid" if none is given and there is a mesh; else
    the best one."""
    if kind not in (None, AUTO):
        return str(kind)
    if kind is None and problem.mesh is not None:
        return "grid"
    if isinstance(problem.initial, Units):
        return "network"
    objective, meshed = problem.objective, problem.mesh is not None
    data = bool(len(objective.inputs))
    name, varies = objective.feature.name, bool(problem.flow.varies)
    fixed, many = problem.domain.fixed, has_many_kinks(objective.inputs)
    depth = problem.flow.depth
    return best_method(name, problem.spreads, data, meshed, fixed, varies, many, depth)[0]


def make_method(problem: Problem, kind: str | None = None, **options: Any) -> Method:
    """The method of a problem, see `kind_of`; raises ValueError with the choices for an unknown
    one, or an unknown option."""
    kind = kind_of(problem, kind)
    made, flow = method_class(kind), problem.flow
    for name in set(flow.varies) - set(made.varying):
        others = [
            other for other in METHODS if set(flow.varies) <= set(method_class(other).varying)
        ]
        raise ValueError(
            f"The method '{kind}' has no {name} that varies, got {getattr(flow, name)!r}. Choose"
            f" from: {', '.join(others)}."
        )
    if problem.objective.entropy > 0.0 and not made.knows_entropy:
        others = [other for other in METHODS if method_class(other).knows_entropy]
        raise ValueError(
            f"The method '{kind}' has no entropy, got entropy = {problem.objective.entropy:g}."
            f" Choose from: {', '.join(others)}."
        )
    for name in flow.beyond(made.rates):
        others = [other for other in METHODS if not flow.beyond(method_class(other).rates)]
        raise ValueError(
            f"The method '{kind}' has no {name}, got {name} = {getattr(flow, name):g}. Choose from:"
            f" {', '.join(others)}."
        )
    if kind not in SUMMING and hasattr(problem.objective, "terms"):
        raise ValueError(
            f"The method '{kind}' moves units by the data alone, and the objective is a sum of"
            f" energies. Choose from: {', '.join(SUMMING)}."
        )
    check_options(options, made, f"{kind} option")
    return made(problem.with_own_flow(), **options)
