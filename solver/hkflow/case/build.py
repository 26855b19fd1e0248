"""From a checked case to a Problem: data, mesh, initial measure, flow, exact solution."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..arguments import Floats
from ..errors import CaseError
from ..geometry.domain import Domain
from ..geometry.mesh import Mesh
from ..objectives import data as generators
from ..objectives.activations import Feature
from ..objectives.losses import ALL_RISKS, SOFTMAX
from ..objectives.objective import Objective
from ..objectives.population import PopulationRisk
from ..objectives.protocol import feature_of_data
from ..problem.exact import MomentFlow
from ..problem.flow import Flow
from ..problem.problem import Problem
from ..solving.restart import check_same_data, measure_left
from ..solving.result import Result
from .columns import MAX_SHOWN
from .datasets import (
    GENERATORS,
    DataSet,
    check_room,
    distribution,
    read_data,
    read_named,
    teacher_of,
)
from .first_measure import density_function, initial_density, initial_points
from .functions import built_in_feature, check_activation, feature_of
from .memory import check_memory
from .mesh_cache import cached_mesh
from .randomness import DATA, random_numbers
from .resolve import best_without_mesh, domain_of, flow_of
from .schema.case import Case
from .schema.initial import UniformInitial


def build_problem(
    case: Case, folder: Path, data: DataSet | None = None, earlier: Result | None = None
) -> Problem:
    """The problem that a resolved case states.

    data : read earlier, or None to read them now;  earlier : the run that it starts from, if it
        does

    Raises CaseError naming the key if data, domain, initial measure and memory do not fit together.
    """
    feature = feature_of(case.objective.activation, folder)
    if data is None:
        _, data = read_named(case, folder)
    objective, exact = build_objective(case, folder, data, feature)
    if data is not None:
        check_activation(feature, objective.inputs, objective.axes)
    check_memory(case, objective)
    feature = objective.feature
    flow, axes = flow_of(case.flow), objective.axes
    domain = domain_of(case, axes)
    draw = getattr(objective, "draw", None) or fresh_data(case, feature)  # of a population
    try:
        mesh, outputs = None, feature_of_data(objective).outputs
        if case.method.kind == "grid" or domain.fixed or case.method.points == "mesh":
            mesh = build_mesh(case, domain)
        if earlier is not None:
            start = _left_by(earlier, case, domain, objective, mesh)
        elif mesh is not None:
            start = initial_density(case, folder, mesh, domain.signs, outputs)
        else:
            start = initial_points(case, folder, axes, domain.signs, feature_of_data(objective))
        density = density_function(case, axes, domain.signs, outputs, mesh)
        preparation, test = data and data.preparation, None
        if data and data.test:
            test = test_objective(objective, *data.test)
        return Problem(
            mesh, objective, flow, domain.signs, start, exact, draw, density, preparation, test
        )
    except ValueError as error:
        raise CaseError(f"the problem: {error}") from error


def test_objective(
    objective: Any, inputs: Floats, targets: Floats, weights: Floats | None = None
) -> Objective:
    """The objective on test data: their inputs (without bias), targets and weights."""
    biased = objective.inputs.shape[1] > inputs.shape[1]
    full = generators.with_bias(inputs) if biased else inputs
    objective = getattr(objective, "data", objective)  # of a sum of energies
    return Objective(objective.feature, objective.risk, full, targets, weights)


def _left_by(earlier, case, domain, objective, mesh):
    """The measure of another run as the initial one."""
    try:
        check_same_data(earlier, domain, objective)
        return measure_left(earlier, case.initial.save, mesh)
    except ValueError as error:
        raise CaseError(f"initial.run: {earlier.name}: {error}") from error


def build_objective(
    case: Case, folder: Path | None, data: DataSet | None, feature: Feature
) -> tuple[Any, MomentFlow | None]:
    """The objective with all energies, and the closed-form solution of data alone, see
    `_data_risk`."""
    if case.energy is None:
        return _data_risk(case, folder, data, feature)
    from .energies import with_energies

    if case.data.source == "none":
        table = case.objective
        own = table.weight_decay, table.entropy
        return with_energies(case.energy, None, case.domain.dim + 1, *own), None
    risk, _ = _data_risk(case, folder, data, feature)
    return with_energies(case.energy, risk, risk.axes), None


def has_exact(case: Case) -> bool:
    """Whether a case is the moment problem in its solvable form, which has an exact solution."""
    table = case.objective
    return (
        case.data.source == "moment"
        and case.energy is None
        and table.weight_decay == table.entropy == 0.0
        and case.domain.kind == "sphere"
        and case.initial == UniformInitial(kind="uniform")
        and getattr(case.method, "points", None) != "gaussian"
        and MomentFlow.knows(flow_of(case.flow))
    )


def _data_risk(case, folder, data, feature):
    """The objective of the data, and the closed-form solution if the case is the moment problem in
    its solvable form.

    data : read earlier, or None;  feature : that of the activation
    """
    exact = None
    if case.data.source == "moment":
        if (case.objective.activation, case.objective.loss, case.objective.bias) != (
            "linear",
            "square",
            False,
        ):
            raise CaseError(
                "data.source: the moment problem needs activation 'linear', loss 'square' and no"
                " bias."
            )
        if case.flow.depth != 2.0:
            raise CaseError(
                "flow.depth: the moment problem lives on a sphere, where it must be 2, got"
                f" {case.flow.depth:g}."
            )
        flow, moment = flow_of(case.flow), (np.array(case.data.direction), case.data.target)
        exact = MomentFlow(*moment, flow) if has_exact(case) else None
        o = MomentFlow(*moment, Flow()).objective()
        inputs, targets, weights = o.inputs, o.targets, o.weights
    elif case.data.source == "population":
        return _population_risk(case, feature), None
    else:
        data = read_data(case, folder, feature) if data is None else data
        inputs, targets, weights = data.inputs, data.targets, data.weights
    if case.objective.loss == SOFTMAX.name:
        _check_numbers_of_classes(targets, data)
        feature = built_in_feature(case.objective, targets)  # of vectors
    elif case.objective.loss != "square":
        _check_classes(targets, case.objective.loss, both=case.domain.kind != "fixed-features")
    try:
        full = generators.with_bias(inputs) if case.objective.bias else inputs
        risk = ALL_RISKS[case.objective.loss]
        objective = Objective(
            feature,
            risk,
            full,
            targets,
            weights,
            case.objective.weight_decay,
            case.objective.operator,
            entropy=case.objective.entropy,
        )
    except ValueError as error:
        raise CaseError(f"data: {error}") from error
    return objective, exact


def _population_risk(case, feature):
    """The risk for infinitely many Gaussian inputs, of the teacher that the same table with source
    'teacher' draws."""
    if case.objective.loss != "square" or case.objective.bias:
        raise CaseError("data.source: the population risk needs the loss 'square' and no bias.")
    check_room(case.data)
    units, weights = teacher_of(case)
    try:
        return PopulationRisk(
            feature, units, weights, case.objective.weight_decay, entropy=case.objective.entropy
        )
    except ValueError as error:
        raise CaseError(f"objective.activation: {error}") from error


def fresh_data(case: Case, feature: Feature) -> Callable | None:
    """The function draw(rng, n) -> inputs (bias included), targets of the case's distribution; None
    if it has only data. feature : of a teacher."""
    if case.data.source == "population":
        return _population_risk(case, feature).draw
    if case.data.source not in (*GENERATORS, "teacher"):
        return None
    if case.data.standardize or case.data.components:
        if case.method.kind == "network" and case.method.training == "sgd":
            raise CaseError(
                "data: fresh batches cannot be standardized or projected; leave out 'standardize'"
                " and 'components'."
            )
        return None
    draw = distribution(case, random_numbers(case.seed, DATA), feature)
    return partial(_biased, draw) if case.objective.bias else draw


def _biased(draw, rng, n):
    inputs, targets = draw(rng, n)
    return generators.with_bias(inputs), targets


def _check_classes(targets, loss, both):
    if not np.isin(targets, (-1.0, 1.0)).all():
        bad = targets[~np.isin(targets, (-1.0, 1.0))][0]
        raise CaseError(
            f"objective.loss: '{loss}' needs targets +1 and -1, got {bad:g}. For a table, list one"
            " class in data.positive and the rest in data.negative; or take the loss 'softmax',"
            " which tells all labels apart."
        )
    if both and len(set(targets.tolist())) < 2:
        raise CaseError(
            f"data: only the class {targets[0]:+g} occurs; '{loss}' needs both +1 and -1."
        )


def _check_numbers_of_classes(targets, data):
    """Raise CaseError unless the classes 0 … k − 1 all occur."""
    names = getattr(data.preparation, "classes", None)
    count = len(names) if names else 1 + int(max(targets.max(), 1.0))
    if not np.isin(targets, np.arange(count)).all():
        bad = targets[~np.isin(targets, np.arange(count))][0]
        raise CaseError(
            f"data.targets: the loss 'softmax' needs the numbers 0, 1, … of classes, got {bad:g}."
        )
    if absent := sorted(set(range(count)) - set(targets.tolist())):
        said = ", ".join(f"'{names[k]}'" if names else str(k) for k in absent[:MAX_SHOWN])
        raise CaseError(
            f"data: no training data of class {said}. Every class needs some; leave it out of"
            " data.classes, give more data, or hold out fewer."
        )


def build_mesh(case: Case, domain: Domain) -> Mesh:
    """The mesh of the domain. Raises CaseError if a grid cannot have that dimension or number of
    cells."""
    columns = domain.dim + 1
    try:
        meshes = domain.meshes
    except ValueError as error:
        wants, key, other = "a grid needs a mesh", "kind", best_without_mesh(case)
        if case.method.kind != "grid":
            wants, key, other = "method.points = 'mesh' needs one", "points", "quasi-uniform"
        raise CaseError(
            f"domain.kind: {_counted(case, columns)}, so directions lie on {domain.name},"
            f" d = {domain.dim}, and {wants}: {error} Set method.{key} = '{other}', or"
            f" {_fewer_columns(case)}."
        ) from error
    try:
        cells = columns if domain.fixed else case.domain.cells
        return cached_mesh(meshes, cells)
    except ValueError as error:
        raise CaseError(f"domain.cells: {error}") from error


def _counted(case, columns):
    """What makes the coordinates of a unit, in words."""
    if case.data.source == "none":
        return f"domain.dim is {columns - 1}"
    if case.objective.loss != SOFTMAX.name:
        return f"the data have {columns} columns (bias included)"
    return f"inputs, bias and outputs of the classes make {columns} coordinates"


def _fewer_columns(case):
    """What changes their number."""
    if case.data.source == "none":
        return "change domain.dim"
    return "choose other features (or data.components), or change objective.bias"
