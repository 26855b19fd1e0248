"""`hkflow run --watch`: what stays on the screen is the end of the run, with its curves."""

import io
import re

import numpy as np
import pytest
from rich.console import Console

import hkflow
from hkflow.running import progress, watch
from hkflow.running.watch import LEVELS, Series

TABLES = {
    "data": {"source": "xor", "n": 12},
    "objective": {"activation": "relu", "loss": "logistic"},
    "domain": {"kind": "signed-sphere", "cells": 24},
    "flow": {"kind": "hellinger-kantorovich"},
    "time": {"end": 0.5, "saves": 3},
}


def curve_of(values, columns=8):
    series = Series(size=64)
    for value in values:
        series.add(value)
    return series.curve(columns, LEVELS)


def test_a_curve_rises_where_values_do():
    assert curve_of([]) == "" and curve_of([2.0, 2.0]) == "▁▁"
    assert curve_of([1.0, np.nan, 2.0, np.inf, 3.0]) == "▁▅█"
    assert curve_of(range(8)) == LEVELS
    assert curve_of(range(10_000)) == LEVELS  # thinned, and still even
    assert curve_of(-np.arange(777.0)) == LEVELS[::-1]


def test_a_series_keeps_the_last_value_and_few_of_the_others():
    series = Series(size=64)
    for value in range(10_001):
        series.add(float(value))
    assert series.last == 10_000.0 and len(series.kept) < 64


def screen(monkeypatch, encoding="utf-8"):
    """What a terminal of 110 columns gets."""
    text = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(progress, "_shows_bars", lambda: True)
    monkeypatch.setattr(
        "rich.console.Console", lambda **_: Console(file=text, force_terminal=True, width=110)
    )
    return text


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_the_end_of_a_run_stays_on_the_screen(tmp_path, monkeypatch, encoding):
    text = screen(monkeypatch, encoding)
    run = hkflow.run(TABLES, tmp_path / "run", quiet=False, watch=True)
    text.seek(0)
    last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.read()).rstrip().splitlines()[-4:]
    records = run.records
    rows = {line.split("  ")[0]: line for line in last}
    assert list(rows) == ["objective", "log mass", "training error", "margin"]
    assert f"{records['objective'][-1]:.6g}" in rows["objective"]
    assert f"max-margin in [{records['margin_lower'][-1]:.5g}," in rows["margin"]
    fallen = (LEVELS if encoding == "utf-8" else watch.PLAIN_LEVELS)[0]
    assert rows["objective"].rstrip().endswith(fallen)


@pytest.mark.parametrize("width", [40, 80, 110])
def test_curves_are_whole_on_narrow_terminals(monkeypatch, width):
    """Their ends, which are the newest, were cut off where a margin stood beside them."""
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=width)
    monkeypatch.setattr("rich.console.Console", lambda **_: console)
    names = ("objective", "training_error", "margin", "margin_lower", "margin_upper")
    series = {name: Series() for name in names}
    for one in series.values():
        for value in range(100):
            one.add(0.123456 + value)
    console.print(watch.Screen(progress.progress_bar(""), series).shown())
    assert text.getvalue().count(LEVELS[-1]) >= 3 and "…" not in text.getvalue()


def test_elsewhere_it_is_lines(tmp_path, capsys):
    hkflow.run(TABLES, tmp_path / "run", quiet=False, watch=True)
    assert "▁" not in capsys.readouterr().err


def test_a_watched_run_is_known_again(tmp_path, capsys):
    first = hkflow.run(TABLES, tmp_path / "run", watch=True)
    again = hkflow.run(TABLES, tmp_path / "run")
    assert (again.predictions == first.predictions).all()
    assert "is loaded" in capsys.readouterr().err
