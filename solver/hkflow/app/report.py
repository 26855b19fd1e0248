"""`hkflow report`: runs on one page of HTML that needs nothing else, no network and, unless it
is wanted, no script."""

import os
from base64 import b64encode
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from ..analysis.summary import provenance, summary
from ..files.writing import write_page
from ..plots.kinds import PLOTS, available, write
from ..solving.registry import RECORDS, own_names, record_of
from ..solving.result import ResultLike
from ..view.page import page as view
from ..view.page import runs_with_saves, template

REPEATED = ("density", "polar")  # pictures of what the overview shows as well


def write_report(
    runs: Iterable[ResultLike],
    path: str | os.PathLike[str] = "report.html",
    interactive: bool = False,
    watch: Callable[[int, int], None] | None = None,
) -> Path:
    """Write the page of runs (run folders, results.h5, Run or Solution) and return its path.

    interactive : with the page of `hkflow view` in a frame, whose scripts come with it
    watch : function (runs that are drawn, of how many)
    Raises RunFolderError if there is nothing to show, or the page cannot be written.
    """
    from markupsafe import Markup

    found, shown = runs_with_saves(runs, "report"), []
    for k, run in enumerate(found):
        if watch is not None:
            watch(k, len(found))
        shown.append(_shown(run))
    text = template("app", "report.html").render(
        runs=shown,
        table=_table(found),
        frame=Markup(view(*found)._repr_html_() if interactive else ""),
    )
    return write_page(Path(path), text, "report")


def _shown(run):
    """What the page says of a run, by name."""
    return {
        "name": run.stem,
        "title": run.title,
        "finished": run.finished,
        "summary": summary(run),
        "provenance": provenance(run),
        "case": run.header.get("case", ""),
        "resolved": run.header.get("resolved_case", ""),
        "figures": [(name, PLOTS[name].shows, _inline(figure)) for name, figure in _figures(run)],
    }


def _figures(run):
    """The pictures of a run, by name, as bytes of PNG: all that fit and say more than the
    overview."""
    with TemporaryDirectory() as folder:
        for name in available(run):
            if name not in REPEATED:
                yield name, write(name, run, Path(folder) / f"{name}.png", wide=True).read_bytes()


def _inline(picture):
    return f"data:image/png;base64,{b64encode(picture).decode()}"


def _table(runs):
    """Header and rows of the table that compares several runs."""
    recorded = (*RECORDS, *(name for run in runs for name in own_names(run.records)))
    shown = [name for name in dict.fromkeys(recorded) if record_of(name).compared]
    header = ["run", "method", "t", *(record_of(name).label for name in shown), "seconds"]
    rows = []
    for run in runs:
        last = {name: values[-1] for name, values in run.records.items()}
        numbers = [run.time[-1], *(last.get(name) for name in shown), run.end.get("seconds")]
        rows.append(
            [
                run.stem,
                run.method,
                *("" if number is None else f"{number:.6g}" for number in numbers),
            ]
        )
    return header, rows
