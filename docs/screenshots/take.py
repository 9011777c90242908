"""Take the screenshots of the page "Nine pictures", with a headless Chromium.

``SUBGRAPHKIT_BENCH_MODELS`` names the folder of the benchmarks' exports. The recogniser is that of
the package ``rapidocr-onnxruntime``. Each picture is of what a command wrote, or of a page that
``make docs`` has built; a fault is planted for the one that shows a fault.
"""

import argparse
import contextlib
import html
import io
import os
import shlex
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from playwright.sync_api import sync_playwright

import subgraphkit as sk
from subgraphkit import cli
from subgraphkit.backend import Traits
from subgraphkit.texts import fold_text

HERE: Final = Path(__file__).parent
LARGEST_BYTES: Final = 200_000


class Shot(NamedTuple):
    """A picture: the command, how much is shown of the page it wrote, and from which heading on.

    A height of zero is a command that writes no page: what it printed is shown.
    """

    command: str
    height: int
    heading: str = ""


BUILT: Final = HERE.parents[1] / "build" / "docs"
PAGES: Final = {"docs": "index", "docs-guide": "your-own-backend", "docs-slow": "why-slow"}
"""Pages of the documentation, by the names of their pictures."""
RECOGNISER: Final = "recogniser.onnx --shape x=1,3,48,320"
SHOTS: Final = {
    "resnet50": Shot("plan resnet50.onnx --backend onednn --html page.html", 580),
    "bert": Shot("plan bert.onnx --backend onednn --html page.html", 720),
    "recogniser": Shot(
        f"plan {RECOGNISER} --backend onednn,onnxruntime --pin p2o.Softmax.2=numpy "
        "--html page.html",
        1130,
    ),
    "llama": Shot("plan llama.onnx --backend onednn --html page.html", 900),
    "verify": Shot("verify bert.onnx --backend draft,onnxruntime --bisect", 0),
    "profile": Shot(
        f"profile {RECOGNISER} --backend onnxruntime --keep-off Softmax=onnxruntime "
        "--html page.html",
        700,
        "Inside of subgraphs",
    ),
}


class _Draft(sk.SubgraphOperator):
    """Computes Gelu by the formula with tanh, whichever was asked for: the fault of the picture."""

    traits = Traits(thread_safe=True)

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        x = inputs[0]
        return [x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3))) / 2]


class _Gelus(sk.SubgraphProperty):
    def create_selector(self, graph: sk.Graph) -> sk.SubgraphSelector:
        return sk.OpSelector(graph, ["Gelu"])

    def create_operator(self, subgraph: sk.Subgraph, context: Any) -> sk.SubgraphOperator:
        return _Draft()


class Draft(sk.Backend):
    """A backend that somebody is writing."""

    name = "draft"

    def properties(self) -> Sequence[sk.SubgraphProperty]:
        return [_Gelus()]


def models() -> Mapping[str, Path]:
    """Find the networks."""
    exports = Path(os.environ["SUBGRAPHKIT_BENCH_MODELS"])
    folders = {"resnet50": "resnet50", "bert": "bert_base", "llama": "llama_100m"}
    found = {name: next(exports.glob(f"{one}-*/*.onnx")) for name, one in folders.items()}
    recogniser = files("rapidocr_onnxruntime") / "models" / "ch_PP-OCRv4_rec_infer.onnx"
    return {**found, "recogniser": Path(str(recogniser))}


def written(command: str) -> str:
    """Carry out a command; return the page it wrote, or what it printed as one."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        cli.main(shlex.split(command))
    page = Path("page.html")
    if page.exists():
        text = page.read_text(encoding="utf-8")
        page.unlink()
        return text
    shown = html.escape(fold_text(f"$ subgraphkit {command}\n{printed.getvalue()}", 108))
    return (
        '<body style="margin: 0; background: #14181f"><pre style="width: 108ch; margin: 0; '
        "white-space: pre-wrap; padding: 18px; color: #e6e9ef; font: 14px/1.4 monospace"
        f'">{shown}</pre></body>'
    )


def picture(browser: Any, shot: Shot, target: Path) -> None:
    """Take a picture of what a command wrote."""
    screen = browser.new_page(viewport={"width": 1000, "height": shot.height or 600})
    screen.set_content(written(shot.command))
    screen.wait_for_timeout(500)
    if shot.heading:
        screen.locator("h2", has_text=shot.heading).evaluate(
            "head => window.scrollBy(0, head.getBoundingClientRect().top - 110)"
        )
    if shot.height:
        screen.screenshot(path=target)
    else:
        screen.locator("pre").screenshot(path=target)


def take(names: Iterable[str]) -> None:
    """Take the pictures of these names."""
    sk.register_backend(Draft)
    os.environ["COLUMNS"] = "80"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=["--no-sandbox"]
        )
        for name in names:
            target = HERE / f"{name}.png"
            if name in PAGES:
                screen = browser.new_page(viewport={"width": 1200, "height": 800})
                screen.goto((BUILT / f"{PAGES[name]}.html").as_uri())
                screen.wait_for_timeout(1500)
                screen.screenshot(path=target)
            else:
                picture(browser, SHOTS[name], target)
            size = target.stat().st_size
            print(f"{name}: {size:,} bytes")
            if size > LARGEST_BYTES:
                sys.exit(f"{target} has {size:,} bytes, at most {LARGEST_BYTES:,} are kept")
        browser.close()


def main() -> None:
    """Take all pictures, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*SHOTS, *PAGES, []], help="pictures")
    wanted = parser.parse_args().names or [*SHOTS, *PAGES]
    found = {} if PAGES.keys() >= set(wanted) else models()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name, path in found.items():
            Path(f"{name}.onnx").symlink_to(path)
        take(wanted)


if __name__ == "__main__":
    sys.exit(main())
