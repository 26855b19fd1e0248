"""The memory that a run needs."""

from typing import Any

import psutil

from ..errors import CaseError
from ..objectives.energies import Sum
from ..objectives.objective import Objective
from .first_measure import DEFAULT_POINTS
from .resolve import domain_of, flow_of
from .schema.case import Case


def estimated_memory(case: Case, objective: Any) -> int:
    """Bytes that a run needs: the libraries, and what its method keeps. Saves go to disk one by
    one."""
    n_data, axes = len(objective.inputs), objective.axes
    method, signs, libraries = case.method, len(domain_of(case, axes).signs), 2e8
    if method.kind == "grid":
        cells, slots = case.domain.cells or axes, 2 if method.stepper != "strang" else 3
        states = 8 * cells * signs * (3 * slots + 3 + 3 + 27)
        partial_sums = 8 * n_data * (cells // 512 + 8)
        pairs = _stored(objective, cells)
        return int(libraries + 1500 * cells + states + partial_sums + pairs)
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
    pairs = _stored(objective, int(points), moving=True) if method.kind == "particles" else 0
    own = 8 * points * (24 * (axes + 1) + n_data / 64) + 1500 * mesh
    return int(libraries + own + kinks + pairs)


def _stored(objective, n_points, moving=False):
    """Bytes that the sums over the data store."""
    data = objective.data if isinstance(objective, Sum) else objective
    if not isinstance(data, Objective):
        return 0
    return 8 * data.feature.stored(n_points, data.inputs, data.operator, moving)


def check_memory(case: Case, objective: Any) -> None:
    """Raise CaseError if the run needs more memory than the machine has."""
    needed, there = estimated_memory(case, objective), psutil.virtual_memory().total
    if needed > there:
        raise CaseError(
            f"{case.method.kind}: the run needs about {needed / 1e9:.1f} GB and this machine has"
            f" {there / 1e9:.1f} GB. Use fewer cells, particles, units or data."
        )
