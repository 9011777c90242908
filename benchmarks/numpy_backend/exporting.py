"""Export the networks of ``architectures.py`` from PyTorch, with weights worth running.

Usage: ``python benchmarks/numpy_backend/exporting.py [--models A,B] [--folder FOLDER] [--list]``

The weights are random, from one seed. As a network starts its training, many values vanish on their
way, and times and errors would be those of denormals and zeros. So the network is shown one random
input, and in the order in which they are used each convolution, product and table is scaled to
give values of standard deviation 1; each batch normalization takes the mean and the variance of
what it sees, and a random scale and shift. Every export is run once by ONNX Runtime, which hands
out all intermediate values: a float value with a standard deviation outside of 1e-4 to 1e4 stops
the export.

Exports are kept, see ``architectures.cache_folder``; what is there already is not made again.

Source: Mishkin and Matas, "All you need is a good init", 2015, for scaling by data.
"""

import argparse
import contextlib
import functools
import io
import logging
import os
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from architectures import (
    ARCHITECTURES,
    DYNAMIC,
    OPSET,
    SEED,
    Architecture,
    cache_folder,
    export_path,
    find_export,
    seeded_feeds,
)
from onnx import TensorProto

__all__ = ["ensure_export", "ensure_exports", "export", "spreads"]

_LARGEST_FILE: Final = 2**31 - 1
_VANISHING: Final = 1e-4
_OVERFLOWING: Final = 1e4
_MASKED: Final = 1e30
"""Values beyond it stand for minus infinity in attention masks."""

_AT_ONCE: Final = 100


