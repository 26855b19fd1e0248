"""What options of a method need one another: asked by case files and by Python alike, without
loading a method."""

from math import isinf


def needs_max_step(stepper: str | None, max_step: float | None) -> None:
    """Raise ValueError if a stepper of fixed steps is not told their length."""
    if stepper == "euler" and (max_step is None or isinf(max_step)):
        raise ValueError("'euler' takes fixed steps: give their length, 'max_step'")


IN_CLOSED_FORM = ("linear", "relu")  # activations whose units move exactly in a frozen potential


def best_method(
    activation: str, noise: float, data: bool, meshed: bool, discrete: bool
) -> tuple[str, str]:
    """The method with most accuracy per second, and why: what `kind = "auto"` takes.

    activation : its name;  noise : σ;  data : whether the risk is that of data, not of a population
    meshed : whether a mesh of the domain is given;  discrete : whether the domain is atoms
    """
    if discrete:
        return "grid", "the domain is finite"
    if noise > 0.0:
        return (
            ("grid", "noise makes the measure a density")
            if meshed
            else ("particles", "there is noise, and no mesh")
        )
    if data and activation in IN_CLOSED_FORM:
        return "characteristics", f"without noise, '{activation}' units move in closed form"
    if not data and meshed:
        return "grid", "a population risk is a smooth function of a density"
    known = f"'{activation}' has no closed form" if data else "a population has no closed form"
    return "particles", f"there is no noise, and {known}"
