"""All records by name: label, unit, scale, meaning, and where each is shown."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CaseError
from ..methods.characteristics.records import RECORDS as OF_CHARACTERISTICS
from ..methods.grid.records import RECORDS as OF_GRIDS
from ..methods.network.records import RECORDS as OF_NETWORKS
from ..methods.particles.records import RECORDS as OF_PARTICLES
from ..methods.record import SCALED, Record
from .observer import State
from .predicting import LARGEST_LOG_MASS
from .records import OF_CERTIFICATES, OF_CLASSIFIERS, OF_EVERY_RUN, OF_TESTS

RECORDS = {
    record.name: record
    for group in (
        OF_EVERY_RUN,
        OF_GRIDS,
        OF_PARTICLES,
        OF_CHARACTERISTICS,
        OF_NETWORKS,
        OF_CLASSIFIERS,
        OF_CERTIFICATES,
        OF_TESTS,
    )
    for record in group
}

GONE = {"energy_diffusion"}  # of earlier versions, in whose folders it is: 0 of all that are read


def record_of(name: str) -> Record:
    """The Record of a name; one that is not registered is a user's, with a panel of its own."""
    label = name.replace("_", " ")
    own = Record(name, label, "A user's function.", scale="log", panel=name, compared=True)
    return RECORDS.get(name, own)


def own_names(names: Iterable[str]) -> list[str]:
    """Those of a user's records."""
    return [name for name in names if name not in RECORDS and name not in GONE]


def in_units_of_one(records: Mapping[str, NDArray[np.float64]], name: str) -> NDArray[np.float64]:
    """The values of a record, whatever its unit; inf where they are beyond numbers."""
    if record_of(name).unit != SCALED:
        return records[name]
    with np.errstate(over="ignore", invalid="ignore"):
        return np.exp(records["log_scale"]) * records[name]


def are_per_mass(records: Mapping[str, NDArray[np.float64]]) -> bool:
    """Whether objectives are told per mass: where the mass has grown so far that records are in
    units above 1, or is less than numbers hold. Where it vanishes otherwise, plain units serve: F
    does not vanish with it."""
    scales = records.get("log_scale", np.zeros(1))
    return bool(np.any((scales > 0.0) | (scales < -LARGEST_LOG_MASS)))


def check_records(records: Any) -> dict[str, Callable]:
    """Records of a user, {name: function of a State that returns a number}. Raises CaseError unless
    they are."""
    records = {} if records is None else records
    if not isinstance(records, Mapping):
        raise CaseError(f"records: wanted {{name: function of a State}}, got {records!r:.60}.")
    for name, function in records.items():
        if not (isinstance(name, str) and name.isidentifier()):
            raise CaseError(
                f"records: {name!r} is no name for a record. Choose letters, digits and '_', no"
                " digit first."
            )
        if name in RECORDS:
            raise CaseError(
                f"records: '{name}' is a record of hkflow: {RECORDS[name].meaning} Choose another"
                f" name than: {', '.join(RECORDS)}."
            )
        if not callable(function):
            raise CaseError(f"records: '{name}' must be a function of a State, got {function!r}.")
    return dict(records)


def own_record(name: str, function: Callable, state: State) -> float:
    """The number that a user's function of a State returns. Raises CaseError if it is none."""
    value = function(state)
    number = np.asarray(value)
    if number.ndim or number.dtype.kind not in "fiub":
        raise CaseError(
            f"The record '{name}' must be a number, but its function returned"
            f" {value!r:.60} at t = {state.time:g}."
        )
    return float(number)
