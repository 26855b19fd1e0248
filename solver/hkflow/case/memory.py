"""The memory that a run needs."""

from typing import Any

import psutil

from ..errors import CaseError
from ..methods.rules import noise_interval
from ..objectives.energies import Sum
from ..objectives.objective import Objective
from ..operators.dense import GROUPS, MOST_MARKED, width_for
from ..operators.repeated import summed_rows
from ..operators.vector import FEWEST, LARGEST
from .first_measure import DEFAULT_POINTS
from .resolve import domain_of, flow_of
from .schema.case import Case

LIBRARIES = 2e8  # bytes
# copies of the inputs while they are read, prepared and summed over; numbers for each prediction of
# a datum, in stages of a step, the risk and certificates
INPUTS, EACH = 10, 60


def estimated_memory(case: Case, objective: Any) -> int:
    """Bytes that a run needs: the libraries, and what its method keeps. Saves go to disk one by
    one."""
    (n_data, columns), axes = objective.inputs.shape, objective.axes
    method, signs = case.method, len(domain_of(case, axes).signs)
    numbers = n_data * objective.feature.outputs
    data = 8 * (INPUTS * n_data * columns + EACH * numbers)
    if method.kind == "grid":
        cells, slots = case.domain.cells or axes, 2 if method.stepper != "strang" else 3
        states = 8 * cells * signs * (3 * slots + 3 + 3 + 27)
        partial_sums = 8 * n_data * (cells // 512 + 8)
        pairs = _stored(objective, cells)
        return int(LIBRARIES + data + 1500 * cells + states + partial_sums + pairs)
    mesh = (case.domain.cells or axes) if method.points == "mesh" else 0
    points = (
        signs * mesh
        or method.count
        or len(getattr(case.initial, "positions", None) or ())
        or DEFAULT_POINTS
    )
    points += _births(case)
    kinks = 6000 * n_data if method.kind == "characteristics" else 0
    pairs = _stored(objective, int(points), moving=True) if method.kind == "particles" else 0
    own = 8 * points * 24 * (axes + 1) + min(points * n_data, MOST_MARKED) / 8 + 1500 * mesh
    groups = min(points / width_for(int(points)) + 1.0, GROUPS)
    if numbers > n_data:  # of units with several outputs
        groups = min(groups, max(FEWEST, LARGEST / numbers))
    partial_sums = 8 * numbers * groups
    return int(LIBRARIES + data + own + partial_sums + kinks + pairs)


def _births(case):
    """How many particles deterministic noise adds until the end."""
    method, noise = case.method, flow_of(case.flow).noise
    if method.kind != "particles" or method.noise == "random" or noise == 0.0:
        return 0.0
    return method.noise_points * case.time.end / noise_interval(method.noise_interval, noise)


def _without_births(case):
    """The case with noise that adds no particles."""
    method = case.method.model_copy(update={"noise": "random"})
    return case.model_copy(update={"method": method})


def _stored(objective, n_points, moving=False):
    """Bytes that the sums over the data store."""
    data = objective.data if isinstance(objective, Sum) else objective
    if not isinstance(data, Objective):
        return 0
    rows = summed_rows(data.inputs)[0] if data.operator == "auto" else data.inputs
    return 8 * data.feature.stored(n_points, rows, data.operator, moving)


def check_memory(case: Case, objective: Any) -> None:
    """Raise CaseError if the run needs more memory than the machine has."""
    needed, there = estimated_memory(case, objective), psutil.virtual_memory().total
    if needed <= there:
        return
    remedy = "Use fewer cells, particles, units or data."
    births = _births(case)
    if births and estimated_memory(_without_births(case), objective) <= there:
        remedy = (
            f"Deterministic noise adds about {births:.0e} particles: take method.noise = 'random',"
            " which keeps their number, a longer method.noise_interval, fewer method.noise_points"
            " or an earlier time.end."
        )
    raise CaseError(
        f"{case.method.kind}: the run needs about {needed / 1e9:.1f} GB and this machine has"
        f" {there / 1e9:.1f} GB. {remedy}"
    )
