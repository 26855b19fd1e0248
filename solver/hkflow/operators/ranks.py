"""Ranks: the processes that mpiexec starts, which compute one run together, each with threads of
its own.

All ranks hold the whole state and take the same steps; operators/distributed.py says what they
share out. Here is what else they say to each other: how the run is prepared and ends, and, once a
step, whether a signal came. mpi4py is loaded only under mpiexec.
"""

import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from ..errors import HkflowError

if TYPE_CHECKING:  # the command line asks for ranks before it loads NumPy
    from ..arguments import Floats

# How a process learns that it is one of several: from Open MPI; from MPICH, Intel MPI or Slurm's
# PMI2; from Slurm's PMIx.
LAUNCHERS = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("PMIX_RANK", "SLURM_NTASKS"),
)
# seconds that mpiexec has to pass on why a rank ends all: what it has not read by then is lost
LAST_WORDS = 0.3


def launched() -> tuple[int, int]:
    """(rank, size) that a launcher gave this process, (0, 1) without one."""
    found = (
        (os.environ[rank], os.environ.get(size, "1"))
        for rank, size in LAUNCHERS
        if rank in os.environ
    )
    rank, size = map(int, next(found, (0, 1)))
    return rank, size


class Alone:
    """This process alone: what it says to itself is agreed."""

    rank, size = 0, 1

    def completion(
        self, buffer: "Floats", counts: list[int], starts: list[int]
    ) -> Callable[[], object]:
        """A function that fills in the other ranks' parts of a buffer of float64: counts[r] numbers
        of rank r from starts[r] on."""
        return lambda: None

    def told(self, make: Callable[[], Any]) -> Any:
        """What make() returns, or raises, on the first rank, which alone calls it: on all ranks."""
        return make()

    def all(self, make: Callable[[], Any]) -> Any:
        """What make() returns on each rank; if it fails on any with an HkflowError, the first such
        error on all."""
        return make()

    def alike(self, what: str, value: object) -> None:
        """Raise HkflowError unless a value is the same on all ranks; what : how the message calls
        it."""

    def largest(self, number: int, witnesses: Any) -> int:
        """The largest of the ranks' numbers; HkflowError unless they have the same witnesses, so
        that none waits for ever."""
        return number

    def first(self, value: Any) -> Any:
        """The value of the first rank that has one, not None; on all ranks."""
        return value

    @contextmanager
    def together(self) -> Iterator[None]:
        """Around what all ranks do: an error that they have not agreed on ends all of them, with
        the exit code of one process, for the others would wait for ever."""
        yield


ALONE = Alone()


class Ranks(Alone):
    """The processes of an MPI communicator.   rank : this one's number;  size : how many there
    are"""

    def __init__(self, comm: Any) -> None:
        from mpi4py import MPI

        self.comm, self.rank, self.size = comm, comm.Get_rank(), comm.Get_size()
        self.in_place, self.double, self.most = MPI.IN_PLACE, MPI.DOUBLE, MPI.MAX
        self.agreed = None  # the error that all ranks raise

    def completion(
        self, buffer: "Floats", counts: list[int], starts: list[int]
    ) -> Callable[[], object]:
        return partial(self.comm.Allgatherv, self.in_place, [buffer, (counts, starts), self.double])

    def told(self, make: Callable[[], Any]) -> Any:
        made = error = None
        if self.rank == 0:
            made, error = _attempt(make)
        made, error = self.comm.bcast((made, error))
        self._raise([error])
        return made

    def all(self, make: Callable[[], Any]) -> Any:
        made, error = _attempt(make)
        self._raise(self.comm.allgather(error))
        return made

    def alike(self, what: str, value: object) -> None:
        if any(other != value for other in self.comm.allgather(value)):
            self._raise(
                [
                    HkflowError(
                        f"mpiexec computes one run on all its ranks, but their {what} differ."
                    )
                ]
            )

    def largest(self, number: int, witnesses: Any) -> int:
        import numpy as np

        votes = np.array([number, *witnesses, *(-witness for witness in witnesses)], dtype=float)
        self.comm.Allreduce(self.in_place, votes, op=self.most)
        highest, lowest = np.split(votes[1:], [len(witnesses)])
        if not np.array_equal(highest, -lowest, equal_nan=True):
            self._raise(
                [
                    HkflowError(
                        "The ranks no longer compute the same numbers, so the run cannot go on."
                        " Have they processors of different kinds, or different versions of hkflow,"
                        " NumPy or Numba? Start them on equal machines and resume the run."
                    )
                ]
            )
        return int(votes[0])

    def first(self, value: Any) -> Any:
        return next((one for one in self.comm.allgather(value) if one is not None), None)

    @contextmanager
    def together(self) -> Iterator[None]:
        try:
            yield
        except (Exception, KeyboardInterrupt) as error:
            if error is not self.agreed:
                self._end_all(error)
            raise

    def _end_all(self, error):
        known, stream = isinstance(error, HkflowError), sys.__stderr__ or sys.stderr
        why = [f"{error}\n"] if known else traceback.format_exception(error)
        print(*why, sep="", end="", file=stream, flush=True)
        time.sleep(LAST_WORDS)
        code = 130 if isinstance(error, KeyboardInterrupt) else 2 if known else 1
        self.comm.Abort(code)
        os._exit(code)  # that of MPICH may come back before it ends this rank

    def _raise(self, errors):
        self.agreed = next(filter(None, errors), None)
        if self.agreed:
            raise self.agreed


def _attempt(make):
    """(what make() returns, None), or (None, its HkflowError)."""
    try:
        return make(), None
    except HkflowError as error:
        return None, error


@cache
def ranks() -> Alone:
    """The ranks that mpiexec started, or ALONE. Raises HkflowError if there are several and mpi4py
    cannot join them."""
    size = launched()[1]
    if size == 1:
        return ALONE
    # read when NumPy is loaded; its threads would spin on other ranks' cores
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise HkflowError(
            f"mpiexec started {size} processes, but mpi4py, by which they compute one run, cannot"
            f" be loaded ({error}). Install it with: pip install 'hkflow[mpi]'"
        ) from error
    world = MPI.COMM_WORLD
    if world.size != size:
        raise HkflowError(
            f"mpiexec started {size} processes, but mpi4py sees {world.size}: it belongs to another"
            f" MPI ({MPI.Get_library_version().split(chr(10))[0].strip()}). Start them with that"
            " one's mpiexec."
        )
    _share_cores(world.Split_type(MPI.COMM_TYPE_SHARED))
    return Ranks(world)


def _share_cores(node):
    """Give each rank of a machine its share of the cores as Numba threads, unless NUMBA_NUM_THREADS
    says how many."""
    if "NUMBA_NUM_THREADS" in os.environ:
        return
    import numba

    own = (
        os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count()))
    )
    users = Counter(core for cores in node.allgather(own) for core in cores)
    share = sum(1.0 / users[core] for core in own)
    numba.set_num_threads(max(1, min(int(share + 1e-9), numba.config.NUMBA_NUM_THREADS)))
