"""A run in memory."""

import re
import time
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..problem.problem import Problem
from .observer import Observer
from .result import Result, versions


@dataclass(eq=False, repr=False)
class Solution(Result):
    """A run in memory, with all that a Result offers.

    time : (n_saves,), the end, however it came, included;  states : one dictionary per save, as the
        method's `state` gives it
    scaled_predictions : (n_saves, n_data) h in units of e^log_scale
    records : {name: (n_records,)}, objectives and masses in units of e^log_scale
    end : status and finished, steps, evaluations, and seconds of processor time
    title : what pictures and tables call it
    """

    problem: Problem
    method: str
    options: dict
    time: NDArray[np.float64]
    states: list
    scaled_predictions: NDArray[np.float64]
    records: dict
    end: dict
    title: str = ""

    def state_at(self, save: int) -> dict:
        """The method's state at one save."""
        return self.states[save]

    @property
    def status(self) -> str:
        """How the run ended, one sentence."""
        return self.end["status"]

    @property
    def finished(self) -> bool:
        """Whether it reached its end."""
        return self.end["finished"]

    @property
    def log_scale(self) -> NDArray[np.float64]:
        """(n_saves,); 0 for networks."""
        return np.array([state.get("log_scale", 0.0) for state in self.states], dtype=float)

    @property
    def name(self) -> str:
        """Its title, or "solution"."""
        return self.title or "solution"

    @property
    def folder(self) -> Path:
        """The current folder: files that are made of it lie there unless a path is given."""
        return Path()

    @property
    def stem(self) -> str:
        """Its name as that of a file."""
        return slug(self.name)

    @property
    def header(self) -> dict:
        """Title and versions."""
        return {"title": self.title, "versions": versions()}


def slug(text, length=60):
    """A text as the name of a file: letters, digits, "_", "." and "-"."""
    return re.sub(r"[^\w.-]+", "-", text).strip("-.")[:length] or "solution"


class Memory(Observer):
    """Keeps saves, records and the sentence of the end in memory.

    method : the method's options by name, its kind among them;  title : of the Solution
    """

    def __init__(self, method, title=""):
        self.options, self.title = {"kind": "grid"} | method, title
        self.saves, self.records, self.end = [], [], {"status": ""}

    def start(self, method, clock, save_times):
        self.began = time.process_time()

    def record(self, method, clock, record):
        self.records.append(record)

    def save(self, method, clock):
        self.saves.append((clock.time, deepcopy(method.state()), method.current.predictions.copy()))

    def finish(self, method, clock, status):
        self.end = {
            "status": status,
            "steps": clock.step,
            "evaluations": clock.evaluations,
            "seconds": time.process_time() - self.began,
        }

    def solution(self, method, finished) -> Solution:
        """The run of a method as far as it went."""
        times, states, predictions = zip(*self.saves, strict=True) if self.saves else ((), (), ())
        names = self.records[0] if self.records else ()
        return Solution(
            problem=method.problem,
            method=self.options["kind"],
            options=self.options,
            time=np.array(times),
            states=list(states),
            scaled_predictions=np.array(predictions).reshape(
                len(times), len(method.current.predictions)
            ),
            records={name: np.array([r[name] for r in self.records]) for name in names},
            end=self.end | {"finished": finished},
            title=self.title,
        )
