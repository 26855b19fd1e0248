"""Docstrings of this code are plain text: formulas are indented, arguments are lines
"name : meaning". Here they become reStructuredText, and signatures are shown as they are written.
"""

import ast
import inspect
import re
import textwrap

ARGUMENT = re.compile(r"^([\w.]+(?:, [\w.]+)*)\s+: (.+)$")
TYPES = (  # of what has no signature in its source, such as records: aliases and modules
    (r"numpy\.ndarray\[tuple\[\w+\.Any, \.\.\.\], numpy\.dtype\[numpy\.float64\]\]", "Floats"),
    (r"numpy\.ndarray\[tuple\[\w+\.Any, \.\.\.\], numpy\.dtype\[numpy\.integer\]\]", "Integers"),
    (r"<hkflow\.operators\.ranks\.Alone object at 0x[0-9a-f]+>", "ALONE"),
    (r"<factory>", "…"),
    (r"~?\b(?:[a-z_]+\.)+([A-Za-z_]+)", r"\1"),
    (r"ndarray\[tuple\[Any, \.\.\.\], dtype\[float64\]\]", "Floats"),
    (r"ndarray\[tuple\[Any, \.\.\.\], dtype\[integer\]\]", "Integers"),
)


def short_types(app, what, name, value, options, signature, returns):
    """A signature as the source has it."""
    value = value.__init__ if inspect.isclass(value) else inspect.unwrap(value)
    try:
        written = ast.parse(textwrap.dedent(inspect.getsource(value))).body[0]
    except (OSError, TypeError, IndentationError):
        return _shortened(signature), _shortened(returns)
    if not isinstance(written, ast.FunctionDef):
        return _shortened(signature), _shortened(returns)
    bound = written.args.args[:1]
    if what in ("class", "method") and bound and bound[0].arg in ("self", "cls"):
        written.args.args.pop(0)
    returned = ast.unparse(written.returns) if written.returns and what != "class" else None
    return f"({ast.unparse(written.args)})", returned


def _shortened(text):
    for pattern, name in TYPES:
        text = re.sub(pattern, name, text) if text else text
    return text


def plain(app, what, name, value, options, lines):
    """Rewrite the lines of a docstring."""
    lines[:] = list(_rewritten(lines))


def _rewritten(lines):
    blocks, block = [], []
    for line in [*lines, ""]:
        if line.strip():
            block.append(line)
        elif block:
            blocks.append(block)
            block = []
    for block in blocks:
        yield from _block(block)
        yield ""


def _block(block):
    """A formula, or prose in which arguments may begin at any line."""
    if all(line.startswith("    ") for line in block):
        yield from ("::", "", *block)
        return
    arguments, prose = [], []
    for line in block:
        starts = line and not line[0].isspace()
        if starts and ARGUMENT.match(line):
            for part in re.split(r";\s{2,}", line):
                found = ARGUMENT.match(part)
                if found:
                    arguments.append([found[1], found[2]])
                else:
                    arguments[-1][1] += "; " + part
        elif arguments and not starts:
            _continue(arguments, line)
        elif arguments:
            yield from _fields(arguments)
            arguments = []
            prose.append(line)
        else:
            prose.append(line)
        if prose and arguments:
            yield from _escaped(prose)
            yield ""
            prose = []
    yield from _fields(arguments)
    yield from _escaped(prose)


def _continue(arguments, line):
    """A further line of an argument, in which others may begin after a semicolon."""
    first, *others = re.split(r";\s{2,}", line.strip())
    arguments[-1][1] += " " + first
    for part in others:
        found = ARGUMENT.match(part)
        if found:
            arguments.append([found[1], found[2]])
        else:
            arguments[-1][1] += "; " + part


def _fields(arguments):
    for name, meaning in arguments:
        yield f"**{name}**"
        yield f"    {_escape(meaning)}"
    if arguments:
        yield ""


def _escaped(prose):
    return [_escape(line.strip()) for line in prose]


def _escape(text):
    """Plain text as reStructuredText: names in backquotes are code, the rest is as it stands."""
    parts = re.split(r"(`+[^`]+`+)", text)
    return "".join(
        f"``{part.strip('`')}``" if part.startswith("`") else re.sub(r"([\\*|_`])", r"\\\1", part)
        for part in parts
    )


def setup(app):
    app.connect("autodoc-process-signature", short_types)
    app.connect("autodoc-process-docstring", plain)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
