"""Declarations of a backend to the conformance kit: missing capabilities and known failures.

A declaration does not weaken a check. An expected failure that does not come is a failure, and
skipped cases are counted, with their reasons. A backend also declares here the checks that only its
device can make.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final, Protocol

from subgraphkit import backend as contract
from subgraphkit.backend.tolerances import Tolerance, tolerance_for
from subgraphkit.errors import ConfigError
from subgraphkit.types import DataType


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
        attempt: Tries it on models that it opens. A failure is a finding, not an exception. If
            something is missing here, it is a warning that says so.
        seconds: How long it may take. Then its process is ended, and the next check has a new one.
    """

    name: str
    needs: str
    attempt: "Callable[[ModelOpener], contract.Check]"
    seconds: float = 120.0


CAPABILITIES: Final[Mapping[str, str]] = {
    "bounded_threads": "keeping to the number of threads that it is given",
    "control_flow": "taking If, Loop and Scan",
    "denormals": "telling numbers below the smallest normal one from zero",
    "dynamic_shapes": "compiling subgraphs with dimensions that are not known",
    "open_zeros": "telling -0 from 0 where dimensions are not known",
    "serialize": "storing compiled subgraphs and restoring them",
    "threads": "being used by several sessions in several threads",
}
"""Capabilities that a backend may lack, by name, with their meanings."""


@dataclass
class Conformance:
    """Collects the declarations of ``Backend.conformance``.

    Cases are named by patterns as in a shell, ``*`` standing for any text:
    ``"L3/Conv/*dilations*"``.

    Attributes:
        xfails: Reasons by pattern: cases that are known to go wrong.
        skips: Reasons by pattern: cases not to be tried at all.
        tolerances: Relative and absolute tolerance declared, by dtype, such as ``"float16"``.
        lacking: Reasons by capability.
        checks: What ``doctor --selftest`` looks at.
    """

    xfails: dict[str, str] = field(default_factory=dict)
    skips: dict[str, str] = field(default_factory=dict)
    tolerances: dict[str, tuple[float, float]] = field(default_factory=dict)
    lacking: dict[str, str] = field(default_factory=dict)
    checks: tuple[SelfCheck, ...] = ()

    def xfail(self, pattern: str, reason: str) -> None:
        """Declare that cases go wrong; one that does not is a failure.

        Raises:
            ConfigError: The pattern or the reason is empty (SGK310).
        """
        self.xfails[_require_text("pattern", pattern)] = _require_text("reason", reason)

    def skip(self, pattern: str, reason: str) -> None:
        """Declare that cases must not be tried, because they take the machine down, say.

        Raises:
            ConfigError: The pattern or the reason is empty (SGK310).
        """
        self.skips[_require_text("pattern", pattern)] = _require_text("reason", reason)

    def tolerance(self, dtype: str, *, rtol: float, atol: float) -> None:
        """Declare how far results of a dtype may be off: ``atol + rtol * abs(expected)``.

        It widens the bounds of ``subgraphkit.backend.tolerances`` for all comparisons of the
        backend's results. Narrower bounds change nothing.

        Raises:
            ConfigError: A tolerance is negative, or not a finite number (SGK310).
        """
        for value in (rtol, atol):
            if not 0 <= value < float("inf"):
                raise ConfigError(
                    "SGK310", f"a tolerance of {dtype} is {value!r}, expected a number from 0"
                )
        self.tolerances[_require_text("dtype", dtype)] = (float(rtol), float(atol))

    def tolerance_for(self, dtype: DataType) -> Tolerance:
        """Return how far results of a dtype may be off: as usual, or as declared if more."""
        return tolerance_for(dtype).widened(*self.tolerances.get(dtype.label, (0.0, 0.0)))

    def lacks(self, capability: str, reason: str) -> None:
        """Declare that the backend cannot do something; the cases that need it are skipped.

        Args:
            capability: A key of ``CAPABILITIES``.
            reason: One sentence.

        Raises:
            ConfigError: There is no such capability, or no reason (SGK310).
        """
        if capability not in CAPABILITIES:
            raise ConfigError(
                "SGK310",
                f"the conformance kit knows no capability {capability!r}",
                hint=f"It knows: {', '.join(CAPABILITIES)}.",
            )
        self.lacking[capability] = _require_text("reason", reason)

    def selftest(self, checks: Iterable[SelfCheck]) -> None:
        """Declare checks that only the device can make, the most telling ones first.

        They run without a device, too: each then says what it lacks.
        """
        self.checks = (*self.checks, *checks)

    def skipped(self, case: str, needs: tuple[str, ...] = ()) -> str:
        """Return why a case is not to be tried; empty if it is."""
        missing = [capability for capability in needs if capability in self.lacking]
        if missing:
            return f"needs {CAPABILITIES[missing[0]]}; {self.lacking[missing[0]]}"
        return _first_match(self.skips, case)

    def expected_failure(self, case: str) -> str:
        """Return why a case is known to go wrong; empty if it is not."""
        return _first_match(self.xfails, case)


def _require_text(what: str, text: str) -> str:
    if not text.strip():
        raise ConfigError("SGK310", f"a conformance declaration has {text!r} as its {what}")
    return text


def _first_match(table: Mapping[str, str], case: str) -> str:
    return next((reason for pattern, reason in table.items() if fnmatchcase(case, pattern)), "")
