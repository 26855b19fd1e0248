"""The sums J_c = Σ_i g_i (θ_c·x_i)₊ and h_i = Σ_c w_c (θ_c·x_i)₊ over points and data: the
operator that hkflow chooses by itself against its own dense tiles on one core, on the circle, and
against other libraries, see potential_peers.py. Those of a function of one's own, tanh θ·x, against
all pairs.
"""

from functools import partial

import numpy as np

from . import potential_peers as peers
from .contest import Player, duel
from .machine import dgemm, stream
from .timing import Row, alternate, ratio, skipped

NOISE = 0.97  # of a ratio that is to be at least one, where the dense tiles may be the choice
GOALS = {
    (10_242, 256): {"J": NOISE, "h": NOISE},
    (163_842, 4096): {"J": 12.0, "h": 8.0},
    (655_362, 4096): {"J": 20.0, "h": 20.0},
}
CELLS, DATA, ACCURACY = 98_304, 4096, (8e-5, 3e-4)  # of the comparison with other libraries
OWN = ((2, 2048, 2000), (3, 10_242, 4096))  # axes, points and data of tanh units
CIRCLE, MILLISECONDS = (1_000_000, 100_000), 50.0


def against_dense(points, n, goals, repeats):
    """Both sums by hkflow's choice and by dense tiles, taking turns on the same arrays."""
    from hkflow.operators.choice import make_operator
    from hkflow.operators.dense import RELU, DenseOperator

    inputs = peers.data(n, points.shape[1])
    rng = np.random.default_rng(1)
    operators = make_operator("auto", points, inputs, RELU), DenseOperator(points, inputs, RELU)
    for name, size, length in (("J", n, len(points)), ("h", len(points), n)):
        given, outs = rng.normal(size=size) / size, np.zeros((2, length))
        sums = [operator.adjoint if name == "J" else operator.forward for operator in operators]
        calls = [partial(of, given, out) for of, out in zip(sums, outs, strict=True)]
        times = alternate(calls, repeats)
        error = np.abs(outs[0] - outs[1]).max() / np.abs(outs[1]).max()
        what, goal = f"{name}, {len(points):,} cells, {n} data", (">=", goals[name])
        note = (
            f"dense tiles / {type(operators[0]).__name__}, which differ by {error:.0e} of the"
            " largest"
        )
        yield Row(
            what,
            1e3 * np.median(times[:, 0]),
            "ms",
            **ratio(times[:, 1], times[:, 0]),
            goal=goal,
            note=note,
        )
    yield machine_row(points, n, calls[-1], repeats)


def machine_row(points, n, dense, repeats):
    """How far the dense tiles are from DGEMM: θ·x, the ReLU and the sum are 2p + 2 operations for
    each pair."""
    size = 768
    times = alternate([dense, dgemm(size)], repeats)
    work = len(points) * n * (2 * points.shape[1] + 2)
    speed = {
        key: value * work / (2.0 * size**3)
        for key, value in ratio(times[:, 1], times[:, 0]).items()
    }
    name = f"h by dense tiles, {len(points):,} cells, {n} data"
    return Row(
        name, 1e3 * np.median(times[:, 0]), "ms", **speed, note="operations per second / DGEMM's"
    )


