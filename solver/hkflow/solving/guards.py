"""Guards: what must hold after every step. A breach rejects the step; if no smaller step helps, it
ends the run.

Each guard takes the method, whose `current` and `trial` are the states before and after, the step,
and the clock with what was exchanged before it; it returns None or the sentence that says what is
wrong. Budgets are watched over the step and since the start: a fault that hides in the rounding of
tiny steps shows in their sum.
"""

from math import exp, expm1, isfinite, log, sqrt
from typing import Any

import numpy as np

from ..arguments import Floats
from ..methods.method import Method
from ..methods.step import MASS_ROUNDING, SMALLEST, Step
from ..objectives.losses import LARGEST_LOG, SMOOTH_MARGINS
from ..objectives.objective import Objective
from ..remembered import remembered
from .state import LoopState

CLOCK_DRIFT = 1e-4  # of the smooth margin, where it is the clock
MASS_DRIFT = 1e-12  # of the mass, since the start
ROUNDINGS = 64.0  # of the sums that make a smooth margin
WALK = 1.0 / 16.0  # of the rounding of F: that of the masses in one step
# tolerances: the share of a step's exchange by which the normalised smooth margin may fall
MARGIN_SLACK = 100.0


def sound(method: Method, step: Step, clock: LoopState) -> str | None:
    """Nothing is nan or infinite, and no density negative."""
    after, fault = method.trial, method.invalid_reason()
    if fault or (isfinite(after.objective) and isfinite(after.mass)):
        return fault
    return f"objective {after.objective} and mass {after.mass} are not both finite"


def mass_budget(method: Method, step: Step, clock: LoopState) -> str | None:
    """The mass changes by what reaction and noise exchange, and by nothing else: in this step, and
    since the start.

    A method's mass_slack is the share of the exchange by which its steps may miss the budget;
    descent by prescribed steps keeps no budget, nor does it promise to decrease the objective.
    """
    if method.fixed_steps:
        return None
    before, after = method.current.mass, method.trial.mass
    largest, exchanged = max(before, after), sum(step.budget.mass.tolist())
    expected = before + exchanged
    if (
        abs(after - expected)
        > method.mass_slack * step.budget["mass_exchanged"] + MASS_ROUNDING * largest + SMALLEST
    ):
        return f"mass {after:.15g} where the budget says {expected:.15g}"
    expected = clock.mass_at_start + sum(clock.budget.mass.tolist()) + exchanged
    sizes = clock.budget["mass_exchanged"] + step.budget["mass_exchanged"]
    if abs(after - expected) > method.mass_slack * sizes + MASS_DRIFT * largest:
        return f"mass {after:.15g} where the budget since the start says {expected:.15g}"
    return None


def energy_decrease(method: Method, step: Step, clock: LoopState) -> str | None:
    """Without noise, the objective does not rise above the lowest value so far, beyond rounding and
    what the method may.

    The lowest value is known to rounding, and to the defect of its implicit predictions. Masses are
    rounded in every step: at rest F walks with them at random, like the root of the steps. A
    method's energy_slack is the share that it may give back of all the energy exchanged so far: 0
    for the grid. A step that lowers F passes from wherever earlier ones were let go: these may have
    been implicit, with a defect that it has not.
    """
    if method.fixed_steps or method.flow.noise > 0.0:
        return None
    before, after = method.current, method.trial
    sizes = clock.budget["energy_exchanged"] + step.budget["energy_exchanged"]
    slack = method.energy_slack * sizes + before.rounding * (1.0 + WALK * sqrt(clock.step))
    slack += np.abs(before.loss_gradient).sum() * before.defect if before.defect else 0.0
    if after.objective <= max(clock.lowest_objective + slack, before.objective):
        return None
    return f"objective increased from {clock.lowest_objective:.15g} to {after.objective:.15g}"


