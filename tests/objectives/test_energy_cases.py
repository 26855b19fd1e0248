"""Sums of energies in case files and run folders: every fault in a sentence, and the same numbers
from a folder, after a pause, and by either way to state them."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import iv

import hkflow
from hkflow.analysis.summary import summary
from hkflow.case.load import parse_case, toml_of
from hkflow.case.schema import objective as schema
from hkflow.objectives import kernels
from hkflow.running.check import build_all, build_case
from hkflow.running.forecast import prospects

TEXT = """
[[energy]]
kind = "interaction"
kernel = "exponential"
strength = -1.0
concentration = 2.0

[[energy]]
kind = "external"
potential = "0.5*x + 0.1*x*y"

[domain]
kind = "sphere"
dim = 1
cells = 64

[flow]
kind = "wasserstein"

[time]
end = 0.5
saves = 3
"""
DATA = """
[data]
source = "inline"
inputs = [[1.0, 0.2], [-0.3, 1.0]]
targets = [1.0, -1.0]

[objective]
activation = "relu"
loss = "logistic"
weight_decay = 0.1
"""


def case(old="", new="", text=TEXT):
    return parse_case(text.replace(old, new) if old else text, ".", "energies")


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('"exponential"', '"exponental"', "energy.0.kernel: .*Did you mean 'exponential'.*riesz"),
        ("concentration", "width", "energy.0: .*parameter concentration, got width"),
        ('"exponential"', '"linear"', "energy.0: .*'linear' has no parameter, got concentration"),
        ('"external"', '"extrenal"', "energy.1.kind: .*Did you mean 'external'"),
        ("potential =", "potentail =", "energy.1.potentail: .*Did you mean 'potential'"),
        ("0.5*x", "0.5*q", "energy.1.potential: 'q' is unknown"),
        ("0.5*x", "0.5*z", "energy.1: .*names 'z', and points have 2 coordinates"),
        ("0.5*x", "log(x - 2)", "energy.1: .*not finite"),
        ("dim = 1\n", "", "domain.dim is missing"),
        ("dim = 1\n", "dim = 9\n", "domain.dim is 9, so .* or change domain.dim"),
        ("[domain]", DATA + "[domain]", "domain.dim follows from the data"),
    ],
)
def test_every_fault_is_a_sentence(old, new, sentence):
    with pytest.raises(hkflow.CaseError, match=sentence):
        build_case(case(old, new))


def test_the_clock_of_a_margin_wants_its_loss_alone():
    """It was said to want the loss that it had."""
    data = DATA.replace("logistic", "smooth-margin").replace("weight_decay = 0.1\n", "")
    text = TEXT.replace("dim = 1\n", "").replace("[domain]", data + "[domain]")
    text = text.replace('"wasserstein"', '"wasserstein"\ntime_variable = "margin"')
    with pytest.raises(hkflow.CaseError, match="F has energies beside the data. Choose"):
        build_case(case(text=text))


def test_check_tells_kernels_whose_series_is_not_exact():
    told = prospects(case(), *build_all(case()))
    assert not any("series" in sentence for sentence in told)
    kinked = case('"exponential"\nstrength = -1.0\nconcentration = 2.0', '"abs(t)"')
    told = prospects(kinked, *build_all(kinked))
    assert any("'abs(t)' is computed as a series of degree 510, off by 0.002" in s for s in told)


def test_the_error_of_a_run_without_data_is_that_of_its_first_moment():
    run = hkflow.solve(build_case(case())[1], 0.5)
    run.errors = hkflow.error_bars(run)
    bar = run.errors["moment"][-1]
    assert dict(summary(run))["first moment"] == f"± {bar:.1e} (RMS of its coordinates)"


def test_particles_with_gaussian_weights_are_those_of_the_data_alone():
    """Without data all of them have the same mass."""
    points = '[method]\nkind = "particles"\nparticles = 20\npoints = "gaussian"\n'
    text = TEXT.replace("cells = 64\n", points)
    _, alone = build_case(case(text=text))
    np.testing.assert_allclose(alone.atoms().weights, 0.05, rtol=1e-15)
    text = text.replace("dim = 1\n", "") + DATA
    _, both = build_case(case(text=text))
    _, data = build_case(case(text=text[text.index("[domain]") :]))
    assert both.objective.interactions and np.ptp(data.atoms().weights) > 0.1
    assert np.array_equal(both.atoms().weights, data.atoms().weights)
    assert np.array_equal(both.atoms().positions, data.atoms().positions)


@pytest.mark.parametrize("kind", ["characteristics", "network"])
def test_methods_that_know_data_alone_refuse_sums(kind):
    text = TEXT.replace("cells = 64\n", f'[method]\nkind = "{kind}"\n')
    with pytest.raises(hkflow.CaseError, match="moves units by the data alone.*grid or particles"):
        case(text=text)
    _, problem = build_case(case())
    with pytest.raises(ValueError, match="moves units by the data alone.*grid, particles"):
        hkflow.solve(problem, 1.0, kind=kind)


def test_the_schema_knows_all_kernels():
    assert {name: needed for name, (needed, _) in kernels.KERNELS.items()} == schema.KERNELS


POPULATION = (
    DATA[: DATA.index("source")]
    + """source = "population"
