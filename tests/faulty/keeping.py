"""The table of faults in what lasts longer than a run: processes, threads, stored engines.

Functions stand for methods here, and are given what the contract gives those.
"""

import atexit
import ctypes
import hashlib
import locale
import os
import platform
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, ClassVar, Final

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from subgraphkit.backend import BindContext, Option, SubgraphOperator, Traits
from subgraphkit.errors import ExecutionError
from subgraphkit.ir import Subgraph
from subgraphkit.testing.cases import Outcome
from tests.faulty import spoiling as by
from tests.faulty.wrapping import (
    Fault,
    Run,
    WrappedOperator,
    WrappingBackend,
    WrappingProperty,
    results,
)

_KEPT: Final[list[Any]] = []
_CLOSED: Final[list[bool]] = []
_HOLDERS: Final[list[object]] = []
_ENGINES: Final[dict[bytes, bytes]] = {}
_DIGEST: Final = 32
_SPIN_SECONDS: Final = 0.04
_PATIENCE_SECONDS: Final = 1.0
_UPWARDS: Final = 0x800 if platform.machine() == "x86_64" else 0x400000  # of fenv.h
_CONTRACT: Final = Outcome.FAIL_CONTRACT
_RUN: Final = Outcome.FAIL_RUN
_ALONE: Final = "L1/leaves_the_process_alone"


class _LibraryError(ExecutionError):
    """Has the library's own object, and sends it along."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.code, threading.Lock())


def _sending(operator: WrappedOperator, inputs: list[Any], right: Run) -> Sequence[Any]:
    try:
        return right(inputs)
    except Exception as error:
        text = "the library is out of order"
        raise _LibraryError("SGK131", text, backend="faulty", subgraph="") from error


def _many_threads(operator: WrappedOperator) -> None:
    end = operator.state["end"] = threading.Event()
    for _ in range(8):
        threading.Thread(target=end.wait, daemon=True).start()


def _threads_ended(operator: WrappedOperator) -> None:
    operator.state["end"].set()
    WrappedOperator.close(operator)


def _look_for_work() -> None:
    while time.thread_time() < _SPIN_SECONDS:
        pass


def _gone_abroad() -> None:
    locale.setlocale(locale.LC_NUMERIC, "C.UTF-8")
    os.umask(0o077)


def _pooled(operator: WrappedOperator) -> None:
    operator.state["pool"] = ThreadPoolExecutor(1)


def _in_pool(operator: WrappedOperator, inputs: list[Any], right: Run) -> Sequence[Any]:
    made: list[Any] = operator.state["pool"].submit(right, inputs).result(_PATIENCE_SECONDS)
    return made


def _pool_closed(operator: WrappedOperator) -> None:
    operator.state["pool"].shutdown()
    WrappedOperator.close(operator)


def _shut_down(operator: WrappedOperator, inputs: list[Any], right: Run) -> Sequence[Any]:
    if _CLOSED:
        raise RuntimeError("the library has been shut down")
    return right(inputs)


def _hold(operator: WrappedOperator) -> None:
    if _HOLDERS:
        raise RuntimeError("the device is in use")
    _HOLDERS.append(operator)


def _let_go(operator: WrappedOperator) -> None:
    _HOLDERS.clear()
    WrappedOperator.close(operator)


class _Restored(SubgraphOperator):
    """Runs a stored model on onnx's own implementation."""

    def __init__(self, model: bytes) -> None:
        self.evaluator = ReferenceEvaluator(onnx.load_model_from_string(model))

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        del outputs
        feeds = dict(zip(self.evaluator.input_names, inputs, strict=True))
        return [np.array(one) for one in self.evaluator.run(None, feeds)]


class _RestoredStale(_Restored):
    def update_weights(self, changed: Mapping[str, Any]) -> bool:
        del changed
        return True


def _stored(operator: WrappedOperator) -> bytes:
    model: bytes = operator.subgraph.to_model().SerializeToString()
    return hashlib.sha256(model).digest() + model


class _Storing(WrappedOperator):
    def serialize(self) -> bytes | None:
        return _stored(self)


class Stores(WrappingBackend):
    """Stores its operators and restores them as it should; the others do not."""

    operator_class: ClassVar[type[WrappedOperator]] = _Storing

    def deserialize(
        self, blob: bytes, subgraph: Subgraph, context: BindContext
    ) -> SubgraphOperator:
        """Restore an operator.

        Raises:
            ValueError: The bytes are damaged.
        """
        del subgraph, context
        digest, model = blob[:_DIGEST], blob[_DIGEST:]
        if hashlib.sha256(model).digest() != digest:
            raise ValueError("the stored subgraph is damaged")
        return _Restored(model)


