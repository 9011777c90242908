"""Offers for who takes nothing of the tables: the official node cases of ONNX, as lines of one."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper, printer

from subgraphkit.testing.draws import DRAWING
from subgraphkit.testing.official_cases import OfficialCase, official_cases
from subgraphkit.testing.operator_variants import OperatorVariant
from subgraphkit.testing.probe_models import Ask, ProbeModel, taken_whole

_PER_OPERATOR: Final = 2
_MOST_VALUES: Final = 256
"""How large a constant may be that is written into a line."""
_ENOUGH: Final = 8
_WRITTEN: Final = frozenset(
    map(onnx.AttributeProto.AttributeType.Value, ("INT", "INTS", "FLOAT", "FLOATS", "STRING"))
)
"""Attributes in whose text is nothing that looks like an argument."""


def official_models_claimed(ask: Ask) -> tuple[ProbeModel, ...]:
    """Find out which operators a backend takes as the official cases use them.

    Their first input is fed, and the others are constants. Left out are those that onnx's own
    implementation cannot compute so, such as what wants an index for its first input.
    """
    found = []
    for offer in taken_whole(ask, _official_offers()):
        if _can_be_compared(offer):
            found.append(offer)
        if len(found) == _ENOUGH:
            break
    return tuple(found)


def _can_be_compared(offer: ProbeModel) -> bool:
    model = offer.model()
    try:
        (y,) = model.expected(model.feeds())
    except Exception:  # noqa: BLE001 (onnx's implementations raise anything)
        return False
    return bool(np.isfinite(y.astype(np.float64)).any())


def _official_offers() -> Iterator[ProbeModel]:
    seen: Counter[str] = Counter()
    for case in official_cases("node"):
        if seen[case.operator] < _PER_OPERATOR and case.data_count == 1 and not case.is_expanded:
            offer = _offer(case)
            if offer is not None and offer.is_valid():
                seen[case.operator] += 1
                yield offer


def _offer(case: OfficialCase) -> ProbeModel | None:
    """Write a case as a line of a table; None if it is none."""
    (given,) = case.model.graph.node
    ((inputs, _),) = case.data_sets()
    arrays = dict(zip(case.fed, inputs, strict=False))
    first, *others = given.input or [""]
    x = arrays.get(first)
    plain = not case.domain and case.operator not in DRAWING
    plain = plain and all(map(_is_plain, arrays.values()))
    plain = plain and all(one.type in _WRITTEN for one in given.attribute)
    if not plain or x is None or not x.ndim or first in others:
        return None
    rest = [name and _constant(f"w{at}", arrays.get(name)) for at, name in enumerate(others)]
    if None in rest:
        return None
    node = onnx.NodeProto()
    node.CopyFrom(given)
    node.output[:] = [name and f"r{place}" for place, name in enumerate(given.output)]
    written = printer.to_text(node).strip()
    dims = ",".join(map(str, x.shape))
    arguments = ", ".join((f"x[{dims}]", *(one or '""' for one in rest)))
    versions = {one.domain: one.version for one in case.model.opset_import}
    text = f"{written[: written.rindex('(')]}({arguments})"
    form = OperatorVariant("official", "near", _type(x), text, versions[""])
    return ProbeModel(form, case.name.removeprefix("test_"), _type(x), "")


def _is_plain(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.dtype.kind in "fiub"


def _constant(name: str, array: Any) -> str | None:
    if array is None or not array.size or array.size > _MOST_VALUES:
        return None
    is_whole = array.dtype.kind != "f" or array.dtype.itemsize < np.float32().itemsize
    numbers = array.astype(np.int64 if is_whole else array.dtype).ravel().tolist()
    if not np.array_equal(array.ravel(), numbers):  # halves are written as whole numbers
        return None
    dims, values = ",".join(map(str, array.shape)), ",".join(map(repr, numbers))
    return f"{name}:{_type(array)}![{dims}]={{{values}}}"


def _type(array: Any) -> str:
    code = helper.np_dtype_to_tensor_dtype(array.dtype)
    return str(onnx.TensorProto.DataType.Name(code)).lower()
