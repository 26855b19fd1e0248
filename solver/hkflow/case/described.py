"""A Problem that was made in Python as tables and arrays, for its run folder, and back."""

from collections.abc import Callable
from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import numpy as np
from pydantic import ValidationError

from ..arguments import Floats
from ..errors import CaseError
from ..files.reading import check_mesh
from ..measures.initial import (
    BalancedUnits,
    Caps,
    Expression,
    InitialDensity,
    Uniform,
    VonMisesFisher,
)
from ..objectives.activations import FEATURES, feature_named
from ..objectives.data import with_bias
from ..objectives.energies import Sum
from ..objectives.losses import ALL_RISKS, RISKS
from ..objectives.objective import Objective
from ..objectives.population import PopulationRisk
from ..problem.exact import MomentFlow
from ..problem.flow import Flow, VaryingRate
from ..problem.problem import Problem
from ..solving.result import has_bias
from .energies import energy_tables, with_energies
from .functions import OwnFunctions
from .load import plain_tables, sentences
from .schema.arrays import ProblemCase

# what stands in the place of a data risk in a run folder without data
NOTHING = SimpleNamespace(feature=FEATURES["linear"], risk=RISKS["square"], operator="auto")
MEASURES: dict[str, Any] = {
    "uniform": Uniform,
    "von-mises-fisher": VonMisesFisher,
    "caps": Caps,
    "expression": Expression,
}


def described(
    problem: Problem,
    time: dict,
    method: dict,
    title: str = "",
    seed: int = 0,
    certificate: dict | None = None,
    error: dict | None = None,
) -> tuple[ProblemCase, OwnFunctions]:
    """The ProblemCase of a problem and its OwnFunctions.

    time : the keys of [time];  method : those of [method];  certificate, error : of those tables
    Raises CaseError for options that are none and for what a run folder cannot say of a problem.
    """
    objective: Any = problem.objective
    exact = problem.exact
    population, total = hasattr(objective, "teacher"), isinstance(objective, Sum)
    if not (population or total or type(objective) is Objective):
        raise CaseError(
            "A run folder knows hkflow.Objective, hkflow.PopulationRisk and hkflow.Sum, not"
            f" {type(objective).__name__}; take hkflow.solve."
        )
    decay = objective.weight_decay
    energies = _energies_in_words(objective) if total else {}
    objective = objective.data or NOTHING if total else objective
    if exact is not None and (type(exact) is not MomentFlow or exact.flow != problem.flow):
        raise CaseError("A run folder knows the exact solution MomentFlow of the same flow alone.")
    teacher = energies | (
        {"teacher": objective.teacher, "teacher_weights": objective.teacher_weights}
        if population
        else {"operator": objective.operator}
    )
    rates = {field.name: getattr(problem.flow, field.name) for field in fields(problem.flow)}
    flow = {name: _rule(name, value) for name, value in rates.items() if value is not None}
    endless = method.get("max_step") == np.inf
    tables = {
        "title": title,
        "seed": seed,
        "objective": {
            "activation": objective.feature.name,
            "bias": has_bias(problem.objective.inputs),
            "loss": objective.risk.name,
            "weight_decay": decay,
            "entropy": 0.0 if total else objective.entropy,
            **teacher,
        },
        "domain": {
            "kind": problem.domain.kind,
            "signs": list(problem.signs),
            "cells": None if problem.mesh is None else problem.mesh.n_cells,
        },
        "initial": {"balanced": getattr(problem.initial, "is_balanced", None)},
        "density": _density_in_words(problem.density),
        "flow": flow,
        "method": {
            name: value for name, value in method.items() if not (endless and name == "max_step")
        },
        "time": time,
        "certificate": certificate or {},
        "error": error or {},
        "exact": exact and {"direction": exact.direction, "target": exact.target},
    }
    _check_arrays(problem)
    try:
        problem.check_density()
    except ValueError as error:
        raise CaseError(str(error)) from error
    try:
        case = ProblemCase.model_validate(plain_tables(tables))
    except ValidationError as error:
        raise CaseError(sentences(error, ProblemCase)) from None
    # a population risk draws by its teacher
    draw = None if population else problem.draw
    return case, OwnFunctions.of(objective, draw, problem.density)


