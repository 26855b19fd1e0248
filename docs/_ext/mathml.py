"""Formulas as MathML, which every browser draws by itself: no script, no font, no network.

docutils translates them when the pages are built, so a formula that is wrong fails the build.
"""

from docutils.nodes import SkipNode
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.errors import SphinxError


def mathml(node, as_block):
    """A node of a formula as MathML. Raises SphinxError, with its place, if it is wrong."""
    try:
        formula = tex2mathml(node.astext(), as_block=as_block)
    except MathError as error:
        place = f"{node.document['source'] if node.document else ''}:{node.line}"
        raise SphinxError(f"{place}: {node.astext()}: {error}") from error
    # without a font for formulas an accent overlaps its letter; what stands over it does not
    return formula.replace('<mover accent="true">', "<mover>")


def inline(self, node):
    """A formula within a line."""
    self.body.append(mathml(node, as_block=False))
    raise SkipNode


def block(self, node):
    """A formula of its own, which scrolls where it is wider than the page."""
    self.body.append(f'<div class="math">{mathml(node, as_block=True)}</div>\n')
    raise SkipNode


def setup(app):
    """Make it a renderer that conf.py can name."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
