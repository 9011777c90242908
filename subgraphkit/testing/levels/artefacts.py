"""Level 6, artefacts: what a backend stores of a compiled subgraph, and whether it is of any use.

Backends that store nothing are skipped here, which is said and counted.
"""

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from subgraphkit.processes.child_process import crowd, how_it_ended, run_child
from subgraphkit.testing.cases import Case, Finding, Outcome
from subgraphkit.testing.restoring import MODULE, restored
from subgraphkit.testing.subject import Stopped, Subject
from subgraphkit.testing.workbench import Workbench, workbench

__all__ = ["cases"]

_LEVEL: Final = 6
_CHILD_SECONDS: Final = 50.0
_CHANGED: Final = 16
"""How many bytes are damaged: fewer might be lost in rounding."""
_PASSED: Final = Finding(Outcome.PASSED)


def cases(subject: Subject) -> Iterator[Case]:
    """List the checks."""
    del subject
    for check in (_restored_here, _restored_by_another_process, _stored_while_in_use):
        yield _case(check.__name__[1:], _with_blob(check))
    for name, damage in _DAMAGES.items():
        yield _case(f"damaged/{name}", _with_blob(_surviving(damage)))
    yield _case("fingerprint_in_another_process", _fingerprint)


def _case(name: str, run: Callable[[Subject], Finding]) -> Case:
    needs = ("serialize",) if "fingerprint" not in name else ()
    return Case(f"L6/{name}", _LEVEL, run, needs=needs, offers=False)


def _with_blob(check: Callable[[Workbench, bytes], Finding]) -> Callable[[Subject], Finding]:
    def run(subject: Subject) -> Finding:
        with workbench(subject) as bench:
            blob: Any = bench.operator.serialize()
            if blob is None:
                return Finding(Outcome.SKIP, "its operators cannot be stored: serialize() is None")
            if not isinstance(blob, bytes) or not blob:
                text = f"serialize() returned {blob!r:.60}, expected bytes or None"
                return Finding(Outcome.FAIL_CONTRACT, text)
            return check(bench, blob)

    return run


def _restored_here(bench: Workbench, blob: bytes) -> Finding:
    """Another instance restores it, when the first operator has been closed."""
    bench.operator.close()
    with workbench(bench.subject) as other:
        return _as_check(restored(other, blob))


def _restored_by_another_process(bench: Workbench, blob: bytes) -> Finding:
    """Another process restores it."""
    return _as_check(Finding.from_dict(_in_child(bench.subject, blob)["finding"]))


def _stored_while_in_use(bench: Workbench, blob: bytes) -> Finding:
    """Storing an operator changes nothing about it."""
    del blob
    bench.check(0, "after serialize()")
    bench.operator.serialize()
    bench.check(1, "after serialize()")
    return _PASSED


def _as_check(found: Finding) -> Finding:
    return _PASSED if found.outcome is Outcome.RIGHT else found


def _changed(blob: bytes, place: int) -> bytes:
    """Turn the bits of a few bytes over."""
    start = max(0, place)
    stretch = bytes(byte ^ 0xFF for byte in blob[start : start + _CHANGED])
    return blob[:start] + stretch + blob[start + len(stretch) :]


_DAMAGES: Final[dict[str, Callable[[bytes], bytes]]] = {
    "empty": lambda _: b"",
    "cut_short": lambda blob: blob[: len(blob) // 2],
    "another_file": lambda _: b"PK\x03\x04 this is no compiled subgraph" * 8,
    "beginning_changed": lambda blob: _changed(blob, 0),
    "middle_changed": lambda blob: _changed(blob, len(blob) // 2),
    "end_changed": lambda blob: _changed(blob, len(blob) - _CHANGED),
}


def _surviving(damage: Callable[[bytes], bytes]) -> Callable[[Workbench, bytes], Finding]:
    """Return a check that what is damaged is refused, or that its results are right."""

    def check(bench: Workbench, blob: bytes) -> Finding:
        found = restored(bench, damage(blob))
        if found.outcome in {Outcome.RIGHT, Outcome.FAIL_CONTRACT}:
            return _PASSED
        return found

    return check


def _fingerprint(subject: Subject) -> Finding:
    """A fingerprint is the same in another process, or no stored engine is ever found again."""
    with workbench(subject) as bench:
        here = bench.claim.backend.fingerprint()
    there = _in_child(subject, b"")["fingerprint"]
    if here == there:
        return _PASSED
    text = f"fingerprint() is {here!r} here and {there!r} in another process"
    return Finding(Outcome.FAIL_CONTRACT, text)


def _in_child(subject: Subject, blob: bytes) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        stored = Path(folder, "blob")
        stored.write_bytes(blob)
        words = [json.dumps(subject.described()), str(stored)]
        ended = run_child(MODULE, words, _CHILD_SECONDS * crowd())
    if ended.code is None:
        raise Stopped(Outcome.HANG, f"the other process did not end within {_CHILD_SECONDS:.0f} s")
    if ended.code or not ended.answer:
        text = f"the other process ended with {how_it_ended(ended.code)}: {ended.printed[-300:]}"
        raise Stopped(Outcome.CRASH, text)
    answer: dict[str, Any] = json.loads(ended.answer)
    return answer
