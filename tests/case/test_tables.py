"""Tables as people have them: missing values, categories, labels, delimiters, formats, frames, and
all faults of a file at once."""

from types import SimpleNamespace

import numpy as np
import pytest

import hkflow
from hkflow.case import columns, datafiles, labels, table_rows
from hkflow.case.datasets import read_data
from hkflow.case.load import case_of_tables
from hkflow.objectives.activations import FEATURES

REST = {
    "objective": {"activation": "relu", "bias": True, "loss": "square"},
    "domain": {"kind": "signed-sphere"},
    "flow": {"kind": "hellinger-kantorovich"},
    "time": {"end": 1.0},
}


def read(source="file", **data):
    """The DataSet of a [data] table."""
    file = case_of_tables({"data": {"source": source, **data}} | REST)
    return read_data(file.case, file.folder, FEATURES["relu"])


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A function that writes a file and reads it, with label y if not told otherwise."""
    monkeypatch.chdir(tmp_path)

    def written(text, name="d.csv", **data):
        (tmp_path / name).write_text(text)
        return read(**{"file": name, "label": "y"} | data)

    return written


ROWS = [(0.5, -1.0, 2.0), (-1.25, 3.0, 4.5), (2.0, 0.25, -1.5)]


@pytest.mark.parametrize("delimiter, decimal", [(",", "."), (";", "."), (";", ","), ("\t", ",")])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("quote", ["", '"'])
def test_delimiter_and_decimal_comma_are_found(table, delimiter, decimal, line_end, quote):
    lines = [[f"{value}".replace(".", decimal) for value in row] for row in ROWS]
    rows = [["a", f"{quote}b{quote}", "y"], *lines]
    found = table(line_end.join(map(delimiter.join, rows)) + line_end)
    assert np.array_equal(np.column_stack([found.inputs, found.targets]), ROWS)
    assert found.lines.tolist() == [2, 3, 4]
    assert any("decimal comma" in note for note in found.preparation.notes) == (decimal == ",")


def test_a_comma_that_may_stand_for_thousands_is_asked_for(table):
    text = "a;y\n1,234;1,5\n".replace("1,5", "2")
    with pytest.raises(hkflow.CaseError, match="line 2: '1,234' may have decimals or thousands"):
        table(text)
    assert table(text, decimal=",").inputs.tolist() == [[1.234]]
    with pytest.raises(hkflow.CaseError, match="line 2, column 'a': '1,234' is not a number"):
        table(text, decimal=".")
    with pytest.raises(hkflow.CaseError, match="'1,5' is not a number.* data.decimal = ','"):
        table("a;y\n1,5;1\n2.5;2\n")
    with pytest.raises(hkflow.CaseError, match="d.csv: commas separate its fields, so no number"):
        table("a,y\n1.5,1\n2.5,2\n", decimal=",")
    assert table('a,y\n"1,5",1\n"2,5",2\n', decimal=",").inputs.tolist() == [[1.5], [2.5]]


def test_all_faults_of_a_file_are_said_at_once(table):
    rows = [f"{k},{k % 3},1" for k in range(50)]
    for k in range(47):
        rows[k] = ("oops,1,1", ",1,1", "1,1")[k % 3]
    with pytest.raises(hkflow.CaseError) as caught:
        table("\n".join(["a,b,y", *rows]))
    said = str(caught.value).splitlines()
    assert said[0] == "data.file: d.csv: 47 problems:" and len(said) == 13
    assert [line.strip() for line in said[1:4]] == [
        "line 2, column 'a': 'oops' is not a number",
        "line 3, column 'a': has no value",
        "line 4: 2 fields where the header has 3",
    ]
    assert said[11] == "  and 37 more." and "data.missing" in said[12] and "Fill" in said[12]


GAPS = "a,colour,y\n1.0,red,1\n,red,2\n3.0,NA,3\n8.0,blue,4\n5.0,red,\n"


def test_labels_of_rows_that_are_none_are_not_missed(table, monkeypatch):
    """Rows of another width are the fault, not that the labels in them are unknown."""
    text = "a,b,y\n1,2,yes,more\n2,3\n4,5,no\n"
    for listed in ({"positive": ["yes"], "negative": ["no"]}, {}):
        if not listed:
            monkeypatch.setitem(REST["objective"], "loss", "softmax")
            monkeypatch.setitem(REST["domain"], "kind", "sphere")
        with pytest.raises(hkflow.CaseError) as refused:
            table(text, **listed)
        assert "line 2: 4 fields where the header has 3" in str(refused.value)


@pytest.mark.parametrize(
    "cells, remedy",
    [
        (["1,234", "999"], "If decimals follow these commas: data.decimal = ','; if thousands"),
        (["1,234", "0,5"], "Numbers with a decimal comma: data.decimal = ','."),
        (["1,234,567", "12,345"], "Numbers with separators between thousands: take these out."),
        (["1.234,56", "1,5"], "Numbers with separators between thousands: take these out."),
        (["1 234", "12 345"], "Numbers with separators between thousands: take these out."),
    ],
)
def test_separators_of_thousands_have_their_remedy(table, cells, remedy):
    """As inputs and as targets: they are no categories, and a wrong remedy would divide by 1000."""
    for text in ("\n".join(f'"{cell}",1' for cell in cells), "\n".join(f'1,"{c}"' for c in cells)):
        with pytest.raises(hkflow.CaseError) as refused:
            table(f"a,y\n{text}\n")
        assert f"'{cells[0]}' is not a number" in str(refused.value)
        assert remedy in str(refused.value)


def test_all_constant_columns_are_said_at_once(table):
    text = "c,w,a,y\n" + "".join(f"3,u,{k},{k}\n" for k in range(4))
    with pytest.raises(hkflow.CaseError) as refused:
        table(text, standardize=True)
    assert str(refused.value) == (
        "data.standardize: 'c', 'w=u' are constant in the 4 training rows and cannot be"
        " standardized; leave 'c', 'w' out of data.features."
    )
    rare = "w,y\n" + "".join(f"{'uv'[k % 2]},{k}\n" for k in range(9)) + "z,9\n"
    with pytest.raises(hkflow.CaseError, match="'w=z' is constant .* or choose another seed"):
        for share in (0.2, 0.4, 0.6, 0.7):  # one of which holds out the row that has it
            table(rare, standardize=True, test_fraction=share)


def test_missing_values(table):
    with pytest.raises(hkflow.CaseError, match="3 problems") as refused:
        table(GAPS)
    assert str(refused.value).count("Fill it in") == 1  # for inputs and labels
    found = table(GAPS, missing="drop")
    assert found.inputs.tolist() == [[1.0, 1.0], [8.0, 0.0]] and found.lines.tolist() == [2, 5]
    notes = " ".join(found.preparation.notes)
    assert "2 rows with missing values dropped (lines 3, 4)" in notes
    assert "1 row without a label dropped (line 6)" in notes
    found = table(GAPS, missing="impute")
    assert found.inputs.tolist() == [[1.0, 1.0], [4.0, 1.0], [3.0, 1.0], [8.0, 0.0]]
    assert found.targets.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert "1 in 'a' by its mean 4, 1 in 'colour' by its commonest category red" in " ".join(
        found.preparation.notes
    )


def test_categories(table):
    text = "size,colour,sex,y\n1,red,m,1\n2,blue,f,2\n1,green,m,3\n"
    found = table(text)
    names = ["size", "colour=blue", "colour=green", "colour=red", "sex=m"]
    assert found.preparation.input_names == names
    assert found.inputs[:, 1:].tolist() == [[0, 0, 1, 1], [1, 0, 0, 0], [0, 1, 0, 1]]
    assert table(text, categorical=["size"]).preparation.input_names[0] == "size=2"
    with pytest.raises(hkflow.CaseError, match="data.categorical: .*Unknown column 'sizes'"):
        table(text, categorical=["sizes"])
    rows = "".join(f"p{k},{k}\n" for k in range(30))
    with pytest.raises(hkflow.CaseError, match="'name' holds 30 different texts and no number"):
        table("name,y\n" + rows)
    assert table("name,y\n" + rows, categorical=["name"]).inputs.shape == (30, 30)
    with pytest.raises(hkflow.CaseError, match="'oops' is not a number. If texts are meant"):
        table("a,y\n1,1\noops,2\n")


@pytest.mark.parametrize("column", [["1", "0"], ["1.0", "0.0"], ["True", "false"], [" 1", "0 "]])
@pytest.mark.parametrize("listed", [(1, 0), ("1", "0"), (1.0, "0.0"), (True, False)])
def test_labels_match_as_numbers_and_as_texts(table, column, listed):
    text = f"a,y\n1,{column[0]}\n2,{column[1]}\n3,other\n"
    found = table(text, positive=[listed[0]], negative=[listed[1]])
    assert found.targets.tolist() == [1.0, -1.0] and found.inputs.tolist() == [[1.0], [2.0]]
    assert "1 of 3 rows have other labels" in found.preparation.notes[0]


@pytest.mark.parametrize("labels", [{"positive": [1], "negative": [0]}, {}])
def test_numbers_with_nan_name_classes_and_categories(labels):
    nan, loss = np.nan, "logistic" if labels else "softmax"
    frame = {"a": [3.0, nan, 4.0, 3.0], "y": [1.0, 0.0, nan, 0.0]}
    data = {"source": "frame", "frame": {k: np.array(v) for k, v in frame.items()}, "label": "y"}
    data |= {"missing": "drop", "categorical": ["a"]} | labels
    rest = REST | {"objective": {"loss": loss}} | ({} if labels else {"domain": {"kind": "sphere"}})
    file = case_of_tables({"data": data} | rest)
    found = read_data(file.case, file.folder, FEATURES["relu"])
    assert found.targets.tolist() == [1.0, -1.0 if labels else 0.0]


def test_without_matching_labels_would_be_unknown(table, monkeypatch):
    monkeypatch.setattr(table_rows, "label_of", lambda cell: str(cell))
    with pytest.raises(hkflow.CaseError, match="Unknown label"):
        table("a,y\n1,1.0\n2,0.0\n", positive=[1], negative=[0])


def test_all_wrong_names_are_said_at_once(table):
    with pytest.raises(hkflow.CaseError) as caught:
        table("width,height,y\n1,2,3\n", features=["widht", "hieght"])
    assert "'width'" in str(caught.value) and "'height'" in str(caught.value)
    with pytest.raises(hkflow.CaseError, match="'y' is the label"):
        table("width,y\n1,2\n", features=["width", "y"])
    with pytest.raises(hkflow.CaseError, match="data.features: names 'width' twice"):
        table("width,y\n1,2\n", features=["width", "width"])
    with pytest.raises(hkflow.CaseError, match="its labels are cat, dog: list them"):
        table("a,y\n1,dog\n2,cat\n")
    with pytest.raises(hkflow.CaseError, match="(?s)'bird'.*\n.*'fish'"):
        table("a,y\n1,dog\n2,cat\n", positive=["bird"], negative=["fish"])


def test_columns_without_a_name_are_left_out(table):
    """As pandas writes its index."""
    found = table(",a,y\n0,1.5,1\n1,2.5,2\n")
    assert found.inputs.tolist() == [[1.5], [2.5]]
    assert "1 column without a name left out" in found.preparation.notes


@pytest.mark.parametrize("missing", ["refuse", "drop", "impute"])
def test_an_empty_column_is_one_fault(table, missing):
    with pytest.raises(hkflow.CaseError, match="d.csv, column 'b' is empty: leave it out"):
        table("a,b,y\n1,,1\n2,NA,2\n", missing=missing)


def test_faults_in_rows_and_columns_that_are_not_used_do_no_harm(table):
    text = "a,note,y\n1,,yes\n2,x,no\noops,5,maybe\n"
    found = table(text, features=["a"], positive=["yes"], negative=["no"])
    assert found.inputs.tolist() == [[1.0], [2.0]]


def test_files_of_numpy_and_parquet(tmp_path, monkeypatch):
    import pyarrow
    from pyarrow import parquet

    monkeypatch.chdir(tmp_path)
    whole = np.array(ROWS)
    np.save("d.npy", whole)
    np.savez("d.npz", X=whole[:, :2], y=whole[:, 2])
    parquet.write_table(
        pyarrow.table({"a": whole[:, 0], "b": whole[:, 1], "y": whole[:, 2]}), "d.parquet"
    )
    for name, label in (("d.npy", "x3"), ("d.npz", "y"), ("d.parquet", "y")):
        found = read(file=name, label=label)
        assert np.array_equal(np.column_stack([found.inputs, found.targets]), ROWS)
    np.savez("odd.npz", X=whole, y=np.zeros(5))
    np.save("objects.npy", np.array([{}]), allow_pickle=True)
    (tmp_path / "text.parquet").write_text("a,b\n")
    for name, said in (
        ("odd.npz", "columns have different lengths: 'X1' 3"),
        ("objects.npy", "cannot be read"),
        ("text.parquet", "cannot be read"),
        ("none.npy", "cannot be read"),
    ):
        with pytest.raises(hkflow.CaseError, match=said):
            read(file=name, label="y")


def test_frames_of_all_makers_are_one(tmp_path):
    import pandas
    import polars
    import pyarrow

    table = {
        "a": [1.0, 2.0, 3.0], "n": [1, None, 3], "c": ["u", "v", None],
        "f": [True, False, True], "y": ["1", "0", "1"],
    }  # fmt: skip
    frames = [
        pandas.DataFrame(table),
        pandas.DataFrame(table).convert_dtypes(),
        pandas.DataFrame(table).astype({"c": "category"}),
        polars.DataFrame(table),
        pyarrow.table(table),
        pyarrow.table(table).set_column(2, "c", pyarrow.array(table["c"]).dictionary_encode()),
        {name: np.array(column, dtype=object) for name, column in table.items()},
    ]
    made = [
        read("frame", frame=frame, label="y", positive=[1], negative=[0], missing="impute")
        for frame in frames
    ]
    for one in made:
        assert one.inputs.tolist() == [[1, 1, 0, 1], [2, 2, 1, 0], [3, 3, 0, 1]]
        assert one.targets.tolist() == [1.0, -1.0, 1.0] and one.lines is None
    with pytest.raises(hkflow.CaseError, match="row 2, column 'n': has no value"):
        read("frame", frame=frames[0], label="y", positive=[1], negative=[0])
    rows = read("frame", frame=np.array(ROWS), label="x3", features=["x2"])
    assert rows.inputs[:, 0].tolist() == [-1.0, 3.0, 0.25]
    dated = {"a": np.array(["2020-01-01"], dtype="datetime64[D]"), "y": [1.0]}
    with pytest.raises(hkflow.CaseError, match="'2020-01-01' is a date"):
        read("frame", frame=dated, label="y")
    with pytest.raises(hkflow.CaseError, match="wanted a frame of pandas or polars.* got int"):
        read("frame", frame=3, label="y")
    lazy = polars.LazyFrame({"a": [1.0], "y": [1.0]})
    with pytest.raises(hkflow.CaseError, match=r"LazyFrame holds no rows yet; give frame.collect"):
        read("frame", frame=lazy, label="y")
    with pytest.raises(hkflow.CaseError, match="a Python program holds; give it there"):
        read("frame", label="y")


def test_all_faults_of_new_rows_are_said_at_once(table, tmp_path):
    """Rows of another width hid cells that do not fit."""
    made = table("a,w,y\n1,u,1\n2,v,2\n").preparation
    (tmp_path / "new.csv").write_text("a,w\n1,u\n2\nx,u\n3,q\n")
    with pytest.raises(hkflow.CaseError) as refused:
        made(datafiles.read_columns(tmp_path / "new.csv"))
    for said in (
        "line 3: 1 fields",
        "line 4, column 'a': 'x'",
        "line 5, column 'w': 'q' is none of",
    ):
        assert said in str(refused.value)


def test_categories_that_are_no_others_are_not_all_listed():
    names = [f"category {k}" for k in range(60)]
    frame = {"w": names, "y": np.arange(60.0)}
    made = read("frame", frame=frame, label="y", categorical=["w"]).preparation
    with pytest.raises(hkflow.CaseError, match=r"'x' is none of category 0, .*, …") as refused:
        made({"w": ["x"]})
    assert len(str(refused.value)) < 400


def test_a_table_in_the_place_of_a_case_is_told(tmp_path):
    for name in ("d.csv", "d.PARQUET"):
        (tmp_path / name).write_bytes(b"a,y\n1,\xff\n")
        with pytest.raises(hkflow.CaseError, match=f"a table, not a case.* file = '{name}'"):
            hkflow.run(tmp_path / name)
    with pytest.raises(hkflow.CaseError, match="cannot be read"):
        hkflow.run(tmp_path / "absent.csv")


def test_true_and_false_of_files_are_those_of_frames(table):
    """In any spelling: a run of a frame predicts the rows of its CSV, and gaps are the same."""
    text = "f,g,y\nTrue,maybe,1\nFALSE,true,2\n,false,3\ntrue,maybe,4\n"
    file = table(text, missing="impute")
    frame = {"f": np.array([True, False, None, True]), "g": ["maybe", "true", "false", "maybe"]}
    held = read("frame", frame=frame | {"y": [1, 2, 3, 4]}, label="y", missing="impute")
    assert file.inputs.tolist() == held.inputs.tolist()
    assert file.inputs[:, 0].tolist() == [1.0, 0.0, 2.0 / 3.0, 1.0]
    assert file.preparation.input_names == ["f", "g=false", "g=maybe", "g=true"]
    rows = columns.Columns.of({"f": ["TRUE", "False"], "g": ["true", "maybe"]})
    assert held.preparation(rows).tolist() == [[1, 0, 0, 1], [0, 0, 1, 0]]
    with pytest.raises(hkflow.CaseError, match="'yes' is not a number"):
        held.preparation({"f": ["yes"], "g": ["true"]})


@pytest.mark.parametrize("unit", ["ns", "us", "s", "D"])
def test_dates_are_categories_where_a_case_says_so(unit):
    """Of any unit: nanoseconds were whole numbers, and a missing one was a category."""
    dates = np.array(["2020-01-02", "NaT", "2020-01-01"], dtype=f"datetime64[{unit}]")
    frame = {"d": dates, "y": [1.0, 2.0, 3.0]}
    with pytest.raises(hkflow.CaseError, match=r"a category: data.categorical = \['d'\]"):
        read("frame", frame=frame, label="y")
    found = read("frame", frame=frame, label="y", categorical=["d"], missing="drop")
    assert found.inputs.tolist() == [[1.0], [0.0]] and found.targets.tolist() == [1.0, 3.0]
    assert found.preparation.input_names[0].startswith("d=2020-01-02")


def test_lists_in_cells_are_no_numbers():
    cells = np.empty(2, dtype=object)
    cells[:] = [1.0], (2.0, [3.0])
    frame = {"a": cells, "y": [1.0, 2.0]}
    with pytest.raises(hkflow.CaseError, match=r"row 1, column 'a': '\[1.0\]' is not a number"):
        read("frame", frame=frame, label="y")
    named = read("frame", frame=frame, label="y", categorical=["a"])
    assert named.preparation.columns[0].categories == ["(2.0, [3.0])", "[1.0]"]


def test_frames_without_rows_are_refused():
    with pytest.raises(hkflow.CaseError, match=r"the frame: has no rows\."):
        read("frame", frame={"a": [], "y": []}, label="y", positive=[1], negative=[0])


def test_gaps_of_categories_in_parquet_files_are_gaps(tmp_path, monkeypatch):
    """As pandas and polars write them: numpy takes a gap of pyarrow's for the last category."""
    import pandas

    monkeypatch.chdir(tmp_path)
    texts = pandas.Series(["u", "v", None, "w", "u"], dtype="category")
    pandas.DataFrame({"c": texts, "x": range(5), "y": texts}).to_parquet("d.parquet")
    found = datafiles.read_columns(tmp_path / "d.parquet").named
    assert found["c"].tolist() == found["y"].tolist() == ["u", "v", None, "w", "u"]
    listed = {"label": "y", "positive": ["u"], "negative": ["v", "w"]}
    with pytest.raises(hkflow.CaseError, match=r"row 3, column 'c': has no value"):
        read(file="d.parquet", **listed | {"label": "x", "positive": [0, 2], "negative": [1, 3]})
    assert read(file="d.parquet", missing="drop", **listed).targets.tolist() == [1, -1, -1, 1]


