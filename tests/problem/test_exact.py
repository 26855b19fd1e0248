import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import roots_jacobi

from hkflow import Flow, MomentFlow, circle_mesh
from hkflow.geometry.sphere import surface_area


@pytest.mark.parametrize(
    "d, alpha, beta, wanted",
    [
        (1, 1, 4, -0.18401811),
        (2, 1, 4, -0.22241469),
        (2, 1, 0, -0.56022277),
        (3, 1, 2, -0.34825604),
    ],
)
def test_parameter_reproduces_the_reference_values(d, alpha, beta, wanted):
    flow = MomentFlow(np.eye(d + 1)[0], 0.5, Flow(alpha, beta))
    assert flow.parameter([2.0])[0] == pytest.approx(wanted, abs=1e-8)


@pytest.mark.parametrize("alpha, beta", [(1.0, 0.0), (1.0, 4.0), (0.5, 3.0), (0.0, 4.0)])
def test_closed_form_agrees_with_weighted_particles(alpha, beta):
    """Particles on the circle, integrated by scipy, know nothing of the formula; moments agree to
    quadrature accuracy."""
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
    for test in (
        lambda x: 1 + 0 * x[0],
        lambda x: x[0],
        lambda x: x[1] ** 3,
        lambda x: np.exp(x[0] - x[1]),
    ):
        particles = weights @ test(np.array([np.cos(end[:n]), np.sin(end[:n])]))
        assert (density * mesh.volumes) @ test(mesh.centers.T) == pytest.approx(particles, rel=1e-9)


def test_reaction_four_is_not_reaction_two():
    four, two = (
        MomentFlow(np.array([1.0, 0, 0]), 0.5, Flow(1, beta)).parameter([2.0])[0] for beta in (4, 2)
    )
    assert abs(four - two) > 0.05


def test_other_depths_have_no_closed_form():
    with pytest.raises(ValueError, match="needs depth 2, got 3"):
        MomentFlow(np.array([1.0, 0.0]), 0.5, Flow(0.0, 9.0, depth=3.0))


@pytest.mark.parametrize("direction", [[0.0, 0.0], [np.nan, 1.0], [[1.0, 0.0]]])
def test_what_is_no_direction_is_refused(direction):
    with pytest.raises(ValueError, match="must be a finite vector that is not 0"):
        MomentFlow(direction, 0.5, Flow(1.0))


DIMENSIONS = (1, 2, 3)
FLOWS = [
    Flow(1.0, 4.0, 0.3),
    Flow(0.5, 0.0, 0.7),
    Flow(0.0, 4.0, 0.3),
    Flow(1.0, 4.0, 0.3, drive="measure"),
    Flow(1.0, 4.0, drive="probability"),
    Flow(0.0, 4.0, drive="probability"),
    Flow(0.5, 3.0, 0.7, drive="probability"),
    Flow(0.0, 4.0, 0.3, drive="probability"),
]


def off_axis(d, flow, target=0.8):
    return MomentFlow(np.arange(1.0, d + 2.0), target, flow)


def height_rule(d, n=80):
    """Gauss–Jacobi nodes u and weights of the uniform probability on S^d, ∫f(e·θ) dU = Σ w f(u)."""
    u, w = roots_jacobi(n, 0.5 * d - 1, 0.5 * d - 1)
    return u, w / w.sum()


def profile(exact, u, time):
    """|S^d| ν_t at points of height u over the equator of e."""
    e = exact.direction
    equator = np.linalg.svd(e[None])[2][1]
    return exact.density(
        u[:, None] * e + np.sqrt(1 - u**2)[:, None] * equator, time
    ) * surface_area(exact.dim)


