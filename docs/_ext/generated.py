"""Reference pages that are made from the program itself: keys of case and study files from their
schema, commands from the parser, records from their registry, names from the stubs.

Each is a text that a page includes; `write` puts them into docs/_generated before pages are read.
"""

import ast
import importlib
import inspect
from pathlib import Path

HERE = Path(__file__).parent
INTO = HERE.parent / "_generated"
SOURCE = HERE.parent.parent / "solver" / "hkflow"

# names of hkflow by what one does with them; names that are in no group follow as "Others"
GROUPS = {
    "Run and read": "run solve steps resume check load error_bars study compare",
    "Results": "Run Solution ErrorBars",
    "Estimators of scikit-learn": "WideNetworkClassifier WideNetworkRegressor",
    "Problems": "Problem Flow named_flow Domain Mesh circle_mesh geodesic_mesh geodesic_level"
    " atoms_mesh MomentFlow restarted reseeded",
    "Objectives": "Objective PopulationRisk Sum External Interaction Feature FEATURES ridge"
    " vector_feature Risk RISKS SOFTMAX with_bias cluster_grid xor",
    "Measures": "PointMeasure DensityAndAtoms Units sampled balanced_atoms quasi_uniform"
    " random_uniform",
    "Looking on": "observe Observer State",
    "Files for other programs": "export pack to_xarray",
    "Methods": "FiniteVolume Characteristics Particles Network",
    "Studies and papers": "convergence_table mean_and_band reproduce figures Claim StudyProgress",
    "Errors and machines": "HkflowError CaseError RunFolderError ranks",
}
# what functions return and users hold, though they import neither
HELD = {"Run": "hkflow.store.run.Run", "State": "hkflow.solving.observer.State"}


def case_file():
    """All tables of a case file, every key with type, default, choices and meaning."""
    from hkflow.case.schema.case import Case

    return "\n".join(_tables(Case.model_json_schema(), "A case"))


def study_file():
    """The same of study files."""
    from hkflow.studies.file import StudyTable

    return "\n".join(_tables(StudyTable.model_json_schema(), "A study"))


def _tables(schema, top):
    """The top level, then each table, one for each of its kinds."""
    models = schema.get("$defs", {})
    yield f"## {top}\n"
    yield from _keys(schema, models)
    for name, key in schema["properties"].items():
        if kinds := _kinds(key):
            chooser = kinds["discriminator"]["propertyName"]
            shown = name if kinds is key else f"[{name}]"
            yield f"\n## [{name}]\n"
            for one in kinds["oneOf"]:
                model = models[one["$ref"].rpartition("/")[2]]
                names = model["properties"][chooser]
                kind = '" or "'.join(names.get("enum") or [names["const"]])
                yield f'\n### `[{shown}] {chooser} = "{kind}"`\n'
                yield _sentence(model["description"]) + "\n"
                yield from _keys(model, models, leave=chooser)
        elif model := _model(key, models):
            yield f"\n## [{name}]\n\n{_sentence(model['description'])}\n"
            yield from _keys(model, models)


def _kinds(key):
    """The kinds that a table has by a key of its own, or each table of a list; None if none."""
    items = (one.get("items", {}) for one in key.get("anyOf", ()))
    return next((one for one in (key, *items) if "discriminator" in one), None)


def choosers(schema):
    """{name of a table's model: the key that chooses it}, which is in its heading."""
    return {
        one["$ref"].rpartition("/")[2]: kinds["discriminator"]["propertyName"]
        for kinds in map(_kinds, schema["properties"].values())
        if kinds
        for one in kinds["oneOf"]
    }


def _keys(model, models, leave=""):
    """A table of the keys of a model."""
    required, properties = model.get("required", ()), dict(model["properties"])
    properties.pop(leave, None)
    if not properties:
        yield "No further keys."
        return
    yield "| key | value | default | meaning |\n| --- | --- | --- | --- |"
    for name, key in properties.items():
        kinds = _kinds(key)
        tables = kinds or _model(key, models)
        default = "required" if name in required else "" if tables else _default(key)
        many = "tables" if kinds not in (key, None) else "table"
        value = f"{many} [`[{name}]`](#{name})" if tables else _value(key)
        meaning = key.get("description", "")
        yield f"| `{name}` | {value} | {default} | {_cell(meaning)} |"


def _model(key, models):
    """The model that a key refers to, if it is a table."""
    for one in (key, *key.get("anyOf", ()), *key.get("allOf", ())):
        if "$ref" in one:
            return models[one["$ref"].rpartition("/")[2]]
    return None


def _default(key):
    default = key.get("default")
    if default is None:
        return "none"
    if default == "":
        return "empty"
    shown = str(default).lower() if isinstance(default, bool) else default
    return f'`"{shown}"`' if isinstance(default, str) else f"`{shown}`"


def _value(key):
    """A type with its bounds, or the choices, in words."""
    if "enum" in key:
        return ", ".join(
            f'`"{choice}"`' if isinstance(choice, str) else f"`{choice}`" for choice in key["enum"]
        )
    if "const" in key:
        return f'`"{key["const"]}"`'
    if "anyOf" in key or "oneOf" in key:
        parts = [
            _value(one) for one in key.get("anyOf", key.get("oneOf")) if one.get("type") != "null"
        ]
        return " or ".join(dict.fromkeys(parts))
    if key.get("pattern") == ":":
        return '`"module:function"`'
    kind = key.get("type")
    if kind == "array":
        return f"list of {_value(key.get('items', {}))}"
    if kind == "object":
        inner = key.get("additionalProperties")
        return f"table of {_value(inner)}" if isinstance(inner, dict) and inner else "table"
    words = {
        "integer": "integer",
        "number": "number",
        "string": "text",
        "boolean": "`true` or `false`",
    }
    return words.get(kind, "any value") + _bounds(key)


