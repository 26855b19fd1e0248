"""From a checked case to a Problem: data, mesh, initial measure, flow, exact solution."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from ..arguments import Floats, Integers
from ..errors import CaseError
from ..geometry.domain import Domain
from ..geometry.mesh import Mesh
from ..geometry.point_sets import quasi_uniform, random_uniform
from ..geometry.sphere import normalize, surface_area
from ..measures.initial import (
    Caps,
    Expression,
    InitialDensity,
    Uniform,
    VonMisesFisher,
    atoms_on_mesh,
    balanced_atoms,
    of_sign,
    with_mass,
)
from ..measures.point_measure import PointMeasure, Units, atoms_of_points
from ..methods.rules import best_method
from ..objectives import data as generators
from ..objectives.activations import Feature
from ..objectives.losses import ALL_RISKS, LARGEST_LOG, SOFTMAX
from ..objectives.objective import Objective
from ..problem.exact import MomentFlow
from ..problem.flow import RATES, Flow, named_flow
from ..problem.problem import Problem
from ..solving.restart import check_same_data, measure_left
from ..solving.result import Result
from .columns import MAX_SHOWN
from .datafiles import read_columns, read_points, read_scikit_learn
from .functions import built_in_feature, feature_of
from .mesh_cache import cached_mesh
from .preparation import Encoding, Preparation, raw_table, test_rows
from .schema import (
    Case,
    CharacteristicsMethod,
    FlowTable,
    GridMethod,
    Labelled,
    ParticlesMethod,
    Prepared,
    ProblemCase,
    UniformInitial,
    unit_name,
)
from .starts import start_in_file


@dataclass(frozen=True, eq=False)
class DataSet:
    """Data as the objective takes them.

    inputs : (n, dim) without the bias;  targets : (n,);  weights : (n,), or None for 1/n each
    preparation : that made the inputs from raw columns; None if they are as they were
    lines : (n,) of the rows in their text file, None of other data
    test : inputs (n_test, dim) and targets (n_test,) of what is held out, or None
    """

    inputs: Floats
    targets: Floats
    weights: Floats | None = None
    preparation: Preparation | None = None
    lines: Integers | None = None
    test: tuple[Floats, Floats] | None = None


GENERATORS = {
    "cluster-grid": generators.cluster_grid,
    "xor": generators.xor,
    "parity": generators.parity,
}
# what random numbers are used for: each has a generator of its own, from the case's seed
DATA, START, DYNAMICS, SPLIT = range(4)
DEFAULT_POINTS = 1000


def random_numbers(seed: int, use: int) -> np.random.Generator:
    """The generator for one use."""
    return np.random.default_rng(np.random.SeedSequence(seed).spawn(use + 1)[use])


def resolve(case: Case, folder: Path | None = None) -> Case:
    """The case with the rates of its flow and the times of its saves written out: a case that says
    what was computed.

    folder : of the case, where its own functions are looked for
    Raises CaseError if the flow is not the one that a network follows.
    """
    flow = _resolved_flow(case, folder)
    case = case.model_copy(update={"flow": flow})
    if case.method.kind == "auto":
        case = case.model_copy(update={"method": _best_method(case)})
    return case.model_copy(update={"time": _resolved_time(case)})


def best_method_of(case: Case | ProblemCase) -> tuple[str, str]:
    """The method that `kind = "auto"` takes for a case whose flow is resolved, and why."""
    return best_method(
        unit_name(case.objective),
        spreads(case),
        getattr(case, "is_by_data", True),
        case.domain.cells is not None,
        case.domain.kind == "fixed-features",
        varies(case),
    )


def spreads(case: Case | ProblemCase) -> bool:
    """Whether atoms do not stay atoms."""
    energies = getattr(case, "energy", None) or ()
    entropic = case.objective.entropy > 0.0 or any(one.kind == "entropy" for one in energies)
    return entropic or case.flow.noise != 0.0


def varies(case: Case | ProblemCase) -> bool:
    """Whether a rate of the flow varies in time."""
    return any(isinstance(getattr(case.flow, name), str) for name in RATES)


def _best_method(case):
    """The table of that method: its points are given, or the centres of the cells."""
    kind, _ = best_method_of(case)
    meshed = case.domain.cells is not None and case.method.particles is None
    keys = case.method.model_dump(exclude={"kind"}, exclude_none=True)
    if kind == "grid":
        keys.pop("particles", None)
    elif meshed and case.initial.kind != "points":
        keys["points"] = "mesh"
    tables = {
        "grid": GridMethod, "characteristics": CharacteristicsMethod, "particles": ParticlesMethod
    }  # fmt: skip
    return tables[kind](kind=kind, **keys)


def _resolved_flow(case, folder):
    flow, signed, degree = case.flow, case.domain.kind == "signed-sphere", None
    if case.method.kind == "network" or flow is not None and flow.kind is not None:
        several = case.objective.loss == SOFTMAX.name  # whose units are b ψ(a·x)
        degree = 2 if several else feature_of(case.objective.activation, folder).degree
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
            raise CaseError(f"flow: {error}; leave [flow] out or make it that.") from error
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
    check_memory(case, len(objective.inputs), objective.axes)
    feature = objective.feature
    flow, axes = flow_of(case.flow), objective.axes
    domain = domain_of(case, axes)
    draw = getattr(objective, "draw", None) or fresh_data(case, feature)  # of a population
    try:
        mesh = None
        if case.method.kind == "grid" or domain.fixed or case.method.points == "mesh":
            mesh = build_mesh(case, domain)
        if earlier is not None:
            start = _left_by(earlier, case, domain, objective, mesh)
        elif mesh is not None:
            start = initial_density(case, folder, mesh, domain.signs)
        else:
            start = initial_points(case, folder, axes, domain.signs, feature.degree)
        density = density_function(case, axes, domain.signs, mesh)
        preparation, test = data and data.preparation, data and _test_objective(objective, data)
        return Problem(
            mesh, objective, flow, domain.signs, start, exact, draw, density, preparation, test
        )
    except ValueError as error:
        raise CaseError(f"the problem: {error}") from error


def _test_objective(objective, data):
    """The objective on the test data, None without."""
    if data.test is None:
        return None
    inputs, targets = data.test
    biased = objective.inputs.shape[1] > inputs.shape[1]
    full = generators.with_bias(inputs) if biased else inputs
    objective = getattr(objective, "data", objective)  # of a sum of energies
    return Objective(objective.feature, objective.risk, full, targets)


def _left_by(earlier, case, domain, objective, mesh):
    """The measure of another run as the initial one."""
    try:
        check_same_data(earlier, domain, objective)
        return measure_left(earlier, case.initial.save, mesh)
    except ValueError as error:
        raise CaseError(f"initial.run: {earlier.name}: {error}") from error


def domain_of(case: Case | ProblemCase, axes: int) -> Domain:
    """The Domain of a case in R^axes."""
    fixed, signs = (
        case.domain.kind == "fixed-features",
        (1,) if case.domain.kind == "sphere" else (1, -1),
    )
    return Domain(axes - 1, tuple(getattr(case.domain, "signs", signs)), fixed)


def build_objective(
    case: Case, folder: Path | None, data: DataSet | None = None, feature: Feature | None = None
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


def _data_risk(case, folder, data, feature):
    """The objective of the data, and the closed-form solution if the case is the moment problem in
    its solvable form.

    data : read earlier, or None;  feature : that of the activation, imported earlier, or None
    """
    exact, feature = None, feature or feature_of(case.objective.activation, folder)
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
        table = case.objective
        known = MomentFlow.knows(flow) and table.weight_decay == table.entropy == 0.0
        solvable = known and case.domain.kind == "sphere"
        drawn = getattr(case.method, "points", None) == "gaussian"
        exact = (
            MomentFlow(*moment, flow)
            if solvable and not drawn and case.initial == UniformInitial(kind="uniform")
            else None
        )
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
        return (
            Objective(
                feature,
                risk,
                full,
                targets,
                weights,
                case.objective.weight_decay,
                case.objective.operator,
                entropy=case.objective.entropy,
            ),
            exact,
        )
    except ValueError as error:
        raise CaseError(f"data: {error}") from error


def _population_risk(case, feature):
    """The risk for infinitely many Gaussian inputs, of the teacher that the same table with source
    'teacher' draws."""
    if case.objective.loss != "square" or case.objective.bias:
        raise CaseError("data.source: the population risk needs the loss 'square' and no bias.")
    from ..objectives.population import PopulationRisk

    _check_room(case.data)
    units, weights = teacher_of(case)
    try:
        return PopulationRisk(
            feature, units, weights, case.objective.weight_decay, entropy=case.objective.entropy
        )
    except ValueError as error:
        raise CaseError(f"objective.activation: {error}") from error


def teacher_of(case: Case | ProblemCase) -> tuple[Floats, Floats] | None:
    """Directions (units, columns) and output weights ±1 (units,) of the network that labels a
    case's data; None without one.

    Data that were standardized or projected have none: the network lives in other coordinates.
    Raises CaseError for given positions of another dimension.
    """
    data = case.data
    if (
        data.source not in ("teacher", "population")
        or data.source == "teacher"
        and (data.standardize or data.components)
    ):
        return None
    given = _given_teacher(case)
    return given or generators.teacher_units(
        random_numbers(case.seed, DATA), data.dim + case.objective.bias, data.units
    )


def _given_teacher(case):
    """Directions and output weights of the network that a [data] table names, None if random."""
    data, columns = case.data, case.data.dim + case.objective.bias
    if data.positions is None:
        return None
    if len(data.positions[0]) != columns:
        raise CaseError(
            f"data.positions: wanted vectors of R^{columns} (data.dim = {data.dim}, bias included),"
            f" got {len(data.positions[0])} numbers."
        )
    n = len(data.positions)
    outputs = np.array(data.signs or [1] * n) * np.array(data.weights or [1.0] * n)
    return normalize(np.array(data.positions)), outputs


def lines_of_data(case: Case | ProblemCase, folder: Path) -> Integers | None:
    """The lines (n,) of the text file that the data come from; None if they come from none."""
    if case.data.source not in ("csv", "file"):
        return None
    return read_data(case, folder, feature_of(case.objective.activation, folder)).lines


def input_names(
    case: Case | ProblemCase, count: int, preparation: Preparation | None = None
) -> list[str]:
    """Names of the inputs, for axes: those of the columns read, unless they were projected; else
    x₁, x₂, …"""
    names = preparation.input_names if preparation else getattr(case.data, "features", None)
    listed = getattr(case.data, "features", None) and case.data.components is None
    return list(names) if listed else generators.numbered("x", count)


def read_named(case: Case, folder: Path) -> tuple[Case, DataSet | None]:
    """The case with the columns written out that it reads, and its data, None if it has none."""
    if case.data.source in ("moment", "population", "none"):
        return case, None
    data = read_data(case, folder, feature_of(case.objective.activation, folder))
    if getattr(case.data, "features", ()) is None:
        names = [column.name for column in data.preparation.columns]
        case = case.model_copy(update={"data": case.data.model_copy(update={"features": names})})
    if (classes := getattr(data.preparation, "classes", None)) and case.data.classes is None:
        case = case.model_copy(update={"data": case.data.model_copy(update={"classes": classes})})
    return case, data


def read_data(case: Case, folder: Path, feature: Feature) -> DataSet:
    """The data as the [data] table asks;  feature : of a teacher."""
    data = case.data
    _check_room(data)
    rng = random_numbers(case.seed, DATA)
    split = random_numbers(case.seed, SPLIT)
    if isinstance(data, Labelled):
        return _read_table(data, folder, split, case.objective.loss == SOFTMAX.name)
    weights = None
    if data.source == "inline":
        inputs, targets, weights = _inline(data)
    else:
        try:
            inputs, targets = _distribution(case, rng, feature)(rng, data.n)
        except ValueError as error:
            raise CaseError(f"data: {error}") from error
    preparation = None
    if data.standardize or data.components:
        names = [f"inputs[{k}]" for k in range(inputs.shape[1])]
        preparation = Preparation(columns=[Encoding(name=name) for name in names])
    training, held_out = _parts(data, split, len(inputs))
    return _divided(data, inputs, targets, weights, preparation, training, held_out)


def _parts(data, rng, n):
    """The numbers of the training rows and of those that are held out, in order; None if all are
    training data."""
    if data.test_fraction is None:
        return np.arange(n), None
    count = round(data.test_fraction * n)
    if not 0 < count < n:
        raise CaseError(
            f"data.test_fraction: {data.test_fraction:g} of {n} rows leaves"
            f" {'none to test' if count == 0 else 'none to train'} on; choose another share."
        )
    order = rng.permutation(n)
    return np.sort(order[count:]), np.sort(order[:count])


def _divided(data, inputs, targets, weights, preparation, training, held_out, lines=None):
    """The DataSet of encoded inputs (n, k), scaled and projected as the training rows are."""
    whole = held_out is None
    own = inputs if whole else inputs[training]
    if preparation is not None:
        preparation = preparation.fitted(data, own)
        inputs = preparation.applied(inputs)
        own = inputs if whole else inputs[training]
    if whole:
        return DataSet(own, targets, weights, preparation, lines)
    test = inputs[held_out], targets[held_out]
    weights, lines = (None if a is None else a[training] for a in (weights, lines))
    return DataSet(own, targets[training], weights, preparation, lines, test)


def _read_table(data, folder, split, several):
    """The DataSet of a table with labels; split : generator that draws what is held out;  several :
    whether every label is a class."""
    label, where = getattr(data, "label", None), "data.frame: the frame"
    if data.source == "scikit-learn":
        columns, label = read_scikit_learn(data.name)
        where = f"data.name: {data.name}"
    elif data.source == "frame":
        if data.frame is None:
            raise CaseError(
                "data.frame: the frame is one that a Python program holds; give it there:"
                " hkflow.run(case, data={'frame': frame})."
            )
        columns = data.frame
    else:
        columns = read_columns(folder / data.file, data.delimiter, data.decimal)
        where = f"data.file: {folder / data.file}"
    table = raw_table(data, columns, label, where, several)
    if len(table.targets) == 0:
        raise CaseError("data: no rows are left; at least one is needed.")
    training, held_out = _parts(data, split, len(table.targets))
    if data.missing == "impute":
        table = table.filled(training)
    notes = list(table.notes)
    if held_out is not None:
        notes.append(f"{len(held_out)} of {len(table.targets)} rows are held out as test data")
    classes = {
        key: None if getattr(data, key) is None else [str(name) for name in getattr(data, key)]
        for key in ("positive", "negative")
    }
    preparation = Preparation(
        columns=list(table.columns),
        label=label,
        classes=table.classes,
        refuses=data.missing == "refuse",
        notes=notes,
        **classes,
    )
    lines = table.lines if columns.unit == "line" else None
    made = _divided(
        data, table.encoded(), table.targets, None, preparation, training, held_out, lines
    )
    if getattr(data, "test_file", None) is not None:
        path = folder / data.test_file
        where = f"data.test_file: {path}"
        columns = read_columns(path, data.delimiter, data.decimal, "data.test_file")
    elif (columns := getattr(data, "test_frame", None)) is not None:
        where = "data.test_frame: the frame"
    else:
        return made
    inputs, targets, notes = test_rows(data, columns, label, made.preparation, where)
    said = made.preparation.notes + [f"test data: {note}" for note in notes]
    preparation = made.preparation.model_copy(update={"notes": said})
    return replace(made, preparation=preparation, test=(inputs, targets))


def _check_room(data):
    """Raise CaseError if generated data, or what generates them, are beyond the machine's
    memory."""
    rows = {key: getattr(data, key, 1) for key in ("n", "units", "clusters")} | {
        "clusters": getattr(data, "clusters", 1) ** 2
    }
    key = max(rows, key=rows.get)
    needed, there = 8 * rows[key] * getattr(data, "dim", 1), psutil.virtual_memory().total
    if needed > 0.25 * there:  # they are copied while they are made
        raise CaseError(
            f"data.{key}: the data need {needed / 1e9:.3g} GB several times, and this machine has"
            f" {there / 1e9:.1f} GB."
        )


def _distribution(case, rng, feature):
    """The function draw(rng, n) of a [data] table that names a distribution; what it fixes first
    comes from rng."""
    keys = case.data.model_dump(exclude={"source", "n", *Prepared.model_fields})
    if case.data.source == "teacher":
        network = _given_teacher(case)
        keys = {name: keys[name] for name in ("dim", "units", "classify", "margin")}
        return generators.teacher(rng, feature, bias=case.objective.bias, network=network, **keys)
    return GENERATORS[case.data.source](rng, **keys)


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
    draw = _distribution(case, random_numbers(case.seed, DATA), feature)
    if not case.objective.bias:
        return draw

    def with_bias(rng, n):
        inputs, targets = draw(rng, n)
        return generators.with_bias(inputs), targets

    return with_bias


def _inline(data):
    lengths = {len(row) for row in data.inputs}
    if len(lengths) > 1:
        raise CaseError(f"data.inputs: rows have different lengths: {sorted(lengths)}.")
    for key in ("targets", "weights"):
        values = getattr(data, key)
        if values is not None and len(values) != len(data.inputs):
            raise CaseError(f"data.{key}: {len(values)} values for {len(data.inputs)} inputs.")
    return (
        np.array(data.inputs),
        np.array(data.targets),
        None if data.weights is None else np.array(data.weights),
    )


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
        raise CaseError(
            f"domain.kind: {_counted(case, columns)}, so directions lie on {domain.name},"
            f" d = {domain.dim}, and a grid needs a mesh: {error} Set method.kind ="
            f" '{_best_without_mesh(case)}', or choose other features (or"
            " data.components), or change objective.bias."
        ) from error
    try:
        cells = columns if domain.fixed else case.domain.cells
        return cached_mesh(meshes, cells)
    except ValueError as error:
        raise CaseError(f"domain.cells: {error}") from error


def _counted(case, columns):
    """What makes the coordinates of a unit, in words."""
    if case.objective.loss != SOFTMAX.name:
        return f"the data have {columns} columns (bias included)"
    return f"inputs, bias and outputs of the classes make {columns} coordinates"


def _best_without_mesh(case):
    """The method that suits a sphere without meshes."""
    data, name = case.is_by_data, unit_name(case.objective)
    return best_method(name, spreads(case), data, False, False, varies(case))[0]


def initial_density(case: Case, folder: Path, mesh: Mesh, signs: tuple[int, ...]) -> Floats:
    """The initial density on a mesh, (n_signs, n_cells)."""
    table = case.initial
    if table.kind == "points":
        return atoms_on_mesh(mesh, signs, _listed_points(table, folder, mesh.dim + 1, signs))
    if table.kind == "file":
        return start_in_file(folder / table.file, table.mass, mesh.dim + 1, signs, mesh)  # type: ignore[return-value]
    if table.kind == "balanced":
        return atoms_on_mesh(
            mesh, signs, balanced_atoms(64 * mesh.n_cells, mesh.dim).scaled_to(table.mass)
        )
    if table.kind in ("zero", "scaled"):
        weight = 0.0 if table.kind == "zero" else _weight(table.scale, case.flow.depth)
        return np.full((len(signs), mesh.n_cells), weight)
    carriers, measure = _carriers(table, signs), _measure(table, mesh.dim + 1)
    density = np.array(
        [(sign in carriers) * of_sign(measure, sign).density(mesh.centers) for sign in signs]
    )
    if not density.any():
        raise CaseError("initial: the density is zero in every cell; use more, or another one.")
    return with_mass(density, mesh, table.mass)


def density_function(
    case: Case, axes: int, signs: tuple[int, ...], mesh: Mesh | None = None
) -> InitialDensity | None:
    """The initial density of characteristics and particles at every point, with the mass that their
    first atoms have; None where it is not known.

    mesh : whose cells they start from, None if they start from evenly spread points
    """
    table, method = case.initial, case.method
    if method.kind not in ("characteristics", "particles") or method.points == "gaussian":
        return None
    even = mesh is not None or method.points == "quasi-uniform"
    if not (
        table.kind == "uniform" or even and table.kind in ("von-mises-fisher", "caps", "expression")
    ):
        return None
    carriers, measure = _carriers(table, signs), _measure(table, axes)
    if mesh is None:
        points = quasi_uniform((method.count or DEFAULT_POINTS) // len(carriers), axes - 1)
        weights = np.full(len(points), surface_area(axes - 1) / len(points))
    else:
        points, weights = mesh.centers, mesh.volumes
    total = sum(of_sign(measure, sign).relative(points) @ weights for sign in carriers)
    return InitialDensity(measure, table.mass / total, carriers) if total > 0.0 else None


def _weight(scale, depth):
    """scale^depth. Raises CaseError if that is beyond numbers."""
    log_weight = depth * np.log(scale)
    if abs(log_weight) > LARGEST_LOG:
        raise CaseError(
            f"initial.scale: weights of {scale:g}^{depth:g} are beyond what numbers hold."
        )
    return scale**depth


def initial_points(
    case: Case, folder: Path, axes: int, signs: tuple[int, ...], degree: int | None
) -> PointMeasure | Units:
    """The first particles, as PointMeasure, or a network's first Units."""
    table, method, rng = case.initial, case.method, random_numbers(case.seed, START)
    if table.kind == "points":
        return _listed_points(table, folder, axes, signs)
    if table.kind == "file":
        return start_in_file(folder / table.file, table.mass, axes, signs, None)  # type: ignore[return-value]
    n = method.count or DEFAULT_POINTS
    if method.points == "gaussian":
        if table != UniformInitial(kind="uniform"):
            raise CaseError(
                "method.points: 'gaussian' draws the whole start; leave out [initial] and choose"
                " method.scale."
            )
        units = Units.gaussian(rng, n, axes, degree, method.scale)
        if len(signs) == 1:
            units = Units(units.hidden, np.abs(units.output))
        return units if method.kind == "network" else units.atoms(degree)
    if table.kind == "balanced":
        return balanced_atoms(n, axes - 1, rng if method.points == "random" else None).scaled_to(
            table.mass
        )
    if table.kind == "zero":
        if method.kind != "network" or method.layers != "output":
            raise CaseError(
                "initial.kind: particles need some mass; a signed density starts from 'zero' on a"
                " grid, and a network whose output layer alone is trained."
            )
        return Units(
            (
                random_uniform(rng, n, axes - 1)
                if method.points == "random"
                else quasi_uniform(n, axes - 1)
            ),
            np.zeros(n),
        )
    carriers, measure = _carriers(table, signs), _measure(table, axes)
    if method.points == "random":
        if isinstance(measure, Expression):
            raise CaseError(
                "method.points: 'random' cannot draw from an expression; choose 'quasi-uniform' or"
                " 'mesh'."
            )
        return PointMeasure(
            measure.sample(rng, n, axes - 1), rng.choice(np.array(carriers, dtype=float), size=n)
        ).scaled_to(table.mass)
    if n % len(carriers):
        raise CaseError(
            f"method: {n} evenly spread points cannot be shared by {len(carriers)} signs; give an"
            " even number."
        )
    points = quasi_uniform(n // len(carriers), axes - 1)
    density = np.array([of_sign(measure, sign).density(points) for sign in carriers])
    return atoms_of_points(points, carriers, density).scaled_to(table.mass)


def _carriers(table, signs):
    """The output signs that carry initial mass."""
    for sign in table.signs or signs:
        if sign not in signs:
            raise CaseError(
                "initial.signs: the domain 'sphere' has the sign +1 only; use 'signed-sphere'."
            )
    return tuple(table.signs or signs)


def _measure(table, axes):
    """The initial measure of one sheet."""
    if table.kind == "uniform":
        return Uniform()
    if table.kind == "expression":
        return Expression(table.density)
    _check_vectors("centers", table.centers, axes)
    if table.kind == "caps":
        return Caps(np.array(table.centers), table.radius)
    return VonMisesFisher(np.array(table.centers), table.concentration)


def _listed_points(table, folder, axes, signs):
    """Listed point masses as atoms of the table's total mass."""
    positions, point_signs, weights = table.positions, table.signs, table.weights
    if table.file is not None:
        positions, point_signs, weights = read_points(folder / table.file, axes)
    _check_vectors("positions", positions, axes)
    n = len(positions)
    point_signs, weights = point_signs or [1] * n, weights or [1.0] * n
    if len(point_signs) != n or len(weights) != n:
        raise CaseError(
            f"initial: {n} positions, {len(point_signs)} signs and {len(weights)} weights do not"
            " match."
        )
    if not set(point_signs) <= set(signs):
        raise CaseError(
            "initial.signs: the domain 'sphere' has the sign +1 only; use 'signed-sphere'."
        )
    return PointMeasure(positions, point_signs, weights).scaled_to(table.mass)


def _check_vectors(key, rows, axes):
    for row in rows:
        if len(row) != axes or not any(row):
            raise CaseError(
                f"initial.{key}: wanted nonzero vectors of R^{axes} (the inputs, bias included),"
                f" got {list(row)}."
            )


def estimated_memory(case: Case, n_data: int, axes: int) -> int:
    """Bytes that a run needs: the libraries, and what its method keeps. Saves go to disk one by
    one."""
    method, signs, libraries = case.method, len(domain_of(case, axes).signs), 2e8
    if method.kind == "grid":
        cells, slots = case.domain.cells or axes, 2 if method.stepper != "strang" else 3
        states = 8 * cells * signs * (3 * slots + 3 + 3 + 27)
        partial_sums = 8 * n_data * (cells // 512 + 8)
        return int(libraries + 1500 * cells + states + partial_sums)
    mesh = (case.domain.cells or axes) if method.points == "mesh" else 0
    points = (
        signs * mesh
        or method.count
        or len(getattr(case.initial, "positions", None) or ())
        or DEFAULT_POINTS
    )
    noise = flow_of(case.flow).noise
    if method.kind == "particles" and method.noise == "deterministic" and noise > 0.0:
        points += method.noise_points * case.time.end / method.noise_interval
    kinks = 6000 * n_data if method.kind == "characteristics" else 0
    return int(libraries + 8 * points * (24 * (axes + 1) + n_data / 64) + 1500 * mesh + kinks)


def check_memory(case: Case, n_data: int, axes: int) -> None:
    """Raise CaseError if the run needs more memory than the machine has."""
    needed, there = estimated_memory(case, n_data, axes), psutil.virtual_memory().total
    if needed > there:
        raise CaseError(
            f"{case.method.kind}: the run needs about {needed / 1e9:.1f} GB and this machine has"
            f" {there / 1e9:.1f} GB. Use fewer cells, particles or units."
        )
