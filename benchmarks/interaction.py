"""python -m benchmarks.interaction: a grid's step by an interaction on S², summed by harmonics,
against one by the tree transform of 4096 data on the same cells, taking turns."""

import numpy as np

import hkflow

from .timing import alternate, ratio

LEVEL, DATA, REPEATS, KAPPAS = 6, 4096, 15, (4.0, 9.0, 25.0)


def stepper(objective):
    """A function that takes a step of half the stable length."""
    mesh = hkflow.geodesic_mesh(LEVEL)
    start = lambda points, sign: 1.0 + 0.5 * points[:, 0]
    problem = hkflow.Problem(mesh, objective, hkflow.Flow(1.0, 0.0), initial=start)
    method = hkflow.FiniteVolume(problem, imex="explicit")

    def step():
        method.accept(method.advance(0.5 * method.largest_stable_step(1.0)))

    return step


def main():
    """Print a row for each concentration κ of e^(κ(t − 1))."""
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(DATA, 3))
    data = hkflow.Objective(
        hkflow.FEATURES["relu"], hkflow.RISKS["square"], inputs, inputs[:, 0], operator="tree"
    )
    pairs = [hkflow.Interaction("exponential", -1.0, concentration=kappa) for kappa in KAPPAS]
    works = [stepper(data), *(stepper(hkflow.Sum(one, axes=3)) for one in pairs)]
    times = alternate(works, REPEATS, warm=2)
    print("| step on 40,962 cells | ms | of the tree's | quartiles |\n| --- | ---: | ---: | --- |")
    print(f"| tree, {DATA} data | {1e3 * np.median(times[:, 0]):.1f} | 1 | |")
    for one, own in zip(pairs, times[:, 1:].T, strict=True):
        found = ratio(own, times[:, 0])
        print(
            f"| κ = {one.concentration:g}, degree {one.zonal.degree} | {1e3 * np.median(own):.1f} |"
            f" {found['ratio']:.2f} | {found['low']:.2f} – {found['high']:.2f} |"
        )


if __name__ == "__main__":
    main()
