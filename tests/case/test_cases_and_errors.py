"""Case files: what is refused and how it is said; what they become."""

import re
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest
from conftest import CASES, ROOT

import hkflow
from hkflow.case.load import parse_case, parse_override
from hkflow.objectives.losses import ALL_RISKS

IRIS = ROOT / "cases" / "quickstart" / "iris.toml"

MINIMAL = """
[data]
source = "inline"
inputs = [[0.5], [-1.0]]
targets = [1.0, -1.0]
[objective]
activation = "relu"
bias = true
loss = "logistic"
[domain]
kind = "signed-sphere"
cells = 24
[flow]
kind = "hellinger-kantorovich"
[time]
end = 0.5
"""


@pytest.fixture
def case(tmp_path):
    """A function that writes a small case with replacements and returns its path."""

    def write(*replacements, text=MINIMAL):
        for old, new in replacements:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "small.toml"
        path.write_text(text)
        return path

    return write


CSV = (
    'source = "inline"\ninputs = [[0.5], [-1.0]]\ntargets = [1.0, -1.0]',
    'source = "csv"\nfile = "d.csv"\nlabel = "y"',
)


def test_the_minimal_case_is_fine(case):
    resolved, problem = hkflow.check(case())
    assert (problem.mesh.n_cells, problem.signs, problem.flow) == (
        24,
        (1, -1),
        hkflow.Flow(1.0, 2.0),
    )
    assert resolved.method.limiter == "mc" and resolved.time.saves == 2


def test_saves_in_equal_ratios(case):
    resolved, _ = hkflow.check(case(("end = 0.5", "end = 0.5\nsaves = 4\nfirst = 0.0005")))
    assert (
        resolved.time.saves == pytest.approx([0.0005, 0.005, 0.05, 0.5], rel=1e-14)
        and resolved.time.saves[-1] == 0.5
    )


