"""Meshes of a user's own: what is none is refused, and what is known of hkflow's meshes alone is
not said of others."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial import ConvexHull

import hkflow
from hkflow.geometry.voronoi import lloyd, voronoi_mesh

FLOW = hkflow.Flow(1.0, 4.0)
EXACT = hkflow.MomentFlow(np.array([0.6, 0.8]), 0.5, FLOW)
MASS = 1.17636424  # at t = 2


def stretched(cells, by=0.5, start=0.0):
    """A circle mesh whose cells are wider on one side than on the other."""
    u = np.linspace(0.0, 2.0 * np.pi, cells + 1)
    edges = u + by * np.sin(u) + start
    middles, volumes = 0.5 * (edges[:-1] + edges[1:]), np.diff(edges)
    index = np.arange(cells)

    def point(angle):
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)

    faces = np.sort(np.stack([index, (index + 1) % cells], axis=1), axis=1)
    corners = point(edges[1:])
    return hkflow.Mesh(
        "circle", point(middles), volumes, faces, np.ones(cells),
        0.5 * (volumes + np.roll(volumes, -1)), corners, corners, index[:, None],
    )  # fmt: skip


def problem_on(mesh):
    return hkflow.Problem(mesh, EXACT.objective(), FLOW)


@pytest.mark.parametrize(
    "arrays, why",
    [
        ({"volumes": np.full(64, 4.0 * np.pi / 64)}, "'volumes' sum to 12.56.*, wanted 6.28"),
        ({"centers": 2.0 * hkflow.circle_mesh(64).centers}, "'centers' are no unit vectors"),
        ({"faces": hkflow.circle_mesh(64).faces + 5}, "'faces' points at 5 to 68"),
        ({"faces": hkflow.circle_mesh(64).faces[:, ::-1]}, "between a cell and a later one"),
        ({"volumes": np.ones(63)}, r"'volumes' has the shape \(63,\), wanted \(cell 64\)"),
        ({"face_areas": [1.0] * 64}, "'face_areas' must be a NumPy array of float64, got list"),
        ({"face_areas": np.ones(64, ">f8")}, "'face_areas' must be .* of float64, got >f8"),
        ({"faces": hkflow.circle_mesh(64).faces.astype(np.uint32)}, "int32 or int64, got uint32"),
        ({"face_distances": np.full(64, -0.1)}, "are not positive"),
        ({"vertices": np.full((64, 2), np.nan)}, "'vertices' holds numbers that are not finite"),
    ],
)
def test_what_is_no_mesh_is_refused(arrays, why):
    """Runs gave other numbers, without a word, or ended in a traceback."""
    with pytest.raises(ValueError, match=f"no mesh of a sphere: .*{why}"):
        problem_on(replace(hkflow.circle_mesh(64), **arrays))


def test_fixed_features_may_have_volumes(tmp_path):
    """Points without faces, by which an integral over the circle is a sum, were refused for a
    while; a run folder holds those of volume one alone."""
    mesh, none = hkflow.circle_mesh(64), np.zeros((0, 2))
    points = replace(
        mesh, name="atoms", faces=none.astype(int), face_areas=np.zeros(0), face_midpoints=none,
        face_distances=np.zeros(0), face_vertices=none[:, :1].astype(int),
    )  # fmt: skip
    objective, flow = EXACT.objective(), hkflow.Flow(0.0, 4.0)
    problems = [hkflow.Problem(one, objective, flow) for one in (mesh, points)]
    found = [hkflow.solve(problem, 0.5).records["mass"][-1] for problem in problems]
    assert found[0] == pytest.approx(found[1], rel=1e-12)
    with pytest.raises(hkflow.CaseError, match="cannot hold the mesh: 'volumes' sum to 6.28"):
        hkflow.run(problems[1], tmp_path / "run", end=0.5)


@pytest.mark.parametrize("mesh", [stretched(256), stretched(256, 0.0, 0.01)])
def test_errors_are_told_of_hkflows_meshes_alone(mesh, tmp_path):
    """Bars came from meshes of another kind: the true error was beyond them. So did L1."""
    run = hkflow.run(problem_on(mesh), tmp_path / "own", end=2.0)
    assert run.records["mass"][-1] == pytest.approx(MASS, rel=5e-6)
    assert "its mesh is not one of hkflow's" in str(hkflow.error_bars(run))
    even = hkflow.run(problem_on(hkflow.circle_mesh(256)), tmp_path / "even", end=2.0)
    assert "log_mass" in hkflow.error_bars(even).bars
    found = hkflow.compare(run, even)
    assert np.isnan(found.density).all() and "Without L1 of the densities: " in str(found)
    assert hkflow.compare(even, even).density[0] == 0.0
    with pytest.raises(ArithmeticError, match="circle meshes as hkflow.circle_mesh makes them"):
        run.density_on(even.mesh)
    renamed = replace(mesh, name="own")
    with pytest.raises(
        hkflow.CaseError, match="no mesh is called 'own' in R\\^2, where .*'circle'"
    ):
        hkflow.run(problem_on(renamed), tmp_path / "refused", end=2.0)


def test_a_start_from_another_mesh_is_refused(tmp_path, monkeypatch):
    """It had another mass, then it ended in a traceback."""
    monkeypatch.chdir(tmp_path)
    objective = hkflow.Objective(
        hkflow.FEATURES["relu"], hkflow.RISKS["square"], np.eye(2), [1.0, -1.0]
    )
    run = hkflow.run(hkflow.Problem(stretched(64), objective, FLOW), "own", end=0.1)
    case = {
        "data": {"source": "inline", "inputs": [[1.0, 0.0], [0.0, 1.0]], "targets": [1.0, -1.0]},
        "objective": {"activation": "relu", "loss": "square", "bias": False},
        "domain": {"kind": "sphere", "cells": 64},
        "flow": {"transport": 1.0, "reaction": 4.0},
        "initial": {"kind": "run", "run": str(tmp_path / "own")},
        "time": {"end": 0.1},
    }
    with pytest.raises(hkflow.CaseError, match="Start by particles .* on its own mesh"):
        hkflow.run(case, "next", quiet=True)
    again = hkflow.solve(hkflow.restarted(run), 0.1).records["mass"]
    assert again[0] == pytest.approx(run.records["mass"][-1], rel=1e-12)


def fibonacci(cells):
    """Voronoi cells of a spiral, made rounder."""
    z, angle = 1.0 - (2.0 * np.arange(cells) + 1.0) / cells, 2.4 * np.arange(cells)
    points = np.column_stack(
        [np.cos(angle), np.sin(angle), np.sqrt(1.0 / (1.0 - z * z) - 1.0) * np.sign(z)]
    )
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    for iterations in (1, 1, 1, 1, 0):
        triangles = ConvexHull(points).simplices.astype(np.int64)
        a, b, c = (points[corner] for corner in triangles.T)
        inwards = np.einsum("ij,ij->i", np.cross(b - a, c - a), a) < 0.0
        triangles[inwards] = triangles[inwards][:, ::-1]
        points = lloyd(points, triangles, iterations)
    return voronoi_mesh("geodesic", points, triangles)


def test_a_mesh_of_a_spiral_on_the_sphere(tmp_path):
    """`hkflow compare` of such runs ended in a traceback, and they were said to be too small."""
    exact = hkflow.MomentFlow(np.array([0.48, 0.6, 0.64]), 0.5, FLOW)
    runs = []
    for name, mesh in (("own", fibonacci(400)), ("ours", hkflow.geodesic_mesh(4))):
        problem = hkflow.Problem(mesh, exact.objective(), FLOW)
        runs.append(hkflow.run(problem, tmp_path / name, end=2.0))
        assert runs[-1].records["mass"][-1] == pytest.approx(1.20925047, rel=2e-3)
    assert "its mesh is not one of hkflow's" in str(hkflow.error_bars(runs[0]))
    found = hkflow.compare(*runs)
    assert "Without L1 of the densities: " in str(found)
    assert np.isnan(found.density).all() and found.distances["GHK"].shape == (2, 2)
