"""Every picture is drawn from small runs, has its axes, labels and data, and can be read; films are
whole or not there."""

import runpy
from dataclasses import replace

import numpy as np
import pytest
from conftest import ROOT
from legible import SKETCHED, drawn_texts, legible, sketches
from matplotlib.animation import FFMpegWriter
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from PIL import Image
from scipy.spatial import cKDTree

import hkflow
from hkflow import plots
from hkflow.case.datasets import teacher_of
from hkflow.geometry import geodesic_mesh
from hkflow.plots import available, circle, sphere
from hkflow.plots.overview import draw_overview, save_overview
from hkflow.plots.records import relative_to_largest
from hkflow.plots.tracks import Tracks, _on_map
from hkflow.solving.result import Result

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
    path.write_text(
        CASE.format(
            title="A title", dim=dim, bias=bias, domain=domain, cells=cells, activation=activation
        )
    )
    run = hkflow.run(path, output=tmp_path / "run")
    figure = Figure(figsize=(plots.PAGE, 5.0), layout="constrained")
    draw_overview(figure, run)
    texts = {text for ax in figure.axes for text in (ax.get_xlabel(), ax.get_ylabel())}
    assert labels | {"time t", "objective F", "total mass |ν|", "relative residual"} <= texts
    assert "A title" in figure._suptitle.get_text()
    if cells == 42:
        drawn = [one for ax in figure.axes for one in ax.collections]
        cells_of = [one for one in drawn if one.get_label() != "error bar"]
        assert sum(isinstance(one, PolyCollection) for one in cells_of) == len(run.signs)
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
        words = {
            "inputs": INPUTS[dim],
            "activation": activation,
            "domain": domain,
            "flow": flow,
            "initial": initial,
        }
        path.write_text(OTHERS.format(cells=f"cells = {cells}" if cells else "", **words))
        return hkflow.run(path, output=folder, force=True, **overrides)

    return make


def drawn(run):
    """The overview of a run, with every warning an error."""
    figure = Figure(figsize=(plots.PAGE, 5.0), layout="constrained")
    draw_overview(figure, run)
    with drawn_texts():  # ticks are
        FigureCanvasAgg(figure).draw()
    return figure


def labels_of(figure):
    return {
        text for ax in figure.axes for text in (ax.get_xlabel(), ax.get_ylabel(), ax.get_title())
    }


@pytest.mark.parametrize("method", [{}, {"method.kind": "particles"}])
def test_atoms_are_bars_by_coordinate(other_run, method):
    run = other_run(
        3,
        "linear",
        "fixed-features",
        None,
        "diagonal",
        '[initial]\nkind = "scaled"\nscale = 0.1',
        **method,
    )
    figure = drawn(run)
    bars = next(ax for ax in figure.axes if ax.get_xlabel() == "coordinate k")
    atoms = run.atoms_at(-1)
    (up, positive), (down, negative) = atoms.sheet(1.0), atoms.sheet(-1.0)
    wanted = np.concatenate([positive @ up, -(negative @ down)])
    assert [patch.get_height() for patch in bars.patches] == pytest.approx(wanted, rel=1e-12)
    assert bars.lines[0].get_ydata() == pytest.approx(wanted[:3] + wanted[3:], rel=1e-12)
    assert run.predict(run.inputs) == pytest.approx(
        run.inputs @ (wanted[:3] + wanted[3:]), rel=1e-12
    )
    assert run.mass == pytest.approx(
        [atoms.mass for atoms in map(run.atoms_at, range(3))], rel=1e-12
    )


def stretched(run, by):
    """The same run with a mass e^by times as large at the last save, which only log_scale and log
    weights can hold."""
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
        (3, "fixed-features", None, {}),
    ],
)
def test_masses_beyond_numbers_are_drawn_and_said(other_run, by, dim, domain, cells, method):
    flow, activation = (
        ("hellinger", "linear") if domain == "fixed-features" else ("hellinger-kantorovich", "relu")
    )
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
        with pytest.raises(
            ValueError,
            match=r"The mass at save -1 is e\^.*take atoms_at\(-1, normalised=True\) and log_mass",
        ):
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
        image = next(
            one for ax in figure.axes for one in ax.collections if isinstance(one, PolyCollection)
        )
        assert image.norm.vmin == -np.abs(density).max() == -image.norm.vmax
        assert np.nanmin(image.get_array()) == pytest.approx(density.min())
        legible(plots.draw("density", run))


