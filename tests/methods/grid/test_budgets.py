"""Conservation, budgets, energy decrease and positivity."""

import numpy as np
import pytest
from conftest import moment_problem, order
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hkflow
from hkflow.methods.grid.finite_volume import FiniteVolume
from hkflow.methods.grid.steppers.muscl_hancock import MusclHancock
from hkflow.methods.step import Step
from hkflow.solving.guards import GUARDS, energy_decrease, mass_budget, sound
from hkflow.solving.solve import integrate
from hkflow.solving.state import LoopState

MESHES = {"circle": hkflow.circle_mesh(40), "sphere": hkflow.geodesic_mesh(2)}


def random_problem(
    seed,
    mesh,
    activation="relu",
    loss="logistic",
    flow=hkflow.Flow(1.0, 2.0),
    signs=(1, -1),
    n=5,
    size=1.0,
    decay=0.0,
):
    rng = np.random.default_rng(seed)
    targets, feature = rng.choice([-1.0, 1.0], size=n), hkflow.FEATURES[activation]
    signs = (1,) if feature.joint else signs
    objective = hkflow.Objective(
        feature,
        hkflow.RISKS[loss],
        size * rng.normal(size=(n, mesh.dim + 1 - feature.joint)),
        targets,
        None,
        decay,
    )
    return hkflow.Problem(mesh, objective, flow, signs, rng.random((len(signs), mesh.n_cells)) ** 3)


@pytest.mark.parametrize("mesh", MESHES.values(), ids=MESHES)
@pytest.mark.parametrize("stepper", ["muscl-hancock", "ssprk1", "ssprk2", "ssprk3", "strang"])
def test_transport_alone_conserves_mass_to_rounding(mesh, stepper):
    r = hkflow.solve(random_problem(1, mesh, flow=hkflow.Flow(1.0)), 5.0, stepper=stepper).records
    assert np.abs(r["mass"] / r["mass"][0] - 1.0).max() <= 1e-13
    assert len(r["time"]) > 10


@pytest.mark.parametrize("stepper", ["muscl-hancock", "ssprk3"])
def test_sibling_one_leaking_face_is_seen_and_stopped(stepper):
    """A face that two cells disagree on; muscl-hancock computes each face once, and loses mass only
    if it arrives elsewhere."""
    method = FiniteVolume(
        random_problem(1, MESHES["sphere"], flow=hkflow.Flow(1.0)), stepper=stepper
    )
    stencil = method.rhs.stencil
    stencil.conductances[7, 2] *= 1.001
    stencil.back[7, 2] = (stencil.back[7, 2] + 1) % 5
    method.load(method.state())
    _, status, finished = integrate(method, [1.0])
    assert not finished and "mass" in status and "budget" in status


@pytest.mark.parametrize("drive", [None, "probability"])
def test_a_standing_potential_makes_exact_mass_budgets_and_energies_of_third_order(
    drive, monkeypatch
):
    problem = random_problem(
        2, MESHES["circle"], "linear", "square", hkflow.Flow(1.0, 2.0, 0.5, drive=drive)
    )

    def loss_gradient():
        runs = [
            hkflow.solve(
                problem, 1.0, stepper="muscl-hancock", max_step=1 / n, tolerance=1e9
            ).records
            for n in (64, 128, 256)
        ]
        assert max(np.abs(r["mass_residual"]).max() for r in runs) < 1e-13
        return [abs(r["energy_residual"][-1]) for r in runs]

    assert np.all(np.abs(order(loss_gradient()) - 3.0) < 0.3)
    monkeypatch.setattr(MusclHancock, "_correct_energy", lambda *_: None)
    assert np.all(order(loss_gradient()) < 2.5)


@pytest.mark.parametrize(
    "stepper, wanted", [("ssprk1", 1), ("ssprk2", 2), ("ssprk3", 3), ("strang", 2)]
)
def test_budgets_close_to_the_order_of_the_integrator(stepper, wanted):
    problem = random_problem(2, MESHES["circle"], "linear", "square", hkflow.Flow(1.0, 2.0, 0.5))
    loss_gradient = []
    for dt in (1 / 64, 1 / 128, 1 / 256):
        r = hkflow.solve(
            problem, 1.0, stepper=stepper, max_step=dt, tolerance=1e9, limiter="first-order"
        ).records
        loss_gradient.append((abs(r["mass_residual"][-1]), abs(r["energy_residual"][-1])))
    for kind in np.transpose(loss_gradient):
        assert wanted - 0.3 < order(kind)[-1] < wanted + 0.7, (kind, order(kind))


