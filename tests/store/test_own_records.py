"""A user's records in run folders: stored, read back, resumed, shown, and columns of studies."""

import json
import pickle
import shutil
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure
from test_run_folder import CASE, content

import hkflow
from hkflow.analysis.summary import in_columns, summary
from hkflow.app.report import write_report
from hkflow.plots import draw
from hkflow.solving import loop
from hkflow.solving.registry import own_names
from hkflow.studies.report import markdown
from hkflow.studies.study import study

NAMED = '[records]\ndouble = "observables:double"\n'
MODULE = "def double(state):\n    return 2.0 * state.mass\n"


def double(state):
    return 2.0 * state.mass


OWN = {"double": double}


class Stop:
    """Ends a run after a number of steps."""

    def __init__(self, step):
        self.step = step

    def __call__(self, state):
        return state.step >= self.step


@pytest.fixture
def case(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(CASE)
    return path


@pytest.fixture
def named_case(tmp_path):
    """A case that names its function, in a module beside it."""
    place = tmp_path / "named"
    place.mkdir()
    (place / "observables.py").write_text(MODULE)
    path = place / "small.toml"
    path.write_text(CASE + NAMED)
    yield path
    sys.modules.pop("observables", None)  # of a run that found it where Python looks


def test_they_are_stored_and_read_back(case, tmp_path):
    run = hkflow.run(case, output=tmp_path / "run", records=OWN)
    assert np.array_equal(run.records["double"], 2.0 * run.records["mass"])
    rows = [json.loads(line) for line in (run.path / "records.jsonl").read_text().splitlines()]
    assert [row["double"] for row in rows] == run.records["double"].tolist()
    packed = hkflow.load(run.path / "results.h5")
    assert np.array_equal(packed.records["double"], run.records["double"])
    assert in_columns(summary(packed)).endswith(f"\ndouble:           {rows[-1]['double']:.8g}")


def test_they_are_exported(case, tmp_path):
    pytest.importorskip("xarray")
    run = hkflow.run(case, output=tmp_path / "run", records=OWN)
    data = hkflow.to_xarray(run)
    assert np.array_equal(data["record_double"], run.records["double"])
    assert data["record_double"].attrs["long_name"].startswith("double: A user's function")
    assert data["record_mass"].attrs["long_name"].endswith("in units of exp(log_scale)")


def test_they_are_drawn_and_compared(case, tmp_path, monkeypatch):
    run = hkflow.run(case, output=tmp_path / "run", records={"twice_the_mass": double})
    panels = [ax.get_ylabel() for ax in draw("records", run).axes]
    assert panels[-1] == "twice the mass" and len(panels) == 5
    figure = Figure()
    draw("records", run, figure)
    assert np.array_equal(figure.axes[-1].lines[0].get_ydata(), run.records["twice_the_mass"])
    monkeypatch.setattr("hkflow.app.report._figures", lambda run: [])  # the table is looked at
    page = write_report([run, run], tmp_path / "report.html").read_text()
    assert ">twice the mass</th>" in page.replace("\n", "")


def test_a_resumed_run_records_on_to_the_same_bits(case, tmp_path):
    whole = hkflow.run(case, output=tmp_path / "whole", records=OWN)
    broken = hkflow.run(case, output=tmp_path / "run", records=OWN, observers=[Stop(4)])
    assert not broken.finished
    run = hkflow.resume(tmp_path / "run", records=OWN)
    assert content(run.path) == content(whole.path) and run.status == whole.status


def test_a_resumed_run_says_which_it_cannot_go_on_with(case, tmp_path):
    broken = hkflow.run(case, output=tmp_path / "run", records=OWN, observers=[Stop(4)])
    time = broken.time[-1]
    run = hkflow.resume(tmp_path / "run", records={"mass_again": lambda state: state.mass})
    assert run.finished and run.status.startswith("Completed at t = 0.6")
    assert f"Not recorded after t = {time:g}, for want of a function" in run.status
    assert run.status.endswith(" 'double'.")
    late = run.records["time"] > time
    assert np.isfinite(run.records["double"][~late]).all()
    assert np.isnan(run.records["double"][late]).all()
    assert np.isnan(run.records["mass_again"][~late]).all()
    assert np.array_equal(run.records["mass_again"][late], run.records["mass"][late])
    assert np.array_equal(
        hkflow.load(run.path / "results.h5").records["double"], run.records["double"], True
    )
    draw("records", run)
    assert "mass again:" in in_columns(summary(run))


def test_a_damaged_record_is_still_seen(case, tmp_path):
    """Only a user's may be missing from a row."""
    run = hkflow.run(case, output=tmp_path / "run", records=OWN)
    log = run.path / "records.jsonl"
    lines = log.read_text().splitlines()
    log.write_text("\n".join([lines[0], lines[1].replace('"mass":', '"maas":')]) + "\n")
    with pytest.raises(hkflow.RunFolderError, match="records.jsonl: damaged"):
        hkflow.load(run.path)


def test_a_run_of_a_version_with_fewer_records_opens_and_goes_on(case, tmp_path, monkeypatch):
    whole = hkflow.run(case, output=tmp_path / "whole")
    taken = loop.take_record

    def fewer(*arguments):
        record = taken(*arguments)
        del record["training_error"]
        return record

    with monkeypatch.context() as older:
        older.setattr(loop, "take_record", fewer)
        run = hkflow.run(case, output=tmp_path / "run", observers=[Stop(4)])
    assert np.isnan(run.records["training_error"]).all() and len(run.records["time"]) > 2
    run = hkflow.resume(tmp_path / "run")
    assert run.finished and np.array_equal(run.records["mass"], whole.records["mass"])
    errors = run.records["training_error"]
    assert np.isnan(errors[0]) and np.isfinite(errors[-1])


def test_refusals_write_nothing(case, tmp_path):
    with pytest.raises(hkflow.CaseError, match="'mass' is a record of hkflow"):
        hkflow.run(case, output=tmp_path / "run", records={"mass": double})
    case.write_text(CASE + '[records]\ndouble = "absent_module:double"\n')
    with pytest.raises(hkflow.CaseError, match="records.double: 'absent_module:double'"):
        hkflow.run(case, output=tmp_path / "run")
    case.write_text(CASE + '[records]\ndouble = "double"\n')
    with pytest.raises(hkflow.CaseError, match="small.toml:22: records.double"):
        hkflow.run(case, output=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("move", [False, True])
def test_a_resumed_run_finds_what_its_case_names(named_case, tmp_path, monkeypatch, move):
    """From another current folder, and when the run folder has moved."""
    whole = hkflow.run(named_case, output=tmp_path / "whole")
    monkeypatch.chdir(named_case.parent)
    hkflow.run("small.toml", output=tmp_path / "run", observers=[Stop(4)])
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "run"
    if move:
        folder = folder.rename(tmp_path / "moved")
    run = hkflow.resume(folder)
    assert run.finished and np.array_equal(run.records["double"], 2.0 * run.records["mass"])
    assert content(run.path) == content(whole.path) and run.status == whole.status


def test_a_run_whose_functions_are_gone_is_not_resumed_without_a_word(
    named_case, tmp_path, monkeypatch
):
    hkflow.run(named_case, output=tmp_path / "run", observers=[Stop(4)])
    before = content(tmp_path / "run"), (tmp_path / "run" / "status.json").read_text()
    module = named_case.parent / "observables.py"
    module.write_text(MODULE.replace("2.0", "3.0"))
    with pytest.raises(
        hkflow.CaseError, match="records.double: the source of 'observables:double'"
    ):
        hkflow.resume(tmp_path / "run")
    module.unlink()
    with pytest.raises(hkflow.CaseError, match="PYTHONPATH adds a folder. Or give a function"):
        hkflow.resume(tmp_path / "run")
    assert before == (content(tmp_path / "run"), (tmp_path / "run" / "status.json").read_text())
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "observables.py").write_text(MODULE)
    with monkeypatch.context() as path:
        path.syspath_prepend(elsewhere)
        assert resumed(tmp_path, "by-path").finished
    run = resumed(tmp_path, "by-hand", records=OWN)
    assert np.array_equal(run.records["double"], 2.0 * run.records["mass"])


def resumed(tmp_path, name, **options):
    """A copy of a broken run, resumed."""
    return hkflow.resume(shutil.copytree(tmp_path / "run", tmp_path / name), **options)


def test_they_are_columns_of_studies(named_case, tmp_path):
    text = (
        'case = "named/small.toml"\nvalues = ["double", "mass"]\n[sweep]\nflow.noise = [0.1, 0.2]\n'
    )
    (tmp_path / "study.toml").write_text(text)
    result = study(tmp_path / "study.toml", tmp_path / "out", workers=1)
    assert result.complete and "| noise | double | total mass |" in markdown(result)
    for outcome in result.outcomes:
        assert outcome.values["double"] == 2.0 * outcome.values["mass"] > 0.0
    (tmp_path / "study.toml").write_text(text.replace('"mass"', '"mas"'))
    with pytest.raises(hkflow.CaseError, match="values: Unknown record 'mas'.*'mass'"):
        study(tmp_path / "study.toml", tmp_path / "out", workers=1)


def test_a_run_can_be_pickled(case, tmp_path):
    run = hkflow.run(case, output=tmp_path / "run")
    again = pickle.loads(pickle.dumps(run))
    assert again.status == run.status and np.array_equal(again.predictions, run.predictions)
    assert np.array_equal(again.atoms_at(-1).weights, run.atoms_at(-1).weights)


def test_a_record_that_is_no_more_is_no_own_one():
    """That of diffusion in folders of earlier versions was said to want a function."""
    assert own_names(["time", "energy_diffusion", "kurtosis"]) == ["kurtosis"]
