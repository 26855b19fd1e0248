"""Bounds of the error on new data, from numbers of a run: margin or norm, and the size of the data.

n data x_i in R^d (a bias counts), D = (1/n) Σ|x_i|², radius C ≥ |x| for all x that may come; each
holds with probability 1 − δ. Margins and norms of one network or machine, in the units of this
project and of the papers:

    signed sphere   min_i y_i h(x_i)/|ν|  ≤ γ_ℓ1                 |ν| = |α|₁                    (Wei,
                    3.6 and D.3)
    joint sphere    min_i y_i h(x_i)/|ν|  ≤ γ₁ = γ* = γ_ℓ1/2     |ν| = |Θ|² ≥ 2|α|₁
                    (Chizat & Bach, eq. 4; Wei, 3.7)
    kernel          KernelMachine.value   = γ_ℓ2 = γ₂            Interpolant.norm = √κ |α|₂    (Wei,
                    3.8 and D.4)

The papers hide constants behind ≲ in two places; where their own lemmas give one it is used here
and named.
"""

from dataclasses import dataclass

import numpy as np

from ..geometry.sphere import surface_area

# for ≲ in Wei's Lemmas 3.4 and D.5, from ∫ (θ·x)₊² dτ = |x|²/2d: 4 complexities/√2
RELU = 2.0 * np.sqrt(2.0)


@dataclass(frozen=True)
class Bound:
    """A bound = leading + rest; the leading term is linear in the norm or in 1/margin, the rest
    shrinks like √(log/n)."""

    leading: float
    rest: float

    def __post_init__(self):
        for name in ("leading", "rest"):
            object.__setattr__(self, name, float(getattr(self, name)))

    @property
    def total(self) -> float:
        """leading + rest."""
        return self.leading + self.rest


def margin_bound(gamma: float, complexity: float, largest: float, n: int, delta: float) -> Bound:
    """What bounds the fraction of new data on the wrong side, for a class of functions with |f| ≤
    largest:

        P(y f(x) < 0) ≤ 4 Rad/γ + √(log log₂(4 largest/γ)/n) + √(log(1/δ)/2n)

    gamma : min_i y_i f(x_i) > 0;  complexity : Rad, the Rademacher complexity of the class;
        largest : ≥ γ;  n : data;  delta : δ
    Returns a Bound.   Raises ValueError for a margin outside 0 < γ ≤ largest or δ outside (0, 1).
    Source: Koltchinskii & Panchenko 2002, as Chizat & Bach 2020, Thm. 22, and Wei et al. 2019, eq.
    C.2.
    """
    if not 0.0 < gamma <= largest:
        raise ValueError(
            f"A margin is positive and at most the largest value {largest} of a function, got"
            f" {gamma}."
        )
    return Bound(
        4.0 * complexity / gamma,
        np.sqrt(np.log(np.log2(4.0 * largest / gamma)) / n) + _chance(n, delta),
    )


def network_margin_bound(
    gamma: float, mean_square: float, radius: float, n: int, delta: float
) -> Bound:
    """What bounds the fraction of new data on the wrong side of a two-layer network:

        L ≤ (6/γ) √(D/n) + √(log log₂(4C/γ)/n) + √(log(1/δ)/2n)

    gamma : min_i y_i f(x_i)/|Θ|², half of a margin per mass on the signed sphere;  mean_square : D;
        radius : C
    Returns a Bound, valid for activations that are 1-homogeneous and 1-Lipschitz.   Raises
    ValueError as margin_bound.
    Source: Wei et al. 2019, Thm. 3.1, without hidden constants.
    """
    return margin_bound(gamma, 1.5 * np.sqrt(mean_square / n), radius, n, delta)


def kernel_margin_bound(
    gamma: float,
    mean_square: float,
    radius: float,
    n: int,
    d: int,
    delta: float,
    constant: float = RELU,
) -> Bound:
    """What bounds the fraction of new data on the wrong side of the max-margin machine with the
    ReLU kernel:

        L ≤ (2√2/γ) √(D/dn) + √(log log₂(4C/(γ√(2d)))/n) + √(log(1/δ)/2n)

    The paper has ≲ instead of 2√2, which Thm. C.1 and |φ(x)|₂² = κ|x|²/2d give; in its ε_ℓ2 a
    factor √κ has to cancel.
    gamma : γ₂ of the uniform sphere;  mean_square : D;  radius : C;  n : data;  d : of the inputs;
        delta : δ
    constant : of the leading term, 1 for what is printed.   Returns a Bound.   Raises ValueError as
        margin_bound.
    Source: Wei et al. 2019, Lemma 3.4.
    """
    return margin_bound(
        gamma, 0.25 * constant * np.sqrt(mean_square / (d * n)), radius / np.sqrt(2.0 * d), n, delta
    )


