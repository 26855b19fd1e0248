"""Restriction between meshes: exact for constants, mass kept, second order; and the same areas as
brute force finds."""

import numpy as np
import pytest
from conftest import hypersphere_of
from scipy.spatial import cKDTree

import hkflow
from hkflow.geometry import polyhedra
from hkflow.geometry.mesh import Mesh
from hkflow.geometry.sphere import triangle_area
from hkflow.geometry.transfer import (
    _space_overlaps,
    _sphere_overlaps,
    corner_table,
    nearest_cells,
    neighbor_table,
    restrict,
    spread,
    transferred,
)

SPHERE = hkflow.Domain(2)
# within levels of halving, within those between, and from one to the other
LEVELS = [(12, 12), (12, 42), (42, 162), (42, 2562), (162, 642), (642, 2562)]
LEVELS += [(92, 362), (362, 1442), (12, 92), (42, 92), (92, 162), (162, 362), (362, 642)]
LEVELS += [(642, 1442), (162, 1442), (1442, 2562), (2562, 5762), (5762, 10242)]


@pytest.mark.parametrize("coarse, fine", LEVELS)
def test_levels_share_their_area(coarse, fine, rng):
    coarse, fine = SPHERE.mesh(coarse), SPHERE.mesh(fine)
    assert restrict(np.ones(fine.n_cells), fine, coarse) == pytest.approx(
        np.ones(coarse.n_cells), rel=1e-12
    )
    density = rng.uniform(0.0, 1.0, (2, fine.n_cells))
    found = restrict(density, fine, coarse)
    assert found.shape == (2, coarse.n_cells) and found @ coarse.volumes == pytest.approx(
        density @ fine.volumes, rel=1e-13
    )
    assert found.min() >= 0.0


@pytest.mark.parametrize("coarse, fine", LEVELS[1:])
def test_densities_go_to_finer_meshes_and_back(coarse, fine, rng):
    coarse, fine = SPHERE.mesh(coarse), SPHERE.mesh(fine)
    density = rng.uniform(0.0, 1.0, (2, coarse.n_cells))
    found = transferred(density, coarse, fine)
    assert found @ fine.volumes == pytest.approx(density @ coarse.volumes, rel=1e-13)
    assert found.min() > density.min() - 1e-12 and found.max() < density.max() + 1e-12
    inside = cKDTree(coarse.centers).query(fine.centers)[1]
    whole = np.abs(found - density[:, inside]) < 1e-12  # cells that lie in one alone
    assert whole.any() and not whole.all()
    again = transferred(found, fine, coarse)
    assert np.array_equal(again, restrict(found, fine, coarse))
    assert transferred(density, coarse, coarse) is not density
    with pytest.raises(
        ValueError, match=r"from a fine mesh \(circle, geodesic, 600-cell\) to a coarser"
    ):
        transferred(density, coarse, hkflow.circle_mesh(10 * fine.n_cells))


def test_areas_are_those_that_counting_points_finds(rng):
    coarse, fine = hkflow.geodesic_mesh(1), hkflow.geodesic_mesh(2)
    source, target, shared = _sphere_overlaps(fine, coarse)
    points = hkflow.random_uniform(rng, 400_000, 2)
    _, f = cKDTree(fine.centers).query(points)
    _, c = cKDTree(coarse.centers).query(points)
    counted, wanted = np.zeros((2, fine.n_cells, coarse.n_cells))
    np.add.at(counted, (f, c), 4.0 * np.pi / len(points))
    wanted[source, target] = shared[:, 0]
    deviation = (counted - wanted) / np.sqrt(np.maximum(wanted, 1e-4) * 4.0 * np.pi / len(points))
    assert np.abs(deviation).max() < 6.0


@pytest.mark.parametrize("space", [False, True], ids=["sphere", "space"])
def test_the_nearest_cell_is_found_from_neighbour_to_neighbour(space, rng):
    """From wherever the point before was; without the neighbours of one cell it can be missed."""
    mesh = hypersphere_of(840) if space else hkflow.Domain(2).mesh(362)
    points, found = hkflow.random_uniform(rng, 2000, mesh.dim), np.empty(2000, np.int64)
    wanted, ring = cKDTree(mesh.centers).query(points)[1], neighbor_table(mesh)
    nearest_cells(points, ring, mesh.centers, found)
    assert np.array_equal(found, wanted)
    lost = ring.copy()
    lost[lost == wanted[0]] = wanted[1]
    nearest_cells(points, lost, mesh.centers, found)
    assert not np.array_equal(found, wanted)


