"""How the documentation is built: `python -m sphinx -W -n docs build/docs`, without a network."""

import gc
import sys
from pathlib import Path

# trees of pages are no garbage: looking for it among them takes a fifth of the time
gc.set_threshold(100_000, 20, 100)
sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "hkflow"
author = "The hkflow developers"
copyright = author
extensions = ["myst_parser", "sphinx.ext.autodoc", "mathml", "plain_docstrings", "generated"]
exclude_patterns = ["_generated", "_ext"]

myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]  # pages made of generated parts begin at the second level

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_maximum_signature_line_length = 88
# names of types in signatures are to be read; every other reference is checked
nitpick_ignore_regex = [("py:(class|obj|data|exc)", ".*")]

smartquotes = False  # quotation marks are TOML's
html_theme = "furo"
html_title = "hkflow"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#33608c", "color-brand-content": "#33608c"},
    "dark_css_variables": {"color-brand-primary": "#8fb8de", "color-brand-content": "#8fb8de"},
}
