"""``subgraphkit dev``: try a backend again whenever a file of its package changes, until Ctrl-C."""

import os
import signal
import threading
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from subgraphkit.cli.command import Command, Parser
from subgraphkit.cli.commands.test import choose_cases
from subgraphkit.cli.exits import ExitCode
from subgraphkit.cli.reporting import CommandReport
from subgraphkit.cli.scaffolding.packages import folder_of
from subgraphkit.configuration.config import resolve
from subgraphkit.configuration.selection import parse_selection
from subgraphkit.errors import CallerError, SubgraphkitError
from subgraphkit.finding.listing import refresh_backends
from subgraphkit.finding.registry import find_record

_LOOK_SECONDS: Final = 0.2
"""How often files are looked at; a change is over when nothing more has changed for so long."""
_MOST_TEXT: Final = 300


def _execute(arguments: Namespace, report: CommandReport) -> ExitCode:
    choice, *others = parse_selection(arguments.name, "the command line")
    if others:
        raise CallerError("SGK301", f"expected one backend, got {arguments.name!r}")
    find_record(choice, resolve())
    folder = folder_of(choice.name)
    development = _Development(arguments, report, _Files(folder))
    if "site-packages" in folder.parts:
        report.note(f"{folder} is an installed copy; pip install -e, and edit your own files")
    try:
        development.go_on()
    except KeyboardInterrupt:
        report.note("ended")
    report.data = {
        "name": arguments.name,
        "folder": str(folder),
        "rounds": development.rounds,
        "wrong": list(development.wrong),
    }
    return ExitCode.CHECK_FAILED if development.wrong else ExitCode.OK


class _Files:
    """The files of a folder, watched by looking at them.

    A package has some dozens; asking for their times takes less than a millisecond, and unlike the
    notices of a system it works in containers and over networks.

    Attributes:
        changed: Whether any has changed since the last ``settle``.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.changed = False
        self._state = self._look()

    def settle(self) -> None:
        """Wait until nothing changes for a moment, and take that for the state to compare with."""
        before = None
        while before != self._state:
            before = self._state
            time.sleep(_LOOK_SECONDS)
            self._state = self._look()
        self.changed = False

    def wait(self) -> None:
        while not self.has_changed():
            time.sleep(_LOOK_SECONDS)

    def has_changed(self) -> bool:
        self.changed = self.changed or self._look() != self._state
        return self.changed

    @contextmanager
    def stopping(self) -> Iterator[None]:
        """Leave the block as soon as a file changes, by the way of Ctrl-C."""
        done, caller = threading.Event(), threading.get_ident()

        def watch() -> None:
            while not done.wait(_LOOK_SECONDS):
                if self.has_changed():
                    if hasattr(signal, "pthread_kill"):
                        signal.pthread_kill(caller, signal.SIGINT)
                    return

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            try:
                yield
            finally:
                done.set()
                watcher.join()
        except KeyboardInterrupt:
            if not self.changed:
                raise

    def _look(self) -> Mapping[str, tuple[int, int]]:
        found = {}
        for place, folders, files in os.walk(self.folder):
            folders[:] = [one for one in folders if not one.startswith((".", "__pycache__"))]
            for name in files:
                path = os.path.join(place, name)  # noqa: PTH118 (for every file, five times a second)
                if name[0] != "." and name[-1] != "~":
                    try:
                        state = os.stat(path)  # noqa: PTH116 (as above)
                    except OSError:  # it has just gone
                        continue
                    found[path] = state.st_mtime_ns, state.st_size
        return found


class _Development:
    """A backend that is being written, with what is wrong with it.

    Attributes:
        wrong: By case that was wrong when it was last tried, what was found.
    """

    def __init__(self, arguments: Namespace, report: CommandReport, files: _Files) -> None:
        self.rounds = 0
        self.wrong: dict[str, str] = {}
        self._arguments = arguments
        self._report = report
        self._files = files

    def go_on(self) -> None:
        while True:
            self._files.settle()
            self.rounds += 1
            with self._files.stopping():
                self._round()
            if not self._files.changed:
                self._report.note(f"watching {self._files.folder}; Ctrl-C ends it")
                self._files.wait()
            self._report.note("changed")

    def _round(self) -> None:
        """Try what was wrong before, and all else only if it is right now."""
        refresh_backends()
        # A syntax error shows at the gates, once.
        gates = import_module("subgraphkit.testing.checking").GATES
        try:
            if self._is_right({*gates, *self.wrong}) and self._is_right(self._arguments.only):
                self._report.note(f"all right up to level {self._arguments.level}")
        except SubgraphkitError as error:
            self.wrong = {"the backend": str(error)}
            self._report.note(f"FAIL  {error}")

    def _is_right(self, only: str | Collection[str]) -> bool:
        """Try cases, level by level, up to the first level with one that is wrong."""
        # The kit is beside the command line, not below it, and is not imported for other commands.
        kit = import_module("subgraphkit.testing")
        arguments = self._arguments
        self.wrong.pop("the backend", None)
        findings = kit.check_backend(
            arguments.name, arguments.level, only=only, timeout_seconds=arguments.timeout
        )
        level, ends, started = 0, Counter[str](), time.monotonic()
        try:
            for finding in findings:
                if finding.level != level:
                    self._tell(level, ends, started)
                    if any(case.startswith(f"L{level}/") for case in self.wrong):
                        return False
                    level, ends, started = finding.level, Counter(), time.monotonic()
                ends[finding.outcome.value] += isinstance(only, str)  # of others, each has a line
                self._note(finding)
                if self._files.changed:
                    return False
        finally:
            findings.close()
        self._tell(level, ends, started)
        return not self.wrong

    def _note(self, finding: Any) -> None:
        text = " ".join(f"{finding.outcome.value} {finding.detail}".split())[:_MOST_TEXT]
        if finding.is_wrong:
            self._report.note(f"FAIL  {finding.case}: {text}")
            self.wrong[finding.case] = text
        elif self.wrong.pop(finding.case, ""):
            self._report.note(f"ok    {finding.case}")

    def _tell(self, level: int, ends: Mapping[str, int], started: float) -> None:
        counted = ", ".join(f"{count} {name}" for name, count in ends.items() if count)
        if counted:
            took = time.monotonic() - started
            self._report.note(f"level {level}: {counted}; {took:.1f} s")


def _arguments(parser: Parser) -> None:
    parser.examples = ("dev acme", "dev acme:tile=4 --only 'L3/Conv/*'")
    parser.word("name NAME", "a backend that is installed, with options as in a selection")
    choose_cases(
        parser, level=3, meaning="the last level of the conformance kit to try", timeout=20.0
    )


COMMAND: Final = Command(_arguments, _execute)
