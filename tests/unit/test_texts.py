"""Tables that fit, names that no terminal obeys, and the one stream to it."""

import io
import logging
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import subgraphkit as sk
from subgraphkit.errors import CallerError, SubgraphkitWarning
from subgraphkit.logs import logger_of
from subgraphkit.texts import Screen, aligned, cut_word, fold_text, paragraph, printable, width_of
from tests.models import LINEAR, parsed

HOSTILE = "\x1b[2J\x07\r\nFORGED\u202e\x9b2J\u2028"
LONG = "/model/encoder/layer.0/attention/self/query/MatMul_output_0"
ROWS = [
    ("name", "count", "reason"),
    (LONG, "12,345", "too few nodes"),
    ("short", "1", "the shape of what this node makes is known only at a run, or never at all"),
]
TABLES = {
    60: """
name                             count  reason
/model/encoder...tMul_output_0  12,345  too few nodes
short                                1  the shape of what
                                        this node makes is
                                        known only at a run,
                                        or never at all
""",
    80: """
name                                                 count  reason
/model/encoder/layer.0/a...f/query/MatMul_output_0  12,345  too few nodes
short                                                    1  the shape of what
                                                            this node makes is
                                                            known only at a run,
                                                            or never at all
""",
    100: f"""
name                                                          count  reason
{LONG}  12,345  too few nodes
short                                                             1  the shape of what this node
                                                                     makes is known only at a run,
                                                                     or never at all
""",
    None: f"""
name                                                          count  reason
{LONG}  12,345  too few nodes
short                                                             1  {ROWS[2][2]}
""",
}


@pytest.mark.parametrize("width", TABLES)
def test_sentences_go_on_below_before_the_middle_of_names_is_left_out(width):
    assert "\n".join(aligned(ROWS, {1}, width=width)) == TABLES[width].strip("\n")


def test_columns_give_way_in_the_order_that_is_stated():
    rows = [("one", "two"), ("a" * 40, "b" * 40)]
    assert aligned(rows, width=70)[1] == f"{'a' * 40}  {cut_word('b' * 40, 28)}"
    assert aligned(rows, width=70, give=[0, 1])[1] == f"{cut_word('a' * 40, 28)}  {'b' * 40}"


def test_what_has_no_room_comes_below_with_the_first_column_again():
    rows = [("backends", *("median", "p90", "p99")), ("numpy", "1" * 9, "2" * 9, "3" * 9)]
    assert aligned(rows, {1, 2, 3}, width=30) == [
        "backends     median        p90",
        "numpy     111111111  222222222",
        "",
        "backends        p99",
        "numpy     333333333",
    ]


def test_wide_letters_take_two_cells_and_marks_stay_with_their_letters():
    lines = aligned([("name", "n"), ("図形/畳み込み層/出力値/正規化層の出力", "1")], {1}, width=30)
    assert [width_of(line) for line in lines] == [30, 30]
    assert lines[1] == "図形/畳み込...規化層の出力   1"
    cut = cut_word("e\u0301" * 30, 11)
    assert cut == "e\u0301" * 4 + "..." + "e\u0301" * 4
    assert width_of(cut) == 11
    assert width_of("\u1112\u1161\u11ab") == 2


_WORDS = st.text(
    st.characters(exclude_categories=["C", "Z"], exclude_characters="."), min_size=1, max_size=40
)
_CELLS = st.lists(_WORDS, max_size=8).map(" ".join)


@settings(max_examples=50)
@given(
    st.integers(1, 5).flatmap(
        lambda n: st.lists(st.lists(_CELLS, min_size=n, max_size=n), min_size=1, max_size=4)
    ),
    st.integers(60, 120),
)
def test_no_word_is_broken_and_no_line_too_long(rows, width):
    rows = [[f"c{at}" for at in range(len(rows[0]))], *rows]
    words = {word for row in rows for cell in row for word in cell.split()}
    for line in aligned(rows, width=width):
        assert width_of(line) <= width
        for word in line.split():
            start, cut, end = word.partition("...")
            assert word in words or any(
                cut and one.startswith(start) and one.endswith(end) for one in words
            )
    full = aligned(rows)
    assert len(full) == len(rows)
    assert {word for line in full for word in line.split()} == words


