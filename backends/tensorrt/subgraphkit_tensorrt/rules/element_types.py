"""Element types that TensorRT has, and those that may cross the edge of a network."""

from functools import lru_cache
from types import MappingProxyType
from typing import Final

from subgraphkit.types import DataType

__all__ = ["CROSSING", "KNOWN", "MAX_RANK", "TYPES", "types_of"]

TYPES: Final = MappingProxyType(
    {
        "f32": DataType.FLOAT,
        "f16": DataType.FLOAT16,
        "bf16": DataType.BFLOAT16,
        "i32": DataType.INT32,
        "i64": DataType.INT64,
        "i8": DataType.INT8,
        "u8": DataType.UINT8,
        "bool": DataType.BOOL,
        "f8": DataType.FLOAT8E4M3FN,
        "i4": DataType.INT4,
        "f4": DataType.FLOAT4E2M1,
    }
)
"""The words of the operator table."""

KNOWN: Final = frozenset(TYPES.values())
"""What a TensorRT tensor can hold; a node with any other type is out of the question."""

CROSSING: Final = KNOWN - {DataType.FLOAT8E4M3FN, DataType.INT4, DataType.FLOAT4E2M1}
"""What may be an input or an output of a network; the rest lives between Q and DQ."""

MAX_RANK: Final = 8
"""Most axes of a TensorRT tensor (``Dims.MAX_DIMS``)."""


@lru_cache(maxsize=256)
def types_of(words: str) -> tuple[DataType, ...]:
    """Return the types that words of the operator table mean."""
    return tuple(TYPES[word] for word in words.split())
