"""results.h5: a whole run in one tidy file, with dimension scales so that xarray and netCDF tools
open it."""

import json
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from h5py import h5d, h5ds, h5s

from ..arguments import Floats
from ..errors import RunFolderError
from ..files.reading import DATA, TEST, open_hdf5
from ..files.writing import checksum, create, packed, write_array, write_arrays, write_hdf5
from ..geometry.mesh import MESH
from ..solving.result import Result
from .contents import COUNTED, HISTORY, STATE_ARRAYS
from .estimates import BARS, REPEATS
from .margins import LABELS, MAX_MARGIN, arrays_of
from .run import Run, load
from .run_folder import FORMAT, lock, refuse_links, static_arrays, test_arrays

CHUNK = 2**16  # bytes of states that are compressed together, or one state
BLOCK = 2**24  # bytes of states that are written at a time, or one state
WORTH = 0.75  # arrays that compression makes no smaller than this share are not compressed

# The dimensions of every dataset; those named here alone are the coordinates.
DIMENSIONS = {
    "time": ("time",),
    "sign": ("sign",),
    **{name: ("time", *dimensions) for name, dimensions in STATE_ARRAYS.items()},
    "count": ("time",),
    "predictions": ("time", "datum"),
    "error_l1": ("time",),
    "error_max": ("time",),
    "error_mass": ("time",),
    "error_moment": ("time",),
    "initial": ("sign", "cell"),
    **{f"history/{name}": dimensions for name, dimensions in HISTORY.items()},
    **{f"errors/{name}": dimensions for name, dimensions in BARS.items()},
    **{f"repeats/{name}": dimensions for name, dimensions in REPEATS.items()},
    **{f"max_margin/{name}": dimensions for name, dimensions in MAX_MARGIN.items()},
    **{f"data/{name}": dimensions for name, dimensions in (DATA | TEST).items()},
    "test_predictions": ("time", "test_datum"),
    **{f"mesh/{name}": dimensions for name, dimensions in MESH.items()},
}


def dimensions_of(name: str, ndim: int) -> tuple[str, ...]:
    """The dimensions of an array or dataset of DIMENSIONS; the classes come last where there is an
    output for each."""
    return (*DIMENSIONS[name], "class")[:ndim]


def pack(folder: str | Path, run: Run | None = None) -> Path:
    """Write results.h5 of a run folder and return its path.

    run : that the folder holds, if it is loaded already, by a process that has locked it

    Datasets: time, predictions (time, datum), of several classes (time, datum, class), in units of
    e^log_scale, data/…, records/… and the states: of a grid density (time, sign, cell), log_scale
    and mesh/…, and of captured atoms atom_positions (time, atom, axis), atom_signs, atom_weights,
    atom_cells, which end with atoms of weight 0; of particles positions (time, particle, axis),
    signs, log_weights, log_scale; of a network hidden (time, unit, axis) and output; where numbers
    differ, `count` says how many of each save are there.
    With an exact solution error_l1 and error_max. errors/…: error bars, space and time apart, with
    their orders and verdicts as JSON in the attribute `errors`; repeats/… likewise. Attributes:
    case, resolved_case, status, finished, seconds, ….
    Raises RunFolderError, with an earlier file left as it was, if a save is missing, or another
    process writes there.
    """
    folder = Path(folder)
    refuse_links(folder)
    if not folder.is_dir():
        raise RunFolderError(f"{folder}: wanted a run folder, whose snapshots are packed.")
    if run is None:
        with lock(folder):  # or a run that ends meanwhile would have the results of a part
            return pack(folder, load(folder))
    if run.missing:
        raise RunFolderError(f"{run.missing} No results.h5 is written.")
    path = folder / "results.h5"
    # the oldest format whose attributes may exceed 64 kB, as a case with inline data may
    write_hdf5(path, lambda file: _fill(file, run), libver=("v108", "v110"))
    return path


