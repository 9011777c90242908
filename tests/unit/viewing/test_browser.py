"""Pages in a real browser: nothing in a name runs, and everything can be reached."""

import re
from typing import Any

from subgraphkit.partitioning import partition
from subgraphkit.viewing import Arrow, Box, Drawing, Table, Text, page
from tests.unit.partitioning.pass_support import graph_of, taking

RUNS = (
    "alert(1)",
    "window.hit=1",
    "fetch('http://localhost:9/x')",
    "document.location='http://localhost:9/'",
    "new Image().src='http://localhost:9/x.png'",
    "open('http://localhost:9/')",
)
AROUND = (
    "<script>{}</script>",
    "</script><script>{}</script>",
    '<img src=x onerror="{}">',
    "<img src='http://localhost:9/y.png' onload={}>",
    '<svg onload="{}"><animate onbegin="{}" attributeName=x dur=1s>',
    '"><svg/onload={}>',
    "' autofocus onfocus='{}' x='",
    '" tabindex=1 autofocus onfocus="{}" x="',
    "javascript:{}",
    '<a href="javascript:{}" id=search>x</a>',
    '<iframe srcdoc="<script>{}</script>"></iframe>',
    '<iframe src="javascript:{}"></iframe>',
    "<style>@import 'http://localhost:9/{}';</style>",
    "</style><script>{}</script><style>",
    "</title><script>{}</script>",
    "</text></svg><script>{}</script>",
    '<foreignObject><body onload="{}"></foreignObject>',
    "--><script>{}</script><!--",
    "]]><script>{}</script>",
    "<!--<script>{}</script>",
    "<math><mtext><table><mglyph><style><img src=x onerror={}>",
    "<template><script>{}</script></template>",
    '<meta http-equiv=refresh content="0;url=http://localhost:9/?{}">',
    '<base href="http://localhost:9/{}">',
    '<link rel=stylesheet href="http://localhost:9/{}">',
    '<object data="javascript:{}"></object>',
    '<form action="http://localhost:9/{}"><input type=submit autofocus>',
    "&lt;script&gt;{}&lt;/script&gt;",
    "&#60;script&#62;{}&#60;/script&#62;",
    "\\u003cscript\\u003e{}\\u003c/script\\u003e",
    "${{{}}}",
    "{{{{{}}}}}",
    "`+{}+`",
    '"}});{};//',
    "\u202e<script>{}</script>\u202c",
    "\ud800<script>{}</script>\udfff",
    "\x00<scr\x00ipt>{}</script>",
    "\u2028{}\u2029",
    "\x1b]8;;http://localhost:9/{}\x07x\x1b[0m",
    "<img src=x\nonerror\n=\n{}\n>",
    "\N{FULLWIDTH LESS-THAN SIGN}script\N{FULLWIDTH GREATER-THAN SIGN}{}",
    "__proto__ {}",
    "constructor{}",
)
PLAIN = ("", " ", "__proto__", "constructor", "toString", "a" * 100_000, "<" * 50_000, "\ufeff",
         "\u200b", "\u2066\u2069", "\r\n", "\t", "\x7f", "\ud83d", "\udc00\ud800", "NaN", "null",
         "-0", "1e999", "%", "#", "?", "\\", "'", '"', "`", "&", "<", ">", "</", "<!", "-->", "]]>",
         "\N{PILE OF POO}", "e\u0301" * 500, "\u0635\u0652" * 50, "/", "//", "../..", "data:,x",
         "blob:x", "file:///", "\x85")  # fmt: skip
NAMES = [*(one.replace("{}", run) for one in AROUND for run in RUNS), *PLAIN]


def _drawing(names):
    boxes = [Box(one, one[:40], at, one, [(one, one)]) for at, one in enumerate(names)]
    arrows = [Arrow(at, at + 1, at, one) for at, one in enumerate(names[:-1])]
    return Drawing(boxes, arrows, title=names[0], caption=names[1], opens="Nodes")