def test_columns_are_equal_by_their_cells():
    """As ranks ask that compute one run together."""
    make = lambda *cells: columns.Columns.of({"a": list(cells), "b": [1, None]})
    assert make(1.0, "x") == make(1.0, "x") != make(1.0, "y")
    assert make(1.0, "x") != columns.Columns.of({"b": [1, None]})


def test_fifty_thousand_rows_are_read(tmp_path, monkeypatch, rng):
    monkeypatch.chdir(tmp_path)
    values = np.round(rng.standard_normal((50_000, 21)), 6)
    rows = "\n".join(",".join(map(repr, row)) for row in values.tolist())
    header = ",".join(f"c{k}" for k in range(20)) + ",y\n"
    (tmp_path / "big.csv").write_text(header + rows)
    found = read(file="big.csv", label="y", standardize=True)
    assert found.inputs.shape == (50_000, 20)
    assert np.array_equal(found.targets, values[:, 20])


def test_what_is_missing_is_known_in_every_spelling():
    assert all(map(labels.is_missing, (None, float("nan"), "", " ", "NA", "n/a", "NULL", "?")))
    assert not any(map(labels.is_missing, (0, "0", "no", "-", "unknown")))


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        (["true", "TRUE", "1", "False", "0", "2"], ["2", "False", "true"]),
        (["TRUE", "true", "0", "2"], ["0", "2", "TRUE"]),
        (["1_1", "11", "2_0"], ["11", "1_1", "2_0"]),
        (["1234567890123456789", "1234567890123456788", "3.0"],
         ["3", "1234567890123456788", "1234567890123456789"]),
        ([10.0, "9", 10], ["9", "10"]),
    ],
)  # fmt: skip
def test_names_of_classes_are_what_the_table_says_first(cells, found):
    """Whatever the order in which Python keeps a set; labels of as many digits as one likes are
    told apart, and those with underscores are texts."""
    every = SimpleNamespace(classes=None)
    names = table_rows._classes(every, np.array(cells, dtype=object), "kind", "the table")
    assert names == found
    assert len({labels.text_of(name) for name in names}) == len(names)


