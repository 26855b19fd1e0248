"""Files that users name: special files, wide and long ones, texts that parsers choke on, and
streams that are closed or narrow."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest
from commands import computed_here

import hkflow
from hkflow.app.report import write_report
from hkflow.case.datafiles import read_columns
from hkflow.case.load import parse_override
from hkflow.case.schema.data import FileData
from hkflow.case.table_rows import raw_table
from hkflow.plots.compare import save_comparison
from hkflow.plots.decision import draw_predictions

CASE = """
title = "{title}"
[data]
source = "csv"
file = "{file}"
label = "y"
positive = ["1"]
negative = ["0"]
[objective]
bias = true
loss = "logistic"
[domain]
kind = "signed-sphere"
cells = 42
[flow]
kind = "hellinger-kantorovich"
[time]
end = 0.01
"""


def read_csv(path, label):
    """Inputs, targets and the names of the inputs of a CSV file."""
    table = FileData(source="csv", file=path.name, label=label)
    found = raw_table(table, read_columns(path), label, f"data.file: {path}")
    return found.encoded(), found.targets, [column.name for column in found.columns]


ROWS = "a,b,y\n0.1,0.2,1\n0.5,-0.3,0\n-0.2,0.1,1\n"


@pytest.fixture
def case(tmp_path):
    """A function that writes a case and its data and returns the path of the case."""
    (tmp_path / "data.csv").write_text(ROWS)

    def write(title="a title", file="data.csv", more="", encoding="utf-8"):
        path = tmp_path / "case.toml"
        path.write_text(CASE.format(title=title, file=file) + more, encoding=encoding)
        return path

    return write


@pytest.mark.parametrize("kind", ["pipe", "device", "huge"])
def test_special_files_are_refused_at_once(case, tmp_path, kind):
    odd = tmp_path / "odd"
    if kind == "pipe":
        os.mkfifo(odd)
    elif kind == "device":
        odd.symlink_to("/dev/zero")
    else:
        with open(odd, "wb") as stream:
            stream.truncate(2**42)
    wanted = "MB are read" if kind == "huge" else f"it is a {kind}, wanted a regular file"
    with pytest.raises(hkflow.CaseError, match=f"odd: cannot be read \\(.*{wanted}"):
        hkflow.check(odd)
    with pytest.raises(hkflow.CaseError, match=f"data.file: .*odd cannot be read .*{wanted}"):
        hkflow.check(case(file="odd"))
    with pytest.raises(hkflow.CaseError, match=f"initial.file: .*odd cannot be read .*{wanted}"):
        hkflow.check(case(more='[initial]\nkind = "points"\nfile = "odd"\n'))


def test_many_columns_take_no_more_than_their_share(tmp_path):
    """Every name was looked for in all others: 40 000 columns took half a minute."""
    names = [f"c{k}" for k in range(40_000)]
    (tmp_path / "wide.csv").write_text(
        f"{','.join(names)},y\n" + f"{','.join(['1.5'] * len(names))},1\n" * 2
    )
    began = time.process_time()
    inputs, labels, features = read_csv(tmp_path / "wide.csv", "y")
    assert time.process_time() - began < 2.0
    assert (
        inputs.shape == (2, 40_000)
        and (inputs == 1.5).all()
        and labels.tolist() == [1.0, 1.0]
        and features == names
    )
    with pytest.raises(hkflow.CaseError, match="Choose from: c0, c1, .* and 39961 more") as caught:
        read_csv(tmp_path / "wide.csv", "z")
    assert len(str(caught.value)) < 1000


def test_numbers_are_read_nearly_as_fast_as_numpy_reads_them(tmp_path, rng):
    """Twice numpy's time; before it was six times: a sentence was made for each cell, in case it
    was wrong."""
    values = rng.standard_normal((4000, 21))
    path = tmp_path / "long.csv"
    np.savetxt(
        path,
        values,
        fmt="%.17g",
        delimiter=",",
        header=",".join([*(f"c{k}" for k in range(20)), "y"]),
        comments="",
    )

    def seconds(read):
        spent = []
        for _ in range(3):
            began = time.process_time()
            read()
            spent.append(time.process_time() - began)
        return min(spent)

    assert np.array_equal(read_csv(path, "y")[0], values[:, :20])
    assert seconds(lambda: read_csv(path, "y")) < 4.0 * seconds(
        lambda: np.loadtxt(path, delimiter=",", skiprows=1)
    )
    path.write_text(path.read_text() + ",".join(["1"] * 10 + ["oops"] * 11) + "\n")
    with pytest.raises(hkflow.CaseError, match="line 4002, column 'c10': 'oops' is not a number"):
        read_csv(path, "y")


@pytest.mark.parametrize(
    "title, message",
    [
        ('" + "', "not valid TOML"),
        ("a\\u0000b", "title: text must not hold the character NUL"),
    ],
)
def test_texts_that_nothing_can_keep_are_refused(case, title, message):
    with pytest.raises(hkflow.CaseError, match=message):
        hkflow.check(case(title=title))


@pytest.mark.parametrize(
    "line, message",
    [
        (f"seed = {'[' * 3000}{']' * 3000}", "too many lists or tables in one another"),
        (
            f"seed = {'[' * 100}{']' * 100}",
            "seed.0.0.0: more than 20 lists or tables in one another",
        ),
        (f"{'a.' * 3000}b = 1", "lists or tables"),  # more than 20; too many for Python 3.14
        (f"seed = {'9' * 5000}", "not valid TOML: Exceeds the limit"),
        (f"seed = 0x{'f' * 5000}", "seed: an integer of more than 300 digits"),
        ('"a\\nb" = 1', "'a\\\\nb': unknown key"),
    ],
)
def test_texts_that_parsers_choke_on_are_refused(case, line, message):
    path = case()
    path.write_text(f"{line}\n{path.read_text()}")
    with pytest.raises(hkflow.CaseError) as caught:
        hkflow.check(path)
    assert message.replace("\\\\", "\\") in str(caught.value)


def test_overrides_that_parsers_choke_on_are_refused():
    for value in ("[" * 3000, "9" * 5000):
        with pytest.raises(hkflow.CaseError, match="--set seed: "):
            parse_override(f"seed={value}")


@pytest.mark.parametrize("letter", ['\\"', "\\n", "\\r"])
def test_a_delimiter_that_quotes_or_ends_lines_is_refused(case, letter):
    path = case()
    path.write_text(path.read_text().replace("[objective]", f'delimiter = "{letter}"\n[objective]'))
    with pytest.raises(hkflow.CaseError, match="'delimiter' is "):
        hkflow.check(path)


def test_a_byte_order_mark_is_no_part_of_a_case(case):
    assert hkflow.check(case(encoding="utf-8-sig"))[0] == hkflow.check(case())[0]


def test_data_of_no_weight_are_refused():
    for risk in ("logistic", "square", "smooth-margin"):
        with pytest.raises(ValueError, match="not all 0"):
            hkflow.Objective(
                hkflow.FEATURES["relu"],
                hkflow.RISKS[risk],
                np.eye(2),
                np.array([1.0, -1.0]),
                np.zeros(2),
            )


@pytest.mark.parametrize("name", ["a\0b", "a" * 300])
def test_names_that_no_file_can_have(case, tmp_path, name):
    for call in (hkflow.load, hkflow.resume, lambda place: hkflow.run(case(), output=place)):
        with pytest.raises(hkflow.RunFolderError, match="no file can have this name|too long"):
            call(tmp_path / name)
    with pytest.raises(hkflow.CaseError, match="cannot be read"):
        hkflow.check(tmp_path / name)


def hk(*words, redirections="", **environment):
    """`hkflow words…` in a shell; returns exit code and what it wrote to the standard error."""
    command = (
        f"{sys.executable} -c 'from hkflow.app.cli import main; main()' {' '.join(map(str, words))}"
        f" {redirections}"
    )
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, env=os.environ | environment
    )
    return done.returncode, done.stderr.decode()


@pytest.mark.usefixtures("one_core")
def test_titles_columns_and_streams_that_are_unlike_others(case, tmp_path):
    """A title and columns that are no mathematics, on a terminal in latin-1, then with streams
    closed."""
    (tmp_path / "data.csv").write_text(ROWS.replace("a,b", "$\\frac{a}$,b$"))
    path = case(title="$\\\\frac{a}$ ☃ costs 5$")
    path.write_text(
        path.read_text().replace(
            "[objective]", 'features = ["$\\\\frac{a}$", "b$"]\n[objective]', 1
        )
    )
    for redirections, encoding in ((">&- 2>&- <&-", "utf-8"), ("", "latin-1")):
        code, said = hk(
            "run",
            path,
            "--output",
            tmp_path / "run",
            "--force",
            "--set",
            "error.companions=none",
            redirections=redirections,
            PYTHONIOENCODING=encoding,
        )
        assert code == 0 and "Traceback" not in said, said
    assert (tmp_path / "run" / "overview.png").stat().st_size > 1000
    from matplotlib.figure import Figure

    figure = Figure()
    draw_predictions(figure.subplots(), hkflow.load(tmp_path / "run"))
    assert [
        text.get_text() for text in (figure.axes[0].xaxis.label, figure.axes[0].yaxis.label)
    ] == [r"\$\frac{a}\$", r"b\$"]


def test_names_that_are_no_utf_8_are_shown_with_escapes(case, tmp_path, monkeypatch):
    """As older systems leave them, and as all but ASCII is in the locale C."""
    monkeypatch.setattr("hkflow.studies.study.compute_all", computed_here)
    name, shown = os.fsdecode(b"f\xe4ll"), "f\\udce4ll"
    path = case(title="")
    run = hkflow.run(path, output=tmp_path / name, error={"companions": "none"})
    for page in (
        hkflow.page(run).write(tmp_path / "view.html"),
        write_report([run.path], tmp_path / "report.html"),
    ):
        assert shown in page.read_text(encoding="utf-8")
    save_comparison(hkflow.compare(run, run), tmp_path / "comparison.png")
    study = tmp_path / f"{name}.toml"
    study.write_text('case = "case.toml"\n[refine]\ndomain.cells = [42, 162]\n')
    result = hkflow.study(study, tmp_path / "study")
    assert shown in (result.folder / "table.md").read_text(encoding="utf-8")
