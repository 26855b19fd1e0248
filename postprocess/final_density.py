"""Draw the last density of a run, one column wide: python postprocess/final_density.py RUN PICTURE.pdf"""

import sys

from hkflow import load
from hkflow.plots.overview import draw_final_density, save_figure

save_figure(draw_final_density, load(sys.argv[1]), sys.argv[2], size=(3.35, 2.6))
