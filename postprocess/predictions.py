"""Draw the predictions of a run against the targets beside its records: python
postprocess/predictions.py RUN PICTURE.pdf"""

import sys

from matplotlib.figure import Figure

from hkflow import load
from hkflow.plots import PAGE, draw, style

if len(sys.argv) < 3:
    sys.exit(__doc__)
run, picture = load(sys.argv[1]), sys.argv[2]
with style():
    figure = Figure(figsize=(PAGE, 4.4), layout="constrained")
    left, right = figure.subfigures(1, 2)
    draw("predictions", run, left)
    draw("records", run, right)
    figure.savefig(picture)
