"""The messages of serving: of a protocol that is broken, and of what cannot be served."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import subgraphkit as sk
from subgraphkit.serving import oip
from subgraphkit.serving.models import Models
from subgraphkit.serving.rows import Rows
from subgraphkit.serving.triton import export_triton
from tests.models import LINEAR, parsed

_SHORT = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[2,3],"data":[1,2]}]}'


def _rows(**words: Any) -> Rows:
    return Rows(sk.InferenceSession(parsed(LINEAR), "numpy"), **words)


MESSAGES: dict[str, Callable[[], object]] = {
    "SGK340_no_column": lambda: _rows()({"id": np.zeros(2), "w": np.zeros((2, 3), np.float32)}),
    "SGK340_one_name": lambda: _rows(keep=["y"]),
    "SGK341_no_model": lambda: Models().find(),
    "SGK343_too_few_values": partial(oip.decode_request, _SHORT),
    "SGK343_half_precision": partial(oip.decode_request, _SHORT.replace(b"FP32", b"FP16")),
    "SGK345_name": partial(export_triton, None, "models", name="a/b"),
    "SGK344_not_a_number": partial(
        oip.encode_response, oip.InferenceRequest({}), {"y": np.float32([np.nan])}, "m"
    ),
}
