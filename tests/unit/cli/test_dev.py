"""``dev``: what it tries again, when, and how it ends; files really change."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import subgraphkit.testing
from subgraphkit.finding.listing import refresh_backends
from subgraphkit.testing import Finding, Outcome
from tests.interrupting import heard
from tests.ready import python_command
from tests.unit.cli.conftest import Cli

PATIENCE_SECONDS = 20.0


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the package of a backend that looks installed."""
    site = tmp_path / "site"
    info, package = site / "acme-1.0.dist-info", site / "sgk_acme"
    info.mkdir(parents=True)
    package.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[subgraphkit.backends]\nacme = sgk_acme:Acme\n")
    (package / "__init__.py").write_text("right")
    monkeypatch.syspath_prepend(str(site))
    refresh_backends()
    return package


@pytest.fixture
def tried(package: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Replace the kit by one whose cases end as the package's text says; list what is asked."""
    asked: list[Any] = []

    def check_backend(name: str, level: int, *, only: Any, timeout_seconds: float) -> Any:
        del name, timeout_seconds
        asked.append(only if isinstance(only, str) else sorted(only))
        for case in ("L0/import", "L0/probe", "L1/one", "L1/two", "L2/three"):
            if int(case[1]) > level or not (isinstance(only, str) or case in only):
                continue
            code = package / "__init__.py"
            text = code.read_text(encoding="utf-8") if code.exists() else f"wrong {case}"
            if case == "L1/one" and text == "hang":
                asked.append("hanging")
                queue.SimpleQueue[None]().get()
            is_wrong = case == text.removeprefix("wrong ")
            outcome = Outcome.FAIL_VALUE if is_wrong else Outcome.RIGHT
            yield Finding(outcome, "off by one" * is_wrong, case=case, level=int(case[1]))

    monkeypatch.setattr(subgraphkit.testing, "check_backend", check_backend, raising=False)
    yield asked
    refresh_backends()


def developing(cli: Cli, steps: list[tuple[str, Callable[[], object]]]) -> Any:
    """Run the command; do each step when its text has been written since the last one; end it."""
    written: list[str] = []
    missing: list[str] = []
    main = threading.get_ident()

    def act() -> None:
        place = 0
        for text, step in steps:
            start = place
            found = waited_for(lambda: text in "".join(written)[start:])  # noqa: B023 (at once)
            missing.extend([text] * (not found))
            place = "".join(written).find(text, start) + len(text)
            step()
        signal.pthread_kill(main, signal.SIGINT)

    actor = threading.Thread(target=act)
    with pytest.MonkeyPatch.context() as patch:
        note = subgraphkit.cli.reporting.CommandReport.note

        def noted(self: Any, text: str) -> None:
            note(self, text)
            written.append(f"{text}\n")

        patch.setattr("subgraphkit.cli.reporting.CommandReport.note", noted)
        actor.start()
        with heard():
            ended = cli("dev", "acme", "--json")
        actor.join()
    assert missing == [], ended.err
    return ended


def waited_for(fact: Callable[[], bool]) -> bool:
    """Wait until something is so; say whether it is."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not fact() and time.monotonic() < end:
        time.sleep(0.02)
    return fact()


def nothing() -> None:
    """End it."""


def test_each_change_tries_first_what_was_wrong_and_goes_on_when_that_is_right(
    cli: Cli, package: Path, tried: list[Any]
) -> None:
    text = package / "__init__.py"

    def write(what: str) -> Callable[[], object]:
        return lambda: text.write_text(what, encoding="utf-8")

    steps = [
        ("level 2: 1 right", write("wrong L1/two")),
        ("FAIL  L1/two: fail_value off by one", nothing),
        ("watching", write("wrong  L1/two")),
        ("ok    L1/two", nothing),
        ("all right up to level 3\nwatching", (package / "subgraphkit-backend.toml.swp~").touch),
        ("", lambda: time.sleep(0.5)),
    ]
    ended = developing(cli, steps)
    first = ["L0/import", "L0/probe"]
    assert tried == [first, "*", first, "*", [*first, "L1/two"], "*"]
    assert ended.code == 0
    data = json.loads(ended.out)["data"]
    assert (data["rounds"], data["wrong"]) == (3, [])
    assert "level 2" not in ended.err.partition("FAIL")[2].partition("changed")[0]


def test_a_change_ends_a_case_that_hangs_and_a_wrong_end_is_the_exit_code(
    cli: Cli, package: Path, tried: list[Any]
) -> None:
    text = package / "__init__.py"
    text.write_text("hang", encoding="utf-8")
    steps = [
        ("", lambda: waited_for(lambda: "hanging" in tried)),
        ("", lambda: text.write_text("wrong L0/import", encoding="utf-8")),
        ("watching", text.unlink),
        ("watching", lambda: text.write_text("right")),
        ("level 2: 1 right", lambda: text.write_text("wrong L2/three")),
        ("FAIL  L2/three", nothing),
    ]
    ended = developing(cli, steps)
    assert ended.code == 1
    assert json.loads(ended.out)["data"]["wrong"] == ["L2/three"]


def test_a_backend_that_is_not_installed_or_has_no_folder_is_an_error(
    cli: Cli, package: Path
) -> None:
    assert "[SGK102]" in cli("dev", "amce").err
    assert "[SGK301]" in cli("dev", "acme,numpy").err
    assert cli("dev", "").code == 2
    info = package.parent / "acme-1.0.dist-info" / "entry_points.txt"
    info.write_text("[subgraphkit.backends]\nacme = site:Acme\n", encoding="utf-8")
    refresh_backends()
    ended = cli("dev", "acme")
    assert (ended.code, "[SGK242]" in ended.err) == (2, True)


def test_code_is_loaded_anew_for_every_round_and_ctrl_c_leaves_no_process(package: Path) -> None:
    code = package / "__init__.py"
    right = (
        "import subgraphkit as sk\nclass Acme(sk.Backend):\n    name = 'acme'\n"
        "    def properties(self):\n        return []\n"
    )
    code.write_text(f"{right}x = (\n", encoding="utf-8")
    command = python_command("-m", "subgraphkit", "dev", "acme", "--only", "none")
    with (
        heard(),
        subprocess.Popen(
            command,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        ) as process,
    ):
        assert process.stderr is not None
        lines = process.stderr

        def until(text: str) -> list[str]:
            seen = []
            for line in lines:
                seen.append(line)
                if text in line:
                    return seen
            raise AssertionError(seen)

        assert "SyntaxError" in "".join(until("watching"))
        code.write_text(right, encoding="utf-8")
        assert "ok    L0/import\n" in until("watching")
        process.send_signal(signal.SIGINT)
        assert "ended" in lines.read()
        assert process.wait(PATIENCE_SECONDS) == 0
