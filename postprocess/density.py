"""Draw the measure of a run at its first, middle and last save: python postprocess/density.py RUN
PICTURE.pdf"""

import sys

from matplotlib.figure import Figure

from hkflow import load
from hkflow.plots import PAGE, draw, style

if len(sys.argv) < 3:
    sys.exit(__doc__)
run, picture = load(sys.argv[1]), sys.argv[2]
last = len(run.time) - 1
with style():
    figure = Figure(figsize=(PAGE, 6.3), layout="constrained")
    for part, save in zip(figure.subfigures(3, 1), (0, last // 2, last), strict=True):
        # with the same axes and colours
        draw("density", run, part, save, shared=(0, last // 2, last))
    figure.savefig(picture)
