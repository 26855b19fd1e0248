import numpy as np
import pytest

import hkflow
from hkflow.geometry.domain import MESHES, domain_of_mesh
from hkflow.geometry.sphere import surface_area

CIRCLE, SPHERE, FEATURES = hkflow.Domain(1), hkflow.Domain(2), hkflow.Domain(2, fixed=True)


@pytest.mark.parametrize(
    ("domain", "kind", "name", "picture", "in_space"),
    [
        (CIRCLE, "sphere", "the circle", "circle", True),
        (hkflow.Domain(1, (1, -1)), "signed-sphere", "the circle", "circle", True),
        (SPHERE, "sphere", "S^2", "map", True),
        (hkflow.Domain(5, (1, -1)), "signed-sphere", "S^5", "axes", False),
        (FEATURES, "fixed-features", "atoms", "bars", False),
        (hkflow.Domain(1, fixed=True), "fixed-features", "atoms", "bars", False),
    ],
)
def test_what_a_domain_says_of_itself(domain, kind, name, picture, in_space):
    assert (domain.kind, domain.name, domain.picture) == (kind, name, picture)
    assert domain.in_space == in_space and domain.ordered == (picture == "circle")
    assert domain.area == surface_area(domain.dim)


def test_points_by_their_angles():
    (angle,) = CIRCLE.angles(np.array([[0.0, 1.0], [1.0, 0.0], [0.0, -1.0]])).values()
    assert angle == pytest.approx([0.5 * np.pi, 0.0, 1.5 * np.pi])
    found = SPHERE.angles(np.array([[0.0, 1.0, 0.0], [0.0, 0.0, -1.0]]))
    assert found["longitude"][0] == 90.0 and found["latitude"].tolist() == [0.0, -90.0]
    assert hkflow.Domain(3).angles(np.eye(4)) == FEATURES.angles(np.eye(3)) == {}


@pytest.mark.parametrize("dim", MESHES)
def test_a_mesh_belongs_to_the_domain_that_made_it(dim):
    domain = hkflow.Domain(dim)
    mesh = domain.mesh({1: 12, 2: 12, 3: 120}[dim])
    assert mesh.dim == dim and mesh.volumes.sum() == pytest.approx(domain.area, rel=1e-13)
    assert domain_of_mesh(mesh.name, dim) == domain and domain_of_mesh(mesh.name, dim + 1) is None
    objective = hkflow.MomentFlow(np.eye(dim + 1)[0], 0.5, hkflow.Flow(1.0, 0.0)).objective()
    assert hkflow.Problem(mesh, objective, hkflow.Flow(1.0, 0.0)).domain == domain


@pytest.mark.parametrize(
    ("dim", "wanted", "cells"),
    [
        (1, 1e9, 65536),
        (1, 100.5, 100),
        (2, 1, 162),
        (2, 163, 362),
        (2, 642, 642),
        (2, 2562.5, 5762),
        (2, 11_000, 23042),
        (2, 1e9, 655362),
        (3, 841, 6480),
        (3, 1e9, 409920),
    ],
)
def test_the_fewest_cells_of_at_least_so_many(dim, wanted, cells):
    domain = hkflow.Domain(dim)
    assert domain.cells_for(wanted) == cells
    assert domain.cells_for(1e12) == domain.meshes.most  # which is the size of a mesh


def test_fixed_features_and_spheres_without_a_mesh():
    mesh = FEATURES.mesh(3)
    assert domain_of_mesh(mesh.name, 2) == FEATURES and np.array_equal(mesh.centers, np.eye(3))
    with pytest.raises(
        ValueError, match=r"S\^7 has no mesh. There are meshes of S\^1, S\^2, S\^3."
    ):
        hkflow.Domain(7).mesh(100)