units = 2
dim = 2

[objective]
activation = "relu"
loss = "square"
weight_decay = 0.1
"""
)


@pytest.mark.parametrize(("data", "many"), [("", 0), (DATA, 2), (POPULATION, 0)])
def test_a_case_and_python_state_the_same_run_that_can_be_loaded_and_resumed(tmp_path, data, many):
    file = case(text=TEXT.replace("dim = 1\n", "") + data) if data else case()
    assert parse_case(toml_of(file.case), ".", "again").case == file.case
    one = hkflow.run(file, tmp_path / "case")
    _, problem = build_case(file)
    end = {"end": 0.5, "saves": [0.0, 0.25, 0.5]}
    two = hkflow.run(problem, tmp_path / "python", **end)
    assert np.array_equal(one.density, two.density)
    again = hkflow.load(tmp_path / "python").problem
    assert hkflow.solve(again, **end).records["objective"][-1] == one.records["objective"][-1]
    stopped = hkflow.run(file, tmp_path / "stopped", observers=[lambda state: state.step == 5])
    assert not stopped.finished
    went_on = hkflow.resume(tmp_path / "stopped")
    assert np.array_equal(went_on.density, one.density)
    assert len(one.predictions[-1]) == many
    assert (one.teacher_network is None) is (data != POPULATION)


def test_functions_have_no_run_folder(tmp_path):
    total = hkflow.Sum(hkflow.Interaction(np.exp), axes=2)
    problem = hkflow.Problem(hkflow.circle_mesh(8), total, hkflow.Flow(1.0, 0.0))
    with pytest.raises(hkflow.CaseError, match="names or formulas, not by functions"):
        hkflow.run(problem, tmp_path / "run", end=0.1)


def test_an_interaction_beside_data_changes_what_they_do():
    file = case(text=TEXT.replace("dim = 1\n", "") + DATA)
    _, both = build_case(file)
    assert len(both.objective.terms) == 3 and both.objective.weight_decay == 0.1
    runs = [
        hkflow.solve(hkflow.Problem(both.mesh, objective, both.flow), 0.5)
        for objective in (both.objective, both.objective.data)
    ]
    assert np.abs(runs[0].predictions[-1] - runs[1].predictions[-1]).max() > 1e-3


MAGNET = """
[[energy]]
kind = "interaction"
kernel = "linear"
strength = {strength}

[[energy]]
kind = "entropy"
temperature = 0.2

[domain]
kind = "sphere"
dim = 1
cells = 64

[initial]
kind = "expression"
density = "1 + 0.5*x"

[flow]
kind = "wasserstein"

