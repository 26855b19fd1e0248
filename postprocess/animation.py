"""Make a film of every picture of a run that moves: python postprocess/animation.py RUN FOLDER"""

import sys
from pathlib import Path

from hkflow import load
from hkflow.plots import animate, available

if len(sys.argv) < 3:
    sys.exit(__doc__)
run, folder = load(sys.argv[1]), Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
for name in available(run, moving=True):
    print(animate(name, run, folder / f"{name}.gif", fps=10, wide=True))
