"""Of many more inputs than data, what the data see of atoms is moved."""

import numpy as np
import pytest

import hkflow
from hkflow.methods.frozen_relu import movement, span
from hkflow.methods.frozen_relu.kinks import Kinks
from hkflow.methods.particles import in_span

RELU = hkflow.FEATURES["relu"]


def of_many_inputs(n=12, axes=40, atoms=100, seed=0):
    """A flow of few data, one of them 0 and two opposite, in many inputs."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, axes))
    x[3], x[5] = 0.0, -2.0 * x[4]
    objective = hkflow.Objective(RELU, hkflow.RISKS["logistic"], x, np.sign(rng.normal(size=n)))
    points = hkflow.random_uniform(rng, atoms, axes - 1)
    start = hkflow.PointMeasure(points, rng.choice([-1.0, 1.0], atoms), np.full(atoms, 1.0 / atoms))
    return hkflow.Problem(None, objective, hkflow.Flow(1.0, 2.0), (1, -1), start)


def until_late(monkeypatch, sparse):
    monkeypatch.setattr(in_span, "SPARSE", 1e9)  # the run itself is in all coordinates
    monkeypatch.setattr(movement, "SPARSE", sparse)
    return hkflow.solve(of_many_inputs(), 60.0, kind="characteristics", tolerance=1e-6)


def test_atoms_move_as_in_all_coordinates(monkeypatch):
    """Until kinks hold nearly all mass."""
    few, all_of_them = (until_late(monkeypatch, sparse) for sparse in (2, 1e9))
    assert few.records["step"][-1] == all_of_them.records["step"][-1]
    assert few.records["held"][-1] > 0.9
    one, other = (s.atoms_at(-1) for s in (few, all_of_them))
    assert np.abs(one.positions - other.positions).max() < 1e-11
    assert np.abs(few.predictions[-1] - all_of_them.predictions[-1]).max() < 1e-12
    assert np.abs(np.linalg.norm(one.positions, axis=1) - 1.0).max() < 1e-14


def test_sibling_without_what_data_do_not_see_atoms_move_wrongly(monkeypatch):
    right, seen = until_late(monkeypatch, 1e9), span.seen

    def of_data_alone(basis, positions):
        found = seen(basis, positions)
        found /= np.linalg.norm(found[:, :-1], axis=1)[:, None]
        found[:, -1] = 0.0
        return found

    monkeypatch.setattr(movement, "seen", of_data_alone)
    wrong = until_late(monkeypatch, 2)
    assert not np.abs(wrong.predictions[-1] - right.predictions[-1]).max() < 1e-3


def test_coordinates_and_positions_belong_to_each_other():
    rng = np.random.default_rng(1)
    basis = span.spanned(np.eye(30)[:4])
    points = hkflow.random_uniform(rng, 14, 29).reshape(2, 7, 30).swapaxes(1, 2).copy()
    own, out = span.seen(basis, points), np.empty_like(points)
    assert own.shape == (2, 5, 7) and np.abs(np.sum(own**2, axis=1) - 1.0).max() < 1e-15
    span.moved(basis, points, own, own, out)
    assert np.abs(out - points).max() < 1e-15


@pytest.mark.parametrize("count", [0, 60])
def test_scratch_does_not_grow_with_the_square_of_the_inputs(count):
    """Bases of 20,000 inputs in each group of blocks would be 125 GiB."""
    feature = RELU if count else hkflow.FEATURES["linear"]
    inputs = np.random.default_rng(0).normal(size=(60, 20_000))
    move = movement.Movement(Kinks.of(feature, inputs), 16)
    assert len(move.kinks.normals) == count
    assert sum(array.nbytes for array in move.scratch) < 3e8
