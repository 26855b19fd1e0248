"""Runs computed by several ranks under mpiexec: the same bits as alone, one folder, one voice, one
end."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import pytest

import hkflow
from hkflow.running.signals import Signals

pytest.importorskip("mpi4py", reason="mpi4py is not installed: pip install 'hkflow[mpi]'")
BESIDE = Path(sys.executable).parent / "mpiexec"
MPIEXEC = str(BESIDE) if BESIDE.exists() else shutil.which("mpiexec")
pytestmark = pytest.mark.skipif(
    MPIEXEC is None, reason="mpiexec is not there: pip install mpich, or install an MPI"
)

CASE = """seed = 3
[data]
{source}
n = {n}
dim = {dim}
[objective]
activation = "{activation}"
bias = {bias}
loss = "square"
operator = "{operator}"
weight_decay = 0.01
[domain]
kind = "{domain}"
{cells}
[time]
end = {end}
saves = 3
[error]
companions = "none"  # one process alone makes them
"""


DEFAULTS = {
    "source": 'source = "teacher"\nunits = 3',
    "n": 151,  # of which three ranks have uneven shares
    "dim": 3,
    "activation": "relu",
    "bias": "false",
    "end": 0.1,
}
DEFAULTS |= {
    "operator": "auto",
    "domain": "signed-sphere",
}


def case(tail="", cells=None, **keys):
    return CASE.format(**DEFAULTS | keys | {"cells": f"cells = {cells}" if cells else ""}) + tail


FLOW = '[flow]\nkind = "hellinger-kantorovich"\n'
NOISE = '[flow]\nkind = "perturbed"\nnoise = 0.1\n'
PARTICLES = '[method]\nkind = "particles"\nparticles = 500\n'
CASES = {
    "tree": case(FLOW, operator="tree", cells=642),
    "dense": case(NOISE, operator="dense", cells=642),
    "many": case(FLOW, n=8000, operator="tree", cells=162, end=0.03),  # more data than cells
    "circle": case(FLOW, n=400, dim=2, operator="sorted", cells=500),
    "injected": case(NOISE + PARTICLES + "noise_points = 100\n", n=200),
    "renewed": case(NOISE + PARTICLES + 'noise = "random"\npoints = "random"\n', n=200, dim=4),
    "wide": case(FLOW + PARTICLES, n=30, dim=100),  # moved in the span of the data
    "wide-characteristics": case(
        FLOW + '[method]\nkind = "characteristics"\nparticles = 500\n', n=30, dim=100
    ),
    "joint": case(
        FLOW + PARTICLES,
        source='source = "xor"',
        activation="joint-relu",
        domain="sphere",
        bias="true",
    ),
    "sgd": case(
        '[method]\nkind = "network"\nunits = 500\ntraining = "sgd"\nbatch = 150\nstep = 0.01\n'
    ),
    "flow": case('[method]\nkind = "network"\nunits = 500\n'),
}
LONG = case(FLOW + "[method]\nmax_step = 0.002\n", operator="dense", cells=642, end=0.6)

# tests may be root's, on few cores
OPEN_MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
OPEN_MPI |= {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}


def mpiexec(ranks, *words, **options):
    """Start a Python under mpiexec; its numbers of threads are found by itself."""
    command = [MPIEXEC, "-n", str(ranks), sys.executable, *map(str, words)]
    environment = {
        name: value for name, value in os.environ.items() if name != "NUMBA_NUM_THREADS"
    } | OPEN_MPI
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        env=environment,
        **options,
    )


COMMANDS = """
import hkflow.app.pictures, hkflow.running.run, json, os, signal, sys
from hkflow.app.cli import main
rank, drawn = hkflow.operators.ranks.launched()[0], hkflow.app.pictures.draw_pictures
for words, code, before, draws in json.loads(sys.argv[1]):
    hkflow.app.pictures.draw_pictures = drawn if draws else lambda run: "not drawn"
    sys.argv[:] = ["hkflow", *words]
    exec(before)
    try:
        main()
    except SystemExit as end:
        assert (end.code or 0) == code, (words, end.code)
sys.exit(code)
"""


def command(*words, code=0, before="", draws=False):
    """`hkflow words…` for `hk`, which ends with a code. before : Python that each rank does first,
    which knows its `rank`;  draws : whether the picture is drawn"""
    return [str(word) for word in words], code, before, draws


def hk(*commands):
    """Run commands on two ranks, one after the other in the same processes, that end with the last
    one's code; returns (stdout, stderr)."""
    process = mpiexec(2, "-c", COMMANDS, json.dumps(commands))
    out, err = process.communicate(timeout=120)
    assert process.returncode == commands[-1][1], f"exit code {process.returncode}\n{out}{err}"
    return out, err


