"""What grids alone record."""

from ..record import SCALED, Record

RECORDS = (
    Record("minimum_density", "min ν", "Smallest density of all cells.", unit=SCALED),
    Record("captured", "captured", "Share of the mass that kinks have captured."),
    Record(
        "minimum_potential", "min J",
        "Smallest potential of all cells; with the stepper `muscl-hancock` of the mean potential of"
        " the last step, as are the effective data, the dual value and slackness.",
    ),
    Record(
        "gap_bound", "gap bound", "Upper bound of F − F* (Wei et al. 2019, eq. E.13).", unit=SCALED
    ),
)  # fmt: skip
