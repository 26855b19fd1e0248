"""The public names of hkflow.plots and where they are defined."""

from .animation import animate as animate
from .classes import draw_classes as draw_classes
from .convergence import save_study as save_study
from .decision import draw_predictions as draw_predictions
from .figures import COLUMN as COLUMN
from .figures import PAGE as PAGE
from .figures import style as style
from .kinds import PLOTS as PLOTS
from .kinds import available as available
from .kinds import draw as draw
from .kinds import write as write
from .overview import save_overview as save_overview
from .records import draw_mass as draw_mass
from .records import draw_objective as draw_objective
