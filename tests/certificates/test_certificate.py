"""What runs prove of the max-margin, record by record, against the max-margin itself."""

import numpy as np
import pytest

import hkflow
from hkflow.certificates import certificate
from hkflow.certificates.certificate import certifies_margin, dual_value, margin_certificate
from hkflow.certificates.column_generation import max_margin, max_margin_of_atoms
from hkflow.certificates.fixed_points import l1_margin
from hkflow.geometry import geodesic_level
from hkflow.solving import loop
from hkflow.store import run_writer

FEATURES, RISKS = hkflow.FEATURES, hkflow.RISKS
NAMES = {"dual_value", "slackness_measure", "slackness_data", "margin_lower", "margin_upper"}


def objective(axes=2, feature="relu", risk="smooth-margin", n=12, decay=0.0, seed=3):
    rng = np.random.default_rng(seed)
    y = rng.choice([-1.0, 1.0], size=n)
    x = 0.4 * rng.normal(size=(n, axes - 1)) + y[:, None] * np.eye(1, axes - 1)
    return hkflow.Objective(
        FEATURES[feature], RISKS[risk], np.column_stack([x, np.ones(n)]), y, None, decay
    )


def grid_problem(o, cells, flow=None):
    mesh = hkflow.circle_mesh(cells) if o.axes == 2 else hkflow.geodesic_mesh(geodesic_level(cells))
    return hkflow.Problem(mesh, o, flow or hkflow.Flow(1.0, 2.0), (1, -1))


def particle_problem(o, n=40, flow=None):
    points = hkflow.quasi_uniform(n, o.axes - 1)
    atoms = hkflow.PointMeasure(np.tile(points, (2, 1)), np.repeat([1.0, -1.0], n))
    return hkflow.Problem(None, o, flow or hkflow.Flow(1.0, 2.0), (1, -1), atoms)


def due(solution):
    """Which records have a certificate: the first one that is so many steps after the last, and
    that of the end."""
    following, found = 0, []
    for step in solution.records["step"]:
        found.append(step >= following)
        following = step + loop.CERTIFIED_STEPS if found[-1] else following
    return np.array(found[:-1] + [True])


def check(solution, gamma, whole=True):
    """margin ≤ γ ≤ dual value at each certificate; the interval kept is the best so far; slackness
    sums to the gap.

    whole : certificates are all that are due; else some of them
    """
    records, expected = solution.records, due(solution)
    margin, dual = records["margin"], records["dual_value"]
    known = np.isfinite(dual)
    assert (
        np.array_equal(known, expected) if whole else known.any() and not (known & ~expected).any()
    )
    rounding = 1e-9 * abs(gamma.upper)
    assert (margin <= gamma.upper + rounding).all()
    assert (dual[known] >= gamma.lower - rounding).all(), dual[known].min() - gamma.lower
    assert np.array_equal(records["margin_lower"], np.fmax.accumulate(margin))
    best = np.fmin.accumulate(dual)
    assert np.array_equal(records["margin_upper"], np.where(np.isnan(best), np.inf, best))
    parts = records["slackness_measure"] + records["slackness_data"]
    assert parts[known] == pytest.approx((dual - margin)[known], rel=1e-12, abs=1e-13)
    assert (
        records["slackness_data"][known].min() >= -1e-13
        and records["slackness_measure"][known].min() >= -1e-9
    )


RISK_NAMES = ["smooth-margin", "smooth-logistic-margin", "logistic", "exponential"]


@pytest.mark.parametrize("risk", RISK_NAMES)
@pytest.mark.parametrize("axes, cells, end", [(2, 128, 0.5), (3, 162, 0.3), (3, 642, 0.05)])
def test_grids_enclose_the_margin(axes, cells, end, risk):
    o = objective(axes, risk=risk)
    s = hkflow.solve(grid_problem(o, cells), end)
    assert s.finished and s.records.keys() >= NAMES
    check(s, max_margin(o, (1, -1)))
    if risk == "smooth-margin":
        width = s.records["margin_upper"] - s.records["margin_lower"]
        assert width[-1] < width[0]


