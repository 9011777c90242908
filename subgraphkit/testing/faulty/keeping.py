"""Faults of stored engines, and of memory that is never given back."""
# ruff: noqa: ARG002 (they take what the contract gives them)

import atexit
import hashlib
import locale
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, ClassVar, Final

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from subgraphkit.backend import InnerTime, Pool, SubgraphOperator
from subgraphkit.errors import ExecutionError
from subgraphkit.ir import Subgraph
from subgraphkit.testing.faulty.wrapping import WrappedOperator, WrappingBackend

__all__ = [
    "AbortsAtExit",
    "BreaksOthersOnClose",
    "CannotRestore",
    "ChangesTheLocale",
    "ErrorsStay",
    "FingerprintOfProcess",
    "ForgetsForks",
    "InformationUnwritable",
    "LeaksRuns",
    "LeaksSessions",
    "LeavesNumPyStrict",
    "NamesForeignNodes",
    "OpensFiles",
    "OpensOnce",
    "SpinsBesideOthers",
    "StartsThreads",
    "Stores",
    "StoresAddresses",
    "TrustsWhatIsStored",
    "WritesToStandardOutput",
]

_KEPT: list[Any] = []
_DIGEST: Final = 32
_SPIN_SECONDS: Final = 0.04
_PATIENCE_SECONDS: Final = 1.0


class _LeakingRuns(WrappedOperator):
    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        results = super().run(inputs)
        _KEPT.append([np.array(one) for one in results])
        return results


class LeaksRuns(WrappingBackend):
    """Keeps the results of every run."""

    operator_class: ClassVar[type[WrappedOperator]] = _LeakingRuns


class _Opening(WrappedOperator):
    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        _KEPT.append(os.open(os.devnull, os.O_RDONLY))
        return super().run(inputs)


class OpensFiles(WrappingBackend):
    """Opens a file in every run, and leaves it open."""

    operator_class: ClassVar[type[WrappedOperator]] = _Opening


class _LeakingSessions(WrappedOperator):
    def __init__(self, inner: SubgraphOperator, subgraph: Subgraph) -> None:
        super().__init__(inner, subgraph)
        _KEPT.append(np.ones(1 << 20, np.uint8))


class LeaksSessions(WrappingBackend):
    """Keeps its workspace when it is closed."""

    operator_class: ClassVar[type[WrappedOperator]] = _LeakingSessions


class _NamingForeign(WrappedOperator):
    def profiled(self, record: Callable[[InnerTime], object]) -> SubgraphOperator | None:
        return self.inner.profiled(lambda one: record(replace(one, nodes=(1_000_000,))))


class NamesForeignNodes(WrappingBackend):
    """Records times of nodes that it does not have."""

    operator_class: ClassVar[type[WrappedOperator]] = _NamingForeign


class _Joined(WrappedOperator):
    open: ClassVar[list[bool]] = [True]

    def __init__(self, inner: SubgraphOperator, subgraph: Subgraph) -> None:
        super().__init__(inner, subgraph)
        self.open[0] = True

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        if not self.open[0]:
            raise RuntimeError("the library has been shut down")
        return super().run(inputs)

    def close(self) -> None:
        self.open[0] = False


class BreaksOthersOnClose(WrappingBackend):
    """Shuts the library down for all when one of its operators is closed."""

    operator_class: ClassVar[type[WrappedOperator]] = _Joined


class _Crowded(WrappedOperator):
    def __init__(self, inner: SubgraphOperator, subgraph: Subgraph) -> None:
        super().__init__(inner, subgraph)
        self._end = threading.Event()
        for _ in range(8):
            threading.Thread(target=self._end.wait, daemon=True).start()

    def close(self) -> None:
        self._end.set()
        super().close()


class StartsThreads(WrappingBackend):
    """Starts as many threads as it likes, and says that it does not."""

    pool: Pool = "sleeps"
    operator_class: ClassVar[type[WrappedOperator]] = _Crowded


class _Restless(WrappedOperator):
    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        results = super().run(inputs)
        threading.Thread(target=_look_for_work, daemon=True).start()
        return results


def _look_for_work() -> None:
    end = time.monotonic() + _SPIN_SECONDS
    while time.monotonic() < end:
        pass


class SpinsBesideOthers(WrappingBackend):
    """Waits for its next run by spinning, on processors that others compute on."""

    pool: Pool = "spins"
    operator_class: ClassVar[type[WrappedOperator]] = _Restless


class _Pooled(WrappedOperator):
    thread_safe = fork_safe = True

    def __init__(self, inner: SubgraphOperator, subgraph: Subgraph) -> None:
        super().__init__(inner, subgraph)
        self.pool = ThreadPoolExecutor(1)

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        return self.pool.submit(self.inner.run, inputs).result(_PATIENCE_SECONDS)

    def close(self) -> None:
        self.pool.shutdown()
        super().close()


class ForgetsForks(WrappingBackend):
    """Computes in a thread, which a forked child does not have, and calls that safe."""

    operator_class: ClassVar[type[WrappedOperator]] = _Pooled


