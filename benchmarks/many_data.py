"""Margin flows of many data: seconds to a mass, with the steps that the solver chooses and with
explicit ones.

    python -m benchmarks.many_data [LOG_MASS [DATA …]]        12 and 100 500 600 1000 2000

Two classes on either side of a line, on S² × {±1}, ReLU, the smooth margin: particles and
characteristics from 642 points of each sign, and the grid on 642 cells. An explicit run is broken
off at three times the seconds of the other. Written as a table; exit code 1 if the solver's choice
ever takes longer than 1.1 times the explicit steps.
"""

import sys
import time

import numpy as np

import hkflow

GAP = 0.3
KINDS = ("particles", "characteristics", "grid")
DATA, END = (100, 500, 600, 1000, 2000), 1000.0  # numbers of data; a time that no run comes to


class Until(hkflow.Observer):
    """Ends a run at a log mass, or after so many seconds."""

    def __init__(self, log_mass, seconds):
        self.log_mass, self.end, self.reached, self.steps = (
            log_mass, time.monotonic() + seconds, 0.0, 0
        )  # fmt: skip

    def step(self, method, clock):
        self.reached, self.steps = method.current.log_mass, clock.step

    def stop(self):
        if self.reached >= self.log_mass:
            return "The log mass is reached"
        return "Time is over" if time.monotonic() > self.end else None


def problem(n, kind):
    """Gaussian inputs, moved GAP away from the line that tells the classes apart, and a uniform
    start of mass one."""
    inputs = np.random.default_rng(0).normal(size=(n, 2))
    targets = np.where(inputs @ [0.6, 0.8] > 0.2, 1.0, -1.0)
    inputs += GAP * targets[:, None] * [0.6, 0.8]
    objective = hkflow.Objective(
        hkflow.FEATURES["relu"],
        hkflow.RISKS["smooth-margin"],
        np.column_stack([inputs, np.ones(n)]),
        targets,
    )
    flow, mesh = hkflow.Flow(1.0, 2.0), hkflow.geodesic_mesh(3)
    made = hkflow.Problem(mesh, objective, flow, (1, -1))
    return made if kind == "grid" else hkflow.Problem(None, objective, flow, (1, -1), made.atoms())


def run(made, kind, imex, log_mass, seconds):
    """Seconds, steps and log mass of a run."""
    until, began = Until(log_mass, seconds), time.monotonic()
    hkflow.solve(made, END, observers=(until,), record_interval=np.inf, kind=kind, imex=imex)
    return time.monotonic() - began, until.steps, until.reached


def main(log_mass, data):
    """Print the table; returns whether the choice pays in every row."""
    good = True
    print("| method | data | seconds | steps | explicit, seconds | steps | log mass | × |")
    print("| --- |" + " ---: |" * 7)
    for kind in KINDS:
        for imex in ("auto", "explicit"):
            run(problem(20, kind), kind, imex, 3.0, 60.0)  # compiled
        for n in data:
            made = problem(n, kind)
            seconds, steps, _ = run(made, kind, "auto", log_mass, np.inf)
            explicit, more, reached = run(made, kind, "explicit", log_mass, 3.0 * seconds)
            ended = reached >= log_mass
            good &= not ended or seconds <= 1.1 * explicit
            ratio = f"{explicit / seconds:.1f}" if ended else f"> {explicit / seconds:.1f}"
            print(
                f"| {kind} | {n} | {seconds:.1f} | {steps} | {explicit:.1f} | {more} |"
                f" {reached:.1f} | {ratio} |",
                flush=True,
            )
    return good


if __name__ == "__main__":
    words = sys.argv[1:]
    reached = float(words[0]) if words else 12.0
    sys.exit(0 if main(reached, tuple(map(int, words[1:])) or DATA) else 1)
