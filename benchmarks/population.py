"""Three ways to the population potential on S² at the same cost, as a Markdown table: which of them
is exact?

    direct       the sum over all pairs of cells with the arc-cosine kernel, as PopulationRisk makes
                 it: exact to rounding
    quadrature   an empirical risk whose data are nodes on the sphere of inputs, Gauss–Legendre in
                 height by equally spaced in
                 longitude, weighted by the radial moment E r² = 3 (ReLU) or E r⁴ = 15 (squared
                 ReLU)
    harmonics    the kernel's Legendre series up to degree L, by stored spherical harmonics and two
                 products with that matrix

Nodes and L are chosen for about the time of the direct sum. Errors are largest errors of J over the
largest |J|, against the direct sum, for a smooth density on both signs and a teacher of three
units; `tail` is Σ_{l>L} |a_l| over k(1), what the series leaves of an atom's kernel. Medians over
alternating repeats; preparations are not counted.
"""

import time

import numpy as np
from scipy.special import eval_legendre, sph_harm_y_all

import hkflow
from hkflow.objectives.population import arc_cosine
from hkflow.operators.dense import DenseOperator

LEVELS, REPEATS, LARGEST = (3, 4, 5), 9, 2_000_000_000  # bytes of harmonics
FEATURES = {"relu": 3.0, "squared-relu": 15.0}  # and their radial moments in three dimensions


def seconds(work, repeats=3):
    """Median time of a call, after one that is not counted."""
    work()
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return float(np.median(found))


def product_nodes(rows):
    """Gauss–Legendre heights × 2 rows longitudes: inputs (2 rows², 3) on S² and weights of sum
    1."""
    height, weight = np.polynomial.legendre.leggauss(rows)
    longitude = np.pi * (np.arange(2 * rows) + 0.5) / rows
    across = np.sqrt(1.0 - height**2)[:, None]
    nodes = np.stack(
        [
            across * np.cos(longitude),
            across * np.sin(longitude),
            np.repeat(height[:, None], 2 * rows, axis=1),
        ]
    )
    return nodes.reshape(3, -1).T, np.repeat(weight, 2 * rows) / (4.0 * rows)


def quadrature(risk, points, masses, rows):
    """Function that fills and returns J of signed masses (n,) with 2 rows² nodes."""
    nodes, weights = product_nodes(rows)
    weights *= FEATURES[risk.feature.name]
    targets = risk.feature.matrix(risk.teacher, nodes) @ risk.teacher_weights
    operator, h, J = (
        DenseOperator(points, nodes, risk.feature.activation),
        np.zeros(len(nodes)),
        np.zeros(len(points)),
    )

    def work():
        operator.forward(masses, h)
        np.subtract(h, targets, out=h)
        np.multiply(weights, h, out=h)
        operator.adjoint(h, J)
        return J

    return work


def legendre_coefficients(degree, highest):
    """a_l of k = Σ a_l P_l, l = 0 … highest: integrals over the angle, in which k is analytic on
    [0, π]."""
    node, weight = np.polynomial.legendre.leggauss(highest + 100)
    angle = 0.5 * np.pi * (node + 1.0)
    k = (
        np.array([arc_cosine(degree, t) for t in np.cos(angle)])
        * np.sin(angle)
        * 0.5
        * np.pi
        * weight
    )
    return np.array([(l + 0.5) * eval_legendre(l, np.cos(angle)) @ k for l in range(highest + 1)])


def harmonics(points, highest):
    """Real orthonormal spherical harmonics (n, (highest + 1)²), those of degree l from column l²
    on."""
    out = np.empty((len(points), (highest + 1) ** 2))
    polar, longitude = (
        np.arccos(np.clip(points[:, 2], -1.0, 1.0)),
        np.arctan2(points[:, 1], points[:, 0]),
    )
    for start in range(0, len(points), 500):
        rows = slice(start, start + 500)
        Y = sph_harm_y_all(highest, highest, polar[rows], longitude[rows])
        for l in range(highest + 1):
            out[rows, l * l] = Y[l, 0].real
            out[rows, l * l + 1 : l * l + 1 + l] = np.sqrt(2.0) * Y[l, 1 : l + 1].real.T
            out[rows, l * l + 1 + l : (l + 1) ** 2] = np.sqrt(2.0) * Y[l, 1 : l + 1].imag.T
    return out


def series(risk, points, masses, highest):
    """Function that returns J of signed masses (n,) with the kernel's series up to degree
    `highest`."""
    a = legendre_coefficients(risk.feature.degree, highest)
    l = np.repeat(np.arange(highest + 1), 2 * np.arange(highest + 1) + 1)
    factor, Y = 4.0 * np.pi * a[l] / (2 * l + 1), harmonics(points, highest)
    teacher = risk.teacher_weights @ harmonics(risk.teacher, highest)
    return lambda: Y @ (factor * (masses @ Y - teacher))


def as_dear_as(cost, make, size, largest):
    """The size ≤ largest whose make(size)() takes `cost` seconds, growing with the square of the
    size; found in three trials."""
    for _ in range(3):
        size = min(largest, max(2, round(size * np.sqrt(cost / seconds(make(size))))))
    return size


def row(name, level):
    """One row: sizes, times and errors of the three."""
    rng, mesh = np.random.default_rng(0), hkflow.geodesic_mesh(level)
    risk = hkflow.PopulationRisk(hkflow.FEATURES[name], rng.normal(size=(3, 3)), [1.0, -1.0, 1.0])
    weights = np.exp(mesh.centers @ rng.normal(size=(3, 2))).T * mesh.volumes / 12.0
    on, data = (
        risk.at_fixed_points(mesh.centers, (1, -1)),
        (risk, mesh.centers, weights[0] - weights[1]),
    )
    direct = lambda: on.evaluate(weights)
    cost = seconds(direct, REPEATS)
    rows = as_dear_as(cost, lambda size: quadrature(*data, size), 30, 1000)
    highest = as_dear_as(
        cost, lambda size: series(*data, size), 20, int(np.sqrt(LARGEST / (8 * mesh.n_cells))) - 1
    )
    others = quadrature(*data, rows), series(*data, highest)
    times = 1e3 * np.median(
        [[seconds(work, 1) for work in (direct, *others)] for _ in range(REPEATS)], axis=0
    )
    J, k = on.potential[0], legendre_coefficients(risk.feature.degree, 8 * highest)
    errors = [np.abs(work() - J).max() / np.abs(J).max() for work in others]
    tail = np.abs(k[highest + 1 :]).sum() / arc_cosine(risk.feature.degree, 1.0)
    cells = (
        f"{name} | {mesh.n_cells} | {times[0]:.2f} | {2 * rows * rows} | {times[1]:.2f} |"
        f" {errors[0]:.1e} "
    )
    return cells + f"| {highest} | {times[2]:.2f} | {errors[1]:.1e} | {tail:.1e}"


def main():
    """Print one row per feature and mesh."""
    print(
        "| feature | cells | direct, ms | nodes | quadrature, ms | error | L | harmonics, ms |"
        " error | tail |"
    )
    print("| --- |" + " ---: |" * 9)
    for name in FEATURES:
        for level in LEVELS:
            print(f"| {row(name, level)} |", flush=True)


if __name__ == "__main__":
    main()
