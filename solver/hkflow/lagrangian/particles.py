"""Weighted particles: θ̇ = −α ∇_S J, d log weight/dt = −βJ − σ, and new mass σ spread by U."""

import numpy as np

from ..errors import unknown_name
from ..measures import Atoms
from ..point_sets import quasi_uniform, random_uniform
from ..transforms.dense import blocked, unblocked
from . import kernels
from .ode import OdeMethod

NOISE_KINDS = ("deterministic", "random")


class Particles(OdeMethod):
    """The Lagrangian method, on the sphere or signed sphere of any dimension.

    problem : the flow to compute; its initial measure as atoms gives the first particles
    stepper : dopri5 or dop853, or euler with steps of max_step
    tolerance : largest local error of a step, root mean square over positions and log weights; 1e-10 makes a reference
    max_step : no step is longer
    noise : how U is injected when σ > 0. "deterministic": all weights decay at rate σ, and in the middle of every interval
        mass σ·interval is put on a fixed quasi-uniform set, whose particles then move with the others: their number grows.
        "random": there, every particle dies with probability 1 − e^{−σ·interval} and is born again uniform with weight 1/n
    noise_points : size of that quasi-uniform set;  noise_interval : the longest interval; saves end intervals
    seed : of the random noise
    Cost of one evaluation: particles × data × (d+1).
    Raises ValueError for an unknown name, an initial measure without mass, or a set that the signs cannot share.
    """

    def __init__(
        self, problem, stepper="dopri5", tolerance=1e-6, max_step=float("inf"),
        noise="deterministic", noise_points=1000, noise_interval=0.05, seed=0,
    ):  # fmt: skip
        super().__init__(problem, stepper, tolerance, max_step)
        if noise not in NOISE_KINDS:
            raise ValueError(unknown_name("noise", noise, NOISE_KINDS))
        self.noise, self.noise_interval = noise, noise_interval
        self.random = np.random.default_rng(seed)
        self.interval = self.wait = 0.0
        self.renewed = True
        if self.flow.noise > 0.0 and noise == "deterministic":
            self.sites = self._sites(noise_points)
        atoms = problem.atoms()
        alive = atoms.weights > 0.0
        if not alive.any():
            raise ValueError("Particles need an initial measure with some mass.")
        self._place(atoms.positions[alive], atoms.signs[alive], np.log(atoms.weights[alive]))
        self.evaluate(self.current)

    # --- state

    def _place(self, positions, signs, log_weights):
        """Start from these particles."""
        n = len(positions)
        self.n, self.signs, self.weights = n, np.array(signs, dtype=float), np.zeros(n)
        self.objective = self.problem.objective.on_moving(positions)
        blocks = blocked(positions, self.objective.transform.points.shape[2])
        self.shape = blocks.shape
        self.sums, self.scratch = np.zeros((len(blocks), 4)), np.zeros((len(blocks), 3, blocks.shape[2]))
        self.allocate(blocks.size + n, len(self.problem.objective.inputs), positions.size + n)
        self.current.y[: blocks.size], self.current.y[blocks.size :] = blocks.ravel(), log_weights

    def _positions(self, y):
        return y[: len(y) - self.n].reshape(self.shape)

    def _log_weights(self, y):
        return y[len(y) - self.n :]

    def state(self):
        """All that the method needs to go on from here, bit for bit."""
        y = self.current.y
        state = {"positions": unblocked(self._positions(y), self.n), "signs": self.signs, "log_weights": self._log_weights(y)}
        state |= {"interval": self.interval, "wait": self.wait, "renewed": self.renewed}
        return state | {"random": self.random.bit_generator.state}

    def load(self, state):
        """Continue from a state made by `state`."""
        self._place(state["positions"], state["signs"], state["log_weights"])
        self.interval, self.wait, self.renewed = state["interval"], state["wait"], state["renewed"]
        self.random.bit_generator.state = state["random"]
        self.evaluate(self.current)

    @staticmethod
    def measure(state):
        """The measure of a state, as Problem.initial wants it."""
        return Atoms(state["positions"], state["signs"], np.exp(state["log_weights"]))

    def record(self):
        """What is recorded of this method alone."""
        return {"particles": self.n}

    # --- the right-hand side

    def project(self, y):
        """Carry the positions back to the sphere."""
        positions = self._positions(y)
        kernels.to_sphere(positions, self.n, positions)

    def evaluate(self, e):
        """Velocities, growth rates, integrals and budgets at the state e.y."""
        flow, positions, decay = self.flow, self._positions(e.y), self.problem.objective.weight_decay
        sigma = flow.noise if self.noise == "deterministic" else 0.0
        self.objective.transform.points[:] = positions
        kernels.signed_weights(self._log_weights(e.y), self.signs, self.weights)
        risk = self.objective.evaluate(self.weights)
        e.predictions[:] = self.objective.predictions
        kernels.particle_rates(
            positions, self.weights, self.signs, self.objective.slopes, self.objective.gradient, flow.transport, flow.reaction,
            sigma, decay, self._positions(e.rate), self._log_weights(e.rate), self.scratch, self.sums,
        )  # fmt: skip
        e.mass, first, second, steep = (float(total) for total in self.sums.sum(axis=0))
        e.objective = risk + decay * e.mass
        e.log_mass = float(np.log(e.mass)) if e.mass > 0.0 else -np.inf
        e.rounding = self.problem.objective.rounding(e.objective, self.objective.residuals, e.mass)
        e.roughness = np.sqrt((second + steep) / e.mass) if e.mass > 0.0 else 0.0
        alpha, beta = flow.transport, flow.reaction
        e.rates[:] = (-alpha * steep, -beta * second, -sigma * first, 0.0, -beta * first, -sigma * e.mass, 0.0)
        e.gross[:] = np.abs(e.rates[:4]).sum(), beta * np.sqrt(second * e.mass) + sigma * e.mass

    # --- noise

    def bound(self, remaining):
        """Steps end in the middle and at the end of the intervals in which noise acts; a save ends an interval."""
        if self.flow.noise == 0.0:
            return float("inf")
        if self.wait == 0.0:
            self.interval = remaining / max(1.0, np.ceil(remaining / self.noise_interval - 1e-9))
            self.wait, self.renewed = 0.5 * self.interval, False
        return self.wait

    def accept(self, step):
        """Make the trial state the accepted one, and let noise act if its time has come."""
        super().accept(step)
        if self.flow.noise == 0.0:
            return
        self.wait -= step.dt
        if self.wait > 1e-9 * self.interval:
            return
        if self.renewed:
            self.wait = 0.0
            return
        before, mass = self.current.objective, self.current.mass
        self._inject() if self.noise == "deterministic" else self._renew()
        self.evaluate(self.current)
        step.budget[3] += self.current.objective - before
        step.budget[6] += self.current.mass - mass
        step.gross += abs(self.current.objective - before), abs(self.current.mass - mass)
        self.wait, self.renewed = 0.5 * self.interval, True

    def _inject(self):
        """Add a quasi-uniform set of particles of total mass σ·interval."""
        y, new = self.current.y, self.sites
        self._place(
            np.concatenate([unblocked(self._positions(y), self.n), new.positions]),
            np.concatenate([self.signs, new.signs]),
            np.concatenate([self._log_weights(y), np.log(self.flow.noise * self.interval * new.weights)]),
        )

    def _sites(self, count):
        """Where mass is injected: an even set of total mass 1, shared by the signs."""
        signs = np.array(self.problem.signs, dtype=float)
        if count < len(signs) or count % len(signs):
            raise ValueError(f"noise_points must be a multiple of the {len(signs)} signs, got {count}.")
        points = quasi_uniform(count // len(signs), self.problem.dim)
        return Atoms(np.tile(points, (len(signs), 1)), np.repeat(signs, len(points)))

    def _renew(self):
        """Let particles die and be born again uniform with weight 1/n."""
        y, width = self.current.y, self.shape[2]
        dead = np.flatnonzero(self.random.random(self.n) < -np.expm1(-self.flow.noise * self.interval))
        self._positions(y)[dead // width, :, dead % width] = random_uniform(self.random, len(dead), self.problem.dim)
        self._log_weights(y)[dead] = -np.log(self.n)
        self.signs[dead] = self.random.choice(np.array(self.problem.signs, dtype=float), size=len(dead))