def collocated(exact, u, w, time):
    """|S^d| ν_t at the nodes u by polynomial collocation of the equation in u, which knows of no
    flow map and no births:

    ∂_t f = c (α ((1 − u²) f′ − d u f) − β u f) + β mean f − σ f + σ,   c = M − m*,   mean = c M for
    "probability", else 0
    """
    flow, gap = exact.flow, u[:, None] - u + np.eye(len(u))
    logs = np.log(np.abs(gap)).sum(axis=1)
    sign = (-1.0) ** np.arange(len(u))
    derivative = np.outer(sign, sign) * np.exp(logs[:, None] - logs) / gap
    derivative -= np.diag(derivative.sum(axis=1))
    transport = (1 - u**2)[:, None] * derivative - exact.dim * np.diag(u)

    def rate(_, f):
        c = (w * u) @ f - exact.target
        mean = c * (c + exact.target) if flow.drive == "probability" else 0.0
        moved = c * (flow.transport * (transport @ f) - flow.reaction * u * f)
        return moved + flow.reaction * mean * f + flow.noise * (1 - f)

    return solve_ivp(rate, (0, time), np.ones(len(u)), rtol=1e-13, atol=1e-14, method="DOP853").y[
        :, -1
    ]


@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("flow", FLOWS, ids=str)
def test_density_agrees_with_collocation_in_the_height(d, flow):
    exact, time = off_axis(d, flow), 2.0
    u, w = height_rule(d)
    wanted = collocated(exact, u, w, time)
    assert profile(exact, u, time) == pytest.approx(wanted, rel=1e-10, abs=0)
    assert exact.mass_and_moment(time) == pytest.approx(
        (w @ wanted, (w * u) @ wanted), rel=1e-12, abs=0
    )


@pytest.mark.parametrize(
    "rates, target, time",
    [((1, 4, 0.1), 0.5, 50.0), ((1, 4, 30), 0.5, 5.0), ((0, 4, 2), -5.0, 10.0)],
)
def test_long_times_strong_noise_and_large_targets_stay_accurate(rates, target, time):
    """The integral over the births, a quadrature of its own, has the mass and moment found along
    the labels."""
    exact = off_axis(2, Flow(*rates), target)
    u, w = height_rule(2, 200)
    density = profile(exact, u, time)
    assert exact.mass_and_moment(time) == pytest.approx(
        (w @ density, (w * u) @ density), rel=1e-10, abs=0
    )


def test_births_far_from_where_they_end_are_counted():
    """Noise keeps M away from m*, so κ drifts for ever (here to −13), while without reaction the
    mass stays one."""
    exact = off_axis(3, Flow(1.0, 0.0, 0.1), 0.9)
    assert exact.parameter(60.0)[0] < -13.0
    assert exact.mass_and_moment(60.0)[0] == pytest.approx(1.0, rel=1e-12)
    assert exact.mass_and_moment(60.0)[1] < 0.7


def time_derivative(f, time, step=0.01):
    """f′ by central differences of order 6."""
    terms = ((1, 45), (2, -9), (3, 1))
    return sum(c * (np.asarray(f(time + k * step)) - f(time - k * step)) for k, c in terms) / (
        60 * step
    )


def law_residuals(exact, law, time=1.0):
    """The largest misfit of the density to the weak form of a flow, with f = 1, u, u² and ∇u·∇u = 1
    − u²:

    d/dt ∫f dν = −α ∫∇f·∇J dν − β ∫f (J − mean) dν − σ ∫f dν + σ ∫f dU
    """
    u, w = height_rule(exact.dim)
    nu = w * profile(exact, u, time)
    c = nu @ u - exact.target
    mean = c * (nu @ u) if law.drive == "probability" else 0.0
    loss_gradient = []
    for f, slope in ((u**0, 0 * u), (u, u**0), (u**2, 2 * u)):
        change = (
            -law.transport * c * (slope * (1 - u**2)) @ nu
            - law.reaction * (f * (c * u - mean)) @ nu
        )
        change += law.noise * f @ (w - nu)
        loss_gradient.append(
            time_derivative(lambda t, f=f: (w * f) @ profile(exact, u, t), time) - change
        )
    return np.abs(loss_gradient).max()


@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("flow", FLOWS, ids=str)
def test_density_obeys_the_weak_form_of_its_flow(d, flow):
    """f = 1 is the balance of mass, d|ν|/dt = −β ∫J dν − σ |ν| + σ (0 for the drive
    "probability")."""
    assert law_residuals(off_axis(d, flow), flow) < 1e-9