@pytest.mark.parametrize("feature", ["relu", "squared-relu"])
@pytest.mark.parametrize("axes", [2, 3])
def test_particles_enclose_the_margin(axes, feature):
    o = objective(axes, feature)
    s = hkflow.solve(
        particle_problem(o, flow=hkflow.Flow(1.0, 2.0 * o.feature.degree)), 2.0, kind="particles"
    )
    assert s.finished
    check(s, max_margin(o, (1, -1)))


@pytest.mark.parametrize("layers", ["both", "radii"])
@pytest.mark.parametrize("axes", [2, 3])
def test_networks_enclose_the_margin(axes, layers):
    o = objective(axes)
    flow = hkflow.Flow(1.0, 2.0) if layers == "both" else hkflow.Flow(0.0, 4.0)
    s = hkflow.solve(particle_problem(o, flow=flow), 1.0, kind="network", layers=layers)
    assert s.finished
    check(s, max_margin(o, (1, -1)))


@pytest.mark.parametrize("depth", [2.0, 3.0])
def test_atoms_enclose_the_margin_of_their_programme(depth):
    x = np.random.default_rng(4).normal(size=(5, 3))
    y = np.sign(x @ [1.0, 0.5, -0.2])
    o = hkflow.Objective(FEATURES["linear"], RISKS["smooth-margin"], x, y)
    start = np.full((2, 3), 0.5**depth)
    problem = hkflow.Problem(
        hkflow.atoms_mesh(np.eye(3)), o, hkflow.Flow(0.0, depth**2, depth=depth), (1, -1), start
    )
    s = hkflow.solve(problem, 0.1)
    assert s.finished, s.status
    z = y[:, None] * x
    gamma = l1_margin(np.hstack([z, -z])).value
    dual, margin = s.records["dual_value"], s.records["margin"]
    assert np.array_equal(np.isfinite(dual), due(s))
    assert (margin <= gamma + 1e-9).all() and (dual[due(s)] >= gamma - 1e-9).all()
    even = np.full(5, 0.2)  # the bound of the whole sphere would be another number
    assert dual_value(problem, even) == pytest.approx(np.abs(even @ z).max(), rel=1e-14)
    assert dual_value(problem, even) < 0.99 * np.linalg.norm(even @ z)


def test_signed_densities_enclose_the_margin():
    o = objective(2)
    problem = hkflow.Problem(
        hkflow.circle_mesh(64), o, hkflow.Flow(0.0, 1.0, depth=1.0), (1,), np.zeros((1, 64))
    )
    s = hkflow.solve(problem, 5.0)
    assert s.finished
    known = np.isfinite(s.records["dual_value"])
    # it starts from nothing
    assert np.array_equal(known, due(s) & (s.records["mass"] > 0.0)) and not known[0]
    check(s, max_margin(o, (1, -1)), whole=False)


def test_runs_beyond_the_sphere_enclose_the_margin():
    o = objective(4)
    solution = hkflow.solve(particle_problem(o), 2.0, kind="particles")
    check(solution, max_margin(o, (1, -1)), whole=False)
    known = solution.max_margin
    assert known.certified and known.reached


def test_certificates_over_cones_are_made_when_the_run_has_earned_them(monkeypatch):
    """Few steps pay for the one at the end alone; where they are for nothing all are made."""
    problem = particle_problem(objective(4))

    def made():
        s = hkflow.solve(problem, 0.5, kind="particles")
        return np.isfinite(s.records["dual_value"]), due(s)

    known, _ = made()
    assert known[-1] and known.sum() == 1
    monkeypatch.setattr(certificate, "EVALUATIONS_PER_CONE", 0)
    assert np.array_equal(*made())


