"""Lifetimes of values: which may share memory, and where a step may write over an operand."""

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from subgraphkit.types import DataType, Shape, TensorType, ValueType
from subgraphkit_numpy.compiler.lowering import ProgramStep


class Lifetimes:
    """The lives of the values of a program.

    Attributes:
        last_use: The last step that reads a value; ``len(steps)`` for outputs, -1 for inputs that
            nobody reads.
        origins: For every value, the values whose memory it may share, itself included.
    """

    def __init__(
        self,
        steps: Sequence[ProgramStep],
        inputs: Sequence[str],
        outputs: Sequence[str],
        types: Mapping[str, ValueType],
        doubtful: Collection[str] = (),
    ) -> None:
        self.steps = steps
        self.last_use: dict[str, int] = dict.fromkeys(inputs, -1)
        self.origins: dict[str, frozenset[str]] = {name: frozenset((name,)) for name in inputs}
        self.inputs = frozenset(inputs)
        self._views: dict[str, list[str]] = {}
        self._types = types
        self._doubtful = doubtful
        self._aliases: set[str] = set()
        for index, step in enumerate(steps):
            self._enter(index, step)
        self.last_use.update(dict.fromkeys(outputs, len(steps)))

    def _enter(self, index: int, step: ProgramStep) -> None:
        # constants are not tracked: they are read-only, which is found out at run time
        tracked = [name for name in step.operands if name is not None and name in self.last_use]
        self.last_use.update(dict.fromkeys(tracked, index))
        shared: frozenset[str] = frozenset()
        if step.entry.aliases:
            shared = shared.union(*[self.origins[name] for name in tracked])
        for name in step.results:
            if not name:
                continue
            self.last_use[name] = index
            self.origins[name] = frozenset((name,))
            if step.entry.aliases:
                self._aliases.add(name)
                self.origins[name] |= shared
                for origin in shared:
                    self._views.setdefault(origin, []).append(name)
        if step.entry.aliases and len(step.results) > 1:
            results = [name for name in step.results if name]
            for name in results:  # which may share memory with each other
                self.origins[name] |= frozenset(results)
                self._views.setdefault(name, []).extend(r for r in results if r != name)

    def dying(self, index: int) -> list[str]:
        """Return the values, in order, that nobody reads after a step, its own results included."""
        step = self.steps[index]
        names = dict.fromkeys((*step.operands, *step.results))
        return [name for name in names if name and self.last_use.get(name) == index]

    def is_private(self, name: str) -> bool:
        """Say whether a value surely shares no memory with an input or another value."""
        return name not in self._aliases and name not in self.inputs

    def is_exclusive(self, name: str, others: Sequence[str]) -> bool:
        """Say whether a value is private and none of the others may be a view of it."""
        return self.is_private(name) and all(name not in self.origins.get(o, ()) for o in others)

    def overwritable(self, index: int) -> str | None:
        """Return an operand of a step that the step may write its result over, or None."""
        step = self.steps[index]
        if not step.kernel.takes_out or len(step.results) != 1:
            return None
        for name in step.operands:
            # a ufunc reads an element twice before it writes it; others may read it afterwards
            is_read_once = isinstance(step.kernel.call, np.ufunc) or step.operands.count(name) == 1
            if name and is_read_once and self._may_overwrite(name, step.results[0], index):
                return name
        return None

    def doubts(self, index: int, target: str) -> Iterator[tuple[str, int]]:
        """Yield operands and axes, from the end, that must have the size of the target there.

        The step may write over the target only if they have.
        """
        for name in self.steps[index].operands:
            if name is None or name == target:
                continue
            pairs = zip(reversed(self._shape(target)), reversed(self._shape(name)), strict=False)
            for axis, (dim, other) in enumerate(pairs, 1):
                if dim in self._doubtful and not isinstance(other, int):
                    yield name, -axis

    def _shape(self, name: str) -> Shape:
        type_ = self._types.get(name)
        return (isinstance(type_, TensorType) and type_.shape) or ()

    def _may_overwrite(self, operand: str, result: str, index: int) -> bool:
        if self.last_use.get(operand) != index or not self.is_private(operand):
            return False
        if any(self.last_use[view] >= index for view in self._views.get(operand, ())):
            return False
        type_ = self._types.get(operand)
        return (
            isinstance(type_, TensorType)
            and type_.dtype is not DataType.UNDEFINED
            and type_.shape is not None
            and None not in type_.shape
            and type_ == self._types.get(result)
        )
