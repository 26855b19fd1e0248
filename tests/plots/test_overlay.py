"""Records of several runs in one picture: every record, bands, the certified max-margin, and what
the command says."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from commands import computed_here
from legible import legible
from matplotlib.figure import Figure
from test_record_panels import a_run

import hkflow
from hkflow import plots
from hkflow.analysis.groups import groups_of
from hkflow.methods.record import SCALED
from hkflow.plots import overlay
from hkflow.plots.overlay import GAMMA, Runs, draw_overlay, height
from hkflow.solving.registry import RECORDS
from hkflow.studies import study as studies
from hkflow.studies.file import load_study
from hkflow.studies.members import key_of


def gamma(value):
    return SimpleNamespace(
        lower=value, upper=value * (1.0 + 1e-7), relative_gap=1e-7, is_positive=True
    )


def member(units, seed, log_scale=0.0, margin=0.2):
    """A run that has every record there is: a straight line times a number of its seed."""
    run = a_run()
    line = (1.0 + 0.1 * seed) * np.linspace(0.1, margin, 5)
    case = {"seed": seed, "method": {"kind": "network", "units": units, "points": "random"}}
    run.records = dict.fromkeys(RECORDS, line) | {
        "time": np.linspace(0.0, 2.0, 5),
        "log_scale": np.full(5, log_scale),
    }
    run.case = SimpleNamespace(model_dump=lambda: case, time=SimpleNamespace(first=None))
    run.max_margin = gamma(0.3)
    return run


def drawn(runs, wide=True):
    width = plots.PAGE if wide else plots.COLUMN
    with plots.style():
        figure = Figure(figsize=(width, height(runs, wide)), layout="constrained")
        draw_overlay(figure, runs)
        return figure, legible(figure)


@pytest.mark.parametrize("name", [name for name in RECORDS if name != "time"])
@pytest.mark.parametrize("log_scale", [0.0, 1e4])
def test_every_record_can_be_drawn(name, log_scale):
    runs = [member(units, seed, log_scale) for units in (10, 100) for seed in range(3)]
    figure, texts = drawn(Runs(groups_of(runs), (name,)), wide=False)
    (ax,) = figure.axes
    curves = [line for line in ax.lines if line.get_label() in ("m = 10", "m = 100")]
    assert len(curves) == 2 and len(ax.collections) == 2  # and their bands
    assert all(np.isfinite(line.get_ydata()).all() for line in curves)
    assert {"m = 10", "m = 100", "time t"} <= set(texts)
    scaled = RECORDS[name].unit == SCALED and log_scale
    said = ("per mass", "relative", "log mass") if scaled else ("",)
    assert any(word in ax.get_ylabel() for word in said)
    if RECORDS[name].panel == "margins":
        assert GAMMA in texts and any("certified to 1e-7" in text for text in texts)


def test_hundreds_of_groups_leave_room_for_their_curves():
    """A legend of all of them covered the panels, from above the picture to below it."""
    runs = [member(units, 0) for units in range(10, 310)]
    for k, run in enumerate(runs):
        keys = run.case.model_dump() | {"time": {"end": k % 7}}
        run.case.model_dump = lambda keys=keys: keys
    figure, texts = drawn(Runs(groups_of(runs), ("objective", "mass")))
    figure.canvas.draw()
    (legend,) = figure.legends
    ends = [legend.get_window_extent().y1] + [ax.get_tightbbox().y0 for ax in figure.axes]
    assert ends[0] <= min(ends[1:]) and len(legend.get_texts()) == 32
    assert "32 of 300 are named" in " ".join(texts)
    colors = {line.get_color() for line in figure.axes[0].lines}
    assert len(colors) > 100


def test_gammas_that_differ_are_bands_of_groups_or_their_lines():
    runs = [member(units, seed) for units in (10, 20) for seed in range(3)]
    for run, value in zip(runs, (0.3, 0.35, 0.4, 0.5, 0.5, 0.5), strict=True):
        run.max_margin = gamma(value)
    figure, texts = drawn(Runs(groups_of(runs), ("margin",)))
    assert any("of 6 runs from 0.3 to 0.5 (certified)" in text for text in texts)
    (ax,) = figure.axes
    (span,) = ax.patches  # of the group whose data differ
    assert span.get_y() == 0.3 and span.get_y() + span.get_height() == pytest.approx(0.4, rel=1e-6)
    colors = {line.get_label(): line.get_color() for line in ax.lines}
    assert span.get_facecolor()[:3] == pytest.approx(colors["m = 10"][:3])
    flat = [line for line in ax.lines if len(line.get_ydata()) == 2]
    (line,) = [line for line in flat if np.allclose(line.get_ydata(), 0.5)]
    assert line.get_color() == colors["m = 20"]


def test_a_gamma_is_not_drawn_for_other_data():
    """One line in grey stood for all runs, and a margin that ends below 0 was not seen."""
    one, other = member(10, 0), member(10, 0)
    table = other.case.model_dump() | {"data": {"file": "other.csv"}}
    other.case = replace_case(other.case, table)
    other.records["margin"], other.max_margin = np.linspace(0.0, -0.2, 5), None
    figure, texts = drawn(Runs(groups_of([one, other]), ("margin",)))
    assert any("certified to 1e-7) of 1 run" in text for text in texts)
    (ax,) = figure.axes
    assert ax.get_ylim()[0] < -0.2
    (line,) = [line for line in ax.lines if len(line.get_ydata()) == 2]
    assert line.get_color() == ax.lines[0].get_color()


def test_runs_without_a_margin_have_no_gamma():
    runs = [member(10, seed) for seed in range(2)]
    for run in runs:
        run.max_margin = None
    assert GAMMA not in " ".join(drawn(Runs(groups_of(runs), ("margin",)))[1])


def test_axes_of_margins_leave_out_what_is_far_below_zero():
    runs = [member(10, seed) for seed in range(2)]
    for run in runs:
        run.records["margin"] = np.array([0.0, -50.0, 0.1, 0.2, 0.25])
    (ax,) = drawn(Runs(groups_of(runs), ("margin",)))[0].axes
    low, high = ax.get_ylim()
    assert -0.1 < low < 0.0 and 0.3 < high < 0.4


def test_by_default_what_tables_compare_is_drawn():
    runs = Runs(groups_of([member(10, 0), member(100, 0)]))
    assert {"objective", "margin", "training_error"} <= set(runs.of)
    figure, texts = drawn(runs)
    assert len(figure.axes) == len(runs.of) and texts.count("time t") == 2


def test_many_groups_are_told_apart_and_infinite_width_is_black():
    runs = [member(units, 0) for units in (5, 10, 20)]
    grid = {"seed": 0, "method": {"kind": "grid", "cells": 64}}
    infinite = member(0, 0)
    infinite.case = replace_case(infinite.case, grid)
    looks = overlay.looks_of(groups_of([*runs, infinite]))
    assert looks[-1] == overlay.LIMIT and len({look["color"] for look in looks}) == 4
    several = [member(10, 0) for _ in range(20)]
    for k, run in enumerate(several):
        run.case = replace_case(run.case, {"data": {"file": f"{k}.csv"}})
    looks = overlay.looks_of(groups_of(several))
    assert len({tuple(look.items()) for look in looks}) == 20
    assert looks[0]["linestyle"] != looks[1]["linestyle"]  # of two that agree both are seen


def replace_case(case, table):
    return SimpleNamespace(model_dump=lambda: table, time=case.time)


def test_what_cannot_be_drawn_is_refused():
    groups = groups_of([member(10, 0)])
    with pytest.raises(hkflow.CaseError, match="Unknown record 'margn'. Did you mean"):
        Runs(groups, ("margn",))
    other = member(10, 0)
    other.flow = SimpleNamespace(time_variable="margin")
    with pytest.raises(hkflow.CaseError, match="no axis in common"):
        Runs(groups_of([member(10, 0), other]))
    with pytest.raises(hkflow.RunFolderError, match="No run has finished"):
        overlay.together([])


# --- studies

STUDY = """
title = "Margins"
case = "case.toml"
repeats = 3
values = ["margin"]
curves = ["margin"]
[[sweep]]
method = [
    {kind = "particles", points = "random", particles = 4},
    {kind = "particles", points = "random", particles = 30},
    {kind = "grid"},
]
"""
CASE = """
[data]
source = "inline"
inputs = [[1.0, 0.3], [-0.4, -1.0], [0.7, 0.1]]
targets = [1, -1, 1]
[objective]
activation = "relu"
loss = "smooth-margin"
[domain]
kind = "signed-sphere"
cells = 24
[flow]
kind = "hellinger-kantorovich"
[time]
end = 2.0
saves = 3
[certificate]
seconds = 1.0
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A study whose members are computed in this process."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "case.toml").write_text(CASE)
    (folder / "study.toml").write_text(STUDY)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(studies, "compute_all", computed_here)
        result = studies.study(folder / "study.toml", folder / "out")
    assert result.complete, [outcome.status for outcome in result.outcomes]
    return result.folder


