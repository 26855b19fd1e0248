"""Whether a picture can be read: its texts lie apart from one another and inside the figure; and
sketches, for tests of what is drawn and not of where."""

from contextlib import ExitStack, contextmanager
from itertools import combinations
from unittest.mock import patch

from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.text import Text

from hkflow.plots.figures import JOURNALS

# pixels at 100 dpi by which boxes may reach into one another: they are a little larger than their
# letters
TOUCH = 0.75
SKETCHED = 100  # dots per inch, where files have 300
LAYOUT, TICKS = ConstrainedLayoutEngine.execute, Axis._update_ticks


@contextmanager
def sketches():
    """Pictures are drawn as always inside, but with fewer dots, and without finding room for texts
    and without ticks, which take two thirds of the time and are left to `legible` and
    `drawn_texts`."""
    with ExitStack() as held:
        held.enter_context(patch.object(ConstrainedLayoutEngine, "execute", lambda *_: None))
        held.enter_context(patch.object(Axis, "_update_ticks", lambda _: []))
        for settings in {id(j.settings): j.settings for j in JOURNALS.values()}.values():
            held.enter_context(patch.dict(settings, {"savefig.dpi": SKETCHED}))
        yield


@contextmanager
def drawn_texts():
    """A list that fills with the texts that are drawn inside, those of ticks of sketches as well:
    those of ticks beyond an axis are not."""
    found, original = [], Text.draw

    def draw(self, renderer, *args, **kwargs):
        if self.get_visible() and self.get_text().strip():
            found.append(self)
        return original(self, renderer, *args, **kwargs)

    with patch.object(Text, "draw", draw), patch.object(Axis, "_update_ticks", TICKS):
        yield found


def legible(figure):
    """Draw a figure and assert that no text is cut off at its edge and no two overlap; returns the
    texts as strings."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    with drawn_texts() as texts, patch.object(ConstrainedLayoutEngine, "execute", LAYOUT):
        figure.draw_without_rendering()  # which places everything first
    touch = TOUCH * figure.dpi / 100.0
    boxes = [
        (text.get_text(), text.get_window_extent(renderer).padded(-touch))
        for text in dict.fromkeys(texts)
    ]
    assert boxes, "nothing is written"
    for text, box in boxes:
        inside = (
            box.x0 >= 0.0
            and box.y0 >= 0.0
            and box.x1 <= figure.bbox.x1
            and box.y1 <= figure.bbox.y1
        )
        assert inside, f"'{text}' is cut off: {box.extents} in {figure.bbox.extents}"
    for (text, box), (other, its_box) in combinations(boxes, 2):
        assert not box.overlaps(its_box), (
            f"'{text}' and '{other}' overlap: {box.extents}, {its_box.extents}"
        )
    return [text for text, _ in boxes]
