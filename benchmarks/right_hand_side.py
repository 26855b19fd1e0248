"""The right-hand side of the grid, from a density to its rate of change, against streaming its
arrays once; steps with entropy against those without; sums of units with an output for each class
against those of as many units with one; the Gram matrices and Cholesky factors of implicit steps
against NumPy's, on as many threads of BLAS as it takes by itself."""

from functools import partial

import numpy as np

from .machine import stream
from .timing import Row, alternate, ratio

CELLS, DATA, GOAL, TRANSPORT_GOAL = 163_842, 256, 6.0, 4.0
DIFFUSING, FEW_DATA, DIFFUSION_GOAL = 40_962, 32, 4.0
ATOMS, COUPLED = 1284, (12, 100, 600, 1500)
CLASSES, CLASSES_GOAL = ((3, 3), (10, 11), (10, 65), (10, 785)), 0.8  # outputs, inputs with bias


def problem(cells, n, activation="relu", entropy=0.0, unit_mass=False):
    """A flow on S² with n Gaussian data; starts from a smooth density."""
    import hkflow

    rng, mesh = np.random.default_rng(0), hkflow.geodesic_mesh(hkflow.geodesic_level(cells))
    inputs = np.column_stack([rng.normal(size=(n, 2)), np.ones(n)])
    objective = hkflow.Objective(
        hkflow.FEATURES[activation], hkflow.RISKS["square"], inputs, rng.normal(size=n),
        entropy=entropy,
    )  # fmt: skip
    density = np.exp(mesh.centers @ rng.normal(size=3))[None]
    if unit_mass:
        density /= density @ mesh.volumes
    return hkflow.Problem(mesh, objective, hkflow.Flow(1.0, 1.0), initial=density)


def arrays_of(thing, least, seen=None):
    """All arrays of at least so many numbers that an object holds, each once, however deep; what is
    in `seen` is left out."""
    seen = {} if seen is None else seen
    if isinstance(thing, np.ndarray):
        if thing.size >= least and thing.flags.c_contiguous:
            seen.setdefault(("array", thing.ctypes.data), thing)
    elif id(thing) not in seen and not isinstance(thing, (str, int, float, type)):
        seen[id(thing)] = thing
        if isinstance(thing, (list, tuple)):
            inside = thing
        else:
            inside = (
                thing.values()
                if isinstance(thing, dict)
                else getattr(thing, "__dict__", {}).values()
            )
        for part in inside:
            arrays_of(part, least, seen)
    return [array for key, array in seen.items() if isinstance(key, tuple)]


def against_stream(name, work, arrays, cells, repeats, goal=None):
    """The row of some work and the time to read its arrays once, taking turns."""
    times = alternate([work, stream(arrays)], repeats, warm=3)
    size = sum(array.nbytes for array in arrays)
    median = np.median(times[:, 0])
    note = (
        f"time / time to stream its {size / 1e6:.0f} MB once, {size / cells:.0f} bytes per cell; "
    )
    note += f"{1e-6 * cells / median:.3g} M cells/s"
    return Row(
        f"{name}, {cells:,} cells",
        1e3 * median,
        "ms",
        **ratio(times[:, 0], times[:, 1]),
        goal=goal,
        note=note,
    )


def rows(threads, quick):
    """A whole right-hand side, the transport in it, and a whole step of the default stepper with
    all its budgets and checks, also with entropy."""
    from hkflow import FiniteVolume

    cells, n, repeats = (642, 32, 5) if quick else (CELLS, DATA, 15)
    stages = FiniteVolume(problem(cells, n), stepper="ssprk3")
    now, rhs = stages.current, stages.rhs
    st, objective = rhs.stencil, rhs.objective
    used = [st, objective.operator, objective.potential, rhs.gradient, rhs.masses, now]
    name, evaluate = f"right-hand side, {n} data", partial(rhs.evaluate, now)
    yield against_stream(name, evaluate, arrays_of(used, cells), cells, repeats, ("<=", GOAL))
    used = [st, rhs.gradient, now.density, now.potential, now.divergence]
    name = "transport and integrals of it"
    yield against_stream(
        name,
        partial(stages.stepper.rates, now),
        arrays_of(used, cells),
        cells,
        repeats,
        ("<=", TRANSPORT_GOAL),
    )
    method = FiniteVolume(problem(cells, n))
    dt, foreign = (
        method.largest_stable_step(1.0),
        (method.problem, method.problem.mesh, method.problem.objective),
    )
    arrays = arrays_of(method, cells, {id(thing): thing for thing in foreign})
    yield against_stream(
        f"step of the default stepper, {n} data",
        partial(method.advance, dt),
        arrays,
        cells,
        repeats,
    )
    cells = 642 if quick else DIFFUSING
    for tau in (0.01, 0.1, 1.0):
        yield entropy_step(cells, FEW_DATA, tau, repeats)
    for outputs, inputs in CLASSES[:2] if quick else CLASSES:
        yield classes_together(outputs, inputs, repeats)
    for n in COUPLED[:1] if quick else COUPLED:
        yield from coupling(n, repeats)


