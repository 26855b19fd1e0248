"""The house: rooms import only from rooms below them, by contracts in pyproject.toml; programs
outside of it use what is public."""

import ast
import os
import re
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT

import hkflow

PUBLIC = {
    "hkflow": set(hkflow.__all__) | {"__version__"},
    "hkflow.plots": set(hkflow.plots.__all__),
    "hkflow.certificates": set(hkflow.certificates.__all__),
}
INTERNAL = {  # programs that import more, with the reason
    "attacks/files.py": "writes hostile folders, whose layout and checksums no user handles",
    "attacks/fuzz.py": "reads and writes case files without running them",
    "attacks/whole.py": "writes reports, which the command line alone does",
    "attacks/interruptions.py": "looks into the files that a killed run leaves",
    "benchmarks/advection_peers.py": "times the transport of a grid alone, in a given velocity",
    "benchmarks/certified_margin.py": "counts the cones that a bound takes",
    "benchmarks/characteristics.py": "times the moves between kinks alone",
    "benchmarks/deformation.py": "moves densities in a velocity that changes with time",
    "benchmarks/growth.py": "times and weighs the tree alone",
    "benchmarks/kernel_machines.py": "finds the same by nonnegative least squares alone",
    "benchmarks/minima.py": "searches in all coordinates, and lets programmes go on",
    "benchmarks/particle_peers.py": "times the loop over steps, without what solve makes before",
    "benchmarks/point_sets.py": "tries other rules for bars than the one that is taken",
    "benchmarks/population.py": "compares the closed-form kernel with quadrature",
    "benchmarks/potential.py": "times the sums over cells and data alone",
    "benchmarks/potential_peers.py": "the same, against other libraries",
    "benchmarks/ranks.py": "replaces the messages between processes",
    "benchmarks/right_hand_side.py": "times the sums over units and data alone",
    "benchmarks/to_accuracy.py": "asks beforehand what a run to an accuracy plans",
}
ANNOTATED = (  # rooms whose public functions are annotated, folder by folder
    *("geometry", "measures", "operators", "objectives", "problem", "certificates"),
    *("methods", "methods/stepping", "methods/frozen_relu", "methods/network"),
    *("methods/particles", "methods/characteristics", "methods/grid", "methods/grid/steppers"),
    *("solving", "learn", "files", "case", "store", "running"),
    *("analysis", "studies", "plots", "view", "app"),
)
COMPILED = (
    "njit",
    "parallel_loop",
    "small_kernel",
    "divided_loop",
    "intrinsic",
    "jit",
    "generated",
)  # decorators: Numba finds the types


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


def test_guide_names_files_that_are_there():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = {path for path in re.findall(r"`([\w./]+/[\w./]*\w)`", text) if path != ".ci/run"}
    assert len(named) > 30 and [path for path in sorted(named) if not (ROOT / path).exists()] == []


def internal(program):
    """What a program imports or names of hkflow that is not public."""
    used = set()
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.ImportFrom) and not node.level:
            used |= {(node.module, a.name) for a in node.names if node.module[:6] == "hkflow"}
        elif isinstance(node, ast.Import):
            used |= {(a.name, "") for a in node.names if a.name.startswith("hkflow.")}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            used |= {("hkflow", node.attr)} if node.value.id == "hkflow" else set()
    return {f"{module}.{name}" for module, name in used if name not in PUBLIC.get(module, ())}


def test_programs_outside_use_what_is_public():
    programs = [ROOT / place for place in ("attacks", "benchmarks", "postprocess")]
    found = {
        f"{folder.name}/{path.name}": internal(path.read_text(encoding="utf-8"))
        for folder in programs
        for path in sorted(folder.glob("*.py"))
    }
    assert {path: names for path, names in found.items() if names and path not in INTERNAL} == {}
    assert {path for path in INTERNAL if not found[path]} == set(), "these have become public"


@pytest.mark.parametrize(
    "program",
    ["from hkflow.store.run import Run", "import hkflow.store", "import hkflow; hkflow.inner()"],
)
def test_sibling_an_internal_name_is_seen(program):
    assert internal(program)


def unannotated(module):
    """Public functions and methods of a module, by their lines, that lack the type of an argument
    or of what they return; compiled ones may."""
    classes = [node for node in module.body if isinstance(node, ast.ClassDef)]
    public = [cls for cls in classes if not cls.name.startswith("_")]
    for node in (*module.body, *(inner for cls in public for inner in cls.body)):
        if not isinstance(node, ast.FunctionDef) or (
            node.name.startswith("_") and node.name not in ("__init__", "__call__")
        ):
            continue
        if any(word in ast.unparse(d) for d in node.decorator_list for word in COMPILED):
            continue
        arguments = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
        arguments += [a for a in (node.args.vararg, node.args.kwarg) if a]
        typed = all(a.annotation for a in arguments if a.arg not in ("self", "cls"))
        if not typed or node.returns is None:
            yield f"{node.lineno}: {node.name}"


def test_public_functions_are_annotated():
    solver = ROOT / "solver" / "hkflow"
    paths = [path for room in ANNOTATED for path in sorted((solver / room).glob("*.py"))]
    modules = {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}
    found = {str(path.relative_to(solver)): [*unannotated(modules[path])] for path in paths}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("def f(x: int): ...", ["1: f"]),
        ("class C:\n    def f(self, x) -> int: ...", ["2: f"]),
        ("@njit\ndef f(x): ...\ndef _f(x): ...\ndef g(*x: int) -> int: ...", []),
    ],
)
def test_sibling_a_missing_annotation_is_seen(code, found):
    assert [*unannotated(ast.parse(code))] == found


def decided_by_dimension(program):
    """Lines at which a program asks which space a measure lives on otherwise than by a property of
    its Domain: compares a dimension with a number, looks it up, or asks `is_discrete`."""

    def is_dimension(node):
        return getattr(node, "attr", getattr(node, "id", "")) == "dim"

    for node in ast.walk(ast.parse(program)):
        asked: list = []
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            asked = [x for x in sides if not isinstance(x, ast.Name | ast.Attribute)] and sides
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "get":
            asked = node.args[:1]
        elif isinstance(node, ast.Subscript):
            asked = [node.slice]
        if any(map(is_dimension, asked)) or getattr(node, "attr", "") == "is_discrete":
            yield node.lineno


def test_the_domain_alone_knows_what_follows_from_the_dimension():
    solver = ROOT / "solver" / "hkflow"
    rooms = [path for path in solver.rglob("*.py") if path.parent.name != "geometry"]
    found = {
        str(path.relative_to(solver)): [*decided_by_dimension(path.read_text(encoding="utf-8"))]
        for path in rooms
    }
    assert len(rooms) > 100 and {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "program",
    [
        "if run.is_discrete: pass",
        "draw = {1: a, 2: b}.get(run.dim)",
        "draw = DRAW[run.dim]",
        "if dim not in (1, 2) or 3 <= problem.dim: pass",
        "flat = 2 >= mesh.dim",
    ],
)
def test_sibling_a_question_about_the_dimension_is_seen(program):
    assert [*decided_by_dimension(program)]
    assert not [*decided_by_dimension("if run.domain.fixed or bits > dim: x = (dim + 1) * [0]")]
