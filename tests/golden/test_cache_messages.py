"""Every message about the engine cache, rendered with fixed facts."""

from pathlib import Path

import pytest

from subgraphkit.compiling.caching import messages
from subgraphkit.errors import CODES, SubgraphkitError
from tests.golden_support import GoldenCheck

FOLDER = Path("cache", "subgraphkit", "engines")

MESSAGES: dict[str, SubgraphkitError] = {
    "SGK150_untrusted": messages.untrusted(
        FOLDER,
        "can be written by others (mode 0775)",
        f"Remove what others may have put there, then: chmod go-w {FOLDER}",
    ),
    "SGK151_unusable": messages.unusable(
        FOLDER, "write to", OSError(28, "No space left on device")
    ),
    "SGK152_engine_failed": messages.engine_failed(
        "tensorrt", "tensorrt_0", "store", "RuntimeError: out of memory"
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_the_message_reads_as_it_was_agreed(name: str, golden: GoldenCheck) -> None:
    golden(name, str(MESSAGES[name]))


def test_every_code_about_the_cache_is_rendered() -> None:
    codes = {code for code in CODES if code.startswith("SGK15")}
    assert {name.split("_")[0] for name in MESSAGES} == codes


def test_no_golden_file_is_left_over(golden_folder: Path) -> None:
    assert {path.stem for path in golden_folder.iterdir()} == set(MESSAGES)
