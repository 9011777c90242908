"""Outcomes of compiling a subgraph: an operator, a failure, or nodes that are given back.

Ctrl-C, cancelling and the end of its time end the wait for it at once. A helper thread does the
work, because a library that computes gives Python's signal handlers no chance in the thread that
called it.
"""

import atexit
import contextlib
import contextvars
import ctypes
import math
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from functools import cache, partial
from operator import index as as_index
from typing import Final, TypeVar

from subgraphkit import backend as contract
from subgraphkit.backend.operator import SubgraphOperator
from subgraphkit.backend.progress import Progress, ProgressEvent
from subgraphkit.backend.refusal import Refusal, Unsupported
from subgraphkit.boundary import pass_on
from subgraphkit.errors import CompileError, CompileTimeoutError, SelectorContractError, text_of
from subgraphkit.finding.extensions import ExtensionManager
from subgraphkit.ir import Subgraph
from subgraphkit.logs import logger_of
from subgraphkit.partitioning import Partitioning

_logger = logger_of("compile")


def failure(subgraph: Subgraph, error: BaseException) -> CompileError:
    """Word that a backend failed to compile a subgraph (SGK130)."""
    members = subgraph.members or tuple(subgraph.graph.nodes[i] for i in subgraph.nodes)
    found = CompileError(
        "SGK130",
        f"backend {subgraph.backend!r} claimed subgraph {subgraph.id!r} ({len(subgraph.nodes)} "
        f"nodes, {members[0].label} .. {members[-1].label}) but failed to compile it: "
        f"{type(error).__name__}: {text_of(error)}",
        backend=subgraph.backend,
        subgraph=subgraph.id,
        hint="To run these nodes elsewhere, leave the backend out of the list or set "
        "on_compile_error='fallback'.",
    )
    for note in getattr(error, "__notes__", ()):  # the library's output meanwhile
        found.add_note(note)
    return found


def close_all(operators: Iterable[SubgraphOperator]) -> None:
    """Close operators; one that fails is logged, so that the others are closed all the same."""
    for operator in operators:
        try:
            operator.close()
        except BaseException as error:
            pass_on(error)
            _logger.exception("closing %s failed", type(operator).__name__)


def given_back(
    current: Partitioning, place: int, error: Unsupported | CompileError
) -> Partitioning:
    """Return the partitioning after a backend gave back nodes of the subgraph at a place.

    Raises CompileError (SGK130) if the policy forbids, SelectorContractError (SGK122) for nodes of
    others, UnclaimedNodesError (SGK120) if nobody else takes it.
    """
    subgraph, settings = current.subgraphs[place], current.graph.settings
    if isinstance(error, CompileError):
        if settings.on_compile_error != "fallback":
            raise error
        refusal, nodes = Refusal("compile_failed", error.message), subgraph.nodes
    else:
        if settings.on_unsupported == "raise":
            raise failure(subgraph, error) from error
        refusal, nodes = error.refusal, _named_nodes(subgraph, error) or subgraph.nodes
    _tell_given_back(current.graph.extensions, subgraph, error, refusal, len(nodes))
    return current.repartition_at(place, dict.fromkeys(nodes, refusal))


def _named_nodes(subgraph: Subgraph, error: Unsupported) -> tuple[int, ...]:
    """Return the nodes given back by name; SelectorContractError (SGK122) for any other."""
    nodes: tuple[int, ...] = ()
    try:
        nodes = tuple(map(as_index, error.nodes))
    except TypeError:
        problem = f"nodes {error.nodes!r}, expected indices of nodes"
    else:
        foreign = sorted(set(nodes).difference(subgraph.nodes))
        problem = f"nodes {foreign}, which are not in the subgraph" if foreign else ""
    if problem:
        raise SelectorContractError(
            "SGK122",
            f"Unsupported names {problem}",
            backend=subgraph.backend,
            subgraph=subgraph.id,
            hint="Unsupported(nodes=...) takes a tuple of indices into the model's node list.",
        ) from error
    return nodes


def _tell_given_back(
    extensions: ExtensionManager,
    subgraph: Subgraph,
    error: Unsupported | CompileError,
    refusal: Refusal,
    count: int,
) -> None:
    _logger.warning(
        "backend %r gives back %d of %d nodes of subgraph %r: %s",
        subgraph.backend,
        count,
        len(subgraph.nodes),
        subgraph.id,
        refusal.text,
    )
    if extensions.implements("subgraphkit_fallback"):
        event = contract.FallbackEvent(
            model=extensions.model,
            session=extensions.session,
            subgraph=subgraph.id,
            level="unsupported" if isinstance(error, Unsupported) else "compile",
            backend=subgraph.backend,
            target="",
            code=refusal.code,
            reason=refusal.text,
            node_count=count,
        )
        extensions.notify("subgraphkit_fallback", event=event)


