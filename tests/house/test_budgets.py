"""Every room keeps to its budget of lines of code, which one decision page holds."""

import ast
import re
from collections import Counter
from functools import cache
from typing import Final

from tests.house.tree import ROOT

PAGE: Final = ROOT / "docs" / "decisions" / "0027-budgets.md"


def lines_of_code(source):
    """Count the lines of a module that are no blank, comment or docstring."""
    texts = ((number, text.strip()) for number, text in enumerate(source.split("\n"), 1))
    lines, docstrings = {number for number, text in texts if text and text[0] != "#"}, set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant | ast.JoinedStr):
            if node.end_lineno > node.lineno:  # a text, whatever its lines look like
                lines.update(range(node.lineno, node.end_lineno + 1))
        elif isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                docstrings.update(range(first.lineno, first.end_lineno + 1))
    return len(lines - docstrings)


def _rooms():
    for path in sorted((ROOT / "subgraphkit").rglob("*.py")):
        parts = path.relative_to(ROOT / "subgraphkit").parts
        yield f"core/{parts[0] if len(parts) > 1 else 'top'}", path
    for path in sorted((ROOT / "backends").glob("*/*/**/*.py")):
        name, folder, *_ = path.relative_to(ROOT / "backends").parts
        yield (f"tests/{name}" if folder == "tests" else f"backends/{name}"), path
    for path in sorted((ROOT / "tests").rglob("*.py")):
        parts = path.relative_to(ROOT / "tests").parts
        if "build" not in parts:
            yield f"tests/{parts[0] if len(parts) > 1 else 'top'}", path


@cache
def _found():
    found: Counter[str] = Counter()
    for room, path in _rooms():
        lines = lines_of_code(path.read_text(encoding="utf-8"))
        found[room] += lines
        found[room.partition("/")[0]] += lines
    return found


def _budgets():
    rows = re.findall(r"\| `([\w/]+)` \| ([\d,]+) (?=\|)", PAGE.read_text("utf-8"))
    return {room: int(lines.replace(",", "")) for room, lines in rows}


def test_lines_of_code_are_those_with_neither_blank_comment_nor_docstring():
    source = (
        '"""Doc."""\n\n# why\nx = [\n    1,\n]\n\n\n'
        'def f() -> str:\n    """Doc."""\n    return """a\n\n# b"""\n'
    )
    assert lines_of_code(source) == 7


def test_no_room_is_larger_than_its_budget():
    budgets = _budgets()
    over = {
        room: f"{lines:,} lines of code, {budgets[room]:,} allowed"
        for room, lines in _found().items()
        if lines > budgets.get(room, lines)
    }
    assert over == {}, f"take something away, or raise the number in {PAGE.name} with a reason"


def test_every_room_has_a_budget_and_no_other_has_one():
    assert sorted(_budgets()) == sorted(_found())
