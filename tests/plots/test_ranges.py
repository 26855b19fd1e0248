"""What pictures leave room for: legends, colours of maps, the panel of margins; and runs that have
nothing to show."""

import numpy as np
import pytest
from matplotlib.figure import Figure

import hkflow
from hkflow import plots
from hkflow.certificates.margin import MaxMargin
from hkflow.plots import decision
from hkflow.plots.figures import MOST_ENTRIES, legend_below, legend_columns, legend_height
from hkflow.plots.records import draw_margins
from hkflow.problem.flow import Flow


@pytest.mark.parametrize(
    ("words", "width", "wanted"),
    [
        (["a", "b"], 3.3, 3),
        (["a" * 30], 3.3, 1),
        (["a" * 30], 6.9, 3),
        (["a" * 200], 3.3, 1),
        ([], 3, 2),
    ],
)
def test_legends_have_as_many_columns_as_there_is_room_for(words, width, wanted):
    assert legend_columns(words, width) == wanted


def test_legends_of_hundreds_of_lines_name_some_and_say_so():
    """All of 500 made a picture of two metres, or covered it."""
    figure = Figure(figsize=(plots.PAGE, 3.0), layout="constrained")
    ax = figure.subplots()
    for k in range(500):
        ax.plot([0.0, k], label=f"m = {k}")
    legend_below(figure, ax)
    (legend,) = figure.legends
    texts = [text.get_text() for text in legend.get_texts()]
    assert len(texts) == MOST_ENTRIES and texts[0] == "m = 0" and texts[-1] == "m = 499"
    assert legend.get_title().get_text() == "32 of 500 are named"
    assert 0.5 < legend_height([f"m = {k}" for k in range(500)], 5) < 1.5
    assert legend_height(["one"], 5) == 0.0


@pytest.mark.parametrize(("concentration", "cut"), [(20.0, True), (0.5, False)])
def test_maps_have_the_colours_of_the_data_where_predictions_explode_far_from_them(
    concentration, cut
):
    angles = np.linspace(0.0, 2.0 * np.pi, 12, endpoint=False)
    inputs = np.column_stack([np.cos(angles), np.sin(angles)])

    def bump(s):
        value = np.exp(concentration * (s - 1.0))
        return value, concentration * value

    feature = hkflow.ridge(bump)
    objective = hkflow.Objective(feature, hkflow.RISKS["square"], inputs, np.cos(angles) ** 2)
    run = hkflow.solve(hkflow.Problem(hkflow.circle_mesh(64), objective, Flow(0.0, 1.0)), 1.0)
    figure = plots.draw("decision", run)
    (image,) = [one for ax in figure.axes for one in ax.collections if one.get_array() is not None][
        :1
    ]
    near, largest = max(np.abs(run.predictions[-1]).max(), 1.0), np.abs(image.get_array()).max()
    assert cut == (largest > 10.0 * near)
    assert image.norm.vmax == pytest.approx(near if cut else max(largest, 1.0))


def margins(upper):
    time = np.linspace(0.0, 1.0, 5)
    return {
        "time": time,
        "margin": 0.1 * time,
        "margin_lower": 0.1 * time,
        "margin_upper": np.full(5, upper),
        "dual_value": np.full(5, upper),
    }


@pytest.mark.parametrize(("upper", "words"), [(30.0, ["margin"]), (0.2, ["dual", "margin"])])
def test_margins_are_seen_under_a_loose_bound(upper, words):
    ax = Figure().subplots()
    draw_margins(ax, margins(upper))
    assert ax.get_ylim()[1] == pytest.approx(0.6)
    assert [text.get_text() for text in ax.get_legend().get_texts()][: len(words)] == words


def max_margin_of(lower, upper):
    atoms = hkflow.PointMeasure(np.eye(2)[:1], np.ones(1), np.ones(1))
    return MaxMargin(lower, upper, upper, atoms, np.ones(1), True, 1, np.zeros(2), 1e-6, 1e-12)


@pytest.mark.parametrize(("upper", "words"), [(0.15, ["dual", "margin"]), (0.5, ["margin"])])
def test_a_dual_value_at_the_end_alone_is_a_dot(upper, words):
    """As of runs beyond S², whose line of one point was named and not seen. One out of range is not
    named, beside the max-margin either."""
    records, ax = margins(upper), Figure().subplots()
    records["dual_value"][:-1] = np.nan
    draw_margins(ax, records, found=max_margin_of(0.12, 0.12))
    assert [line.get_marker() for line in ax.lines[:2]] == [".", "None"]
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == [*words, r"$\gamma$"]


def test_a_max_margin_that_is_hardly_known_is_told_as_the_summary_tells_it():
    ax = Figure().subplots()
    draw_margins(ax, margins(30.0), found=max_margin_of(0.12, 5.0))
    assert ax.get_legend().get_title().get_text() == r"$\gamma$ in [0.12, 5]"


def test_planes_are_for_runs_that_predict_something():
    energy = hkflow.Sum(hkflow.External("-x"), axes=3)
    start = hkflow.Problem(hkflow.geodesic_mesh(1), energy, Flow(1.0))
    run = hkflow.solve(start, 0.1)
    assert "planes" not in plots.available(run)
    with pytest.raises(hkflow.CaseError, match="this run has no data to predict"):
        plots.draw("planes", run)


def test_many_data_have_no_kernel_machine_beside_them(monkeypatch):
    """Whose matrix takes memory as data², and time as data³."""
    angles = np.linspace(0.0, np.pi, 8)
    inputs = np.column_stack([np.cos(angles), np.sin(angles)])
    objective = hkflow.Objective(
        hkflow.FEATURES["relu"], hkflow.RISKS["logistic"], inputs, np.repeat([1.0, -1.0], 4)
    )
    problem = hkflow.Problem(hkflow.circle_mesh(32), objective, Flow(1.0, 2.0), (1, -1))
    for most, there in ((8, True), (7, False)):
        monkeypatch.setattr(decision, "COMPARED", most)
        run = hkflow.solve(problem, 0.1)
        assert (decision.kernel_classifier(run) is not None) == there
        figure = plots.draw("decision", run)
        assert any("F₂" in ax.get_title() for ax in figure.axes) == there
