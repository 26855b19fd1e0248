"""Flows S_r(τ) of atoms with frozen loss gradients, from array to array: the kernel with its
scratch."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...arguments import Floats
from ...operators.dense import DATA, TILE
from ...problem.flow import Flow
from .frozen import SUMS, move_atoms
from .kinks import Kinks
from .span import and_zero, moved, seen, spanned
from .tiles import NUMBERS, VECTORS

GROUPS = 64  # of blocks of atoms, at most: a group is moved in order by one thread
# of an atom in one frozen interval beyond which it is given up; EVENTS_PER_KINK come to it for each
# kink
EVENTS = 64
EVENTS_PER_KINK = 8
# kinks in a list of those near an atom, over the root of the number of all: each kink that is met
# costs as much as the list is long, and shorter lists are made more often
ROOM = 4.0
# numbers in the padded normals up to which atoms are moved in tiles: with 240 that saves a quarter
# of the time; with 4096, where most atoms meet kinks, it saves nothing
MAX_TILED = 1024
SPARSE = 2  # inputs for each kink, from which on only what data see of the atoms is moved


def room_of(count: int) -> int:
    """How many of so many kinks a list of near ones has room for; 0 where all are looked at."""
    room = round(ROOM * np.sqrt(count))
    return room if room < count / 3 else 0


class Movement:
    """Moves atoms for the kinks of some data.

    kinks : Kinks;  n_blocks : of the atoms' positions, at most
    Of many more inputs than kinks, it moves what data see of the atoms, see span.py.
    """

    def __init__(self, kinks: Kinks, n_blocks: int) -> None:
        self.kinks, self.rows, count = kinks, kinks.normals, len(kinks.normals)
        self.in_span = count > 0 and SPARSE * (count + 1) < kinks.inputs.shape[1]
        if self.in_span:
            self.rows = and_zero(kinks.normals @ spanned(kinks.normals).T)
        p, groups = self.rows.shape[1], min(n_blocks, GROUPS)
        directions = p if count else 0  # which kinks take, made orthonormal
        self.normals = np.ascontiguousarray(self.rows.T)
        self.most = EVENTS + EVENTS_PER_KINK * count
        lists = np.zeros((groups, 6, count), np.int64)
        lists[:, 5] = np.arange(count)
        self.scratch = (
            np.zeros((groups, 5, p)), np.zeros((groups, 2, directions, directions)),
            np.zeros((groups, p), np.int64),
            np.zeros((groups, 5, count)), lists,
            np.zeros((groups, p, room_of(count))), np.zeros((groups, 3, count)),
            np.zeros((groups, VECTORS, p, TILE)), np.zeros((groups, NUMBERS, TILE)),
        )  # fmt: skip
        # padded with a normal that is there: zeros would be kinks that all atoms are on
        whole = -(-count // DATA)
        padded = self.rows[np.minimum(np.arange(whole * DATA), count - 1)]
        self.columns = np.ascontiguousarray(padded.reshape(whole, DATA, p).swapaxes(1, 2))
        self.jumps, self.tiled = np.zeros((whole, DATA)), self.columns.size <= MAX_TILED
        self.n_blocks, self.parts = n_blocks, np.zeros((n_blocks, len(SUMS)))

    def __call__(
        self,
        atoms: Sequence[Any],
        signs: Floats,
        loss_gradient: Floats,
        flow: Flow,
        decay: float,
        time: float,
        log_scale: float,
        out: Sequence[Any],
        captured: Any = None,
        beside: Sequence[Floats] | None = None,
    ) -> Floats:
        """Move atoms (positions, log_weights, held) into `out` for a time; returns what that
        exchanged, (11,), by the names in SUMS.

        beside : f (n, p) and v (n,) of a potential f·θ + v, of each atom, beside the data's
        captured : two arrays (n,) bool, which atoms a kink has ever held or were not let go by one:
            before, and after, written
        """
        captured = captured or np.zeros((2, len(signs)), dtype=bool)
        jumps, constant = self.kinks.gradient(loss_gradient)
        constants, decays = constant[None], np.array([float(decay)])
        if beside is not None:
            forces, levels = beside
            constants, decays = constants + signs[:, None] * forces, decay + levels
        self.jumps.reshape(-1)[: len(jumps)] = jumps
        work = len(signs) * self.normals.size
        parts = self.parts[: len(atoms[0])]
        whole, moved_whole = atoms[0], out[0]
        if self.in_span:
            assert beside is None  # other forces leave the span
            basis = spanned(self.kinks.normals)
            before = seen(basis, whole)
            after, constants = before.copy(), and_zero(constants @ basis.T)
            atoms, out = (before, *atoms[1:]), (after, *out[1:])
        move_atoms(
            len(self.scratch[0]), work,
            *atoms, signs, jumps, constants, self.normals, self.rows,
            bool(self.tiled and flow.transport > 0.0 and beside is None), self.columns, self.jumps,
            float(flow.transport), float(flow.reaction), decays, float(time),
            float(log_scale), self.most,
            *self.scratch, *out, parts, captured[0], captured[1],
        )  # fmt: skip
        if self.in_span:
            moved(basis, whole, before, after, moved_whole)
        return parts.sum(axis=0)
