"""Grids of S³ through the case file: run, resume, records, margin; what S³ cannot do is refused."""

import numpy as np
import pytest

import hkflow
from hkflow.analysis.margin_report import margin_report

CASE = """
[data]
source = "cluster-grid"
dim = 3
n = 20
[objective]
activation = "relu"
loss = "smooth-margin"
bias = true
[domain]
kind = "signed-sphere"
cells = 120
[flow]
kind = "spherical-hellinger-kantorovich"
[time]
end = 1.0
saves = 3
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run on S³, and the same one stopped half-way and resumed."""
    folder = tmp_path_factory.mktemp("hypersphere")
    (folder / "case.toml").write_text(CASE)
    whole = hkflow.run(folder / "case.toml", folder / "whole")
    stop = hkflow.observe(lambda state: "Enough", at=[0.5])
    cut = hkflow.run(folder / "case.toml", folder / "cut", observers=[stop])
    assert whole.finished and not cut.finished
    return whole, hkflow.resume(folder / "cut")


def test_a_resumed_run_has_the_same_bits(runs):
    whole, resumed = runs
    assert resumed.finished and whole.mesh.name == "600-cell" and whole.density.shape == (3, 2, 120)
    assert whole.density.tobytes() == resumed.density.tobytes()
    assert np.all(np.diff(whole.records["objective"]) < 0.0)
    assert np.abs(whole.records["mass_residual"]).max() < 1e-13


def test_results_and_data_sets_hold_it(runs, tmp_path):
    packed = hkflow.load(runs[0].path / "results.h5")
    assert packed.domain == hkflow.Domain(3, (1, -1)) and packed.domain.name == "S^3"
    for name, array in runs[0].mesh.arrays().items():
        assert np.array_equal(array, packed.mesh.arrays()[name]), name
    data = pytest.importorskip("xarray") and hkflow.to_xarray(packed)
    assert "longitude" not in data and "angle" not in data


def test_its_margin_is_searched_without_a_certificate(runs):
    report = margin_report(run=runs[0], tolerance=1e-4)
    assert 0.0 < report.f1.lower <= report.f1.upper and not report.f1.certified
    assert "margin_upper" not in runs[0].records


def test_its_measure_agrees_with_particles(runs, tmp_path):
    path = runs[0].path.parent / "case.toml"
    cloud = hkflow.run(
        path, tmp_path / "cloud", **{"method.kind": "particles", "method.particles": 2000}
    )
    found = hkflow.compare(runs[0], cloud)
    assert found.data_rms[-1] < 0.02 and "W1" not in found.distances


def test_what_needs_circle_or_sphere_says_so(runs, tmp_path):
    assert hkflow.plots.draw("density", runs[0]) and hkflow.plots.draw("overview", runs[0])
    for name in ("polar", "spacetime"):
        with pytest.raises(hkflow.CaseError, match="but this run lives on S.3. Choose from: dens"):
            hkflow.plots.draw(name, runs[0])
    with pytest.raises(hkflow.RunFolderError, match="S.3 has no shape in space"):
        hkflow.export(runs[0], "vtk")
    with pytest.raises(hkflow.CaseError, match="100·n³ .* got 500. Nearest: 120 or 840"):
        hkflow.check(runs[0].path.parent / "case.toml", **{"domain.cells": 500})
    with pytest.raises(hkflow.CaseError, match=r"S\^4 has no mesh\. There are meshes of S\^1"):
        hkflow.check(runs[0].path.parent / "case.toml", **{"data.dim": 4})
