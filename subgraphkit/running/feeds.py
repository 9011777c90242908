"""The door: feeds are checked against the model before any backend sees them.

This is the slow way, which converts or explains. A right array passes a test in the session's own
code (see ``emission``) in well under a microsecond. It also describes inputs and outputs, and finds
the places of those asked for.
"""

import difflib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from subgraphkit.binding import BoundModel, renaming
from subgraphkit.errors import InputError, SubgraphkitWarning
from subgraphkit.ir import BoundGraph
from subgraphkit.running.devices import DeviceBuffer, is_on_device
from subgraphkit.running.messages import no_output, not_a_list, unfit
from subgraphkit.texts import list_texts, printable
from subgraphkit.types import (
    DataType,
    Dim,
    OptionalType,
    SequenceType,
    Shape,
    TensorType,
    ValueType,
    fits,
)

_SHOWN = 6


@dataclass(frozen=True, slots=True)
class NodeArg:
    """An input or output of a session, as ONNX Runtime's class of that name describes it.

    Attributes:
        name: Name of the value.
        shape: One entry per axis: an int, the name of a symbol, or None. Empty for scalars, for
            values that are no tensors, and for an unknown rank.
        type: Type as text, such as ``tensor(float)``.
    """

    name: str
    shape: list[Dim]
    type: str


def node_args(graph: BoundModel, names: tuple[str, ...]) -> list[NodeArg]:
    """Describe values by name; dimensions have the names that the file declares."""
    declared = graph.model.graph.types
    return [_node_arg(graph, name, declared.get(name)) for name in names]


def places_of(names: Sequence[str], outputs: Mapping[str, int]) -> list[int]:
    """Return the places of outputs by name; InputError (SGK143) for one text, or none of a name."""
    if isinstance(names, str | Mapping):
        raise not_a_list(names)
    try:
        return [outputs[name] for name in names]
    except KeyError as error:
        raise no_output(error.args[0], outputs) from None


def model_in_words(kind: str, graph: BoundGraph, summary: str, state: str) -> str:
    """Return a session in three lines: the model and its backends, its inputs, its outputs.

    ``state``: A word to add, such as "closed", or nothing.
    """
    head = ", ".join(filter(None, (repr(graph.name), summary, state)))
    lines = [f"{kind}({head})"]
    for what, names in (("in", graph.inputs), ("out", graph.outputs)):
        shown = [f"{name} {graph.types.get(name, '?')}" for name in names]
        lines.append(f"  {what}: {printable(list_texts(shown, _SHOWN))}")
    return "\n".join(lines)


def _node_arg(graph: BoundModel, name: str, declared: ValueType | None) -> NodeArg:
    type_ = graph.types.get(name)
    shape: list[Dim] = []
    if isinstance(type_, TensorType):
        stated = declared.shape if isinstance(declared, TensorType) else None
        found = type_.shape or (None,) * len(stated or ())
        shape = list(map(_shown_dim, found, stated or (None,) * len(found)))
        if stated is not None and len(stated) != len(found):
            shape = list(stated)
        elif graph.input_shapes:  # the caller's shapes may have other names
            shape = [b if _is_named(b) else s for s, b in zip(shape, found, strict=True)]
    return NodeArg(name, shape, type_.onnx_name if type_ is not None else "")


def _shown_dim(found: Dim, stated: Dim) -> Dim:
    """Return a size that is known; else the name that the file has for it, if it has one."""
    is_known = isinstance(found, int) or (stated is None and _is_named(found))
    return found if is_known else stated


def _is_named(dim: Dim) -> bool:
    """Say whether a dimension has a name that the inference of shapes did not make up."""
    return isinstance(dim, str) and not dim.startswith("unk__")


Admit = Callable[[Any], Any]
"""Takes a feed and returns the operators' input, or raises ``InputError``."""


