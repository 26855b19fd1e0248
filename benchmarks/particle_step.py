"""Gradient descent of a two-layer network: hkflow's time loop against NumPy, JAX and PyTorch, in steps per second.

All of them take full-batch steps ȧ = −m ∂R/∂a, ḃ = −m ∂R/∂b of R = log Σ q_i exp(−y_i h_i), h = (1/m) Σ b_j (a_j·x_i)₊, in
float64 and from the same start. Each runs in processes of its own, whose threads are set before any library loads, and they
take turns; medians over the rounds. With one thread a process stays on one core, because XLA knows no other way.

"In chunks" is for programmers who know that the (m, n) matrix of all products a_j·x_i does not fit the cache: they make it
for a few units at a time, twice per step, as hkflow does. Install the peers with pip install -e .[bench]. Leave the machine
alone meanwhile: with another job on it, libraries whose threads wait for each other by spinning lose most.
"""

import os
import time
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from multiprocessing import get_context
from types import SimpleNamespace

import numpy as np

SIZES = {"small": (1000, 16, 256), "large": (100_000, 4, 1000)}  # units, inputs with bias, data
GOALS = {"small": 1.0, "large": 8.0}
CHECKED = {"small": 100, "large": 2}  # steps after which all must agree
STEP, CHUNK, ROUNDS, SECONDS = 0.01, 100, 5, 0.3
KEEP = {"MALLOC_TRIM_THRESHOLD_": "1000000000000", "MALLOC_MMAP_THRESHOLD_": "1000000000000"}  # glibc keeps freed memory
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def start(m, p, n):
    """Gaussian data with random labels and balanced Gaussian units; X (n, p), y (n,), A (m, p), b (m,)."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((n, p)), rng.choice([-1.0, 1.0], size=n)
    X[:, -1] = 1.0
    A = rng.standard_normal((m, p))
    return SimpleNamespace(m=m, n=n, X=X, y=y, A=A, b=rng.choice([-1.0, 1.0], size=m) * np.linalg.norm(A, axis=1))


def timed(prepare, take, weights=None):
    """run(steps) -> (seconds of take(steps, prepare()), what `weights` makes of its result: A, b)."""

    def run(steps):
        state = prepare()
        begin = time.perf_counter()
        state = take(steps, state)
        return time.perf_counter() - begin, weights and weights(state)

    return run


def repeat(step, steps, state):
    """Take steps one by one."""
    for _ in range(steps):
        state = step(*state)
    return state


# --- contestants: functions of the start that return {variant: run}


def descent(s):
    """The network method, as hkflow.solve makes it."""
    import hkflow
    from hkflow.time_loop import make_method

    objective = hkflow.Objective(hkflow.FEATURES["relu"], hkflow.RISKS["smooth-margin"], s.X, s.y)
    problem = hkflow.Problem(None, objective, hkflow.Flow(1.0, 2.0), signs=(1, -1), initial=hkflow.Units(s.A, s.b))
    return make_method(problem, "network", training="gradient-descent", step=STEP)


def time_loop(s):
    """What hkflow.solve does once the method is made, with every guard and record."""

    from hkflow.time_loop import integrate

    def take(steps, method):
        clock, status, _ = integrate(method, (0.0, steps * STEP))
        if clock.step != steps:
            raise RuntimeError(f"{steps} steps wanted: {status}")
        return method.state()

    return {"": timed(partial(descent, s), take, lambda state: (state["hidden"], state["output"]))}


def bare_kernels(s):
    """hkflow's sums over all pairs alone: predictions, risk and gradient, nothing moves."""
    method = descent(s)

    def step():
        method.objective.evaluate(method.weights)
        return ()

    return {"": timed(tuple, partial(repeat, step))}


def with_numpy(s):
    """The formulas as written."""

    def step(A, b):
        S = s.X @ A.T
        P = np.maximum(S, 0.0)
        u = s.y * (P @ b) / s.m
        q = np.exp(u.min() - u)
        r = -s.y * q / q.sum()
        G = ((S > 0.0) * r[:, None]).T @ s.X
        return A - STEP * b[:, None] * G, b - STEP * (r @ P)

    return {"": timed(lambda: (s.A, s.b), partial(repeat, step), tuple)}


def blas(s):
    """The two matrix products of a step and nothing else."""
    S, M, G = np.empty((s.n, s.m)), np.ones((s.n, s.m)), np.empty_like(s.A)

    def step():
        np.matmul(s.X, s.A.T, out=S)
        np.matmul(M.T, s.X, out=G)
        return ()

    return {"": timed(tuple, partial(repeat, step))}


