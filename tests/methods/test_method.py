"""The door of a method: the loop, its controller, guards and writers use what Method declares, and
nothing else."""

import numpy as np
import pytest

import hkflow
from hkflow.certificates.certificate import MarginCertifier
from hkflow.methods.choice import METHODS, make_method, method_class
from hkflow.methods.method import Method
from hkflow.methods.stepping.implicit import ImplicitSteps
from hkflow.solving.guards import GUARDS
from hkflow.solving.loop import Loop
from hkflow.solving.observer import State
from hkflow.solving.solution import Memory

DECLARED = set(Method.__annotations__) | {name for name in vars(Method) if name[0] != "_"}
OF_IMPLICIT_STEPS = {name for name in vars(ImplicitSteps) if name[0] != "_"}
OF_EVALUATIONS = {
    "objective",
    "mass",
    "log_mass",
    "predictions",
    "loss_gradient",
    "rounding",
    "defect",
}


class Door:
    """A thing of which only the names given can be used."""

    def __init__(self, thing, names):
        self.__dict__.update(_thing=thing, _names=names)

    def __getattr__(self, name):
        assert name in self._names, f"{name} is declared nowhere"
        value = getattr(self._thing, name)
        if name in ("current", "trial"):
            return Door(value, OF_EVALUATIONS)
        return self._opened(value) if callable(value) else value

    @staticmethod
    def _opened(function):
        """A method of the thing itself, which may look behind its own doors."""

        def call(*args, **options):
            return function(*(a._thing if isinstance(a, Door) else a for a in args), **options)

        return call

    def __setattr__(self, name, value):
        raise AssertionError(f"{name} is set from outside")


def problem(kind, loss):
    """Data with contradicting slopes for the square loss; separable ones for the margin."""
    rng = np.random.default_rng(3)
    inputs = np.column_stack([rng.normal(size=8), np.ones(8)])
    targets = np.where(inputs[:, 0] > 0.1, 1.0, -1.0)
    objective = hkflow.Objective(hkflow.FEATURES["relu"], hkflow.RISKS[loss], inputs, targets)
    flow, signs = hkflow.Flow(1.0, 2.0), (1, -1)
    if kind == "grid":
        return hkflow.Problem(hkflow.circle_mesh(24), objective, flow, signs)
    points = np.tile(hkflow.quasi_uniform(10, 1), (2, 1))
    start = hkflow.PointMeasure(points, np.repeat([1.0, -1.0], 10))
    if kind == "network":
        start = hkflow.Units(points, np.repeat([1.0, -1.0], 10))
    return hkflow.Problem(None, objective, flow, signs, start)


def run(kind, loss, names, **options):
    method = make_method(problem(kind, loss), kind=kind, **options)
    door = Door(method, names)
    memory, states = Memory(), []
    observers = (memory, hkflow.observe(lambda state: states.append(state.record())))
    certificate = MarginCertifier.of(method.problem)
    _, status, finished = Loop(door, [0.0, 0.2, 8.0], observers, GUARDS, certificate).run()
    assert finished and len(states) == len(memory.records), status
    assert State(door, method).atoms().mass > 0.0
    return memory


@pytest.mark.parametrize("loss", ["square", "smooth-margin"])
@pytest.mark.parametrize("kind", METHODS)
def test_the_loop_uses_only_what_methods_declare(kind, loss):
    names = DECLARED | (
        OF_IMPLICIT_STEPS if issubclass(method_class(kind), ImplicitSteps) else set()
    )
    assert len(run(kind, loss, names).records) > 5


def test_sibling_what_is_not_declared_is_seen():
    with pytest.raises(AssertionError, match="mass_slack is declared nowhere"):
        run("grid", "square", (DECLARED | OF_IMPLICIT_STEPS) - {"mass_slack"})


@pytest.mark.parametrize("kind", METHODS)
def test_methods_are_whole(kind):
    assert issubclass(method_class(kind), Method) and not method_class(kind).__abstractmethods__
