"""Case files, overrides, studies and run folders with the names that keys and values had before."""

import json
import warnings

import numpy as np
import pytest
from commands import hk_alone

import hkflow
from hkflow.case import aliases
from hkflow.case.load import load_case, parse_stored_case
from hkflow.studies.file import load_study

CASE = """
seed = 3
[data]
source = "inline"
inputs = [[0.6, -0.3], [0.2, 0.9], [-0.8, 0.1]]
targets = [1.0, -0.5, 0.3]
[objective]
activation = "relu"
loss = "square"
transform = "dense"
[domain]
kind = "signed-sphere"
cells = 32
[flow]
kind = "hellinger-kantorovich"
noise = 0.1
clock = "time"
[method]
stepper = "hancock"
coupling = "explicit"
[time]
end = 0.6
saves = 4
"""
PATHS = """
[data]
source = "inline"
inputs = [[0.6, 0.8], [0.5, 0.3]]
targets = [1.0, 1.0]
[objective]
activation = "linear"
loss = "smooth-margin"
[domain]
kind = "atoms"
[initial]
kind = "scaled"
scale = 0.5
[flow]
kind = "diagonal"
clock = "margin"
[method]
kind = "particles"
coupling = "explicit"
[time]
end = 8.0
saves = 4
"""
NOW = [
    ('transform = "dense"', 'operator = "dense"'),
    ('"atoms"', '"fixed-features"'),
    ('"hancock"', '"muscl-hancock"'),
    ("clock = ", "time_variable = "),
    ("coupling = ", "imex = "),
]
LATER = "; the next version does not read the former name."


def now(text, backwards=False):
    for former, name in NOW:
        text = text.replace(*((name, former) if backwards else (former, name)))
    return text


@pytest.fixture
def places(tmp_path):
    """Files of a case as it was and as it is."""
    (tmp_path / "former.toml").write_text(CASE)
    (tmp_path / "now.toml").write_text(now(CASE))
    return tmp_path / "former.toml", tmp_path / "now.toml"


def line(text, words):
    return 1 + next(k for k, one in enumerate(text.splitlines()) if words in one)


def test_a_case_file_is_read_with_a_warning_for_each_name(places):
    former, today = places
    with pytest.warns(FutureWarning) as found:
        case = load_case(former).case
    assert case == load_case(today).case
    assert sorted(str(warning.message) for warning in found) == sorted(
        f"{former}:{line(CASE, words)}: {what} now{LATER}"
        for words, what in (
            ("transform", "objective: 'transform' is called 'operator'"),
            ("clock", "flow: 'clock' is called 'time_variable'"),
            ("hancock", "method.stepper: 'hancock' is called 'muscl-hancock'"),
            ("coupling", "method: 'coupling' is called 'imex'"),
        )
    )


def test_the_domain_of_fixed_features(tmp_path):
    (tmp_path / "paths.toml").write_text(PATHS)
    with pytest.warns(FutureWarning) as found:
        case, problem = hkflow.check(tmp_path / "paths.toml")
    assert problem.domain.fixed and case.domain.kind == "fixed-features"
    message = "domain.kind: 'atoms' is called 'fixed-features' now"
    at = line(PATHS, '"atoms"')
    assert f"{tmp_path / 'paths.toml'}:{at}: {message}{LATER}" in {str(w.message) for w in found}


@pytest.mark.parametrize(
    "overrides",
    [{"method.coupling": "implicit"}, {"method": {"coupling": "implicit", "stepper": "ssprk2"}}],
)
def test_overrides_by_former_names(places, overrides):
    _, today = places
    with pytest.warns(FutureWarning, match="now.toml, what is set: method: 'coupling' is called"):
        case, _ = hkflow.check(today, **overrides)
    assert case.method.imex == "implicit"


@pytest.mark.usefixtures("one_core")
def test_the_command_line_says_it_once(places):
    former, _ = places
    begin = ("run", former, "-q", "--set", "error.companions=none")
    for words in (("check", former), (*begin, "--output", former.parent / "run")):
        _, err = hk_alone(*words)
        lines = err.splitlines()
        assert len(lines) == 4 and sum("'hancock'" in one for one in lines) == 1, err
        assert f"{former}:{line(CASE, 'hancock')}: method.stepper: 'hancock' is called" in err


