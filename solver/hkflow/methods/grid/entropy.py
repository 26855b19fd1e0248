"""The entropy τ∫ν log ν dθ on a mesh: transport and diffusion together, by the exponentially fitted
flux of Scharfetter and Gummel, exactly in time while the potential stands still.

    ∂_t ν = α div(ν ∇J) + ατ Δν = A ν;   through a face c → k of conductance g:
    ατ g [B(z) ν_c − B(−z) ν_k],  B(z) = z/(e^z − 1),  z = (J_k − J_c)/τ

It vanishes on ν ∝ e^{−J/τ}, and as τ → 0 it becomes the upwind flux. −A is an M-matrix whose
columns sum to zero: so e^{tA} keeps ν ≥ 0 and the mass, and ∫Jν + τ∫ν log ν falls. The flux is that
of central differences with the diffusion ½ατ|z| coth(½|z|) = ατ (1 + z²/12 + …): of second order
in the mesh width where |z| is small, of first order, as upwind fluxes are, where it is large.

With λ the largest outflow of a cell, P = 1 + A/λ is a Markov matrix; with 2ρ a bound of the
eigenvalues of −A, which are real, those of 1 + A/ρ lie in [−1, 1]. Either serves:

    e^{dt A} = Σ_k w_k P^k,            w_k = e^{−Λ} Λ^k / k!,               Λ = λ dt,
             = Σ_k w_k T_k(1 + A/ρ),   w_k = (2 − δ_{k0}) e^{−Λ} I_k(Λ),    Λ = ρ dt.

The first has more than Λ terms, all of them positive; the second, by Chebyshev polynomials, some
7√Λ, but where ν is tiny beside its maximum it may end below zero: then the first is taken. Nothing
is factorised, and steps are as long as the drift allows, whatever the square of the mesh width. A
step is hundreds of products with A: where a group of consecutive cells has consecutive neighbours
in every slot, as most have, it is taken as one vector.

The bound: −A is similar to a symmetric matrix whose fluxes have g ½z/sinh ½z in the place of g. By
the theorems of Weyl and Gershgorin its largest eigenvalue is at most that of diffusion alone, ατμ,
and the largest outflow of a cell by drift together; that is 2ρ, or 2λ where this is less. Lanczos'
method finds μ, once for a mesh.

Source: Scharfetter & Gummel 1969; Jensen 1953 (powers of P); Tal-Ezer & Kosloff 1984 (Chebyshev);
Kuczyński & Woźniakowski 1992 (Lanczos from a random vector).
"""

from functools import lru_cache

import numpy as np
from numba import prange, types
from numba.core import cgutils
from numba.extending import intrinsic

from ...arguments import Floats
from ...compiled import njit
from ...operators.dense import INTEGER, LANES, Array, multiply_add
from ...operators.parallel_loops import BLOCK, n_blocks, parallel_loop
from .stencil import Stencil

FEW = 10.0  # Λ up to which powers of P are about as few as its Chebyshev polynomials
LEFT_OUT = 1e-10  # sum of the weights left out
LANCZOS = 60  # steps: of a million cells the largest eigenvalue is found to 0.6 % in the mean
SAFETY = 1.02
MOST = 1e5  # Λ of the longest step, some 2000 products with P; longer ones save next to nothing


