"""The command line: `hkflow COMMAND …`.

Solver modules are imported inside the commands, once a case is known to be right: help, version and
refusals are quick.
"""

import errno
import gc
import json
import os
import signal
import sys
import warnings
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import Annotated

import typer

from ..errors import CaseError, HkflowError
from ..operators.ranks import launched, ranks
from ..shown import as_typed

MANY_COLUMNS = 40  # `check` does not name more of them, unless the case does

app = typer.Typer(
    help=(
        "Gradient flows of measures on spheres, and infinitely wide two-layer networks, computed as"
        " PDEs."
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # its boxes take a quarter of a second
)


def _output(text):
    """The option that says where to write, which all commands spell alike."""
    return typer.Option("--output", "-o", help=text)


CasePath = Annotated[Path, typer.Argument(help="case file (TOML)", metavar="CASE")]
RunPath = Annotated[Path, typer.Argument(help="run folder", metavar="RUN")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", help="override a key of the case: --set flow.noise=0.01"),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="no progress bar and no summary")]
Watch = Annotated[bool, typer.Option("--watch", help="curves of the records while it runs")]


def main() -> None:
    """Entry point: errors made on purpose become a message, of the first rank if there are several,
    and exit code 2."""
    _mend_streams()
    os.environ["MPLBACKEND"] = "agg"  # pictures are files, whatever the user's own scripts show
    # most objects of modules and pictures stay: Python looks for garbage among new ones 140 times
    # less often, among all of them hardly ever
    gc.set_threshold(100_000, 5, 50)
    warnings.formatwarning = lambda message, *_, **__: f"{message}\n"
    try:
        _check_threads()
        with _one_voice():
            app()
    except KeyboardInterrupt:  # while the command is still put together
        sys.exit(128 + signal.SIGINT)
    except HkflowError as error:
        if launched()[0] == 0:
            typer.echo(str(error), err=True)
        sys.exit(2)
    except OSError as error:
        # only the current folder is not there without a name
        nameless = "The current folder" if error.errno == errno.ENOENT else "A file"
        typer.echo(
            f"{error.filename or nameless}: the system refuses it ({error.strerror or error}).",
            err=True,
        )
        sys.exit(2 if isinstance(error, PermissionError) else 1)
    finally:
        # at its end Python would look for garbage in all that is loaded, a quarter of a second long
        gc.freeze()


def _mend_streams():
    """Let everything be printed: to a closed stream, which keeps nothing, and to one in latin-1,
    which shows ν as \\u03bd."""
    # a number left free would become that of the next file to be written
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    for name, number in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w", encoding="utf-8", closefd=False))  # noqa: SIM115
        if hasattr(getattr(sys, name), "reconfigure"):
            getattr(sys, name).reconfigure(errors="backslashreplace")


def _check_threads():
    """Raise CaseError unless Numba can read how many threads it has, as it does by `int`; it would
    print a traceback."""
    number = os.environ.get("NUMBA_NUM_THREADS", "1")
    try:
        fits = int(number) > 0
    except ValueError:
        fits = False
    if not fits:
        raise CaseError(
            f"NUMBA_NUM_THREADS: wanted a number of threads, at least 1, got '{number:.60}'. Set"
            " it, or unset it to use all cores."
        )


@contextmanager
def _one_voice():
    """Around a command: only the first rank prints."""
    rank, size = launched()
    if size == 1:
        yield
        return
    with (
        open(os.devnull, "w", encoding="utf-8") as nothing,
        redirect_stdout(nothing if rank else sys.stdout),
        redirect_stderr(nothing if rank else sys.stderr),
    ):
        yield


def _print_version(wanted: bool):
    if wanted:
        from importlib.metadata import version

        typer.echo(f"hkflow {version('hkflow')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="print the version"),
    ] = False,
) -> None:
    pass


@app.command()
def run(
    case: CasePath,
    overrides: Overrides = None,
    output: Annotated[Path | None, _output("run folder; runs/<case name> if not given")] = None,
    force: Annotated[bool, typer.Option(help="move a used run folder aside")] = False,
    watch: Watch = False,
    quiet: Quiet = False,
) -> None:
    """Compute a case; write a run folder with results.h5 and a picture in it. Under mpiexec, by all
    its processes together."""
    from ..running.beside import second_process

    together = ranks()
    with (
        together.together(),
        second_process("hkflow.app.second_process", wanted=together.size == 1) as process,
    ):
        file = together.all(lambda: _read(case, overrides))
        from ..running import run as runs
        from ..running.ahead import helped_by
        from ..solving.interrupts import until_ctrl_c

        with helped_by(process):
            made = until_ctrl_c(
                lambda: runs.run(file, output, force, quiet, ranks=together, watch=watch), "run"
            )
            _finish(made, quiet, together)


@app.command()
def resume(folder: RunPath, watch: Watch = False, quiet: Quiet = False) -> None:
    """Continue an interrupted run; the result is the same, bit for bit, as without the
    interruption."""
    from ..running import run as runs
    from ..solving.interrupts import until_ctrl_c

    together = ranks()
    with together.together():
        made = until_ctrl_c(lambda: runs.resume(folder, quiet, ranks=together, watch=watch), "run")
        _finish(made, quiet, together)


@app.command()
def check(case: CasePath, overrides: Overrides = None) -> None:
    """Check a case file and its data; print the case with every default written out, which method
    suits it, and the time, memory and accuracy to expect."""
    file = _read(case, overrides)
    from ..case.accuracy import asks_for_accuracy
    from ..case.load import toml_of
    from ..case.memory import estimated_memory
    from ..running.check import build_all
    from ..running.forecast import prospects
    from ..running.progress import PREPARING, doing

    choice = None
    with doing(PREPARING, quiet=False):
        resolved, problem, method = build_all(file)
        if asks_for_accuracy(file.case):
            from ..running.accuracy import plan

            choice = plan(file)
            resolved, problem, method = build_all(choice.file)
    named = getattr(resolved.data, "features", None) or ()
    if len(named) > MANY_COLUMNS and file.case.data.features is None:
        unnamed = resolved.data.model_copy(update={"features": None})
        typer.echo(toml_of(resolved.model_copy(update={"data": unnamed})))
        typer.echo(f"# Data: {len(named)} columns are inputs, all but the label.")
    else:
        typer.echo(toml_of(resolved))
    data = len(problem.objective.inputs)
    if resolved.method.kind == "grid" and problem.mesh:
        carriers = f"{problem.mesh.n_cells} cells"
    else:
        points = "units" if resolved.method.kind == "network" else "particles"
        carriers = f"{len(problem.atoms())} {points}"
    typer.echo(
        f"# {case} is valid: {data} data, {carriers} on S^{problem.dim}, {len(problem.signs)}"
        " sign(s)."
    )
    for note in getattr(problem.prepare, "notes", ()):
        typer.echo(f"# Data: {note}.")
    typer.echo(f"# Estimated memory: {estimated_memory(resolved, problem.objective) / 1e9:.2f} GB.")
    if choice is not None:
        typer.echo(
            f"# For an accuracy of {file.case.method.accuracy:g} it takes {choice}: about"
            f" {choice.seconds:.2g} s and {choice.memory / 1e9:.2f} GB."
        )
    with doing("taking the first steps", quiet=False):
        said = prospects(file, resolved, problem, method)
    for sentence in said:
        typer.echo(f"# {sentence}")


@app.command()
def schema() -> None:
    """Print the JSON schema of case files."""
    from ..case.schema.case import Case

    typer.echo(json.dumps(Case.model_json_schema(), indent=2, ensure_ascii=False))


@app.command()
def info(path: RunPath) -> None:
    """Say what a run folder or results.h5 holds and how the run ended."""
    from ..analysis.summary import in_columns, provenance, summary
    from ..store.run import load

    one = load(path)
    typer.echo(in_columns(summary(one) + provenance(one)))
    typer.echo(f"{'records:':18}{', '.join(one.records) or 'none yet'}")


Picture = Annotated[
    str | None,
    typer.Argument(
        help="which picture of one save, as density or predictions; one that does not fit is"
        " answered with those that do",
        metavar="[NAME]",
    ),
]
Wide = Annotated[
    bool, typer.Option("--wide", help="as wide as a page, 175 mm, instead of a column, 85 mm")
]


def _known(style: str | None) -> str | None:
    """A style, before anything is computed. Raises CaseError for an unknown one."""
    if style is not None:
        from ..plots.figures import style as styled

        with styled(style):
            pass
    return style


Style = Annotated[
    str | None,
    typer.Option(
        "--style",
        callback=_known,
        help="widths and fonts of a journal: aps, elsevier, iclr, icml, ieee, jmlr, nature,"
        " neurips, siam, springer",
    ),
]
Under = Annotated[
    Path | None, typer.Option("--under", help="a grid run whose density lies under the particles")
]


@app.command()
def plot(
    words: Annotated[
        list[str],
        typer.Argument(
            help="run folders and folders of studies, and which picture; `hkflow plot RUN help`"
            " lists those that fit",
            metavar="RUN… [NAME]",
        ),
    ],
    save: Annotated[
        int | None, typer.Option(help="which save, from 0; the last if not given")
    ] = None,
    of: Annotated[
        list[str] | None,
        typer.Option(help="with 'records': which one, as margin; again for another panel"),
    ] = None,
    output: Annotated[
        Path | None,
        _output(
            "picture to write: .png, .pdf, .svg or .pgf; RUN/<name>.png, of several runs"
            " <name>.png, if not given"
        ),
    ] = None,
    wide: Wide = False,
    style: Style = None,
    under: Under = None,
) -> None:
    """Draw a picture of a run by name; without one its overview: predictions, density, records.
    Of several runs and studies draw records in one picture: what differs in the seed alone is one
    curve with a band."""
    from ..plots.figures import style as styled
    from ..plots.kinds import PLOTS, available, loaded, write

    named = len(words) > 1 and (words[-1] in {*PLOTS, "help"} or not _may_be_a_run(words[-1]))
    paths, name = (words[:-1], words[-1]) if named else (words, "")
    one = loaded([Path(path) for path in paths])
    if name == "help":
        typer.echo("\n".join(f"{name:12}  {PLOTS[name].shows}" for name in available(one)))
        return
    name = name or ("records" if of else available(one)[0])
    with styled(style):
        picture = write(name, one, output, save, under, wide, of or ())
    typer.echo(f"picture:          {picture}")
    if name == "overview":
        _say_what_is_lost(one)


def _say_what_is_lost(*runs):
    """Say which runs' maps of predictions are left out, and why."""
    for run in runs:
        if run.lost_feature:
            typer.echo(f"Without maps of predictions: {run.lost_feature}", err=True)


def _may_be_a_run(word):
    """Whether a word that names no picture is meant as a path."""
    return Path(word).exists() or len(Path(word).parts) > 1 or Path(word).suffix != ""


@app.command()
def animate(
    path: RunPath,
    name: Picture = "density",
    output: Annotated[
        Path | None,
        _output("film to write: .mp4 (needs ffmpeg) or .gif; RUN/<name>.* if not given"),
    ] = None,
    fps: Annotated[
        float | None,
        typer.Option(
            min=0.1, max=100.0, help="pictures a second; as many as make 8 seconds if not given"
        ),
    ] = None,
    wide: Wide = False,
    style: Style = None,
    under: Under = None,
) -> None:
    """Make a film of a picture over all saves of a run."""
    from ..plots.animation import animate as animate_run
    from ..plots.figures import style as styled
    from ..plots.kinds import loaded
    from ..running.progress import counted

    with styled(style), counted("drawing") as watch:
        film = animate_run(name, loaded(path), output, fps, wide, under, watch)  # type: ignore[arg-type]
    typer.echo(f"film:             {film}")


@app.command()
def errors(
    path: RunPath,
    own: Annotated[
        bool, typer.Option("--own", help="without comparing with another method")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Estimate how far a run is from the flow that it computes, from coarser and tighter runs; keep
    the error bars in its folder."""
    from ..running.accuracy import as_wanted
    from ..running.error_bars import error_bars, keep
    from ..store.run import load

    run = load(path)
    run.own.check(path)  # without its functions no companion reaches its end
    bars = as_wanted(run, error_bars(run, "own" if own else "all", quiet))
    if not quiet:  # also those of a run that is not the user's to write
        typer.echo(str(bars))
    keep(run, bars)


@app.command()
def predict(
    path: RunPath,
    table: Annotated[
        Path,
        typer.Argument(
            help="table of new rows with the columns of the run's data: CSV, Parquet, .npy, .npz",
            metavar="FILE",
        ),
    ],
    output: Annotated[Path | None, _output("CSV file to write; printed if not given")] = None,
) -> None:
    """Predict the rows of a table: a line for each, with the error bar of the run where it has
    one."""
    import numpy as np

    from ..files.writing import check_replaced, for_user, write_text
    from ..running.progress import doing
    from ..store.predictions import PREDICTION, UNITS, predicted, read_rows, write_table
    from ..store.run import load

    if output is not None and output.exists() and table.exists() and output.samefile(table):
        raise CaseError(f"{output}: holds the rows that are to be predicted; choose another file.")
    with doing("predicting", quiet=False):
        one = load(path)
        rows = read_rows(one, table)
        if output is not None:
            made_before = tuple(f"{unit},{PREDICTION}" for unit in UNITS)
            check_replaced(output, made_before, "table of predictions")
        made = predicted(one, rows)
    if gaps := int(np.isnan(list(made.values())[1]).sum()):
        those = "1 row has" if gaps == 1 else f"{gaps} rows have"
        typer.echo(f"{table}: {those} no prediction: a value is missing.", err=True)
    if output is None:
        write_table(made, sys.stdout)
    else:
        text = StringIO()
        write_table(made, text)
        with for_user(output, "table"):
            write_text(output, text.getvalue())
        typer.echo(f"predictions:      {output}")


@app.command()
def report(
    paths: Annotated[list[Path], typer.Argument(help="run folders", metavar="RUN…")],
    output: Annotated[
        Path | None, _output("page to write; RUN/report.html, or report.html of several runs")
    ] = None,
    interactive: Annotated[
        bool, typer.Option("--interactive", help="with the page of `hkflow view` in a frame")
    ] = False,
) -> None:
    """Write one HTML page on runs that needs nothing else: status, numbers, pictures, case,
    versions."""
    from ..running.progress import counted
    from ..store.run import load
    from .report import write_report

    file, runs = output or _beside(paths) / "report.html", [load(path) for path in paths]
    with counted("drawing runs") as watch:
        page = write_report(runs, file, interactive, watch)
    typer.echo(f"report:           {page}")
    _say_what_is_lost(*runs)


def _beside(paths):
    """Where a page on runs goes: into the folder of a single one, else into the current folder."""
    folder = paths[0] if paths[0].is_dir() else paths[0].parent
    return folder if len(paths) == 1 else Path()


@app.command()
def view(
    paths: Annotated[
        list[Path],
        typer.Argument(help="run folders; several have one clock", metavar="RUN…"),
    ],
    output: Annotated[
        Path | None, _output("page to write; RUN/view.html, or view.html of several runs")
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="show it in the browser")] = False,
) -> None:
    """Write one HTML page that turns, plays and answers, and needs no network: the measure, what it
    predicts and the records at every save."""
    from ..store.run import load
    from ..view.page import page

    file, runs = output or _beside(paths) / "view.html", [load(path) for path in paths]
    typer.echo(f"page:             {page(*runs).write(file)}")
    _say_what_is_lost(*runs)
    if show:
        import webbrowser

        webbrowser.open(file.resolve().as_uri())


@app.command()
def compare(
    a: Annotated[Path, typer.Argument(help="run folder", metavar="RUN_A")],
    b: Annotated[
        Path,
        typer.Argument(help="another run of the same problem, by whatever method", metavar="RUN_B"),
    ],
    output: Annotated[
        Path | None, _output("picture to write; RUN_A/compare-<name of B>.png if not given")
    ] = None,
    style: Style = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="no table, the picture alone")
    ] = False,
) -> None:
    """Compare two runs of one problem in a table and a picture: predictions, objectives, masses,
    distances of their measures."""
    from ..analysis.comparison import compare as compare_runs
    from ..plots.compare import save_comparison
    from ..plots.figures import style as styled

    comparison = compare_runs(a, b, quiet)
    if not quiet:
        typer.echo(f"{comparison}\n")
    with styled(style):
        picture = save_comparison(comparison, output)
    if not quiet:
        typer.echo(f"picture:          {picture}")


@app.command()
def margin(
    case: Annotated[
        Path | None, typer.Argument(help="case file (TOML) with labels", metavar="CASE")
    ] = None,
    overrides: Overrides = None,
    run: Annotated[
        Path | None,
        typer.Option("--from", help="a run folder instead: start from its heaviest atoms"),
    ] = None,
    tolerance: Annotated[
        float, typer.Option(help="relative gap of the two values that enclose the max-margin")
    ] = 1e-6,
    output: Annotated[
        Path | None,
        _output("folder of margin.json and margin.png; margins/<name> or RUN/margin if not given"),
    ] = None,
    style: Style = None,
) -> None:
    """Compute the max-margins of a case's data, F₁ with a certificate, and draw their decision
    functions. Ctrl-C ends the search for F₁ with what it has proved. Exit code 1 says that the
    tolerance was not reached."""
    from ..analysis.margin_report import margin_report
    from ..plots.figures import PAGE, write_figure
    from ..plots.figures import style as styled
    from ..plots.margin import draw_margins
    from ..running.progress import doing
    from ..solving.interrupts import DeferredInterrupt

    with DeferredInterrupt() as interrupt, doing("max-margin", quiet=False) as tell:

        def watch(count: int, lower: float, upper: float) -> bool:
            tell(f"max-margin in ({lower:.6g}, {upper:.6g}) after {count} linear programmes")
            return interrupt.received

        report = margin_report(case, run, tolerance, watch, **_parsed(overrides))
    # what took the time is not lost with a folder or a picture that cannot be written
    typer.echo(str(report))
    for note in getattr(report.problem.prepare, "notes", ()):
        typer.echo(f"{'data:':18}{note}")
    folder = output or (Path("margins") / report.name if run is None else _margins_of(run))
    typer.echo(f"values:           {report.write(folder)}")
    with styled(style):
        picture = write_figure(
            lambda figure: draw_margins(figure, report), folder / "margin.png", (PAGE, 3.4)
        )
    typer.echo(f"picture:          {picture}")
    sys.exit(0 if report.f1.reached else 1)


@app.command()
def study(
    file: Annotated[Path, typer.Argument(help="study file (TOML)", metavar="STUDY")],
    output: Annotated[
        Path | None, _output("folder of the study; studies/<name of the file> if not given")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="runs at a time; as many as cores / threads if not given"),
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="threads of each run")] = 1,
    scheduler: Annotated[
        str | None, typer.Option(help="address of a Dask scheduler whose workers do the runs")
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="the small version that the file's table [quick] makes of it"),
    ] = False,
    style: Style = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="no progress, no tables")] = False,
) -> None:
    """Run all that a study file asks for, or what is missing of it; write tables, a figure and
    study.h5."""
    from ..plots.convergence import save_study
    from ..plots.figures import style as styled
    from ..running.progress import StudyProgress
    from ..solving.interrupts import until_ctrl_c
    from ..studies.report import markdown
    from ..studies.study import study as run_study

    with StudyProgress(quiet) as watch:
        result = until_ctrl_c(
            lambda: run_study(file, output, workers, threads, scheduler, watch, quick), "study"
        )
    with styled(style):
        picture = save_study(result)
    if not quiet:
        typer.echo(markdown(result))
        typer.echo(
            f"tables:           {result.folder / 'table.md'}, .tex, .csv\npicture:         "
            f" {picture}"
        )
    if result.signal:
        typer.echo("Interrupted; the same command goes on from here.", err=True)
        sys.exit(128 + result.signal)
    lost = len(result.failed)
    fine = not lost and result.as_expected
    if quiet and not fine:
        failed = f"{lost} of {len(result.outcomes)} runs failed." if lost else ""
        missed = "" if result.as_expected else "Orders are not as expected."
        said = " ".join(filter(None, (failed, missed)))
        typer.echo(f"{said} {result.folder / 'table.md'} says more.", err=True)
    sys.exit(0 if fine else 1)


@app.command()
def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="figures, or all; without one they are listed", metavar="[NAME]…"),
    ] = None,
    scale: Annotated[
        str, typer.Option(help="quick, or paper: the paper's own parameters")
    ] = "quick",
    output: Annotated[Path | None, _output("folder of all; reproductions if not given")] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="runs at a time; as many as cores if not given")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Compute figures of the papers again, draw them, and check what the papers say of them;
    without a name list them."""
    from ..running.progress import StudyProgress
    from . import reproduction as papers

    if not names:
        typer.echo(_table_of_figures(papers.figures()))
        return
    folder, holds = output or Path("reproductions"), True
    chosen = (
        list(papers.figures())
        if names == [papers.ALL]
        else [papers.figure_of(name)[0] for name in names]
    )
    for name in chosen:
        module, place = papers.figures()[name], folder / name / scale
        if not quiet and scale in papers.SCALES:
            share = papers.missing(module, scale, place)
            typer.echo(f"{name}, {scale}: {papers.title(module)}")
            typer.echo(
                f"  about {share * module.MINUTES[scale]:.2g} of {module.MINUTES[scale]:g} minutes"
                " are left on two cores"
            )
        try:
            with StudyProgress(quiet) as watch:
                made = papers.reproduce(name, scale, place, workers, watch)
        except papers.Interrupted as interrupted:
            typer.echo(str(interrupted), err=True)
            sys.exit(128 + interrupted.signal)
        holds &= made.holds
        if not quiet:
            typer.echo(
                "".join(f"  {claim}\n" for claim in made.claims)
                + f"  picture: {made.folder / 'figure.png'}"
            )
    sys.exit(0 if holds else 1)


def _table_of_figures(figures):
    """A line for each figure of the papers: names, minutes, claims that came out when last checked,
    title."""
    from . import reproduction as papers

    rows = [("figure", *papers.SCALES, "what it shows")]
    for name, module in figures.items():
        cells = []
        for scale in papers.SCALES:
            claims = papers.checked(name, scale) or []
            held = f", {sum(claim.holds for claim in claims)}/{len(claims)}" if claims else ""
            cells.append(f"{module.MINUTES[scale]:g} min{held}")
        names = ", ".join((name, *getattr(module, "ALSO", ())))
        rows.append((names, *cells, papers.title(module)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    lines = [
        "  ".join([*(cell.ljust(n) for cell, n in zip(row, widths, strict=False)), row[-1]])
        for row in rows
    ]
    return "\n".join(
        [
            *lines,
            "",
            "Minutes on two cores, and how many of what the papers say came out. 'hkflow reproduce"
            " NAME' computes a figure, --scale paper",
            "with the paper's own parameters, and says what was checked; docs/gallery.md shows"
            " all.",
        ]
    )


@app.command()
def pack(folder: RunPath) -> None:
    """Write results.h5 from the snapshots of a run folder, finished or not."""
    from ..store.results import pack as pack_folder

    typer.echo(f"results:          {pack_folder(folder)}")


@app.command()
def export(
    path: RunPath,
    vtk: Annotated[
        bool,
        typer.Option(
            "--vtk",
            help="NAME.vtkhdf, all saves for ParaView: cells or particles on circle, S² or S³; of"
            " characteristics cells, and NAME-captured.vtkhdf",
        ),
    ] = False,
    netcdf: Annotated[
        bool,
        typer.Option("--netcdf", help="NAME.nc, the whole run as netCDF-4 with names and units"),
    ] = False,
    csv: Annotated[
        bool,
        typer.Option(
            "--csv", help="NAME-records.csv, -predictions.csv, -density.csv or -particles.csv"
        ),
    ] = False,
    output: Annotated[Path | None, _output("folder to write to; RUN if not given")] = None,
) -> None:
    """Write a run for other programs; several formats at once if wanted."""
    from ..store.export import export as write

    formats = [name for name, wanted in (("vtk", vtk), ("netcdf", netcdf), ("csv", csv)) if wanted]
    for written in write(path, *formats, output=output):
        typer.echo(f"export:           {written}")


def _margins_of(run):
    """Where the max-margins of a run go: into its folder, or beside a results file by its name."""
    return run / "margin" if run.is_dir() else run.with_name(f"{run.stem}-margin")


def _read(case, overrides):
    """The checked CaseFile of a path and --set options."""
    from ..case.load import load_case

    return load_case(case, _parsed(overrides))


def _parsed(overrides):
    from ..case.load import parse_override

    return dict(parse_override(text) for text in overrides or [])


def _finish(one, quiet, together):
    """Summarise on the first rank; exit on all with the code that says how the run ended."""
    if code := together.told(lambda: _shown(one, quiet)):
        sys.exit(code)


def _shown(one, quiet):
    """Draw and summarise a run; returns its exit code. Ctrl-C while it is drawn costs the picture
    alone, SIGTERM before that as well: whoever sends it does not wait for long."""
    from ..analysis.summary import in_columns, summary
    from ..running import ahead
    from ..running.progress import doing, wait_for
    from .pictures import draw_pictures

    picture = f"left out; 'hkflow plot {as_typed(one.path)}' draws it"
    if one.signal != signal.SIGTERM:
        with suppress(KeyboardInterrupt):
            wait_for(ahead.PICTURE, quiet)
            with doing("drawing", quiet):
                ahead.ask(ahead.PICTURE, one.path)
                picture = ahead.answer(ahead.PICTURE) or draw_pictures(one)
    if not quiet:
        typer.echo(in_columns(summary(one)))
        typer.echo(f"results:          {one.path / 'results.h5'}\npicture:          {picture}")
    if not one.finished:
        if quiet:
            typer.echo(one.status, err=True)
        if one.signal:
            typer.echo(f"Continue with: hkflow resume {as_typed(one.path)}", err=True)
    return 0 if one.finished else 128 + one.signal if one.signal else 1
