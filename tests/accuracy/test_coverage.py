"""A sample of benchmarks/bar_coverage.py: true errors lie within their bars, nineteen of twenty."""

import sys
from pathlib import Path

import numpy as np
import pytest

import hkflow

sys.path.append(str(Path(__file__).parents[2]))

from benchmarks import bar_coverage

FLOWS = (
    (1, "relu", (1.0, 2.0), "square", "characteristics"),
    (1, "squared-relu", (1.0, 0.0), "logistic", "particles"),
    (2, "squared-relu", (0.0, 2.0), "square", "particles"),
)


@pytest.fixture(scope="module")
def ratios():
    """Bar over true error of every quantity at the end of every run."""
    rows = [*bar_coverage.closed_forms(quick=True), *bar_coverage.margins(quick=True)]
    for dim, activation, rates, loss, kind in FLOWS:
        saves, sizes = np.linspace(0.0, 1.0, 4), (bar_coverage.CELLS[dim][0], 2562)
        few, many = (bar_coverage.problem(dim, activation, rates, loss, cells) for cells in sizes)
        truth = hkflow.solve(many, 1.0, saves, kind=kind, tolerance=1e-7)
        for method in ("grid", kind):
            run = hkflow.solve(few, 1.0, saves, kind=method)
            rows += [(method, activation, *found) for found in bar_coverage.judged(run, truth)]
    return np.array([bar / error for *_, error, bar in rows])


def holds(ratios):
    return np.mean(ratios >= 1.0) >= 0.95 and np.median(ratios) <= 20.0


def test_bars_hold_most_errors(ratios):
    assert len(ratios) > 60
    assert holds(ratios), (np.mean(ratios >= 1.0), np.median(ratios))


@pytest.mark.parametrize("wrong", [0.1, 10.0])
def test_bars_that_are_wrong_by_ten_do_not(ratios, wrong):
    assert not holds(wrong * ratios)


@pytest.fixture(scope="module")
def over_kinks():
    """The same of particles that step over the kinks of 1000 and 3000 data."""
    return np.array([bar / error for *_, error, bar in bar_coverage.many(quick=True)])


def test_bars_of_steps_over_kinks_hold_most_errors(over_kinks):
    """Their errors fall more slowly with the tolerance than those of smooth flows, and not at all
    where two tolerances take the same steps up to a save."""
    assert len(over_kinks) > 60
    assert holds(over_kinks), (np.mean(over_kinks >= 1.0), np.median(over_kinks))


@pytest.mark.parametrize("wrong", [0.3, 10.0])
def test_sibling_bars_of_steps_over_kinks_that_are_wrong_do_not(over_kinks, wrong):
    assert not holds(wrong * over_kinks)
