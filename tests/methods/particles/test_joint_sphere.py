"""Full-sphere ReLU: φ = b(a·x)₊ on the sphere of (a, b), where |a| = |b| is the signed sphere in
other coordinates."""

import numpy as np
import pytest
from agreement import objective, slope

import hkflow
from hkflow.geometry.sphere import normalize

MESHES = {162: 2, 642: 3, 2562: 4}


def joint_objective(dim, n, seed, weight_decay=0.0):
    """The objective of `agreement` for ReLU, its output weight now part of θ."""
    signed = objective(dim, "relu", n, seed)
    return hkflow.Objective(
        hkflow.FEATURES["joint-relu"],
        signed.risk,
        signed.inputs,
        signed.targets,
        None,
        weight_decay,
    )


def signed_and_joint(dim, reaction=4.0, weight_decay=0.1, n=40, time=0.2):
    """The same particles by both flows: (θ, ε) of weight w with (1, 2) and λ, and (θ, ε)/√2 of
    weight 2w with (1, β) and λ/2.

    They start away from all kinks θ·x_i = 0, where a crossing would cost accuracy. Returns
    predictions, atoms and objective.
    """
    joint, rng = joint_objective(dim, 5, 1, 0.5 * weight_decay), np.random.default_rng(7)
    signed = hkflow.Objective(
        hkflow.FEATURES["relu"], joint.risk, joint.inputs, joint.targets, None, weight_decay
    )
    directions = hkflow.random_uniform(rng, 20_000, dim)
    distance = np.abs(directions @ normalize(joint.inputs).T).min(axis=1)
    directions = directions[distance > 0.25][:n]
    atoms = hkflow.PointMeasure(directions, rng.choice([-1.0, 1.0], size=n), rng.random(n) / n)
    doubled = hkflow.PointMeasure(
        np.column_stack([atoms.positions, atoms.signs]), None, 2.0 * atoms.weights
    )
    one = hkflow.Problem(None, signed, hkflow.Flow(1.0, 2.0), (1, -1), atoms)
    two = hkflow.Problem(None, joint, hkflow.Flow(1.0, reaction), (1,), doubled)
    runs = [hkflow.solve(problem, time, kind="particles", tolerance=1e-8) for problem in (one, two)]
    assert np.array_equal(
        runs[0].atoms_at(-1).positions @ joint.inputs.T > 0.0, directions @ joint.inputs.T > 0.0
    )
    return [(run.predictions[-1], run.atoms_at(-1), run.records["objective"][-1]) for run in runs]


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_balanced_particles_follow_the_signed_flow_of_half_the_mass(dim):
    """To 1e-8, the size of the local errors (1e-10 is what was seen)."""
    (h, signed, F), (k, joint, G) = signed_and_joint(dim)
    assert k == pytest.approx(h, rel=0.0, abs=1e-8) and pytest.approx(F, rel=0.0, abs=1e-8) == G
    assert joint.weights == pytest.approx(2.0 * signed.weights, rel=1e-8, abs=0.0)
    wanted = np.column_stack([signed.positions, signed.signs]) / np.sqrt(2.0)
    assert joint.positions == pytest.approx(wanted, rel=0.0, abs=1e-8)
    assert np.linalg.norm(joint.positions[:, :-1], axis=1) == pytest.approx(
        np.abs(joint.positions[:, -1]), rel=1e-9, abs=0.0
    )


def test_sibling_the_reaction_of_the_signed_sphere_is_wrong_here():
    (h, signed, _), (k, joint, _) = signed_and_joint(1, reaction=2.0)
    assert np.abs(k - h).max() > 1e-3 and abs(joint.mass / signed.mass - 2.0) > 1e-3


