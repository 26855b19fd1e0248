"""Every block of code in the README and in docs, in order and in one folder, as a reader would type
it.

The folder is a clone with smaller cases: commands are run as they stand, on cases whose files are
made `coarse` and SMALLER. What differs besides is written in SHORTER, what is not run in NOT_RUN,
with the reason; a command that is in neither is run, and a program, a language or an entry that no
longer fits fails.
"""

import re
import runpy
import shlex
import shutil
import sys

import numpy as np
import pytest
import tomlkit
from commands import coarse
from conftest import CASES, ROOT, STUDIES
from typer.testing import CliRunner

import hkflow
from hkflow.app.cli import app
from hkflow.studies.file import load_study

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.S | re.M)

SMALLER = {  # keys of cases and studies, besides what `coarse` makes of a case
    "colt/cluster-margin": {"data.n": 12, "time.end": 10.0},
    "icm/fig2": {"data.n": 100},
    "icm/fig2-m5": {"data.n": 100},
    "studies/space-circle": {"refine.domain.cells": [32, 64, 128]},
    "studies/monte-carlo": {"repeats": 2, "refine.method.particles": [10, 40], "expected": {}},
}
SHORTER = {"end=20.0, saves=5": "end=2.0, saves=5"}  # of Python
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


def blocks():
    """(document and line, language, text) of every block."""
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        for found in FENCE.finditer(text):
            yield f"{path.name}:{text.count(chr(10), 0, found.start()) + 1}", found[1], found[2]


BLOCKS = list(blocks())
RUN = [(place, language, text) for place, language, text in BLOCKS if language in ("sh", "python")]


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
def clone(tmp_path_factory):
    """The folder that all blocks are run in."""
    folder = tmp_path_factory.mktemp("clone")
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
    return folder


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
    """Run a command in this process, which has all loaded, or fail."""
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


@pytest.mark.parametrize("language, text", [one[1:] for one in RUN], ids=[one[0] for one in RUN])
def test_a_block_runs(language, text, clone, monkeypatch):
    monkeypatch.chdir(clone)
    if language == "python":
        for long, short in SHORTER.items():
            text = text.replace(long, short)
        exec(compile(text, "block", "exec"), {"__name__": "__main__"})
        return
    for command in commands(text):
        if command not in NOT_RUN:
            run_command(command, monkeypatch)


def test_no_block_is_left_out():
    """Languages are known, each table's entries are of use, and what is shortened or not run is
    there as it is written."""
    assert {language for _, language, _ in BLOCKS} == {"sh", "python", "toml"}
    typed = [
        command for _, language, text in BLOCKS if language == "sh" for command in commands(text)
    ]
    assert set(NOT_RUN) <= set(typed) and sum(command not in NOT_RUN for command in typed) > 20
    assert all(
        any(long in text for _, language, text in BLOCKS if language == "python")
        for long in SHORTER
    )
    assert set(SMALLER) <= {f"{path.parent.name}/{path.stem}" for path in (*CASES, *STUDIES)}


def test_a_command_that_nobody_knows_fails(monkeypatch):
    with pytest.raises(pytest.fail.Exception, match="how is this run"):
        run_command("make everything", monkeypatch)
    assert list(commands("a b && c \\\n  -d  # why\n\ne 'f g'\n")) == ["a b", "c -d", "e 'f g'"]


def test_files_of_the_readme_are_valid(tmp_path):
    """A case and a study of it."""
    rng = np.random.default_rng(0)
    rows = "".join(
        f"{a:.3f},{b:.3f},{'yes' if a > b else 'no'}\n" for a, b in rng.normal(size=(20, 2))
    )
    (tmp_path / "measurements.csv").write_text("width,height,outcome\n" + rows)
    case, study = (text for _, language, text in BLOCKS if language == "toml")
    (tmp_path / "my.toml").write_text(case)
    (tmp_path / "study.toml").write_text(study)
    hkflow.check(tmp_path / "my.toml")
    assert len(load_study(tmp_path / "study.toml").members) == 2 * (4 + 1) * 30