def coupling(n, repeats):
    """The rows of a Gram matrix of ATOMS features at n data, and of a Cholesky factor of it."""
    from hkflow.methods.stepping.newton import cholesky_solve
    from hkflow.operators.matrix import add_gram

    rng = np.random.default_rng(0)
    features, weights = np.maximum(rng.normal(size=(n, ATOMS)), 0.0), rng.random(ATOMS)
    K, nothing = (features * weights) @ features.T + np.eye(n), np.zeros((0, n))
    pairs = {
        f"Gram matrix, {n} data, {ATOMS} atoms": (
            lambda: add_gram(features, weights, np.zeros((n, n))),
            lambda: (features * weights) @ features.T,
        ),
        f"Cholesky factor, {n} data": (
            lambda: cholesky_solve(K.copy(), nothing),
            lambda: np.linalg.cholesky(K),
        ),
    }
    for name, works in pairs.items():
        times = alternate(works, repeats, warm=3)
        yield Row(
            name,
            1e3 * np.median(times[:, 0]),
            "ms",
            **ratio(times[:, 0], times[:, 1]),
            note="time / that of NumPy",
        )


def classes_together(outputs, inputs, repeats):
    """The row of predictions and gradients of 1000 units and data with some outputs, and of as many
    calls for one output, taking turns."""
    from hkflow.operators.dense import RELU, blocked
    from hkflow.operators.joint import JointOperator
    from hkflow.operators.vector import VectorOperator

    rng, n = np.random.default_rng(0), 1000
    points, x = blocked(rng.normal(size=(n, inputs + outputs))), rng.normal(size=(n, inputs))
    one = VectorOperator(points, x, RELU, outputs), np.zeros_like(points)
    alone = np.ascontiguousarray(points[:, : inputs + 1])
    each = JointOperator(alone, x, RELU), np.zeros_like(alone)
    weights, J, h = rng.normal(size=n), np.zeros(n), rng.normal(size=n * outputs)

    def sums(operator, gradient, out):
        operator.forward(weights, out)
        operator.gradient(out, J, gradient)

    def singly():
        for k in range(outputs):
            sums(*each, h[k::outputs].copy())

    times = alternate([partial(sums, *one, h), singly], repeats, warm=3)
    return Row(
        f"{outputs} outputs, {inputs} inputs, 1000 units, 1000 data",
        1e3 * np.median(times[:, 0]),
        "ms",
        **ratio(times[:, 0], times[:, 1]),
        goal=("<=", CLASSES_GOAL),
        note="predictions and gradients / time output by output",
    )


def entropy_step(cells, n, tau, repeats):
    """The row of a step with entropy τ and one without, of the same length, taking turns; of units
    whose kinks capture nothing, and of unit mass: the weaker the drift, the longer the steps."""
    from hkflow import FiniteVolume

    methods = [
        FiniteVolume(problem(cells, n, "squared-relu", entropy, True)) for entropy in (tau, 0.0)
    ]
    dt = min(method.largest_stable_step(1.0) for method in methods)
    for method in methods:  # past the first step, which leads to its middle by another one
        method.accept(method.advance(1e-3 * dt))
    times = alternate([partial(method.advance, dt) for method in methods], repeats, warm=3)
    return Row(
        f"step with entropy {tau:g}, {n} data, {cells:,} cells",
        1e3 * np.median(times[:, 0]),
        "ms",
        **ratio(times[:, 0], times[:, 1]),
        goal=("<=", DIFFUSION_GOAL),
        note="time / time of a step without, of the same length",
    )