def _hostile():
    table = Table(["name", "size", "again"], [(n, i, n) for i, n in enumerate(NAMES)], "Nodes")
    drawings = [_drawing(NAMES[at : at + 100]) for at in range(0, 300, 100)]
    facts = Table(("what", "value"), [(one, one) for one in NAMES], NAMES[2])
    heads = Table(NAMES[:40], [NAMES[40:80]] * 9, NAMES[3], NAMES[4])
    return page(NAMES[5], table, *drawings, _drawing(NAMES), facts, heads, Text("\n".join(NAMES)))


def test_of_three_hundred_hostile_names_none_is_active(open_page):
    assert len(NAMES) >= 300
    opened = open_page(_hostile())
    browser = opened.page
    browser.fill("#search", "script")
    browser.wait_for_selector("text=(of 301)")
    assert browser.locator(".box.found").count() > 50
    browser.fill("#search", "")
    for at in (0, 30, 60):
        box = browser.locator(".picture:not([hidden]) .box[data-box]").nth(at)
        box.dispatch_event("click")
        assert browser.locator(".detail:not([hidden])").count()
    browser.locator("th button").nth(1).click()
    browser.locator("th button").nth(0).click()
    browser.get_by_text("more", exact=False).first.dispatch_event("click")
    browser.wait_for_timeout(300)
    assert opened.misdeeds == []
    assert browser.evaluate("window.hit") is None
    assert browser.locator("script").count() == 2
    foreign = "img, iframe, object, embed, base, link, form, a, template, foreignObject, math"
    assert browser.locator(foreign).count() == 0
    attributes = browser.evaluate(
        "[...document.querySelectorAll('*')].flatMap((one) => one.getAttributeNames())"
    )
    assert not [one for one in {*attributes} if one.startswith("on")]
    assert not {"href", "src", "srcdoc", "action"} & {*attributes}
    assert "\u202e" not in browser.evaluate("document.documentElement.textContent")


def test_what_slipped_through_would_still_not_run(open_page):
    """The policy of the page is the second wall; here the first is torn down on purpose."""
    opened = open_page(_small())
    refused: list[str] = []
    opened.page.on("requestfailed", lambda request: refused.append(request.failure))
    opened.page.evaluate(
        """() => {
          const script = document.createElement("script");
          script.textContent = "window.hit = 1";
          document.body.append(script);
          document.body.insertAdjacentHTML("beforeend",
            '<img src="http://localhost:9/x.png" onerror="window.hit = 2">');
          document.body.setAttribute("onclick", "window.hit = 3");
          document.body.click();
          return fetch("http://localhost:9/x").catch(() => {});
        }"""
    )
    opened.page.wait_for_timeout(100)
    assert opened.page.evaluate("window.hit") is None
    said = [one for one in opened.misdeeds if one.startswith("console")]
    assert len(said) >= 4
    assert all("Content Security Policy" in one for one in said), said
    assert opened.misdeeds.count("request: http://localhost:9/x.png") <= refused.count("csp")


def _small():
    rows = [(f"part_{at % 3}", f"node {at}", at * 1.5) for at in range(30)]
    boxes = [Box(f"part_{at}", "ab"[at % 2], at + 1, "a note") for at in range(3)]
    drawing = Drawing(boxes, [Arrow(0, 1), Arrow(1, 2, 2048)], title="Parts", opens="Nodes")
    return page("A model", drawing, Table(("part", "node", "ms"), rows, "Nodes", bars=("ms",)))


def _rows(opened):
    rows: list[list[str]] = opened.page.evaluate(
        "[...document.querySelectorAll('tbody tr')].map("
        "(row) => [...row.cells].map((cell) => cell.textContent.trim()))"
    )
    return rows


def test_a_table_sorts_filters_and_is_searched(open_page):
    opened = open_page(_small())
    browser = opened.page
    assert [row[1] for row in _rows(opened)] == [f"node {at}" for at in range(30)]
    browser.click("th button >> text=ms")
    assert [row[2] for row in _rows(opened)[:2]] == ["43.500", "42.000"]
    assert browser.locator("th[aria-sort=descending]").count() == 1
    browser.click("th button >> text=node")
    assert [row[1] for row in _rows(opened)[:3]] == ["node 0", "node 1", "node 2"]
    browser.fill('input[aria-label="Filter ms"]', "> 40")
    browser.wait_for_selector("text=3 rows (of 30)")
    assert [row[1] for row in _rows(opened)] == ["node 27", "node 28", "node 29"]
    browser.fill("#search", "PART_1")
    browser.wait_for_selector("text=1 row (of 30)")
    assert browser.locator(".box.found").count() == 1
    assert opened.misdeeds == []