@pytest.mark.parametrize(
    "old, new, message",
    [
        (
            'source = "inline"\ninputs = [[0.5], [-1.0]]\ntargets = [1.0, -1.0]',
            'source = "cluster-grid"\nn = 16\nclusters = 2\nclasses = [1, -1, 1]',
            "'classes' has 3 entries for 4 discs",
        ),
        ("bias = true", "bais = true", "objective.bais: unknown key. Did you mean 'bias'"),
        ("bias = true", "bias = 1", "objective.bias: must be a valid boolean, got 1"),
        ("cells = 24", 'cells = "24"', "domain.cells: must be a valid integer, got '24'"),
        ("cells = 24", "cells = 2", "domain.cells: must be greater than or equal to 3, got 2"),
        (
            '"relu"',
            '"rellu"',
            (
                "objective.activation: unknown value 'rellu'. Did you mean 'relu'? Choose from:"
                " linear, relu"
            ),
        ),
        (
            'source = "inline"',
            'source = "inlin"',
            "data.source: unknown value 'inlin'. Did you mean 'inline'",
        ),
        ('source = "inline"', "", "data.source: is missing. Choose from: csv"),
        ("[data]", "seed = 99999999999999999999\n[data]", "seed: must be less than"),
        ("end = 0.5", "", "time: 'end' is missing"),
        ("end = 0.5", "end = -1.0", "time.end: must be greater than 0, got -1.0"),
        ("end = 0.5", "end = nan", "time.end: must be a finite number"),
        ("end = 0.5", "end = 0.5\nsaves = [0.3, 0.2]", "time: listed 'saves' must increase"),
        (
            "end = 0.5",
            "end = 0.5\nsaves = [0.3, 0.4]\nfirst = 0.1",
            "time: 'first' goes with 'end' and a number of 'saves'",
        ),
        (
            "end = 0.5",
            "end = 5e-324\nsaves = 3",
            "time.saves: 3 of them up to t = 4.94066e-324 are too close",
        ),
        (
            "end = 0.5",
            "end = 0.5\nsaves = 9999\nfirst = 0.499999999999999",
            "time.saves: 9999 of them up to t = 0.5 are too close",
        ),
        (
            "end = 0.5",
            "end = 0.5\nsaves = 3\nfirst = 0.5",
            "time: 'first' must lie before 'end' = 0.5, got 0.5",
        ),
        ("end = 0.5", "end = 0.5\nstop = 3", "time.stop: unknown key"),
        (
            'kind = "hellinger-kantorovich"',
            'kind = "perturbed"',
            "flow: the perturbed flow needs 'noise' greater than 0",
        ),
        ('kind = "hellinger-kantorovich"', "noise = 0.1", "flow: give 'kind' or the rates"),
        ('kind = "hellinger-kantorovich"', 'kind = "hellinger"\nreaction = 3.0', "not both"),
        (
            'kind = "hellinger-kantorovich"',
            'kind = "output-layer"\nnoise = 0.1',
            "flow: A flow of depth 1 has the mobility",
        ),
        (
            'kind = "hellinger-kantorovich"',
            'kind = "hellinger-kantorovich"\ndepth = 3.0',
            "'diagonal' alone reads 'depth'",
        ),
        (
            'kind = "hellinger-kantorovich"',
            'kind = "hellinger"\ndrive = "measure"',
            "a spherical flow alone reads 'drive'",
        ),
        (
            'kind = "hellinger-kantorovich"',
            "reaction = 4.0\ntransport = 1.0\ndepth = 3.0",
            "goes without transport, got 1",
        ),
        (
            'kind = "hellinger-kantorovich"',
            'kind = "hellinger-kantorovich"\ntime_variable = "margin"',
            "the risk is 'logistic'",
        ),
        ('kind = "signed-sphere"\ncells = 24', 'kind = "fixed-features"', "must be 'linear'"),
        (
            'kind = "signed-sphere"\ncells = 24',
            'kind = "fixed-features"\ncells = 24',
            "a sphere alone reads 'cells'",
        ),
        (
            'kind = "signed-sphere"\ncells = 24',
            'kind = "fixed-features"\n[method]\nkind = "particles"\nparticles = 40',
            "a sphere alone reads 'particles'",
        ),
        (
            'kind = "signed-sphere"\ncells = 24',
            'kind = "fixed-features"\n[method]\nkind = "auto"\nparticles = 40',
            "a sphere alone reads 'particles'",
        ),
        ("[time]", '[initial]\nkind = "balanced"\n[time]', "needs the activation 'joint-relu'"),
        (
            "[time]",
            '[initial]\nkind = "scaled"\nscale = 2.0\n[time]',
            "is for the domain 'fixed-features'",
        ),
        ("[time]", '[initial]\nkind = "zero"\n[time]', "nonnegative and not zero everywhere"),
        (
            "[time]",
            '[method]\nstepper = "euler"\n[time]',
            "'euler' takes fixed steps: give their length, 'max_step'",
        ),
        ("end = 0.5", "end = 0.5\nuntil_margin = -1.0", "until_margin: must be greater than 0"),
        (
            "[time]",
            "[method]\nstepper = 'ssprk3'\ncfl = 0.8\n[time]",
            "positivity with 'ssprk3' and 'mc' needs at most 0.5",
        ),
        ("[time]", '[initial]\nkind = "caps"\nradius = 1.0\n[time]', "initial.centers: is missing"),
        (
            "[time]",
            '[initial]\nkind = "uniform"\nradius = 1.0\n[time]',
            "initial.radius: unknown key",
        ),
        (
            "[time]",
            '[initial]\nkind = "caps"\nradius = 0.01\ncenters = [[1.0, 0.0]]\n[time]',
            "holds none of the 24 points",
        ),
        (
            "[time]",
            '[initial]\nkind = "points"\npositions = [[1.0]]\n[time]',
            "wanted nonzero vectors of R^2",
        ),
        ("[[0.5], [-1.0]]", "[]", "data.inputs: wanted 1 or more, got []."),
        ("end = 0.5", "end = 0.5\nsaves = []", "time.saves: wanted 1 or more, got []."),
        (
            "[[0.5], [-1.0]]",
            "[[0.5, 1.0, 2.0, 3.0], [-1.0, 2.0, 0.0, 1.0]]",
            "and a grid needs a mesh: S^4 has no mesh. There are meshes of S^1, S^2, S^3. Set"
            " method.kind = 'characteristics'",
        ),
        ("[[0.5], [-1.0]]", "[[0.5], [1.0, 2.0]]", "data.inputs: rows have different lengths"),
        ("[[0.5], [-1.0]]", "[[0.5], [nan]]", "data.inputs.1.0: must be a finite number"),
        ("targets = [1.0, -1.0]", "targets = [1.0]", "data.targets: 1 values for 2 inputs"),
        ("targets = [1.0, -1.0]", "targets = [1.0, 1.0]", "only the class +1 occurs"),
        ("targets = [1.0, -1.0]", "targets = [1.0, 3.0]", "needs targets +1 and -1, got 3"),
        ("bias = true", "", "directions lie on S^0"),
        ("cells = 24", "cells = 1000000000", "GB"),
        (
            "[[0.5], [-1.0]]",
            "[[0.5, 1.0], [-1.0, 2.0]]",
            "10·4^k + 2 or 90·4^k + 2 cells, got 24. Nearest: 12 or 42",
        ),
        ("[time]", "[time", "not valid TOML"),
    ],
)
def test_a_fault_is_named_with_its_file_and_key(case, old, new, message, tmp_path):
    path = case((old, new))
    with pytest.raises(hkflow.CaseError, match=re.escape(message)) as caught:
        hkflow.run(path, output=tmp_path / "out")
    assert str(caught.value).startswith(str(path))
    assert not (tmp_path / "out").exists()