def _bounds(key):
    lower, upper = key.get("minimum"), key.get("maximum")
    above, below = key.get("exclusiveMinimum"), key.get("exclusiveMaximum")
    parts = [f"≥ {lower:g}"] if lower is not None else []
    parts += [f"> {above:g}"] if above is not None else []
    # bounds that only keep numbers within the machine's say nothing
    parts += [f"≤ {upper:g}"] if upper is not None and upper < 1e6 else []
    parts += [f"< {below:g}"] if below is not None and below < 1e6 else []
    return " " + ", ".join(parts) if parts else ""


def _cell(text):
    """A text as the cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")


def _sentence(text):
    return " ".join(text.split()).replace("*", "\\*")


def commands():
    """All commands with their arguments and options, as the parser has them."""
    import typer

    from hkflow.app.cli import app

    group = typer.main.get_command(app)
    return "\n".join(
        line for name, command in group.commands.items() for line in _command(name, command)
    )


def _command(name, command):
    import click

    context = click.Context(command, info_name=f"hkflow {name}")
    usage = " ".join(piece.strip("{}") for piece in command.collect_usage_pieces(context))
    yield f"\n## hkflow {name}\n\n{_sentence(command.help or '')}\n"
    yield f"```text\nhkflow {name} {usage}\n```\n"
    rows = [
        row for parameter in command.get_params(context) if (row := _parameter(parameter, context))
    ]
    if rows:
        yield "| argument or option | meaning |\n| --- | --- |"
        yield from rows
        yield ""


def _parameter(parameter, context):
    shown = parameter.get_help_record(context)
    if shown is None or "--help" in parameter.opts:
        return None
    name = " ".join(shown[0].split()).replace("|", "\\|").replace("<list[str]>", "<text>")
    meaning = shown[1].replace(" [default: no-force]", "").replace("  ", " ")
    return f"| `{name}` | {_cell(meaning)} |"


def records():
    """All records of the registry."""
    from hkflow.methods.record import SCALED
    from hkflow.solving.registry import RECORDS

    head = "| name | meaning | unit |\n| --- | --- | --- |"
    rows = (
        f"| `{name}` | {record.meaning} | {record.unit if record.unit == SCALED else ''} |"
        for name, record in RECORDS.items()
    )
    return "\n".join((head, *rows))


def public_names(package=""):
    """{name: what it is} of a package's stub."""
    stub = ast.parse((SOURCE / package / "__init__.pyi").read_text(encoding="utf-8"))
    module = importlib.import_module("hkflow" + (f".{package}" if package else ""))
    return {
        alias.name: getattr(module, alias.name)
        for line in stub.body
        if isinstance(line, ast.ImportFrom) and line.level == 1
        for alias in line.names
    }


def names():
    """The public names of hkflow by group, then those of its packages."""
    found = {name: value for name, value in public_names().items() if not inspect.ismodule(value)}
    left = set(found)
    lines = []
    for title, group in GROUPS.items():
        shown = [name for name in group.split() if name in found or name in HELD]
        left -= set(shown)
        lines += _documented(title, [HELD.get(name, f"hkflow.{name}") for name in shown])
    lines += _documented("Others", [f"hkflow.{name}" for name in found if name in left])
    for package in ("plots", "certificates"):
        inner = [
            name for name, value in public_names(package).items() if not inspect.ismodule(value)
        ]
        lines += _documented(f"hkflow.{package}", [f"hkflow.{package}.{name}" for name in inner])
    lines += _documented("hkflow.certificates.bounds", _functions("hkflow.certificates.bounds"))
    return "\n".join(lines)


def _functions(module):
    return [
        f"{module}.{name}"
        for name, value in vars(importlib.import_module(module)).items()
        if inspect.isfunction(value) and value.__module__ == module and name[0] != "_"
    ]


def _documented(title, paths):
    """A section of directives of autodoc."""
    if not paths:
        return
    yield f"\n## {title}\n\n```{{eval-rst}}"
    for path in paths:
        value = _at(path)
        if inspect.isclass(value):
            yield f".. autoclass:: {path}"
            if not issubclass(value, Exception):
                yield "   :members:"
            if path in HELD.values() or path == "hkflow.Solution":
                yield "   :inherited-members:"
        elif callable(value):
            yield f".. autofunction:: {path}"
        else:
            yield f".. py:data:: {path}\n"
            yield f"   {_data(value)}"
        yield ""
    yield "```"


def _data(value):
    if isinstance(value, dict):
        return "A table of " + ", ".join(f"``{key}``" for key in value) + "."
    if isinstance(value, int | float):
        return f"The number {value:.4g}."
    return f"A {type(value).__name__}."


def _at(path):
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


PAGES = {
    "case-file": case_file,
    "study-file": study_file,
    "commands": commands,
    "records": records,
    "api": names,
}


def write(app=None):
    """Write the texts; files that stay the same are left alone."""
    INTO.mkdir(exist_ok=True)
    for name, text in PAGES.items():
        path, new = INTO / f"{name}.md", text() + "\n"
        if not path.exists() or path.read_text(encoding="utf-8") != new:
            path.write_text(new, encoding="utf-8")


def setup(app):
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