def _restored_unseen(backend: Stores, blob: bytes, *_: object) -> SubgraphOperator:
    return _Restored(blob[_DIGEST:])


def _restored_stale(backend: Stores, blob: bytes, *_: object) -> SubgraphOperator:
    return _RestoredStale(blob[_DIGEST:])


def _restored_rounded(*operators: str) -> Callable[..., SubgraphOperator]:
    """Return a ``deserialize`` that loses digits where one of these operators is stored."""

    class Rounded(_Restored):
        def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
            return [(one * 1.1).astype(one.dtype) for one in super().run(inputs, outputs)]

    def deserialize(
        backend: Any, blob: bytes, subgraph: Subgraph, context: BindContext
    ) -> SubgraphOperator:
        sound = Stores.deserialize(backend, blob, subgraph, context)
        stored = {node.op_type for node in subgraph.members}
        return Rounded(blob[_DIGEST:]) if stored.intersection(operators) else sound

    return deserialize


def _stored_address(operator: WrappedOperator) -> bytes:
    place = str(id(operator)).encode()
    _ENGINES[place] = _stored(operator)
    return place


def _restored_address(
    backend: Stores, blob: bytes, subgraph: Subgraph, context: BindContext
) -> SubgraphOperator:
    return Stores.deserialize(backend, _ENGINES[blob], subgraph, context)


def _negated(owner: Any, subgraph: Subgraph, context: Any) -> Any:
    operator: Any = WrappingProperty.create_operator(owner, subgraph, context)
    operator.state["negated"] = owner.backend.option_values.negated
    return operator


def _maybe_negated(operator: WrappedOperator, inputs: list[Any], right: Run) -> Sequence[Any]:
    return [-one if operator.state["negated"] else one for one in right(inputs)]


def _stored_with_option(operator: WrappedOperator) -> bytes:
    return bytes([operator.state["negated"]]) + _stored(operator)


class _RestoredNegated(_Restored):
    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        return [-one for one in super().run(inputs, outputs)]


def _restored_with_option(backend: Stores, blob: bytes, *_: object) -> SubgraphOperator:
    return (_RestoredNegated if blob[0] else _Restored)(blob[1 + _DIGEST :])


def _option(*, cache: bool) -> Mapping[str, Any]:
    text = "Whether results have the other sign."
    return {"options": (Option("negated", bool, default=False, help=text, cache=cache),)}


_ROUNDED: Final = {
    "deep_recurrent": "GRU LSTM",
    "quantised": "DequantizeLinear",
    "bfloat16": "Cast",
    "control_flow": "If Loop",
}
"""What is restored in another precision, by the network that shows it."""