def test_corners_make_the_cells():
    mesh = hkflow.geodesic_mesh(2)
    table, counts = corner_table(mesh)
    assert sorted(set(counts)) == [5, 6] and (counts == 5).sum() == 12
    areas = np.zeros(mesh.n_cells)
    for k in range(table.shape[1]):
        there = k < counts
        following = table[np.arange(mesh.n_cells), (k + 1) % counts]
        pieces = triangle_area(mesh.centers, mesh.vertices[table[:, k]], mesh.vertices[following])
        assert (pieces[there] > 0.0).all()
        areas += np.where(there, pieces, 0.0)
    assert areas == pytest.approx(mesh.volumes, rel=1e-12)


def test_restriction_is_second_order():
    exact = hkflow.MomentFlow(np.array([0.3, -0.5, 0.8]), 0.8, hkflow.Flow(1.0, 4.0))
    finest, errors = hkflow.geodesic_mesh(5), []
    for level in (2, 3):
        fine, coarse = hkflow.geodesic_mesh(level + 1), hkflow.geodesic_mesh(level)
        average = restrict(exact.density(finest.centers, 1.0), finest, coarse)
        errors.append(
            np.abs(restrict(exact.density(fine.centers, 1.0), fine, coarse) - average).max()
        )
    (found,) = hkflow.convergence_table([2.0, 1.0], errors).orders
    assert 1.8 < found < 2.2, (errors, found)


@pytest.mark.parametrize("n, m", [(64, 32), (96, 64), (100, 64), (7, 7), (1000, 3)])
def test_arcs_share_their_length(n, m, rng):
    fine, coarse = hkflow.circle_mesh(n), hkflow.circle_mesh(m)
    density = rng.uniform(0.0, 1.0, n)
    found = restrict(density, fine, coarse)
    assert found @ coarse.volumes == pytest.approx(density @ fine.volumes, rel=1e-13)
    assert restrict(np.ones(n), fine, coarse) == pytest.approx(np.ones(m), rel=1e-13)
    if n % m == 0:
        assert found == pytest.approx(density.reshape(m, -1).mean(axis=1), rel=1e-13)
        assert restrict(spread(found, coarse, fine) / fine.volumes, fine, coarse) == pytest.approx(
            found, rel=1e-12
        )
    assert spread(found, coarse, fine).sum() == pytest.approx(found @ coarse.volumes, rel=1e-13)


def means_of_x(mesh):
    """∫ x over each cell, (n_cells, d+1), by the faces of the whole mesh."""
    left, right = mesh.faces.T
    inward = mesh.centers[right] - mesh.centers[left]
    inward *= (mesh.face_areas / np.linalg.norm(inward, axis=1))[:, None]
    total = np.zeros_like(mesh.centers)
    np.add.at(total, right, inward)
    np.add.at(total, left, -inward)
    return total / mesh.dim / mesh.volumes[:, None]


MESHES = {
    "circle": [hkflow.circle_mesh(n) for n in (48, 80, 160)],
    "sphere": [hkflow.geodesic_mesh(level) for level in (2, 3, 4)],
    "space": [hypersphere_of(100 * n**3 + 20 * n) for n in (1, 2, 3)],
}


@pytest.mark.parametrize("name", MESHES)
def test_linear_restriction_across_faces(name):
    """Of averages of a function linear in R^(d+1), whose averages on the coarse mesh are known. As
    constant in fine cells it is 15 times farther off, and more."""
    coarse, *finer = MESHES[name]
    e = np.array([0.3, -0.5, 0.8, -0.1])[: coarse.dim + 1]
    wanted = 2.0 + means_of_x(coarse) @ e
    for fine in finer:
        averages = np.stack([2.0 + means_of_x(fine) @ e, np.full(fine.n_cells, 2.0)])
        found = restrict(averages, fine, coarse, linear=True)
        assert found @ coarse.volumes == pytest.approx(averages @ fine.volumes, rel=1e-12)
        assert found[1] == pytest.approx(2.0, rel=1e-12)
        off = np.abs(restrict(averages, fine, coarse)[0] - wanted).max()
        assert np.abs(found[0] - wanted).max() < off / 15.0


