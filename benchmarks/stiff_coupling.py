"""Steps of margin flows by coupling: does "auto" take about as few as the better of explicit and
implicit, to the same margin?

    python benchmarks/stiff_coupling.py [DRAWS]

Ten draws of separable data on circle and S², both tails, the grid with ReLU, particles with
squared ReLU and both with tanh, to t = 40. An explicit run is broken off at 1.5 times the steps of
the implicit one. Written as a table; exit code 1 if auto ever takes more than 1.3 times the steps
of the better, or ends at a margin that differs by more than 1e-3 from that of the implicit run.
"""

import sys

import numpy as np

import hkflow


def tanh(s):
    """ψ and ψ′."""
    return np.tanh(s), 1.0 / np.cosh(s) ** 2


FEATURES = {**hkflow.FEATURES, "tanh": hkflow.ridge(tanh)}
CASES = (("grid", "relu"), ("particles", "squared-relu"), ("grid", "tanh"), ("particles", "tanh"))


def problem(seed, dim, loss, kind, feature):
    """Data that a line (a threshold) separates, 10 on the circle and 20 on S², and a uniform start
    of mass one."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(10 * dim, dim))
    score = x @ rng.normal(size=dim)
    inputs, y = np.column_stack([x, np.ones(len(x))]), np.where(score > np.median(score), 1.0, -1.0)
    objective = hkflow.Objective(FEATURES[feature], hkflow.RISKS[loss], inputs, y)
    flow = hkflow.Flow(transport=1.0, reaction=4.0 if feature == "squared-relu" else 2.0)
    if kind == "grid":
        mesh = hkflow.circle_mesh(256) if dim == 1 else hkflow.geodesic_mesh(3)
        return hkflow.Problem(mesh, objective, flow, signs=(1, -1))
    points = hkflow.quasi_uniform(200, dim)
    start = hkflow.PointMeasure(np.tile(points, (2, 1)), np.repeat([1.0, -1.0], len(points)))
    return hkflow.Problem(None, objective, flow, signs=(1, -1), initial=start)


class Most(hkflow.Observer):
    """Breaks a run off after so many steps."""

    def __init__(self, steps):
        self.steps, self.taken = steps, 0

    def step(self, method, clock):
        self.taken = clock.step

    def stop(self):
        return "Broken off" if self.taken > self.steps else None


def run(problem, kind, coupling, most, end=40.0):
    """Steps taken, inf if broken off, and the last margin."""
    watch = Most(most)
    solution = hkflow.solve(
        problem, end, observers=(watch,), record_interval=1.0, kind=kind, imex=coupling
    )
    return (
        (watch.taken if solution.finished else np.inf),
        solution.records["margin"][-1],
        solution.records["log_mass"][-1],
    )


def main(draws):
    """Print the table; returns whether all rows hold."""
    print(
        "| method | units | sphere | loss | draw | implicit | explicit | auto | auto / better |"
        " margin | difference | log mass |"
    )
    print("| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    good = True
    for kind, feature in CASES:
        for dim in (1, 2):
            for loss in ("smooth-margin", "smooth-logistic-margin"):
                for seed in range(draws):
                    made = problem(seed, dim, loss, kind, feature)
                    implicit, margin, _ = run(made, kind, "implicit", np.inf)
                    explicit, _, _ = run(made, kind, "explicit", 1.5 * implicit)
                    auto, own, log_mass = run(made, kind, "auto", np.inf)
                    ratio, gap = auto / min(implicit, explicit), abs(own - margin)
                    good &= bool(ratio <= 1.3 and gap <= 1e-3)
                    explicit = f"{explicit:g}" if explicit < np.inf else f"> {1.5 * implicit:.0f}"
                    row = (
                        f"{kind} | {feature} | S^{dim} | {loss} | {seed} | {implicit} |"
                        f" {explicit} | {auto} | {ratio:.2f}"
                    )
                    print(f"| {row} | {own:.5f} | {gap:.1e} | {log_mass:.1f} |", flush=True)
    return good


if __name__ == "__main__":
    sys.exit(0 if main(int(sys.argv[1]) if len(sys.argv) > 1 else 10) else 1)
