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


@pytest.mark.parametrize("name", ["numpy", "onednn", "onnxruntime", "tvm", "tvm+1", "tvm+2"])
def test_operators_of_a_backend_do_as_the_contract_says(name):
    backend, _, part = name.partition("+")  # tvm compiles for seconds: a third of the cases at once
    pytest.importorskip(f"subgraphkit_{backend}")
    subject = Subject(backend)
    cases = [
        case
        for level in ((1, 6) if backend == "numpy" else (1, 5, 6))  # which is in its own tests
        for one, case in cases_of_level(level, subject).items()
        if any(fnmatch(one, pattern) for pattern in _ASKED)
    ]
    found = [
        carry_out(case, subject) for case in cases[int(part or 0) :: 3 if backend == "tvm" else 1]
    ]
    assert [one for one in found if one.outcome not in _FINE] == []
    assert sum(one.outcome in {Outcome.RIGHT, Outcome.PASSED} for one in found) > 8
