"""From a checked case to a Problem: data, mesh, initial density, flow, exact solution."""

import numpy as np
import psutil

from .. import initial as initials
from ..errors import CaseError
from ..exact import MomentFlow
from ..flows import Flow, named_flow
from ..meshes import circle_mesh, geodesic_cells, geodesic_level
from ..objectives import data as generators
from ..objectives.features import FEATURES
from ..objectives.objective import Objective
from ..objectives.risks import RISKS
from ..problem import Problem
from ..store.mesh_cache import cached_geodesic_mesh
from .datafiles import read_csv, read_scikit_learn, targets_from_labels
from .schema import UniformInitial

GENERATORS = {"cluster-grid": generators.cluster_grid, "xor": generators.xor, "parity": generators.parity}


def resolve(case):
    """The case with the rates of a named flow written out: a case that says what was computed."""
    if case.flow.kind is None:
        flow = case.flow.model_copy(update={"transport": case.flow.transport or 0.0, "reaction": case.flow.reaction or 0.0})
    else:
        degree = FEATURES[case.objective.activation].degree
        named = named_flow(case.flow.kind, degree, case.domain.kind == "signed-sphere", case.flow.noise)
        flow = case.flow.model_copy(update={"kind": None, "transport": named.transport, "reaction": named.reaction})
    return case.model_copy(update={"flow": flow})


def build_problem(case, folder, data=None):
    """The problem that a resolved case states. data: (inputs, targets, weights) read earlier, or None to read them now.

    Raises CaseError naming the key if data, domain, initial measure and memory do not fit together.
    """
    objective, exact = build_objective(case, folder, data)
    check_memory(case, len(objective.inputs))
    signs = signs_of(case)
    mesh = build_mesh(case, objective.inputs.shape[1])
    density = build_initial(case.initial, mesh, signs)
    flow = Flow(case.flow.transport, case.flow.reaction, case.flow.noise)
    return Problem(mesh, objective, flow, signs, density, exact)


def signs_of(case):
    """The output signs of the domain."""
    return (1, -1) if case.domain.kind == "signed-sphere" else (1,)


def build_objective(case, folder, data=None):
    """The objective, and the closed-form solution if the case is the moment problem in its solvable form."""
    exact = None
    if case.data.source == "moment":
        if (case.objective.activation, case.objective.loss, case.objective.bias) != ("linear", "square", False):
            raise CaseError("data.source: the moment problem needs activation 'linear', loss 'square' and no bias.")
        rates = Flow(case.flow.transport, case.flow.reaction)
        moment = MomentFlow(np.array(case.data.direction), case.data.target, rates)
        solvable = case.flow.noise == 0.0 and case.objective.weight_decay == 0.0 and case.domain.kind == "sphere"
        exact = moment if solvable and case.initial == UniformInitial(kind="uniform") else None
        o = moment.objective()
        inputs, targets, weights = o.inputs, o.targets, o.weights
    else:
        inputs, targets, weights = read_data(case, folder) if data is None else data
    if case.objective.loss != "square":
        _check_classes(targets, case.objective.loss)
    try:
        full = generators.with_bias(inputs) if case.objective.bias else inputs
        feature, risk = FEATURES[case.objective.activation], RISKS[case.objective.loss]
        return Objective(feature, risk, full, targets, weights, case.objective.weight_decay), exact
    except ValueError as error:
        raise CaseError(f"data: {error}") from error


def read_data(case, folder):
    """Inputs (n, dim), targets (n,) and weights (n,) or None, as the [data] table asks."""
    data, weights = case.data, None
    rng = np.random.default_rng(np.random.SeedSequence(case.seed).spawn(1)[0])
    if data.source in ("csv", "scikit-learn"):
        if data.source == "csv":
            inputs, labels, names = read_csv(folder / data.file, data.delimiter, data.features, data.label)
        else:
            inputs, labels, names = read_scikit_learn(data.name, data.features)
        inputs, targets = targets_from_labels(inputs, labels, data.positive, data.negative)
    elif data.source == "inline":
        inputs, targets, weights = _inline(data)
        names = [f"inputs[{k}]" for k in range(inputs.shape[1])]
    else:
        keys = data.model_dump(exclude={"source", "standardize", "components"})
        try:
            if data.source == "teacher":
                feature = FEATURES[case.objective.activation]
                inputs, targets = generators.teacher(rng, feature=feature, bias=case.objective.bias, **keys)
            else:
                inputs, targets = GENERATORS[data.source](rng, **keys)
        except ValueError as error:
            raise CaseError(f"data: {error}") from error
        names = [f"inputs[{k}]" for k in range(inputs.shape[1])]
    if len(inputs) == 0:
        raise CaseError("data: no rows are left; at least one is needed.")
    return _prepared(data, inputs, names), targets, weights


