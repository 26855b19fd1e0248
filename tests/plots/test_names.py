"""One thing has one name and one colour in all pictures, and the name that the data give it."""

from dataclasses import replace

import numpy as np
import pytest
from legible import legible
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from typer.testing import CliRunner

import hkflow
from hkflow import plots
from hkflow.analysis.margin_report import margin_report
from hkflow.app.cli import app
from hkflow.objectives.data import axis_names, numbered
from hkflow.plots.compare import draw_comparison
from hkflow.plots.coordinates import draw_weights
from hkflow.plots.margin import draw_margins

CASE = """
[data]
source = "xor"
n = 30
dim = {dim}
[objective]
activation = "relu"
bias = {bias}
loss = "logistic"
[domain]
kind = "signed-sphere"
cells = {cells}
[flow]
kind = "hellinger-kantorovich"
[time]
end = 0.1
saves = 3
"""


def a_run(folder, dim, cells=42, bias="true", **overrides):
    (folder / "case.toml").write_text(CASE.format(dim=dim, cells=cells, bias=bias))
    return hkflow.run(folder / "case.toml", output=folder / "run", **overrides)


def figure_of(name, run):
    figure = Figure(figsize=(plots.PAGE, 5.0), layout="constrained")
    with plots.style():
        plots.draw(name, run, figure)
    return figure


def colour_of(handle):
    """The colour of a line, of dots, of a patch or of bars."""
    while isinstance(handle, tuple):
        handle = handle[0]
    with plots.style():  # which says what C1 is
        return to_rgb(
            handle.get_color()
            if hasattr(handle, "get_color")
            else np.ravel(handle.get_facecolor())[:3]
        )


def colours(figure):
    """The colours that the legends of a figure give to each sign, of classes and of units."""
    found = {"+1": set(), "−1": set()}
    for ax in figure.axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            for sign in found:
                if sign in label:
                    found[sign].add(colour_of(handle))
    return found


@pytest.mark.parametrize(
    "dim, cells, bias, method, names",
    [
        (4, 42, "true", "particles", ["overview", "predictions", "density"]),
        (2, 42, "true", "particles", ["overview", "predictions", "paths"]),
        (2, 24, "false", "grid", ["overview", "predictions", "density", "polar"]),
        (2, 24, "false", "particles", ["density", "paths", "polar"]),
    ],
)
def test_a_sign_has_one_colour_in_all_panels(tmp_path, dim, cells, bias, method, names):
    run = a_run(tmp_path, dim, cells, bias, **{"method.kind": method})
    assert set(names) <= set(plots.available(run))
    all_of_them = {"+1": set(), "−1": set()}
    for name in names:
        for sign, seen in colours(figure_of(name, run)).items():
            all_of_them[sign] |= seen
    assert {sign: len(seen) for sign, seen in all_of_them.items()} == {"+1": 1, "−1": 1}
    assert all_of_them["+1"] != all_of_them["−1"]


@pytest.mark.parametrize(
    "dim, bias, names", [(2, "true", ["+w₁", "+w₂", "+bias"]), (3, "false", ["+w₁", "+w₂", "+w₃"])]
)
def test_maps_of_runs_and_of_max_margins_name_their_axes_alike(tmp_path, dim, bias, names):
    run = a_run(tmp_path, dim, bias=bias)
    figure = Figure(figsize=(6.9, 3.4), layout="constrained")
    with plots.style():
        draw_margins(figure, margin_report(run=run.path))
    texts = legible(figure)
    assert set(names) <= set(texts) and set(names) <= set(legible(figure_of("density", run)))
    assert not any("θ₁" in text for text in texts)
    if dim == 2:
        assert {"x₁", "x₂"} <= set(texts)


def test_names_are_numbered_beyond_nine():
    assert numbered("x", 12)[8:] == ["x₉", "x₁₀", "x₁₁", "x₁₂"]
    assert axis_names(2, True, outputs=1) == ["w₁", "w₂", "bias", "output"]
    assert axis_names(1, False, outputs=2) == ["w₁", "output₁", "output₂"]


def test_columns_keep_the_names_of_their_header(tmp_path):
    """Whether or not the case lists them: the case that is stored, and that `hkflow check` prints,
    does."""
    rows = "".join(
        f"{a:.3f},{'yes' if a > b else 'no'},{b:.3f}\n"
        for a, b in np.random.default_rng(0).normal(size=(20, 2))
    )
    (tmp_path / "data.csv").write_text("width,outcome,height\n" + rows)
    listed = (
        '[data]\nsource = "csv"\nfile = "data.csv"\nlabel = "outcome"\npositive = ["yes"]\nnegative'
        ' = ["no"]\n'
    )
    (tmp_path / "case.toml").write_text(
        listed + CASE.format(dim=2, cells=42, bias="true").partition("dim = 2\n")[2]
    )
    run = hkflow.run(tmp_path / "case.toml", output=tmp_path / "run")
    assert run.input_names == ["width", "height"] and run.case.data.features == ["width", "height"]
    assert {"width", "height"} <= set(legible(figure_of("overview", run)))
    assert (
        margin_report(tmp_path / "case.toml").input_names
        == margin_report(run=run.path).input_names
        == ("width", "height")
    )
    out = CliRunner().invoke(app, ["check", str(tmp_path / "case.toml")]).stdout
    assert 'features = ["width", "height"]' in out
    projected = hkflow.run(
        tmp_path / "case.toml",
        output=tmp_path / "projected",
        **{"data.components": 1, "domain.cells": 24},
    )
    assert projected.input_names == ["x₁"]