def test_noise_alone_relaxes_to_the_uniform_probability_exactly():
    mesh = MESHES["sphere"]
    flow = hkflow.Flow(0.0, 0.0, 0.7)
    problem = random_problem(3, mesh, flow=flow)
    s = hkflow.solve(problem, 3.0, tolerance=1e-8)
    wanted = problem.uniform + (problem.initial - problem.uniform) * np.exp(-0.7 * 3.0)
    assert s.density[-1] == pytest.approx(wanted, rel=1e-6)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 2**32 - 1),
    domain=st.sampled_from(sorted(MESHES)),
    activation=st.sampled_from(sorted(hkflow.FEATURES)),
    loss=st.sampled_from(sorted(hkflow.RISKS)),
    signs=st.sampled_from([(1,), (1, -1)]),
    rates=st.sampled_from([(1.0, 0.0), (1.0, 2.0), (1.0, 4.0), (0.0, 4.0), (0.2, 9.0)]),
    limiter=st.sampled_from(["mc", "koren", "ultimate", "first-order"]),
    n=st.integers(1, 8),
    size=st.sampled_from([0.1, 1.0, 2.0]),
    decay=st.sampled_from([0.0, 0.3]),
)
def test_objective_never_increases_and_density_never_turns_negative(
    seed, domain, activation, loss, signs, rates, limiter, n, size, decay
):
    problem = random_problem(
        seed, MESHES[domain], activation, loss, hkflow.Flow(*rates), signs, n, size, decay
    )
    s = hkflow.solve(problem, 0.2, limiter=limiter)
    assert s.finished, s.status
    F, units = s.records["objective"], np.exp(np.diff(s.records["log_scale"]))
    assert np.all(F[1:] * units - F[:-1] <= 1e-13 * (1.0 + np.abs(F[:-1])))
    assert s.records["minimum_density"].min() >= 0.0
    exchanged = np.abs(s.records["energy_transport"]) + np.abs(s.records["energy_reaction"])
    assert np.all(
        np.abs(s.records["energy_residual"]) <= 1.01e-4 * exchanged + 1e-12 * (1 + np.abs(F))
    )


def test_positivity_survives_a_point_mass_and_strong_reaction():
    mesh = MESHES["sphere"]
    density = np.zeros((2, mesh.n_cells))
    density[0, 10] = 1.0 / mesh.volumes[10]
    problem = random_problem(4, mesh, flow=hkflow.Flow(1.0, 50.0))
    problem = hkflow.Problem(mesh, problem.objective, problem.flow, (1, -1), density)
    s = hkflow.solve(problem, 1.0, cfl=0.5)
    assert s.finished and s.density.min() >= 0.0 and s.records["mass"][-1] > 0.0


def test_courant_bound_rejects_and_retakes():
    """A step sized for a slow start is rejected when faster transport is found, not taken."""
    problem = moment_problem(MESHES["circle"], 1.0, 4.0, target=50.0)
    method = FiniteVolume(problem, cfl=0.5)
    too_long = 3.0 * method.largest_stable_step(1.0)
    step = method.advance(too_long)
    assert step.rejection and "Courant number" in step.rejection
    _, status, finished = integrate(method, [0.2])
    assert finished, status


def test_mass_moves_into_log_scale_without_a_trace(monkeypatch):
    """But rounding, which error control would make into other steps."""
    problem, steps = random_problem(5, MESHES["circle"]), {"tolerance": 1.0, "max_step": 0.05}
    plain = hkflow.solve(problem, 3.0, **steps)
    monkeypatch.setattr("hkflow.methods.grid.state.RESCALE", 2.0)
    scaled = hkflow.solve(problem, 3.0, **steps)
    assert plain.log_scale[-1] == 0.0 and scaled.log_scale[-1] != 0.0
    assert np.exp(scaled.log_scale[-1]) * scaled.density[-1] == pytest.approx(
        plain.density[-1], rel=1e-11
    )
    assert scaled.records["log_mass"] == pytest.approx(plain.records["log_mass"], rel=1e-11)


def test_a_run_has_the_same_bits_on_any_number_of_threads():
    import numba

    runs = []
    for threads in {1, numba.config.NUMBA_NUM_THREADS}:
        numba.set_num_threads(threads)
        runs.append(hkflow.solve(random_problem(7, hkflow.geodesic_mesh(4)), 0.5))
    numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
    assert np.array_equal(runs[0].density, runs[-1].density)
    assert np.array_equal(runs[0].records["objective"], runs[-1].records["objective"])


def test_save_times_are_hit_exactly():
    times = [0.1, 0.25, 1 / 3, 1.0]
    s = hkflow.solve(moment_problem(MESHES["circle"]), 1.0, saves=times)
    assert np.array_equal(s.time, times)
    s = hkflow.solve(moment_problem(MESHES["circle"]), 1.0, saves=[0.5])
    assert np.array_equal(s.time, [0.5, 1.0])