def _rule(name, value):
    """A number of a flow, or the formula of a rate."""
    rule = value.rule if isinstance(value, VaryingRate) else value
    if callable(rule):
        raise CaseError(
            "A run folder knows rates that are numbers or formulas in t, but"
            f" flow.{name} is a function: write it as text, or take hkflow.solve."
        )
    return rule


def _energies_in_words(total):
    """The keys of a ProblemObjective that a Sum has."""
    tables = energy_tables(total)
    if total.entropy > 0.0:
        tables.append({"kind": "entropy", "temperature": total.entropy})
    return {"energy": tables} | ({} if total.data else {"axes": total.axes})


def _density_in_words(density):
    """The keys of a DensityTable, or None for another density."""
    if isinstance(density, BalancedUnits):
        return {"kind": "balanced", "outputs": density.outputs}
    if not isinstance(density, InitialDensity):
        return None
    keys = {name: value for name, value in vars(density.measure).items() if name != "sign"}
    if "centers" in keys:
        keys = keys | {"centers": density.measure.centers.tolist()}
    kind = next(kind for kind, made in MEASURES.items() if type(density.measure) is made)
    return {"kind": kind, "factor": density.factor, "signs": list(density.signs), **keys}


def density_of(case: ProblemCase, own: OwnFunctions, where: str) -> Callable | None:
    """The initial density at every point of a described problem, as far as it is known."""
    table = case.density
    if table is not None:
        keys = table.model_dump(exclude={"kind", "factor", "signs"}, exclude_none=True)
        if table.kind == "balanced":
            return BalancedUnits(**keys)
        return InitialDensity(MEASURES[table.kind](**keys), table.factor, tuple(table.signs))
    return None if own.density is None else own.density.deferred(where)


def _check_arrays(problem):
    """Raise CaseError unless the mesh is one that can be read back."""
    if problem.mesh is None:
        return
    try:
        check_mesh(problem.mesh.name, problem.mesh.arrays())
    except ValueError as error:
        raise CaseError(f"A run folder cannot hold the mesh: {error}.") from error


def rebuilt(
    case: ProblemCase,
    own: OwnFunctions,
    data: tuple[Floats, Floats, Floats],
    flow: Flow,
    where: str,
) -> tuple[Any, MomentFlow | None, Callable | None]:
    """Objective, closed-form solution or None, and function that draws fresh data or None, of a
    described problem.

    data : inputs (n, dim) without the bias, targets (n,), weights (n,);  where : how sentences on
        functions that cannot be imported begin
    """
    table, (inputs, targets, weights) = case.objective, data
    feature: Any = own.feature.built(where) if own.feature else feature_named(table.activation)
    exact = None
    if case.exact is not None:
        exact = MomentFlow(np.array(case.exact.direction), case.exact.target, flow)
    if table.teacher is not None:
        units = np.array(table.teacher), np.array(table.teacher_weights)
        population = PopulationRisk(feature, *units, table.weight_decay, entropy=table.entropy)
        total: Any = population
        if table.energy is not None:
            total = with_energies(table.energy, population, population.axes)
        return total, exact, population.draw
    if table.axes is not None:
        return with_energies(table.energy or (), None, table.axes, table.weight_decay), exact, None
    risk = own.risk.built(where) if own.risk else ALL_RISKS[table.loss]
    full = with_bias(inputs) if table.bias else inputs
    objective: Any = Objective(
        feature, risk, full, targets, weights, table.weight_decay, table.operator,
        entropy=table.entropy,
    )  # fmt: skip
    if table.energy is not None:
        objective = with_energies(table.energy, objective, objective.axes)
    return objective, exact, None if own.draw is None else own.draw.deferred(where)
