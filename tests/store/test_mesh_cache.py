import numpy as np

from hkflow.store import mesh_cache


def test_cache_is_filled_used_and_repaired(tmp_path, monkeypatch):
    monkeypatch.setenv("HKFLOW_CACHE", str(tmp_path / "cache"))
    built = []
    honest = mesh_cache.geodesic_mesh
    monkeypatch.setattr(mesh_cache, "geodesic_mesh", lambda level: built.append(level) or honest(level))
    one, two = mesh_cache.cached_geodesic_mesh(2), mesh_cache.cached_geodesic_mesh(2)
    assert built == [2]
    assert all(np.array_equal(a, two.arrays()[name]) for name, a in one.arrays().items())
    (path,) = (tmp_path / "cache").iterdir()
    path.write_bytes(path.read_bytes()[:-500])
    mesh_cache.cached_geodesic_mesh(2)
    assert built == [2, 2]
    path.unlink()
    mesh_cache.cached_geodesic_mesh(2)
    assert built == [2, 2, 2]


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HKFLOW_CACHE", str(tmp_path / "file"))
    assert mesh_cache.cached_geodesic_mesh(1).n_cells == 42
