"""What a run has left at a save, as the start of another one."""

from dataclasses import replace
from typing import Any

import numpy as np

from ..arguments import Floats
from ..geometry.domain import Domain
from ..geometry.mesh import Mesh
from ..measures.initial import PointsInCells
from ..measures.point_measure import DensityAndAtoms, PointMeasure
from ..problem.problem import Problem
from .result import Result

SAME_DATA = 1e-12  # of the largest entry
# log mass: under smooth margins predictions are told apart to one, and known to 1e-16 of the mass
LARGEST_START = 30.0
# arrays of the data, or of a population's teacher
DATA = ("inputs", "targets", "weights", "teacher", "teacher_weights")


def restarted(run: Result, save: int = -1, mesh: Mesh | None = None) -> Problem:
    """The problem of a run from one of its saves on, at time 0; see `measure_left`.

    mesh : on which to start; if not given that of a grid, and otherwise the run's own atoms
    Raises ValueError as measure_left.
    """
    if mesh is None and (run.method == "grid" or run.domain.fixed):
        mesh = run.mesh
    initial: Any = measure_left(run, save, mesh)
    return replace(run.problem, mesh=mesh, initial=initial, exact=None, density=None)


def measure_left(
    run: Result, save: int = -1, mesh: Mesh | None = None
) -> Floats | PointsInCells | DensityAndAtoms | PointMeasure:
    """The measure of a run at a save as Problem.initial wants it, with the same mass.

    On a mesh: the density there and, of a grid or of characteristics, the captured atoms beside it;
    atoms whose density is not known go to the cells that hold them. Without one: all as atoms,
    those of a grid at the centres of its cells.
    Raises ValueError for a save that there is not, a mass beyond e^30, and a grid on a mesh of a
    user's own where another mesh is wanted.
    """
    count = len(run.time)
    if not -count <= save < count:
        raise ValueError(f"there are the saves 0 to {count - 1}, not {save}.")
    if run.log_mass_at(save) > LARGEST_START:
        raise ValueError(
            f"the mass at save {save} is e^{run.log_mass_at(save):.6g}, and a start has at most"
            f" e^{LARGEST_START:g}: the digits of larger predictions do not tell which data drive"
            " the flow. Choose an earlier save, or resume the run."
        )
    if mesh is None:
        return run.atoms_at(save)
    own: Any = run.mesh
    if run.domain.fixed and run.method == "grid":
        return np.exp(run.log_scale[save]) * run.cell_density_at(save)
    same = run.method == "grid" and np.array_equal(own.centers, mesh.centers)
    if not run.has_density or run.method == "grid" and not (run.domain.in_space or same):
        return PointsInCells.of(mesh, tuple(run.signs), run.atoms_at(save))
    try:
        density = run.density_on(mesh, save)
    except ArithmeticError as error:  # of meshes of a user's own, whose overlaps are not known
        raise ValueError(
            f"{error} Start by particles or characteristics, or on its own mesh:"
            " hkflow.restarted(run)."
        ) from error
    return DensityAndAtoms(density, run.captured_at(save))


def check_same_data(run: Result, domain: Domain, objective: Any) -> None:
    """Raise ValueError if a run lived on another domain, or had other data, than a problem that
    starts from it."""
    if run.domain != domain:
        raise ValueError(
            f"it lives on {_in_words(run.domain)}, and this case on {_in_words(domain)}."
        )
    before = run.problem.objective
    for name in DATA:
        x, y = (np.asarray(getattr(one, name, np.zeros(0))) for one in (before, objective))
        if x.shape != y.shape or (np.abs(x - y) > SAME_DATA * np.abs(x).max(initial=0.0)).any():
            raise ValueError(
                f"its {name.replace('_', ' ')} are others than those of this case: a start is one"
                " of the same data."
            )


def _in_words(domain):
    return f"{domain.name} ('{domain.kind}')"
