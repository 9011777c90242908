"""Every message about backends that were tried in a process of their own, with fixed facts."""

from pathlib import Path

from subgraphkit.comparing import messages
from subgraphkit.errors import SubgraphkitError

MESSAGES: dict[str, SubgraphkitError] = {
    "SGK320_crashed": messages.crashed_child("openvino,numpy", "running for the first time", -11),
    "SGK320_left": messages.crashed_child("openvino", "binding the model", 3),
    "SGK321_hung": messages.hung_child("tensorrt", "binding the model", 600.0),
    "SGK322_wrong": messages.wrong("fast", "MatMul-Add-Relu", "1.5, expected 1.0"),
    "SGK323_everything": messages.meaningless({"y": "every element is 0.5"}, everything=True),
    "SGK324_unwritable": messages.unwritable(
        Path("repro"), PermissionError(13, "Permission denied")
    ),
    "SGK323_some": messages.meaningless(
        {"scores": "0.001 everywhere would agree as well", "boxes": "it is empty"}, everything=False
    ),
}
