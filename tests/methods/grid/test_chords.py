"""Where kinks cut cells and faces, against sums over many points."""

import numpy as np
import pytest

import hkflow
from hkflow.geometry.hypersphere import hypersphere_mesh
from hkflow.geometry.sphere import normalize
from hkflow.methods.grid.chords import cut_mesh

MESHES = {"circle": hkflow.circle_mesh(23), "sphere": hkflow.geodesic_mesh(2)}
POINTS = 4000  # on a face
WHOLE = {1: 2.0, 2: 2.0 * np.pi, 3: 4.0 * np.pi}  # size of a great sphere of S^d


def normals(mesh, n=4):
    return normalize(np.random.default_rng(3).normal(size=(n, mesh.dim + 1)))


@pytest.mark.parametrize("name", [*MESHES, "hypersphere"])
def test_chords_of_a_kink_make_its_whole_great_sphere(name):
    mesh = MESHES[name] if name in MESHES else hypersphere_mesh(2)
    n = normals(mesh)
    chords, _ = cut_mesh(mesh, n)
    length = chords.per_volume * mesh.volumes[chords.cell]
    np.testing.assert_allclose(np.bincount(chords.kink, length), WHOLE[mesh.dim], rtol=1e-12)
    assert np.abs(np.sum(chords.middles * n[chords.kink], axis=1)).max() <= 1e-15
    assert (np.argmax(chords.middles @ mesh.centers.T, axis=1) == chords.cell).all()
    assert (np.diff(chords.starts) == np.bincount(chords.cell, minlength=mesh.n_cells)).all()


@pytest.mark.parametrize("mesh", MESHES.values(), ids=MESHES)
@pytest.mark.parametrize("broken", [False, True])
def test_cuts_mend_the_flow_through_faces(mesh, broken):
    """−∫∇(n·θ)₊·normal over a face is its difference between the centres and `excess`; sibling: the
    difference alone is not."""
    n = normals(mesh, 1)
    _, cuts = cut_mesh(mesh, n)
    left, right = (mesh.centers[mesh.faces[:, side]] for side in (0, 1))
    between = np.linalg.norm(right - left, axis=1)
    slope = (np.maximum(right @ n[0], 0.0) - np.maximum(left @ n[0], 0.0)) / between
    if mesh.dim == 1:
        share = (mesh.face_midpoints @ n[0] > 0.0).astype(float)
    else:
        a, b = (mesh.vertices[mesh.face_vertices[:, end]] for end in (0, 1))
        angle = (np.arange(POINTS) + 0.5)[:, None, None] / POINTS * mesh.face_areas[:, None]
        points = np.sin(mesh.face_areas[:, None] - angle) * a + np.sin(angle) * b
        share = (points @ n[0] > 0.0).mean(axis=0)
    wanted = -mesh.face_areas * share * ((right - left) @ n[0]) / between
    got = np.zeros(mesh.n_cells)
    np.add.at(got, mesh.faces[:, 0], -mesh.face_areas * slope)
    np.add.at(got, mesh.faces[:, 1], mesh.face_areas * slope)
    if not broken:
        got += np.bincount(
            np.repeat(np.arange(mesh.n_cells), np.diff(cuts.starts)), cuts.excess, mesh.n_cells
        )
    out = np.zeros(mesh.n_cells)
    np.add.at(out, mesh.faces[:, 0], wanted)
    np.add.at(out, mesh.faces[:, 1], -wanted)
    close = np.allclose(got, out, rtol=0.0, atol=4.0 / POINTS * mesh.face_areas.max())
    assert close != broken
