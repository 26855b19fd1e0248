"""The end of a run: its status and results.h5, then what its case asks for besides: error bars, the
max-margin and repeats, without which the run is whole."""

from pathlib import Path
from typing import Any

from ..certificates.certificate import certifies_margin
from ..errors import RunFolderError
from ..files.writing import write_json
from ..problem.problem import Problem
from ..solving.final_margin import final_max_margin
from ..store.estimates import write_errors
from ..store.margins import write_max_margin
from ..store.results import add_to_packed, pack
from ..store.run import Run, load
from ..store.run_folder import writing
from . import ahead
from .error_bars import Judge, broken_off, estimated
from .progress import doing, wait_for
from .repeats import repeated


def ended(
    folder: Path,
    case: Any,
    said: dict[str, Any],
    quiet: bool,
    given: Problem | None,
    judge: Judge | None,
) -> Run:
    """Write how a run ended, pack it, and add what its case asks for besides; returns its Run.

    said : of status.json;  given, judge : as of `estimated`
    """
    wanted, finished = case.error.companions, said["finished"]
    # what the case asks for besides comes later: a kill until then is known by this
    asks = _asks_for_more(case, judge)
    with writing(folder):
        write_json(folder / "status.json", said | ({"complete": False} if asks else {}))
        made = _readable(load(folder))
        pack(folder, made)  # whatever breaks off what follows, the run is whole
        proves = certifies_margin(made.problem) and not said["signal"]
        seconds = case.certificate.seconds if proves else 0.0
        beside = ahead.tells_errors()
        if beside and not finished:
            ahead.give_up()
            beside = False
        if beside:
            ahead.ask(ahead.ERRORS, folder, wanted)
        elif seconds:
            ahead.ask(ahead.MAX_MARGIN, folder, seconds)
        added = not beside and estimated(made, given, wanted, quiet, judge)
        if seconds:
            added |= _certify(made, seconds, quiet)
        if beside:
            added |= _estimated_beside(made, wanted, quiet)
        added |= repeated(made, quiet)
        made = add_to_packed(made) if added else made
        if asks:
            write_json(folder / "status.json", said)
    return made


def _readable(run):
    """A run that has ended, less what an earlier session left beside it, if that is damaged."""
    run.end.pop("complete", None)
    for name in ("errors", "repeats"):
        try:
            getattr(run, name)
        except RunFolderError:
            (run.path / f"{name}.h5").unlink()
    return run


def _asks_for_more(case, judge):
    """Whether something is to be computed after the steps: error bars, max-margin or repeats."""
    bars = judge is not None or case.error.companions != "none"
    return bars or case.certificate.seconds > 0.0 or getattr(case.method, "repeats", 1) > 1


def _estimated_beside(run, companions, quiet):
    """As `estimated`, by the second process; by this one if that fails. Ctrl-C costs the error bars
    alone."""
    try:
        with doing("estimating errors", quiet):
            found = ahead.answer(ahead.ERRORS, None)
    except KeyboardInterrupt:
        ahead.give_up()
        write_errors(run.path, broken_off(run))
        return True
    return estimated(run, None, companions, quiet) if found is None else found


def _certify(run, seconds, quiet):
    """Add the max-margin of the data to the folder of a run, which is complete without, where the
    second process does not; returns whether there is one. Ctrl-C costs it alone."""
    try:
        wait_for(ahead.MAX_MARGIN, quiet)
        with doing("max-margin", quiet):
            beside = ahead.answer(ahead.MAX_MARGIN, seconds)
            return certified(run, seconds) if beside is None else beside
    except KeyboardInterrupt:  # without it, the run's own interval stands
        ahead.give_up()
        return False


def certified(run: Run, seconds: float) -> bool:
    """Write the max-margin of a run's data into its folder, if it is found in time; returns whether
    it is."""
    found = final_max_margin(run, seconds)
    if found is not None:
        write_max_margin(run.path, found)
    return found is not None
