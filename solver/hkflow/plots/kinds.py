"""The pictures of a run by name: what each shows, how large it is, which runs it is for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import UnionType
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..errors import CaseError, RunFolderError, unknown_name
from ..solving.result import Result, ResultLike
from ..store.run import load
from ..studies.study import StudyResult, read_study
from . import (
    convergence,
    decision,
    density,
    overlay,
    overview,
    records,
    slices,
    spacetime,
    tracks,
    width,
)
from .figures import COLUMN, PAGE, Picture, style, takes_page, write_figure
from .overlay import Runs

Drawn = ResultLike | StudyResult | Runs


@dataclass(frozen=True)
class Plot:
    """One row of the table.

    shows : in words
    draw : function (figure, run, save, shared): `shared` are the saves that have axes and colours
        in common with it
    height : function (run, wide) -> inches of a figure as wide as a column, or as a page
    unfit : function (run) -> why it cannot be drawn, as the end of "…, but this run …", or ""
    of_save : whether it shows one save, and so can move;  of : Result, StudyResult or Runs, or
        some of these
    under : whether it has room for the density of a grid run underneath
    """

    shows: str
    draw: Callable
    height: Callable
    unfit: Callable = lambda run: ""
    of_save: bool = True
    of: type | UnionType = Result
    under: bool = False


def _lives_on(run):
    """In words."""
    return f"lives on {run.domain.name}"


def _off_circle(run):
    return "" if run.domain.picture == "circle" else _lives_on(run)


def _no_points(run):
    if run.method == "grid":
        return "is a grid, without particles or units"
    return "" if run.domain.in_space else _lives_on(run)


def _particle_height(run, wide):
    height = _panel_height if run.domain.picture == "circle" else _map_height
    return height(run, wide)


def _predicts_nothing(run):
    return "" if run.predicts else "has no data to predict"


def _many_inputs(run):
    if reason := _predicts_nothing(run):
        return reason
    count = run.inputs.shape[1]
    return f"has {count} inputs" if count > 2 else slices.has_lost(run)


def _draw_particles(figure, run, save=-1, shared=None, under=None):
    """Trails on the maps of S²; on the circle lines in time."""
    draw = spacetime.draw_tracks if run.domain.picture == "circle" else tracks.draw_trails
    draw(figure, run, save, shared, under)


def _draw_records(figure, run, save=-1, shared=None):
    """Of one run all that is recorded, of several what is wanted of all."""
    draw = overlay.draw_overlay if isinstance(run, Runs) else records.draw_records
    draw(figure, run, save, shared)


def _map_height(run, wide):
    """Of one or two maps that are twice as wide as high, or of the picture of another domain."""
    if run.domain.picture != "map":
        return _plain(run, wide)
    bar = 0.0 if run.method == "grid" else 0.3  # what a scale of colours takes of the width
    count = len(run.signs)
    return (
        (3.3 + bar if count == 1 else 1.9 + 0.3 * bar) if wide else (1.5 + 0.5 * bar) * count + 0.35
    )


def _plain(run, wide):
    return 3.2 if wide else 2.5


def _panel_height(run, wide):
    return (2.2 if wide else 1.7) * len(run.signs) + 0.4


def _path_height(run, wide):
    discs = run.dim
    return (
        0.75 * PAGE if wide and discs == 1 else 0.5 * PAGE + 0.5 if wide else discs * COLUMN + 0.4
    )


def _decision_height(run, wide):
    beside = decision.kernel_classifier(run) is not None
    return (3.3 if wide else 1.95) if beside else (4.6 if wide else 2.7)


def _slices_height(run, wide):
    half = (3.4 if wide else 2.0) + 0.1
    return half if len(run.signs) == 1 else 2.0 * half


def _record_height(run, wide):
    if isinstance(run, Runs):
        return overlay.height(run, wide)
    count = len(records.panels(run))
    return 2.1 * -(-count // 2) if wide else 1.25 * count + 0.35


PLOTS = {
    "overview": Plot(
        "prediction, measure and records of a run on one page",
        overview.draw_overview,
        lambda *_: 5.0,
        of_save=False,
    ),
    "density": Plot(
        "the measure at one save: unrolled circle, maps of S², bars of atoms",
        density.draw_measure,
        _map_height,
    ),
    "polar": Plot(
        "the measure on the circle itself",
        density.draw_polar,
        lambda _, wide: 4.6 if wide else 3.5,
        _off_circle,
    ),
    "slices": Plot(
        "the density of S³ on its great spheres where a coordinate is 0",
        slices.draw_slices,
        _slices_height,
        slices.unfit_for_slices,
    ),
    "spacetime": Plot(
        "the measure on the circle over time",
        spacetime.draw_spacetime,
        _panel_height,
        _off_circle,
        of_save=False,
    ),
    "particles": Plot(
        "particles with their trails, over a density",
        _draw_particles,
        _particle_height,
        _no_points,
        under=True,
    ),
    "paths": Plot(
        "paths of units in the plane of their weights", tracks.draw_paths, _path_height, _no_points
    ),
    "decision": Plot(
        "prediction, zero level and data, beside the F₂ classifier",
        decision.draw_decision,
        _decision_height,
        _many_inputs,
    ),
    "planes": Plot(
        "predictions over the planes through the middle of three inputs, and data near them",
        slices.draw_planes,
        lambda _, wide: 2.3 if wide else 6.6,
        slices.unfit_for_planes,
    ),
    "predictions": Plot(
        "predictions against targets",
        decision.draw_targets,
        lambda _, wide: 3.6 if wide else 2.6,
        _predicts_nothing,
    ),
    "convergence": Plot(
        "the figure of a study: its errors, values or curves",
        convergence.draw_study,
        convergence.height,
        of_save=False,
        of=StudyResult,
    ),
    "records": Plot(
        "objective, mass, margin, residuals over time; of several runs and studies in one picture",
        _draw_records,
        _record_height,
        of_save=False,
        of=Result | StudyResult | Runs,
    ),
    "width": Plot(
        "networks of other random starts, beside infinite width",
        width.draw_width,
        lambda _, wide: 2.6 if wide else 4.2,
        width.unfit,
        of_save=False,
    ),
}


def available(run: Drawn | Sequence[Drawn], moving: bool = False) -> list[str]:
    """The names of the pictures that can be drawn of a run or study, or of what lies in its folder;
    moving: of those that show one save."""
    run = loaded(run)
    return [name for name in PLOTS if not _refusal(PLOTS[name], run, moving)]


def _refusal(kind, run, moving):
    """Why a picture is not drawn of a run or study, as the end of "it shows …, ", or ""."""
    if not isinstance(run, kind.of):
        several = "but these are several runs" if isinstance(run, Runs) else "but this is a run"
        return "but this is a study" if isinstance(run, StudyResult) else several
    if moving and not kind.of_save:
        return "which is the same at every save"
    reason = kind.unfit(run)
    return reason and f"but this run {reason}"


def plot_of(name: str, run: Result | StudyResult | Runs, moving: bool = False) -> Plot:
    """The Plot of a name. Raises CaseError for an unknown one or one that does not fit, with those
    that do.

    Raises RunFolderError if the run holds no save yet.
    """
    if isinstance(run, Result) and len(run.time) == 0:
        raise RunFolderError(f"{run.name}: holds no save yet, so there is nothing to draw.")
    choices = available(run, moving)
    if name not in PLOTS:
        raise CaseError(unknown_name("picture", name, choices))
    refusal = _refusal(PLOTS[name], run, moving)
    if refusal:
        raise CaseError(
            f"'{name}' shows {PLOTS[name].shows}, {refusal}. Choose from:"
            f" {', '.join(sorted(choices))}."
        )
    return PLOTS[name]


def loaded(what: Drawn | Sequence[Drawn]) -> Result | StudyResult | Runs:
    """A Run, Solution or StudyResult as it is, or what lies in a run folder, a results.h5 or the
    folder of a study; several of them as Runs."""
    if isinstance(what, Result | StudyResult | Runs):
        return what
    if not isinstance(what, str | Path):
        parts = [loaded(one) for one in what]
        return parts[0] if len(parts) == 1 else overlay.together(parts)
    return read_study(what) if (Path(what) / "study.h5").is_file() else load(what)


def _with_records(name, run, of):
    """A run or study for a picture of records by their names `of`: several runs if it is drawn like
    those. Raises CaseError for another picture."""
    of = (of,) if isinstance(of, str) else tuple(of)
    if of and name != "records":
        raise CaseError(f"'of' names records, which '{name}' does not draw. Choose 'records'.")
    if isinstance(run, Runs):
        return replace(run, of=of) if of else run
    asked = name == "records" and (of or isinstance(run, StudyResult))
    return overlay.together([run], of) if asked else run


def size_of(kind: Plot, run: Result | StudyResult | Runs, wide: bool) -> tuple[float, float]:
    """Width and height of a picture in inches: as wide as a column, or as a page."""
    wide = takes_page(wide or kind is PLOTS["overview"])
    return (PAGE if wide else COLUMN), kind.height(run, wide)


def draw(
    name: str,
    run: Drawn | Sequence[Drawn],
    figure: Figure | Axes | None = None,
    save: int = -1,
    under: ResultLike | None = None,
    wide: bool = False,
    shared: Sequence[int] | None = None,
    of: str | Sequence[str] = (),
) -> Figure:
    """Draw a picture of a run by its name, one of PLOTS, and return the figure.

    run : Run, Solution, run folder or results.h5; for "convergence" and "records" the folder of a
        study as well, for "records" several of all these
    figure : an empty Figure or SubFigure, or Axes whose place the picture takes; by default a new
        Figure, as wide as a column, or `wide` as a page, in the project's style. Elsewhere the
        style is the caller's: `with hkflow.plots.style():`
    save : which, of pictures of one save;  shared : saves that have axes and colours in common with
        it
    under : a grid run whose density lies under the picture "particles"
    of : names of the records that "records" draws: runs that differ in the seed alone are one curve
        with a band
    Raises CaseError for a name that is unknown or does not fit the run, and for a save that there
    is not.
    """
    run = _with_records(name, loaded(run), of)
    kind = plot_of(name, run)
    if kind.of_save and not -len(run.time) <= save < len(run.time):
        raise CaseError(
            f"{run.name}: there is no save {save}; its saves are 0 to {len(run.time) - 1}."
        )
    layers = {} if under is None else {"under": _ground(kind, name, run, loaded(under))}
    if figure is None:
        with style():
            figure = Picture(size_of(kind, run, wide))
            kind.draw(figure, run, save, shared, **layers)
        return figure
    place: Any = figure
    if isinstance(figure, Axes):
        place = figure.figure.add_subfigure(figure.get_subplotspec())
        figure.remove()
    kind.draw(place, run, save, shared, **layers)
    return place


def _ground(kind, name, run, under):
    """The run whose density lies underneath. Raises CaseError if the picture has no room for it or
    it is of another sphere."""
    if not kind.under:
        rooms = ", ".join(sorted(room for room, other in PLOTS.items() if other.under))
        raise CaseError(f"'{name}' has no room for another run underneath. Choose from: {rooms}.")
    if (
        not isinstance(under, Result)
        or under.method != "grid"
        or (under.dim, list(under.signs)) != (run.dim, list(run.signs))
    ):
        raise CaseError(f"{under.name}: wanted a grid run on the same sphere, with the same signs.")
    return under


def write(
    name: str,
    run: Drawn | Sequence[Drawn],
    path: str | Path | None = None,
    save: int | None = None,
    under: ResultLike | None = None,
    wide: bool = False,
    of: str | Sequence[str] = (),
) -> Path:
    """Write a picture of a run by its name, see `draw`, and return its path: .png, .pdf, .svg or
    .pgf, by default RUN/<name>.png, of several runs <name>.png here; names of records follow
    <name>.

    save : by default the last;  wide : 175 mm instead of 85 mm; an overview always is
    """
    run = _with_records(name, loaded(run), of)
    kind = plot_of(name, run)
    number = "" if save is None else f"-{save}"
    number += "".join(f"-{record}" for record in ((of,) if isinstance(of, str) else of))
    save = -1 if save is None else save
    path = path or run.folder / f"{name}{number}.png"
    return write_figure(
        lambda figure: draw(name, run, figure, save, under), path, size_of(kind, run, wide)
    )
