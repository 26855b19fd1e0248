"""Implicit steps where kinks hold mass: the coupling through the data, and margin flows that need
it."""

import numba
import numpy as np
import pytest
from conftest import ROOT

import hkflow
from hkflow.methods.characteristics import characteristics
from hkflow.methods.choice import make_method
from hkflow.methods.frozen_relu import tangent_gram
from hkflow.methods.frozen_relu.tangent_gram import held_coupling, in_span, on_kinks
from hkflow.methods.particles.tangent_gram import coupling_matrix
from hkflow.methods.step import Step
from hkflow.methods.stepping.implicit_loss_gradients import Coupling


def margins(seed, cells=162):
    """Cluster data on three by three discs, and the flow of the smooth margin."""
    overrides = {"seed": seed, "domain.cells": cells}
    return hkflow.check(ROOT / "cases" / "colt" / "cluster-margin.toml", **overrides)[1]


def after(steps, dt, kind):
    """A method after implicit steps of its margin flow."""
    method = make_method(margins(1), kind)
    for _ in range(steps):
        step = method.advance(dt, implicit=True)
        assert not step.rejection
        method.accept(step)
    return method


@pytest.fixture(scope="module")
def sliding():
    """A method whose kinks hold a good part of the mass."""
    method = after(70, 0.5, "characteristics")
    assert method.record(None)["held"] > 0.2
    return method


def answer(method, change, tau=1e-5):
    """−dh/dr along a change of the loss gradients, by differences of the frozen flow."""
    ends = []
    for side in (1.0, -1.0):
        r = method.current.loss_gradient + 1e-3 * side * change
        ends.append(method.frozen(method.current, method.trial, r, tau, Step(tau)).copy())
    return (ends[1] - ends[0]) / (2e-3 * tau)


def plain_coupling(objective, normals, positions, weights, held, flow):
    """The coupling of atoms that no kink holds."""
    return coupling_matrix(objective, positions, weights, weights, flow)


def test_atoms_that_kinks_hold_answer_along_them(sliding):
    change = sliding.current.loss_gradient
    wanted = answer(sliding, change)
    found = sliding.coupling_at(sliding.current).product(change)
    assert np.abs(found - wanted).max() < 1e-3 * np.abs(wanted).max()


def test_sibling_the_coupling_of_free_atoms_is_another(sliding, monkeypatch):
    monkeypatch.setattr(characteristics, "held_coupling", plain_coupling)
    change = sliding.current.loss_gradient
    wanted = answer(sliding, change)
    found = sliding.coupling_at(sliding.current).product(change)
    assert np.abs(found - wanted).max() > 1e-2 * np.abs(wanted).max()