def add_to_packed(run: Run) -> Run:
    """Add to the results.h5 that `pack` has just written of a run what its folder has got since:
    error bars, repeats, max-margin; returns the run with them. States are not compressed again,
    unless an earlier max-margin has to go."""
    run, path = run.read_again(), Path(run.path) / "results.h5"
    after = _arrays_after(run)
    with open_hdf5(path) as file:
        new = {name: array for name, array in after.items() if name not in file}
        kept = (np.array_equal(file[name][()], after[name], True) for name in after.keys() - new)
        stale = not all(kept)
    if stale:
        pack(run.path, run)
        return run

    def add(file):
        _write_arrays(file, new)
        _write_words(file, run)
        _attach_scales(file, new)

    write_hdf5(path, add, path, libver=("v108", "v110"))
    return run


def _attribute(value):
    """A value of a header as HDF5 can hold it: what is no number and no plain text as JSON."""
    if value is None:
        return ""
    plain = "\0" not in value if isinstance(value, str) else isinstance(value, bool | float)
    whole = isinstance(value, int) and -(2**63) <= value < 2**63
    return value if plain or whole else json.dumps(value)


def _fill(file, run):
    for name, value in {"format": FORMAT, **run.header, **run.end}.items():
        file.attrs[name] = _attribute(value)
    file.attrs["header"] = json.dumps(run.header)
    if run.mesh is not None:
        file.attrs["mesh"] = run.mesh.name
    plain = plain_arrays(run)
    _write_arrays(file, plain)
    _write_words(file, run)
    data = {"inputs": run.inputs, "targets": run.targets, "weights": run.weights}
    data |= test_arrays(run.test, run.inputs.shape[1])
    initial = getattr(run, "initial", None)
    file.attrs["sha256"] = checksum(
        static_arrays(run.mesh and run.mesh.arrays(), data, run.signs, initial)
    )
    _attach_scales(file, [*plain, *_write_states(file, run)])
    records = file.create_group("records")
    made = {
        name: write_array(records, name, array, is_checked=True)
        for name, array in run.records.items()
    }
    if "time" in made:
        h5ds.set_scale(made["time"], b"time")
        for name in made.keys() - {"time"}:
            h5ds.attach_scale(made[name], made["time"], 0)


def _write_arrays(file, arrays):
    write_arrays(file, arrays, is_checked=True)
    for name in arrays:
        if name.startswith("max_margin/"):
            file[name].attrs["long_name"] = LABELS[name.rpartition("/")[2]]


def _write_words(file, run):
    """What is said of error bars and repeats."""
    if run.errors is not None:
        file.attrs["errors"] = run.errors.words()
    if run.repeats is not None:
        file.attrs["repeats"] = run.repeats.words()


def plain_arrays(run: Result) -> dict[str, Floats]:
    """All arrays of a run but its states and records, by the names in DIMENSIONS."""
    arrays = {"time": run.time, "predictions": run.scaled_predictions, "sign": run.signs}
    arrays |= {"data/inputs": run.inputs, "data/targets": run.targets, "data/weights": run.weights}
    tests = test_arrays(run.test, run.inputs.shape[1])
    arrays |= {f"data/{name}": array for name, array in tests.items()}
    if tests:
        arrays |= {"test_predictions": run.scaled_test_predictions}
    if run.mesh is not None:
        arrays |= {f"mesh/{name}": array for name, array in run.mesh.arrays().items()}
    if (initial := getattr(run, "initial", None)) is not None:
        arrays["initial"] = initial
    if run.history is not None:
        columns = run.history.durations, run.history.log_factors, run.history.loss_gradients
        arrays |= {f"history/{name}": a for name, a in zip(HISTORY, columns, strict=True)}
    arrays |= _arrays_after(run)
    errors = run.exact_errors() if len(run.time) else None
    if errors is not None:
        names = (
            ("error_l1", "error_max") if run.method == "grid" else ("error_mass", "error_moment")
        )
        arrays |= dict(zip(names, errors, strict=True))
    return arrays


