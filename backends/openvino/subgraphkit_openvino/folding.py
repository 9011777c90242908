"""Numbers that OpenVINO computes of stored ones once, and does not store."""

from typing import Any, Final

from subgraphkit_openvino import library

_FOLDED: Final = frozenset(
    {"Add", "Broadcast", "Concat", "Constant", "Convert", "Divide", "Gather", "Multiply"}
    | {"Reshape", "Select", "Split", "Subtract", "Transpose", "Unsqueeze"}
)
"""Operations that it stores the results of, and among them those that weights are kept small by."""

_READ: Final = frozenset({"f16", "f32"})
"""Types of numbers that are written over, and that NumPy reads."""


def compute_stored(model: Any) -> None:
    """Store what is computed of stored numbers; an ``openvino.Model`` is changed in place.

    OpenVINO (2026.4) computes some of it before the first run, and what follows writes over it.
    Places of what is not 0 have no size until their number is known: that is stored first.
    """
    ops, (found, shapes, is_later) = library.runtime().opset13, _find(model)
    if found:
        for op in shapes:
            op.output(0).replace(ops.constant([*op.get_input_shape(0)]).output(0))
        inner, exact = library.runtime().Model(found, []), {"INFERENCE_PRECISION_HINT": "f32"}
        if any(op.get_type_name() == "FakeQuantize" for op in inner.get_ops()):
            exact |= library.exact_bytes(is_needed=True)  # or scales of what is averaged move
        made = library.core().compile_model(inner, "CPU", exact)([])
        for value, numbers in zip(found, made.values(), strict=True):
            value.replace(ops.constant(numbers).output(0))
    if is_later:
        compute_stored(model)


def _find(model: Any) -> tuple[list[Any], list[Any], bool]:
    """Return what is to be stored, known shapes, and whether more follows once that is stored."""
    stored, found, shapes, is_later = set[str](), list[Any](), list[Any](), False
    for op in model.get_ordered_ops():
        name, places = op.get_type_name(), range(op.get_input_size())
        made_of = (op.input_value(place).get_node().get_name() for place in places)
        if name == "ShapeOf" and op.get_input_partial_shape(0).is_static:
            shapes.append(op)
        elif name != "Constant" and not (places and all(one in stored for one in made_of)):
            continue
        if name == "NonZero" and op.input_value(0).get_node().get_type_name() != "Constant":
            found, is_later = [*found, op.input_value(0)], True
            continue
        stored.add(op.get_name())
        kind = name if name in _FOLDED else op.get_output_element_type(0).get_type_name()
        found += op.outputs() if kind in _READ or name.startswith(("Is", "NonZero")) else []
    return found, shapes, is_later
