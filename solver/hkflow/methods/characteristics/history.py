"""What moved the atoms of a run: flows with frozen loss gradients, one after another, n numbers
each."""

from dataclasses import dataclass

import numpy as np

from ...arguments import Floats

ASIDE = 2  # numbers of a row before the loss gradient
# flows that pictures follow one by one; there are more where saves by the thousand cut the steps
FEW = 500
# of r, as a share of it, in flows that are then taken as one: densities are off by less than a
# colour of a map, 4 %
CHANGE = 3e-3


@dataclass(frozen=True, eq=False)
class History:
    """Flows that followed each other from t = 0 on.

    rows : (n_flows, 2 + n_data), of each flow its duration, the log of the factor that keeps the
        mass (0 where nothing keeps it), and the loss gradient r
    """

    rows: Floats

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, start: int, end: int) -> "History":
        """Those from one on, up to before another."""
        return History(self.rows[start:end])

    def gathered(self) -> "History":
        """The same for pictures: of many flows those that follow each other with hardly a change of
        r are taken as one, by the mean of r."""
        r = self.loss_gradients
        if len(r) <= FEW:
            return self
        turns, sizes = np.abs(np.diff(r, axis=0)).sum(axis=1), np.abs(r).sum(axis=1)
        means = 0.5 * (sizes[1:] + sizes[:-1])
        shares = np.divide(turns, means, out=np.zeros_like(turns), where=turns > 0.0)
        group = np.floor(np.append(0.0, np.cumsum(shares)) / CHANGE)
        first = np.flatnonzero(np.diff(group, prepend=-1.0))
        rows = np.column_stack([self.rows[:, :ASIDE], self.durations[:, None] * r])
        sums = np.add.reduceat(rows, first)
        sums[:, ASIDE:] /= sums[:, :1]
        return History(sums)

    @property
    def durations(self) -> Floats:
        """(n_flows,) times."""
        return self.rows[:, 0]

    @property
    def log_factors(self) -> Floats:
        """(n_flows,) logs of the factors that keep the mass."""
        return self.rows[:, 1]

    @property
    def loss_gradients(self) -> Floats:
        """(n_flows, n_data) r = ∂R/∂h."""
        return self.rows[:, ASIDE:]


class Recorder:
    """Collects the rows of a History as a run goes on.

    earlier : how many flows came before the first row that is here
    """

    def __init__(self, n_data: int, earlier: int = 0) -> None:
        self.width, self.earlier = ASIDE + n_data, earlier
        self.rows: list[Floats] = []

    def __len__(self) -> int:
        return self.earlier + len(self.rows)

    def add(self, duration: float, log_factor: float, loss_gradient: Floats) -> None:
        """A flow that is accepted."""
        self.rows.append(np.concatenate([[duration, log_factor], loss_gradient]))

    def since(self, count: int) -> Floats:
        """The rows after the first `count` flows, (n, 2 + n_data)."""
        return np.array(self.rows[count - self.earlier :]).reshape(-1, self.width)

    def begin_with(self, history: History) -> None:
        """Take the flows that came before from the run that goes on. Raises ValueError unless it
        has them all."""
        if len(history) < self.earlier:
            raise ValueError(f"its history has {len(history)} flows, wanted {self.earlier}")
        self.rows[:0], self.earlier = list(history.rows[: self.earlier]), 0

    def history(self) -> History | None:
        """All of it; None if its beginning is not here."""
        return None if self.earlier else History(self.since(0))
