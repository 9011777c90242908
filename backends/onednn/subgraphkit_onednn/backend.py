"""The backend: where oneDNN is, what it can do here, and its options."""

from collections.abc import Sequence
from typing import ClassVar, Final

import subgraphkit as sk
from subgraphkit.backend import Footprint, constant_bytes, peak_of_values, scaled_weights
from subgraphkit_onednn.backend_options import Options
from subgraphkit_onednn.library import LibraryError, open_library
from subgraphkit_onednn.selecting import EVERYWHERE, LOSES_NAN, OnednnClaims, OnednnProperty

_LAID_OUT_ANEW: Final = frozenset({"Conv", "ConvTranspose", "Gemm"})
_LIBRARY: Final = 8 << 20
"""Bytes of code and of threads that oneDNN touches with the first model of some size."""


class OnednnBackend(sk.Backend[Options]):
    """Runs regions on the processor with oneDNN's graph API."""

    name: ClassVar[str] = "onednn"
    api: ClassVar[str] = "1.0"
    traits = sk.Traits(pool="sleeps", loses_nan=LOSES_NAN)
    _packs_factors = False

    def properties(self) -> Sequence[sk.SubgraphProperty]:
        """Return the one property; LibraryError (SGK104) without the right oneDNN."""
        property_ = OnednnProperty(self.option_values)
        library = property_.library
        self._packs_factors = library.packs_factors
        if library.spins:
            self.traits = self.traits._replace(pool="spins")
        elif not library.has_openmp:
            self.traits = self.traits._replace(pool="unknown")
        return (property_,)

    def footprint(self, subgraph: sk.Subgraph) -> Footprint:
        """Count the filters in the layouts of the kernels, and the block of scratch memory.

        Products read their factors where they are, unless these are transposed or the processor
        has AVX-512.
        """
        values = peak_of_values(subgraph, overwrites=lambda node: node.op_type == "Softmax")
        scaled, packed = scaled_weights(subgraph), {"MatMul"} if self._packs_factors else set()
        packed |= _LAID_OUT_ANEW

        def is_copied(node: sk.Node, place: int) -> bool:
            return place == 1 and node.op_type in packed and not _is_spread(node)

        held = constant_bytes(subgraph, is_copied)
        held += constant_bytes(
            subgraph, lambda node, place: node.inputs[place] in scaled and not _is_spread(node)
        )
        return Footprint(held, 0, values, values.bytes, keeps_work=True, library=_LIBRARY)

    @classmethod
    def planner(cls, options: Options) -> "OnednnBackend":
        """Make an instance that claims without the library, as for a processor without bfloat16."""
        return _Planner(options)

    @classmethod
    def probe(cls, *, deep: bool = False) -> sk.ProbeResult:
        """Look for the library; faults of it are reported, not raised."""
        del deep
        try:
            library = open_library()
        except LibraryError as error:
            return sk.ProbeResult(available=False, problems=(error.problem,), hint=error.remedy)
        return sk.ProbeResult(
            available=True, devices=("cpu",), versions={"onednn": library.version}
        )


def _is_spread(node: sk.Node) -> bool:
    """Say whether a product reads one factor for several axes of others, which it does in place."""
    return node.op_type == "MatMul" and len(node.shape() or ()) > 3  # noqa: PLR2004 (one batch)


class _Planner(OnednnBackend):
    """Claims where oneDNN is missing."""

    def properties(self) -> Sequence[sk.SubgraphProperty]:
        return (OnednnClaims(EVERYWHERE),)
