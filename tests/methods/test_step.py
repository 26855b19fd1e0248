"""Budgets: named terms, their sums, and their lists in run folders."""

import copy
import inspect
import pickle
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from hkflow.methods import step
from hkflow.methods.step import ENERGIES, MASSES, TERMS, Budget, Step, budget_error, shares


def a_budget():
    budget = Budget()
    budget.set(energy_transport=-1.0, energy_noise_gain=0.25, mass_reaction=2.0, mass_exchanged=3.0)
    return budget


def test_terms_are_found_by_name():
    budget = a_budget()
    assert (budget["energy_transport"], budget["mass_exchanged"]) == (-1.0, 3.0)
    assert budget.energy.sum() == -0.75 and budget.mass.sum() == 2.0
    budget.add(energy_transport=-1.0, energy_exchanged=1.0)
    budget["mass_reaction"] = 5.0
    assert budget.energy.tolist() == [-2.0, 0.0, 0.0, 0.25, 0.0] and budget.exchanged.tolist() == [
        1,
        3,
    ]
    budget.set(mass_noise_gain=1.0)
    assert budget.values.sum() == budget["mass_noise_gain"] == 1.0
    with pytest.raises(KeyError, match="energy_curvature"):
        budget.add(energy_curvature=1.0)


def test_rates_are_integrated_with_what_they_exchange():
    """A negative Runge–Kutta weight takes back what terms gained, and counts as exchange."""
    sums = Budget()
    sums.integrate(0.5, a_budget())
    sums.integrate(-0.25, a_budget())
    assert np.array_equal(sums.terms, 0.25 * a_budget().terms)
    assert sums["mass_exchanged"] == 0.75 * 3.0


def test_mechanisms_are_integrated_alone():
    moved, rest = Budget(), Budget()
    moved.integrate(1.0, a_budget(), shares(transport=1.0, others=0.0))
    rest.integrate(1.0, a_budget(), shares(transport=0.0, others=1.0))
    assert moved.terms.sum() == moved["energy_transport"] == -1.0
    assert np.array_equal(moved.terms + rest.terms, a_budget().terms)


def test_the_error_is_what_a_budget_misses():
    def state(objective, mass):
        return SimpleNamespace(objective=objective, mass=mass, rounding=1e-16)

    tried = Step(0.1)
    tried.budget.set(energy_reaction=-0.5, mass_reaction=0.2, energy_exchanged=0.5)
    before, after = state(1.0, 1.0), state(0.45, 1.2)
    assert budget_error(before, after, tried, 1e-4) == pytest.approx(0.1)
    tried.budget.add(energy_transport=-0.05)
    assert budget_error(before, after, tried, 1e-4) < 1e-12


def test_rounding_shortens_no_steps():
    """What it hides counts up to half the tolerance; nearer, it would count for more in a shorter
    step, without end."""
    state = SimpleNamespace(objective=1.0, mass=1.0, rounding=0.4e-16)
    tried = Step(0.1)
    tried.budget.set(energy_exchanged=1e-12)
    assert budget_error(state, state, tried, 2e-4) == pytest.approx(8e-5)
    assert budget_error(state, state, tried, 1e-4) is None


def test_lists_keep_their_order():
    """That of run folders of format 4 and 5, which end before entropy."""
    assert set(TERMS) == {*ENERGIES, *MASSES} and list(TERMS)[7:] == ["energy_entropy"]
    terms, exchanged = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7], [1.0, 2.0]
    budget = Budget.from_lists(terms, exchanged)
    assert budget.as_lists() == ([*terms, 0.0], exchanged)
    assert budget["energy_noise_gain"] == 0.4 and budget["mass_noise_gain"] == 0.7


@pytest.mark.parametrize(
    "terms, exchanged",
    [([0.0] * 6, [0.0] * 2), ([0.0] * 9, [0.0] * 2), ([0.0] * 7, [0.0]), ([0.0] * 7, None),
     (["1"] * 7, [0.0] * 2), (7, [0.0] * 2)],
)  # fmt: skip
def test_lists_that_are_none_are_refused(terms, exchanged):
    with pytest.raises(ValueError, match="of a budget are"):
        Budget.from_lists(terms, exchanged)


def test_a_further_energy_is_one_row(monkeypatch):
    """It has a place and a name, counts in sums, and folders of before are read without it."""
    lines = inspect.getsource(step).splitlines()
    place = next(k for k, line in enumerate(lines) if '"energy_entropy":' in line)
    lines.insert(place + 1, '    "energy_curvature": "Energy that curvature exchanged.",')
    lines = [line.replace("from ..", "from hkflow.") for line in lines]
    longer = ModuleType("longer")
    monkeypatch.setitem(sys.modules, "longer", longer)  # where dataclasses look
    exec(compile("\n".join(lines), "longer", "exec"), vars(longer))
    old = longer.Budget.from_lists(list(np.arange(7.0)), [1.0, 2.0])
    assert old["energy_curvature"] == 0.0 and old["mass_noise_gain"] == 6.0
    old.add(energy_curvature=-1.0)
    assert old.energy.sum() == 0.0 + 1.0 + 2.0 + 3.0 - 1.0 and old.mass.sum() == 15.0
    assert longer.Budget.from_lists(*old.as_lists())["energy_curvature"] == -1.0


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda b: pickle.loads(pickle.dumps(b))])
def test_copies_are_whole(copied):
    """Ranks send one another the state of a loop: the parts of a copy are views of its own
    numbers."""
    budget = Budget()
    budget.add(energy_reaction=1.0, mass_reaction=2.0, mass_exchanged=3.0)
    twin = copied(budget)
    twin.values *= 2.0
    assert (twin["mass_reaction"], twin.mass.sum(), twin.exchanged[1]) == (4.0, 4.0, 6.0)
    assert twin.energy.sum() == 2.0 and budget["energy_reaction"] == 1.0
