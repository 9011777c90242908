"""Level 6, artefacts: the engines that a backend stores, and whether they are of any use.

Backends that store nothing are skipped here, which is said and counted.
"""

import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from subgraphkit.backend.options import cache_values
from subgraphkit.compiling import compile_subgraphs
from subgraphkit.compiling.proving import Proofs, ProofStep, Unproven, came_back
from subgraphkit.errors import SubgraphkitError
from subgraphkit.ir import Initializer
from subgraphkit.testing.cases import PASSED, Case, Finding, Outcome, Stopped, breach
from subgraphkit.testing.operator_checks import Workbench, new_weights, workbench
from subgraphkit.testing.process_checks import call_in_subprocess, check_in_subprocess
from subgraphkit.testing.small_models import graphs_of, model_of
from subgraphkit.testing.subject import Subject

_CHILD_SECONDS: Final = 50.0
_WHAT: Final = "restores what another stored"
_CHANGED: Final = 16
"""How many bytes are damaged: fewer might be lost in rounding."""
_MOST_OPTIONS: Final = 8
_MOST_SECONDS: Final = 20.0
"""How long values of options are tried, unless all is to be."""


def cases(_: Subject) -> Iterator[Case]:
    """List the checks."""
    for check in (
        _restored_here, _restored_by_another_process, _stored_while_in_use,
        _new_weights_after_restoring, _foreign_weights, _options_told_apart,
    ):  # fmt: skip
        yield _case(check.__name__[1:], partial(_with_blob, check))
    for name, damage in _DAMAGES.items():
        yield _case(f"damaged/{name}", partial(_with_blob, partial(_surviving, damage)))
    for name, text in graphs_of("networks").items():
        yield _case(f"nets/{name}", partial(_restore_net, f"{name} {text}"))
    yield _case("fingerprint_in_another_process", _fingerprint)


def _case(name: str, run: Callable[[Subject], Finding]) -> Case:
    needs = ("serialize",) if "fingerprint" not in name else ()
    return Case(f"L6/{name}", run, needs=needs, offers=False)


def _with_blob(check: Callable[[Workbench, bytes], Finding], subject: Subject) -> Finding:
    with workbench(subject) as bench:
        blob: Any = bench.operator.serialize()
        if blob is None:
            return Finding(Outcome.SKIP, "its operators cannot be stored: serialize() is None")
        if not isinstance(blob, bytes) or not blob:
            return breach(f"serialize() returned {blob!r:.60}, expected bytes or None")
        return check(bench, blob)


def _restored_here(bench: Workbench, blob: bytes) -> Finding:
    """Another instance restores it, when the first operator has been closed."""
    bench.operator.close()
    with workbench(bench.subject) as other:
        return _runs(other, blob)


