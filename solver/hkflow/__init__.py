"""hkflow: gradient flows of measures on spheres, computed as partial differential equations.

Everything public is found here and loaded when it is first used, so that `import hkflow` is quick.
"""

import os

from .lazy import public

# Threads that wait must sleep: spinning ones cost milliseconds per kernel as soon as another program wants a core.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

_HOMES = {
    "run": "runs",
    "resume": "runs",
    "ranks": "parallel",
    "check": "runs",
    "load": "store.run",
    "pack": "store.results",
    "export": "store.export",
    "to_xarray": "store.dataset",
    "compare": "comparison",
    "study": "studies.study",
    "reproduce": "reproduction",
    "convergence_table": "convergence",
    "solve": "time_loop",
    "Solution": "time_loop",
    "Problem": "problem",
    "Flow": "flows",
    "named_flow": "flows",
    "FiniteVolume": "eulerian.finite_volume",
    "MomentFlow": "exact",
    "Objective": "objectives.objective",
    "Feature": "objectives.features",
    "FEATURES": "objectives.features",
    "Risk": "objectives.risks",
    "RISKS": "objectives.risks",
    "Mesh": "meshes",
    "Characteristics": "characteristics.characteristics",
    "Particles": "lagrangian.particles",
    "Network": "lagrangian.network",
    "Atoms": "measures",
    "Units": "measures",
    "sampled": "measures",
    "quasi_uniform": "point_sets",
    "random_uniform": "point_sets",
    "circle_mesh": "meshes",
    "atoms_mesh": "meshes",
    "PopulationRisk": "objectives.population",
    "geodesic_mesh": "meshes",
    "CaseError": "errors",
    "RunFolderError": "errors",
    "HkflowError": "errors",
}

__getattr__, __dir__, __all__ = public(__name__, _HOMES, rooms=("margins", "plots"))
