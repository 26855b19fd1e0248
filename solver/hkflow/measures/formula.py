"""Formulas that users write, as `exp(3*x) * (z > 0)`: read by a parser of their own, and never run
as code."""

import ast
import operator
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..arguments import Floats
from ..errors import did_you_mean, printable

MAX_LETTERS = 2000
MAX_DEPTH = 200  # of operations in one another, or terms of a sum: far from Python's own limit
CONSTANTS = {"pi": np.pi}
FUNCTIONS: dict[str, tuple[Callable, int]] = {  # with how many arguments each takes
    **{name: (getattr(np, name), 1) for name in ("abs", "exp", "log", "sqrt", "sin", "cos", "tan")},
    **{name: (getattr(np, name), 1) for name in ("arcsin", "arccos", "arctan", "cosh", "sinh")},
    "tanh": (np.tanh, 1),
    **{name: (getattr(np, name), 2) for name in ("arctan2", "minimum", "maximum")},
    "where": (np.where, 3),
}
# partial derivatives by the arguments; those of two arguments and more are in `_called`
DERIVATIVES: dict[str, Callable] = {
    "abs": np.sign, "exp": np.exp, "log": lambda x: 1.0 / x, "sqrt": lambda x: 0.5 / np.sqrt(x),
    "sin": np.cos, "cos": lambda x: -np.sin(x), "tan": lambda x: 1.0 + np.tan(x) ** 2,
    "arcsin": lambda x: 1.0 / np.sqrt(1.0 - x * x), "arccos": lambda x: -1.0 / np.sqrt(1.0 - x * x),
    "arctan": lambda x: 1.0 / (1.0 + x * x), "cosh": np.sinh, "sinh": np.cosh,
    "tanh": lambda x: 1.0 - np.tanh(x) ** 2,
}  # fmt: skip
OPERATORS: dict[type, Callable] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


