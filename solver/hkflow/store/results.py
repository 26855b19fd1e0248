"""results.h5: a whole run in one tidy file, with dimension scales so that xarray and netCDF tools open it."""

import json
from pathlib import Path

import h5py
import numpy as np

from .files import write_whole
from .run import STATE_ARRAYS, load
from .run_folder import FORMAT

# The dimensions of every dataset; those named here alone are the coordinates.
DIMENSIONS = {
    "time": ("time",),
    **{name: ("time", *dimensions) for name, dimensions in STATE_ARRAYS.items()},
    "count": ("time",),
    "predictions": ("time", "datum"),
    "error_l1": ("time",),
    "error_max": ("time",),
    "error_mass": ("time",),
    "error_moment": ("time",),
    "data/inputs": ("datum", "input"),
    "data/targets": ("datum",),
    "data/weights": ("datum",),
    "mesh/centers": ("cell", "axis"),
    "mesh/volumes": ("cell",),
    "mesh/faces": ("face", "side"),
    "mesh/face_areas": ("face",),
    "mesh/face_distances": ("face",),
    "mesh/face_midpoints": ("face", "axis"),
    "mesh/vertices": ("vertex", "axis"),
    "mesh/face_vertices": ("face", "corner"),
}


def pack(folder):
    """Write results.h5 of a run folder and return its path.

    Datasets: time, predictions (time, datum) in units of e^log_scale, data/…, records/… and the states: of a grid density
    (time, sign, cell), log_scale and mesh/…; of particles positions (time, particle, axis), signs, log_weights, log_scale; of
    a network hidden (time, unit, axis) and output; where numbers of particles differ, `count` says how many of each save are
    there. With an exact solution error_l1 and error_max. Attributes: case, resolved_case, status, finished, seconds, ….
    """
    run = load(folder)
    path = Path(folder) / "results.h5"
    write_whole(path, lambda temporary: _write(temporary, run))
    return path


def _write(path, run):
    # the oldest format whose attributes may exceed 64 kB, as a case with inline data may
    with h5py.File(path, "w", libver=("v108", "v110")) as file:
        for name, value in {"format": FORMAT, **run.header, **run.end}.items():
            file.attrs[name] = json.dumps(value) if isinstance(value, dict) else "" if value is None else value
        file.attrs["header"] = json.dumps(run.header)
        arrays = {"time": run.time, "predictions": run.scaled_predictions, "sign": run.signs}
        arrays |= {"data/inputs": run.inputs, "data/targets": run.targets, "data/weights": run.weights}
        if run.mesh is not None:
            file.attrs["mesh"] = run.mesh.name
            arrays |= {f"mesh/{name}": array for name, array in run.mesh.arrays().items()}
        errors = run.exact_errors() if len(run.time) else None
        if errors is not None:
            names = ("error_l1", "error_max") if run.method == "grid" else ("error_mass", "error_moment")
            arrays |= dict(zip(names, errors, strict=True))
        for name, array in arrays.items():
            file.create_dataset(name, data=array, dtype=array.dtype)
        _write_states(file, run)
        records = file.create_group("records")
        for name, array in run.records.items():
            records.create_dataset(name, data=array, dtype=array.dtype)
        _attach_scales(file)


def _write_states(file, run):
    """One dataset per array of the states, as wide as the widest save, the rest nan."""
    saves = len(run.time)
    shapes = [{name: np.shape(value) for name, value in run.state_at(k).items() if name in STATE_ARRAYS} for k in range(saves)]
    for name in shapes[0] if saves else ():
        widest = tuple(np.max([shape[name] for shape in shapes], axis=0).astype(int))
        packing = {"chunks": (1, *widest), "compression": "gzip", "compression_opts": 1} if np.prod(widest) > 1 else {}
        file.create_dataset(name, (saves, *widest), dtype="f8", fillvalue=np.nan, **packing)
    for k in range(saves):
        state = run.state_at(k)
        for name in shapes[k]:
            value = state[name]
            file[name][(k, *(slice(n) for n in np.shape(value)))] = value
    if saves and "density" not in file:
        file["count"] = [next(iter(shape.values()))[0] for shape in shapes]


def _attach_scales(file):
    """Give every axis of every dataset its coordinate, an index where it has no values of its own."""
    for name, dimensions in DIMENSIONS.items():
        if name not in file:
            continue
        for axis, dimension in enumerate(dimensions):
            if dimension not in file:
                file.create_dataset(dimension, data=np.arange(file[name].shape[axis]), dtype="i8")
            scale = file[dimension]
            if not scale.is_scale:
                scale.make_scale(dimension)
            if name != dimension:
                file[name].dims[axis].attach_scale(scale)
    records = file["records"]
    if "time" in records:
        records["time"].make_scale("time")
        for name in records:
            if name != "time":
                records[name].dims[0].attach_scale(records["time"])
