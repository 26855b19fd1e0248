"""The command line: `hkflow COMMAND …`.

Solver modules are imported inside the commands, once a case is known to be right: help, version and refusals are quick.
"""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from .errors import HkflowError

app = typer.Typer(
    help="Gradient flows of measures on spheres, and infinitely wide two-layer networks, computed as PDEs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # its boxes take a quarter of a second
)
CasePath = Annotated[Path, typer.Argument(help="case file (TOML)", metavar="CASE")]
RunPath = Annotated[Path, typer.Argument(help="run folder", metavar="RUN")]
Overrides = Annotated[list[str] | None, typer.Option("--set", help="override a key of the case: --set flow.noise=0.01")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="no progress bar and no summary")]


def main():
    """Entry point: errors made on purpose become a message and exit code 2."""
    try:
        app()
    except HkflowError as error:
        typer.echo(str(error), err=True)
        sys.exit(2)


def _print_version(wanted: bool):
    if wanted:
        from importlib.metadata import version

        typer.echo(f"hkflow {version('hkflow')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="print the version")] = False,
):
    pass


@app.command()
def run(
    case: CasePath,
    overrides: Overrides = None,
    output: Annotated[Path | None, typer.Option(help="run folder; runs/<case name> if not given")] = None,
    force: Annotated[bool, typer.Option(help="move a used run folder aside")] = False,
    quiet: Quiet = False,
):
    """Compute a case; write a run folder with results.h5 and a picture in it."""
    file = _read(case, overrides)
    from . import runs

    _finish(runs.run(file, output=output, force=force, quiet=quiet), quiet)


@app.command()
def resume(folder: RunPath, quiet: Quiet = False):
    """Continue an interrupted run; the result is the same, bit for bit, as without the interruption."""
    from . import runs

    _finish(runs.resume(folder, quiet=quiet), quiet)


@app.command()
def check(case: CasePath, overrides: Overrides = None):
    """Check a case file and its data; print the case with every default written out, and the memory it needs."""
    file = _read(case, overrides)
    from . import runs
    from .case.build import estimated_memory
    from .case.load import toml_of

    resolved, problem = runs.check(file)
    typer.echo(toml_of(resolved))
    data, axes = problem.objective.inputs.shape
    carriers = f"{len(problem.atoms())} {resolved.method.kind if resolved.method.kind == 'particles' else 'units'}"
    carriers = f"{problem.mesh.n_cells} cells" if resolved.method.kind == "grid" else carriers
    typer.echo(f"# {case} is valid: {data} data, {carriers} on S^{axes - 1}, {len(problem.signs)} sign(s).")
    typer.echo(f"# Estimated memory: {estimated_memory(resolved, data, axes) / 1e9:.2f} GB.")


@app.command()
def schema():
    """Print the JSON schema of case files."""
    from .case.schema import Case

    typer.echo(json.dumps(Case.model_json_schema(), indent=2, ensure_ascii=False))


@app.command()
def info(path: RunPath):
    """Say what a run folder or results.h5 holds and how the run ended."""
    from .comparison import described
    from .store.run import load

    one = load(path)
    typer.echo(_summary(one))
    typer.echo(f"case:             {one.header['title'] or '(no title)'}")
    typer.echo(f"saves:            {len(one.time)}, of a {described(one)}; {len(one.targets)} data")
    typer.echo(f"records:          {', '.join(one.records) or 'none yet'}")
    typer.echo(f"seed, threads:    {one.header['seed']}, {one.header['threads']}")
    typer.echo(f"versions:         {', '.join(f'{name} {number}' for name, number in one.header['versions'].items())}")
    typer.echo(f"commit:           {one.header['commit'] or 'unknown'}")


Picture = Annotated[
    str | None, typer.Argument(help="which picture; `hkflow plot RUN help` lists those that fit", metavar="[NAME]")
]
Wide = Annotated[bool, typer.Option("--wide", help="as wide as a page, 175 mm, instead of a column, 85 mm")]
Under = Annotated[Path | None, typer.Option("--under", help="a grid run whose density lies under the particles")]


