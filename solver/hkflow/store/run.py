"""Runs read back: from a run folder or from a results.h5 alike."""

from collections.abc import Iterable, Mapping
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from itertools import chain
from math import prod
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ..accuracy.error_bars import ErrorBars
from ..accuracy.repeats import Repeats
from ..arguments import Floats
from ..case.build import build_objective, fresh_data, test_objective
from ..case.datasets import DataSet, input_names, teacher_of
from ..case.described import density_of, rebuilt
from ..case.first_measure import density_function
from ..case.functions import OwnFunctions, built_in_feature
from ..case.load import parse_stored_case
from ..case.preparation import Preparation
from ..case.resolve import domain_of, flow_of, resolve
from ..certificates.margin import MaxMargin
from ..errors import CaseError, RunFolderError
from ..files.reading import (
    DAMAGE,
    DATA,
    MESH,
    TEST,
    check_array,
    check_mesh,
    find,
    open_hdf5,
    read,
    read_arrays,
)
from ..files.userfiles import named, parse_json, read_text, size_of
from ..files.writing import checksum
from ..geometry.mesh import Mesh
from ..measures.initial import CellDensity, atoms_on_mesh
from ..measures.point_measure import DensityAndAtoms, Units
from ..methods.characteristics.history import ASIDE, History
from ..methods.choice import method_class
from ..objectives.activations import FEATURES
from ..objectives.losses import ALL_RISKS
from ..objectives.protocol import feature_of_data
from ..problem.flow import Flow
from ..problem.problem import Problem
from ..solving.predicting import LARGEST_LOG_MASS, unscaled
from ..solving.records import OF_CERTIFICATES, OF_CLASSIFIERS, OF_EVERY_RUN
from ..solving.result import Result, ResultLike
from .estimates import read_errors, read_repeats
from .margins import MAX_MARGIN, of_arrays, of_json
from .place import Place
from .run_folder import (
    CHECKPOINT,
    FORMAT,
    READABLE,
    missing_saves,
    read_snapshots,
    snapshot_paths,
    static_arrays,
)

HEADER = {
    "case": str,
    "resolved_case": str,
    "title": str,
    "seed": int,
    "threads": int,
    "versions": dict,
    "commit": str | None,
}
KEPT = 2**26  # bytes of snapshots that a Run keeps in memory, or one file of them
TOGETHER = 2**18  # bytes of states that are read at a time from a results.h5, or one state
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


