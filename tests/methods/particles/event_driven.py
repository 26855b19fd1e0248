"""Few particles and their coupling by scipy, with events and Filippov's choice by hand; no line in
common with hkflow."""

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import lsq_linear
from scipy.special import softmax

ON = 1e-9  # |x·a|/|x| of a particle that is on the kink of x
BOUND = 1e-6  # a multiplier so near to a bound is at it
# |x·a − c| beyond a kink at which a particle meets it: rounding alone takes none there
BEYOND = 1e-13


class Flow:
    """θ̇ and (log w)˙ of all particles for given sides (m, n): ±1, or 0 where a kink holds.

    hinges : v, b, c, J of ψ(s) = v + b s + Σ_j J_j (s − c_j)₊; x, c, J and `of` one for each pair
    of a datum and a hinge
    beside : function of positions (m, p) and masses (m,): forces (m, p) beside those of the data,
        f = ∇E + E θ of an energy that acts on both signs alike
    The square loss of one output, or softmax of several. G and multipliers are those of b r.
    """

    def __init__(self, problem, hinges, beside=None):
        self.beside = beside or (lambda theta, w: np.zeros((self.m, self.p)))
        o, atoms = problem.objective, problem.initial
        self.data, self.y, self.decay = o.inputs, o.targets, o.weight_decay
        self.value, self.below, c, J = hinges
        self.of = np.repeat(np.arange(len(self.y)), len(c))
        self.x, self.c, self.J = (
            self.data[self.of],
            np.tile(c, len(self.y)),
            np.tile(J, len(self.y)),
        )
        self.joint, self.p = o.feature.joint, o.inputs.shape[1]
        self.outputs = o.feature.outputs
        self.classes = np.eye(self.outputs)[o.targets.astype(int)] if o.risk.coupled else None
        self.signs, self.m = atoms.signs, len(atoms.weights)
        self.alpha, self.beta = problem.flow.transport, problem.flow.reaction
        self.start = np.append(atoms.positions.ravel(), np.log(atoms.weights))

    def split(self, state):
        theta = state[: -self.m].reshape(self.m, -1)
        b = theta[:, self.p :] if self.joint else self.signs[:, None]
        return theta, theta[:, : self.p], b, np.exp(state[-self.m :])

    def loss_gradient(self, state, sides):
        """Predictions and r (n, outputs), and ψ (m, n)."""
        _, a, b, w = self.split(state)
        hinged = self.J * (a @ self.x.T - self.c) * (sides > 0.0)
        psi = self.value + self.below * (a @ self.data.T)
        np.add.at(psi.T, self.of, hinged.T)
        h = psi.T @ (w[:, None] * b)
        wrong = h - self.y[:, None] if self.classes is None else softmax(h, axis=1) - self.classes
        return h, wrong / len(self.y), psi

    def driving(self, state, sides):
        """b·r of each particle, (m, n)."""
        return self.split(state)[2] @ self.loss_gradient(state, sides)[1].T

    def along(self, a, vectors):
        """The rows without what is normal to the sphere."""
        return vectors if self.joint else vectors - np.outer(vectors @ a, a) / (a @ a)

    def extra(self, state):
        """What energies add to G, (m, p)."""
        theta, _, _, w = self.split(state)
        return self.beside(theta, w)

    def force(self, a, r, sides, extra):
        """G of one particle with the multipliers of the kinks that hold it, and these; and what J
        is besides θ·G."""
        active, held = r[self.of] * self.J * (sides > 0.0), np.flatnonzero(sides == 0.0)
        G = active @ self.x + self.below * (r @ self.data) + extra
        level = self.value * r.sum() - active @ self.c
        tangent = self.along(a, np.vstack([self.x[held], G]))
        mu = np.linalg.lstsq(tangent[:-1].T, -tangent[-1], rcond=None)[0]
        return G + mu @ self.x[held], held, mu, level - mu @ self.c[held]

    def rate(self, _, state, sides):
        theta, a, _, _ = self.split(state)
        _, r, psi = self.loss_gradient(state, sides)
        driving, extra = self.driving(state, sides), self.extra(state)
        velocity, growth = np.zeros_like(theta), np.zeros(self.m)
        for c in range(self.m):
            G, _, _, level = self.force(a[c], driving[c], sides[c], extra[c])
            velocity[c, : self.p] = G
            if self.joint:
                velocity[c, self.p :] = psi[c] @ r
            velocity[c] -= (velocity[c] @ theta[c]) * theta[c]
            growth[c] = a[c] @ G + level + self.decay
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
                    s = self.split(state)[1][c] @ self.x[i] - self.c[i]
                    return sides[c, i] * s + BEYOND
                r = self.driving(state, sides)[c]
                a, extra = self.split(state)[1][c], self.extra(state)[c]
                _, held, mu, _ = self.force(a, r, sides[c], extra)
                share = mu[list(held).index(i)] / (r[self.of[i]] * self.J[i])
                return share if k == 1 else 1.0 - share

            f.terminal, f.direction = True, -1.0
            return f

        return found, [function(*event) for event in found]

    def decide(self, state, sides, c, hit):
        """Renew the sides of particle c, which has met the kink `hit` or is let go by it."""
        a, r = self.split(state)[1], self.driving(state, sides)[c]
        jumps = r[self.of] * self.J
        near = np.abs(self.x @ a[c] - self.c) <= ON * np.linalg.norm(self.x, axis=1)
        near[hit] = True
        on = np.flatnonzero(near | (sides[c] == 0.0))
        valleys = [i for i in on if jumps[i] > 0.0]
        for i in on:
            if i not in valleys:  # it comes from the one side and goes to the other
                sides[c, i] = -sides[c, i] if sides[c, i] != 0.0 else 1.0
        if not valleys:
            return
        away = np.ones(len(self.x), dtype=bool)
        away[valleys] = False
        G = (jumps * (sides[c] > 0.0) * away) @ self.x + self.below * (r @ self.data)
        G = G + self.extra(state)[c]
        *columns, G = self.along(a[c], np.vstack([jumps[valleys, None] * self.x[valleys], G]))
        columns = np.array(columns).T
        share = lsq_linear(columns, -G, (0.0, 1.0), method="bvls", tol=1e-15).x
        sides[c, valleys] = np.where(share < BOUND, -1.0, np.where(share > 1.0 - BOUND, 1.0, 0.0))


def event_driven(problem, times, hinges=(0.0, 0.0, [0.0], [1.0]), beside=None):
    """Predictions (n_times, n_data) or (n_times, n_data, outputs), and whether anything slid;
    hinges, beside : as of Flow, by default of ReLU and nothing."""
    flow = Flow(problem, hinges, beside)
    state, now, slid, out = flow.start, 0.0, False, []
    sides = np.sign(flow.split(state)[1] @ flow.x.T - flow.c)
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
    return np.array(out)[..., 0] if flow.outputs == 1 else np.array(out), slid
