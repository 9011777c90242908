"""A directive that draws a picture from the code itself, so that it cannot fall behind it.

``{picture} NAME`` calls the function of that name in ``subjects.py``. The picture is SVG inside of
the page: it has the colours of the page, light or dark, and is described in words to whoever does
not see it. Beside the pages stands ``report.html``, the report of a real network, made anew too.
"""

from pathlib import Path
from typing import Any

import subjects
from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx


class Picture(Directive):
    """Draw a picture; see the module."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Build the picture."""
        sheet, described = getattr(subjects, self.arguments[0])()
        return [nodes.raw("", sheet.html(described), format="html")]


def write_report(app: Sphinx, problem: Exception | None) -> None:
    """Write the report that the first page shows."""
    if problem is None and app.builder.format == "html":
        (Path(app.outdir) / "report.html").write_text(subjects.report(), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive, and have the report written."""
    app.add_directive("picture", Picture)
    app.connect("build-finished", write_report)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
