"""The population risk in whole runs: grid, particles, gradient flow and fresh batches, and all that
reads their folders."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from commands import hk

import hkflow
from hkflow.plots.compare import save_comparison
from hkflow.plots.overview import save_overview

CASE = """
title = "A population"
seed = 5
[data]
source = "population"
dim = {dim}
units = 3
[objective]
activation = "{activation}"
loss = "square"
weight_decay = 0.001
[domain]
kind = "signed-sphere"
cells = {cells}
[flow]
kind = "hellinger-kantorovich"
[time]
end = {end}
saves = 3
"""
PARTICLES = {"method.kind": "particles", "method.particles": 4000}
NETWORK = {"method.kind": "network", "method.units": 200, "method.points": "quasi-uniform"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A function that runs a variant of the case once and returns its Run."""
    folder, runs = tmp_path_factory.mktemp("population"), {}

    def make(name, dim=2, activation="squared-relu", cells=64, end=1.0, **overrides):
        if name not in runs:
            case = folder / f"{name}.toml"
            case.write_text(CASE.format(dim=dim, activation=activation, cells=cells, end=end))
            runs[name] = hkflow.run(case, output=folder / name, **overrides)
        return runs[name]

    return make


@pytest.mark.parametrize(
    "dim, cells, particles, end",
    [(2, (32, 64, 128), 1000, 1.0), (3, (162, 642, 2562), 2000, 0.5)],
)
def test_grid_agrees_with_particles_at_second_order(made, dim, cells, particles, end):
    tight = {"method.particles": particles, "method.tolerance": 1e-6}
    many = made(f"many{dim}", dim, end=end, **PARTICLES | tight)
    x = np.random.default_rng(0).standard_normal((400, dim))
    wanted, found = many.predict(x), []
    for n in cells:
        grid = made(f"grid{dim}-{n}", dim, cells=n, end=end, **{"method.tolerance": 1e-5})
        found.append(np.sqrt(np.mean((grid.predict(x) - wanted) ** 2)))
    order = np.log2(np.divide(found[:-1], found[1:]))
    assert np.all((order > 1.7) & (order < 2.4)), (found, order)
    off = made(f"off{dim}", dim, cells=cells[1], end=end, flow={"kind": "wasserstein"})
    assert np.sqrt(np.mean((off.predict(x) - wanted) ** 2)) > 20 * found[-1]  # it can fail


def test_the_network_is_the_particles(made):
    """Balanced units with fixed signs are the particles that they start as, to the tolerance of
    both."""
    start = {"method.points": "quasi-uniform", "method.tolerance": 1e-9}
    network = made("network", **NETWORK | start)
    particles = made(
        "two-hundred", **PARTICLES | {"method.particles": 200, "method.tolerance": 1e-9}
    )
    assert network.records["objective"][-1] == pytest.approx(
        particles.records["objective"][-1], rel=1e-7
    )
    assert network.mass == pytest.approx(particles.mass, rel=1e-7)


def test_fresh_batches_approach_the_population_flow(made):
    """SGD at t = 1 by 24 seeds: the mean risk differs from the flow's like the step, the scatter
    falls like its root."""
    network = made("network")
    wanted, steps, mean, scatter = network.records["objective"][-1], (0.08, 0.02, 0.005), [], []
    for step in steps:
        options = {"kind": "network", "training": "sgd", "step": step, "batch": 50}
        risks = [
            hkflow.solve(network.problem, 1.0, seed=seed, **options).records["objective"][-1]
            for seed in range(24)
        ]
        mean.append(np.mean(risks) - wanted)
        scatter.append(np.std(risks, ddof=1))
    mean, scatter = np.abs(mean), np.array(scatter)
    assert (
        np.all(mean < 0.25 * np.array(steps) + 4.0 * scatter / np.sqrt(24))
        and mean[0] > 10 * mean[2]
    ), (mean, scatter)
    assert 0.4 < np.polyfit(np.log(steps), np.log(scatter), 1)[0] < 0.9, scatter


@pytest.mark.parametrize(
    "activation, counts", [("relu", (250, 2000)), ("squared-relu", (500, 4000))]
)
def test_many_data_approach_the_population(made, activation, counts):
    """Predictions from n data of the same teacher scatter about the population's like n^(−1/2), as
    does a case with five times as many."""
    start = PARTICLES | {"method.particles": 30, "method.tolerance": 1e-5}
    population = made(f"limit-{activation}", activation=activation, end=0.5, **start)
    problem, rng = population.problem, np.random.default_rng(1)
    x = rng.standard_normal((400, 2))
    wanted, rms, many = population.predict(x), [], 5 * counts[-1]
    for n in counts:
        squares = []
        for _ in range(8):
            sample = hkflow.Objective(
                problem.objective.feature,
                problem.objective.risk,
                *problem.draw(rng, n),
                None,
                0.001,
            )
            solution = hkflow.solve(
                replace(problem, objective=sample), 0.5, kind="particles", tolerance=1e-5
            )
            squares.append(
                np.mean((predict(solution.atoms_at(-1), sample.feature, x) - wanted) ** 2)
            )
        rms.append(np.sqrt(np.mean(squares)))
    data = {"source": "teacher", "dim": 2, "units": 3, "n": many}
    run = made(f"data-{activation}", activation=activation, end=0.5, **start | {"data": data})
    error = np.sqrt(np.mean((run.predict(x) - wanted) ** 2)) * np.sqrt(many / counts[-1]) / rms[-1]
    assert np.polyfit(np.log(counts), np.log(rms), 1)[0] == pytest.approx(-0.5, abs=0.15), rms
    assert 0.1 < error < 2.0  # in units of what eight samples show
    few = data | {"n": counts[-1]}
    other = made(
        f"other-{activation}", activation=activation, end=0.5, **start | {"data": few, "seed": 6}
    )
    # another teacher is seen, with fewer data too
    assert np.sqrt(np.mean((other.predict(x) - wanted) ** 2)) > 10 * rms[-1]


