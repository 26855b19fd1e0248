from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from conftest import hypersphere_of

import hkflow
from hkflow.geometry import polyhedra
from hkflow.geometry.hypersphere import (
    hypersphere_cells,
    hypersphere_mesh_of,
    voronoi_mesh,
)
from hkflow.geometry.sphere import distance, normalize

AREA = 2.0 * np.pi**2
DIVISIONS = (1, 2, 3)


def mesh_of(divisions):
    """The mesh of the 600-cell, each edge in so many parts."""
    return hypersphere_of(hypersphere_cells(divisions))


@cache
def scattered(n=60):
    return voronoi_mesh(normalize(np.random.default_rng(5).standard_normal((n, 4))))


def inward(mesh):
    """For each cell, Σ over its faces of area × unit normal into it, (n_cells, 4)."""
    left, right = mesh.faces.T
    normal = normalize(mesh.centers[right] - mesh.centers[left]) * mesh.face_areas[:, None]
    out = np.zeros((mesh.n_cells, 4))
    np.add.at(out, right, normal)
    np.add.at(out, left, -normal)
    return out


def by_quadrature(mesh, nodes=14):
    """Volume and ∫x of each cell, cut into tetrahedra from its centre, mapped from the unit cube:
    another way than the mesh's own, (n_cells,) and (n_cells, 4)."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    s, w = 0.5 * (x + 1.0), 0.5 * w
    u, v, t = np.meshgrid(s, s, s, indexing="ij")
    weight = np.einsum("i,j,k->ijk", w, w, w) * u**2 * v
    shares = np.stack([1.0 - u, u * (1.0 - v), u * v * (1.0 - t), u * v * t], axis=-1)
    volumes, moments = np.zeros(mesh.n_cells), np.zeros((mesh.n_cells, 4))
    corners = mesh.vertices[mesh.face_vertices]
    for face, cells in enumerate(mesh.faces):
        for cell in cells:
            for k in range(1, corners.shape[1] - 1):
                tetrahedron = np.stack([mesh.centers[cell], *corners[face, [0, k, k + 1]]])
                q = shares @ tetrahedron
                length = np.linalg.norm(q, axis=-1)
                density = abs(np.linalg.det(tetrahedron)) * weight / length**4
                volumes[cell] += density.sum()
                moments[cell] += np.einsum("ijk,ijka->a", density / length, q)
    return volumes, moments


@pytest.mark.parametrize("n", DIVISIONS)
def test_cells_fill_the_sphere_and_are_even(n):
    mesh = mesh_of(n)
    assert mesh.n_cells == hypersphere_cells(n) == 100 * n**3 + 20 * n
    assert mesh.volumes.sum() == pytest.approx(AREA, rel=1e-13)
    assert mesh.volumes.max() < 1.25 * mesh.volumes.min()
    assert np.all(np.bincount(mesh.faces.ravel()) == 12)
    drift = np.linalg.norm(normalize(inward(mesh)) - mesh.centers, axis=1)
    assert drift.max() < 5e-4 * mesh.width  # centres are centroids; undisturbed up to 8e-3
    assert np.all(mesh.faces[:, 0] < mesh.faces[:, 1])


@pytest.mark.parametrize("make", [lambda: mesh_of(3), scattered], ids=["600-cell", "scattered"])
def test_the_line_of_centres_is_orthogonal_to_the_face(make):
    """All points of a face are equally far from both centres."""
    mesh = make()
    left, right = mesh.centers[mesh.faces[:, 0]], mesh.centers[mesh.faces[:, 1]]
    assert mesh.face_distances == pytest.approx(distance(left, right), rel=1e-12)
    for points in (mesh.face_midpoints, *np.moveaxis(mesh.vertices[mesh.face_vertices], 1, 0)):
        assert distance(points, left) == pytest.approx(distance(points, right), rel=1e-10)
        assert np.linalg.norm(points, axis=1) == pytest.approx(1.0, rel=1e-14)


def test_volumes_areas_and_midpoints_of_irregular_cells():
    """Cells of random points, where a foot may lie outside its face. ∫_cell x = ⅓ Σ area × normal
    into it, by the divergence theorem."""
    mesh = scattered()
    volumes, moments = by_quadrature(mesh)
    assert mesh.volumes.sum() == pytest.approx(AREA, rel=1e-11)
    assert mesh.volumes == pytest.approx(volumes, rel=1e-9)
    assert inward(mesh) / 3.0 == pytest.approx(moments, rel=0, abs=1e-9 * volumes.max())


@pytest.mark.parametrize("nodes", [24, 2])
def test_a_sixteenth_of_the_sphere(monkeypatch, nodes):
    """Seen from its middle, the tetrahedron between the axes is four pyramids over right-angled
    triangles. Sibling: with a rule of two points their volume is wrong."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    monkeypatch.setattr(polyhedra, "NODES", x)
    monkeypatch.setattr(polyhedra, "WEIGHTS", w)
    apex, normal, corners = np.full(4, 0.5), -np.eye(4)[3], np.eye(4)[[1, 0, 2]]
    volume = 4.0 * polyhedra.pyramid.py_func(apex, normal, corners, 3)
    assert (abs(volume / (AREA / 16.0) - 1.0) < 1e-13) == (nodes == 24)


def test_near_cells_lie_close_in_memory():
    mesh = mesh_of(3)
    assert np.abs(np.diff(mesh.faces, axis=1)).max() < 3 * mesh.n_cells ** (2 / 3)


@pytest.mark.parametrize(
    ("cells", "near"), [(1, "120 or 840"), (500, "120 or 840"), (7000, "6480 or 12600")]
)
def test_a_number_of_cells_that_no_mesh_has_is_refused(cells, near):
    with pytest.raises(ValueError, match=f"100·n³ .* cells, got {cells}. Nearest: {near}"):
        hypersphere_mesh_of(cells)


def errors(flow, meshes):
    """Relative L¹ errors at t = 1 against the closed form."""
    exact = hkflow.MomentFlow(np.array([0.3, -0.5, 0.8, 0.4]), 0.8, flow)
    problems = [hkflow.Problem(m, exact.objective(), flow, exact=exact) for m in meshes]
    return [
        hkflow.solve(problem, 1.0, tolerance=1e-5).exact_errors()[0][-1] for problem in problems
    ]


@pytest.mark.parametrize("rates", [(1.0, 0.0), (1.0, 4.0)])
def test_the_grid_is_second_order(rates):
    meshes = [mesh_of(n) for n in DIVISIONS]
    found = errors(hkflow.Flow(*rates), meshes)
    orders = hkflow.convergence_table([mesh.width for mesh in meshes], found).orders
    assert np.all((orders >= 1.9) & (orders <= 2.4)), (found, orders)
    assert found[-1] < 5e-3


def test_where_nothing_moves_the_error_is_that_of_the_steps():
    """The corners of the 600-cell integrate polynomials of degree 11 exactly."""
    assert max(errors(hkflow.Flow(0.0, 4.0), map(mesh_of, DIVISIONS))) < 1e-6


def test_sibling_wrong_faces_are_seen():
    """With areas that are wrong by up to 30 % the order is lost."""
    rough = [
        replace(mesh, face_areas=mesh.face_areas * (1.0 + 0.3 * mesh.face_midpoints[:, 0]))
        for mesh in map(mesh_of, DIVISIONS)
    ]
    orders = hkflow.convergence_table(
        [mesh.width for mesh in rough], errors(hkflow.Flow(1.0, 0.0), rough)
    ).orders
    assert orders[-1] < 1.5, orders
