"""The engine cache with a real library: OpenVINO's compiled models, stored and restored."""

from typing import Any

import numpy as np
import pytest

import subgraphkit as sk
from tests.models import parsed
from tests.unit.compiling.cache_checks import EXPECTED
from tests.unit.compiling.conftest import LINEAR
from tests.unit.compiling.test_cache_keys import renamed

pytest.importorskip("openvino", reason="openvino is not installed")
pytest.importorskip("subgraphkit_openvino", reason="subgraphkit-openvino is not installed")

X = np.arange(6, dtype=np.float32).reshape(3, 2) - 2


def computed(model: Any, x: Any, **shapes: int) -> tuple[Any, int, int]:
    """Return the first output, and how many of OpenVINO's subgraphs were restored."""
    partitioning = sk.partition(sk.bind(sk.load(model), shapes, backend="openvino"))
    operators = sk.compile_subgraphs(partitioning)
    with sk.Session(sk.plan(partitioning, operators)) as session:
        result = session.run(None, {session.get_inputs()[0].name: x})[0]
    mine = [one.id for one in operators.partitioning.subgraphs if one.backend == "openvino"]
    return result, len(operators.restored.intersection(mine)), len(mine)


@pytest.mark.parametrize("shapes", [{"N": 3}, {}], ids=["static", "dynamic"])
def test_a_compiled_model_is_restored_also_under_other_names(shapes: dict[str, int]) -> None:
    model = parsed(LINEAR)
    first, none, count = computed(model, X, **shapes)
    again, restored, _ = computed(model, X, **shapes)
    assert (none, restored) == (0, count)
    other = renamed(model, "z")
    elsewhere, shared, _ = computed(other, X, **{f"z{name}": n for name, n in shapes.items()})
    assert shared == count
    for result in (first, again, elsewhere):
        np.testing.assert_allclose(result, EXPECTED, rtol=1e-5)