class ScharfetterGummel:
    """Moves densities by e^{dt A}; every array is allocated here, once.

    temperature : τ > 0;  stencil : of the mesh;  n_signs : sheets
    outflow : largest share of a cell's mass that the drift −α∇J carries away per time, after
        `follow`;  largest : the same of drift and diffusion, λ;  radius : ρ
    """

    def __init__(self, temperature: float, stencil: Stencil, n_signs: int = 1) -> None:
        self.temperature, self.stencil = temperature, stencil
        n, slots = stencil.neighbors.shape
        self.arriving = np.zeros((n_signs, -(-n // LANES), slots, LANES))
        self.alike = alike(stencil.neighbors)
        self.leaving, self.pair = np.zeros((n_signs, n)), np.zeros((2, n_signs, n))
        self.outflows, self.slots = np.zeros((n_blocks(n), 2)), (0,) * slots
        self.fastest = np.inf
        self.follow(self.pair[0], 1.0)
        self.fastest = SAFETY * self._fastest_decay()

    def follow(self, potential: Floats, alpha: float) -> None:
        """Take the potential J (n_signs, n_cells) and α > 0."""
        st = self.stencil
        exponential_fitting(
            st.neighbors, st.conductances, st.volumes, potential, alpha, self.temperature,
            self.leaving, self.arriving, self.outflows,
        )  # fmt: skip
        self.outflow, self.largest = (float(most) for most in self.outflows.max(axis=0))
        self.radius = min(self.largest, 0.5 * (alpha * self.fastest + self.outflow))

    def longest_step(self, alpha: float, outflow: float) -> float:
        """The step of Λ ≤ MOST, for the largest outflow by drift."""
        return MOST / (alpha * self.fastest + outflow)

    def move(self, dt: float, start: Floats, density: Floats) -> None:
        """The density after dt; start, density (n_signs, n_cells), two arrays."""
        few = dt * self.largest <= FEW
        self._sum(dt, not few, start, density)
        if not few and density.min() <= 0.0:
            self._sum(dt, False, start, density)
        # summed in pairs: what the sums round would add up, as that of the weights would
        before, after = ((x * self.stencil.volumes).sum(axis=1) for x in (start, density))
        density *= np.divide(before, after, out=np.ones_like(after), where=after > 0.0)[:, None]

    def _sum(self, dt, chebyshev, start, density):
        """density = e^{dt A} start."""
        scale = self.radius if chebyshev else self.largest
        self._polynomial(terms(dt * scale, chebyshev), 1.0 / scale, chebyshev, start, density)

    def _polynomial(self, weights, unit, chebyshev, start, out):
        """out = Σ_k w_k Q_k(1 + unit A) start."""
        self.pair[0] = start
        np.multiply(weights[0], start, out=out)
        polynomial(
            self.stencil.neighbors, self.alike, self.arriving, self.leaving, weights, unit,
            chebyshev, self.slots, self.pair, out,
        )  # fmt: skip

    def _fastest_decay(self):
        """The largest eigenvalue of −A, by Lanczos' method in the product with the volumes."""
        from scipy.linalg import eigvalsh_tridiagonal  # slow to load

        def product(x, y):
            return float(np.einsum("sc,sc,c->", x, y, self.stencil.volumes))

        now, last, image = (np.zeros_like(self.leaving) for _ in range(3))
        now[:] = np.random.default_rng(0).standard_normal(now.shape)
        now /= np.sqrt(product(now, now))
        diagonal, beside = [], [0.0]
        for _ in range(min(LANCZOS, now.size)):
            self._polynomial(np.array([-1.0, 1.0]), -1.0, False, now, image)  # −A
            image -= beside[-1] * last
            diagonal.append(product(now, image))
            image -= diagonal[-1] * now
            beside.append(np.sqrt(product(image, image)))
            if beside[-1] <= 1e-9 * diagonal[0]:
                break
            last[:], now[:] = now, image / beside[-1]
        return float(eigvalsh_tridiagonal(diagonal, beside[1:-1])[-1])


@lru_cache(maxsize=8)
def terms(reach: float, chebyshev: bool) -> Floats:
    """The weights w_k (n,) of Chebyshev polynomials or powers for Λ = reach; their sum is 1 to
    rounding."""
    from scipy.special import gammaln, ive  # slow to load

    if chebyshev:
        weights = 2.0 * ive(np.arange(int(10.0 * np.sqrt(reach)) + 30), reach)
        weights[0] *= 0.5
    else:
        k = np.arange(int(reach + 10.0 * np.sqrt(reach)) + 30)
        weights = np.exp(k * np.log(max(reach, 1e-300)) - reach - gammaln(k + 1.0))
    left = np.cumsum(weights[::-1])[::-1]
    weights = weights[: max(1, int(np.count_nonzero(left > LEFT_OUT)))]
    weights[0] += 1.0 - weights.sum()
    return weights


@njit(cache=True)
def bernoulli(z):
    """B(z) = z/(e^z − 1) for z ≥ 0; by its series where that costs less."""
    if z > 700.0:
        return 0.0
    if z > 0.1:
        return z / (np.exp(z) - 1.0)
    y = z * z
    return 1.0 - 0.5 * z + y * (1 / 12 + y * (-1 / 720 + y * (1 / 30240 - y / 1209600)))


@parallel_loop
def exponential_fitting(
    neighbors, conductances, volumes, potential, alpha, temperature, leaving, arriving, outflows
):
    """leaving_c = Σ_k ατ g_ck B(z) / volume, arriving_ck = ατ g_ck B(−z) / volume, z = (J_k −
    J_c)/τ.

    neighbors, conductances (n_cells, n_slots); volumes (n_cells,); potential, leaving (n_signs,
    n_cells); arriving (n_signs, n_groups, n_slots, LANES), where entry ck is [c // LANES, k, c %
    LANES]; outflows (n_blocks, 2): largest Σ_k α g (J_c − J_k)₊ / volume and leaving
    """
    n_signs, n = potential.shape
    per_temperature = 1.0 / temperature
    for b in prange((n + BLOCK - 1) // BLOCK):
        drifts, largest = 0.0, 0.0
        for s in range(n_signs):
            for c in range(b * BLOCK, min(n, (b + 1) * BLOCK)):
                drift, total, per_volume = 0.0, 0.0, 1.0 / volumes[c]
                for k in range(neighbors.shape[1]):
                    rise = potential[s, neighbors[c, k]] - potential[s, c]
                    size = abs(rise) * per_temperature
                    small = bernoulli(size)
                    rate = alpha * temperature * conductances[c, k]
                    up, down = rate * small, rate * (small + size)
                    arrives = (down if rise > 0.0 else up) * per_volume
                    arriving[s, c // LANES, k, c % LANES] = arrives
                    drift += alpha * conductances[c, k] * max(-rise, 0.0)
                    total += up if rise > 0.0 else down
                leaving[s, c] = total * per_volume
                drifts = max(drifts, drift * per_volume)
                largest = max(largest, leaving[s, c])
                if not np.isfinite(total):
                    drifts = np.inf
        outflows[b, 0], outflows[b, 1] = drifts, largest


def alike(neighbors: np.ndarray) -> np.ndarray:
    """Whether the neighbours of LANES consecutive cells are consecutive in every slot, (n_groups,);
    neighbors (n_cells, n_slots)."""
    n, slots = neighbors.shape
    whole = n // LANES
    groups = neighbors[: whole * LANES].reshape(whole, LANES, slots)
    found = np.zeros(-(-n // LANES), bool)
    found[:whole] = (np.diff(groups, axis=1) == 1).all(axis=(1, 2))
    return found


@intrinsic
def step_of_group(typing, g, neighbors, arriving, leaving, slots, now, then, a, b, unit):
    """then_c = a (1 + unit A) now_c − b then_c for the cells c of a group g whose neighbours are
    alike; the arrays of `polynomial` for one sheet."""

    def write(context, builder, signature, args):
        arrays, numbers = [*zip(signature.args, args, strict=True)][:7], args[7:]
        come, go, now, then = (Array(context, builder, *arrays[k]) for k in (2, 3, 5, 6))
        a, b, unit = (now.filled(number) for number in numbers)
        near = context.make_array(neighbors)(context, builder, args[1])
        first = builder.mul(args[0], INTEGER(LANES))
        own = now.load(first)
        net = builder.fneg(builder.fmul(go.load(first), own))
        for slot in range(slots.count):
            index = [first, INTEGER(slot)]
            there = cgutils.get_item_pointer(context, builder, neighbors, near, index)
            arrives = now.load(builder.zext(builder.load(there), INTEGER))
            net = multiply_add(builder, come.load(args[0], slot, 0), arrives, net)
        moved = builder.fmul(a, multiply_add(builder, unit, net, own))
        then.store(builder.fsub(moved, builder.fmul(b, then.load(first))), first)
        return context.get_dummy_value()

    kinds = types.int64, neighbors, arriving, leaving, slots, now, then, *[types.float64] * 3
    return types.void(*kinds), write


@parallel_loop
def polynomial(neighbors, alike, arriving, leaving, weights, unit, chebyshev, slots, pair, total):
    """total += Σ_{k > 0} w_k Q_k(P) pair_0, P = 1 + unit A, Q_k its powers or Chebyshev's.

    neighbors (n_cells, n_slots); alike (n_groups,); arriving (n_signs, n_groups, n_slots, LANES);
    leaving, total (n_signs, n_cells); slots : tuple of length n_slots; pair (2, n_signs, n_cells),
    the last two Q_k, which are added together
    """
    n_signs, n = total.shape
    for k in range(1, len(weights)):
        now, then = pair[(k - 1) % 2], pair[k % 2]
        a, b = (2.0, 1.0) if chebyshev and k > 1 else (1.0, 0.0)
        even, last, before, weight = k % 2 == 0, k == len(weights) - 1, weights[k - 1], weights[k]
        for block in prange((n + BLOCK - 1) // BLOCK):
            for s in range(n_signs):
                first, end = block * BLOCK, min(n, (block + 1) * BLOCK)
                come, go, source, target = arriving[s], leaving[s], now[s], then[s]
                for g in range(first // LANES, (end + LANES - 1) // LANES):
                    if alike[g]:
                        step_of_group(g, neighbors, come, go, slots, source, target, a, b, unit)
                        continue
                    for c in range(g * LANES, min(end, (g + 1) * LANES)):
                        net = -go[c] * source[c]
                        for slot in range(len(slots)):
                            arrives = come[g, slot, c - g * LANES]
                            net += arrives * source[np.uint32(neighbors[c, slot])]
                        target[c] = a * (source[c] + unit * net) - b * target[c]
                own, after, out = source[first:end], target[first:end], total[s, first:end]
                if even:
                    for c in range(end - first):
                        out[c] += before * own[c] + weight * after[c]
                elif last:
                    for c in range(end - first):
                        out[c] += weight * after[c]


@parallel_loop
def relax(dt, beta, temperature, offset, volumes, potential, start, density, sums):
    """(log ν)′ = −β (J + τ (log ν + offset)) over dt, J fixed, exactly; ν = 0 stays.

    potential, start, density (n_signs, n_cells), density may be start; volumes (n_cells,); sums
    (n_blocks, 5): integrals 0 of J and 2 of 1 and 3 of their size over what it brought
    """
    n_signs, n = density.shape
    kept = np.exp(-beta * temperature * dt)
    for b in prange((n + BLOCK - 1) // BLOCK):
        work, mass, size = 0.0, 0.0, 0.0
        for s in range(n_signs):
            for c in range(b * BLOCK, min(n, (b + 1) * BLOCK)):
                nu, J = start[s, c], potential[s, c]
                last = -J / temperature - offset
                after = np.exp(last + kept * (np.log(nu) - last)) if nu > 0.0 else nu
                change = (after - nu) * volumes[c]
                work += J * change
                mass += change
                size += abs(change)
                density[s, c] = after
        sums[b, 0], sums[b, 1], sums[b, 2], sums[b, 3], sums[b, 4] = work, 0.0, mass, size, 0.0


@parallel_loop
def integrals(temperature, offset, potential, density, volumes, out):
    """Integrals over each block: 0 ν log ν, 1 μν and 2 μ²ν, μ = J + τ (log ν + offset).

    potential, density (n_signs, n_cells); volumes (n_cells,); out (n_blocks, 3)
    """
    n_signs, n = density.shape
    for b in prange((n + BLOCK - 1) // BLOCK):
        plain, first, second = 0.0, 0.0, 0.0
        for s in range(n_signs):
            for c in range(b * BLOCK, min(n, (b + 1) * BLOCK)):
                nu, J, volume = density[s, c], potential[s, c], volumes[c]
                if nu != 0.0:
                    log = np.log(nu)  # nan below 0
                    mu = J + temperature * (log + offset)
                    plain += log * nu * volume
                    first += mu * nu * volume
                    second += mu * mu * nu * volume
        out[b, 0], out[b, 1], out[b, 2] = plain, first, second