class Run(Result):
    """A finished or unfinished run in files, with all that a Result offers.

    path : the folder or file that it was read from, or where that was moved aside to
    header : case as given and as resolved, versions, seed, threads, commit
    case : the resolved, checked case, or ProblemCase of a problem made in Python;  own : the
        functions of its user, imported when they are first called
    missing : a sentence on saves that are lost or damaged, or None
    """

    def __init__(
        self, path: Path, header: dict, static: dict, series: dict, records: dict, end: dict
    ) -> None:
        self._place, self.header, self.records, self.end = Place(path), header, records, end
        self.title, self.missing = header["title"], series.get("missing")
        self.case, self.mesh, self.signs = static["case"], static["mesh"], static["sign"]
        self.domain = static["domain"]
        self.method, self.options = self.case.method.kind, self.case.method.model_dump()
        self.bias = self.case.objective.bias
        self.own = OwnFunctions.model_validate(header.get("own", {}))
        self.initial = static["initial"]
        self.inputs, self.targets, self.weights = (
            static["data"][name] for name in ("inputs", "targets", "weights")
        )
        self._tests = [static["data"][name] for name in TEST if name in static["data"]]
        self.time, self.log_scale = series["time"], series["log_scale"]
        self.scaled_predictions, self._states = series["predictions"], series["states"]
        self._starts = self._states or series.get("checkpoints", [])
        self._shapes = series.get("shapes")

    @property
    def path(self) -> Path:  # type: ignore[override]
        return self._place.path

    @property
    def is_begun(self) -> bool:
        """Whether there is a save, or a checkpoint."""
        return bool(self._starts)

    def check_place(self) -> None:
        """Raise RunFolderError if the run is no longer where it was read."""
        self._place.there()

    def state_at(self, save: int) -> dict:
        """The method's state at one save, read when asked for."""
        return self._states[save]()

    def shapes_at(self, save: int) -> dict[str, tuple[int, ...]]:
        """As of every Result; of a run folder they are known without reading a state again."""
        return self._shapes[save] if self._shapes else super().shapes_at(save)

    @cached_property
    def history(self) -> History | None:
        """What moved the atoms of characteristics, read when it is first wanted."""
        if self.method != "characteristics":
            return None
        return read_history(self._place.there(), self.inputs)

    @cached_property
    def errors(self) -> ErrorBars | None:
        """Its error bars, read when they are first wanted; None if none were estimated."""
        with _reading(self.path, f": error bars. 'hkflow errors {self.path}' makes them again"):
            return read_errors(self._place.there(), self.time, self.scaled_predictions.shape[1:])

    @cached_property
    def repeats(self) -> Repeats | None:
        """Networks of other random starts, read when they are first wanted; None without."""
        with _reading(self.path, f": repeats. 'hkflow resume {self.path}' makes them again"):
            return read_repeats(self._place.there(), self.time)

    @cached_property
    def max_margin(self) -> MaxMargin | None:  # type: ignore[override]
        """What the data allow, read when it is first wanted; None if it was not computed."""
        return read_max_margin(self._place.there(), self.scaled_predictions.shape[1:])

    def read_again(self) -> "Run":
        """The same run, with what is added to a folder after the end read from it once more."""
        other = copy(self)
        for name in ("errors", "repeats", "max_margin"):
            vars(other).pop(name, None)
        return other

    @cached_property
    def flow(self) -> Flow:
        """The flow that was followed."""
        return flow_of(self.case.flow)

    @cached_property
    def lost_feature(self) -> str:
        """As of every Result; the functions are imported."""
        try:
            if self.own.feature is not None:
                self.own.feature.check(self.name)
        except CaseError as error:
            return str(error)
        return ""

    @property
    def signal(self) -> int | None:
        """Number of the signal that interrupted the run, or None."""
        return self.end.get("signal")

    @cached_property
    def contradiction(self) -> str:
        """Which data prove by themselves that no margin is positive, a sentence; "" if none do."""
        return (found := super().contradiction) and self.header.get("contradiction", found)

    @property
    def teacher_network(self) -> tuple | None:
        """Directions and output weights of the network that made the targets; None if none did."""
        return super().teacher_network or teacher_of(self.case)

    @property
    def start(self) -> dict:
        """The keys of [initial], or what is known of the start of a problem made in Python."""
        initial = self.case.initial
        if initial.kind != "arrays":
            return initial.model_dump()
        return initial.model_dump(include={"balanced"}, exclude_none=True)

    @property
    def input_names(self) -> list[str]:
        """Names of the inputs, for axes."""
        return input_names(self.case, self.inputs.shape[1], self.preparation)

    @cached_property
    def preparation(self) -> Preparation | None:
        """What made the inputs from the columns of the data, and makes them of new ones; None where
        inputs are taken as they are."""
        with _reading(self.path):
            found = self.header.get("preparation")
            return None if found is None else Preparation.model_validate(found)

    def prepare(self, raw: Any) -> Floats:
        """As of every Result. Raises RunFolderError for a run of an earlier version, which did not
        keep how its inputs were prepared."""
        data = self.case.data
        changed = getattr(data, "standardize", False) or getattr(data, "components", None)
        if self.preparation is None and changed:
            raise RunFolderError(
                f"{self.path}: begun by a version that did not keep how raw inputs were"
                " standardized or projected. Run its case again, or prepare inputs in the same way"
                " and take predict(inputs, prepared=True)."
            )
        return super().prepare(raw)

    @cached_property
    def problem(self) -> Problem:  # type: ignore[override]  # read when it is first wanted
        """The problem that was solved, rebuilt from the stored data and mesh; it starts from the
        first save.

        Raises RunFolderError for particles and networks if there is neither a save nor a
        checkpoint.
        """
        if self.method != "grid" and not self.is_begun:
            raise RunFolderError(f"{self.path}: holds no save yet.")
        objective, exact, draw = self._objective()
        on_cells = self.method == "grid" or self.domain.fixed or self._keeps_cells
        mesh = self.mesh if on_cells else None
        start = self._start(objective)
        with _reading(self.path):
            signs = self.domain.signs
            problem = Problem(mesh, objective, self.flow, signs, start, exact, draw)
            known = {"density": self._density(objective), "prepare": self.preparation}
            test = test_objective(objective, *self._tests) if self._tests else None
            return replace(problem, **known, test=test)

    @property
    def _keeps_cells(self):
        """Whether the start is a density of cells that only the folder can tell, and was saved."""
        return self.initial is not None and len(self.time) > 0 and self.time[0] == 0.0

    def _density(self, objective):
        """The initial density at every point, or None."""
        signs = self.domain.signs
        if self._keeps_cells:
            return None
        if self.initial is not None:
            return CellDensity(self.mesh, self.initial, signs)
        if self.case.data.source == "arrays":
            return density_of(self.case, self.own, self.name)
        outputs = feature_of_data(objective).outputs
        return density_function(self.case, objective.axes, signs, outputs, self.mesh)

    def _objective(self):
        """Objective, closed-form solution and function that draws fresh data, the latter two or
        None."""
        data = self.inputs, self.targets, self.weights
        if self.case.data.source == "arrays":
            return rebuilt(self.case, self.own, data, self.flow, self.name)
        own = self.own.feature and self.own.feature.built(self.name)
        feature = own or FEATURES[self.case.objective.activation]
        objective, exact = build_objective(self.case, None, DataSet(*data), feature)
        return objective, exact, fresh_data(self.case, feature)

    def _start(self, objective):
        """The measure of the first save, without its scale if that is beyond numbers; on atoms as a
        density, and a density of cells with the atoms beside it where the folder keeps that."""
        if not self.is_begun:
            return None
        state = self._starts[0]()
        small, scale = unscaled(state)
        start = method_class(self.method).measure(small if abs(scale) > LARGEST_LOG_MASS else state)
        if self.domain.fixed and self.method != "grid":
            atoms = (
                start.atoms(objective.feature.degree or 0) if isinstance(start, Units) else start
            )
            return atoms_on_mesh(self.mesh, self.signs, atoms)
        if not self._keeps_cells:
            return start
        beside = np.arange(len(start)) >= np.count_nonzero(self.initial)
        return DensityAndAtoms(self.initial, start.part(beside))