def margin_increase(method: Method, step: Step, clock: LoopState) -> str | None:
    """Once the smooth margin ψ = ℓ⁻¹(Σ q_i ℓ(u_i) / min q) is positive, ψ/|ν| does not decrease.

    Along any flow with mobility ν and J = −c ∇ψ, c > 0, as exponential, logistic and their
    smooth-margin risks have it without weight decay and noise: ∫∇ψ dν = Σ ∂_i ψ u_i ≥ ψ, and by
    Cauchy–Schwarz

        ψ̇/ψ ≥ β c (∫∇ψ dν)²/(|ν|ψ) ≥ β c ∫∇ψ dν/|ν| = d log|ν|/dt,

    whatever transport adds. Networks have their norm in place of |ν| (`homogeneous_norm`), and so
    they may have any depth.

    That is the exact flow. A step errs by a share of what it exchanges, |Δψ| + ψ ∫(size of d|ν|/dt)
    dt/|ν|, that shrinks with the step; it may lower ψ by MARGIN_SLACK · tolerance of it, at most by
    the method's mass_slack. A step that errs more is taken again shorter, while a wrong flow errs
    by the same share whatever the step. Besides, ψ has the rounding of its sums and the defect of
    implicit predictions. Particles and units that move over the kinks of ReLU are let pass: sliding
    along a kink they step to and fro, by a share of the exchange that no shorter step makes less.

    Source: 2-homogeneity paper, Thm 3.6; Lyu & Li 2020.
    """
    objective, before, after = method.problem.objective, method.current, method.trial
    unnormalised = method.problem.spreads or method.flow.keeps_mass or objective.weight_decay > 0.0
    if method.fixed_steps or unnormalised or objective.risk.tail not in SMOOTH_MARGINS:
        return None
    if not objective.margin(before.predictions) > 0.0:
        return None  # nor is ψ, a lower bound of them
    sizes: list[Any] = [method.homogeneous_norm(e) for e in (before, after)]
    if method.slides or None in sizes:
        return None
    psi, later = (
        attained_margin(objective, e.predictions, method.log_scale) for e in (before, after)
    )
    if not psi > 0.0 or not isfinite(later + sum(sizes)) or before.mass <= 0.0:
        return None
    exchange = abs(later - psi) + psi * step.budget["mass_exchanged"] / before.mass
    extent = objective.largest_feature * max(before.mass, after.mass)
    # margins come from exponentials: ψ is known to rounding of one at best
    extent += exp(-max(method.log_scale, -LARGEST_LOG))
    slack = min(MARGIN_SLACK * method.tolerance, method.mass_slack) * exchange + step.defect
    if later >= psi * sizes[1] / sizes[0] - slack - ROUNDINGS * np.finfo(float).eps * (
        psi + extent
    ):
        return None
    return (
        f"the normalised smooth margin fell from {psi / sizes[0]:.15g} to {later / sizes[1]:.15g}"
    )


def attained_margin(objective: Objective, predictions: Floats, log_scale: float) -> float:
    """ℓ⁻¹(Σ q_i ℓ(u_i) / min q) in units of e^log_scale, a lower bound of min u; ℓ⁻¹(n L) for
    weights 1/n.

    g = γ̃ − log(1/min q) for the exponential loss, and −log(e^v − 1) = g − log((e^v − 1)/v), v =
    e^−g, for the logistic one; (e^v − 1)/v = e^v (1 − e^−v)/v, whose factor e^v may be beyond
    numbers.
    """
    scale = exp(min(log_scale, LARGEST_LOG))
    g = objective.smooth_margin(predictions, log_scale) + _log_smallest_weight(objective) / scale
    if objective.risk.tail == "exponential":
        return g
    v = exp(min(max(-g * scale, -LARGEST_LOG), LARGEST_LOG))
    return g - (v + log(-expm1(-v) / v) if v > 1e-8 else 0.5 * v) / scale


@remembered(most=8)
def _log_smallest_weight(objective):
    return log(objective.counting.weights.min())


def margin_clock(method: Method, step: Step, clock: LoopState) -> str | None:
    """If the smooth margin is the clock, it has grown by what the clock says: else its error is the
    time's.

    Large starts hide it: weights of size w know margins to 10⁻¹⁵ w at best. Steps over kinks go to
    and fro where a unit slides along one, and gain less than the slopes on either side promise.
    """
    time = clock.time + step.dt
    if method.flow.time_variable != "margin" or method.fixed_steps:
        return None
    grown = (clock.objective_at_start - method.trial.objective) * method.unit
    if abs(grown - time) <= CLOCK_DRIFT * time:
        return None
    if method.slides and method.problem.objective.feature.kink:
        why = (
            "units that slide along kinks, which method.kind = 'characteristics' knows, gain less"
            " than steps over these promise"
        )
    else:
        why = (
            f"weights of mass {method.trial.mass:.3g} ask for a smaller tolerance than"
            f" {method.tolerance:g}, or hide it in their rounding"
        )
    return f"the smooth margin has grown by {grown:.8g} where its clock says {time:.8g}; {why}"


GUARDS = (sound, mass_budget, energy_decrease, margin_increase, margin_clock)