def joint_errors(flow, cells, particles, data_sets, time=1.0, **options):
    """Root mean square difference of the predictions of grids and of evenly spread particles on S²,
    for each number of cells."""
    squares = np.zeros(len(cells))
    for seed in range(data_sets):
        obj = joint_objective(1, 6, seed)
        start = hkflow.PointMeasure(hkflow.quasi_uniform(particles, 2))
        many = hkflow.solve(
            hkflow.Problem(None, obj, flow, (1,), start),
            time,
            kind="particles",
            stepper="dopri5",  # many particles: kinks may be stepped over, which is faster
            tolerance=1e-5,
            **options,
        )
        for k, count in enumerate(cells):
            grid = hkflow.solve(
                hkflow.Problem(hkflow.geodesic_mesh(MESHES[count]), obj, flow), time, tolerance=1e-6
            )
            squares[k] += np.mean((grid.predictions[-1] - many.predictions[-1]) ** 2)
    return np.sqrt(squares / data_sets)


@pytest.mark.parametrize("sigma", [0.0, 0.2])
def test_grid_agrees_with_particles(sigma):
    """At first order: ∇J jumps where a datum's half-space ends, and with few data the orders of
    single meshes scatter.

    With σ > 0 this is Wei et al. 4.2, U on the joint sphere.
    """
    noise = {"noise_points": 500, "noise_interval": 0.05} if sigma else {}
    found = joint_errors(hkflow.Flow(1.0, 4.0, sigma), tuple(MESHES), 4000, 3, **noise)
    assert slope(tuple(MESHES), found, 2) > 0.8, found


BALANCED = """
[data]
source = "inline"
inputs = [[-1.2], [0.3], [1.1]]
targets = [0.5, -0.4, 0.8]
[objective]
activation = "joint-relu"
bias = true
loss = "square"
[domain]
kind = "sphere"
cells = 2562
[initial]
kind = "balanced"
mass = 2.0
[flow]
kind = "hellinger-kantorovich"
[time]
end = 1.0
"""


def test_cases_start_balanced_by_every_method(tmp_path):
    """Particles stay on |a| = |b|, up to the kinks that they cross; a grid comes near; the signed
    sphere has half the mass."""
    case = tmp_path / "case.toml"
    case.write_text(BALANCED)
    grid = hkflow.run(case, output=tmp_path / "grid")
    particles = {"method.kind": "particles", "method.particles": 400}
    joint = hkflow.run(case, output=tmp_path / "joint", **particles)
    b = joint.atoms_at(-1).positions[:, -1]
    assert np.abs(b) == pytest.approx(np.sqrt(0.5), rel=5e-5) and (b > 0.0).sum() == 200
    signed = {
        "objective.activation": "relu",
        "domain.kind": "signed-sphere",
        "initial": {"kind": "uniform", "mass": 1.0},
    }
    half = hkflow.run(case, output=tmp_path / "signed", **particles, **signed)
    x = np.linspace(-2.0, 2.0, 50)[:, None]
    size = np.abs(joint.predict(x)).max()
    assert np.abs(half.predict(x) - joint.predict(x)).max() < 1e-4 * size
    assert half.mass == pytest.approx(0.5 * joint.mass, rel=1e-5)
    assert np.abs(grid.predict(x) - joint.predict(x)).max() < 0.01 * size
    assert grid.mass == pytest.approx(joint.mass, rel=0.002)
    assert grid.axis_names == joint.axis_names == ["w₁", "bias", "output"]


@pytest.mark.parametrize(
    "overrides, message",
    [
        (
            {"objective.activation": "relu"},
            "initial.kind 'balanced' needs the activation 'joint-relu'",
        ),
        (
            {"domain.kind": "signed-sphere"},
            r"'joint-relu' has its output weight in θ: it wants signs=\(1,\), in a case"
            " domain.kind = 'sphere'",
        ),
        (
            {"method.kind": "particles", "method.particles": 3},
            "3 balanced units cannot be shared by the two signs",
        ),
    ],
)
def test_what_a_joint_sphere_cannot_be_is_said(tmp_path, overrides, message):
    case = tmp_path / "case.toml"
    case.write_text(BALANCED)
    with pytest.raises(hkflow.CaseError, match=message):
        hkflow.check(case, **overrides)