class _LibraryError(ExecutionError):
    """Has the library's own object, and sends it along."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.code, threading.Lock())


class _Sending(WrappedOperator):
    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        try:
            return super().run(inputs)
        except Exception as error:
            text = "the library is out of order"
            raise _LibraryError("SGK131", text, backend="faulty", subgraph="") from error


class ErrorsStay(WrappingBackend):
    """Raises errors that cannot be sent to another process."""

    operator_class: ClassVar[type[WrappedOperator]] = _Sending


class _Sole(WrappedOperator):
    holders: ClassVar[list[object]] = []

    def __init__(self, inner: SubgraphOperator, subgraph: Subgraph) -> None:
        super().__init__(inner, subgraph)
        if self.holders:
            raise RuntimeError("the device is in use")
        self.holders.append(self)

    def close(self) -> None:
        self.holders.clear()
        super().close()


class OpensOnce(WrappingBackend):
    """Lets a process have one session, which is then its only one."""

    operator_class: ClassVar[type[WrappedOperator]] = _Sole


class _Unwritable(WrappedOperator):
    def info(self) -> Mapping[str, Any]:
        return {"engine": object()}


class InformationUnwritable(WrappingBackend):
    """Tells about itself in objects."""

    operator_class: ClassVar[type[WrappedOperator]] = _Unwritable


class FingerprintOfProcess(WrappingBackend):
    """Has another fingerprint in every process, so that nothing stored is ever found."""

    def fingerprint(self) -> str:
        """Return a text with the number of the process."""
        return f"{self.name};{os.getpid()}"


class _Restored(SubgraphOperator):
    """Runs a stored model on onnx's own implementation."""

    def __init__(self, model: bytes) -> None:
        self.evaluator = ReferenceEvaluator(onnx.load_model_from_string(model))

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        feeds = dict(zip(self.evaluator.input_names, inputs, strict=True))
        return [np.array(one) for one in self.evaluator.run(None, feeds)]


class _Storing(WrappedOperator):
    def serialize(self) -> bytes | None:
        model: bytes = self.subgraph.to_model().SerializeToString()
        return hashlib.sha256(model).digest() + model


class Stores(WrappingBackend):
    """Stores its operators and restores them as it should; the others do not."""

    operator_class: ClassVar[type[WrappedOperator]] = _Storing

    def deserialize(self, blob: bytes, subgraph: Subgraph) -> SubgraphOperator:
        """Restore an operator.

        Raises:
            ValueError: The bytes are damaged.
        """
        digest, model = blob[:_DIGEST], blob[_DIGEST:]
        if hashlib.sha256(model).digest() != digest:
            raise ValueError("the stored subgraph is damaged")
        return _Restored(model)


class TrustsWhatIsStored(Stores):
    """Does not look whether what it restores is whole."""

    def deserialize(self, blob: bytes, subgraph: Subgraph) -> SubgraphOperator:
        """Restore an operator, or part of one."""
        return _Restored(blob[_DIGEST:])


class StoresAddresses(Stores):
    """Stores where in memory its operators are."""

    places: ClassVar[dict[bytes, bytes]] = {}

    class _Placed(_Storing):
        def serialize(self) -> bytes | None:
            place = str(id(self)).encode()
            StoresAddresses.places[place] = super().serialize() or b""
            return place

    operator_class: ClassVar[type[WrappedOperator]] = _Placed

    def deserialize(self, blob: bytes, subgraph: Subgraph) -> SubgraphOperator:
        """Look an operator up.

        Raises:
            KeyError: It is another process's.
        """
        return super().deserialize(self.places[blob], subgraph)


class CannotRestore(WrappingBackend):
    """Stores its operators, and that is all."""

    operator_class: ClassVar[type[WrappedOperator]] = _Storing


class _Strict(WrappedOperator):
    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        np.seterr(invalid="raise")
        return super().run(inputs)


class LeavesNumPyStrict(WrappingBackend):
    """Has NumPy raise where it warned, for everybody."""

    operator_class: ClassVar[type[WrappedOperator]] = _Strict


class _Abroad(WrappedOperator):
    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        locale.setlocale(locale.LC_NUMERIC, "C.UTF-8")
        os.umask(0o077)
        return super().run(inputs)


class ChangesTheLocale(WrappingBackend):
    """Has numbers written otherwise, and files kept from others."""

    operator_class: ClassVar[type[WrappedOperator]] = _Abroad


class _Talking(WrappedOperator):
    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        os.write(1, b"kernel 0 of 1\n")
        return super().run(inputs)


class WritesToStandardOutput(WrappingBackend):
    """Tells of its work where the application puts its results."""

    operator_class: ClassVar[type[WrappedOperator]] = _Talking


class _Unloading(WrappedOperator):
    def __init__(self, inner: SubgraphOperator, subgraph: Subgraph) -> None:
        super().__init__(inner, subgraph)
        atexit.register(os.abort)


class AbortsAtExit(WrappingBackend):
    """Takes the process down when it ends, as libraries do that are unloaded in a bad order."""

    operator_class: ClassVar[type[WrappedOperator]] = _Unloading
