"""The grid against an independent Lagrangian integration: the same flow, no line of code in common."""

import numpy as np
from conftest import order
from scipy.integrate import solve_ivp

import hkflow

TIME = 1.0


def teacher_data():
    rng = np.random.default_rng(5)
    x = np.column_stack([rng.normal(size=40), np.ones(40)])
    units = rng.normal(size=(3, 2))
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    return x, np.maximum(x @ units.T, 0.0) ** 2 @ np.array([1.0, -1.0, 1.0])


def particle_predictions(x, y, alpha=1.0, beta=2.0, n=750):
    """Predictions at the end of 2n deterministic particles on the signed circle: θ̇ = −α∇J, d log w/dt = −βJ."""
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
    end = solve_ivp(rate, (0, TIME), start, method="DOP853", rtol=1e-9, atol=1e-11).y[:, -1]
    return activation(end[: 2 * n]) ** 2 @ (signs * np.exp(end[2 * n :]))


def grid_errors(wanted, x, y, flow):
    objective = hkflow.Objective(hkflow.FEATURES["squared-relu"], hkflow.RISKS["square"], x, y)
    errors = []
    for cells in (64, 128, 256, 512):
        s = hkflow.solve(hkflow.Problem(hkflow.circle_mesh(cells), objective, flow, (1, -1)), TIME)
        errors.append(np.abs(s.predictions[-1] - wanted).max())
    return errors


def test_grid_converges_to_particles_at_second_order_and_only_for_the_right_flow():
    x, y = teacher_data()
    wanted = particle_predictions(x, y)
    errors = grid_errors(wanted, x, y, hkflow.Flow(1.0, 2.0))
    assert np.all((order(errors) > 1.8) & (order(errors) < 2.3)), order(errors)
    assert errors[-1] < 1e-4
    wrong = grid_errors(wanted, x, y, hkflow.Flow(1.0, 4.0))
    assert wrong[-1] > 100 * errors[-1]
