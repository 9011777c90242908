"""Limits to the cost of opening a model, and to its values.

A model of a few bytes may ask for petabytes: by nested function calls, a shape, a number of
repetitions or a padding. Each limit is far above the needs of real models, and below harm. If your
model needs more, raise the limit that the error names.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Final, Self

from subgraphkit.errors import ConfigError, UnsupportedModelError
from subgraphkit.processes.memory import machine_bytes

_HOUR: Final = 3600
_MOST_TOLD: Final = 10**18
"""Functions that call each other ask for numbers of more digits than Python writes."""

_BIND_BYTES: Final = 1 << 30

_UNITS: Final = {
    "max_model_bytes": "bytes, its external data not counted",
    "max_nodes": "nodes",
    "max_operands": "inputs or outputs",
    "max_depth": "levels of bodies in bodies",
    "max_inlined_nodes": "nodes once its functions are inlined",
    "max_rank": "dimensions",
    "max_elements": "elements",
    "max_cost": "multiplications and additions",
    "max_value_bytes": "bytes",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadLimits:
    """The demands that a model may make while it is opened, and the sizes of its values.

    A limit of 0 is none. Weights in a file count only as bytes of it.

    Attributes:
        max_model_bytes: Bytes of the model itself, external data not counted.
        max_nodes: Nodes of the main graph and all bodies.
        max_operands: Inputs of one node, or outputs.
        max_depth: How deep bodies may be nested.
        max_inlined_nodes: Nodes of a model with functions once these are inlined.
        max_rank: Dimensions of a value.
        max_elements: Elements of a value that is computed from constants alone, unless the stored
            ones have half as many. Weights filled with one element may have eight times as many.
            The same for an operator's work area, such as a padded input, unless its inputs and
            outputs have an eighth of that. A text that NumPy is to make counts as four.
        max_cost: Multiplications and additions of all computing from constants.
        max_value_bytes: Bytes of one value; None is a quarter of the memory of the machine or the
            container, because a step has several.
        max_bind_bytes: Bytes computed from constants when a model is opened, beside as many as it
            stores. The rest is computed in each run. 0 is the default.
        max_run_bytes: Bytes of large values that the NumPy backend holds at once in a run; None is
            three quarters of the machine's or container's memory.
        max_compile_bytes: Memory that a compiler may take in a process of its own; None is the
            memory of the machine or the container.
        max_compile_seconds: Seconds of processor time that it may take there.

    Raises:
        ConfigError: A limit is no whole number, or below 0 (SGK108).

    Example:
        >>> LoadLimits(max_nodes=1000).max_nodes
        1000
    """

    max_model_bytes: int = 2 << 30
    max_nodes: int = 4_000_000
    max_operands: int = 65_536
    max_depth: int = 31
    max_inlined_nodes: int = 250_000
    max_rank: int = 64
    max_elements: int = 1 << 24
    max_cost: int = 1 << 36
    max_value_bytes: int | None = None
    max_bind_bytes: int = _BIND_BYTES
    max_run_bytes: int | None = None
    max_compile_bytes: int | None = None
    max_compile_seconds: int = 6 * _HOUR

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
            if not is_number and (value is not None or field.default is not None):
                raise ConfigError("SGK108", f"limit {field.name}={value!r} is not a whole number")

    @classmethod
    def unlimited(cls) -> Self:
        """Return limits that bound nothing."""
        return cls(**{field.name: 0 for field in fields(cls)})

    @property
    def value_bytes(self) -> int:
        """The most bytes that one value may have; 0 is no limit."""
        return machine_bytes() // 4 if self.max_value_bytes is None else self.max_value_bytes

    @property
    def bind_bytes(self) -> int:
        """The most bytes that are computed when a model is opened."""
        return self.max_bind_bytes or _BIND_BYTES

    @property
    def run_bytes(self) -> int:
        """The most bytes that a run may hold on the NumPy backend; 0 is no limit."""
        return machine_bytes() * 3 // 4 if self.max_run_bytes is None else self.max_run_bytes

    @property
    def compile_bytes(self) -> int:
        """The most memory that a compiler in a process of its own may take; 0 is no limit."""
        return machine_bytes() if self.max_compile_bytes is None else self.max_compile_bytes

    def within(self, memory: int | None) -> Self:
        """Return limits that let neither a bind nor a run hold more than that memory, if given."""
        if memory is None:
            return self
        bind, run = min(memory, self.bind_bytes), min(memory, self.run_bytes or memory)
        return replace(self, max_bind_bytes=bind, max_run_bytes=run)

    def require(self, name: str, found: int, subject: str = "the model") -> None:
        """Make sure that a limit holds.

        Args:
            name: The limit, such as ``"max_nodes"``.
            found: What the subject has or asks for.
            subject: What is looked at, for the message.

        Raises:
            UnsupportedModelError: It is beyond the limit (SGK216).
        """
        limit = self.value_bytes if name == "max_value_bytes" else getattr(self, name)
        if limit and found > limit:
            told = f"{found:,}" if found < _MOST_TOLD else f"{_MOST_TOLD:,} or more"
            found = min(found, _MOST_TOLD)
            raise UnsupportedModelError(
                "SGK216",
                f"{subject} has {told} {_UNITS[name]}; the limit is {limit:,} ({name})",
                hint=f"If you trust the model, raise the limit:  limits={{{name!r}: {found}}} in "
                f"Python,\nor SUBGRAPH_LIMITS={name}={found}; 0 lifts it.",
                limit=name,
                found=found,
            )

    def require_all(self, asks: Mapping[str, int]) -> None:
        """Make sure that limits hold for a model, given its demands by their names.

        Raises:
            UnsupportedModelError: One does not (SGK216).
        """
        for name, found in asks.items():
            self.require(name, found)

    def __str__(self) -> str:
        """Render the limits that differ from the defaults, in the form of ``SUBGRAPH_LIMITS``."""
        if self == LoadLimits.unlimited():
            return "unlimited"
        changed = [f for f in fields(self) if getattr(self, f.name) != f.default]
        return ",".join(f"{f.name}={getattr(self, f.name)}" for f in changed) or "default"
