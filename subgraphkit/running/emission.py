"""A plan as straight-line Python.

The session's inner loop is written out once. It has no dictionary of names and no loop over steps.
Every value is a local variable that dies after its last use. For one subgraph this is

    def execute(feeds):
        v0 = feeds["x"]
        if v0.__class__ is not ndarray or v0.dtype is not dtype_float: v0 = admit0(v0)
        v1, = run0((v0,))
        return [v1]

It keeps the lines of steps, so that a failure names its subgraph.
"""

import linecache
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import count
from types import FunctionType
from typing import Any, NamedTuple, cast

import numpy as np

from subgraphkit.backend.operator import ON_DEVICE, SubgraphOperator
from subgraphkit.planning import Plan, Step
from subgraphkit.running.checking import (
    Apart,
    SizeCheck,
    check_result,
    finite,
    look_for_nan,
    read_only,
)
from subgraphkit.running.devices import (
    HOST,
    left_on_device,
    placer,
    read_elsewhere,
    taken_on_device,
    to_host,
)
from subgraphkit.running.feeds import SymbolCheck, admit_input, check_names
from subgraphkit.types import DataType, TensorType, ValueType

_serial = count()


class Emitted(NamedTuple):
    """A compiled plan.

    Attributes:
        execute: Takes feeds by name, and per output a buffer, a ``Stay`` or None if ``buffered``;
            returns the outputs in order.
    """

    execute: Callable[..., list[Any]]
    source: str
    filename: str
    step_of_line: Mapping[int, int]

    def locate(self, error: BaseException) -> tuple[int, bool] | None:
        """Find the step an exception came from, and whether it came from inside the operator.

        Returns:
            None if it came from none of the steps but from the checks around them.
        """
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != self.filename:
            trace = trace.tb_next
        step = self.step_of_line.get(trace.tb_lineno) if trace is not None else None
        if trace is None or step is None:
            return None
        return step, trace.tb_next is not None

    def calling(self, operators: Mapping[int, Callable[..., Any]]) -> "Emitted":
        """Return the same code with others called in place of operators, by step."""
        # The names around it keep the function alive to which the kept text belongs.
        names = {f"run{index}": call for index, call in operators.items()}
        function = cast(FunctionType, self.execute)
        around = {**function.__globals__, **names}
        return self._replace(execute=FunctionType(function.__code__, around))


