"""Runs read back: from a run folder or from a results.h5 alike."""

import json
from functools import cached_property
from pathlib import Path

import h5py
import numpy as np

from ..case.build import build_objective, resolve, signs_of
from ..case.load import parse_case
from ..errors import RunFolderError
from ..flows import Flow
from ..meshes.mesh import Mesh
from ..objectives.data import with_bias
from ..problem import Problem
from .files import read_arrays
from .run_folder import FORMAT, read_snapshot


class Run:
    """A finished or unfinished run.

    path : the folder or file it was read from;  header : case as given and as resolved, versions, seed, threads, commit
    mesh : Mesh;  signs : (n_signs,);  inputs (n_data, dim), targets, weights (n_data,) : the data, bias not included
    time, log_scale : (n_saves,);  density : (n_saves, n_signs, n_cells), ν = e^log_scale · density
    predictions : (n_saves, n_data);  records : dict of (n_records,) arrays;  status : one sentence;  finished : bool
    """

    def __init__(self, path, header, static, series, records, end):
        self.path, self.header, self.records, self.end = path, header, records, end
        self.status, self.finished = end["status"], end["finished"]
        self.mesh, self.signs = static["mesh"], static["sign"]
        self.inputs, self.targets, self.weights = (static["data"][name] for name in ("inputs", "targets", "weights"))
        self.time, self.log_scale, self.predictions = (series[name] for name in ("time", "log_scale", "predictions"))
        self._densities = series["density"]

    @cached_property
    def density(self):
        """Densities at the saves, (n_saves, n_signs, n_cells)."""
        return np.array([self.density_at(k) for k in range(len(self.time))])

    def density_at(self, save):
        """The density at one save, (n_signs, n_cells), read when asked for."""
        return self._densities[save]()

    @property
    def mass(self):
        """Total mass at the saves, (n_saves,)."""
        return np.exp(self.log_scale) * (self.density @ self.mesh.volumes).sum(axis=1)

    @cached_property
    def case(self):
        """The resolved, checked case."""
        return resolve(parse_case(self.header["resolved_case"], ".", "", source=f"{self.path}: resolved case").case)

    @property
    def classifies(self):
        """Whether the targets are classes."""
        return self.problem.objective.risk.classifies

    @property
    def signal(self):
        """Number of the signal that interrupted the run, or None."""
        return self.end.get("signal")

    @property
    def input_names(self):
        """Names of the inputs, for axes."""
        names = getattr(self.case.data, "features", None)
        named = names and self.case.data.components is None
        return list(names) if named else [f"x{chr(0x2081 + k)}" for k in range(self.inputs.shape[1])]

    @property
    def axis_names(self):
        """Names of the coordinates of θ: one for each input, and the bias."""
        count = self.inputs.shape[1]
        return [f"w{chr(0x2081 + k)}" for k in range(count)] + ["bias"] * (self.mesh.dim + 1 - count)

    def predict(self, inputs, save=-1):
        """h(x) = ∫ φ(θ, x) dν(θ) at new inputs (n, dim), without bias column, for the measure of a save. Returns (n,)."""
        objective = self.problem.objective
        inputs = np.atleast_2d(np.asarray(inputs, dtype=float))
        if inputs.shape[1] != self.inputs.shape[1]:
            raise ValueError(f"Inputs need {self.inputs.shape[1]} columns, got {inputs.shape[1]}.")
        full = with_bias(inputs) if self.case.objective.bias else inputs
        weights = np.exp(self.log_scale[save]) * (self.signs @ self.density_at(save)) * self.mesh.volumes
        out = np.zeros(len(full))
        for start in range(0, len(full), 4096):
            objective.feature.transform(self.mesh.centers, full[start : start + 4096]).forward(weights, out[start : start + 4096])
        return out

    @cached_property
    def problem(self):
        """The problem that was solved, rebuilt from the stored data and mesh; it starts from the first save."""
        objective, exact = build_objective(self.case, None, (self.inputs, self.targets, self.weights))
        flow = Flow(self.case.flow.transport, self.case.flow.reaction, self.case.flow.noise)
        start = self.density_at(0) if len(self.time) else None
        return Problem(self.mesh, objective, flow, signs_of(self.case), start, exact)

    def exact_errors(self):
        """Relative L¹ error and maximum error over the maximum of the exact solution, each (n_saves,); None without one."""
        exact = self.problem.exact
        if exact is None:
            return None
        errors = []
        for save, time in enumerate(self.time):
            wanted, got = exact.density(self.mesh.centers, time), np.exp(self.log_scale[save]) * self.density_at(save)[0]
            difference = np.abs(got - wanted)
            errors.append(((difference @ self.mesh.volumes) / (wanted @ self.mesh.volumes), difference.max() / wanted.max()))
        return tuple(np.array(errors).T)


