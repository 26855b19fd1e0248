"""Time to accuracy: seconds until the predictions at the end have a wanted error, by hkflow and by
the same flow of particles written with JAX + diffrax, PyTorch + torchdiffeq and NumPy + scipy.

    python -m benchmarks.flow_peers [PROBLEM …] [--quick]

θ̇ = −α P ∇J(θ), (log w)' = −β J(θ), h = Σ s w (θ·x)₊, from the centres and areas of the cells of a
mesh, or from as many evenly spread points of equal mass. Every contestant but the grid, which has
cells, tries both, with all numbers of points and all tolerances, and the fastest choice whose error
is small enough counts.
Errors are root mean squares over the data, of margin flows for unit mass; truth is a run by
characteristics from 2 × 40,962 cells. Each contestant has a process and a core of its own. Seconds
are processor time of the second of two runs, which compiles nothing.
"""

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from types import SimpleNamespace

import numpy as np

from .contest import environment, settle
from .steps import RUNGE_KUTTA
from .timing import clock

# of points for each sign
SIZES, REFERENCE = (162, 362, 642, 1442, 2562, 5762, 10242), 40962
SETS = ("cells", "even")
TOLERANCES = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6, 1e-7)
PATIENCE, STEPS = 3.0, 20_000  # seconds and steps after which a run is given up
ERRORS = {  # wanted
    "iris": (1e-3, 2.5e-4, 5e-5),
    "six data": (1e-3, 1e-4),
    "teacher": (1e-3, 1e-4, 1e-5),
    "cluster data": (1e-4, 1e-5),
    "d = 15": (1e-4, 1e-5, 1e-6),
}
ENDS = {"iris": 20.0, "six data": 40.0, "teacher": 50.0, "cluster data": 300.0, "d = 15": 20.0}
PER_MASS = ("cluster data",)
UNITS = {"d = 15": 1024}  # of problems whose measure is a set of units, not a density


def problem(name, size, points="cells"):
    """A flow, from so many points of one of the SETS for each sign."""
    import hkflow

    from . import characteristics, kinks

    if name in UNITS:
        return characteristics.teacher(15, 256, UNITS[name], "HK")
    cells = size if points == "cells" else SIZES[0]
    if name == "iris":
        given = characteristics.iris(cells)
    elif name == "six data":
        given = characteristics.six(cells, 0, "W")
    elif name == "teacher":
        given = kinks.taught(cells, 0, "hellinger-kantorovich")
    else:
        given = hkflow.check(kinks.MARGIN, seed=1, **{"domain.cells": cells})[1]
    if points == "cells":
        return given
    atoms = hkflow.PointMeasure(
        np.tile(hkflow.quasi_uniform(size, 2), (2, 1)),
        np.repeat([1.0, -1.0], size),
        np.full(2 * size, given.atoms().weights.sum() / (2 * size)),
    )
    return replace(given, mesh=None, initial=atoms)


def hkflow_by(kind, **options):
    """Runs with every guard and record."""

    def make(name, size, points="cells"):
        import hkflow

        given, end = problem(name, size, points), ENDS[name]

        def run(tolerance):
            found = hkflow.solve(given, end, kind=kind, tolerance=tolerance, **options)
            if not found.finished:
                raise RuntimeError(found.status)
            return found.predictions[-1] / (found.mass[-1] if name in PER_MASS else 1.0)

        return run

    return make


def written(name, size, points):
    """A flow as arrays: signs s (m,), points θ (m, p) and log w (m,) at the start, inputs x (n, p),
    targets y and weights q (n,), rates α and β, name of the risk."""
    given = problem(name, size, points)
    objective, flow, atoms = given.objective, given.flow, given.atoms()
    return SimpleNamespace(
        s=atoms.signs, theta=atoms.positions, log_w=np.log(atoms.weights),
        x=objective.inputs, y=objective.targets, q=objective.weights,
        alpha=flow.transport, beta=flow.reaction, risk=objective.risk.name,
    )  # fmt: skip


def loss_gradient(p, h, xp):
    """∂R/∂h of R = Σ q (h − y)²/2, Σ q log(1 + exp(−y h)), or −log Σ q exp(−y h)."""
    if p.risk == "square":
        return p.q * (h - p.y)
    u = -p.y * h
    if p.risk == "logistic":
        return -p.y * p.q / (1.0 + xp.exp(-u))
    e = p.q * xp.exp(u - u.max())
    return -p.y * e / e.sum()


def rate(p, theta, log_w, xp):
    """Velocity and growth of particles anywhere in R^p, as a flow on the sphere."""
    z = theta @ p.x.T
    h = (p.s * xp.exp(log_w)) @ (z * (z > 0))
    gradient = p.s[:, None] * ((z > 0) * loss_gradient(p, h, xp)[None, :]) @ p.x
    J = (gradient * theta).sum(1)
    return -p.alpha * (gradient - J[:, None] * theta), -p.beta * J


def predictions(p, theta, log_w):
    """h at the end, for unit mass of a margin flow."""
    theta = theta / np.linalg.norm(theta, axis=1)[:, None]
    h = (p.s * np.exp(log_w)) @ np.maximum(theta @ p.x.T, 0.0)
    return h / np.exp(log_w).sum() if p.risk == "smooth-margin" else h


def scipy_by(method):
    """scipy's integrator with NumPy."""

    def make(name, size, points="cells"):
        from scipy.integrate import solve_ivp

        p, begin = written(name, size, points), clock()
        m = p.theta.size

        def velocity(_, state):
            if clock() - started[0] > PATIENCE:
                raise TimeoutError
            found = rate(p, state[:m].reshape(p.theta.shape), state[m:], np)
            return np.concatenate([found[0].ravel(), found[1]])

        started = [begin]

        def run(tolerance):
            started[0] = clock()
            start = np.concatenate([p.theta.ravel(), p.log_w])
            found = solve_ivp(
                velocity, (0.0, ENDS[name]), start, method=method, rtol=tolerance, atol=tolerance
            )
            last = found.y[:, -1]
            return predictions(p, last[:m].reshape(p.theta.shape), last[m:])

        return run

    return make


def diffrax_by(solver):
    """One compiled loop in double precision."""

    def make(name, size, points="cells"):
        import jax

        jax.config.update("jax_enable_x64", True)
        import diffrax
        import jax.numpy as jnp

        q = written(name, size, points)
        p = SimpleNamespace(
            **{k: jnp.asarray(v) if isinstance(v, np.ndarray) else v for k, v in vars(q).items()}
        )
        term = diffrax.ODETerm(lambda t, y, args: rate(p, *y, jnp))

        @jax.jit
        def solve(tolerance, start):
            return diffrax.diffeqsolve(
                term, getattr(diffrax, solver)(), 0.0, ENDS[name], None, start,
                stepsize_controller=diffrax.PIDController(rtol=tolerance, atol=tolerance),
                saveat=diffrax.SaveAt(t1=True), max_steps=STEPS, throw=False,
            )  # fmt: skip

        def run(tolerance):
            found = solve(jnp.asarray(tolerance), (p.theta, p.log_w))
            if not bool(diffrax.is_okay(found.result)):
                raise TimeoutError
            return predictions(q, *(np.asarray(v[0]) for v in found.ys))

        return run

    return make


def torch_by(method):
    """torchdiffeq on the processor."""

    def make(name, size, points="cells"):
        import torch
        from torchdiffeq import odeint

        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        q = written(name, size, points)
        p = SimpleNamespace(
            **{k: torch.tensor(v) if isinstance(v, np.ndarray) else v for k, v in vars(q).items()}
        )
        started = [0.0]

        @torch.no_grad()
        def velocity(_, state):
            if clock() - started[0] > PATIENCE:
                raise TimeoutError
            return rate(p, *state, torch)

        def run(tolerance):
            started[0] = clock()
            times = torch.tensor([0.0, ENDS[name]], dtype=torch.float64)
            found = odeint(
                velocity, (p.theta, p.log_w), times, rtol=tolerance, atol=tolerance, method=method
            )
            return predictions(q, *(v[-1].numpy() for v in found))

        return run

    return make


CONTESTANTS = {
    "hkflow, characteristics": lambda: hkflow_by("characteristics"),
    "hkflow, particles": lambda: hkflow_by("particles"),
    "hkflow, particles that step over kinks": lambda: hkflow_by("particles", **RUNGE_KUTTA),
    "hkflow, grid": lambda: hkflow_by("grid"),
    "diffrax, Tsit5": lambda: diffrax_by("Tsit5"),
    "diffrax, Kvaerno5": lambda: diffrax_by("Kvaerno5"),
    "scipy, RK45": lambda: scipy_by("RK45"),
    "torchdiffeq, dopri5": lambda: torch_by("dopri5"),
}


def trials(contestant, name, quick):
    """(size, points, tolerance, seconds, predictions) of all choices; larger ones are left out when
    one has taken longer than PATIENCE."""
    make, found = CONTESTANTS[contestant](), []
    if name in UNITS and "grid" in contestant:
        return found
    sizes, sets = ((UNITS[name],), ("units",)) if name in UNITS else (SIZES, SETS)
    for points in sets[:1] if "grid" in contestant else sets:
        for size in sizes[: 2 if quick else None]:
            run, seconds = make(name, size, points), np.inf
            for tolerance in TOLERANCES[: 3 if quick else None]:
                try:
                    run(tolerance)
                    begin = clock()
                    h = run(tolerance)
                except (TimeoutError, RuntimeError):
                    break
                seconds = clock() - begin
                found.append((size, points, tolerance, seconds, h))
                if seconds > PATIENCE:
                    break
            if seconds > PATIENCE and tolerance == TOLERANCES[0]:
                break  # more points take longer
    return found


def compete(contestant, name, quick):
    """Trials in a process with one core; None if a library is missing."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(environment(1))
    try:
        with ProcessPoolExecutor(1, get_context("spawn"), settle, (1,)) as pool:
            return pool.submit(trials, contestant, name, quick).result()
    except ImportError:
        return None
    finally:
        os.environ.clear()
        os.environ.update(before)


def main():
    """Print a table for each problem."""
    quick = "--quick" in sys.argv
    named = [name for name in sys.argv[1:] if not name.startswith("-")] or list(ERRORS)
    for name in named:
        cells = 2562 if quick else REFERENCE
        wanted = hkflow_by("characteristics")(name, cells)(1e-6 if quick else 1e-7)
        errors = ERRORS[name]
        print(f"\n| {name}, t = {ENDS[name]:g} |", " | ".join(f"to {e:g}" for e in errors), "|")
        print("| --- |" + " ---: |" * len(errors), flush=True)
        for contestant in CONTESTANTS:
            found = compete(contestant, name, quick)
            if found is None:
                print(f"| {contestant} | not installed |", flush=True)
                continue
            line = []
            for error in errors:
                good = [
                    (seconds, size, points, tolerance)
                    for size, points, tolerance, seconds, h in found
                    if np.sqrt(np.mean((h - wanted) ** 2)) <= error
                ]
                line.append(
                    "{:.3g} s ({} {}, {:g})".format(*min(good)) if good else f"> {PATIENCE:g} s"
                )
            print(f"| {contestant} |", " | ".join(line), "|", flush=True)


if __name__ == "__main__":
    main()