def admit_input(graph: BoundGraph, name: str, *, on_device: bool = False) -> Admit:
    """Return the slow, explaining door of one input.

    Arrays pass as they are when dtype and shape fit, also when they are read-only or not
    contiguous. Foreign byte order is converted; Python numbers and lists become arrays of the
    model's dtype; objects that speak ``__array__`` or DLPack are taken over. A dtype is never cast.
    The returned function raises InputError (SGK140, SGK141, SGK145).

    ``on_device``: Whether all its readers take arrays on their device; these pass unchecked.
    """
    admit = partial(_admit, name, graph.types.get(name))
    return partial(_admit_remote, admit) if on_device else admit


def check_names(graph: BoundGraph, feeds: Mapping[str, Any]) -> None:
    """Check that every input is fed and nothing else is; else InputError (SGK142)."""
    missing = [name for name in graph.inputs if name not in feeds]
    known = (*graph.inputs, *graph.defaults)
    unknown = [name for name in feeds if name not in known]
    if not missing and not unknown:
        return
    parts = []
    if missing:
        parts.append("missing: " + ", ".join(map(repr, missing)))
    if unknown:
        parts.append("not inputs of the model: " + ", ".join(map(repr, unknown)))
    close = difflib.get_close_matches(str(unknown[0]), known, 1) if unknown else []
    suggestion = f"Did you mean {close[0]!r}? " if close else ""
    raise InputError(
        "SGK142",
        "the feeds do not fit the model's inputs; " + "; ".join(parts),
        hint=f"{suggestion}The model's inputs: "
        + (", ".join(f"{name!r} {graph.types.get(name)}" for name in known) or "none")
        + ".",
        missing=tuple(missing),
        unknown=tuple(unknown),
    )


class SymbolCheck:
    """Compares the sizes of dimensions that share a name.

    Exporters give one name to several dimensions, and compiled code relies only on sizes that are
    numbers. So differing sizes run, with one warning, unless the model was bound ``strict``.

    Args:
        graph: The bound graph.
        symbols: Names, and the places ``(input, axis)`` where each is found.
    """

    def __init__(self, graph: BoundModel, symbols: Mapping[str, Sequence[tuple[str, int]]]) -> None:
        self._graph = graph
        self._symbols = dict(symbols)

    def __call__(self, *arrays: Any) -> None:
        """Check the admitted inputs; if strict, InputError (SGK140) if sizes of a name differ."""
        shapes = dict(zip(self._graph.inputs, (array.shape for array in arrays), strict=True))
        for symbol, places in tuple(self._symbols.items()):
            (name, axis), size = places[0], shapes[places[0][0]][places[0][1]]
            for other, at in places[1:]:
                if shapes[other][at] == size:
                    continue
                error = InputError(
                    "SGK140",
                    f"dimension {symbol!r} is {size} in input {name!r} (axis {axis}) but "
                    f"{shapes[other][at]} in input {other!r} (axis {at})",
                    hint="If they are different dimensions, bind with "
                    f"{renaming(self._graph, symbol, places)}.",
                )
                if self._graph.settings.strict:
                    raise error
                self._symbols.pop(symbol, None)  # once is enough
                warnings.warn(SubgraphkitWarning(str(error)), stacklevel=4)
                break


def _admit_remote(admit: Admit, value: Any) -> Any:
    if not is_on_device(value):
        return admit(value)
    if not hasattr(value, "shape"):
        # The protocol asks for no more than a description.
        return DeviceBuffer(value.__cuda_array_interface__, owner=value)
    return value


def _admit(name: str, type_: ValueType | None, value: Any) -> Any:
    if isinstance(type_, TensorType):
        return _admit_tensor(name, type_, value)
    if isinstance(type_, SequenceType):
        return _admit_sequence(name, type_, value)
    if isinstance(type_, OptionalType) and value is not None:
        return _admit(name, type_.element, value)
    return value