def test_a_run_without_a_title_is_called_by_the_name_of_its_folder(tmp_path):
    """Its picture, and that of its comparison, was called "hkflow"."""
    run, compared = a_run(tmp_path, 2, error={"companions": "none"}), Figure()
    draw_comparison(compared, hkflow.compare(run, run))
    for figure in (figure_of("overview", run), compared):
        assert figure.get_suptitle().startswith("run\n")


def test_what_is_available_is_asked_of_a_folder_as_well(tmp_path):
    with pytest.raises(hkflow.RunFolderError, match="absent"):
        plots.available(tmp_path / "absent")


@pytest.mark.parametrize("loss", ["softmax", "logistic"])
def test_maps_of_max_margins_say_that_inputs_are_standardised(loss, tmp_path):
    """They named the columns alone, beside values that these do not have."""
    rows = [f"{u},{v},{kind}" for u, v, kind in ((1, 5, "a"), (2, 3, "b"), (4, 4, "b"))]
    (tmp_path / "t.csv").write_text("\n".join(["u,v,kind", *rows]))
    data = {"source": "csv", "file": str(tmp_path / "t.csv"), "label": "kind", "standardize": True}
    data |= {} if loss == "softmax" else {"positive": ["a"], "negative": ["b"]}
    sphere = "sphere" if loss == "softmax" else "signed-sphere"
    case = {"data": data, "objective": {"loss": loss, "bias": True}, "domain": {"kind": sphere}}
    case |= {"flow": {"kind": "hellinger-kantorovich"}, "time": {"end": 1.0, "saves": 2}}
    figure, report = Figure(), margin_report(case)
    draw_margins(figure, report)
    (ax,) = [ax for ax in figure.axes if ax.get_xlabel() == "u, standardised"]
    assert ax.get_ylabel() == "v, standardised"
    if loss == "softmax":  # a wide interval above 0 is no margin that is not known to be positive
        figure, wide = Figure(), replace(report.f1, upper=7.0 * report.f1.lower)
        draw_margins(figure, replace(report, f1=wide))
        assert "is not known well enough to be drawn" in figure.axes[0].get_title()


@pytest.mark.parametrize("inputs", [1, 2, 3])
@pytest.mark.parametrize("wide", [False, True])
def test_long_names_of_columns_fit_into_all_pictures(tmp_path, inputs, wide):
    """Beside each other they overlapped, and those along a vertical axis were cut off; that inputs
    are standardised was cut with the name."""
    x = np.random.default_rng(0).normal(size=(20, inputs))
    names = [f"concentration of the solvent no. {k} (mg/l)\nat 25 °C" for k in range(inputs)]
    frame = dict(zip(names, x.T, strict=True)) | {"y": x[:, 0] > 0.0}
    data = {"source": "frame", "frame": frame, "label": "y", "positive": [1], "negative": [0]}
    case = {
        "data": data | {"standardize": True},
        "objective": {"bias": True, "loss": "logistic"},
        "domain": {"kind": "signed-sphere"},
        "flow": {"kind": "hellinger-kantorovich"},
        "time": {"end": 1.0, "saves": 2},
        "error": {"companions": "none"},
    }
    run = hkflow.run(case, output=tmp_path / "run")
    shown = [name for name in plots.available(run) if name in ("decision", "planes", "predictions")]
    with plots.style():
        for name in shown:
            texts = legible(plots.draw(name, run, wide=wide))
            said = [text for text in texts if "standardised" in text]
            assert len(said) >= min(inputs, 2) or name == "predictions"
            assert all(text.replace("\n", " ").startswith("concentration") for text in said)


def test_long_names_of_coordinates_stand_upright(tmp_path):
    """Of a diagonal network: side by side they overlapped."""
    figure = Figure(figsize=(plots.COLUMN, 2.9), layout="constrained")
    points = hkflow.PointMeasure(np.eye(8), np.ones(8), np.ones(8))
    with plots.style():
        draw_weights(figure.subplots(), points, [f"a long name of column {k}" for k in range(8)])
        legible(figure)


def test_inputs_that_a_function_prepares_keep_their_names(tmp_path):
    """Pictures failed: a function has no attribute 'size'."""
    objective = hkflow.Objective(
        hkflow.vector_feature("relu", 2), hkflow.SOFTMAX, np.array([[1.0, 0.2], [0.3, 1.0]]), [0, 1]
    )
    start = hkflow.balanced_atoms(20, 3, outputs=2)
    flow, prepare = hkflow.Flow(1.0, 1.0), np.asarray
    solution = hkflow.solve(
        hkflow.Problem(None, objective, flow, initial=start, prepare=prepare), end=0.1
    )
    figure = plots.draw("decision", solution)
    assert solution.input_names[0] in [ax.get_xlabel() for ax in figure.axes]


def test_long_names_below_a_run_and_its_kernel_machine_lie_apart(tmp_path):
    """Two of `petal_length, standardised` overlapped."""
    points = np.random.default_rng(0).normal(size=(20, 2))
    rows = [f"{u},{v},{'yes' if u > 0.0 else 'no'}" for u, v in points]
    (tmp_path / "t.csv").write_text("\n".join(["petal_length,petal_width,kind", *rows]))
    data = {"source": "csv", "file": str(tmp_path / "t.csv"), "label": "kind", "standardize": True}
    data |= {"positive": ["yes"], "negative": ["no"]}
    case = {"data": data, "domain": {"kind": "signed-sphere"}, "time": {"end": 0.1, "saves": 2}}
    case |= {"objective": {"loss": "logistic", "bias": True}, "method": {"kind": "particles"}}
    case |= {"flow": {"kind": "hellinger-kantorovich"}}
    run = hkflow.run(case, output=tmp_path / "run", error={"companions": "none"})
    texts = legible(plots.draw("decision", run))
    assert texts.count("petal_length,\nstandardised") == 2
