"""`hkflow margin`: values with their proofs, from a case and from a run, and what is refused."""

import json

import numpy as np
import pytest
from conftest import ROOT
from typer.testing import CliRunner

import hkflow
from hkflow.cli import app
from hkflow.margin_report import margin_report

CLUSTERS, PATH = ROOT / "cases" / "colt" / "cluster-margin.toml", ROOT / "cases" / "moroshko" / "path.toml"


def independent_margin(report):
    """min_i y_i h(x_i) of the optimal measure, by NumPy alone."""
    o, atoms = report.problem.objective, report.f1.atoms
    h = np.maximum(o.inputs @ atoms.positions.T, 0.0) @ (atoms.signs * atoms.weights)
    return float((o.targets * h).min() / atoms.weights.sum())


def test_a_case_gives_values_files_and_a_picture(tmp_path):
    result = CliRunner().invoke(app, ["margin", str(CLUSTERS), "--output", str(tmp_path / "m")])
    assert result.exit_code == 0 and "certified" in result.stdout and "half of it" in result.stdout
    stored = json.loads((tmp_path / "m" / "margin.json").read_text())
    low, high = stored["gamma_l1"]
    assert 0.0 < low <= high <= low * (1.0 + 1e-6) and stored["certified"]
    assert stored["half_gamma_l1"] == [0.5 * low, 0.5 * high]
    assert sum(stored["weights"]) == pytest.approx(1.0) and sum(stored["dual"]) == pytest.approx(1.0)
    assert (tmp_path / "m" / "margin.png").read_bytes()[:4] == b"\x89PNG"


def test_a_run_is_polished_into_the_same_interval(tmp_path):
    run = hkflow.run(CLUSTERS, output=tmp_path / "run", domain={"cells": 162}, time={"end": 60.0})
    polished, plain = margin_report(run=run.path), margin_report(CLUSTERS)
    assert polished.f1.relative_gap <= 1e-6 and plain.f1.relative_gap <= 1e-6
    assert max(polished.f1.lower, plain.f1.lower) <= min(polished.f1.upper, plain.f1.upper)
    low, high = polished.enclosed
    assert low <= polished.f1.upper and high >= polished.f1.lower and (high - low) < 1.5 * polished.f1.lower
    assert independent_margin(polished) == pytest.approx(polished.f1.lower, rel=1e-12)
    assert "the run proved" in str(polished)
    assert "F₁ max-margin in [" in CliRunner().invoke(app, ["info", str(run.path)]).stdout


def test_a_network_has_a_tangent_kernel_and_atoms_a_programme_of_their_own(tmp_path):
    with_network = CLUSTERS.read_text().replace('drive = "measure"\n', "").replace('kind = "spherical-hellinger-kantorovich"', "")
    case = tmp_path / "case.toml"
    case.write_text(with_network.replace("[flow]\n", "") + '\n[method]\nkind = "network"\npoints = "gaussian"\nunits = 50\n')
    report = margin_report(case)
    assert report.tangent.machine.value > 0.0 and set(report.classifiers()) == {"F₁", "F₂", "tangent kernel"}
    for function in report.classifiers().values():
        o = report.problem.objective
        assert (o.targets * function(o.inputs)).min() == pytest.approx(1.0, abs=1e-6)
    assert margin_report(PATH).f1.lower == pytest.approx(0.5, abs=1e-9)


@pytest.mark.parametrize(
    "words, wanted",
    [
        ((), "needs a case file, or a run"),
        (("cases/icm/fig2.toml",), "targets +1 and -1"),
        (("--from", "nowhere"), "no run here"),
        (("--from", "nowhere", "--set", "seed=2"), "--set belongs to a case"),
    ],
)
def test_what_is_refused(words, wanted, monkeypatch):
    monkeypatch.chdir(ROOT)
    result = CliRunner().invoke(app, ["margin", *words])
    assert result.exit_code != 0 and wanted in str(result.exception)