def circle(n_points, n, repeats):
    """J on the circle, checked against the plain sum at some points, and the time to stream its
    arrays."""
    from hkflow import quasi_uniform
    from hkflow.operators.dense import RELU
    from hkflow.operators.sorted import SortedOperator

    points, inputs = quasi_uniform(n_points, 1), peers.data(n, 2)
    loss_gradient, J = np.random.default_rng(1).normal(size=n) / n, np.zeros(n_points)
    operator = SortedOperator(points, inputs, RELU)
    times = alternate(
        [
            lambda: operator.adjoint(loss_gradient, J),
            stream([points, inputs, loss_gradient], [np.empty_like(J)]),
        ],
        repeats,
    )
    some = slice(None, None, max(1, n_points // 50))
    error = (
        np.abs(loss_gradient @ np.maximum(inputs @ points[some].T, 0.0) - J[some]).max()
        / np.abs(J).max()
    )
    name, note = (
        f"J on the circle, {n_points:,} cells, {n:,} data",
        f"error {error:.0e} of the largest",
    )
    yield Row(name, 1e3 * np.median(times[:, 0]), "ms", goal=("<=", MILLISECONDS), note=note)
    yield Row(
        f"{name}, against streaming",
        1e3 * np.median(times[:, 1]),
        "ms",
        **ratio(times[:, 0], times[:, 1]),
        note="time / time to read points, inputs, g and write J once",
    )


def tanh(s):
    """ψ and ψ′."""
    value = np.tanh(s)
    return value, 1.0 - value**2


def own_function(axes, n_points, n, repeats):
    """h and J of tanh units at points that stay, and that move with their gradient, by hkflow's
    choice and over all pairs, taking turns."""
    from hkflow import quasi_uniform, ridge

    feature, points, rng = ridge(tanh), quasi_uniform(n_points, axes - 1), np.random.default_rng(1)
    inputs = np.column_stack([rng.uniform(-1.0, 1.0, (n, axes - 1)), np.ones(n)])
    w, r = rng.normal(size=n_points) / n_points, rng.normal(size=n) / n

    def both(operator, out, gradient):
        operator.forward(w, out[0])
        if gradient is None:
            operator.adjoint(r, out[1])
        else:
            operator.gradient(r, out[1], gradient)

    for moving in (False, True):
        make = partial(feature.moving_operator, on_sphere=True) if moving else feature.operator
        operators = make(points, inputs), make(points, inputs, "dense")
        outs = [(np.zeros(n), np.zeros(n_points)) for _ in operators]
        gradients = [np.zeros_like(o.points) if moving else None for o in operators]
        calls = [partial(both, *given) for given in zip(operators, outs, gradients, strict=True)]
        times = alternate(calls, repeats)
        error = max(
            np.abs(fast - all_pairs).max() / np.abs(all_pairs).max()
            for fast, all_pairs in zip(*outs, strict=True)
        )
        what = "h, J and its gradient" if moving else "h and J"
        yield Row(
            f"{what} of tanh units in R^{axes}, {n_points:,} {'particles' if moving else 'cells'},"
            f" {n} data",
            1e3 * np.median(times[:, 0]),
            "ms",
            **ratio(times[:, 1], times[:, 0]),
            goal=(">=", 1.0),
            note=f"all pairs / {type(operators[0]).__name__}, which differ by {error:.0e}",
        )


def against_peers(what, n_points, n, threads, rounds):
    """hkflow against each peer in turn; NumPy, which allocates most, with glibc as it is and told
    to keep memory.

    What is approximate alone depends on how smooth the summed numbers are.
    """
    size = f"{what}, {n_points:,} cells, {n} data"
    faster = (">=", 1.0)
    contestants = [
        (f"ducc0 to {error:.0e}", peers.with_ducc0, (error,), faster) for error in ACCURACY
    ]
    if what != "smooth J":
        contestants = [(name, make, (), faster) for name, make in peers.EXACT.items()] + contestants
    with Player(peers.with_hkflow, (what, n_points, n), threads) as ours:
        for name, make, more, goal in contestants:
            if ours.missing:
                yield skipped(f"{size}, against {name}", ours.missing, goal)
                continue
            arguments = (what, n_points, n, *more)
            found = [
                peer_row(
                    f"{size}, against {name}", ours, make, arguments, threads, keep, rounds, goal
                )
                for keep in ((True, False) if name == "NumPy" else (True,))
            ]
            yield min(found, key=lambda row: row.ratio or 0.0)


def peer_row(name, ours, make, arguments, threads, keep, rounds, goal):
    """The row of one duel; the peer's process ends with it, because its matrix may fill the
    memory."""
    with Player(make, arguments, threads, keep) as peer:
        if peer.missing:
            return skipped(name, peer.missing, goal)
        mine, its, fields = duel(ours, peer, rounds)
        exact = ours.results[ours.variant]
        error = (
            max(np.abs(result - exact).max() for result in peer.results.values())
            / np.abs(exact).max()
        )
    note = (
        f"its {1e3 * its:.3g} ms ({peer.variant}{', memory kept' if keep else ''}), differs by"
        f" {error:.0e} / ours"
    )
    return Row(name, 1e3 * mine, "ms", **fields, goal=goal, note=note)


def rows(threads, quick):
    """Own dense loop and circle on one thread; other libraries on any number."""
    repeats = 5 if quick else 7
    if threads == 1:
        for (cells, n), goals in ({(642, 64): GOALS[10_242, 256]} if quick else GOALS).items():
            try:
                yield from against_dense(mesh_points(cells), n, goals, repeats)
            except ImportError as error:
                yield skipped(
                    f"J and h, {cells:,} cells, {n} data, against dense tiles",
                    error,
                    (">=", goals["J"]),
                )
        for axes, cells, n in ((2, 2048, 700),) if quick else OWN:
            yield from own_function(axes, cells, n, repeats)
        try:
            yield from circle(*((2000, 500) if quick else CIRCLE), repeats)
        except ImportError as error:
            yield skipped("J on the circle", error, ("<=", MILLISECONDS))
    for what in ("J",) if quick else ("J", "smooth J", "h"):
        yield from against_peers(what, *((2000, 64) if quick else (CELLS, DATA)), threads, repeats)


def mesh_points(cells):
    """Centres of the geodesic mesh with so many cells."""
    from hkflow import geodesic_level, geodesic_mesh

    return geodesic_mesh(geodesic_level(cells)).centers
