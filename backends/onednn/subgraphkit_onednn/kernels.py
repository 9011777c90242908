"""Kernels that oneDNN has for operations fused with those after them.

The library fuses more than it has kernels for, such as a product with two sums on a processor
without AVX-512. It runs such a fusion with its reference kernel, which is a hundred times slower.
But it says which kernel it would choose. If that is the reference kernel, the fusion is split: the
longest beginning that has a better kernel is computed apart from the rest.
"""

import ctypes
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import accumulate, dropwhile, pairwise
from operator import mul
from typing import Any, Final

from subgraphkit_onednn.handles import DnnlEngine, Handle
from subgraphkit_onednn.library import DnnlError
from subgraphkit_onednn.lowering import DraftOperation, DraftTensor
from subgraphkit_onednn.symbols import DATA_TYPES

_BINARY: Final = {
    kind: 0x1FFF0 + place
    for place, kind in enumerate(["add", "multiply", "maximum", "minimum", "divide", "subtract"])
}
"""``dnnl_alg_kind_t`` by operation."""

_NAMES: Final = """
abs clamp elu exp gelu hard_sigmoid hard_swish leaky_relu relu round sigmoid sqrt square tanh
"""
_UNARY: Final = frozenset(_NAMES.split())
_RELU: Final = 0x20
"""Stands for all of them: kernels take any or none."""

_IMPLEMENTATION: Final = 8  # dnnl_query_impl_info_str
_MATRIX: Final = 2


class FusedKernels:
    """Asks the library which kernels it has."""

    def __init__(self, engine: DnnlEngine, free: AbstractSet[int]) -> None:
        self._engine = engine
        self._library = engine.library
        self._choices = frozenset[int](), free

    def cuts(self, operations: Sequence[DraftOperation]) -> Iterator[int]:
        """Yield the numbers of tensors at which a fusion must end for its parts to have kernels."""
        left = list(operations)
        while left:
            chain = [left.pop(0)]
            while (after := _following(chain[-1], left)) is not None:
                left.remove(after)
                chain.append(after)
            choices = [last for last in self._choices if self._has_one(chain[:1], last)]
            for length in range(len(chain), 0, -1):
                if all(self._has_one(chain[:length], last) for last in choices):
                    if length < len(chain):
                        yield chain[length - 1].outputs[0].number
                    break

    def _has_one(self, chain: Sequence[DraftOperation], last: AbstractSet[int]) -> bool:
        """Say whether there is more than the reference kernel; true of what is not asked about."""
        described = partial(self._describe_memory, last)
        first, made = chain[0], chain[0].outputs[0]
        given: list[int | Handle | None]
        if first.kind == "matmul":
            kind, turned = "matmul", [first.attributes.get(f"transpose_{one}") for one in "ab"]
            given = [
                described(tensor, len(made.dims), turned=bool(flag))
                for tensor, flag in zip(first.inputs, [*turned, False], strict=False)
            ]
            given += [None] * (3 - len(given))
        elif first.kind in _BINARY:
            kind, given = "binary", [_BINARY[first.kind], *map(described, first.inputs)]
        else:
            return _is_fused_well(chain)
        given += [described(made), self._attributes(chain, last)]
        pointers = [one.pointer if isinstance(one, Handle) else one for one in given]
        maker, name = f"dnnl_{kind}_primitive_desc_create", ctypes.c_char_p()
        try:
            chosen = Handle(
                self._library, "primitive_desc", self._engine.pointer, *pointers, maker=maker
            )
            question = chosen.pointer, _IMPLEMENTATION, 0, ctypes.byref(name)
            self._library.call("dnnl_primitive_desc_query", *question)
        except DnnlError:
            return False
        return not (name.value or b"ref").startswith(b"ref")

    def _attributes(self, chain: Sequence[DraftOperation], last: AbstractSet[int]) -> Handle:
        """Describe what is done to each element, as the library does when it fuses."""
        given: tuple[Any, ...]
        after, sums = Handle(self._library, "post_ops"), 0
        for before, operation in pairwise(chain):
            other = _other_operand(before, operation)
            if operation.kind in _UNARY:
                given, kind = (_RELU, 0.0, 0.0), "eltwise"
            elif operation.kind == "add" and other.dims == chain[0].outputs[0].dims and not sums:
                given, kind, sums = (1.0, 0, 0), "sum", 1
            else:
                read = self._describe_memory(last, other)
                given, kind = (_BINARY[operation.kind], read.pointer), "binary"
            self._library.call(f"dnnl_post_ops_append_{kind}", after.pointer, *given)
        made = Handle(self._library, "primitive_attr")
        self._library.call("dnnl_primitive_attr_set_post_ops", made.pointer, after.pointer)
        return made

    def _describe_memory(
        self, last: AbstractSet[int], tensor: DraftTensor, rank: int = 0, *, turned: bool = False
    ) -> Handle:
        """Describe the memory of a tensor, with as many axes as asked for."""
        dims = (1,) * (rank - len(tensor.dims)) + tensor.dims
        order = list(range(len(dims)))
        if tensor.number in last and len(dims) > _MATRIX:
            order.append(order.pop(1))
        steps = accumulate((dims[axis] for axis in order[:0:-1]), mul, initial=1)
        by_axis = dict(zip(reversed(order), steps, strict=True))
        strides = tensor.strides or tuple(by_axis[axis] for axis in range(len(dims)))
        if turned:
            dims, strides = ((*one[:-2], one[-1], one[-2]) for one in (dims, strides))
        many = ctypes.c_int64 * len(dims)
        facts = len(dims), many(*dims), DATA_TYPES[tensor.dtype], many(*strides)
        maker = "dnnl_memory_desc_create_with_strides"
        return Handle(self._library, "memory_desc", *facts, maker=maker)


def _is_fused_well(chain: Sequence[DraftOperation]) -> bool:
    """Say whether there is more than the reference kernel, of an operation that is not asked about.

    A convolution takes one sum with a tensor of its size. It takes other operands only if they are
    broadcast. A transposed one takes nothing: most of them would leave it to the reference kernel.
    A function of one element takes no operand behind it, but for x * sigmoid(x).
    """
    if chain[0].kind == "conv_transpose":
        return len(chain) == 1
    if chain[0].kind == "convolution":
        dims = chain[0].outputs[0].dims
        steps = [(one.kind, _other_operand(before, one).dims) for before, one in pairwise(chain)]
        return [kind for kind, size in steps if kind in _BINARY and size == dims] in ([], ["add"])
    behind = list(dropwhile(lambda one: one.kind not in _UNARY, chain))
    is_product = [one.kind for one in behind[:2]] == ["sigmoid", "multiply"]
    is_swish = is_product and behind[0].inputs[0] in behind[1].inputs
    return not any(one.kind in _BINARY for one in behind[2 if is_swish else 0 :])


def _other_operand(before: DraftOperation, operation: DraftOperation) -> DraftTensor:
    """Return what an operation reads beside the result of the one before it."""
    others = [one for one in operation.inputs if one is not before.outputs[0]]
    return others[0] if others else before.outputs[0]


def _following(
    operation: DraftOperation, others: Sequence[DraftOperation]
) -> DraftOperation | None:
    """Return the operation that the kernel of another does to each element it makes."""
    made = operation.outputs[0]
    readers = [other for other in others if made in other.inputs]
    for only in readers if len(readers) == 1 else ():
        turns = only.kind in {"divide", "subtract"} and only.inputs[0] != made
        fits = only.kind in {*_BINARY, *_UNARY} and only.outputs[0].dims == made.dims
        if fits and not turns:
            return only
    return None