def test_what_python_alone_takes_for_a_number_is_none():
    cells = np.array(["1_000", "2", " 3.5 "], dtype=object)
    values, wrong = columns.numbers(cells)
    assert wrong == [0] and values[1:].tolist() == [2.0, 3.5]
    assert columns.numbers(np.array(["1_000", 2.0, None], dtype=object))[1] == [0]


@pytest.mark.parametrize(
    "frame",
    [
        {"X": np.ones((3, 2)), "X1": np.zeros(3), "y": np.ones(3)},
        {1: np.arange(3.0), "1": np.ones(3), "y": np.ones(3)},
    ],
)
def test_columns_that_would_have_one_name_are_refused(frame):
    with pytest.raises(hkflow.CaseError, match="names the column 'X?1' twice"):
        columns.Columns.of(frame)


WEIGHTED = [  # width, colour, y, weight
    ("1.5", "red", "1", "2"),
    ("", "blue", "2.5", "3"),
    ("4", "", "-1", "1"),
    ("-3.25", "blue", "0.5", "0"),
    ("7", "red", "4", "1"),
    ("2", "blue", "3", "4"),
]


def _with_weights(rows):
    return "width,colour,y,n\n" + "".join(",".join(row) + "\n" for row in rows)


def _with_copies(rows):
    copies = (",".join(row[:3]) + "\n" for row in rows for _ in range(int(row[3])))
    return "width,colour,y\n" + "".join(copies)


