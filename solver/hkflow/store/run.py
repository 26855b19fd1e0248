"""Runs read back: from a run folder or from a results.h5 alike."""

import json
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path

import h5py
import numpy as np

from ..case.build import build_objective, flow_of, fresh_data, resolve, signs_of
from ..case.load import parse_case
from ..errors import RunFolderError
from ..initial import atoms_on_mesh
from ..measures import Units
from ..meshes.mesh import Mesh
from ..objectives.data import with_bias
from ..problem import Problem
from ..time_loop import method_class
from .files import checksum, read_arrays
from .run_folder import FORMAT, read_snapshot, static_arrays

HEADER = ("case", "resolved_case", "title", "seed", "threads", "versions", "commit")  # of run.json
DAMAGE = (OSError, KeyError, ValueError, TypeError, AttributeError, IndexError, RuntimeError, EOFError)
LARGEST_LOG = 600.0  # a mass beyond e^±600 is kept apart from its measure: as a number it would soon be inf or 0

# What makes the measure in a state, with the dimensions of each array at one save.
STATE_ARRAYS = {
    "density": ("sign", "cell"),
    "log_scale": (),
    "residuals": ("datum",),
    "positions": ("particle", "axis"),
    "signs": ("particle",),
    "log_weights": ("particle",),
    "held": ("particle",),
    "hidden": ("unit", "axis"),
    "output": ("unit",),
    "inner": ("unit",),
}
WORK = ("steps", "evaluations", "seconds")  # that a run took, in its status
COUNTED = (("particle",), ("unit",))  # dimensions whose extent may differ between saves


