"""Steps by waveform relaxation: particles and the loss gradient r(t) that drives them, in turn.

Over a step r is the polynomial through its values at the five Lobatto nodes. A sweep moves all
particles from where the step begins, each with its own events (sliding.py), and gives r at the
nodes anew, and the forces of energies beside the data on each particle. The last sweep but one
leaves out the middle node: by what predictions differ after it and after the last one is the error
of a step, of order 5. What the last sweep gives is closer.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...arguments import Floats
from ..frozen_relu.kinks import Kinks
from .shifted import ShiftedKinks
from .sliding import SUMS, TERMS, Scratch, move_particles

NODES = 0.5 + 0.5 * np.array([-1.0, -np.sqrt(3.0 / 7.0), 0.0, np.sqrt(3.0 / 7.0), 1.0])
WITHOUT_MIDDLE = np.delete(np.arange(len(NODES)), len(NODES) // 2)
ENDS_AND_MIDDLE = np.arange(0, len(NODES), 2)
SWEEPS = 4  # at most
SMALL = 0.02  # of the tolerance: sweeps that differ by less are enough
ORDER = 5  # of the error of a step
TRUSTED = 2  # errors of equal steps differ by factors, as few or many kinks are met
STABILITY = 2.0  # dt λ beyond which sweeps do not settle
ENTERS, LEAVES, LEAST_GAIN = 2.0, 3.0, 2.0  # of implicit steps, see stepping/implicit.py
STRETCH = 2.5  # a step that is so much longer than the last one is not extrapolated from it
GROUPS = 64  # of blocks of particles, at most
EVENTS, EVENTS_PER_KINK = 64, 8  # of a particle in a step, at most


def _coefficients(nodes: NDArray[np.float64]) -> NDArray[np.float64]:
    """The matrix that makes Σ_j c_j s^j of values at the nodes."""
    return np.asarray(np.linalg.inv(np.vander(nodes, increasing=True)), dtype=np.float64)


THROUGH_ALL = _coefficients(NODES)
THROUGH_OUTER = np.zeros((len(NODES) - 1, len(NODES)))
THROUGH_OUTER[:, WITHOUT_MIDDLE] = _coefficients(NODES[WITHOUT_MIDDLE])


def extrapolated(values: NDArray[np.float64], stretch: float) -> NDArray[np.float64]:
    """Values at the nodes of a step, `stretch` times as long as the one before, of the parabola
    through those at its ends and in its middle; values (5, n) -> (5, n)."""
    powers = np.vander(1.0 + stretch * NODES, 3, increasing=True)
    weights = powers @ _coefficients(NODES[ENDS_AND_MIDDLE])
    return np.einsum("ij,jd->id", weights, values[ENDS_AND_MIDDLE])


class Sliding:
    """Moves particles over a step, in the potential of a loss gradient polynomial in time.

    joint : whether φ = b ψ(a·x);  n_blocks : of the positions;  outputs : length of b
    """

    def __init__(
        self, kinks: Kinks | ShiftedKinks, joint: bool, n_blocks: int, outputs: int = 1
    ) -> None:
        self.kinks, self.joint, self.outputs = kinks, joint, outputs
        (count, axes), p = kinks.normals.shape, kinks.inputs.shape[1]
        q, curved = axes + joint, axes > p
        self.normals = np.ascontiguousarray(kinks.normals.T)
        self.rows = np.zeros((count, q))
        self.rows[:, :axes] = kinks.normals
        self.most, self.groups = EVENTS + EVENTS_PER_KINK * count, min(n_blocks, GROUPS)
        self.terms, self.tangents = TERMS * (curved or outputs > 1), count if curved else 0
        self.parts = np.zeros((n_blocks, len(SUMS)))
        self.kept: dict[tuple[int, int], Scratch] = {}

    def scratch(self, degree: int, nodes: int) -> Scratch:
        """For polynomials of so many coefficients, and so many nodes; kept."""
        if (degree, nodes) not in self.kept:
            self.kept[degree, nodes] = self._new_scratch(degree, nodes)
        return self.kept[degree, nodes]

    def _new_scratch(self, degree, nodes):
        (count, q), outputs = self.rows.shape, self.outputs
        size = self.kinks.inputs.shape[1] + outputs

        def zeros(*shape, of=np.float64):
            return np.zeros((self.groups, *shape), of)

        return Scratch(
            polynomials=zeros(2, degree, outputs * q),
            terms=zeros(TERMS, size),
            states=zeros(2, size),
            vectors=zeros(3, q),
            directions=zeros(outputs),
            values=zeros(2, count),
            tangents=zeros(self.tangents, q),
            lists=zeros(5, count, of=np.int64),
            limits=zeros(3, count),
            basis=zeros(2, q, q),
            known=zeros(q, of=np.int64),
            held_kinks=zeros(q, of=np.int64),
            frames=zeros(2, q),
            room=zeros(outputs, 3, q, degree + self.terms),
            levels=zeros(2, degree + 1),
            distance=zeros(TERMS),
            at_nodes=zeros(nodes, size),
            growths=zeros(nodes),
        )

    def potential(self, loss_gradient: Floats) -> tuple[Floats, Floats]:
        """κ (n_kinks, outputs, k) and g₀ (k, outputs, p) of loss gradients (k, n_predictions)."""
        k, outputs = len(loss_gradient), self.outputs
        each = loss_gradient.reshape(k, -1, outputs).swapaxes(1, 2).reshape(k * outputs, -1)
        jumps, constant = map(np.array, zip(*map(self.kinks.gradient, each), strict=True))
        jumps = jumps.reshape(k, outputs, -1).transpose(2, 1, 0)
        return np.ascontiguousarray(jumps), constant.reshape(k, outputs, -1)

    def __call__(
        self,
        start: Sequence[Floats],
        signs: Floats,
        drive: tuple[Floats, Floats],
        rates: Sequence[float],
        time: float,
        log_scale: float,
        nodes: Floats,
        out: Sequence[Floats],
        beside: Floats | None = None,
    ) -> dict[str, float]:
        """Move particles (positions, log_weights) for a time; returns the sums by name.

        drive : loss gradient (k, n_predictions) and what reaction takes J relative to (k′,),
        coefficients of polynomials in t/time;  rates : α, β, σ, λ;  nodes : times in units of
        `time`;  out : positions (n_nodes, …) and log weights (n_nodes, n) there;  beside : forces
        (k, n, p) of each particle beside those of data, coefficients as well
        """
        (loss_gradient, shift), (alpha, beta, sigma, decay) = drive, rates
        jumps, constant = self.potential(loss_gradient)
        drift = np.zeros(len(shift) + 1)
        drift[1:] = -beta * time * shift / np.arange(1, len(shift) + 1)
        drift[1] += time * (beta * decay + sigma)
        degree, q = constant.shape[0], self.rows.shape[1]
        constants = np.zeros((1 if beside is None else len(signs), degree, self.outputs, q))
        constants[..., : constant.shape[2]] = constant
        if beside is not None:
            constants[:, :, 0, : beside.shape[2]] += np.einsum("n,kna->nka", signs, beside)
        constants = constants.reshape(len(constants), degree, -1)
        scratch = self.scratch(degree, len(nodes))
        work = len(signs) * self.normals.size
        move_particles(
            self.groups, work, *start, signs, (True,) * (self.outputs > 1), jumps, constants,
            self.normals, self.rows, float(alpha), float(beta), float(decay), drift, shift,
            float(time), float(log_scale), not self.joint, nodes, self.most, scratch, *out,
            self.parts,
        )  # fmt: skip
        return dict(zip(SUMS, self.parts.sum(axis=0).tolist(), strict=True))
