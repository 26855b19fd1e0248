import numpy as np
import pytest
from scipy.integrate import solve_ivp

from hkflow import Flow, MomentFlow, circle_mesh


@pytest.mark.parametrize(
    "d, alpha, beta, wanted",
    [(1, 1, 4, -0.18401811), (2, 1, 4, -0.22241469), (2, 1, 0, -0.56022277), (3, 1, 2, -0.34825604)],
)
def test_parameter_reproduces_the_reference_values(d, alpha, beta, wanted):
    flow = MomentFlow(np.eye(d + 1)[0], 0.5, Flow(alpha, beta))
    assert flow.parameter([2.0])[0] == pytest.approx(wanted, abs=1e-8)


@pytest.mark.parametrize("alpha, beta", [(1.0, 0.0), (1.0, 4.0), (0.5, 3.0), (0.0, 4.0)])
def test_closed_form_agrees_with_weighted_particles(alpha, beta):
    """Particles on the circle, integrated by scipy, know nothing of the formula; moments agree to quadrature accuracy."""
    n, m_star, e = 200, 0.8, np.array([0.6, -0.8])
    angles = (np.arange(n) + 0.5) * 2 * np.pi / n

    def rate(_, state):
        theta = np.array([np.cos(state[:n]), np.sin(state[:n])])
        turn = np.array([-theta[1], theta[0]])
        force = theta @ np.exp(state[n:]) - m_star * e
        return np.concatenate([-alpha * (force @ turn), -beta * (force @ theta)])

    start = np.concatenate([angles, np.full(n, -np.log(n))])
    end = solve_ivp(rate, (0, 1.5), start, rtol=1e-11, atol=1e-13, method="DOP853").y[:, -1]
    weights = np.exp(end[n:])
    mesh = circle_mesh(512)
    density = MomentFlow(e, m_star, Flow(alpha, beta)).density(mesh.centers, 1.5)
    for test in (lambda x: 1 + 0 * x[0], lambda x: x[0], lambda x: x[1] ** 3, lambda x: np.exp(x[0] - x[1])):
        particles = weights @ test(np.array([np.cos(end[:n]), np.sin(end[:n])]))
        assert (density * mesh.volumes) @ test(mesh.centers.T) == pytest.approx(particles, rel=1e-9)


def test_reaction_four_is_not_reaction_two():
    four, two = (MomentFlow(np.array([1.0, 0, 0]), 0.5, Flow(1, beta)).parameter([2.0])[0] for beta in (4, 2))
    assert abs(four - two) > 0.05


def test_noise_has_no_closed_form():
    with pytest.raises(ValueError, match="no noise"):
        MomentFlow(np.array([1.0, 0.0]), 0.5, Flow(1.0, 1.0, 0.1))
