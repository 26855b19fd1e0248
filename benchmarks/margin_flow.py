"""The margin flow of cluster data to a log mass of 100: steps, smoothness of p and of the dual
value, the certified interval.

    python benchmarks/margin_flow.py [clusters data cells log_mass]        3 40 2562 100 if not
    given; minutes to hours

Rows: time, log mass, margin and dual value max_θ Σ p_i y_i φ(θ, x_i) over the cells (both certify
γ_ℓ1 on the mesh), largest change of p and of the dual value in one step since the row before, mean
step in units of the transport's own bound, seconds.
"""

import sys
import time

import numpy as np

import hkflow

ROWS = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0)


class Table(hkflow.Observer):
    """Prints a row whenever the log mass passes one of ROWS, and ends the run at the last."""

    def __init__(self, log_mass):
        self.rows = [row for row in ROWS if row < log_mass] + [log_mass]
        self.began, self.last, self.steps = time.monotonic(), None, []
        self.objective, self.log_scale, self.rises = np.inf, 0.0, 0

    def step(self, method, clock):
        e, y = method.current, method.problem.objective.targets
        now = np.append(-y * e.loss_gradient, -e.lowest)
        self.rises += e.objective > self.objective * np.exp(self.log_scale - method.log_scale)
        self.objective, self.log_scale = e.objective, method.log_scale
        if self.last is not None:
            self.steps.append(np.append(np.abs(now - self.last), clock.dt * e.outflow / method.cfl))
        self.last = now
        if self.rows and e.log_mass >= self.rows[0]:
            self.rows.pop(0)
            changes, margin = (
                np.array(self.steps),
                method.problem.objective.margin(e.predictions) / e.mass,
            )
            print(
                f"| {clock.time:.1f} | {e.log_mass:.1f} | {margin:.6f} | {now[-1]:.6f} |"
                f" {changes[:, :-2].max():.1e} | {changes[:, -2].max() / now[-1]:.1e} |"
                f" {np.mean(changes[:, -1]):.2f} | {clock.step} |"
                f" {time.monotonic() - self.began:.0f} |",
                flush=True,
            )
            self.steps = []

    def stop(self):
        return None if self.rows else "The log mass is reached"


def main(clusters=3, n=40, cells=2562, log_mass=100.0):
    """Run the flow on one data set and print the table."""
    inputs, targets = hkflow.cluster_grid(np.random.default_rng(1), clusters=clusters)(
        np.random.default_rng(2), n
    )
    inputs = np.column_stack([inputs, np.ones(n)])
    objective = hkflow.Objective(
        hkflow.FEATURES["relu"], hkflow.RISKS["smooth-margin"], inputs, targets
    )
    mesh = hkflow.geodesic_mesh(hkflow.geodesic_level(cells))
    problem = hkflow.Problem(mesh, objective, hkflow.Flow(1.0, 2.0, drive="measure"), (1, -1))
    print(f"k = {clusters}, n = {n}, {cells} cells on S² × {{±1}}\n")
    print("| t | log mass | margin | dual value | Δp | Δdual / dual | dt / bound | steps | s |")
    print("| ---: |" + " ---: |" * 8)
    table = Table(log_mass)
    solution = hkflow.solve(problem, 1e6, observers=(table,), cfl=0.5, record_interval=1.0)
    print(f"\n{solution.status} The objective rose in {table.rises} steps.")


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:4]), *(float(word) for word in sys.argv[4:5]))