@pytest.mark.parametrize("asked", [{}, {"standardize": True}, {"components": 1}])
def test_rows_with_weights_are_so_many_copies(table, asked):
    found = table(_with_weights(WEIGHTED), weight="n", missing="impute", **asked)
    copies = table(_with_copies(WEIGHTED), missing="impute", **asked)
    assert found.weights == pytest.approx(np.array([2, 3, 1, 1, 4]) / 11, rel=1e-15)
    first = [0, 2, 5, 6, 7]  # of the copies of each
    assert found.inputs == pytest.approx(copies.inputs[first], rel=1e-13)
    assert found.targets.tolist() == copies.targets[first].tolist()
    alike = table(_with_copies(row[:3] + ("1",) for row in WEIGHTED), missing="impute", **asked)
    assert not np.allclose(alike.inputs[1], found.inputs[1], rtol=1e-3)
    notes = " ".join(found.preparation.notes)
    assert "1 row of weight 0 left out (line 5)" in notes
    assert "by its mean 2.75, 1 in 'colour' by its commonest category blue" in notes


def test_categories_that_are_as_common_are_so_with_weights(table):
    """Rounding of sums of weights chose one of them; of copies the first one is imputed."""
    rows = [("p", 5), ("p", 2), ("q", 4), ("q", 3), ("", 1)]
    for shift in range(5):
        whole = [(g, str(k), str(n)) for k, (g, n) in enumerate(rows[shift:] + rows[:shift])]
        found = table(
            "c,y,w\n" + "".join(",".join(row) + "\n" for row in whole), weight="w", missing="impute"
        )
        assert found.preparation.columns[0].fill == "p", shift