def test_a_box_is_reached_and_opened_with_keys_alone(open_page):
    opened = open_page(_small())
    browser = opened.page
    browser.locator('.box[data-box="1"]').focus()
    browser.keyboard.press("Enter")
    browser.wait_for_selector("text=part_1: 10 rows (of 30)")
    assert {row[0] for row in _rows(opened)} == {"part_1"}
    browser.keyboard.press("Tab")
    assert browser.evaluate("document.activeElement.dataset.box") == "2"
    browser.get_by_text("Show all again").focus()
    browser.keyboard.press("Enter")
    assert len(_rows(opened)) == 30


def test_a_page_is_light_or_dark_as_the_reader_has_it_and_changes_on_a_button(open_page):
    colour = "getComputedStyle(document.body).backgroundColor"
    light = open_page(_small(), color_scheme="light").page
    dark = open_page(_small(), color_scheme="dark").page
    white, black = light.evaluate(colour), dark.evaluate(colour)
    assert white != black
    light.click("#theme")
    dark.click("#theme")
    assert (light.evaluate(colour), dark.evaluate(colour)) == (black, white)


def test_a_page_is_read_and_printed_without_its_script(open_page):
    opened = open_page(_small(), java_script_enabled=False)
    browser = opened.page
    assert browser.locator("tbody tr").count() == 30
    assert browser.locator(".box").count() == 3
    assert not browser.locator("#search").is_visible()
    assert len(browser.pdf()) > 10_000


def test_twenty_thousand_nodes_are_a_page_below_five_megabytes_that_works(open_page):
    rows: list[Any] = []
    for at in range(20_000):
        name = f"/model/layers.{at // 20}/attention/output_{at}"
        reads = [
            rows[at - 1][2][0] if at else "x",
            *([rows[at - 9][2][0]] if at % 15 == 14 else []),
        ]
        rows.append(("Odd" if at % 27 == 0 else "Even", reads[: at + 1], [name]))
    found = partition(
        graph_of(rows, [rows[-1][2][0]]), [taking("Even", "even"), taking("*", "rest")]
    )
    assert len(found.subgraphs) > 1400
    text = found.to_html()
    assert len(text.encode()) < 5_000_000
    opened = open_page(text)
    browser = opened.page
    assert browser.locator("canvas.map").is_visible()
    browser.fill("#search", "output_19999")
    browser.wait_for_selector("text=1 row (of 20,000)")
    assert "output_19999" in browser.locator("section.drawing + section.table tbody").inner_text()
    browser.fill("#search", "")
    browser.locator('.box[data-view="3"]').dispatch_event("click")
    browser.locator(".picture:not([hidden]) .box[data-box]").nth(3).dispatch_event("click")
    assert re.search(r"\w+: \d+ rows? \(of 20,000\)", browser.locator("main").inner_text())
    assert opened.misdeeds == []


def test_nodes_are_drawn_and_reached_from_their_rows_and_back_by_keyboard(open_page):
    columns = ["part", "number", "operator", "backend", "makes", "refused by"]
    rows = [("all", at, f"Op{at % 7}", "numpy", "float32[1]", "") for at in range(3000)]
    links = [[at - 1] if at else [] for at in range(3000)]
    table = Table(columns, rows, "Nodes", links=links)
    opened = open_page(page("A model", Drawing([Box("all", "numpy", 1)], [], opens="Nodes"), table))
    browser = opened.page
    assert 2 <= browser.locator(".inner .box.node").count() <= 500
    browser.locator("tbody tr").nth(30).press("Enter")
    assert browser.locator(".inner .box.open").get_attribute("data-row") == "30"
    browser.get_by_text("Row in the table").press("Enter")
    assert browser.evaluate("document.activeElement.dataset.row") == "30"
    browser.fill("#search", "Op5")
    browser.locator("#search").press("Enter")
    assert browser.locator(".inner .box.open").get_attribute("data-row") == "5"
    assert opened.misdeeds == []