def tell_compiled(
    extensions: ExtensionManager,
    subgraph: Subgraph,
    operator: SubgraphOperator,
    seconds: float,
    *,
    from_cache: bool,
) -> None:
    """Tell the log and extensions that there is an operator."""
    verb = "restored" if from_cache else "compiled"
    _logger.info("%s %s (%d nodes, %.3f s)", verb, subgraph.id, len(subgraph.nodes), seconds)
    if extensions.implements("subgraphkit_compiled"):
        event = contract.CompileEvent(
            model=extensions.model,
            session=extensions.session,
            subgraph=subgraph.id,
            backend=subgraph.backend,
            node_count=len(subgraph.nodes),
            seconds=seconds,
            from_cache=from_cache,
            info=operator.info(),
        )
        extensions.notify("subgraphkit_compiled", event=event)


_LOOK_SECONDS: Final = 0.1
# How long a library may take to end, after it is stopped or when it is nearly done.
_PATIENCE_SECONDS: Final = 1.0

_Result = TypeVar("_Result")


def attend(
    work: Callable[[Progress], _Result],
    progress: Progress,
    release: Callable[[_Result], object],
    seconds: float | None = None,
) -> _Result:
    """Do work in a helper thread, and wait for it until it is cancelled.

    Cancelled work that does not stop goes on until its next step. The program does not wait for it
    when it ends. This raises what the work raises, what cancelled ``progress``, an error of the
    waiting thread such as ``KeyboardInterrupt``, or CompileTimeoutError (SGK135).

    ``seconds``: How long it may take; None for as long as it takes.

    Thread-safety: may be called from any thread.
    """
    watched = Progress(None, progress)
    future: Future[_Result] = Future()
    run, given = contextvars.copy_context().run, (_do, future, work, watched)
    thread = threading.Thread(target=run, args=given, name="subgraphkit compile", daemon=True)
    end = math.inf if seconds is None else time.monotonic() + seconds
    try:
        thread.start()  # which waits as well, and is left by Ctrl-C with the thread under way
        while not wait((future,), min(_LOOK_SECONDS, end - time.monotonic())).done:
            if time.monotonic() >= end:
                watched.cancel(_too_long(watched.latest, seconds or 0))
            watched.check()
        return future.result()
    except BaseException as error:
        if not future.done():
            watched.cancel(error)
            with contextlib.suppress(KeyboardInterrupt):  # a second one is not to be waited for
                wait((future,), _PATIENCE_SECONDS)
        if not future.done():
            _logger.info("what is being compiled goes on by itself to its next step")
            _leave_without_it()
        if not future.done() or future.exception() is not error:
            future.add_done_callback(lambda made: made.exception() or release(made.result()))
        raise


def _too_long(event: ProgressEvent | None, seconds: float) -> CompileTimeoutError:
    what = "nothing was compiled yet"
    if event is not None and event.subgraph:
        whole = f"{event.done} of {event.total} done" if event.total else f"{event.done} done"
        what = f"subgraph {event.subgraph!r} was being compiled on backend {event.backend!r}"
        what += f", {event.phase}: {whole} after {event.seconds:.1f} s"
    return CompileTimeoutError(
        "SGK135",
        f"compiling took longer than timeout_s={seconds:g}: {what}",
        hint="Give it more time, leave the backend out of the list, or let the session answer "
        "meanwhile with build='background'.",
    )


def _do(future: "Future[_Result]", work: Callable[[Progress], _Result], progress: Progress) -> None:
    try:
        result = work(progress)
    except BaseException as error:  # noqa: BLE001 (raised where somebody waits)
        future.set_exception(error)
    else:
        future.set_result(result)


@cache
def _leave_without_it() -> None:
    """Have the program end at once when it ends, with its own status: a thread is in a library.

    The library's own exit functions would free memory that it still uses, and it registers more
    while it works. The last one registered runs first, so this one is registered again when Python
    ends. Python before 3.14 ends a thread that returns meanwhile in a way that C++ takes for a
    fault. That thread sleeps instead. The program still aborts for earlier faults.
    """
    with contextlib.suppress(AttributeError, OSError):  # where the system has no such calls
        system = ctypes.CDLL(None)
        leave = partial(system.on_exit, system._exit, None)  # noqa: SLF001 (its name)
        leave()
        atexit.register(leave)
        set_terminate = ctypes.CDLL("libstdc++.so.6")._ZSt13set_terminatePFvvE  # noqa: SLF001 (its name)
        atexit.register(set_terminate, system.pause)
