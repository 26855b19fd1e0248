"""Grid and particles solve the same problems: they share the objective and the flow, and nothing of
the method."""

import numpy as np
import pytest
from agreement import errors, grid_problem, objective, particle_problem, slope

import hkflow

FLOWS = [(1.0, 2.0), (1.0, 0.0), (0.0, 2.0)]
NOISE = {
    1: {"noise_points": 200, "noise_interval": 0.025},
    2: {"noise_points": 500, "noise_interval": 0.05},
}


@pytest.mark.parametrize("sigma", [0.0, 0.1])
@pytest.mark.parametrize("rates", FLOWS, ids=["hellinger-kantorovich", "wasserstein", "hellinger"])
@pytest.mark.parametrize("dim", [1, 2])
def test_squared_relu_agrees_at_second_order(dim, rates, sigma):
    cells, particles = {1: ((64, 128, 256), 1000), 2: ((642, 2562), 5000)}[dim]
    if rates[0] == 0.0:  # on finer ones the particles err as much
        cells = {1: (32, 64, 128), 2: (162, 642)}[dim]
    found = errors(
        [objective(dim, "squared-relu", 40, 5)],
        hkflow.Flow(*rates, sigma),
        cells,
        particles,
        tolerance=1e-8,
        **NOISE[dim],
    )
    order = slope(cells, found, dim)
    assert order > 1.8, (found, order)
    # without transport the cells are a quadrature, which may do better
    assert order < 2.3 or rates[0] == 0.0


@pytest.mark.parametrize("sigma", [0.0, 0.1])
@pytest.mark.parametrize("rates", FLOWS, ids=["hellinger-kantorovich", "wasserstein", "hellinger"])
@pytest.mark.parametrize("dim", [1, 2])
def test_relu_agrees_at_first_order(dim, rates, sigma):
    """The gradient jumps where a datum's half-space ends. On the circle the jumps are resolved,
    there are few of them."""
    cells, n, particles = {
        1: ((256, 512, 1024), 6, 2000),
        2: ((162, 642, 2562), 20, 2500),
    }[dim]
    objectives = [objective(dim, "relu", n, seed) for seed in range(4 - dim)]
    # without transport the errors are a hundred times smaller
    grid = 1e-5 if rates[0] > 0.0 else 1e-7
    if dim == 1 and rates[0] == 0.0:
        cells = (64, 128, 256)
    # of the one that captures: see the next test
    stepper = "ssprk3" if dim == 1 and rates[0] > 0.0 else "muscl-hancock"
    found = errors(
        objectives,
        hkflow.Flow(*rates, sigma),
        cells,
        particles,
        stepper=stepper,
        grid=grid,
        tolerance=1e-5,
        **NOISE[dim],
    )
    assert slope(cells, found, dim) > 0.9, (found, slope(cells, found, dim))


@pytest.mark.parametrize("rates", FLOWS[:2], ids=["hellinger-kantorovich", "wasserstein"])
def test_a_grid_that_captures_agrees_at_first_order_and_errs_less_than_one_that_does_not(rates):
    """The finest meshes are nearer to the limit than 2000 particles for each sign are."""
    objectives, cells, flow = (
        [objective(1, "relu", 6, seed) for seed in range(5)],
        (256, 512, 1024),
        hkflow.Flow(*rates),
    )
    options = {"kind": "characteristics", "tolerance": 1e-5}
    wanted = [
        hkflow.solve(particle_problem(obj, flow, 8000), 1.0, **options).predictions[-1]
        for obj in objectives
    ]

    def error(count, **options):
        found = [
            hkflow.solve(grid_problem(obj, flow, count), 1.0, tolerance=1e-5, **options)
            for obj in objectives
        ]
        differences = [f.predictions[-1] - w for f, w in zip(found, wanted, strict=True)]
        return np.sqrt(np.mean(np.square(differences)))

    found = [error(count) for count in cells]
    print(f"α, β = {rates}: errors {found}, order {slope(cells, found, 1):.3f}")
    assert slope(cells, found, 1) > 0.9 and found[1] < 0.75 * error(cells[1], stepper="ssprk3")


def test_sibling_the_wrong_flow_is_seen():
    obj = objective(1, "squared-relu", 40, 5)
    right = hkflow.solve(
        particle_problem(obj, hkflow.Flow(1.0, 2.0), 1000), 1.0, kind="particles"
    ).predictions[-1]
    near, wrong = (
        hkflow.solve(grid_problem(obj, hkflow.Flow(1.0, beta), 256), 1.0).predictions[-1]
        for beta in (2.0, 4.0)
    )
    assert np.abs(wrong - right).max() > 100 * np.abs(near - right).max()


def particle_predictions(x, y, alpha=1.0, beta=2.0, n=750):
    """2n deterministic particles on the signed circle by scipy: θ̇ = −α∇J, d log w/dt = −βJ; no
    line in common with hkflow."""
    from scipy.integrate import solve_ivp

    angles = np.tile((np.arange(n) + 0.5) * 2 * np.pi / n, 2)
    signs = np.repeat([1.0, -1.0], n)

    def activation(a):
        return np.maximum(x @ np.array([np.cos(a), np.sin(a)]), 0.0)

    def rate(_, state):
        a, log_w = state[: 2 * n], state[2 * n :]
        s = activation(a)
        g = (s**2 @ (signs * np.exp(log_w)) - y) / len(y)
        slope = 2 * s * (x @ np.array([-np.sin(a), np.cos(a)]))
        return np.concatenate([-alpha * signs * (g @ slope), -beta * signs * (g @ s**2)])

    start = np.concatenate([angles, np.full(2 * n, -np.log(2 * n))])
    end = solve_ivp(rate, (0, 1.0), start, method="DOP853", rtol=1e-10, atol=1e-12).y[:, -1]
    return activation(end[: 2 * n]) ** 2 @ (signs * np.exp(end[2 * n :]))


def test_the_tight_particles_agree_with_scipy():
    """To the 1e-8 that DOP853 has on squared ReLU, whose second derivative jumps."""
    obj = objective(1, "squared-relu", 40, 5)
    problem = particle_problem(obj, hkflow.Flow(1.0, 2.0), 750)
    wanted = particle_predictions(obj.inputs, obj.targets)
    for stepper in ("dopri5", "dop853"):
        s = hkflow.solve(problem, 1.0, kind="particles", stepper=stepper, tolerance=1e-10)
        assert np.abs(s.predictions[-1] - wanted).max() < 2e-8
    loose = hkflow.solve(problem, 1.0, kind="particles", tolerance=1e-4)
    assert np.abs(loose.predictions[-1] - wanted).max() > 1e-7
