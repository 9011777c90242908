"""Questions about the operations of a model, which lead from one to what it reads or is read by."""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import wraps
from typing import Any, Final

import numpy as np

from subgraphkit_openvino import library

_PARTING: Final = {"Slice", "Split", "VariadicSplit"}


def operations(model: Any) -> Iterator[Any]:
    """Go through the operations of a model and of the branches in it."""
    for op in model.get_ops():
        yield op
        if op.get_type_name() == "If":
            for branch in range(2):
                yield from operations(op.get_function(branch))


def each(*names: str) -> Callable[[Callable[[Any, Any], None]], Callable[[Any], None]]:
    """Decorate a change of one operation, so that it changes all of these names in a model."""

    def rewriting(change: Callable[[Any, Any], None]) -> Callable[[Any], None]:
        @wraps(change)
        def rewrite(model: Any) -> None:
            for op in operations(model):
                if op.get_type_name() in names:
                    change(op, library.runtime().opset13)

        return rewrite

    return rewriting


def readers(op: Any) -> list[Any]:
    """Return the operations that read one."""
    return [target.get_node() for port in op.outputs() for target in port.get_target_inputs()]


def follows(value: Any, ends: Collection[str], between: Collection[str] | None = None) -> Any:
    """Return the operation that made a value, which was changed element by element at most since.

    ``ends``: What the name of that operation may contain.
    ``between``: Operations of one operand, and those that resize, that may follow; None for any.
    """
    op = value.get_node()
    while not any(end in (name := op.get_type_name()) for end in ends):
        is_passed = between is None or name in between or "auto_broadcast" in op.get_attributes()
        made = [one for one in op.input_values() if one.get_node().get_type_name() != "Constant"]
        shape, resizes = op.get_output_partial_shape(0), name == "Interpolate"
        read = [one for one in made if resizes or one.get_partial_shape() == shape]
        if not read or not is_passed:
            return None
        op = read[0].get_node()
    return op


def grows(op: Any, end: Any) -> bool:
    """Say whether what is computed is repeated, or gets further axes, because of a stored value."""
    nodes = [value.get_node().get_type_name() for value in op.input_values()]
    read, made = end.get_partial_shape(), op.get_output_partial_shape(0)
    if nodes[end.get_index()] == "Constant" or "Constant" not in nodes or made.rank.is_dynamic:
        return False
    pairs = zip([*read][::-1], [*made][::-1], strict=False)
    return len(read) < len(made) or any(old == 1 and new != 1 for old, new in pairs)


def is_scaled_away(op: Any, end: Any) -> bool:
    """Say whether a value is divided by a stored 0, or times infinity."""
    name, place = op.get_type_name(), end.get_index()
    scales = name == "Multiply" or (name, place) == ("Divide", 0)
    other = op.input_value(1 - place) if scales else end.get_source_output()
    if other.get_node().get_type_name() != "Constant" or not other.get_element_type().is_real():
        return False
    factor = other.get_node().get_data(dtype=np.float32)  # or bfloat16 is read as float16
    return scales and not (factor.all() if name == "Divide" else np.isfinite(factor).all())


def mixed_parts(op: Any) -> Sequence[Any]:
    """Return what is put together if convolved parts of a value are, and not all in their order."""
    makers = [value.get_node() for value in op.input_values()]
    parts = [one.input_value(0) for one in makers if one.get_type_name() == "Convolution"]
    if all(one.get_node().get_type_name() not in _PARTING for one in parts):
        return ()
    is_whole = len(parts) == len(makers) and parts == parts[0].get_node().outputs()
    axis = op.get_attributes()["axis"] % len(op.get_output_partial_shape(0))
    return () if is_whole and axis == 1 else op.inputs()


def joins_row(op: Any, end: Any) -> bool:
    """Say whether what is added follows a convolution of one channel of what may be one row."""
    is_sum = op.get_type_name() in {"Add", "Subtract"} and end.get_partial_shape().is_dynamic
    maker: Any = follows(end.get_source_output(), ("Convolution",), ()) if is_sum else None
    shapes = [[*maker.get_input_partial_shape(at)] for at in range(2)] if maker else []
    sizes = [size for several in shapes[:1] for size in (shapes[1][1], *several[2:-1])]
    return bool(sizes) and all(size.is_dynamic or size == 1 for size in sizes)
