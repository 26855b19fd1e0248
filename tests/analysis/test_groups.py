"""Several runs in groups: members differ in the seed alone, labels say what else differs,
and curves are quantiles over the members."""

from types import SimpleNamespace

import numpy as np
import pytest

from hkflow.analysis import groups
from hkflow.analysis.groups import curve_of, groups_of, labels_of, order_of

TABLES = {
    "seed": 0,
    "title": "A title",
    "data": {"source": "csv", "file": "a.csv"},
    "method": {"kind": "network", "units": 10, "points": "random", "tolerance": 1e-6},
    "time": {"end": 2.0, "saves": 3},
}


def a_run(at=(0.0, 1.0), values=(0.0, 1.0), **tables):
    """What groups ask of a run: its case, and records; tables change those of the case."""
    case = {
        key: TABLES[key] | tables.get(key, {})
        if isinstance(TABLES[key], dict)
        else tables.get(key, TABLES[key])
        for key in TABLES
    }
    records = {"time": np.array(at, dtype=float), "margin": np.array(values, dtype=float)}
    return SimpleNamespace(case=SimpleNamespace(model_dump=lambda: case), records=records)


def network(units, seed=0, **more):
    return a_run(seed=seed, method={"units": units, **more})


def margins(run):
    return run.records.get("margin")


GRID = {"kind": "grid", "units": None, "points": None, "cells": 642}


def test_runs_that_differ_in_the_seed_are_one_group():
    runs = [network(units, seed) for units in (10, 100) for seed in range(3)]
    found = groups_of([*runs, a_run(method=GRID), a_run(method=GRID, title="Another")])
    assert [len(group.runs) for group in found] == [3, 3, 2]
    assert found[1].runs == runs[3:]
    assert [group.label for group in found] == [
        "network, m = 10",
        "network, m = 100",
        "grid, m = ∞",
    ]


def test_sibling_seeds_that_count_make_groups(monkeypatch):
    monkeypatch.setattr(groups, "SEED", "")
    assert len(groups_of([network(10, seed) for seed in range(3)])) == 3


@pytest.mark.parametrize(
    "changes, labels",
    [
        ([{}], [""]),
        ([{"method": {"units": 10}}, {"method": {"units": 50}}], ["m = 10", "m = 50"]),
        (
            [{"time": {"end": 1.0}}, {"time": {"end": 4.0}}],
            ["end = 1", "end = 4"],
        ),
        (  # keys of [time] only where nothing else differs
            [{"time": {"end": e}, "method": {"tolerance": 1e-3 * e}} for e in (1.0, 2.0)],
            ["tolerance = 0.001", "tolerance = 0.002"],
        ),
        (  # of a kind that is alone only the kind
            [{"method": GRID}, {}, {"method": {"units": 20}}],
            ["grid, m = ∞", "network, m = 10", "network, m = 20"],
        ),
        (  # names that are twice are whole
            [{"time": {"x": k}, "data": {"x": k}, "method": {"x": k}} for k in (1, 2)],
            [f"data.x = {k}, method.x = {k}, time.x = {k}" for k in (1, 2)],
        ),
    ],
)
def test_labels_say_what_differs(changes, labels):
    assert sorted(group.label for group in groups_of([a_run(**one) for one in changes])) == labels


def test_labels_of_tables_of_a_sweep():
    tables = [{"kind": "characteristics", "particles": n} for n in (10, 100)]
    assert labels_of(tables) == ["particles = 10", "particles = 100"]


def test_groups_have_an_order_where_one_number_tells_them_apart():
    assert order_of(groups_of([network(10), network(5)])) == [10.0, 5.0]
    infinite = a_run(method=GRID)
    assert order_of(groups_of([network(10), infinite, network(5)])) == [10.0, np.inf, 5.0]
    assert order_of(groups_of([network(10, tolerance=1.0), network(5)])) == [10.0, 5.0]
    assert order_of(groups_of([a_run(data={"file": name}) for name in "ab"])) is None


def slopes(*of, times=None):
    """One group whose members grew at given rates, at times of their own."""
    times = times or [np.linspace(0.0, 1.0, 7 + k) for k in range(len(of))]
    runs = [a_run(t, slope * t, seed=k) for k, (slope, t) in enumerate(zip(of, times, strict=True))]
    (group,) = groups_of(runs)
    return group


def test_a_curve_is_the_median_and_the_band_its_quantiles():
    curve = curve_of(slopes(1.0, 2.0, 3.0, 4.0, 5.0), margins)
    assert curve.members == 5 and curve.time[[0, -1]].tolist() == [0.0, 1.0]
    for values, slope in ((curve.low, 1.4), (curve.middle, 3.0), (curve.high, 4.6)):
        assert values == pytest.approx(slope * curve.time, rel=1e-13, abs=1e-13)


def test_sibling_a_member_that_is_left_out_is_seen():
    curve = curve_of(slopes(1.0, 2.0, 3.0, 4.0), margins)
    assert curve.middle[-1] != pytest.approx(3.0, rel=1e-3)


def test_members_end_where_they_end_and_what_is_not_finite_is_left_out():
    group = slopes(1.0, 3.0, times=[np.linspace(0.0, 1.0, 5), np.linspace(0.0, 2.0, 5)])
    group.runs[0].records["margin"][0] = np.nan
    curve = curve_of(group, margins)
    late = curve.time > 1.0
    assert curve.middle[late] == pytest.approx(3.0 * curve.time[late], rel=1e-13)
    early = (curve.time >= 0.25) & ~late
    assert curve.middle[early] == pytest.approx(2.0 * curve.time[early], rel=1e-13)
    assert curve.low[0] == curve.high[0] == 0.0 and np.isfinite(curve.low).all()
    assert curve_of(group, lambda run: None) is None
    assert curve_of(group, lambda run: np.full(5, np.nan)) is None


def test_long_runs_are_thinned_with_both_ends():
    curve = curve_of(slopes(2.0, times=[np.linspace(0.0, 1.0, 100_001)]), margins)
    assert len(curve.time) == groups.POINTS and curve.time[[0, -1]].tolist() == [0.0, 1.0]
    assert np.array_equal(curve.low, curve.high)
