"""Two runs of one problem, compared at the times that both saved: their predictions, objectives,
masses and measures."""

from dataclasses import dataclass
from html import escape
from importlib.util import find_spec
from textwrap import shorten

import numpy as np
from numpy.typing import NDArray

from ..errors import CaseError
from ..measures import distances as metrics
from ..problem.flow import RATES, VaryingRate
from ..running.progress import counted
from ..solving.restart import DATA, SAME_DATA
from ..solving.result import Result, ResultLike
from ..store.run import loaded

SAME_TIME = 1e-9  # of the longer run
SAME_MASS = 1e-6  # of the larger one
PLAN_TIMES = 9  # at most: W2 and GHK are computed at so many of the common times
TEST_POINTS = {1: 200, 2: 40}  # by number of inputs: points along each axis
FRAME = 0.08  # of the extent of the data: how far grids and pictures reach beyond them
GAUSSIAN_POINTS = 1000
POPULATION_FRAME = 2.5  # standard deviations of Gaussian inputs that grids and maps cover


# Distances by the names they are shown with; W1 is cheap and computed at all times.
DISTANCES = {
    "W1": metrics.wasserstein1,
    "W2": metrics.wasserstein2,
    "GHK": metrics.gaussian_hellinger_kantorovich,
}


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """What `compare` found at n common save times.

    a, b : the runs;  saves : (n, 2) their saves;  time : (n,);  test_inputs : (n_test, dim)
    data_max, data_rms, test_max, test_rms : (n,) of h_A − h_B on the data, nan if there are none,
        and on test_inputs, nan for energies without data, which predict nothing
    objective, mass : (n, 2) of both;  moment : (n,) |∫ε θ dν_A − ∫ε θ dν_B|
    chosen : (k,) indices of the times that the table shows and that W2 and GHK are computed at
    distances : by name, those of W1, W2 and GHK that there are: (n, 2) values and error bars, nan
        where not computed
    density : (n,) ∫|ν_A − ν_B| of the parts that are densities, averaged over the cells of the
        coarser grid;  captured : (n, 2) masses of the parts that are not, of both. nan where not
        computed, all of them unless one run is a grid and both have densities
    notes : sentences on what else is not the same
    """

    a: Result
    b: Result
    saves: np.ndarray
    time: np.ndarray
    test_inputs: np.ndarray
    data_max: np.ndarray
    data_rms: np.ndarray
    test_max: np.ndarray
    test_rms: np.ndarray
    objective: np.ndarray
    mass: np.ndarray
    moment: np.ndarray
    chosen: np.ndarray
    distances: dict
    density: np.ndarray
    captured: np.ndarray
    notes: tuple

    def __repr__(self):
        return f"<Comparison of {self.a.name} and {self.b.name} at {len(self.time)} save times>"

    def _repr_html_(self):
        return f"<pre>{escape(str(self))}</pre>"

    def __str__(self):
        return table(self)


def compare(a: ResultLike, b: ResultLike, quiet: bool = True) -> Comparison:
    """Compare two runs of the same problem, by whatever methods; a, b : Run, Solution, run folder
    or results.h5;  quiet : False shows how many saves are compared.

    Measures are compared by W1 on the circle, W2 (needs POT: pip install 'hkflow[ot]') and GHK; see
    `metrics`.
    Raises CaseError, saying what differs, if the problems are not the same or no save time is
    common, and if the mass of a run is beyond numbers at one of the common times.
    """
    a, b = loaded(a), loaded(b)
    check_same_problem(a, b)
    saves, test = common_saves(a, b), make_test_inputs(a.inputs)
    chosen = np.unique(np.rint(np.linspace(0, len(saves) - 1, PLAN_TIMES)).astype(int))
    there = {"W1": a.domain.ordered, "W2": has_pot(), "GHK": True}
    distances = {name: np.full((len(saves), 2), np.nan) for name in DISTANCES if there[name]}
    rows, mesh = [], _common_mesh(a, b)
    density, captured = np.full(len(saves), np.nan), np.full((len(saves), 2), np.nan)
    with counted("comparing saves", quiet) as watch:
        for k, pair in enumerate(saves):
            atoms = [_atoms(run, save) for run, save in zip((a, b), pair, strict=True)]
            rows.append(_row((a, b), pair, atoms, test))
            for name, values in distances.items():
                if name == "W1" or k in chosen:
                    values[k] = DISTANCES[name](*atoms)
            if mesh is not None and k in chosen:
                density[k], captured[k] = _by_parts((a, b), pair, mesh)
            if watch:
                watch(k + 1, len(saves))
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return Comparison(
        a,
        b,
        saves,
        a.time[saves[:, 0]],
        test,
        chosen=chosen,
        distances=distances,
        density=density,
        captured=captured,
        notes=tuple(_notes(a, b)),
        **columns,
    )


