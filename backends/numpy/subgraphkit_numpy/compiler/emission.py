"""From steps to Python source: one call per line, values in local variables."""

import itertools
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
        variables: Values that are alive, and their names in it.
        constant_names: Constants the program reads, and their names in it.
        step_of_line: The step that each line (counted from 1) belongs to.
    """

    variables: dict[str, str]
    lines: list[str] = field(default_factory=list)
    kernel_names: list[str] = field(default_factory=list)
    constant_names: dict[str, str] = field(default_factory=dict)
    step_of_line: dict[int, int] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """The whole text."""
        return "\n".join(self.lines) + "\n"

    def word_for(self, value: str) -> str:
        """Return the name of a value; that of a constant is chosen when first asked."""
        if value in self.variables:
            return self.variables[value]
        return self.constant_names.setdefault(value, f"c{len(self.constant_names)}")


def emit(
    inputs: Sequence[str], outputs: Sequence[str], lifetimes: Lifetimes, *, detached: bool
) -> Emitted:
    """Write the program.

    ``detached``: Whether outputs must not share memory with inputs, constants or each other.
    """
    variables = {name: f"v{place}" for place, name in enumerate(inputs)}
    text = Emitted(variables)
    numbers = itertools.count(len(inputs))
    text.lines.append(f"def run({', '.join(f'v{place}' for place in range(len(inputs)))}):")
    for index, step in enumerate(lifetimes.steps):
        target = lifetimes.overwritable(index)
        written = variables[target] if target is not None else None
        doubts = list(lifetimes.doubts(index, target)) if target is not None else []
        tests = [
            f"{written}.shape[{axis}] == {variables[name]}.shape[{axis}]"
            for name, axis in doubts
            if name in variables
        ]
        over = f"({written} if {' and '.join(tests)} else None)" if tests else written
        call = _call(text, step, over)
        # whoever calls holds the inputs, so dropping them would free nothing
        dying = [name for name in lifetimes.dying(index) if name not in lifetimes.inputs]
        targets = [f"v{next(numbers)}" for _ in step.results]
        variables |= zip(step.results, targets, strict=True)
        released = [variables.pop(name) for name in dying]
        unnamed = zip(step.results, targets, strict=True)
        released += [target for name, target in unnamed if not name]
        release = f"; del {', '.join(released)}" if released else ""
        text.lines.append(f"    {', '.join(targets)} = {call}{release}  # {step.label}")
        text.step_of_line[len(text.lines)] = index
    results = _results(text, outputs, lifetimes, detached=detached)
    text.lines.append(f"    return ({''.join(f'{result}, ' for result in results)})")
    return text


def _call(text: Emitted, step: ProgramStep, written: str | None) -> str:
    kernel = f"{_NOT_IN_NAMES.sub('_', step.node.op_type)}_{step.node.id}"
    text.kernel_names.append(kernel)
    arguments = ["None" if name is None else text.word_for(name) for name in step.operands]
    arguments += [f"{kernel}_{place}" for place in range(len(step.kernel.extra))]
    if written is not None:
        arguments.append(f"out={written}")
    return f"{kernel}({', '.join(arguments)})"


def _results(
    text: Emitted, outputs: Sequence[str], lifetimes: Lifetimes, *, detached: bool
) -> list[str]:
    results: list[str] = []
    handed_out: list[str] = []
    for name in outputs:
        word = text.word_for(name) if name else "None"
        if name and name not in text.variables and detached:
            results.append(f"clone({word})")
        elif name not in text.variables or not detached or lifetimes.is_exclusive(name, handed_out):
            results.append(word)
        else:
            others = dict.fromkeys((*sorted(lifetimes.inputs), *handed_out))
            owners = [text.variables[other] for other in others if other in text.variables]
            text.lines.append(f"    d{len(results)} = detach({', '.join([word, *owners])})")
            results.append(f"d{len(results)}")
        handed_out.append(name)
    return results