def predict(atoms, feature, x):
    """h at inputs x."""
    return feature.matrix(atoms.positions, x) @ (atoms.signs * atoms.weights)


@pytest.mark.parametrize(
    "name, overrides",
    [
        ("grid2-64", {"cells": 64}),
        ("two-hundred", PARTICLES | {"method.particles": 200}),
        ("network", NETWORK),
        ("sgd", NETWORK | {"method.training": "sgd"}),
    ],
)
def test_folders_are_read_drawn_and_compared_without_data(made, tmp_path, name, overrides):
    run = made(name, **overrides)
    packed = hkflow.load(run.path / "results.h5")
    assert (
        run.finished
        and run.inputs.shape == packed.inputs.shape == (0, 2)
        and packed.predictions.shape == (3, 0)
    )
    assert np.isnan(run.records["training_error"]).all() and "margin" not in run.records
    x = np.random.default_rng(0).standard_normal((50, 2))
    for one in (run, packed):
        assert one.predict(x, 1) == pytest.approx(run.predict(x, 1), rel=1e-14, abs=1e-15)
        assert np.array_equal(one.problem.objective.teacher, run.problem.objective.teacher)
    assert save_overview(run, tmp_path / "overview.png").stat().st_size > 20_000
    c = hkflow.compare(run, made("grid2-32", cells=32))
    assert (
        np.isnan(c.data_max).all() and 0.0 < c.test_rms[-1] < 1.0 and "on 1600 new inputs" in str(c)
    )
    assert save_comparison(c, tmp_path / "compare.png").stat().st_size > 20_000
    out, _ = hk("info", run.path)
    assert "objective:" in out and "RMSE" not in out and "; 0 data" in out


def test_another_teacher_or_data_are_another_problem(made):
    grid = made("grid2-64", cells=64)
    for other, sentence in (
        (made("seed", cells=64, end=0.1, seed=6), "teacher of unit 0 are "),
        (
            made("units", cells=64, end=0.1, **{"data.units": 2}),
            "with a teacher of 3 units in the first and a population of 2",
        ),
        (
            made(
                "data", cells=64, end=0.1, data={"source": "teacher", "n": 5, "dim": 2, "units": 3}
            ),
            "and 5 x 2 in the second",
        ),
    ):
        with pytest.raises(hkflow.CaseError, match="not runs of the same problem") as error:
            hkflow.compare(grid, other)
        assert sentence in str(error.value)


@pytest.mark.parametrize(
    "overrides", [{}, PARTICLES | {"method.particles": 50}, NETWORK | {"method.training": "sgd"}]
)
def test_an_interrupted_run_resumes_to_the_same_bits(made, tmp_path, overrides):
    """Everything after the first save is removed, as a kill would leave it."""
    whole = made(f"whole-{len(overrides)}-{overrides.get('method.kind')}", **overrides)
    cut = tmp_path / "cut"
    shutil.copytree(whole.path, cut)
    for path in (cut / "status.json", cut / "results.h5", *sorted((cut / "snap").glob("*.h5"))[1:]):
        path.unlink()
    resumed = hkflow.resume(cut)
    for save in range(3):
        for key, value in whole.state_at(save).items():
            assert (
                np.array_equal(value, resumed.state_at(save)[key])
                if isinstance(value, np.ndarray)
                else True
            )
    assert np.array_equal(resumed.records["objective"], whole.records["objective"])


@pytest.mark.parametrize(
    "overrides, message",
    [
        ({"objective.loss": "logistic"}, "needs the loss 'square' and no bias"),
        ({"objective.bias": True}, "needs the loss 'square' and no bias"),
        ({"objective.activation": "linear"}, "Unknown feature of a population risk 'linear'"),
        ({"data.n": 10}, "data.n: unknown key"),
        ({"data.dim": 1}, "data.dim"),
        ({"method.imex": "implicit"}, "a population risk"),
    ],
)
def test_what_a_population_cannot_be_is_said(tmp_path, overrides, message):
    path = tmp_path / "case.toml"
    path.write_text(CASE.format(dim=2, activation="relu", cells=16, end=1.0))
    with pytest.raises(hkflow.CaseError, match=message):
        hkflow.run(path, output=tmp_path / "run", **overrides)
