"""Compiled kernels against their slow NumPy twins."""

import numpy as np
import pytest
import reference

from hkflow.methods.particles import kernels
from hkflow.operators.dense import blocked, unblocked

SHAPES = [(1, 2), (17, 3), (700, 5), (30000, 2)]  # the last runs parallel


def close(got, wanted):
    return np.allclose(got, wanted, rtol=1e-13, atol=1e-13 * max(1.0, np.abs(wanted).max()))


def scratch(blocks):
    return np.full((len(blocks), 3, blocks.shape[2]), np.nan)


@pytest.mark.parametrize("n", [1, 511, 1300])
def test_combine_and_local_errors(n, rng):
    start, rates, coefficients = (
        rng.normal(size=n),
        rng.normal(size=(4, n)),
        np.array([0.3, 0.0, -1.2]),
    )
    out, estimates, errors = (
        np.full(n, np.nan),
        rng.normal(size=(2, 4)),
        np.full((-(-n // 512), 2), np.nan),
    )
    floors = rng.uniform(0.1, 1.0, size=n)
    kernels.combine(start, rates, coefficients, 0.1, out)
    assert close(out, start + 0.1 * coefficients @ rates[:3])
    for relative in (0.0, 1.0):
        kernels.local_errors(start, floors, rates, estimates, 0.1, relative, errors)
        sizes = floors + relative * np.abs(start)
        wanted = np.sum((0.1 * estimates @ rates / sizes) ** 2, axis=1)
        assert close(errors.sum(axis=0), wanted) and not close(errors.sum(axis=0), 1.001 * wanted)


@pytest.mark.parametrize("shape", SHAPES)
def test_to_sphere_and_signed_weights(shape, rng):
    n, p = shape
    points = rng.normal(size=shape)
    out = np.zeros_like(blocked(points))
    kernels.to_sphere(blocked(points), n, out)
    assert close(unblocked(out, n), points / np.linalg.norm(points, axis=1, keepdims=True))
    signs, logs, weights = rng.choice([-1.0, 1.0], size=n), rng.normal(size=n), np.full(n, np.nan)
    kernels.signed_weights(logs, signs, 0.3, weights)
    assert close(weights, signs * np.exp(logs - 0.3))


@pytest.mark.parametrize("shape", SHAPES)
def test_combine_on_sphere_is_combine_and_to_sphere(shape, rng):
    n, _ = shape
    points, coefficients = blocked(rng.normal(size=shape)), np.array([0.3, 0.0, -1.2])
    start = np.append(points, rng.normal(size=n))
    rates = np.array(
        [np.append(blocked(rng.normal(size=shape)), rng.normal(size=n)) for _ in range(4)]
    )
    out, wanted = np.full((2, len(start)), np.nan)
    positions, combined = (y[: points.size].reshape(points.shape) for y in (out, wanted))
    kernels.combine_on_sphere(start, rates, coefficients, 0.1, positions, out)
    kernels.combine(start, rates, coefficients, 0.1, wanted)
    kernels.to_sphere(combined, n, combined)
    assert np.array_equal(out, wanted) and not np.array_equal(out, start)


@pytest.mark.parametrize("depth", [2.0, 3.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_particle_rates(shape, depth, rng):
    n, p = shape
    positions, gradient = rng.normal(size=shape), rng.normal(size=shape)
    positions /= np.linalg.norm(positions, axis=1, keepdims=True)
    signs, slopes = rng.choice([-1.0, 1.0], size=n), rng.normal(size=n)
    weights, rates = signs * rng.random(n), (1.3, 2.0, 0.2, 0.1, depth)
    blocks = blocked(positions)
    velocities, growth, sums = np.zeros_like(blocks), np.zeros(n), np.zeros((len(blocks), 5))
    totals = kernels.particle_rates(
        blocks,
        weights,
        signs,
        slopes,
        blocked(gradient),
        *rates,
        velocities,
        growth,
        scratch(blocks),
        sums,
    )
    wanted = reference.particle_rates(positions, weights, signs, slopes, gradient, *rates)
    got = (unblocked(velocities, n), growth, np.array(totals))
    assert all(close(a, b) for a, b in zip(got, wanted, strict=True))
    assert np.abs(np.sum(got[0] * positions, axis=1)).max() < 1e-13  # tangent to the sphere


@pytest.mark.parametrize("depth,keeps_mass", [(2.0, False), (2.0, True), (3.0, False)])
@pytest.mark.parametrize("shape", SHAPES)
def test_frozen_weights(shape, depth, keeps_mass, rng):
    n, width = shape[0], 64
    signs, slopes = rng.choice([-1.0, 1.0], size=n), rng.normal(size=n)
    logs, numbers = rng.normal(size=n), (0.3, 0.1, 2.0, 0.2, 0.1, depth, keeps_mass)
    (rate, out, weights), sums = np.zeros((3, n)), np.zeros((-(-n // width), 6))
    ends = kernels.frozen_weights(logs, signs, slopes, *numbers, width, rate, out, weights, sums)
    *wanted, wanted_ends = reference.frozen_weights(logs, signs, slopes, *numbers)
    assert all(close(a, b) for a, b in zip((out, weights), wanted, strict=True))
    assert close(np.array(ends), wanted_ends)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("trained", [(1.0, 1.0, 1), (1.0, 0.0, 2), (0.0, 1.0, 1)])
def test_unit_rates(shape, trained, rng):
    n, p = shape
    hidden, gradient, output, slopes = (
        rng.normal(size=shape),
        rng.normal(size=shape),
        rng.normal(size=n),
        rng.normal(size=n),
    )
    arguments = (*trained[:2], 0.1 * trained[0], 0.2 * trained[1], trained[2])
    blocks = blocked(hidden)
    velocities, drift, sums = np.zeros_like(blocks), np.zeros(n), np.zeros((len(blocks), 5))
    kernels.unit_rates(
        blocks,
        output,
        slopes,
        blocked(gradient),
        *arguments,
        velocities,
        drift,
        scratch(blocks),
        sums,
    )
    wanted = reference.unit_rates(hidden, output, slopes, gradient, *arguments)
    assert all(
        close(a, b)
        for a, b in zip((unblocked(velocities, n), drift, sums.sum(axis=0)), wanted, strict=True)
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_normalized_unit_rates(shape, rng):
    n, p = shape
    hidden, gradient = rng.normal(size=shape), rng.normal(size=shape)
    inner, outer, slopes = rng.normal(size=n), rng.normal(size=n), rng.normal(size=n)
    blocks = blocked(hidden)
    velocities, one, two, sums = (
        np.zeros_like(blocks),
        np.zeros(n),
        np.zeros(n),
        np.zeros((len(blocks), 5)),
    )
    kernels.normalized_unit_rates(
        blocks,
        inner,
        outer,
        slopes,
        blocked(gradient),
        0.3,
        velocities,
        one,
        two,
        scratch(blocks),
        sums,
    )
    wanted = reference.normalized_unit_rates(hidden, inner, outer, slopes, gradient, 0.3)
    assert all(
        close(a, b)
        for a, b in zip((unblocked(velocities, n), one, two, sums.sum(axis=0)), wanted, strict=True)
    )


@pytest.mark.parametrize("by_hidden, by_output, with_inner", [(1, 0, 0), (1, 1, 0), (0, 1, 1)])
def test_floors_are_norms_of_units_of_at_most_one(by_hidden, by_output, with_inner, rng):
    hidden, output = 0.3 * rng.normal(size=(2, 3, 4)), 0.3 * rng.normal(size=7)
    inner = rng.normal(size=7 * with_inner)
    hidden[0, :, 2], output[2], inner[2:3] = 0.0, 0.0, 0.0
    found = [np.full_like(one, -1.0) for one in (hidden, output, inner)]
    kernels.unit_floors(hidden, output, inner, bool(by_hidden), bool(by_output), *found)
    squares = by_hidden * np.sum(hidden**2, axis=1).ravel()[:7] + by_output * output**2
    squares = squares + (inner**2 if with_inner else 0.0)
    sizes = np.where(squares > 0.0, np.minimum(np.sqrt(squares), 1.0), 1.0)
    assert sizes[2] == 1.0 and 0.0 < sizes.min() < 1.0
    np.testing.assert_allclose(found[1], sizes, rtol=1e-14)
    np.testing.assert_allclose(found[2], sizes if with_inner else [], rtol=1e-14)
    of_hidden = found[0].transpose(0, 2, 1).reshape(8, 3)[:7]
    wanted = np.tile(sizes[:, None], 3) if by_hidden else -1.0
    np.testing.assert_allclose(of_hidden, wanted, rtol=1e-14)