def test_weights_of_training_and_of_held_out_rows_have_sum_1(table):
    rows = "".join(f"{k},{k},{k}\n" for k in range(1, 9))
    found = table("a,y,w\n" + rows, weight="w", test_fraction=0.4)
    _, targets, weights = found.test
    assert len(targets) == 3 and weights == pytest.approx(targets / targets.sum(), rel=1e-14)
    assert found.weights == pytest.approx(found.targets / found.targets.sum(), rel=1e-14)


def test_runs_of_rows_with_weights_are_those_of_copies(tmp_path, monkeypatch):
    """Test data count by their weights as well."""
    monkeypatch.chdir(tmp_path)
    whole = [row for row in WEIGHTED if "" not in row]
    tests = [("0.5", "red", "2", "3"), ("1", "blue", "-1", "1")]
    (tmp_path / "w.csv").write_text(_with_weights(whole))
    (tmp_path / "t.csv").write_text(_with_weights(tests))
    keys = {"source": "file", "label": "y", "standardize": True, "test_file": "t.csv"}
    case = {"data": keys | {"file": "w.csv", "weight": "n"}} | REST
    case["method"] = {"kind": "particles", "particles": 40}
    run = hkflow.run(case, tmp_path / "w", quiet=True)
    (tmp_path / "c.csv").write_text(_with_copies(whole))
    (tmp_path / "t.csv").write_text(_with_copies(tests))
    copies = hkflow.run(case | {"data": keys | {"file": "c.csv"}}, tmp_path / "c", quiet=True)
    for name in ("objective", "training_error", "test_loss", "test_error"):
        assert run.records[name][-1] == pytest.approx(copies.records[name][-1], rel=1e-9), name
    new = {"width": [0.3, 5.0], "colour": ["red", "blue"]}
    assert run.predict(new) == pytest.approx(copies.predict(new), rel=1e-9)


