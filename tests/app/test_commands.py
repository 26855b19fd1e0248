"""The command line as a user types it, and every case file."""

import json
import re
import subprocess
import sys
import tomllib

import numpy as np
import pytest
import typer
from commands import coarse, hk, hk_alone
from conftest import CASES, ROOT

import hkflow
from hkflow.app.cli import app
from hkflow.case.accuracy import first_size

IRIS = ROOT / "cases" / "quickstart" / "iris.toml"
SMALL = ["--set", "domain.cells=642", "--set", "time.end=2.0", "--set", "time.saves=3"]


def test_run_info_plot_pack_resume(tmp_path):
    out, err = hk_alone("run", IRIS, "--output", tmp_path / "run", *SMALL)
    for word in (
        "Completed at t = 2",
        "objective:",
        "total mass:",
        "training error:",
        "mass residual:",
        "energy residual:",
        "results.h5",
    ):
        assert word in out
    assert "\x1b" not in out + err and "\r" not in out + err
    assert (tmp_path / "run" / "overview.png").stat().st_size > 20_000
    out, _ = hk("info", tmp_path / "run")
    assert (
        "Iris" in out
        and "saves:            3, of a grid of 642 cells on S^2, 2 output sign(s); 100 data" in out
        and "numba" in out
    )
    hk("plot", tmp_path / "run", "--output", tmp_path / "picture.pdf")
    assert (tmp_path / "picture.pdf").read_bytes().startswith(b"%PDF")
    assert "density-1.png" in hk("plot", tmp_path / "run", "density", "--save", 1, "--wide")[0]
    assert (tmp_path / "run" / "density-1.png").stat().st_size > 20_000
    out, _ = hk("plot", tmp_path / "run", "help")
    assert [line.split()[0] for line in out.splitlines()] == [
        "overview",
        "density",
        "decision",
        "predictions",
        "records",
    ]
    out, err = hk("animate", tmp_path / "run", "predictions", "--output", tmp_path / "film.gif")
    assert (
        "film.gif" in out
        and err == ""
        and (tmp_path / "film.gif").read_bytes().startswith(b"GIF89a")
    )
    (tmp_path / "run" / "results.h5").unlink()
    hk("pack", tmp_path / "run")
    assert hkflow.load(tmp_path / "run" / "results.h5").finished
    assert hk("resume", tmp_path / "run", "--quiet") == ("", "")


def test_errors_have_exit_code_two_and_leave_nothing(tmp_path):
    _, err = hk_alone("run", IRIS, "--output", tmp_path / "run", "--set", "flow.nois=0.1", code=2)
    assert "flow.nois: unknown key. Did you mean 'noise'" in err and "Traceback" not in err
    hk("run", tmp_path / "none.toml", "--output", tmp_path / "run", code=2)
    hk("info", tmp_path / "run", code=2)
    hk("resume", tmp_path / "run", code=2)
    assert list(tmp_path.iterdir()) == []
    hk("run", IRIS, "--output", tmp_path / "run", *SMALL, "--quiet")
    _, err = hk("plot", tmp_path / "run", "--output", tmp_path / "a.gif", code=2)
    assert "unknown picture format '.gif'" in err
    _, err = hk("plot", tmp_path / "run", "paths", code=2)
    assert (
        "this run is a grid, without particles or units. Choose from: decision, density, overview,"
        " predictions, records." in err
    )
    hk("run", IRIS, "--output", tmp_path / "run", *SMALL, code=2)


def test_check_prints_a_case_that_runs(tmp_path):
    out, _ = hk("check", IRIS, "--set", "flow.noise=0.01", "--set", "domain.cells=642")
    assert (
        "reaction = 2.0" in out
        and "Estimated memory" in out
        and "100 data, 642 cells on S^2, 2 sign(s)" in out
    )
    (tmp_path / "again.toml").write_text(out)
    (tmp_path / "iris.csv").write_bytes((IRIS.parent / "iris.csv").read_bytes())
    hk("check", tmp_path / "again.toml")


@pytest.mark.parametrize(
    "words, said",
    [
        (("objective.operator=sorted",), "Take 'dense' or 'tree'"),
        (("method.kind=characteristics", "flow.noise=0.1"), "Choose from: grid, particles"),
        (("records.entropy=nowhere:f",), "iris.toml, what is set: records.entropy: 'nowhere:f'"),
    ],
)
def test_check_calls_no_case_valid_that_a_run_refuses(words, said):
    """It said so, and then what is wrong with the method; at records it did not look."""
    out, err = hk("check", IRIS, *(part for word in words for part in ("--set", word)), code=2)
    assert "is valid" not in out and said in err


def test_check_of_many_columns_does_not_name_them(tmp_path):
    """2000 names were one line of 14,000 characters above all that was said."""
    rows = np.random.default_rng(0).normal(size=(9, 61))
    names = ",".join([*(f"g{k}" for k in range(60)), "y"])
    np.savetxt(tmp_path / "wide.csv", rows, delimiter=",", header=names, comments="")
    case = tmp_path / "wide.toml"
    case.write_text(
        'data = {source = "csv", file = "wide.csv", label = "y"}\ntime = {end = 1e-3, saves = 2}\n'
        'objective = {activation = "relu", loss = "square"}\ndomain = {kind = "signed-sphere"}\n'
        'initial = {kind = "uniform"}\nflow = {kind = "wasserstein"}\n'
    )
    out, _ = hk("check", case)
    assert "# Data: 60 columns are inputs, all but the label." in out and '"g17"' not in out
    case.write_text(out)
    assert hk("check", case)[0].split("Expected time")[0] == out.split("Expected time")[0]