@pytest.mark.parametrize(
    "broken",
    [
        Flow(1, 2, 0.3, drive="probability"),
        Flow(1, 4, 0, drive="probability"),
        Flow(1, 4, 0.3),
        Flow(0, 4, 0.3, drive="probability"),
    ],
    ids=str,
)
def test_the_weak_form_tells_flows_apart(broken):
    assert law_residuals(off_axis(2, Flow(1, 4, 0.3, drive="probability")), broken) > 0.01


@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("noise", [0.0, 0.4])
def test_fixed_positions_obey_the_normalised_law_at_every_point(d, noise):
    exact, (u, w) = off_axis(d, Flow(0.0, 4.0, noise, drive="probability")), height_rule(d)
    nu = profile(exact, u, 1.0)
    J = ((w * u) @ nu - exact.target) * u
    wanted = -4.0 * nu * (J - (w * J) @ nu) - noise * nu + noise
    assert time_derivative(lambda t: profile(exact, u, t), 1.0) == pytest.approx(
        wanted, rel=0, abs=1e-9
    )
    assert np.abs(wanted + 4.0 * nu * J).max() > 0.01


@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("rates", [(1, 4), (0, 4), (1, 4, 0.5), (0, 4, 0.5)])
def test_the_drive_probability_keeps_the_mass_and_the_drive_measure_changes_nothing(d, rates):
    plain, measure, probability = (
        off_axis(d, Flow(*rates, drive=drive)) for drive in (None, "measure", "probability")
    )
    times = [0.0, 0.5, 3.0]
    assert np.array_equal(plain.parameter(times), measure.parameter(times))
    assert probability.mass_and_moment(times)[0] == pytest.approx(np.ones(3), rel=1e-12, abs=0)
    assert plain.mass_and_moment(3.0)[0] > 1.1
    assert abs(plain.parameter(3.0) - probability.parameter(3.0)) > 0.01


@pytest.mark.parametrize("drive", [None, "probability"])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_vanishing_noise_is_no_noise(alpha, drive):
    u, _ = height_rule(2, 20)
    none, small, tiny = (
        profile(off_axis(2, Flow(alpha, 4.0, s, drive=drive)), u, 2.0) for s in (0.0, 1e-4, 1e-5)
    )
    assert 1e-5 < np.abs(small - none).max() < 1e-3
    assert np.abs((small - none) - 10 * (tiny - none)).max() < 1e-6


def test_parameter_takes_times_in_any_order_and_nothing_has_moved_at_the_start():
    exact = off_axis(2, Flow(1.0, 4.0, 0.3))
    first, again, start, later = exact.parameter([1.0, 1.0, 0.0, 2.0])
    assert (
        first == again
        and start == 0.0
        and later == pytest.approx(exact.parameter(2.0)[0], rel=1e-12)
    )
    assert exact.mass_and_moment(0.0) == pytest.approx((1.0, 0.0), abs=1e-14)
    assert profile(exact, np.linspace(-1, 1, 5), 0.0) == pytest.approx(np.ones(5), rel=1e-14)


@pytest.mark.parametrize("rates", [(1, 4), (0, 4), (1, 4, 0.5)])
def test_many_times_at_once_are_the_same_as_one_by_one(rates):
    exact, times = off_axis(2, Flow(*rates)), np.array([1.5, 0.0, 3.0, 1.5])
    together = exact.mass_and_moment(times)
    alone = np.transpose([exact.mass_and_moment(t) for t in times])
    assert together[0].shape == (4,) and isinstance(exact.mass_and_moment(1.5)[0], float)
    assert np.array(together) == pytest.approx(alone, rel=1e-10, abs=1e-12)
    assert np.ptp(together[0][:3]) > 0.05  # the order of the times matters


def test_what_is_remembered_is_not_changed_by_who_asked_for_it():
    exact = off_axis(2, Flow(1, 4))
    first = exact.mass_and_moment([1.0, 2.0])[0]
    kept = first.copy()
    first[:] = np.nan
    assert np.array_equal(exact.mass_and_moment([1.0, 2.0])[0], kept)
    other = off_axis(2, Flow(1, 2)).mass_and_moment([1.0, 2.0])[0]
    assert np.abs(other - kept).max() > 1e-3  # another flow is not taken for it
