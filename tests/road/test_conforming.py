"""What the kit asks of every operator: whose memory is whose, threads, shapes, weights, engines."""

from fnmatch import fnmatch
from typing import Final

import pytest

from subgraphkit.testing import Outcome, Subject
from subgraphkit.testing.execution import carry_out
from subgraphkit.testing.levels import cases_of_level

_ASKED: Final = (
    "L1/operator/*", "L5/runs/*", "L5/threads/one_session", "L5/io_binding/*", "L5/feeds/*",
    "L5/shapes/*", "L5/errors/*", "L6/restored_*", "L6/stored_*", "L6/*weights*", "L6/damaged/*",
)  # fmt: skip
_FINE: Final = {Outcome.RIGHT, Outcome.UNCLAIMED, Outcome.REFUSED, Outcome.PASSED, Outcome.SKIP}


@pytest.mark.parametrize("backend", ["numpy", "onednn", "onnxruntime", "tvm"])
def test_operators_of_a_backend_do_as_the_contract_says(backend):
    pytest.importorskip(f"subgraphkit_{backend}")
    subject = Subject(backend)
    found = [
        carry_out(case, subject)
        for level in ((1, 6) if backend == "numpy" else (1, 5, 6))  # which is in its own tests
        for name, case in cases_of_level(level, subject).items()
        if any(fnmatch(name, pattern) for pattern in _ASKED)
    ]
    assert [one for one in found if one.outcome not in _FINE] == []
    assert sum(one.outcome in {Outcome.RIGHT, Outcome.PASSED} for one in found) > 8