class Run:
    """A finished or unfinished run.

    path : the folder or file it was read from;  header : case as given and as resolved, versions, seed, threads, commit
    mesh : Mesh, or None;  signs : (n_signs,) of the domain;  inputs (n_data, dim), targets, weights (n_data,) : the data, bias
    not included;  time, log_scale : (n_saves,);  scaled_predictions : (n_saves, n_data) h in units of e^log_scale
    records : dict of (n_records,) arrays, objectives and masses in units of e^log_scale
    status : one sentence;  finished : bool
    """

    def __init__(self, path, header, static, series, records, end):
        self.path, self.header, self.records, self.end = path, header, records, end
        self.status, self.finished = end["status"], end["finished"]
        self.mesh, self.signs = static["mesh"], static["sign"]
        self.inputs, self.targets, self.weights = (static["data"][name] for name in ("inputs", "targets", "weights"))
        self.time, self.scaled_predictions, self._states = (series[name] for name in ("time", "predictions", "states"))
        self.log_scale = series["log_scale"]
        self._starts = self._states or series.get("checkpoints", [])

    def state_at(self, save):
        """The method's state at one save, a dictionary, read when asked for."""
        return self._states[save]()

    def atoms_at(self, save, normalised=False):
        """The measure ν at one save as atoms: cells, particles, or Π₂ of a network; normalised: ν/|ν|, of mass 1.

        Raises ValueError if ν itself is wanted but its mass is beyond e^±600.
        """
        if normalised:
            atoms, _ = self._unscaled_atoms(save)
            return atoms.scaled_to(1.0) if atoms.mass > 0.0 else atoms
        _, scale = _unscaled(self.state_at(save))
        if abs(scale) > LARGEST_LOG:
            raise ValueError(
                f"The mass at save {save} is e^{self.log_mass_at(save):.6g}, beyond what weights can hold: take "
                f"atoms_at({save}, normalised=True) and log_mass[{save}]."
            )
        return self.problem.atoms_of(method_class(self.method).measure(self.state_at(save)))

    def _unscaled_atoms(self, save):
        """Atoms and s, of order one, with ν = e^s · atoms."""
        state, scale = _unscaled(self.state_at(save))
        return self.problem.atoms_of(method_class(self.method).measure(state)), scale

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
    def predictions(self):
        """h on the data at the saves, (n_saves, n_data); inf where it is beyond numbers."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.exp(self.log_scale)[:, None] * self.scaled_predictions

    def log_mass_at(self, save):
        """log |ν| at one save; -inf for no mass."""
        atoms, scale = self._unscaled_atoms(save)
        return float(scale + np.log(atoms.mass)) if atoms.mass > 0.0 else -np.inf

    @cached_property
    def log_mass(self):
        """log |ν| at the saves, (n_saves,)."""
        return np.array([self.log_mass_at(k) for k in range(len(self.time))])

    @property
    def mass(self):
        """Total mass |ν| at the saves, (n_saves,); inf where it is beyond numbers."""
        with np.errstate(over="ignore"):
            return np.array([atoms.mass * np.exp(scale) for atoms, scale in map(self._unscaled_atoms, range(len(self.time)))])

    @cached_property
    def case(self):
        """The resolved, checked case."""
        return resolve(parse_case(self.header["resolved_case"], ".", "", source=f"{self.path}: resolved case").case)

    @property
    def method(self):
        """grid, characteristics, particles or network."""
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

    def predict(self, inputs, save=-1, normalised=False):
        """h(x) = ∫ φ(θ, x) dν(θ) at new inputs (n, dim), without bias column, for the measure of a save. Returns (n,).

        normalised : h/|ν|, the prediction of ν/|ν|; wanted where the mass is beyond numbers, see atoms_at
        """
        objective, atoms = self.problem.objective, self.atoms_at(save, normalised)
        inputs = np.atleast_2d(np.asarray(inputs, dtype=float))
        if inputs.shape[1] != self.inputs.shape[1]:
            raise ValueError(f"Inputs need {self.inputs.shape[1]} columns, got {inputs.shape[1]}.")
        full = with_bias(inputs) if self.case.objective.bias else inputs
        out = np.zeros(len(full))
        for start in range(0, len(full), 4096):
            transform = objective.feature.transform(atoms.positions, full[start : start + 4096], "dense")
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
        mesh = self.mesh if self.method == "grid" or self.is_discrete else None
        return Problem(mesh, objective, flow, signs_of(self.case), self._start(objective), exact, fresh_data(self.case))

    def _start(self, objective):
        """The measure of the first save, without its scale if that is beyond numbers; on atoms as a density."""
        if not self._starts:
            return None
        state = self._starts[0]()
        unscaled, scale = _unscaled(state)
        start = method_class(self.method).measure(unscaled if abs(scale) > LARGEST_LOG else state)
        if self.is_discrete and self.method != "grid":
            atoms = start.atoms(objective.feature.degree or 0) if isinstance(start, Units) else start
            return atoms_on_mesh(self.mesh, self.signs, atoms)
        return start

    @property
    def is_discrete(self):
        """Whether the domain is a set of atoms."""
        return self.mesh is not None and self.mesh.is_discrete

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


def _unscaled(state):
    """A state whose measure is of order one, and s with ν = e^s · that measure."""
    if "log_weights" in state:
        scale = float(state["log_weights"].max())
        return state | {"log_weights": state["log_weights"] - scale}, scale
    return (state | {"log_scale": 0.0}, float(state["log_scale"])) if "log_scale" in state else (state, 0.0)


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
    if not path.exists():
        raise RunFolderError(f"{folder}: not a run folder, or one killed before its first save: there is no {path.name}.")
    with _reading(path):
        header = _read_json(path)
        _check_format(header.get("format"), path)
        return header | {name: header[name] for name in HEADER}


def _check_format(number, path):
    if number != FORMAT:
        raise RunFolderError(f"{path}: format {number}, but this hkflow reads format {FORMAT}; use the version that wrote it.")


def _load_folder(folder):
    header = read_header(folder)
    with _reading(folder / "problem.h5"), h5py.File(folder / "problem.h5", "r") as file:
        static = _read_static(file)
    paths, times, scales, predictions, checkpoints = [], [], [], [], []
    for path in sorted((folder / "snap").glob("*.h5")):
        snapshot = read_snapshot(path)
        if snapshot is None:
            continue
        if snapshot[2]["save"] < 0:
            checkpoints.append(path)
            continue
        paths.append(path)
        times.append(snapshot[2]["clock"]["time"])
        scales.append(snapshot[0].get("log_scale", 0.0))
        predictions.append(snapshot[1])
    series = {
        "time": np.array(times),
        "log_scale": np.array(scales, dtype=float),
        "predictions": np.array(predictions).reshape(len(times), len(static["data"]["targets"])),
        "states": [partial(_state_in, path) for path in paths],
        "checkpoints": [partial(_state_in, path) for path in checkpoints],
    }
    end = {"status": f"Not finished: {len(times)} saves so far. Continue with 'hkflow resume {folder}'.", "finished": False}
    if (folder / "status.json").exists():
        with _reading(folder / "status.json", f"; without it, 'hkflow resume {folder}' finishes the run"):
            end = _read_json(folder / "status.json")
            end |= {"status": str(end["status"]), "finished": bool(end["finished"])}
    return Run(folder, header, static, series, read_records(folder / "records.jsonl"), end)


def _state_in(path):
    """The state in a snapshot. Raises RunFolderError if it is damaged, or gone since the folder was read."""
    snapshot = read_snapshot(path)
    if snapshot is None:
        raise RunFolderError(f"{path}: damaged, or no longer there.")
    return snapshot[0]


def read_records(path):
    """Records by name, each an array; a last line that a crash cut short is left out."""
    if not path.exists():
        return {}
    with _reading(path):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
        return {name: np.array([row[name] for row in rows], dtype=float) for name in (rows[0] if rows else {})}


def _load_results(path):
    with _reading(path), h5py.File(path, "r") as file:
        if "format" not in file.attrs:
            raise RunFolderError(f"{path}: an HDF5 file, but not a results file of hkflow.")
        _check_format(int(file.attrs["format"]), path)
        header = json.loads(file.attrs["header"])
        series = {name: file[name][()].astype(float) for name in ("time", "predictions")}
        series["log_scale"] = file["log_scale"][()].astype(float) if "log_scale" in file else np.zeros(len(series["time"]))
        series["states"] = [lambda k=k: _read_state(path, k) for k in range(len(series["time"]))]
        records, static = read_arrays(file["records"]), _read_static(file)
        end = {"status": file.attrs["status"], "finished": bool(file.attrs["finished"])}
        end |= {name: file.attrs[name].item() for name in WORK if name in file.attrs}
        return Run(path, header, static, series, records, end)


def _read_state(path, save):
    """What a results file keeps of a state: all that makes the measure, not what only resuming needs."""
    with _reading(path), h5py.File(path, "r") as file:
        state = {name: np.asarray(file[name][save], dtype=float) for name in STATE_ARRAYS if name in file}
        count = int(file["count"][save]) if "count" in file else 0
        for name, array in state.items():
            if array.ndim != len(STATE_ARRAYS[name]):
                raise ValueError(f"{name} has the wrong shape")
    return {name: array[:count] if STATE_ARRAYS[name][:1] in COUNTED else array for name, array in state.items()}


def _read_static(file):
    mesh, data, sign = (read_arrays(file["mesh"]) if "mesh" in file else None), read_arrays(file["data"]), file["sign"][()]
    if checksum(static_arrays(mesh, data, sign)) != file.attrs.get("sha256"):
        raise ValueError("mesh or data are not those that were written")
    return {"mesh": mesh and Mesh(file.attrs["mesh"], **mesh), "data": data, "sign": sign}


def _read_json(path):
    """A table of a JSON file. Raises ValueError if it holds something else."""
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise ValueError("not a table")
    return content


@contextmanager
def _reading(path, remedy=""):
    """Turn whatever a damaged file makes libraries say into a RunFolderError that names it."""
    try:
        yield
    except DAMAGE as error:
        raise RunFolderError(f"{path}: damaged ({str(error).strip() or type(error).__name__}){remedy}.") from error
