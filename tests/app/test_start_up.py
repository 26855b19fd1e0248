"""What is loaded when: hkflow is quick to import and to refuse because nothing is loaded before it
is needed."""

import importlib
import os
import subprocess
import sys
from importlib.metadata import version

import numpy as np
import pytest
from conftest import ROOT
from numba import typeof

import hkflow
from hkflow.methods.particles import kernels
from hkflow.objectives import objective as objectives
from hkflow.problem import flow as flows

LAMBDA_TAU = ("weight_decay", "entropy")
IRIS = ROOT / "cases" / "quickstart" / "iris.toml"
SOLVER = {"numpy", "numba", "scipy", "matplotlib", "h5py"}
LOADED = (
    "import sys, atexit; atexit.register(lambda: print('loaded:', *{m.partition('.')[0] for m in"
    " sys.modules}, file=sys.stderr))"
)


def loaded(code, *words, exit_code=0):
    """The top-level modules that a fresh Python has loaded when it has run some code with these
    words as arguments."""
    done = subprocess.run(
        [sys.executable, "-c", f"{LOADED}\n{code}", *map(str, words)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == exit_code, done.stdout + done.stderr
    return set(done.stderr.rpartition("loaded:")[2].split())


def loaded_by(*words, **options):
    """The same for `hkflow words…`."""
    return loaded("from hkflow.app.cli import main; main()", *words, **options)


@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], ["run", "--help"], ["margin", "--help"]]
)
def test_help_loads_no_solver_and_no_case(words):
    assert not loaded_by(*words) & (SOLVER | {"tomlkit", "markdown_it"})


def test_the_package_is_the_command():
    words = [sys.executable, "-m", "hkflow", "--version"]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert said == f"hkflow {version('hkflow')}\n"


@pytest.mark.parametrize(
    "words",
    [
        ["run"],
        ["nonsense"],
        ["run", "none.toml"],
        ["run", IRIS, "--set", "flow.nois=1"],
        ["check", IRIS, "--set", "no-equals-sign"],
    ],
)
def test_a_wrong_command_or_case_is_refused_before_the_solver_is_loaded(words):
    assert not loaded_by(*words, exit_code=2) & SOLVER


def test_a_schema_needs_no_solver():
    assert not loaded_by("schema") & SOLVER


def test_a_run_on_a_cached_mesh_draws_nothing_and_loads_no_optimiser():
    """Once a mesh is kept, what takes seconds to load stays where it is: scipy's statistics,
    integrators and programmes."""
    code = (
        f"import hkflow, sys\nproblem = hkflow.check({str(IRIS)!r}, **{{'domain.cells':"
        " 162})[1]\nassert hkflow.solve(problem, 0.01).finished\nassert not [m for m in ('stats',"
        " 'integrate', 'optimize', 'special', 'spatial', 'fft') if f'scipy.{m}' in sys.modules]"
    )
    hkflow.check(IRIS, **{"domain.cells": 162})  # fills the cache that the environment names
    assert not loaded(code) & {"matplotlib", "rich", "typer"}


@pytest.mark.parametrize("kind", ["particles", "network", "characteristics"])
def test_a_run_in_many_dimensions_loads_no_statistics_and_no_integrator(kind):
    """Which would take as long as the run."""
    size = "units" if kind == "network" else "particles"
    case = {
        "data": {"source": "teacher", "n": 20, "dim": 5, "units": 2},
        "objective": {"activation": "relu", "loss": "square"},
        "domain": {"kind": "signed-sphere"},
        "flow": {"kind": "hellinger-kantorovich"},
        "method": {"kind": kind, size: 10},
        "time": {"end": 0.01},
    }
    code = (
        f"import hkflow, sys\nproblem = hkflow.check({case!r})[1]\nassert hkflow.solve(problem,"
        f" 0.01, kind={kind!r}).finished\nassert not [m for m in ('stats', 'integrate',"
        " 'optimize', 'fft') if f'scipy.{m}' in sys.modules]"
    )
    loaded(code)