def test_other_meshes_are_refused():
    with pytest.raises(ValueError, match="finer|coarser"):
        restrict(np.ones(32), hkflow.circle_mesh(32), hkflow.circle_mesh(64))
    with pytest.raises(ValueError, match="coarser"):
        restrict(np.ones(42), hkflow.geodesic_mesh(1), hkflow.circle_mesh(12))


def test_sibling_a_mesh_whose_cells_are_wrong_is_seen():
    fine, coarse = hkflow.geodesic_mesh(2), hkflow.geodesic_mesh(1)
    shifted = Mesh(
        "geodesic", **(coarse.arrays() | {"centers": np.roll(coarse.centers, 1, axis=0)})
    )
    with pytest.raises(ArithmeticError, match="miss"):
        restrict(np.ones(fine.n_cells), fine, shifted)


@pytest.fixture(scope="module")
def space():
    return {n: hypersphere_of(100 * n**3 + 20 * n) for n in (1, 2, 3)}


@pytest.mark.parametrize("coarse, fine", [(1, 2), (1, 3), (2, 3)])
def test_cells_of_space_share_their_volumes(space, coarse, fine, rng):
    """Both ways: pieces make up the fine cells and the coarse ones to 1e-12, and mass stays."""
    coarse, fine = space[coarse], space[fine]
    source, target, shared = _space_overlaps(fine, coarse)
    volumes = shared[:, 0]
    for pieces, mesh in ((source, fine), (target, coarse)):
        assert np.bincount(pieces, volumes) == pytest.approx(mesh.volumes, rel=1e-12, abs=0.0)
    for one, two in ((fine, coarse), (coarse, fine)):
        density = rng.uniform(0.0, 1.0, (2, one.n_cells))
        found = transferred(density, one, two)
        assert found @ two.volumes == pytest.approx(density @ one.volumes, rel=1e-12)
        assert found.min() > density.min() - 1e-12 and found.max() < density.max() + 1e-12


def test_shared_volumes_are_those_that_counting_points_finds(space, rng):
    coarse, fine = space[1], space[2]
    points = hkflow.random_uniform(rng, 400_000, 3)
    counted = np.zeros((fine.n_cells, coarse.n_cells))
    wanted, one = np.zeros_like(counted), 2.0 * np.pi**2 / len(points)
    np.add.at(counted, tuple(cKDTree(m.centers).query(points)[1] for m in (fine, coarse)), one)
    source, target, shared = _space_overlaps(fine, coarse)
    wanted[source, target] = shared[:, 0]
    deviation = (counted - wanted) / np.sqrt(np.maximum(wanted, 1e-3) * one)
    assert np.abs(deviation).max() < 6.0


def test_sibling_faces_that_two_cells_share_count_once(space, monkeypatch):
    """Cells of the two meshes have faces in the same great spheres: without a rule for them
    volumes are wrong."""
    fine, coarse = space[3], space[2]
    one, two = polyhedra.polyhedra(fine), polyhedra.polyhedra(coarse)
    source, target, _ = _space_overlaps(fine, coarse)
    scratch, within, found = np.empty((2, polyhedra.CORNERS, 4)), polyhedra.boundary.py_func, []
    part = np.zeros(5)
    for same in (polyhedra.SAME_PLANE, -1.0):
        monkeypatch.setattr(polyhedra, "SAME_PLANE", same)
        volumes = np.zeros(30)
        for c, d in zip(source, target, strict=True):
            if c < len(volumes):
                apex = fine.centers[c]
                part[:] = 0.0
                within(apex, one, c, two, d, True, *scratch, part)
                within(apex, two, d, one, c, False, *scratch, part)
                volumes[c] += part[0]
        found.append(np.abs(volumes / fine.volumes[: len(volumes)] - 1.0).max())
    assert found[0] < 1e-12 and found[1] > 1e-2