def _inline(data):
    lengths = {len(row) for row in data.inputs}
    if len(lengths) > 1:
        raise CaseError(f"data.inputs: rows have different lengths: {sorted(lengths)}.")
    for key in ("targets", "weights"):
        values = getattr(data, key)
        if values is not None and len(values) != len(data.inputs):
            raise CaseError(f"data.{key}: {len(values)} values for {len(data.inputs)} inputs.")
    return np.array(data.inputs), np.array(data.targets), None if data.weights is None else np.array(data.weights)


def _prepared(data, inputs, names):
    if data.standardize:
        try:
            inputs = generators.standardized(inputs)
        except ValueError as error:
            column = int(str(error).split()[1])
            raise CaseError(f"data.standardize: column '{names[column]}' is constant and cannot be standardized.") from error
    if data.components is not None:
        if data.components > min(inputs.shape):
            raise CaseError(
                f"data.components: {data.components} components of {inputs.shape[0]} rows with {inputs.shape[1]} inputs."
            )
        inputs = generators.principal_components(inputs, data.components)
    return inputs


def _check_classes(targets, loss):
    if not np.isin(targets, (-1.0, 1.0)).all():
        bad = targets[~np.isin(targets, (-1.0, 1.0))][0]
        raise CaseError(
            f"objective.loss: '{loss}' needs targets +1 and -1, got {bad:g}. For a CSV file or a scikit-learn data set, "
            "list the classes in data.positive and data.negative."
        )
    if len(set(targets.tolist())) < 2:
        raise CaseError(f"data: only the class {targets[0]:+g} occurs; '{loss}' needs both +1 and -1.")


def build_mesh(case, columns):
    """The mesh of the sphere in R^columns. Raises CaseError if a grid cannot have that dimension or number of cells."""
    cells = case.domain.cells
    if columns == 2:
        return circle_mesh(cells)
    if columns != 3:
        raise CaseError(
            f"domain.kind: the data have {columns} columns (bias included), so directions lie on S^{columns - 1}; a grid "
            "needs S^1 or S^2. Choose two features (or data.components = 2) with a bias, or change objective.bias."
        )
    level = geodesic_level(cells)
    if level is None:
        near = sorted(range(12), key=lambda k: abs(np.log(geodesic_cells(k) / cells)))[:2]
        choices = " or ".join(str(geodesic_cells(k)) for k in sorted(near))
        raise CaseError(f"domain.cells: a mesh of S^2 has 10·4^k + 2 cells, got {cells}. Nearest: {choices}.")
    return cached_geodesic_mesh(level)


def build_initial(table, mesh, signs):
    """The initial density, (n_signs, n_cells)."""
    axes = mesh.dim + 1
    vectors = {"centers": getattr(table, "centers", ()), "positions": getattr(table, "positions", ())}
    for key, rows in vectors.items():
        for row in rows:
            if len(row) != axes or not any(row):
                raise CaseError(f"initial.{key}: wanted nonzero vectors of R^{axes} (the inputs, bias included), got {row}.")
    listed = table.signs or (signs if table.kind != "points" else [1] * len(table.positions))
    for sign in listed:
        if sign not in signs:
            raise CaseError("initial.signs: the domain 'sphere' has the sign +1 only; use 'signed-sphere'.")
    try:
        if table.kind == "points":
            n, weights = len(table.positions), table.weights or [1.0] * len(table.positions)
            if len(listed) != n or len(weights) != n:
                raise CaseError(f"initial: {n} positions, {len(listed)} signs and {len(weights)} weights do not match.")
            density = initials.points(mesh, signs, table.positions, listed, weights)
        else:
            if table.kind == "uniform":
                density = initials.uniform(mesh, signs)
            elif table.kind == "caps":
                density = initials.caps(mesh, signs, table.centers, table.radius)
            else:
                density = initials.von_mises_fisher(mesh, signs, table.centers, table.concentration)
            density *= np.isin(signs, listed)[:, None]
    except ValueError as error:
        raise CaseError(f"initial: {error}") from error
    return initials.with_mass(density, mesh, table.mass)


def estimated_memory(case, n_data):
    """Bytes that a run needs: the libraries, mesh and stencil, states and stages, partial sums. Saves go to disk one by one."""
    cells, signs = case.domain.cells, len(signs_of(case))
    slots = 2 if case.method.stepper != "strang" else 3
    states = 8 * cells * signs * (3 * slots + 3 + 3)
    partial_sums = 8 * n_data * (cells // 512 + 8)
    return int(2e8 + 1500 * cells + states + partial_sums)


def check_memory(case, n_data):
    """Raise CaseError if the run needs more memory than the machine has."""
    needed, there = estimated_memory(case, n_data), psutil.virtual_memory().total
    if needed > there:
        raise CaseError(
            f"domain.cells: {case.domain.cells} cells need about {needed / 1e9:.1f} GB and this machine has "
            f"{there / 1e9:.1f} GB. Use fewer cells."
        )
