"""Runs read back: from a run folder or from a results.h5 alike."""

from collections.abc import Iterable
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import replace
from functools import cached_property, lru_cache, partial
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
from ..case.functions import OwnFunctions
from ..case.preparation import Preparation
from ..case.resolve import flow_of
from ..case.schema.initial import GIVEN
from ..certificates.margin import MaxMargin
from ..errors import CaseError, RunFolderError
from ..files.reading import TEST, check_array, find, open_hdf5, read, read_arrays
from ..files.userfiles import named, parse_json
from ..measures.initial import CellDensity, PointsInCells, atoms_on_mesh
from ..measures.point_measure import DensityAndAtoms, Units
from ..methods.characteristics.history import History
from ..methods.choice import method_class
from ..objectives.activations import FEATURES
from ..objectives.protocol import feature_of_data
from ..problem.flow import Flow
from ..problem.problem import Problem
from ..shown import as_typed
from ..solving.predicting import LARGEST_LOG_MASS, unscaled
from ..solving.result import Result, ResultLike
from .contents import (
    COUNTED,
    HEADER,
    STATE_ARRAYS,
    WORK,
    case_of,
    check_format,
    check_state,
    checked_end,
    checked_records,
    ending,
    read_header,
    read_history,
    read_max_margin,
    read_records,
    read_static,
    reading,
    typed,
)
from .estimates import read_errors, read_repeats
from .place import Place
from .run_folder import POINTS
from .snapshots import CHECKPOINT, missing_saves, read_snapshots, snapshot_paths

KEPT = 2**26  # bytes of snapshots that a Run keeps in memory, or one file of them
TOGETHER = 2**18  # bytes of states that are read at a time from a results.h5, or one state


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
        if self.case.initial.kind in GIVEN and self.options.get("points") == "random":
            self.options["points"] = None  # which are given, and so not drawn
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
        with reading(
            self.path, f": error bars. 'hkflow errors {as_typed(self.path)}' makes them again"
        ):
            return read_errors(self._place.there(), self.time, self.scaled_predictions.shape[1:])

    @cached_property
    def repeats(self) -> Repeats | None:
        """Networks of other random starts, read when they are first wanted; None without."""
        with reading(
            self.path, f": repeats. 'hkflow resume {as_typed(self.path)}' makes them again"
        ):
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
        with reading(self.path):
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
        with reading(self.path):
            signs = self.domain.signs
            problem = Problem(mesh, objective, self.flow, signs, start, exact, draw)
            known = {"density": self._density(objective, start), "prepare": self.preparation}
            test = test_objective(objective, *self._tests) if self._tests else None
            return replace(problem, **known, test=test)

    @property
    def _keeps_cells(self):
        """Whether the start is a density of cells that only the folder can tell, and was saved."""
        return self.initial is not None and len(self.time) > 0 and self.time[0] == 0.0

    def _density(self, objective, start):
        """The initial density at every point, or None."""
        signs = self.domain.signs
        # the header of older folders does not say it
        if self.mesh is not None and POINTS in (self.header.get("start"), self.case.initial.kind):
            density = getattr(start, "density", start) if self.initial is None else self.initial
            return PointsInCells(self.mesh, density, signs)
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
        runs = path / "runs"  # as of a study
        wanted = f"Look into {runs}" if runs.is_dir() else "Wanted a run folder or a results.h5"
        raise RunFolderError(f"{path}: no run here. {wanted}.")
    with reading(path), open(path, "rb"):  # one that may not be read is no file of another kind
        is_results = h5py.is_hdf5(path)
    if not is_results:
        raise RunFolderError(
            f"{path}: does not begin as an HDF5 file does. Wanted a run folder or a results.h5."
        )
    return _load_results(path)


def loaded(run: ResultLike) -> Result:
    """A Run or Solution as it is, or the Run of a run folder or a results.h5."""
    return run if isinstance(run, Result) else load(run)


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
    case, ended = case_of(header, folder / "run.json"), ending(folder)
    with reading(folder / "problem.h5"), open_hdf5(folder / "problem.h5") as file:
        static, sizes = read_static(file, case)
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
            with reading(path):
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
            f"Not finished: {len(times)} saves so far. Continue with 'hkflow resume"
            f" {as_typed(folder)}'."
        ),
        "finished": False,
    }
    end["status"] += f" {series['missing']}" if series["missing"] else ""
    return Run(folder, header, static, series, read_records(folder / "records.jsonl", case), end)


def _damaged(folder, paths):
    """A sentence on damaged files of snapshots, None if there are none."""
    names = ", ".join(map(str, paths))
    return (
        f"{names}: damaged. 'hkflow resume {as_typed(folder)}' computes it again."
        if paths
        else None
    )


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


def read_ending(path: Path, names: Iterable[str]) -> tuple[dict[str, Floats], dict]:
    """Records of a results.h5 of these names, as far as they are there, with their unit
    `log_scale`; and how its run ended. Nothing else of it is read."""
    with _opened_results(path) as file:
        records = find(file, "records", h5py.Group)
        there = dict.fromkeys(["log_scale", *(n for n in names if n in records)], ("record",))
        return read_arrays(records, there), _end_of(file)


@contextmanager
def _opened_results(path):
    with reading(path), open_hdf5(path) as file:
        if "format" not in file.attrs:
            raise RunFolderError(f"{path}: an HDF5 file, but not a results file of hkflow.")
        check_format(int(file.attrs["format"]), path)
        yield file


def _end_of(file):
    end = {"status": file.attrs["status"], "finished": bool(file.attrs["finished"])}
    work = {name: file.attrs[name].item() for name in WORK if name in file.attrs}
    return checked_end(end | work)


def _load_results(path):
    with _opened_results(path) as file:
        header = typed(parse_json(file.attrs["header"]), HEADER)
        case = case_of(header, path)
        static, sizes = read_static(file, case)
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
        records = checked_records(read_arrays(find(file, "records")), case)
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
    with reading(path):
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
