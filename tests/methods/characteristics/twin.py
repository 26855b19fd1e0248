"""Slow twin of the kernel: data by data, decisions by scipy, motion in closed form or by an ODE
solver."""

from itertools import product

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import lsq_linear

ON = 1e-12  # |x·θ|/|x| of an atom on the kink of x


def choose(base, normals):
    """The vector that drives an atom on some kinks, `normals` a list of (x, ε r), others summed up
    in base (p,).

    The shortest one over multipliers of valleys; among the sides of ridges the steepest way down is
    taken.
    """
    valleys = [k for k, (_, c) in enumerate(normals) if c > 0.0]
    ridges = [k for k, (_, c) in enumerate(normals) if c <= 0.0]
    best = None
    for sides in product((0.0, 1.0), repeat=len(ridges)):
        g = base + sum(
            (s * normals[k][1] * normals[k][0] for s, k in zip(sides, ridges, strict=True)),
            np.zeros_like(base),
        )
        if valleys:
            A = np.array([normals[k][1] * normals[k][0] for k in valleys]).T
            found = lsq_linear(A, -g, (0.0, 1.0), method="bvls", tol=1e-15, max_iter=1000)
            force = g + A @ found.x
        else:
            force = g
        if best is None or np.linalg.norm(force) > np.linalg.norm(best) * (1.0 + 1e-12):
            best = force
    return best


def _stands(theta, force):
    return np.linalg.norm(force - (force @ theta) * theta) < 1e-13


def closed(theta, force, decay, alpha, beta, time):
    """θ and growth of log m after a time with a constant force."""
    size = np.linalg.norm(force)
    if _stands(theta, alpha * force):
        return theta, -beta * (theta @ force + decay) * time
    e, tau = -force / size, alpha * size * time
    z = e @ theta
    c, f = z * (np.cosh(tau) - 1.0) + np.sinh(tau), np.cosh(tau) + z * np.sinh(tau)
    return (theta + c * e) / f, beta / alpha * np.log(f) - beta * decay * time


def time_to(theta, force, normal, alpha):
    """When n·θ(t) = 0 in closed form, inf if never."""
    size = np.linalg.norm(force)
    if _stands(theta, alpha * force) or (normal @ theta) * (normal @ force) <= 0.0:
        return np.inf
    e = -force / size
    z, c = e @ theta, -(normal @ theta) / (normal @ e)
    return np.log((z + c + np.sqrt((z + c) ** 2 + 1.0 - z**2)) / (1.0 + z)) / (alpha * size)


def frozen(theta, sign, inputs, loss_gradient, alpha, beta, decay, time, linear=False, ode=False):
    """One atom for a time: θ, and the growth of log m."""
    theta, growth = np.array(theta), 0.0
    sizes = np.linalg.norm(inputs, axis=1)
    live = np.flatnonzero(sizes > 0.0)
    sides = np.ones(len(inputs)) if linear else np.sign(inputs @ theta)
    on = set() if linear else {i for i in live if abs(inputs[i] @ theta) <= ON * sizes[i]}
    for _ in range(1000):
        base = sign * sum(
            (loss_gradient[i] * inputs[i] for i in live if i not in on and sides[i] > 0.0),
            np.zeros(len(theta)),
        )
        force = choose(base, [(inputs[i], sign * loss_gradient[i]) for i in sorted(on)])
        off = [] if linear else [i for i in live if i not in on]
        if ode:
            when, theta_end, gain, hit = _by_ode(
                theta, force, decay, alpha, beta, time, inputs, off
            )
        else:
            times = [time_to(theta, force, inputs[i], alpha) for i in off]
            hit = off[int(np.argmin(times))] if times and min(times) < time else None
            when = min(times) if hit is not None else time
            theta_end, gain = closed(theta, force, decay, alpha, beta, when)
        theta, growth, time = theta_end / np.linalg.norm(theta_end), growth + gain, time - when
        if hit is None:
            return theta, growth
        near = {i for i in live if abs(inputs[i] @ theta) <= ON * sizes[i]} | {hit}
        for i in on - near:
            sides[i] = np.sign(inputs[i] @ theta)
        stays = {
            i for i in on if abs(inputs[i] @ force) <= 1e-10 * sizes[i]
        }  # it slides there, or is carried along it
        on = near | stays
    raise RuntimeError("too many events")


def _by_ode(theta, force, decay, alpha, beta, time, inputs, off):
    """The same until the first event of the data `off`, by DOP853."""
    p = len(theta)

    def rate(_, y):
        J, w = y[:p] @ force, y[:p]
        return np.append(-alpha * (force - J * w), -beta * (J + decay))

    def event(i):
        def f(_, y):
            return inputs[i] @ y[:p]

        f.terminal, f.direction = True, -np.sign(inputs[i] @ theta)
        return f

    s = solve_ivp(
        rate,
        (0.0, time),
        np.append(theta, 0.0),
        "DOP853",
        rtol=1e-12,
        atol=1e-13,
        events=[event(i) for i in off] or None,
    )
    hit = (
        next((i for i, t in zip(off, s.t_events, strict=True) if len(t)), None)
        if s.status == 1
        else None
    )
    return s.t[-1], s.y[:p, -1], s.y[p, -1], hit


def backward(theta, sign, inputs, flows, alpha, beta, decay, speeds=True):
    """Where a characteristic that ends at θ began, and log ν(θ)/ν(there), −inf in a void.

    flows : [(time, loss gradient)] in their order;  speeds : whether densities change with the
        normal speed where a kink is crossed
    """
    theta, growth, d = np.array(theta), 0.0, len(theta) - 1
    sides = np.sign(inputs @ theta)
    for time, r in reversed(flows):
        growth -= beta * decay * time
        for _ in range(1000):
            force = -sign * (r * (sides > 0.0)) @ inputs  # of the flow of −J
            if alpha == 0.0 or _stands(theta, force):
                growth += beta * time * (theta @ force)
                break
            times = [
                time_to(theta, force, x, alpha) if side * (x @ force) > 1e-14 else np.inf
                for x, side in zip(inputs, sides, strict=True)
            ]
            when = min(*times, time)
            theta, size = closed(theta, force, 0.0, alpha, 1.0, when)
            growth -= (alpha * d + beta) * size
            theta, time = theta / np.linalg.norm(theta), time - when
            if time <= 0.0:
                break
            k = int(np.argmin(times))
            other = force + sides[k] * sign * r[k] * inputs[k]
            if sides[k] * (inputs[k] @ other) <= 1e-13:
                return theta, -np.inf
            growth += np.log((inputs[k] @ other) / (inputs[k] @ force)) if speeds else 0.0
            sides[k] *= -1.0
    return theta, growth
