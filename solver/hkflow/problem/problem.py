"""A problem: which measure flows, on what, driven by what."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ..arguments import Floats, real_array
from ..geometry.domain import Domain
from ..geometry.mesh import Mesh
from ..measures.initial import BalancedUnits, CellDensity, atoms_on_mesh
from ..measures.point_measure import DensityAndAtoms, PointMeasure, Units, atoms_of_density
from ..objectives.objective import Objective
from ..operators.ranks import Alone
from ..shown import Shown
from .exact import MomentFlow
from .flow import Flow

if TYPE_CHECKING:
    from ..objectives.population import PopulationRisk
    from ..objectives.protocol import ObjectiveProtocol

TRIED = 64  # atoms at which their density is tried


@dataclass(frozen=True, eq=False, repr=False)
class Problem(Shown):
    """The flow of a measure, see Flow for its equation, on a sphere, signed sphere or atoms, from
    an initial measure.

    mesh : cells on S^d, or atoms, or None if the initial measure is made of particles or of the
        units of a network
    objective : F, whose first variation is J; θ has objective.axes = d+1 coordinates
    flow : α, β, σ, mobility, normalisation
    signs : (1,) for the sphere, (1, −1) for the signed sphere
    initial : with a mesh (n_signs, n_cells) mass per unit area, the uniform probability if not
        given, or DensityAndAtoms, whose atoms are such that kinks have captured, or a function as
        `density`, taken at the centres; without one, a PointMeasure or the Units of a network. Of a
        flow of depth 1 the density may be negative
    exact : closed-form solution, if there is one
    draw : function (numpy Generator, n) -> inputs (n, d+1), targets (n,) for methods that train on
        fresh data; if not given they draw from the objective's data
    density : function (points (n, d+1), sign) -> (n,) mass per unit area, where the initial density
        is known at every point; of an initial measure on a mesh, that of the cell is taken if not
        given. Run folders know a function of a module by its name
    test : objective on held-out data, whose loss and error are recorded; nothing else depends on it
    prepare : function (raw rows or a frame) -> inputs (n, dim) without the bias, as the objective's
        are; None where raw inputs are taken as they are
    Raises ValueError if the shapes do not fit together or the initial measure is not a measure on
    the domain.
    """

    mesh: Mesh | None
    objective: Objective
    flow: Flow
    signs: tuple = (1,)
    initial: Floats | DensityAndAtoms | PointMeasure | Units | Callable = None  # type: ignore[assignment]  # there once made
    exact: MomentFlow | None = None
    draw: Callable | None = None
    density: Callable | None = None
    prepare: Any = None
    test: Objective | None = None

    if TYPE_CHECKING:  # what stands in for an Objective is one in the fields

        def __init__(
            self,
            mesh: Mesh | None,
            objective: ObjectiveProtocol | PopulationRisk,
            flow: Flow,
            signs: tuple[int, ...] = (1,),
            initial: ArrayLike | DensityAndAtoms | PointMeasure | Units | Callable | None = None,
            exact: MomentFlow | None = None,
            draw: Callable | None = None,
            density: Callable | None = None,
            prepare: Any = None,
            test: ObjectiveProtocol | None = None,
        ) -> None: ...

    def __post_init__(self):
        self._check_flow()
        if self.test is not None and self.test.inputs.shape[1] != self.objective.inputs.shape[1]:
            raise ValueError(
                f"The test data have {self.test.inputs.shape[1]} columns, the data"
                f" {self.objective.inputs.shape[1]} (bias included)."
            )
        if callable(self.initial):
            self._take_function(self.initial)
        if self.mesh is None:
            self._check_atoms()
        else:
            self._check_on_mesh()

    def _take_function(self, function):
        """Set the initial density to that of a function."""
        if self.mesh is None:
            raise ValueError(
                "A function as the initial measure needs a mesh. Without one give a PointMeasure,"
                " and the function as `density`."
            )
        # points of its own, which it may change
        values = [function(self.mesh.centers.copy(), sign) for sign in self.signs]
        if any(np.shape(value) not in ((), (self.mesh.n_cells,)) for value in values):
            raise ValueError(
                f"The initial density at {self.mesh.n_cells} points must have the shape"
                f" ({self.mesh.n_cells},), got {[np.shape(value) for value in values]}."
            )
        cells = [np.broadcast_to(value, self.mesh.n_cells) for value in values]
        object.__setattr__(self, "initial", real_array(cells, "Initial densities"))
        if self.density is None:
            object.__setattr__(self, "density", function)

    def _check_flow(self):
        flow = self.flow
        if self.domain.fixed and flow.moves:
            raise ValueError(
                "Atoms have no neighbours, so nothing moves: transport must be 0, got"
                f" {flow.transport:g}. Choose the flow hellinger, spherical-hellinger, diagonal or"
                " output-layer, or the domain sphere."
            )
        if self.objective.entropy > 0.0 and flow.depth != 2.0:
            raise ValueError(
                f"Entropy is for the mobility ν, depth 2, got depth {flow.depth:g}: make"
                " objective.entropy 0."
            )
        if flow.signed and self.objective.weight_decay > 0.0:
            raise ValueError(
                "A signed density (depth 1) has no weight decay λ|ν|: weight_decay must be 0."
            )
        if flow.time_variable == "margin" and self.objective.risk.scaled is None:
            data = getattr(self.objective, "data", self.objective)
            if data is not self.objective and data and data.risk.scaled is not None:
                raise ValueError(
                    "The time variable 'margin' runs by the smooth margin −F, but F has energies"
                    " beside the data. Choose the time variable 'time', or leave them out."
                )
            raise ValueError(
                "The time variable 'margin' runs by the smooth margin −F, but the risk is"
                f" '{self.objective.risk.name}'. Choose the loss smooth-margin or"
                " smooth-logistic-margin, or the clock time."
            )
        if self.objective.feature.joint and tuple(self.signs) != (1,):
            raise ValueError(
                f"'{self.objective.feature.name}' has its output weight in θ: it wants signs=(1,),"
                " in a case domain.kind = 'sphere'."
            )

    def _check_atoms(self):
        if not isinstance(self.initial, PointMeasure | Units):
            raise ValueError(
                "A problem without a mesh needs a PointMeasure or Units as its initial measure."
            )
        atoms = self.atoms()
        self._check_columns(atoms.positions.shape[1])
        self._check_signs(atoms)
        if isinstance(self.initial, PointMeasure) and not atoms.mass > 0.0:
            raise ValueError("The initial atoms have no mass.")

    def _check_on_mesh(self):
        try:
            self.mesh.check()
        except ValueError as error:
            raise ValueError(f"This is no mesh of a sphere: {error}.") from error
        self._check_columns(self.mesh.dim + 1)
        if isinstance(self.initial, PointMeasure | Units):
            raise ValueError(
                "On a mesh the initial measure is a density, got a"
                f" {type(self.initial).__name__}. Take no mesh, None in its place; or give points"
                " beside a density, or on fixed features, as DensityAndAtoms(density, points)."
            )
        shape = (len(self.signs), self.mesh.n_cells)
        density, atoms = self.initial_parts
        density = (
            np.full(shape, self.uniform)
            if density is None
            else real_array(density, "Initial densities")
        )
        try:
            density = np.array(np.broadcast_to(density, shape), order="C")
        except ValueError as error:
            raise ValueError(
                f"The initial density must have the shape {shape}, (signs, cells), or one that"
                f" NumPy makes it of, got {density.shape}. That of another problem is on the mesh"
                " of that: a function (points, sign) -> densities fits every mesh."
            ) from error
        signed, mass = self.flow.signed, 0.0 if atoms is None else atoms.mass
        if (
            not np.isfinite(density).all()
            or not signed
            and not ((density >= 0.0).all() and (density.any() or mass > 0.0))
        ):
            raise ValueError(
                "The initial density must be finite, nonnegative and not zero everywhere, got"
                f" {density.min():.3g} to {density.max():.3g}."
            )
        if atoms is not None:
            self._check_signs(atoms)
        beside = mass > 0.0 and not self.domain.fixed
        if mass > 0.0 and not beside:
            density += atoms_on_mesh(self.mesh, self.signs, atoms)
        initial = DensityAndAtoms(density, atoms) if beside else density
        object.__setattr__(self, "initial", initial)

    def _check_signs(self, atoms):
        if not np.isin(atoms.signs, self.signs).all():
            raise ValueError(
                "The initial atoms have the sign -1, the domain has +1 only; use signs=(1, -1)."
            )

    def _check_columns(self, axes):
        wanted = self.objective.axes
        if wanted != axes:
            if not len(self.objective.inputs):
                raise ValueError(
                    f"The objective has points of R^{wanted} (axes = {wanted}), but the sphere lies"
                    f" in R^{axes}."
                )
            columns, feature = self.objective.inputs.shape[1], self.objective.feature
            joint = f", and '{feature.name}' has an output weight besides" if feature.joint else ""
            raise ValueError(
                f"Inputs have {columns} columns (bias included){joint}, but the sphere lies in"
                f" R^{axes}."
            )

    def _facts(self):
        signs = " with both signs" if len(self.signs) == 2 else ""
        return {
            "flow": self.flow.equation,
            "objective": ", ".join(self.objective._facts().values())
            if isinstance(self.objective, Shown)
            else type(self.objective).__name__,
            "domain": f"on {self.domain.name}{signs}",
            "start": f"from {self._start()}",
        }

    def _start(self):
        """The initial measure in words."""
        if self.mesh is None:
            if isinstance(self.initial, Units):
                return f"{len(self.initial.hidden)} units"
            return f"{len(self.initial)} points"
        beside = f" and {len(atoms)} points" if (atoms := self.initial_parts[1]) else ""
        return f"a density on {self.mesh.n_cells} cells{beside}"

    def with_own_flow(self) -> "Problem":
        """Itself, or, where rates vary, a copy whose flow is its own."""
        flow = self.flow.own()
        if flow is self.flow:
            return self
        problem = copy(self)
        object.__setattr__(problem, "flow", flow)
        return problem

    def distributed(self, ranks: Alone) -> "Problem":
        """The same problem, whose sums over pairs are shared out between ranks: hkflow.ranks(), all
        of which must solve it."""
        problem, objective = copy(self), copy(self.objective)
        object.__setattr__(objective, "ranks", ranks)
        object.__setattr__(problem, "objective", objective)
        return problem

    @property
    def domain(self) -> Domain:
        """On which space the measure lives; cells without faces are fixed features."""
        fixed = self.mesh is not None and len(self.mesh.faces) == 0
        return Domain(self.dim, tuple(self.signs), fixed)

    @property
    def spreads(self) -> bool:
        """Whether atoms do not stay atoms."""
        return self.flow.noise > 0.0 or self.objective.entropy > 0.0

    @property
    def dim(self) -> int:
        """Dimension d of the sphere."""
        return self.objective.axes - 1

    @property
    def output_signs(self) -> tuple[int, ...]:
        """The output signs that its measures can have: both where densities are signed."""
        return (1, -1) if self.flow.signed else self.signs

    @cached_property
    def uniform(self) -> float:
        """Density of U, the uniform probability on the domain: one over its area."""
        area = self.domain.area if self.mesh is None else self.mesh.volumes.sum()
        return 1.0 / (len(self.signs) * area)

    @property
    def class_names(self) -> list[str]:
        """Names of the classes 0 … k − 1 where there is an output for each; [] of other targets."""
        if not self.objective.risk.coupled:
            return []
        names = getattr(self.prepare, "classes", None)
        return names or [str(k) for k in range(self.objective.feature.outputs)]

    @property
    def reference(self) -> float:
        """Density of τ, by which the mobility τ (ν/τ)^(2 − 2/D) of a flow of another depth than 2
        is meant."""
        return 1.0 if self.domain.fixed else self.uniform

    @property
    def has_density(self) -> bool:
        """Whether the initial measure has a density that is known."""
        return self.mesh is not None or self.density is not None

    def initial_density(self, points: Floats, sign: float) -> Floats:
        """The initial density of an output sign at points (n, d+1), (n,) mass per unit area.

        Raises ValueError if the initial measure is known as atoms alone, and where a function gives
        what is no density.
        """
        if self.density is not None:
            found = real_array(self.density(points.copy(), sign), "Initial densities")
            if found.shape not in ((), (len(points),)):
                raise ValueError(
                    f"The initial density at {len(points)} points must have the shape"
                    f" ({len(points)},), got {found.shape}."
                )
            # in many dimensions that of a probability is beyond numbers, and inf
            if np.isnan(found).any() or not (self.flow.signed or found.min(initial=0.0) >= 0.0):
                raise ValueError(
                    "The initial density must be nonnegative numbers, got"
                    f" {found.min():.3g} to {found.max():.3g}."
                )
            return np.full(len(points), found)
        if self.mesh is None:
            raise ValueError(
                "The initial measure is made of atoms, whose density nobody knows: start from a"
                " mesh, or make the problem with density = function (points, sign) -> mass per unit"
                " area."
            )
        return CellDensity(self.mesh, self.initial_parts[0], self.signs)(points, sign)

    def check_density(self) -> None:
        """Raise ValueError unless what is said to be the density of initial atoms is one, tried at
        some of them."""
        known = self.density is None or isinstance(self.density, BalancedUnits)  # which has none
        if self.mesh is None and not known:
            for sign in self.signs:
                self.initial_density(self.atoms().positions[:TRIED], sign)

    @property
    def initial_parts(self) -> tuple[Any, PointMeasure | None]:
        """Of an initial measure on a mesh: its density (n_signs, n_cells), and the atoms beside it
        if there are any."""
        if isinstance(self.initial, DensityAndAtoms):
            return self.initial.density, self.initial.atoms
        return self.initial, None

    def atoms(self) -> PointMeasure:
        """The initial measure as atoms: those given, a network's, or one at each cell centre."""
        initial: Any = self.initial  # a function no more
        return self.atoms_of(initial)

    def atoms_of(self, measure: Floats | DensityAndAtoms | PointMeasure | Units) -> PointMeasure:
        """A measure as atoms: a PointMeasure as it is, the Units of a network, or a density
        (n_signs, n_cells) on the mesh."""
        if isinstance(measure, PointMeasure):
            return measure
        if isinstance(measure, DensityAndAtoms):
            return measure.as_atoms(self.mesh, self.signs)  # type: ignore[arg-type]
        if isinstance(measure, Units):
            return measure.atoms(self.objective.feature.degree or 0)
        return atoms_of_density(self.mesh, self.signs, measure)  # type: ignore[arg-type]