def load(path):
    """Read a run folder or a results.h5. Raises RunFolderError, naming the file, if it is not one."""
    path = Path(path)
    if path.is_dir() and (path / "snap").is_dir():
        return _load_folder(path)
    if path.is_dir() and (path / "results.h5").exists():
        path = path / "results.h5"
    if not path.is_file():
        raise RunFolderError(f"{path}: no run here. Wanted a run folder or a results.h5.")
    return _load_results(path)


def read_header(folder):
    """run.json of a folder. Raises RunFolderError if it is missing, damaged or of a newer format."""
    path = Path(folder) / "run.json"
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{folder}: not a run folder, or one killed before its first save ({path.name}: {error}).") from error
    _check_format(header.get("format"), path)
    return header


def _check_format(number, path):
    if number != FORMAT:
        raise RunFolderError(f"{path}: format {number}, but this hkflow reads format {FORMAT}; use the version that wrote it.")


def _load_folder(folder):
    header = read_header(folder)
    try:
        with h5py.File(folder / "problem.h5", "r") as file:
            static = _read_static(file)
    except (OSError, KeyError) as error:
        raise RunFolderError(f"{folder / 'problem.h5'}: damaged ({error}).") from error
    paths, times, scales, predictions = [], [], [], []
    for path in sorted((folder / "snap").glob("*.h5")):
        snapshot = read_snapshot(path)
        if snapshot is None or snapshot[2]["save"] < 0:
            continue
        arrays, scale, meta = snapshot
        paths.append(path)
        times.append(meta["clock"]["time"])
        scales.append(scale)
        predictions.append(arrays["predictions"])
    series = {
        "time": np.array(times),
        "log_scale": np.array(scales),
        "predictions": np.array(predictions).reshape(len(times), len(static["data"]["targets"])),
        "density": [lambda path=path: read_snapshot(path)[0]["density"] for path in paths],
    }
    end = {"status": f"Not finished: {len(times)} saves so far. Continue with 'hkflow resume {folder}'.", "finished": False}
    if (folder / "status.json").exists():
        end = json.loads((folder / "status.json").read_text(encoding="utf-8"))
    return Run(folder, header, static, series, read_records(folder / "records.jsonl"), end)


def read_records(path):
    """Records by name, each an array; a last line that a crash cut short is left out."""
    rows = []
    if path.exists():
        for line in path.read_text(encoding="utf-8").split("\n")[:-1]:
            rows.append(json.loads(line))
    return {name: np.array([row[name] for row in rows]) for name in (rows[0] if rows else {})}


def _load_results(path):
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise RunFolderError(f"{path}: cannot be read as HDF5 ({error}).") from error
    with file:
        if "format" not in file.attrs:
            raise RunFolderError(f"{path}: an HDF5 file, but not a results file of hkflow.")
        _check_format(int(file.attrs["format"]), path)
        header = json.loads(file.attrs["header"])
        series = {name: file[name][()] for name in ("time", "log_scale", "predictions")}
        series["density"] = [lambda k=k: _read_density(path, k) for k in range(len(series["time"]))]
        records, static = read_arrays(file["records"]), _read_static(file)
        return Run(path, header, static, series, records, {"status": file.attrs["status"], "finished": bool(file.attrs["finished"])})


def _read_density(path, save):
    with h5py.File(path, "r") as file:
        return file["density"][save]


def _read_static(file):
    mesh = Mesh(file.attrs["mesh"], **read_arrays(file["mesh"]))
    return {"mesh": mesh, "data": read_arrays(file["data"]), "sign": file["sign"][()]}
