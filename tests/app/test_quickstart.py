"""The second case to begin with: no line separates its data, ReLU units do, and its margin nears
the certified one."""

import numpy as np
import pytest
from commands import coarse
from conftest import ROOT
from legible import legible

import hkflow
from hkflow import plots
from hkflow.certificates import max_margin

CASE = ROOT / "cases" / "quickstart" / "rings.toml"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return hkflow.run(CASE, output=tmp_path_factory.mktemp("rings") / "run", **coarse(CASE))


def lines(run, targets):
    """The max-margin of the data among lines, bias included."""
    inputs = np.column_stack([run.inputs, np.ones(len(run.inputs))])
    risk = hkflow.RISKS["smooth-margin"]
    objective = hkflow.Objective(hkflow.FEATURES["linear"], risk, inputs, targets)
    return max_margin(objective, (1, -1), 1e-6)


def test_no_line_separates_the_data(run):
    assert lines(run, run.targets).is_none


def test_sibling_data_that_a_line_separates_are_seen(run):
    assert lines(run, np.where(run.inputs[:, 0] > 0.05, 1.0, -1.0)).is_positive


def test_the_margin_nears_the_certified_one(run):
    found = run.max_margin
    assert found.certified and found.reached and found.relative_gap < 1e-6
    assert run.records["training_error"][-1] == 0.0
    share = run.margin_share
    assert 99.0 < share[-1] <= 100.0 + 1e-9 and share[0] < 50.0
    assert run.records["margin"].max() <= found.upper * (1.0 + 1e-12)


def test_its_picture_can_be_read_and_circles_where_the_mass_is(run):
    figure = plots.draw("overview", run)
    with plots.style():
        texts = legible(figure)
    assert {"output sign +1", "output sign −1", "density ν, ○: peaks", "h = 0"} <= set(texts)
    assert any("certified to 1e-6" in text for text in texts)
