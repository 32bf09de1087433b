"""How Sphinx builds the documentation; `.ci/docs` builds it with warnings as errors."""

import importlib.metadata
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

project = "onnxcast"
author = "the onnxcast developers"
release = importlib.metadata.version("onnxcast")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_click",
    "from_code",
]
exclude_patterns = ["_build", "conftest.py"]
html_theme = "furo"
html_title = f"onnxcast {release}"

# Docstrings name code in single backticks.
default_role = "literal"
myst_heading_anchors = 3
smartquotes = False  # they would make one dash of the two of an option
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the arguments of a docstring say what they take
