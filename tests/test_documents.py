"""Every block of code in the README and in docs, page by page and in order, as a reader would type
it; the pages that are made from the program; and the documentation as a whole.

Each page has a folder of its own: a clone with smaller cases. Commands are run as they stand, on
cases whose files are made `coarse` and SMALLER. What differs besides is written in SHORTER, what is
not run in NOT_RUN, with the reason; a command that is in neither is run, and a program, a language
or an entry that no longer fits fails. A TOML block that begins with a comment "# name.toml" is
written to that file.
"""

import importlib
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from contextlib import ExitStack
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest
import tomlkit
from commands import coarse, computed_here
from conftest import CASES, ROOT, STUDIES
from docutils import nodes
from legible import sketches
from sphinx.errors import SphinxError
from typer.testing import CliRunner

import hkflow
from hkflow.app.cli import app
from hkflow.app.pictures import draw_pictures
from hkflow.case.schema.case import Case
from hkflow.solving.registry import RECORDS
from hkflow.studies.file import StudyTable, load_study

DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if path.parent.name != "_generated")
DOCUMENTS = [ROOT / "README.md", *PAGES]
FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", flags=re.S | re.M)
LANGUAGES = {"sh", "python", "toml", "text"}  # text: what is printed

SMALLER = {  # keys of cases and studies, besides what `coarse` makes of a case
    "colt/cluster-margin": {"data.n": 12, "time.end": 10.0, "error.companions": "none"},
    "energies/deconvolution": {"time.end": 100.0},
    "icm/fig2": {"data.n": 40, "domain.cells": 64, "time.end": 1.0},
    "icm/fig2-m5": {"data.n": 40, "time.end": 1.0},
    "joint/full-sphere": {"domain.cells": 162, "time.end": 2.0},
    "moroshko/path": {"time.end": 100.0},
    "population/sphere": {"domain.cells": 162, "time.end": 0.5},
    "quickstart/iris": {"domain.cells": 162, "time.end": 2.0},
    "quickstart/iris-characteristics": {"domain.cells": 162, "time.end": 2.0},
    "quickstart/rings": {"domain.cells": 162, "time.end": 5.0},
    "studies/space-circle": {"refine.domain.cells": [32, 64, 128]},
    "studies/implicit-bias": {"repeats": 2, "set.time.end": 4.0},
    "studies/monte-carlo": {"repeats": 2, "refine.method.particles": [10, 40], "expected": {}},
    "wei/perturbed": {"time.end": 2.0},
}
SHORTER = {"end=100.0, saves=5": "end=2.0, saves=5"}  # of Python
NOT_RUN = {
    "pip install -e .": "changes the environment of the tests",
    "pip install -e '.[test]'": "the same; .ci/run does it",
    "pip install -e '.[bench]'": "the same",
    "pip install clawpack": "the same",
    "pytest": "is this suite",
    "python -m benchmarks": "takes many minutes; tests/test_benchmarks.py runs it with --quick",
    "hkflow reproduce icm-fig2": (
        "smaller cases do not show what it claims; tests/app/test_reproduction.py runs the command"
        " on its own"
    ),
    "hkflow reproduce icm-fig2 --scale paper": "the same, for minutes",
    "python postprocess/gallery.py": "runs all figures, for a quarter of an hour",
}


# pages that show error bars; runs of the others have no companions, which take a third of the time,
# and their pictures are sketches, one of each case by each method
WITH_BARS = [
    ROOT / "README.md",
    *(DOCS / name for name in ("tutorials/first-run.md", "tutorials/accuracy.md")),
    DOCS / "explanation" / "accuracy.md",
]


def place_of(path, text, start):
    """Where a block of a page begins, as the name of its test."""
    return f"{path.relative_to(ROOT).as_posix()}:{text.count(chr(10), 0, start) + 1}"


def blocks():
    """(page, place, language, text) of every block, directives of Sphinx left out."""
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        for found in FENCE.finditer(text):
            if not found[1].startswith("{"):
                yield path, place_of(path, text, found.start()), found[1], found[2]


BLOCKS = list(blocks())
RUN = [block for block in BLOCKS if block[2] != "text"]