def content(folder):
    """Everything that must not depend on the number of ranks."""
    with h5py.File(folder / "results.h5") as file:
        found = {}
        file.visititems(
            lambda name, item: found.update(
                {name: item[()].tobytes()} if isinstance(item, h5py.Dataset) else {}
            )
        )
        return found | {
            "status": file.attrs["status"],
            "log": (folder / "records.jsonl").read_bytes(),
        }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cases")
    for name, text in (CASES | {"long": LONG}).items():
        (folder / f"{name}.toml").write_text(text)
    return folder


@pytest.fixture(scope="module")
def alone(folder):
    """What one process makes of the cases."""
    return {
        name: content(hkflow.run(folder / f"{name}.toml", output=folder / "alone" / name).path)
        for name in CASES
    }


@pytest.fixture(scope="module")
def long_run(folder):
    return content(hkflow.run(folder / "long.toml", output=folder / "alone" / "long").path)


ALL = """
import sys, pathlib, hkflow
from hkflow.operators.ranks import ranks
from hkflow.operators import distributed as shared
folder, output = map(pathlib.Path, sys.argv[1:3])
class Counted(shared.DistributedOperator):
    made = 0
    def __init__(self, *arguments):
        super().__init__(*arguments)
        Counted.made += 1
shared.DistributedOperator = Counted
for name in sys.argv[3:]:
    Counted.made = 0
    run = hkflow.run(folder / f"{name}.toml", output=output / name, ranks=ranks())
    assert (run is None) == (ranks().rank > 0)
    assert (Counted.made > 0) == (ranks().size > 1 and name != "circle"), name
"""


@pytest.mark.parametrize("ranks, names", [(1, ("tree", "joint")), (3, tuple(CASES))])
def test_all_methods_have_the_bits_of_one_process(ranks, names, folder, alone, tmp_path):
    process = mpiexec(ranks, "-c", ALL, folder, tmp_path, *names)
    out, err = process.communicate(timeout=200)
    assert process.returncode == 0, out + err
    for name in names:
        got, wanted = content(tmp_path / name), alone[name]
        assert got.keys() == wanted.keys()
        assert [key for key in wanted if got[key] != wanted[key]] == [], name
        assert len(hkflow.load(tmp_path / name).records["step"]) > 2, name


def test_the_command_line_speaks_once(folder, tmp_path):
    begin = ("run", folder / "tree.toml", "--output")
    out, err = hk(
        command(*begin, tmp_path / "run", draws=True),
        command(*begin, tmp_path / "run", code=2),  # the folder is used: rank 0 alone knows
        command(*begin, tmp_path / "b", "--set", "flow.nois=1", code=2),
    )
    assert out.count("Completed at t = 0.1") == 1 and out.count("overview.png") == 1
    assert (tmp_path / "run" / "overview.png").exists()
    assert hkflow.load(tmp_path / "run").header["ranks"] == 2
    assert err.count("is not empty") == 1 and err.count("flow.nois: unknown key") == 1
    assert "Traceback" not in err and not (tmp_path / "b").exists()


def test_an_error_on_one_rank_ends_all(folder, tmp_path):
    """Instead of leaving the others to wait for ever."""
    begin = ("run", folder / "tree.toml", "--output")
    refuse = """honest = hkflow.running.run.build_case
if rank == 1: hkflow.running.run.build_case = lambda file: hkflow.running.run.load('nowhere')"""
    other = "hkflow.running.run.build_case = honest\nsys.argv.append(f'seed={rank}')"
    drift = """def step(self, method, clock):
    self.witnesses = clock.time, method.current.mass * (1 + 1e-15), 0.0
if rank == 1: hkflow.running.run.Signals.step = step"""
    _, err = hk(
        command(*begin, tmp_path / "a", code=2, before=refuse),
        command(*begin, tmp_path / "b", "--set", code=2, before=other),
        command(*begin, tmp_path / "c", code=2, before=drift),
    )
    assert err.count("nowhere: no run here") == 1 and not (tmp_path / "a").exists()
    assert err.count("cases or options differ") == 1 and not (tmp_path / "b").exists()
    assert err.count("no longer compute the same numbers") == 1 and "Traceback" not in err
    fail = "if rank == 1: hkflow.running.run.integrate = lambda *a, **k: 1 / 0"
    process = mpiexec(2, "-c", COMMANDS, json.dumps([command(*begin, tmp_path / "d", before=fail)]))
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1 and "ZeroDivisionError" in err


LOOKED_AT = """
import hkflow, sys
ranks = hkflow.ranks()
def look(state):
    if ranks.rank == 1 and state.step == 3:
        {does}
run = hkflow.run(sys.argv[1], output=sys.argv[2], ranks=ranks, observers=[look])
assert ranks.rank or run.status.startswith("Enough at t = 0.006 after 3 steps"), run.status
"""


