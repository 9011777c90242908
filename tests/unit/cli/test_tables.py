"""Tables, with and without rich, and where the words go."""

import io
import json
import sys

import pytest

from subgraphkit.cli.reporting import CommandReport, plugin_output_apart
from subgraphkit.cli.tables import Table, plain_table, rich_table


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


TABLE = Table.of("name size", [("a[b]", 1), ("longer", 2000), (None, 3)], right="size")


def test_plain_columns_are_aligned_and_lines_have_no_tail() -> None:
    assert plain_table(TABLE).splitlines() == [
        "NAME    SIZE",
        "a[b]       1",
        "longer  2000",
        "           3",
    ]


def test_a_table_without_rows_is_its_headings() -> None:
    assert plain_table(Table.of("name size", [])) == "NAME  SIZE\n"


def test_rich_shows_the_same_cells_and_reads_no_markup() -> None:
    pytest.importorskip("rich")
    text = rich_table(TABLE, io.StringIO())
    assert text.split() == plain_table(TABLE).split()


def test_a_terminal_gets_a_table_in_its_own_width(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", Terminal())
    report = CommandReport("test")
    report.show(Table.of("name text", [("a", "word " * 20)]))
    report.deliver()
    written = sys.stdout.getvalue()
    assert "\x1b[" in written
    assert len(written.splitlines()) > 5


def test_without_rich_a_terminal_gets_plain_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subgraphkit.cli.reporting.find_spec", lambda _: None)
    monkeypatch.setattr(sys, "stdout", Terminal())
    report = CommandReport("test")
    report.show(TABLE)
    with report.doing("nothing"):
        report.deliver()
    assert sys.stdout.getvalue() == plain_table(TABLE)


def test_a_stream_that_cannot_say_it_gets_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    report = CommandReport("test")
    report.show("größer")
    report.deliver()
    assert raw.getvalue() == b"gr\\xf6\\xdfer\n"


def test_the_document_has_the_same_members_always(capsys: pytest.CaptureFixture[str]) -> None:
    report = CommandReport("test", as_json=True)
    report.note("beside")
    report.show("for people")
    report.deliver()
    out, err = capsys.readouterr()
    assert list(json.loads(out)) == ["schema", "version", "data", "warnings", "errors"]
    assert err == "beside\n"


def test_what_is_printed_meanwhile_goes_to_standard_error(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with plugin_output_apart():
        sys.stdout.write("from Python\n")
    sys.stdout.write("data\n")
    out, err = capfd.readouterr()
    assert (out, err) == ("data\n", "from Python\n")
