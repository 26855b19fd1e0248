"""The house: rooms import only from rooms below them. The contracts stand in pyproject.toml."""

import os
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT


def broken(folder):
    """Names of the contracts that a package in folder/hkflow breaks; imports inside functions
    count."""
    lint = "import sys; from importlinter.cli import lint_imports_command; lint_imports_command()"
    environment = os.environ | {"PYTHONPATH": str(folder)}
    words = [sys.executable, "-c", lint, "--config", str(ROOT / "pyproject.toml"), "--no-cache"]
    found = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)
    verdicts = [line.rsplit(maxsplit=1) for line in found.stdout.splitlines()]
    verdicts = {words[0]: words[1] for words in verdicts if words[1:] in (["KEPT"], ["BROKEN"])}
    assert len(verdicts) == 4 and found.returncode == ("BROKEN" in verdicts.values()), (
        found.stdout + found.stderr
    )
    return {name for name, verdict in verdicts.items() if verdict == "BROKEN"}


def test_imports_go_down():
    assert broken(ROOT / "solver") == set()


@pytest.mark.parametrize(
    ("room", "line", "contract"),
    [
        ("geometry/sphere.py", "from ..problem.flow import Flow", "A room imports only"),
        ("solving/loop.py", "def late():\n    from ..store.run import Run", "A room imports only"),
        (
            "methods/grid/stencil.py",
            "from ..network.network import Network",
            "a method knows no other",
        ),
        ("solving/guards.py", "import rich", "Below the files nothing"),
        ("studies/study.py", "import matplotlib", "matplotlib is imported by plots"),
    ],
)
def test_sibling_a_violation_is_seen(tmp_path, room, line, contract):
    shutil.copytree(
        ROOT / "solver" / "hkflow",
        tmp_path / "hkflow",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    with open(tmp_path / "hkflow" / room, "a", encoding="utf-8") as file:
        file.write(f"\n\n{line}\n")
    names = broken(tmp_path)
    assert any(contract in name for name in names), names
