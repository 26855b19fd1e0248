"""Grids of S³ through the case file: run, resume, records, margin, pictures, exports; what S³
cannot do is refused."""

import h5py
import numpy as np
import pytest

import hkflow
from hkflow.accuracy.companions import error_bars
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


def test_its_margin_is_certified(runs):
    report = margin_report(run=runs[0], tolerance=1e-4)
    assert report.f1.certified and 0.0 < report.f1.lower <= report.f1.upper
    assert report.f1.upper < 1.0001 * report.f1.lower
    reached = runs[0].records["margin_lower"][-1], runs[0].records["margin_upper"][-1]
    assert reached[0] <= report.f1.upper and report.f1.lower <= reached[1]


def test_its_measure_agrees_with_particles(runs, tmp_path):
    path = runs[0].path.parent / "case.toml"
    cloud = hkflow.run(
        path, tmp_path / "cloud", **{"method.kind": "particles", "method.particles": 600}
    )
    found = hkflow.compare(runs[0], cloud)
    assert found.data_rms[-1] < 0.02 and "W1" not in found.distances


def test_a_start_from_a_run_has_its_mass_on_finer_and_coarser_meshes(runs, tmp_path):
    path, ended = runs[0].path.parent / "case.toml", runs[0]
    begun = {"initial.kind": "run", "initial.run": str(ended.path), "time.end": 0.01}
    fine = hkflow.run(path, tmp_path / "fine", **begun, **{"domain.cells": 840})
    again = {"initial.run": str(fine.path), "domain.cells": 120}
    coarse = hkflow.run(path, tmp_path / "coarse", **(begun | again))
    wanted = ended.cell_density_at(-1) @ ended.mesh.volumes
    for run in (fine, coarse):
        mass = run.cell_density_at(0) @ run.mesh.volumes
        assert mass / mass.sum() == pytest.approx(wanted / wanted.sum(), rel=1e-2)
    assert np.abs(fine.scaled_predictions[0] - ended.scaled_predictions[-1]).max() < 0.02


def test_error_bars_come_from_coarser_meshes(runs, tmp_path):
    case = runs[0].path.parent / "case.toml"
    run = hkflow.run(case, tmp_path / "run", **{"domain.cells": 840})
    bars, compared = error_bars(run, independent=False), error_bars(run)
    assert bars.companions == ("120 cells", "120 cells with tolerance 2.5e-05")
    assert "characteristics from 840 points" in compared.companions
    cloud = hkflow.run(
        case, tmp_path / "cloud", **{"method.kind": "particles", "method.particles": 4000}
    )
    apart = run.scaled_predictions[-1] - cloud.scaled_predictions[-1]
    off = np.sqrt(np.mean(apart**2))
    assert off < compared["predictions"][-1] < bars["predictions"][-1] < 0.1


def test_exported_cells_are_points_of_a_ball(runs, tmp_path):
    """Their density times their volume is the mass; −1 in the last coordinate is farthest out."""
    (path,) = hkflow.export(runs[0], "vtk", output=tmp_path)
    mesh = runs[0].mesh
    with h5py.File(path) as file:
        root = file["VTKHDF"]
        points, data = root["Points"][()], root["PointData"]
        assert points.shape == (120, 3) and root["NumberOfPoints"][()].tolist() == [120]
        assert np.linalg.norm(points, axis=1) == pytest.approx(np.arccos(mesh.centers[:, 3]))
        density = [data[f"density_{sign}"][-120:] for sign in ("plus", "minus")]
        assert np.array_equal(density, runs[0].cell_density_at(-1))
        assert np.sum(density @ data["volume"][:120]) == pytest.approx(runs[0].mass[-1])


def test_slices_show_the_cells_that_they_cut(runs):
    """The largest value of a map is that of a cell near the great sphere of that map."""
    figure = hkflow.plots.draw("slices", runs[0], wide=True)
    maps = [ax.images[0].get_array() for ax in figure.axes if ax.images]
    centers = runs[0].mesh.centers
    density = np.exp(runs[0].log_scale[-1]) * runs[0].state_at(-1)["density"]  # without atoms
    assert len(maps) == 8
    for k, (plus, minus) in enumerate(zip(maps[::2], maps[1::2], strict=True)):
        near = np.abs(centers[:, k]) < 1e-9  # in the middle of the map
        for image, values in zip((plus, minus), density, strict=True):
            assert near.any() and image.max() >= values[near].max()
            assert np.isin(np.ma.compressed(np.ma.masked_invalid(image)), values).all()


def test_what_needs_circle_or_sphere_says_so(runs, tmp_path):
    assert hkflow.plots.draw("density", runs[0]) and hkflow.plots.draw("overview", runs[0])
    for name in ("polar", "spacetime"):
        with pytest.raises(hkflow.CaseError, match="but this run lives on S.3. Choose from: dens"):
            hkflow.plots.draw(name, runs[0])
    with pytest.raises(hkflow.CaseError, match="100·n³ .* got 500. Nearest: 120 or 840"):
        hkflow.check(runs[0].path.parent / "case.toml", **{"domain.cells": 500})
    with pytest.raises(hkflow.CaseError, match=r"S\^4 has no mesh\. There are meshes of S\^1"):
        hkflow.check(runs[0].path.parent / "case.toml", **{"data.dim": 4})