def _restored_by_another_process(bench: Workbench, blob: bytes) -> Finding:
    """Another process restores it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "blob")
        file.write_bytes(blob)
        told = check_restored, bench.subject, _CHILD_SECONDS, str(file)
        return check_in_subprocess(*told, what=_WHAT)


def check_restored(subject: Subject, file: str) -> Finding:
    """Restore the engine in a file, in a process that compiled nothing of it."""
    with workbench(subject) as bench:
        return _runs(bench, Path(file).read_bytes())


def fingerprint_of(subject: Subject) -> str:
    """Return the fingerprint of the backend in this process."""
    with workbench(subject) as bench:
        return bench.claim.backend.fingerprint()


@contextmanager
def _restore(bench: Workbench, blob: bytes) -> Iterator[Workbench]:
    """Restore an operator; close it at the end."""
    try:
        operator: Any = bench.claim.backend.deserialize(blob, bench.subgraph, bench.claim.context)
    except Exception as error:
        text = f"deserialize() raised {type(error).__name__}: {error}"
        raise Stopped(Outcome.FAIL_CONTRACT, text) from error
    try:
        yield replace(bench, operator=operator)
    finally:
        operator.close()


def _runs(bench: Workbench, blob: bytes) -> Finding:
    with _restore(bench, blob) as other:
        for seed in range(2):
            other.check(seed, "restored")
    return PASSED


def _new_weights_after_restoring(bench: Workbench, blob: bytes) -> Finding:
    """A restored operator takes new weights and computes with them, or says that it cannot."""
    with _restore(bench, blob) as other:
        return new_weights(other)


def _foreign_weights(bench: Workbench, blob: bytes) -> Finding:
    """An engine restored with other weights computes with these, if that is allowed."""
    separate = bench.claim.backend.separate_weights(bench.subgraph)
    weights = {
        name: (2 * stored.array()).astype(stored.type.dtype.numpy)
        for name, stored in bench.subgraph.constants.items()
        if name in separate and stored.array().dtype.kind == "f"
    }
    if not weights:
        return Finding(Outcome.SKIP, "its engines have all weights in them")
    constants = dict(bench.subgraph.constants)
    for name, array in weights.items():
        constants[name] = Initializer(name, constants[name].type, partial(np.asarray, array))
    subgraph = replace(bench.subgraph, constants=constants)
    other = replace(bench.with_weights(weights), subgraph=subgraph)
    with _restore(other, blob) as restored:
        restored.check(0, "restored for other weights")
    return PASSED


NETS_HEADER: Final = '<ir_version: 10, opset_import: ["" : 21]>'


def _restore_net(text: str, subject: Subject) -> Finding:
    """Every subgraph of a network comes back as it was compiled; libraries have lost some so."""
    bound = subject.bind(model_of(text, NETS_HEADER))
    with closing(compile_subgraphs(subject.partition(bound))) as compiled:
        proofs = Proofs(bound)
        proofs.told.add(subject.name)  # it is found here
        steps = [*map(ProofStep, compiled.partitioning.subgraphs, compiled)]
        for one in steps:
            blob = one.operator.serialize() if one.subgraph.backend == subject.name else None
            if blob is not None:
                claim = compiled.partitioning.claim_of(one.subgraph)
                restore = partial(claim.backend.deserialize, blob, context=claim.context)
                known = claim.backend, one.subgraph, one.operator
                check = came_back(claim.backend, restore)
                proofs.waiting[one.subgraph.id] = Unproven(*known, check, int)
        if not proofs.waiting:
            return Finding(Outcome.SKIP, "it stores nothing of this network")
        proofs.settle(steps)
    if proofs.refused:
        notes = [one.context for one in proofs.refused.values()]
        text = "\n".join(f"{one['subgraph']}: {one['problem']}" for one in notes)
        return Finding(Outcome.FAIL_VALUE, text)
    return PASSED


def _stored_while_in_use(bench: Workbench, _: bytes) -> Finding:
    """Storing an operator changes nothing about it."""
    bench.check(0, "after serialize()")
    bench.operator.serialize()
    bench.check(1, "after serialize()")
    return PASSED


def _invert_bytes(blob: bytes, place: int) -> bytes:
    """Turn the bits of a few bytes over."""
    end = max(0, place) + _CHANGED
    stretch = bytes(byte ^ 0xFF for byte in blob[end - _CHANGED : end])
    return blob[: end - _CHANGED] + stretch + blob[end:]


_DAMAGES: Final[dict[str, Callable[[bytes], bytes]]] = {
    "empty": lambda _: b"",
    "cut_short": lambda blob: blob[: len(blob) // 2],
    "another_file": lambda _: b"PK\x03\x04 this is no compiled subgraph" * 8,
    "beginning_changed": lambda blob: _invert_bytes(blob, 0),
    "middle_changed": lambda blob: _invert_bytes(blob, len(blob) // 2),
    "end_changed": lambda blob: _invert_bytes(blob, len(blob) - _CHANGED),
}


def _surviving(damage: Callable[[bytes], bytes], bench: Workbench, blob: bytes) -> Finding:
    """A damaged engine is refused, or its results are right."""
    try:
        return _runs(bench, damage(blob))
    except Stopped as stop:
        return PASSED if stop.finding.outcome is Outcome.FAIL_CONTRACT else stop.finding


def _fingerprint(subject: Subject) -> Finding:
    """A fingerprint is the same in another process, or no stored engine is ever found again."""
    here = fingerprint_of(subject)
    there = call_in_subprocess(fingerprint_of, subject, _CHILD_SECONDS, what=_WHAT)
    if here == there:
        return PASSED
    return breach(f"fingerprint() is {here!r} here and {there!r} in another process")


def _options_told_apart(usual: Workbench, engine: bytes) -> Finding:
    """An engine is found again only with the same options, and computes by them."""
    subject, key = usual.subject, _key(usual)
    others = _other_options(subject)
    started = time.monotonic()
    for name, value in others:
        if not subject.complete and time.monotonic() - started > _MOST_SECONDS:
            break
        other = replace(subject, options={**subject.options, name: value})
        with suppress(Stopped, SubgraphkitError), workbench(other, usual.model) as bench:
            found = _restored_as(bench, engine if _key(bench) == key else None)
            if found is not None:
                return found.about(f"with {name}={value}")
    return PASSED if others else Finding(Outcome.SKIP, "it has no option with other known values")


def _key(bench: Workbench) -> object:
    backend = bench.claim.backend
    return backend.fingerprint(), cache_values(backend.options, backend.option_values)


def _restored_as(bench: Workbench, engine: bytes | None) -> Finding | None:
    """Restore an operator, and another with its key, and compare with the compiled one."""
    inputs = bench.inputs()
    right = bench.run(inputs)
    own = bench.operator.serialize()
    for blob, what in ((own, "restored"), (engine, "in the place of the engine of other options")):
        if blob is not None:
            with suppress(Stopped), _restore(bench, blob) as twin:  # it may refuse to be
                found = bench.subject.judge.difference(right, twin.run(inputs))
                if found is not None:
                    return found.about(what)
    return None


def _other_options(subject: Subject) -> list[tuple[str, Any]]:
    """Return some values of options that differ from those given, as far as any are known."""
    known = [
        (option.name, value)
        for option in subject.backend_class.options
        if option.scope == "bind" and not option.needs_trust
        for value in ((True, False) if option.kind == "bool" else option.choices)
        if value != subject.options.get(option.name, option.default)
    ]
    drawn = random.Random(subject.seed)  # noqa: S311 (the same for the same seed, and no secret)
    return drawn.sample(known, min(len(known), _MOST_OPTIONS))
