"""What networks record that train by the steps of a theorem."""

from ..record import Record

RECORDS = (
    Record("best_margin", "best margin", "Largest margin so far, over the norm of the weights."),
    Record("bound", "bound", "What the theorem proves that the best margin exceeds."),
)