def test_of_a_value_of_several_types_the_faults_of_its_own_are_told(case):
    """A number of saves that is too large was said to be no list as well."""
    with pytest.raises(hkflow.CaseError) as error:
        hkflow.check(case(("end = 0.5", "end = 0.5\nsaves = 2000000")))
    (line,) = str(error.value).splitlines()
    assert "time.saves: must be less than or equal to 1000000" in line
    with pytest.raises(hkflow.CaseError) as error:
        hkflow.check(case(("end = 0.5", 'end = 0.5\nsaves = [0.1, "a"]')))
    (line,) = str(error.value).splitlines()
    assert "time.saves.1: must be a valid number, got 'a'" in line


def test_points_of_a_mesh_that_there_is_not_are_told_of_others(case):
    """To take the method that the case had was advised."""
    inputs = ("[[0.5], [-1.0]]", "[[0.5, 1.0, 2.0, 3.0], [-1.0, 2.0, 0.0, 1.0]]")
    method = '[method]\nkind = "characteristics"\npoints = "mesh"\n[time]'
    path = case(inputs, ("[time]", method))
    with pytest.raises(hkflow.CaseError, match="Set method.points = 'quasi-uniform', or choose"):
        hkflow.check(path)
    assert hkflow.check(path, **{"method.points": "quasi-uniform"})


def test_toml_syntax_errors_name_the_line(case):
    with pytest.raises(hkflow.CaseError, match="line 3"):
        hkflow.check(case(('source = "inline"', "source = ")))


def test_all_faults_are_told_at_once(case):
    path = case(
        ("bias = true", "bais = true"), ("cells = 24", "cells = 1.5"), ("end = 0.5", "end = 0")
    )
    with pytest.raises(hkflow.CaseError) as caught:
        hkflow.check(path)
    assert len(str(caught.value).splitlines()) == 3


