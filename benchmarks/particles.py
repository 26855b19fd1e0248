"""Gradient descent of a two-layer network, which is the particle flow: hkflow's time loop against
other libraries, in steps per second, and whether all arrive at the same weights."""

import numpy as np

from . import particle_peers as peers
from .contest import Player, duel
from .timing import Row, skipped

# units, inputs with bias, data
SIZES = {"small": (1000, 16, 256), "large": (100_000, 4, 1000), "on S²": (100_000, 3, 1000)}
GOALS = {"small": 1.0, "large": 8.0, "on S²": 1.0}
CHECKED = {"small": 100, "large": 2, "on S²": 2}  # steps after which weights are compared


def difference(size, ours, theirs):
    """Largest difference of weights A, b from ours, relative to how far those moved; over all
    variants of the peer."""
    first, far = peers.start(*size), 0.0
    for pair in theirs:
        for w, w0, w1 in zip(pair, ours, (first.A, first.b), strict=True):
            far = max(far, np.abs(w - w0).max() / np.abs(w0 - w1).max())
    return far


def peer_row(name, ours, make, size, threads, keep, goal, checked, rounds):
    """The row of one duel."""
    with Player(make, size, threads, keep, checked) as peer:
        if peer.missing:
            return skipped(name, peer.missing, goal)
        mine, its, fields = duel(ours, peer, rounds)
        far = difference(size, ours.results[ours.variant], peer.results.values())
    note = (
        f"its {1.0 / its:.3g} steps/s ({peer.variant}{', memory kept' if keep else ''}), differs by"
        f" {far:.0e} of the way / ours"
    )
    return Row(name, 1.0 / mine, "steps/s", **fields, goal=goal, note=note)


def rows(threads, quick):
    """One row for each size and peer; NumPy, which allocates most, with glibc as it is and told to
    keep memory."""
    for label in ("small",) if quick else SIZES:
        size, checked, goal = SIZES[label], CHECKED[label], (">=", GOALS[label])
        contestants = peers.PEERS | ({"ducc0": peers.with_ducc0} if size[1] == 3 else {})
        with Player(peers.with_hkflow, size, threads, True, checked) as ours:
            for name, make in contestants.items():
                # no goal: see docs/reference/performance.md
                by_hand = name.endswith("chunks") or name == "ducc0"
                found = [
                    peer_row(
                        f"{label} {size}, against {name}",
                        ours,
                        make,
                        size,
                        threads,
                        keep,
                        None if by_hand else goal,
                        checked,
                        5,
                    )
                    for keep in ((True, False) if name == "NumPy" else (True,))
                ]
                yield min(found, key=lambda row: row.ratio or 0.0)