def test_weights_of_inline_data_are_those_of_the_risk_alone():
    """They may be 0 as well: a mean by them would be a division by zero."""
    keys = {"inputs": [[1.0], [2.0], [5.0]], "targets": [1.0, 2.0, 3.0], "standardize": True}
    plain = read("inline", **keys)
    for weights in ([1.0, 4.0, 2.0], [0.0, 0.0, 0.0]):
        found = read("inline", weights=weights, **keys)
        assert found.inputs.tolist() == plain.inputs.tolist()
        assert found.weights.tolist() == weights


def test_weights_may_be_true_and_false(table):
    found = table("a,y,w\n1,1,true\n2,2,False\n3,3,True\n", weight="w")
    assert found.targets.tolist() == [1.0, 3.0] and found.weights.tolist() == [0.5, 0.5]


def test_what_is_wrong_with_weights_is_said(table):
    with pytest.raises(hkflow.CaseError) as refused:
        table("a,y,w\n1,1,-2\n2,2,\n3,3,inf\n4,4,many\n5,5,1\n", weight="w")
    said = str(refused.value)
    assert "4 problems" in said and "line 2, column 'w': '-2' is negative" in said
    assert "line 3, column 'w': has no value" in said and "'inf' is not finite" in said
    assert said.count("leaves rows without a label or a weight out") == 1
    assert "'many' is not a number" in said
    with pytest.raises(hkflow.CaseError, match="'w' is the weight of the rows, so it is no input"):
        table("a,y,w\n1,1,1\n", weight="w", features=["a", "w"])
    with pytest.raises(hkflow.CaseError, match="data.weight: .*Unknown column 'v'"):
        table("a,y,w\n1,1,1\n", weight="v")
    with pytest.raises(hkflow.CaseError, match="data.weight: .*Unknown column ''"):
        table("a,y,w\n1,1,1\n", weight="")
    with pytest.raises(hkflow.CaseError, match="data.weight: 'y' is the label"):
        table("a,y,w\n1,1,1\n", weight="y")
    with pytest.raises(hkflow.CaseError, match="no rows are left"):
        table("a,y,w\n1,1,0\n", weight="w")
    found = table("a,y,w\n1,1,1\n2,2,\n3,3,1e308\n4,4,1e308\n", weight="w", missing="drop")
    assert found.lines.tolist() == [2, 4, 5] and found.weights.tolist() == [0.5e-300, 0.5, 0.5]


