"""From Relax to code: fusing, arranging loops, generating machine code and linking it."""

from dataclasses import dataclass
from typing import Any, Final

from subgraphkit.logs import logger_of
from subgraphkit_tvm.importing import RelaxRegion
from subgraphkit_tvm.library import host_target, quiet, tvm
from subgraphkit_tvm.scheduling import arrange_loops
from subgraphkit_tvm.shared_library import link, load_library

MAIN: Final = "main"
PREPARE: Final = "main_transform_params"
"""The function that turns weights into what ``main`` takes; made if there are weights."""

_logger = logger_of("backend")


@dataclass(frozen=True, slots=True)
class Engine:
    """Compiled code.

    Attributes:
        library: The shared library it was loaded from; None if the machine has no linker.
    """

    module: Any
    library: bytes | None


def lower(imported: RelaxRegion) -> Any:
    """Turn operators into fused loops, not arranged yet; what TVM raises if it has none."""
    relax, transform = tvm("relax"), tvm("relax.transform")
    passes = [transform.DecomposeOpsForInference(), transform.CanonicalizeBindings()]
    if imported.weights:
        # What depends on weights alone is computed once, when they are set.
        passes.append(transform.LiftTransformParams())
    passes += [
        relax.backend.DispatchSampling(),
        relax.backend.DispatchSortScan(),
        transform.LegalizeOps(),
        transform.AnnotateTIROpPattern(),
        transform.FoldConstant(),
        transform.FuseOps(),
        transform.FuseTIR(),
    ]
    with quiet(), host_target():
        return tvm("ir.transform").Sequential(passes)(imported.module)


def build(module: Any) -> Engine:
    """Generate code for this machine; raises whatever TVM does."""
    with quiet():
        executable = tvm().compile(arrange_loops(module), host_target())
        try:
            library = link(executable)
            return Engine(load_library(library), library)
        except Exception as error:  # noqa: BLE001 (a linker may fail in any way)
            _logger.info("tvm: compiled in memory, engines cannot be stored: %s", error)
            return Engine(executable.jit(), None)
