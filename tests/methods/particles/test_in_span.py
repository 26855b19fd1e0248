"""Points of few data in many inputs are moved in the span of the data."""

import numpy as np
import pytest

import hkflow
from hkflow.methods.particles import in_span

TOLERANCE = 1e-7
# feature, method, options
WAYS = [
    ("relu", "characteristics", {"tolerance": TOLERANCE}),
    ("relu", "characteristics", {"imex": "implicit"}),
    ("linear", "characteristics", {"tolerance": TOLERANCE}),
    ("relu", "particles", {"tolerance": TOLERANCE}),
    ("squared-relu", "particles", {"tolerance": TOLERANCE}),
    ("squared-relu", "particles", {"imex": "implicit"}),
    ("tanh", "particles", {"tolerance": TOLERANCE}),
    ("joint-relu", "particles", {"tolerance": TOLERANCE}),
    ("softmax", "particles", {"tolerance": TOLERANCE}),
    ("softmax", "particles", {"tolerance": TOLERANCE, "stepper": "dopri5"}),
]


def of_many_inputs(activation, n=8, p=40, count=30, seed=0):
    """A flow of few data, one of them 0, two parallel, in many inputs."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, p))
    x[3], x[5] = 0.0, 2.0 * x[4]
    risk, targets, outputs = hkflow.RISKS["logistic"], np.sign(rng.normal(size=n)), 0
    if activation == "softmax":
        feature, outputs = hkflow.vector_feature("relu", 3), 3
        risk, targets = hkflow.SOFTMAX, np.arange(n) % 3
    else:
        own = hkflow.ridge(lambda s: (np.tanh(s), 1.0 / np.cosh(s) ** 2))
        feature = hkflow.FEATURES.get(activation, own)
        outputs = int(feature.joint)
    signs = (1,) if outputs else (1, -1)
    points = hkflow.random_uniform(rng, count, p + outputs - 1)
    start = hkflow.PointMeasure(points, rng.choice(signs, count), rng.random(count))
    objective = hkflow.Objective(feature, risk, x, targets, weight_decay=1e-3)
    return hkflow.Problem(None, objective, hkflow.Flow(1.0, 2.0), signs, start)


def solved(monkeypatch, sparse, way):
    activation, kind, options = way
    monkeypatch.setattr(in_span, "SPARSE", sparse)
    return hkflow.solve(of_many_inputs(activation), 3.0, kind=kind, **options)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way[0]}-{way[1]}-{[*way[2]][-1]}")
def test_points_move_as_in_all_coordinates(monkeypatch, way):
    few, whole = (solved(monkeypatch, sparse, way) for sparse in (2, 1e9))
    one, other = (solution.atoms_at(-1) for solution in (few, whole))
    new = np.random.default_rng(1).normal(size=(20, 40))
    wanted = whole.predict(new)
    size = np.abs(wanted).max()
    assert size > 0.1 and np.abs(few.predict(new) - wanted).max() < 20.0 * TOLERANCE * size
    assert np.abs(one.positions - other.positions).max() < 20.0 * TOLERANCE
    assert np.abs(np.linalg.norm(one.positions, axis=1) - 1.0).max() < 1e-14


def test_sibling_without_what_data_do_not_see_points_move_wrongly(monkeypatch):
    way = WAYS[0]
    right, made = solved(monkeypatch, 1e9, way), in_span.InSpan.__init__

    def of_data_alone(span, objective, start):
        made(span, objective, start)
        span.coordinates[:, len(span.basis)] = 0.0
        span.coordinates /= np.linalg.norm(span.coordinates, axis=1, keepdims=True)

    monkeypatch.setattr(in_span.InSpan, "__init__", of_data_alone)
    wrong = solved(monkeypatch, 2, way)
    assert not np.abs(wrong.predictions[-1] - right.predictions[-1]).max() < 1e-3


def stepped(method):
    """The state, its arrays copied, after three more steps of equal lengths."""
    for _ in range(3):
        step = method.advance(0.01)
        assert not step.rejection
        method.accept(step)
    return {name: np.copy(value) for name, value in method.state().items() if name != "random"}


@pytest.mark.parametrize("kind", [hkflow.Characteristics, hkflow.Particles])
def test_a_state_goes_on_to_the_bit(kind):
    one, other = kind(of_many_inputs("relu")), kind(of_many_inputs("relu"))
    stepped(one)
    other.load(one.state())
    later, wanted = stepped(other), stepped(one)
    assert later["coordinates"].shape == (30, 7)
    assert all(np.array_equal(later[name], wanted[name]) for name in wanted)


def test_a_run_begins_again_from_its_first_save_to_the_bit():
    """As one that is resumed does."""
    problem = of_many_inputs("relu", p=300)
    first = problem.initial
    again = hkflow.PointMeasure(first.positions, first.signs, first.weights)
    assert np.array_equal(again.positions, first.positions)
    saved = hkflow.Characteristics(problem).state()["positions"]
    assert np.array_equal(saved, first.positions)


def test_positions_are_those_of_their_coordinates():
    """To rounding, of points in the span and of one orthogonal to it as well."""
    problem = of_many_inputs("joint-relu")
    positions = problem.initial.positions.copy()
    x = problem.objective.inputs
    positions[0, :-1], positions[0, -1] = x[0] / np.linalg.norm(x[0]), 0.0
    positions[1] = np.linalg.svd(np.pad(x, ((0, 0), (0, 1))))[2][-1]
    span = in_span.InSpan(problem.objective, positions)
    own = span.coordinates
    assert own.shape == (30, len(span.basis) + 2) and len(span.basis) == 6
    assert np.abs(np.sum(own**2, axis=1) - 1.0).max() < 1e-14
    assert np.array_equal(span.positions(own), positions)
    turned = own * np.array([1.0] * 6 + [-1.0, 1.0])
    assert np.abs(np.linalg.norm(span.positions(turned), axis=1) - 1.0).max() < 1e-14


def test_others_move_in_all_coordinates():
    """Where more acts than data do, and where data are many."""
    problem = of_many_inputs("relu")
    assert in_span.in_span(problem) is not None
    objective, start = problem.objective, problem.initial
    noisy = hkflow.Problem(None, objective, hkflow.Flow(1.0, 2.0, 0.1), (1, -1), start)
    driven = hkflow.Sum(objective, hkflow.External("x"))
    driven = hkflow.Problem(None, driven, problem.flow, (1, -1), start)
    many = of_many_inputs("relu", n=20)
    assert all(in_span.in_span(other) is None for other in (noisy, driven, many))


def test_particles_of_20000_inputs_need_little_memory():
    """Bases of so many inputs in each group of blocks would be 100 GB."""
    problem = of_many_inputs("relu", n=60, p=20_000, count=64)
    method = hkflow.Particles(problem, stepper="sliding")
    assert sum(array.nbytes for array in method.sliding.scratch(4, 3)) < 3e7
