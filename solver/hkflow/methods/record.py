"""What is known of a record besides its numbers."""

from dataclasses import dataclass

PLAIN, SCALED = "1", "e^log_scale"  # units of records


@dataclass(frozen=True)
class Record:
    """A number that is recorded while a run goes on.

    name : in files and in Python;  label, symbol : in tables and at axes
    meaning : one sentence
    unit : PLAIN, or SCALED for what is recorded in units of e^log_scale
    scale : of its axis: linear, symlog, or log where values are positive and differ by much
    panel : of the picture `records` that shows it; its own name if it has one to itself, "" if it
        is not shown
    compared : whether the table of several runs has a column of it
    """

    name: str
    label: str
    meaning: str
    symbol: str = ""
    unit: str = PLAIN
    scale: str = "linear"
    panel: str = ""
    compared: bool = False

    @property
    def axis(self) -> str:
        """Label and symbol."""
        return f"{self.label} {self.symbol}".rstrip()