@pytest.mark.parametrize("what", ["decay", "regression", "squared ReLU on S^3"])
def test_nothing_is_recorded_of_what_proves_nothing(what):
    o = {
        "decay": objective(2, decay=0.1),
        "regression": objective(2, risk="square"),
        "squared ReLU on S^3": objective(4, feature="squared-relu"),
    }[what]
    problem = particle_problem(o)
    assert not certifies_margin(problem)
    s = hkflow.solve(problem, 0.1, kind="particles")
    assert s.finished and not NAMES & s.records.keys()


def test_certificates_are_taken_at_the_end_and_every_so_many_steps(monkeypatch):
    monkeypatch.setattr(loop, "CERTIFIED_STEPS", 5)
    o = objective(3)
    options = {"kind": "particles", "tolerance": 1e-8}
    s = hkflow.solve(particle_problem(o), 1.0, saves=[0.0, 0.25, 1.0], **options)
    known = np.isfinite(s.records["dual_value"])
    check(s, max_margin(o, (1, -1)))
    assert known[0] and known[-1] and 3 < known.sum() < 0.5 * len(known)
    assert np.isfinite(s.records["margin_upper"]).all()


def test_many_data_are_certified_as_well():
    o = objective(3, n=1500)
    s = hkflow.solve(particle_problem(o), 0.02, kind="particles")
    assert (
        s.finished and due(s).any() and np.array_equal(np.isfinite(s.records["dual_value"]), due(s))
    )


def test_what_has_no_weights_gives_no_numbers():
    problem = particle_problem(objective(2))
    for residuals, mass in (
        (np.zeros(12), 0.0),
        (np.full(12, np.nan), 1.0),
        (-problem.objective.targets, 0.0),
    ):
        assert np.isnan(
            list(margin_certificate(problem, np.zeros(12), mass, residuals).values())
        ).all()


@pytest.mark.parametrize("loss", ["logistic", "exponential"])
def test_gradients_below_what_numbers_hold_prove_what_their_logs_do(loss, rng):
    o, gradient = objective(2, risk=loss), np.zeros(12)
    h = rng.normal(size=12)
    o.evaluate_risk(h, 0.0, gradient)
    weights = -o.targets * gradient
    p = o.soft_argmin(h)
    assert p / p.sum() == pytest.approx(weights / weights.sum(), rel=1e-12)
    heavy = 1e4 * (o.targets + 1e-4 * h)
    o.evaluate_risk(heavy, 0.0, gradient)
    assert not gradient.any()
    found = margin_certificate(particle_problem(o), heavy, 1e4, gradient)
    p = np.exp(-o.targets * h)
    assert found["dual_value"] == pytest.approx(
        dual_value(particle_problem(o), p / p.sum()), rel=1e-9
    )


# --- siblings: bounds that are none


def test_sibling_the_highest_cell_is_no_bound(monkeypatch):
    """Only cell centres asked, a long run on a coarse mesh ends with an upper value below the
    margin."""
    o = objective(2)
    gamma = max_margin(o, (1, -1))

    def cells_only(problem, p):
        potential = (p * o.targets) @ o.feature.matrix(problem.mesh.centers, o.inputs)
        return float(np.abs(potential).max())

    problem = grid_problem(o, 12, hkflow.Flow(0.0, 2.0))
    options = {"end": 60.0, "tolerance": 1e-4}
    check(hkflow.solve(problem, **options), gamma)
    monkeypatch.setattr(certificate, "dual_value", cells_only)
    with pytest.raises(AssertionError):
        check(hkflow.solve(problem, **options), gamma)


def test_sibling_weights_of_the_wrong_sign_are_seen(monkeypatch):
    """With −p instead of p, no weight is positive and a run has no dual value."""
    honest, o = certificate.margin_certificate, objective(2)
    monkeypatch.setattr(
        "hkflow.certificates.certificate.margin_certificate",
        lambda problem, h, mass, r, scale: honest(problem, h, mass, -r, scale),
    )
    s = hkflow.solve(grid_problem(o, 64), 0.5)
    with pytest.raises(AssertionError):
        check(s, max_margin(o, (1, -1)))


# --- run folders

