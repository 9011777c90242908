"""A directive that writes what the conformance kit found of a backend's operators.

``{support-table} NAME.csv`` reads a file beside the page, and gives the operators that the backend
takes as a table, the others as a list. ``make support`` writes the file by calling this module with
what ``subgraphkit author test NAME --json`` wrote.
"""

import csv
import io
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from subgraphkit.testing import Finding, Outcome

HEAD = ("operator", "versions", "element types", "right / offered")
COLUMNS = ("operator", "domain", "versions", "dtypes", "offered", "claimed", "right", "wrong")
_WIDTHS = (3, 3, 6, 2)


class SupportTable(SphinxDirective):
    """Write the operators of a backend; see the module."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Build summary, table and list."""
        _, path = self.env.relfn2path(self.arguments[0])
        self.env.note_dependency(path)
        rows = read_rows(Path(path))
        return [nodes.paragraph("", summary(rows)), _table(rows), *_not_taken(rows)]


def read_rows(path: Path) -> list[Mapping[str, str]]:
    """Read the operators of a file, those of the default domain first."""
    with path.open(encoding="utf-8", newline="") as lines:
        return sorted(csv.DictReader(lines), key=lambda row: (row["domain"], row["operator"]))


def table_of(report: Mapping[str, Any]) -> str:
    """Return the operators of a report of the kit as comma-separated values."""
    grouped: dict[tuple[str, str], list[Finding]] = {}
    for one in map(Finding.from_dict, report["findings"]):
        if one.operator and one.offers:
            grouped.setdefault((one.domain, one.operator), []).append(one)
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(_counts(*names, found) for names, found in sorted(grouped.items()))
    return stream.getvalue()


def _counts(domain: str, operator: str, found: Sequence[Finding]) -> tuple[str | int, ...]:
    offered = [one for one in found if one.is_offer]
    right = [one for one in offered if one.outcome is Outcome.RIGHT]
    versions = " ".join(map(str, sorted({one.version for one in right})))
    dtypes = " ".join(sorted({dtype for one in right for dtype in one.dtypes}))
    claimed, wrong = sum(one.is_claimed for one in offered), sum(one.is_wrong for one in found)
    return operator, domain, versions, dtypes, len(offered), claimed, len(right), wrong


def summary(rows: Sequence[Mapping[str, str]]) -> str:
    """Say in one sentence what the rows come to."""
    taken = sum(row["right"] != "0" for row in rows)
    right, offered = (sum(int(row[column]) for row in rows) for column in ("right", "offered"))
    wrong = sum(int(row["wrong"]) for row in rows)
    return (
        f"It takes {taken} of {len(rows)} operators: {right} of {offered} cases are claimed and "
        f"right, {wrong or 'none'} {'is' if wrong == 1 else 'are'} wrong."
    )


def _table(rows: Iterable[Mapping[str, str]]) -> nodes.table:
    taken = [row for row in rows if row["claimed"] != "0"]
    group = nodes.tgroup(cols=len(HEAD))
    group += [nodes.colspec(colwidth=width) for width in _WIDTHS]
    group += nodes.thead("", _row([nodes.Text(word) for word in HEAD]))
    group += nodes.tbody("", *(_row(_cells(row)) for row in taken))
    return nodes.table("", group)


def _cells(row: Mapping[str, str]) -> list[nodes.Node]:
    lists = (row["versions"], row["dtypes"])
    counts = f"{row['right']} / {row['offered']}"
    texts = [*(", ".join(listed.split()) or "-" for listed in lists), counts]
    return [nodes.literal("", _name(row)), *map(nodes.Text, texts)]


def _name(row: Mapping[str, str]) -> str:
    return f"{row['domain']}::{row['operator']}" if row["domain"] else row["operator"]


def _row(cells: Iterable[nodes.Node]) -> nodes.row:
    return nodes.row("", *(nodes.entry("", nodes.paragraph("", "", cell)) for cell in cells))


def _not_taken(rows: Iterable[Mapping[str, str]]) -> list[nodes.Node]:
    names = [_name(row) for row in rows if row["claimed"] == "0"]
    if not names:
        return []
    listed = nodes.paragraph("", "Left to other backends: ")
    for place, name in enumerate(names):
        listed += [nodes.Text(", " if place else ""), nodes.literal("", name)]
    return [listed]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("support-table", SupportTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    findings, table = map(Path, sys.argv[1:])
    table.write_text(
        table_of(json.loads(findings.read_text(encoding="utf-8"))["data"]), encoding="utf-8"
    )
