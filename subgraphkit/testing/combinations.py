"""Operators in combination, as libraries fuse them: a producer, elementwise ones behind it.

All combinations of a producer with an operator and with a form of its second operand are met, and
of those two with one another; not every combination of the three, unless that is asked for.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from subgraphkit.testing.operator_variants import OperatorVariant

_Dims = tuple[int, ...]

PRODUCERS: Final = {
    "reductions": (
        ("ReduceSum<keepdims=0>(x[2,3,4], a:int64![1]={-1})", (2, 3)),
        ("ReduceMean<keepdims=1>(x[2,3,4], a:int64![1]={2})", (2, 3, 1)),
        ("ReduceMean<keepdims=0>(x[2,3,4,5], a:int64![2]={2,3})", (2, 3)),
        ("ReduceMax<keepdims=0>(x[2,3,4], a:int64![1]={1})", (2, 4)),
        ("ReduceL2<keepdims=1>(x[2,3,4], a:int64![1]={-1})", (2, 3, 1)),
        ("ReduceSum<keepdims=1>(x[3,4], a:int64![1]={0})", (1, 4)),
        ("Softmax(x[2,3,4])", (2, 3, 4)),
        ("CumSum(x[3,4], a:int64![]={1})", (3, 4)),
    ),
    "products": (
        ("MatMul(x[2,3,4], w![4,5])", (2, 3, 5)),
        ("MatMul(x[3,4], w[4,3])", (3, 3)),
        ("Gemm(x[3,4], w![4,5], b![5])", (3, 5)),
        ("Gemm<transB=1, alpha=0.5>(x[4,4], w![4,4])", (4, 4)),
        ("MatMul(x[2,1,3,4], w![2,4,3])", (2, 2, 3, 3)),
    ),
    "windows": (
        ("Conv(x[2,3,6,5], w![4,3,3,2])", (2, 4, 4, 4)),
        ("Conv<pads=[1,0,0,1]>(x[1,2,4,4], w![3,2,2,2], b![3])", (1, 3, 4, 4)),
        ("Conv<group=3>(x[2,3,6], w![3,1,2])", (2, 3, 5)),
        ("ConvTranspose(x[1,2,3,4], w![2,3,2,2])", (1, 3, 4, 5)),
        ("MaxPool<kernel_shape=[2,2]>(x[2,3,4,5])", (2, 3, 3, 4)),
        ("AveragePool<kernel_shape=[2,2], pads=[1,0,0,1]>(x[1,3,4,5])", (1, 3, 4, 5)),
        ("GlobalAveragePool(x[2,3,4,5])", (2, 3, 1, 1)),
        ("BatchNormalization(x[2,3,4], s![3], b![3], m![3], v+![3])", (2, 3, 4)),
        ("InstanceNormalization(x[2,3,4], s![3], b![3])", (2, 3, 4)),
        ("LayerNormalization(x[2,3,4], s![4], b![4])", (2, 3, 4)),
    ),
    "movement": (
        ("Transpose<perm=[0,2,1]>(x[2,3,4])", (2, 4, 3)),
        ("Transpose(x[3,3])", (3, 3)),
        ("Reshape(x[2,12], s:int64![3]={2,3,4})", (2, 3, 4)),
        ("Concat<axis=1>(x[2,3,4], z[2,2,4])", (2, 5, 4)),
        ("Gather<axis=1>(x[2,5,4], i:int64![3]={0,2,-1})", (2, 3, 4)),
        ("Slice(x[3,6], a:int64![1]={-1}, b:int64![1]={-7}, d:int64![1]={1}, s:int64![1]={-2})",
         (3, 3)),
        ("Pad(x[2,3], n:int64![4]={0,1,1,0})", (3, 4)),
        ("Expand(x[3,1], s:int64![3]={2,3,4})", (2, 3, 4)),
        ("Unsqueeze(x[3,4], a:int64![1]={-1})", (3, 4, 1)),
        ("Squeeze(x[3,1,4], a:int64![1]={1})", (3, 4)),
        ('Resize<mode="nearest">(x[1,2,3,2], "", s:float![4]={1,1,2,2})', (1, 2, 6, 4)),
    ),
    "elementwise": (
        ("Relu(x[2,3,4])", (2, 3, 4)),
        ("Sigmoid(x[2,3,4])", (2, 3, 4)),
        ("Mul(x[2,3,4], g![4])", (2, 3, 4)),
        ("Add(x[2,3,4], g![3,1])", (2, 3, 4)),
        ("Sub(g![4], x[3,4])", (3, 4)),
        ("Div(x[2,3,4], g+![])", (2, 3, 4)),
        ("Add(x[2,3,1], z[4])", (2, 3, 4)),
        ("Neg(x[3,4])", (3, 4)),
        ("Clip(x[3,4], low![]={-1}, high![]={1})", (3, 4)),
        ("Exp(x~[3,4])", (3, 4)),
        ("Abs(x[2,2,2,3])", (2, 2, 2, 3)),
        ("Max(x[3,4], z[3,4])", (3, 4)),
    ),
}  # fmt: skip
"""Producers with the shape of what they make, by the kind of them."""

_OF_TWO: Final = tuple(
    f"{operator}({operands})"
    for operator in ("Add", "Sub", "Mul", "Div", "Max", "Min")
    for operands in ("p, C", "C, p")
    if operator != "Div" or operands == "p, C"
)
_OF_ONE: Final = (
    "Relu(@)", "Sigmoid(@)", "Tanh(@)", "Neg(@)", "Abs(@)", "Mul(@, @)", "Add(@, e![]={1.5})",
    "Mul(@, e![1]={-0.5})", "Clip(@, e![]={-1}, f![]={1})", "HardSwish(@)", "LeakyRelu(@)",
)  # fmt: skip


def _forms(dims: _Dims) -> Iterator[str]:
    """Yield the forms in which a second operand is broadcast to a shape, or the shape to it."""
    ones = (1,) * len(dims)
    yield _argument((), stored=True)
    yield _argument(dims[-1:], stored=True)
    yield _argument((*dims[:1], *ones[1:]), stored=True)
    yield _argument(dims, stored=True)
    yield _argument((*ones[:1], *dims[1:2], *ones[2:]), stored=True)
    yield _argument((1,), stored=True)
    yield _argument(ones, stored=True)
    yield _argument((2, *dims), stored=True)
    yield _argument(tuple(3 if size == 1 else size for size in dims), stored=True)
    yield _argument(dims, stored=False)
    yield _argument((*ones[:1], *dims[1:2], *ones[2:]), stored=False)


def _argument(dims: _Dims, *, stored: bool) -> str:
    return f"c+{'!' if stored else ''}[{','.join(map(str, dims))}]"


def combinations(kind: str, *, in_full: bool = False) -> Iterator[OperatorVariant]:
    """Yield combinations behind producers of a kind, as operations of one size."""
    for place, (producer, dims) in enumerate(PRODUCERS[kind]):
        forms = list(_forms(dims))
        pairs: Sequence[tuple[int, int]]
        if in_full:
            pairs = [(one, form) for one in range(len(_OF_TWO)) for form in range(len(forms))]
        else:
            count = max(len(_OF_TWO), len(forms))
            pairs = [((step + place) % len(_OF_TWO), step % len(forms)) for step in range(count)]
        for step, (one, form) in enumerate(pairs):
            second = _OF_TWO[one].replace("C", forms[form])
            last = _OF_ONE[(step + 3 * place) % len(_OF_ONE)]
            texts = [f"p = {producer}", f"q = {second}", f"y = {last.replace('@', 'q')}"]
            texts = texts if step % 2 else [texts[0], f"y = {second}"]
            yield OperatorVariant(kind, "near", "float", "; ".join(texts))
        for step, last in enumerate(_OF_ONE):
            if in_full or step % 2 == place % 2:
                text = f"p = {producer}; y = {last.replace('@', 'p')}"
                yield OperatorVariant(kind, "near", "float", text)
