"""Every kind of overview is drawn from a small run and has its axes, labels and data."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

import hkflow
from hkflow.plots import sphere
from hkflow.plots.overview import draw_overview, save_overview
from hkflow.plots.records import relative_to_largest

CASE = """
title = "{title}"
[data]
source = "teacher"
n = 8
dim = {dim}
[objective]
activation = "{activation}"
bias = {bias}
loss = "square"
[domain]
kind = "{domain}"
cells = {cells}
[flow]
kind = "wasserstein"
[time]
end = 0.1
"""


@pytest.mark.parametrize(
    "dim, bias, domain, cells, activation, labels",
    [
        (1, "true", "signed-sphere", 24, "relu", {"x₁", "h(x)", "angle of θ"}),
        (2, "true", "signed-sphere", 42, "relu", {"x₁", "x₂"}),
        (3, "false", "sphere", 42, "squared-relu", {"target y", "prediction h"}),
        (2, "false", "sphere", 24, "linear", {"x₁", "x₂", "angle of θ"}),
    ],
)
def test_overview_has_its_panels(tmp_path, dim, bias, domain, cells, activation, labels):
    path = tmp_path / "case.toml"
    path.write_text(CASE.format(title="A title", dim=dim, bias=bias, domain=domain, cells=cells, activation=activation))
    run = hkflow.run(path, output=tmp_path / "run")
    figure = Figure(figsize=(7.1, 5.0), layout="constrained")
    draw_overview(figure, run)
    texts = {text for ax in figure.axes for text in (ax.get_xlabel(), ax.get_ylabel())}
    assert labels | {"time t", "objective F", "total mass |ν|", "relative residual"} <= texts
    assert "A title" in figure._suptitle.get_text()
    if cells == 42:
        assert sum(len(ax.images) for ax in figure.axes) == len(run.signs)
    for suffix in (".png", ".pdf", ".svg"):
        assert save_overview(run, tmp_path / f"picture{suffix}").stat().st_size > 5000
    with pytest.raises(hkflow.RunFolderError, match="unknown picture format"):
        save_overview(run, tmp_path / "picture.bmp")


def test_projection_has_equal_areas_and_unit_vectors():
    points, inside = sphere.hammer_points(400)
    assert np.linalg.norm(points[inside], axis=1) == pytest.approx(1.0, rel=1e-12)
    for axis in range(3):
        assert points[inside][:, axis].mean() == pytest.approx(0.0, abs=1e-3)
        assert (points[inside][:, axis] ** 2).mean() == pytest.approx(1 / 3, abs=2e-3)


# --- atoms, signed densities, and masses beyond numbers

OTHERS = """
title = "A title"
[data]
source = "inline"
inputs = {inputs}
targets = [1, -1, 1]
[objective]
activation = "{activation}"
loss = "smooth-margin"
[domain]
kind = "{domain}"
{cells}
{initial}
[flow]
kind = "{flow}"
[time]
end = 2.0
saves = 3
"""
INPUTS = {
    1: "[[1.0], [-0.4], [0.7]]",
    2: "[[1.0, 0.3], [-0.4, -1.0], [0.7, 0.1]]",
    3: "[[1.0, 0.3, -0.2], [-0.4, -1.0, 0.5], [0.7, 0.1, 0.9]]",
}


@pytest.fixture
def other_run(tmp_path):
    """A function that runs a case of another kind."""

    def make(dim, activation, domain, cells, flow, initial="", **overrides):
        path, folder = tmp_path / "case.toml", tmp_path / "run"
        words = {"inputs": INPUTS[dim], "activation": activation, "domain": domain, "flow": flow, "initial": initial}
        path.write_text(OTHERS.format(cells=f"cells = {cells}" if cells else "", **words))
        return hkflow.run(path, output=folder, force=True, **overrides)

    return make


def drawn(run):
    """The overview of a run, with every warning an error."""
    figure = Figure(figsize=(7.1, 5.0), layout="constrained")
    draw_overview(figure, run)
    assert save_overview(run).stat().st_size > 5000
    return figure


def labels_of(figure):
    return {text for ax in figure.axes for text in (ax.get_xlabel(), ax.get_ylabel(), ax.get_title())}


@pytest.mark.parametrize("method", [{}, {"method.kind": "particles"}])
def test_atoms_are_bars_by_coordinate(other_run, method):
    run = other_run(3, "linear", "atoms", None, "diagonal", '[initial]\nkind = "scaled"\nscale = 0.1', **method)
    figure = drawn(run)
    bars = next(ax for ax in figure.axes if ax.get_xlabel() == "coordinate k")
    atoms = run.atoms_at(-1)
    (up, positive), (down, negative) = atoms.sheet(1.0), atoms.sheet(-1.0)
    wanted = np.concatenate([positive @ up, -(negative @ down)])
    assert [patch.get_height() for patch in bars.patches] == pytest.approx(wanted, rel=1e-12)
    assert bars.lines[0].get_ydata() == pytest.approx(wanted[:3] + wanted[3:], rel=1e-12)
    assert run.predict(run.inputs) == pytest.approx(run.inputs @ (wanted[:3] + wanted[3:]), rel=1e-12)
    assert run.mass == pytest.approx([atoms.mass for atoms in map(run.atoms_at, range(3))], rel=1e-12)


def stretched(run, by):
    """The same run with a mass e^by times as large at the last save, which only log_scale and log weights can hold."""
    last = run.state_at(len(run.time) - 1)
    changed = last | {key: last[key] + by for key in ("log_weights", "log_scale") if key in last}
    run._states[-1] = lambda: changed
    for name in ("log_mass", "predictions"):
        run.__dict__.pop(name, None)  # what was computed and kept
    run.log_scale = run.log_scale + by * (np.arange(len(run.time)) == len(run.time) - 1)
    run.records["log_scale"] = run.records["log_scale"] + by * (run.records["time"] > 1.0)
    run.records["log_mass"] = run.records["log_mass"] + by * (run.records["time"] > 1.0)
    return run


@pytest.mark.parametrize("by", [100.0, 2000.0, 1e8, -2000.0])
@pytest.mark.parametrize(
    "dim, domain, cells, method",
    [
        (2, "signed-sphere", 24, {}),
        (3, "signed-sphere", 42, {}),
        (2, "signed-sphere", None, {"method.kind": "particles", "method.particles": 40}),
        (3, "signed-sphere", None, {"method.kind": "particles", "method.particles": 40}),
        (3, "atoms", None, {}),
    ],
)
def test_masses_beyond_numbers_are_drawn_and_said(other_run, by, dim, domain, cells, method):
    flow, activation = ("hellinger", "linear") if domain == "atoms" else ("hellinger-kantorovich", "relu")
    run = other_run(dim, activation, domain, cells, flow, **method)
    log_mass, wanted = run.log_mass[-1], run.atoms_at(-1)
    normalised = run.predict(run.inputs, normalised=True)
    assert normalised * np.exp(log_mass) == pytest.approx(run.predictions[-1], rel=1e-9)
    run = stretched(run, by)
    assert run.log_mass == pytest.approx([*run.log_mass[:-1], log_mass + by], rel=1e-14)
    assert run.log_mass_at(-1) == pytest.approx(log_mass + by, rel=1e-12)
    atoms = run.atoms_at(-1, normalised=True)
    assert atoms.mass == pytest.approx(1.0, rel=1e-12)
    assert atoms.weights == pytest.approx(wanted.weights / wanted.mass, rel=1e-6)
    assert run.predict(run.inputs, normalised=True) == pytest.approx(normalised, rel=1e-6)
    if abs(by) > 600.0:
        with pytest.raises(ValueError, match=r"The mass at save -1 is e\^.*take atoms_at\(-1, normalised=True\) and log_mass"):
            run.atoms_at(-1)
    texts = labels_of(drawn(run))
    assert {"objective per mass F/|ν|", "log mass log |ν|", "relative residual"} <= texts
    assert any("ν/|ν|" in text or "h/|ν|" in text for text in texts) == (abs(by) > 600.0)


@pytest.mark.parametrize("dim, cells", [(2, 24), (3, 42)])
def test_signed_densities_are_drawn(other_run, dim, cells):
    run = other_run(dim, "relu", "sphere", cells, "hellinger", **{"time.end": 0.1})
    density = np.sin(np.arange(cells))[None]
    changed = run.state_at(2) | {"density": density}
    run._states[2] = lambda: changed
    run.problem = replace(run.problem, flow=hkflow.Flow(0.0, 1.0, depth=1.0))
    assert run.mass[2] == pytest.approx(np.abs(density[0]) @ run.mesh.volumes, rel=1e-12)
    figure = drawn(run)
    if dim == 2:
        ax = next(ax for ax in figure.axes if ax.get_xlabel() == "angle of θ")
        assert ax.get_ylim()[0] < density.min() and ax.lines[0].get_ydata().min() == density.min()
    else:
        image = next(image for ax in figure.axes for image in ax.images)
        assert image.norm.vmin == -np.abs(density).max() == -image.norm.vmax
        assert np.nanmin(image.get_array()) == pytest.approx(density.min())


def test_residuals_are_relative_in_whatever_units(rng):
    values, sizes, scale = rng.normal(size=50), rng.normal(size=50), np.repeat([0.0, 3.0, 700.0, 1e6, 1e6 + 1.0], 10)
    whole = np.abs(values) / np.maximum.accumulate(np.abs(sizes))
    assert relative_to_largest(values, sizes, np.zeros(50)) == pytest.approx(whole, rel=1e-12)
    got = relative_to_largest(values * np.exp(-np.minimum(scale, 3.0)), sizes * np.exp(-np.minimum(scale, 3.0)), scale)
    assert got[:20] == pytest.approx(whole[:20], rel=1e-12) and np.isfinite(got).all()
