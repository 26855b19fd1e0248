"""Runs from strangers: HDF5 that points at other files or claims what it has not, and right
checksums of wrong content."""

import json
import os
import shutil

import h5py
import numpy as np
import pytest

import hkflow
from hkflow.files.writing import checksum
from hkflow.store.run_folder import static_arrays
from hkflow.studies.study import read_study

CASE = """
[data]
source = "inline"
inputs = [[0.5], [-1.0], [0.2]]
targets = [1.0, -1.0, -1.0]
[objective]
bias = true
loss = "logistic"
[domain]
kind = "signed-sphere"
cells = 12
[flow]
kind = "hellinger-kantorovich"
[time]
end = 0.01
"""
SECRET = 4.2424e17


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """A finished run."""
    place = tmp_path_factory.mktemp("honest")
    (place / "case.toml").write_text(CASE)
    hkflow.run(place / "case.toml", output=place / "run")
    return place / "run"


@pytest.fixture
def run(honest, tmp_path):
    """A copy of it that may be spoilt, without results.h5."""
    shutil.copytree(honest, tmp_path / "run")
    return tmp_path / "run"


def seal(file):
    """Write the checksum that fits."""
    arrays = {name: item[()] for name, item in file.items() if isinstance(item, h5py.Dataset)}
    if "meta" in file:
        file.attrs["sha256"] = checksum(arrays, "")
    else:
        mesh, data = (
            {name: item[()] for name, item in file[group].items()} for group in ("mesh", "data")
        )
        file.attrs["sha256"] = checksum(static_arrays(mesh, data, file["sign"][()]))


def external(file, name, shape, other):
    file.create_dataset(name, shape, "f8", external=[(str(other), 0, h5py.h5f.UNLIMITED)])


def linked(file, name, shape, other):
    with h5py.File(other.with_suffix(".h5"), "w") as foreign:
        foreign["x"] = np.full(shape, SECRET)
    file[name] = h5py.ExternalLink(str(other.with_suffix(".h5")), "x")


def virtual(file, name, shape, other):
    with h5py.File(other.with_suffix(".h5"), "w") as foreign:
        foreign["x"] = np.full(shape, SECRET)
    layout = h5py.VirtualLayout(shape, "f8")
    layout[...] = h5py.VirtualSource(str(other.with_suffix(".h5")), "x", shape)
    file.create_virtual_dataset(name, layout)


@pytest.mark.parametrize("put", [external, linked, virtual])
@pytest.mark.parametrize(
    "name", ["records/objective", "density", "predictions", "mesh/volumes", "data/inputs"]
)
def test_no_other_file_is_read(run, tmp_path, put, name):
    """Before, the bytes of another file came back as a record."""
    other = tmp_path / "other.bin"
    other.write_bytes(np.full(500, SECRET).tobytes())
    with h5py.File(run / "results.h5", "r+") as file:
        shape = file[name].shape
        del file[name]
        put(file, name, shape, other)
        seal(file)
    with pytest.raises(
        hkflow.RunFolderError,
        match="results.h5: damaged .*(other files are not read|links are not followed)",
    ):
        hkflow.load(run / "results.h5")
    with h5py.File(run / "snap" / "00000000.h5", "r+") as file:
        del file["density"]
        put(file, "density", (1, 2, 12), other)
        seal(file)
    assert not (hkflow.load(run).cell_density_at(0) == SECRET).any()


@pytest.mark.parametrize(
    "options", [{}, {"chunks": True}, {"chunks": (2**20,)}, {"chunks": True, "compression": "gzip"}]
)
def test_a_size_that_a_header_claims_is_not_believed(run, options):
    with h5py.File(run / "results.h5", "r+") as file:
        del file["records"], file["data/targets"]
        file.create_dataset("records/objective", (2**40,), "f8", **options)
        file.create_dataset("data/targets", (2**40,), "f8", **options)
    with pytest.raises(
        hkflow.RunFolderError, match="results.h5: damaged \\('targets' has the shape"
    ):
        hkflow.load(run / "results.h5")
    with h5py.File(run / "problem.h5", "r+") as file:
        for name in ("inputs", "targets", "weights"):
            shape = file["data"][name].shape
            del file["data"][name]
            file.create_dataset(
                f"data/{name}", (2**30, *shape[1:]), "f8", **(options if len(shape) == 1 else {})
            )
    with pytest.raises(
        hkflow.RunFolderError, match="problem.h5: damaged \\('inputs' claims 8,589,934,592 bytes"
    ):
        hkflow.load(run)


@pytest.mark.parametrize(
    "place", ["run.json", "problem.h5", "status.json", "records.jsonl", "snap/00000000.h5"]
)
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_special_files_in_a_run_folder_are_not_waited_for(run, place, kind):
    (run / place).unlink()
    if kind == "pipe":
        os.mkfifo(run / place)
    else:
        (run / place).symlink_to("/dev/zero")
    if place.startswith("snap"):
        with pytest.raises(
            hkflow.RunFolderError,
            match=f"{place}: cannot be read \\(it is a {kind}, wanted a regular file",
        ):
            hkflow.load(run)
    else:
        with pytest.raises(
            hkflow.RunFolderError,
            match=f"{place}: damaged \\(it is a {kind}, wanted a regular file",
        ):
            hkflow.load(run)


def _array(name, change):
    def put(file):
        array = change(file[name][()])
        del file[name]
        file[name] = array

    return put


