"""The pictures of a run that `hkflow run` draws."""

from ..store.run import Run


def draw_pictures(run: Run) -> str:
    """Draw a run and return the names of its pictures."""
    from ..plots.kinds import available, write

    pictures = [write("overview", run)]
    if "width" in available(run):
        pictures.append(write("width", run, wide=True))
    return ", ".join(map(str, pictures))
