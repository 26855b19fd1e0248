"""NUMBA_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 mpiexec -n 2 python benchmarks/ranks.py: a step and
its sums over pairs, shared out between ranks, against each rank making all of it, taking turns; and
what a model makes of these numbers for more ranks.

Times are processor times, from which other programs take nothing but cache and bandwidth, on all
ranks at once, so that both meet the same. A rank that waits for a message spins, so messages are
left out, timed by themselves, the fastest of many, and added.
"""

import time

import numpy as np
from mpi4py import MPI

import hkflow
from hkflow.operators.ranks import Ranks

TURNS, MESSAGES = 25, 200
# of the model: seconds a message, bytes per second
LATENCY, BANDWIDTH, RANKS = 2e-6, 1e10, (1, 2, 4, 8, 16, 32, 64)


def problem(points, n, p, operator="auto"):
    """A network of both layers on random data; points : how many particles, or a mesh."""
    rng = np.random.default_rng(1)
    inputs = rng.normal(size=(n, p))
    targets = np.maximum(inputs[:, 0], 0.0) - np.maximum(inputs[:, 1], 0.0)
    objective = hkflow.Objective(
        hkflow.FEATURES["relu"], hkflow.RISKS["square"], inputs, targets, operator=operator
    )
    flow = hkflow.Flow(transport=1.0, reaction=2.0)
    if isinstance(points, int):
        start = hkflow.PointMeasure(
            hkflow.random_uniform(rng, points, p - 1), rng.choice([-1.0, 1.0], size=points)
        )
        return hkflow.Problem(None, objective, flow, (1, -1), start.scaled_to(1.0))
    return hkflow.Problem(points, objective, flow, (1, -1))


def cases():
    """(name, problem, method, numbers in the messages of a step, or of a right-hand side)."""
    mesh = hkflow.geodesic_mesh(6)
    n, particles, data, p = 20_000, 20_000, 5000, 8
    for operator in ("dense", "tree"):
        name = f"{mesh.n_cells:,} cells × {n:,} data, {operator}"
        yield name, problem(mesh, n, 3, operator), "grid", (n, mesh.n_cells)
    name = f"{particles:,} particles in R^{p} × {data:,} data"
    yield name, problem(particles, data, p), "particles", (data, particles * (p + 1))


class Sending(Ranks):
    """Ranks that may leave out their messages: the others' parts are then those of the last
    ones."""

    sends = True

    def completion(self, buffer, counts, starts):
        send = super().completion(buffer, counts, starts)
        return lambda: send() if self.sends else None


def by_all(comm, work):
    """Seconds of processor time of the rank that needs most of it for work()."""
    comm.Barrier()
    return comm.allreduce(timed(work), op=MPI.MAX)


def timed(work, clock=time.process_time):
    start = clock()
    work()
    return clock() - start


def message(ranks, numbers):
    """Seconds of the fastest of many messages in which ranks exchange so many numbers."""
    buffer, edges = np.zeros(numbers), np.arange(ranks.size + 1) * numbers // ranks.size
    send = Ranks.completion(ranks, buffer, np.diff(edges).tolist(), edges[:-1].tolist())
    times = [(ranks.comm.Barrier(), timed(send, time.perf_counter))[1] for _ in range(MESSAGES)]
    return min(ranks.comm.allreduce(seconds, op=MPI.MAX) for seconds in times)


def quartiles(values):
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return f"{middle:.3g} ({low:.3g} – {high:.3g})"


def stepper(problem, kind):
    """A method, and the call that makes a step, or a right-hand side of particles."""
    if kind == "particles":
        method = hkflow.Particles(problem)
        return method, lambda: method.evaluate(method.current)
    method = hkflow.FiniteVolume(problem, imex="explicit")
    dt = 0.5 * min(method.largest_stable_step(1.0), method.initial_step())
    for _ in range(3):  # the first step has no history and takes another half
        method.accept(method.advance(dt))
    return method, lambda: method.advance(dt)


def sums_of(method):
    """The sums over pairs of a step alone, and an array that they leave the same on all ranks."""
    objective = method.objective
    loss_gradient = objective.loss_gradient.copy()
    if hasattr(method, "weights"):
        return (
            lambda: (
                objective.value(method.weights),
                objective.drive(loss_gradient),
            ),
            objective.gradient,
        )
    t, weights, h, J = (
        objective.operator,
        np.ones_like(objective.signed),
        objective.predictions.copy(),
        objective.signed.copy(),
    )
    return lambda: (t.forward(weights, h), t.adjoint(loss_gradient, J)), J


def main():
    comm, ranks = MPI.COMM_WORLD, Sending(MPI.COMM_WORLD)
    rows, model = [], []
    for name, one, kind, numbers in cases():
        (alone, step), (shared, shared_step) = (
            stepper(one, kind),
            stepper(one.distributed(ranks), kind),
        )
        (sums, result), (shared_sums, shared_result) = sums_of(alone), sums_of(shared)
        step(), shared_step(), sums(), shared_sums()
        assert np.array_equal(result, shared_result)
        ranks.sends = False
        works = sums, shared_sums, step, shared_step
        times = (
            1e3 * np.array([[by_all(comm, work) for work in works] for _ in range(TURNS + 1)])[1:]
        )
        ranks.sends = True
        sending = 1e3 * sum(message(ranks, n) for n in numbers)
        times[:, 1::2] += sending
        pairs, parts, whole, together = np.median(times, axis=0)
        ratios = [quartiles(times[:, k] / times[:, k + 1]) for k in (0, 2)]
        rows.append(
            f"| {name} | {pairs:.1f} | {parts:.1f} | {ratios[0]} | {whole:.1f} | {together:.1f} |"
            f" {ratios[1]} |"
        )
        rest, received = max(0.0, whole - pairs), 8 * sum(numbers)
        messages = [
            (P > 1) * 1e3 * (len(numbers) * LATENCY * np.log2(P) + received / BANDWIDTH)
            for P in RANKS
        ]
        modelled = [pairs / P + rest + sent for P, sent in zip(RANKS, messages, strict=True)]
        speeds = " | ".join(f"{modelled[0] / T:.3g}" for T in modelled)
        model.append(f"| {name} | {sending:.2f} | {rest:.1f} | {received / 1e6:.2f} | {speeds} |")
    if comm.rank == 0:
        print(
            f"{ranks.size} ranks: ms of all sums, of a rank's part, ratio; of a step, of a shared"
            " one, ratio\n",
            *rows,
            sep="\n",
        )
        print(
            "\nms of messages, of the rest; model: MB received, speed-up of a step for",
            RANKS,
            "ranks\n",
            *model,
            sep="\n",
        )


if __name__ == "__main__":
    main()
