"""What a run gave: one interface for runs in memory and runs in files."""

import os
import platform
import re
from base64 import b64encode
from functools import cache, cached_property
from html import escape
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arguments import Floats, real_array
from ..certificates.contradiction import contradiction
from ..certificates.margin import MaxMargin
from ..errors import HkflowError
from ..geometry.domain import Domain
from ..geometry.mesh import Mesh, pieces
from ..geometry.sphere import normalize
from ..geometry.transfer import transferred
from ..measures.initial import COORDINATES, CellDensity, spread_atoms
from ..measures.point_measure import PointMeasure, Units
from ..methods.choice import method_class
from ..objectives.data import axis_names, numbered, with_bias
from ..objectives.protocol import feature_of_data, prediction_shape
from ..problem.flow import Flow
from ..problem.problem import Problem
from ..shown import counted, html_table
from .predicting import LARGEST_LOG_MASS, predictions_of, test_predictions_of, unscaled
from .registry import RECORDS, are_per_mass, in_units_of_one

MAX_DRAWN = 50_000  # cells of a picture that is made in a moment
LONGEST_STEM = 60  # letters of the name of a file
PACKAGES = ("hkflow", "numpy", "scipy", "numba", "llvmlite", "h5py")


class Result:
    """What a run gave; a Solution holds it in memory, a Run reads it from files.

    problem : what was solved;  method : grid, characteristics, particles or network;  options : of
        the method, by name
    time, log_scale : (n_saves,);  scaled_predictions : (n_saves, n_data), of k outputs (n_saves,
        n_data, k), h in units of e^log_scale
    records : {name: (n_records,)}, objectives and masses in units of e^log_scale
    end : status and finished, and the work that the run took: steps, evaluations, seconds
    title : given by the user;  header : versions, …, as a run folder stores them
    path : of the folder or file that it was read from, None in memory
    history : what moved the atoms of characteristics, a History; None of other methods
    errors : ErrorBars of a run in files, or None; see hkflow.error_bars
    repeats : Repeats of a network in files that method.repeats asks for, or None
    max_margin : of the data, a MaxMargin, of runs that enclose it; else None. A run folder holds
        it, in memory it is computed when it is first wanted

    These a subclass gives, and state_at; what follows from the problem it may know by itself.
    """

    problem: Problem
    method: str
    options: dict
    time: NDArray[np.float64]
    log_scale: NDArray[np.float64]
    scaled_predictions: NDArray[np.float64]
    records: dict[str, NDArray[np.float64]]
    end: dict
    title: str
    header: dict
    path: Path | None = None
    history: Any = None
    errors: Any = None
    repeats: Any = None
    max_margin: MaxMargin | None = None

    def state_at(self, save: int) -> dict:
        """The method's state at one save: arrays and numbers by name."""
        raise NotImplementedError

    def shapes_at(self, save: int) -> dict[str, tuple[int, ...]]:
        """The shapes of what is in the state at one save, () of a number."""
        return {name: np.shape(value) for name, value in self.state_at(save).items()}

    @property
    def status(self) -> str:
        """How the run ended, one sentence."""
        return self.end["status"]

    @property
    def finished(self) -> bool:
        """Whether it reached its end."""
        return self.end["finished"]

    @property
    def name(self) -> str:
        """How messages call it: its path, or in memory its title."""
        return self.title or "solution" if self.path is None else str(self.path)

    @property
    def folder(self) -> Path:
        """Where files that are made of it lie: in the run folder, beside a results.h5, or in the
        current folder."""
        if self.path is None:
            return Path()
        return self.path if self.path.is_dir() else self.path.parent

    @property
    def stem(self) -> str:
        """How names of such files begin: as that of the run folder, or of a file that is not called
        results.h5, or in memory as the title."""
        if self.path is None:
            return re.sub(r"[^\w.-]+", "-", self.name).strip("-.")[:LONGEST_STEM] or "solution"
        lone = self.path.is_file() and self.path.name != "results.h5"
        return self.path.stem if lone else self.folder.resolve().name

    def __repr__(self):
        return f"<{self._called()}: {', '.join(self._size())}. {self.status}>"

    def _called(self):
        named = self.path is not None or self.title
        return type(self).__name__ + (f" {self.name}" if named else "")

    def _size(self):
        """What it is and how large, without reading a save."""
        cells = f" of {self.mesh.n_cells} cells" if self.method == "grid" and self.mesh else ""
        return [
            f"{self.method}{cells} on {self.domain.name}",
            f"{len(self.targets)} data",
            f"{len(self.time)} saves",
        ]

    def _repr_html_(self):
        chosen = ("objective", "mass", "margin")
        if are_per_mass(self.records):
            chosen = ("log_mass", "margin")
        last = {
            name: in_units_of_one(self.records, name)[-1]
            for name in chosen
            if len(self.records.get(name, ()))
        }
        seconds, errors = self.end.get("seconds"), self._known_errors()
        rows = {
            "case": self.title,
            "status": self.status,
            "size": ", ".join(self._size()),
            "flow": self.flow.equation,
            **{RECORDS[name].label: f"{value:.6g}" for name, value in last.items()},
            "error of predictions": errors,
            "work": ""
            if seconds is None
            else f"{counted(self.end['steps'], 'step')}, {seconds:.3g} s",
        }
        rows = {name: text for name, text in rows.items() if text}
        return html_table(self._called(), rows, self._picture())

    def _known_errors(self):
        """The error bar of the predictions at the last save in words, or ""."""
        try:
            bars = self.errors
        except HkflowError as error:
            return str(error)
        known = bars is not None and "predictions" in bars.bars
        return f"± {bars['predictions'][-1]:.1e} (RMS)" if known else ""

    def _picture(self):
        """The measure at the last save as an image in HTML; "" where it cannot be drawn, or not in
        a moment."""
        if not len(self.time) or (self.mesh is not None and self.mesh.n_cells > MAX_DRAWN):
            return ""
        import hkflow  # whose plots lie above this room

        content = BytesIO()
        try:
            hkflow.plots.draw("density", self).savefig(content, format="png", dpi=100)
        except HkflowError:
            return ""
        text = b64encode(content.getvalue()).decode()
        picture = f'<img alt="the measure at the last save" src="data:image/png;base64,{text}"/>'
        return picture + self._link()

    def _link(self):
        """To the page of `hkflow view`, where it lies beside the run; else how it is shown."""
        file = self.folder / "view.html"
        if self.path is None or not file.exists():
            return "<div><code>hkflow.page(run)</code> shows it turning and playing</div>"
        target = escape(quote(os.path.relpath(file)))
        return f'<div><a href="{target}">the page that turns and plays</a></div>'

    # --- the problem

    @cached_property
    def mesh(self) -> Mesh | None:
        """The Mesh of the problem, or None."""
        return self.problem.mesh

    @cached_property
    def signs(self) -> NDArray[np.float64]:
        """Output signs of the domain, (n_signs,)."""
        return np.array(self.problem.signs)

    @cached_property
    def bias(self) -> bool:
        """Whether a column of ones follows the inputs."""
        return has_bias(self.problem.objective.inputs)

    @cached_property
    def inputs(self) -> NDArray[np.float64]:
        """Inputs of the data, (n_data, dim), without the column of ones."""
        inputs = self.problem.objective.inputs
        return inputs[:, : inputs.shape[1] - self.bias]

    @cached_property
    def targets(self) -> NDArray[np.float64]:
        """Targets of the data, (n_data,)."""
        return self.problem.objective.targets

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """Weights of the data, (n_data,)."""
        return self.problem.objective.weights

    @cached_property
    def flow(self) -> Flow:
        """The flow that was followed."""
        return self.problem.flow

    @property
    def dim(self) -> int:
        """Dimension d of the sphere."""
        return self.problem.dim

    @cached_property
    def domain(self) -> Domain:
        """On which space the measure lives."""
        return self.problem.domain

    @property
    def classifies(self) -> bool:
        """Whether the targets are two classes, ±1."""
        return self.problem.objective.risk.classifies

    @property
    def class_names(self) -> list[str]:
        """Names of the classes 0 … k − 1 where there is an output for each; [] of other targets."""
        return self.problem.class_names

    @cached_property
    def contradiction(self) -> str:
        """Which data prove by themselves that no margin is positive, a sentence; "" if none do."""
        found = contradiction(self.problem.objective)
        return found.sentence() if found else ""

    @property
    def preparation(self) -> Any:
        """What makes inputs of raw columns, see Problem.prepare; None where they are taken as they
        are."""
        return self.problem.prepare

    @property
    def margin_share(self) -> NDArray[np.float64] | None:
        """Per cent of the max-margin that the run had reached, at least, (n_records,); None unless
        that is known to be positive."""
        found = self.max_margin
        known = found is not None and found.is_positive and "margin" in self.records
        return 100.0 * self.records["margin"] / found.upper if known else None  # type: ignore[union-attr]

    @property
    def teacher_network(self) -> tuple | None:
        """Directions (units, d+1) and output weights (units,) of the network that made the
        targets; None if none is known."""
        objective: Any = self.problem.objective
        found = getattr(objective, "teacher", None)
        return None if found is None else (found, objective.teacher_weights)

    @property
    def start(self) -> dict:
        """What is known of the initial measure: the keys of [initial] in a case file, or whether
        given units are `balanced`."""
        initial = self.problem.initial
        return {"balanced": initial.is_balanced} if isinstance(initial, Units) else {}

    @property
    def input_names(self) -> list[str]:
        """Names of the inputs, for axes."""
        return numbered("x", self.inputs.shape[1])

    @property
    def axis_names(self) -> list[str]:
        """Names of the coordinates of θ: one for each input, the bias, and the output weight; of
        energies without data as formulas have them."""
        objective = self.problem.objective
        if getattr(objective, "data", objective) is None:
            few = objective.axes <= len(COORDINATES)
            return list(COORDINATES[: objective.axes]) if few else numbered("θ", objective.axes)
        feature = objective.feature
        return axis_names(self.inputs.shape[1], self.bias, feature.joint * feature.outputs)

    # --- the measure

    def density_at(
        self,
        points: ArrayLike,
        save: int = -1,
        sign: float | None = None,
        log: bool = False,
        gathered: bool = False,
    ) -> NDArray[np.float64]:
        """The density of ν at points of the sphere, mass per unit area: (n_signs, n), or (n,) for
        one sign.

        points : (n, d+1), normalised here;  sign : an output sign, all of them if not given;  log :
            the logarithm instead, for masses beyond numbers, nan where a signed density is negative
        gathered : of very many flows of characteristics, take those that hardly differ as one, as
            pictures do: off by 0.1 %, at most some percent
        Of a grid it is that of the cell with the nearest centre. Of characteristics it is exact in
        space: each point is followed back to the start, at the cost of n points times flows (two a
        step) times kinks, and 0 where nothing comes from. What kinks have caught is no part of it,
        see `captured_at`.
        Raises ValueError for other methods, points of another dimension, and a start of
        characteristics whose density is not known (see Problem).
        """
        places = self._checked_points(points)
        signs = self.signs if sign is None else np.array([sign])
        if not np.isin(signs, self.signs).all():
            raise ValueError(f"sign must be one of {self.signs.tolist()}, got {sign}.")
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            if self.method == "grid":
                mesh: Any = self.mesh
                cells = CellDensity(mesh, self.state_at(save)["density"], self.problem.signs)
                scale, values = self.log_scale[save], np.array([cells(places, s) for s in signs])
                found = scale + np.log(values) if log else in_plain_units(values, scale)
            else:
                logs = np.array([self._log_density(places, save, s, gathered) for s in signs])
                found = logs if log else np.exp(logs)
        return found if sign is None else found[0]

    def density_on(self, mesh: Mesh, save: int = -1, log: bool = False) -> NDArray[np.float64]:
        """The averages of the density over the cells of a mesh, (n_signs, n_cells), as
        Problem.initial wants it; otherwise as `density_at`.

        Of a grid they are exact. Of characteristics each atom that is not captured spreads its mass
        over what is near it, as the density is there: together with `captured_at` that is all the
        mass, to rounding, and narrow peaks have the mass that the atoms know. Where a cell holds
        few atoms, that is off by some percent.
        Raises ValueError for what is no mesh, as `problem.mesh` of a run that starts from points.
        """
        if not isinstance(mesh, Mesh):
            raise ValueError(
                f"Densities are on a mesh, such as geodesic_mesh(4), got {mesh!r:.60}."
            )
        if self.method == "grid":
            found, scale = self._grid_density_on(mesh, save), self.log_scale[save]
        else:
            found, scale = self._spread_on(mesh, save)
        with np.errstate(divide="ignore", invalid="ignore"):
            return scale + np.log(found) if log else in_plain_units(found, scale)

    def _spread_on(self, mesh, save):
        """The density of characteristics on a mesh in units of e^s, and s."""
        self._check_has_history()
        atoms, scale, _ = self._unscaled_atoms(self.state_at(save))
        free = self.state_at(save)["captured"] == 0.0
        points, cell, volumes = pieces(mesh)
        found = []
        for sign in self.signs:
            mine = free & (atoms.signs == sign)
            with np.errstate(divide="ignore"):
                logs = self._log_density(points, save, sign) + np.log(volumes)
            nodes = atoms.positions[mine], atoms.weights[mine]
            found.append(spread_atoms(mesh, *nodes, points, cell, logs))
        return np.array(found), scale

    def _grid_density_on(self, mesh, save):
        """The density of a grid on a mesh, in units of e^log_scale."""
        own = self.mesh
        density = self.state_at(save)["density"]
        same = own.n_cells == mesh.n_cells and np.array_equal(own.centers, mesh.centers)
        return density if same else transferred(density, own, mesh)

    @property
    def has_density(self) -> bool:
        """Whether density_at knows the density."""
        known = self.method == "characteristics" and self.history is not None
        return self.method == "grid" or known and self.problem.has_density

    def _checked_points(self, points):
        points = real_array(points, "Points")
        if points.ndim != 2 or points.shape[1] != self.dim + 1 or not points.any(axis=1).all():
            raise ValueError(
                f"Points of S^{self.dim} are wanted, (n, {self.dim + 1}) and not zero, got the"
                f" shape {points.shape}. For the cells of a grid take cell_density_at(save)."
            )
        return normalize(points)

    def _log_density(self, points, save, sign, gathered=False):
        """log ν of characteristics at points of one sign, (n,); gathered : as in `flows_at`."""
        self._check_has_history()
        from ..methods.characteristics.backward import followed_back
        from ..methods.frozen_relu.kinks import Kinks

        flows, objective = self.flows_at(save, gathered), self.problem.objective
        kinks = Kinks.of(objective.feature, objective.inputs)
        origins, growth = followed_back(
            kinks, flows, self.flow, objective.weight_decay, points, sign
        )
        return growth + np.log(self.problem.initial_density(origins, sign))

    def flows_at(self, save: int, gathered: bool = False) -> Any:
        """The History of the atoms of characteristics up to a save; gathered : as pictures take it.
        Raises ValueError if it was not kept."""
        flows = int(self.state_at(save)["flows"])
        if self.history is None or len(self.history) < flows:
            raise ValueError(f"{self.name}: what moved its atoms was not kept from the start on.")
        history = self.history.part(0, flows)
        return history.gathered() if gathered else history

    def _check_has_history(self):
        if self.method != "characteristics":
            raise ValueError(
                f"A run by method '{self.method}' is made of atoms alone; take atoms_at(save), or"
                " the methods 'grid' and 'characteristics'."
            )

    def captured_at(self, save: int = -1, normalised: bool = False) -> PointMeasure:
        """The part of ν that is no density: atoms of characteristics that a kink has ever held, or
        that died on one, and atoms of a grid; normalised: of ν/|ν|.

        Raises ValueError for other methods, and as atoms_at.
        """
        atoms = self.atoms_at(save, normalised)
        if self.method == "grid":
            count = np.count_nonzero(self.state_at(save).get("atom_weights", ()))
            caught = np.arange(len(atoms)) >= len(atoms) - count
        else:
            self._check_has_history()
            caught = self.state_at(save)["captured"] > 0.0
        return atoms.part(caught)

    def cell_density_at(self, save: int) -> NDArray[np.float64]:
        """The density of a grid at one save, (n_signs, n_cells), with ν = e^log_scale · density.

        Raises ValueError for other methods.
        """
        if self.method != "grid":
            raise ValueError(
                f"A run by method '{self.method}' has no density of cells; take atoms_at({save}),"
                " or density_at(points) of characteristics."
            )
        return method_class(self.method).density(self.state_at(save), self.mesh)

    @cached_property
    def density(self) -> NDArray[np.float64]:
        """Densities of a grid at the saves, (n_saves, n_signs, n_cells), captured atoms spread over
        their cells."""
        return np.array([self.cell_density_at(k) for k in range(len(self.time))])

    def atoms_at(self, save: int, normalised: bool = False) -> PointMeasure:
        """The measure ν at one save as atoms: cells, particles, or Π₂ of a network; normalised:
        ν/|ν|, of mass 1.

        Raises ValueError if ν itself is wanted but its mass is beyond e^±600.
        """
        state = self.state_at(save)
        if normalised:
            return _of_mass_one(self._unscaled_atoms(state)[0])
        return self._plain_atoms(state, save)

    def _plain_atoms(self, state, save):
        """ν of the state at a save. Raises ValueError if its mass is beyond e^±600."""
        if abs(unscaled(state)[1]) > LARGEST_LOG_MASS:
            raise ValueError(
                f"The mass at save {save} is e^{self.log_mass_at(save):.6g}, beyond what weights"
                f" can hold: take atoms_at({save}, normalised=True) and log_mass[{save}]."
            )
        return self._atoms_of(state)

    def _atoms_of(self, state):
        return self.problem.atoms_of(method_class(self.method).measure(state))

    def _unscaled_atoms(self, state):
        """Atoms and s, of order one, with ν = e^s · atoms, and log |ν|, −inf for no mass."""
        state, scale = unscaled(state)
        atoms = self._atoms_of(state)
        log_mass = float(scale + np.log(atoms.mass)) if atoms.mass > 0.0 else -np.inf
        return atoms, scale, log_mass

    def log_mass_at(self, save: int) -> float:
        """log |ν| at one save; -inf for no mass."""
        return self._unscaled_atoms(self.state_at(save))[-1]

    @cached_property
    def log_mass(self) -> NDArray[np.float64]:
        """log |ν| at the saves, (n_saves,)."""
        return np.array([self.log_mass_at(k) for k in range(len(self.time))])

    @property
    def mass(self) -> NDArray[np.float64]:
        """Total mass |ν| at the saves, (n_saves,); inf where it is beyond numbers."""
        with np.errstate(over="ignore"):
            return np.array(
                [
                    atoms.mass * np.exp(scale)
                    for atoms, scale, _ in map(
                        self._unscaled_atoms, map(self.state_at, range(len(self.time)))
                    )
                ]
            )

    def objective_at(self, save: int, normalised: bool = False) -> float:
        """F at one save: the record of that time, or that of the atoms if there is none;
        normalised: over the mass."""
        times = self.records.get("time", np.zeros(0))
        if found := np.flatnonzero(times == self.time[save]).tolist():
            last = {name: values[found[-1]] for name, values in self.records.items()}
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                if normalised:
                    return float(last["objective"] / last["mass"])
                return float(np.exp(last["log_scale"]) * last["objective"])
        atoms, objective = self.atoms_at(save), self.problem.objective
        risk = objective.at_moving_points(atoms.positions, True).value(atoms.signs * atoms.weights)
        value = risk + objective.weight_decay * atoms.mass + self._entropy_at(save)
        return float(value / atoms.mass if normalised else value)

    def _entropy_at(self, save):
        """τ∫ν log ν at one save of a grid; points do not know it."""
        if self.method != "grid" or self.problem.objective.entropy == 0.0:
            return 0.0
        from scipy.special import xlogy

        nu = in_plain_units(self.cell_density_at(save), self.log_scale[save])
        total = float((xlogy(nu, nu) @ self.mesh.volumes).sum())
        return self.problem.objective.entropy * total

    # --- what it predicts

    @property
    def predicts(self) -> bool:
        """Whether there are targets, of data or of a population's teacher."""
        return len(self.targets) > 0 or hasattr(self.problem.objective, "teacher")

    @property
    def lost_feature(self) -> str:
        """Why nothing but the data can be predicted: a sentence on a feature of the user's that is
        not there, or not what it was; "" where there is none."""
        return ""

    @cached_property
    def predictions(self) -> NDArray[np.float64]:
        """h on the data at the saves, (n_saves, n_data), of vectors (n_saves, n_data, k); inf, with
        the sign of h, where it is beyond numbers."""
        return in_plain_units(self.scaled_predictions, self.log_scale)

    @property
    def test(self) -> Any:
        """The objective on held-out data, with their inputs, bias included, and targets; or
        None."""
        return self.problem.test

    @cached_property
    def scaled_test_predictions(self) -> NDArray[np.float64]:
        """h on the test data at the saves in units of e^log_scale, (n_saves, n_test), of vectors
        (n_saves, n_test, k)."""
        if self.test is None:
            return np.zeros((len(self.time), 0))
        measure = method_class(self.method).measure
        rows = [
            test_predictions_of(self.problem, measure, self.state_at(k), self.log_scale[k])
            for k in range(len(self.time))
        ]
        return np.array(rows).reshape(len(self.time), *prediction_shape(self.test))

    @cached_property
    def test_predictions(self) -> NDArray[np.float64]:
        """h on the test data at the saves, (n_saves, n_test), of vectors (n_saves, n_test, k)."""
        return in_plain_units(self.scaled_test_predictions, self.log_scale)

    def predict(
        self, inputs: Any, save: int = -1, normalised: bool = False, prepared: bool = False
    ) -> NDArray[np.float64]:
        """h(x) = ∫ φ(θ, x) dν(θ) at new rows (n, columns), for the measure of a save. Returns (n,),
        of vectors (n, k).

        inputs : raw, as the columns of the data are before they are encoded, scaled and projected:
            rows in the order of those columns, without the bias, or a frame that has them by name
        normalised : h/|ν|, the prediction of ν/|ν|; wanted where the mass is beyond numbers, see
            atoms_at;  prepared : inputs (n, dim) are as `self.inputs` already
        A row with a value that is missing has the prediction nan, unless the case imputes it.
        Raises ValueError for rows of another length, and for energies without data, which predict
        nothing; CaseError for cells that do not fit.
        """
        if not self.predicts:
            raise ValueError(f"{self.name}: energies without data predict nothing.")
        state = self.state_at(save)
        unscaled_atoms, _, log_mass = self._unscaled_atoms(state)
        unit = normalised or log_mass < -LARGEST_LOG_MASS  # smaller than weights can be
        atoms = _of_mass_one(unscaled_atoms) if unit else self._plain_atoms(state, save)
        feature = feature_of_data(self.problem.objective)
        inputs = np.atleast_2d(real_array(inputs, "Inputs") if prepared else self.prepare(inputs))
        without = ", without the bias" if self.bias else ""
        if inputs.ndim != 2:
            raise ValueError(
                f"Inputs must make an array of rows, (n, {self.inputs.shape[1]}){without}, got the"
                f" shape {inputs.shape}."
            )
        if inputs.shape[1] != self.inputs.shape[1]:
            raise ValueError(
                f"Inputs need {self.inputs.shape[1]} columns{without}, got {inputs.shape[1]}."
            )
        full = with_bias(inputs) if self.bias else inputs
        out = predictions_of(feature, atoms, full)
        if unit and not normalised:
            out *= np.exp(log_mass)
        out[np.isnan(inputs).any(axis=1)] = np.nan
        return out

    def prepare(self, raw: Any) -> NDArray[np.float64]:
        """Inputs (n, dim), as `self.inputs` are, of raw rows or of a frame; see `predict`."""
        made = self.preparation
        return real_array(raw, "Inputs") if made is None else made(raw)

    def exact_errors(self) -> tuple | None:
        """Errors against the exact solution, each (n_saves,); None without one.

        Of a grid the relative L¹ error and the maximum error over the maximum; of particles the
        relative error of the mass and the error of the first moment over its size or 1/10 of the
        mass, whichever is larger.
        """
        if self.problem.exact is None:
            return None
        if self.method != "grid":
            return self._moment_errors()
        return tuple(np.array([self._grid_errors(*pair) for pair in enumerate(self.time)]).T)

    def _grid_errors(self, save, time):
        wanted = self.problem.exact.density(self.mesh.centers, time)
        got = np.exp(self.log_scale[save]) * self.cell_density_at(save)[0]
        difference, volumes = np.abs(got - wanted), self.mesh.volumes
        return (difference @ volumes) / (wanted @ volumes), difference.max() / wanted.max()

    def _moment_errors(self):
        exact, atoms = self.problem.exact, [self.atoms_at(k) for k in range(len(self.time))]
        masses, moments = exact.mass_and_moment(self.time)
        got = np.array([one.moment() for one in atoms])
        off = np.linalg.norm(got - moments[:, None] * exact.direction, axis=1)
        relative = np.array([one.mass for one in atoms]) / masses - 1.0
        return np.abs(relative), off / np.maximum(np.abs(moments), 0.1 * masses)


# what functions take that want a result: itself, or the path of a run folder or a results.h5
ResultLike = Result | str | Path


def _of_mass_one(atoms):
    return atoms.scaled_to(1.0) if atoms.mass > 0.0 else atoms


def has_bias(inputs: Floats) -> bool:
    """Whether the last column of inputs (n_data, p) is one of ones, and not the only one."""
    return bool(len(inputs) and inputs.shape[1] > 1 and (inputs[:, -1] == 1.0).all())


def in_plain_units(scaled: Floats, log_scale: Any) -> Floats:
    """e^log_scale · scaled, row by row for log_scale (n,) and scaled (n, …), or for a number; inf
    with a sign where it is beyond numbers, and 0 where scaled is."""
    with np.errstate(over="ignore", invalid="ignore"):
        factors = np.exp(log_scale).reshape(-1, *[1] * (scaled.ndim - 1))
        return np.where(scaled == 0.0, 0.0, factors * scaled)


@cache
def _versions_found():
    return {name: version(name) for name in PACKAGES}


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that results depend on, by name."""
    return {"python": platform.python_version()} | _versions_found()
