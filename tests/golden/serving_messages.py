"""The messages of serving: of a protocol that is broken, and of what cannot be served."""

from collections.abc import Callable
from functools import partial

import numpy as np

from subgraphkit.serving import oip

_SHORT = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[2,3],"data":[1,2]}]}'

MESSAGES: dict[str, Callable[[], object]] = {
    "SGK343_too_few_values": partial(oip.decode_request, _SHORT),
    "SGK343_half_precision": partial(oip.decode_request, _SHORT.replace(b"FP32", b"FP16")),
    "SGK344_not_a_number": partial(
        oip.encode_response, oip.InferenceRequest({}), {"y": np.float32([np.nan])}, "m"
    ),
}
