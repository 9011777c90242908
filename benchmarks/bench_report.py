"""How large the page about a large partitioning is, and when Chromium can use it."""

import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bench_road import build
from measuring import Table, base_parser, milliseconds, show

import subgraphkit as sk
from subgraphkit.partitioning import Constraints, Partitioning

NODES = 20_000
_READY = "performance.getEntriesByType('navigation')[0].loadEventEnd"


def main() -> None:
    """Make the page, open it as often as was asked for, and print the table."""
    arguments = base_parser(__doc__, repeat=5).parse_args()
    partitioning = _partitioning()
    started = time.perf_counter()
    page = partitioning.to_html()
    made = time.perf_counter() - started
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        file.write_text(page, encoding="utf-8")
        times = [_open(file) for _ in range(arguments.repeat)]
    ready, found, opened = (statistics.median(steps) for steps in zip(*times, strict=True))
    rows = [
        ["made by to_html", milliseconds(made, 0)],
        ["loaded and interactive", milliseconds(ready, 0)],
        ["a search of all tables, from key to rows", milliseconds(found, 0)],
        ["a box opened, from click to rows", milliseconds(opened, 0)],
    ]
    size = f"{partitioning}: {len(page.encode()) / 1e6:.2f} MB; medians of {arguments.repeat}"
    notes = [size, "The goals are 5 MB, and 2 s until it is interactive."]
    table = Table("The page about a large model", ["step", "time"], rows, notes)
    show(table, markdown=arguments.markdown)


def _partitioning() -> Partitioning:
    apart = [f"positive{block}" for block in range(0, NODES // 5, 5)]
    bound = sk.bind(sk.load(build(NODES)), {"batch": 1}, backend="onnxruntime,numpy")
    return sk.partition(bound, constraints=Constraints(exclusions={"onnxruntime": apart}))


def _open(file: Path) -> tuple[float, float, float]:
    """Return the seconds until the page is there, a search is answered, and a box is open."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 (slow, and of tests)

    chromium = shutil.which("chromium") or sys.exit("Chromium is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(file.as_uri())
        ready = page.evaluate(_READY) / 1e3
        started = time.perf_counter()
        page.fill("#search", f"out{NODES // 5 - 1}")
        page.wait_for_selector("text=1 row (of 20,000)")
        found = time.perf_counter() - started
        page.fill("#search", "")
        page.wait_for_selector("text=the first 200 of 20,000 rows")
        page.locator('.box[data-view="9"]').dispatch_event("click")
        started = time.perf_counter()
        page.locator(".picture:not([hidden]) .box[data-box]").nth(3).dispatch_event("click")
        page.wait_for_selector("text=(of 20,000)")
        opened = time.perf_counter() - started
        browser.close()
    return ready, found, opened


if __name__ == "__main__":
    main()
