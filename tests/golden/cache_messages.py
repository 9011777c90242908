"""Every message about the engine cache, rendered with fixed facts."""

from pathlib import Path

from subgraphkit.errors import SubgraphkitError
from subgraphkit.storing import messages

FOLDER = Path("cache", "subgraphkit", "engines")

MESSAGES: dict[str, SubgraphkitError] = {
    "SGK150_untrusted": messages.untrusted_path(
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
    "SGK155_not_proven": messages.not_proven(
        "openvino",
        "openvino_0",
        "restored, it computes something else: y: 75 of 80 elements differ; at [1, 6] expected "
        "-0.0055, got -0.0070",
    ),
}
