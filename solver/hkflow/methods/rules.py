"""What options of a method need one another: asked by case files and by Python alike, without
loading a method."""

from collections.abc import Collection
from math import isinf
from typing import Any

from ..errors import unknown_name

# Kinks from which on they are stepped over: to locate them takes as long as their square, and for
# several outputs as long as steps over them at a tolerance of OF_OUTPUTS by their number. What
# follows characteristics looks among the near kinks: it takes as long where numbers of the data,
# each counted as one of FEW_INPUTS at least, are MANY_NUMBERS.
MANY_KINKS, OF_OUTPUTS, MANY_NUMBERS, FEW_INPUTS = 1000, 1e-4, 300_000, 30
NOISE_INTERVAL = 0.05


def needs_max_step(stepper: str | None, max_step: float | None) -> None:
    """Raise ValueError if a stepper of fixed steps is not told their length."""
    if stepper == "euler" and (max_step is None or isinf(max_step)):
        raise ValueError("'euler' takes fixed steps: give their length, 'max_step'.")


def noise_interval(wanted: float | None, noise: float) -> float:
    """The longest time between two injections of noise σ: as wanted, else 0.05, or 1/(2σ) where
    that is shorter, since mass decays in 1/σ."""
    if wanted is not None:
        return wanted
    return min(NOISE_INTERVAL, 0.5 / noise) if noise > 0.0 else NOISE_INTERVAL


def many_kinks(outputs: int, tolerance: float) -> float:
    """How many kinks particles with so many outputs step over by themselves: 1000, for several
    outputs 1e-4/tolerance at most, since steps over kinks are cheap and shrink like the
    tolerance."""
    return MANY_KINKS if outputs == 1 else min(MANY_KINKS, OF_OUTPUTS / tolerance)


def has_many_kinks(inputs: Any) -> bool:
    """Whether units that follow characteristics meet so many kinks of inputs (n, p) that steps over
    them are far faster, and err by less than a thousand units do: from 10,000 data on, from 1000 if
    they have 300 inputs. Equal inputs have one kink: more than half must differ."""
    import numpy as np  # case files are checked without it

    first = inputs[:MANY_KINKS]
    if len(first) < MANY_KINKS:
        return False
    axes = int(np.count_nonzero(np.ptp(first, axis=0)))  # the bias is none
    many = len(inputs) * max(axes, FEW_INPUTS) >= MANY_NUMBERS
    return many and 2 * len(np.unique(first, axis=0)) > len(first)


def best_method(
    activation: str,
    spreads: bool,
    data: bool,
    meshed: bool,
    discrete: bool,
    varies: bool = False,
    many: bool = False,
    depth: float = 2.0,
) -> tuple[str, str]:
    """The method with most accuracy per second, and why: what `kind = "auto"` takes.

    activation : its name;  spreads : see Problem
    data : whether F has the risk of data, with or without energies beside it
    meshed : whether a mesh of the domain is given;  discrete : whether the domain is atoms
    varies : whether a rate varies;  many : see `has_many_kinks`;  depth : of the flow
    """
    from ..objectives.activations import FEATURES  # slow to load

    feature = FEATURES.get(activation)
    if discrete:
        return "grid", "the domain is finite"
    if depth != 2.0:
        return "grid", f"its mobility is that of depth {depth:g}, of a density that stays in place"
    if spreads:
        return (
            ("grid", "noise or entropy makes the measure a density")
            if meshed
            else ("particles", "there is noise or entropy, and no mesh")
        )
    if varies:
        return "grid" if meshed else "particles", "rates vary, which a closed form does not know"
    if data and feature and feature.pieces and not feature.joint:
        if many and feature.kink:
            return "particles", "kinks of so many data are weak, and steps over them are fast"
        return "characteristics", f"without noise, '{activation}' units move in closed form"
    if not data and meshed:
        return "grid", "without data F is a smooth function of a density"
    known = f"'{activation}'" if data else "a population, or a sum of energies,"
    return "particles", f"there is no noise, and {known} has no closed form"


def largest_courant_number(stepper: str, limiter: str) -> float:
    """Up to which densities of a grid stay positive: 1 without reconstruction or with the limited
    states of muscl-hancock, else ½."""
    return 1.0 if limiter == "first-order" or stepper == "muscl-hancock" else 0.5


def check_courant_number(cfl: float | None, stepper: str | None, limiter: str) -> None:
    """Raise ValueError if a Courant number is beyond what positivity allows; None stands for what
    is not chosen yet."""
    if cfl is None or stepper is None:
        return
    largest = largest_courant_number(stepper, limiter)
    if not 0.0 < cfl <= largest:
        raise ValueError(
            f"'cfl' is {cfl}; positivity with '{stepper}' and '{limiter}' needs at most"
            f" {largest:g}, and more than 0."
        )


RECONSTRUCTIONS = ("linear", "quadratic")


def check_reconstruction(reconstruction: str, stepper: str | None, limiter: str) -> None:
    """Raise ValueError for an unknown reconstruction, or options that 'quadratic' does not read."""
    if reconstruction not in RECONSTRUCTIONS:
        raise ValueError(unknown_name("reconstruction", reconstruction, RECONSTRUCTIONS))
    if reconstruction == "quadratic" and stepper not in (None, "muscl-hancock"):
        raise ValueError(
            f"'reconstruction' is 'quadratic', which the stepper '{stepper}' does not know. Choose"
            " muscl-hancock."
        )
    if reconstruction == "quadratic" and limiter != "mc":
        raise ValueError(
            f"'reconstruction' is 'quadratic', which has no slopes to limit, got limiter"
            f" '{limiter}'; leave it out."
        )


def check_descent(training: str, schedule: str, layers: str, given: Collection[str]) -> None:
    """Raise ValueError unless the options by which a network is trained go together.

    given : names of the options that are not at their defaults
    """
    descends, proved = training != "gradient-flow", schedule == "proposition"
    if descends and proved and (training, layers) not in PROVED:
        raise ValueError(
            "schedule 'proposition' is for training 'gradient-descent' of layers 'radii' or"
            f" 'output', got '{training}' of layers '{layers}'."
        )
    for unread, reader, names in (
        (not descends, "descent alone reads", ("step", "schedule")),
        (training != "sgd", "training = 'sgd' alone reads", ("batch",)),
        (descends, "training = 'gradient-flow' alone reads", ("stepper", "tolerance", "max_step")),
        (proved, "the other schedules alone read", ("step",)),
    ):
        if unread and (found := [name for name in names if name in given]):
            raise ValueError(f"{reader} {', '.join(map(repr, found))}; leave it out.")


# training and layers of Chizat & Bach 2020, Prop. 6 and 7
PROVED = (("gradient-descent", "radii"), ("gradient-descent", "output"))
