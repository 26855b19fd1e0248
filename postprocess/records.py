"""Draw the objectives and masses of several runs together: python postprocess/records.py
PICTURE.pdf RUN [RUN …]"""

import sys

from matplotlib.figure import Figure

from hkflow import load
from hkflow.plots import COLUMN, draw_mass, draw_objective, style

if len(sys.argv) < 3:
    sys.exit(__doc__)
picture, paths = sys.argv[1], sys.argv[2:]
with style():
    figure = Figure(figsize=(COLUMN, 3.6), layout="constrained")
    axes = figure.subplots(2, 1, sharex=True)
    for k, run in enumerate(map(load, paths)):
        for ax, draw in zip(axes, (draw_objective, draw_mass), strict=True):
            draw(ax, run.records)
            ax.lines[-1].set(color=f"C{k}", label=run.path.name)
    axes[0].set_xlabel("")
    figure.legend(*axes[1].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    figure.savefig(picture)
