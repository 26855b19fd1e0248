"""A case file, checked and built."""

from ..errors import CaseError
from .build import build_problem, read_named, resolve
from .load import CaseFile, load_case


def check(case, **overrides):
    """Read and check a case file, its data included, without computing or writing. Returns
    (resolved case, problem)."""
    return build_case(read_case(case, overrides))


def read_case(case, overrides):
    """The CaseFile of a path, or one as it is."""
    return case if isinstance(case, CaseFile) else load_case(case, overrides)


def build_case(file):
    """The resolved case of a CaseFile and its Problem; raises CaseError, which names the file."""
    try:
        resolved, data = read_named(resolve(file.case), file.folder)
        return resolved, build_problem(resolved, file.folder, data)
    except CaseError as error:
        raise CaseError(f"{file.source}: {error}") from error
