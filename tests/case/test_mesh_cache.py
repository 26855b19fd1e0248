import h5py
import numpy as np
import pytest

from hkflow.case.mesh_cache import IN_USE, cached_mesh
from hkflow.files.writing import checksum
from hkflow.geometry import geodesic_mesh
from hkflow.geometry.domain import Meshes
from hkflow.geometry.geodesic import geodesic_mesh_of


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """The folder of a cache of its own, the sizes of the meshes that were built, and the function
    that gives them as a new process has them."""
    monkeypatch.setenv("HKFLOW_CACHE", str(tmp_path / "cache"))
    built = []

    def build(cells):
        built.append(cells)
        return geodesic_mesh_of(cells)

    def mesh_of(cells):
        IN_USE.clear()
        return cached_mesh(Meshes("geodesic", build), cells)

    return tmp_path / "cache", built, mesh_of


def test_a_mesh_in_use_is_not_read_again(cached):
    folder, built, mesh_of = cached
    one = mesh_of(162)
    (path,) = folder.iterdir()
    path.write_bytes(b"")
    assert cached_mesh(Meshes("geodesic", geodesic_mesh_of), 162) is one
    del one
    with pytest.warns(UserWarning, match="built again"):
        assert cached_mesh(Meshes("geodesic", geodesic_mesh_of), 162).n_cells == 162


def test_cache_is_filled_used_and_repaired(cached):
    folder, built, mesh_of = cached
    one, two = mesh_of(162), mesh_of(162)
    assert built == [162]
    assert all(np.array_equal(a, two.arrays()[name]) for name, a in one.arrays().items())
    (path,) = folder.iterdir()
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.warns(UserWarning, match="built again"):
        mesh_of(162)
    assert built == [162, 162]
    path.unlink()
    mesh_of(162)
    assert built == [162, 162, 162]


def _level_one(file):
    for name, array in geodesic_mesh(1).arrays().items():
        del file[name]
        file[name] = array


def _one_array(name, change):
    def put(file):
        array = change(file[name][()])
        del file[name]
        file[name] = array

    return put


@pytest.mark.parametrize(
    "put, wrong",
    [
        (_level_one, "has the shape"),
        (lambda file: file.attrs.update(mesh="circle"), "format and mesh are 5 and circle"),
        (lambda file: file.attrs.update(format=1), "format and mesh are 1 and geodesic"),
        (_one_array("volumes", lambda array: 2.0 * array), "'volumes' sum to 25.1"),
        (_one_array("faces", lambda array: array + 200), "'faces' points at 200 to"),
        (_one_array("centers", lambda array: 0.5 * array), "'centers' are no unit vectors"),
        (_one_array("vertices", lambda array: np.full_like(array, np.nan)), "not finite"),
        (_one_array("face_areas", lambda array: array.astype("f4")), "float32"),
        (lambda file: file.pop("faces"), "'faces' is missing"),
    ],
)
def test_a_wrong_mesh_whose_checksum_fits_is_told_and_built_again(cached, put, wrong):
    """Before, the checksum alone was asked: a mesh of 42 cells was taken for one of 162."""
    folder, built, mesh_of = cached
    right = mesh_of(162)
    (path,) = folder.iterdir()
    with h5py.File(path, "r+") as file:
        put(file)
        file.attrs["sha256"] = checksum({name: item[()] for name, item in file.items()})
    with pytest.warns(UserWarning, match=wrong):
        mesh = mesh_of(162)
    assert np.array_equal(mesh.centers, right.centers) and built == [162, 162]
    mesh_of(162)
    assert built == [162, 162]


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HKFLOW_CACHE", str(tmp_path / "file"))
    assert cached_mesh(Meshes("geodesic", geodesic_mesh_of), 42).n_cells == 42