class _Writer:
    """Collects lines and the objects they refer to."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {"ndarray": np.ndarray}
        self.locals: dict[str, str] = {}
        self.step_of_line: dict[int, int] = {}

    def line(self, text: str, step: int | None = None) -> None:
        self.lines.append(text)
        if step is not None:
            self.step_of_line[len(self.lines)] = step

    def local(self, value: str) -> str:
        return self.locals.setdefault(value, f"v{len(self.locals)}")


def emit(
    plan: Plan,
    *,
    defaults: Mapping[str, Any],
    constants: Mapping[str, Callable[[], Any]],
    run_of: Callable[[SubgraphOperator], Callable[..., Any]],
    wait: Callable[[Any], object] | None = None,
    buffered: bool = False,
) -> Emitted:
    """Write a plan out as one function and compile it.

    ``wait``: Called with the lock of an operator that is not thread-safe, before that is taken.
    """
    writer = _Writer()
    writer.line("def execute(feeds, buffers):" if buffered else "def execute(feeds):")
    if buffered:
        writer.names["place"] = placer(plan)
        writer.line("    buffers = place(buffers)")
    _write_inputs(writer, plan, defaults)
    options = _Options(run_of, wait, buffered, left_on_device(plan))
    for index, step in enumerate(plan.steps):
        _write_step(writer, plan, index, step, options)
    _write_return(writer, plan, constants, options)
    source = "\n".join(writer.lines) + "\n"
    filename = f"<subgraphkit plan {next(_serial)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    exec(compile(source, filename, "exec"), writer.names)  # noqa: S102 (our own text, see above)
    execute = writer.names.pop("execute")  # left in, it would keep itself and its operators alive
    weakref.finalize(execute, linecache.cache.pop, filename, None)
    return Emitted(execute, source, filename, writer.step_of_line)


class _Options(NamedTuple):
    run_of: Callable[[SubgraphOperator], Callable[..., Any]]
    wait: Callable[[Any], object] | None
    buffered: bool
    left: frozenset[str]


def _write_inputs(writer: _Writer, plan: Plan, defaults: Mapping[str, Any]) -> None:
    graph = plan.graph
    writer.names["check_names"] = lambda feeds: check_names(graph, feeds)
    if graph.inputs or graph.defaults:
        expected = f"len(feeds) != {len(graph.inputs)}"
        tests = [expected] if not graph.defaults else ["True"]
        tests += [f"{name!r} not in feeds" for name in graph.inputs]
        writer.line(f"    if {' or '.join(tests)}: check_names(feeds)")
    else:
        writer.line("    if feeds: check_names(feeds)")
    taken = taken_on_device(plan)
    for number, name in enumerate((*graph.inputs, *graph.defaults)):
        local, fed, admit = writer.local(name), f"feeds[{name!r}]", f"admit{number}"
        writer.names[admit] = admit_input(graph, name, on_device=name in taken)
        if name in graph.defaults:
            writer.names[f"default{number}"] = defaults[name]
            otherwise = f"{name!r} in feeds else default{number}"
            writer.line(f"    {local} = {admit}({fed}) if {otherwise}")
            continue
        writer.line(f"    {local} = {fed}")
        tests = _quick_tests(writer, local, graph.types.get(name))
        condition = f"if {' or '.join(tests)}: " if tests else ""
        writer.line(f"    {condition}{local} = {admit}({local})")
    _write_size_checks(writer, plan)


def _quick_tests(writer: _Writer, local: str, type_: ValueType | None) -> list[str]:
    """Return tests one of which is true unless the value is surely an array of this type."""
    if not isinstance(type_, TensorType) or type_.dtype is DataType.UNDEFINED:
        return []
    # NumPy keeps one dtype object per native type, so identity is the quick test for equality.
    dtype = f"dtype_{type_.dtype.name.lower()}"
    writer.names[dtype] = type_.dtype.numpy
    tests = [f"{local}.__class__ is not ndarray", f"{local}.dtype is not {dtype}"]
    if (shape := type_.shape) is None:
        return tests
    fixed = {axis: dim for axis, dim in enumerate(shape) if isinstance(dim, int)}
    if len(fixed) == len(shape):
        return [*tests, f"{local}.shape != {shape!r}"]
    sizes = [f"{local}.shape[{axis}] != {dim}" for axis, dim in fixed.items()]
    return [*tests, f"{local}.ndim != {len(shape)}", *sizes]


def _write_size_checks(writer: _Writer, plan: Plan) -> None:
    graph = plan.graph
    places: dict[str, list[tuple[str, int]]] = {}
    for name in graph.inputs:
        for axis, dim in enumerate(graph.shape(name) or ()):
            if isinstance(dim, str):
                places.setdefault(dim, []).append((name, axis))
    sizes = {
        symbol: [f"{writer.local(name)}.shape[{axis}]" for name, axis in at]
        for symbol, at in places.items()
    }
    check_symbols, check_sizes = SymbolCheck(graph, places), SizeCheck(graph, places)
    arrays = ", ".join(map(writer.local, graph.inputs))
    unequal = [f"{one} != {first}" for first, *others in sizes.values() for one in others]
    too_large = check_sizes.tests({symbol: first for symbol, (first, *_) in sizes.items()})
    if unequal:
        writer.names["check_symbols"] = check_symbols
        writer.line(f"    if {' or '.join(unequal)}: check_symbols({arrays})")
    if too_large:
        writer.names["check_sizes"] = check_sizes
        writer.line(f"    if {' or '.join(too_large)}: check_sizes({arrays})")


def _write_step(writer: _Writer, plan: Plan, index: int, step: Step, options: "_Options") -> None:
    subgraph = step.subgraph
    writer.names[f"run{index}"] = options.run_of(step.operator)
    arguments = _tuple(_arguments(writer, plan, step, options))
    if options.buffered or not options.left.isdisjoint(subgraph.outputs):
        writer.names["ON_DEVICE"] = ON_DEVICE
        arguments += f", {_buffers(plan, subgraph.outputs, options)}"
    indent = "    "
    if not step.operator.traits.thread_safe:
        writer.names[f"lock{index}"] = step.lock
        if options.wait is not None:
            writer.names["wait"] = options.wait
            writer.line(f"    wait(lock{index})", index)
        writer.line(f"    with lock{index}:")
        indent = "        "
    targets = ", ".join(writer.local(name) for name in subgraph.outputs)
    writer.line(f"{indent}{targets}, = run{index}({arguments})", index)
    if plan.graph.settings.checked:
        _write_checks(writer, index, step, options)
        # Buffers are handed out as they came.
        if not step.operator.traits.minds_memory and not options.buffered:
            writer.names[f"apart{index}"] = Apart(subgraph)
            read = _tuple([writer.local(name) for name in subgraph.inputs])
            writer.line(f"    apart{index}({read}, {_tuple(targets.split(', '))})", index)
    if step.drops:
        writer.line(f"    del {', '.join(writer.local(name) for name in step.drops)}")


def _arguments(writer: _Writer, plan: Plan, step: Step, options: "_Options") -> list[str]:
    inputs = step.subgraph.inputs
    # Only a binding can leave an output where this step does not read it.
    fetched = read_elsewhere(plan, step) if options.buffered else frozenset()
    guarded: Collection[str] = ()
    if not step.operator.traits.minds_memory:
        writer.names["read_only"] = read_only
        lent = {*plan.graph.inputs, *plan.graph.defaults}
        guarded = {name for name in inputs if name in lent or name not in step.drops}
    found = []
    for name in inputs:
        value = writer.local(name)
        value = f"to_host({value})" if name in fetched else value
        found.append(f"read_only({value})" if name in guarded else value)
    return found


def _write_checks(writer: _Writer, index: int, step: Step, options: "_Options") -> None:
    subgraph = step.subgraph
    may_stay = options.buffered and step.operator.device != HOST
    for place, (name, type_) in enumerate(
        zip(subgraph.outputs, subgraph.output_types, strict=True)
    ):
        local = writer.local(name)
        tests = _quick_tests(writer, local, type_)
        if tests and isinstance(type_, TensorType) and name not in options.left:
            check = f"check{index}_{place}"
            writer.names[check] = partial(check_result, subgraph, name, type_, may_stay=may_stay)
            writer.line(f"    if {' or '.join(tests)}: {check}({local})")


def _buffers(plan: Plan, outputs: Sequence[str], options: "_Options") -> str:
    targets = dict.fromkeys(options.left, "ON_DEVICE")  # which ``place`` says of outputs as well
    if options.buffered:
        targets |= {name: f"buffers[{place}]" for place, name in enumerate(plan.graph.outputs)}
    if targets.keys().isdisjoint(outputs):
        return "None"
    return _tuple([targets.get(name, "None") for name in outputs])


def _tuple(items: Sequence[str]) -> str:
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"


def _write_return(
    writer: _Writer, plan: Plan, constants: Mapping[str, Callable[[], Any]], options: "_Options"
) -> None:
    made = {name for step in plan.steps for name in step.subgraph.outputs}
    results: list[str] = []
    writer.names |= {"copied": _copy_value, "to_host": to_host}
    for number, name in enumerate(plan.graph.outputs):
        if name in constants and name not in made:
            writer.names[f"constant{number}"] = constants[name]
            results.append(f"constant{number}()")
        elif name in made and name not in plan.graph.outputs[:number]:
            # A binding says which outputs are fetched.
            stays = name not in options.left or options.buffered
            results.append(writer.local(name) if stays else f"to_host({writer.local(name)})")
        else:
            # An input that is an output as well, or an output named twice: no two arrays that the
            # caller holds may be the same.
            results.append(f"copied(to_host({writer.local(name)}))")
    returned = f"[{', '.join(results)}]"
    if plan.graph.settings.nan_policy == "error":
        writer.names["finite"] = partial(finite, plan.graph.outputs)
        returned = f"finite({returned})"
    elif plan.graph.settings.nan_policy == "warn" and plan.partitioning.passes.claims:
        writer.names["unseen"] = unseen = [True]
        writer.names["look"] = partial(look_for_nan, plan.partitioning, unseen)
        returned = f"look(feeds, {returned}) if unseen else {returned}"
    writer.line(f"    return {returned}")


def _copy_value(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.copy()
    return [_copy_value(item) for item in value] if isinstance(value, list) else value


def pick_results(results: Sequence[Any], places: Sequence[int]) -> list[Any]:
    """Return results by place; one that is asked for twice is copied the second time."""
    seen: set[int] = set()
    chosen = []
    for place in places:
        chosen.append(_copy_value(results[place]) if place in seen else results[place])
        seen.add(place)
    return chosen
