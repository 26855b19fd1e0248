"""Networks in raw parameters against the particles that they are another way of writing."""

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from agreement import objective, particle_problem

import hkflow
from hkflow.methods.network.network import network_flow

TIME = 1.0
BALANCED = {
    "relu": hkflow.Flow(1.0, 2.0),
    "squared-relu": hkflow.Flow(1.0, 4.0),
    "linear": hkflow.Flow(1.0, 2.0),
}


def regression(activation, decay=0.0, seed=5):
    o = objective(1, activation, 30, seed)
    return hkflow.Objective(o.feature, o.risk, o.inputs, o.targets, None, decay)


def predictions(problem, **method):
    s = hkflow.solve(problem, TIME, **method)
    assert s.finished, s.status
    return s.predictions[-1]


TIGHT = {"stepper": "dop853", "tolerance": 1e-10}


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize(
    "activation, error", [("linear", 1e-8), ("squared-relu", 5e-8), ("relu", 2e-4)]
)
def test_a_balanced_network_is_the_weighted_particles(activation, error, decay):
    """ẇ = −m ∂F/∂w and θ̇ = −∇J, d log weight/dt = −βJ are one flow; ReLU sticks to kinks, where
    steps chatter."""
    problem = particle_problem(regression(activation, decay), BALANCED[activation], 60)
    options = TIGHT if activation != "relu" else {"tolerance": 1e-7}
    particles, network = (
        predictions(problem, kind=kind, **options) for kind in ("particles", "network")
    )
    assert np.abs(particles - network).max() < error
    wrong = particle_problem(
        regression(activation, decay), hkflow.Flow(1.0, 6.0 - BALANCED[activation].reaction), 60
    )
    assert np.abs(predictions(wrong, kind="particles") - network).max() > 1e-2


def test_gradient_descent_follows_the_flow_with_an_error_linear_in_its_step():
    for activation in ("squared-relu", "relu"):
        problem = particle_problem(regression(activation), BALANCED[activation], 60)
        wanted = predictions(
            problem, kind="particles", tolerance=1e-8 if activation == "squared-relu" else 1e-7
        )
        steps = [0.02, 0.01, 0.005, 0.0025]
        errors = [
            np.abs(
                predictions(problem, kind="network", training="gradient-descent", step=h) - wanted
            ).max()
            for h in steps
        ]
        slope = np.polyfit(np.log(steps), np.log(errors), 1)[0]
        assert 0.9 < slope < 1.1, (activation, errors)


def test_sgd_scatters_around_the_flow_like_the_root_of_step_over_batch():
    """Standard deviation over seeds ∝ (η/B)^½, bias O(η): against η at fixed B, and against B at
    fixed η."""
    problem = particle_problem(regression("squared-relu"), BALANCED["squared-relu"], 20)
    mean = predictions(problem, kind="particles", tolerance=1e-8)

    @cache
    def scatter(step, batch):
        options = {"kind": "network", "training": "sgd", "step": step, "batch": batch}
        runs = [
            predictions(problem, seed=seed, record_interval=TIME, **options) for seed in range(40)
        ]
        return np.sqrt(np.mean(np.var(runs, axis=0, ddof=1))), np.mean(runs, axis=0)

    steps, batches = [0.016, 0.008, 0.002], [4, 16, 64]
    by_step = [scatter(step, 16)[0] for step in steps]
    assert 0.4 < np.polyfit(np.log(steps), np.log(by_step), 1)[0] < 0.6, by_step
    by_batch = [scatter(0.008, batch)[0] for batch in batches]
    assert -0.6 < np.polyfit(np.log(batches), np.log(by_batch), 1)[0] < -0.4, by_batch
    deviation, average = scatter(0.002, 64)
    bias = np.abs(average - mean).max()
    assert bias < 5 * deviation / np.sqrt(40) + 0.005


def test_one_step_of_sgd_scatters_like_the_gradients_of_single_data():
    """Mean −η g and standard deviation η (Var g_i / B)^½ over 600 seeds, g_i the gradient of one
    datum times Σq."""
    o = regression("squared-relu")
    doubled = hkflow.Objective(o.feature, o.risk, o.inputs, o.targets, 2.0 * o.weights)
    problem = particle_problem(doubled, BALANCED["squared-relu"], 5)
    step, batch, units = 0.01, 4, problem_units(problem)
    h = o.feature.matrix(units[0], o.inputs) @ units[1] / len(units[1])
    s = np.maximum(units[0] @ o.inputs.T, 0.0)
    each = (
        2.0
        * (h - o.targets)[:, None, None]
        * 2.0
        * (units[1][:, None] * s).T[:, :, None]
        * o.inputs[:, None, :]
    )
    runs = [
        hkflow.solve(
            problem, step, kind="network", training="sgd", step=step, batch=batch, seed=seed
        ).states[-1]["hidden"]
        for seed in range(600)
    ]
    moved = np.array(runs) - units[0]
    deviation = step * each.std(axis=0) / np.sqrt(batch)
    live = deviation > 1e-3 * deviation.max()
    assert np.all(
        np.abs(moved.mean(axis=0) + step * each.mean(axis=0))[live]
        < 5.0 * (deviation / np.sqrt(600))[live]
    )
    assert np.allclose(moved.std(axis=0)[live] / deviation[live], 1.0, atol=0.15)


