"""A hill is turned once around the sphere: it should be back as it was."""

import numpy as np
import pytest
from conftest import OFF_AXIS, order

import hkflow
from hkflow.methods.grid.advection import advect, prescribed, stream_flows

TURN = 2.0 * np.pi
AXIS = np.array(OFF_AXIS) / np.linalg.norm(OFF_AXIS)
TOP = np.cross(AXIS, (0.0, 1.0, 0.0)) / np.linalg.norm(np.cross(AXIS, (0.0, 1.0, 0.0)))


def turned(mesh, **options):
    """The hill before and after the turn, (n_cells,)."""
    start = np.exp(-((np.arccos(np.clip(mesh.centers @ TOP, -1.0, 1.0)) / 0.5) ** 2))
    return start, advect(mesh, stream_flows(mesh, mesh.vertices @ AXIS), start, TURN, **options)


def errors(**options):
    """Relative l2 errors on 642, 2562 and 10242 cells."""
    found = []
    for mesh in map(hkflow.geodesic_mesh, (3, 4, 5)):
        start, end = turned(mesh, **options)
        assert end.min() >= 0.0 and end @ mesh.volumes == pytest.approx(
            start @ mesh.volumes, rel=1e-13
        )
        found.append(np.sqrt((end - start) ** 2 @ mesh.volumes / (start**2 @ mesh.volumes)))
    return np.array(found)


@pytest.mark.parametrize("cfl, bound", [(0.9, 8.5e-3), (0.5, 1.1e-2)])
def test_a_hill_comes_back_at_second_order(cfl, bound):
    e = errors(cfl=cfl)
    assert e[-1] < bound and 1.9 < order(e)[-1] < 2.5, (e, order(e))


def test_a_sheet_stays_even_and_first_order_smears():
    mesh = hkflow.geodesic_mesh(3)
    even = advect(mesh, stream_flows(mesh, mesh.vertices @ AXIS), np.full(mesh.n_cells, 2.0), 1.0)
    assert np.abs(even - 2.0).max() < 1e-12
    start, end = turned(mesh, limiter="first-order")
    assert (
        end.min() >= 0.0
        and end.max() < 0.5 * start.max()
        and turned(mesh)[1].max() > 0.6 * start.max()
    )


def test_sibling_without_the_flow_along_the_face_the_order_is_lost(monkeypatch):
    def without(*arguments):
        transport = prescribed(*arguments)
        transport.velocity[:] = 0.0
        return transport

    monkeypatch.setattr("hkflow.methods.grid.advection.prescribed", without)
    e = errors()
    assert e[-1] > 1.5e-2 and order(e)[-1] < 1.9, (e, order(e))


def test_the_velocity_at_the_centres_is_that_of_the_faces():
    mesh = hkflow.geodesic_mesh(4)
    transport = prescribed(mesh, stream_flows(mesh, mesh.vertices @ AXIS))
    assert np.abs(transport.velocity[0] - np.cross(AXIS, mesh.centers)).max() < 0.02
    assert np.abs(transport.divergence).max() < 1e-12


def test_the_circle_is_turned_as_well():
    mesh = hkflow.circle_mesh(200)
    outward = np.einsum(
        "fa,fa->f",
        mesh.face_midpoints @ [[0, 1], [-1, 0]],
        mesh.centers[mesh.faces[:, 1]] - mesh.face_midpoints,
    )
    start = np.exp(3.0 * mesh.centers[:, 0])
    end = advect(mesh, np.sign(outward), start, TURN)
    assert np.abs(end - start).max() < 5e-3 * start.max()


def test_a_courant_number_beyond_one_is_refused():
    mesh = hkflow.circle_mesh(8)
    with pytest.raises(ValueError, match=r"cfl must lie in \(0, 1\], got 1.2"):
        advect(mesh, np.ones(8), np.ones(8), 1.0, cfl=1.2)


@pytest.mark.parametrize(
    "density, flows, time, words",
    [
        (np.ones(8), np.ones(8), -1.0, "time must be finite and at least 0"),
        (np.ones(8), np.ones(8), np.nan, "time must be finite and at least 0"),
        (np.ones(3), np.ones(8), 1.0, r"got \(3,\) and \(8,\)"),
        (np.ones(8), np.ones(9), 1.0, r"got \(8,\) and \(9,\)"),
        (-np.ones(8), np.ones(8), 1.0, "at least 0, and flows finite"),
        (np.ones(8), np.full(8, np.inf), 1.0, "at least 0, and flows finite"),
    ],
)
def test_what_no_density_can_follow_is_refused(density, flows, time, words):
    """A density of few cells was read beyond its end, one fell below 0 in a negative time."""
    with pytest.raises(ValueError, match=words):
        advect(hkflow.circle_mesh(8), flows, density, time)