def with_jax(s, chunk=None):
    """All steps in one compiled loop, the gradient by hand or by jax.grad."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    X, y = jnp.asarray(s.X), jnp.asarray(s.y)

    def by_hand(_, weights):  # without chunks XLA makes one loop of both passes, and one matrix of their two
        A, b = weights
        parts = A.reshape(-1, chunk or s.m, A.shape[1]), b.reshape(-1, chunk or s.m)
        h, _ = jax.lax.scan(lambda h, part: (h + part[1] @ jnp.maximum(part[0] @ X.T, 0.0), None), jnp.zeros(s.n), parts)
        r = -y * jax.nn.softmax(-y * h / s.m)
        G = jax.lax.map(lambda part: jnp.where(part @ X.T > 0.0, r, 0.0) @ X, parts[0]).reshape(A.shape)
        return A - STEP * b[:, None] * G, b - STEP * (A * G).sum(axis=1)

    def by_grad(_, weights):
        def risk(A, b):
            return jax.nn.logsumexp(-y * (b @ jnp.maximum(A @ X.T, 0.0)) / s.m)

        return tuple(w - STEP * s.m * g for w, g in zip(weights, jax.grad(risk, (0, 1))(*weights), strict=True))

    def run(step):
        loop = jax.jit(lambda steps, weights: jax.lax.fori_loop(0, steps, step, weights))
        prepare = lambda: jax.block_until_ready((jnp.asarray(s.A), jnp.asarray(s.b)))
        return timed(prepare, lambda *args: jax.block_until_ready(loop(*args)), lambda pair: [np.asarray(w) for w in pair])

    return {"": run(by_hand)} if chunk else {"by hand": run(by_hand), "jax.grad": run(by_grad)}


def with_torch(s, chunk=None):
    """By hand in memory that is used again, or by autograd."""
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    X, y = torch.from_numpy(s.X), torch.from_numpy(s.y)
    parts = [slice(c, c + (chunk or s.m)) for c in range(0, s.m, chunk or s.m)]
    S = torch.empty((chunk or s.m, s.n), dtype=torch.float64)

    @torch.no_grad()
    def by_hand(A, b):
        h, G = torch.zeros_like(y), torch.empty_like(A)
        for part in parts:
            h += b[part] @ torch.mm(A[part], X.T, out=S).relu_()
        rX = (-y * torch.softmax(-y * h / s.m, 0))[:, None] * X
        for part in parts:
            if chunk:
                torch.mm(A[part], X.T, out=S).relu_()
            torch.mm(S.sign_(), rX, out=G[part])
        return A - STEP * b[:, None] * G, b - STEP * (A * G).sum(dim=1)

    def by_autograd(A, b):
        A.requires_grad_(), b.requires_grad_()
        risk = torch.logsumexp(-y * (b @ torch.relu(A @ X.T)) / s.m, 0)
        dA, db = torch.autograd.grad(risk, (A, b))
        return (A - STEP * s.m * dA).detach(), (b - STEP * s.m * db).detach()

    def run(step):
        prepare = lambda: (torch.tensor(s.A), torch.tensor(s.b))
        return timed(prepare, partial(repeat, step), lambda pair: [w.numpy() for w in pair])

    return {"": run(by_hand)} if chunk else {"by hand": run(by_hand), "autograd": run(by_autograd)}


LOOP, PEERS, CHUNKED = "hkflow", ("NumPy", "NumPy, memory kept", "JAX", "PyTorch"), ("JAX in chunks", "PyTorch in chunks")
CONTESTANTS = {
    LOOP: time_loop, "hkflow, bare kernels": bare_kernels, "NumPy": with_numpy, "NumPy, memory kept": with_numpy, "JAX": with_jax,
    "PyTorch": with_torch, "JAX in chunks": partial(with_jax, chunk=CHUNK), "PyTorch in chunks": partial(with_torch, chunk=CHUNK),
    "BLAS products alone": blas,
}  # fmt: skip


# --- in the processes of the contestants


def settle(threads):
    """Stay on as many cores as there are threads."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])


@cache
def fastest(name, size):
    """(variant, its run, steps for a run of a fair length, weights of all variants to check), or why there is none."""
    try:
        variants = CONTESTANTS[name](start(*SIZES[size]))
    except ImportError as error:
        return str(error)
    for run in variants.values():
        run(1)
    found = {variant: run(CHECKED[size]) for variant, run in variants.items()}
    best = min(found, key=lambda variant: found[variant][0])
    steps = max(CHECKED[size], int(SECONDS * CHECKED[size] / found[best][0]))
    return best, variants[best], steps, [weights for _, weights in found.values() if weights]


