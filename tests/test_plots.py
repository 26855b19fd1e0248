"""Every kind of overview is drawn from a small run and has its axes, labels and data."""

import numpy as np
import pytest
from matplotlib.figure import Figure

import hkflow
from hkflow.plots import sphere
from hkflow.plots.overview import draw_overview, save_overview

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
