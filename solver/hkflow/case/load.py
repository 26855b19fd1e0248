"""From a TOML file and overrides to a checked Case; every fault is told at once, with its key
and line."""

import json
import os
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ..errors import CaseError, did_you_mean, printable
from ..files.userfiles import read_text
from ..shown import as_typed
from .aliases import current
from .lines import Lines, lines_of, placed, set_beside
from .schema.arrays import ProblemCase
from .schema.case import DEFAULT_KINDS, Case
from .schema.objective import ENERGIES
from .schema.tables import Table

Overrides = dict[str, Any] | None  # by dotted keys, or tables of them

TABLES = (".csv", ".npy", ".npz", ".parquet", ".tsv")  # endings of data files
OF_CASES = {"data", "objective", "energy", "domain", "flow", "time"}  # tables that no study has
MAX_CASE_BYTES = 2**26  # some million numbers: more belong into a data file
MAX_DIGITS = 300  # of an integer, which any float can follow; messages cannot show one of 4300
FRAMES = ("frame", "test_frame", "data.frame", "data.test_frame")  # keys that hold one
MAX_SHORT = 60  # letters of a value in a message
# what an accuracy chooses
CHOSEN = (("domain", "cells"), ("method", "particles"), ("method", "tolerance"))
MAX_DEPTH = 20  # of lists and tables in one another; a study needs seven


@dataclass(frozen=True)
class CaseFile:
    """A checked case, the text that it came from, the folder that its files are relative to, how
    messages call it, and the lines of its keys."""

    case: Case
    text: str
    folder: Path
    name: str
    source: str
    lines: Lines

    def placed(self, message: object) -> str:
        """A message about keys of the case, led by file and line."""
        return placed(message, self.source, self.lines)


def toml_of(case: Table) -> str:
    """A case with every default written out, as TOML that can be run again."""
    content = case.model_dump(mode="json", exclude_none=True)
    headed = []
    for name, value in list(content.items()):
        if isinstance(value, dict):
            headed.append((f"[{name}]", content.pop(name)))
        elif name == "energy":
            headed += [(f"[[{name}]]", table) for table in content.pop(name)]
    return "\n".join([_toml_keys(content), *(f"{top}\n{_toml_keys(t)}" for top, t in headed)])


def _toml_keys(table):
    """The keys of a table, a line each; tables within it in one line."""
    return "".join(f"{key} = {_toml_value(value)}\n" for key, value in table.items())