CASE = """
title = "small"
[data]
source = "inline"
inputs = [[0.5], [-1.0], [0.2], [1.2]]
targets = [1.0, -1.0, -1.0, 1.0]
[objective]
bias = true
loss = "smooth-margin"
[domain]
kind = "signed-sphere"
cells = 24
[flow]
kind = "hellinger-kantorovich"
[time]
end = 0.6
saves = 4
[method]
max_step = 0.05
"""


class Interrupt(Exception):
    pass


def test_a_resumed_run_keeps_the_interval(tmp_path, monkeypatch):
    case = tmp_path / "small.toml"
    case.write_text(CASE)
    hkflow.run(case, output=tmp_path / "whole")
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Interrupt):
        patch.setattr(run_writer, "CHECKPOINT_SECONDS", 0.0)
        honest = run_writer.RunWriter.step

        def step(self, method, clock):
            honest(self, method, clock)
            if clock.step == 7:
                raise Interrupt

        patch.setattr(run_writer.RunWriter, "step", step)
        hkflow.run(case, output=tmp_path / "cut")
    hkflow.resume(tmp_path / "cut")
    whole, cut = hkflow.load(tmp_path / "whole"), hkflow.load(tmp_path / "cut")
    assert len(whole.records["time"]) > 8
    for name in NAMES:
        assert whole.records[name].tobytes() == cut.records[name].tobytes(), name
    assert (tmp_path / "whole" / "records.jsonl").read_bytes() == (
        tmp_path / "cut" / "records.jsonl"
    ).read_bytes()


@pytest.mark.parametrize("make", [lambda o: grid_problem(o, 64), particle_problem])
def test_data_of_weight_0_are_as_good_as_left_out(make):
    """One of them contradicts another datum, one is on the wrong side, one is at 0."""
    o = objective()
    x, y = o.inputs, o.targets
    more = np.vstack([x[:1], [10.0 * y[0], 1.0], x, [0.0, 0.0]]), np.hstack([-y[:1], -y[0], y, 1.0])
    weights = np.hstack([0.0, 0.0, o.weights, 0.0])
    beside = hkflow.Objective(o.feature, o.risk, *more, weights)
    assert certificate.contradiction(beside) is None
    gamma, same = max_margin(o, (1, -1)), max_margin(beside, (1, -1))
    run = hkflow.solve(make(beside), 2.0)
    check(run, gamma)
    assert run.records["margin"][-1] == pytest.approx(
        np.min(y * run.predictions[-1, 2:-1]) / run.mass[-1], rel=1e-12
    )
    assert same.lower == pytest.approx(gamma.lower, rel=1e-9) and same.reached
    np.testing.assert_array_equal(np.flatnonzero(same.dual), 2 + np.flatnonzero(gamma.dual))
    points = hkflow.circle_mesh(64).centers
    gamma, same = (max_margin_of_atoms(one, points, (1, -1)) for one in (o, beside))
    assert same.lower == pytest.approx(gamma.lower, rel=1e-9) and same.dual.shape == weights.shape
    f2 = [hkflow.certificates.f2_max_margin(one).machine.value for one in (o, beside)]
    assert f2[1] == pytest.approx(f2[0], rel=1e-9)


def test_sibling_data_of_any_weight_count():
    o = objective()
    more = np.vstack([o.inputs, o.inputs[:1]]), np.append(o.targets, -o.targets[0])
    weights = np.append(o.weights, 1e-30)
    beside = hkflow.Objective(o.feature, o.risk, *more, weights)
    assert certificate.contradiction(beside).data == (0, len(o.targets))
    assert hkflow.solve(grid_problem(beside, 64), 2.0).records["margin"][-1] < 0.0


def test_sums_of_energies_have_the_margins_of_their_data():
    o = objective()
    beside, points = hkflow.Sum(o, hkflow.External("0.5*x")), hkflow.circle_mesh(64).centers
    gamma, same = (max_margin_of_atoms(one, points, (1, -1)) for one in (o, beside))
    assert same.lower == pytest.approx(gamma.lower, rel=1e-12)
    assert certificate.contradiction(beside) is None
