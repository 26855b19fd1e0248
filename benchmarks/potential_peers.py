"""How NumPy, PyTorch, JAX and ducc0 compute the sums of potential.py, as contestants: with the
matrix of all features stored, or made in chunks that fit the cache; ducc0 as a zonal convolution on
the sphere, to a given error.

Each is called with `what` ("J", "smooth J" or "h"), the number of points on S² and the number of
data.
"""

import os

import numpy as np

from .contest import calls

CHUNK = 256  # points at a time


def data(n, axes):
    """Gaussian inputs with a bias, (n, axes)."""
    inputs = np.random.default_rng(0).normal(size=(n, axes))
    inputs[:, -1] = 1.0
    return inputs


def problem(what, n_points, n):
    """Points on S² (n_points, 3), inputs (n, 3), and the numbers to be summed: g of each datum for
    J, w of each point for h.

    They are independent Gaussians, or in "smooth J" the loss gradients of labels that two ReLU
    units made.
    """
    from hkflow import quasi_uniform

    points, inputs, rng = quasi_uniform(n_points, 2), data(n, 3), np.random.default_rng(1)
    if what == "smooth J":
        u, v = rng.normal(size=(2, 3))
        return points, inputs, (np.maximum(inputs @ u, 0.0) - np.maximum(inputs @ v, 0.0)) / n
    size = n if what == "J" else n_points
    return points, inputs, rng.normal(size=size) / size


def with_hkflow(what, n_points, n):
    """hkflow."""
    from hkflow.operators.choice import make_operator
    from hkflow.operators.dense import RELU

    points, inputs, given = problem(what, n_points, n)
    operator, out = (
        make_operator("auto", points, inputs, RELU),
        np.zeros(n_points if what != "h" else n),
    )
    sums = operator.adjoint if what != "h" else operator.forward

    def work():
        sums(given, out)
        return out

    return {"": calls(work)}


def features(points, inputs):
    """The matrix (n, n_points), in one block of memory."""
    matrix = np.matmul(inputs, points.T)
    return np.maximum(matrix, 0.0, out=matrix)


def with_numpy(what, n_points, n):
    """A stored matrix by BLAS, or chunks."""
    points, inputs, given = problem(what, n_points, n)
    stored, parts = (
        features(points, inputs),
        [slice(c, c + CHUNK) for c in range(0, n_points, CHUNK)],
    )

    def chunks():
        if what != "h":
            return np.concatenate([given @ features(points[part], inputs) for part in parts])
        return sum(features(points[part], inputs) @ given[part] for part in parts)

    return {
        "stored": calls(lambda: given @ stored if what != "h" else stored @ given),
        "in chunks": calls(chunks),
    }


def with_torch(what, n_points, n):
    """The same in PyTorch, in memory that is used again."""
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    points, inputs, given = problem(what, n_points, n)
    stored, X, numbers = (torch.from_numpy(a) for a in (features(points, inputs), inputs, given))
    parts = torch.from_numpy(points).split(CHUNK)
    scratch = torch.empty((n, CHUNK), dtype=torch.float64)

    def made(part):
        return torch.mm(X, part.T, out=scratch if len(part) == CHUNK else None).relu_()

    def chunks():
        if what != "h":
            return torch.cat([numbers @ made(part) for part in parts])
        return sum(made(part) @ w for part, w in zip(parts, numbers.split(CHUNK), strict=True))

    return {
        "stored": calls(lambda: numbers @ stored if what != "h" else stored @ numbers),
        "in chunks": calls(chunks),
    }


