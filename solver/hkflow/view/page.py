"""`hkflow view`: runs as one page of HTML with its own scripts, opened from the disk."""

import os
from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from ..errors import RunFolderError
from ..files.writing import write_page
from ..solving.result import ResultLike
from ..store.run import loaded
from .packing import page_data

SCRIPTS = ("sphere.js", "charts.js", "page.js")


def write_view(runs: Iterable[ResultLike], path: str | os.PathLike[str] = "view.html") -> Path:
    """Write the page of runs (run folders, results.h5, Run or Solution) and return its path.

    Several runs have one clock. Raises RunFolderError if there is nothing to show, or the page
    cannot be written.
    """
    from jinja2 import Environment, PackageLoader
    from markupsafe import Markup

    found = [loaded(run) for run in runs]
    for run in found:
        if not len(run.time):
            raise RunFolderError(f"{run.name}: holds no save yet, so there is nothing to view.")
    facts, numbers = page_data(found)
    here = files(__package__)
    own = {
        name: Markup((here / name).read_text(encoding="utf-8")) for name in ("page.css", *SCRIPTS)
    }
    page = Environment(
        loader=PackageLoader("hkflow", "view"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    ).get_template("page.html")
    text = page.render(
        title=", ".join(run.title or run.stem for run in found),
        style=own["page.css"],
        scripts=[own[name] for name in SCRIPTS],
        hashes=[b64encode(sha256(own[name].encode()).digest()).decode() for name in SCRIPTS],
        facts=Markup(facts),
        numbers=Markup(numbers),
    )
    return write_page(Path(path), text, "page")