def test_repeats_that_no_seed_tells_apart_are_one_run(place):
    members = load_study(place.parent / "study.toml").members
    keys = [key_of(m.file) for m in members]
    assert len(keys) == 9 and len(set(keys)) == 7 and len(set(keys[6:])) == 1
    assert len(list((place / "runs").glob("*/results.h5"))) == 7
    table = (place / "table.md").read_text().splitlines()
    assert "±" in table[-2] and "±" not in table[-1]  # of one run
    assert [line.split("|")[1].strip() for line in table[-3:]] == [
        "particles, points = random, particles = 4",
        "particles, points = random, particles = 30",
        "grid",
    ]


@pytest.mark.parametrize("wide", [False, True])
def test_a_study_is_drawn_with_bands_and_gamma(place, wide):
    figure = plots.draw("records", place, of="margin", wide=wide)
    with plots.style():
        texts = legible(figure)
    assert {"Margins", "particles, m = 4", "particles, m = 30", "grid, m = ∞", GAMMA} <= set(texts)
    assert any("10–90 % of 3 seeds" in text and "certified" in text for text in texts)
    (ax,) = figure.axes
    assert len(ax.collections) == 2  # infinite width has no seeds
    runs = overlay.together([plots.kinds.loaded(place)], ["margin"]).runs
    (line,) = [line for line in ax.lines if line.get_label() == GAMMA]
    known = {run.max_margin.upper for run in runs}
    assert line.get_ydata()[0] in known and max(known) - min(known) < 1e-5


