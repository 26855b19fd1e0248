"""Study files: what they make, and what they refuse."""

from typing import get_args

import pytest
from conftest import STUDIES

from hkflow import CaseError
from hkflow.case.load import load_case
from hkflow.case.schema.case import Case
from hkflow.studies.file import GIVEN_DATA, in_words, load_study, resolution

CASE = """
[data]
source = "moment"
direction = [0.6, 0.8]
target = 0.5
[objective]
activation = "linear"
loss = "square"
[domain]
kind = "sphere"
cells = 32
[flow]
kind = "hellinger-kantorovich"
[time]
end = 0.2
"""


@pytest.fixture
def make(tmp_path):
    """A function that writes a study beside a case and loads it."""
    (tmp_path / "case.toml").write_text(CASE)
    (tmp_path / "other.toml").write_text(CASE)

    def load(text):
        path = tmp_path / "study.toml"
        path.write_text('case = "case.toml"\n' + text if "case =" not in text else text)
        return load_study(path)

    return load


def test_a_case_and_a_study_that_are_taken_for_each_other_are_told_apart(make, tmp_path):
    """Each was refused by eight lines, one for every key that it has or has not."""
    make("repeats = 2")
    with pytest.raises(CaseError, match=r"^\S*case.toml: is a case, not a study: hkflow run \S+"):
        load_study(tmp_path / "case.toml")
    with pytest.raises(CaseError, match=r"^\S*study.toml: is a study, not a case: hkflow study"):
        load_case(tmp_path / "study.toml")
    spaced = (tmp_path / "study.toml").rename(tmp_path / "my study.toml")
    with pytest.raises(CaseError, match=r"hkflow study '\S+my study.toml'$"):
        load_case(spaced)


