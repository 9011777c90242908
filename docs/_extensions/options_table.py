"""A directive that writes the options of a backend as a table, from its manifest.

``{options-table} tensorrt`` writes kind, default and help of each. With ``:elsewhere:``, it writes
what the tools named there call the same. ``:head:`` names the columns.
"""

from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive, directives
from mapping_table import table
from sphinx.application import Sphinx

from subgraphkit.backend import Option
from subgraphkit.finding.registry import get_backend


class OptionsTable(Directive):
    """Write options as a table; see the module."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {
        "elsewhere": directives.unchanged,
        "head": directives.unchanged_required,
    }

    def run(self) -> list[nodes.Node]:
        """Build the table."""
        tools = self.options.get("elsewhere", "").split()
        head = [word.strip() for word in self.options["head"].split(",")]
        rows = [
            [option.name, *(option.elsewhere.get(tool, "") for tool in tools)]
            if tools
            else [option.name, kind_text(option), default_text(option), option.help]
            for option in get_backend(self.arguments[0]).options
        ]
        return [table(head, rows)]


def kind_text(option: Option) -> str:
    """Say what kind of value an option takes."""
    choices = " or ".join(map(str, option.choices))
    words = {"shapes": "dims by name", "list": "words", "mapping": "values by name"}
    return choices or words.get(option.kind, option.kind)


def default_text(option: Option) -> str:
    """Say what the default of an option is."""
    value = option.default
    if value is None or value in ((), {}, ""):
        return "not set"
    return str(value).lower() if isinstance(value, bool) else str(value)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("options-table", OptionsTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
