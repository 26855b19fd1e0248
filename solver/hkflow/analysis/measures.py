"""What is measured of a run: errors against a reference or the exact solution, and its last
records."""

from collections.abc import Iterable, Mapping

import numpy as np

from ..arguments import Floats
from ..geometry.circle import circle_mesh
from ..geometry.transfer import restrict, spread
from ..measures.distances import wasserstein1
from ..measures.point_measure import PointMeasure, with_each_sign
from ..solving.registry import in_units_of_one
from ..solving.result import Result

ARCS = 16_384  # that densities on the circle are cut into for W1
SAME_TIME = 1e-9  # of the time


def values_of(records: Mapping[str, Floats], names: Iterable[str]) -> dict[str, float]:
    """The last of the records of these names in units of one, nan for those that are not there."""
    return {
        name: float(in_units_of_one(records, name)[-1]) if name in records else np.nan
        for name in names
    }


def errors_of(run: Result, reference: Result | None) -> dict[str, float]:
    """Errors of a run at its last save against a reference run, or the exact solution if that is
    None, by name.

    L1, max : of the density, relative to the reference's mass and maximum; grids alone, the finer
        one restricted
    W1 : Wasserstein-1 in radians, on the circle
    predictions : |h − h_ref| / |h_ref|, Euclidean norms over the data;  objective, mass : relative
    What cannot be measured is left out.
    """
    return _against_exact(run) if reference is None else _against_run(run, reference)


def _against_exact(run):
    exact, time = run.problem.exact, run.time[-1]
    mass, moment = exact.mass_and_moment(time)
    found = {}
    if run.method == "grid":
        found["L1"], found["max"] = (float(series[-1]) for series in run.exact_errors())
    if run.domain.ordered:
        arcs = circle_mesh(ARCS)
        wanted = PointMeasure(
            arcs.centers, np.ones(ARCS), exact.density(arcs.centers, time) * arcs.volumes
        )
        found["W1"] = wasserstein1(_atoms(run), wanted).value
    objective = 0.5 * (moment - exact.target) ** 2
    return found | _differences(run, moment * exact.direction, objective, np.log(mass), 0.0)


def _atoms(run):
    """The last measure on the circle, up to its mass; a density as the many atoms of its piecewise
    constant function."""
    if run.method != "grid" or run.mesh.n_cells >= ARCS:
        return run.atoms_at(-1, normalised=True)
    arcs = circle_mesh(ARCS)
    weights = spread(run.cell_density_at(-1), run.mesh, arcs)
    return PointMeasure(*with_each_sign(arcs.centers, run.signs), weights.ravel())


def _against_run(run, reference):
    if abs(run.time[-1] - reference.time[-1]) > SAME_TIME * reference.time[-1]:
        raise ValueError(
            f"it ended at t = {run.time[-1]:g}, its reference at t = {reference.time[-1]:g}"
        )
    found, shift = {}, run.log_scale[-1] - reference.log_scale[-1]
    if run.method == reference.method == "grid" and run.mesh.n_cells <= reference.mesh.n_cells:
        wanted = restrict(reference.cell_density_at(-1), reference.mesh, run.mesh, linear=True)
        difference = np.abs(np.exp(shift) * run.cell_density_at(-1) - wanted)
        found["L1"] = float(
            (difference @ run.mesh.volumes).sum() / (np.abs(wanted) @ run.mesh.volumes).sum()
        )
        found["max"] = float(difference.max() / np.abs(wanted).max())
    if run.domain.ordered:
        found["W1"] = wasserstein1(_atoms(run), _atoms(reference)).value
    objective = reference.records["objective"][-1] if reference.records else np.nan
    return found | _differences(
        run,
        reference.scaled_predictions[-1],
        objective,
        reference.log_mass_at(-1),
        reference.log_scale[-1],
    )


def _differences(run, predictions, objective, log_mass, log_scale):
    """Errors of what all methods have; wanted predictions and objective in units of e^log_scale."""
    scale = np.exp(run.log_scale[-1] - log_scale)
    found = {"mass": abs(float(np.expm1(run.log_mass_at(-1) - log_mass)))}
    if len(predictions):
        found["predictions"] = float(
            np.linalg.norm(scale * run.scaled_predictions[-1] - predictions)
            / np.linalg.norm(predictions)
        )
    if run.records and objective:
        found["objective"] = abs(float(scale * run.records["objective"][-1] / objective - 1.0))
    return found
