"""The [[energy]] tables of a case as terms of a Sum, and back."""

from collections.abc import Sequence
from typing import Any

from ..errors import CaseError
from ..objectives.energies import PARAMETERS, External, Interaction, Sum
from ..objectives.objective import Objective
from ..objectives.population import PopulationRisk


def with_energies(
    tables: Sequence[Any],
    data: Objective | PopulationRisk | None,
    axes: int,
    weight_decay: float = 0.0,
    entropy: float = 0.0,
) -> Sum:
    """The sum of a data risk, or None, and of the terms of [[energy]] tables.

    axes : coordinates of a point;  weight_decay, entropy : beside those of the data risk
    Raises CaseError, which names the table, for potentials and kernels that do not fit.
    """
    terms: list[Any] = [] if data is None else [data]
    for k, table in enumerate(tables):
        try:
            if table.kind == "entropy":
                entropy += table.temperature
            elif table.kind == "external":
                terms.append(External(table.potential))
                terms[-1].check(axes)
            else:
                parameters = {name: getattr(table, name) for name in PARAMETERS}
                terms.append(Interaction(table.kernel, table.strength, **parameters))
        except ValueError as error:
            raise CaseError(f"energy.{k}: {error}") from error
    try:
        return Sum(*terms, axes=axes, weight_decay=weight_decay, entropy=entropy)
    except ValueError as error:
        raise CaseError(f"energy: {error}") from error


def energy_tables(objective: Sum) -> list[dict[str, Any]]:
    """The tables of a sum's terms beside the data risk and the entropy. Raises CaseError for
    functions, which have no name."""
    tables: list[dict[str, Any]] = []
    terms: Any = *objective.external, *objective.interactions
    for term in terms:
        given = term.potential if isinstance(term, External) else term.kernel
        if not isinstance(given, str):
            raise CaseError(
                "A run folder knows potentials by formulas, and kernels by names or formulas, not"
                " by functions; take hkflow.solve."
            )
        tables.append(
            {"kind": "external", "potential": given}
            if isinstance(term, External)
            else {"kind": "interaction", "kernel": given, "strength": term.strength}
            | term.parameters
        )
    return tables