def test_sgd_draws_from_the_distribution_or_from_the_data():
    o = regression("relu")
    rows = []

    def draw(rng, n):
        rows.append(n)
        return rng.normal(size=(n, 2)), np.ones(n)

    problem = particle_problem(o, hkflow.Flow(1.0, 2.0), 10)
    fresh = hkflow.Problem(None, o, problem.flow, (1, -1), problem.initial, draw=draw)
    a = hkflow.solve(fresh, 0.1, kind="network", training="sgd", step=0.01, batch=7)
    assert rows == [7] * 10 and a.records["step"][-1] == 10
    b = hkflow.solve(problem, 0.1, kind="network", training="sgd", step=0.01, batch=7)
    assert not np.array_equal(a.predictions, b.predictions)
    c = hkflow.solve(problem, 0.1, kind="network", training="sgd", step=0.01, batch=7)
    assert np.array_equal(c.predictions, b.predictions)


@pytest.mark.parametrize(
    "draw, why",
    [
        (lambda rng, n: (np.full((n, 2), np.nan), np.ones(n)), "must be finite"),
        (lambda rng, n: (rng.normal(size=(n, 3)), np.ones(n)), r"got inputs of the shape \(5, 3\)"),
        (lambda rng, n: (rng.normal(size=(1, 2)), np.ones(1)), r"got inputs of the shape \(1, 2\)"),
        (lambda rng, n: (rng.normal(size=(n, 2)), np.ones((n, 1))), "5 targets and weights, got"),
        (lambda rng, n: (rng.normal(size=(n, 2)) + 0j, np.ones(n)), "complex"),
        (lambda rng, n: None, "cannot unpack"),
    ],
)
def test_a_batch_that_is_none_is_told(draw, why):
    """ReLU took inputs that are no numbers for inactive."""
    problem = particle_problem(regression("relu"), hkflow.Flow(1.0, 2.0), 10)
    problem = replace(problem, draw=draw)
    with pytest.raises(ValueError, match=r"draw\(rng, 5\) must give inputs \(5, 2\)") as error:
        hkflow.solve(problem, 0.1, kind="network", training="sgd", step=0.01, batch=5)
    assert re.search(why, str(error.value))


def test_a_batch_may_be_lists():
    problem = particle_problem(regression("relu"), hkflow.Flow(1.0, 2.0), 10)

    def draw(rng, n):
        return rng.normal(size=(n, 2)), np.ones(n)

    def lists(rng, n):
        return tuple(one.tolist() for one in draw(rng, n))

    how = {"kind": "network", "training": "sgd", "step": 0.01, "batch": 5}
    a, b = (hkflow.solve(replace(problem, draw=one), 0.1, **how) for one in (draw, lists))
    assert np.array_equal(a.predictions, b.predictions)


def test_a_descent_takes_exactly_its_steps():
    problem = particle_problem(regression("relu"), hkflow.Flow(1.0, 2.0), 10)
    s = hkflow.solve(problem, 1.0, kind="network", training="gradient-descent", step=0.003)
    assert s.records["step"][-1] == 334  # 333 of 0.003 and one of 0.001
    hidden, output = problem_units(problem)
    x, y = problem.objective.inputs, problem.objective.targets
    for k in range(40):
        step, m = 0.05 / np.sqrt(k + 1), len(output)
        on = hidden @ x.T > 0
        r = ((output / m) @ np.where(on, hidden @ x.T, 0.0) - y) / len(y)
        hidden, output = (
            hidden - step * output[:, None] * ((on * r) @ x),
            output - step * np.where(on, hidden @ x.T, 0.0) @ r,
        )
    end = float(np.sum(0.05 / np.sqrt(np.arange(40) + 1)))
    s = hkflow.solve(
        problem,
        end,
        kind="network",
        training="gradient-descent",
        step=0.05,
        schedule="inverse-sqrt",
    )
    assert s.records["step"][-1] == 40
    assert np.allclose(s.states[-1]["hidden"], hidden, rtol=1e-11) and np.allclose(
        s.states[-1]["output"], output, rtol=1e-11
    )


