"""Search for the first node that makes NaN or infinity of inputs that have none."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from subgraphkit.binding import BoundModel, bind
from subgraphkit.comparing.verification import admit_inputs, selection_of
from subgraphkit.ir import Node
from subgraphkit.onnx_io import Model, ModelSource
from subgraphkit.running import Session
from subgraphkit.running.tapping import tap_groups, tapped_session
from subgraphkit.texts import printable
from subgraphkit.types import DataType, TensorType

_Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class NotFinite:
    """Where a run stops being finite.

    Attributes:
        backend: The selection that ran the model.
        outputs: The outputs of the model that are not finite everywhere.
        node: Label of the first node that makes NaN of inputs without NaN, or infinity of finite
            ones. Empty if none does.
        subgraph: The subgraph it is in.
        kind: ``NaN`` or ``infinity``; empty if no node makes either.
        reads: What it reads, such as ``x float32[2,3]: -1 .. 2, 1 NaN``: the least and the largest
            finite number, of complex ones their magnitudes, and how many are not finite.
        makes: What it makes, in the same way.
    """

    backend: str
    outputs: tuple[str, ...] = ()
    node: str = ""
    subgraph: str = ""
    kind: str = ""
    reads: tuple[str, ...] = ()
    makes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The finding, in a few lines for people."""
        if self.node:
            where = f"{self.node} in {self.subgraph}"
            lines = [f"{self.backend}: {where} is the first to make {self.kind}"]
            lines += (f"  reads {one}" for one in self.reads)
            return "\n".join([*lines, *(f"  makes {one}" for one in self.makes)])
        if self.outputs:
            return (
                f"{self.backend}: not finite: {', '.join(self.outputs)}; but no node makes it of "
                "finite inputs when every value is looked at. It is fed, a constant, or made where "
                "nodes are fused."
            )
        return f"{self.backend}: no node makes NaN or infinity."

    def __repr__(self) -> str:
        """Render as ``NotFinite('numpy: no node makes NaN or infinity.')``."""
        return f"NotFinite({self.text.splitlines()[0]!r})"


def find_not_finite(
    source: ModelSource | Model, feeds: Mapping[str, Any], backend: Any = None, **settings: Any
) -> NotFinite:
    """Run a model, every value looked at, and find the first node that makes NaN or infinity.

    Inputs and constants may be either. A mask of ``-inf`` is no fault, and NaN that a node makes of
    it is. Values are looked at in runs of about 1 GiB each. A backend cannot fuse a value away that
    is looked at, so the run differs a little from a session's.

    Args:
        source: The model, as for ``InferenceSession``.
        feeds: Arrays by input name.
        backend: The backends, in order; None for the configured ones.
        **settings: What else ``bind`` takes.

    Raises:
        SubgraphkitError: Whatever a step of the road raises.
    """
    bound = bind(source, backend=backend, **settings | {"on_run_error": "raise", "checked": False})
    with Session(bound) as session:
        home_of = session.partitioning.home_of
        results = dict(zip(bound.outputs, session.run(None, feeds), strict=True))
    wrong = tuple(name for name, value in results.items() if any(_marks(value)))
    selection = selection_of(bound)
    if (found := _first(bound, feeds)) is None:
        return NotFinite(selection, wrong)
    node = Node(bound, found)
    read = tuple(dict.fromkeys(filter(None, bound.read_by(found))))
    known = admit_inputs(bound, feeds)
    known |= {name: bound.constants[name].array() for name in read if name in bound.constants}
    inner = [name for name in (*read, *filter(None, node.outputs)) if name not in known]
    values = known | _tap_values(bound, inner, feeds)
    made = [name for name in node.outputs if name]
    return NotFinite(
        selection,
        wrong,
        node.label,
        home_of(found).id,
        "NaN" if any(_marks(values[name])[0] for name in made) else "infinity",
        tuple(_descriptions(read, values)),
        tuple(_descriptions(made, values)),
    )


def _first(bound: BoundModel, feeds: Mapping[str, Any]) -> int | None:
    marks = {name: _marks(stored.array()) for name, stored in bound.constants.items()}
    marks |= {name: _marks(value) for name, value in admit_inputs(bound, feeds).items()}
    made = [
        name
        for node in bound.order
        for name in bound.table.outputs[node]
        if name and name not in bound.constants and _is_float(bound, name)
    ]
    for group in tap_groups(bound, made, lambda name: (name,)):
        marks |= {name: _marks(value) for name, value in _tap_values(bound, group, feeds).items()}
        for name in group:
            node = bound.producers[name]
            read = [marks.get(one, (False, False)) for one in bound.read_by(node)]
            nan, infinite = marks[name]
            has_nan = any(one[0] for one in read)
            if (nan and not has_nan) or (infinite and not any(map(any, read))):
                return node
    return None


def _tap_values(bound: BoundModel, names: list[str], feeds: Mapping[str, Any]) -> dict[str, Any]:
    if not names:
        return {}
    with tapped_session(bound, names) as session:
        return dict(zip(names, session.run(None, feeds), strict=True))


def _is_float(bound: BoundModel, name: str) -> bool:
    type_ = bound.types.get(name)
    label = type_.dtype.label if isinstance(type_, TensorType) and type_.dtype else ""
    return label.startswith(("float", "bfloat", "complex"))


def _marks(value: Any) -> tuple[bool, bool]:
    numbers = _numbers(value)
    return bool(np.isnan(numbers).any()), bool(np.isinf(numbers).any())


def _numbers(value: Any) -> _Array:
    """Return the numbers of a tensor that may be something else than finite."""
    if not isinstance(value, np.ndarray) or value.dtype.kind in "iubOUSMm":
        return np.empty(0)
    return value if value.dtype.kind in "fc" else value.astype(np.float32)


def _descriptions(names: Iterable[str], values: Mapping[str, Any]) -> Iterator[str]:
    for name in names:
        value = values.get(name)
        if not isinstance(value, np.ndarray) or value.dtype.kind in "OUSMm":
            continue
        numbers = value if value.dtype.kind in "iub" else _numbers(value)
        finite = numbers[np.isfinite(numbers)]
        finite = np.abs(finite) if finite.dtype.kind == "c" else finite
        text = f"{finite.min():.6g} .. {finite.max():.6g}" if finite.size else "nothing finite"
        counts = {"NaN": np.isnan(numbers).sum(), "infinite": np.isinf(numbers).sum()}
        more = "".join(f", {count:,} {kind}" for kind, count in counts.items() if count)
        type_ = f"{DataType.of(value.dtype).label}[{','.join(map(str, value.shape))}]"
        yield f"{printable(name)} {type_}: {text}{more}"
