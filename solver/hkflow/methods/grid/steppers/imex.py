"""Steps that are implicit in the coupling through the data and explicit in everything else."""

from collections.abc import Callable

from ...step import Step
from ...stepping.implicit import SUBSTEPS, implicit_step
from ...stepping.implicit_loss_gradients import Coupling
from ..state import Evaluation
from .stepper import Stepper


class Imex(Stepper):
    """Flows with frozen loss gradients, which are implicit in their effect (see
    methods/stepping/implicit.py).

    explicit : the stepper that explicit steps of the same run take: it completes every evaluation
    tolerance : of the run;  coupling : function () -> Coupling of the accepted state
    coupling_at : function of an evaluation -> Coupling, where K jumps with the loss gradients
    """

    def __init__(
        self,
        explicit: Stepper,
        tolerance: float,
        coupling: Callable[[], Coupling],
        coupling_at: Callable[[Evaluation], Coupling] | None,
    ) -> None:
        super().__init__(explicit.rhs)
        self.explicit, self.tolerance = explicit, tolerance
        self.coupling, self.coupling_at = coupling, coupling_at
        self.order = min(explicit.order, 2)

    def rates(self, e: Evaluation) -> None:
        self.explicit.rates(e)

    def advance(
        self, now: Evaluation, spares: list[Evaluation], dt: float
    ) -> tuple[Evaluation, Step]:
        trial, substeps = spares[0], SUBSTEPS[self.order]
        states = [*self.explicit.between[: len(substeps)], trial]
        states[0].density[:], states[0].loss_gradient[:] = now.density, now.loss_gradient
        states[0].atoms = now.atoms
        step = implicit_step(
            self.coupling(), dt, substeps, states, self.explicit.frozen.drive, self.tolerance,
            now.mass, self.coupling_at,
        )  # fmt: skip
        trial.defect = step.defect
        self.rates(trial)
        return trial, step
