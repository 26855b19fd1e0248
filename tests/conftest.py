"""Shared by all tests: a mesh cache of their own, meshes of S³, and the moment problem that most
orders are measured on."""

import gc
import os
import signal
import sys
from contextlib import nullcontext
from functools import cache
from pathlib import Path

# Each core has a worker of its own: threads of BLAS would wait for one another, and while they wait
# they keep cores busy. To be said before it is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# processes that tests start find byte code, as those of users do
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

import numba
import numpy as np
import pytest

import hkflow
from hkflow.case.mesh_cache import cached_mesh

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(Path(__file__).parent), str(ROOT / "benchmarks")]
STUDIES = sorted((ROOT / "cases").rglob("studies/*.toml"))
CASES = sorted(set((ROOT / "cases").rglob("*.toml")) - set(STUDIES))
OFF_AXIS = (0.3, -0.5, 0.8)


# what is imported stays: looking for garbage in it again and again takes a tenth of all time
gc.freeze()
gc.set_threshold(100_000, 20, 100)


# begun first: the documents, which compile most kernels, and beside them what needs few of these,
# or two workers would compile the same at the same time; then files that take long, so that at the
# end no worker waits for another's minute
FIRST = (
    "test_documents.py",
    "test_distributed.py",
    "test_exact_flows.py",
    "test_plots.py",
    "test_study.py",
    "test_ranks.py",
    "test_attacks.py",
    "test_run_folder.py",
    "test_commands.py",
    "test_agreement.py",
)


def pytest_collection_modifyitems(items):
    """FIRST ones first; the order is otherwise kept (see addopts in pyproject.toml)."""
    place = {name: k for k, name in enumerate(FIRST)}
    items.sort(key=lambda item: place.get(item.path.name, len(place)))


@pytest.fixture(scope="session", autouse=True)
def mesh_cache(tmp_path_factory):
    """Tests neither read nor fill the user's cache; those of all workers share one."""
    place = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        place = place.parent
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HKFLOW_CACHE", str(place / "meshes"))
        yield


@cache
def hypersphere_of(cells):
    """The mesh of S³ of so many cells, built by one of the tests that ask for it."""
    return cached_mesh(hkflow.Domain(3).meshes, cells)


# files whose tests are about error bars, or see what a user sees; WITH_BARS of test_documents.py
# says which of its pages do
WITH_COMPANIONS = ("test_report.py", "test_documents.py", "test_attacks.py", "test_places.py")


@pytest.fixture(scope="module", autouse=True)
def without_companions(request):
    """Runs within the tests' own process have no companions, which would take a third of the time,
    but for those of tests/accuracy and WITH_COMPANIONS, and runs to an accuracy."""
    path = request.path
    if path.parent.name == "accuracy" or path.name in WITH_COMPANIONS:
        yield
        return
    from hkflow.running import ending

    def judged_alone(made, given, companions, quiet, judge, honest=ending.estimated):
        return judge is not None and honest(made, given, companions, quiet, judge)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ending, "estimated", judged_alone)
        yield


# files whose tests compare pictures by their bytes, or see what a user sees; test_documents.py says
# for which of its pages
WITH_LAYOUT = ("test_ahead.py", "test_attacks.py", "test_documents.py", "test_styles.py")


@pytest.fixture(scope="module", autouse=True)
def sketched(request):
    """Pictures that are drawn within the tests' own process are sketches, which take a third of the
    time, but for those of WITH_LAYOUT, and where a test asks whether they can be read."""
    from legible import sketches

    with nullcontext() if request.path.name in WITH_LAYOUT else sketches():
        yield


@pytest.fixture(autouse=True)
def all_threads():
    """A test begins with all threads, however many the one before it has left."""
    numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)


@pytest.fixture
def rng():
    return np.random.default_rng(20201)


def by_threads(make):
    """What make() returns with one thread, and with all of them."""
    threads = numba.config.NUMBA_NUM_THREADS
    if threads < 2:
        pytest.skip("one thread divides nothing")
    try:
        numba.set_num_threads(1)
        one = make()
    finally:
        numba.set_num_threads(threads)
    return one, make()


@pytest.fixture
def one_core():
    """Processes that a test starts have one core, so that `hkflow run` has no second process: for
    tests that are about something else."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    os.sched_setaffinity(0, {sorted(cores)[worker % len(cores)]})
    yield
    os.sched_setaffinity(0, cores)


def moment_problem(mesh, transport=1.0, reaction=0.0, target=0.8, axis=OFF_AXIS):
    """The problem with a closed-form solution on a mesh."""
    exact = hkflow.MomentFlow(
        np.array(axis[: mesh.dim + 1]), target, hkflow.Flow(transport, reaction)
    )
    return hkflow.Problem(mesh, exact.objective(), exact.flow, exact=exact)


def exact_errors(problem, density, time):
    """Relative L1 error, and maximum error over the maximum, of (1, n_cells) densities."""
    wanted, volumes = problem.exact.density(problem.mesh.centers, time), problem.mesh.volumes
    difference = np.abs(density[0] - wanted)
    return difference @ volumes / (wanted @ volumes), difference.max() / wanted.max()


def order(errors, ratio=2.0):
    """Observed orders between neighbours of a sequence whose mesh widths shrink by `ratio`."""
    return hkflow.convergence_table(float(ratio) ** -np.arange(len(errors)), errors).orders


@pytest.fixture
def press(monkeypatch):
    """Presses Ctrl-C in a step of every run from then on; it raises what it does in a notebook."""

    def at(number):
        def step(self, method, clock):
            if clock.step == number:
                os.kill(os.getpid(), signal.SIGINT)

        monkeypatch.setattr("hkflow.running.forecast.Forecast.step", step)

    # a shell starts what it sends to the background deaf to Ctrl-C
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield at
    signal.signal(signal.SIGINT, before)