def problem_units(problem):
    units = hkflow.Units.of(problem.atoms(), problem.objective.feature.degree)
    return units.hidden, units.output


def test_a_descent_that_blows_up_stops_with_a_sentence_and_keeps_its_step():
    problem = particle_problem(regression("squared-relu"), hkflow.Flow(1.0, 4.0), 10)
    s = hkflow.solve(problem, 1e5, kind="network", training="gradient-descent", step=100.0)
    assert (
        not s.finished
        and s.status.startswith("Stopped at t = 0 after 0 steps: ")
        and "finite" in s.status
    )


def test_output_layer_alone_is_linear_least_squares():
    """ḃ = −∂F/∂(b/m): the predictions obey ḣ = −K (h − y)/n with the kernel K = (1/m) ΦΦᵀ, solved
    by the matrix exponential."""
    o, rng = regression("relu"), np.random.default_rng(3)
    units = hkflow.Units(rng.normal(size=(50, 2)), rng.normal(size=50))
    s = hkflow.solve(
        hkflow.Problem(None, o, hkflow.Flow(0.0, 0.0), (1, -1), units),
        TIME,
        kind="network",
        layers="output",
        tolerance=1e-10,
    )
    phi = np.maximum(o.inputs @ units.hidden.T, 0.0)
    values, vectors = np.linalg.eigh(phi @ phi.T / 50)
    decay = vectors @ (
        np.exp(-values * TIME / len(o.targets))
        * (vectors.T @ (phi @ units.output / 50 - o.targets))
    )
    assert np.abs(s.predictions[-1] - o.targets - decay).max() < 1e-8
    assert np.array_equal(s.states[-1]["hidden"], units.hidden)


def test_normalized_units_freeze_as_they_grow_in_number():
    """2-homogeneity paper, eq. 1: |v| is constant, and for m → ∞ the directions stand still:
    Hellinger flow with β = 2."""
    o, errors = regression("squared-relu"), []
    for n in (20, 80, 320):
        problem = particle_problem(o, hkflow.Flow(0.0, 2.0), n)
        s = hkflow.solve(problem, TIME, kind="network", layers="normalized", tolerance=1e-9)
        assert np.abs(np.linalg.norm(s.states[-1]["hidden"], axis=1) - 1.0).max() < 1e-8
        errors.append(
            np.abs(s.predictions[-1] - predictions(problem, kind="particles", tolerance=1e-9)).max()
        )
    assert np.all(np.abs(np.log(np.divide(errors[:-1], errors[1:])) / np.log(4) - 1.0) < 0.2), (
        errors
    )


@pytest.mark.parametrize("activation", ["relu", "squared-relu"])
def test_a_network_and_its_measure_predict_the_same(activation, rng):
    o = regression(activation)
    units = hkflow.Units.gaussian(rng, 40, 2, o.feature.degree, scale=3.0)
    atoms = units.atoms(o.feature.degree)
    direct = (units.output / 40) @ o.feature.matrix(units.hidden, o.inputs).T
    assert np.allclose(
        (atoms.signs * atoms.weights) @ o.feature.matrix(atoms.positions, o.inputs).T,
        direct,
        rtol=1e-12,
        atol=1e-13,
    )
    again = hkflow.Units.of(atoms, o.feature.degree, balance=2.0).atoms(o.feature.degree)
    assert np.allclose(again.positions, atoms.positions, rtol=1e-13) and np.allclose(
        again.weights, atoms.weights, rtol=1e-13
    )
    assert np.array_equal(again.signs, atoms.signs)
    unbalanced = hkflow.Units.of(atoms, 1, balance=2.0)
    assert np.allclose(
        np.abs(unbalanced.output) / np.linalg.norm(unbalanced.hidden, axis=1), 2.0, rtol=1e-13
    )


def test_units_drawn_from_a_density_have_its_moments(rng):
    for mesh in (hkflow.circle_mesh(32), hkflow.geodesic_mesh(2)):
        e = np.eye(mesh.dim + 1)[0]
        density = np.stack([np.exp(2.0 * mesh.centers @ e), 0.5 * np.exp(-mesh.centers @ e)])
        drawn = hkflow.sampled(rng, 200_000, mesh, (1, -1), density)
        masses = density * mesh.volumes
        assert drawn.mass == pytest.approx(masses.sum(), rel=1e-12)
        wanted = (masses * np.array([[1.0], [-1.0]])).sum(axis=0) @ mesh.centers
        assert np.abs(drawn.moment() - wanted).max() < 0.012 * drawn.mass
        from scipy.spatial import cKDTree

        cell = cKDTree(mesh.centers).query(drawn.positions)[1]
        assert (
            np.abs(
                np.bincount(cell, minlength=mesh.n_cells) / 200_000
                - masses.sum(axis=0) / masses.sum()
            ).max()
            < 4e-3
        )
        density[0] = 0.0
        alone = hkflow.sampled(rng, 100, mesh, (1, -1), density)
        assert (alone.signs == -1.0).all() and alone.mass == pytest.approx(masses[1].sum())