@dataclass(frozen=True)
class Formula:
    """A number as a function of named ones: + - * / **, comparisons (1 or 0), pi, and FUNCTIONS.

    text : as Python writes it;  names : of the variables that it may name
    Raises ValueError, saying what and with the choices, for anything else.
    """

    text: str
    names: tuple[str, ...]
    tree: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self):
        if len(self.text) > MAX_LETTERS:
            raise ValueError(f"a formula has at most {MAX_LETTERS} letters, got {len(self.text)}")
        try:
            tree = ast.parse(self.text.strip(), mode="eval").body
            if _depth(tree) > MAX_DEPTH:
                raise ValueError(f"a formula nests at most {MAX_DEPTH} operations")
            self._check(tree)
        except (SyntaxError, MemoryError, RecursionError) as error:
            raise ValueError(f"'{printable(self.text)}' is no formula: {error}") from None
        object.__setattr__(self, "tree", tree)

    def __call__(self, values: Mapping[str, Floats | float]) -> Any:
        """The number at given values of the variables, arrays or numbers; inf and nan are left."""
        with np.errstate(all="ignore"):
            return self._value(self.tree, dict(CONSTANTS) | dict(values))

    def gradient(self, values: Mapping[str, Floats]) -> dict[str, Floats]:
        """The partial derivatives by the variables that it names, to rounding; all (n,).

        Where a formula has a kink or a jump it is that of one side.
        """
        known = dict(CONSTANTS) | dict(values)
        named = {node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name)}
        with np.errstate(all="ignore"):
            found = {name: self._dual(self.tree, known, name)[1] for name in named & values.keys()}
        return {name: slope * np.ones_like(values[name]) for name, slope in found.items()}

    def _dual(self, node, values, name):
        """The number of a node and its derivative by one variable, 0.0 if it does not depend on
        it."""
        if isinstance(node, ast.Name | ast.Constant):
            return self._value(node, values), 1.0 if getattr(node, "id", None) == name else 0.0
        parts = [self._dual(part, values, name) for part in self._operands(node)]
        value = self._applied(node, [number for number, _ in parts])
        if isinstance(node, ast.Compare):
            return value, 0.0
        if isinstance(node, ast.Call):
            return value, self._called(node.func.id, parts)
        if isinstance(node, ast.UnaryOp):
            return value, OPERATORS[type(node.op)](parts[0][1])
        (a, da), (b, db) = parts
        if isinstance(node.op, ast.Mult):
            return value, da * b + a * db
        if isinstance(node.op, ast.Div):
            return value, (da - value * db) / b
        if isinstance(node.op, ast.Pow):
            by_base = 0.0 if np.isscalar(da) and da == 0.0 else b * a ** (b - 1.0) * da
            by_power = 0.0 if np.isscalar(db) and db == 0.0 else np.log(a) * value * db
            return value, by_base + by_power
        return value, OPERATORS[type(node.op)](da, db)

    @staticmethod
    def _called(function, parts):
        """The derivative of a function of given numbers and derivatives."""
        if function == "where":
            (chosen, _), (_, first), (_, second) = parts
            return np.where(chosen, first, second)
        if function in DERIVATIVES:
            ((x, dx),) = parts
            return 0.0 if np.isscalar(dx) and dx == 0.0 else DERIVATIVES[function](x) * dx
        (a, da), (b, db) = parts
        if function == "arctan2":
            return (b * da - a * db) / (a * a + b * b)
        return np.where(a <= b if function == "minimum" else a >= b, da, db)

    def _check(self, node):
        """Raise ValueError unless a node of the tree, and all below it, are of a known kind."""
        if isinstance(node, ast.Name):
            known = (*self.names, *CONSTANTS)
            if node.id not in known:
                hint = did_you_mean(node.id, known)
                some = known if len(known) < 9 else (*self.names[:6], "…", *CONSTANTS)
                raise ValueError(f"'{node.id}' is unknown.{hint} Choose from: {', '.join(some)}")
        elif isinstance(node, ast.Constant):
            if type(node.value) not in (int, float) or not abs(node.value) <= sys.float_info.max:
                raise ValueError(f"{str(node.value)[:20]!r} is no number")
        elif isinstance(node, ast.Call):
            self._check_call(node)
        else:
            for part in self._parts(node):
                self._check(part)

    def _check_call(self, node):
        name = node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func)
        if name not in FUNCTIONS:
            hint = did_you_mean(name, tuple(FUNCTIONS))
            raise ValueError(f"'{name}' is no function.{hint} Choose from: {', '.join(FUNCTIONS)}")
        wanted = FUNCTIONS[name][1]
        if node.keywords or len(node.args) != wanted:
            raise ValueError(f"'{name}' takes {wanted} argument(s), got '{ast.unparse(node)}'")
        for part in node.args:
            self._check(part)

    @staticmethod
    def _parts(node):
        """The operands of an operation. Raises ValueError if it is none that is known."""
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return node.left, node.right
        if isinstance(node, ast.UnaryOp) and type(node.op) in OPERATORS:
            return (node.operand,)
        if isinstance(node, ast.Compare) and all(type(op) in OPERATORS for op in node.ops):
            return node.left, *node.comparators
        power = "; powers are **" if isinstance(getattr(node, "op", None), ast.BitXor) else ""
        raise ValueError(
            f"'{ast.unparse(node)}' is no operation here{power}. Choose from: + - * / ** < <= > >="
        )

    def _value(self, node, values):
        if isinstance(node, ast.Name):
            return values[node.id]
        if isinstance(node, ast.Constant):
            return np.float64(node.value)
        return self._applied(node, [self._value(part, values) for part in self._operands(node)])

    def _operands(self, node):
        """What an operation or a function is applied to."""
        return node.args if isinstance(node, ast.Call) else self._parts(node)

    @staticmethod
    def _applied(node, parts):
        """The number of a node whose operands have these numbers."""
        if isinstance(node, ast.Call):
            return FUNCTIONS[node.func.id][0](*parts)
        if not isinstance(node, ast.Compare):
            return OPERATORS[type(node.op)](*parts)
        pairs = zip(node.ops, parts, parts[1:], strict=False)
        found = [OPERATORS[type(op)](left, right) for op, left, right in pairs]
        return np.prod(np.broadcast_arrays(*found), axis=0) * 1.0


def _depth(tree):
    """How deep the nodes of a tree lie in one another."""
    level, depth = [tree], 0
    while level:
        level, depth = [part for node in level for part in ast.iter_child_nodes(node)], depth + 1
    return depth
