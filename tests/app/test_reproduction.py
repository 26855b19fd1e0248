"""Figures of the papers: that their scripts and studies are in order, and that the command
computes, checks and goes on."""

import json
import signal

import numpy as np
import pytest
from commands import computed_here, hk
from conftest import ROOT

import hkflow
from hkflow.app import reproduction as papers
from hkflow.studies.file import load_study

SCRIPT = '''"""Someone 2020, Fig. 1: mass decays.

A paragraph.
"""

from matplotlib.figure import Figure

from hkflow import Claim

from .paper import CLAIM

STUDIES = ("paper/fig1",)
MINUTES = {"quick": 0.1, "paper": 1}
ALSO = ("other-fig7",)


def double(values):
    return {"doubled": [2.0 * value for value in values]}


def compute(work):
    masses = [run.records["mass"][-1] for changes, run in work.study("paper/fig1")]
    return {"mass": masses} | work.once(double, values=masses)


def claims(data):
    return [
        Claim(CLAIM, (data["mass"] > 0.0).all(), f"{data['mass'].min():.3f}"),
        Claim("masses are above 100", (data["mass"] > 100.0).all(), f"{data['mass'].min():.3f}"),
    ]


def draw(data):
    figure = Figure()
    figure.subplots().plot(data["mass"])
    return figure
'''
STUDY = """
case = "../fig1.toml"
[sweep]
flow.reaction = [1.0, 2.0, 4.0]
[quick]
sweep.flow.reaction = [1.0, 2.0]
set.domain.cells = 16
"""
FIGURES = papers.figures()


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A clone with one figure."""
    (tmp_path / "postprocess").mkdir()
    (tmp_path / "cases" / "paper" / "studies").mkdir(parents=True)
    (tmp_path / "postprocess" / "paper_fig1.py").write_text(SCRIPT)
    (tmp_path / "postprocess" / "paper.py").write_text('CLAIM = "masses are positive"')
    case = (
        (ROOT / "cases" / "verification" / "circle-hellinger.toml")
        .read_text()
        .replace('kind = "hellinger"', "reaction = 4.0")
    )
    (tmp_path / "cases" / "paper" / "fig1.toml").write_text(case)
    (tmp_path / "cases" / "paper" / "studies" / "fig1.toml").write_text(STUDY)
    monkeypatch.setattr("hkflow.studies.study.compute_all", computed_here)
    monkeypatch.setattr(papers, "root", lambda: tmp_path)
    monkeypatch.setattr(papers, "PACKAGE", f"figures_{tmp_path.name}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_figure_is_computed_drawn_and_checked_once(clone, monkeypatch):
    assert papers.names() == ["other-fig7", "paper-fig1"]
    made = hkflow.reproduce("other-fig7", workers=1)
    assert made.folder.resolve() == clone / "reproductions" / "paper-fig1" / "quick"
    assert (
        [claim.holds for claim in made.claims] == [True, False]
        and made.claims[0].says == "masses are positive"  # of the module that figures share
        and not made.holds
        and made.seconds > 0.0
    )
    assert (made.folder / "figure.png").stat().st_size > 5000
    kept = json.loads((made.folder / "claims.json").read_text())
    assert kept["claims"][1] == {
        "says": "masses are above 100",
        "holds": False,
        "evidence": f"{made.data['mass'].min():.3f}",
    }
    assert (
        made.data["doubled"] == pytest.approx(2.0 * made.data["mass"])
        and len(made.data["mass"]) == 2
    )
    assert papers.missing(papers.figures()["paper-fig1"], "quick", made.folder) == 0.0
    assert papers.missing(papers.figures()["paper-fig1"], "paper", made.folder) == 1.0
    assert (
        papers.checked("paper-fig1", "quick") == made.claims
        and papers.checked("paper-fig1", "paper") is None
    )

    def refuse(*_, **__):
        raise AssertionError("computed again")

    monkeypatch.setattr("hkflow.studies.study.compute_all", refuse)
    again = hkflow.reproduce("paper-fig1")
    assert np.array_equal(again.data["mass"], made.data["mass"]) and again.seconds == made.seconds


def test_what_is_kept_of_a_function_goes_with_its_arguments(tmp_path):
    calls = []

    def square(x):
        calls.append(x)
        return {"square": np.square(x)}

    work = papers.Work("quick", tmp_path)
    assert work.once(square, x=3.0)["square"] == 9.0
    spent = work.seconds
    assert work.once(square, x=3.0)["square"] == 9.0 and work.seconds == spent > 0.0  # counted once
    assert (
        work.once(square, x=np.arange(3.0))["square"].tolist() == [0.0, 1.0, 4.0]
        and len(calls) == 2
    )


def test_a_run_that_fails_is_told(clone):
    study = clone / "cases" / "paper" / "studies" / "fig1.toml"
    study.write_text(STUDY.replace("[1.0, 2.0]", "[1.0, 1e300]"))
    with pytest.raises(hkflow.HkflowError, match="paper/fig1: 1 of 2 runs did not finish"):
        hkflow.reproduce("paper-fig1", workers=1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_the_next_call_goes_on(clone, monkeypatch, press, number):
    from hkflow.studies import study

    monkeypatch.setattr(study, "compute_all", lambda *_: ({}, int(number)))
    with pytest.raises(papers.Interrupted) as caught:
        hkflow.reproduce("paper-fig1")
    assert caught.value.signal == number


def test_unknown_names_are_refused(clone):
    with pytest.raises(hkflow.CaseError, match="figure 'paper-fig2'.*paper-fig1"):
        hkflow.reproduce("paper-fig2")
    with pytest.raises(hkflow.CaseError, match="scale 'large'.*quick"):
        hkflow.reproduce("paper-fig1", "large")


def test_the_clone_is_found_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert papers.root() == ROOT


def test_the_command_lists_and_refuses():
    out, _ = hk("reproduce")
    assert all(name in out for name in FIGURES) and "Minutes on two cores" in out
    assert len(out.splitlines()) == len(FIGURES) + 4
    _, err = hk("reproduce", "icm-fig", code=2)
    assert "figure 'icm-fig'" in err and "icm-fig2" in err
    hk("reproduce", "icm-fig2", "--scale", "small", code=2)


@pytest.mark.parametrize("name", FIGURES)
def test_the_figures_of_the_project_are_in_order(name):
    module = FIGURES[name]
    first, rest = module.__doc__.strip().split("\n\n", 1)
    assert first.endswith(".") and ":" in papers.title(module) and len(rest) > 200
    assert set(module.MINUTES) == set(papers.SCALES)
    for study in getattr(module, "STUDIES", ()):
        assert load_study(papers.study_path(study), quick=True).members
    for scale in papers.SCALES:
        for claim in papers.checked(name, scale) or []:
            assert claim.says and claim.evidence
    assert papers.checked(name, "quick"), "the gallery lacks it: python postprocess/gallery.py"
