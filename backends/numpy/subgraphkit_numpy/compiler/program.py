"""Programs: straight-line Python functions over kernels made for one graph."""

import itertools
import linecache
import time
import types
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from types import CodeType, TracebackType
from typing import Any

import numpy as np

from subgraphkit.backend import BindContext, InnerTime
from subgraphkit.ir import Graph, Subgraph
from subgraphkit.types import repeated_names
from subgraphkit_numpy.backend_options import Options
from subgraphkit_numpy.compiler.emission import Emitted, emit
from subgraphkit_numpy.compiler.lifetimes import Lifetimes
from subgraphkit_numpy.compiler.lowering import Chains, ProgramStep, lower
from subgraphkit_numpy.kernels.scope import Scope
from subgraphkit_numpy.kernels.wrapping import copy_of
from subgraphkit_numpy.parallel import BlasAlone

_NUMBERS = itertools.count()
_BY_FILENAME: "weakref.WeakValueDictionary[str, Program]" = weakref.WeakValueDictionary()


class Program:
    """A graph, or part of one, as one Python function.

    The function takes the inputs and then the captures, and returns a tuple of outputs. Its text is
    in ``source``; tracebacks show it.

    Attributes:
        function: The function.
        inner: The same for those who call it in the ``surroundings`` it needs.
        captures: Values from around the graph that the function takes after the inputs.

    Thread-safety: ``function`` may be called from several threads at once.
    """

    inner: Callable[..., tuple[Any, ...]]

    def __init__(self, scope: Scope, steps: list[ProgramStep], text: Emitted, *, name: str) -> None:
        self.captures = scope.captures
        self.steps = steps
        self.source = text.source
        self.shares = scope.shares or any(step.kernel.shares for step in steps)
        self._kernel_names = text.kernel_names
        self._labels = {line: steps[i].label for line, i in text.step_of_line.items()}
        filename = f"<subgraphkit-numpy {next(_NUMBERS)}: {name}>"
        module = compile(self.source, filename, "exec", dont_inherit=True, optimize=2)
        self._code = next(one for one in module.co_consts if isinstance(one, CodeType))
        linecache.cache[filename] = (
            len(self.source),
            None,
            self.source.splitlines(keepends=True),
            filename,
        )
        weakref.finalize(self, linecache.cache.pop, filename, None)
        _BY_FILENAME[filename] = self
        names: dict[str, Any] = {"__builtins__": {}, "__program__": self}
        names |= {"clone": clone, "detach": detach}
        for kernel_name, step in zip(text.kernel_names, steps, strict=True):
            names[kernel_name] = step.kernel.call
            names |= {f"{kernel_name}_{i}": value for i, value in enumerate(step.kernel.extra)}
        names |= {name: scope.value(value) for value, name in text.constant_names.items()}
        scope.release()
        self._link(names)

    def label_of(self, line: int) -> str | None:
        """Return the label of the node that a line of the source computes."""
        return self._labels.get(line)

    def with_clock(self, record: Callable[[InnerTime], object]) -> "Program":
        """Return a copy that records the time of every call."""
        twin, names = copy(self), dict(self.inner.__globals__)
        for name, step in zip(self._kernel_names, self.steps, strict=True):
            names[name] = _with_clock(step.kernel.call, step, record)
        twin._link(names)  # noqa: SLF001 (its own)
        return twin

    def close(self) -> None:
        """Let go of kernels and constants; the program cannot be used any more."""
        self.steps = []
        self.function = self.inner = _raise_closed

    def _link(self, names: dict[str, Any]) -> None:
        """Make the function from its code, and the kernels and constants that it names."""
        self.inner = types.FunctionType(self._code, names)
        self.function = _with_blas_alone(self.inner) if self.shares else self.inner

    def surroundings(self) -> AbstractContextManager[None]:
        """Return what must be around a call of ``inner``."""
        return BlasAlone() if self.shares else nullcontext()


def compile_graph(
    subgraph: Subgraph, context: BindContext[Options], chains: Chains, growth: list[int]
) -> Program:
    """Compile a region to a program whose outputs belong to the caller; inputs are only read.

    ``chains``: Nodes that one kernel computes, see ``lower``.

    Raises:
        Unsupported: For nodes nothing implements.
    """
    options, limits = context.options, context.limits
    scope = Scope(subgraph.graph, subgraph.constants, options, _compile_body, limits, growth)
    inputs, outputs = subgraph.inputs, subgraph.outputs
    return _compile(scope, subgraph.nodes, inputs, outputs, subgraph.id, chains)


def _compile_body(body: Graph, outer: Scope) -> Program:
    """Compile a body; its outputs may share memory with anything."""
    scope, name = outer.inside(body), f"body {body.name!r}"
    return _compile(scope, body.order, (*body.inputs, *scope.captures), body.outputs, name)


def _compile(
    scope: Scope,
    nodes: Sequence[int],
    inputs: Sequence[str],
    outputs: Sequence[str],
    name: str,
    chains: Chains = (),
) -> Program:
    graph, trusts = scope.graph, scope.trusts_shapes
    steps = lower(scope, nodes, outputs, chains)
    resolved = [scope.resolve(output) for output in outputs]
    variables = [one for one in resolved if one and not scope.knows(one)]
    doubtful = repeated_names(graph.shape(one) for one in (*graph.inputs, *graph.defaults))
    lifetimes = Lifetimes(steps, inputs, variables, graph.types if trusts else {}, doubtful)
    return Program(scope, steps, emit(inputs, resolved, lifetimes, detached=trusts), name=name)


def _with_blas_alone(function: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
    def run(*values: Any) -> tuple[Any, ...]:
        with BlasAlone():
            return function(*values)

    return run


def _with_clock(
    call: Callable[..., Any], step: ProgramStep, record: Callable[[InnerTime], object]
) -> Callable[..., Any]:
    name, nodes = step.label, tuple(node.id for node in step.nodes)

    def run(*values: Any, **words: Any) -> Any:
        started = time.perf_counter()
        try:
            return call(*values, **words)
        finally:
            record(InnerTime(name, time.perf_counter() - started, nodes, started))

    return run


def _raise_closed(*_: Any) -> tuple[Any, ...]:
    raise ValueError("the operator is closed")


def clone(value: Any) -> Any:
    """Return a writable copy of a value."""
    if isinstance(value, np.ndarray):
        return copy_of(value)
    return [clone(element) for element in value] if isinstance(value, list) else value


def detach(value: Any, *owners: Any) -> Any:
    """Return a value that the caller may keep: writable, contiguous, sharing nothing.

    ``owners``: Values whose memory it must not share.
    """
    if isinstance(value, list):
        return [clone(element) for element in value]
    if not isinstance(value, np.ndarray):
        return value
    flags = value.flags
    if not flags.writeable or not flags.c_contiguous or _shares(value, owners):
        return copy_of(value)
    return value


def _shares(value: Any, owners: Sequence[Any]) -> bool:
    for owner in owners:
        if isinstance(owner, list):
            if _shares(value, owner):
                return True
        elif isinstance(owner, np.ndarray) and np.may_share_memory(value, owner):
            return True
    return False


def failing_nodes(traceback: TracebackType | None) -> list[str]:
    """Return the labels of the nodes that were running, outermost first."""
    labels: list[str] = []
    while traceback is not None:
        program = _BY_FILENAME.get(traceback.tb_frame.f_code.co_filename)
        label = program.label_of(traceback.tb_lineno) if program else None
        if label is not None:
            labels.append(label)
        traceback = traceback.tb_next
    return labels
