"""The networks that the NumPy backend is measured on: what they are and where their files lie.

Nothing here needs PyTorch: a network exported once, see ``exporting.py``, is found again without
it. A file lies under ``NAME-DIGEST/VERSIONS.onnx`` in the cache: the digest is that of everything
the export was told (configuration, shapes, seed, operator set), the versions are those of the
libraries that filled in the rest.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

import numpy as np

__all__ = [
    "ARCHITECTURES",
    "DYNAMIC",
    "Architecture",
    "Input",
    "cache_folder",
    "export_path",
    "find_export",
    "seeded_feeds",
]

OPSET: Final = 20
SEED: Final = 0
RECIPE: Final = 1
"""To be raised when ``exporting.py`` makes other files of the same architecture."""

_VARIABLE: Final = "SUBGRAPHKIT_BENCH_MODELS"
_LIBRARIES: Final = ("torch", "transformers", "onnxscript")


@dataclass(frozen=True)
class Input:
    """An input of a network: standard normal float32, or int64 from 0 to below ``high``."""

    shape: tuple[int, ...]
    high: int | None = None


@dataclass(frozen=True)
class Architecture:
    """A network as transformers configures it, batch 1.

    Attributes:
        model: Name of the class of the network in transformers.
        config: Name of its configuration class; what ``overrides`` does not name is the default.
        inputs: Inputs by the name of the argument.
        output: Attribute of the result that is the only output.
        overrides: Arguments of the configuration.
        part: Attribute path of the part that is exported; empty for the whole network.
        call: Further arguments of the call.
    """

    model: str
    config: str
    inputs: Mapping[str, Input]
    output: str
    overrides: Mapping[str, Any] = field(default_factory=dict)
    part: str = ""
    call: Mapping[str, Any] = field(default_factory=dict)


def _image(size: int) -> dict[str, Input]:
    return {"pixel_values": Input((1, 3, size, size))}


def _tokens(words: int, length: int = 128) -> dict[str, Input]:
    return {"input_ids": Input((1, length), words)}


_CLASSES: Final = {"num_labels": 1000}

ARCHITECTURES: Final[Mapping[str, Architecture]] = {
    "resnet50": Architecture(
        "ResNetForImageClassification", "ResNetConfig", _image(224), "logits", _CLASSES
    ),
    "mobilenetv2": Architecture(
        "MobileNetV2ForImageClassification", "MobileNetV2Config", _image(224), "logits", _CLASSES
    ),
    "vit_base": Architecture(
        "ViTForImageClassification", "ViTConfig", _image(224), "logits", _CLASSES
    ),
    "bert_base": Architecture("BertModel", "BertConfig", _tokens(30522), "last_hidden_state"),
    "gpt2": Architecture(
        "GPT2LMHeadModel", "GPT2Config", _tokens(50257), "logits", call={"use_cache": False}
    ),
    "convnext_tiny": Architecture(
        "ConvNextForImageClassification",
        "ConvNextConfig",
        _image(224),
        "logits",
        # The default, 1e-6, is a start for training that leaves nothing of any branch.
        {**_CLASSES, "layer_scale_init_value": 0.5},
    ),
    "efficientnet_b0": Architecture(
        "EfficientNetForImageClassification",
        "EfficientNetConfig",
        _image(224),
        "logits",
        {
            **_CLASSES,
            "width_coefficient": 1.0,
            "depth_coefficient": 1.0,
            "image_size": 224,
            "hidden_dim": 1280,
        },
    ),
    "swin_tiny": Architecture(
        "SwinForImageClassification", "SwinConfig", _image(224), "logits", _CLASSES
    ),
    "segformer_b0": Architecture(
        "SegformerForSemanticSegmentation",
        "SegformerConfig",
        _image(512),
        "logits",
        {"num_labels": 150},
    ),
    "llama_100m": Architecture(
        "LlamaForCausalLM",
        "LlamaConfig",
        _tokens(32000),
        "logits",
        {
            "hidden_size": 768,
            "intermediate_size": 2048,
            "num_hidden_layers": 12,
            "num_attention_heads": 12,
            "num_key_value_heads": 4,
        },
        call={"use_cache": False},
    ),
    "whisper_tiny_encoder": Architecture(
        "WhisperModel",
        "WhisperConfig",
        {"input_features": Input((1, 80, 3000))},
        "last_hidden_state",
        part="encoder",
    ),
    "t5_small_encoder": Architecture(
        "T5EncoderModel", "T5Config", _tokens(32128), "last_hidden_state"
    ),
}
"""The networks by name; all have opset 20, eager attention, float32 and weights from one seed."""

DYNAMIC: Final[Mapping[str, Mapping[str, Mapping[int, str]]]] = {
    "resnet50": {"pixel_values": {0: "batch"}},
    "bert_base": {"input_ids": {0: "batch", 1: "seq"}},
}
"""Networks that are exported a second time with symbolic dimensions: their axes, by input."""


def cache_folder() -> Path:
    """Return the folder of the exports: ``SUBGRAPHKIT_BENCH_MODELS``, or one below ``~/.cache``."""
    named = os.environ.get(_VARIABLE)
    return Path(named) if named else Path.home() / ".cache" / "subgraphkit-benchmarks"


def export_path(name: str, folder: Path, *, dynamic: bool = False) -> Path | None:
    """Return where the installed libraries put a network; None if one of them is missing.

    Args:
        name: Name of the network.
        folder: Where exports are kept.
        dynamic: Whether it is the one with symbolic dimensions, of ``DYNAMIC``.
    """
    try:
        versions = "_".join(f"{library}-{version(library)}" for library in _LIBRARIES)
    except PackageNotFoundError:
        return None
    return _home(name, folder, dynamic=dynamic) / f"{versions}.onnx"


def find_export(name: str, folder: Path | None = None, *, dynamic: bool = False) -> Path:
    """Return the file of a network, that of the installed libraries before the newest of others.

    Args:
        name: Name of the network.
        folder: Where exports are kept; ``cache_folder()`` if not given.
        dynamic: Whether it is the one with symbolic dimensions, of ``DYNAMIC``.

    Raises:
        FileNotFoundError: It was never exported.
    """
    folder = cache_folder() if folder is None else folder
    path = export_path(name, folder, dynamic=dynamic)
    if path is not None and path.is_file():
        return path
    found = sorted(
        _home(name, folder, dynamic=dynamic).glob("*.onnx"), key=lambda file: file.stat().st_mtime
    )
    if not found:
        raise FileNotFoundError(
            f"no export of {name!r} in {folder}; make it with"
            f" `python benchmarks/numpy_backend/exporting.py --models {name}`, which needs"
            f" {', '.join(_LIBRARIES)}, or name the folder it is in with {_VARIABLE}"
        )
    return found[-1]


def seeded_feeds(name: str, seed: int = SEED) -> dict[str, np.ndarray[Any, Any]]:
    """Return inputs for a network, always the same ones for a seed."""
    dice = np.random.default_rng(seed)
    return {
        key: dice.standard_normal(one.shape, dtype=np.float32)
        if one.high is None
        else dice.integers(0, one.high, one.shape)
        for key, one in ARCHITECTURES[name].inputs.items()
    }


def _home(name: str, folder: Path, *, dynamic: bool = False) -> Path:
    known = DYNAMIC if dynamic else ARCHITECTURES
    if name not in known:
        raise ValueError(f"no network {name!r}; there are {', '.join(known)}")
    told = {**asdict(ARCHITECTURES[name]), "opset": OPSET, "seed": SEED, "recipe": RECIPE}
    if dynamic:
        told["dynamic"] = DYNAMIC[name]
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
    return folder / f"{name}-{digest[:12]}"
