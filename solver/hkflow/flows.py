"""The family of flows ∂_t ν = α div(ν ∇J) − β ν J − σ ν + σ U."""

from dataclasses import dataclass

from .errors import unknown_name


@dataclass(frozen=True)
class Flow:
    """Rates of the three mechanisms; U is the uniform probability on the domain.

    transport : α ≥ 0;  reaction : β ≥ 0;  noise : σ ≥ 0
    """

    transport: float = 1.0
    reaction: float = 0.0
    noise: float = 0.0

    def __post_init__(self):
        for name in ("transport", "reaction", "noise"):
            if not 0.0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name} must be finite and at least 0, got {getattr(self, name)}.")


FLOW_KINDS = ("wasserstein", "hellinger-kantorovich", "hellinger", "perturbed")


def named_flow(kind, degree, signed, noise=0.0):
    """The flow of a name.

    wasserstein (1, 0), hellinger-kantorovich and perturbed (1, β), hellinger (0, β), each with noise σ. A network that
    is balanced (|a| = |b|) and lives on the signed sphere with a feature of degree 1 has β = 2, every other flow β = 4
    (Chizat & Bach 2020, eq. 11 and App. H). Raises ValueError for an unknown name and for a perturbed flow without noise.
    """
    if kind not in FLOW_KINDS:
        raise ValueError(unknown_name("flow", kind, FLOW_KINDS))
    if kind == "perturbed" and noise == 0.0:
        raise ValueError("The perturbed flow needs noise greater than 0.")
    reaction = 2.0 if signed and degree == 1 else 4.0
    transport = 0.0 if kind == "hellinger" else 1.0
    return Flow(transport, 0.0 if kind == "wasserstein" else reaction, noise)