def commands(text):
    """The commands of a shell block, each as a string without comments: lines, parts of lines
    between &&."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        while words:
            end = words.index("&&") if "&&" in words else len(words)
            yield shlex.join(words[:end])
            words = words[end + 1 :]


@pytest.fixture(scope="module")
def clones(tmp_path_factory):
    """A function: the folder that all blocks of a page are run in."""
    made, first = {}, tmp_path_factory.mktemp("first")
    fill(first)

    def clone(page):
        if page not in made:
            made[page] = shutil.copytree(first, tmp_path_factory.mktemp("clone") / "hkflow")
        return made[page]

    return clone


def fill(folder):
    """Make a folder a clone with smaller cases."""
    for name in ("cases", "postprocess"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (*CASES, *STUDIES):
        changes = ({} if path in STUDIES else coarse(path)) | SMALLER.get(
            f"{path.parent.name}/{path.stem}", {}
        )
        if changes:
            (folder / path.relative_to(ROOT)).write_text(
                changed(path.read_text(encoding="utf-8"), changes), encoding="utf-8"
            )


def changed(text, changes):
    """A TOML file with other values of some dotted keys."""
    document = tomlkit.parse(text)
    for key, value in changes.items():
        *tables, last = key.split(".")
        place = document
        for table in tables:
            place = place.setdefault(table, tomlkit.table())
        place[last] = value
    return tomlkit.dumps(document)


def run_command(command, monkeypatch):
    """Run a command in this process, which has all loaded, or fail. What runs and studies start
    other processes for they do here: those would load all again, and have tests of their own."""
    monkeypatch.setattr("hkflow.running.beside.cores", lambda: 1)
    monkeypatch.setattr("hkflow.studies.study.compute_all", computed_here)
    program, *words = shlex.split(command)
    if program == "hkflow":
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, (
            f"{command}: exit code {done.exit_code}\n{done.output}{done.exception or ''}"
        )
    elif program == "python" and words[0].endswith(".py"):
        monkeypatch.setattr(sys, "argv", words)
        runpy.run_path(words[0], run_name="__main__")
    else:
        pytest.fail(
            f"{command}: how is this run? Add it to NOT_RUN with the reason, or teach run_command."
        )


def once(draw):
    """The function `draw_pictures` for the first run by a method of a case, which its title, its
    domain and the shape of its data tell: that of another one has the same panels."""
    drawn = set()

    def draw_first(run):
        key = run.title, run.method, run.domain.name, run.inputs.shape
        if key in drawn:
            return "drawn before"
        drawn.add(key)
        return draw(run)

    return draw_first


DRAW_FIRST = once(draw_pictures)


def named(text):
    """The file that a block of TOML is, by its first line, or None."""
    found = re.match(r"# ([\w./-]+\.toml)\n", text)
    return found and found[1]


@pytest.mark.parametrize(
    "page, language, text",
    [(page, language, text) for page, _, language, text in RUN],
    ids=[block[1] for block in RUN],
)
def test_a_block_runs(page, language, text, clones, monkeypatch):
    monkeypatch.chdir(clones(page))
    if language == "toml":
        tomlkit.parse(text)
        if name := named(text):
            (clones(page) / name).write_text(text, encoding="utf-8")
        return
    with ExitStack() as held:
        if page not in WITH_BARS:
            monkeypatch.setattr("hkflow.running.ending.estimated", lambda *_: False)
            monkeypatch.setattr("hkflow.app.pictures.draw_pictures", DRAW_FIRST)
            held.enter_context(sketches())
        if language == "python":
            for long, short in SHORTER.items():
                text = text.replace(long, short)
            monkeypatch.syspath_prepend(str(clones(page)))
            exec(compile(text, "block", "exec"), {"__name__": "__main__"})
            return
        for command in commands(text):
            if command not in NOT_RUN:
                run_command(command, monkeypatch)


def test_no_block_is_left_out():
    """Languages are known, each table's entries are of use, and what is shortened or not run is
    there as it is written."""
    assert {language for _, _, language, _ in BLOCKS} <= LANGUAGES
    typed = [
        command for _, _, language, text in BLOCKS if language == "sh" for command in commands(text)
    ]
    assert set(NOT_RUN) <= set(typed) and sum(command not in NOT_RUN for command in typed) > 20
    assert all(
        any(long in text for _, _, language, text in BLOCKS if language == "python")
        for long in SHORTER
    )
    assert set(WITH_BARS) <= set(DOCUMENTS)
    assert set(SMALLER) <= {f"{path.parent.name}/{path.stem}" for path in (*CASES, *STUDIES)}


def test_a_command_that_nobody_knows_fails(monkeypatch):
    with pytest.raises(pytest.fail.Exception, match="how is this run"):
        run_command("make everything", monkeypatch)
    assert list(commands("a b && c \\\n  -d  # why\n\ne 'f g'\n")) == ["a b", "c -d", "e 'f g'"]


def test_an_overview_of_each_case_is_drawn_by_each_method():
    drawn = []
    draw = once(drawn.append)
    space, data = hkflow.Domain(1), np.zeros((3, 2))
    for title, method in [("a", "grid"), ("a", "particles"), ("b", "grid"), ("a", "grid")]:
        draw(SimpleNamespace(title=title, method=method, domain=space, inputs=data))
    draw(SimpleNamespace(title="a", method="grid", domain=space, inputs=data[1:]))
    assert [(run.title, run.method, len(run.inputs)) for run in drawn] == [
        ("a", "grid", 3),
        ("a", "particles", 3),
        ("b", "grid", 3),
        ("a", "grid", 2),
    ]


def test_the_readme_says_how_tests_are_run_and_is_short():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    command = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()[-1]
    assert command.replace("--quiet ", "") in text and text.count("\n") <= 130


# --- what is made from the program


def extension(name):
    """A module of docs/_ext."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DOCS / "_ext"))
        return importlib.import_module(name)


@pytest.fixture(scope="module")
def generated():
    """The module that makes reference pages."""
    return extension("generated")