@app.command()
def plot(
    path: Annotated[Path, typer.Argument(help="run folder, or the folder of a study", metavar="RUN")],
    name: Picture = None,
    save: Annotated[int | None, typer.Option(help="which save, from 0; the last if not given")] = None,
    output: Annotated[Path | None, typer.Option(help="picture to write: .png, .pdf or .svg; RUN/<name>.png if not given")] = None,
    wide: Wide = False,
    under: Under = None,
):
    """Draw a picture of a run by name; without one its overview: predictions, density, records."""
    from .plots.kinds import KINDS, fitting, opened, write

    one = opened(path)
    if name == "help":
        typer.echo("\n".join(f"{name:12}  {KINDS[name].shows}" for name in fitting(one)))
        return
    typer.echo(f"picture:          {write(name or fitting(one)[0], one, output, save, under, wide)}")


@app.command()
def animate(
    path: RunPath,
    name: Picture = "density",
    output: Annotated[
        Path | None, typer.Option(help="film to write: .mp4 (needs ffmpeg) or .gif; RUN/<name>.* if not given")
    ] = None,
    fps: Annotated[float | None, typer.Option(min=0.1, help="pictures a second; as many as make 8 seconds if not given")] = None,
    wide: Wide = False,
    under: Under = None,
):
    """Make a film of a picture over all saves of a run."""
    from .plots.animation import animate as animate_run
    from .plots.kinds import opened
    from .progress import counted

    with counted() as watch:
        film = animate_run(name, opened(path), output, fps, wide, under, watch)
    typer.echo(f"film:             {film}")


@app.command()
def compare(
    a: Annotated[Path, typer.Argument(help="run folder", metavar="RUN_A")],
    b: Annotated[Path, typer.Argument(help="another run of the same problem, by whatever method", metavar="RUN_B")],
    output: Annotated[Path | None, typer.Option(help="picture to write; RUN_A/compare-<name of B>.png if not given")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="no table, the picture alone")] = False,
):
    """Compare two runs of one problem in a table and a picture: predictions, objectives, masses, distances of their measures."""
    from .comparison import compare as compare_runs
    from .plots.compare import save_comparison

    comparison = compare_runs(a, b)
    picture = save_comparison(comparison, output)
    if not quiet:
        typer.echo(f"{comparison}\n\npicture:          {picture}")


@app.command()
def margin(
    case: Annotated[Path | None, typer.Argument(help="case file (TOML) with labels ±1", metavar="CASE")] = None,
    overrides: Overrides = None,
    run: Annotated[Path | None, typer.Option("--from", help="a run folder instead: polish its peaks and p")] = None,
    tolerance: Annotated[float, typer.Option(help="relative gap of the two values that enclose the F₁ max-margin")] = 1e-6,
    output: Annotated[Path | None, typer.Option(help="folder of margin.json and margin.png; margins/<name> if not given")] = None,
):
    """Compute the max-margins of a case's data, F₁ with a certificate, and draw their decision functions."""
    from .margin_report import margin_report
    from .plots.figures import write_figure
    from .plots.margin import draw_margins

    report = margin_report(case, run, tolerance, **_parsed(overrides))
    typer.echo(str(report))  # what took the time is not lost with a folder or a picture that cannot be written
    folder = output or Path("margins") / report.name
    typer.echo(f"values:           {report.write(folder)}")
    picture = write_figure(lambda figure: draw_margins(figure, report), folder / "margin.png", (6.9, 3.4))
    typer.echo(f"picture:          {picture}")


