"""Runs read back: from a run folder or from a results.h5 alike."""

import json
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import h5py
import numpy as np

from ..case.build import build_objective, flow_of, fresh_data, resolve, signs_of
from ..case.load import parse_case
from ..errors import RunFolderError
from ..meshes.mesh import Mesh
from ..objectives.data import with_bias
from ..problem import Problem
from ..time_loop import METHODS
from .files import read_arrays
from .run_folder import FORMAT, read_snapshot


# What makes the measure in a state, with the dimensions of each array at one save.
STATE_ARRAYS = {
    "density": ("sign", "cell"),
    "log_scale": (),
    "residuals": ("datum",),
    "positions": ("particle", "axis"),
    "signs": ("particle",),
    "log_weights": ("particle",),
    "hidden": ("unit", "axis"),
    "output": ("unit",),
    "inner": ("unit",),
}


class Run:
    """A finished or unfinished run.

    path : the folder or file it was read from;  header : case as given and as resolved, versions, seed, threads, commit
    mesh : Mesh, or None;  signs : (n_signs,) of the domain;  inputs (n_data, dim), targets, weights (n_data,) : the data, bias
    not included;  time : (n_saves,);  predictions : (n_saves, n_data);  records : dict of (n_records,) arrays
    status : one sentence;  finished : bool
    """

    def __init__(self, path, header, static, series, records, end):
        self.path, self.header, self.records, self.end = path, header, records, end
        self.status, self.finished = end["status"], end["finished"]
        self.mesh, self.signs = static["mesh"], static["sign"]
        self.inputs, self.targets, self.weights = (static["data"][name] for name in ("inputs", "targets", "weights"))
        self.time, self.predictions, self._states = (series[name] for name in ("time", "predictions", "states"))
        self._starts = self._states or series.get("checkpoints", [])

    def state_at(self, save):
        """The method's state at one save, a dictionary, read when asked for."""
        return self._states[save]()

    def atoms_at(self, save):
        """The measure at one save as atoms: cells, particles, or Π₂ of a network."""
        return replace(self.problem, initial=METHODS[self.method].measure(self.state_at(save))).atoms()

    def density_at(self, save):
        """The density of a grid at one save, (n_signs, n_cells), with ν = e^log_scale · density, read when asked for."""
        if self.method != "grid":
            raise ValueError(f"A run by method '{self.method}' has no density; take atoms_at({save}).")
        return self.state_at(save)["density"]

    @cached_property
    def density(self):
        """Densities of a grid at the saves, (n_saves, n_signs, n_cells)."""
        return np.array([self.density_at(k) for k in range(len(self.time))])

    @cached_property
    def log_scale(self):
        """Of a grid: (n_saves,)."""
        return np.array([self.state_at(k)["log_scale"] for k in range(len(self.time))])

    @property
    def mass(self):
        """Total mass at the saves, (n_saves,)."""
        return np.array([self.atoms_at(k).mass for k in range(len(self.time))])

    @cached_property
    def case(self):
        """The resolved, checked case."""
        return resolve(parse_case(self.header["resolved_case"], ".", "", source=f"{self.path}: resolved case").case)

    @property
    def method(self):
        """grid, particles or network."""
        return self.case.method.kind

    @property
    def dim(self):
        """Dimension d of the sphere."""
        return self.problem.dim

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
        joint = self.problem.objective.feature.joint
        names = [f"w{chr(0x2081 + k)}" for k in range(count)] + ["bias"] * (self.dim + 1 - count - joint)
        return names + ["output"] * joint

    def predict(self, inputs, save=-1):
        """h(x) = ∫ φ(θ, x) dν(θ) at new inputs (n, dim), without bias column, for the measure of a save. Returns (n,)."""
        objective, atoms = self.problem.objective, self.atoms_at(save)
        inputs = np.atleast_2d(np.asarray(inputs, dtype=float))
        if inputs.shape[1] != self.inputs.shape[1]:
            raise ValueError(f"Inputs need {self.inputs.shape[1]} columns, got {inputs.shape[1]}.")
        full = with_bias(inputs) if self.case.objective.bias else inputs
        out = np.zeros(len(full))
        for start in range(0, len(full), 4096):
            transform = objective.feature.transform(atoms.positions, full[start : start + 4096])
            transform.forward(atoms.signs * atoms.weights, out[start : start + 4096])
        return out

    @cached_property
    def problem(self):
        """The problem that was solved, rebuilt from the stored data and mesh; it starts from the first save.

        Raises RunFolderError for particles and networks if there is neither a save nor a checkpoint.
        """
        if self.method != "grid" and not self._starts:
            raise RunFolderError(f"{self.path}: holds no save yet.")
        objective, exact = build_objective(self.case, None, (self.inputs, self.targets, self.weights))
        flow = flow_of(self.case.flow)
        start = METHODS[self.method].measure(self._starts[0]()) if self._starts else None
        mesh = self.mesh if self.method == "grid" or self.mesh is not None and self.mesh.is_discrete else None
        return Problem(mesh, objective, flow, signs_of(self.case), start, exact, fresh_data(self.case))

    def exact_errors(self):
        """Errors against the exact solution, each (n_saves,); None without one.

        Of a grid the relative L¹ error and the maximum error over the maximum; of particles the relative error of the mass
        and the error of the first moment over its size or 1/10 of the mass, whichever is larger.
        """
        exact = self.problem.exact
        if exact is None:
            return None
        errors = []
        for save, time in enumerate(self.time):
            if self.method == "grid":
                wanted, got = exact.density(self.mesh.centers, time), np.exp(self.log_scale[save]) * self.density_at(save)[0]
                difference = np.abs(got - wanted)
                errors.append(((difference @ self.mesh.volumes) / (wanted @ self.mesh.volumes), difference.max() / wanted.max()))
            else:
                atoms, (mass, moment) = self.atoms_at(save), exact.mass_and_moment(time)
                size = max(abs(moment), 0.1 * mass)
                errors.append((abs(atoms.mass / mass - 1.0), np.linalg.norm(atoms.moment() - moment * exact.direction) / size))
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
        raise RunFolderError(
            f"{folder}: not a run folder, or one killed before its first save ({path.name}: {error})."
        ) from error
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
    paths, times, predictions, checkpoints = [], [], [], []
    for path in sorted((folder / "snap").glob("*.h5")):
        snapshot = read_snapshot(path)
        if snapshot is None:
            continue
        if snapshot[2]["save"] < 0:
            checkpoints.append(path)
            continue
        paths.append(path)
        times.append(snapshot[2]["clock"]["time"])
        predictions.append(snapshot[1])
    series = {
        "time": np.array(times),
        "predictions": np.array(predictions).reshape(len(times), len(static["data"]["targets"])),
        "states": [lambda path=path: read_snapshot(path)[0] for path in paths],
        "checkpoints": [lambda path=path: read_snapshot(path)[0] for path in checkpoints],
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
        series = {name: file[name][()] for name in ("time", "predictions")}
        series["states"] = [lambda k=k: _read_state(path, k) for k in range(len(series["time"]))]
        records, static = read_arrays(file["records"]), _read_static(file)
        return Run(
            path, header, static, series, records, {"status": file.attrs["status"], "finished": bool(file.attrs["finished"])}
        )


def _read_state(path, save):
    """What a results file keeps of a state: all that makes the measure, not what only resuming needs."""
    with h5py.File(path, "r") as file:
        state = {name: file[name][save] for name in STATE_ARRAYS if name in file}
        count = int(file["count"][save]) if "count" in file else None
    return state if count is None else {name: array[:count] for name, array in state.items()}


def _read_static(file):
    mesh = Mesh(file.attrs["mesh"], **read_arrays(file["mesh"])) if "mesh" in file else None
    return {"mesh": mesh, "data": read_arrays(file["data"]), "sign": file["sign"][()]}
