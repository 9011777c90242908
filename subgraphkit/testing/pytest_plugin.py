"""The conformance kit under pytest.

``pytest --pyargs subgraphkit.testing --subgraph-backend=NAME`` runs one test per case.

It imports only pytest until you give a backend, because pytest loads the plugin wherever
subgraphkit is installed.
"""

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest

_PACKAGE: Final = "subgraphkit.testing"
_HERE: Final = Path(__file__).parent
_LAST_LEVEL: Final = 7
_SECONDS: Final = 60.0
_FILE: Final = pytest.StashKey["ConformanceFile"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; their names are long, so that nobody else has them."""
    group = parser.getgroup("subgraphkit", "conformance of a subgraphkit backend")
    group.addoption(
        "--subgraph-backend",
        metavar="NAME",
        help=f"the backend that 'pytest --pyargs {_PACKAGE}' holds against the contract",
    )
    group.addoption(
        "--subgraph-level",
        metavar="N",
        type=int,
        choices=range(_LAST_LEVEL + 1),
        default=_LAST_LEVEL,
        help="the last level to try (default: 7)",
    )
    group.addoption(
        "--subgraph-seed",
        metavar="N",
        type=int,
        default=0,
        help="draws the cases that are random (default: 0)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to test nothing (UsageError)."""
    names = [str(word).partition("::")[0] for word in config.invocation_params.args]
    if _PACKAGE in names and not config.option.subgraph_backend:
        raise pytest.UsageError(f"{_PACKAGE} tests a backend: add --subgraph-backend=NAME")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> "ConformanceFile | None":
    """Collect the cases where pytest comes upon this package, if there is a backend to test."""
    if parent.config.option.subgraph_backend and file_path == _HERE / "__init__.py":
        return ConformanceFile.from_parent(parent, path=file_path)
    return None


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Show the summary."""
    findings = [
        dict(report.user_properties)["subgraphkit"]
        for reports in terminalreporter.stats.values()
        for report in reports
        if "subgraphkit" in dict(getattr(report, "user_properties", ()))
        and getattr(report, "when", "") == "call"
    ]
    if findings:
        kit = import_module(_PACKAGE)
        found = map(kit.Finding.from_dict, findings)
        terminalreporter.section("conformance")
        terminalreporter.line(kit.Report(config.option.subgraph_backend, found).headline)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Stop the processes that carried out the cases."""
    if (collected := session.config.stash.get(_FILE, None)) is not None:
        collected.pool.close()


class ConformanceFile(pytest.File):
    """All cases of the levels asked for, and the process that carries them out."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        checking = import_module(f"{_PACKAGE}.checking")
        children = import_module(f"{_PACKAGE}.children")
        option = self.config.option
        subject = checking.subject_of(option.subgraph_backend, {}) | {"seed": option.subgraph_seed}
        # pytest asks for one case after the other; pytest-xdist runs more at once.
        self.pool = children.Pool(subject, 1)
        self.required = checking.REQUIRED
        self.ended_by = ""
        self.config.stash[_FILE] = self

    def collect(self) -> Iterator[pytest.Item]:
        """List the cases of every level; CollectError if the process that lists them is gone."""
        for level in range(self.config.option.subgraph_level + 1):
            try:
                listed = self.pool.list_cases(level, _SECONDS)
            except Exception as error:
                raise self.CollectError(f"the cases of level {level}: {error}") from error
            for one in listed:
                yield ConformanceCase.from_parent(self, name=one.case.case, task=one)

    def carry_out(self, task: Any) -> Any:
        """Have a case carried out; return its finding."""
        if self.ended_by:
            return replace(task.case, detail=f"not tried after {self.ended_by}")
        (found,) = self.pool.findings([[task]])
        if found.is_wrong and found.case in self.required:
            self.ended_by = found.case
        return found


class ConformanceCase(pytest.Item):
    """One case."""

    def __init__(self, *, task: Any, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._task = task

    def runtest(self) -> None:
        """Carry the case out and report its end to pytest.

        A case without claims is skipped, not passed, so that you see a backend without claims.
        """
        parent: Any = self.parent
        found = parent.carry_out(self._task)
        self.user_properties.append(("subgraphkit", found.to_dict()))
        text = f"{found.outcome.value}: {found.detail}" if found.detail else found.outcome.value
        if found.is_wrong:
            pytest.fail(text, pytrace=False)
        if found.outcome.value == "xfail":
            pytest.xfail(found.detail)
        if found.outcome.value not in {"right", "passed"}:
            pytest.skip(text)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Name the case in reports."""
        return self.path, None, self.name
