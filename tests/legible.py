"""Whether a picture can be read: its texts lie apart from one another and inside the figure."""

from contextlib import contextmanager
from itertools import combinations

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

# pixels at 100 dpi by which boxes may reach into one another: they are a little larger than their
# letters
TOUCH = 0.75


@contextmanager
def drawn_texts():
    """A list that fills with the texts that are drawn inside: those of ticks beyond an axis are
    not."""
    found, original = [], Text.draw

    def draw(self, renderer, *args, **kwargs):
        if self.get_visible() and self.get_text().strip():
            found.append(self)
        return original(self, renderer, *args, **kwargs)

    Text.draw = draw
    try:
        yield found
    finally:
        Text.draw = original


def legible(figure):
    """Draw a figure and assert that no text is cut off at its edge and no two overlap; returns the
    texts as strings."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    with drawn_texts() as texts:
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