def test_residuals_are_relative_in_whatever_units(rng):
    values, sizes, scale = (
        rng.normal(size=50),
        rng.normal(size=50),
        np.repeat([0.0, 3.0, 700.0, 1e6, 1e6 + 1.0], 10),
    )
    whole = np.abs(values) / np.maximum.accumulate(np.abs(sizes))
    assert relative_to_largest(values, sizes, np.zeros(50)) == pytest.approx(whole, rel=1e-12)
    got = relative_to_largest(
        values * np.exp(-np.minimum(scale, 3.0)), sizes * np.exp(-np.minimum(scale, 3.0)), scale
    )
    assert got[:20] == pytest.approx(whole[:20], rel=1e-12) and np.isfinite(got).all()


# --- pictures by name


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A function that returns one small run of each kind, made when it is first asked for."""
    folder, made = tmp_path_factory.mktemp("runs"), {}

    def get(name):
        if name not in made:
            text, overrides = SMALL[name]
            path = folder / f"{name}.toml"
            path.write_text(text)
            made[name] = hkflow.run(path, output=folder / name, **overrides)
            if name == "heavy":
                made[name] = stretched(made[name], 1000.0)
        return made[name]

    return get


def teacher(dim, bias, domain, cells):
    return CASE.format(
        title="A title", dim=dim, bias=bias, domain=domain, cells=cells, activation="relu"
    )


def classes(dim, domain, cells):
    words = {
        "inputs": INPUTS[dim],
        "activation": "relu",
        "domain": domain,
        "flow": "hellinger-kantorovich",
        "initial": "",
    }
    return OTHERS.format(cells=f"cells = {cells}", **words)


POINTS = {"method.kind": "particles", "method.particles": 12, "method.points": "random"}
SMALL = {
    "circle, one sign, 2 saves": (teacher(2, "false", "sphere", 24), {}),
    "circle, 40 saves": (
        teacher(2, "false", "signed-sphere", 24),
        {"time.end": 20.0, "time.saves": 40},
    ),
    "sphere, one sign": (teacher(2, "true", "sphere", 42), {}),
    "sphere, classes": (classes(3, "signed-sphere", 42), {}),
    "circle, classes": (classes(2, "signed-sphere", 24), {}),
    "one input": (classes(1, "signed-sphere", 24), {"objective.bias": True}),
    "heavy": (classes(2, "signed-sphere", 24), {}),
    "particles on the circle": (
        teacher(2, "false", "signed-sphere", 24),
        POINTS | {"time.end": 5.0, "time.saves": 40},
    ),
    "particles on S²": (
        teacher(2, "true", "signed-sphere", 42),
        POINTS | {"time.end": 5.0, "time.saves": 5},
    ),
    "one sign carries mass": (classes(2, "signed-sphere", 24), POINTS | {"initial.signs": [1]}),
    "network": (
        teacher(2, "false", "signed-sphere", 24).replace('[flow]\nkind = "wasserstein"\n', ""),
        {"method.kind": "network", "method.units": 6, "time.saves": 2},
    ),
    "growing": (
        teacher(2, "false", "signed-sphere", 24),
        POINTS
        | {
            "flow.noise": 0.1,
            "method.noise_points": 4,
            "time.end": 0.5,
            "time.saves": [0.0, 0.01, 0.5],
        },
    ),
    "characteristics": (
        classes(1, "signed-sphere", 24),
        {"objective.bias": True, "method.kind": "characteristics", "method.points": "mesh"},
    ),
    "particles on S³": (teacher(4, "false", "sphere", 24), POINTS),
    "grid on S³": (teacher(3, "true", "signed-sphere", 120), {}),
    "one sign on S³": (teacher(4, "false", "sphere", 120), {}),
    "atoms": (
        OTHERS.format(
            inputs=INPUTS[3],
            activation="linear",
            domain="fixed-features",
            flow="diagonal",
            initial="",
            cells="",
        ),
        {
            "initial.kind": "scaled",
            "initial.scale": 0.1,
            "flow.time_variable": "margin",
            "method.kind": "particles",
        },
    ),
}


@pytest.mark.parametrize(
    "name", [name for name in SMALL if name not in ("circle, classes", "growing")]
)
def test_every_picture_of_every_run_is_legible_at_both_widths(runs, name):
    run = runs(name)
    for kind in available(run):
        # an overview is the same at both
        for wide, save in ((True, 0),) if kind == "overview" else ((False, -1), (True, 0)):
            figure = plots.draw(kind, run, save=save, wide=wide)
            texts = legible(figure)
            assert figure.get_figwidth() == pytest.approx(plots.PAGE if wide else plots.COLUMN)
            axes = [ax for ax in figure.axes if ax.axison]
            assert all(ax.has_data() for ax in figure.axes if ax.get_label() != "<colorbar>")
            assert kind in MAPS or all(
                ax.get_ylabel() or ax.get_xlabel() or ax.get_label() == "<colorbar>" for ax in axes
            )
            if (
                name == "heavy"
                and kind in ("density", "polar", "spacetime", "decision", "predictions")
                and save
            ):
                assert any("|ν|" in text or "max |h|" in text for text in texts), kind


MAPS = ("density", "particles", "overview", "polar", "paths", "slices")


def test_the_reader_of_texts_sees_what_overlaps_and_what_is_cut_off(runs):
    figure = plots.draw("records", runs("sphere, classes"))
    legible(figure)
    label = figure.axes[0].yaxis.label.get_window_extent()
    x, y = figure.transFigure.inverted().transform([label.x0, label.y0])
    added = figure.text(x, y, "over it")
    with pytest.raises(AssertionError, match="overlap"):
        legible(figure)
    added.set(position=(0.99, 0.999), text="beyond the edge")
    with pytest.raises(AssertionError, match="'beyond the edge' is cut off"):
        legible(figure)


def test_sketches_are_as_they_are_and_the_reader_of_texts_finds_their_texts_room(
    runs, tmp_path, monkeypatch
):
    run = runs("sphere, classes")
    with sketches():
        figure = plots.draw("records", run)
        before = [ax.get_position().bounds for ax in figure.axes]
        with drawn_texts() as texts:
            FigureCanvasAgg(figure).draw()
        ticks = [tick.label1 for ax in figure.axes for tick in ax.xaxis.get_major_ticks()]
        assert set(ticks) & set(texts)
        assert [ax.get_position().bounds for ax in figure.axes] == before
        with monkeypatch.context() as patch, pytest.raises(AssertionError):
            patch.setattr("legible.LAYOUT", lambda *_: None)
            legible(figure)
        legible(figure)
        assert [ax.get_position().bounds for ax in figure.axes] != before
        few = plots.write("records", run, tmp_path / "few.png")
    with Image.open(few) as picture:
        assert picture.width == pytest.approx(SKETCHED * plots.COLUMN, abs=1)


def test_pictures_that_do_not_fit_are_refused_with_those_that_do(runs, tmp_path):
    grid, points = runs("circle, 40 saves"), runs("particles on S²")
    with pytest.raises(
        hkflow.CaseError,
        match=r"Unknown picture 'densty'. Did you mean 'density'\? Choose from: decision, density",
    ):
        plots.draw("densty", grid)
    with pytest.raises(
        hkflow.CaseError,
        match="'paths' shows .*, but this run is a grid, .*Choose from: decision, density, over",
    ):
        plots.draw("paths", grid)
    with pytest.raises(
        hkflow.CaseError,
        match="'spacetime' shows .*, but this run lives on S.2. Choose from: .*particles, paths",
    ):
        plots.write("spacetime", points)
    with pytest.raises(hkflow.CaseError, match="lives on atoms"):
        plots.draw("polar", runs("atoms"))
    with pytest.raises(hkflow.CaseError, match="'decision' .* has 4 inputs"):
        plots.draw("decision", runs("particles on S³"))
    with pytest.raises(hkflow.CaseError, match="'convergence' .* this is a run"):
        plots.draw("convergence", grid)
    with pytest.raises(hkflow.CaseError, match="there is no save 40; its saves are 0 to 39"):
        plots.draw("density", grid, save=40)
    with pytest.raises(
        hkflow.CaseError,
        match="'density' has no room for another run underneath. Choose from: particles",
    ):
        plots.draw("density", grid, under=grid)
    with pytest.raises(hkflow.CaseError, match="wanted a grid run on the same sphere"):
        plots.draw("particles", points, under=grid)
    with pytest.raises(
        hkflow.CaseError,
        match="'records' .* the same at every save. Choose from: decision, density, polar, pred",
    ):
        plots.animate("records", grid, tmp_path / "film.gif")
    assert not list(tmp_path.iterdir())


def test_pictures_show_the_numbers_of_the_run(runs):
    run = runs("circle, 40 saves")
    ax = plots.draw("density", run, save=20).axes[0]
    angle = np.arctan2(run.mesh.centers[:, 1], run.mesh.centers[:, 0])
    shown = run.cell_density_at(20)[0][np.argsort(angle)]
    assert ax.lines[0].get_ydata() == pytest.approx(shown, rel=1e-12)  # below a frame, if need be
    columns = plots.draw("spacetime", run).axes[1].collections[0].get_array()
    order, largest = np.argsort(angle), run.density.max()
    wanted = np.maximum(run.density[:, 1, order], max(largest * 1e-4, run.density.min()))
    assert np.ma.getdata(columns).ravel() == pytest.approx(wanted.T.ravel(), rel=1e-12)
    lines = plots.draw("records", run).axes[0].lines[0]
    assert lines.get_ydata().tolist() == run.records["objective"].tolist()
    scatter = plots.draw("predictions", run, save=3).axes[0].lines[-1]
    assert scatter.get_xdata().tolist() == run.targets.tolist()
    assert scatter.get_ydata() == pytest.approx(run.predictions[3], rel=1e-12)
    data = plots.draw("decision", run).axes[0].collections[-1].get_offsets()
    assert np.asarray(data) == pytest.approx(run.inputs, rel=1e-12)


def test_error_bars_are_drawn_around_the_curve_between_saves_too():
    """They went straight from save to save, beside a curve that is bent."""
    energy = hkflow.Sum(hkflow.External("-x"), axes=2)
    run = hkflow.solve(hkflow.Problem(hkflow.circle_mesh(64), energy, hkflow.Flow(1.0)), 2.0)
    run.errors = hkflow.error_bars(run)
    ax = plots.draw("records", run).axes[0]
    (band,) = [one for one in ax.collections if one.get_label() == "error bar"]
    time, objective = run.records["time"], run.records["objective"]
    half = np.interp(time, run.time, run.errors["objective"])
    drawn = band.get_paths()[0].vertices
    assert run.axis_names == ["x", "y"]  # as its formula has them
    for edge in (objective - half, objective + half):
        k = len(time) // 2
        assert np.abs(drawn - [time[k], edge[k]]).max(axis=1).min() < 1e-12


def test_heights_around_the_circle_are_densities(runs):
    run = runs("circle, one sign, 2 saves")
    ax = plots.draw("polar", run).axes[0]
    radius = np.hypot(*ax.lines[0].get_data())
    density = run.cell_density_at(1)[0]
    assert circle.HEIGHT * density.min() / density.max() == pytest.approx(
        radius.min() - 1.0 - circle.GAP, abs=1e-12
    )
    assert radius.max() == pytest.approx(1.0 + circle.GAP + circle.HEIGHT, rel=1e-12)


def test_paths_ask_for_no_log_masses_but_those_at_their_ends(runs, monkeypatch):
    """Of very many saves each takes reading a state."""
    run, asked = hkflow.load(runs("network").path), []
    given = Result.log_mass_at
    monkeypatch.setattr(
        Result, "log_mass_at", lambda run, save: (asked.append(save), given(run, save))[1]
    )
    plots.draw("paths", run, save=0)
    assert set(asked) == {0} and len(run.time) == 2
    asked.clear()
    plots.draw("paths", run, shared=range(len(run.time)))  # of a film: all, once
    plots.draw("paths", run, shared=range(len(run.time)))
    assert asked == [0, 1]


def test_paths_are_those_of_the_units_with_the_teacher(runs):
    run = runs("network")
    ax = plots.draw("paths", run).axes[0]
    paths = [
        path
        for one in ax.collections
        if hasattr(one, "get_segments")
        for path in one.get_segments()
    ]
    for save in (0, 1):
        units = run.state_at(save)
        sizes = np.linalg.norm(units["hidden"], axis=1)
        weight = np.abs(units["output"]) * sizes
        wanted = np.tanh(weight)[:, None] * units["hidden"] / sizes[:, None]
        got = np.array([path[save] for path in paths])
        assert got[np.lexsort(got.T)] == pytest.approx(wanted[np.lexsort(wanted.T)], rel=1e-9)
    directions, outputs = teacher_of(run.case)
    inputs = run.inputs
    assert run.targets == pytest.approx(np.maximum(inputs @ directions.T, 0.0) @ outputs, rel=1e-12)
    rays = [line.get_xydata()[1] for line in ax.lines if len(line.get_xdata()) == 2]
    assert np.array(rays) == pytest.approx(directions, rel=1e-12)


def test_trails_follow_particles_from_their_birth_and_break_at_the_edge(runs):
    run = runs("growing")
    assert len(run.atoms_at(-1)) > len(run.atoms_at(0))
    tracks = Tracks(run, len(run.time) - 1)
    born = np.isfinite(tracks.weights).sum(axis=0)
    assert born.min() == 1 < born.max() == 3 and np.nansum(tracks.weights, axis=1) == pytest.approx(
        1.0
    )
    around = np.linspace(-3.0, 3.6, 12)  # past the longitude where the map is cut
    parts = _on_map(np.column_stack([np.cos(around), np.sin(around), np.full(12, 0.3)]))
    assert len(parts) == 2 and max(np.abs(np.diff(part[:, 0])).max() for part in parts) < 0.2
    ax = plots.draw(
        "particles", runs("particles on the circle"), under=runs("circle, 40 saves")
    ).axes[0]
    assert len(ax.collections) == 3 and ax.collections[0].get_array().size == 24 * 40


@pytest.mark.parametrize("level", [0, 1, 3])
def test_polygons_have_the_areas_of_their_cells(level):
    """The map keeps areas, so that polygons cut wrongly, or not at all, show."""
    mesh = geodesic_mesh(level)
    polygons, cell = sphere.cell_polygons(mesh)
    assert len(polygons) > mesh.n_cells  # some are cut
    x, y = np.concatenate(polygons).T
    after = np.concatenate([np.roll(polygon, -1, axis=0) for polygon in polygons])
    owner = np.repeat(cell, [len(polygon) for polygon in polygons])
    areas = 0.5 * np.bincount(owner, x * after[:, 1] - y * after[:, 0])
    assert areas == pytest.approx(mesh.volumes, rel=6e-3)


def test_pixels_show_the_cells_that_they_lie_in_and_are_as_many_as_the_picture_has():
    """So many along a map that is as wide as the figure."""
    mesh = hkflow.Domain(2).mesh(5762)
    figure = Figure(figsize=(2.0, 1.0))
    axes, density = np.array([figure.subplots()]), np.arange(1.0, mesh.n_cells + 1.0)
    shown = sphere.draw_density(axes, mesh, [density], [""], "xyz").get_array()
    assert shown.shape == (300, 600)
    points, inside = sphere.hammer_points(600)
    owners = cKDTree(mesh.centers).query(points[inside])[1]
    assert np.array_equal(shown[inside].filled(), density[owners])


def test_pictures_go_into_figures_of_ones_own(runs, tmp_path):
    run = runs("sphere, classes")
    figure = Figure(figsize=(7.0, 3.0), layout="constrained")
    left, right = figure.subplots(1, 2)
    plots.draw("density", run, left)
    plots.draw("predictions", run.path, right, save=0)
    assert left not in figure.axes and len(figure.axes) == 4
    for path in (plots.write("density", run), plots.write("density", run, save=1, wide=True)):
        assert path.parent == run.path and path.stat().st_size > 5000
    assert (run.path / "density-1.png").exists() and hkflow.plots.draw is plots.draw
    with pytest.raises(hkflow.RunFolderError, match="unknown picture format"):
        plots.write("density", run, tmp_path / "a.bmp")


@pytest.mark.parametrize("dim", [1, 2])
def test_rays_of_a_teacher_lie_where_joint_units_gather(dim, tmp_path):
    case = {
        "data": {"source": "teacher", "n": 3, "dim": dim, "units": 3},
        "objective": {"activation": "joint-relu", "bias": False, "loss": "square"},
        "domain": {"kind": "sphere"},
        "method": {"kind": "network", "units": 8},
        "time": {"end": 0.1},
        "error": {"companions": "none"},
    }
    run = hkflow.run(case, output=tmp_path / "run")
    directions, outputs = run.teacher_network
    wanted = np.column_stack([directions, np.sign(outputs)]) / np.sqrt(2.0)
    for ax, k in zip(plots.draw("paths", run).axes, range(1, dim + 1), strict=True):
        rays = [r for r in (line.get_xydata() for line in ax.lines if line.is_dashed()) if len(r)]
        assert len(rays) == 3
        for ray, unit in zip(rays, wanted, strict=True):
            np.testing.assert_allclose(ray, [[0.0, 0.0], unit[[0, k]]], atol=1e-12)


# --- films


def test_slow_films_show_their_last_picture_and_endless_ones_are_refused(runs, tmp_path):
    run = runs("sphere, classes")
    with Image.open(plots.animate("density", run, tmp_path / "slow.gif", fps=0.1)) as film:
        assert film.n_frames == len(run.time)
    for fps in (0.0, np.inf, np.nan, 1e6):
        with pytest.raises(hkflow.CaseError, match="0.1 to 100 pictures a second"):
            plots.animate("density", run, tmp_path / "fast.gif", fps=fps)


def test_films_have_a_frame_for_each_save_with_the_same_axes(runs, tmp_path):
    run, seen = runs("sphere, classes"), []
    path = plots.animate(
        "density",
        run,
        tmp_path / "film.gif",
        fps=2,
        watch=lambda done, count: seen.append((done, count)),
    )
    with Image.open(path) as film:
        assert film.n_frames >= len(run.time) and film.size[0] == pytest.approx(
            200 * plots.COLUMN, abs=2
        )
    assert seen == [(1, 3), (2, 3), (3, 3)] and list(tmp_path.iterdir()) == [path]
    saves = range(3)
    norms = [
        plots.draw("density", run, save=k, shared=saves).axes[0].collections[0].norm for k in saves
    ]
    assert len({(norm.vmin, norm.vmax) for norm in norms}) == 1
    for name in ("circle, 40 saves", "one input", "atoms", "particles on the circle"):
        other = runs(name)
        for kind in available(other, moving=True):
            frames = [
                plots.draw(kind, other, save=k, shared=range(len(other.time)))
                for k in (0, len(other.time) - 1)
            ]
            limits = [
                [ax.get_xlim() + ax.get_ylim() for ax in frame.axes if ax.axison]
                for frame in frames
            ]
            assert kind == "predictions" or limits[0] == limits[1], (name, kind)


def test_films_are_whole_or_not_there(runs, tmp_path, monkeypatch):
    run = runs("circle, one sign, 2 saves")
    film = plots.animate("polar", run, tmp_path / "film.mp4")
    assert film.read_bytes()[4:8] == b"ftyp"
    film.unlink()
    with pytest.raises(
        hkflow.RunFolderError, match="unknown film format '.avi'. Choose from: .mp4, .gif"
    ):
        plots.animate("polar", run, tmp_path / "film.avi")
    for suffix in (".gif", ".mp4"):
        with pytest.raises(hkflow.RunFolderError, match="the film cannot be written .No such file"):
            plots.animate("polar", run, tmp_path / "none" / f"film{suffix}")
    with monkeypatch.context() as patch:
        patch.setattr(FFMpegWriter, "output_args", ["/dev/full"], raising=False)
        with pytest.raises(hkflow.RunFolderError, match=r"ffmpeg\S* ended with code"):
            plots.animate("polar", run, tmp_path / "film.mp4")

    def stop(done, count):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        plots.animate("polar", run, tmp_path / "film.mp4", watch=stop)
    monkeypatch.setattr("hkflow.plots.animation.ffmpeg", lambda: None)
    with pytest.raises(
        hkflow.CaseError,
        match=r"MP4 needs ffmpeg: install it, or pip install 'hkflow\[movie\]', or choose a .gif",
    ):
        plots.animate("polar", run, tmp_path / "film.mp4")
    assert list(tmp_path.iterdir()) == []


# --- scripts to copy


@pytest.mark.parametrize(
    "script, words",
    [
        ("density", ["sphere, classes", "picture.pdf"]),
        ("spacetime", ["circle, 40 saves", "particles on the circle", "picture.pdf"]),
        ("paths", ["picture.pdf", "network", "particles on the circle"]),
        ("decision", ["circle, 40 saves", "picture.pdf"]),
        ("records", ["picture.pdf", "network", "circle, 40 saves"]),
        ("predictions", ["circle, classes", "picture.pdf"]),
        ("animation", ["circle, one sign, 2 saves", "films"]),
    ],
)
def test_scripts_draw(runs, tmp_path, monkeypatch, script, words):
    paths = [
        str(tmp_path / word if word in ("picture.pdf", "films") else runs(word).path)
        for word in words
    ]
    monkeypatch.setattr("sys.argv", [script, *paths])
    monkeypatch.setattr("hkflow.plots.animation.DOTS", 50)
    runpy.run_path(str(ROOT / "postprocess" / f"{script}.py"), run_name="__main__")
    made = list(tmp_path.rglob("*.*"))
    assert [path.name for path in made] == ["picture.pdf"] or {path.stem for path in made} == set(
        available(runs(words[0]), moving=True)
    )
