"""Every message about backends that were tried in a process of their own, with fixed facts."""

from pathlib import Path

import pytest

from subgraphkit.comparing import messages
from subgraphkit.errors import CODES, SubgraphkitError
from tests.golden_support import GoldenCheck

MESSAGES: dict[str, SubgraphkitError] = {
    "SGK320_crashed": messages.crashed("openvino,numpy", "running for the first time", -11),
    "SGK320_left": messages.crashed("openvino", "binding the model", 3),
    "SGK321_hung": messages.hung("tensorrt", "binding the model", 600.0),
    "SGK322_wrong": messages.wrong("fast", "MatMul-Add-Relu", "1.5, expected 1.0"),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_the_message_reads_as_it_was_agreed(name: str, golden: GoldenCheck) -> None:
    assert name.startswith(MESSAGES[name].code)
    golden(name, str(MESSAGES[name]))


def test_every_code_about_comparing_is_rendered() -> None:
    codes = {code for code in CODES if code.startswith("SGK32")}
    assert {name.split("_")[0] for name in MESSAGES} == codes


def test_no_golden_file_is_left_over(golden_folder: Path) -> None:
    assert {path.stem for path in golden_folder.iterdir()} == set(MESSAGES)
