"""Draw the paths of units as Bach & Chizat 2022, Fig. 2, a panel for each run: python
postprocess/paths.py PICTURE.pdf RUN …"""

import sys

from matplotlib.figure import Figure

from hkflow import load
from hkflow.plots import PAGE, draw, style

if len(sys.argv) < 3:
    sys.exit(__doc__)
picture, runs = sys.argv[1], [load(path) for path in sys.argv[2:]]
with style():
    figure = Figure(figsize=(PAGE, PAGE / len(runs) + 0.6), layout="constrained")
    for part, run in zip(figure.subfigures(1, len(runs), squeeze=False)[0], runs, strict=True):
        draw("paths", run, part)
        part.suptitle(f"m = {len(run.atoms_at(-1, normalised=True))}")
    figure.savefig(picture)
