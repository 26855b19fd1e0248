"""What the method of characteristics records besides its particles."""

from ..record import Record

RECORDS = (
    Record("crossings", "crossings", "Kinks that particles have crossed since the start."),
    Record("captures", "captures", "Times since the start that a kink has caught a particle."),
    Record("releases", "releases", "Times since the start that a kink has let a particle go."),
    Record("held", "held", "Share of the mass that slides along kinks."),
)