def test_docstrings_become_restructured_text():
    text = ["F(ν) = |ν| of `x`.", "", "    a = b_", "", "n : (d,) size;  m : other", "    words"]
    assert list(extension("plain_docstrings")._rewritten(text)) == [
        r"F(ν) = \|ν\| of ``x``.",
        "",
        *("::", "", "    a = b_", ""),
        *("**n**", "    (d,) size", "**m**", "    other words", "", ""),
    ]


def test_a_wrong_formula_fails_the_build():
    mathml = extension("mathml").mathml
    assert "<mfrac>" in mathml(nodes.math(text=r"\frac{1}{2}"), as_block=False)
    with pytest.raises(SphinxError, match="Unknown LaTeX command"):
        mathml(nodes.math(text=r"\nonsense{1}"), as_block=False)


def keys_of(schema, choosers):
    """(table, key, what is said of it) of all keys but those that choose a kind of table."""
    models = {**schema.get("$defs", {}), schema["title"]: schema}
    return [
        (model, name, key)
        for model, table in models.items()
        for name, key in table.get("properties", {}).items()
        if choosers(schema).get(model) != name
    ]


def keys_without_meaning(schema, choosers):
    """Keys that say nothing of themselves, as Table.key."""
    keys = keys_of(schema, choosers)
    return [f"{model}.{name}" for model, name, key in keys if not key.get("description")]


def test_every_key_of_a_file_says_what_it_means(generated):
    for table in (Case, StudyTable):
        assert keys_without_meaning(table.model_json_schema(), generated.choosers) == []
    silent = {"title": "T", "properties": {"key": {"type": "integer"}}}
    assert keys_without_meaning(silent, generated.choosers) == ["T.key"]


def test_the_reference_lists_every_key_command_record_and_name(generated):
    pages = {name: page() for name, page in generated.PAGES.items()}
    for name, table in (("case-file", Case), ("study-file", StudyTable)):
        keys = [key for _, key, _ in keys_of(table.model_json_schema(), generated.choosers)]
        assert sorted(re.findall(r"^\| `(\w+)` ", pages[name], re.M)) == sorted(keys)
    assert set(re.findall(r"^## hkflow (\w+)", pages["commands"], re.M)) == {
        command.name or command.callback.__name__ for command in app.registered_commands
    }
    assert re.findall(r"^\| `(\w+)` ", pages["records"], re.M) == list(RECORDS)
    documented = set(re.findall(r"^\.\. [\w:]+:: hkflow\.(?:\w+\.)*(\w+)$", pages["api"], re.M))
    assert set(hkflow.__all__) - {"plots", "certificates"} <= documented
    assert set(hkflow.plots.__all__) <= documented


# --- the whole


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The pages in a folder, built as users build them, warnings as errors."""
    folder = tmp_path_factory.mktemp("html")
    words = [sys.executable, "-m", "sphinx", "-W", "-n", "-q", str(DOCS), str(folder)]
    # a proxy that nobody answers: nothing may be fetched
    nowhere = dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9")
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=600, env={**os.environ, **nowhere}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class Sources(HTMLParser):
    """What a page loads."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag in ("script", "img", "iframe", "source"):
            self.found.append(given.get("src") or "")
        if tag == "link" and given.get("rel") in ("stylesheet", "preload", "icon"):
            self.found.append(given.get("href") or "")


def test_documents_build_without_a_network(built):
    """All pages are there and none loads anything from elsewhere."""
    pages = sorted(built.rglob("*.html"))
    for path in PAGES:
        assert (built / path.relative_to(DOCS).with_suffix(".html")) in pages
    for page in pages:
        sources = Sources()
        sources.feed(page.read_text(encoding="utf-8"))
        assert [one for one in sources.found if re.match(r"(https?:)?//", one)] == []
    assert "<math " in (built / "index.html").read_text(encoding="utf-8")


def test_links_outside_the_built_pages_lead_somewhere():
    """Links of README and CONTRIBUTING to files; links to other places are encrypted."""
    for path in (*DOCUMENTS, ROOT / "CONTRIBUTING.md"):
        text = FENCE.sub("", path.read_text(encoding="utf-8"))
        for target in re.findall(r"\]\(([^)\s#]+)", text):
            if re.match(r"\w+:", target):
                assert target.startswith("https://"), f"{path}: {target}"
            else:
                assert (path.parent / target).exists(), f"{path}: {target}"


def test_a_case_and_a_study_of_the_pages_are_valid(tmp_path):
    rng = np.random.default_rng(0)
    rows = "".join(
        f"{a:.3f},{b:.3f},{'yes' if a > b else 'no'}\n" for a, b in rng.normal(size=(20, 2))
    )
    (tmp_path / "measurements.csv").write_text("width,height,outcome\n" + rows)
    files = {named(text): text for _, _, language, text in BLOCKS if language == "toml"}
    (tmp_path / "my.toml").write_text(files["my.toml"])
    (tmp_path / "study.toml").write_text(files["study.toml"])
    hkflow.check(tmp_path / "my.toml")
    assert len(load_study(tmp_path / "study.toml").members) == 2 * (4 + 1) * 30