def with_jax(what, n_points, n):
    """The same in JAX, each compiled as a whole."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    points, inputs, given = problem(what, n_points, n)
    stored, X, numbers = (
        jnp.asarray(features(points, inputs)),
        jnp.asarray(inputs),
        jnp.asarray(given),
    )
    padding = -n_points % CHUNK
    parts = jnp.asarray(np.pad(points, ((0, padding), (0, 0))).reshape(-1, CHUNK, 3))

    def multiply(numbers, matrix):
        return numbers @ matrix if what != "h" else matrix @ numbers

    def chunks(numbers, parts):
        if what != "h":
            return jax.lax.map(lambda part: jnp.maximum(part @ X.T, 0.0) @ numbers, parts).reshape(
                -1
            )[:n_points]
        weights = jnp.pad(numbers, (0, padding)).reshape(-1, CHUNK)
        return jax.lax.scan(
            lambda h, a: (h + jnp.maximum(X @ a[0].T, 0.0) @ a[1], None),
            jnp.zeros(n),
            (parts, weights),
        )[0]

    multiply, chunks = jax.jit(multiply), jax.jit(chunks)
    return {
        "stored": calls(lambda: multiply(numbers, stored).block_until_ready()),
        "in chunks": calls(lambda: chunks(numbers, parts).block_until_ready()),
    }


EXACT = {"NumPy": with_numpy, "PyTorch": with_torch, "JAX": with_jax}


def zonal_factors(highest):
    """4π c_l / (2l + 1) for (t)₊ = Σ c_l P_l(t): the ReLU's action on harmonics of degree l = 0 …
    highest."""
    moment = np.zeros(highest + 1)  # ∫₀¹ t P_l(t) dt
    moment[:2] = np.array([1.0 / 2.0, 1.0 / 3.0])[: highest + 1]
    for l in range(0, highest - 1, 2):
        moment[l + 2] = -(l - 1.0) / (l + 4.0) * moment[l]
    return 2.0 * np.pi * moment


def harmonic_degrees(highest):
    """Degree of each coefficient in ducc0's order, by m and then by l."""
    return np.concatenate([np.arange(m, highest + 1) for m in range(highest + 1)])


def angles(vectors):
    """Colatitude and longitude in [0, 2π) of vectors (n, 3), as ducc0 wants them."""
    longitude = np.arctan2(vectors[:, 1], vectors[:, 0]) % (2.0 * np.pi)
    return np.column_stack(
        [np.arctan2(np.hypot(vectors[:, 0], vectors[:, 1]), vectors[:, 2]), longitude]
    )


def zonal_convolution(points, inputs, given, what, highest, epsilon, real):
    """A function that computes J or h with harmonics up to degree `highest`, in the precision
    `real`."""
    from ducc0.sht import adjoint_synthesis_general, synthesis_general

    length = np.linalg.norm(inputs, axis=1)
    factors, ends = (
        zonal_factors(highest)[harmonic_degrees(highest)].astype(real),
        (angles(inputs), angles(points)),
    )
    source, target = ends if what != "h" else ends[::-1]
    values = (given * length if what != "h" else given).astype(real)[None]
    options = {
        "spin": 0,
        "lmax": highest,
        "epsilon": epsilon,
        "nthreads": int(os.environ["OMP_NUM_THREADS"]),
    }

    def work():
        harmonics = adjoint_synthesis_general(map=values, loc=source, **options)
        harmonics *= factors
        found = synthesis_general(alm=harmonics, loc=target, **options)[0]
        return found if what != "h" else found * length

    return work


def with_ducc0(what, n_points, n, error):
    """ducc0 with as few harmonics as the error (of the largest value) allows, in single and in
    double precision."""
    points, inputs, given = problem(what, n_points, n)
    exact = with_hkflow(what, n_points, n)[""](1)[1]
    variants = {}
    for real in (np.float32, np.float64):
        for highest in np.unique(np.geomspace(8, 4096, 60).astype(int)):
            work = zonal_convolution(points, inputs, given, what, int(highest), error / 10.0, real)
            if np.abs(work() - exact).max() <= error * np.abs(exact).max():
                variants[f"degree {highest}, {real.__name__}"] = calls(work)
                break
    if not variants:
        raise ImportError(f"no degree up to 4096 reaches an error of {error:.0e}")
    return variants
