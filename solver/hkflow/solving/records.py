"""The numbers that are recorded while a run goes on: a row each, with its label and its value."""

from collections.abc import Callable

import numpy as np

from ..certificates.certificate import MarginCertifier
from ..methods.method import Method
from ..methods.record import SCALED, Record
from ..methods.step import ENERGIES, TERMS
from .predicting import test_predictions_of
from .state import LoopState


def _of_budget(value: Callable) -> Callable:
    """A value that is nan for methods that keep no budgets."""
    return lambda method, clock: value(method, clock) if method.keeps_budgets else np.nan


def _energy(name: str) -> Record:
    value = _of_budget(lambda method, clock: clock.budget[name])
    label = name.replace("_", " ")
    return Record(name, label, f"{TERMS[name]}.", unit=SCALED, value=value)


def _effective_number(shares) -> float:
    """(Σ|s|)² / Σs²: n for n equal shares, 1 for a single one; nan if there are none at all."""
    sizes = np.abs(shares)
    largest = np.maximum.reduce(sizes, initial=0.0)
    if largest == 0.0:
        return 0.0 if len(sizes) else np.nan
    sizes /= largest  # their squares are numbers
    return np.add.reduce(sizes) ** 2 / np.add.reduce(sizes**2)


OF_EVERY_RUN = (
    Record(
        "time", "time", "Time of the flow, or the smooth margin where that is the clock.", "t",
        value=lambda method, clock: clock.time,
    ),
    Record(
        "step", "steps", "Steps taken so far.", compared=True,
        value=lambda method, clock: clock.step,
    ),
    Record("dt", "step size", "Length of the last step.", value=lambda method, clock: clock.dt),
    Record(
        "objective", "objective", "The objective.", "F", SCALED, "log", "objective", compared=True,
        value=lambda method, clock: method.current.objective,
    ),
    Record(
        "mass", "total mass", "The total mass of the measure.", "|ν|", SCALED, panel="mass",
        value=lambda method, clock: method.current.mass,
    ),
    Record(
        "log_mass", "log mass", "Logarithm of the total mass.", "log |ν|", panel="mass",
        compared=True, value=lambda method, clock: method.current.log_mass,
    ),
    Record(
        "log_scale", "log scale", "Logarithm of the unit e^log_scale.", "L",
        value=lambda method, clock: clock.log_scale,
    ),
    *map(_energy, ENERGIES),
    Record(
        "energy_residual", "energy residual", "Change of the objective less what was exchanged.",
        "", SCALED, "log", "residuals",
        value=_of_budget(
            lambda method, clock: method.current.objective
            - clock.objective_at_start
            - sum(clock.budget.energy.tolist())
        ),
    ),
    Record(
        "mass_residual", "mass residual", "Change of the mass less what was exchanged.",
        "", SCALED, "log", "residuals",
        value=_of_budget(
            lambda method, clock: method.current.mass
            - clock.mass_at_start
            - sum(clock.budget.mass.tolist())
        ),
    ),
    Record(
        "training_error", "training error",
        "Share of the data whose class is wrong, or root mean square error of a regression.",
        compared=True,
        value=lambda method, clock: method.problem.objective.error(method.current.predictions),
    ),
    Record(
        "effective_data", "effective data",
        "How many data drive the flow, (Σ|∂R/∂h|)² / Σ(∂R/∂h)²; the support vectors of a margin.",
        value=lambda method, clock: _effective_number(method.current.loss_gradient),
    ),
)  # fmt: skip


def _margin(method, clock):
    e = method.current
    return method.problem.objective.margin(e.predictions) / e.mass if e.mass > 0.0 else 0.0


def _smooth_margin(method, clock):
    return method.problem.objective.smooth_margin(method.current.predictions, clock.log_scale)


OF_CLASSIFIERS = (
    Record(
        "margin", "margin",
        "Smallest margin of the data over the mass; of several classes the lead of the own one.",
        "min y h/|ν|",
        panel="margins", compared=True, value=_margin,
    ),
    Record(
        "smooth_margin", "smooth margin", "Minus the log of the loss.", "γ̃", SCALED,
        value=_smooth_margin,
    ),
)  # fmt: skip


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
    return {"test_error": test.error(h), "test_loss": loss}


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
    has_margins = method.problem.objective.risk.has_margins
    rows = (*OF_EVERY_RUN, *(OF_CLASSIFIERS if has_margins else ()))
    record = {row.name: row.value(method, clock) for row in rows} | method.record(clock)
    if method.problem.test is not None:
        nothing = dict.fromkeys((row.name for row in OF_TESTS), np.nan)
        record |= _tested(method, clock) if tested else nothing
    if certificate:
        bounds = clock.margin_lower, clock.margin_upper
        record |= certificate.record(method.current, record["margin"], bounds, renew)
    return {name: float(value) for name, value in record.items()}


def true_smooth_margin(method: Method) -> float:
    """γ̃ of the accepted state in units of one, inf beyond the largest number."""
    objective, scale = method.problem.objective, method.log_scale
    return objective.smooth_margin(method.current.predictions, scale) * np.exp(scale)