def network_regression_bound(
    norm: float, frobenius: float, lipschitz: float, largest: float, n: int, delta: float
) -> Bound:
    """What the mean loss on new data exceeds that on the n data by, at most, for a network of a
    given norm:

        12 M max(1, |α|₁ X)/n + c √((log(1/δ) + log max(2, 4|α|₁ X))/2n)

    The paper prints max(1, 2|α|₁ X) under the logarithm; the union over norms in its proof takes
    the larger one used here.
    norm : |α|₁, |ν| on the signed sphere;  frobenius : X = √(Σ|x_i|²);  lipschitz : M of the loss;
        largest : c ≥ |loss|
    Returns a Bound, valid for activations that are 1-homogeneous and 1-Lipschitz.   Raises
    ValueError for δ outside (0, 1).
    Source: Wei et al. 2019, Lemma D.4.
    """
    return Bound(
        12.0 * lipschitz * max(1.0, norm * frobenius) / n,
        largest * _chance(n, delta, norm * frobenius),
    )


def kernel_regression_bound(
    norm: float,
    frobenius: float,
    lipschitz: float,
    largest: float,
    n: int,
    d: int,
    delta: float,
    constant: float = RELU,
) -> Bound:
    """What the mean loss on new data exceeds that on the n data by, at most, for the ReLU kernel,
    with A = norm/√κ = |α|₂:

        2√2 M √κ max(1, A X)/(n√d) + c √((log(1/δ) + log max(2, 4 A X))/2n)

    The paper has ≲ instead of 2√2, which its proof gives with |φ(x)|₂² = κ|x|²/2d, and max(1, A X)
    under the logarithm.
    norm : |g|_H of the kernel on the uniform sphere;  d : of the inputs, κ = 2π^(d/2)/Γ(d/2)
    constant : of the leading term, 1 for what is printed;  the others as in
        network_regression_bound.   Returns a Bound.
    Raises ValueError for δ outside (0, 1).   Source: Wei et al. 2019, Lemma D.5.
    """
    root = np.sqrt(surface_area(d - 1))
    reach = norm / root * frobenius
    return Bound(
        constant * lipschitz * root * max(1.0, reach) / (n * np.sqrt(d)),
        largest * _chance(n, delta, reach),
    )


def separation_bound(
    radius: float,
    distance: float,
    rank: int,
    n: int,
    delta: float,
    epsilon: float = 0.0,
    constant: float = 1.0,
    constant_log: float = 1.0,
) -> Bound:
    """What bounds the wrong fraction of new data for the 𝓕₁-max-margin classifier, if r dimensions
    tell the classes apart:

        P(y f(x) < 0) ≤ C_ε(r)/√n (R/Δ)^((r+3)/(2−ε)) + √(log B/n) + √(log(1/δ)/2n),
        B = log₂(4(R+1) C₂(r)) + (r+2) log₂(R/Δ)

    for small Δ. The constants C_ε(r) and C₂(r) exist but are not known: with the default 1 only the
    dependence on R/Δ, r and n means anything, and for ε = 0 the constant may be infinite. The proof
    takes Rad ≤ 1/√n for the unit ball of 𝓕₁; it grows like √(R²+1)/√n, so scale the inputs to R ~
    1. The same bound with r = d belongs to the 𝓕₂-max-margin classifier.
    radius : R ≥ |x|, without the bias;  distance : Δ_r, 0 < Δ ≤ 2R, between the classes in the best
        r dimensions;  rank : r
    epsilon : 0 ≤ ε < 1;  constant : C_ε(r);  constant_log : C₂(r).   Returns a Bound.
    Raises ValueError for Δ, ε or δ out of range.   Source: Chizat & Bach 2020, Thms. 8 and 21.
    """
    if not (0.0 < distance <= 2.0 * radius and 0.0 <= epsilon < 1.0):
        raise ValueError(
            f"The bound needs 0 < Δ ≤ 2R and 0 ≤ ε < 1, got Δ = {distance}, R = {radius}, ε ="
            f" {epsilon}."
        )
    ratio = radius / distance
    B = np.log2(4.0 * (radius + 1.0) * constant_log) + (rank + 2) * np.log2(ratio)
    leading = constant / np.sqrt(n) * ratio ** ((rank + 3) / (2.0 - epsilon))
    return Bound(leading, np.sqrt(np.log(max(B, 1.0)) / n) + _chance(n, delta))


def _chance(n, delta, reach=None):
    """√(log(1/δ)/2n), with log max(2, 4 reach) added to the logarithm if a reach is given."""
    if not 0.0 < delta < 1.0:
        raise ValueError(f"A probability δ of failure lies between 0 and 1, got {delta}.")
    return float(
        np.sqrt(
            (np.log(1.0 / delta) + (0.0 if reach is None else np.log(max(2.0, 4.0 * reach))))
            / (2.0 * n)
        )
    )
