"""The numbers that are recorded while a run goes on: a row each, with its label and its value."""

from typing import Any

import numpy as np

from ..certificates.certificate import MarginCertifier
from ..methods.method import Method
from ..methods.record import SCALED, Record
from ..methods.step import ENERGIES, TERMS
from ..objectives.protocol import prediction_shape
from .predicting import test_predictions_of
from .state import LoopState


def _effective_number(shares) -> float:
    """(Σ|s|)² / Σs²: n for n equal shares, 1 for a single one; nan if there are none at all."""
    sizes = np.abs(shares)
    total = np.add.reduce(sizes)
    if total == 0.0:
        return 0.0 if len(sizes) else np.nan
    sizes /= total  # their squares are numbers
    return 1.0 / np.add.reduce(sizes * sizes)


def _by_datum(slopes, objective):
    """The loss gradient of each datum, (n,): of several classes Σ_k |∂R/∂h_ik|."""
    shape = prediction_shape(objective)
    return slopes if len(shape) == 1 else np.abs(slopes.reshape(shape)).sum(axis=1)


OF_EVERY_RUN = (
    Record(
        "time", "time",
        "Time of the flow, or what the smooth margin has grown by, where that is the clock.", "t",
    ),
    Record("step", "steps", "Steps taken so far.", compared=True),
    Record("dt", "step size", "Length of the last step."),
    Record(
        "objective", "objective", "The objective.", "F", SCALED, "log", "objective", compared=True
    ),
    Record("mass", "total mass", "The total mass of the measure.", "|ν|", SCALED, panel="mass"),
    Record(
        "log_mass", "log mass", "Logarithm of the total mass.", "log |ν|", panel="mass",
        compared=True,
    ),
    Record("log_scale", "log scale", "Logarithm of the unit e^log_scale.", "L"),
    *(Record(name, name.replace("_", " "), f"{TERMS[name]}.", unit=SCALED) for name in ENERGIES),
    Record(
        "energy_residual", "energy residual", "Change of the objective less what was exchanged.",
        "", SCALED, "log", "residuals",
    ),
    Record(
        "mass_residual", "mass residual", "Change of the mass less what was exchanged.",
        "", SCALED, "log", "residuals",
    ),
    Record(
        "training_error", "training error",
        "Weighted share of data whose class is wrong, or root mean square error of a regression.",
        compared=True,
    ),
    Record(
        "effective_data", "effective data",
        "How many data drive the flow, (Σ|∂R/∂h|)² / Σ(∂R/∂h)²; the support vectors of a margin.",
    ),
)  # fmt: skip


def _of_every_run(method: Method, clock: LoopState) -> dict[str, Any]:
    """The numbers of OF_EVERY_RUN, in one function: between two steps every other one that Python
    enters has left the processor's cache."""
    e, objective = method.current, method.problem.objective
    energies, masses = clock.budget.energy.tolist(), clock.budget.mass.tolist()
    if not method.keeps_budgets:
        energies, masses = [np.nan] * len(energies), [np.nan]
    return {
        "time": clock.time,
        "step": clock.step,
        "dt": clock.dt,
        "objective": e.objective,
        "mass": e.mass,
        "log_mass": e.log_mass,
        "log_scale": clock.log_scale,
        **dict(zip(ENERGIES, energies, strict=True)),
        "energy_residual": e.objective - clock.objective_at_start - sum(energies),
        "mass_residual": e.mass - clock.mass_at_start - sum(masses),
        "training_error": objective.error(e.predictions, clock.log_scale),
        "effective_data": _effective_number(_by_datum(e.loss_gradient, objective)),
    }


OF_CLASSIFIERS = (
    Record(
        "margin", "margin",
        "Smallest margin of the data over the mass; of several classes the lead of the own one.",
        "per |ν|",
        panel="margins", compared=True,
    ),
    Record("smooth_margin", "smooth margin", "Minus the log of the loss.", "γ̃", SCALED),
)  # fmt: skip


def _of_classifiers(method: Method, clock: LoopState) -> dict[str, float]:
    """The numbers of OF_CLASSIFIERS."""
    e, objective = method.current, method.problem.objective
    return {
        "margin": objective.margin(e.predictions) / e.mass if e.mass > 0.0 else 0.0,
        "smooth_margin": objective.smooth_margin(e.predictions, clock.log_scale),
    }


OF_TESTS = (
    Record(
        "test_error", "test error",
        "The same as the training error, of the test data; at saves, every 16 steps and at the end,"
        " nan between.",
        panel="test", compared=True,
    ),
    Record(
        "test_loss", "test loss", "Risk R of the test data, where their error is recorded.",
        "R", SCALED, "log", "test", compared=True,
    ),
)  # fmt: skip


def _tested(method: Method, clock: LoopState) -> dict[str, float]:
    """The records of the test data."""
    test = method.problem.test
    assert test is not None
    h = test_predictions_of(method.problem, method.measure, method.state(), clock.log_scale)
    flat = h.ravel()
    loss = test.evaluate_risk(flat, clock.log_scale, np.empty_like(flat))
    return {"test_error": test.error(h, clock.log_scale), "test_loss": loss}


OF_CERTIFICATES = (
    Record(
        "dual_value", "dual", "Upper bound of the max-margin that the soft-argmin weights prove.",
        panel="margins",
    ),
    Record("slackness_measure", "slackness of the measure", "Residual of slackness under ν."),
    Record("slackness_data", "slackness of the data", "Residual of slackness over the data."),
    Record(
        "margin_lower", "γ from below", "Largest lower bound of the max-margin so far.",
        panel="margins",
    ),
    Record(
        "margin_upper", "γ from above", "Smallest upper bound of the max-margin so far.",
        panel="margins",
    ),
)  # fmt: skip


def take_record(
    method: Method,
    clock: LoopState,
    certificate: MarginCertifier | None = None,
    renew: bool = False,
    tested: bool = False,
) -> dict[str, float]:
    """The numbers recorded after a step, by name; energies and masses are integrals since the
    start, in units of e^log_scale.

    certificate : what encloses the margin of the data, or None;  renew : whether it is to be taken
        now, which costs more than all the rest; else its values are nan;  tested : the same of
        records of the test data
    Neither the method nor the clock is changed.
    """
    record = _of_every_run(method, clock)
    if method.problem.objective.risk.has_margins:
        record |= _of_classifiers(method, clock)
    record |= method.record(clock)
    if method.problem.test is not None:
        nothing = dict.fromkeys((row.name for row in OF_TESTS), np.nan)
        record |= _tested(method, clock) if tested else nothing
    if certificate:
        bounds = clock.margin_lower, clock.margin_upper
        record |= certificate.record(
            method.current, record["margin"], bounds, renew, clock.log_scale
        )
    return {name: float(value) for name, value in record.items()}


def true_smooth_margin(method: Method, e: Any = None) -> float:
    """γ̃ of an evaluation, the accepted one if not given, in units of one, inf beyond the largest
    number."""
    objective, scale = method.problem.objective, method.log_scale
    e = method.current if e is None else e
    return objective.smooth_margin(e.predictions, scale) * np.exp(scale)
