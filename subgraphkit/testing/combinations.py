"""Operators in combination, as libraries fuse them.

All combinations of a producer with an operator and with a second operand, and of those two; not
every one of the three.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from subgraphkit.testing.operator_variants import OperatorVariant, tables_of
from subgraphkit.testing.sweeps import Sweep

_Dims = tuple[int, ...]

_FILE: Final = Path(__file__).with_name("producers.txt")
PRODUCERS: Final = {
    kind: tuple(lines.split("\n")) for kind, lines in tables_of(_FILE.read_text(encoding="utf-8"))
}

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


def _operands(dims: _Dims) -> list[str]:
    """Return the operands in which a second operand is broadcast to a shape, or the shape to it."""
    ones = (1,) * len(dims)
    second = (*ones[:1], *dims[1:2], *ones[2:])
    stored: list[_Dims] = [(), dims[-1:], (*dims[:1], *ones[1:]), dims, second, (1,), ones]
    stored += [(2, *dims), tuple(3 if size == 1 else size for size in dims)]
    operands = [("c+!", one) for one in stored] + [("c+", one) for one in (dims, second)]
    return [f"{name}[{','.join(map(str, one))}]" for name, one in operands]


@cache
def _dims(producer: str) -> _Dims:
    """Return the shape of a producer's output."""
    (y,) = Sweep([(OperatorVariant("", "near", "float", producer), 1)]).proto.graph.output[:1]
    return tuple(dim.dim_value for dim in y.type.tensor_type.shape.dim)


def combinations(kind: str) -> Iterator[OperatorVariant]:
    """Yield combinations behind producers of a kind, as operations of one size."""
    for place, producer in enumerate(PRODUCERS[kind]):
        operands = _operands(_dims(producer))
        for step in range(max(len(_OF_TWO), len(operands))):
            operand = operands[step % len(operands)]
            second = _OF_TWO[(step + place) % len(_OF_TWO)].replace("C", operand)
            last = _OF_ONE[(step + 3 * place) % len(_OF_ONE)]
            texts = [f"p = {producer}", f"q = {second}", f"y = {last.replace('@', 'q')}"]
            texts = texts if step % 2 else [texts[0], f"y = {second}"]
            yield OperatorVariant(kind, "near", "float", "; ".join(texts))
        for step, last in enumerate(_OF_ONE):
            if step % 2 == place % 2:
                text = f"p = {producer}; y = {last.replace('@', 'p')}"
                yield OperatorVariant(kind, "near", "float", text)
