"""What a case says without being computed: its flow with rates, its saves, its domain, the
method that suits it."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from ..arguments import check_apart
from ..errors import CaseError
from ..geometry.domain import Domain
from ..methods.rules import best_method, has_many_kinks
from ..objectives.losses import SOFTMAX
from ..problem.flow import RATES, Flow, named_flow
from .datasets import DataSet
from .functions import feature_of
from .schema.arrays import ProblemCase
from .schema.case import Case
from .schema.flow import FlowTable
from .schema.methods import TABLES
from .schema.objective import unit_name


def resolve(case: Case, folder: Path | None = None, data: DataSet | None = None) -> Case:
    """The case with the rates of its flow and the times of its saves written out: a case that says
    what was computed.

    folder : of the case, where its own functions are looked for
    data : on which the best method may depend; None if they are not read
    Raises CaseError if the flow is not the one that a network follows.
    """
    flow = _resolved_flow(case, folder)
    case = case.model_copy(update={"flow": flow})
    if case.method.kind == "auto":
        case = case.model_copy(update={"method": _best_method(case, data)})
    return case.model_copy(update={"time": _resolved_time(case)})


def best_method_of(
    case: Case | ProblemCase, data: Any = None, meshed: bool | None = None
) -> tuple[str, str]:
    """The method that `kind = "auto"` takes for a case whose flow is resolved, and why.

    data : None, or what has the `inputs` that it reads;  meshed : whether there is a mesh, if that
        is not told by domain.cells
    """
    name = unit_name(case.objective)
    if getattr(case, "energy", None):  # beside data these make other units of them
        name = f"{name} and energies"
    return best_method(
        name,
        spreads(case),
        case.data.source not in ("population", "none"),
        case.domain.cells is not None if meshed is None else meshed,
        case.domain.kind == "fixed-features",
        varies(case),
        data is not None and has_many_kinks(data.inputs),
        # a case to an accuracy still has the name of its flow
        1.0 if getattr(case.flow, "kind", None) == "output-layer" else case.flow.depth,
    )


def best_without_mesh(case: Case | ProblemCase) -> str:
    """The method that suits a sphere without meshes; output weights alone are a network's there."""
    kind = best_method_of(case, meshed=False)[0]
    return "network" if kind == "grid" else kind


def spreads(case: Case | ProblemCase) -> bool:
    """Whether atoms do not stay atoms."""
    energies = getattr(case, "energy", None) or ()
    entropic = case.objective.entropy > 0.0 or any(one.kind == "entropy" for one in energies)
    return entropic or case.flow.noise != 0.0


def varies(case: Case | ProblemCase) -> bool:
    """Whether a rate of the flow varies in time."""
    return any(isinstance(getattr(case.flow, name), str) for name in RATES)


def _best_method(case, data):
    """The table of that method: its points are given, or the centres of the cells."""
    kind, why = best_method_of(case, data)
    meshed = case.domain.cells is not None and case.method.particles is None
    keys = case.method.model_dump(exclude={"kind"}, exclude_none=True)
    if kind == "grid":
        unsized = case.domain.cells is None and case.method.accuracy is None
        if unsized and case.domain.kind != "fixed-features":
            raise CaseError(f"domain.cells is missing: this flow needs a grid, since {why}")
        keys.pop("particles", None)
    elif meshed and case.initial.kind != "points":
        keys["points"] = "mesh"
    return TABLES[kind](kind=kind, **keys)


def _resolved_flow(case, folder):
    flow, signed, degree = case.flow, case.domain.kind == "signed-sphere", None
    if case.method.kind == "network" or flow is not None and flow.kind is not None:
        several = case.objective.loss == SOFTMAX.name  # whose units are b ψ(a·x)
        degree = 2 if several else feature_of(case.objective.activation, folder).degree
        if case.data.source == "none":  # energies alone have no units
            degree = None
    if flow is not None and flow.kind is not None:
        try:
            named = named_flow(
                flow.kind, degree, signed, flow.noise, flow.depth, flow.drive or "probability"
            )
        except ValueError as error:
            raise CaseError(f"flow: {error}") from error
        update = {
            name: getattr(named, name) for name in ("transport", "reaction", "depth", "drive")
        }
        flow = flow.model_copy(update={"kind": None} | update)
    elif flow is not None:
        flow = flow.model_copy(
            update={"transport": flow.transport or 0.0, "reaction": flow.reaction or 0.0}
        )
    if case.method.kind == "network":
        from ..methods.network.network import check_network_flow, network_flow

        own = network_flow(case.method.layers, degree, flow.depth if flow else 2.0)
        try:
            check_network_flow(case.method.layers, degree, own if flow is None else flow_of(flow))
        except ValueError as error:
            raise CaseError(f"flow: {error} A case without [flow] has it.") from error
        time_variable = flow.time_variable if flow else "time"
        flow = FlowTable(
            transport=own.transport,
            reaction=own.reaction,
            depth=own.depth,
            time_variable=time_variable,
        )
    return flow


def flow_of(table: FlowTable) -> Flow:
    """The Flow of a resolved [flow] table. Raises CaseError if its keys make no flow."""
    try:
        return Flow(**{field.name: getattr(table, field.name) for field in fields(Flow)})
    except ValueError as error:
        raise CaseError(f"flow: {error}") from error


def _refuse_equal(saves):
    """Raise CaseError if some of many save times are one number."""
    try:
        check_apart(saves)
    except ValueError as error:
        raise CaseError(f"time.saves: {error}") from error


def _resolved_time(case):
    time, method = case.time, case.method
    counted = getattr(method, "schedule", None) == "proposition"
    if time.first is not None:
        saves = np.geomspace(time.first, time.end, time.saves)
        time = time.model_copy(update={"first": None, "saves": [*saves[:-1].tolist(), time.end]})
    if time.steps is None:
        saves = (
            time.saves if isinstance(time.saves, list) else np.linspace(0.0, time.end, time.saves)
        )
        _refuse_equal(saves)
        if counted and np.mod([*saves, time.end], 1.0).any():
            raise CaseError(
                "time.end: with method.schedule 'proposition' time counts steps, so end and saves"
                " are whole numbers."
            )
        return time
    from ..methods.network.network import SCHEDULES

    sizes = (1.0 if counted else method.step) * SCHEDULES[method.schedule](np.arange(time.steps))
    times = np.concatenate([[0.0], np.cumsum(sizes)])
    chosen = np.unique(np.rint(np.linspace(0, time.steps, time.saves)).astype(int))
    return time.model_copy(
        update={"end": float(times[-1]), "steps": None, "saves": times[chosen].tolist()}
    )


def domain_of(case: Case | ProblemCase, axes: int) -> Domain:
    """The Domain of a case in R^axes."""
    fixed, signs = (
        case.domain.kind == "fixed-features",
        (1,) if case.domain.kind == "sphere" else (1, -1),
    )
    return Domain(axes - 1, tuple(getattr(case.domain, "signs", signs)), fixed)
