"""Former names of keys and values, whatever they are: found, replaced, and said with their line."""

import tomllib

import pytest

import hkflow
from hkflow.case import aliases
from hkflow.case.aliases import current

TEXT = """# method.pace is not a key here
title = "pace"
[sweep]
method = [
    {kind = "grid", pace = "slow"},
]
[[more]]
method.pace = ["slow", "fast"]
[quick.method]  # pace
pace = "medium"
"""


@pytest.fixture(autouse=True)
def table(monkeypatch):
    monkeypatch.setattr(aliases, "KEYS", {"method.pace": "speed"})
    monkeypatch.setattr(aliases, "VALUES", {("method.speed", "slow"): "low"})


def warned(call, *arguments):
    with pytest.warns(FutureWarning) as found:
        made = call(*arguments)
    return made, [str(warning.message).partition(" now;")[0] for warning in found]


@pytest.mark.parametrize(
    ("tables", "wanted", "said"),
    [
        ({"method": {"pace": 3}}, {"method": {"speed": 3}}, ["method: 'pace' is called 'speed'"]),
        ({"method.pace": 3}, {"method.speed": 3}, ["method: 'pace' is called 'speed'"]),
        (
            {"method": {"speed": "slow"}},
            {"method": {"speed": "low"}},
            ["method.speed: 'slow' is called 'low'"],
        ),
        (
            {"set": {"method.pace": ["slow", "fast", "slow"]}},
            {"set": {"method.speed": ["low", "fast", "low"]}},
            ["method: 'pace' is called 'speed'", "method.speed: 'slow' is called 'low'"],
        ),
    ],
)
def test_former_names_are_replaced_and_each_is_said_once(tables, wanted, said):
    made, messages = warned(current, tables, "a case")
    assert made == wanted and messages == [f"a case: {words}" for words in said]


def test_names_of_today_and_like_names_elsewhere_stay():
    tables = {"method": {"speed": "fast"}, "flow": {"pace": "slow"}, "data.features": ["slow"]}
    assert current(tables, "a case") == tables


def test_a_warning_names_the_line():
    _, messages = warned(current, tomllib.loads(TEXT), "study.toml", TEXT)
    assert messages == [
        "study.toml:4: method: 'pace' is called 'speed'",
        "study.toml:4: method.speed: 'slow' is called 'low'",
    ]
    rest = TEXT.partition("[[more]]\n")[2]
    _, messages = warned(current, tomllib.loads(f"[a]\n{rest}"), "study.toml", f"[a]\n{rest}")
    assert messages[0].startswith("study.toml:2: ")
    last = rest.partition("[quick")[2]
    _, messages = warned(current, tomllib.loads("[quick" + last), "study.toml", "[quick" + last)
    assert messages == ["study.toml:2: method: 'pace' is called 'speed'"]


def test_both_names_of_a_key_are_refused():
    with pytest.raises(hkflow.CaseError, match="a case: method.speed: 'pace' is its former name"):
        current({"method": {"pace": 3, "speed": 4}}, "a case")


def test_what_a_run_folder_says_is_read_without_a_word():
    assert current({"method": {"pace": 3}}, "run.json", warn=False) == {"method": {"speed": 3}}


def test_a_key_that_is_gone_is_left_out_where_it_said_nothing():
    assert current({"flow": {"noise": 0.1, "diffusion": 0.0}}, "") == {"flow": {"noise": 0.1}}
    kept = {"flow": {"diffusion": 0.1}}  # for the schema to refuse
    assert current(kept, "") == kept
