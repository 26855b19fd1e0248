"""Step-size control: the longest step that the method's bound, the accuracy wanted and the next
save time allow.

Explicit steps, and steps that are implicit in the coupling through the data, have a controller
each. With imex = "auto" a run goes over to implicit steps where stability, not accuracy, keeps
explicit ones short, and back where they gain nothing:

    explicit -> implicit   if the explicit limit is below the method's bound and above `enters`/λ,
                           or unstable
    implicit -> explicit   if the implicit step is below `leaves`/λ

λ is the largest rate at which the loss gradient reacts to itself. Where implicit steps were no
longer than explicit ones when last tried, explicit steps go on at the stability limit at most. A
method of many data, whose implicit steps cost as much as `implicit_cost` explicit ones, takes them
where they, and the time to the next save, are as many times as long.
"""

from dataclasses import dataclass

import numpy as np

from ..methods.method import Method

# per explicit step: what implicit steps could not do when last tried is tried again after a while
FORGET = 1.05
EPS = np.finfo(float).eps


@dataclass
class StepSize:
    """Proposes steps and learns from their errors.

    order : of the stepper; a step's relative error is taken to grow like dt^order
    tolerance : largest relative error of a step
    largest : no step is longer than this
    limit : current bound from accuracy; it is part of the state that a resumed run continues from
    trusted : so many rejections of one step shorten it as its error says, others halve it at least
    rejected : how often the step that is being tried was; 0 at accepted states
    """

    order: int
    tolerance: float
    largest: float = float("inf")
    limit: float = float("inf")
    trusted: int = 0
    rejected: int = 0

    def propose(self, bound: float, remaining: float) -> float:
        """The next step; `remaining` is the time to the next save, hit exactly and without a sliver
        before it."""
        dt = min(bound, self.limit, self.largest)
        # the sum of many steps may fall short of the save time by rounding
        if dt >= remaining * (1.0 - 1e-9):
            return remaining
        return 0.5 * remaining if 2.0 * dt > remaining else dt

    def learn(self, dt: float, error: float | None) -> bool:
        """Move the limit after a step of size dt; True if the step is accurate enough.

        error : relative error of the step, or None if rounding hides it: then the limit creeps up,
            since nothing is known
        """
        self.rejected = 0 if error is None or error <= self.tolerance else self.rejected + 1
        if error is None:
            self.limit = max(self.limit, 1.01 * dt) if self.limit < float("inf") else self.limit
            return True
        # an error of rounding alone, as of a step that a save cut short, limits no other step
        seen = error > EPS
        factor = 0.9 * (self.tolerance / error) ** (1.0 / self.order) if seen else float("inf")
        if not self.rejected:
            self.limit = min(dt * factor, max(self.limit, 2.0 * dt))
            return True
        self.limit = dt * min(max(factor, 0.2), 0.9 if self.rejected <= self.trusted else 0.5)
        return False


class StepControl:
    """Chooses between explicit and implicit steps of a method, and their length.

    limits : the bounds from accuracy of explicit and of implicit steps;  implicit : whether the
        last step was implicit. With the method's state, all that a resumed run continues from
    """

    def __init__(self, method: Method, limits: list[float], implicit: bool) -> None:
        self.method, self.implicit = method, implicit
        kinds = (method.order, method.trusted), (method.implicit_order, 0)
        self.sizes = [
            StepSize(order, method.tolerance, method.max_step, limit, trusted)
            for (order, trusted), limit in zip(kinds, limits, strict=True)
        ]

    @property
    def limits(self) -> list[float]:
        """Of explicit and of implicit steps."""
        return [size.limit for size in self.sizes]

    @property
    def size(self) -> StepSize:
        """The controller of the kind of step that is being taken."""
        return self.sizes[self.implicit]

    def propose(self, remaining: float, look: bool = True) -> float:
        """The next step, hit exactly if it is the last one before the save; sets `implicit`.

        look : whether explicit steps are to be compared with λ, which costs as much as some of them
        """
        bound = self.method.largest_stable_step(remaining)
        ends = remaining if self.method.implicit_cost > 1.0 else float("inf")
        self.implicit = self._wants_implicit(bound, look, ends)
        return self.size.propose(bound, remaining)

    def keep_below(self, longest: float) -> None:
        """Let no step be longer than this, nor than the method's longest."""
        for size in self.sizes:
            size.largest = min(self.method.max_step, longest)

    def learn(self, dt: float, error: float | None) -> bool:
        """Move the limit after a step of size dt; True if the step is accurate enough."""
        if not self.implicit:
            self.sizes[True].limit *= FORGET
        accurate = self.size.learn(dt, error)
        if accurate:  # the other kind of step may have been tried, and rejected, before
            self.sizes[not self.implicit].rejected = 0
        return accurate

    def _wants_implicit(self, bound, look, ends):
        method, (explicit, implicit) = self.method, self.sizes
        if method.imex == "explicit" or not method.knows_implicit():
            return False
        if method.imex == "implicit":
            return True
        if method.fixed_steps:
            return method.exceeds_stiffness(method.max_step, 1.0)
        bound = min(bound, method.max_step)
        cost = method.implicit_cost
        if self.implicit:
            dt = min(bound, implicit.limit, ends)
            leaves = method.leaves if cost == 1.0 else 0.5 * cost * method.stability
            if method.exceeds_stiffness(dt, leaves):
                return True
            explicit.limit = dt if cost == 1.0 else min(dt, method.stable_step())
            return False
        dt = min(bound, explicit.limit)
        if not look or not method.exceeds_stiffness(
            dt, method.enters if dt < bound else method.stability
        ):
            return False
        gain = max(method.least_gain, cost)
        if gain * dt < min(implicit.limit, ends):
            first = max(2.0, gain) * dt
            implicit.limit = first if implicit.limit == float("inf") else implicit.limit
            return True
        explicit.limit = min(explicit.limit, method.stable_step())
        return False
