"""Operators of regions: compiled, restored from stored plans, or only built for another machine."""

from collections.abc import Mapping, Sequence
from typing import Any

from subgraphkit.backend import BindContext, SubgraphOperator, Traits
from subgraphkit.errors import CompileError, ExecutionError
from subgraphkit.ir import Subgraph
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.building.build import build_engine
from subgraphkit_tensorrt.building.plan import EnginePlan, read_plans, write_plans
from subgraphkit_tensorrt.building.profiles import buckets_at_bind
from subgraphkit_tensorrt.library.flavours import Library
from subgraphkit_tensorrt.running.operator import TensorRTOperator


def compile_region(
    subgraph: Subgraph, library: Library, context: BindContext[Options]
) -> SubgraphOperator:
    """Build the engines of a region now, or at the first run if shapes are unknown."""
    return _operator(_plans(subgraph, library, context), subgraph, library, context)


def _plans(subgraph: Subgraph, library: Library, context: BindContext[Options]) -> list[EnginePlan]:
    """Build plans if the shapes are known, or have to be."""
    options = context.options
    may_wait = options.allow_runtime_build and not options.build_only
    # What does not fit these is for the user to mend.
    states_ranges = options.dims or options.min_shapes or options.opt_shapes or options.max_shapes
    if (buckets := buckets_at_bind(subgraph, context)) is None:
        if may_wait:
            return []
        raise _shapes_unknown(subgraph)
    try:
        return [build_engine(subgraph, context, library, buckets)]
    except CompileError as error:
        # Shapes may depend on elements of inputs, which are known when they are there.
        if error.code == "SGK169" and may_wait and not states_ranges:
            return []
        raise


def _shapes_unknown(subgraph: Subgraph) -> CompileError:
    types = zip(subgraph.inputs, subgraph.input_types, strict=True)
    shown = ", ".join(f"{name!r} {type_}" for name, type_ in types)
    return CompileError(
        "SGK169",
        f"the shapes that subgraph {subgraph.id!r} is to take are not known before it runs: "
        f"{shown}",
        backend="tensorrt",
        subgraph=subgraph.id,
        hint="Give the sizes of symbolic dimensions at bind, or their ranges with the option dims, "
        "such as dims={'batch': (1, 8, 32)}; or let the engine be built at the first run.",
    )


def restore(
    blob: bytes, subgraph: Subgraph, library: Library, context: BindContext[Options]
) -> SubgraphOperator:
    """Make an operator of what ``serialize`` returned; inputs and outputs go by position.

    Raises:
        CompileError: It is not whole (SGK172), or does not fit here (SGK162, SGK179).
    """
    plans = read_plans(blob)
    for plan in plans:
        if len(plan.inputs) != len(subgraph.inputs) or len(plan.outputs) != len(subgraph.outputs):
            raise CompileError(
                "SGK179",
                f"a stored engine has {len(plan.inputs)} inputs and {len(plan.outputs)} outputs, "
                f"not those of subgraph {subgraph.id!r}",
                backend="tensorrt",
                subgraph=subgraph.id,
            )
    return _operator(plans, subgraph, library, context)


def _operator(
    plans: Sequence[EnginePlan], subgraph: Subgraph, library: Library, context: BindContext[Options]
) -> SubgraphOperator:
    if context.options.build_only:
        return BuiltPlans(plans, subgraph)
    return TensorRTOperator(plans, subgraph, library, context)


class BuiltPlans(SubgraphOperator):
    """Plans for another machine."""

    traits = Traits(thread_safe=True, minds_memory=True)

    def __init__(self, plans: Sequence[EnginePlan], subgraph: Subgraph) -> None:
        self._plans = tuple(plans)
        self._subgraph = subgraph

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        """Refuse to run (ExecutionError, SGK163)."""
        del inputs, outputs
        raise ExecutionError(
            "SGK163",
            f"the engines of subgraph {self._subgraph.id!r} were only built, and not loaded here",
            backend="tensorrt",
            subgraph=self._subgraph.id,
            hint="Leave the option build_only out to run them; that takes a GPU.",
        )

    def serialize(self) -> bytes | None:
        """Return the plans; None if there is none."""
        return write_plans(self._plans) if self._plans else None

    def bare_engine(self) -> bytes | None:
        """Return the plan as TensorRT's own tools load it; None unless there is just one."""
        return self._plans[0].data if len(self._plans) == 1 else None

    def info(self) -> Mapping[str, Any]:
        """Return the report of each build; JSON-able."""
        return {"engines": [{"report": plan.report} for plan in self._plans], "loaded": False}