@pytest.mark.parametrize(
    "does, code, told",
    [
        ("return 'Enough'", 0, ""),
        ("raise hkflow.HkflowError('no room')", 2, "no room"),
        ("raise ValueError('wrong')", 1, "ValueError: wrong"),
    ],
)
def test_what_one_rank_says_ends_all_of_a_script(folder, tmp_path, does, code, told):
    """Its observers may look at a clock or a file of its own, and fail; the others would wait."""
    words = (LOOKED_AT.format(does=does), folder / "long.toml", tmp_path / "run")
    process = mpiexec(2, "-c", *words)
    try:
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == code and told in err, err


SENDING = "import hkflow.operators.ranks as p\nhonest = p.Ranks.completion\n"
TOO_FEW = (
    "p.Ranks.completion = lambda self, b, counts, starts: honest(self, b, [counts[0] - 1,"
    " *counts[1:]], starts)\n"
)
TOO_FAR = """
def completion(self, buffer, counts, starts):
    complete = honest(self, buffer, counts, starts)
    def wrong():
        complete()
        buffer.reshape(-1)[counts[0] :] = list(buffer.reshape(-1)[counts[0] - 1 : -1])
    return wrong
p.Ranks.completion = completion
"""


def test_a_wrong_offset_is_seen(folder, alone, tmp_path):
    """Numbers that do not reach all ranks end the run; if they land in a wrong place on all, the
    comparison above fails."""
    again = "\noutput = output / 'few'\n" + TOO_FEW
    again += "hkflow.run(folder / 'dense.toml', output=output, ranks=ranks())"
    words = (SENDING + TOO_FAR + ALL + again, folder, tmp_path, "dense")
    _, err = mpiexec(2, "-c", *words).communicate(timeout=60)
    assert content(tmp_path / "dense") != alone["dense"], err
    assert "no longer compute the same numbers" in err


STOPPED = """honest = hkflow.running.run.Signals.step
def step(self, method, clock):
    honest(self, method, clock)
    if rank == 1 and clock.step == 60: os.kill(os.getpid(), signal.SIGTERM)
hkflow.running.run.Signals.step = step"""


def test_runs_go_on_with_another_number_of_ranks(folder, long_run, tmp_path, monkeypatch):
    """A signal to one rank stops both after the same step; what two ranks began one can end, and
    the reverse."""

    def step(self, method, clock):
        honest(self, method, clock)
        if clock.step == 240:  # of 300
            signal.raise_signal(signal.SIGTERM)

    honest = Signals.step
    with monkeypatch.context() as patch:
        patch.setattr(Signals, "step", step)
        assert not hkflow.run(folder / "long.toml", output=tmp_path / "one").finished
    begin = ("run", folder / "long.toml", "--output", tmp_path / "two")
    out, err = hk(
        command("resume", tmp_path / "one", "--quiet"),
        command(*begin, code=143, before=STOPPED),
    )
    assert content(tmp_path / "one") == long_run
    assert "Interrupted by SIGTERM at t = 0.12 after 60 steps" in out
    assert err.count("hkflow resume") == 1
    assert content(hkflow.resume(tmp_path / "two").path) == long_run


def test_sigterm_to_mpiexec_saves_on_all_ranks(folder, long_run, tmp_path):
    output = tmp_path / "run"
    begin = command("run", folder / "long.toml", "--output", output, code=143)
    process = mpiexec(2, "-c", COMMANDS, json.dumps([begin]))
    deadline = time.monotonic() + 60
    while (
        not list(output.glob("snap/*.h5"))
        and process.poll() is None
        and time.monotonic() < deadline
    ):
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    version = subprocess.run(
        [MPIEXEC, "--version"], capture_output=True, text=True, check=True
    ).stdout
    # which does not pass the signal on: it kills, and what was saved by then is left
    if "Open MPI" not in version:
        assert process.returncode == 143, out + err
        assert "Interrupted by SIGTERM at t =" in out
    assert not hkflow.load(output).finished
    assert content(hkflow.resume(output).path) == long_run


def test_ranks_without_mpi4py_are_told_the_remedy(folder, monkeypatch):
    process = mpiexec(
        2,
        "-c",
        "import sys; sys.modules['mpi4py'] = None\nfrom hkflow.app.cli import main; main()",
        "run",
        "a.toml",
    )
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2 and err.count("pip install 'hkflow[mpi]'") == 1
    monkeypatch.setenv("PMI_RANK", "0"), monkeypatch.setenv("PMI_SIZE", "3")
    assert hkflow.operators.ranks.launched() == (0, 3)


def test_a_process_alone_does_not_load_mpi4py():
    code = (
        "import sys\nfrom hkflow.app.cli import main\ntry: main()\nfinally: assert 'mpi4py' not in"
        " sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "run", "none.toml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2 and "none.toml: cannot be read" in done.stderr


def test_cores_are_shared_between_the_ranks_of_a_machine():
    code = (
        "from hkflow.operators.ranks import ranks\nranks()\nimport numba; print(end=f'"
        " {numba.get_num_threads()} ')"
    )
    out, err = mpiexec(2, "-c", code).communicate(timeout=60)
    assert sum(map(int, out.split())) == max(2, len(os.sched_getaffinity(0))), err
