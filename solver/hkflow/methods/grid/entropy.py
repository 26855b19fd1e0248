"""The entropy τ∫ν log ν dθ on a mesh: transport and diffusion together, by the exponentially fitted
flux of Scharfetter and Gummel, exactly in time while the potential stands still.

    ∂_t ν = α div(ν ∇J) + ατ Δν = A ν;   through a face c → k of conductance g:
    ατ g [B(z) ν_c − B(−z) ν_k],  B(z) = z/(e^z − 1),  z = (J_k − J_c)/τ

It vanishes on ν ∝ e^{−J/τ}, and as τ → 0 it becomes the upwind flux. −A is an M-matrix whose
columns sum to zero: so e^{tA} keeps ν ≥ 0 and the mass, and ∫Jν + τ∫ν log ν falls. The flux is that
of central differences with the diffusion ½ατ|z| coth(½|z|) = ατ (1 + z²/12 + …): of second order
in the mesh width where |z| is small, of first order, as upwind fluxes are, where it is large.

With λ the largest outflow of a cell, P = 1 + A/λ is a Markov matrix of real spectrum, and

    e^{dt A} = Σ_k w_k Q_k(P),  Λ = λ dt:   w_k = e^{−Λ} Λ^k / k!,             Q_k = P^k, or
                                           w_k = (2 − δ_{k0}) e^{−Λ} I_k(Λ),  Q_k = T_k(P).

The first has more than Λ terms, all of them positive; the second, by Chebyshev polynomials, some
7√Λ, but where ν is tiny beside its maximum it may end below zero: then the first is taken. Nothing
is factorised, and steps are as long as the drift allows, whatever the square of the mesh width.

Source: Scharfetter & Gummel 1969; Jensen 1953 (powers of P); Tal-Ezer & Kosloff 1984 (Chebyshev).
"""

from functools import lru_cache

import numpy as np
from numba import njit, prange

from ...arguments import Floats
from ...operators.parallel_loops import BLOCK, n_blocks, parallel_loop
from .stencil import Stencil

FEW = 10.0  # Λ up to which powers of P are about as few as its Chebyshev polynomials
LEFT_OUT = 1e-10  # sum of the weights left out


class ScharfetterGummel:
    """Moves densities by e^{dt A}; every array is allocated here, once.

    temperature : τ > 0;  stencil : of the mesh;  n_signs : sheets
    outflow : largest share of a cell's mass that the drift −α∇J carries away per time, after
        `follow`;  largest : the same of drift and diffusion, λ
    """

    def __init__(self, temperature: float, stencil: Stencil, n_signs: int = 1) -> None:
        self.temperature, self.stencil = temperature, stencil
        n, slots = stencil.neighbors.shape
        self.leaving, self.arriving = (np.zeros((n_signs, n, slots)) for _ in range(2))
        self.one, self.other = (np.zeros((n_signs, n)) for _ in range(2))
        self.outflows = np.zeros((n_blocks(n), 2))
        self.outflow = self.largest = 0.0

    def follow(self, potential: Floats, alpha: float) -> None:
        """Take the potential J (n_signs, n_cells) and α > 0."""
        st = self.stencil
        exponential_fitting(
            st.neighbors, st.conductances, st.volumes, potential, alpha, self.temperature,
            self.leaving, self.arriving, self.outflows,
        )  # fmt: skip
        self.outflow, self.largest = (float(most) for most in self.outflows.max(axis=0))

    def move(self, dt: float, start: Floats, density: Floats) -> None:
        """The density after dt; start, density (n_signs, n_cells), two arrays."""
        reach = dt * self.largest
        self._sum(*terms(reach, reach > FEW), start, density)
        if reach > FEW and density.min() <= 0.0:
            self._sum(*terms(reach, False), start, density)

    def _sum(self, weights, chebyshev, start, density):
        """density = Σ_k w_k Q_k(P) start."""
        st, now, then = self.stencil, self.one, self.other
        now[:] = start
        np.multiply(weights[0], start, out=density)
        for k in range(1, len(weights)):
            twice = chebyshev and k > 1
            multiply(
                st.neighbors, self.leaving, self.arriving, st.volumes, 1.0 / self.largest,
                2.0 if twice else 1.0, 1.0 if twice else 0.0, weights[k], now, then, density,
            )  # fmt: skip
            now, then = then, now


@lru_cache(maxsize=8)
def terms(reach: float, chebyshev: bool) -> tuple[Floats, bool]:
    """The weights w_k (n,) for Λ = reach, whose sum is 1 to rounding, and whether they are those of
    Chebyshev polynomials."""
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
    return weights, chebyshev


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
    """leaving_ck = ατ g_ck B(z), arriving_ck = ατ g_ck B(−z), z = (J_k − J_c)/τ.

    neighbors, conductances (n_cells, n_slots); volumes (n_cells,); potential (n_signs, n_cells);
    leaving, arriving (n_signs, n_cells, n_slots), a face has the same bits from both its sides;
    outflows (n_blocks, 2): largest Σ_k α g (J_c − J_k)₊ / volume and Σ_k leaving / volume
    """
    n_signs, n = potential.shape
    for b in prange((n + BLOCK - 1) // BLOCK):
        drifts, largest = 0.0, 0.0
        for s in range(n_signs):
            for c in range(b * BLOCK, min(n, (b + 1) * BLOCK)):
                drift, total = 0.0, 0.0
                for k in range(neighbors.shape[1]):
                    rise = potential[s, neighbors[c, k]] - potential[s, c]
                    size = abs(rise) / temperature
                    small = bernoulli(size)
                    rate = alpha * temperature * conductances[c, k]
                    up, down = rate * small, rate * (small + size)
                    leaving[s, c, k] = up if rise > 0.0 else down
                    arriving[s, c, k] = down if rise > 0.0 else up
                    drift += alpha * conductances[c, k] * max(-rise, 0.0)
                    total += leaving[s, c, k]
                drifts = max(drifts, drift / volumes[c])
                largest = max(largest, total / volumes[c])
                if not np.isfinite(total):
                    drifts = np.inf
        outflows[b, 0], outflows[b, 1] = drifts, largest


@parallel_loop
def multiply(neighbors, leaving, arriving, volumes, unit, a, b, weight, now, then, total):
    """then ← a P now − b then, total += weight · then, P = 1 + unit · A.

    neighbors (n_cells, n_slots); leaving, arriving (n_signs, n_cells, n_slots); volumes (n_cells,);
    now, then, total (n_signs, n_cells). Fluxes are antisymmetric: the mass is kept to rounding
    """
    n_signs, n = now.shape
    for block in prange((n + BLOCK - 1) // BLOCK):
        for s in range(n_signs):
            for c in range(block * BLOCK, min(n, (block + 1) * BLOCK)):
                net, own = 0.0, now[s, c]
                for k in range(neighbors.shape[1]):
                    other = now[s, np.uint32(neighbors[c, k])]
                    net += arriving[s, c, k] * other - leaving[s, c, k] * own
                after = a * (own + unit * net / volumes[c]) - b * then[s, c]
                then[s, c] = after
                total[s, c] += weight * after


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