def test_check_shows_what_a_run_to_an_accuracy_takes(tmp_path):
    """It showed the coarse run by which that is chosen."""
    (tmp_path / "case.toml").write_text(IRIS.read_text().replace("cells = ", "# cells = "))
    (tmp_path / "iris.csv").write_bytes((IRIS.parent / "iris.csv").read_bytes())
    out, _ = hk("check", tmp_path / "case.toml", "--set", "method.accuracy=1e-2")
    cells = re.search(r"it takes grid, (\d+) cells", out)[1]
    assert f"\ncells = {cells}\n" in out and f"100 data, {cells} cells on S^2" in out
    assert int(cells) > first_size(2)


def test_check_asks_whether_the_method_fits_in_python_too():
    method = {"kind": "characteristics"}
    with pytest.raises(hkflow.CaseError, match="'characteristics' has no noise, got noise = 0.1"):
        hkflow.check(IRIS, method=method, flow={"noise": 0.1}, **{"domain.cells": 162})


def test_pictures_need_no_screen(tmp_path, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "nonsense")
    hk_alone("run", IRIS, "--output", tmp_path / "run", *SMALL, "--quiet")
    out, _ = hk_alone("plot", tmp_path / "run", "records")
    assert "records.png" in out


def test_every_output_is_spelled_alike():
    """-o was known to `hkflow view` alone."""
    options = {
        name: [option.opts for option in command.params if option.name == "output"]
        for name, command in typer.main.get_command(app).commands.items()
    }
    spelled = [opts for found in options.values() for opts in found]
    assert spelled and all(opts == ["--output", "-o"] for opts in spelled)


def test_schema_is_json():
    schema = json.loads(hk("schema")[0])
    assert set(schema["required"]) == {"domain", "time"}
    assert schema["anyOf"] == [{"required": ["data", "objective"]}, {"required": ["energy"]}]


def test_help_and_import_are_light():
    heavy = ("numba", "scipy", "matplotlib", "h5py", "numpy")
    code = f"import sys, hkflow, hkflow.app.cli; print([m for m in {heavy} if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip()
        == "[]"
    )


# Pinned at coarse resolution, to 1e-6: a change of the scheme shows here and must be meant.
PINNED = json.loads((ROOT / "tests" / "pinned.json").read_text())


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_case_runs_coarse_and_matches_its_pinned_numbers(path, tmp_path):
    # max-margins are begun, and certified elsewhere
    quick = coarse(path) | {"certificate.seconds": 0.1}
    run = hkflow.run(path, output=tmp_path / "run", **quick)
    assert run.finished, run.status
    pins = PINNED[f"{path.parent.name}/{path.stem}"]
    got = {name: run.records[name][-1] for name in pins}
    assert got == pytest.approx(pins, rel=1e-6)
    if run.problem.exact is not None:
        assert run.exact_errors()[0][-1] < 5e-3


def restated(path, pins):
    """The pins of a case that its own numbers, or those that make it quick, already say: as
    ∓ end, for the objective of a flow that runs by its margin, or a mass that stays."""
    numbers = {1.0}  # the initial mass where none is given
    waiting = [tomllib.loads(path.read_text()), coarse(path)]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict | list):
            waiting += value.values() if isinstance(value, dict) else value
        elif isinstance(value, int | float):
            numbers.add(abs(value))
    return [name for name, pin in pins.items() if abs(pin) in map(approximately, numbers)]


def approximately(number):
    return pytest.approx(number, rel=1e-6, abs=0.0)


def test_no_pin_restates_an_input():
    cases = {f"{path.parent.name}/{path.stem}": path for path in CASES}
    found = {name: restated(cases[name], pins) for name, pins in PINNED.items()}
    assert {name: pins for name, pins in found.items() if pins} == {}


def test_sibling_a_pin_that_restates_an_input_is_seen():
    path = ROOT / "cases" / "moroshko" / "path.toml"
    assert restated(path, {"objective": -999.9999999993036, "mass": 60043.8}) == ["objective"]


def test_ctrl_c_before_a_command_has_begun_is_no_traceback(monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("hkflow.app.cli.app", interrupted)
    assert hk("--version", code=130) == ("", "")


def test_a_breach_ends_with_exit_code_one(tmp_path):
    case = tmp_path / "steep.toml"
    case.write_text(
        '[data]\nsource = "inline"\ninputs = [[-1e4, 0.0], [1.0, 0.0]]\ntargets = [1.0,'
        ' -1.0]\n[objective]\nactivation = "linear"\nloss = "exponential"\n[domain]\nkind ='
        ' "sphere"\ncells = 16\n[initial]\nkind = "points"\npositions = [[1.0, 0.0]]\n[flow]\nkind'
        ' = "wasserstein"\n[time]\nend = 1.0\n'
    )
    out, _ = hk("run", case, "--output", tmp_path / "run", code=1)
    assert out.startswith("Stopped at t = 0: the initial objective is inf")
    assert hkflow.load(tmp_path / "run").time.tolist() == [0.0]
    again, _ = hk("resume", tmp_path / "run", code=1)
    assert again.splitlines()[0] == out.splitlines()[0]
    assert hkflow.load(tmp_path / "run").time.tolist() == [0.0]
