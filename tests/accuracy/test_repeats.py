"""Repeats of a network: independent, reproducible, of the spread that theory says, kept in files,
and never in the way of the run."""

import h5py
import numpy as np
import pytest

import hkflow
from hkflow.analysis.summary import summary
from hkflow.plots.kinds import available
from hkflow.running import repeats

INPUTS = [[1.0, 0.2], [0.3, -1.0], [-0.8, 0.6], [-0.2, -0.9], [0.7, 0.9]]
CASE = {
    "data": {"source": "inline", "inputs": INPUTS, "targets": [1.0, -0.5, 0.4, 0.8, -0.3]},
    "objective": {"activation": "relu", "loss": "square", "bias": False},
    "domain": {"kind": "signed-sphere"},
    "method": {"kind": "network", "units": 30, "training": "gradient-descent", "step": 0.05},
    "time": {"end": 0.5, "saves": 3},
    "error": {"companions": "none"},
}


@pytest.fixture(autouse=True)
def few_points(monkeypatch):
    monkeypatch.setattr(repeats, "PER_SIGN", 200)


def run(folder, count, **method):
    """The case with so many repeats."""
    keys = CASE["method"] | {"repeats": count} | method
    return hkflow.run(CASE, output=folder, method=keys)


def test_repeats_are_the_runs_of_the_next_seeds_and_change_nothing_of_the_first(tmp_path):
    several = run(tmp_path / "several", 3)
    for k in range(3):
        alone = hkflow.run(CASE, output=tmp_path / f"{k}", seed=k)
        objective = [alone.objective_at(save, False) for save in range(3)]
        assert np.array_equal(several.repeats.values["objective"][k], objective)
        assert np.array_equal(several.repeats.values["log_mass"][k], alone.log_mass)
        if k == 0:
            assert np.array_equal(several.predictions, alone.predictions)
            assert alone.repeats is None and "width" not in available(alone)
    assert (several.repeats.std("objective") > 0.0).all()


def test_the_spread_falls_as_the_root_of_the_width_around_the_infinite_one(tmp_path):
    spreads = []
    for units in (25, 100, 400):
        found = run(tmp_path / f"{units}", 12, units=units).repeats
        spreads.append(found.std("objective"))
        off = np.abs(found.mean("objective") - found.infinite["objective"])
        assert (off <= 2.0 * found.std("objective")).all()
        assert (found.mean("distance") <= 2.0 / np.sqrt(units)).all()
    assert (found.infinite["objective_error"] < 0.1 * spreads[-1]).all()
    ratio = spreads[0] / spreads[2]  # 4; 12 networks tell a deviation to ± 22 %
    assert (ratio > 2.0).all() and (ratio < 8.0).all()


def test_repeats_of_one_seed_have_no_spread(tmp_path, monkeypatch):
    """So the tests above can fail."""
    honest = repeats._network
    monkeypatch.setattr(repeats, "_network", lambda run, k, normalised: honest(run, 0, normalised))
    found = run(tmp_path / "run", 3).repeats
    assert all(not np.ptp(values, axis=0).any() for values in found.values.values())


def test_the_band_is_students(tmp_path):
    found = run(tmp_path / "run", 2).repeats
    a, b = found.values["objective"]
    assert np.allclose(found.band("objective"), 12.7062 * np.abs(a - b) / 2.0, rtol=1e-5)


def test_normalized_units_have_an_infinite_width_and_gaussian_ones_none(tmp_path):
    few, many = (
        run(tmp_path / f"{m}", 4, layers="normalized", units=m).repeats for m in (25, 1600)
    )
    assert (many.mean("distance") < 0.4 * few.mean("distance")).all()
    gaussian = run(tmp_path / "gaussian", 2, points="gaussian").repeats
    assert "not drawn from a measure" in gaussian.without and not gaussian.infinite
    assert "distance" not in gaussian.values


def test_files_keep_them_and_a_picture_and_a_line_show_them(tmp_path):
    one = run(tmp_path / "run", 3)
    packed = hkflow.load(one.path / "results.h5")
    for name, array in one.repeats.arrays().items():
        assert np.array_equal(array, packed.repeats.arrays()[name])
    assert one.repeats.words() == packed.repeats.words()
    saves = f"{len(one.time)} saves"
    assert repr(one.repeats) == f"<Repeats: 3 networks of 30 units, {saves}, beside infinite width>"
    text = dict(summary(packed))["repeats"]
    assert text.startswith("3 networks of 30 units: objective 0.") and "(infinite width 0." in text
    axes = hkflow.plots.draw("width", packed).axes
    assert len(axes) == 2 and len(axes[0].collections) == 2 and len(axes[1].lines) == 4
    with h5py.File(one.path / "repeats.h5", "r+") as file:
        del file["objective"]
        file["objective"] = np.zeros((3, 7))
    with pytest.raises(hkflow.RunFolderError, match="objective.*repeats.*hkflow resume"):
        _ = hkflow.load(one.path).repeats
    assert len(hkflow.resume(one.path).repeats) == 3


@pytest.mark.parametrize("after", [0, 1, 2])
def test_ctrl_c_leaves_the_run_whole_and_what_is_done(tmp_path, monkeypatch, after):
    honest, count = repeats.solved, iter(range(9))

    def interrupted(*given):
        if next(count) == after:
            raise KeyboardInterrupt
        return honest(*given)

    with monkeypatch.context() as patch:
        patch.setattr(repeats, "solved", interrupted)
        one = run(tmp_path / "run", 4)
    assert one.finished and hkflow.load(one.path / "results.h5").repeats is not None
    assert len(one.repeats) == max(after, 1) and bool(one.repeats.infinite) == (after > 0)
    assert "broken off" in dict(summary(one))["repeats"]
    assert ("width" in available(one)) == (after > 1)
    assert len(hkflow.resume(one.path).repeats) == 4


@pytest.mark.parametrize(
    "change",
    [
        {"method": {"points": "quasi-uniform"}},
        {"method": {"points": "mesh"}, "domain": {"cells": 16}},
        {"initial": {"kind": "points", "positions": [[1.0, 0.0]]}, "method": {"units": None}},
    ],
)
def test_points_that_are_not_drawn_are_refused_without_stochastic_gradients(tmp_path, change):
    case = CASE | {name: CASE.get(name, {}) | table for name, table in change.items()}
    case["method"] = {k: v for k, v in case["method"].items() if v is not None and k != "units"}
    case["method"] |= {"repeats": 3}
    with pytest.raises(hkflow.CaseError, match="are not drawn, so all repeats would be the same"):
        hkflow.check(case)
    case["method"] |= {"training": "sgd", "batch": 3}
    found = hkflow.run(case, output=tmp_path / "run").repeats
    assert not found.infinite and "stochastic" in found.without
    assert len(found) == 3 and (found.std("objective")[1:] > 0.0).all()
    assert np.ptp(found.values["objective"][:, 0]) == 0.0


def test_data_that_the_seed_draws_are_the_same_for_all(tmp_path):
    case = CASE | {"data": {"source": "teacher", "n": 20, "dim": 2, "units": 2}}
    case |= {"method": CASE["method"] | {"units": 1600, "repeats": 3}}
    case["time"] = {"end": 0.5, "saves": [0.25, 0.5]}
    found = hkflow.run(case, output=tmp_path / "run").repeats
    assert (found.values["distance"] < 0.05).all() and found.values["distance"].all()
    assert (found.infinite["objective_error"] < 0.01 * found.infinite["objective"]).all()
