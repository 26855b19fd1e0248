"""What is known of a max-margin."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..arguments import Floats, Integers
from ..errors import HkflowError
from ..measures.point_measure import PointMeasure
from ..shown import Shown, counted

MOST_NAMED = 8  # rows in a sentence
FAR = 1e-3  # of an upper value: by how much it is worth saying that climbs find less
DOUBT = 1e-3  # of the resolution: what rounding may make of a margin that is zero
# function (linear programmes, lower, upper value so far) -> whether the search is to end
Watch = Callable[[int, float, float], bool]


class OutOfTime(HkflowError):
    """A linear programme that took longer than it was given."""


@dataclass(frozen=True, eq=False, repr=False)
class MaxMargin(Shown):
    """The max-margin γ_ℓ1 = max over probabilities ν of min_i y_i h_ν(x_i), and its proof lower ≤
    γ_ℓ1 ≤ upper. Of several classes y_i h(x_i) is the smallest lead min_{l ≠ y_i} h_{y_i} − h_l
    (Wei et al., below eq. 2.2).

    lower : the margin of `atoms`, a probability
    upper : max over the sphere of Σ p_i y_i φ(·, x_i), p = dual (n,) in the simplex, rounding
        included;  of k classes of Σ_i Σ_l p_il (φ_{y_i} − φ_l)(·, x_i), p = dual (n, k)
    climbed : the lowest such maximum, over all p, of climbs and among all directions that were ever
        added: what γ_ℓ1 hardly exceeds, which nothing proves; `upper` where the search is exact
    certified : whether `upper` is a maximum over the whole sphere; else it is `climbed`
    rounds : linear programmes that were solved
    slackness : (2,) ∫(upper − Σ p_i y_i φ) dν and Σ p_i (y_i h_ν(x_i) − lower), whose sum is upper
        − lower (Chizat & Bach 2020, Prop. 12)
    tolerance : relative gap that was asked for;  resolution : a margin up to which counts as none
    """

    lower: float
    upper: float
    climbed: float
    atoms: PointMeasure
    dual: Floats
    certified: bool
    rounds: int
    slackness: Floats
    tolerance: float
    resolution: float

    def _facts(self):
        facts = {
            "γ": f"{self.lower:.9g} ≤ γ ≤ {self.upper:.9g}",
            "proof": "certified" if self.certified else "upper end not certified",
            "climbs": self.climbs,
            "measure": f"by {counted(len(self.atoms), 'atom')}",
            "why": f"no margin is positive: {self.why_none}" if self.is_none else "",
        }
        return {name: text for name, text in facts.items() if text}

    @property
    def relative_gap(self) -> float:
        """(upper − lower)/|lower|, inf for a margin of zero."""
        return (self.upper - self.lower) / abs(self.lower) if self.lower else np.inf

    @property
    def climbs(self) -> str:
        """What climbs say of the upper end where the certified one is far above; else nothing."""
        far = self.upper - self.climbed > FAR * self.upper
        return f"climbs find at most {self.climbed:.6g}" if far else ""

    @property
    def is_positive(self) -> bool:
        """Whether the data are separable beyond doubt."""
        return self.lower > DOUBT * self.resolution and self.relative_gap < 1.0

    @property
    def is_none(self) -> bool:
        """Whether the dual weights prove that no margin is positive, up to `resolution`, and no
        atoms prove that one is."""
        return self.upper <= 2.0 * self.resolution and not self.is_positive

    @property
    def support(self) -> Integers:
        """The numbers of the data that carry p, from 0."""
        return np.flatnonzero(self.dual.reshape(len(self.dual), -1).any(axis=1))

    @property
    def why_none(self) -> str:
        """What proves that no margin is positive: the data that carry p, by rows from 1."""
        rows = [str(k + 1) for k in self.support]
        named = " and ".join(filter(None, (", ".join(rows[:-1]), rows[-1])))
        if len(rows) > MOST_NAMED:
            named = f"{', '.join(rows[:MOST_NAMED])}, … ({len(rows)} rows)"
        return (
            f"weights on row{'s' if len(rows) > 1 else ''} {named} of the data, to which no unit"
            f" gives a mean margin above {power_above(self.upper):g}"
        )

    @property
    def reached(self) -> bool:
        """Whether the ends are as close as `tolerance` asks, or the margin is none."""
        return self.is_none or self.upper - self.lower <= self.tolerance * abs(self.lower)


def power_above(value: float) -> float:
    """The smallest power of ten that is at least a positive value; 0 for others."""
    return float(10.0 ** np.ceil(np.log10(value))) if value > 0.0 else 0.0
