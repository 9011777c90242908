"""The iree backend: what the entry point leads to."""

from collections.abc import Collection, Sequence
from importlib.util import find_spec
from typing import Final

import subgraphkit as sk
from subgraphkit.backend import BindContext, Conformance, Traits
from subgraphkit.errors import BackendUnavailableError
from subgraphkit.onnx_io import outside_weights
from subgraphkit_iree.backend_options import Options
from subgraphkit_iree.claims import IreeProperty
from subgraphkit_iree.deviations import LOSES_NAN
from subgraphkit_iree.devices import identity_of, open_device, versions
from subgraphkit_iree.operator import IreeOperator

_MODULES: Final = {"iree.compiler": "iree-base-compiler[onnx]", "iree.runtime": "iree-base-runtime"}


class IreeBackend(sk.Backend[Options]):
    """Compiles regions with IREE, and runs them on its runtime.

    Raises:
        BackendUnavailableError: The options name a device that is not here (SGK104).
    """

    name = "iree"
    api = "1.0"
    traits = Traits(pool="sleeps", evidence="asked", loses_nan=LOSES_NAN)

    def __init__(self, options: Options | None = None, *, runs: bool = True) -> None:
        super().__init__(options)
        if runs and self.option_values.device != "cpu":
            open_device(self.option_values, None)

    def properties(self) -> Sequence[sk.SubgraphProperty]:
        """Return the strategies, in the order in which they are applied."""
        return [IreeProperty()]

    @classmethod
    def probe(cls, *, deep: bool = False) -> sk.ProbeResult:
        """Look for the wheels; a deep one tries which devices there are."""
        missing = [wheel for module, wheel in _MODULES.items() if not _is_there(module)]
        if missing:
            return sk.ProbeResult(
                available=False,
                versions=versions(),
                problems=tuple(f"{wheel} is not installed" for wheel in missing),
                hint=f"pip install {' '.join(repr(wheel) for wheel in missing)}",
            )
        others = [Options(device=name) for name in ("vulkan", "cuda", "hip")] if deep else []
        devices = ("cpu", *(one.device for one in others if _opens(one)))
        return sk.ProbeResult(available=True, devices=devices, versions=versions())

    @classmethod
    def planner(cls, options: Options) -> "IreeBackend | None":
        """Make an instance for dry runs where the device is missing; the compiler is asked."""
        return cls(options, runs=False) if _is_there("iree.compiler") else None

    @classmethod
    def conformance(cls, suite: Conformance) -> None:
        """Declare that denormal numbers are taken for zero."""
        suite.lacks("denormals", "its runtime has the processor take them for zero")

    def fingerprint(self) -> str:
        """Name the wheels, and what is compiled for."""
        return f"{versions()};{identity_of(self.option_values)}"

    def separate_weights(self, subgraph: sk.Subgraph) -> Collection[str]:
        """Name the weights that the module reads as parameters."""
        return list(outside_weights(subgraph.to_model(weights="outside"), subgraph))

    def deserialize(
        self, blob: bytes, subgraph: sk.Subgraph, context: BindContext[Options]
    ) -> sk.SubgraphOperator:
        """Load a compiled module, with the weights of the subgraph."""
        weights = outside_weights(subgraph.to_model(weights="outside"), subgraph)
        device = open_device(self.option_values, context.threads)
        return IreeOperator(blob, subgraph, weights, device)


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ImportError:
        return False


def _opens(options: Options) -> bool:
    try:
        open_device(options, None)
    except BackendUnavailableError:
        return False
    return True
