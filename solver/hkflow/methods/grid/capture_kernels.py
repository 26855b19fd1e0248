"""The loops of mass that kinks capture. Index conventions and parallel blocks as in kernels.py;
j chord, i atom.

A chord of kink k in cell c catches what flows to it from both sides, ν ℓ α ε κ_k per time, where
the potential falls towards it from both, and a part of that where mass crosses it and leaves it
slowly.
"""

import numpy as np
from numba import prange

from ...compiled import njit
from ...geometry.transfer import nearest_cell
from ...operators.parallel_loops import BLOCK, parallel_loop
from ..frozen_relu.frozen import TOUCH, along

COINCIDENT = 1e-20  # square of a distance between atoms that are one


@parallel_loop
def cut_flows(
    starts, slot, kink, excess, signs, jumps, alpha, volumes, smallest, caught, flows, divergence,
    outflow,
):  # fmt: skip
    """Correct the flows of cut faces to −α∫∇J·normal; then Σ flow / volume and its outgoing part.
    A cell that density only enters, and no chord captures, is a sink, where all that enters stops:
    its rate of capture is that of its contraction.

    starts, slot, kink, excess : of Cuts;  signs (n_signs,);  jumps κ (n_kinks,);  volumes
    (n_cells,);  smallest rate that is not rounding;  caught (n_signs, n_cells) rate of capture,
    which the divergence of the density's own velocity lacks, overwritten at sinks;  flows
    (n_signs, n_cells, n_slots), divergence (n_signs, n_cells), outflow (n_blocks,) : as in
    muscl_hancock.face_flows, overwritten
    """
    n_signs, n = divergence.shape
    for b in prange((n + BLOCK - 1) // BLOCK):
        largest = 0.0
        for s in range(n_signs):
            for c in range(b * BLOCK, min(n, (b + 1) * BLOCK)):
                for e in range(starts[c], starts[c + 1]):
                    flows[s, c, slot[e]] += alpha * signs[s] * jumps[kink[e]] * excess[e]
                net, leaving = 0.0, 0.0
                for k in range(flows.shape[2]):
                    net += flows[s, c, k]
                    leaving += max(flows[s, c, k], 0.0)
                if leaving == 0.0 and caught[s, c] == 0.0 and -net > smallest * volumes[c]:
                    caught[s, c] = -net / volumes[c]
                divergence[s, c] = net / volumes[c] + caught[s, c]
                largest = max(largest, leaving / volumes[c])
                if not np.isfinite(leaving):
                    largest = np.inf
        outflow[b] = largest


@parallel_loop
def capture_rates(starts, kink, per_volume, width, slopes, signs, jumps, alpha, rates, caught):
    """Share of a cell's density that each chord catches per time,

        (α ℓ / V) (εκ − s₊ / w),   s = |mean slope| − εκ/2,   or 0 if that is negative.

    The normal slopes of εJ on both sides are its mean ∓ εκ/2. If s ≤ 0 the kink traps: it catches
    all. Else mass crosses it and leaves at the speed αs. The kink catches the less the farther that
    takes it while the flow contracts there, in the time 1/(αεκ), and nothing from the distance w
    on. So the rate is continuous in the loss gradients, as implicit steps need it.

    width : w, some cells;  slopes (n_signs, n_chords) : mean over both sides of the normal slope of
    J;  rates (n_signs, n_chords);  caught (n_signs, n_cells) their sum
    """
    n_signs, n = caught.shape
    for b in prange((n + BLOCK - 1) // BLOCK):
        for s in range(n_signs):
            for c in range(b * BLOCK, min(n, (b + 1) * BLOCK)):
                caught[s, c] = 0.0
                for j in range(starts[c], starts[c + 1]):
                    jump = signs[s] * jumps[kink[j]]
                    leaves = max(abs(slopes[s, j]) - 0.5 * jump, 0.0)
                    rates[s, j] = alpha * max(jump - leaves / width, 0.0) * per_volume[j]
                    caught[s, c] += rates[s, j]


@parallel_loop
def capture(dt, starts, rates, caught, volumes, live, start, density, amounts, sunk):
    """Take out of each cell what its chords catch while the rest of its change goes on evenly, and
    share it among them: ν′ = −R ν + N/dt over dt, R = caught · volume / live, N = density − start,

        ν ← e^z start + φ₁(z) N,   z = −R dt,   φ₁ = (e^z − 1)/z,   or 0 if that is negative.

    live (n_cells,) volumes that the densities are of;  start (n_signs, n_cells) before the change;
    density (n_signs, n_cells) after it, overwritten;  amounts (n_signs, n_chords) : overwritten
    where R > 0;  sunk (n_signs, n_cells) : the same where a sink takes it, without chords
    """
    n_signs, n = density.shape
    for b in prange((n + BLOCK - 1) // BLOCK):
        for s in range(n_signs):
            for c in range(b * BLOCK, min(n, (b + 1) * BLOCK)):
                decay = dt * caught[s, c] * volumes[c] / live[c] if caught[s, c] > 0.0 else 0.0
                if decay > 0.0:
                    share = -np.expm1(-decay)
                    late = 1.0 - share / decay
                    taken = share * start[s, c] + late * (density[s, c] - start[s, c])
                    taken = min(max(taken, 0.0), density[s, c])
                    density[s, c] -= taken
                    by_chords = 0.0
                    for j in range(starts[c], starts[c + 1]):
                        amounts[s, j] = taken * live[c] * rates[s, j] / caught[s, c]
                        by_chords += rates[s, j]
                    if by_chords == 0.0:
                        sunk[s, c] = taken * live[c]


@parallel_loop
def locate(positions, neighbors, centers, cells):
    """The cell of each atom, from a guess.

    positions (n, p); neighbors (n_cells, n_slots); centers (n_cells, p); cells (n,), overwritten
    """
    n = len(positions)
    for b in prange((n + BLOCK - 1) // BLOCK):
        for i in range(b * BLOCK, min(n, (b + 1) * BLOCK)):
            cells[i] = nearest_cell(positions[i], np.int64(cells[i]), neighbors, centers)


@njit(cache=True)
def region(position, normals, codes, s):
    """A number of the region of a position (p,): which side of each kink it is on, if any.

    normals (p, n_kinks);  codes (2, n_kinks + 1);  s (n_kinks,) : scratch
    """
    along(normals, position, s)
    key = np.uint64(0)
    for k in range(len(s)):
        ahead = codes[0, k] if s[k] > TOUCH else np.uint64(0)
        key ^= codes[1, k] if s[k] < -TOUCH else ahead
    return key


@parallel_loop
def label(positions, signs, cells, normals, codes, keys):
    """A number for each atom, the same for those of one sign, cell and region.

    positions (n, p); signs, cells (n,); normals (p, n_kinks); codes (2, n_kinks + 1) random odd
    64-bit numbers; keys (n,) uint64
    """
    n, n_kinks = len(positions), normals.shape[1]
    for b in prange((n + BLOCK - 1) // BLOCK):
        s = np.empty(n_kinks)
        for i in range(b * BLOCK, min(n, (b + 1) * BLOCK)):
            where = codes[0, n_kinks] * np.uint64(2 * cells[i] + (signs[i] > 0.0) + 1)
            keys[i] = where ^ region(positions[i], normals, codes, s)


@njit(cache=True)
def merge(keys, order, positions, weights, normals, codes, kept):
    """Make two atoms of more than two that have one key, see Capture.merged.

    keys, order (n,) : order sorts the keys;  positions (n, p), weights (n,) : overwritten;
    normals, codes : as in `label`;  kept (n,) : false for those that are gone
    """
    n, p = positions.shape
    pair, s, begin = np.zeros((2, p)), np.zeros(normals.shape[1]), 0
    while begin < n:
        end = begin + 1
        while end < n and keys[order[end]] == keys[order[begin]]:
            end += 1
        if end - begin > 2:
            group = order[begin:end]
            total, share = two_atoms(group, positions, weights, pair)
            first = region(pair[0], normals, codes, s)
            if first == region(pair[1], normals, codes, s):
                kept[group[1 + (share < 1.0) :]] = False
                weights[group[0]], weights[group[1]] = total * share, total * (1.0 - share)
                for a in range(p):
                    positions[group[0], a], positions[group[1], a] = pair[0, a], pair[1, a]
        begin = end


@njit(cache=True)
def two_atoms(group, positions, weights, pair):
    """The pair (2, p) that atoms can be merged to, their mass, and the share of the first.

    θ₁ is the farthest from the centre m, θ₂ = θ₁ + s (m − θ₁), s = 1 + Σ w|θ − m|² / (W |θ₁ − m|²),
    of mass W/s
    """
    p, total, far, square, spread = positions.shape[1], 0.0, group[0], -1.0, 0.0
    centre, second = pair[0], pair[1]
    for a in range(p):
        centre[a] = 0.0
    for i in group:
        total += weights[i]
        for a in range(p):
            centre[a] += weights[i] * positions[i, a]
    for a in range(p):
        centre[a] /= total
    for i in group:
        distance = 0.0
        for a in range(p):
            distance += (positions[i, a] - centre[a]) ** 2
        spread += weights[i] / total * distance
        if distance > square:
            far, square = i, distance
    reach = 1.0 + spread / square if square > COINCIDENT else 1.0
    size = 0.0
    for a in range(p):
        second[a] = positions[far, a] + reach * (centre[a] - positions[far, a])
        size += second[a] ** 2
    for a in range(p):
        second[a] /= np.sqrt(size)
        centre[a] = positions[far, a] if square > COINCIDENT else second[a]
    return total, 1.0 - 1.0 / reach if square > COINCIDENT else 1.0


@njit(cache=True, fastmath={"reassoc", "contract"})
def add_coupling(positions, weights, inputs, below, above, beta, alpha, moved, slopes, out):
    """Add some atoms' part of K v, see coupling_product. Sums may be vectorised."""
    p, n = inputs.shape
    force = np.zeros(p)
    for c in range(len(weights)):
        along(inputs, positions[c], slopes)
        for i in range(n):
            slopes[i] = above if slopes[i] > 0.0 else below
        J = 0.0
        for a in range(p):
            total = 0.0
            for i in range(n):
                total += slopes[i] * moved[a, i]
            force[a] = total
            J += total * positions[c, a]
        for a in range(p):
            push = weights[c] * (alpha * force[a] + (beta - alpha) * J * positions[c, a])
            for i in range(n):
                out[i] += slopes[i] * inputs[a, i] * push


@parallel_loop
def coupling_product(positions, weights, inputs, below, above, beta, alpha, moved, slopes, partial):
    """partial[g] = K v of a group of atoms, K_ij = Σ_c w_c (β φ_i φ_j + α ∇φ_i·∇φ_j), for features
    ψ(θ·x) of slopes ψ′ = below and above 0:

        K v_i = Σ_c w_c ψ′_i x_i·(α G + (β − α) (G·θ) θ),   G = Σ_j v_j ψ′_j x_j

    positions (n, p), weights (n,) of atoms;  inputs, moved (p, n_data) : x_j, v_j x_j
    partial (n_groups, n_data);  slopes (n_groups, n_data) : scratch
    """
    n, groups = len(weights), len(partial)
    for g in prange(groups):
        own = slice(g * n // groups, (g + 1) * n // groups)
        partial[g] = 0.0
        add_coupling(
            positions[own], weights[own], inputs, below, above, beta, alpha, moved, slopes[g],
            partial[g],
        )  # fmt: skip