def has_pot() -> bool:
    """Whether the optional package POT is there."""
    return find_spec("ot") is not None


def _atoms(run, save):
    """The measure at a save. Raises CaseError if its mass is beyond numbers."""
    try:
        return run.atoms_at(save)
    except ValueError as error:
        raise CaseError(f"{run.name}: runs are compared up to a mass of e^600. {error}") from error


def _common_mesh(a, b):
    """The mesh on which densities of two runs are compared, that of the coarser grid; None if none
    is a grid, or one has no density that is known there."""
    grids = [run.mesh for run in (a, b) if run.method == "grid"]
    if not grids or not a.domain.in_space or not (a.has_density and b.has_density):
        return None
    return min(grids, key=lambda mesh: mesh.n_cells)


def _by_parts(runs, saves, mesh):
    """∫|ν_A − ν_B| of the densities on a mesh, and what both have captured, (2,)."""
    pairs = list(zip(runs, saves, strict=True))
    one, other = (run.density_on(mesh, save) for run, save in pairs)
    apart = (np.abs(one - other) @ mesh.volumes).sum()
    return apart, [run.captured_at(save).mass for run, save in pairs]


def _row(runs, saves, atoms, test):
    """The numbers of one common time, by name."""
    data = runs[0].predictions[saves[0]] - runs[1].predictions[saves[1]]
    new = np.zeros(0)
    if runs[0].predicts:
        first, second = (
            run.predict(test, save, prepared=True) for run, save in zip(runs, saves, strict=True)
        )
        new = first - second
    return {
        "data_max": np.abs(data).max() if len(data) else np.nan,
        "data_rms": np.sqrt(np.mean(data**2)) if len(data) else np.nan,
        "test_max": np.abs(new).max() if len(new) else np.nan,
        "test_rms": np.sqrt(np.mean(new**2)) if len(new) else np.nan,
        "objective": [run.objective_at(save) for run, save in zip(runs, saves, strict=True)],
        "mass": [one.mass for one in atoms],
        "moment": np.linalg.norm(atoms[0].moment() - atoms[1].moment()),
    }


# --- what can be compared


def check_same_problem(a: Result, b: Result) -> None:
    """Raise CaseError with all that differs between two runs' objectives, domains, flows and
    data."""
    first, second = _statement(a), _statement(b)
    if not (_in_the_family(a) and _in_the_family(b)):
        first = {name: words for name, words in first.items() if not name.startswith("flow.")}
    faults = [
        f"{name} is {first[name]} in the first and {second[name]} in the second"
        for name in first
        if first[name] != second[name]
    ]
    faults = faults or [fault for name in DATA for fault in _different_row(name, a, b)]
    if faults:
        raise CaseError(
            f"{a.name} and {b.name} are not runs of the same problem: {'; '.join(faults)}."
        )


def _statement(run):
    """What two runs must share besides the numbers of the data, in words, by name."""
    objective, flow = run.problem.objective, run.flow
    terms = [getattr(objective, name, ()) for name in ("external", "interactions")]
    statement = {
        "the data": _data_in_words(run),
        "activation": f"'{objective.feature.name}'",
        "bias": str(run.bias).lower(),
        "loss": f"'{objective.risk.name}'",
        "weight_decay": f"{objective.weight_decay:.12g}",
        "entropy": f"{objective.entropy:.12g}",
        "the domain": f"'{run.domain.kind}'",
        "energy": ", ".join(repr(term) for some in terms for term in some) or "none",
        "flow.depth": f"{flow.depth:.12g}",
        "flow.time_variable": f"'{flow.time_variable}'",
        # the normalised flow of ν is the flow of ν itself, seen through ν/|ν|
        "flow.drive": f"'{flow.drive or 'measure'}'",
    }
    return statement | {f"flow.{name}": _rate_in_words(getattr(flow, name)) for name in RATES}


