"""Atomic measures ν = Σ_j weight_j δ_(θ_j, ε_j): what particles, networks and cells all become when
they are compared."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arguments import Floats, Integers, real_array
from ..geometry.mesh import Mesh, half_faces, simplices
from ..geometry.sphere import by_rows, directions
from ..shown import Shown, counted

SAME_SIZE = 1e-9  # of input and output weights of a balanced unit


@dataclass(frozen=True, eq=False, repr=False)
class PointMeasure(Shown):
    """A finite sum of point masses on the signed sphere.

    positions : (n, d+1) θ_j, normalised here;  signs : (n,) ε_j = ±1, all +1 if not given
    weights : (n,) ≥ 0, 1/n each if not given;  all are copied
    Raises ValueError if the shapes do not fit together, a position is zero or a weight is negative
    or not finite.
    """

    positions: Floats
    signs: Floats = None  # type: ignore[assignment]  # arrays once made
    weights: Floats = None  # type: ignore[assignment]

    if TYPE_CHECKING:  # fields are arrays, what is given makes them

        def __init__(
            self,
            positions: ArrayLike,
            signs: ArrayLike | None = None,
            weights: ArrayLike | None = None,
        ) -> None: ...

    def __post_init__(self):
        positions = np.atleast_2d(real_array(self.positions, "Positions"))
        n = len(positions)
        signs = np.ones(n) if self.signs is None else np.array(real_array(self.signs, "Signs"))
        weights = (
            np.full(n, 1.0 / n)
            if self.weights is None
            else np.array(real_array(self.weights, "Weights"))
        )
        if signs.shape != (n,) or weights.shape != (n,):
            raise ValueError(
                f"{n} positions need {n} signs and weights, got {signs.shape} and {weights.shape}."
            )
        if not (np.abs(signs) == 1.0).all():
            raise ValueError("Signs must be +1 or -1.")
        if not (np.isfinite(positions).all() and by_rows(np.logical_or, positions).all()):
            raise ValueError("Positions must be finite and not zero.")
        if not (np.isfinite(weights).all() and (weights >= 0.0).all()):
            raise ValueError("Weights must be finite and at least 0.")
        for name, value in (
            ("positions", directions(positions)),
            ("signs", signs),
            ("weights", weights),
        ):
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.positions)

    def _facts(self):
        atoms = f"{counted(len(self), 'atom')} on S^{self.positions.shape[1] - 1}"
        return {"atoms": atoms, "mass": f"mass {self.mass:.6g}"}

    @property
    def mass(self) -> float:
        """|ν| = Σ weight_j."""
        return float(self.weights.sum())

    def moment(self) -> Floats:
        """∫ ε θ dν, (d+1,)."""
        return (self.signs * self.weights) @ self.positions

    def sheet(self, sign: float) -> tuple[Floats, Floats]:
        """The atoms with one sign, positions and weights; both may be empty."""
        chosen = self.signs == sign
        return self.positions[chosen], self.weights[chosen]

    def part(self, chosen: NDArray[np.bool_] | Integers) -> "PointMeasure":
        """Some of the atoms: chosen by their numbers, or a truth value for each."""
        return PointMeasure(self.positions[chosen], self.signs[chosen], self.weights[chosen])

    def scaled_to(self, mass: float) -> "PointMeasure":
        """The same measure with another total mass."""
        return PointMeasure(self.positions, self.signs, self.weights / self.mass * mass)


@dataclass(frozen=True, eq=False, repr=False)
class DensityAndAtoms(Shown):
    """ν = density + atoms;  density : (n_signs, n_cells) on a mesh."""

    density: Floats
    atoms: PointMeasure

    def _facts(self):
        cells = np.shape(self.density)[-1]
        return {"density": f"a density on {cells} cells", **self.atoms._facts()}

    def as_atoms(self, mesh: Mesh, signs: tuple[int, ...]) -> PointMeasure:
        """All of it as atoms."""
        cells = atoms_of_density(mesh, signs, self.density)
        return PointMeasure(
            *(
                np.concatenate([getattr(part, name) for part in (cells, self.atoms)])
                for name in ("positions", "signs", "weights")
            )
        )


def with_each_sign(points: Floats, signs: Sequence[float]) -> tuple[Floats, Floats]:
    """The points (n, d+1) once with every sign, one sign after the other: positions (n_signs · n,
    d+1) and signs."""
    return np.tile(points, (len(signs), 1)), np.repeat(np.asarray(signs, dtype=float), len(points))


def atoms_of_points(points: Floats, signs: tuple[int, ...], weights: Floats) -> PointMeasure:
    """Weights (n_signs, n) on the same points (n, d+1) for every sign, as atoms: a negative weight
    turns the sign, zeros go."""
    weights = np.ravel(weights)
    alive = weights != 0.0
    positions, each = with_each_sign(points, signs)
    atom_signs = (each * np.where(weights < 0.0, -1.0, 1.0))[alive]
    return PointMeasure(positions[alive], atom_signs, np.abs(weights[alive]))


def atoms_of_density(mesh: Mesh, signs: tuple[int, ...], density: Floats) -> PointMeasure:
    """A density (n_signs, n_cells) as atoms at the cell centres with weight density × volume."""
    return atoms_of_points(mesh.centers, signs, density * mesh.volumes)


def sampled(
    rng: np.random.Generator, n: int, mesh: Mesh, signs: tuple[int, ...], density: Floats
) -> PointMeasure:
    """n independent draws of equal weight from a density (n_signs, n_cells) that is constant in
    each cell.

    A cell is drawn by its mass, then one of the simplices between its centre and its faces, then a
    point of that simplex. Raises ValueError for what is no density on the mesh, one without mass,
    and for a mesh without faces.
    """
    if not len(mesh.faces):
        raise ValueError(
            "Points are drawn within the cells of a sphere's mesh, got fixed features, whose cells"
            " are points. Draw some of mesh.centers."
        )
    density, shape = real_array(density, "Densities"), (len(signs), mesh.n_cells)
    if density.shape != shape:
        raise ValueError(
            f"The density must have the shape {shape}, (signs, cells), got {density.shape}. A sign"
            " without mass has a row of zeros."
        )
    if not (np.isfinite(density).all() and (density >= 0.0).all() and density.any()):
        raise ValueError(
            "The density must be finite, nonnegative and not zero everywhere, got"
            f" {density.min():.3g} to {density.max():.3g}."
        )
    cell, _, face, _ = half_faces(mesh)
    cell, corner, _, size = simplices(mesh, cell, face)
    corners = np.concatenate([mesh.centers[cell][:, None], mesh.vertices[corner]], axis=1)
    share = size * mesh.volumes[cell] / np.bincount(cell, size, mesh.n_cells)[cell]
    masses = (density[:, cell] * share).ravel()
    drawn = rng.choice(len(masses), size=n, p=masses / masses.sum())
    mixture = rng.dirichlet(np.ones(corners.shape[1]), size=n)
    points = np.einsum("nk,nka->na", mixture, corners[drawn % len(cell)])
    return PointMeasure(
        points,
        np.asarray(signs)[drawn // len(cell)],
        np.full(n, (density @ mesh.volumes).sum() / n),
    )


@dataclass(frozen=True, eq=False, repr=False)
class Units(Shown):
    """A two-layer network in raw parameters, h(x) = (1/m) Σ_j b_j φ(a_j, x).

    hidden : (m, p) input weights a_j;  output : (m,) output weights b_j
    """

    hidden: Floats
    output: Floats

    def _facts(self):
        return {"units": f"{counted(len(self.output), 'unit')} in R^{self.hidden.shape[1]}"}

    def __post_init__(self):
        hidden, output = (
            np.array(real_array(value, "Weights")) for value in (self.hidden, self.output)
        )
        if hidden.ndim != 2 or output.shape != hidden.shape[:1]:
            raise ValueError(
                f"hidden must be (m, p) and output (m,), got {hidden.shape} and {output.shape}."
            )
        object.__setattr__(self, "hidden", hidden)
        object.__setattr__(self, "output", output)

    def __len__(self) -> int:
        return len(self.output)

    @property
    def is_balanced(self) -> bool:
        """Whether |a_j| = |b_j| for every unit, up to rounding."""
        sizes = np.linalg.norm(self.hidden, axis=1)
        return bool(np.allclose(sizes, np.abs(self.output), rtol=SAME_SIZE, atol=0.0))

    def atoms(self, degree: int) -> PointMeasure:
        """The measure that predicts the same: Π₂, weight |b_j| |a_j|^degree / m at a_j/|a_j| with
        the sign of b_j.

        degree : of homogeneity of φ. For a balanced network of degree 1 the weight is |a_j|²/m =
            b_j²/m (Chizat & Bach 2020, eq. 3)
        """
        size = np.linalg.norm(self.hidden, axis=1)
        # a dead unit points anywhere
        directions = np.where(size[:, None] > 0.0, self.hidden, np.eye(1, self.hidden.shape[1]))
        return PointMeasure(
            directions,
            np.where(self.output < 0.0, -1.0, 1.0),
            np.abs(self.output) * size**degree / len(size),
        )

    @staticmethod
    def of(atoms: PointMeasure, degree: int, balance: float = 1.0) -> "Units":
        """The network of a measure, one unit for each atom; units(…).atoms(degree) gives the atoms
        back.

        With ρ_j² = m weight_j: |a_j| = ρ_j/√balance and b_j = ε_j ρ_j √balance for degree 1;
        |a_j| = ρ_j and b_j = ε_j for degree 2.
        """
        radius = np.sqrt(len(atoms) * atoms.weights)
        if degree == 1:
            return Units(
                radius[:, None] / np.sqrt(balance) * atoms.positions,
                atoms.signs * radius * np.sqrt(balance),
            )
        return Units(radius[:, None] * atoms.positions, atoms.signs)

    @staticmethod
    def gaussian(
        rng: np.random.Generator, m: int, p: int, degree: int, scale: float = 1.0
    ) -> "Units":
        """m units with independent entries N(0, scale²); with degree 2 the output weights are
        random signs."""
        hidden = scale * rng.standard_normal((m, p))
        return Units(
            hidden,
            scale * rng.standard_normal(m) if degree == 1 else rng.choice([-1.0, 1.0], size=m),
        )
