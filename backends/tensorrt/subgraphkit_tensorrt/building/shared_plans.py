"""Shared plans: equal subgraphs are built once, and finished plans are found again.

The engine cache of the core does the same across binds. Ranges of shapes are options that name
dimensions of the model, so there names count; here they do not, and nothing is written to a disk.
"""

import hashlib
import json
import threading
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from subgraphkit.backend import cache_values, options_of
from subgraphkit.errors import CompileError
from subgraphkit.ir import Subgraph
from subgraphkit.types import DataType
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.building.model import PreparedModel
from subgraphkit_tensorrt.building.network import ParsedNetwork
from subgraphkit_tensorrt.building.plan import EnginePlan
from subgraphkit_tensorrt.building.profiles import InputRange
from subgraphkit_tensorrt.library.flavours import Library
from subgraphkit_tensorrt.lowering import registered

__all__ = ["SHELF", "WEIGHTS", "Shelf", "check_separate", "plan_key", "separate_weights"]

_FLOATS: Final = frozenset({DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16})
_SMALL: Final = 1024
"""Bytes up to which ``Subgraph.to_model`` keeps a constant in the model."""
_SHOWN: Final = 5
WEIGHTS: Final[Mapping[str, Collection[int]]] = {
    "Add": (0, 1),
    "Conv": (1, 2),
    "ConvTranspose": (1, 2),
    "Div": (0, 1),
    "Gather": (0,),
    "Gemm": (0, 1, 2),
    "LayerNormalization": (1, 2),
    "MatMul": (0, 1),
    "Mul": (0, 1),
    "PRelu": (1,),
    "RMSNormalization": (1,),
    "Sub": (0, 1),
}
"""By operator of ONNX, the inputs that become weights of a network as they are.

Source: networks of the parser of TensorRT for RTX 1.7, two for each input, which differ in nothing
but that weight.
"""
_NAMING: Final = frozenset({"dims", "min_shapes", "opt_shapes", "max_shapes"})


def separate_weights(subgraph: Subgraph, options: Options) -> tuple[str, ...]:
    """Name the constants that are put into an engine when it is loaded.

    What ``Backend.separate_weights`` returns: none, unless plans are stored without weights or
    shared by subgraphs that differ in them. A constant is named only if all that read it read it
    as a weight, which the parser hands to the builder as it is. What else an operator reads may
    decide how an engine is built, or be folded into it: shapes, limits, scales of quantization,
    weights that the parser combines, such as those of BatchNormalization, or lays out anew. So
    do small constants and whole numbers, and everything if the precision is changed, which depends
    on the weights.

    Args:
        subgraph: The subgraph.
        options: The options of the backend.
    """
    if not (options.strip_weights or options.share_identical):
        return ()
    if options.precision != "keep":
        return ()
    large = {
        name
        for name, constant in subgraph.constants.items()
        if constant.type.dtype in _FLOATS and (constant.type.nbytes or 0) > _SMALL
    }
    large.difference_update(subgraph.outputs)
    for node in subgraph.members:
        large.difference_update(node.captures)
        places = WEIGHTS.get(node.op_type, ()) if not node.domain else ()
        if registered(node) is not None:  # a converter may make anything of what it reads
            places = ()
        large.difference_update(
            name for place, name in enumerate(node.inputs) if place not in places
        )
    return tuple(name for name in subgraph.constants if name in large)


def check_separate(parsed: ParsedNetwork, separate: Collection[str], subgraph: Subgraph) -> None:
    """Make sure that the network has, under their names, the weights that come when it is loaded.

    Otherwise they would stay those of the subgraph it was built for.

    Args:
        parsed: The network; its library can be asked for weights by name.
        separate: Names of constants, in the subgraph.
        subgraph: The subgraph.

    Raises:
        CompileError: The parser made something else of one (SGK173).
    """
    names = parsed.model.names.values
    network = parsed.network
    folded = [
        names.get(name, name)
        for name in parsed.model.weights
        if names.get(name, name) in separate and not network.mark_weights_refittable(name)
    ]
    if folded:
        raise CompileError(
            "SGK173",
            f"TensorRT's parser folds weights of subgraph {subgraph.id!r} into others, so that "
            f"they cannot be put into an engine when it is loaded: {', '.join(folded[:_SHOWN])}",
            backend="tensorrt",
            subgraph=subgraph.id,
            hint="Leave strip_weights and share_identical out.",
            weights=tuple(folded),
        )


def plan_key(
    model: PreparedModel,
    subgraph: Subgraph,
    ranges: Sequence[Mapping[str, InputRange]],
    library: Library,
    options: Options,
) -> str:
    """Return a digest of all that decides what the builder makes; names are not part of it."""
    values = {
        name: repr(value)
        for name, value in cache_values(options_of(Options), options).items()
        if name not in _NAMING
    }
    separate = frozenset(separate_weights(subgraph, options))
    facts = {
        "library": [library.capabilities.flavour, library.capabilities.version],
        "device": options.device,
        "options": values,
        "ranges": [[one[name].to_json() for name in subgraph.inputs] for one in ranges],
        "model": model.digest(without=separate),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


class Shelf:
    """Plans that are still in use, by key.

    Thread-safety: may be used from any thread; one of two that want the same plan waits.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plans: weakref.WeakValueDictionary[str, EnginePlan] = weakref.WeakValueDictionary()
        self._locks: weakref.WeakValueDictionary[str, _Lock] = weakref.WeakValueDictionary()

    def obtain(self, key: str, build: Callable[[], EnginePlan]) -> EnginePlan:
        """Return the plan of a key, built now if none is in use.

        Raises:
            Exception: Whatever ``build`` raises.
        """
        with self._lock:
            one = self._locks.setdefault(key, _Lock())
        with one.lock:
            plan = self._plans.get(key)
            if plan is None:
                plan = build()
                self._plans[key] = plan
            return plan


class _Lock:
    """A lock that can be referred to weakly."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


SHELF: Final = Shelf()
"""The plans of this process."""