def main() -> None:
    """Export what is missing and list what is there."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--models", default=",".join(ARCHITECTURES), help="separated by commas")
    parser.add_argument("--folder", type=Path, help="where exports are kept")
    parser.add_argument("--list", action="store_true", help="list what is there, export nothing")
    arguments = parser.parse_args()
    folder = arguments.folder or cache_folder()
    find = find_export if arguments.list else ensure_export
    for name in arguments.models.split(","):
        try:
            path = find(name, folder)
        except (FileNotFoundError, ValueError) as error:
            print(f"{name}: {error}", flush=True)
            continue
        nodes = onnx.load(path, load_external_data=False).graph.node
        counted = Counter(node.op_type for node in nodes).most_common()
        print(f"{name}: {len(nodes)} nodes, {path.stat().st_size / 2**20:.0f} MiB, {path}")
        print("  " + ", ".join(f"{operator} {count}" for operator, count in counted), flush=True)


def ensure_exports(parser: argparse.ArgumentParser, names: str) -> dict[str, Path]:
    """Return the files of networks, named in one text separated by commas; ends if one is missing.

    Args:
        parser: Says what is wrong.
        names: The names.
    """
    try:
        return {name: ensure_export(name) for name in names.split(",")}
    except (FileNotFoundError, ValueError) as error:
        parser.error(str(error))


def ensure_export(name: str, folder: Path | None = None, *, dynamic: bool = False) -> Path:
    """Return the file of a network, exported now if it is not there and PyTorch is.

    Args:
        name: Name of the network.
        folder: Where exports are kept; ``cache_folder()`` if not given.
        dynamic: Whether it is the one with symbolic dimensions, of ``DYNAMIC``.

    Raises:
        FileNotFoundError: It is not there and a library that exports it is missing.
        ValueError: The export has values that vanish or overflow.
    """
    folder = cache_folder() if folder is None else folder
    path = export_path(name, folder, dynamic=dynamic)
    if path is None:
        return find_export(name, folder, dynamic=dynamic)
    if not path.is_file():
        print(f"exporting {name}", file=sys.stderr)
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as made:
            unfinished = Path(made) / path.name
            export(name, unfinished, dynamic=dynamic)
            wrong = [
                f"{value} {spread:.1e}"
                for value, spread in spreads(unfinished, seeded_feeds(name)).items()
                if not _VANISHING < spread < _OVERFLOWING
            ]
            if wrong:
                raise ValueError(f"standard deviations of {name!r}: {', '.join(wrong)}")
            for file in sorted(Path(made).iterdir(), key=lambda file: file.name == path.name):
                file.replace(path.parent / file.name)
    return path


def export(name: str, path: Path, *, dynamic: bool = False) -> None:
    """Write a network to a file; with the weights beside it where they are above 2 GB.

    Args:
        name: One of ``ARCHITECTURES``.
        path: The file.
        dynamic: Whether the dimensions that ``DYNAMIC`` names are symbols.
    """
    import torch  # noqa: PLC0415 (seconds, and not needed for what is there already)

    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    torch.manual_seed(SEED)
    architecture = ARCHITECTURES[name]
    network = _network(architecture)
    feeds = {key: torch.from_numpy(value) for key, value in seeded_feeds(name, SEED + 1).items()}
    with torch.no_grad():
        _scale(network, feeds)
        # A dimension that is seen to be 1 would be 1 for good.
        fed = tuple(torch.cat([one, one]) if dynamic else one for one in feeds.values())
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                _by_place(network, feeds),
                fed,
                input_names=list(feeds),
                output_names=[architecture.output],
                opset_version=OPSET,
                dynamo=True,
                dynamic_shapes=((*DYNAMIC[name].values(),),) if dynamic else None,
            )
    weights = sum(tensor.nbytes for tensor in network.state_dict().values())
    program.save(os.fspath(path), external_data=weights > _LARGEST_FILE * 0.95)
    onnx.checker.check_model(os.fspath(path))


def spreads(path: Path, feeds: dict[str, np.ndarray[Any, Any]]) -> dict[str, float]:
    """Return the standard deviation of every float value that depends on the feeds.

    Values that stand for minus infinity are left out, and so are values of fewer than two elements
    or with all elements equal by design, which are those that the feeds do not change.

    Args:
        path: The file of the model.
        feeds: Inputs by name.
    """
    import onnxruntime as ort  # noqa: PLC0415 (only for the check)

    model = onnx.load(path)
    floats = _fed_floats(model)
    outputs = [value.name for value in model.graph.output]
    result: dict[str, float] = {}
    # Few at once, because all intermediate values together may be more than the memory.
    for start in range(0, len(floats), _AT_ONCE):
        names = floats[start : start + _AT_ONCE]
        del model.graph.output[:]
        model.graph.output.extend(
            onnx.helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names
        )
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 3
        session = ort.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        for name, value in zip(names, session.run(names, feeds), strict=True):
            kept = value[np.abs(value) < _MASKED]
            if kept.size > 1 or name in outputs:
                result[name] = float(np.std(kept, dtype=np.float64)) if kept.size else 0.0
    return result


def _fed_floats(model: onnx.ModelProto) -> list[str]:
    inferred = onnx.shape_inference.infer_shapes(model)
    typed = [*inferred.graph.value_info, *inferred.graph.output]
    floats = {
        value.name for value in typed if value.type.tensor_type.elem_type == TensorProto.FLOAT
    }
    fed = {value.name for value in model.graph.input}
    for node in model.graph.node:
        if fed.intersection(node.input) and node.op_type != "Shape":
            fed.update(node.output)
    return [name for node in model.graph.node for name in node.output if name in floats & fed]


def _network(architecture: Architecture) -> Any:
    import torch  # noqa: PLC0415 (see above)
    import transformers  # noqa: PLC0415 (see above)

    class Network(torch.nn.Module):
        """The part that is exported, with one tensor for a result."""

        def __init__(self, part: Any) -> None:
            super().__init__()
            self.part = part

        def forward(self, **feeds: Any) -> Any:
            return getattr(self.part(**feeds, **architecture.call), architecture.output)

    config = getattr(transformers, architecture.config)(**architecture.overrides)
    config._attn_implementation = "eager"  # noqa: SLF001 (how transformers names the argument)
    network = getattr(transformers, architecture.model)(config)
    part = functools.reduce(getattr, filter(None, architecture.part.split(".")), network)
    return Network(part).eval()


def _by_place(network: Any, feeds: Mapping[str, Any]) -> Any:
    """Return a network that takes its inputs by place, as PyTorch wants it to export them.

    Of an argument that is one of ``**feeds`` it loses sight, and of which dimensions are symbols.
    """
    import torch  # noqa: PLC0415 (see above)

    class Called(torch.nn.Module):
        """The network, called with its inputs in order."""

        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, *fed: Any) -> Any:
            return self.network(**dict(zip(feeds, fed, strict=True)))

    return Called().eval()


def _scale(network: Any, feeds: dict[str, Any]) -> None:
    """Scale weights so that every product gives values of standard deviation 1."""
    import torch  # noqa: PLC0415 (see above)
    from transformers.pytorch_utils import Conv1D  # noqa: PLC0415 (see above)

    products = (torch.nn.Linear, torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Embedding, Conv1D)
    product = functools.partial(_scale_product, set())
    hooks = []
    for module in network.modules():
        if isinstance(module, products):
            hooks.append(module.register_forward_hook(product))
        elif isinstance(module, torch.nn.BatchNorm2d):
            hooks.append(module.register_forward_pre_hook(_take_statistics))
    network(**feeds)
    for hook in hooks:
        hook.remove()


def _scale_product(scaled: set[int], module: Any, _: Sequence[Any], result: Any) -> Any:
    # A weight that two modules share keeps the scale of the first.
    if id(module.weight) in scaled:
        return None
    scaled.add(id(module.weight))
    spread = result.std()
    if getattr(module, "bias", None) is not None:
        module.bias.div_(spread)
    module.weight.div_(spread)
    return result / spread


def _take_statistics(module: Any, inputs: Sequence[Any]) -> None:
    (seen,) = inputs
    # Without shifts of its own every channel has mean 0, and what is scaled by such a mean, as in
    # squeeze-and-excitation, blows up differences between inputs and between runtimes.
    module.weight.uniform_(0.5, 1.5)
    module.bias.normal_(0, 0.5)
    module.running_mean.copy_(seen.mean((0, 2, 3)))
    module.running_var.copy_(seen.var((0, 2, 3)))


if __name__ == "__main__":
    main()
