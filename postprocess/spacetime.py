"""Draw the measure of a grid run on the circle over time, alone and under the particles of another
run.

python postprocess/spacetime.py GRID_RUN PARTICLE_RUN PICTURE.pdf
"""

import sys

from matplotlib.figure import Figure

from hkflow import load
from hkflow.plots import PAGE, draw, style

if len(sys.argv) < 4:
    sys.exit(__doc__)
grid, particles, picture = load(sys.argv[1]), load(sys.argv[2]), sys.argv[3]
with style():
    figure = Figure(figsize=(PAGE, 3.8), layout="constrained")
    left, right = figure.subfigures(1, 2)
    draw("spacetime", grid, left)
    draw("particles", particles, right, under=grid)
    figure.savefig(picture)