@pytest.mark.parametrize(
    "content, message",
    [
        (None, "cannot be read"),
        ("", "is empty"),
        ("x,y\n", "has a header line only"),
        ("x,x,y\n1,2,3\n", "names column 'x' twice"),
        ("x,z\n1,1\n", "data.label: .*Unknown column 'y'"),
        ("0.5,1\n-2,-1\n", "no column is called 'y', and the first line holds numbers alone"),
        ("x,y\n1,1\n2\n", "line 3: 1 fields where the header has 2"),
        ("x,y\n1,1\nabc,1\n", "line 3, column 'x': 'abc' is not a number"),
        ("x,y\n1,1\ninf,1\n", r"line 3, column 'x': 'inf' is not finite\.$"),
        ("x,y\n1,inf\n2,inf\n", r"line 3, column 'y': 'inf' is not finite\.$"),
        ("x,y\n1,one\n", "'one' is not a number"),
        (b"x,y\n\xff\xfe,1\n", "not a readable CSV"),
    ],
)
def test_bad_csv_files_are_refused_with_their_line(case, tmp_path, content, message):
    path = case(CSV)
    if content is not None:
        (tmp_path / "d.csv").write_bytes(
            content if isinstance(content, bytes) else content.encode()
        )
    with pytest.raises(hkflow.CaseError, match=message) as caught:
        hkflow.check(path)
    assert "d.csv" in str(caught.value) or str(caught.value).startswith(str(path))


def test_every_line_of_a_message_names_the_file(case, tmp_path):
    (tmp_path / "d.csv").write_text("x,y\n0.5,cow\n-1,cat\n")
    path = case((CSV[0], CSV[1] + '\npositive = ["dog"]\nnegative = ["cot", "bee"]'))
    with pytest.raises(hkflow.CaseError) as error:
        hkflow.check(path)
    lines = str(error.value).splitlines()
    assert len(lines) == 3
    assert all(re.match(rf"{re.escape(str(path))}:\d+: data\.", line) for line in lines), lines


@pytest.mark.parametrize(
    "table",
    [
        '[flow]\nreaction = "a\\nb"',
        '[data]\nsource = "csv"\nfile = "a\\nb"\nlabel = "y"',
        '[objective]\nactivation = "my\\nown:psi"\nloss = "square"',
        f'[method]\nkind = "{"grid" * 1000}"',
    ],
)
def test_what_was_got_is_shown_in_one_line_of_bounded_length(case, table):
    head, _, rest = table.partition("\n")
    old = MINIMAL[MINIMAL.find(head) :].partition("\n[")[0] if head in MINIMAL else None
    path = case((old, table)) if old else case(text=MINIMAL + table)
    with pytest.raises(hkflow.CaseError) as error:
        hkflow.check(path)
    lines = str(error.value).splitlines()
    place = re.compile(rf"{re.escape(str(path))}(:\d+)?: ")
    assert all(place.match(line) and len(line) < 1200 for line in lines), lines


def test_labels_become_classes(case, tmp_path):
    (tmp_path / "d.csv").write_text("x,y\n1,cat\n2,dog\n3,cow\n4,emu\n")
    path = case(CSV, ('label = "y"', 'label = "y"\npositive = ["cat", "cow"]\nnegative = ["dog"]'))
    _, problem = hkflow.check(path)
    assert np.array_equal(problem.objective.inputs, [[1, 1], [2, 1], [3, 1]])
    assert np.array_equal(problem.objective.targets, [1, -1, 1])
    with pytest.raises(
        hkflow.CaseError, match="data.positive: Unknown label 'cot'. Did you mean 'cow'"
    ):
        hkflow.check(path, data={"positive": ["cat", "cot"]})


def test_scikit_learn_data_on_principal_components(case):
    text = (
        'source = "scikit-learn"\nname = "wine"\npositive = ["class_0"]\nnegative = ["class_1",'
        ' "class_2"]\n'
    )
    text += "standardize = true\ncomponents = 2"
    _, problem = hkflow.check(case((CSV[0], text), ("cells = 24", "cells = 42")))
    assert (
        problem.objective.inputs.shape == (178, 3) and problem.objective.targets.sum() == 59 - 119
    )


@pytest.mark.parametrize(
    "text, n",
    [
        ('source = "cluster-grid"\nn = 30', 30),
        ('source = "xor"\nn = 20', 20),
        ('source = "parity"\nn = 16', 16),
        ('source = "teacher"\nn = 12', 12),
    ],
)
def test_generators_follow_the_seed(case, text, n):
    path = case((CSV[0], text), ("cells = 24", "cells = 42"))
    loss = {"loss": "square"}  # which all targets suit
    one, two, other = (
        hkflow.check(path, seed=seed, objective=loss)[1].objective for seed in (1, 1, 2)
    )
    assert len(one.targets) == n
    assert np.array_equal(one.inputs, two.inputs) and not np.array_equal(one.inputs, other.inputs)


