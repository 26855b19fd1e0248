"""2-homogeneity paper, Lemmas 3.2 and 3.3: masses on fixed directions follow the mirror flow of the
entropy, d log ν/dt = −2J. So for every measure ν̄ on these directions

    2 ∫_0^t (F(ν_s) − F(ν̄)) ds ≤ KL(ν̄, ν_0) − KL(ν̄, ν_t),   KL(a, b) = ∫ a log(a/b) + b − a,

and both sides are equal where F is linear."""

import numpy as np
from conftest import ROOT

import hkflow


def divergence(a, b):
    """KL(a, b) of masses a and b > 0."""
    return np.sum(a * np.log(a / b) + b - a)


def both_sides(reaction):
    """The two sides at t = 4 for ν̄ = (1 + ½ e·θ) ν_t, with the factor 2 whatever the reaction."""
    changes = {"objective.loss": "logistic", "domain.cells": 162, "flow.reaction": reaction}
    _, problem = hkflow.check(ROOT / "cases" / "twohom" / "thm36.toml", **changes)
    objective, s = problem.objective, hkflow.solve(problem, 4.0, record_interval=0.01)
    first, last = (s.atoms_at(k) for k in (0, -1))
    other = last.weights * (1.0 + 0.5 * last.positions[:, 0])
    h = objective.feature.matrix(last.positions, objective.inputs) @ (last.signs * other)
    F = np.mean(np.log1p(np.exp(-objective.targets * h)))
    left = 2.0 * np.trapezoid(s.records["objective"] - F, s.records["time"])
    return left, divergence(other, first.weights) - divergence(other, last.weights)


def test_masses_on_fixed_directions_follow_the_mirror_flow():
    left, right = both_sides(2.0)
    assert 0.98 * right < left <= right


def test_sibling_half_the_reaction_does_not():
    left, right = both_sides(1.0)
    assert left > 1.5 * right
