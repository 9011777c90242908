"""A directive that writes a table from a mapping in the code, so that pages do not fall behind it.

``{mapping-table} package.module.NAME`` writes keys and values. With ``:columns:``, the columns
after the first are attributes of the values. ``:head:`` names the columns.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive, directives
from sphinx.application import Sphinx


class MappingTable(Directive):
    """Write a mapping as a table; see the module."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {
        "columns": directives.unchanged,
        "head": directives.unchanged_required,
    }

    def run(self) -> list[nodes.Node]:
        """Build the table."""
        module, _, name = self.arguments[0].rpartition(".")
        mapping: Mapping[str, Any] = getattr(import_module(module), name)
        columns = self.options.get("columns", "").split()
        head = [word.strip() for word in self.options["head"].split(",")]
        rows = [[str(key), *_cells(value, columns)] for key, value in mapping.items()]
        return [table(head, rows)]


def _cells(value: Any, columns: Sequence[str]) -> list[str]:
    return [_text(getattr(value, column)) for column in columns] if columns else [str(value)]


def _text(value: Any) -> str:
    if value is None or value == frozenset():
        return "-"
    return str(value).lower() if isinstance(value, bool) else str(value)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> nodes.table:
    """Build a table; the first column is code."""
    group = nodes.tgroup(cols=len(head))
    group += [nodes.colspec(colwidth=1) for _ in head]
    group += nodes.thead("", _row(head))
    group += nodes.tbody("", *(_row(row) for row in rows))
    return nodes.table("", group)


def _row(cells: Sequence[str]) -> nodes.row:
    first, *rest = cells
    entries = [nodes.entry("", nodes.paragraph("", "", nodes.literal("", first)))]
    entries += [nodes.entry("", nodes.paragraph("", cell)) for cell in rest]
    return nodes.row("", *entries)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("mapping-table", MappingTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