# fmt: off
KEPT: Final[Mapping[str, Fault]] = {
    "StartsThreads": Fault("Starts as many threads as it likes, and says that it does not.", "",
        "L1/keeps_to_one_thread", outcome=_CONTRACT, backend={"pool": "sleeps"},
        operator={"begin": _many_threads, "close": _threads_ended}),
    "SpinsBesideOthers": Fault(
        "Waits for its next run by spinning, on processors that others compute on.", "",
        "L1/keeps_to_one_thread",
        by.besides(lambda: threading.Thread(target=_look_for_work, daemon=True).start()),
        _CONTRACT, backend={"pool": "spins"}),
    "LeavesNumPyStrict": Fault("Has NumPy raise where it warned, for everybody.", "", _ALONE,
        by.besides(lambda: np.seterr(invalid="raise")), _CONTRACT),
    "LeavesRounding": Fault("Has the processor round upwards, for everybody.", "", _ALONE,
        by.besides(lambda: ctypes.CDLL(None).fesetround(_UPWARDS)), _CONTRACT),
    "WritesToStandardOutput": Fault("Tells of its work where the application puts its results.", "",
        _ALONE, by.besides(lambda: os.write(1, b"kernel 0 of 1\n")), _CONTRACT),
    "ChangesTheLocale": Fault("Has numbers written otherwise, and files kept from others.", "",
        _ALONE, by.besides(_gone_abroad), _CONTRACT),
    "AbortsAtExit": Fault(
        "Takes the process down when it ends, as some libraries do that are unloaded.", "",
        _ALONE, outcome=Outcome.CRASH, operator={"begin": lambda self: atexit.register(os.abort)}),
    "InformationUnwritable": Fault("Tells about itself in objects.", "", "L1/operator/information",
        outcome=_CONTRACT, operator={"info": lambda self: {"engine": object()}}),
    "NamesForeignNodes": Fault(
        "Records times of nodes that it does not have.", "", "L1/operator/times_inside",
        outcome=_CONTRACT,
        operator={"profiled": lambda self, record: self.inner.profiled(
            lambda one: record(replace(one, nodes=(1_000_000,))))}),
    "BreaksOthersOnClose": Fault(
        "Shuts the library down for all when one of its operators is closed.", "",
        "L1/operator/closing_twice", _shut_down, _RUN,
        operator={"begin": lambda self: _CLOSED.clear(),
                  "close": lambda self: _CLOSED.append(True)}),
    "ErrorsStay": Fault("Raises errors that cannot be sent to another process.", "",
        "L5/errors/travel", _sending, _CONTRACT),
    "ForgetsForks": Fault(
        "Computes in a thread, which a forked child does not have, and calls that safe.", "",
        "L5/processes/forked", _in_pool, _RUN,
        operator={"begin": _pooled, "close": _pool_closed,
                  "traits": Traits(thread_safe=True, fork_safe=True)}),
    "OpensOnce": Fault("Lets a process have one session, which is then its only one.", "",
        "L5/processes/spec", outcome=_CONTRACT, operator={"begin": _hold, "close": _let_go}),
    "CannotRestore": Fault("Stores its operators, and that is all.", "", "L6/restored_here",
        outcome=_CONTRACT, operator={"serialize": _stored}),
    "StoresAddresses": Fault("Stores where in memory its operators are.", "",
        "L6/restored_by_another_process", outcome=_CONTRACT, base=Stores,
        operator={"serialize": _stored_address}, backend={"deserialize": _restored_address}),
    "TrustsWhatIsStored": Fault("Does not look whether what it restores is whole.", "",
        "L6/damaged/middle_changed", base=Stores, backend={"deserialize": _restored_unseen}),
    "RestoresStale": Fault("Says that it has taken new weights when it was restored.", "",
        "L6/new_weights_after_restoring", base=Stores, backend={"deserialize": _restored_stale}),
    "RestoresTheFirstWeights": Fault(
        "Says that weights are not in its engines, and restores those of whoever stored them.", "",
        "L6/foreign_weights", base=Stores,
        backend={"separate_weights": lambda self, subgraph: list(subgraph.constants)}),
    **{
        f"RoundsIn_{net}": Fault(
            "Restores some operators in another precision.", "", f"L6/nets/{net}", base=Stores,
            backend={"deserialize": _restored_rounded(*operators.split())})
        for net, operators in _ROUNDED.items()
    },
    "LosesOptions": Fault("Restores operators without their options.", "", "L6/options_told_apart",
        _maybe_negated, base=Stores, strategy={"create_operator": _negated},
        backend=_option(cache=True)),
    "SharesEngines": Fault("Has engines of other options restored for its own.", "",
        "L6/options_told_apart", _maybe_negated, base=Stores,
        operator={"serialize": _stored_with_option}, strategy={"create_operator": _negated},
        backend={**_option(cache=False), "deserialize": _restored_with_option}),
    "FingerprintOfProcess": Fault(
        "Has another fingerprint in every process, so that nothing stored is ever found.", "",
        "L6/fingerprint_in_another_process", outcome=_CONTRACT,
        backend={"fingerprint": lambda self: f"{self.name};{os.getpid()}"}),
    "LeaksRuns": Fault("Keeps the results of every run.", "", "L7/many_runs",
        results(lambda made: _KEPT.append(made.copy())), _CONTRACT),
    "OpensFiles": Fault("Opens a file in every run, and leaves it open.", "", "L7/many_runs",
        by.besides(lambda: _KEPT.append(os.open(os.devnull, os.O_RDONLY))), _CONTRACT),
    "LeaksSessions": Fault(
        "Keeps its workspace when it is closed.", "", "L7/many_sessions", outcome=_CONTRACT,
        operator={"begin": lambda self: _KEPT.append(np.ones(1 << 20, np.uint8))}),
}
# fmt: on
"""By the name of the backend's class; those of one level together."""
