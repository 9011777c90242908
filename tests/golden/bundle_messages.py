"""Every message about bundles, rendered with fixed facts."""

from collections.abc import Callable
from pathlib import Path

import onnx

from subgraphkit.backend.contract import EngineOrigin
from subgraphkit.backend.messages import unavailable
from subgraphkit.bundling import messages
from subgraphkit.errors import SubgraphkitError
from subgraphkit.finding.messages import missing
from subgraphkit.onnx_io.external_data import DataFolders
from subgraphkit.onnx_io.weights import IN_ENGINES, array_of

FOLDER = Path("models", "resnet")
MADE = EngineOrigin(
    "tensorrt;11.4.0;NVIDIA H100,sm90,132,cuda13.0", "linux-x86_64-little", "subgraphkit-tensorrt 1"
)
HERE = EngineOrigin(
    "tensorrt;11.4.0;NVIDIA L4,sm89,58,cuda13.0", "linux-x86_64-little", "subgraphkit-tensorrt 1"
)


def _left_out() -> None:
    tensor = onnx.TensorProto(
        name="conv1.weight", data_type=1, dims=[64, 3], data_location=onnx.TensorProto.EXTERNAL
    )
    tensor.external_data.add(key="location", value=IN_ENGINES)
    array_of(tensor, FOLDER)


def _let_go() -> None:
    DataFolders(Path("bert.onnx")).read_again(0, 4096)


MESSAGES: dict[str, SubgraphkitError | Callable[[], None]] = {
    "SGK101_backend_is_missing": messages.backend_is_missing(
        FOLDER, missing("tensorrt", "the bundle", "pip install ours", ["numpy"]), "tensorrt", (2, 3)
    ),
    "SGK104_backend_is_missing": messages.backend_is_missing(
        FOLDER,
        unavailable(
            "tensorrt",
            ["TensorRT 11.4.0 needs a GPU: there is no NVIDIA GPU"],
            "Is a GPU built in?",
            "Or set the option build_only=true.",
        ),
        "tensorrt",
        (2, 3),
    ),
    "SGK180_unwritable": messages.unwritable(
        FOLDER,
        "there is something else in it, such as 'thesis.tex'",
        "Name another folder; only a bundle is ever replaced.",
    ),
    "SGK181_not_a_bundle": messages.not_a_bundle(FOLDER, "there is no manifest.json in it"),
    "SGK181_unknown_format": messages.unknown_format(FOLDER, 2, 1, "0.9.0"),
    "SGK182_damaged": messages.bad_bundle(
        FOLDER, "'numpy_0.engine' has another SHA-256 than when it was written"
    ),
    "SGK182_unreadable": messages.unreadable(
        FOLDER / "model.onnx", PermissionError(13, "Permission denied")
    ),
    "SGK183_untrusted": messages.untrusted_bundle(
        FOLDER,
        "can be written by others (mode 0775)",
        f"Remove what others may have put there, then: chmod -R go-w {FOLDER}",
    ),
    "SGK184_left_out": _left_out,
    "SGK185_contradiction": messages.contradiction(
        "option 'precision' of backend 'tensorrt' is 'fp16', and the engines of the bundle were "
        "made with 'keep'",
        "Leave the option out to run what the bundle has, or export it again.",
    ),
    "SGK186_other_engine": messages.other_engine(
        "tensorrt", MADE, HERE, "they were built for another GPU"
    ),
    "SGK186_other_types": messages.other_types("numpy_0", {"onnx": "1.22.0"}, {"onnx": "1.23.2"}),
    "SGK187_engine_failed": messages.engine_failed(
        "tensorrt", "tensorrt_0", "restore the engine of", "RuntimeError: out of memory"
    ),
    "SGK188_let_go": _let_go,
}