def _meta(**changes):
    def put(file):
        metas = json.loads(file["meta"][()].tobytes())
        for meta in metas:
            for key, value in changes.items():
                place = meta["clock"] if key in meta["clock"] else meta
                place[key] = value
        del file["meta"]
        file["meta"] = np.frombuffer(json.dumps(metas).encode(), np.uint8)

    return put


@pytest.mark.parametrize(
    "place, put, wrong",
    [
        ("problem.h5", _array("mesh/faces", lambda a: a + 100), "'faces' points at 100 to"),
        (
            "problem.h5",
            _array("mesh/volumes", lambda a: a[:-1]),
            r"'volumes' has the shape \(11,\), wanted \(cell 12\)",
        ),
        ("problem.h5", _array("mesh/volumes", lambda a: 3.0 * a), "'volumes' sum to 18.8"),
        (
            "problem.h5",
            _array("data/targets", lambda a: a[:2]),
            r"'targets' has the shape \(2,\), wanted \(datum 3\)",
        ),
        (
            "problem.h5",
            _array("data/inputs", lambda a: np.full_like(a, np.nan)),
            "data are not finite",
        ),
        ("problem.h5", _array("data/inputs", lambda a: a.astype("S5")), "holds |S5"),
        (
            "problem.h5",
            _array("sign", lambda a: a[:1]),
            r"'sign' has the shape \(1,\), wanted \(sign 2\)",
        ),
        ("problem.h5", lambda file: file.attrs.pop("mesh"), "damaged"),
        (
            "problem.h5",
            lambda file: file.attrs.update(mesh="geodesic"),
            "no mesh is called 'geodesic' in R\\^2",
        ),
        (
            "snap/00000000.h5",
            _array("density", lambda a: np.swapaxes(a, 1, 2)),
            r"'density' has the shape \(12, 2\)",
        ),
        (
            "snap/00000000.h5",
            _array("density", lambda a: a * np.nan),
            "'density' holds numbers that are not finite",
        ),
        ("snap/00000000.h5", _array("density", lambda a: -a), "'density' is negative"),
        ("snap/00000000.h5", lambda file: file.pop("density"), "is none of method 'grid'"),
        (
            "snap/00000000.h5",
            _array("predictions", lambda a: a[:, :1]),
            "'predictions' has the shape",
        ),
        ("results.h5", lambda file: file.attrs.pop("status"), "damaged"),
        ("results.h5", lambda file: file.attrs.update(header="{}"), "'case' is missing"),
        ("results.h5", lambda file: file["records"].pop("mass"), "the record 'mass' is missing"),
        ("results.h5", _array("records/mass", lambda a: a[:1]), "'mass' has the shape"),
        ("results.h5", _array("density", lambda a: a[:, :, :5]), "'density' has the shape"),
        ("results.h5", lambda file: file.pop("time"), "damaged"),
    ],
)
def test_wrong_content_with_a_right_checksum_is_one_sentence(run, place, put, wrong):
    with h5py.File(run / place, "r+") as file:
        put(file)
        seal(file)
    with pytest.raises(
        hkflow.RunFolderError, match=f"{place}: damaged .*{wrong}" if wrong != "damaged" else place
    ):
        hkflow.load(run / place if place == "results.h5" else run)


@pytest.mark.parametrize(
    "changes",
    [
        {"save": "x"},
        {"records_length": -1},
        {"time": float("nan")},
        {"next_save": 0.5},
        {"budget": [1.0]},
        {"seconds": "2"},
    ],
)
def test_a_snapshot_that_knows_nonsense_counts_as_damaged(run, changes):
    with h5py.File(run / "snap" / "00000000.h5", "r+") as file:
        _meta(**changes)(file)
        seal(file)
    assert len(hkflow.load(run).time) == 1


@pytest.mark.parametrize(
    "put",
    [
        _array("residuals", lambda a: a[:, :1]),
        _array("history", lambda a: a[..., :1]),
        _meta(next_save=0),
    ],
)
def test_a_state_that_does_not_fit_is_not_continued(run, put):
    last = max((run / "snap").glob("*.h5"))
    with h5py.File(last, "r+") as file:
        put(file)
        seal(file)
    with pytest.raises(hkflow.RunFolderError, match="damaged|not one of this run"):
        hkflow.resume(run)


def test_a_study_of_wrong_shapes_is_one_sentence(tmp_path):
    with h5py.File(tmp_path / "study.h5", "w") as file:
        file.attrs.update(study='case = "a.toml"', groups="[{}]", levels="[]", against="")
        file["run"], file["repeat"], file["status"] = ["runs/a"], [0, 1], ["x"]
    with pytest.raises(hkflow.RunFolderError, match="no study here, or a damaged one"):
        read_study(tmp_path)


def test_residuals_beyond_numbers_are_no_damage(run):
    """A run that was stopped at its start, for an objective of inf, has them, and can be looked
    at."""
    with h5py.File(run / "snap" / "00000000.h5", "r+") as file:
        _array("residuals", lambda a: a * np.inf)(file)
        seal(file)
    assert np.isinf(hkflow.load(run).state_at(0)["residuals"]).any()


def test_a_file_of_no_snapshots_counts_as_damaged(run):
    with h5py.File(run / "snap" / "00000000.h5", "r+") as file:
        del file["meta"]
        file["meta"] = np.frombuffer(b"[]", np.uint8)
        seal(file)
    assert len(hkflow.load(run).time) == 1
