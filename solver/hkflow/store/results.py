"""results.h5: a whole run in one tidy file, with dimension scales so that xarray and netCDF tools open it."""

import json
from pathlib import Path

import h5py
import numpy as np

from .files import write_whole
from .run import load
from .run_folder import FORMAT

# The dimensions of every dataset; those named here alone are the coordinates.
DIMENSIONS = {
    "time": ("time",),
    "log_scale": ("time",),
    "density": ("time", "sign", "cell"),
    "predictions": ("time", "datum"),
    "error_l1": ("time",),
    "error_max": ("time",),
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

    Datasets: time, density (time, sign, cell), log_scale, predictions (time, datum), data/…, mesh/…, records/…; where
    there is an exact solution error_l1 and error_max. Attributes: case, resolved_case, status, finished, versions, seed, ….
    """
    run = load(folder)
    path = Path(folder) / "results.h5"
    write_whole(path, lambda temporary: _write(temporary, run))
    return path


def _write(path, run):
    # the oldest format whose attributes may exceed 64 kB, as a case with inline data may
    with h5py.File(path, "w", libver=("v108", "v110")) as file:
        for name, value in {"format": FORMAT, **run.header, "status": run.status, "finished": run.finished}.items():
            file.attrs[name] = json.dumps(value) if isinstance(value, dict) else "" if value is None else value
        file.attrs["header"] = json.dumps(run.header)
        file.attrs["mesh"] = run.mesh.name
        arrays = {"time": run.time, "log_scale": run.log_scale, "predictions": run.predictions, "sign": run.signs}
        arrays |= {"data/inputs": run.inputs, "data/targets": run.targets, "data/weights": run.weights}
        arrays |= {f"mesh/{name}": array for name, array in run.mesh.arrays().items()}
        errors = run.exact_errors() if len(run.time) else None
        if errors is not None:
            arrays |= {"error_l1": errors[0], "error_max": errors[1]}
        for name, array in arrays.items():
            file.create_dataset(name, data=array, dtype=array.dtype)
        shape = (len(run.time), len(run.signs), run.mesh.n_cells)
        packing = {"chunks": (1, 1, shape[2]), "compression": "gzip", "compression_opts": 1} if shape[0] else {}
        density = file.create_dataset("density", shape, dtype="f8", **packing)
        for save in range(len(run.time)):
            density[save] = run.density_at(save)
        records = file.create_group("records")
        for name, array in run.records.items():
            records.create_dataset(name, data=array, dtype=array.dtype)
        _attach_scales(file)


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
