"""The iree backend: what the entry point leads to."""

from collections.abc import Collection, Sequence
from importlib.util import find_spec

import subgraphkit as sk
from subgraphkit.backend import BindContext
from subgraphkit.onnx_io import outside_weights
from subgraphkit_iree.backend_options import Options
from subgraphkit_iree.claims import IreeProperty
from subgraphkit_iree.devices import Device, identity, open_device, versions
from subgraphkit_iree.operator import IreeOperator

__all__ = ["IreeBackend"]


class IreeBackend(sk.Backend[Options]):
    """Compiles regions with IREE, and runs them on its runtime."""

    name = "iree"
    api = "1.0"
    pool = "sleeps"
    evidence = "asked"

    def properties(self) -> Sequence[sk.SubgraphProperty]:
        """Return the strategies, in the order in which they are applied."""
        return [IreeProperty()]

    @classmethod
    def probe(cls, *, deep: bool = False) -> sk.ProbeResult:
        """Look for the two wheels; a deep one opens the device."""
        missing = [name for name in ("iree.compiler", "iree.runtime") if not _is_there(name)]
        if missing:
            return sk.ProbeResult(
                available=False,
                versions=versions(),
                problems=tuple(f"{name} is not installed" for name in missing),
                hint='pip install "subgraphkit-iree"',
            )
        if deep:
            try:
                Device("cpu", 1)
            except Exception as error:  # noqa: BLE001 (whatever the library raises is the finding)
                return sk.ProbeResult(available=False, versions=versions(), problems=(str(error),))
        return sk.ProbeResult(available=True, devices=("cpu",), versions=versions())

    def fingerprint(self) -> str:
        """Name the wheels, the device and the instructions of the processor."""
        options = self.option_values
        return f"{versions()};{options.device};{options.target or identity()}"

    def separate_weights(self, subgraph: sk.Subgraph) -> Collection[str]:
        """Name the weights that the module reads as parameters."""
        return list(outside_weights(subgraph.to_model(weights="outside"), subgraph))

    def restore(
        self, blob: bytes, subgraph: sk.Subgraph, context: BindContext[Options]
    ) -> sk.SubgraphOperator:
        """Load a compiled module, with the weights of the subgraph."""
        model = subgraph.to_model(weights="outside")
        device = open_device(self.option_values, context)
        return IreeOperator(blob, subgraph, outside_weights(model, subgraph), device)


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ImportError:
        return False
