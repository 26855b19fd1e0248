"""A run in memory."""

from copy import deepcopy
from dataclasses import dataclass

import numpy as np

from .observer import Observer


@dataclass(eq=False)
class Solution:
    """A run in memory.

    time : (n_saves,), the end, however it came, included;  states : one dictionary per save, as the
        method's `state` gives it
    scaled_predictions : (n_saves, n_data) h in units of e^log_scale;  predictions : h itself
    records : dict of (n_records,) arrays, objectives and masses in units of e^log_scale;  status :
        one sentence;  finished : bool
    """

    problem: object
    method: type
    time: np.ndarray
    states: list
    scaled_predictions: np.ndarray
    records: dict
    status: str
    finished: bool

    def atoms_at(self, save):
        """The measure at a save as atoms."""
        return self.problem.atoms_of(self.method.measure(self.states[save]))

    @property
    def density(self):
        """Of a grid: (n_saves, n_signs, n_cells) with ν = e^log_scale · density."""
        return np.array([state["density"] for state in self.states])

    @property
    def log_scale(self):
        """(n_saves,); 0 for networks."""
        return np.array([state.get("log_scale", 0.0) for state in self.states], dtype=float)

    @property
    def predictions(self):
        """h on the data at the saves, (n_saves, n_data); inf, with the sign of h, where it is
        beyond numbers."""
        return in_plain_units(self.scaled_predictions, self.log_scale)


def in_plain_units(scaled, log_scale):
    """e^log_scale · scaled, row by row, where log_scale is (n,) and scaled (n, …); inf with a sign
    where it is beyond numbers."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(scaled == 0.0, 0.0, np.exp(log_scale)[:, None] * scaled)


class Memory(Observer):
    """Keeps saves, records and the sentence of the end in memory."""

    def __init__(self):
        self.saves, self.records, self.status = [], [], ""

    def record(self, method, clock, record):
        self.records.append(record)

    def save(self, method, clock):
        self.saves.append((clock.time, deepcopy(method.state()), method.current.predictions.copy()))

    def finish(self, method, clock, status):
        self.status = status

    def solution(self, method, finished):
        """The run of a method as far as it went."""
        time, states, predictions = zip(*self.saves, strict=True) if self.saves else ((), (), ())
        names = self.records[0] if self.records else ()
        records = {name: np.array([r[name] for r in self.records]) for name in names}
        predictions = np.array(predictions).reshape(len(time), len(method.current.predictions))
        problem = method.problem
        return Solution(
            problem,
            type(method),
            np.array(time),
            list(states),
            predictions,
            records,
            self.status,
            finished,
        )