def atoms_on_kinks(p, n_data=23, each=7, seed=0):
    """Data, two of them parallel and two opposite, and atoms on 0 … p − 1 of their kinks."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_data, p))
    x[1], x[2] = 3.0 * x[0], -x[0]
    objective = hkflow.Objective(
        hkflow.FEATURES["relu"], hkflow.RISKS["smooth-margin"], x, np.sign(rng.normal(size=n_data))
    )
    normals = x[[0, *range(3, n_data)]]
    normals /= np.linalg.norm(normals, axis=1)[:, None]
    points = []
    for on in range(p):
        for _ in range(each):
            chosen = normals[rng.permutation(len(normals))[:on]]
            free = rng.normal(size=p)
            for _ in range(3):
                free -= np.linalg.pinv(chosen) @ (chosen @ free) if on else 0.0
                free /= np.linalg.norm(free)
            points.append(free)
    return objective, normals, np.array(points), rng.random(p * each)


def coupling_by_projections(objective, normals, positions, weights, held, flow):
    """K by its definition, an atom at a time; what holds one is found by singular values."""
    x, K = objective.inputs, 0.0
    for theta, m, kept in zip(positions, weights, held, strict=True):
        on = normals[np.abs(normals @ theta) <= 1e-12] if kept else normals[:0]
        _, sizes, rows = np.linalg.svd(np.vstack([theta, on, np.zeros((len(theta), len(theta)))]))
        free = rows[np.count_nonzero(sizes > 1e-9) :]
        slope = (x @ theta > 0.0).astype(float)
        phi, tangents = slope * (x @ theta), slope[:, None] * (x @ free.T)
        K = K + m * (flow.reaction * np.outer(phi, phi) + flow.transport * tangents @ tangents.T)
    return K


@pytest.mark.parametrize("p", [2, 3, 6, 16, 40])
def test_the_coupling_is_the_sum_of_its_definition(p):
    objective, normals, points, weights = atoms_on_kinks(p)
    flow, held = hkflow.Flow(1.0, 2.0), np.arange(len(points)) >= 7
    wanted = coupling_by_projections(objective, normals, points, weights, held, flow)
    found = held_coupling(objective, normals, points, weights, held, flow)
    assert np.abs(found - wanted).max() <= 1e-13 * np.abs(wanted).max()
    unheld = held_coupling(objective, normals, points, weights, np.zeros_like(held), flow)
    assert np.abs(unheld - wanted).max() > 1e-3 * np.abs(wanted).max()


def directions_of(p, on):
    """Whether K is summed over the directions that hold, and how many are summed over, of atoms on
    so many kinks."""
    _, normals, points, _ = atoms_on_kinks(p)
    points = np.ascontiguousarray(points[7 * on : 7 * on + 7])
    along, counts, few = np.zeros((7, p, p)), np.zeros(7, dtype=np.int64), np.zeros(7, dtype=bool)
    tangent_gram.movable(7, 0, normals, points, along, counts, few)
    for basis, count in zip(along, counts, strict=True):
        assert np.abs(basis[:count] @ basis[:count].T - np.eye(count)).max() < 1e-14
        assert not basis[count:].any()
    return few, counts


@pytest.mark.parametrize(
    ("p", "on", "few", "count"),
    [(16, 6, True, 7), (16, 7, False, 8), (16, 14, False, 1), (3, 1, False, 1), (3, 0, True, 1)],
)
def test_the_fewer_directions_are_summed_over(p, on, few, count):
    """Of an atom on kinks 1 + on directions hold it, itself among them."""
    found, counts = directions_of(p, on)
    assert (found == few).all() and (counts == count).all()


@pytest.mark.parametrize("name", ["products", "add_gram"])
def test_sibling_what_holds_is_taken_from_all_directions(monkeypatch, name):
    objective, normals, points, weights = atoms_on_kinks(16)
    flow, held = hkflow.Flow(1.0, 2.0), np.arange(len(points)) >= 7
    wanted = coupling_by_projections(objective, normals, points, weights, held, flow)
    given = getattr(tangent_gram, name)

    def halved(first, second, *out):
        return given(0.5 * first, second, *out)

    monkeypatch.setattr(tangent_gram, name, halved)
    found = held_coupling(objective, normals, points, weights, held, flow)
    assert np.abs(found - wanted).max() > 1e-3 * np.abs(wanted).max()


def test_directions_are_sought_in_the_span_of_the_data():
    """Two of 23 data are parallel to a third: they span 21 of 40 dimensions."""
    objective, normals, points, _ = atoms_on_kinks(40)
    x, n, atoms = in_span(objective.inputs, normals, points)
    assert x.shape == (23, 22) and n.shape == (21, 22) and atoms.shape == (280, 22)
    assert np.abs(x @ x.T - objective.inputs @ objective.inputs.T).max() < 1e-13
    assert np.abs(atoms @ x.T - points @ objective.inputs.T).max() < 1e-14
    assert np.abs(np.linalg.norm(atoms, axis=1) - 1.0).max() < 1e-14
    assert np.array_equal(on_kinks(n, atoms), on_kinks(normals, points))
    objective, *at = atoms_on_kinks(16)
    assert in_span(objective.inputs, *at[:2])[0] is objective.inputs


def test_the_coupling_has_the_same_bits_for_any_number_of_threads():
    objective, normals, points, weights = atoms_on_kinks(6, n_data=61, each=40)
    held, found = np.arange(len(points)) >= 7, []
    for threads in {1, numba.config.NUMBA_NUM_THREADS}:
        numba.set_num_threads(threads)
        found.append(held_coupling(objective, normals, points, weights, held, hkflow.Flow(1, 2)))
    assert all(np.array_equal(K, found[0]) for K in found)


def test_margin_flows_reach_log_masses_of_a_hundred():
    s = hkflow.solve(margins(9), 800.0, kind="characteristics", record_interval=100.0)
    assert s.finished and s.records["log_mass"][-1] > 100.0 and s.records["step"][-1] < 250
    lower, upper = (s.records[f"margin_{side}"][-1] for side in ("lower", "upper"))
    assert 0.0 < lower <= upper < (1.0 + 1e-3) * lower


def degenerate():
    """A margin flow in which nine data share the smallest margin while three positions carry all
    mass: most changes of the loss gradients move nothing, until a kink lets go what it holds. It is
    given up after 158 steps: 145 are needed, and without the proximal term 171 to 312, or no number
    of them, which depends on rounding."""
    problem, times = margins(2), []

    def gives_up(state):
        times.append(state.time)
        return len(times) > 158

    options = {"kind": "characteristics", "record_interval": 50.0, "observers": [gives_up]}
    return hkflow.solve(problem, 1400.0, **options)


def test_loss_gradients_that_nothing_answers_to_do_not_wander():
    s = degenerate()
    assert s.finished and s.time[-1] == 1400.0 and s.records["log_mass"][-1] > 150.0
    lower, upper = (s.records[f"margin_{side}"][-1] for side in ("lower", "upper"))
    assert 0.0 < lower <= upper < (1.0 + 1e-3) * lower


def test_sibling_without_the_proximal_term_they_do(monkeypatch):
    monkeypatch.setattr(Coupling, "stiffer", lambda coupling, more: coupling)
    assert degenerate().time[-1] < 1400.0


def test_atoms_of_a_grid_on_kinks_answer_along_them():
    """K knows it, which products, for free atoms, do not."""
    method = after(60, 0.3, "grid")
    now, tau, ends = method.current, 1e-4, []
    assert now.atoms.mass > 0.8 * now.mass
    for share in (1.001, 0.999):
        end = now.loss_gradient * share
        frozen = method.stepper.frozen.drive
        ends.append(frozen(now, method.spares[0], end, tau, Step(tau)).copy())
    wanted = (ends[1] - ends[0]) / (2e-3 * tau)
    coupling, size = method.coupling_at(now), np.abs(wanted).max()
    assert np.abs(coupling.times(now.loss_gradient) - wanted).max() < 0.01 * size
    assert np.abs(coupling.product(now.loss_gradient) - wanted).max() > 0.02 * size
