"""Panels of the picture `records`: which there are, and their scales."""

from types import SimpleNamespace

import numpy as np
import pytest
from legible import legible
from matplotlib.figure import Figure

from hkflow import plots
from hkflow.plots import records
from hkflow.plots.kinds import PLOTS
from hkflow.solving.records import OF_CERTIFICATES, OF_CLASSIFIERS, OF_EVERY_RUN
from hkflow.solving.registry import RECORDS


def a_run(groups=(OF_EVERY_RUN,), **own):
    names = [record.name for group in groups for record in group]
    found = {name: np.linspace(1.0, 2.0, 5) for name in names} | {"log_scale": np.zeros(5)}
    flow = SimpleNamespace(time_variable="time")
    return SimpleNamespace(
        records=found | own,
        case=SimpleNamespace(flow=flow),
        flow=flow,
        contradiction="",
        max_margin=None,
        errors=None,
    )


def labels(run, wide=True):
    figure = Figure(figsize=(plots.PAGE, PLOTS["records"].height(run, wide)), layout="constrained")
    records.draw_records(figure, run)
    return [ax.get_ylabel() for ax in figure.axes]


def test_panels_are_those_of_the_records():
    plain = [RECORDS["objective"].axis, RECORDS["mass"].axis, "relative residual"]
    assert labels(a_run()) == plain
    certified = (OF_EVERY_RUN, OF_CLASSIFIERS, OF_CERTIFICATES)
    assert labels(a_run(certified)) == [*plain[:2], "margin/|ν|", plain[2]]
    assert labels(a_run((OF_EVERY_RUN, OF_CLASSIFIERS))) == plain  # nothing encloses the margin


def test_own_records_have_panels_of_their_own():
    run = a_run(some_entropy=np.arange(5.0), cost_in_dollars_=np.ones(5), x=np.ones(5))
    assert labels(run)[3:] == ["some entropy", "cost in dollars", "x"]
    heights = [PLOTS["records"].height(one, True) for one in (a_run(), a_run(x=np.ones(5)), run)]
    assert heights[0] == heights[1] < heights[2]  # two columns


@pytest.mark.parametrize(
    "values, scale, wanted",
    [
        ([1.0, 100.0], "log", "log"),
        ([1.0, np.nan, 100.0], "log", "log"),
        ([1.0, 2.0], "log", "linear"),
        ([0.0, 100.0], "log", "linear"),
        ([np.nan, np.nan], "log", "linear"),
        ([1.0, 100.0], "linear", "linear"),
        ([-1.0, 100.0], "symlog", "symlog"),
    ],
)
def test_axes_are_logarithmic_where_it_helps(values, scale, wanted):
    ax = Figure().subplots()
    ax.plot(values)
    records.scale_values(ax, np.array(values), scale)
    assert ax.get_yscale() == wanted


@pytest.mark.parametrize("largest, marked", [(100.0, True), (1e4, False)])
def test_between_many_powers_of_ten_there_are_no_marks(largest, marked):
    ax = Figure().subplots()
    ax.plot([1.0, largest])
    records.scale_values(ax, np.array([1.0, largest]), "log")
    assert bool(len(ax.yaxis.get_minorticklocs())) == marked


def test_numbers_between_two_powers_of_ten_lie_apart():
    """Those at 3 and 4 of an objective that fell from 0.36 to 0.014 overlapped."""
    with plots.style():
        figure = Figure(figsize=(plots.COLUMN, 4.1), layout="constrained")
        records.draw_records(figure, a_run(objective=np.geomspace(0.36, 0.014, 5)))
        texts = legible(figure)
    assert any(r"2\times10^{-1}" in text for text in texts)
    assert any(r"5\times10^{-2}" in text for text in texts)
