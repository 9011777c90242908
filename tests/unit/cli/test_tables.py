"""Tables, with and without colours, and where the words go."""

import io
import json
import sys

import pytest

from subgraphkit.cli.reporting import CommandReport, plugin_output_apart
from subgraphkit.cli.tables import table
from subgraphkit.texts import Screen


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


TABLE = table("name size:", [("a[b]", 1), ("longer", 2000), (None, 3)])


def test_a_terminal_gets_a_table_in_its_own_width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    monkeypatch.setattr(sys, "stdout", stream)
    report = CommandReport("test")
    report.show(table("name text", [("a", "word " * 20)]))
    report.deliver()
    heading, *lines = stream.getvalue().splitlines()
    assert heading == "\x1b[1mNAME  TEXT\x1b[0m"
    assert len(lines) > 5
    assert max(map(len, lines)) <= 20


@pytest.mark.parametrize(("variables", "stream", "bold"), [
    ({"TERM": "xterm"}, Terminal, "\x1b[1m{}\x1b[0m"),
    ({"TERM": "dumb"}, Terminal, "{}"),
    ({"TERM": "xterm", "NO_COLOR": "1"}, Terminal, "{}"),
    ({"TERM": "xterm"}, io.StringIO, "{}"),
    ({"TERM": "xterm", "FORCE_COLOR": "1"}, io.StringIO, "\x1b[1m{}\x1b[0m"),
])  # fmt: skip
def test_colours_are_for_terminals_and_for_those_who_ask(monkeypatch, variables, stream, bold):
    for name, value in {"NO_COLOR": "", "FORCE_COLOR": "", **variables}.items():
        monkeypatch.setenv(name, value)
    written = stream()
    monkeypatch.setattr(sys, "stdout", written)
    report = CommandReport("test")
    report.show(TABLE)
    report.deliver()
    heading, *lines = written.getvalue().splitlines()
    assert heading == bold.format("NAME    SIZE")
    assert lines == TABLE.lines()[1:]


def test_a_stream_that_cannot_say_it_gets_escapes(monkeypatch):
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    monkeypatch.setattr(sys, "stdout", Screen.over(stream))
    report = CommandReport("test")
    report.show("größer")
    report.deliver()
    assert raw.getvalue() == b"gr\\xf6\\xdfer\n"


def test_the_document_has_the_same_members_always(capsys):
    report = CommandReport("test", as_json=True)
    report.note("beside")
    report.show("for people")
    report.deliver()
    out, err = capsys.readouterr()
    assert list(json.loads(out)) == ["schema", "version", "data", "warnings", "errors"]
    assert err == "beside\n"


def test_what_is_printed_meanwhile_goes_to_standard_error(capfd):
    with plugin_output_apart():
        sys.stdout.write("from Python\n")
    sys.stdout.write("data\n")
    out, err = capfd.readouterr()
    assert (out, err) == ("data\n", "from Python\n")