def _admit_tensor(name: str, type_: TensorType, value: Any) -> npt.NDArray[Any]:
    array = _as_array(name, type_, value)
    if type_.dtype is not DataType.UNDEFINED:
        array = _fit_dtype(name, type_, array)
    if type_.shape is not None and not fits(array.shape, type_.shape):
        fixed = "This size is fixed: in the model file, or by the shapes it was opened for."
        raise InputError(
            "SGK140",
            f"input {name!r} has shape {array.shape}; the model needs "
            f"{_shape_text(type_.shape)}{_difference(array.shape, type_.shape)}",
            hint=fixed if array.ndim == len(type_.shape) else "x[None] adds an axis in front.",
            input=name,
        )
    return array


def _as_array(name: str, type_: TensorType, value: Any) -> npt.NDArray[Any]:
    try:
        if isinstance(value, np.ma.MaskedArray):
            raise TypeError("its mask would be lost")  # noqa: TRY301 (worded below)
        if isinstance(value, np.ndarray):
            # Subclasses such as np.matrix multiply and reshape in ways of their own.
            return np.asarray(value)
        if isinstance(value, bool | int | float | complex | str | list | tuple):
            return _from_python(type_.dtype, value)
        if hasattr(value, "__array__") or hasattr(value, "__array_interface__"):
            return np.asarray(value)
        if hasattr(value, "__dlpack__"):
            return np.from_dlpack(value)
    except Exception as error:
        raise _unreadable(name, type_, value, f": {type(error).__name__}: {error}") from error
    where = ": it is on a device, and not all who read the input run there"
    raise _unreadable(name, type_, value, where if is_on_device(value) else "")


def _from_python(wanted: DataType, value: Any) -> npt.NDArray[Any]:
    """Make an array of Python values, which have no dtype but must not lose anything."""
    natural = np.asarray(value)
    if wanted is DataType.UNDEFINED:
        return natural
    given = DataType.of(natural.dtype)
    if natural.size and given is not wanted and not _widens(given, wanted):
        raise TypeError(f"it holds {given.label}, which is never cast in silence")
    return np.asarray(value, dtype=wanted.numpy)


def _widens(given: DataType, wanted: DataType) -> bool:
    """Say whether numbers of one kind are numbers of the other: bool, int, float, complex."""
    if DataType.STRING in (given, wanted):
        return False
    return _breadth(given) <= _breadth(wanted)


def _breadth(dtype: DataType) -> int:
    if dtype is DataType.BOOL:
        return 0
    if "INT" in dtype.name:
        return 1
    return 3 if dtype.name.startswith("COMPLEX") else 2


def _unreadable(name: str, type_: ValueType, value: Any, why: str) -> InputError:
    return unfit(
        f"input {name!r} needs {type_}; a {type(value).__name__} cannot be read as that{why}",
        hint="Pass a NumPy array, or an object that speaks __array__ or DLPack.",
        input=name,
    )


def _fit_dtype(name: str, type_: TensorType, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    wanted = type_.dtype.numpy
    if array.dtype == wanted:
        return array
    try:
        given = DataType.of(array.dtype)
    except KeyError:
        given = DataType.UNDEFINED
    if given is type_.dtype:
        return array.astype(wanted)
    raise InputError(
        "SGK141",
        f"input {name!r} has dtype {array.dtype}; the model needs {type_.dtype}",
        hint=f"Pass x.astype({type_.dtype.label!r}); subgraphkit never casts in silence.",
        input=name,
    )


def _shape_text(shape: Shape) -> str:
    inner = ", ".join("?" if dim is None else str(dim) for dim in shape)
    return f"({inner},)" if len(shape) == 1 else f"({inner})"


def _difference(shape: tuple[int, ...], declared: Shape) -> str:
    if len(shape) != len(declared):
        return f": rank {len(shape)} instead of {len(declared)}"
    axis = next(i for i, want in enumerate(declared) if isinstance(want, int) and shape[i] != want)
    return f": dimension {axis} differs"


def _admit_sequence(name: str, type_: SequenceType, value: Any) -> Any:
    if not isinstance(value, list | tuple):
        raise _unreadable(name, type_, value, "")
    element = type_.element
    return [_admit(f"{name}[{i}]", element, item) for i, item in enumerate(value)]
