"""How Sphinx builds these pages; warnings and broken references fail the build."""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

from sphinx.application import Sphinx

import subgraphkit

project = "subgraphkit"
author = "The subgraphkit authors"
copyright = "The subgraphkit authors, Apache License 2.0"
version = release = subgraphkit.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "mapping_table",
    "options_table",
    "pictures",
    "support_table",
]
exclude_patterns = ["_build", "_extensions"]
html_theme = "furo"
html_title = f"subgraphkit {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

# The page that is a notebook is run whenever it is read; a cell that fails fails the build.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 120

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_custom_sections = [
    "Shapes",
    "Source",
    ("Thread-safety", "returns_style"),
    ("Warns", "returns_style"),
]

# No inventories are fetched, so that the pages build without a network; names of other projects
# and private names stay plain text.
nitpick_ignore_regex = [
    ("py:.*", r"(abc|argparse|array|collections|concurrent|contextlib|enum|logging|os)\..*"),
    ("py:.*", r"(_thread|pathlib|subprocess|threading|types|typing)\..*"),
    ("py:.*", r"(google|ml_dtypes|msgspec|networkx|numpy|np|npt|onnx|pluggy)\..*"),
    ("py:.*", r"(.*\.)?_\w+"),
    ("py:class", r"array|(dict|tuple)\[str|tuple\[~subgraphkit\.backend\.conformance\.SelfCheck"),
    ("py:class", r"subgraphkit\.finding\.(loading\.HookFactory|extensions\.ExtensionManager)"),
    (
        "py:class",
        r"subgraphkit\.partitioning\.(claiming\.(claim\.Passes|graph\.PartitionState)|reports\.moves\.Move|plan_files\.PlacedRegion)",
    ),
    (
        "py:class",
        r"subgraphkit\.bundling\.reading\.(BundleFiles|OriginEntry|BundleManifest)",
    ),
    ("py:class", r"subgraphkit\.compiling\.proving\.Proofs"),
    ("py:class", r"subgraphkit\.viewing\.(sections|tables)\.(Text|Table|Drawing|Timeline)"),
    ("py:class", r"subgraphkit\.testing\.comparison\.ResultJudge"),
    ("py:class", r"subgraphkit\.binding\.(computed\.BoundFolding|model_process\.ModelProcess)"),
    (
        "py:class",
        r"subgraphkit\.onnx_io\.(external_data\.DataFolders|inference\.Inferred|payloads\.Payload)",
    ),
]
# `type` is a builtin in a signature, and also an attribute of some classes.
suppress_warnings = ["ref.python"]


def keep_colons(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Keep Napoleon from reading the text before a colon as the type of an attribute."""
    del app, name, obj, options
    if what in {"attribute", "data", "property"}:
        lines[:0] = [".. a comment, so that the first line is not a type", ""]


def setup(app: Sphinx) -> None:
    """Run before Napoleon, whose priority is 500."""
    app.connect("autodoc-process-docstring", keep_colons, priority=400)
