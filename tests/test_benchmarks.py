"""The benchmark suite: its statistics on numbers whose answer is known, and that the command runs
and writes what it says."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT))

from benchmarks import advection, hills
from benchmarks.potential_peers import zonal_factors
from benchmarks.timing import Row, alternate, exponent, ratio


def test_exponent_of_a_power_law_and_its_interval():
    sizes = np.array([10.0, 40.0, 160.0, 640.0])
    slope, half = exponent(sizes, 3.0 * sizes**0.6)
    assert slope == pytest.approx(0.6, abs=1e-12)
    assert half < 1e-6
    noise = np.random.default_rng(0).normal(scale=0.1, size=(2000, 4))
    found = np.array([exponent(sizes, sizes**0.6 * np.exp(row)) for row in noise])
    inside = np.mean(np.abs(found[:, 0] - 0.6) <= found[:, 1])
    assert 0.93 < inside < 0.97  # of 95 %, by the t distribution with two degrees of freedom
    # a narrower interval would show
    assert np.mean(np.abs(found[:, 0] - 0.6) <= 0.3 * found[:, 1]) < 0.8


def test_ratios_are_of_paired_times():
    below = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    assert ratio(3.0 * below, below) == {"ratio": 3.0, "low": 3.0, "high": 3.0}


def test_work_takes_turns():
    order = []
    times = alternate([lambda: order.append(0), lambda: order.append(1)], 3, warm=1)
    assert order == [0, 1] * 4
    assert times.shape == (3, 2)


@pytest.mark.parametrize(
    ("goal", "met"),
    [((">=", 2.0), True), ((">=", 4.0), False), (("<=", 4.0), True), (("<=", 2.0), False)],
)
def test_goals_are_compared_with_the_ratio(goal, met):
    assert Row("a", 100.0, "ms", ratio=3.0, goal=goal).met is met
    assert Row("a", goal=goal).met is None


def test_zonal_factors_rebuild_the_relu():
    highest, t = 400, np.linspace(-1.0, 1.0, 41)
    coefficients = zonal_factors(highest) * (2 * np.arange(highest + 1) + 1) / (4.0 * np.pi)
    assert np.abs(np.polynomial.legendre.legval(t, coefficients) - np.maximum(t, 0.0)).max() < 1e-3


def test_areas_of_a_sphere_cut_along_its_longitudes():
    longitude, latitude = np.meshgrid(
        np.linspace(0.0, 2.0 * np.pi, 17), np.linspace(-1.5, 1.5, 9), indexing="ij"
    )
    corners = np.stack(
        [
            np.cos(latitude) * np.cos(longitude),
            np.cos(latitude) * np.sin(longitude),
            np.sin(latitude),
        ],
        axis=-1,
    )
    octant = hills.triangle_areas(*np.eye(3))
    assert octant == pytest.approx(0.5 * np.pi, abs=1e-14)
    assert (hills.quad_areas(corners) > 0.0).all()


def test_times_between_sizes_follow_a_power_law():
    """Errors N^-1 at seconds N^1.5: an error e takes e^-1.5 seconds; none is made up far beyond the
    finest mesh."""

    class Known(advection.Series):
        def __init__(self, sizes):
            self.errors, self.times = 1.0 / sizes, [sizes**1.5]

        def outcomes(self, shape):
            return np.column_stack([0.0 * self.errors, 0.0 * self.errors, self.errors])

    series = Known(np.array([10.0, 40.0, 160.0]))
    for error in (0.1, 0.05, 0.01, 0.004):
        assert advection.seconds_to(series, "smooth", error) == pytest.approx(
            [error**-1.5], rel=1e-12
        )
    assert advection.seconds_to(series, "smooth", 0.001) is None
    assert advection.seconds_to(series, "smooth", 0.2) is None


def test_command(tmp_path):
    command = [
        sys.executable,
        "-m",
        "benchmarks",
        "machine",
        "--quick",
        "--threads",
        "1",
        "--output",
        str(tmp_path),
    ]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    report = json.loads((tmp_path / "benchmarks.json").read_text(encoding="utf-8"))
    assert {row["part"] for row in report["rows"]} == {"machine"}
    assert all(row["value"] > 0.0 for row in report["rows"])
    assert "DGEMM" in run.stdout
    assert (tmp_path / "benchmarks.png").stat().st_size > 1000


def test_command_refuses_a_part_that_it_does_not_have():
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks", "nothing"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 2
    assert "choose from: machine" in run.stderr
