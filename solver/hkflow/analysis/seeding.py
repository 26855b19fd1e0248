"""Problems made from runs: with seeds of characteristics where they matter, found from where mass
comes from and where kinks part it; and from a save on."""

from dataclasses import replace
from typing import Any

import numpy as np

from ..geometry.mesh import Mesh
from ..measures.point_measure import PointMeasure
from ..problem.problem import Problem
from ..solving import restart
from ..solving.result import ResultLike
from ..store.run import loaded

SAVES = 8  # at most, at which integrals are wanted
DATA = 64  # at most, whose predictions are wanted


def reseeded(run: ResultLike, particles: int = 10_000) -> tuple[Problem, float]:
    """The problem of a run by characteristics with other first atoms, and an estimate of what they
    leave as error of ∫φ dν, relative to the mass and to |x|.

    The atoms are nodes of an adaptive cubature of the initial density: simplices are cut where that
    changes mass and predictions at the run's saves most, as its history moves them. Few seeds in
    the run are enough; where r depends on the seeds much, seed again from the new run.

        run = hkflow.solve(problem, end, kind="characteristics")
        problem, error = hkflow.reseeded(run, 10_000)
        better = hkflow.solve(problem, end, kind="characteristics")

    particles : most atoms, of all signs together
    Raises ValueError for other methods, a start whose density is not known, and fewer atoms than
        twice the 2^(d+1) orthants of each sign need
    """
    result: Any = loaded(run)
    if result.method != "characteristics" or not result.has_density:
        raise ValueError(
            f"{result.name}: seeds are found for runs by characteristics that keep their history"
            " and whose initial density is known."
        )
    from ..methods.characteristics.seeds import Cubature, rule

    dim, signs = result.dim, tuple(result.signs)
    least = 2 * len(signs) * 2 ** (dim + 1) * len(rule(dim)[1])
    if particles < least:
        raise ValueError(f"On S^{dim} seeds for {len(signs)} sign(s) are at least {least} atoms.")
    found = Cubature(_Carried(result), result.problem.initial_density, dim, signs)
    found.refine(particles)
    points, of_sign, masses = found.measure()
    alive = masses > 0.0
    atoms = PointMeasure(points[alive], of_sign[alive], masses[alive])
    if result.time[0] == 0.0:
        atoms = atoms.scaled_to(np.exp(result.log_mass_at(0)))
    density = result.problem.density or result.problem.initial_density
    return replace(result.problem, mesh=None, initial=atoms, density=density), found.error()


def restarted(run: ResultLike, save: int = -1, mesh: Mesh | None = None) -> Problem:
    """The problem of a run from one of its saves on, with time 0 there: as a density with captured
    atoms beside it, or as atoms.

        problem = hkflow.restarted("runs/iris-characteristics", mesh=hkflow.geodesic_mesh(5))
        solution = hkflow.solve(dataclasses.replace(problem, flow=other), end=5.0)

    mesh : on which to start; if not given that of a grid, and otherwise the run's own atoms. The
        mass stays; between meshes densities are carried conservatively
    Raises ValueError for a save that there is not, and a mass beyond e^30.
    """
    return restart.restarted(loaded(run), save, mesh)


class _Carried:
    """Integrands that flow with the measure: shares of mass, and what they predict, at some saves.

    A call with points (n, d+1) at t = 0 and signs (n,) returns (n, n_values), per initial mass.
    """

    def __init__(self, run):
        from ..methods.frozen_relu.kinks import Kinks

        self.objective, self.flow = run.problem.objective, run.flow
        self.kinks = Kinks.of(self.objective.feature, self.objective.inputs)
        saves = np.unique(np.rint(np.linspace(0, len(run.time) - 1, SAVES)).astype(int))
        ends = [int(run.state_at(k)["flows"]) for k in saves]
        starts = [0, *ends[:-1]]
        self.pieces = [run.history.part(*ends) for ends in zip(starts, ends, strict=True)]
        self.log_masses = [run.log_mass_at(k) for k in saves]
        inputs = self.objective.inputs
        sizes = np.linalg.norm(inputs, axis=1)
        alive = np.flatnonzero(sizes > 0.0)
        chosen = alive[np.unique(np.rint(np.linspace(0, len(alive) - 1, DATA)).astype(int))]
        self.inputs = inputs[chosen] / sizes[chosen, None]

    def __call__(self, points, signs):
        from ..methods.characteristics.seeds import carried

        decay, total, columns = self.objective.weight_decay, np.zeros(len(points)), []
        for piece, log_mass in zip(self.pieces, self.log_masses, strict=True):
            if len(piece):
                points, growth = carried(self.kinks, piece, self.flow, decay, points, signs)
                total += growth
            share = np.exp(total - log_mass)[:, None]
            predicted = self.objective.feature.matrix(points, self.inputs).T
            columns += [share, share * predicted]
        return np.hstack(columns)