def _toml_value(value):
    """A text, number, truth value or list of them in TOML: its JSON, with one more character
    escaped; a list of tables by their keys."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key} = {_toml_value(one)}' for key, one in value.items())}}}"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return f"[{', '.join(map(_toml_value, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def load_case(path: str | Path, overrides: Overrides = None) -> CaseFile:
    """Read and check a case file. overrides: {"flow.noise": 0.01, "time": {"end": 3.0}, …}, checked
    like the file.

    Raises CaseError with all faults: file, line, key, what was got, what is allowed.
    """
    path = Path(path)
    text = read_toml(path)
    return parse_case(text, path.parent, path.stem, overrides, source=printable(path))


def read_toml(path: Path) -> str:
    """The text of a case or study file. Raises CaseError if it cannot be read or is no text."""
    if os.path.isdir(path):  # also of a name that no file can have
        typed = as_typed(path)
        ways = f" It holds a run: 'hkflow resume {typed}' or 'hkflow margin --from {typed}'."
        of_run = ways if (path / "run.json").is_file() else ""
        raise CaseError(f"{printable(path)}: is a folder, not a case or study file.{of_run}")
    if path.suffix.lower() in TABLES and path.is_file():
        raise CaseError(
            f"{printable(path)}: is a table, not a case or study file. Name it in a case file: data"
            f" = {{ source = 'file', file = '{printable(path.name)}', label = … }}."
        )
    try:
        return read_text(path, MAX_CASE_BYTES)
    except OSError as error:
        raise CaseError(f"{printable(path)}: cannot be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise CaseError(f"{printable(path)}: is not UTF-8 text (byte {error.start}).") from error


def plain_tables(value: Any) -> Any:
    """Tables with lists and numbers in the place of arrays, tuples, paths and numpy's numbers, and
    Columns in that of frames."""
    if isinstance(value, dict):
        return {
            str(key): _frame(inner) if key in FRAMES else plain_tables(inner)
            for key, inner in value.items()
        }
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [plain_tables(inner) for inner in value]
    return str(value) if isinstance(value, Path) else value


def _frame(value):
    from .columns import Columns  # for which numpy is loaded

    return None if value is None else Columns.of(value)


def case_of_tables(tables: dict, overrides: Overrides = None) -> CaseFile:
    """The CaseFile of the tables of a case, {"data": {…}, …}; its files are relative to the current
    folder."""
    file = _checked(plain_tables(tables), "", Path(), "case", overrides, "the case")
    return replace(file, text=toml_of(file.case))


def parse_case(
    text: str,
    folder: str | Path,
    name: str,
    overrides: Overrides = None,
    source: str = "case",
) -> CaseFile:
    """Check the text of a case file; `source` is how messages call it."""
    return _checked(parse_toml(text, source), text, folder, name, overrides, source)


def parse_stored_case(text: str, source: str) -> Case | ProblemCase:
    """The case that a run folder tells of: a Case, or the ProblemCase of one made in Python."""
    tables = parse_toml(text, source)
    refuse_unfit(tables, source)
    tables = _as_read_today(current(tables, source, warn=False))
    if tables.get("data") != {"source": "arrays"}:
        return _checked(tables, text, ".", "", None, source).case
    return ProblemCase.model_validate(tables)


def _checked(tables, text, folder, name, overrides, source):
    """The CaseFile of tables and overrides."""
    overrides = plain_tables(overrides or {})
    refuse_unfit(overrides, set_beside(source))
    refuse_unfit(tables, source)
    if text and "case" in tables and not OF_CASES & tables.keys():
        raise CaseError(f"{source}: is a study, not a case: hkflow study {as_typed(source)}")
    tables = current(tables, source, text)
    overrides = current(overrides, set_beside(source))
    for key, value in sorted(overrides.items(), key=lambda item: not _chooses_kind(*item)):
        _override(tables, key.split("."), value)
    _leave_to_accuracy(tables, overrides)
    refuse_unfit(tables, source)
    lines = _without_replaced(lines_of(text, overrides), tables)
    try:
        return CaseFile(Case.model_validate(tables), text, Path(folder), name, source, lines)
    except ValidationError as error:
        raise CaseError(placed(sentences(error, Case), source, lines)) from None


def _without_replaced(lines, tables):
    """Lines where a table whose kind an override chooses, and what of the text went with the old
    kind, are set elsewhere."""
    for table, field in UNIONS.items():
        if lines.get(f"{table}.{field}") == 0:
            kept = {f"{table}.{key}" for key in tables[table]}
            keys = (key for key in lines if key == table or key.startswith(f"{table}."))
            gone = [key for key in keys if ".".join(key.split(".")[:2]) not in kept]
            lines |= dict.fromkeys(gone, 0)
    return lines


def parse_override(text: str) -> tuple[str, Any]:
    """Split "flow.noise=0.01" into ("flow.noise", 0.01): the value is read as TOML, or as text if
    it is not TOML."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise CaseError(f"--set {text}: wanted KEY=VALUE, for example --set flow.noise=0.01.")
    try:
        return key.strip(), _loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()
    except ValueError as error:
        raise CaseError(f"--set {key.strip()}: {error}.") from error


def parse_toml(text: str, source: str | Path) -> dict[str, Any]:
    """The tables of a TOML text. Raises CaseError, which begins with `source`, if it is none."""
    try:
        return _loads(text)
    except ValueError as error:
        raise CaseError(f"{source}: not valid TOML: {error}.") from error