def test_a_table_is_no_study(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("a,y\n1,1\n")
    with pytest.raises(CaseError, match=r"d.csv: is a table, not a case or study file. Name it in"):
        load_study(path)


@pytest.mark.parametrize("name", ["run", "steps", "repeat"])
def test_records_that_are_called_as_a_column_are_refused(name, make, tmp_path):
    """Folders of runs took the place of its numbers, or its numbers that of repeats."""
    (tmp_path / "case.toml").write_text(CASE + f'\n[records]\n{name} = "numpy:size"\n')
    make("repeats = 2")
    with pytest.raises(CaseError, match=f"have a column '{name}' already. Call the record"):
        make(f'values = ["{name}"]')


def members(study):
    return [(m.group, m.level, m.repeat, m.changes) for m in study.members]


def test_refined_keys_go_together(make):
    study = make(
        '[refine]\ndomain.cells = [16, 32]\nmethod.max_step = [0.2, 0.1]\n[set]\n"time.end" = 0.4'
    )
    first, second = (
        {"time.end": 0.4, "domain.cells": n, "method.max_step": s}
        for n, s in ((16, 0.2), (32, 0.1))
    )
    assert members(study) == [(0, 0, 0, first), (0, 1, 0, second)]
    assert (
        study.members[1].file.case.domain.cells == 32 and study.members[1].file.case.time.end == 0.4
    )
    assert resolution(study, 1) == pytest.approx([1 / 16, 1 / 32])


def test_sweeps_multiply_and_tables_of_them_go_together(make):
    study = make("[sweep]\nflow.noise = [0.0, 0.1]\ntime.end = [1.0, 2.0, 3.0]")
    assert len(study.groups) == 6 and study.groups[1] == {"flow.noise": 0.0, "time.end": 2.0}
    together = make(
        "[[sweep]]\nflow.noise = [0.0, 0.1]\ntime.end = [1.0, 2.0]\n[[sweep]]\ndomain.cells = [16,"
        " 32, 64]"
    )
    assert len(together.groups) == 6 and together.groups[3] == {
        "flow.noise": 0.1,
        "time.end": 2.0,
        "domain.cells": 16,
    }


def test_cases_repeats_and_references_are_members(make):
    study = make(
        'case = ["case.toml", "other.toml"]\nrepeats = 3\n[refine]\ndomain.cells = [16,'
        " 32]\n[reference]\ndomain.cells = 64"
    )
    assert [group["case"] for group in study.groups] == ["case.toml", "other.toml"]
    assert len(study.members) == 2 * (2 + 1) * 3
    # nothing depends on the seed: repeats are one run
    assert [m.file.case.seed for m in study.members if m.level == 1] == [0] * 6
    assert [m.file.case.domain.cells for m in study.members if m.level == -1] == [64] * 6


def test_methods_can_be_refined_as_whole_tables(make):
    study = make(
        '[refine]\nmethod = [{kind = "particles", particles = 10}, {kind = "particles", particles ='
        " 20}]"
    )
    assert [m.file.case.method.particles for m in study.members] == [10, 20]
    assert resolution(study, 1) is None


@pytest.mark.parametrize("source", GIVEN_DATA)
def test_given_data_are_sources_that_need_no_seed(source):
    kinds = Case.model_fields["data"].annotation.__args__
    (model,) = (one for one in kinds if source in get_args(one.model_fields["source"].annotation))
    assert not model.model_fields.keys() & {"n", "units"}


@pytest.mark.parametrize(
    "method, seeds",
    [
        ('kind = "particles", points = "random", particles = 8', [0, 1, 2]),
        ('kind = "particles", noise = "random", particles = 8', [0, 1, 2]),
        ('kind = "characteristics", points = "random", particles = 8', [0, 1, 2]),
        ('kind = "particles", particles = 8', [0, 0, 0]),
        ('kind = "grid"', [0, 0, 0]),
    ],
)
def test_repeats_have_seeds_where_something_is_drawn(make, method, seeds):
    study = make(f"repeats = 3\n[set]\nmethod = {{{method}}}\n[sweep]\ntime.end = [0.1]")
    assert [m.file.case.seed for m in study.members] == seeds


def test_seeds_of_repeats_begin_at_the_one_that_is_set(make):
    """All repeats had that seed, and their standard error was 0."""
    method = 'method = {kind = "particles", points = "random", particles = 8}'
    study = make(f"repeats = 3\n[set]\nseed = 5\n{method}\n[sweep]\ntime.end = [0.1]")
    assert [m.file.case.seed for m in study.members] == [5, 6, 7]
    study = make(f"repeats = 2\n[set]\n{method}\n[sweep]\nseed = [0, 9]")
    assert [m.file.case.seed for m in study.members] == [0, 1, 9, 10]


@pytest.mark.parametrize(
    "text, message",
    [
        (
            'curves = ["mas"]\n[sweep]\ntime.end = [0.1]',
            "curves: Unknown record 'mas'. Did you .*'mass'",
        ),
        ("[refin]\ndomain.cells = [1, 2]", "unknown key. Did you mean 'refine'"),
        ("[refine]\ndomain.cells = 32", "refine.domain.cells: wanted a list"),
        ("[refine]\ndomain.cells = [32]", "two values or more"),
        (
            "[refine]\ndomain.cells = [32, 64]\ntime.end = [1.0]",
            "equally long, got 2 for 'domain.cells', 1 for 'time.end'",
        ),
        ("[[sweep]]\ndomain.cells = [32, 64]\ntime.end = [1.0]", "equally long"),
        (
            "[refine]\ndomain.cell = [32, 64]",
            "domain.cell = 32.*cell: unknown key. Did you mean 'cells'",
        ),
        ("[refine]\ndomain.cells = [32, 2]", "domain.cells = 2.*greater than or equal to 3, got 2"),
        ('case = "absent.toml"\n[sweep]\ntime.end = [1.0]', "absent.toml: cannot be read"),
        ('errors = ["L2"]\n[refine]\ndomain.cells = [32, 64]', "errors.*'L2'.*Choose from: L1"),
        (
            'values = ["mas"]\n[sweep]\ntime.end = [0.1]',
            "values: Unknown record 'mas'. Did you .*'mass'",
        ),
        (
            'against = "reference"\n[refine]\ndomain.cells = [32, 64]',
            "needs a table \\[reference\\]",
        ),
        ("[reference]\ndomain.cells = 64", "for a study with \\[refine\\]"),
        ("repeats = 0", "repeats: must be greater than or equal to 1"),
        ("[refine\n", "not valid TOML"),
        ("[set]\ndomain = 5\n[sweep]\ntime.end = [1.0]", "domain: must be a table, got 5"),
        ("[refine]\ndomain = [5, 6]", "domain = 5: .*domain: must be a table, got 5"),
        ("repeats = 1_000_000\n[sweep]\ntime.end = [0.1]", "most 100,000 runs, got 1,000,000"),
        (
            f"repeats = 2\n[set]\nseed = {2**63}\n[sweep]\ntime.end = [0.1]",
            "less than 9223372036854775808",
        ),
        (
            "[set]\ntime.end = -1\ndomain.cells = 2",
            "cells = 2: .*cells: .*\n.*study.toml, with .*end: ",
        ),
    ],
)
def test_faults_are_told_with_their_key(make, text, message):
    with pytest.raises(CaseError, match=f"(?s)study.toml.*{message}"):
        make(text)


def test_a_small_version_that_is_no_table_is_refused(make, tmp_path):
    make("[sweep]\ntime.end = [0.1]\n[quick]\nrepeats = 2")
    assert len(load_study(tmp_path / "study.toml", quick=True).members) == 2
    with pytest.raises(CaseError, match="study.toml:2: quick: "):
        make("quick = 5\n[sweep]\ntime.end = [0.1]")
    with pytest.raises(CaseError, match="study.toml:2: quick: "):
        load_study(tmp_path / "study.toml", quick=True)


def test_what_all_members_share_stays_where_the_method_is_swept(make):
    made = make(
        '[set]\nmethod.tolerance = 1e-7\nmethod.limiter = "minmod"\n'
        '[sweep]\nmethod.kind = ["grid", "particles"]'
    )
    grid, particles = (member.file.case.method for member in made.members)
    assert (grid.tolerance, grid.limiter, particles.tolerance) == (1e-7, "minmod", 1e-7)
    table = make(
        '[set]\nmethod.tolerance = 1e-7\n[sweep]\nmethod = [{kind = "grid", tolerance = 1e-3}]'
    )
    assert table.members[0].file.case.method.tolerance == 1e-3


def test_labels_of_swept_tables_and_numbers_say_all_that_differs(make):
    flows = '{kind = "wasserstein", noise = 0.3}, {kind = "hellinger"}'
    flows += ', {kind = "hellinger", noise = 0.2}'
    made = make(f"[sweep]\nflow = [{flows}]\ntime.end = [0.1234567, 0.1234568]")
    words = [tuple(group.values()) for group in in_words(made.groups)]
    assert len(set(words)) == 6
    assert ("wasserstein, noise = 0.3", "0.1234567") in words and (
        "hellinger",
        "0.1234568",
    ) in words


def test_h_is_of_the_first_key_whose_values_differ(make):
    made = make("[refine]\nmethod.max_step = [0.1, 0.05, 0.05]\ndomain.cells = [16, 32, 64]")
    assert resolution(made, 1) == pytest.approx([1 / 16, 1 / 32, 1 / 64])
    assert resolution(make("[refine]\ndomain.cells = [16, 16, 32]"), 1) is None


def test_the_seed_of_the_last_repeat_is_checked(make, tmp_path):
    drawn = 'method = {{kind = "particles", points = "random", particles = 8}}'
    text = CASE.replace("[data]", f"seed = {2**63 - 2}\n[data]", 1)
    (tmp_path / "late.toml").write_text(text)
    study = f'case = "late.toml"\nrepeats = {{}}\n[set]\n{drawn}\n[sweep]\ntime.end = [0.1]'
    assert [m.file.case.seed for m in make(study.format(2)).members] == [2**63 - 2, 2**63 - 1]
    with pytest.raises(CaseError, match="seed: .*less than 9223372036854775808"):
        make(study.format(3))


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_studies_of_the_project_are_right(path):
    assert load_study(path).members
