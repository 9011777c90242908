"""Reasons of failed builds: the model, the machine, or the options."""

from collections.abc import Sequence
from typing import Final

from subgraphkit.errors import CompileError
from subgraphkit.ir import Subgraph
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.building.model import PreparedModel
from subgraphkit_tensorrt.library.checks import tail
from subgraphkit_tensorrt.library.gpus import machine

__all__ = ["build_failure", "fault_of_machine"]

_MEMORY: Final = "memory"
_DEVICE: Final = "device"
_FAULTS: Final = (
    ("out of memory", _MEMORY),
    ("outofmemory", _MEMORY),
    ("amount of gpu memory", _MEMORY),
    ("cuda_success", _DEVICE),
    ("cuda_error", _DEVICE),
    ("cuda runtime", _DEVICE),
    ("cuda driver", _DEVICE),
)
"""What TensorRT says if the machine is at fault, in small letters."""
_HINTS: Final = (
    ("workspace", "Leave workspace_limit out, or give more; TensorRT then chooses by itself."),
    ("libnvinfer_lean", "Version-compatible plans need TensorRT's lean runtime to be installed."),
)


def fault_of_machine(lines: Sequence[str]) -> str:
    """Say what of the machine made a build fail, which other nodes would not do away with.

    Args:
        lines: What TensorRT said; each begins with the severity.

    Returns:
        ``"memory"``, ``"device"`` for GPU and driver, or an empty string.
    """
    said = "\n".join(line for line in lines if not line.startswith("warning")).lower()
    return next((fault for words, fault in _FAULTS if words in said), "")


def build_failure(
    model: PreparedModel, subgraph: Subgraph, lines: Sequence[str], options: Options
) -> CompileError:
    """Make the error of a build that failed.

    Args:
        model: What was built.
        subgraph: The subgraph.
        lines: What TensorRT said; each begins with the severity.
        options: The options of the backend.

    Returns:
        An error that says what to do: the builder refused it (SGK172), an option cannot be honoured
        without a GPU (SGK173), a call of CUDA failed (SGK174), or memory is short (SGK176).
    """
    places = sorted({place for line in lines for place in model.names.places(line)})
    said = model.names.readable(tail(lines)) or "It gave no reason."
    code, reason, hint = _judged(lines, said, options)
    return CompileError(
        code,
        f"TensorRT could not build an engine for subgraph {subgraph.id!r} "
        f"({len(subgraph.nodes)} nodes){reason}",
        backend="tensorrt",
        subgraph=subgraph.id,
        hint="\n".join(filter(None, ["It said:", said, hint])),
        nodes=tuple(subgraph.nodes[place] for place in places),
        lines=tuple(lines),
    )


def _judged(lines: Sequence[str], said: str, options: Options) -> tuple[str, str, str]:
    """Return code, reason and remedy."""
    fault = fault_of_machine(lines)
    if fault == _DEVICE and not machine().devices:
        named = _needing_gpu(options)
        if not named:
            return "SGK173", ", which needs a GPU here", "Build on a machine with a GPU."
        remedy = f"Leave {' and '.join(named)} out, or build on a machine with a GPU."
        what = "options" if len(named) > 1 else "option"
        words = " and ".join(f"{name}=true" for name in named)
        need = "need" if len(named) > 1 else "needs"
        return "SGK173", f": {what} {words} {need} a GPU, and there is none", remedy
    if fault == _DEVICE:
        remedy = "See whether nvidia-smi works, and start the process again."
        return "SGK174", " because a call of CUDA failed", remedy
    if fault == _MEMORY:
        remedy = "Free memory of the device, or give less with workspace_limit."
        return "SGK176", " because the memory of the GPU does not suffice", remedy
    return "SGK172", "", next((hint for word, hint in _HINTS if word in said.lower()), "")


def _needing_gpu(options: Options) -> list[str]:
    """Name the options set whose engines TensorRT for RTX cannot build without a GPU."""
    asked = {
        "refittable": options.refittable,
        "strip_weights": options.strip_weights,
        "share_identical": options.share_identical,
    }
    return [name for name, is_set in asked.items() if is_set]
