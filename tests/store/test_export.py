"""Exports, read back by the programs that they are for: VTK's own reader, xarray and netCDF4, and
csv."""

import csv
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from commands import hk

import hkflow
from hkflow.solving.observer import Observer
from hkflow.store import dataset, vtkhdf

CIRCLE = """
title = "small"
[data]
source = "inline"
inputs = [[0.5, 1.0], [-1.0, 0.3], [0.2, -0.7]]
targets = [1.0, -1.0, -1.0]
[objective]
loss = "logistic"
[domain]
kind = "signed-sphere"
[flow]
kind = "hellinger-kantorovich"
[time]
end = 0.4
saves = 3
"""
SPHERE = {"objective": {"bias": True}}
GRID = {"domain.cells": 42}
MARGIN = {
    "objective.loss": "smooth-margin",
    "flow": {"kind": "spherical-hellinger", "drive": "measure"},
    "time.end": 1500.0,
}
PARTICLES = {"method": {"kind": "particles", "particles": 30}}
RUNS = {
    "circle": {"domain.cells": 24},
    "sphere": SPHERE | GRID,
    "one-sign": (
        SPHERE | {"domain.cells": 642, "domain.kind": "sphere", "objective.activation": "linear"}
    ),
    "particles": (
        PARTICLES
        | {
            "flow": {"kind": "perturbed", "noise": 0.1},
            "method.noise_interval": 0.1,
            "method.noise_points": 12,
        }
    ),
    "sphere-particles": SPHERE | PARTICLES,
    "characteristics": {"method": {"kind": "characteristics", "particles": 200}, "time.end": 4.0},
    "sphere-characteristics": (
        SPHERE | {"method": {"kind": "characteristics", "particles": 200}, "time.end": 4.0}
    ),
    "network": (
        SPHERE
        | {"method": {"kind": "network", "units": 20, "training": "gradient-descent", "step": 0.05}}
    ),
    "margin": SPHERE | GRID | MARGIN,
    "s3": (
        PARTICLES
        | {"data.inputs": [[0.5, 1.0, 0.0, 1.0], [-1.0, 0.3, 1.0, 0.0], [0.2, -0.7, 0.0, 1.0]]}
    ),
    "atoms": {
        "domain.kind": "fixed-features",
        "objective.activation": "linear",
        "flow": {"kind": "diagonal", "depth": 2.0},
    },
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Each run by name, made when it is first asked for."""
    folder, made = tmp_path_factory.mktemp("runs"), {}
    (folder / "case.toml").write_text(CIRCLE)

    def run(name):
        if name not in made:
            made[name] = hkflow.run(folder / "case.toml", output=folder / name, **RUNS[name])
        return made[name]

    return run


# --- VTKHDF


def steps_of(path):
    """What vtkHDFReader finds: times, and of each step points (n, 3), the points of each cell, and
    data by name."""
    pytest.importorskip("vtkmodules", reason="needs VTK: pip install 'hkflow[vtk]'")
    from vtkmodules.util.numpy_support import vtk_to_numpy
    from vtkmodules.vtkIOHDF import vtkHDFReader

    reader = vtkHDFReader()
    assert reader.CanReadFile(str(path))
    reader.SetFileName(str(path))
    reader.UpdateInformation()
    times = np.array(reader.GetOutputInformation(0).Get(reader.GetExecutive().TIME_STEPS()))
    steps = []
    for time in times:
        reader.UpdateTimeStep(float(time))
        got = reader.GetOutputDataObject(0)
        sorts = got.GetVerts(), got.GetLines(), got.GetPolys()
        kinds = [cells for cells in sorts if cells.GetNumberOfCells()]
        if not kinds:
            steps.append((np.zeros((0, 3)), [], {"weight": np.zeros(0), "sign": np.zeros(0)}))
            continue
        assert len(kinds) == 1 and got.GetNumberOfCells() == kinds[0].GetNumberOfCells()
        offsets, corners = (
            vtk_to_numpy(a).copy()
            for a in (kinds[0].GetOffsetsArray(), kinds[0].GetConnectivityArray())
        )
        data = {}
        for place in (got.GetCellData(), got.GetPointData(), got.GetFieldData()):
            data |= {
                place.GetArrayName(k): vtk_to_numpy(place.GetArray(k)).copy()
                for k in range(place.GetNumberOfArrays())
            }
        points = vtk_to_numpy(got.GetPoints().GetData()).copy()
        steps.append((points, np.split(corners, offsets[1:-1]), data))
    return times, steps


def check_grid(path, run, names, normalised=False):
    """Assert that VTK reads a grid's cells and densities at all saves, and its log masses."""
    times, steps = steps_of(path)
    assert np.array_equal(times, run.time)
    for save, (points, cells, data) in enumerate(steps):
        assert len(cells) == run.mesh.n_cells
        middles = np.array([points[cell].mean(axis=0) for cell in cells])[:, : run.dim + 1]
        assert np.array_equal(
            np.argmax(middles @ run.mesh.centers.T, axis=1), np.arange(len(cells))
        )
        flat = np.array([size(points[cell]) for cell in cells])
        lost = 1.0 - flat / run.mesh.volumes  # by flat cells, of second order in their width
        assert (lost > 0.0).all() and lost.max() < 0.25 * run.mesh.width**2
        density = run.cell_density_at(save)
        density = (
            density / (density @ run.mesh.volumes).sum()
            if normalised
            else np.exp(run.log_scale[save]) * density
        )
        for name, wanted in zip(names, density, strict=True):
            assert np.array_equal(data[name], wanted)
        assert data["log_mass"].tolist() == [run.log_mass[save]]


def check_traced(paths, run):
    """Assert that VTK reads the averages over its cells of the density of characteristics, and what
    is captured as points, and that both hold all mass; returns how many are captured."""
    cells, captured = paths
    times, steps = steps_of(cells)
    assert np.array_equal(times, run.time)
    for save, (points, corners, data) in enumerate(steps):
        mesh = run.domain.mesh(len(corners))
        middles = hkflow.geometry.sphere.normalize(
            np.array([points[one].mean(axis=0) for one in corners])[:, : run.dim + 1]
        )
        assert np.abs(middles - mesh.centers).max() < 0.2 * mesh.width
        for name, wanted in zip(SHEETS, run.density_on(mesh, save), strict=True):
            assert np.allclose(data[name], wanted, rtol=1e-12)
        total = sum(data[name] @ mesh.volumes for name in SHEETS) + run.captured_at(save).mass
        assert total == pytest.approx(run.mass[save], rel=1e-10)
    times, steps = steps_of(captured)
    assert np.array_equal(times, run.time)
    for save, (points, _, data) in enumerate(steps):
        atoms = run.captured_at(save)
        assert np.array_equal(points[:, : run.dim + 1], atoms.positions)
        assert np.array_equal(data["weight"], atoms.weights)
        assert np.array_equal(data["sign"], atoms.signs)
    return [len(points) for points, _, _ in steps]


def check_atoms(path, run):
    """Assert that VTK reads all particles or units, their weights and signs at all saves; returns
    their numbers."""
    times, steps = steps_of(path)
    assert np.array_equal(times, run.time)
    for save, (points, cells, data) in enumerate(steps):
        atoms = run.atoms_at(save)
        places = run.domain.placed(atoms.positions)
        axes = places.shape[1]
        assert np.array_equal(points[:, :axes], places) and not points[:, axes:].any()
        assert np.array_equal(cells, np.arange(len(atoms))[:, None])
        assert np.array_equal(data["weight"], atoms.weights) and np.array_equal(
            data["sign"], atoms.signs
        )
        assert data["log_mass"].tolist() == [run.log_mass[save]]
    return [len(points) for points, _, _ in steps]


def size(corners):
    """Area of a polygon from its middle, counter-clockwise from outside, or length of a segment."""
    if len(corners) == 2:
        return np.linalg.norm(corners[1] - corners[0])
    middle = corners.mean(axis=0)
    normals = 0.5 * np.cross(corners - middle, np.roll(corners, -1, axis=0) - middle)
    assert (normals @ middle > 0.0).all()
    return np.linalg.norm(normals, axis=1).sum()


SHEETS = ["density_plus", "density_minus"]


@pytest.mark.parametrize(
    "name, names", [("circle", SHEETS), ("sphere", SHEETS), ("one-sign", ["density"])]
)
def test_vtk_reads_grids(runs, tmp_path, name, names):
    (path,) = hkflow.export(runs(name), "vtk", output=tmp_path)
    check_grid(path, runs(name), names)
    with h5py.File(path) as file:
        assert len(file["VTKHDF/NumberOfPoints"]) == 1  # the mesh is there once


@pytest.mark.parametrize("name", ["particles", "sphere-particles", "network", "s3"])
def test_vtk_reads_particles_and_units(runs, tmp_path, name):
    counts = check_atoms(*hkflow.export(runs(name), "vtk", output=tmp_path), runs(name))
    assert counts[0] < counts[1] < counts[2] if name == "particles" else len(set(counts)) == 1


@pytest.mark.parametrize("name", ["characteristics", "sphere-characteristics"])
@pytest.mark.parametrize("work, place", [(vtkhdf.WORK, 1), (0.0, 0)])
def test_vtk_reads_density_and_captured_atoms(runs, tmp_path, monkeypatch, name, work, place):
    run = runs(name)
    monkeypatch.setattr(vtkhdf, "WORK", work)
    counts = check_traced(hkflow.export(run, "vtk", output=tmp_path), run)
    assert counts[0] == 0 < counts[-1] < 200
    _, steps = steps_of(tmp_path / f"{name}.vtkhdf")
    assert len(steps[0][1]) == vtkhdf.CELLS[run.domain.picture][place]
    with h5py.File(tmp_path / f"{name}.vtkhdf") as file:
        assert len(file["VTKHDF/NumberOfPoints"]) == 1  # the mesh is there once


def test_masses_beyond_numbers_are_set_apart(runs, tmp_path):
    run = runs("margin")
    assert run.log_mass[-1] > 1000.0
    (path,) = hkflow.export(run, "vtk", output=tmp_path)
    check_grid(path, run, ["normalised_density_plus", "normalised_density_minus"], normalised=True)


class TwoSaves(Observer):
    """Ends a run after two saves."""

    def stop(self):
        return "Interrupted by a test." if self.saves == 2 else None

    def start(self, method, clock, save_times):
        self.saves = 0

    def save(self, method, clock):
        self.saves += 1


def test_an_interrupted_run_is_exported_up_to_its_last_save(runs, tmp_path):
    case = runs("sphere").path.parent / "case.toml"
    run = hkflow.run(case, output=tmp_path / "run", observers=[TwoSaves()], **RUNS["sphere"])
    assert not run.finished and len(run.time) == 2
    (tmp_path / "run" / "results.h5").unlink()
    path, *tables = hkflow.export(tmp_path / "run", "vtk", "csv")
    check_grid(path, run, SHEETS)
    assert path == tmp_path / "run" / "run.vtkhdf" and len(tables) == 3


@pytest.mark.parametrize(
    "name, offsets",
    [
        ("sphere", "CellDataOffsets/density_plus"),
        ("particles", "PointOffsets"),
        ("particles", "PointDataOffsets/sign"),
    ],
)
def test_a_wrong_offset_is_seen(runs, tmp_path, name, offsets):
    (path,) = hkflow.export(runs(name), "vtk", output=tmp_path)
    with h5py.File(path, "r+") as file:
        file["VTKHDF/Steps"][offsets][-1] = file["VTKHDF/Steps"][offsets][1]
    with pytest.raises(AssertionError):
        check_grid(path, runs(name), SHEETS) if name == "sphere" else check_atoms(path, runs(name))


# --- netCDF


@pytest.mark.parametrize(
    "name", ["circle", "sphere", "particles", "network", "margin", "s3", "atoms"]
)
def test_netcdf_gives_the_data_set_back(runs, tmp_path, name):
    xarray, run = pytest.importorskip("xarray"), runs(name)
    (path,) = hkflow.export(run, "netcdf", output=tmp_path)
    wanted = hkflow.to_xarray(run)
    with xarray.open_dataset(path, engine="h5netcdf") as data:
        xarray.testing.assert_identical(data.load(), wanted)
    assert np.array_equal(wanted["predictions"], run.scaled_predictions) and np.array_equal(
        wanted["time"], run.time
    )
    assert np.array_equal(wanted["record_objective"], run.records["objective"])
    if run.method == "grid":
        assert np.array_equal(wanted["volumes"], run.mesh.volumes)
        mass = (wanted["density"] * wanted["volumes"]).sum(("sign", "cell")).to_numpy()
        if "atom_weights" in wanted:  # beside the density, not within it
            mass += wanted["atom_weights"].fillna(0.0).sum("atom").to_numpy()
        assert np.allclose(np.log(mass) + wanted["log_scale"], wanted["log_mass"], 1e-12, 1e-12)
    elif run.method == "particles":
        for save in range(len(run.time)):
            there = wanted["log_weights"][save, : int(wanted["count"][save])]
            assert np.array_equal(there, run.state_at(save)["log_weights"])
    assert all(
        variable.attrs["long_name"] and variable.attrs["units"]
        for variable in wanted.variables.values()
    )
    assert (
        wanted.attrs["title"] == "small"
        and wanted.attrs["finished"] == 1
        and "kind" in wanted.attrs["case"]
    )


def test_the_netcdf_library_reads_it_too(runs, tmp_path):
    netcdf = pytest.importorskip("netCDF4", reason="needs netCDF4: pip install netCDF4")
    rows = np.random.default_rng(0).normal(size=(2000, 2)).tolist()  # a case of more than 64 kB
    data = {
        "data.inputs": rows,
        "data.targets": [1.0, -1.0] * 1000,
        "time.end": 0.1,
        **RUNS["circle"],
    }
    run = hkflow.run(runs("circle").path.parent / "case.toml", output=tmp_path / "run", **data)
    (path,) = hkflow.export(run, "netcdf")
    with netcdf.Dataset(path) as file:
        assert file.data_model == "NETCDF4" and len(file.resolved_case) > 2**16
        assert (
            file["density"].dimensions == ("time", "sign", "cell")
            and file["angle"].units == "radian"
        )
        assert np.array_equal(file["density"][:].filled(), run.density)


# --- tables


def read(path):
    """Columns of a CSV file by name."""
    with open(path, newline="", encoding="utf-8") as stream:
        header, *rows = csv.reader(stream)
    return dict(zip(header, np.array(rows, dtype=float).reshape(-1, len(header)).T, strict=True))


@pytest.mark.parametrize("name", ["circle", "margin", "particles", "network", "s3", "atoms"])
def test_tables_hold_every_bit(runs, tmp_path, name):
    run = runs(name)
    records, predictions, measure = map(read, hkflow.export(run, "csv", output=tmp_path))
    assert records.keys() == run.records.keys()
    assert all(
        np.array_equal(records[key], values, equal_nan=True) for key, values in run.records.items()
    )
    assert np.array_equal(
        predictions["prediction"].reshape(len(run.time), -1), run.scaled_predictions
    )
    assert np.array_equal(predictions["log_scale"], np.repeat(run.log_scale, len(run.targets)))
    if run.method == "grid":
        shape = run.density.shape
        assert np.array_equal(measure["density"].reshape(shape), run.density)
        assert np.array_equal(
            measure["sign"].reshape(shape), np.broadcast_to(run.signs[:, None], shape)
        )
        assert np.array_equal(measure["theta_2"].reshape(shape)[0, 0], run.mesh.centers[:, 1])
        return
    names = {"network": ["hidden_2", "output"]}.get(name, ["theta_2", "log_weight", "sign"])
    for save, time in enumerate(run.time):
        state, rows = run.state_at(save), measure["time"] == time
        wanted = [
            state[key]
            for key in (
                ("hidden", "output") if name == "network" else ("positions", "log_weights", "signs")
            )
        ]
        for column, array in zip(names, [wanted[0][:, 1], *wanted[1:]], strict=True):
            assert np.array_equal(measure[column][rows], array)


# --- the command


def test_the_command_writes_all_formats_over_older_ones(runs, tmp_path):
    shutil.copy(runs("circle").path / "results.h5", tmp_path / "results.h5")
    out = tmp_path / "new" / "folder"
    for _ in range(2):
        formats = "--vtk", "--netcdf", "--csv"
        said, _ = hk("export", tmp_path / "results.h5", *formats, "--output", out)
        name = tmp_path.name
        wanted = {
            f"{name}{end}"
            for end in (".vtkhdf", ".nc", "-records.csv", "-predictions.csv", "-density.csv")
        }
        assert {path.name for path in out.iterdir()} == wanted
        assert said.count("export:") == 5


def test_refusals_are_sentences_and_write_nothing(runs, tmp_path, monkeypatch):
    empty = tmp_path / "empty"
    shutil.copytree(
        runs("circle").path,
        empty,
        ignore=lambda folder, names: [n for n in names if n.endswith(".h5") and n[0] == "0"],
    )
    (empty / "results.h5").unlink()
    (tmp_path / "file").write_text("")
    for words, sentence in [
        ((empty, "--csv"), "holds no save yet, so there is nothing to export."),
        (
            (runs("circle").path,),
            "Nothing to export: choose one or more of 'vtk', 'netcdf' and 'csv', as options --vtk,",
        ),
        ((runs("atoms").path, "--csv", "--vtk"), "a measure on atoms has no shape in space"),
        ((tmp_path / "none", "--vtk"), "no run here"),
        ((runs("circle").path, "--xls"), "No such option"),
    ]:
        _, err = hk("export", *words, "--output", tmp_path / "out", code=2)
        assert sentence in err.replace("no such", "No such")
    assert not (tmp_path / "out").exists()
    _, err = hk("export", runs("circle").path, "--csv", "--output", tmp_path / "file", code=2)
    assert "the export cannot be written (File exists)" in err
    with pytest.raises(hkflow.CaseError, match="Unknown format 'vtkhdf'. Did you mean 'vtk'"):
        hkflow.export(runs("circle"), "vtkhdf")
    with pytest.raises(hkflow.CaseError, match=r"export\(run, \"csv\", \"vtk\"\), got \['csv'\]"):
        hkflow.export(runs("circle"), ["csv"])
    with pytest.raises(hkflow.RunFolderError, match="Wanted the path of a file or folder, got 3"):
        hkflow.export(3, "csv")
    monkeypatch.setattr(dataset, "find_spec", lambda name: None)
    with pytest.raises(hkflow.CaseError, match=r"pip install 'hkflow\[xarray\]'"):
        hkflow.export(runs("circle"), "csv", "netcdf", output=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["vtk", "netcdf", "csv"])
def test_a_full_disk_is_a_sentence(runs, tmp_path, name):
    """HDF5 crashed at the end of the process, after a traceback."""
    if name == "netcdf":
        pytest.importorskip("xarray")
    # Python cuts byte code off at the limit, too, and cannot read it then
    starve = "import resource, sys; sys.dont_write_bytecode = True"
    starve += "; resource.setrlimit(resource.RLIMIT_FSIZE, (900, 900))"
    code = f"{starve}; from hkflow.app.cli import main; main()"
    words = ("export", runs("circle").path, f"--{name}", "--output", tmp_path / "out")
    command = [sys.executable, "-c", code, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and not done.stdout, done.stderr
    assert "the export cannot be written" in done.stderr and done.stderr.count("\n") == 1
    assert not list((tmp_path / "out").glob(".*"))


def test_paths_are_told_as_they_are_given(runs, tmp_path, monkeypatch):
    shutil.copytree(runs("circle").path, tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    out, _ = hk("export", "run", "--vtk")
    assert out == "export:           run/run.vtkhdf\n" and Path("run/run.vtkhdf").is_file()


def test_an_export_that_fails_leaves_the_older_one(runs, tmp_path, monkeypatch):
    (path,) = hkflow.export(runs("circle"), "vtk", output=tmp_path)
    before = path.read_bytes()

    def failing(run, save, normalised):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(vtkhdf, "density_of", failing)
    with pytest.raises(hkflow.RunFolderError, match="No space left"):
        hkflow.export(runs("circle"), "vtk", output=tmp_path)
    assert path.read_bytes() == before