@pytest.mark.parametrize(
    "activation, domain, kind, rates",
    [
        ("relu", "signed-sphere", "hellinger-kantorovich", (1, 2)),
        ("relu", "sphere", "hellinger-kantorovich", (1, 4)),
        ("squared-relu", "signed-sphere", "hellinger-kantorovich", (1, 4)),
        ("relu", "signed-sphere", "hellinger", (0, 2)),
        ("relu", "sphere", "wasserstein", (1, 0)),
    ],
)
def test_named_flows_have_the_rates_of_the_papers(case, activation, domain, kind, rates):
    path = case(
        ('"relu"', f'"{activation}"'),
        ('"signed-sphere"', f'"{domain}"'),
        ("hellinger-kantorovich", kind),
    )
    flow = hkflow.check(path)[1].flow
    assert (flow.transport, flow.reaction) == rates


@pytest.mark.parametrize(
    "table, total, sheets",
    [
        ('kind = "uniform"\nmass = 2.0', 2.0, (1.0, 1.0)),
        ('kind = "uniform"\nsigns = [-1]', 1.0, (0.0, 1.0)),
        (
            'kind = "von-mises-fisher"\ncenters = [[1.0, 0.0]]\nconcentration = 500.0',
            1.0,
            (0.5, 0.5),
        ),
        ('kind = "caps"\ncenters = [[0.0, 2.0]]\nradius = 0.5\nsigns = [1]', 1.0, (1.0, 0.0)),
        (
            (
                'kind = "points"\npositions = [[1.0, 0.0], [0.0, 1.0]]\nsigns = [1, -1]\nweights ='
                " [1.0, 3.0]"
            ),
            1.0,
            (0.25, 0.75),
        ),
    ],
)
def test_initial_measures_have_their_mass_on_their_signs(case, table, total, sheets):
    _, problem = hkflow.check(case(("[time]", f"[initial]\n{table}\n[time]")))
    masses = problem.initial @ problem.mesh.volumes
    assert masses.sum() == pytest.approx(total, rel=1e-14)
    assert masses / masses.max() == pytest.approx(np.array(sheets) / max(sheets), rel=1e-14)


def test_the_schema_offers_what_the_solver_has():
    from typing import get_args

    from hkflow.case.schema import flow, methods, objective
    from hkflow.methods.grid.limiters import LIMITERS
    from hkflow.methods.grid.steppers.choice import STEPPERS
    from hkflow.methods.rules import RECONSTRUCTIONS
    from hkflow.problem.flow import FLOW_KINDS

    def choices(model, field):
        annotation = model.model_fields[field].annotation
        return {
            value
            for part in (annotation, *get_args(annotation))
            for value in get_args(part)
            if isinstance(value, str)
        } or set(get_args(annotation))

    assert tuple(hkflow.FEATURES) == objective.ACTIVATIONS
    assert choices(objective.ObjectiveTable, "loss") == set(ALL_RISKS)
    assert choices(methods.GridMethod, "limiter") == set(LIMITERS)
    assert choices(methods.GridMethod, "reconstruction") == set(RECONSTRUCTIONS)
    assert choices(methods.GridMethod, "stepper") == set(STEPPERS)
    assert choices(flow.FlowTable, "kind") == set(FLOW_KINDS)
    with pytest.raises(ValueError, match="Unknown flow 'wassersten'. Did you mean 'wasserstein'"):
        hkflow.named_flow("wassersten", 1, True)