def test_the_figure_of_the_study_is_its_curves(place):
    figure = plots.draw("convergence", place, wide=True)
    assert [ax.get_ylabel() for ax in figure.axes] == ["margin per |ν|"]
    assert (place / "figure.png").exists() is False  # the command draws it


def test_runs_and_studies_are_drawn_together(place, tmp_path, monkeypatch):
    from commands import hk

    monkeypatch.chdir(tmp_path)
    run, *_ = sorted((place / "runs").glob("*/results.h5"))
    out, _ = hk("plot", place, run.parent, "records", "--of", "margin", "--of", "objective")
    assert out.startswith("picture:") and (tmp_path / "records-margin-objective.png").exists()
    hk("plot", place, "--of", "margin")
    assert (place / "records-margin.png").exists()
    assert "records" in hk("plot", place, run.parent, "help")[0]
    for words, message in (
        ((place, run.parent, "density"), "these are several runs"),
        ((place, "recods"), "Unknown picture 'recods'.*Did you mean 'records'"),
        ((run.parent, "density", "--of", "margin"), "'of' names records"),
        ((place, "records", "--of", "margn"), "Unknown record 'margn'"),
        ((place, "no/such/run", "records"), "no/such/run"),
    ):
        _, said = hk("plot", *words, code=2)
        assert re.search(message, said), said
