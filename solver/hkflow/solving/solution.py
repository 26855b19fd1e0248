"""A run in memory."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arguments import Floats
from ..certificates.margin import MaxMargin
from ..compilation import processor_time
from ..methods.method import Method
from ..objectives.protocol import prediction_shape
from ..problem.problem import Problem
from .final_margin import CERTIFICATE_SECONDS, final_max_margin
from .observer import Observer
from .result import Result, versions
from .state import LoopState


@dataclass(eq=False, repr=False)
class Solution(Result):
    """A run in memory, with all that a Result offers.

    time : (n_saves,), the end, however it came, included;  states : one dictionary per save, as the
        method's `state` gives it;  log_scale : (n_saves,), 0 for networks
    scaled_predictions : (n_saves, n_data), of k outputs (n_saves, n_data, k), h in units of
        e^log_scale
    records : {name: (n_records,)}, objectives and masses in units of e^log_scale
    end : status and finished, steps, evaluations, and seconds of processor time without compiling
    title : what pictures and tables call it
    history : of characteristics, what moved the atoms
    """

    problem: Problem
    method: str
    options: dict
    time: NDArray[np.float64]
    states: list
    log_scale: NDArray[np.float64]
    scaled_predictions: NDArray[np.float64]
    records: dict
    end: dict
    title: str = ""
    header: dict = field(default_factory=lambda: {"versions": versions()})
    history: Any = None

    def state_at(self, save: int) -> dict:
        """The method's state at one save."""
        return self.states[save]

    @cached_property
    def max_margin(self) -> MaxMargin | None:  # type: ignore[override]
        """What the data allow, computed when it is first wanted, within CERTIFICATE_SECONDS."""
        return final_max_margin(self, CERTIFICATE_SECONDS)


class Memory(Observer):
    """Keeps saves, records and the sentence of the end in memory.

    method : the method's options by name, its kind among them;  title : of the Solution
    """

    def __init__(self, method: dict | None = None, title: str = "") -> None:
        self.options, self.title = {"kind": "grid"} | (method or {}), title
        self.saves: list[tuple] = []
        self.records: list[dict] = []
        self.end: dict[str, Any] = {"status": ""}

    def start(self, method: Method, clock: LoopState, save_times: Floats) -> None:
        self.began = processor_time()

    def record(self, method: Method, clock: LoopState, record: dict[str, float]) -> None:
        self.records.append(record)

    def save(self, method: Method, clock: LoopState) -> None:
        state = {  # whose other values are its own
            name: value.copy() if isinstance(value, np.ndarray) else value
            for name, value in method.state().items()
        }
        self.saves.append((clock.time, state, method.current.predictions.copy()))

    def finish(self, method: Method, clock: LoopState, status: str) -> None:
        self.end = {
            "status": status,
            "steps": clock.step,
            "evaluations": clock.evaluations,
            "seconds": processor_time() - self.began,
        }

    def solution(self, method: Method, finished: bool) -> Solution:
        """The run of a method as far as it went."""
        times, states, predictions = zip(*self.saves, strict=True) if self.saves else ((), (), ())
        names = self.records[0] if self.records else ()
        return Solution(
            problem=method.problem,
            method=self.options["kind"],
            options=self.options,
            time=np.array(times),
            states=list(states),
            log_scale=np.array([state.get("log_scale", 0.0) for state in states], dtype=float),
            scaled_predictions=np.array(predictions).reshape(
                len(times), *prediction_shape(method.problem.objective)
            ),
            records={name: np.array([r[name] for r in self.records]) for name in names},
            end=self.end | {"finished": finished},
            title=self.title,
            history=None if method.history is None else method.history.history(),
        )