def test_records_follow_a_clock():
    s = hkflow.solve(moment_problem(MESHES["circle"]), 1.0, record_interval=0.25)
    assert 4 <= len(s.records["time"]) <= 6 and s.records["time"][-1] == 1.0


# --- guards


class Doctored:
    """A method whose trial state was tampered with."""

    invalid_reason = FiniteVolume.invalid_reason

    def __init__(self, **changes):
        self.method = FiniteVolume(
            random_problem(
                6, MESHES["circle"], flow=hkflow.Flow(1.0, 2.0, changes.pop("noise", 0.0))
            )
        )
        e = self.method.current
        self.clock = LoopState(e.objective, e.mass, 1.0, lowest_objective=e.objective)
        self.step = self.method.advance(1e-3)
        self.trial = self.method.trial
        for name, value in changes.items():
            setattr(self.trial, name, value)

    def __getattr__(self, name):
        return getattr(self.method, name)


def test_guards_pass_an_honest_step():
    honest = Doctored()
    assert [guard(honest, honest.step, honest.clock) for guard in GUARDS] == [None] * len(GUARDS)


def test_each_guard_sees_its_own_fault():
    bad = Doctored()
    bad.trial.density[0, 17] = np.nan
    bad.trial.smallest = np.nan
    assert sound(bad, bad.step, bad.clock) == "density not finite in 1 of 80 cells, first cell 17"
    bad = Doctored(smallest=-1.0)
    bad.trial.density[1, 3] = -1.0
    assert "density -1 < 0 in 1 of 80 cells, first cell 43" in sound(bad, bad.step, bad.clock)
    bad = Doctored()
    bad.trial.mass *= 1.001
    assert "where the budget says" in mass_budget(bad, bad.step, bad.clock)
    bad = Doctored()
    bad.trial.objective = bad.current.objective + 1e-9
    assert "objective increased" in energy_decrease(bad, bad.step, bad.clock)
    bad = Doctored(noise=0.1)
    bad.trial.objective = bad.current.objective + 1e-9
    assert energy_decrease(bad, bad.step, bad.clock) is None


def test_a_step_that_lowers_the_objective_passes_from_where_implicit_steps_let_it_go():
    """Implicit steps may have left F above its lowest value, by a defect that an explicit one has
    not: grids on which spikes are at rest stopped for good, with F falling in every trial."""
    after = Doctored()
    after.clock.lowest_objective = after.trial.objective - 1e-10
    assert after.current.defect == 0.0 and after.trial.objective < after.current.objective
    assert energy_decrease(after, after.step, after.clock) is None
    after.trial.objective = after.current.objective + 1e-15
    assert "objective increased" in energy_decrease(after, after.step, after.clock)


def test_a_breach_ends_the_run_with_a_sentence():
    def broken(method, step, clock):
        return "the moon is full" if method.trial.mass > 1.2 else None

    problem = moment_problem(MESHES["circle"], 1.0, 4.0)
    clock, status, finished = integrate(FiniteVolume(problem), [2.0], guards=(broken,))
    assert not finished and clock.time < 2.0
    assert status.startswith(
        f"Stopped at t = {clock.time:.6g} after {clock.step} steps: the moon is full, even with a"
        " step of"
    )


def test_a_start_that_is_not_finite_is_told():
    mesh = MESHES["circle"]
    objective = hkflow.Objective(
        hkflow.FEATURES["linear"], hkflow.RISKS["exponential"], [[-1e4, 0.0]], [1.0]
    )
    density = np.zeros((1, mesh.n_cells))
    density[0, 0] = 1.0
    s = hkflow.solve(hkflow.Problem(mesh, objective, hkflow.Flow(), (1,), density), 1.0)
    assert not s.finished and s.status.startswith(
        "Stopped at t = 0: the initial objective is inf and the mass 0.157"
    )


@pytest.mark.parametrize("mesh", MESHES.values(), ids=MESHES)
def test_a_step_that_leaves_no_mass_is_seen_by_a_guard(mesh):
    """As of a flow that keeps the mass, whose J is taken relative to its mean."""
    flow = hkflow.Flow(1.0, 2.0, drive="probability")
    method = FiniteVolume(random_problem(1, mesh, "squared-relu", flow=flow))
    method.advance(1e-3)
    method.trial.density[:] = 0.0
    method.rhs.evaluate(method.trial)
    clock = LoopState(1.0, method.current.mass, [])
    assert method.trial.mass == 0.0 and "mass 0 where" in mass_budget(method, Step(1e-3), clock)
