"""From a region to its operator: engines built now, or at the first run if shapes are unknown."""

import logging
from typing import Final

from subgraphkit.backend import SubgraphOperator
from subgraphkit.errors import CompileError
from subgraphkit.ir import Subgraph
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.building.build import build_engine
from subgraphkit_tensorrt.building.plan import Plan
from subgraphkit_tensorrt.building.profiles import buckets_at_bind
from subgraphkit_tensorrt.library.flavours import Library
from subgraphkit_tensorrt.running.build_only import BuiltPlans
from subgraphkit_tensorrt.running.engines import builder_for
from subgraphkit_tensorrt.running.operator import TensorRTOperator

__all__ = ["compile_region"]

_OPEN: Final = "SGK169"


def compile_region(
    subgraph: Subgraph, library: Library, options: Options, logger: logging.Logger
) -> SubgraphOperator:
    """Build the engines of a region.

    Args:
        subgraph: The region.
        library: The library.
        options: The options of the backend.
        logger: Where progress is reported.

    Raises:
        CompileError: The library does not take the region, or cannot build it.
        OptionError: The options ask for what cannot be.
    """
    plans = _plans(subgraph, library, options, logger) if options.build_at != "first_run" else []
    if options.build_only:
        return BuiltPlans(plans, subgraph)
    return TensorRTOperator(plans, subgraph, library, options, builder_for(library, options))


def _plans(
    subgraph: Subgraph, library: Library, options: Options, logger: logging.Logger
) -> list[Plan]:
    """Build plans if the shapes are known, or have to be."""
    may_wait = options.build_at == "auto" and not options.build_only
    buckets = buckets_at_bind(subgraph, options)
    if buckets is None and may_wait:
        return []
    try:
        return [
            build_engine(subgraph, options, library, ranges, logger=logger)
            for ranges in (buckets if buckets is not None else [None])
        ]
    except CompileError as error:
        # Shapes may depend on elements of inputs, which are known when they are there.
        if error.code == _OPEN and may_wait and not _states_ranges(options):
            return []
        raise


def _states_ranges(options: Options) -> bool:
    """Say whether options state ranges; what does not fit them is for the user to mend."""
    return bool(options.dims or options.min_shapes or options.opt_shapes or options.max_shapes)
