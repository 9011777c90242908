"""Works where there is a device, which is nowhere."""

from collections.abc import Sequence

from subgraphkit.backend import Backend, ProbeResult, SubgraphProperty


class Plugin(Backend):
    """Works where there is a device, which is nowhere."""

    name = "no_device"

    def properties(self) -> Sequence[SubgraphProperty]:
        return []

    @classmethod
    def probe(cls, *, deep: bool = False) -> ProbeResult:
        del deep
        problem = "no imaginary device was found"
        return ProbeResult(available=False, problems=(problem,), hint="Imagine one.")
