"""Step-size control: the largest step that the method's bound, the accuracy wanted and the next save time allow."""

from dataclasses import dataclass


@dataclass
class StepSize:
    """Proposes steps and learns from their errors.

    order : of the stepper; a step's relative error is taken to grow like dt^order
    tolerance : largest relative error of a step
    largest : no step is longer than this
    limit : current bound from accuracy; it is part of the state that a resumed run continues from
    """

    order: int
    tolerance: float
    largest: float = float("inf")
    limit: float = float("inf")

    def propose(self, bound, remaining):
        """The next step; `remaining` is the time to the next save, hit exactly and without a sliver before it."""
        dt = min(bound, self.limit, self.largest)
        if dt >= remaining * (1.0 - 1e-9):  # the sum of many steps may fall short of the save time by rounding
            return remaining
        return 0.5 * remaining if 2.0 * dt > remaining else dt

    def learn(self, dt, error):
        """Move the limit after a step of size dt; True if the step is accurate enough.

        error : relative error of the step, or None if rounding hides it: then the limit creeps up, since nothing is known
        """
        if error is None:
            self.limit = max(self.limit, 1.01 * dt) if self.limit < float("inf") else self.limit
            return True
        factor = 0.9 * (self.tolerance / error) ** (1.0 / self.order)
        if error <= self.tolerance:
            self.limit = min(dt * factor, max(self.limit, 2.0 * dt))
            return True
        self.limit = dt * min(max(factor, 0.2), 0.5)
        return False
