"""Messages about a case name the line of the key, if the case file has it."""

import pytest

import hkflow
from hkflow.case.lines import LONGEST_TEXT, lines_of, place

TEXT = """\
# kind = "comment",
seed = 1

[data]
source = "inline"
inputs = [  # rows,
    [1.0, 0.0],
    [0.0, 1.0],
    # targets = 3
]
title = '''
[time]
end = 3
'''
targets = [1, -1]

[[energy]]
kind = "external"
[energy.rates]
first = 1
[[energy]]
kind = { of = "pairs", more = [{ a = 1 }] }

[flow.more]
a.b = 2
"c" = 3
"""

LINES = {
    "seed": 2,
    "data": 4,
    "data.source": 5,
    "data.inputs": 6,
    "data.title": 11,
    "data.targets": 15,
    "energy.0": 17,
    "energy.0.kind": 18,
    "energy.0.rates": 19,
    "energy.0.rates.first": 20,
    "energy.1": 21,
    "energy.1.kind": 22,
    "energy.1.kind.of": 22,
    "energy.1.kind.more": 22,
    "energy.1.kind.more.0": 22,
    "energy.1.kind.more.0.a": 22,
    "flow.more": 24,
    "flow.more.a": 25,
    "flow.more.a.b": 25,
    "flow.more.c": 26,
}


def test_keys_have_the_line_on_which_they_begin():
    assert lines_of(TEXT) == LINES


@pytest.mark.parametrize("lines", [30, 3000])
def test_every_key_of_texts_of_many_lines_is_found(lines):
    text = "".join(f"[t{k}]\nkey = [1,\n2]\n" for k in range(lines // 3))
    wanted = {f"t{k}": 3 * k + 1 for k in range(lines // 3)}
    assert lines_of(text) == wanted | {f"{table}.key": n + 1 for table, n in wanted.items()}


def test_of_long_texts_no_lines_are_told():
    assert lines_of("seed = 1\n" + "#" * LONGEST_TEXT) == {}


@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        ("data.source", "a.toml:5"),
        ("data.absent", "a.toml:4"),  # its table
        ("energy.1.kind", "a.toml:22"),
        ("absent.key", "a.toml"),
        ("seed", "a.toml, what is set"),
        ("seed.more", "a.toml, what is set"),
    ],
)
def test_the_innermost_table_stands_for_a_key_that_the_text_lacks(key, wanted):
    assert place("a.toml", LINES | {"seed": 0}, key) == wanted


CASE = """\
[data]
source = "cluster-grid"
n = 4
[objective]
activation = "rellu"
loss = "logistic"
[domain]
kind = "sphere"
[time]
end = 1.0
[flow]
kind = "wasserstein"
"""


def fails(tmp_path, text, **changes):
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(hkflow.CaseError) as error:
        hkflow.check(tmp_path / "a.toml", **changes)
    return str(error.value).replace(str(tmp_path), "")


def test_faults_of_keys_and_of_what_they_ask_for_name_their_lines(tmp_path):
    assert fails(tmp_path, CASE).startswith("/a.toml:5: objective.activation: unknown value")
    right = CASE.replace("rellu", "relu")
    absent = right.replace('"cluster-grid"\nn = 4', '"csv"\nfile = "absent.csv"\nlabel = "y"')
    assert fails(tmp_path, absent).startswith("/a.toml:3: data.file: ")
    assert fails(tmp_path, right.replace("1.0", "-1")).startswith("/a.toml:10: time.end: ")


def test_faults_of_what_is_set_besides_name_no_line(tmp_path):
    right = CASE.replace("rellu", "relu")
    wrong = {"objective": {"activation": "rellu"}}
    lead = "/a.toml, what is set: "
    assert fails(tmp_path, right, **wrong).startswith(f"{lead}objective.activation: unknown")
    assert fails(tmp_path, right, title="\0").startswith(f"{lead}title: text must not")
    assert fails(tmp_path, CASE, time={"end": -1}).startswith("/a.toml:5: objective.activation: ")


def test_a_table_whose_kind_is_set_has_no_lines_of_the_old_kind(tmp_path):
    """Its keys went with it; where the kind is that of the text they and their lines stay."""
    right = CASE.replace("rellu", "relu") + '[initial]\nkind = "caps"\nradius = -1.0\n'
    lead = "/a.toml, what is set: "
    assert fails(tmp_path, right, initial={"kind": "run"}) == f"{lead}initial.run: is missing."
    found = fails(tmp_path, right, **{"initial.kind": "uniform", "data.source": "csv"})
    assert found.splitlines() == [f"{lead}data.{key}: is missing." for key in ("file", "label")]
    found = fails(tmp_path, right, initial={"kind": "caps"})
    assert "\n/a.toml:15: initial.radius: must be greater than 0" in found
