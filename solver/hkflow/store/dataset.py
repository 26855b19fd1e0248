"""A run as one xarray.Dataset, and so as a netCDF-4 file that says what its variables are."""

import json
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import CaseError
from ..methods.record import SCALED
from ..solving.registry import record_of
from ..solving.result import ResultLike
from .contents import STATE_ARRAYS
from .margins import LABELS
from .results import dimensions_of, fill_states, plain_arrays, state_shapes
from .run import loaded

LONG_NAMES = {
    "sign": "output sign of hidden units",
    "density": "density: mass per unit area, without captured atoms, in units of exp(log_scale)",
    "log_scale": "log of the unit of density, predictions and extensive records",
    "log_mass": "log of the total mass",
    "residuals": "derivative of the risk by the predictions, as it drives the flow",
    "positions": "directions of particles",
    "signs": "output signs of particles",
    "log_weights": "log of the weights of particles",
    "held": "number of kinks that a particle slides along",
    "captured": "1 where a kink has ever held a particle, or it died on one",
    "flows": "number of flows with frozen loss gradients since the start",
    "initial": "initial density: mass per unit area",
    "duration": "time of a flow with frozen loss gradients",
    "log_factor": "log of the factor that keeps the mass after a flow",
    "loss_gradient": "loss gradient of a flow",
    "hidden": "input weights of units",
    "output": "output weights of units",
    "inner": "inner weights of units",
    "count": "number of particles or units",
    "predictions": "predictions on the data, in units of exp(log_scale)",
    "test_predictions": "predictions on the test data, in units of exp(log_scale)",
    "test_inputs": "inputs of the test data, without bias",
    "test_weights": "weights of the test data in errors and loss",
    "error_l1": "relative L1 error",
    "error_max": "maximum error over the maximum",
    "error_mass": "relative error of the mass",
    "error_moment": "relative error of the first moment",
    **LABELS,
    "inputs": "inputs, without bias",
    "centers": "centres of cells, unit vectors",
    "volumes": "areas of cells",
    "angle": "angle of centres of cells",
    "longitude": "longitude of centres of cells",
    "latitude": "latitude of centres of cells",
    "vertices": "corners of cells, unit vectors",
    "face_vertices": "corners of faces, as indices",
}
UNITS = {"angle": "radian", "longitude": "degrees_east", "latitude": "degrees_north"}
PACKED = {"zlib": True, "complevel": 1, "shuffle": True}


def check_xarray(_: object = None) -> None:
    """Raise CaseError if the packages are missing."""
    if not (find_spec("xarray") and find_spec("h5netcdf")):
        raise CaseError(
            "Data sets and netCDF need the packages xarray and h5netcdf: pip install"
            " 'hkflow[xarray]'."
        )


def to_xarray(run: ResultLike) -> Any:
    """All of a Run, Solution or run folder as an xarray.Dataset, every variable with long_name and
    units, header and ending as attributes.

    The variables are those of results.h5; data/… and mesh/… without the folder, records/… as
    record_… along record_time, log_mass (time), and the cells' angle on the circle, longitude and
    latitude on S².
    Raises CaseError if xarray or h5netcdf is missing.
    """
    check_xarray()
    import xarray

    run = loaded(run)
    widest, counts = state_shapes(run)
    states = {name: np.full((len(run.time), *shape), np.nan) for name, shape in widest.items()}
    fill_states(states, run)
    arrays = plain_arrays(run) | states | ({"count": np.array(counts)} if counts else {})
    variables: dict[str, Any] = {
        name.rpartition("/")[2]: (dimensions_of(name, array.ndim), array)
        for name, array in arrays.items()
    }
    variables["log_mass"] = ("time", run.log_mass)
    variables |= {f"record_{name}": ("record_time", values) for name, values in run.records.items()}
    variables |= {name: ("cell", values) for name, values in _angles(run).items()}
    shown = {name: (*value, _attributes(name, run)) for name, value in variables.items()}
    data = xarray.Dataset(shown, attrs=_header(run))
    return data.set_coords(
        [name.partition("/")[2] for name in arrays if name.startswith("mesh/")] + list(_angles(run))
    )


def write_netcdf(path: str | Path, run: ResultLike) -> None:
    """Write to_xarray(run) as netCDF-4, made in memory: HDF5 crashes at the end of a process whose
    disk was full."""
    import h5netcdf
    from xarray.backends import H5NetCDFStore

    data, image = to_xarray(run), BytesIO()
    for name, variable in data.variables.items():
        variable.encoding = (
            PACKED if name in STATE_ARRAYS and variable.ndim > 1 else {"_FillValue": None}
        )
    with h5netcdf.File(image, "w") as file:
        data.dump_to_store(H5NetCDFStore(file))
    Path(path).write_bytes(image.getvalue())


def _angles(run):
    """Where the centres of cells are, by angles."""
    return run.domain.angles(run.mesh.centers) if run.method == "grid" else {}


def _attributes(name, run):
    time = "time" if run.flow.time_variable == "time" else "smooth margin, which is the clock"
    names = LONG_NAMES | {f"record_{name}": _long_name(record_of(name)) for name in run.records}
    names |= {"time": time, "record_time": f"{time}, of the records"}
    return {
        "long_name": names.get(name, name.replace("_", " ")),
        "units": UNITS.get(name, "1"),
    }


def _long_name(record):
    unit = ", in units of exp(log_scale)" if record.unit == SCALED else ""
    return f"{record.label}: {record.meaning.rstrip('.')}{unit}"


def _header(run):
    """Header and ending as netCDF attributes: numbers and texts."""
    values = {"source": f"hkflow {run.header['versions']['hkflow']}", "title": run.title}
    values |= run.header | run.end
    plain = {
        name: json.dumps(value) if isinstance(value, dict) else value
        for name, value in values.items()
        if value is not None
    }
    return {name: int(value) if isinstance(value, bool) else value for name, value in plain.items()}
