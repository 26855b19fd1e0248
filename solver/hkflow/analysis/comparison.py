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
from ..running.progress import counted
from ..solving.result import Result, ResultLike
from ..store.run import loaded
from .comparison_table import table
from .frames import make_test_inputs
from .same_problem import check_same_problem, in_the_family

SAME_TIME = 1e-9  # of the time
SAME_MASS = 1e-6  # of the larger one
PLAN_TIMES = 9  # at most: W2 and GHK are computed at so many of the common times

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
    notes : sentences on what else is not the same, or could not be compared
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
    rows, mesh, notes = [], _common_mesh(a, b), _notes(a, b)
    density, captured = np.full(len(saves), np.nan), np.full((len(saves), 2), np.nan)
    with counted("comparing saves", quiet) as watch:
        for k, pair in enumerate(saves):
            atoms = [_atoms(run, save) for run, save in zip((a, b), pair, strict=True)]
            rows.append(_row((a, b), pair, atoms, test))
            for name, values in distances.items():
                if name == "W1" or k in chosen:
                    values[k] = DISTANCES[name](*atoms)
            if mesh is not None and k in chosen:
                try:
                    density[k], captured[k] = _by_parts((a, b), pair, mesh)
                except ArithmeticError as error:  # of a user's own meshes, overlaps are not known
                    mesh, notes = None, [*notes, f"Without L1 of the densities: {error}"]
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
        notes=tuple(notes),
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


def common_saves(a: Result, b: Result) -> NDArray[np.int64]:
    """Indices of the saves of a and b at times that both saved, (n, 2). Raises CaseError if there
    are none."""
    for run in (a, b):
        if len(run.time) == 0:
            raise CaseError(f"{run.name}: holds no save yet, so there is nothing to compare.")
    there = _nearest(a.time, b.time)
    first = np.flatnonzero(_nearest(b.time, a.time)[there] == np.arange(len(a.time)))
    second = there[first]
    x, y = a.time[first], b.time[second]
    same = np.abs(x - y) <= SAME_TIME * np.maximum(x, y)
    saves = np.column_stack([first, second])[same]
    if len(saves) == 0:
        ranges = " and ".join(
            f"{run.name} has {len(run.time)} from t = {run.time[0]:g} to {run.time[-1]:g}"
            for run in (a, b)
        )
        raise CaseError(f"No save time is common: {ranges}. Give both the same list in time.saves.")
    return saves


def _nearest(times, others):
    """The index of the nearest of the other times for each time; both increase."""
    after = np.searchsorted(others, times).clip(max=len(others) - 1)
    before = np.maximum(after - 1, 0)
    return np.where(times - others[before] <= np.abs(others[after] - times), before, after)


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
        if not in_the_family(run):
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
