"""Bach & Chizat 2022, Fig. 2, with a fifth of its data and for a quarter of its time: wide networks
end where the infinitely wide one does, five units need not."""

from conftest import ROOT

import hkflow


def final_objective(name, folder):
    case = ROOT / "cases" / "icm" / f"{name}.toml"
    small = {"data.n": 200, "time.end": 100.0, "time.saves": 2, "error.companions": "none"}
    run = hkflow.run(case, output=folder / name, **small)
    assert run.finished, run.status
    return run.records["objective"][-1]


def test_a_thousand_particles_end_where_the_grid_does_and_five_stay_stuck(tmp_path):
    names = ("fig2-m1000", "fig2-m5", "fig2")
    wide, narrow, grid = (final_objective(name, tmp_path) for name in names)
    assert abs(wide / grid - 1.0) < 0.03, (grid, wide)
    assert grid < 3e-4 and narrow > 0.17  # of 0.37 at the start