def _rate_in_words(rate):
    if not isinstance(rate, VaryingRate):
        return f"{rate:.12g}"
    named = getattr(rate.rule, "__qualname__", None)  # of a function
    return named or repr(rate.rule)


def _data_in_words(run):
    """Number and dimension of the data, or of the teacher's units if there is a population
    instead."""
    teacher = getattr(run.problem.objective, "teacher", None)
    if teacher is None:
        return f"{len(run.inputs)} x {run.inputs.shape[1]}"
    return f"a population of {run.inputs.shape[1]} inputs with a teacher of {len(teacher)} units"


def _in_the_family(run):
    """Whether a run follows a flow of the family: a network does that is balanced and trains more
    than its output weights."""
    if run.method != "network":
        return True
    balanced = run.problem.objective.feature.degree == 2 or _is_balanced(run)
    return run.options.get("layers") != "output" and balanced


def _is_balanced(run):
    """Whether a network starts from |a_j| = |b_j|: as its case says, or by its units."""
    drawn = run.options.get("points") == "gaussian"
    return run.start.get("balanced", run.options.get("balance", 1.0) == 1.0 and not drawn)


def _different_row(name, a, b):
    """A sentence on the first row in which arrays differ, if there is one."""
    x, y = (getattr(run, name, getattr(run.problem.objective, name, np.zeros(0))) for run in (a, b))
    differ = np.abs(x - y) > SAME_DATA * np.abs(x).max(initial=0.0)
    if differ.any():
        row = int(np.argmax(differ.reshape(len(x), -1).any(axis=1)))
        called = "unit" if name.startswith("teacher") else "datum"
        yield (
            f"{name} of {called} {row} are {_numbers(x[row])} in the first and"
            f" {_numbers(y[row])} in the second"
        )


def _numbers(values):
    return ", ".join(f"{value:.6g}" for value in np.atleast_1d(values)[:4]) + (
        ", …" if np.size(values) > 4 else ""
    )


def common_saves(a: Result, b: Result) -> NDArray[np.int64]:
    """Indices of the saves of a and b at times that both saved, (n, 2). Raises CaseError if there
    are none."""
    for run in (a, b):
        if len(run.time) == 0:
            raise CaseError(f"{run.name}: holds no save yet, so there is nothing to compare.")
    apart = np.abs(a.time[:, None] - b.time)
    saves = np.argwhere(apart <= SAME_TIME * max(a.time[-1], b.time[-1]))
    if len(saves) == 0:
        ranges = " and ".join(
            f"{run.name} has {len(run.time)} from t = {run.time[0]:g} to {run.time[-1]:g}"
            for run in (a, b)
        )
        raise CaseError(f"No save time is common: {ranges}. Give both the same list in time.saves.")
    return saves


def frame(values: NDArray[np.float64], share: float = FRAME) -> tuple[float, float]:
    """The interval of values, and a share of it more on both sides."""
    low, high = float(values.min()), float(values.max())
    edge = share * (high - low) or 1.0
    return low - edge, high + edge


def frames(inputs: NDArray[np.float64]) -> list[tuple[float, float]]:
    """What pictures show along each input (n, dim): the frame of the data, and without data that of
    Gaussian inputs."""
    if len(inputs):
        return [frame(column) for column in inputs.T]
    return [(-POPULATION_FRAME, POPULATION_FRAME)] * inputs.shape[1]


