"""The tables [objective] and [[energy]]: what is minimised."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticKnownError

from .tables import NonNegative, Positive, Table

# the names in objectives.activations, which takes long to load
ACTIVATIONS = ("linear", "relu", "squared-relu", "joint-relu", "absolute-value")


def _activation(name):
    """A built-in activation, or a reference module:name to a user's."""
    if name not in ACTIVATIONS and ":" not in name:
        choices = (*ACTIVATIONS, "module:function")
        raise PydanticKnownError("literal_error", {"expected": str(choices)[1:-1]})
    return name


Activation = Annotated[
    str,
    AfterValidator(_activation),
    Field(json_schema_extra={"anyOf": [{"enum": [*ACTIVATIONS]}, {"pattern": ":"}]}),
]
OperatorName = Literal["auto", "dense", "sorted", "tree", "harmonics", "dense-single"]


class ObjectiveTable(Table):
    """F(ν) = R(h) + weight_decay |ν| + entropy ∫ν log ν dθ."""

    activation: Activation = Field(
        "relu",
        description=(
            "φ(θ, x) of a unit; joint-relu is b(a·x)₊ for θ = (a, b) on the sphere of input and"
            " output weights; absolute-value is |θ·x|; 'module:function' beside the case or where"
            " Python looks: a function s -> (ψ(s), ψ′(s)) of arrays for φ = ψ(θ·x), or a"
            " hkflow.Feature"
        ),
    )
    bias: bool = Field(False, description="append a constant 1 to every input")
    loss: Literal[
        "square", "logistic", "exponential", "smooth-margin", "smooth-logistic-margin", "softmax"
    ] = Field(
        description=(
            "the risk R; smooth margins are minus the log of a mean of losses; softmax: for k"
            " classes, an output for each, of units b ψ(a·x), θ = (a, b), with b in R^k and the"
            " activation ψ relu or linear"
        )
    )
    weight_decay: NonNegative = Field(0.0, description="λ")
    entropy: NonNegative = Field(0.0, description="τ of τ∫ν log ν, ν a density per area")
    operator: OperatorName = Field(
        "auto",
        description=(
            "how sums over data are made, exact to rounding: over all pairs, by sorting (circle),"
            " by a tree of caps, by harmonics (smooth functions of your own; circle and S²);"
            " dense-single: over all pairs in float32, to about 1e-6"
        ),
    )


def _potential(text):
    """A formula in the coordinates."""
    from ...measures.formula import Formula  # slow to load
    from ...measures.initial import VARIABLES

    Formula(text, tuple(name for name in VARIABLES if name != "sign"))
    return text


# of objectives.kernels, which takes long to load: the parameter that each needs
KERNELS = {
    "linear": None, "quadratic": None, "exponential": "concentration",
    "von-mises": "concentration", "gaussian": "width", "riesz": "exponent",
}  # fmt: skip


def _kernel(text):
    """A named kernel, or a formula in t."""
    if text in KERNELS:
        return text
    if text != "t" and text.replace("-", "").isalpha():
        raise PydanticKnownError("literal_error", {"expected": str((*KERNELS, "a formula"))[1:-1]})
    from ...measures.formula import Formula  # slow to load

    Formula(text, ("t",))
    return text


class ExternalEnergy(Table):
    """∫V dν of a potential V."""

    kind: Literal["external"]
    potential: Annotated[str, AfterValidator(_potential)] = Field(
        description="V, a formula in x, y, z, or theta1, theta2, …, as initial.density"
    )


class InteractionEnergy(Table):
    """½ ∬K(θ·θ′) dν dν of a kernel K of t = θ·θ′."""

    kind: Literal["interaction"]
    kernel: Annotated[str, AfterValidator(_kernel)] = Field(
        description=(
            "linear t; quadratic t²; exponential e^(κ(t − 1)) and von-mises e^(κt)/I₀(κ), κ ="
            " concentration; gaussian e^(−|θ − θ′|²/2 width²); riesz |θ − θ′|^exponent; or a"
            " formula in t, as 'exp(t) / (2 - t)'"
        )
    )
    strength: float = Field(1.0, description="factor; −1 makes masses attract that 1 lets repel")
    concentration: Positive | None = Field(None, description="κ of exponential and von-mises")
    width: Positive | None = Field(None, description="of gaussian")
    exponent: Positive | None = Field(None, description="of riesz")

    @model_validator(mode="after")
    def _its_own_parameter(self):
        given = {key for key in ("concentration", "width", "exponent") if getattr(self, key)}
        needed = KERNELS.get(self.kernel)
        if given != ({needed} if needed else set()):
            has = f"the parameter {needed}" if needed else "no parameter"
            raise ValueError(
                f"the kernel '{self.kernel}' has {has}, got {', '.join(sorted(given)) or 'nothing'}"
            )
        return self


class EntropyEnergy(Table):
    """τ ∫ν log ν, which is diffusion."""

    kind: Literal["entropy"]
    temperature: Positive = Field(description="τ")


ENERGIES = {
    "external": ExternalEnergy,
    "interaction": InteractionEnergy,
    "entropy": EntropyEnergy,
}
Energy = Annotated[ExternalEnergy | InteractionEnergy | EntropyEnergy, Field(discriminator="kind")]
Energies = Annotated[list[Energy], Field(min_length=1)]


def unit_name(table: Any) -> str:
    """What messages and choices call φ of an objective table."""
    several = table.loss == "softmax" and table.activation in ACTIVATIONS
    return f"{table.activation} with an output for each class" if several else table.activation
