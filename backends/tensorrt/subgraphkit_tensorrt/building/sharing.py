"""Equal subgraphs are built once: what makes them equal, and where finished plans are found again.

The engine cache of the core does the same across binds. Ranges of shapes are options that name
dimensions of the model, so there names count; here they do not, and nothing is written to a disk.
"""

import hashlib
import json
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Final

from subgraphkit.ir import Subgraph
from subgraphkit.types import DataType
from subgraphkit_tensorrt.building.model import PreparedModel
from subgraphkit_tensorrt.building.plan import Plan
from subgraphkit_tensorrt.building.profiles import InputRange
from subgraphkit_tensorrt.library.flavours import Library
from subgraphkit_tensorrt.options import OPTIONS

__all__ = ["SHELF", "Shelf", "plan_key", "separate_weights"]

_FLOATS: Final = frozenset({DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16})
_SMALL: Final = 1024
"""Bytes up to which ``Subgraph.to_model`` keeps a constant in the model."""
_NAMING: Final = frozenset({"dims", "min_shapes", "opt_shapes", "max_shapes"})


def separate_weights(subgraph: Subgraph, options: Mapping[str, Any]) -> tuple[str, ...]:
    """Name the constants that are put into an engine when it is loaded.

    What ``Backend.separate_weights`` returns: none, unless plans are stored without weights or
    shared by subgraphs that differ in them. Small constants and whole numbers stay in the plan,
    because they may decide how it is built; so does everything if the precision is changed, which
    depends on the weights.

    Args:
        subgraph: The subgraph.
        options: Values of the backend's options.
    """
    if not (options["strip_weights"] or options["share_identical"]):
        return ()
    if options["precision"] != "keep":
        return ()
    return tuple(
        name
        for name, constant in subgraph.constants.items()
        if constant.type.dtype in _FLOATS and (constant.type.nbytes or 0) > _SMALL
    )


def plan_key(
    model: PreparedModel,
    subgraph: Subgraph,
    ranges: Mapping[str, InputRange],
    library: Library,
    options: Mapping[str, Any],
) -> str:
    """Return a digest of all that decides what the builder makes; names are not part of it."""
    values = {
        option.name: repr(options[option.name])
        for option in OPTIONS
        if option.cache and option.name not in _NAMING
    }
    separate = frozenset(separate_weights(subgraph, options))
    facts = {
        "library": [library.capabilities.flavour, library.capabilities.version],
        "device": options["device"],
        "options": values,
        "ranges": [ranges[name].to_json() for name in subgraph.inputs],
        "model": model.digest(without=separate),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


class Shelf:
    """Plans that somebody still holds, by key.

    Thread-safety: may be used from any thread; one of two that want the same plan waits.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plans: weakref.WeakValueDictionary[str, Plan] = weakref.WeakValueDictionary()
        self._locks: weakref.WeakValueDictionary[str, _Lock] = weakref.WeakValueDictionary()

    def obtain(self, key: str, build: Callable[[], Plan]) -> Plan:
        """Return the plan of a key, built now if nobody holds it.

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
