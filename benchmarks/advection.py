"""Conservative advection by the quadratic reconstruction: solid-body rotation of hills by one turn,
seconds against error, and cell updates per second. Peers that know no sphere move the same hill as
far over a plane of the same area.
"""

from itertools import pairwise

import numpy as np

from .advection_peers import OURS, PEERS
from .contest import Player
from .hills import SHAPES
from .timing import Row, skipped

QUICK = {"hkflow, linear": (2, 3), "pyclaw": (8, 14), "harmonics by ducc0": (7, 15)}
NOT_RUN = (
    "not run, no package of it here; known: smooth hill 2.2e-3 in 0.60 s, 2.2e-4 in 2.2 s on one"
    " core"
)
ROUNDS, RESOLVED = 5, 0.3  # a larger error means that the hill is not resolved: not compared


class Series:
    """Times (rounds, sizes) of whole turns, which no shape changes, and errors {shape: (sizes,)} of
    one code."""

    def __init__(self, player):
        self.player, self.times = player, []
        self.sizes = [
            name.split(", ", 1)[1] for name in player.results if name.startswith(SHAPES[0])
        ]

    def take_turns(self):
        self.times.append([self.player.turn(f"{SHAPES[0]}, {size}") for size in self.sizes])

    def outcomes(self, shape):
        """Rows [cells, steps, error, smallest density], one for each size."""
        return np.array([self.player.results[f"{shape}, {size}"] for size in self.sizes])

    def row(self, name, shape):
        """The row of a code and a shape: cell updates per second of the largest size."""
        found, seconds = self.outcomes(shape), np.median(self.times, axis=0)
        cells, steps, _, smallest = found[-1]
        pairs = tuple(zip(seconds.tolist(), found[:, 2].tolist(), strict=True))
        note = "; ".join(
            f"{size}: {error:.1e} in {time:.3g} s"
            for size, (time, error) in zip(self.sizes, pairs, strict=True)
        )
        note += f"; smallest density {smallest:.0e}"
        return Row(
            f"{name}, {shape} hill",
            1e-6 * cells * steps / seconds[-1],
            "M cells/s",
            note=note,
            points=pairs,
        )


def seconds_to(series, shape, error):
    """Seconds (rounds,) that a code needs for this error, between its sizes or a little beyond;
    None if it is far beyond."""
    errors = np.log(series.outcomes(shape)[:, 2])
    if (
        np.any(np.diff(errors) >= 0.0)
        or not 1.5 * errors[-1] - 0.5 * errors[-2] <= np.log(error) <= errors[0]
    ):
        return None
    k = np.clip(np.searchsorted(-errors, -np.log(error)), 1, len(errors) - 1)
    share = (np.log(error) - errors[k - 1]) / (errors[k] - errors[k - 1])
    times = np.log(series.times)
    return np.exp(times[:, k - 1] + share * (times[:, k] - times[:, k - 1]))


def compare(name, ours, theirs, shape):
    """Their seconds over ours at the error of each of their sizes."""
    sphere, factors = (
        name.startswith(("pyclaw", "PyMPDATA")) or "harmonics" in name and shape != "smooth",
        [],
    )
    # nothing of second order keeps up with harmonics on a smooth hill
    goal = (">=", 1.0) if sphere else None
    for k, size in enumerate(theirs.sizes):
        error = theirs.outcomes(shape)[k, 2]
        if not error <= RESOLVED:
            continue
        mine, label = (
            seconds_to(ours, shape, error),
            f"{shape} hill to {error:.1e}, against {name} {size}",
        )
        if mine is None:
            yield skipped(label, "the error lies outside those of our meshes", goal)
            continue
        low, middle, high = np.percentile(np.array(theirs.times)[:, k] / mine, [25, 50, 75])
        factors.append((error, middle))
        yield Row(
            label,
            np.median(mine),
            "s",
            middle,
            low,
            high,
            goal,
            "its seconds / ours for the same error",
        )
    for (e0, f0), (e1, f1) in pairwise(factors):
        if (f0 - 1.0) * (f1 - 1.0) < 0.0:
            error = e0 * (e1 / e0) ** (np.log(f0) / np.log(f0 / f1))
            yield Row(
                f"{shape} hill, crossover with {name}",
                error,
                "relative l2",
                note="equal seconds at this error",
            )


def rows(threads, quick):
    """Errors and times of all codes, on one thread."""
    if threads > 1:
        return
    make, levels, reconstruction = OURS
    with Player(make, ((2, 3) if quick else levels, reconstruction), threads) as player:
        if player.missing:
            yield skipped("one turn of a hill", player.missing)
            return
        ours, smallest = Series(player), dict.fromkeys(SHAPES, "")
        for name, (make, sizes, *more) in PEERS.items():
            if quick and name not in QUICK:
                continue
            with Player(make, (QUICK[name] if quick else sizes, *more), threads) as peer:
                if peer.missing:
                    yield skipped(f"one turn of a hill, against {name}", peer.missing, (">=", 1.0))
                    continue
                theirs, ours.times = Series(peer), []
                for _ in range(ROUNDS):
                    ours.take_turns()
                    theirs.take_turns()
                for shape in SHAPES:
                    yield theirs.row(name, shape)
                    smallest[shape] += f"; {name} {theirs.outcomes(shape)[:, 3].min():.0e}"
                    if "plane" not in name:
                        yield from compare(name, ours, theirs, shape)
        for shape in SHAPES:
            yield ours.row("hkflow, quadratic", shape)
            least = ours.outcomes(shape)[:, 3].min()
            note = f"smallest of any size over the peak{smallest[shape]}"
            yield Row(
                f"density of the {shape} hill is nowhere negative",
                least,
                goal=(">=", 0.0),
                note=note,
            )
    yield skipped("one turn of a hill, against dedalus", NOT_RUN)
