"""How hkflow, NumPy, JAX, PyTorch and ducc0 take full-batch steps ȧ = −m ∂R/∂a, ḃ = −m ∂R/∂b of a
two-layer network, with R = log Σ q_i exp(−y_i h_i), h = (1/m) Σ b_j (a_j·x_i)₊, in float64 and from
the same start, as contestants.

"In chunks" is for programmers who know that the (m, n) matrix of all products a_j·x_i does not fit
the cache: they make it for a few units at a time, twice per step, as hkflow does. ducc0 knows the
sphere alone, and approximates.
"""

import os
from functools import partial
from types import SimpleNamespace

import numpy as np

from .contest import timed
from .potential_peers import angles, harmonic_degrees, zonal_factors

STEP, CHUNK, HARMONICS = 0.01, 100, 256


def start(m, p, n):
    """Gaussian data with random labels and balanced Gaussian units; X (n, p), y (n,), A (m, p), b
    (m,)."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((n, p)), rng.choice([-1.0, 1.0], size=n)
    X[:, -1] = 1.0
    A = rng.standard_normal((m, p))
    return SimpleNamespace(
        m=m, n=n, X=X, y=y, A=A, b=rng.choice([-1.0, 1.0], size=m) * np.linalg.norm(A, axis=1)
    )


def repeat(step, steps, state):
    """Take steps one by one."""
    for _ in range(steps):
        state = step(*state)
    return state


def descent(s):
    """The network method, as hkflow.solve makes it."""
    import hkflow

    objective = hkflow.Objective(hkflow.FEATURES["relu"], hkflow.RISKS["smooth-margin"], s.X, s.y)
    problem = hkflow.Problem(
        None, objective, hkflow.Flow(1.0, 2.0), signs=(1, -1), initial=hkflow.Units(s.A, s.b)
    )
    return hkflow.Network(problem, training="gradient-descent", step=STEP)


def with_hkflow(*size):
    """What hkflow.solve does once the method is made, with every guard and record."""
    from hkflow.solving.solve import integrate

    def take(steps, method):
        clock, status, _ = integrate(method, (0.0, steps * STEP))
        if clock.step != steps:
            raise RuntimeError(f"{steps} steps wanted: {status}")
        return method.state()

    return {
        "": timed(
            partial(descent, start(*size)), take, lambda state: (state["hidden"], state["output"])
        )
    }


def with_numpy(*size):
    """The formulas as written."""
    s = start(*size)

    def step(A, b):
        S = s.X @ A.T
        P = np.maximum(S, 0.0)
        u = s.y * (P @ b) / s.m
        q = np.exp(u.min() - u)
        r = -s.y * q / q.sum()
        G = ((S > 0.0) * r[:, None]).T @ s.X
        return A - STEP * b[:, None] * G, b - STEP * (r @ P)

    return {"": timed(lambda: (s.A, s.b), partial(repeat, step), tuple)}


def with_jax(*size, chunk=None):
    """All steps in one compiled loop, the gradient by hand or by jax.grad."""
    s = start(*size)
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    X, y = jnp.asarray(s.X), jnp.asarray(s.y)

    # without chunks XLA makes one loop of both passes, and one matrix of their two
    def by_hand(_, weights):
        A, b = weights
        parts = A.reshape(-1, chunk or s.m, A.shape[1]), b.reshape(-1, chunk or s.m)
        h, _ = jax.lax.scan(
            lambda h, part: (h + part[1] @ jnp.maximum(part[0] @ X.T, 0.0), None),
            jnp.zeros(s.n),
            parts,
        )
        r = -y * jax.nn.softmax(-y * h / s.m)
        G = jax.lax.map(lambda part: jnp.where(part @ X.T > 0.0, r, 0.0) @ X, parts[0]).reshape(
            A.shape
        )
        return A - STEP * b[:, None] * G, b - STEP * (A * G).sum(axis=1)

    def by_grad(_, weights):
        def risk(A, b):
            return jax.nn.logsumexp(-y * (b @ jnp.maximum(A @ X.T, 0.0)) / s.m)

        return tuple(
            w - STEP * s.m * g
            for w, g in zip(weights, jax.grad(risk, (0, 1))(*weights), strict=True)
        )

    def run(step):
        loop = jax.jit(lambda steps, weights: jax.lax.fori_loop(0, steps, step, weights))
        prepare = lambda: jax.block_until_ready((jnp.asarray(s.A), jnp.asarray(s.b)))
        return timed(
            prepare,
            lambda *args: jax.block_until_ready(loop(*args)),
            lambda pair: [np.asarray(w) for w in pair],
        )

    return {"": run(by_hand)} if chunk else {"by hand": run(by_hand), "jax.grad": run(by_grad)}


def with_torch(*size, chunk=None):
    """By hand in memory that is used again, or by autograd."""
    s = start(*size)
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


def with_ducc0(*size):
    """Units in R³: predictions and the gradient of J as zonal convolutions, the latter from two
    derivatives on the sphere."""
    from ducc0.sht import adjoint_synthesis_general, synthesis_general

    s, degree = start(*size), harmonic_degrees(HARMONICS)
    factors, length, at_data = (
        zonal_factors(HARMONICS)[degree],
        np.linalg.norm(s.X, axis=1),
        angles(s.X),
    )
    options = {"lmax": HARMONICS, "epsilon": 1e-5, "nthreads": int(os.environ["OMP_NUM_THREADS"])}

    def step(A, b):
        radius, at = np.linalg.norm(A, axis=1), angles(A)
        harmonics = adjoint_synthesis_general(
            map=(b * radius / s.m)[None], loc=at, spin=0, **options
        )
        h = length * synthesis_general(alm=factors * harmonics, loc=at_data, spin=0, **options)[0]
        u = s.y * h
        q = np.exp(u.min() - u)
        r = -s.y * q / q.sum()
        harmonics = factors * adjoint_synthesis_general(
            map=(r * length)[None], loc=at_data, spin=0, **options
        )
        J = synthesis_general(alm=harmonics, loc=at, spin=0, **options)[0]
        south, east = synthesis_general(alm=harmonics, loc=at, spin=1, mode="DERIV1", **options)
        (ct, cp), (st, sp) = np.cos(at.T), np.sin(at.T)
        G = np.stack(
            [
                J * st * cp + south * ct * cp - east * sp,
                J * st * sp + south * ct * sp + east * cp,
                J * ct - south * st,
            ],
            1,
        )
        return A - STEP * b[:, None] * G, b - STEP * (A * G).sum(axis=1)

    return {f"degree {HARMONICS}": timed(lambda: (s.A, s.b), partial(repeat, step), tuple)}


PEERS = {
    "NumPy": with_numpy, "PyTorch": with_torch, "JAX": with_jax,
    "PyTorch in chunks": partial(with_torch, chunk=CHUNK),
    "JAX in chunks": partial(with_jax, chunk=CHUNK),
}  # fmt: skip
