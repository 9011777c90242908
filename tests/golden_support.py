"""Compare a text with the one kept in a file, or, with ``--update-golden``, keep the new one."""

import difflib
from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"
GoldenCheck = Callable[[str, str], None]
"""Takes the name of the file below ``GOLDEN``, such as ``reports/many``, and the text."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--update-golden``."""
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the golden files anew instead of comparing with them",
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> GoldenCheck:
    """Return the check ``golden(name, text)``; the file is ``tests/golden/<name>.txt``."""
    update = bool(request.config.getoption("--update-golden"))

    def check(name: str, text: str) -> None:
        path = GOLDEN / f"{name}.txt"
        found = text.rstrip("\n") + "\n"
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(found, encoding="utf-8")
            return
        if not path.is_file():
            pytest.fail(f"there is no {path.name}; write it with --update-golden and read it")
        expected = path.read_text(encoding="utf-8")
        if found != expected:
            lines = difflib.unified_diff(
                expected.splitlines(), found.splitlines(), "golden", "found", lineterm=""
            )
            pytest.fail("\n".join([f"{path.name} differs (--update-golden accepts it):", *lines]))

    return check