def test_a_study_by_former_names(places):
    _, today = places
    text = 'case = "now.toml"\n[set]\nmethod.coupling = "explicit"\n[sweep]\n'
    text += 'method.stepper = ["hancock", "ssprk2"]\n'
    path = today.with_name("study.toml")
    path.write_text(text)
    with pytest.warns(FutureWarning) as found:
        study = load_study(path)
    assert [str(warning.message).partition(":")[2][:2] for warning in found] == ["3:", "5:"]
    assert study.groups == [{"method.stepper": "muscl-hancock"}, {"method.stepper": "ssprk2"}]
    assert {member.file.case.method.imex for member in study.members} == {"explicit"}


def as_it_was(folder):
    """Write the header of a run folder as earlier versions wrote it."""
    path = folder / "run.json"
    header = json.loads(path.read_text())
    stored = header["resolved_case"]
    header |= {name: now(header[name], backwards=True) for name in ("case", "resolved_case")}
    assert header["resolved_case"] != stored
    path.write_text(json.dumps(header))


def content(folder):
    """What a finished run holds, but for its header and the seconds that it took."""
    run = hkflow.load(folder)
    tables = [run.records, {"h": run.predictions}, *map(run.state_at, range(len(run.time)))]
    bits = [[(name, bits_of(value)) for name, value in table.items()] for table in tables]
    return bits, run.status, run.case, run.options


def bits_of(value):
    return value.tobytes() if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize("text", [CASE, PATHS], ids=["grid", "fixed-features"])
def test_a_run_folder_of_before_opens_and_resumes_without_a_word(tmp_path, text):
    (tmp_path / "now.toml").write_text(now(text))
    hkflow.run(tmp_path / "now.toml", output=tmp_path / "whole")
    broken = hkflow.run(
        tmp_path / "now.toml", output=tmp_path / "run", observers=[lambda state: state.step > 3]
    )
    assert not broken.finished
    as_it_was(tmp_path / "run")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = hkflow.load(tmp_path / "run")
        assert found.case == hkflow.load(tmp_path / "whole").case
        assert hkflow.resume(tmp_path / "run").finished
    assert content(tmp_path / "run") == content(tmp_path / "whole")
    packed = hkflow.load(tmp_path / "run" / "results.h5")
    assert packed.case == found.case and packed.predictions.shape[0] == 4


def test_a_stored_descent_of_before_is_read_without_what_it_did_not_read(tmp_path):
    """Folders of the first networks have stepper and tolerance, and could not be opened."""
    table = '[method]\nkind = "network"\nunits = 5\ntraining = "gradient-descent"\nstep = 0.1\n'
    text = now(CASE).partition("[method]")[0].replace("noise = 0.1", "") + "[time]\nend = 1.0\n"
    former = text + table + 'stepper = "dopri5"\ntolerance = 1e-6\n'
    assert parse_stored_case(former, "run.json") == parse_stored_case(text + table, "run.json")
    (tmp_path / "case.toml").write_text(former)
    with pytest.raises(hkflow.CaseError, match="alone reads"):
        load_case(tmp_path / "case.toml")


def test_a_run_folder_of_a_problem_of_before_opens(tmp_path, places):
    _, problem = hkflow.check(places[1])
    hkflow.run(problem, tmp_path / "run", end=0.2, stepper="muscl-hancock", imex="explicit")
    as_it_was(tmp_path / "run")
    run = hkflow.load(tmp_path / "run")
    assert run.options["imex"] == "explicit" and run.problem.objective.operator == "dense"
    assert run.flow.time_variable == "time"


def test_options_of_a_problem_by_former_names(places, tmp_path):
    _, problem = hkflow.check(places[1])
    with pytest.warns(FutureWarning, match="the problem: method: 'coupling' is called 'imex' now"):
        run = hkflow.run(problem, tmp_path / "run", end=0.2, coupling="explicit")
    assert run.options["imex"] == "explicit"


def test_sibling_without_its_former_names_an_old_folder_is_refused(places, tmp_path, monkeypatch):
    hkflow.run(places[1], output=tmp_path / "run")
    as_it_was(tmp_path / "run")
    monkeypatch.setattr(aliases, "VALUES", {})
    with pytest.raises(hkflow.CaseError, match="unknown value 'hancock'"):
        hkflow.load(tmp_path / "run")