def load(path: str | Path) -> Run:
    """Read a run folder or a results.h5. Raises RunFolderError, naming the file, if it is not
    one."""
    path = named(path)
    if path.is_dir() and (path / "snap").is_dir():
        return _load_folder(path)
    if path.is_dir() and (path / "results.h5").exists():
        path = path / "results.h5"
    if not path.is_file():
        raise RunFolderError(f"{path}: no run here. Wanted a run folder or a results.h5.")
    return _load_results(path)


def loaded(run: ResultLike) -> Result:
    """A Run or Solution as it is, or the Run of a run folder or a results.h5."""
    return run if isinstance(run, Result) else load(run)


def read_header(folder: str | Path) -> dict:
    """run.json of a folder. Raises RunFolderError if it is missing, damaged or of a newer
    format."""
    path = named(folder) / "run.json"
    if not path.exists():
        raise RunFolderError(
            f"{folder}: not a run folder, or one killed before its first save: there is no"
            f" {path.name}."
        )
    with _reading(path):
        header = _read_json(path)
        _check_format(header.get("format"), path)
        OwnFunctions.model_validate(header.get("own", {}))
        return _typed(header, HEADER)


def _check_format(number, path):
    if number not in READABLE:
        raise RunFolderError(
            f"{path}: format {number}, but this hkflow reads format {FORMAT}; use the version that"
            " wrote it."
        )


def _typed(table, types):
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


def _case_of(header, path):
    """The resolved case that a header tells of; one with functions of its own needs none of them,
    for it was resolved by them."""
    with _reading(path):
        OwnFunctions.model_validate(header.get("own", {}))
        case = parse_stored_case(header["resolved_case"], f"{path}: resolved case")
    own = case.data.source == "arrays" or case.objective.activation not in FEATURES
    return case if own else resolve(case)


def _largest(paths):
    """Bytes of the largest file, of those that are still there, and at least 1."""
    largest = 1
    for path in paths:
        with suppress(OSError):
            largest = max(largest, path.stat().st_size)
    return largest


class _Snapshots:
    """read_snapshots, which keeps what it read last of so many files; it can be pickled."""

    def __init__(self, most):
        self.most, self.read = most, lru_cache(most)(read_snapshots)

    def __call__(self, path):
        return self.read(path)

    def __reduce__(self):
        return _Snapshots, (self.most,)


