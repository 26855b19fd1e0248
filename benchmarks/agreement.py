"""Grid against particles, the two ways to solve one problem: predictions at t = 1, by cells, as a
Markdown table.

Squared ReLU on one data set of 40. ReLU, whose gradient jumps where a datum's half-space ends, on 8
data sets of 6 on the circle and 20 on S², root mean square over all predictions. Each row is one
flow; the order is a least-squares slope, the last order that between the two finest meshes. The
particles are evenly spread, many more than the cells need.
"""

import numpy as np

import hkflow

FLOWS = [
    (alpha, beta, sigma)
    for alpha, beta in ((1.0, 2.0), (1.0, 0.0), (0.0, 2.0))
    for sigma in (0.0, 0.1)
]
TIME = 1.0
CASES = {  # (dim, activation): cells, data, data sets, particles per sign, their tolerance
    (1, "squared-relu"): ((128, 256, 512, 1024), 40, 1, 4000, 1e-9),
    (1, "relu"): ((256, 512, 1024, 2048), 6, 8, 8000, 1e-6),
    (2, "squared-relu"): ((642, 2562, 10242), 40, 1, 20000, 1e-9),
    (2, "relu"): ((162, 642, 2562, 10242), 20, 8, 20000, 1e-6),
}
NOISE = {
    1: {"noise_points": 1000, "noise_interval": 0.0125},
    2: {"noise_points": 4000, "noise_interval": 0.025},
}


def objective(dim, activation, n, seed):
    """Regression on a teacher of three units; inputs are Gaussian with a bias."""
    rng = np.random.default_rng(seed)
    inputs = np.column_stack([rng.normal(size=(n, dim)), np.ones(n)])
    units = rng.normal(size=(3, dim + 1))
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    feature = hkflow.FEATURES[activation]
    targets = feature.matrix(units, inputs) @ np.array([1.0, -1.0, 1.0])
    return hkflow.Objective(feature, hkflow.RISKS["square"], inputs, targets)


def grid_problem(obj, flow, cells):
    """The uniform start on a mesh of the signed sphere."""
    dim = obj.inputs.shape[1] - 1
    mesh = (
        hkflow.circle_mesh(cells)
        if dim == 1
        else hkflow.geodesic_mesh({162: 2, 642: 3, 2562: 4, 10242: 5, 40962: 6}[cells])
    )
    return hkflow.Problem(mesh, obj, flow, (1, -1))


def particle_problem(obj, flow, n):
    """The same start as n evenly spread particles for each sign."""
    points = hkflow.quasi_uniform(n, obj.inputs.shape[1] - 1)
    atoms = hkflow.PointMeasure(np.tile(points, (2, 1)), np.repeat([1.0, -1.0], n))
    return hkflow.Problem(None, obj, flow, (1, -1), atoms)


def errors(
    objectives, flow, cells, particles, time=TIME, stepper="muscl-hancock", grid=1e-7, **options
):
    """Root mean square difference of the predictions of grid, by this stepper and with this
    tolerance, and particles, for each number of cells."""
    squares = np.zeros(len(cells))
    for obj in objectives:
        # many particles and data: for these errors kinks may be stepped over, which is faster
        wanted = hkflow.solve(
            particle_problem(obj, flow, particles),
            time,
            kind="particles",
            stepper="dopri5",
            **options,
        ).predictions[-1]
        for k, count in enumerate(cells):
            got = hkflow.solve(
                grid_problem(obj, flow, count), time, tolerance=grid, stepper=stepper
            ).predictions[-1]
            squares[k] += np.mean((got - wanted) ** 2)
    return np.sqrt(squares / len(objectives))


def slope(cells, found, dim):
    """Order in the mesh width by least squares."""
    return hkflow.convergence_table(np.array(cells, dtype=float) ** (-1.0 / dim), found).fit.order


def main():
    """Print one row per domain, activation and flow."""
    for (dim, activation), (cells, n, seeds, particles, tolerance) in CASES.items():
        print(
            f"\n| {activation} on S^{dim} | "
            + " | ".join(f"{count} cells" for count in cells)
            + " | order | last order |"
        )
        print("| --- |" + " ---: |" * (len(cells) + 2))
        objectives = [
            objective(dim, activation, n, seed + 5 * (seeds == 1)) for seed in range(seeds)
        ]
        for rates in FLOWS:
            start = particles if rates[2] == 0.0 else particles // 4
            found = errors(
                objectives, hkflow.Flow(*rates), cells, start, tolerance=tolerance, **NOISE[dim]
            )
            row = " | ".join(f"{error:.2e}" for error in found)
            print(
                f"| α, β, σ = {rates} | {row} | {slope(cells, found, dim):.2f} |"
                f" {slope(cells[-2:], found[-2:], dim):.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