def _arrays_after(run):
    """Those of what is computed when a run has ended."""
    arrays = {}
    if run.errors is not None:
        arrays |= {f"errors/{name}": array for name, array in run.errors.arrays().items()}
    if run.repeats is not None:
        arrays |= {f"repeats/{name}": array for name, array in run.repeats.arrays().items()}
    if run.max_margin is not None:
        arrays |= {f"max_margin/{name}": a for name, a in arrays_of(run.max_margin).items()}
    return arrays


def state_shapes(run: Result) -> tuple[dict[str, tuple], list[int]]:
    """The widest shape of each array of the states, and how many particles or units each save has,
    if it has any."""
    saves = len(run.time)
    shapes = [
        {name: shape for name, shape in run.shapes_at(k).items() if name in STATE_ARRAYS}
        for k in range(saves)
    ]
    widest = {
        name: tuple(np.max([shape[name] for shape in shapes], axis=0).astype(int))
        for name in (shapes[0] if saves else ())
    }
    counted = [name for name in widest if STATE_ARRAYS[name][:1] in COUNTED]
    return widest, [shape[counted[0]][0] for shape in shapes] if counted else []


def fill_states(arrays: dict[str, Any], run: Result, start: int = 0) -> None:
    """Copy the states from one save on into arrays (time, …) by name, made as wide as the widest
    save."""
    for row in range(len(next(iter(arrays.values()), ()))):
        for name, value in run.state_at(start + row).items():
            if name in STATE_ARRAYS:
                arrays[name][(row, *map(slice, np.shape(value)))] = value


def _write_states(file, run):
    """One dataset per array of the states, as wide as the widest save, the rest nan; returns the
    names. Those of few different numbers are compressed; others would hardly become smaller."""
    widest, counts = state_shapes(run)

    def block_of(saves):
        block = {name: np.full((len(saves), *shape), np.nan) for name, shape in widest.items()}
        fill_states(block, run, saves.start)
        return block

    middle = len(run.time) // 2
    sample = block_of(range(middle, middle + 1)) if widest else {}
    made = {}
    for name, shape in widest.items():
        rows = max(1, min(len(run.time), CHUNK // max(8 * math.prod(shape), 8)))
        chunks = (rows, *shape) if math.prod(shape) else ()
        is_long = math.prod(shape) > 1
        packing = packed(chunks, is_long and _is_worth_compressing(sample[name]))
        packing.set_fill_value(np.array(np.nan))
        made[name] = create(file, name, (len(run.time), *shape), np.dtype("f8"), packing)
    rows = max(1, BLOCK // (8 * sum(map(math.prod, widest.values())) + 1))
    for start in range(0, len(run.time), rows):
        saves = range(start, min(start + rows, len(run.time)))
        for name, array in block_of(saves).items():
            place = made[name].get_space()
            place.select_hyperslab((start, *[0] * (array.ndim - 1)), array.shape)
            made[name].write(h5s.create_simple(array.shape), place, array)
    if counts:
        made["count"] = write_array(file, "count", counts, is_checked=True)
    return list(made)


def _is_worth_compressing(array):
    """Whether gzip makes an array much smaller, told by numbers all over it."""
    part = array.ravel()[:: max(1, array.nbytes // CHUNK)].tobytes()
    return len(zlib.compress(part, 1)) < WORTH * len(part)


def _attach_scales(file, names):
    """Give every axis of datasets its coordinate, an index where it has no values of its own."""
    scales: dict[str, h5d.DatasetID] = {}

    def scale_of(dimension, extent):
        if dimension not in scales:
            there = dimension in file
            scales[dimension] = scale = (
                file[dimension].id
                if there
                else write_array(file, dimension, np.arange(extent), is_checked=True)
            )
            if not h5ds.is_scale(scale):
                h5ds.set_scale(scale, dimension.encode())
        return scales[dimension]

    for name in names:
        dataset = h5d.open(file.id, name.encode())
        dimensions = dimensions_of(name, dataset.rank)
        for axis, dimension in enumerate(dimensions):
            scale = scale_of(dimension, dataset.shape[axis])
            if name != dimension:
                h5ds.attach_scale(dataset, scale, axis)