def make_test_inputs(inputs: NDArray[np.float64]) -> NDArray[np.float64]:
    """New inputs to compare predictions on, (n, dim): an even grid over the frame of one or two
    inputs, or Gaussian draws.

    The draws have the mean and the covariance of the data and are the same in every comparison.
    Without data, for a population, both are made for standard Gaussian inputs.
    """
    count, size = inputs.shape
    if size in TEST_POINTS:
        seen = (
            inputs if count else np.array([[-POPULATION_FRAME], [POPULATION_FRAME]]) * np.ones(size)
        )
        axes = [np.linspace(*frame(column), TEST_POINTS[size]) for column in seen.T]
        return np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, size)
    mean = inputs.mean(axis=0) if count else np.zeros(size)
    covariance = (inputs - mean).T @ (inputs - mean) / count if count else np.eye(size)
    values, vectors = np.linalg.eigh(covariance)
    spread = vectors * np.sqrt(np.maximum(values, 0.0))
    return mean + np.random.default_rng(0).standard_normal((GAUSSIAN_POINTS, size)) @ spread.T


def _notes(a, b):
    """Sentences on what the check of the problem lets pass."""
    x, y = a.start, b.start
    for key in [key for key in x if key in y and x[key] != y[key]]:
        first, second = (shorten(str(table[key]), 40, placeholder=" …") for table in (x, y))
        yield f"The starts differ: initial.{key} is {first} for A and {second} for B."
    masses = [_atoms(run, 0).mass for run in (a, b)]
    if (
        len({x.get("mass"), y.get("mass")} - {None}) < 2
        and a.time[0] == b.time[0]
        and abs(masses[0] - masses[1]) > SAME_MASS * max(masses)
    ):
        yield f"The starts differ: the mass is {masses[0]:.6g} for A and {masses[1]:.6g} for B."
    for name, run in (("A", a), ("B", b)):
        if not _in_the_family(run):
            yield (
                f"{name} is a network that is not balanced or trains its output weights alone: no"
                " flow of the family."
            )
        if not run.finished:
            yield f"{name}: {run.status}"
    yield from _within_bars(a, b)


def _within_bars(a, b):
    """Whether the predictions at the last common time differ by more than error bars explain, a
    sentence; nothing unless both have bars in space: units or points that are the measure have
    none."""
    for run in (a, b):
        bars = run.errors
        if bars is None or bars.normalised or "predictions" not in bars.bars:
            return
        if not bars.bars["predictions"].space.any():
            return
    first, second = common_saves(a, b)[-1]
    apart = np.sqrt(np.mean((a.predictions[first] - b.predictions[second]) ** 2))
    together = a.errors["predictions"][first] + b.errors["predictions"][second]
    yield (
        f"At t = {a.time[first]:g} predictions differ by {apart:.2e} (RMS),"
        f" {'within' if apart <= together else 'outside'} the error bars of A and B together,"
        f" {together:.2e}."
    )


# --- in words


def described(run: Result) -> str:
    """What carries a run's measure, in words."""
    if run.mesh and run.domain.fixed:
        return f"{run.method} on {run.mesh.n_cells} atoms, {len(run.signs)} output sign(s)"
    if run.mesh and run.method == "grid":
        return f"grid of {run.mesh.n_cells} cells on S^{run.dim}, {len(run.signs)} output sign(s)"
    count = len(run.atoms_at(len(run.time) - 1, normalised=True)) if len(run.time) else "no saved"
    if run.method != "network":
        moved = " moved along characteristics" if run.method == "characteristics" else ""
        return f"cloud of {count} particles{moved} on S^{run.dim}"
    return (
        f"network of {count} units, layers '{run.options.get('layers', 'both')}', training"
        f" '{run.options.get('training', 'gradient-flow')}'"
    )