[time]
end = 12.0
saves = 3
"""


@pytest.mark.parametrize("strength", [-1.2, 1.0])
def test_attraction_and_entropy_find_the_moment_of_their_equilibrium(tmp_path, strength):
    """m = A₁(κm/τ), A₁ = I₁/I₀, beyond κ = 2τ; none where masses repel."""
    path = tmp_path / "magnet.toml"
    path.write_text(MAGNET.format(strength=strength))
    run = hkflow.run(path, tmp_path / "run")
    assert run.finished and run.problem.objective.entropy == 0.2 and run.problem.spreads
    x = -strength / 0.2
    wanted = brentq(lambda m: m - iv(1, x * m) / iv(0, x * m), 0.1, 1.0) if x > 2.0 else 0.0
    assert run.atoms_at(-1).moment()[0] == pytest.approx(wanted, abs=1e-3)
    assert np.diff(run.records["objective"]).max() <= 1e-14
    again = hkflow.run(run.problem, tmp_path / "again", end=12.0, saves=3)
    assert again.finished and np.array_equal(again.density, run.density)


def test_an_accuracy_of_nematics_is_that_of_their_second_moment(tmp_path):
    """K = −Ut² on S² (Maier and Saupe): a = US/τ with S = ∫P₂(z) dν of ν ∝ exp(az²). The first
    moment is 0 on every mesh and tells no errors."""
    U, tau, t = 9.0, 1.0, np.linspace(0.0, 1.0, 20_001)
    text = MAGNET.replace("linear", "quadratic").replace("dim = 1\ncells = 64", "dim = 2")
    text = text.replace("0.2", f"{tau}").replace("0.5*x", "0.5*z**2")
    path = tmp_path / "nematic.toml"
    path.write_text(text.format(strength=-U))
    run = hkflow.run(path, tmp_path / "run", method={"kind": "grid", "accuracy": 1e-2})
    assert run.finished and np.abs(run.atoms_at(-1).moment()).max() < 1e-12

    def order(a):
        weights = np.exp(a * (t**2 - 1.0))
        return 1.5 * np.trapezoid(weights * t**2, t) / np.trapezoid(weights, t) - 0.5

    S = order(brentq(lambda a: a - U * order(a) / tau, 3.0, 20.0))
    atoms = run.atoms_at(-1)
    second = (atoms.weights[:, None] * atoms.positions).T @ atoms.positions
    error = np.sqrt(np.mean((second - np.diag([1.0 - S, 1.0 - S, 1.0 + 2.0 * S]) / 3.0) ** 2))
    bar, reached = run.errors["second_moment"][-1], run.errors.reached
    assert 1e-5 < error <= bar <= (1.0 + 1e-12) * reached <= 1e-2
    assert run.errors.leading() is run.errors.bars["second_moment"]
    assert dict(summary(run))["second moment"].startswith("± ")


@pytest.mark.parametrize("density", ["1", "1 + 1e-3*x"])
def test_the_residual_of_an_energy_that_rests_is_no_share_of_rounding(density, tmp_path):
    """It was told to be -100 % of an exchange of 3e-33."""
    case = {
        "energy": [{"kind": "interaction", "kernel": "linear", "strength": -1.0}],
        "domain": {"kind": "sphere", "dim": 2, "cells": 162},
        "initial": {"kind": "expression", "density": density},
        "flow": {"kind": "wasserstein"},
        "time": {"end": 1.0},
    }
    run = hkflow.run(case, output=tmp_path / "run")
    said = dict(summary(run))["energy residual"]
    assert said.endswith("is rounding alone" if density == "1" else "of the energy exchanged")


def test_energies_beside_several_classes_predict(tmp_path):
    """Vectors, at the run's own inputs and of test data, with and without a mesh."""
    points = {"method": {"kind": "particles", "particles": 20}}
    mesh = {"method": {"kind": "grid"}, "domain": {"kind": "sphere", "cells": 42}}
    for k, more in enumerate((points, mesh)):
        case = {
            "data": {
                "source": "inline",
                "inputs": [[1.0], [-0.5], [0.3], [-1.2], [0.7], [0.1]],
                "targets": [0.0, 1.0, 0.0, 1.0, 1.0, 0.0],
                "test_fraction": 0.34,
            },
            "objective": {"activation": "relu", "loss": "softmax"},
            "energy": [{"kind": "external", "potential": "x*y"}],
            "domain": {"kind": "sphere"},
            "flow": {"kind": "wasserstein"},
            "time": {"end": 0.1},
            "error": {"companions": "none"},
        } | more
        run = hkflow.run(case, output=tmp_path / str(k), quiet=True)
        assert run.finished and run.test_predictions.shape == (2, 2, 2)
        again = run.predict(run.inputs, prepared=True)
        assert np.abs(again - run.predictions[-1]).max() < 1e-14


def test_an_own_kink_beside_energies_promises_no_margin(tmp_path):
    """A run folder knows the slopes of a ψ of degree 1. Beside energies no margin is sought."""
    (tmp_path / "leaky_unit.py").write_text(
        "import hkflow\nimport numpy as np\n\n\n"
        "def psi(s):\n    return np.where(s > 0, s, 0.1 * s), np.where(s > 0, 1.0, 0.1)\n\n\n"
        "feature = hkflow.ridge(psi, degree=1)\n"
    )
    path = tmp_path / "leaky.toml"
    path.write_text(
        "energy = [{ kind = 'external', potential = 'x*y' }]\ndomain = { kind = 'signed-sphere' }\n"
        "data = { source = 'inline', inputs = [[1.0, 0.2], [-0.3, 1.0]], targets = [1.0, -1.0] }\n"
        "objective = { activation = 'leaky_unit:feature', loss = 'logistic' }\n"
        "flow = { kind = 'wasserstein' }\nmethod = { kind = 'particles', particles = 20 }\n"
        "time = { end = 0.1 }\n"
    )
    run = hkflow.run(path, tmp_path / "run", quiet=True)
    assert run.finished and run.max_margin is None
    assert run.problem.objective.feature.pieces is None
