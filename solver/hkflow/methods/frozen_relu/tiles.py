"""Tiles of atoms in a frozen potential, moved at once as if they met no kink, and which of them
meet none.

An atom that goes less than half a turn along one great circle meets the kink n·θ = 0 if and only if
n·θ has another sign at the end than at the start.
"""

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ...operators.dense import CELLS, LINEAR, RELU, TILE, Array, gradient_tile, products
from ...operators.parallel_loops import small_kernel

# rows of what is known of each atom of a tile, as in `frozen.move`, and of its vectors
NUMBERS, VECTORS = 9, 4
SIGN, SIZE, Z, SQUARE, TAU, LATER, LOG_F, LEAST, PART = range(NUMBERS)
START, END, E, ASIDE = range(VECTORS)
ACTIVATION = (0,) * RELU


@intrinsic
def least_products(typing, starts, ends, columns, least):
    """least_c = min_k (θ_c·n_k) (θ'_c·n_k), or what it was if that is less, for TILE points; starts
    θ and ends θ' (p, TILE), columns (n_kinks / DATA, p, DATA), least (TILE,)."""

    def write(context, builder, signature, args):
        starts, ends, columns, least = (
            Array(context, builder, *a) for a in zip(signature.args, args, strict=True)
        )
        linear = types.UniTuple(types.int64, LINEAR)
        found = [cgutils.alloca_once(builder, starts.whole) for _ in range(2)]
        for v in range(2):
            builder.store(least.load(0, v=v), found[v])
        with cgutils.for_range(builder, columns.shape[0]) as kinks:
            before, after = (
                products(builder, linear, points, 0, columns, kinks.index)
                for points in (starts, ends)
            )
            for k, v in CELLS:
                product, now = builder.fmul(before[k, v], after[k, v]), builder.load(found[v])
                smaller = builder.fcmp_ordered("<", product, now)
                builder.store(builder.select(smaller, product, now), found[v])
        for v in range(2):
            least.store(builder.load(found[v]), 0, v=v)
        return context.get_dummy_value()

    return types.void(starts, ends, columns, least), write


@small_kernel(error_model="numpy", forceinline=True)
def log_of_f(tau, shrink, minus, half):
    """log f, to a rounding of τ; shrink = e^−τ, minus = 1 − z, half = f e^−τ.

    Masses grow by β/α log f: where transport is slow, a rounding of 1 is more than their growth.
    """
    drop = np.expm1(-tau) if shrink > 0.5 else shrink - 1.0
    less = 0.5 * minus * drop * (1.0 + shrink)  # f e^−τ − 1
    return tau + (np.log1p(less) if less > -0.5 else np.log(half))


@small_kernel(error_model="numpy")
def glide(columns, jumps, constant, alpha, time, vectors, numbers):
    """Move a tile of atoms for a time along great circles, each driven by the vector ε (g₀ +
    Σ_{n_k·θ > 0} κ_k n_k) where it starts.

    columns (n_kinks / DATA, p, DATA), jumps (n_kinks / DATA, DATA), zero on padding, constant g₀
    (p,)
    vectors (VECTORS, p, TILE): START is read, the others are written
    numbers (NUMBERS, TILE): SIGN ε is read, the others are written; LEAST is the least product of
    n_k·θ at the start and at the end, inf without kinks, and −1 for an atom that rests
    """
    theta, end, e, aside = vectors[START], vectors[END], vectors[E], vectors[ASIDE]
    sign, size, z, square, tau = (
        numbers[SIGN], numbers[SIZE], numbers[Z], numbers[SQUARE], numbers[TAU],
    )  # fmt: skip
    later, log_f, least, part = numbers[LATER], numbers[LOG_F], numbers[LEAST], numbers[PART]
    e[:] = 0.0
    gradient_tile(ACTIVATION, theta, columns, jumps, least, e)
    numbers[SIZE : SQUARE + 1] = 0.0
    for a in range(len(theta)):
        for i in range(TILE):
            e[a, i] = -sign[i] * (constant[a] + e[a, i])
            size[i] += e[a, i] * e[a, i]
            z[i] += e[a, i] * theta[a, i]
    for i in range(TILE):
        size[i] = np.sqrt(size[i])
        tau[i] = alpha * size[i] * time
        part[i] = 1.0 / size[i] if size[i] > 0.0 else 0.0
        z[i] *= part[i]
    for a in range(len(theta)):
        for i in range(TILE):
            e[a, i] *= part[i]
            aside[a, i] = theta[a, i] - z[i] * e[a, i]
            square[i] += aside[a, i] * aside[a, i]
    for i in range(TILE):
        part[i] = np.exp(-tau[i])
    for i in range(TILE):
        shrink, less = part[i], square[i] / (1.0 + abs(z[i]))
        plus = 1.0 + z[i] if z[i] >= 0.0 else less
        minus = less if z[i] >= 0.0 else 1.0 - z[i]
        half = 0.5 * (plus + minus * shrink * shrink)
        log_f[i] = log_of_f(tau[i], shrink, minus, half)
        part[i] = shrink / half if tau[i] > 0.0 else 1.0
        later[i] = 0.5 * (plus - minus * shrink * shrink) / half
        known = half > 0.0 and (tau[i] > 0.0 or size[i] == 0.0)  # false for nan
        least[i] = np.inf if known else -1.0
    for a in range(len(theta)):
        for i in range(TILE):
            end[a, i] = aside[a, i] * part[i] + later[i] * e[a, i]
    part[:] = 0.0
    for a in range(len(theta)):
        for i in range(TILE):
            part[i] += end[a, i] * end[a, i]
    for i in range(TILE):
        part[i] = 1.0 / np.sqrt(part[i]) if tau[i] > 0.0 else 1.0
    for a in range(len(theta)):
        for i in range(TILE):
            end[a, i] *= part[i]
    least_products(theta, end, columns, least)
