"""What is published: the distributions hold what they must, and what they say of themselves is true
everywhere it is said."""

import ast
import re
import shutil
import subprocess
import sys
import tarfile
from configparser import ConfigParser

import pytest
from conftest import ROOT

SETUP = ConfigParser()
SETUP.read(ROOT / "setup.cfg", encoding="utf-8")
FILES = ("CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "MANIFEST.in", "README.md")
FOLDERS = ("attacks", "benchmarks", "cases", "docs", "postprocess", "solver", "tests")
MADE = shutil.ignore_patterns("__pycache__", "*.egg-info", "_generated")
NAMES = {"sklearn": "scikit-learn", "ot": "POT", "imageio_ffmpeg": "imageio-ffmpeg"}
OF = {"pydantic_core": "pydantic", "markupsafe": "jinja2"}  # parts of others, and always with them


def requirements(section, extra):
    """Names of the packages in a list of setup.cfg."""
    return set(re.findall(r"^([\w-]+)", SETUP[section][extra], re.MULTILINE))


def files(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A copy of what is published, without what programs and tests have made in it."""
    copy = tmp_path_factory.mktemp("package") / "source"
    copy.mkdir()
    for name in (*FILES, "pyproject.toml", "setup.cfg"):
        shutil.copy(ROOT / name, copy)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, copy / name, ignore=MADE)
    return copy


def build(folder, *words):
    """What setuptools makes of a folder."""
    program = "import sys; from setuptools import setup; setup(script_args=sys.argv[1:])"
    command = [sys.executable, "-W", "ignore", "-c", program, *map(str, words)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


def test_distributions_hold_all(source):
    wanted, around = files(source), source.parent
    build(source, "sdist", "--dist-dir", around)
    (path,) = around.glob("hkflow-*.tar.gz")
    with tarfile.open(path) as archive:
        archive.extractall(around, filter="data")
    unpacked = path.with_suffix("").with_suffix("")
    assert wanted - files(unpacked) == set()
    build(unpacked, "build_py", "--build-lib", around / "installed")
    packaged = {name for name in wanted if name.startswith("solver/")}
    assert {f"solver/{name}" for name in files(around / "installed")} == packaged


def imported(room):
    """Packages that the modules of a folder import, inside functions too."""
    nodes = [
        node
        for path in room.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    ]
    names = {a.name for node in nodes if isinstance(node, ast.Import) for a in node.names}
    names |= {n.module for n in nodes if isinstance(n, ast.ImportFrom) and not n.level and n.module}
    names = {name.partition(".")[0] for name in names} - set(sys.stdlib_module_names) - {"hkflow"}
    return {OF.get(name, NAMES.get(name, name)) for name in names}


def test_what_is_imported_is_required():
    core, extras = requirements("options", "install_requires"), SETUP["options.extras_require"]
    optional = set().union(*(requirements(extras.name, extra) for extra in extras))
    found = imported(ROOT / "solver" / "hkflow")
    assert core <= found <= core | optional


def test_versions_are_said_alike():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    for key in ("version", "license"):
        assert f"\n{key}: {SETUP['metadata'][key]}\n" in citation
    pythons = re.findall(r":: (3\.\d+)", SETUP["metadata"]["classifiers"])
    assert SETUP["options"]["python_requires"] == f">={pythons[0]}"
    for page in ("README.md", "docs/howto/install.md", "docs/tutorials/first-run.md"):
        said = f"Python {pythons[0]} to {pythons[-1]}"
        assert said in (ROOT / page).read_text(encoding="utf-8"), page
    assert f"The {SETUP['metadata']['name']} developers" in citation