def test_overrides_are_checked_like_the_file(case):
    assert parse_override("flow.noise=0.5") == ("flow.noise", 0.5)
    assert parse_override("objective.loss=square") == ("objective.loss", "square")
    assert parse_override("time.saves=[0.1, 0.2]") == ("time.saves", [0.1, 0.2])
    with pytest.raises(hkflow.CaseError, match="wanted KEY=VALUE"):
        parse_override("noise")
    resolved, problem = hkflow.check(case(), **{"flow.noise": 0.5}, time={"end": 3.0})
    assert problem.flow.noise == 0.5 and resolved.time.end == 3.0
    flow = {"flow.transport": 0.0, "flow.reaction": 2.0}
    assert (hkflow.check(case(), **flow)[1].flow.reaction, problem.flow.transport) == (2.0, 1.0)
    assert hkflow.check(case(), **flow | {"flow.kind": "wasserstein"})[1].flow.reaction == 0.0
    for clash in ({"kind": "wasserstein", "transport": 1.0}, {"transport": 1.0}):
        with pytest.raises(hkflow.CaseError, match="give either 'kind' or the rates"):
            hkflow.check(case(), flow=clash)
    energies = ROOT / "cases" / "energies" / "attention.toml"
    for key, words in (("width", "is not a number from 0 to 0"), ("0", "wanted a table")):
        with pytest.raises(hkflow.CaseError, match=words):
            hkflow.check(energies, **{f"energy.{key}": 0.3})
    with pytest.raises(hkflow.CaseError, match="'cells' is not a table"):
        hkflow.check(case(), domain={"cells": {"x": 1}})
    with pytest.raises(hkflow.CaseError, match="flow.nois: unknown key. Did you mean 'noise'"):
        hkflow.check(case(), **{"flow.nois": 0.5})


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_a_resolved_case_is_a_case_that_resolves_to_itself(path):
    from hkflow.case.load import load_case, toml_of
    from hkflow.case.resolve import resolve

    text = toml_of(resolve(load_case(path).case))
    assert toml_of(resolve(parse_case(text, Path("."), "again").case)) == text


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_a_resolved_case_reads_as_a_toml_library_would_write_it(path):
    """To the letter: finished runs of studies are known by this text."""
    import tomlkit

    from hkflow.case.load import load_case, toml_of
    from hkflow.case.resolve import resolve

    resolved = resolve(load_case(path).case)
    assert toml_of(resolved) == tomlkit.dumps(resolved.model_dump(mode="json", exclude_none=True))


def test_every_character_of_a_text_comes_back(case):
    from hkflow.case.load import load_case, toml_of

    title = "".join(map(chr, range(1, 0x180))) + "\u2028\U0001f600"
    resolved = load_case(case(), {"title": title}).case
    assert tomllib.loads(toml_of(resolved))["title"] == title


def test_writing_a_resolved_case_takes_as_long_as_it_is(case):
    """Thousands of inline data and saves; a writer that goes through the list for each entry takes
    minutes."""
    from hkflow.case.load import load_case, toml_of

    rows = np.arange(8_000.0)[:, None].tolist()
    data = {"source": "inline", "inputs": rows, "targets": [1.0] * len(rows)}
    resolved = load_case(
        case(), {"data": data, "time.saves": np.linspace(0.0, 0.5, 8_000).tolist()}
    ).case
    began = time.process_time()
    text = toml_of(resolved)
    assert time.process_time() - began < 1.0 and tomllib.loads(text)["data"]["inputs"] == rows


def test_the_moment_problem_has_depth_two(tmp_path):
    text = (ROOT / "cases" / "verification" / "circle-hellinger.toml").read_text()
    (tmp_path / "deep.toml").write_text(
        text.replace('kind = "hellinger"', "reaction = 4.0\ndepth = 3.0")
    )
    with pytest.raises(
        hkflow.CaseError,
        match="flow.depth: the moment problem lives on a sphere, where it must be 2, got 3",
    ):
        hkflow.check(tmp_path / "deep.toml")


def test_of_a_folder_that_is_no_case_it_is_said_what_it_is(tmp_path):
    with pytest.raises(hkflow.CaseError, match="is a folder, not a case or study file.$"):
        hkflow.check(tmp_path)
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(hkflow.CaseError, match=f"'hkflow margin --from {tmp_path}'.$"):
        hkflow.check(tmp_path)
