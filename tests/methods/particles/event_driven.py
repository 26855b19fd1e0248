"""Few particles and their coupling by scipy, with events and Filippov's choice by hand; no line in
common with hkflow."""

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import lsq_linear

ON = 1e-9  # |x·a|/|x| of a particle that is on the kink of x
BOUND = 1e-6  # a multiplier so near to a bound is at it


class Flow:
    """θ̇ and (log w)˙ of all particles for given sides (m, n): ±1, or 0 where a kink holds."""

    def __init__(self, problem):
        o, atoms = problem.objective, problem.initial
        self.x, self.y, self.decay = o.inputs, o.targets, o.weight_decay
        self.joint, self.p = o.feature.joint, o.inputs.shape[1]
        self.signs, self.m = atoms.signs, len(atoms.weights)
        self.alpha, self.beta = problem.flow.transport, problem.flow.reaction
        self.start = np.append(atoms.positions.ravel(), np.log(atoms.weights))

    def split(self, state):
        theta = state[: -self.m].reshape(self.m, -1)
        b = theta[:, -1] if self.joint else self.signs
        return theta, theta[:, : self.p], b, np.exp(state[-self.m :])

    def loss_gradient(self, state, sides):
        _, a, b, w = self.split(state)
        h = (w * b) @ ((a @ self.x.T) * (sides > 0.0))
        return h, (h - self.y) / len(self.y)

    def force(self, r, sides):
        """G of one particle with the multipliers of the kinks that hold it, and these."""
        G, held = (r * (sides > 0.0)) @ self.x, np.flatnonzero(sides == 0.0)
        N = self.x[held].T
        mu = np.linalg.lstsq(N, -G, rcond=None)[0]
        return G + N @ mu, held, mu

    def rate(self, _, state, sides):
        theta, a, b, _ = self.split(state)
        _, r = self.loss_gradient(state, sides)
        velocity, growth = np.zeros_like(theta), np.zeros(self.m)
        for c in range(self.m):
            G, _, _ = self.force(r, sides[c])
            velocity[c, : self.p] = b[c] * G
            if self.joint:
                velocity[c, -1] = a[c] @ G
            velocity[c] -= (velocity[c] @ theta[c]) * theta[c]
            growth[c] = b[c] * (a[c] @ G) + self.decay
        return np.append(-self.alpha * velocity.ravel(), -self.beta * growth)

    def events(self, sides):
        """Functions that fall to zero where a particle meets a kink, or a multiplier a bound."""
        found = []
        for c in range(self.m):
            for i in range(len(self.x)):
                found += [(c, i, k) for k in ((0,) if sides[c, i] != 0.0 else (1, 2))]

        def function(c, i, k):
            def f(_, state, sides):
                if k == 0:
                    return sides[c, i] * (self.split(state)[1][c] @ self.x[i])
                _, r = self.loss_gradient(state, sides)
                _, held, mu = self.force(r, sides[c])
                share = mu[list(held).index(i)] / r[i]
                return share if k == 1 else 1.0 - share

            f.terminal, f.direction = True, -1.0
            return f

        return found, [function(*event) for event in found]

    def decide(self, state, sides, c, hit):
        """Renew the sides of particle c, which has met the kink `hit` or is let go by it."""
        _, a, b, _ = self.split(state)
        _, r = self.loss_gradient(state, sides)
        near = np.abs(self.x @ a[c]) <= ON * np.linalg.norm(self.x, axis=1)
        near[hit] = True
        on = np.flatnonzero(near | (sides[c] == 0.0))
        valleys = [i for i in on if b[c] * r[i] > 0.0]
        for i in on:
            if i not in valleys:  # it comes from the one side and goes to the other
                sides[c, i] = -sides[c, i] if sides[c, i] != 0.0 else 1.0
        if not valleys:
            return
        away = np.ones(len(self.x), dtype=bool)
        away[valleys] = False
        G = (r * (sides[c] > 0.0) * away) @ self.x
        columns = (r[valleys, None] * self.x[valleys]).T
        share = lsq_linear(columns, -G, (0.0, 1.0), method="bvls", tol=1e-15).x
        sides[c, valleys] = np.where(share < BOUND, -1.0, np.where(share > 1.0 - BOUND, 1.0, 0.0))


def event_driven(problem, times):
    """Predictions (n_times, n_data), and whether anything slid."""
    flow = Flow(problem)
    state, now, slid, out = flow.start, 0.0, False, []
    sides = np.sign(flow.split(state)[1] @ flow.x.T)
    for end in times:
        while now < end:
            labels, functions = flow.events(sides)
            s = solve_ivp(
                flow.rate, (now, end), state, "DOP853", rtol=1e-11, atol=1e-12, events=functions,
                args=(sides,),
            )  # fmt: skip
            now, state = s.t[-1], s.y[:, -1]
            if s.status == 1:
                c, i, _ = labels[next(k for k, t in enumerate(s.t_events) if len(t))]
                flow.decide(state, sides, c, i)
                slid = slid or bool((sides == 0.0).any())
        out.append(flow.loss_gradient(state, sides)[0])
    return np.array(out), slid
