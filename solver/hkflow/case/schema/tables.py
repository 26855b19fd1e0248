"""What all tables of a case file are made of."""

from collections.abc import Iterable
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

LARGEST = 10**9  # of what is counted: far beyond any machine, and no overflow
Count = Annotated[int, Field(ge=1, le=LARGEST)]
Positive = Annotated[float, Field(gt=0.0)]
NonNegative = Annotated[float, Field(ge=0.0)]
Label = str | bool | int | float
Vector = Annotated[list[float], Field(min_length=1)]


class Table(BaseModel):
    """A table of a case file: unknown keys, wrong types, nan and inf are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


def given_keys(table: Table, keys: Iterable[str]) -> list[str]:
    """Those keys of a table that are not at their defaults."""
    return [key for key in keys if getattr(table, key) != type(table).model_fields[key].default]


def refuse_unread(table: Table, unread: bool, reader: str, *keys: str) -> None:
    """Raise ValueError if keys were given that nothing would read."""
    given = given_keys(table, keys)
    if unread and given:
        raise ValueError(f"{reader} {', '.join(repr(key) for key in given)}; leave it out")