def ready(name, size):
    """(variant, weights to check) of a contestant, or the reason why it is left out."""
    found = fastest(name, size)
    return found if isinstance(found, str) else found[::3]


def rate(name, size):
    """Steps per second in one run."""
    _, run, steps, _ = fastest(name, size)
    return steps / run(steps)[0]


def growth(base):
    """Exponents with which the cost of hkflow's particle right-hand side grows with each of three sizes, over two octaves."""
    from hkflow.time_loop import make_method

    def seconds(method):
        begin = time.perf_counter()
        method.evaluate(method.current)
        return time.perf_counter() - begin

    exponents = []
    for axis in range(3):
        sizes = [[size * factor if a == axis else size for a, size in enumerate(base)] for factor in (1, 2, 4)]
        methods = [make_method(descent(start(*size)).problem, "particles") for size in sizes]
        cost = np.median([[seconds(method) for method in methods] for _ in range(15)], axis=0)
        exponents.append(np.polyfit(np.log([1, 2, 4]), np.log(cost), 1)[0])
    return exponents


# --- in the process that compares


def process(threads, keep=False):
    """A pool of one new process with this many threads."""
    for name in KEEP:
        os.environ.pop(name, None)
    os.environ.update({name: str(threads) for name in THREADS} | {"OMP_WAIT_POLICY": "passive"} | (KEEP if keep else {}))
    pool = ProcessPoolExecutor(1, get_context("spawn"), settle, (threads,))
    pool.submit(os.getpid).result()  # it starts with the environment of this moment
    return pool


def measure(threads):
    """{(size, name): (median rate, variant)} on this many threads; prints who is left out and whether the others agree."""
    pools = {name: process(threads, keep=name in PEERS[1:] + CHUNKED) for name in CONTESTANTS}
    results = {}
    for size in SIZES:
        found = {name: pool.submit(ready, name, size).result() for name, pool in pools.items()}
        for name in [name for name in found if isinstance(found[name], str)]:
            print(f"{name} left out: {found.pop(name)}")
        check(size, threads, [pair for _, pairs in found.values() for pair in pairs])
        rates = [[pools[name].submit(rate, name, size).result() for name in found] for _ in range(ROUNDS)]
        for name, median in zip(found, np.median(rates, axis=0), strict=True):
            results[size, name] = median, found[name][0]
    for pool in pools.values():
        pool.shutdown()
    return results


def check(size, threads, pairs):
    """Print how far parameters are from hkflow's, the first of the pairs A, b, relative to how far those moved."""
    first, distance = start(*SIZES[size]), 0.0
    for pair in pairs:
        for w, w0, w1 in zip(pair, pairs[0], (first.A, first.b), strict=True):
            distance = max(distance, np.abs(w - w0).max() / np.abs(w0 - w1).max())
    verdict = "the same" if distance <= 1e-9 else "NOT THE SAME"
    print(f"{size}, {threads} threads, {CHECKED[size]} steps, {len(pairs)} ways: {verdict}, to {distance:.1e} of the way gone")


def main():
    """Print the checks, the table, the ratios and the growth of cost."""
    counts = sorted({1, len(os.sched_getaffinity(0))})
    print(f"load before: {os.getloadavg()[0]:.1f}")
    results = {(threads, *key): value for threads in counts for key, value in measure(threads).items()}
    columns = [(threads, size) for size in SIZES for threads in counts]
    print("\n| steps per second |", *(f"{size} {SIZES[size]}, {threads} threads |" for threads, size in columns))
    print("|---" * (len(columns) + 1) + "|")
    for name in CONTESTANTS:
        print(f"| {name} |", *("{:.4g} {} |".format(*results.get((*column, name), (np.nan, ""))) for column in columns))
    for label, names in (("best peer", PEERS), ("best peer in chunks", CHUNKED)):
        cells = []
        for column in columns:
            best, name = max((results.get((*column, name), (0.0,))[0], name) for name in names)
            cells.append(f"{results[*column, LOOP][0] / best:.2f} ({name}) |" if best else "– |")
        print(f"| hkflow / {label} |", *cells)
    print("goals, against the best peer:", ", ".join(f"{size} at least {goal:g}" for size, goal in GOALS.items()))
    with process(1) as pool:
        base = (20_000, 8, 500)
        exponents = pool.submit(growth, base).result()
    print(f"\nCost of the particle right-hand side from (m, d+1, n) = {base} on, each up to four times as large:")
    for name, exponent in zip(("m", "d+1", "n"), exponents, strict=True):
        print(f"grows like ({name})^{exponent:.2f}")
    print(f"load after: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