def _loads(text):
    """tomllib.loads, whose failures are all ValueErrors: TOMLDecodeError, or another for sizes that
    it is not made for."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("too many lists or tables in one another") from None
    except tomllib.TOMLDecodeError:
        raise
    except ValueError as error:
        raise ValueError(str(error).partition(";")[0]) from error


def _as_read_today(tables):
    """A stored case less what former versions wrote of descents, which do not read it."""
    method = tables.get("method")
    if not isinstance(method, dict) or method.get("training") not in ("gradient-descent", "sgd"):
        return tables
    unread = ("stepper", "tolerance", "max_step")
    return tables | {"method": {key: method[key] for key in method if key not in unread}}


def refuse_unfit(tables: dict, source: str | Path) -> None:
    """Raise CaseError for what TOML can write and nothing can keep: NUL in a text, endless
    integers, endless nesting."""
    if found := _unfit(tables, 0):
        keys, what = found
        raise CaseError(f"{source}: {'.'.join(map(printable, keys[:4]))}: {what}.")


def _unfit(value, depth):
    """Keys that lead to something unfit and what that is, or None."""
    if isinstance(value, str):
        return ((), "text must not hold the character NUL") if "\0" in value else None
    if isinstance(value, int):
        return (
            ((), f"an integer of more than {MAX_DIGITS} digits")
            if abs(value) >= 10**MAX_DIGITS
            else None
        )
    if not isinstance(value, dict | list):
        return None
    if depth == MAX_DEPTH:
        return (), f"more than {MAX_DEPTH} lists or tables in one another"
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if found := _unfit(inner, depth + 1):
            return (key, *found[0]), found[1]
    return None


def _chooses_kind(key, value):
    """Whether an override chooses the kind of a table; such overrides come first."""
    table, _, field = key.partition(".")
    return table in UNIONS and (
        field == UNIONS[table] or isinstance(value, dict) and UNIONS[table] in value
    )


def _override(tables, keys, value):
    """Set one key, or a table of keys, in place. A table that becomes of another kind starts
    afresh."""
    if isinstance(value, dict) and len(keys) == 1 and _chooses_kind(keys[0], value):
        value = {UNIONS[keys[0]]: value[UNIONS[keys[0]]]} | value
    if len(keys) == 2 and UNIONS.get(keys[0]) == keys[1]:
        table = tables.get(keys[0])
        if isinstance(table, dict) and table.get(keys[1], DEFAULT_KINDS.get(keys[0])) != value:
            tables[keys[0]] = {}
    path = ".".join(keys)
    for key in keys[:-1]:
        listed = isinstance(tables, list)
        tables = _nth(tables, key, path) if listed else tables.setdefault(key, {})
        if not (isinstance(tables, dict) or key == "energy" and isinstance(tables, list)):
            raise CaseError(f"{'.'.join(keys)}: '{key}' is not a table.")
    if isinstance(value, dict):
        for key, inner in value.items():
            _override(tables, [keys[-1], key], inner)
        # a kind and rates in one override: for the schema to refuse
        if path == "flow" and {"kind", *RATES} & value.keys() > {"kind"}:
            tables["flow"] |= {key: value[key] for key in ("kind", *RATES) if key in value}
    elif isinstance(tables, list):
        _nth(tables, keys[-1], path)
        raise CaseError(f"{path}: wanted a table, got {printable(value)!r}.")
    else:
        tables[keys[-1]] = value
        for rival in _rivals(path, tables):
            tables.pop(rival, None)


def _leave_to_accuracy(tables, overrides):
    """An accuracy in an override takes the places of what it chooses, unless these are overridden
    as well, which the schema refuses."""

    def given(table, key):
        inner = overrides.get(table)
        return overrides.get(f"{table}.{key}", inner.get(key) if isinstance(inner, dict) else None)

    if given("method", "accuracy") is not None:
        for table, key in CHOSEN:
            if isinstance(tables.get(table), dict) and given(table, key) is None:
                tables[table].pop(key, None)


def _rivals(path, table):
    """Keys whose places a key takes: a kind of flow those of its rates, both rates that of a
    kind."""
    if path == "flow.kind":
        return RATES
    if path in ("flow.transport", "flow.reaction") and RATES[0] in table and RATES[1] in table:
        return ("kind",)
    return _RIVALS.get(path, ())


def _nth(tables, key, path):
    """The table of a number in a list of tables."""
    if not (key.isdigit() and int(key) < len(tables)):
        raise CaseError(f"{path}: '{key}' is not a number from 0 to {len(tables) - 1}.")
    return tables[int(key)]


def sentences(error: ValidationError, model: type[Table]) -> str:
    """The faults that pydantic found in the tables of a model, a line each; of a value that may be
    of several types those of its own, or of what is in it."""
    faults = [(fault, _place(fault)) for fault in error.errors()]
    known = {place for fault, place in faults if not fault["type"].endswith("_type")}
    around = {place[:k] for _, place in faults for k in range(len(place) - 1)}
    return "\n".join(
        _sentence(fault, model)
        for fault, place in faults
        if not (fault["type"].endswith("_type") and (place in known or place[:-1] in around))
    )


def _place(fault):
    """The keys that lead to what a fault is about, and what it is."""
    whole = fault["loc"]
    found = [part for k, part in enumerate(whole) if not _is_tag(k, part, whole)]
    return (*found, repr(fault["input"]))


def _sentence(fault, model):
    """One fault of pydantic's list as a sentence that names the key, what was got and what is
    allowed."""
    *location, _ = _place(fault)
    key = ".".join(map(printable, location)) or "the case"
    context, kind = fault.get("ctx", {}), fault["type"]
    if kind == "extra_forbidden":
        choices = _keys_at(fault["loc"][:-1], model)
        return (
            f"{key}: unknown key.{did_you_mean(location[-1], choices)} Allowed:"
            f" {', '.join(choices)}."
        )
    if kind == "missing":
        return f"{key}: is missing."
    if kind == "union_tag_not_found":
        return (
            f"{key}.{context['discriminator'].strip(chr(39))}: is missing. Choose from:"
            f" {_tags(fault['loc'])}."
        )
    if kind == "union_tag_invalid":
        hint = did_you_mean(context["tag"], _tags(fault["loc"]).split(", "))
        field = context["discriminator"].strip("'")
        return (
            f"{key}.{field}: unknown value {_short(context['tag'])}.{hint} Choose from:"
            f" {_tags(fault['loc'])}."
        )
    if kind == "literal_error":
        choices = context["expected"].replace("'", "").replace(" or ", ", ").split(", ")
        hint = did_you_mean(fault["input"], choices)
        return (
            f"{key}: unknown value {_short(fault['input'])}.{hint} Choose from:"
            f" {', '.join(choices)}."
        )
    if kind == "too_short":
        return f"{key}: wanted {context['min_length']} or more, got {_short(fault['input'])}."
    if kind == "value_error":  # that of the whole case names its keys itself
        said = str(context["error"]).rstrip(".")
        return f"{key}: {said}." if location else f"{said}."
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        return f"{key}: must be a table, got {_short(fault['input'])}."
    message = fault["msg"].replace("Input should be", "must be")
    return f"{key}: {message}, got {_short(fault['input'])}."


# of which one given in an override takes the other's place
_RIVALS = {"time.end": ("steps",), "time.steps": ("end",)}
RATES = ("transport", "reaction")
UNIONS = {"data": "source", "initial": "kind", "method": "kind"}


def _models(table):
    """The models that may stand at a table with a discriminator, by its value."""
    if table == "energy":
        return ENERGIES
    annotation = Case.model_fields[table].annotation
    field = UNIONS[table]
    return {
        kind: model
        for model in annotation.__args__
        for kind in model.model_fields[field].annotation.__args__
    }


def keys_of(table: str, kind: Any) -> set[str]:
    """The keys that a table of a kind has; none of an unknown kind."""
    model = _models(table).get(kind) if isinstance(kind, str) else None
    return set(model.model_fields) if model else set()


def _tags(location):
    known = location and location[0] in (*UNIONS, "energy")
    return ", ".join(_models(location[0])) if known else ""


def _is_tag(place, part, location):
    """Whether a part of pydantic's path, with its place in it, is the value of a discriminator or
    the type of a union, not a key."""
    if not isinstance(part, str) or part == location[0]:
        return False
    if location[0] in UNIONS and place == 1:
        return part in _models(location[0])
    if location[0] == "energy" and place == 2:
        return part in ENERGIES
    return part in ("int", "str", "bool", "float") or part.startswith(("list[", "constrained-"))


def _keys_at(location, model):
    """The keys allowed in the table at a pydantic path."""
    if location:
        annotation = Case.model_fields[location[0]].annotation
        # the first of a table that may be absent
        model = next(iter(getattr(annotation, "__args__", ())), annotation)
        if location[0] in UNIONS:
            model = _models(location[0]).get(location[1] if len(location) > 1 else None, Case)
        if location[0] == "energy":
            model = ENERGIES[location[2]]
    return list(model.model_fields)


def _short(value):
    text = repr(value)
    return text if len(text) <= MAX_SHORT else text[: MAX_SHORT - 1] + "…"
