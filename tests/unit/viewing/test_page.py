"""Pages and fragments, as text."""

import json
import re
from html.parser import HTMLParser

import pytest

from subgraphkit.viewing import Box, Drawing, Table, Text, fragment, page

HOSTILE = "<img src=x onerror=alert(1)>\u202e</script><!--\x00\ud800&amp;"
HARMLESS = "h" * len(HOSTILE)  # long names are beside their box


def _table(rows):
    cells = [(f"part_{at % 5}", at / 3, None) for at in range(rows)]
    return Table(("part", "time, ms", "empty"), cells, title="Nodes", bars=("time, ms",))


def _data(text):
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    sections: list[object] = json.loads(found[1])
    return sections


class _Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.opened: list[str] = []
        self.attributes: set[str] = set()
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.opened.append(tag)
        self.attributes |= {name for name, _ in attrs}


def test_a_page_names_its_own_script_and_style_and_allows_nothing_else():
    text = page("A model", Text("words"))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert re.fullmatch(
        r"default-src 'none'; script-src 'sha256-[\w+/=]{44}'; style-src 'sha256-[\w+/=]{44}'; "
        r"base-uri 'none'; form-action 'none'",
        policy[1],
    )
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")


def test_no_name_becomes_a_tag_or_an_attribute():
    harmless, hostile = (
        page(
            name,
            Text(name, name),
            Table(("what", "value"), [(name, name)], name),
            Table([name], [[name]], name, name, (name,)),
            Drawing([Box(name, name, 1, name, [(name, name)])], [], name, name, opens=name),
        )
        for name in (HARMLESS, HOSTILE)
    )
    assert _Tags(hostile).opened == _Tags(harmless).opened
    assert _Tags(hostile).attributes == _Tags(harmless).attributes
    assert not {"style", "onerror", "onclick"} & _Tags(hostile).attributes
    hostile.encode()  # half of a character would not go into a file
    assert "\u202e" not in hostile
    assert "\x00" not in hostile


def test_a_page_holds_all_rows_as_data_and_a_fragment_the_first_ones():
    whole, piece = page("t", _table(1000)), fragment(_table(1000))
    (data,) = _data(whole)
    assert isinstance(data, dict)
    assert data["count"] == 1000
    assert data["cells"][0]["texts"] == [f"part_{at}" for at in range(5)]
    assert len(data["cells"][0]["places"]) == len(data["cells"][1]) == 1000
    assert "980 more rows" in piece
    assert piece.count("<tr>") == 21
    assert "<script" not in piece
    assert "<style" not in piece


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_json_does_not_have_are_written_as_text(value):
    (data,) = _data(page("t", Table(["x"], [[1.5], [value]])))
    assert isinstance(data, dict)
    assert data["cells"] == [[1.5, str(value)]]


def test_a_backend_has_the_same_colour_in_every_picture():
    names = [*("iree", "numpy", "onednn", "onnxruntime", "openvino", "tensorrt", "tvm"), "mine"]
    first, second = (Drawing([Box(one, one) for one in part], []) for part in (names, names[5:]))
    fills = [
        {name: fill for fill, name in re.findall(r'"3" fill="([^"]+)"/></svg> (\w+)', one)}
        for one in page("t", first, second).split("</ul>")[:2]
    ]
    assert len(set(fills[0].values())) == len(names)
    assert fills[1].items() < fills[0].items()


def test_a_marked_row_is_marked_and_the_largest_number_fills_its_bar():
    table = Table(["who", "%"], [("a", 3), ("b", 6)], bars=("%",), marked=[1], links=[[], [0]])
    text = page("", table)
    assert text.count('<tr class="marked">') == 1
    assert '<tr class="marked"><td>b</td>' in text
    assert '<svg class="bar" width="80" height="12"><path d="M0 3H80V9H0z"' in text
    assert '"marked":[1],"links":[[],[0]]' in text
