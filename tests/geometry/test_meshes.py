import numpy as np
import pytest
from scipy.spatial import cKDTree

from hkflow.geometry import circle_mesh, geodesic_cells, geodesic_level, geodesic_mesh
from hkflow.geometry.domain import Domain
from hkflow.geometry.geodesic import coarser_geodesic, finer_geodesic, icosahedron, refine
from hkflow.geometry.mesh import half_faces, pieces
from hkflow.geometry.sphere import distance, normalize, surface_area
from hkflow.geometry.voronoi import centroids, edges, lloyd, voronoi_mesh

MESHES = {"circle": circle_mesh(17), "642": geodesic_mesh(3), "362": Domain(2).mesh(362)}
# cells of S²: levels of halving, and those between, whose first cut is into nine
SIZES = (12, 42, 92, 162, 362, 642, 1442, 2562, 5762)


@pytest.mark.parametrize("n", SIZES)
def test_geodesic_mesh_has_the_right_numbers_and_total_area(n):
    mesh = Domain(2).mesh(n)
    assert (mesh.n_cells, len(mesh.faces), len(mesh.vertices)) == (n, 3 * n - 6, 2 * n - 4)
    assert mesh.volumes.sum() == pytest.approx(surface_area(2), rel=1e-14)
    degrees = np.bincount(mesh.faces.ravel())
    assert np.sum(degrees == 5) == 12 and np.sum(degrees == 6) == n - 12


@pytest.mark.parametrize("level", range(5))
def test_levels_of_halving_keep_their_meshes(level):
    n = 10 * 4**level + 2
    assert geodesic_level(n) == level and geodesic_cells(level) == n
    for name, array in geodesic_mesh(level).arrays().items():
        assert np.array_equal(array, getattr(Domain(2).mesh(n), name)), name


def test_sizes_follow_each_other():
    found, n = [12], 12
    while n < SIZES[-1]:
        n = finer_geodesic(n)
        found.append(n)
    assert tuple(found) == SIZES
    twice = {coarse: fine for fine in SIZES[2:] if (coarse := coarser_geodesic(fine)) != 12}
    assert twice == {42: 162, 92: 362, 162: 642, 362: 1442, 642: 2562, 1442: 5762}
    assert coarser_geodesic(92) == coarser_geodesic(42) == 12 and coarser_geodesic(12) is None
    assert geodesic_level(362) is None


@pytest.mark.parametrize("mesh", MESHES.values(), ids=MESHES)
def test_faces_bisect_the_segment_between_their_cells(mesh):
    left, right = mesh.centers[mesh.faces[:, 0]], mesh.centers[mesh.faces[:, 1]]
    assert np.all(mesh.faces[:, 0] < mesh.faces[:, 1])
    assert mesh.face_distances == pytest.approx(distance(left, right), rel=1e-12)
    for points in (mesh.face_midpoints, *np.moveaxis(mesh.vertices[mesh.face_vertices], 1, 0)):
        assert distance(points, left) == pytest.approx(distance(points, right), rel=1e-10)
        assert np.linalg.norm(points, axis=1) == pytest.approx(1.0, rel=1e-14)


@pytest.mark.parametrize("cells", (362, 642))
def test_geodesic_faces_have_the_length_of_their_corners(cells):
    mesh = Domain(2).mesh(cells)
    a, b = np.moveaxis(mesh.vertices[mesh.face_vertices], 1, 0)
    assert mesh.face_areas == pytest.approx(distance(a, b), rel=1e-12)
    assert distance(mesh.face_midpoints, a) == pytest.approx(
        distance(mesh.face_midpoints, b), rel=1e-10
    )


@pytest.mark.parametrize("cells", (362, 642))
def test_voronoi_volumes_agree_with_scipy(cells):
    from scipy.spatial import SphericalVoronoi

    mesh = Domain(2).mesh(cells)
    assert mesh.volumes == pytest.approx(
        SphericalVoronoi(mesh.centers).calculate_areas(), rel=1e-11
    )


@pytest.mark.parametrize("cells", (1442, 2562))
def test_closed_cells_have_no_net_normal(cells):
    """Σ_k (face area) (unit vector to the neighbour) nearly vanishes in every cell: the discrete
    Gauss theorem."""
    mesh = Domain(2).mesh(cells)
    cell, neighbor, face, _ = half_faces(mesh)
    toward = mesh.centers[neighbor] - mesh.centers[cell]
    flux = (mesh.face_areas / mesh.face_distances)[face][:, None] * toward
    total = np.stack([np.bincount(cell, flux[:, a]) for a in range(3)], axis=1)
    total -= np.einsum("ca,ca->c", total, mesh.centers)[:, None] * mesh.centers
    assert np.abs(total).max() < 0.02 * mesh.width


def test_lloyd_makes_the_mesh_centroidal():
    points, triangles = refine(*refine(*refine(*icosahedron())))
    ends, sides = edges(triangles)

    def offset(x):
        return np.abs(centroids(x, triangles, ends, sides) - x).max()

    once, often = lloyd(points, triangles, 1), lloyd(points, triangles, 40)
    assert offset(often) < 0.2 * offset(once) < 0.2 * offset(points)