def test_a_row_leaves_no_blank_line_in_a_table_that_has_nothing_of_it():
    rows = [("name", "made of", "into"), ("a", "b" * 20, "c" * 20), ("", "", "d" * 20)]
    lines = aligned(rows, width=30)
    assert [line for line in lines if not line] == [""]  # between the two tables
    assert len(lines) == 6


SENTENCE = (
    "warning: openvino makes numbers of NaN in MaxPool and Relu\n"
    "  Next: subgraphkit plan /a/long/folder/model.onnx --details\n"
    "  /a/path/longer/than/any/line as well"
)


def test_messages_go_on_in_a_further_line_but_commands_do_not():
    assert fold_text(SENTENCE, None) == SENTENCE
    assert fold_text(SENTENCE, 24).splitlines() == [
        "warning: openvino makes",
        "  numbers of NaN in",
        "  MaxPool and Relu",
        "  Next: subgraphkit plan /a/long/folder/model.onnx --details",
        "  /a/path/longer/than/any/line",
        "    as well",
    ]
    assert paragraph("one two\nthree four", 9).splitlines() == ["one two", "  three", "    four"]


@given(st.text())
def test_what_is_printable_holds_nothing_that_a_terminal_obeys(text):
    for one in printable(text):
        assert one == " " or unicodedata.category(one)[0] not in "CZ"


def test_names_are_escaped_in_cells_errors_warnings_and_logs(caplog):
    safe = r"\x1b[2J\x07\r\nFORGED\u202e\x9b2J\u2028"
    assert aligned([("name",), (HOSTILE,)])[1] == safe
    several = "\\x1b[2J\\x07\\r\n  FORGED\\u202e\\x9b2J\\u2028"
    assert paragraph(HOSTILE) == several
    assert str(CallerError("SGK301", HOSTILE, hint=HOSTILE)).count("\n  FORGED") == 2
    assert str(SubgraphkitWarning(HOSTILE)) == several
    with caplog.at_level(logging.INFO, "subgraphkit.test"):
        logger_of("test").info("%d %s", 100, f"{HOSTILE} 100%")
        logger_of("test").info("%d %s", 1, "plain")
    assert caplog.messages == [f"100 {several} 100%", "1 plain"]
    assert caplog.records[1].args == (1, "plain")


def test_a_screen_writes_text_and_only_its_own_sequences(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "30")
    stream = io.StringIO()
    stream.isatty = lambda: True  # type: ignore[method-assign] # a terminal
    screen = Screen(Screen(stream))  # type: ignore[arg-type] # as main and a command do
    screen.write(f"{HOSTILE}\n")
    screen.redraw(f"{HOSTILE} {'long ' * 9}")
    screen.write_heading(HOSTILE)
    written = stream.getvalue()
    assert written.count("\x1b") == 4  # the heading takes the place of what was redrawn
    own = written.replace("\r\x1b[K", "").replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert printable(own, "\n") == own
    assert len(written.split("\r\x1b[K")[1].split("\x1b")[0]) == 29


@pytest.mark.parametrize(("verbose", "level"), [(1, "warning"), (2, "info"), (3, "debug")])
def test_what_is_logged_is_shown_where_the_setting_says_so(monkeypatch, capsys, verbose, level):
    top, below = logging.getLogger("subgraphkit"), logger_of("a_topic_of_tests")
    monkeypatch.setattr(top, "handlers", [])
    monkeypatch.setenv("SUBGRAPH_VERBOSE", str(verbose))
    model = sk.load(parsed(LINEAR))
    try:
        for _ in range(2):
            sk.bind(model, backend="numpy")
        capsys.readouterr()
        for each in ("warning", "info", "debug"):
            getattr(below, each)("%s\x1b[2J", each)
    finally:
        top.setLevel(logging.NOTSET)
    shown = [line.partition(": ")[2] for line in capsys.readouterr().err.splitlines()]
    levels = ["warning", "info", "debug"]
    assert shown == [f"{one}\\x1b[2J" for one in levels[: levels.index(level) + 1]]
