"""The self-test of a backend on the machine at hand, and the workbench it is given.

A backend sees nothing of sessions. Whoever starts a self-test, which is the command line, hands it
a bench that opens them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from subgraphkit import backend as contract


class OpenedModel(Protocol):
    """A model opened on the backend under test, with the fallback behind it."""

    def run(self, feeds: Mapping[str, Any]) -> Sequence[Any]:
        """Compute all outputs; any thread may call it."""

    def run_bound(self, feeds: Mapping[str, Any], outputs: Mapping[str, Any]) -> Sequence[Any]:
        """Compute outputs by a binding, and return them in order.

        Args:
            feeds: Arrays by input name, of the host or of a device.
            outputs: By output name, an array to write into, or the kind of device to leave it on.
        """

    def update_weights(self, weights: Mapping[str, Any]) -> Mapping[str, str]:
        """Replace weights; by subgraph ``"refitted"`` or ``"recompiled"``."""

    def operators(self) -> Sequence[Mapping[str, Any]]:
        """Return ``info()`` of the operators of the backend under test, in order."""

    def bare_engines(self) -> Sequence[bytes]:
        """Return the engines of the operators, as the library's own tools load them."""

    def elsewhere(self) -> Sequence[str]:
        """Return the operators of the nodes that are not on the backend under test, in order."""

    def close(self) -> None:
        """Release it."""


class ModelOpener(Protocol):
    """Opens models for a self-test."""

    def open(self, model: Any, **options: Any) -> OpenedModel:
        """Open a ``ModelProto`` with options of the backend under test."""

    def network(self, name: str) -> Any:
        """Return a real architecture with weights drawn from a seed, such as ``"resnet50"``.

        Raises:
            FileNotFoundError: This build of onnx comes without it.
        """

    def expected(self, model: Any, feeds: Mapping[str, Any]) -> Sequence[Any]:
        """Compute all outputs on the fallback backend alone."""

    def engines(self, model: Any, folder: str, **options: Any) -> Sequence[str]:
        """Open a ``ModelProto`` in a new process.

        Args:
            model: The model.
            folder: Where engines are kept.
            **options: Options of the backend under test.

        Returns:
            For each engine ``"built"``, or ``"found"`` in the folder.
        """


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """One check of a self-test.

    Attributes:
        name: What is tried.
        needs: What it needs, in a word or two for the report, such as ``"CUDA"``.
        attempt: Tries it on models that it opens. Whatever goes wrong is a finding and no
            exception; what is not here is a warning that says what it lacks.
        seconds: How long it may take; then its process is ended, and the next goes on in a new one.
    """

    name: str
    needs: str
    attempt: "Callable[[ModelOpener], contract.Check]"
    seconds: float = 120.0
