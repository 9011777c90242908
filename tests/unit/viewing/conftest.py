"""A browser, where one is installed."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)


@dataclass
class Opened:
    """A page in a browser, and what it did that it should not."""

    page: Any
    misdeeds: list[str] = field(default_factory=list)


Open = Callable[..., Opened]


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def open_page(browser, tmp_path):
    """Return a function that opens HTML from a file, with options of a browser's context."""
    contexts = []

    def opened(text, **options):
        file = tmp_path / f"page_{len(contexts)}.html"
        file.write_text(text, encoding="utf-8")
        context = browser.new_context(viewport={"width": 1200, "height": 900}, **options)
        contexts.append(context)
        found = Opened(context.new_page())
        note = found.misdeeds.append
        found.page.on("console", lambda message: note(f"console: {message.text}"))
        found.page.on("pageerror", lambda error: note(f"error: {error}"))
        found.page.on("popup", lambda window: note(f"window: {window.url}"))
        found.page.on(
            "dialog", lambda dialog: (note(f"dialog: {dialog.message}"), dialog.dismiss())
        )
        found.page.on("request", lambda request: note(f"request: {request.url}"))
        found.page.goto(file.as_uri())
        assert found.misdeeds == [f"request: {file.as_uri()}"]
        found.misdeeds.clear()
        return found

    yield opened
    for context in contexts:
        context.close()