def off_centre(mesh):
    """Largest distance of a cell's centre from its centroid, in widths of the mesh."""
    left, right = mesh.centers[mesh.faces[:, 0]], mesh.centers[mesh.faces[:, 1]]
    inward = normalize(left - right) * mesh.face_areas[:, None]  # as in voronoi.centroids
    total = np.zeros_like(mesh.centers)
    np.add.at(total, mesh.faces[:, 0], inward)
    np.subtract.at(total, mesh.faces[:, 1], inward)
    return distance(normalize(total), mesh.centers).max() / mesh.width


@pytest.mark.parametrize(("lloyd_iterations", "holds"), [(8, True), (0, False)])
def test_centres_are_centroids(monkeypatch, lloyd_iterations, holds):
    """Between levels of halving as at these, and how uneven the cells are lies between; the sibling
    without Lloyd iterations fails at both."""
    monkeypatch.setattr("hkflow.geometry.geodesic.LLOYD_ITERATIONS", lloyd_iterations)
    meshes = [Domain(2).mesh(cells) for cells in SIZES[3:]]
    assert all((off_centre(mesh) < 3e-3) == holds for mesh in meshes)
    uneven = [mesh.volumes.max() / mesh.volumes.min() for mesh in meshes]
    assert (np.diff(uneven) > 0.0).all() == holds


@pytest.mark.parametrize("cells", (5762, 10242))
def test_neighbours_lie_close_in_memory(cells):
    mesh = Domain(2).mesh(cells)
    assert np.abs(np.diff(mesh.faces, axis=1)).max() < 2 * np.sqrt(mesh.n_cells)


def test_a_triangulation_that_is_not_delaunay_is_refused():
    points, triangles = refine(*refine(*icosahedron()))
    points = points.copy()
    points[40] = points[20] + 0.1 * (points[40] - points[20])
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    with pytest.raises(ValueError, match="not Delaunay"):
        voronoi_mesh("bad", points, triangles)
    with pytest.raises(ValueError, match="not closed"):
        edges(triangles[1:])


def test_circle_needs_three_cells():
    with pytest.raises(ValueError, match="at least 3"):
        circle_mesh(2)
    assert circle_mesh(3).volumes.sum() == pytest.approx(2 * np.pi, rel=1e-15)


def test_a_number_of_cells_is_no_level():
    with pytest.raises(ValueError, match=r"at most 13, got 642. .* take Domain\(2\).mesh\(642\)"):
        geodesic_mesh(642)


def test_half_faces_number_the_slots_of_every_cell():
    cell, _, face, slot = half_faces(geodesic_mesh(1))
    assert len(cell) == 2 * 120 and np.all(np.bincount(face) == 2)
    assert slot.max() == 5 and np.all(np.diff(cell) >= 0)


def moments_off(mesh, points, cell, volumes):
    """How far sums over points are from ∫θ over their cells, over the area of the sphere. A cell's
    is −Σ |face| n/d over its faces, n their normals outwards: the divergence theorem, for Δθ = −dθ.
    """
    left, right = mesh.faces.T
    normals = normalize(mesh.centers[right] - mesh.centers[left]) * mesh.face_areas[:, None]
    off = np.zeros_like(mesh.centers)
    np.add.at(off, cell, volumes[:, None] * points)
    np.add.at(off, left, normals / mesh.dim)
    np.add.at(off, right, -normals / mesh.dim)
    return np.linalg.norm(off, axis=1).sum() / mesh.volumes.sum()


@pytest.mark.parametrize(
    "dim, cells", [(1, (16, 32)), (2, (162, 642)), (2, (92, 362)), (3, (840, 2760))]
)
def test_pieces_give_averages_of_second_order(dim, cells):
    """They lie in their cells, fill them, and integrate θ over each; the variance within a piece is
    what is left of that within a cell."""
    errors, widths = [], []
    for count in cells:
        mesh = Domain(dim).mesh(count)
        points, cell, volumes = pieces(mesh)
        assert np.allclose(np.bincount(cell, volumes), mesh.volumes, rtol=1e-13)
        assert np.allclose(np.linalg.norm(points, axis=1), 1.0, rtol=1e-14)
        assert np.array_equal(cKDTree(mesh.centers).query(points)[1], cell)
        errors.append(moments_off(mesh, points, cell, volumes))
        widths.append(mesh.width)
        whole = moments_off(mesh, mesh.centers, np.arange(mesh.n_cells), mesh.volumes)
        assert errors[-1] < 0.26 * whole
        # it can fail: half way to the middles of the pieces
        between = normalize(mesh.centers[cell] + points)
        assert moments_off(mesh, between, cell, volumes) > 0.35 * whole
    order = np.diff(np.log(errors))[0] / np.diff(np.log(widths))[0]
    assert 1.9 < order < 2.1, (errors, order)
