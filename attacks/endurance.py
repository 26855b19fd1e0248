"""A smooth-margin flow of a hundred thousand steps, whose memory and whose cost of a step must not
grow."""

import time

import numpy as np
import psutil

import hkflow

SAMPLES = 20


class Watch(hkflow.Observer):
    """Memory in bytes and seconds per step, SAMPLES times; ends the run after so many steps."""

    def __init__(self, steps):
        self.steps, self.count, self.memory, self.seconds = steps, 0, [], []
        self.process, self.began = psutil.Process(), None

    def step(self, method, clock):
        self.count, self.log_mass = self.count + 1, method.current.log_mass
        if self.count % max(1, self.steps // SAMPLES) == 0:
            now = time.process_time()
            self.memory.append(self.process.memory_info().rss)
            self.seconds += [] if self.began is None else [now - self.began]
            self.began = now

    def stop(self):
        return "Enough steps" if self.count >= self.steps else None


def endure(steps):
    """Growth of memory, in bytes per step, and of a step's cost, later half over the earlier; and
    what is wrong, or None."""
    rng = np.random.default_rng(1)
    inputs, targets = hkflow.cluster_grid(rng, 2, 3)(rng, 40)
    inputs = np.column_stack([inputs, np.ones(len(inputs))])
    objective = hkflow.Objective(
        hkflow.FEATURES["relu"], hkflow.RISKS["smooth-margin"], inputs, targets
    )
    flow = hkflow.named_flow(
        "spherical-hellinger-kantorovich", objective.feature.degree, True, drive="measure"
    )
    problem = hkflow.Problem(hkflow.geodesic_mesh(2), objective, flow, (1, -1))
    watch = Watch(steps)
    solution = hkflow.solve(
        problem, 0.04 * steps, observers=(watch,), record_interval=1e9, max_step=0.02
    )
    memory, seconds = np.array(watch.memory), np.array(watch.seconds)
    half = len(seconds) // 2
    growth = (memory[-1] - memory[len(memory) // 4]) / (0.75 * steps)
    dearer = np.median(seconds[half:]) / np.median(seconds[:half])
    fault = None
    if watch.count < steps:
        fault = f"it ended after {watch.count} steps: {solution.status}"
    elif growth > 100.0 or dearer > 1.5:
        fault = (
            f"memory grew by {growth:.0f} bytes a step, the cost of a step by a factor of"
            f" {dearer:.2f}"
        )
    return growth, dearer, watch.log_mass, fault
