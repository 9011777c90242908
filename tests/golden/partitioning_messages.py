"""Every message about models that are too large, or backends that have too little of one."""

from collections.abc import Callable
from typing import Any

import subgraphkit as sk
from subgraphkit.binding.model_process import ProcessEnded
from subgraphkit.compiling.isolation import ended_while
from subgraphkit.errors import ExecutionError
from tests.fakes import claiming
from tests.models import DIAMOND, parsed


def _checked(**settings: Any) -> Callable[[], object]:
    """Return a function that holds a placement on a backend that takes no Add against settings."""

    def check() -> object:
        bound = sk.bind(sk.load(parsed(DIAMOND)), backend=claiming(["Neg"], "fast"), **settings)
        return sk.partition(bound).shortfall()

    return check


def _too_large() -> object:
    session = sk.bind(
        sk.load(parsed(DIAMOND)),
        backend=claiming(["Relu", "Neg", "Add", "Abs"], "fast"),
        max_memory="64KiB",
    )
    return sk.compile_subgraphs(sk.partition(session))


def _too_many_nodes() -> object:
    return sk.load(parsed(DIAMOND), limits={"max_nodes": 3})


def _cannot_be_found() -> object:
    backend = claiming(["Neg"], "fast")
    bound = sk.bind(sk.load(parsed(DIAMOND)), backend=backend, isolate="fast", on_fallback="ok")
    return sk.compile_subgraphs(sk.partition(bound))


def _ended() -> object:
    bound = sk.bind(sk.load(parsed(DIAMOND)), backend=claiming(["Neg", "Abs"], "fast"))
    subgraph = sk.partition(bound).subgraphs[1]
    raise ended_while("running", ExecutionError, ProcessEnded("signal SIGSEGV"), "fast", subgraph)


MESSAGES: dict[str, Callable[[], object]] = {
    "SGK125_little": _checked(on_fallback="error"),
    "SGK125_required": _checked(require={"fast": 0.9}),
    "SGK134_too_large": _too_large,
    "SGK136_ended": _ended,
    "SGK137_cannot_be_found": _cannot_be_found,
    "SGK216_too_many_nodes": _too_many_nodes,
    "SGK125_required_of_another": _checked(require="other=0.5"),
}
