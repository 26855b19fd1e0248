"""The command line: `hkflow COMMAND …`.

Solver modules are imported inside the commands, once a case is known to be right: help, version and refusals are quick.
"""

import json
import os
import sys
import traceback
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from .errors import HkflowError
from .parallel import ALONE, launched, ranks

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
    """Entry point: errors made on purpose become a message, of the first rank if there are several, and exit code 2."""
    try:
        with _one_voice():
            app()
    except HkflowError as error:
        if launched()[0] == 0:
            typer.echo(str(error), err=True)
        sys.exit(2)


@contextmanager
def _one_voice():
    """Around a command: only the first rank prints, and an error that not all ranks have agreed on ends all of them."""
    rank, size = launched()
    if size == 1:
        yield
        return
    try:
        with (
            open(os.devnull, "w", encoding="utf-8") as nothing,
            redirect_stdout(nothing if rank else sys.stdout),
            redirect_stderr(nothing if rank else sys.stderr),
        ):
            yield
    except Exception as error:
        together = ranks() if ranks.cache_info().currsize else ALONE
        if together.size > 1 and error is not together.agreed:
            traceback.print_exc()
            sys.stderr.flush()
            together.comm.Abort(1)
        raise


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
    """Compute a case; write a run folder with results.h5 and a picture in it. Under mpiexec, by all its processes together."""
    together = ranks()
    file = together.all(lambda: _read(case, overrides))
    from . import runs

    _finish(runs.run(file, output=output, force=force, quiet=quiet, ranks=together), quiet, together)


@app.command()
def resume(folder: RunPath, quiet: Quiet = False):
    """Continue an interrupted run; the result is the same, bit for bit, as without the interruption."""
    from . import runs

    _finish(runs.resume(folder, quiet=quiet, ranks=ranks()), quiet, ranks())


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


@app.command()
def plot(
    path: RunPath,
    output: Annotated[Path | None, typer.Option(help="picture to write, .png or .pdf; RUN/overview.png if not given")] = None,
):
    """Draw the overview of a run: predictions, density, records."""
    from .plots.overview import save_overview
    from .store.run import load

    typer.echo(f"picture:          {save_overview(load(path), output)}")


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
    from .plots.margin import draw_margins
    from .plots.overview import write_figure

    report = margin_report(case, run, tolerance, **_parsed(overrides))
    typer.echo(str(report))  # what took the time is not lost with a folder or a picture that cannot be written
    folder = output or Path("margins") / report.name
    typer.echo(f"values:           {report.write(folder)}")
    picture = write_figure(lambda figure: draw_margins(figure, report), folder / "margin.png", (7.1, 3.4))
    typer.echo(f"picture:          {picture}")


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


def _finish(one, quiet, together):
    """Draw and summarise on the first rank; exit on all with the code that says how the run ended."""
    if code := together.told(lambda: _shown(one, quiet)):
        sys.exit(code)


def _shown(one, quiet):
    """Draw and summarise a run; returns its exit code."""
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
    return 0 if one.finished else 128 + one.signal if one.signal else 1


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