@app.command()
def study(
    file: Annotated[Path, typer.Argument(help="study file (TOML)", metavar="STUDY")],
    output: Annotated[Path | None, typer.Option(help="folder of the study; studies/<name of the file> if not given")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="runs at a time; as many as cores / threads if not given")] = None,
    threads: Annotated[int, typer.Option(min=1, help="threads of each run")] = 1,
    scheduler: Annotated[str | None, typer.Option(help="address of a Dask scheduler whose workers do the runs")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="no progress, no tables")] = False,
):
    """Run all that a study file asks for, or what is missing of it; write tables, a figure and study.h5."""
    from .plots.convergence import save_study
    from .progress import StudyProgress
    from .studies.report import markdown
    from .studies.study import study as run_study

    with StudyProgress(quiet) as watch:
        result = run_study(file, output, workers, threads, scheduler, watch)
    picture = save_study(result)
    if not quiet:
        typer.echo(markdown(result))
        typer.echo(f"tables:           {result.folder / 'table.md'}, .tex, .csv\npicture:          {picture}")
    if result.signal:
        typer.echo("Interrupted; the same command goes on from here.", err=True)
        sys.exit(128 + result.signal)
    sys.exit(0 if result.complete and result.as_expected else 1)


@app.command()
def pack(folder: RunPath):
    """Write results.h5 from the snapshots of a run folder, finished or not."""
    from .store.results import pack as pack_folder

    typer.echo(f"results:          {pack_folder(folder)}")


def _read(case, overrides):
    """The checked CaseFile of a path and --set options."""
    from .case.load import load_case

    return load_case(case, _parsed(overrides))


def _parsed(overrides):
    from .case.load import parse_override

    return dict(parse_override(text) for text in overrides or [])


def _finish(one, quiet):
    """Draw, summarise, and turn the way the run ended into an exit code."""
    from .plots.overview import save_overview

    picture = save_overview(one)
    if not quiet:
        typer.echo(_summary(one))
        typer.echo(f"results:          {one.path / 'results.h5'}\npicture:          {picture}")
    if not one.finished:
        if quiet:
            typer.echo(one.status, err=True)
        if one.signal:
            typer.echo(f"Continue with: hkflow resume {one.path}", err=True)
        sys.exit(128 + one.signal if one.signal else 1)


def _summary(one):
    """The status and the last record, a line each."""
    lines = [one.status]
    if one.records:
        last = {name: values[-1] for name, values in one.records.items()}
        error = "training error" if "margin" in last else "training RMSE"
        if last.get("log_scale", 0.0):
            lines.append(f"objective/mass:   {last['objective'] / last['mass']:.8g}")
            lines.append(f"log mass:         {last['log_mass']:.8g}")
        else:
            lines.append(f"objective:        {last['objective']:.8g}")
            lines.append(f"total mass:       {last['mass']:.8g}")
        lines += [f"margin/mass:      {last['margin']:.6g}"] if "margin" in last else []
        if "margin_upper" in last:
            lines.append(f"F₁ max-margin in [{last['margin_lower']:.6g}, {last['margin_upper']:.6g}] (certified)")
        lines += [f"gap to minimum:   at most {last['gap_bound']:.4g} (E.13)"] if "gap_bound" in last else []
        lines += [f"{error + ':':18}{last['training_error']:.4g}"] if last["training_error"] == last["training_error"] else []
        exchanged = sum(abs(last[name]) for name in last if name.startswith("energy_") and name != "energy_residual")
        if exchanged == exchanged:  # stochastic gradients leave it unknown
            share = last["energy_residual"] / exchanged if exchanged else 0.0
            lines.append(f"mass residual:    {last['mass_residual'] / (last['mass'] or 1.0):.2e} of the mass")
            lines.append(f"energy residual:  {share:.2e} of the energy exchanged")
    errors = one.exact_errors() if len(one.time) else None
    if errors is not None:
        names = (
            ("relative L1 error", "maximum error") if one.method == "grid" else ("relative error of the mass", "of the moment")
        )
        text = ", ".join(f"{name} {error[-1]:.3e}" for name, error in zip(names, errors, strict=True))
        lines.append(f"exact solution:   {text} at t = {one.time[-1]:g}")
    return "\n".join(lines)
