"""The measure at the start of a case: on a mesh, or as points."""

from pathlib import Path
from typing import Any

import numpy as np

from ..arguments import Floats
from ..errors import CaseError
from ..geometry.mesh import Mesh
from ..geometry.point_sets import quasi_uniform, random_uniform
from ..geometry.sphere import surface_area
from ..measures.initial import (
    BalancedUnits,
    Caps,
    Expression,
    InitialDensity,
    PointsInCells,
    Uniform,
    VonMisesFisher,
    atoms_on_mesh,
    balanced_atoms,
    in_cells,
    of_sign,
    with_mass,
)
from ..measures.point_measure import PointMeasure, Units, atoms_of_points
from ..objectives.activations import Feature
from ..objectives.losses import LARGEST_LOG
from .datafiles import read_points
from .randomness import START, random_numbers
from .schema.case import Case
from .schema.initial import UniformInitial
from .starts import start_in_file

DEFAULT_POINTS = 1000


def initial_density(
    case: Case, folder: Path, mesh: Mesh, signs: tuple[int, ...], outputs: int = 1
) -> Floats | PointsInCells:
    """The initial density on a mesh, (n_signs, n_cells), or that of points;  outputs : of a
    unit."""
    table = case.initial
    if table.kind == "points":
        return PointsInCells.of(mesh, signs, _listed_points(table, folder, mesh.dim + 1, signs))
    if table.kind == "file":
        return start_in_file(folder / table.file, table.mass, mesh.dim + 1, signs, mesh)  # type: ignore[return-value]
    if table.kind == "balanced":
        atoms = balanced_atoms(64 * mesh.n_cells, mesh.dim, outputs=outputs)
        return atoms_on_mesh(mesh, signs, atoms.scaled_to(table.mass))
    if table.kind in ("zero", "scaled"):
        weight = 0.0 if table.kind == "zero" else _weight(table.scale, case.flow.depth)
        return np.full((len(signs), mesh.n_cells), weight)
    carriers, measure = _carriers(table, signs), _measure(table, mesh.dim + 1)
    density = np.array(
        [(sign in carriers) * of_sign(measure, sign).density(mesh.centers) for sign in signs]
    )
    if isinstance(measure, Caps):  # of which each was seen to hold a centre
        density[[sign in carriers for sign in signs]] = in_cells(measure, mesh)
    if not density.any():
        raise CaseError("initial: the density is zero in every cell; use more, or another one.")
    return with_mass(density, mesh, table.mass)


def density_function(
    case: Case, axes: int, signs: tuple[int, ...], outputs: int = 1, mesh: Mesh | None = None
) -> InitialDensity | BalancedUnits | None:
    """The initial density at every point, with the mass that cells or first atoms have, or what
    tells of balanced units; None where it is not known.

    outputs : of a unit
    mesh : whose cells they start from, None if they start from evenly spread points
    """
    table, method = case.initial, case.method
    if method.kind == "network" or getattr(method, "points", "") == "gaussian":
        return None
    even = mesh is not None or method.points == "quasi-uniform"
    if table.kind == "balanced":
        return BalancedUnits(outputs) if even and mesh is None else None
    if not (
        table.kind == "uniform" or even and table.kind in ("von-mises-fisher", "caps", "expression")
    ):
        return None
    carriers, measure = _carriers(table, signs), _measure(table, axes)
    if mesh is None:
        points = quasi_uniform((method.count or DEFAULT_POINTS) // len(carriers), axes - 1)
        weights = np.full(len(points), surface_area(axes - 1) / len(points))
        shapes = [of_sign(measure, sign).relative(points) for sign in carriers]
    else:
        weights = mesh.volumes
        shapes = [in_cells(of_sign(measure, sign), mesh) for sign in carriers]
    if not any(shape.any() for shape in shapes):
        return None
    with np.errstate(divide="ignore", over="ignore"):
        factor = np.float64(table.mass) / sum(shape @ weights for shape in shapes)
    return InitialDensity(measure, float(factor), carriers)


def _weight(scale, depth):
    """scale^depth. Raises CaseError if that is beyond numbers."""
    log_weight = depth * np.log(scale)
    if abs(log_weight) > LARGEST_LOG:
        raise CaseError(
            f"initial.scale: weights of {scale:g}^{depth:g} are beyond what numbers hold."
        )
    return scale**depth


def initial_points(
    case: Case, folder: Path, axes: int, signs: tuple[int, ...], feature: Feature
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
        degree: Any = feature.degree
        units = Units.gaussian(rng, n, axes, degree, method.scale)
        if len(signs) == 1:
            units = Units(units.hidden, np.abs(units.output))
        return units if method.kind == "network" else units.atoms(degree or 0)
    if table.kind == "balanced":
        drawn = rng if method.points == "random" else None
        return balanced_atoms(n, axes - 1, drawn, feature.outputs).scaled_to(table.mass)
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
    if axes == 1 and n // len(carriers) % 2 and method.kind != "network":
        raise CaseError(
            f"method: {n} evenly spread points cannot be shared by the two directions of S⁰, of one"
            f" input without a bias; give a multiple of {2 * len(carriers)}."
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
