"""hkflow: gradient flows of measures on spheres, computed as partial differential equations.

Everything public is found here and loaded when it is first used, so that `import hkflow` is quick.
"""

import os

from .lazy import public

# Threads that wait must sleep: spinning ones cost milliseconds per kernel as soon as another
# program wants a core.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

_HOMES = {
    "run": "running.run",
    "resume": "running.run",
    "ranks": "operators.ranks",
    "check": "case.check",
    "load": "store.run",
    "pack": "store.results",
    "export": "store.export",
    "to_xarray": "store.dataset",
    "compare": "analysis.comparison",
    "study": "studies.study",
    "reproduce": "app.reproduction",
    "convergence_table": "analysis.convergence",
    "solve": "solving.solve",
    "steps": "solving.solve",
    "Solution": "solving.solution",
    "Observer": "solving.observer",
    "observe": "solving.observer",
    "Problem": "problem.problem",
    "Flow": "problem.flow",
    "named_flow": "problem.flow",
    "FiniteVolume": "methods.grid.finite_volume",
    "MomentFlow": "problem.exact",
    "Objective": "objectives.objective",
    "Feature": "objectives.activations",
    "ridge": "objectives.activations",
    "FEATURES": "objectives.activations",
    "Risk": "objectives.losses",
    "RISKS": "objectives.losses",
    "Mesh": "geometry",
    "Characteristics": "methods.characteristics.characteristics",
    "Particles": "methods.particles.particles",
    "Network": "methods.network.network",
    "Atoms": "measures.point_measure",
    "Units": "measures.point_measure",
    "sampled": "measures.point_measure",
    "quasi_uniform": "geometry.point_sets",
    "random_uniform": "geometry.point_sets",
    "circle_mesh": "geometry",
    "atoms_mesh": "geometry",
    "PopulationRisk": "objectives.population",
    "geodesic_mesh": "geometry",
    "CaseError": "errors",
    "RunFolderError": "errors",
    "HkflowError": "errors",
}

__getattr__, __dir__, __all__ = public(__name__, _HOMES, rooms=("certificates", "plots"))
