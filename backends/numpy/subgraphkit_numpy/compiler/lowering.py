"""From nodes to steps: kernels made, constants folded, copies and dead nodes dropped."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np

from subgraphkit.backend import LoadLimits, Unsupported
from subgraphkit.ir import Node, effort_of
from subgraphkit.types import DataType, TensorType
from subgraphkit_numpy import kernels
from subgraphkit_numpy.compiler.epilogues import make_chain
from subgraphkit_numpy.kernels.scope import Scope

FOLD_GROWTH_BYTES: Final = 128 << 20
"""All that is folded at a bind may be larger by this than what it is folded from."""


def folding_growth(limits: LoadLimits) -> list[int]:
    """Return the bytes that may be folded at one bind, in a place that its programs share."""
    return [min(FOLD_GROWTH_BYTES, limits.bind_bytes)]


@dataclass(slots=True)
class ProgramStep:
    """One step of the finished program: a call of a kernel.

    Attributes:
        nodes: The node it computes, or those of a chain.
        operands: Names of the values passed, None where an input is left out.
        results: Names of the values made; an empty string is an output left out.
    """

    nodes: tuple[Node, ...]
    entry: kernels.Implementation
    kernel: kernels.Kernel
    operands: tuple[str | None, ...]
    results: tuple[str, ...]

    @property
    def node(self) -> Node:
        """The node it computes; of a chain, the last one."""
        return self.nodes[-1]

    @property
    def label(self) -> str:
        """What reports call it."""
        return " + ".join(node.label for node in self.nodes)


Chains = Sequence[Sequence[int]]
"""Convolutions and what follows each at once: nodes that one kernel computes."""


def lower(
    scope: Scope, order: Sequence[int], outputs: Collection[str], chains: Chains
) -> list[ProgramStep]:
    """Turn nodes into steps, one for each chain, at the place of its last node.

    ``outputs``: Values that must be there in the end.

    Raises:
        Unsupported: For nodes nothing implements.
    """
    steps: list[ProgramStep] = []
    chain_of = {index: chain for chain in chains for index in chain}
    for index in order:
        chain = chain_of.get(index, (index,))
        if index != chain[-1]:
            continue
        nodes = tuple(Node(scope.graph, one) for one in chain)
        step = _make_chain(nodes, scope) if len(nodes) > 1 else None
        if step is None:
            for node in nodes:
                _add_node(node, scope, steps)
        elif not _fold(step, scope):
            steps.append(step)
    return _without_dead(steps, {scope.resolve(name) for name in outputs})


def _add_node(node: Node, scope: Scope, steps: list[ProgramStep]) -> None:
    """Add the step of one node, unless its result is known or is another value."""
    if scope.graph.is_constant_node(node.id) and node.outputs[0] in scope.graph.constants:
        return
    entry = kernels.implementation(node)
    if not isinstance(entry, kernels.Implementation):
        raise Unsupported(f"{node.label}: {entry.text}", nodes=(node.id,), code=entry.code)
    made = _make(node, entry, scope)
    if isinstance(made, kernels.Same):
        scope.names[node.outputs[0]] = scope.resolve(node.inputs[made.index])
    elif isinstance(made, ProgramStep) and not _fold(made, scope):
        steps.append(made)


def _make(
    node: Node, entry: kernels.Implementation, scope: Scope
) -> ProgramStep | kernels.Same | kernels.Known:
    site = kernels.Site(node, scope)
    try:
        made = entry.factory(site)
    except Unsupported as error:
        # the node given back must be one of this graph, even if the reason lies in a body
        refusal = error.refusal
        raise Unsupported(refusal.text, nodes=(node.id,), code=refusal.code) from error
    except Exception as error:
        error.add_note(f"while compiling node {node.label}")
        raise
    if isinstance(made, kernels.Same):
        return made
    if isinstance(made, kernels.Known):
        scope.add({node.outputs[0]: made.value})
        return made
    inputs = node.inputs
    operands = [
        scope.resolve(inputs[i]) if inputs[i] else None
        for i in range(site.input_count)
        if i not in site.absorbed
    ]
    operands += [scope.resolve(name) for name in site.captured]
    results = node.outputs or ("",)
    return ProgramStep((node,), entry, kernels.as_kernel(made), tuple(operands), results)


_CHAIN: Final = kernels.Implementation(lambda _: kernels.Same())
"""Stands for the implementation of chains, which is not found by operator."""


def _make_chain(nodes: tuple[Node, ...], scope: Scope) -> ProgramStep | None:
    if (made := make_chain(nodes, scope)) is None:
        return None
    kernel, names = made
    operands = tuple(scope.resolve(name) for name in names)
    return ProgramStep(nodes, _CHAIN, kernel, operands, nodes[-1].outputs)


def _fold(step: ProgramStep, scope: Scope) -> bool:
    """Compute a step now if nothing it reads can change, and say whether that was done."""
    given = [name for name in step.operands if name is not None]
    if step.entry.is_random or not all(scope.knows(name) for name in given):
        return False
    if _takes_too_much(step, scope):
        return False
    values = [None if name is None else scope.value(name) for name in step.operands]
    try:
        with np.errstate(all="ignore"):
            made = step.kernel.call(*values, *step.kernel.extra)
    except Exception:  # noqa: BLE001 (the node may never run: it raises when it does)
        return False
    made = made if len(step.results) > 1 else (made,)
    scope.add(dict(zip(step.results, made, strict=True)))
    return True


def _takes_too_much(step: ProgramStep, scope: Scope) -> bool:
    """Say whether folding a step would take more than is left for it; else take it."""
    node = step.node
    read = [scope.value(name) for name in step.operands if name is not None]
    given = sum(getattr(value, "nbytes", 0) for value in read)
    made = [node.output_type(index) for index in range(len(node.outputs))]
    sizes = [one.nbytes if isinstance(one, TensorType) else None for one in made]
    known = [size for size in sizes if size is not None]
    if scope.trusts_shapes and len(known) == len(sizes) and node.op_type not in kernels.MISJUDGED:
        more = sum(known) - given
    elif node.op_type in kernels.GROWING or DataType.STRING in [
        node.graph.dtype(n) for n in node.outputs
    ]:
        return True
    else:
        # Whatever broadcasts, gathers or multiplies makes no more elements than this.
        counts = [getattr(value, "size", 0) for value in read]
        widest = max([value.itemsize for value in read if isinstance(value, np.ndarray)], default=8)
        more = max(prod(counts), sum(counts)) * max(8, widest) - given if len(counts) > 1 else 0
    effort = effort_of(node, [getattr(value, "size", 0) for value in read])
    if more > scope.growth[0] or effort > scope.effort[0]:
        return True
    scope.growth[0] -= max(0, more)
    scope.effort[0] -= effort
    return False


def _without_dead(steps: list[ProgramStep], outputs: set[str]) -> list[ProgramStep]:
    """Drop steps whose results nobody reads."""
    needed = set(outputs)
    kept: list[ProgramStep] = []
    for step in reversed(steps):
        if needed.isdisjoint(step.results):
            continue
        needed.update(name for name in step.operands if name is not None)
        kept.append(step)
    return kept[::-1]