def table(c: Comparison) -> str:
    """A Comparison as text, at most 100 columns wide but for paths and statuses."""
    lines = [f"{name}  {run.name}\n   {described(run)}" for name, run in (("A", c.a), ("B", c.b))]
    shown = "all" if len(c.chosen) == len(c.time) else f"{len(c.chosen)} of"
    times = "save time" if len(c.time) == 1 else "save times"
    lines += [
        f"Shown: {shown} {len(c.time)} common {times}, t = {c.time[0]:g} to {c.time[-1]:g}.",
        *c.notes,
        "",
    ]
    lines += _difference_table(c) + [""] + _value_table(c) + [""]
    data = f"the {len(c.a.targets)} data and on " if len(c.a.targets) else ""
    h = f"h: predictions on {data}{len(c.test_inputs)} new inputs; " if c.a.predicts else ""
    lines.append(f"{h}moment: |∫εθ dν_A - ∫εθ dν_B|.")
    lines += [LEGENDS[name] for name in c.distances]
    if not np.isnan(c.density).all():
        lines.append(DENSITY_LEGEND)
    grids = [run for run in (c.a, c.b) if run.method == "grid" and not run.domain.fixed]
    widths = [run.mesh.width for run in grids if run.mesh]
    if widths:
        lines.append(
            "Cells count as atoms at their centres, which alone makes W1 and W2 about h/4, h ="
            f" {max(widths):.2g} their width."
        )
    if any(np.nanmax(values[:, 1], initial=0.0) > 0.0 for values in c.distances.values()):
        lines.append(
            f"±: at most, from gathering more than {metrics.W2_ATOMS} (GHK: {metrics.GHK_ATOMS}) "
            "atoms per sign, and from rounding."
        )
    if any(np.isnan(values[c.chosen]).any() for values in c.distances.values()):
        lines.append(
            "-: a sheet of one sign is empty in one of the two, so that W1 and W2 mean nothing."
        )
    if "W2" not in c.distances:
        lines.append("W2 is left out; it needs POT: pip install 'hkflow[ot]'.")
    return "\n".join(lines)


LEGENDS = {
    "W1": (
        "W1: Wasserstein-1 between sheets (of one sign) scaled to mass 1, averaged by mass, in"
        " radians."
    ),
    "W2": (
        "W2: Wasserstein-2 between sheets (of one sign) scaled to mass 1, averaged by mass, in"
        " radians."
    ),
    "GHK": "GHK: Gaussian-Hellinger-Kantorovich distance of the measures with their masses.",
}


DENSITY_LEGEND = (
    "L1: ∫|ν_A - ν_B| of the densities on the cells of the coarser grid, captured atoms apart."
)


def _difference_table(c):
    """One line per chosen time below a heading; of predictions only where there are some."""
    width = {"W1": 8, "W2": 17, "GHK": 17}
    top = f"{'':9} {'|h_A - h_B|, data':>17} {'|h_A - h_B|, new':>17} {'':8}"
    norms, columns = f"{'max':>8} {'RMS':>8} ", [c.data_max, c.data_rms, c.test_max, c.test_rms]
    if not c.a.predicts:
        top, norms, columns = "", "", []
    head = f"{'t':>9} {norms}{norms}{'moment':>8}"
    lines = [top] if top else []
    lines.append(head + "".join(f" {name:>{width[name]}}" for name in c.distances))
    for k in c.chosen:
        numbers = [column[k] for column in (*columns, c.moment)]
        line = f"{c.time[k]:9.5g} " + " ".join(f"{_number(number):>8}" for number in numbers)
        lines.append(
            line
            + "".join(
                f" {_with_bar(*values[k]):>{width[name]}}" for name, values in c.distances.items()
            )
        )
    return lines


def _number(value):
    """A number, or a dash for one that there is not."""
    return "-" if np.isnan(value) else f"{value:.2e}"


def _with_bar(value, bar):
    """A distance and its bar."""
    return _number(value) + (f" ± {bar:.0e}" if bar > 0.0 else "")


def _value_table(c):
    """Objectives and masses at the chosen times, and densities and captured masses if there are
    any."""
    by_parts = not np.isnan(c.density).all()
    head = f"{'t':>9} {'objective A':>15} {'objective B':>15} {'mass A':>15} {'mass B':>15}"
    lines = [head + (f" {'L1':>8} {'captured A, B':>17}" if by_parts else "")]
    for k in c.chosen:
        line = f"{c.time[k]:9.5g} "
        line += " ".join(f"{number:15.8g}" for number in (*c.objective[k], *c.mass[k]))
        parts = (c.density[k], *c.captured[k])
        lines.append(line + ("".join(f" {_number(one):>8}" for one in parts) if by_parts else ""))
    return lines
