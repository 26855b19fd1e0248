"""Implicit steps where kinks hold mass: the coupling through the data, and margin flows that need
it."""

import numpy as np
import pytest
from conftest import ROOT

import hkflow
from hkflow.methods.characteristics import characteristics
from hkflow.methods.choice import make_method
from hkflow.methods.particles.tangent_gram import coupling_matrix
from hkflow.methods.step import Step


def margins(seed, cells=162):
    """Cluster data on three by three discs, and the flow of the smooth margin."""
    overrides = {"seed": seed, "domain.cells": cells}
    return hkflow.check(ROOT / "cases" / "colt" / "cluster-margin.toml", **overrides)[1]


@pytest.fixture(scope="module")
def sliding():
    """A method whose kinks hold a good part of the mass."""
    method = make_method(margins(1), "characteristics")
    for _ in range(60):
        step = method.advance(0.5, implicit=True)
        assert not step.rejection
        method.accept(step)
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


def test_margin_flows_reach_log_masses_of_a_hundred():
    s = hkflow.solve(margins(9, 642), 800.0, kind="characteristics", record_interval=100.0)
    assert s.finished and s.records["log_mass"][-1] > 100.0 and s.records["step"][-1] < 250
    lower, upper = (s.records[f"margin_{side}"][-1] for side in ("lower", "upper"))
    assert 0.0 < lower <= upper < (1.0 + 1e-3) * lower
