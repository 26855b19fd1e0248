"""Radii of fixed directions and diagonal networks against the equations that they are, and the
propositions proved of descent."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import hkflow
from hkflow.certificates.fixed_points import (
    l1_margin,
    l2_margin,
    mirror_ascent_bound,
    projected_ascent_bound,
)
from hkflow.methods.network import diagonal, fixed_units, network
from hkflow.solving.solution import Memory
from hkflow.solving.solve import integrate

DESCENT = {"kind": "network", "training": "gradient-descent"}
TIGHT = {"stepper": "dop853", "tolerance": 1e-11}


def data(n=20, seed=0):
    x = np.random.default_rng(seed).normal(size=(n, 3))
    return x, np.sign(x[:, 0] + 0.3)


def radii_problem(risk="smooth-margin", signs=(1, -1), decay=0.0, n=30, reaction=4.0):
    objective = hkflow.Objective(hkflow.FEATURES["relu"], hkflow.RISKS[risk], *data(), None, decay)
    points = hkflow.quasi_uniform(n, 2)
    atoms = hkflow.PointMeasure(
        np.tile(points, (len(signs), 1)), np.repeat(np.array(signs, dtype=float), n)
    )
    return hkflow.Problem(None, objective, hkflow.Flow(0.0, reaction), signs, atoms)


def signed_features(problem):
    """z_ij = y_i ε_j φ(θ_j, x_i) of the initial atoms."""
    o, atoms = problem.objective, problem.atoms()
    return o.targets[:, None] * o.feature.matrix(atoms.positions, o.inputs) * atoms.signs


# --- radii


@pytest.mark.parametrize("signs", [(1,), (1, -1)])
@pytest.mark.parametrize(
    "risk, decay", [("smooth-margin", 0.0), ("logistic", 0.05), ("square", 0.05)]
)
def test_radii_are_the_hellinger_flow_with_beta_4(risk, decay, signs):
    problem = radii_problem(risk, signs, decay)
    one = hkflow.solve(problem, 1.0, kind="particles", **TIGHT)
    two = hkflow.solve(problem, 1.0, kind="network", layers="radii", **TIGHT)
    assert one.finished and two.finished and np.abs(one.predictions - two.predictions).max() < 1e-8
    assert abs(two.atoms_at(-1).mass / one.atoms_at(-1).mass - 1.0) < 1e-8
    assert (
        abs(two.records["energy_residual"][-1]) < 1e-8
        and abs(two.records["mass_residual"][-1]) < 1e-8
    )


def test_sibling_another_power_of_the_radii_is_seen(monkeypatch):
    honest = fixed_units.Radii.fill

    def halved(self, e, objective):
        honest(self, e, objective)
        e.rate *= 0.5
        e.rates.terms *= 0.5

    monkeypatch.setattr(fixed_units.Radii, "fill", halved)
    problem = radii_problem()
    one = hkflow.solve(problem, 1.0, kind="particles", **TIGHT)
    two = hkflow.solve(problem, 1.0, kind="network", layers="radii", **TIGHT)
    assert np.abs(one.predictions - two.predictions).max() > 1e-2


@pytest.mark.parametrize("schedule", ["constant", "inverse-sqrt", "proposition"])
def test_descent_of_radii_is_the_recursion_of_the_paper(schedule):
    """r(t+1) = r(t) + η m ∇F_m(r(t)), m ∂F_m/∂r_j = 2 r_j Σ_i p_i z_ij (Chizat & Bach 2020, sec.
    4)."""
    problem, steps = radii_problem(), 170
    z = signed_features(problem)
    m, r = z.shape[1], np.ones(z.shape[1])
    sizes = {
        "constant": 0.01 * np.ones(steps),
        "inverse-sqrt": 0.01 / np.sqrt(np.arange(steps) + 1),
    }
    sizes["proposition"] = 1.0 / (16.0 * np.abs(z).max() * np.sqrt(np.arange(steps) + 1))
    for eta in sizes[schedule]:
        u = z @ r**2 / m
        p = np.exp(-u) / np.exp(-u).sum()
        r = r + eta * 2.0 * r * (p @ z)
    end = float(steps) if schedule == "proposition" else sizes[schedule].sum()
    s = hkflow.solve(problem, end, **DESCENT, layers="radii", schedule=schedule)
    assert s.finished and s.records["step"][-1] == steps
    assert np.allclose(s.states[-1]["inner"], r, rtol=1e-12, atol=0.0)


def test_descent_of_radii_takes_batches():
    """A batch of all data, drawn with replacement, moves the radii by the mean gradient up to what
    sampling scatters."""
    problem = radii_problem()
    runs = [
        hkflow.solve(
            problem,
            0.01,
            kind="network",
            layers="radii",
            training="sgd",
            batch=5,
            step=0.01,
            seed=seed,
        )
        for seed in range(200)
    ]
    moved = np.array([s.states[-1]["inner"] for s in runs]) - 1.0
    exact = hkflow.solve(problem, 0.01, **DESCENT, layers="radii").states[-1]["inner"] - 1.0
    assert np.all(
        np.abs(moved.mean(axis=0) - exact)
        < 5.0 * moved.std(axis=0) / np.sqrt(200) + 0.02 * np.abs(exact).max()
    )


# --- diagonal networks


def diagonal_problem(depth, alpha, risk="smooth-margin", time_variable="time"):
    x, _ = data(3, 4)
    objective = hkflow.Objective(
        hkflow.FEATURES["linear"], hkflow.RISKS[risk], x, np.sign(x @ [1.0, 0.5, -0.2])
    )
    flow = hkflow.Flow(0.0, depth**2, depth=depth, time_variable=time_variable)
    return hkflow.Problem(
        hkflow.atoms_mesh(np.eye(3)), objective, flow, (1, -1), np.full((2, 3), alpha**depth)
    )


def ascent(problem, u, depth):
    """−∇_u log L for the mean exponential loss L (Moroshko et al. 2020, eq. 87), and log L."""
    x, y = problem.objective.inputs, problem.objective.targets
    plus, minus = np.split(u, 2)
    margins = y * (x @ (plus**depth - minus**depth))
    shifted = np.exp(-(margins - margins.min()))
    g = (shifted * y) @ x / shifted.sum()
    return (
        depth * u ** (depth - 1.0) * np.concatenate([g, -g]),
        np.log(shifted.mean()) - margins.min(),
    )


@pytest.mark.parametrize("risk", ["smooth-margin", "exponential"])
@pytest.mark.parametrize(
    "depth, alpha, end",
    [
        (1, 0.0, 3.0),
        (2, 1e-3, 4.0),
        (2, 1.0, 1.5),
        (2, 1e3, 1e-5),
        (3, 0.1, 2.0),
        (3, 100.0, 1e-7),
        (10, 0.7, 0.3),
    ],
)
def test_diagonal_networks_are_their_equation(depth, alpha, end, risk):
    problem = diagonal_problem(depth, alpha, risk)

    def rate(_, u):
        g, log_loss = ascent(problem, u, depth)
        return g if risk == "smooth-margin" else np.exp(min(log_loss, 50.0)) * g

    start = np.full(6, float(alpha))
    wanted = solve_ivp(
        rate,
        (0.0, end),
        start,
        method="DOP853",
        rtol=1e-13,
        atol=1e-15 * max(alpha, 1e-3),
        first_step=1e-4 * end,
    )
    assert wanted.success
    s = hkflow.solve(problem, end, kind="network", layers="diagonal", **TIGHT)
    assert s.finished, s.status
    moved = np.abs(wanted.y[:, -1] - start).max()
    assert moved > 1e-7 * max(alpha, 1e-3) and np.abs(
        s.states[-1]["output"] - wanted.y[:, -1]
    ).max() < 1e-8 * max(moved, alpha)


@pytest.mark.parametrize(
    "depth, alpha, end",
    [(2, 1e4, 30.0), (2, 1e-3, 30.0), (3, 1e-3, 0.1), (10, 0.7, 30.0)],  # then 3 is stiff
)
def test_the_clock_of_the_smooth_margin_runs_from_any_start(depth, alpha, end):
    """By γ̃ the flow of the smooth-margin risk is that of all others; γ̃ = −F gains what the clock
    says, to the tolerance."""
    problem = diagonal_problem(depth, alpha, time_variable="margin")
    s = hkflow.solve(
        problem, end, kind="network", layers="diagonal", stepper="dop853", tolerance=1e-10
    )
    assert s.finished, s.status
    rounding = np.finfo(float).eps * 6.0 * alpha**depth
    assert s.records["objective"][-1] == pytest.approx(-end, rel=1e-5, abs=1e3 * rounding)


@pytest.mark.parametrize("depth, alpha", [(1, 0.0), (2, 0.5), (3, 0.5)])
def test_descent_of_a_diagonal_network_is_normalised_gradient_descent(depth, alpha):
    problem = diagonal_problem(depth, alpha)
    u = np.full(6, alpha)
    for _ in range(120):
        u = u + 0.002 * ascent(problem, u, depth)[0]
    s = hkflow.solve(problem, 0.24, **DESCENT, layers="diagonal", step=0.002)
    assert s.finished and s.records["step"][-1] == 120
    assert np.allclose(s.states[-1]["output"], u, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("layers", ["radii", "diagonal"])
def test_descent_is_of_order_one_towards_its_flow(layers):
    problem = radii_problem() if layers == "radii" else diagonal_problem(3, 0.7)
    wanted = hkflow.solve(problem, 0.4, kind="network", layers=layers, **TIGHT).predictions[-1]
    steps = [0.02, 0.01, 0.005, 0.0025]
    errors = [
        np.abs(
            hkflow.solve(problem, 0.4, **DESCENT, layers=layers, step=h).predictions[-1] - wanted
        ).max()
        for h in steps
    ]
    slope = np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert 0.9 < slope < 1.1, errors


def test_sibling_a_wrong_power_of_the_diagonal_is_seen(monkeypatch):
    honest = diagonal.Diagonal.fill

    def wrong(self, e, objective):
        honest(self, e, objective)
        e.rate *= np.abs(e.y)

    problem = diagonal_problem(3, 0.5)
    wanted = hkflow.solve(problem, 0.2, kind="network", layers="diagonal", **TIGHT)
    monkeypatch.setattr(diagonal.Diagonal, "fill", wrong)
    got = hkflow.solve(problem, 0.2, kind="network", layers="diagonal", **TIGHT)
    assert not np.abs(got.predictions[-1] - wanted.predictions[-1]).max() < 1e-3


@pytest.mark.parametrize("depth", [2, 3])
def test_a_diagonal_network_has_the_weights_of_the_grid(depth):
    problem = diagonal_problem(depth, 0.5)
    one = hkflow.solve(problem, 0.5, kind="network", layers="diagonal", **TIGHT)
    two = hkflow.solve(problem, 0.5, tolerance=1e-8)
    got, wanted = one.atoms_at(-1), two.atoms_at(-1)
    assert np.allclose(got.signs * got.weights, wanted.signs * wanted.weights, rtol=1e-4)


# --- propositions


STEPS = 2000  # of a proposition; some hundreds more, and rounding decides which datum is hardest


def proposition_run(layers, steps=STEPS):
    """A run with the steps of a proposition, recorded at every bunch, and what is said of it
    computed alone."""
    if layers == "radii":
        problem = radii_problem()
    else:
        p = radii_problem()
        units = hkflow.Units(hkflow.quasi_uniform(60, 2), np.zeros(60))
        problem = hkflow.Problem(None, p.objective, hkflow.Flow(0.0, 0.0), (1, -1), units)
    return problem, hkflow.solve(
        problem, float(steps), **DESCENT, layers=layers, schedule="proposition"
    )


def replayed(layers, z, steps):
    """Best margins and sums of 1/(β(s)√(s+1)) after every step of Prop. 6 or 7."""
    m, size = z.shape[1], np.abs(z).max()
    r, beta, best, total, bests, totals = (
        np.full(m, layers == "radii", dtype=float),
        1.0,
        -np.inf,
        0.0,
        [],
        [],
    )
    for t in range(steps):
        a = r**2 / m if layers == "radii" else r / m
        beta = a.sum() if layers == "radii" else max(beta, np.sqrt(m) * np.linalg.norm(a))
        best, total = max(best, (z @ a).min() / beta), total + 1.0 / (beta * np.sqrt(t + 1))
        p = np.exp(-(z @ a - (z @ a).min()))
        g = p / p.sum() @ z
        r = r + (2.0 * r / 16.0 * g if layers == "radii" else beta * np.sqrt(2.0) * g) / (
            size * np.sqrt(t + 1)
        )
        bests.append(best)
        totals.append(total)
    return np.array(bests), np.array(totals)


@pytest.mark.parametrize("layers", ["radii", "output"])
def test_the_best_margin_of_all_steps_is_recorded_with_its_bound(layers):
    problem, s = proposition_run(layers)
    z = (
        signed_features(problem)
        if layers == "radii"
        else signed_features(problem) * problem.atoms().signs
    )
    n, m = z.shape
    steps = s.records["step"].astype(int)
    assert s.finished and np.all(np.diff(steps) <= network.BUNCH) and steps[-1] == STEPS
    best, total = (values[steps[1:] - 1] for values in replayed(layers, z, STEPS))
    assert np.allclose(s.records["best_margin"][1:], best, rtol=1e-6, atol=1e-13) and np.isnan(
        s.records["best_margin"][0]
    )
    if layers == "radii":
        bound = mirror_ascent_bound(l1_margin(z).value, np.abs(z).max(), m, n, steps[1:], total)
    else:
        bound = projected_ascent_bound(l2_margin(z).value, np.abs(z).max(), n, steps[1:])
    assert np.allclose(s.records["bound"][1:], bound, rtol=1e-9)
    assert np.all(s.records["best_margin"][1:] >= s.records["bound"][1:])


@pytest.mark.parametrize("layers", ["radii", "output"])
def test_sibling_an_inflated_margin_breaks_the_bound(layers, monkeypatch):
    name = "l1_margin" if layers == "radii" else "l2_margin"
    honest = {"l1_margin": l1_margin, "l2_margin": l2_margin}[name]

    class Inflated:
        def __init__(self, z):
            self.value = honest(z).value + 20.0 * np.abs(z).max()

    monkeypatch.setattr(f"hkflow.methods.particles.propositions.{name}", Inflated)
    _, s = proposition_run(layers)
    assert np.any(s.records["best_margin"][1:] < s.records["bound"][1:])


@pytest.mark.parametrize(
    "options, message",
    [
        (
            {"layers": "both"},
            "of layers 'radii' or 'output', got 'gradient-descent' of layers 'both'",
        ),
        ({"training": "sgd"}, "is for training 'gradient-descent'"),
        ({"layers": "radii", "step": 0.1}, "the other schedules alone read 'step'"),
    ],
)
def test_a_proposition_asks_for_what_it_is_proved_of(options, message):
    p = radii_problem(reaction=2.0)
    problem = hkflow.Problem(None, p.objective, hkflow.Flow(1.0, 2.0), p.signs, p.initial)
    options = {"training": "gradient-descent", "schedule": "proposition"} | options
    with pytest.raises(ValueError, match=message):
        hkflow.Network(problem, **options)


def test_a_proposition_asks_for_its_loss_and_start():
    descent = {"training": "gradient-descent", "schedule": "proposition"}
    with pytest.raises(ValueError, match="proved for the loss 'smooth-margin'"):
        hkflow.Network(radii_problem("logistic"), layers="radii", **descent)
    p = radii_problem()
    uneven = hkflow.PointMeasure(
        p.initial.positions, p.initial.signs, np.linspace(1.0, 2.0, len(p.initial))
    )
    with pytest.raises(ValueError, match="equal radii at the start"):
        hkflow.Network(
            hkflow.Problem(None, p.objective, p.flow, p.signs, uneven), layers="radii", **descent
        )
    still = hkflow.Problem(None, p.objective, hkflow.Flow(0.0, 0.0), p.signs, p.initial)
    with pytest.raises(ValueError, match="output weights that are zero"):
        hkflow.Network(still, layers="output", **descent)
    s = hkflow.solve(p, 2.5, layers="radii", kind="network", **descent)
    assert not s.finished and "time counts steps" in s.status


# --- what they share


@pytest.mark.parametrize(
    "layers, schedule",
    [
        ("radii", "proposition"),
        ("radii", "constant"),
        ("output", "proposition"),
        ("diagonal", "constant"),
        ("diagonal", None),
    ],
)
def test_a_state_goes_on_bit_for_bit(layers, schedule):
    problem = diagonal_problem(3, 0.5) if layers == "diagonal" else radii_problem()
    if layers == "output":
        units = hkflow.Units(hkflow.quasi_uniform(60, 2), np.zeros(60))
        problem = hkflow.Problem(None, problem.objective, hkflow.Flow(0.0, 0.0), (1, -1), units)
    options = {"layers": layers} | (
        {"training": "gradient-descent", "schedule": schedule} if schedule else {"max_step": 0.01}
    )
    first = 100.0 if schedule == "proposition" else 0.5 if schedule else 0.2
    whole, cut = hkflow.Network(problem, **options), hkflow.Network(problem, **options)
    memories = Memory(), Memory()
    integrate(whole, [first, 2.0 * first], (memories[0],))
    stopped, _, _ = integrate(cut, [first], (Memory(),))
    resumed = hkflow.Network(problem, **options)
    resumed.load(cut.state())
    integrate(resumed, [first, 2.0 * first], (memories[1],), clock=stopped)
    for name, value in whole.state().items():
        assert np.array_equal(resumed.state()[name], value) or name == "random", name
    last, again = memories[0].records[-1], memories[1].records[-1]
    assert last.keys() == again.keys() and all(
        last[k] == again[k] or np.isnan(last[k]) for k in last
    )


def test_the_wrong_flows_and_domains_are_refused():
    p = radii_problem(reaction=2.0)
    with pytest.raises(
        ValueError, match="layers 'radii' follows transport 0, reaction 4 and no noise"
    ):
        hkflow.Network(p, layers="radii")
    with pytest.raises(ValueError, match="the domain 'fixed-features' with signs"):
        hkflow.Network(p, layers="diagonal")
    p = diagonal_problem(3, 0.5)
    wrong = hkflow.Problem(
        p.mesh, p.objective, hkflow.Flow(0.0, 4.0, depth=3.0), p.signs, p.initial
    )
    with pytest.raises(ValueError, match="reaction 9, depth 3 and no noise"):
        hkflow.Network(wrong, layers="diagonal")
    clocked = diagonal_problem(2, 0.5, time_variable="margin")
    with pytest.raises(ValueError, match="The time variable 'margin' is for the gradient flow"):
        hkflow.Network(clocked, layers="diagonal", training="gradient-descent")