def test_what_a_test_frame_lacks_is_said_of_it():
    frame = {"a": np.arange(4.0), "y": np.arange(4.0), "w": np.ones(4)}
    tests = {"a": np.arange(2.0), "y": np.arange(2.0)}
    with pytest.raises(hkflow.CaseError, match="data.weight: the test frame: Unknown column 'w'"):
        read("frame", frame=frame, test_frame=tests, label="y", weight="w")


def test_nothing_is_asked_of_rows_of_weight_0(table):
    """Neither labels nor classes, as if they were not in the file."""
    text = "a,y,w\n1,1,1\n2,,0\n3,many,0\n4,-1,2\n"
    found = table(text, weight="w")
    assert found.targets.tolist() == [1.0, -1.0] and found.lines.tolist() == [2, 5]
    with pytest.raises(hkflow.CaseError, match="'q'"):
        table("a,y,w\n1,p,1\n2,q,0\n", weight="w", positive=["p"], negative=["q"])


def test_rows_that_count_next_to_nothing_have_a_mean(table):
    """It was a division by zero where all that is known of a column has such weights."""
    text = "a,b,y,w\n1,2,1,1e-320\n,3,2,1e10\n3,4,3,1e-320\n"
    found = table(text, weight="w", missing="impute")
    assert found.inputs[1].tolist() == [2.0, 3.0] and (found.weights > 0.0).all()
