"""Formulas of users: their numbers, and that nothing else is read or run."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hkflow.measures.formula import FUNCTIONS, Formula

NAMES = ("x", "y", "sign")


@pytest.mark.parametrize(
    "text",
    [
        "1 + 0.5*x*y - y/3",
        "-x**2 + +y",
        "2**x**y",
        "exp(-3*(x - 0.2)**2) * (sign > 0)",
        "where(x < y, sin(pi*x), minimum(abs(x), maximum(y, 0.1)))",
        "(0 < x < y) + (x >= y)",
        "sqrt(x*x) + log(x + 2) + tanh(arctan2(x, y)) + cosh(x)*sinh(y)",
        "arcsin(x) + arccos(y) + arctan(x) + cos(x) + tan(y)",
        " 7 ",
    ],
)
def test_values_are_those_of_numpy(text, rng):
    """Python's own evaluation is the independent method."""
    x, y = rng.uniform(0.01, 0.99, (2, 50))
    found = np.broadcast_to(Formula(text, NAMES)({"x": x, "y": y, "sign": -1.0}), 50)
    known = {name: function for name, (function, _) in FUNCTIONS.items()} | {"pi": np.pi}
    for k in range(50):
        wanted = eval(
            text.strip(), {"__builtins__": {}}, known | {"x": x[k], "y": y[k], "sign": -1}
        )
        assert found[k] == pytest.approx(float(wanted), rel=1e-14, abs=1e-14)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x +", "is no formula"),
        ("", "is no formula"),
        ("x; y", "is no formula"),
        ("z + 1", "'z' is unknown.*Choose from: x, y, sign, pi"),
        ("expp(x)", "'expp' is no function. Did you mean 'exp'"),
        ("__import__('os').system('true')", "is no function"),
        ("x.__class__", "is no operation here"),
        ("(lambda: 1)()", "is no function"),
        ("[x for x in y]", "is no operation here"),
        ("x[0]", "is no operation here"),
        ("'a' * 9", "is no number"),
        ("True", "is no number"),
        ("1j", "is no number"),
        ("9e999", "is no number"),
        ("10**400 * 1" + "0" * 400, "is no number"),
        ("x ^ 2", "powers are \\*\\*"),
        ("x == y", "is no operation here"),
        ("x if y else 1", "is no operation here"),
        ("x and y", "is no operation here"),
        ("exp(x, y)", "'exp' takes 1 argument"),
        ("exp(*x)", "is no operation here"),
        ("exp(x, out=y)", "'exp' takes 1 argument"),
        ("(x := 2)", "is no operation here"),
        ("f'{x}'", "is no operation here"),
        ("(" * 900 + "x" + ")" * 900, "is no formula"),
        ("-" * 1900 + "x", "nests at most 200"),
        ("x" * 3000, "at most 2000 letters"),
        ("-" * 300 + "x", "nests at most 200"),
        ("x\0", "is no formula"),
    ],
)
def test_nothing_else_is_a_formula(text, said):
    with pytest.raises(ValueError, match=said):
        Formula(text, NAMES)


def test_long_sums_have_a_value_wherever_they_are_asked_for():
    formula = Formula("+".join(["x"] * 190), NAMES)

    def deep(n):
        return formula({"x": 2.0, "y": 0.0, "sign": 1.0}) if n == 0 else deep(n - 1)

    assert deep(200) == 380.0


def test_powers_of_powers_end_at_once():
    with np.errstate(all="raise"):
        assert Formula("9**9**9**9", ())({}) == np.inf


@given(st.text(max_size=40))
def test_any_text_is_a_formula_or_refused(text):
    try:
        formula = Formula(text, NAMES)
    except ValueError:
        return
    np.asarray(formula({"x": 0.5, "y": np.ones(3), "sign": 1.0}), dtype=float)


def test_a_gradient_takes_every_function_once(monkeypatch):
    """Its cost is that of a value for each variable, however long a sum is."""
    calls = []
    monkeypatch.setitem(FUNCTIONS, "exp", (lambda x: calls.append(x) or np.exp(x), 1))
    x = np.array([0.3, -0.2])
    slope = Formula(" + ".join(["exp(x)"] * 50), ("x",)).gradient({"x": x})["x"]
    np.testing.assert_allclose(slope, 50.0 * np.exp(x), rtol=1e-14, atol=0.0)
    assert len(calls) == 50
