"""A run folder that is known by its run, not by its name, which another run may take."""

from glob import escape
from pathlib import Path

from ..errors import RunFolderError


class Place:
    """Where a run lies: a folder, which is followed where it is moved aside, or a results.h5."""

    def __init__(self, path: Path) -> None:
        self._path, self._mark = path, _mark(path)

    @property
    def path(self) -> Path:
        """Where it is now, or was last seen."""
        if not self.is_there:
            beside = self._path.parent.glob(f"{escape(self._path.name)}.*")
            found = (other for other in beside if _mark(other) == self._mark)
            self._path = next(found, self._path)
        return self._path

    @property
    def is_there(self) -> bool:
        """Whether the folder of its name is still that of the run."""
        return _mark(self._path) == self._mark

    def there(self) -> Path:
        """Its path. Raises RunFolderError if it was moved elsewhere or removed."""
        path = self.path
        if not self.is_there:
            raise RunFolderError(
                f"{path}: the run that was read there is no longer there, and another may have its"
                " name. Load it from where it is now."
            )
        return path


def _mark(path):
    """What tells one run folder from another; None of what is none."""
    try:
        found = (path / "problem.h5").stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns
