"""One row of the table of options: the option itself, what it needs, and its names elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from subgraphkit.backend import Option

__all__ = ["Entry"]


@dataclass(frozen=True, slots=True)
class Entry:
    """An option of the backend.

    Attributes:
        option: Name, kind, default, bounds and help. ``cache`` says that it changes engines.
        needs: What the library must be able to do if the option is not left at its default, as
            fields of ``Capabilities``; ``"builder_flags.REFIT"`` is a name in one of its sets.
        needs_of: The same, for single values of the option.
        values_in: The field of ``Capabilities`` that holds the values allowed, for a list of names.
        onnxruntime: Names of ONNX Runtime's TensorRT provider that mean the same.
        torch_tensorrt: Names of Torch-TensorRT, formerly TRTorch.
        tf_trt: Names of TF-TRT.
        trtexec: Flags of trtexec.
    """

    option: Option
    needs: tuple[str, ...] = ()
    needs_of: Mapping[Any, str] = field(default_factory=lambda: MappingProxyType({}))
    values_in: str = ""
    onnxruntime: str = ""
    torch_tensorrt: str = ""
    tf_trt: str = ""
    trtexec: str = ""

    @property
    def name(self) -> str:
        """Name of the option."""
        return self.option.name

    @property
    def kind(self) -> str:
        """What kind of value it takes, for a table."""
        choices = " or ".join(map(str, self.option.choices))
        return choices or {"shapes": "dims by name", "list": "words"}.get(
            self.option.kind, self.option.kind
        )

    @property
    def default(self) -> str:
        """Its default, for a table."""
        value = self.option.default
        if value is None or value in ((), {}, ""):
            return "not set"
        return str(value).lower() if isinstance(value, bool) else str(value)

    @property
    def help(self) -> str:
        """What it does, in one sentence."""
        return self.option.help