def test_a_run_and_its_pictures_load_the_parts_of_scipy_when_they_need_them():
    code = (
        "import sys, hkflow.running.run, hkflow.plots.kinds\nprint([m for m in sys.modules"
        " if m.startswith('scipy.') and m[6] != '_' and 'version' not in m])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_nothing_is_compiled_twice(tmp_path):
    """A second process finds every kernel of the quickstart in Numba's cache."""
    keys = {"domain.cells": 162, "time.end": 0.5, "time.saves": 2}
    code = f"import hkflow\nhkflow.run({str(IRIS)!r}, output=sys.argv[1], **{keys!r})"

    def saved(folder):
        environment = os.environ | {"NUMBA_DEBUG_CACHE": "1"}
        command = [sys.executable, "-c", "import sys\n" + code, str(tmp_path / folder)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        return [
            line for line in (done.stdout + done.stderr).splitlines() if "data saved" in line
        ], done.stdout

    saved("first")
    again, output = saved("second")
    assert not again and "data loaded" in output


@pytest.fixture
def types_for(monkeypatch):
    """(α, β, λ, σ) -> the types with which a kernel is called when particles move with them."""
    found, kernel = set(), kernels.particle_rates

    def noted(*arguments):
        found.add(tuple(map(typeof, arguments)))
        return kernel(*arguments)

    monkeypatch.setattr(kernels, "particle_rates", noted)
    points = np.eye(3)
    start = hkflow.PointMeasure(points, np.ones(3))

    def solved(transport, reaction, weight_decay, noise):
        found.clear()
        objective = hkflow.Objective(
            hkflow.FEATURES["squared-relu"], hkflow.RISKS["square"], points, np.ones(3),
            weight_decay=weight_decay,
        )  # fmt: skip
        flow = hkflow.Flow(transport, reaction, noise)
        problem = hkflow.Problem(None, objective, flow, initial=start)
        hkflow.solve(problem, 0.01, kind="particles", stepper="dopri5")
        return set(found)

    return solved


def test_whole_numbers_compile_nothing_anew(types_for):
    floats = types_for(1.0, 4.0, 0.0, 0.0)
    assert floats and types_for(1, 4, 0, np.int64(0)) == floats


def test_sibling_numbers_taken_as_they_come_do(types_for, monkeypatch):
    floats = types_for(1.0, 4.0, 0.0, 0.0)
    for module, check in ((flows, "real_number"), (objectives, "nonnegative")):
        monkeypatch.setattr(module, check, lambda value, what: value)
    assert types_for(1, 4, 0, 0).isdisjoint(floats)


def test_problems_keep_floats():
    risk, unit = hkflow.PopulationRisk, [[1.0, 0.0]]
    kept = (
        (hkflow.Flow(0, 9, depth=3), ("transport", "reaction", "noise", "depth")),
        (risk(hkflow.FEATURES["relu"], unit, [1.0], weight_decay=1, entropy=1), LAMBDA_TAU),
        (hkflow.Sum(axes=3, weight_decay=1, entropy=1), LAMBDA_TAU),
    )
    for one, names in kept:
        assert {type(getattr(one, name)) for name in names} == {float}


def unresolved(package):
    """Names of a package's stub that it cannot load, or looks up again each time."""
    return [
        name
        for name in package.__all__
        if getattr(package, name, None) is None or name not in vars(package)
    ]


@pytest.mark.parametrize("package", [hkflow, hkflow.certificates, hkflow.plots])
def test_a_package_lists_and_loads_the_names_of_its_stub(package):
    assert package.__all__ == dir(package) == sorted(package.__all__)
    assert unresolved(package) == []


def test_some_public_names():
    names = set(hkflow.__all__)
    assert {"run", "solve", "load", "certificates", "plots", "Problem", "CaseError"} <= names
    assert callable(hkflow.certificates.max_margin)
    assert hkflow.certificates.bounds.__name__ == "hkflow.certificates.bounds"
    assert hkflow.__version__ == version("hkflow")


def test_sibling_a_stub_that_names_what_is_not_there_is_seen(tmp_path, monkeypatch):
    (tmp_path / "house").mkdir()
    code = (
        "from hkflow.lazy import public\n__getattr__, __dir__, __all__ = public(__name__, __file__)"
    )
    (tmp_path / "house" / "__init__.py").write_text(code)
    stub = "from .door import inside as inside\nfrom .door import outside as outside\n"
    (tmp_path / "house" / "__init__.pyi").write_text(stub)
    (tmp_path / "house" / "door.py").write_text("inside = 1")
    monkeypatch.syspath_prepend(tmp_path)
    house = importlib.import_module("house")
    assert house.__all__ == ["inside", "outside"] and unresolved(house) == ["outside"]


@pytest.mark.parametrize(
    "package, wrong, right",
    [("hkflow", "solv", "solve"), ("hkflow.certificates", "max_margins", "max_margin")],
)
def test_an_unknown_name_is_refused_with_the_nearest_one(package, wrong, right):
    code = f"import {package}; {package}.{wrong}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert f"module '{package}' has no attribute '{wrong}'. Did you mean: '{right}'?" in done.stderr
