"""`hkflow view`: runs as one page of HTML with its own scripts, opened from the disk."""

import os
from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..errors import RunFolderError
from ..files.writing import write_page
from ..solving.result import Result, ResultLike
from ..store.run import loaded
from .packing import page_data

SCRIPTS = ("sphere.js", "charts.js", "page.js")
FRAME = 760  # pixels of its height in a notebook


class Page:
    """Runs as one page of HTML, which needs no network; a notebook shows it in a frame.

    text : of the page
    """

    def __init__(self, text: str) -> None:
        self.text = text

    def write(self, path: str | os.PathLike[str] = "view.html") -> Path:
        """Write it and return its path. Raises RunFolderError if that cannot be done."""
        return write_page(Path(path), self.text, "page")

    def __repr__(self):
        return f"<Page of {len(self.text) / 1e6:.2g} MB; write(path) makes a file of it>"

    def _repr_html_(self):
        return (
            f'<iframe srcdoc="{escape(self.text)}" title="runs, as hkflow view shows them"'
            f' style="width:100%;height:{FRAME}px;border:0"></iframe>'
        )


def page(*runs: ResultLike) -> Page:
    """The page of runs (run folders, results.h5, Run or Solution) that turns, plays and answers;
    several runs have one clock. Raises RunFolderError if there is nothing to show."""
    from markupsafe import Markup

    if not runs:
        raise RunFolderError("There is no run to view: give one or more.")
    found = runs_with_saves(runs, "view")
    facts, numbers = page_data(found)
    here = files(__package__)
    own = {
        name: Markup((here / name).read_text(encoding="utf-8")) for name in ("page.css", *SCRIPTS)
    }
    text = template("view", "page.html").render(
        title=", ".join(run.title or run.stem for run in found),
        style=own["page.css"],
        scripts=[own[name] for name in SCRIPTS],
        hashes=[b64encode(sha256(own[name].encode()).digest()).decode() for name in SCRIPTS],
        facts=Markup(facts),
        numbers=Markup(numbers),
    )
    return Page(text)


def runs_with_saves(runs: Iterable[ResultLike], use: str) -> list[Result]:
    """Runs, loaded. Raises RunFolderError if there is nothing in one to view, or report."""
    found = [loaded(run) for run in runs]
    for run in found:
        if not len(run.time):
            raise RunFolderError(f"{run.name}: holds no save yet, so there is nothing to {use}.")
    return found


def template(room: str, name: str) -> Any:
    """A Jinja template of a room, which escapes what it shows."""
    from jinja2 import Environment, PackageLoader

    loader = PackageLoader("hkflow", room)
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.get_template(name)