def _load_folder(folder):
    place, header = Place(folder), read_header(folder)
    case, ended = _case_of(header, folder / "run.json"), _ending(folder)
    with _reading(folder / "problem.h5"), open_hdf5(folder / "problem.h5") as file:
        static, sizes = _read_static(file, case)
    states, checkpoints, times, scales, predictions, metas, damaged = ([] for _ in range(7))
    shapes: list[dict] = [{}]  # one for all saves where they are alike
    kept, paths = None, snapshot_paths(folder)
    # many saves are in one file, and all are asked for more than once
    again = _Snapshots(max(1, KEPT // _largest(paths)))
    for path in paths:
        snapshots = again(path)
        if snapshots is None and path.exists():
            damaged.append(path)
        for row, (state, prediction, meta) in enumerate(snapshots or ()):
            with _reading(path):
                check_state(state, case, sizes)
                check_array(prediction, "predictions", ("datum",), sizes)
                kept, first = state.keys() & STATE_ARRAYS.keys(), kept
                if first and kept != first:
                    raise ValueError(
                        f"its state has {', '.join(sorted(kept))}, that of others"
                        f" {', '.join(sorted(first))}"
                    )
            metas.append(meta)
            (checkpoints if meta["save"] == CHECKPOINT else states).append(
                partial(_state_in, again, place, path.name, row)
            )
            if meta["save"] != CHECKPOINT:
                times.append(meta["clock"]["time"])
                scales.append(state.get("log_scale", 0.0))
                predictions.append(prediction)
                found = {name: np.shape(value) for name, value in state.items()}
                shapes.append(shapes[-1] if found == shapes[-1] else found)
    series = {
        "time": np.array(times),
        "log_scale": np.array(scales, dtype=float),
        "predictions": np.array(predictions).reshape(
            len(times), *(sizes[name] for name in ("datum", "class") if name in sizes)
        ),
        "states": states,
        "shapes": shapes[1:],
        "checkpoints": checkpoints,
        "missing": missing_saves(folder, metas, damaged) or _damaged(folder, damaged),
    }
    end = ended or {
        "status": (
            f"Not finished: {len(times)} saves so far. Continue with 'hkflow resume {folder}'."
        ),
        "finished": False,
    }
    end["status"] += f" {series['missing']}" if series["missing"] else ""
    return Run(folder, header, static, series, read_records(folder / "records.jsonl", case), end)


def _ending(folder):
    """How the run in a folder ended, None if it has not; asked for before its saves, which are all
    there then."""
    if not (folder / "status.json").exists():
        return None
    remedy = f"; without it, 'hkflow resume {folder}' finishes the run"
    with _reading(folder / "status.json", remedy):
        return _checked_end(_read_json(folder / "status.json"))


def _damaged(folder, paths):
    """A sentence on damaged files of snapshots, None if there are none."""
    names = ", ".join(map(str, paths))
    return f"{names}: damaged. 'hkflow resume {folder}' computes it again." if paths else None


def read_history(path: Path, inputs: Floats) -> History | None:
    """The History in a run folder or a results.h5, None if there is none; rows that a crash cut
    short are left out."""
    if path.is_dir():
        file = path / "history.bin"
        if not file.exists():
            return None
        with _reading(file):
            width, whole = ASIDE + len(inputs), size_of(file, largest=np.inf)
            content = file.read_bytes()[: whole // (8 * width) * 8 * width]
            rows = np.frombuffer(content, "<f8").reshape(-1, width)
            if not np.isfinite(rows).all():
                raise ValueError("holds numbers that are not finite")
            return History(rows)
    with _reading(path), open_hdf5(path) as file:
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
        with _reading(file, "; the run is whole without it: remove it"):
            return of_json(_read_json(file), sizes)
    with _reading(path), open_hdf5(path) as file:
        if "max_margin" not in file:
            return None
        group = find(file, "max_margin")
        return of_arrays(read_arrays(group, MAX_MARGIN, dict(sizes)), sizes)


def _state_in(read, place, name, row):
    """A state in a file of snapshots. Raises RunFolderError if the file is damaged, or gone by
    now."""
    path = place.there() / "snap" / name
    snapshots = read(path)
    if snapshots is None:
        raise RunFolderError(f"{path}: damaged, or no longer there.")
    state = snapshots[row][0]  # which `read` keeps, so that the caller gets a copy
    return {
        name: np.array(value) if isinstance(value, np.ndarray) else value
        for name, value in state.items()
    }


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
    with _reading(path):
        rows = [parse_json(line) for line in read_text(path).split("\n")[:-1]]
        # a record is not in rows of a session that had no function for it
        records = {
            name: [row[name] if name in NEEDED else row.get(name, np.nan) for row in rows]
            for name in dict.fromkeys(chain.from_iterable(rows))
        }
        return _checked_records(
            {name: np.array(values, dtype=float) for name, values in records.items()}, case
        )


def _checked_records(records, case):
    """Records that have the names that all runs have; those of later versions are nan."""
    sizes = {}
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


def _checked_end(end):
    """How a run ended, with the types that are wanted."""
    work = dict.fromkeys(WORK, int | float) if any(name in end for name in WORK) else {}
    return _typed({"signal": None} | end, ENDING | {"signal": int | None} | work)


def read_ending(path: Path, names: Iterable[str]) -> tuple[dict[str, Floats], dict]:
    """Records of a results.h5 of these names, as far as they are there, with their unit
    `log_scale`; and how its run ended. Nothing else of it is read."""
    with _opened_results(path) as file:
        records = find(file, "records", h5py.Group)
        there = dict.fromkeys(["log_scale", *(n for n in names if n in records)], ("record",))
        return read_arrays(records, there), _end_of(file)


@contextmanager
def _opened_results(path):
    with _reading(path), open_hdf5(path) as file:
        if "format" not in file.attrs:
            raise RunFolderError(f"{path}: an HDF5 file, but not a results file of hkflow.")
        _check_format(int(file.attrs["format"]), path)
        yield file


def _end_of(file):
    end = {"status": file.attrs["status"], "finished": bool(file.attrs["finished"])}
    work = {name: file.attrs[name].item() for name in WORK if name in file.attrs}
    return _checked_end(end | work)


def _load_results(path):
    with _opened_results(path) as file:
        header = _typed(parse_json(file.attrs["header"]), HEADER)
        case = _case_of(header, path)
        static, sizes = _read_static(file, case)
        wanted = {"time": ("time",), "predictions": ("time", "datum")} | (
            {"log_scale": ("time",)} if "log_scale" in file else {}
        )
        series = {"log_scale": np.zeros(file["time"].shape)} | read_arrays(file, wanted, sizes)
        rows = _saves_together(file)
        # those who look at one save often look at the next
        block = lru_cache(2)(partial(_read_states, path, rows))
        series["states"] = [
            partial(_state_of_block, path, block, rows, k, case, sizes)
            for k in range(sizes["time"])
        ]
        for name, dimensions in STATE_ARRAYS.items():
            if name in file:
                check_array(find(file, name), name, ("time", *dimensions), sizes)
        records = _checked_records(read_arrays(find(file, "records")), case)
        return Run(path, header, static, series, records, _end_of(file))


def _saves_together(file):
    """How many saves of a results file are read at a time."""
    found = [find(file, name) for name in STATE_ARRAYS if name in file]
    return max(1, TOGETHER // (1 + sum(a.dtype.itemsize * prod(a.shape[1:]) for a in found)))


def _read_states(path, rows, block):
    """What a results file keeps of the states of so many saves, one after the other: all that makes
    the measure, not what only resuming needs; arrays (save, …)."""
    with open_hdf5(path) as file:
        names, saves = [*STATE_ARRAYS, "count"], slice(block * rows, (block + 1) * rows)
        return {name: read(find(file, name), saves) for name in names if name in file}


def _state_of_block(path, read_block, rows, save, case, sizes):
    """The state at a save of a results file, a copy."""
    block, row = divmod(save, rows)
    with _reading(path):
        state = {name: array[row].copy() for name, array in read_block(block).items()}
        if "count" in state:
            count = int(state.pop("count"))
            state = {
                name: array[:count] if STATE_ARRAYS[name][:1] in COUNTED else array
                for name, array in state.items()
            }
        check_state(
            state, case, {name: size for name, size in sizes.items() if (name,) not in COUNTED}
        )
        return state


def _read_static(file, case):
    """Case, data, signs and mesh of a run, and the sizes of their dimensions. Raises ValueError if
    they do not fit together."""
    sizes = {}
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
    mesh = mesh and Mesh(file.attrs["mesh"], **mesh)
    static = {"case": case, "domain": domain, "mesh": mesh, "data": data, "sign": sign}
    return static | {"initial": initial}, sizes


def _read_json(path):
    """A table of a JSON file. Raises ValueError if it holds something else."""
    content = parse_json(read_text(path))
    if not isinstance(content, dict):
        raise ValueError("not a table")
    return content


@contextmanager
def _reading(path, remedy=""):
    """Turn whatever a damaged file makes libraries say into a RunFolderError that names it."""
    try:
        yield
    except DAMAGE as error:
        reason = getattr(error, "strerror", None) or str(error).strip() or type(error).__name__
        raise RunFolderError(f"{path}: damaged ({reason}){remedy}.") from error
