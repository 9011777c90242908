"""From steps to Python source: one call per line, values in local variables."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from subgraphkit_numpy.compiler.lifetimes import Lifetimes
from subgraphkit_numpy.compiler.lowering import ProgramStep

_NOT_IN_NAMES = re.compile(r"\W")


@dataclass(slots=True)
class Emitted:
    """A program as text, with the meaning of its names.

    Attributes:
        constant_names: Constants the program reads, and their names in it.
        step_of_line: The step that each line (counted from 1) belongs to.
    """

    lines: list[str] = field(default_factory=list)
    kernel_names: list[str] = field(default_factory=list)
    constant_names: dict[str, str] = field(default_factory=dict)
    step_of_line: dict[int, int] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """The whole text."""
        return "\n".join(self.lines) + "\n"

    def constant(self, value: str) -> str:
        """Return the name of a constant, chosen when first asked."""
        return self.constant_names.setdefault(value, f"c{len(self.constant_names)}")


class _Registers:
    """Local variables, reused as soon as the value in them is dead."""

    def __init__(self) -> None:
        self.of: dict[str, str] = {}
        self._free: list[str] = []
        self._count = 0

    def take(self, value: str, preferred: str | None = None) -> str:
        if preferred in self._free:
            register = preferred
            self._free.remove(register)
        elif self._free:
            register = self._free.pop()
        else:
            register = f"r{self._count}"
            self._count += 1
        if value:
            self.of[value] = register
        return register

    def drop(self, value: str) -> str:
        register = self.of.pop(value)
        self._free.append(register)
        return register

    def give_back(self, register: str) -> None:
        self._free.append(register)


def emit(
    steps: Sequence[ProgramStep],
    inputs: Sequence[str],
    outputs: Sequence[str],
    lifetimes: Lifetimes,
    *,
    detached: bool,
) -> Emitted:
    """Write the program.

    ``detached``: Whether outputs must not share memory with inputs, constants or each other.
    """
    text = Emitted()
    registers = _Registers()
    parameters = [registers.take(name) for name in inputs]
    text.lines.append(f"def run({', '.join(parameters)}):")
    for index, step in enumerate(steps):
        target = lifetimes.overwritable(index)
        written = registers.of[target] if target is not None else None
        doubts = list(lifetimes.doubts(index, target)) if target is not None else []
        tests = [
            f"{written}.shape[{axis}] == {registers.of[name]}.shape[{axis}]"
            for name, axis in doubts
            if name in registers.of
        ]
        over = f"({written} if {' and '.join(tests)} else None)" if tests else written
        call = _call(text, registers, step, over)
        # whoever calls holds the inputs, so dropping them would free nothing
        dying = [name for name in lifetimes.dying(index) if name not in lifetimes.inputs]
        freed = [registers.drop(name) for name in dying if name not in step.results]
        targets = [registers.take(name, written) for name in step.results]
        released = [register for register in freed if register not in targets]
        for target, name in zip(targets, step.results, strict=True):
            if not name:
                registers.give_back(target)
                released.append(target)
            elif name in dying:
                released.append(registers.drop(name))
        release = f"; del {', '.join(released)}" if released else ""
        text.lines.append(f"    {', '.join(targets)} = {call}{release}  # {step.label}")
        text.step_of_line[len(text.lines)] = index
    results = _results(text, registers, outputs, lifetimes, detached=detached)
    text.lines.append(f"    return ({''.join(f'{result}, ' for result in results)})")
    return text


def _call(text: Emitted, registers: _Registers, step: ProgramStep, written: str | None) -> str:
    kernel = f"{_NOT_IN_NAMES.sub('_', step.node.op_type)}_{step.node.id}"
    text.kernel_names.append(kernel)
    arguments = []
    for name in step.operands:
        if name is None:
            arguments.append("None")
        else:
            arguments.append(registers.of[name] if name in registers.of else text.constant(name))
    arguments += [f"{kernel}_{place}" for place in range(len(step.kernel.extra))]
    if written is not None:
        arguments.append(f"out={written}")
    return f"{kernel}({', '.join(arguments)})"


def _results(
    text: Emitted,
    registers: _Registers,
    outputs: Sequence[str],
    lifetimes: Lifetimes,
    *,
    detached: bool,
) -> list[str]:
    results: list[str] = []
    handed_out: list[str] = []
    for name in outputs:
        register = registers.of.get(name)
        if not name:
            results.append("None")
        elif register is None:
            constant = text.constant(name)
            results.append(f"clone({constant})" if detached else constant)
        elif not detached or lifetimes.is_exclusive(name, handed_out):
            results.append(register)
        else:
            others = _owners(name, handed_out, lifetimes, registers)
            text.lines.append(f"    d{len(results)} = detach({', '.join([register, *others])})")
            results.append(f"d{len(results)}")
        handed_out.append(name)
    return results


def _owners(
    name: str, handed_out: Sequence[str], lifetimes: Lifetimes, registers: _Registers
) -> list[str]:
    """Return registers of inputs and earlier outputs whose memory an output may share."""
    origins = lifetimes.origins[name]
    inputs = origins.intersection(lifetimes.inputs)
    earlier = [
        other
        for other in handed_out
        if other in registers.of and not origins.isdisjoint(lifetimes.origins[other])
    ]
    return [registers.of[owner] for owner in dict.fromkeys((*sorted(inputs), *earlier))]
