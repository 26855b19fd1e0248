"""Draw how a run learns, its predictions at four saves: python postprocess/decision.py RUN
PICTURE.pdf"""

import sys

import numpy as np
from matplotlib.figure import Figure

from hkflow import load
from hkflow.plots import PAGE, draw_predictions, style

if len(sys.argv) < 3:
    sys.exit(__doc__)
run, picture = load(sys.argv[1]), sys.argv[2]
saves = np.linspace(0, len(run.time) - 1, 4).astype(int)
with style():
    figure = Figure(figsize=(PAGE, 5.0), layout="constrained")
    for ax, save in zip(figure.subplots(2, 2).flat, saves, strict=True):
        draw_predictions(ax, run, save, shared=saves)  # the same colours
        # above the legend
        ax.set_title(f"t = {run.time[save]:.4g}", loc="left", pad=17.0)
    figure.savefig(picture)
