"""The parts of a run in files, read and checked: header, case, data and mesh, states, records,
history, max-margin, and how it ended."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ..arguments import Floats
from ..case.functions import OwnFunctions, built_in_feature
from ..case.load import parse_stored_case
from ..case.resolve import domain_of, flow_of, resolve
from ..certificates.margin import MaxMargin
from ..errors import RunFolderError
from ..files.reading import (
    DAMAGE,
    DATA,
    TEST,
    check_array,
    check_mesh,
    find,
    open_hdf5,
    read_arrays,
)
from ..files.userfiles import named, parse_json, read_text, size_of
from ..files.writing import checksum
from ..geometry.mesh import MESH, Mesh
from ..methods.characteristics.history import ASIDE, History
from ..objectives.activations import FEATURES
from ..objectives.losses import ALL_RISKS
from ..shown import as_typed
from ..solving.records import OF_CERTIFICATES, OF_CLASSIFIERS, OF_EVERY_RUN
from .margins import names_in, of_arrays, of_json
from .run_folder import FORMAT, READABLE, static_arrays

HEADER = {
    "case": str,
    "resolved_case": str,
    "title": str,
    "seed": int,
    "threads": int,
    "versions": dict,
    "commit": str | None,
}
NOTHING = np.zeros(0)
ENDING = {"status": str, "finished": bool}  # of status.json

# What makes the measure in a state, with the dimensions of each array at one save.
STATE_ARRAYS = {
    "density": ("sign", "cell"),
    "log_scale": (),
    "atom_positions": ("atom", "axis"),
    "atom_signs": ("atom",),
    "atom_weights": ("atom",),
    "atom_cells": ("atom",),
    "residuals": ("datum",),
    "positions": ("particle", "axis"),
    "signs": ("particle",),
    "log_weights": ("particle",),
    "held": ("particle",),
    "captured": ("particle",),
    "flows": (),
    "hidden": ("unit", "axis"),
    "output": ("unit",),
    "inner": ("unit",),
}
ATOM_ARRAYS = {name for name in STATE_ARRAYS if name.startswith("atom_")}
MEASURES = {  # arrays that make it, of each method; a network has some of several
    "grid": [{"density", "log_scale"}],
    "particles": [{"positions", "signs", "log_weights"}],
    "characteristics": [{"positions", "signs", "log_weights"}],
    "network": [{"hidden", "output"}, {"positions", "signs", "inner"}],
}
NEEDED = [record.name for record in OF_EVERY_RUN[:7]]  # which no version has left out
HISTORY = {
    "duration": ("flow",),
    "log_factor": ("flow",),
    "loss_gradient": ("flow", "datum"),
}  # the columns of a History
WORK = ("steps", "evaluations", "seconds")  # that a run took, in its status
COUNTED = (("particle",), ("unit",), ("atom",))  # dimensions whose extent may differ between saves


def read_header(folder: str | Path) -> dict:
    """run.json of a folder. Raises RunFolderError if it is missing, damaged or of a newer
    format."""
    path = named(folder) / "run.json"
    if not path.exists():
        raise RunFolderError(
            f"{folder}: not a run folder, or one killed before its first save: there is no"
            f" {path.name}."
        )
    with reading(path):
        header = read_json(path)
        check_format(header.get("format"), path)
        OwnFunctions.model_validate(header.get("own", {}))
        return typed(header, HEADER)


def check_format(number: Any, path: Path) -> None:
    """Raise RunFolderError unless this version reads files of that format."""
    if number not in READABLE:
        raise RunFolderError(
            f"{path}: format {number}, but this hkflow reads format {FORMAT}; use the version that"
            " wrote it."
        )


def typed(table: dict, types: dict) -> dict:
    """A table whose keys are there and of the types wanted; raises ValueError otherwise."""
    for name, kind in types.items():
        if name not in table:
            raise ValueError(f"'{name}' is missing")
        if (
            not isinstance(table[name], kind)
            or isinstance(table[name], int)
            and not -(2**63) <= table[name] < 2**63
        ):
            raise ValueError(f"'{name}' is {str(table[name])[:60]!r}")
    return table


def case_of(header: dict, path: Path) -> Any:
    """The resolved case that a header tells of; one with functions of its own needs none of them,
    for it was resolved by them."""
    with reading(path):
        OwnFunctions.model_validate(header.get("own", {}))
        case: Any = parse_stored_case(header["resolved_case"], f"{path}: resolved case")
    own = case.data.source == "arrays" or case.objective.activation not in FEATURES
    return case if own else resolve(case)


def ending(folder: Path) -> dict | None:
    """How the run in a folder ended, None if it has not; asked for before its saves, which are all
    there then."""
    if not (folder / "status.json").exists():
        return None
    remedy = f"; without it, 'hkflow resume {as_typed(folder)}' finishes the run"
    with reading(folder / "status.json", remedy):
        return checked_end(read_json(folder / "status.json"))


def read_history(path: Path, inputs: Floats) -> History | None:
    """The History in a run folder or a results.h5, None if there is none; rows that a crash cut
    short are left out."""
    if path.is_dir():
        file = path / "history.bin"
        if not file.exists():
            return None
        with reading(file):
            width, whole = ASIDE + len(inputs), size_of(file, largest=np.inf)
            content = file.read_bytes()[: whole // (8 * width) * 8 * width]
            rows = np.frombuffer(content, "<f8").reshape(-1, width)
            if not np.isfinite(rows).all():
                raise ValueError("holds numbers that are not finite")
            return History(rows)
    with reading(path), open_hdf5(path) as file:
        if "history" not in file:
            return None
        arrays = read_arrays(find(file, "history"), HISTORY, {"datum": len(inputs)})
        return History(np.column_stack(list(arrays.values())))


def read_max_margin(path: Path, shape: tuple[int, ...]) -> MaxMargin | None:
    """The MaxMargin in a run folder or a results.h5, None if there is none;  shape : of its
    predictions at a save."""
    sizes = dict(zip(("datum", "class"), shape, strict=False))
    if path.is_dir():
        file = path / "max_margin.json"
        if not file.exists():
            return None
        with reading(file, "; the run is whole without it: remove it"):
            return of_json(read_json(file), sizes)
    with reading(path), open_hdf5(path) as file:
        if "max_margin" not in file:
            return None
        group = find(file, "max_margin")
        return of_arrays(read_arrays(group, names_in(group), dict(sizes)), sizes)


def check_state(state: dict, case: Any, sizes: Mapping[str, int]) -> None:
    """Raise ValueError unless the arrays of a state that make the measure are there, have the sizes
    wanted and are numbers."""
    sizes, values = (
        dict(sizes),
        {name: np.asarray(state[name]) for name in STATE_ARRAYS if name in state},
    )
    if not any(names <= values.keys() for names in MEASURES[case.method.kind]):
        raise ValueError(
            f"a state of {', '.join(values) or 'nothing'} is none of method '{case.method.kind}'"
        )
    for name, array in values.items():
        check_array(array, name, STATE_ARRAYS[name], sizes)
        if name == "residuals":  # those of a start beyond numbers are inf, and make no measure
            continue
        # a weight may be 0
        fine = array < np.inf if name == "log_weights" else np.isfinite(array)
        if not fine.all():
            raise ValueError(f"'{name}' holds numbers that are not finite")
    counts = {sizes[name] for (name,) in COUNTED if name in sizes and name != "atom"}
    if len(counts) > 1 or 0 in counts:
        raise ValueError("arrays of a state have different lengths, or none")
    if (values.get("density", NOTHING) < 0.0).any() and not flow_of(case.flow).signed:
        raise ValueError("'density' is negative")
    given = values.keys() & ATOM_ARRAYS
    if len(given) not in (0, len(ATOM_ARRAYS)):
        raise ValueError(f"'{min(ATOM_ARRAYS - given)}' is missing beside '{min(given)}'")
    cells = values.get("atom_cells", NOTHING)
    if ((cells != np.floor(cells)) | (cells < 0.0) | (cells >= (sizes.get("cell") or 0))).any():
        raise ValueError(f"'atom_cells' are not all whole numbers below {sizes.get('cell')}")
    if (values.get("atom_weights", NOTHING) < 0.0).any():
        raise ValueError("'atom_weights' are negative")
    of_atoms = values.get("atom_weights", NOTHING) > 0.0  # the others are room for more
    on_sphere = case.method.kind in ("particles", "characteristics")
    for prefix, alive, pointed in (("", ..., on_sphere), ("atom_", of_atoms, bool(of_atoms.any()))):
        if (np.abs(values.get(f"{prefix}signs", NOTHING)[alive]) != 1.0).any():
            raise ValueError(f"'{prefix}signs' are not all 1 or -1")
        if pointed and not values[f"{prefix}positions"][alive].any(axis=1).all():
            raise ValueError(f"'{prefix}positions' are zero")


def read_records(path: Path, case: Any) -> dict[str, Floats]:
    """Records by name, each an array; a last line that a crash cut short is left out."""
    if not path.exists():
        return {}
    with reading(path):
        rows = [parse_json(line) for line in read_text(path).split("\n")[:-1]]
        # a record is not in rows of a session that had no function for it
        records = {
            name: [row[name] if name in NEEDED else row.get(name, np.nan) for row in rows]
            for name in dict.fromkeys(chain.from_iterable(rows))
        }
        return checked_records(
            {name: np.array(values, dtype=float) for name, values in records.items()}, case
        )


def checked_records(records: dict[str, Floats], case: Any) -> dict[str, Floats]:
    """Records that have the names that all runs have; those of later versions are nan."""
    sizes: dict[str, Any] = {}
    for name, array in records.items():
        check_array(array, name, ("record",), sizes)
    wanted = [record.name for record in OF_EVERY_RUN]
    risk = ALL_RISKS.get(case.objective.loss)
    if risk and risk.has_margins:
        wanted += [record.name for record in OF_CLASSIFIERS]
    if "margin_upper" in records:
        wanted += [record.name for record in OF_CERTIFICATES]
    if not records:
        return records
    if missing := [name for name in NEEDED if name not in records]:
        raise ValueError(f"the record '{missing[0]}' is missing")
    nothing = np.full(len(records["time"]), np.nan)
    return records | {name: nothing for name in wanted if name not in records}


def checked_end(end: dict) -> dict:
    """How a run ended, with the types that are wanted."""
    work = dict.fromkeys(WORK, int | float) if any(name in end for name in WORK) else {}
    return typed({"signal": None} | end, ENDING | {"signal": int | None} | work)


def read_static(file: Any, case: Any) -> tuple[dict, dict[str, Any]]:
    """Case, data, signs and mesh of a run, and the sizes of their dimensions. Raises ValueError if
    they do not fit together."""
    sizes: dict[str, Any] = {}
    data = read_arrays(find(file, "data"), DATA, sizes)
    group = find(file, "data", h5py.Group)
    if "test_inputs" in group:
        tests = {name: TEST[name] for name in TEST if name != "test_weights" or name in group}
        data |= read_arrays(group, tests, sizes)
    feature = built_in_feature(case.objective, data["targets"])
    outputs = feature.joint * feature.outputs if feature else 0
    sizes |= {"axis": sizes["input"] + case.objective.bias + outputs, "side": 2}
    sizes |= {"class": outputs} if outputs > 1 else {}
    domain = domain_of(case, sizes["axis"])
    sizes["sign"] = len(domain.signs)
    sign, mesh = read_arrays(file, {"sign": ("sign",)}, sizes)["sign"], None
    if "mesh" in file:
        sizes["cell"] = case.domain.cells or sizes["axis"]
        mesh = read_arrays(find(file, "mesh"), MESH, sizes)
    initial = None
    if "initial" in file and mesh is not None:
        initial = read_arrays(file, {"initial": ("sign", "cell")}, sizes)["initial"]
    if checksum(static_arrays(mesh, data, sign, initial)) != file.attrs.get("sha256"):
        raise ValueError("mesh or data are not those that were written")
    if tuple(sign) != domain.signs or not all(np.isfinite(array).all() for array in data.values()):
        raise ValueError("'sign' is not that of the case, or data are not finite")
    if mesh is not None:
        check_mesh(file.attrs["mesh"], mesh)
    if mesh is None:
        fits = case.method.kind != "grid" and not domain.fixed
    else:
        fits = file.attrs["mesh"] == domain.meshes.name
    if not fits:
        raise ValueError("the mesh is not that of the case")
    made = mesh and Mesh(file.attrs["mesh"], **mesh)
    static = {"case": case, "domain": domain, "mesh": made, "data": data, "sign": sign}
    return static | {"initial": initial}, sizes


def read_json(path: Path) -> dict:
    """A table of a JSON file. Raises ValueError if it holds something else."""
    content = parse_json(read_text(path))
    if not isinstance(content, dict):
        raise ValueError("not a table")
    return content


@contextmanager
def reading(path: Path, remedy: str = "") -> Iterator[None]:
    """Turn whatever a damaged file, or one of someone else's, makes libraries say into a
    RunFolderError that names it."""
    try:
        yield
    except PermissionError as error:
        raise RunFolderError(
            f"{path}: cannot be read ({error.strerror}); make it readable and try again."
        ) from error
    except DAMAGE as error:
        reason = getattr(error, "strerror", None) or str(error).strip() or type(error).__name__
        raise RunFolderError(f"{path}: damaged ({reason}){remedy}.") from error
