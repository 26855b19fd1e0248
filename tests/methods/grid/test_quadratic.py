"""The quadratic reconstruction: third order for smooth densities, without negative values, and with
an energy that falls."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import OFF_AXIS, hypersphere_of, order
from hypothesis import given, settings
from hypothesis import strategies as st

import hkflow
from hkflow.geometry.moments import moments
from hkflow.methods.grid import quadratic
from hkflow.methods.grid.advection import advect, stream_flows
from hkflow.methods.grid.stencil import stencil_of

AXIS = np.array(OFF_AXIS) / np.linalg.norm(OFF_AXIS)
TOP = np.cross(AXIS, (0.0, 1.0, 0.0)) / np.linalg.norm(np.cross(AXIS, (0.0, 1.0, 0.0)))
MESHES = {level: hkflow.geodesic_mesh(level) for level in (2, 3, 4, 5)}
BAND = (2.8, 4.0)


def relative(mesh, found, wanted):
    """The relative l2 error."""
    return np.sqrt((found - wanted) ** 2 @ mesh.volumes / (wanted**2 @ mesh.volumes))


# --- a hill is turned once around the sphere


def turned(mesh, **options):
    """The error of a hill after a turn, whose mass and sign are checked."""
    start = np.exp(-((np.arccos(np.clip(mesh.centers @ TOP, -1.0, 1.0)) / 0.5) ** 2))
    end = advect(mesh, stream_flows(mesh, mesh.vertices @ AXIS), start, 2.0 * np.pi, **options)
    assert end.min() >= 0.0 and end @ mesh.volumes == pytest.approx(start @ mesh.volumes, rel=1e-13)
    return relative(mesh, end, start)


@pytest.mark.parametrize("cfl", [0.9, 0.5])
def test_a_hill_comes_back_at_third_order(cfl):
    e = np.array(
        [turned(MESHES[level], cfl=cfl, reconstruction="quadratic") for level in (3, 4, 5)]
    )
    assert e[-1] < 1e-3 and np.all((BAND[0] < order(e)) & (order(e) < BAND[1])), (e, order(e))


def test_a_hill_comes_back_at_third_order_on_meshes_between():
    meshes = [hkflow.Domain(2).mesh(cells) for cells in (362, 1442, 5762)]
    e = np.array([turned(mesh, reconstruction="quadratic") for mesh in meshes])
    wanted = [turned(MESHES[level], reconstruction="quadratic") for level in (2, 3, 4, 5)]
    assert np.all((wanted[1:] < e) & (e < wanted[:-1])), (e, wanted)
    assert np.all((BAND[0] < order(e)) & (order(e) < BAND[1])), order(e)


@pytest.mark.parametrize("broken", ["means", "faces"])
def test_sibling_without_the_size_of_cells_or_faces_the_order_is_lost(monkeypatch, broken):
    whole = quadratic.charts_of

    def without(mesh):
        charts = whole(mesh)
        if broken == "means":
            return replace(charts, means=0.0 * charts.means)
        return replace(charts, faces=charts.faces * (1.0, 1.0, 0.0, 0.0, 1.0))

    monkeypatch.setattr(quadratic, "charts_of", without)
    e = np.array([turned(MESHES[level], reconstruction="quadratic") for level in (3, 4, 5)])
    assert order(e)[-1] < BAND[0] - 0.2, (e, order(e))


def test_the_circle_is_turned_as_well():
    """By velocities that are right to second order in the width of a cell."""
    e = []
    for cells in (50, 100, 200):
        mesh = hkflow.circle_mesh(cells)
        ahead = np.einsum(
            "fa,fa->f",
            mesh.face_midpoints @ [[0, 1], [-1, 0]],
            mesh.centers[mesh.faces[:, 1]] - mesh.face_midpoints,
        )
        start = np.exp(3.0 * mesh.centers[:, 0])
        end = advect(mesh, np.sign(ahead), start, 2.0 * np.pi, reconstruction="quadratic")
        e.append(relative(mesh, end, start))
    assert e[-1] < 3e-5 and np.all((BAND[0] < order(e)) & (order(e) < BAND[1])), (e, order(e))


def test_the_moments_of_the_cells_are_those_of_arcs_and_add_up_on_the_sphere():
    arcs, half = hkflow.circle_mesh(9), np.pi / 9.0
    first, second = moments(arcs)
    along = 0.5 + 0.25 * np.sin(2.0 * half) / half
    found = np.einsum("ca,cab,cb->c", arcs.centers, second, arcs.centers)
    assert first == pytest.approx(arcs.centers * np.sin(half) / half, rel=0, abs=1e-3)
    assert found == pytest.approx(along, rel=1e-3)
    mesh = MESHES[4]
    first, second = (np.einsum("c,c...->...", mesh.volumes, x) for x in moments(mesh))
    assert np.abs(first).max() < 1e-12
    assert second == pytest.approx(np.eye(3) * 4.0 * np.pi / 3.0, rel=1e-7, abs=1e-7)


# --- a hill falls in a linear potential: J = −e·θ moves it by a Möbius map


def fallen(level, reaction=0.0, **options):
    """The error of a hill at t = 1, and the solution."""
    mesh, top = MESHES[level], np.cos(2.0) * AXIS + np.sin(2.0) * TOP
    hill = lambda points: np.exp(-15.0 * ((points - top) ** 2).sum(axis=-1))
    potential = hkflow.External(
        " ".join(f"{-e:+.17g}*{x}" for e, x in zip(AXIS, "xyz", strict=True))
    )
    flow = hkflow.Flow(1.0, reaction)
    problem = hkflow.Problem(mesh, hkflow.Sum(potential, axes=3), flow, initial=hill(mesh.centers))
    s = hkflow.solve(problem, 1.0, tolerance=1e-6, **options)
    assert s.finished, s.status
    u = mesh.centers @ AXIS
    shrunk = np.cosh(1.0) - u * np.sinh(1.0)
    back = mesh.centers + (u * (np.cosh(1.0) - 1.0) - np.sinh(1.0))[:, None] * AXIS
    wanted = hill(back / shrunk[:, None]) * shrunk ** -(2.0 + reaction)
    return relative(mesh, np.exp(s.log_scale[-1]) * s.density[-1][0], wanted), s


@pytest.mark.parametrize("reaction", [0.0, 4.0])
def test_a_falling_hill_is_met_at_third_order_and_its_energy_falls(reaction):
    e, runs = zip(
        *(fallen(level, reaction, reconstruction="quadratic") for level in (3, 4, 5)), strict=True
    )
    assert e[-1] < 4e-3 and BAND[0] < order(e)[-1] < BAND[1], (e, order(e))
    records = runs[-1].records
    assert (np.diff(records["objective"]) <= 0.0).all() and runs[-1].density.min() >= 0.0
    if not reaction:
        assert np.ptp(records["mass"]) < 1e-13 * records["mass"][0]
    assert fallen(5, reaction, stepper="muscl-hancock")[0] > 4.0 * e[-1]


# --- nothing but positivity is asked of the density


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32), share=st.floats(0.0, 1.0), courant=st.floats(0.01, 1.0))
def test_any_density_in_any_potential_stays_positive_and_loses_energy(seed, share, courant):
    mesh, rng = MESHES[2], np.random.default_rng(seed)
    transport = quadratic.QuadraticTransport(stencil_of(mesh), mesh)
    potential = rng.standard_normal((1, mesh.n_cells))
    start = rng.exponential(size=(1, mesh.n_cells)) * (rng.random((1, mesh.n_cells)) < share)
    end = np.zeros_like(start)
    transport.follow(potential, 1.0)
    transport.move(courant / transport.outflow, start, end)
    mass, after = (x[0] @ mesh.volumes for x in (start, end))
    assert (
        end.min() >= 0.0
        and (end[start > 0.0] > 0.0).all()
        and after == pytest.approx(mass, rel=1e-13)
    )
    assert (potential * (end - start))[0] @ mesh.volumes <= 1e-13 * mass


# --- what it does not serve is refused


def test_where_it_does_not_serve_it_is_refused():
    smooth, relu = (
        hkflow.Objective(hkflow.FEATURES[name], hkflow.RISKS["square"], np.eye(3), np.ones(3))
        for name in ("squared-relu", "relu")
    )
    entropic = hkflow.Sum(hkflow.External("x"), axes=3, entropy=0.1)
    wanted = {"reconstruction": "quadratic"}
    for objective, options, message in (
        (relu, wanted, "is for smooth features, and the slope of 'relu' jumps"),
        (hkflow.Sum(relu, hkflow.External("x")), wanted, "the slope of 'relu' jumps"),
        (entropic, wanted, "With entropy, transport has no reconstruction"),
        (smooth, {"reconstruction": "cubic"}, "Unknown reconstruction 'cubic'"),
    ):
        problem = hkflow.Problem(MESHES[2], objective, hkflow.Flow(1.0, 0.0))
        with pytest.raises(ValueError, match=message):
            hkflow.solve(problem, 1.0, **options)
    with pytest.raises(ValueError, match=r"for the circle and S², got a mesh of S\^3"):
        quadratic.charts_of(hypersphere_of(840))