def test_what_is_no_network_is_refused():
    o = regression("relu")
    problem = particle_problem(o, hkflow.Flow(1.0, 2.0), 10)
    for options, message in (
        ({"layers": "bth"}, "Unknown layers 'bth'. Did you mean 'both'"),
        ({"training": "adam"}, "Unknown training 'adam'"),
        ({"schedule": "cosine"}, "Unknown schedule 'cosine'"),
        ({"stepper": "rk4"}, "Unknown stepper 'rk4'"),
        ({"stepper": "euler"}, "takes fixed steps"),
    ):
        with pytest.raises(ValueError, match=message):
            hkflow.Network(problem, **options)
    for options, message in (
        ({"layers": "output"}, "follows transport 0, reaction 0 and no noise"),
        ({"training": "sgd", "max_step": 0.1}, "training = 'gradient-flow' alone reads 'max_step'"),
    ):
        with pytest.raises(ValueError, match=message):
            hkflow.Network(problem, **options)
    driven = hkflow.Flow(1.0, 2.0, drive="measure")
    with pytest.raises(ValueError, match="no noise or drive; got drive 'measure'"):
        hkflow.Network(replace(problem, flow=driven))
    tanh = hkflow.Feature("tanh", lambda theta, x: np.tanh(x @ theta.T))
    other = hkflow.Objective(tanh, o.risk, o.inputs, o.targets)
    with pytest.raises(ValueError, match="degree 1 or 2"):
        hkflow.Network(hkflow.Problem(None, other, problem.flow, (1, -1), problem.initial))
    with pytest.raises(ValueError, match="gradient of the feature 'tanh'"):
        hkflow.Particles(hkflow.Problem(None, other, problem.flow, (1, -1), problem.initial))
    with pytest.raises(ValueError, match="signs=\\(1, -1\\)"):
        hkflow.Network(
            hkflow.Problem(
                None, o, problem.flow, (1,), hkflow.PointMeasure(hkflow.quasi_uniform(5, 1))
            )
        )


def test_particles_of_a_feature_by_functions_agree_with_the_compiled_one():
    o = regression("squared-relu")
    named = hkflow.Feature(
        "mine",
        o.feature.matrix,
        2,
        pullback=lambda theta, x, r: 2.0 * (r * np.maximum(theta @ x.T, 0.0)) @ x,
    )
    mine = hkflow.Objective(named, o.risk, o.inputs, o.targets)
    one, two = (
        predictions(particle_problem(obj, hkflow.Flow(1.0, 4.0), 30), kind="particles")
        for obj in (o, mine)
    )
    assert np.allclose(one, two, rtol=1e-10)


def test_a_descent_that_diverges_names_its_own_step(tmp_path):
    """The sentence named the length of several steps between two looks."""
    case, words = "cases/icm/fig2.toml", {"companions": "none"}
    method = {"kind": "network", "training": "gradient-descent", "step": 50.0, "units": 10}
    end = {"end": 2000.0, "saves": 2}
    run = hkflow.run(case, output=tmp_path / "run", method=method, time=end, error=words)
    assert not run.finished and "with the fixed step of 50;" in run.status


@pytest.mark.parametrize("layers, end", [("both", 4.0), ("normalized", 8.0), ("radii", 4.0)])
def test_small_units_are_as_exact_as_large_ones(layers, end):
    """From a mass of 1e-16 log masses were off by 0.08, 0.18 and 0.28: errors counted relative to
    1, and J makes them grow with the units."""
    problem = particle_problem(regression("squared-relu"), network_flow(layers, 2), 10)
    problem = replace(problem, initial=problem.initial.scaled_to(1e-16))
    options = {"kind": "network", "layers": layers}, {"kind": "particles", "tolerance": 1e-9}
    runs = [hkflow.solve(problem, end, 2, **one) for one in options]
    network, particles = (run.records["log_mass"] for run in runs)
    assert all(run.finished for run in runs) and particles[-1] > particles[0] + 20.0
    assert abs(network[-1] - particles[-1]) < 1e-4


def test_units_that_are_zero_stay():
    """Errors of theirs count relative to 1."""
    units = hkflow.Units(np.array([[0.0, 0.0], [0.6, 0.8]]), np.array([0.0, 1.0]))
    problem = replace(particle_problem(regression("relu"), BALANCED["relu"], 10), initial=units)
    solution = hkflow.solve(problem, TIME, 2, kind="network")
    assert solution.finished and solution.state_at(-1)["output"][0] == 0.0
