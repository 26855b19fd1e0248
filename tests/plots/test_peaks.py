"""Circles on maps of S²: around what has gathered, and around nothing that is smooth."""

import numpy as np
import pytest

import hkflow
from hkflow.geometry import geodesic_mesh
from hkflow.geometry.sphere import normalize
from hkflow.plots import sphere

MESHES = [geodesic_mesh(level) for level in (3, 4, 5)]  # 642, 2562, 10242 cells


def on_cells(mesh, density):
    """A density of each sign as atoms, one for each cell."""
    weights = np.concatenate([values * mesh.volumes for values in density])
    return hkflow.PointMeasure(
        np.tile(mesh.centers, (2, 1)), np.repeat([1.0, -1.0], mesh.n_cells), weights
    )


def hill(mesh, concentration, center=(0.0, 0.6, 0.8)):
    return np.exp(concentration * (mesh.centers @ np.array(center) - 1.0))


@pytest.mark.parametrize("mesh", MESHES, ids=lambda mesh: str(mesh.n_cells))
@pytest.mark.parametrize("concentration", [0.0, 1.0, 10.0, 40.0])
def test_smooth_densities_have_no_peaks(mesh, concentration):
    both = [hill(mesh, concentration), np.ones(mesh.n_cells)]
    assert len(sphere.peaks(on_cells(mesh, both))) == 0


@pytest.mark.parametrize("mesh", MESHES, ids=lambda mesh: str(mesh.n_cells))
def test_what_gathers_is_found_with_its_mass_and_place(mesh):
    background = on_cells(mesh, np.full((2, mesh.n_cells), 0.3 / (8.0 * np.pi)))
    places = normalize(np.array([[1.0, 0.2, 0.1], [-0.5, 0.9, 0.3], [0.1, -0.2, -1.0]]))
    signs, weights = np.array([1.0, 1.0, -1.0]), np.array([0.4, 0.1, 0.2])
    whole = hkflow.PointMeasure(
        np.concatenate([background.positions, places]),
        np.concatenate([background.signs, signs]),
        np.concatenate([background.weights, weights]),
    )
    found = sphere.peaks(whole)
    assert len(found) == 3 and found.signs.tolist().count(-1.0) == 1
    for place, sign, weight in zip(places, signs, weights, strict=True):
        nearest = np.argmax(np.where(found.signs == sign, found.positions @ place, -2.0))
        assert found.positions[nearest] @ place > np.cos(0.02)
        assert found.weights[nearest] == pytest.approx(weight, rel=0.1)


def test_sibling_a_hill_of_a_few_cells_is_a_peak():
    mesh = MESHES[2]
    both = [hill(mesh, 4000.0) + 1e-6, np.full(mesh.n_cells, 1e-6)]
    assert len(sphere.peaks(on_cells(mesh, both))) == 1


def test_no_mass_has_no_peaks():
    mesh = MESHES[0]
    assert len(sphere.peaks(on_cells(mesh, np.zeros((2, mesh.n_cells))))) == 0
