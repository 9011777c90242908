"""Element types in the words of NumPy and PyTorch, for programs that bind buffers of their own."""

import sys
from typing import Any

import numpy as np

from subgraphkit.types import DataType


class TypeHelper:
    """Translates types such as ``tensor(float)``."""

    @staticmethod
    def get_input_type(ort_session: Any, name: str) -> str:
        """Return the type of an input."""
        return _type_of(ort_session.get_inputs(), name)

    @staticmethod
    def get_output_type(ort_session: Any, name: str) -> str:
        """Return the type of an output."""
        return _type_of(ort_session.get_outputs(), name)

    @staticmethod
    def ort_type_to_numpy_type(ort_type: str) -> Any:
        """Return NumPy's type."""
        return np.dtype(_data_type(ort_type).numpy).type

    @staticmethod
    def ort_type_to_torch_type(ort_type: str) -> Any:
        """Return PyTorch's type; the program has imported it."""
        return getattr(sys.modules["torch"], _data_type(ort_type).label)


def _type_of(described: list[Any], name: str) -> str:
    for one in described:
        if one.name == name:
            return str(one.type)
    raise ValueError(f"there is no value {name!r}")


def _data_type(ort_type: str) -> DataType:
    name = ort_type.removeprefix("tensor(").removesuffix(")").upper()
    if name not in DataType.__members__:
        raise ValueError(f"{ort_type} is no type of tensors")
    return DataType[name]
